/** Queues of the software NIC without a provider: entries and completions as bytes, for cases that
 *  the public functions do not allow. Everything is in the caller's memory, by address; mode STEP.
 *  */
#ifndef T_SNIC_BARE_H
#define T_SNIC_BARE_H

#include <stdlib.h>
#include <string.h>
#include "verbs_backend/snic/snic.h"

#define BARE_BLOCKS  16u
#define BARE_ENTRIES 16u
#define BARE_STRIDE  32u /* two data pointers */
#define BARE_CQES    64u

/** A queue pair with a completion queue for both sides. */
typedef struct {
    pgasi_snic_t *snic;
    uint32_t pd, cqn, qpn;
    uint32_t pi, rq_pi, ci;
    unsigned char *sq, *rq;
    pgasi_cqe_t *cq;
    uint32_t *record, *cq_record;
} bare_t;

static inline pgasi_snic_t *bare_open_nic(uint32_t adversary, uint64_t seed)
{
    pgasi_snic_opts_t opts = {
        .engine = PGASI_SNIC_ENGINE_STEP, .adversary = adversary, .seed = seed, .in_process = true
    };
    pgasi_snic_t *snic = NULL;
    return pgasi_snic_open(&opts, &snic) == PGAS_OK ? snic : NULL;
}

static inline void *bare_memory(size_t bytes)
{
    void *memory = aligned_alloc(64, bytes);
    if (memory)
        memset(memory, 0, bytes);
    return memory;
}

/** In state RESET. @param flags PGASI_SNIC_ bits @return whether it worked */
static inline bool bare_open(bare_t *b, pgasi_snic_t *snic, uint32_t pd, uint32_t flags)
{
    *b = (bare_t){ .snic = snic, .pd = pd };
    b->sq = bare_memory(BARE_BLOCKS * PGASI_WQE_BB);
    b->rq = bare_memory(BARE_ENTRIES * BARE_STRIDE);
    b->cq = bare_memory(BARE_CQES * sizeof *b->cq);
    b->record = bare_memory(64);
    b->cq_record = bare_memory(64);
    for (uint32_t i = 0; i < BARE_CQES; i++)
        b->cq[i].op_own = 0xf1;
    pgasi_snic_cq_opts_t cq = { .log_entries = 6,
                                .ring = PGASI_SNIC_ADDRESS(b->cq),
                                .record = PGASI_SNIC_ADDRESS(b->cq_record),
                                .event_fd = -1 };
    b->cqn = pgasi_snic_cq_open(snic, &cq);
    pgasi_snic_qp_opts_t qp = { .pd = pd,
                                .send_cqn = b->cqn,
                                .recv_cqn = b->cqn,
                                .log_sq_blocks = 4,
                                .log_rq_entries = 4,
                                .rq_stride = BARE_STRIDE,
                                .sq = PGASI_SNIC_ADDRESS(b->sq),
                                .rq = PGASI_SNIC_ADDRESS(b->rq),
                                .record = PGASI_SNIC_ADDRESS(b->record),
                                .flags = flags };
    b->qpn = b->cqn != 0 ? pgasi_snic_qp_open(snic, &qp) : 0;
    return b->qpn != 0;
}

static inline void bare_close(bare_t *b)
{
    pgasi_snic_qp_close(b->snic, b->qpn);
    pgasi_snic_cq_close(b->snic, b->cqn);
    free(b->sq);
    free(b->rq);
    free(b->cq);
    free(b->record);
    free(b->cq_record);
}

static inline pgas_status_t bare_modify(bare_t *b, pgasi_snic_state_t state, const bare_t *peer)
{
    pgasi_snic_qp_state_t s = { .state = state,
                                .access = PGAS_VERBS_ACCESS_ALL,
                                .peer_qpn = peer->qpn,
                                .reads_max_in = 16,
                                .reads_max = 16,
                                .retry = 1,
                                .rnr_retry = 1,
                                .psn_in = 100,
                                .psn = 100 };
    if (state == PGASI_SNIC_RESET)
        b->pi = b->rq_pi = 0;
    return pgasi_snic_qp_modify(b->snic, b->qpn, &s);
}

/** From RESET up to a state. */
static inline bool bare_raise(bare_t *b, pgasi_snic_state_t state, const bare_t *peer)
{
    bool good = true;
    for (int s = PGASI_SNIC_INIT; good && s <= (int)state; s++)
        good = bare_modify(b, (pgasi_snic_state_t)s, peer) == PGAS_OK;
    return good;
}

/** Rings for all entries up to pi. */
static inline void bare_ring(bare_t *b)
{
    __atomic_store_n(&b->record[1], htobe32(b->pi & 0xffff), __ATOMIC_RELEASE);
    pgasi_snic_ring(b->snic, b->qpn, b->pi);
}

/** The next entry: its control segment, the rest zero. */
static inline unsigned char *bare_entry(bare_t *b, uint8_t op, unsigned segments, unsigned flags)
{
    unsigned char *at = b->sq + (size_t)(b->pi % BARE_BLOCKS) * PGASI_WQE_BB;
    memset(at, 0, PGASI_WQE_BB);
    pgasi_wqe_set_ctrl((pgasi_wqe_ctrl_t *)(void *)at, b->pi, (pgasi_wqe_op_t)op, b->qpn, segments,
                       flags, 0);
    b->pi += segments > 4 ? pgasi_wqe_blocks(segments) : 1;
    return at;
}

/** A WRITE or READ of bytes between here and there. */
static inline void bare_transfer(bare_t *b, uint8_t op, const void *here, uint32_t lkey,
                                 const void *there, uint32_t rkey, uint32_t bytes, unsigned flags)
{
    unsigned char *at = bare_entry(b, op, 3, flags);
    pgasi_wqe_set_raddr((pgasi_wqe_raddr_t *)(void *)(at + 16), (uintptr_t)there, rkey);
    pgasi_wqe_set_data((pgasi_wqe_data_t *)(void *)(at + 32), (uintptr_t)here, bytes, lkey);
}

/** A WAIT, SEND_EN or RECV_EN. */
static inline void bare_enable(bare_t *b, uint8_t op, uint32_t index, uint32_t number,
                               unsigned flags)
{
    unsigned char *at = bare_entry(b, op, 2, flags);
    pgasi_wqe_set_enable((pgasi_wqe_enable_t *)(void *)(at + 16), index, number);
}

static inline void bare_recv(bare_t *b, const void *room, uint32_t lkey, uint32_t bytes)
{
    pgasi_wqe_data_t *data =
        (pgasi_wqe_data_t *)(void *)(b->rq + (size_t)(b->rq_pi % BARE_ENTRIES) * BARE_STRIDE);
    pgasi_wqe_set_data(&data[0], (uintptr_t)room, bytes, lkey);
    pgasi_wqe_set_data(&data[1], 0, 0, PGASI_WQE_LKEY_END);
    b->rq_pi++;
    __atomic_store_n(&b->record[0], htobe32(b->rq_pi & 0xffff), __ATOMIC_RELEASE);
    pgasi_snic_recv_posted(b->snic, b->qpn);
}

/** Steps until nothing is done for as long as tries may take. */
static inline void bare_settle(pgasi_snic_t *snic)
{
    for (int idle = 0, n = 0; idle < 1000 && n < 100000; n++)
        idle = pgasi_snic_step(snic) ? 0 : idle + 1;
}

/** @return whether there was one */
static inline bool bare_poll(bare_t *b, pgasi_cqe_fields_t *fields)
{
    const pgasi_cqe_t *cqe = &b->cq[b->ci % BARE_CQES];
    if (!pgasi_cqe_is_there(cqe, b->ci, BARE_CQES))
        return false;
    pgasi_cqe_decode(cqe, fields);
    b->ci++;
    b->cq_record[0] = htobe32(b->ci & 0xffffff);
    return true;
}

#endif
