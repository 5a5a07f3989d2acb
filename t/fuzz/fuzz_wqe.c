/* what: A send queue may have any bytes. The decoder reads inside of the ring alone and takes only
 *       whole entries. The software NIC that executes them ends, and writes to registered memory
 *       only.
 * source: verbs_backend/wqe.h, verbs_backend/snic/snic.h; libFuzzer
 *
 * Input: a byte that chooses. For the decoder a byte for the ring's length, two for the block, then
 * the ring. For the engine a byte of adversaries, then steps: each is a byte that chooses an
 * action, and its bytes. */
#include <fcntl.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include "base/log.h"
#include "t/fuzz/require.h"
#include "t/unit/snic_bare.h"
#include "verbs_backend/wqe.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n_bytes);

static void read_payload(const unsigned char *ring, size_t ring_bytes, uint32_t block,
                         const pgasi_wqe_t *wqe)
{
    size_t bytes = (size_t)wqe->segments * PGASI_WQE_SEGMENT;
    require(wqe->segments > 0 && bytes <= ring_bytes, "an entry fits into its ring");
    require((size_t)wqe->data_at + wqe->n_data <= wqe->segments, "data segments are the entry's");
    require(!wqe->is_inline || wqe->inline_at + (size_t)wqe->inline_bytes <= bytes,
            "inline data are the entry's");
    for (unsigned k = 0; k < wqe->n_data; k++)
        require(pgasi_wqe_data(ring, ring_bytes, block, wqe, k).bytes - 1 < PGASI_WQE_INLINE,
                "a span has 1 byte to 2 GiB");
    if (wqe->is_inline) {
        unsigned char *copy = malloc(wqe->inline_bytes + 1u);
        pgasi_wqe_copy_out(ring, ring_bytes, (size_t)block * PGASI_WQE_BB + wqe->inline_at, copy,
                           wqe->inline_bytes);
        free(copy);
    }
}

static void decode(const uint8_t *data, size_t n_bytes)
{
    size_t ring_bytes = (size_t)PGASI_WQE_BB << data[0] % 6;
    uint32_t block = (uint32_t)data[1] | (uint32_t)data[2] << 28;
    /* exact, so that the sanitizer detects an access after its end */
    unsigned char *ring = calloc(1, ring_bytes);
    pgasi_wqe_t wqe;
    n_bytes -= 3;
    memcpy(ring, data + 3, n_bytes < ring_bytes ? n_bytes : ring_bytes);
    if (pgasi_wqe_decode(ring, ring_bytes, block, &wqe))
        read_payload(ring, ring_bytes, block, &wqe);
    free(ring);
}

/* ---- the engine ---- */

#define ROOM   32768u
#define FIRST  8192u  /* registered for everything, from here on */
#define SECOND 20480u /* registered for reads */
#define PIECE  4096u
#define GUARD  0xc3

/** Two ends on each other, a master on itself, and memory of which two pieces are registered. */
typedef struct {
    pgasi_snic_t *snic;
    bare_t end[3];
    unsigned char *room;
    uint32_t keys[8];
    bool ring_is_open; /* the first send ring is registered, too: entries may rewrite others */
} world_t;

static void build(world_t *w, unsigned choices)
{
    memset(w, 0, sizeof *w);
    w->snic = bare_open_nic(choices & PGAS_VERBS_SNIC_ALL, choices + 1);
    require(w->snic != NULL, "a NIC opens");
    uint32_t pd = pgasi_snic_pd_open(w->snic), other = pgasi_snic_pd_open(w->snic);
    w->room = malloc(ROOM);
    memset(w->room, GUARD, ROOM);
    uint32_t flags[3] = { choices & 16 ? PGASI_SNIC_CHECK_OVERRUN : 0,
                          choices & 32 ? PGASI_SNIC_MANAGED_SEND | PGASI_SNIC_MANAGED_RECV : 0,
                          PGASI_SNIC_MASTER };
    for (int i = 0; i < 3; i++) {
        require(bare_open(&w->end[i], w->snic, pd, flags[i]), "a queue pair opens");
        if (choices & PGAS_VERBS_SNIC_WRAP) {
            bare_t *b = &w->end[i];
            b->pi = b->rq_pi = b->ci = PGASI_SNIC_WRAP_START;
            b->record[0] = b->record[1] = htobe32(b->pi & 0xffff);
            b->cq_record[0] = htobe32(b->ci & 0xffffff);
        }
    }
    for (int i = 0; i < 3; i++)
        require(bare_raise(&w->end[i], PGASI_SNIC_RTS, &w->end[i == 2 ? 2 : 1 - i]),
                "and is connected");
    w->ring_is_open = choices & 64;
    w->keys[0] =
        pgasi_snic_mr_open(w->snic, pd, w->room + FIRST, PIECE, PGAS_VERBS_ACCESS_ALL, -1, 0);
    w->keys[1] =
        pgasi_snic_mr_open(w->snic, pd, w->room + SECOND, PIECE, PGAS_VERBS_REMOTE_READ, -1, 0);
    w->keys[2] = pgasi_snic_mr_open(w->snic, other, w->room, ROOM, PGAS_VERBS_ACCESS_ALL, -1, 0);
    if (w->ring_is_open)
        w->keys[3] = pgasi_snic_mr_open(w->snic, pd, w->end[0].sq, BARE_BLOCKS * PGASI_WQE_BB,
                                        PGAS_VERBS_ACCESS_ALL, -1, 0);
    w->keys[4] = pgasi_snic_mr_open(w->snic, pd, w->room, ROOM, PGAS_VERBS_ACCESS_ALL, -1, 0);
    pgasi_snic_mr_close(w->snic, w->keys[4]); /* was right once */
    w->keys[5] = PGASI_WQE_LKEY_END;
}

/* Mostly an address in or near registered memory. */
static uint64_t address_of(const world_t *w, unsigned kind, const uint8_t *bytes)
{
    uint64_t offset = (uint64_t)bytes[0] | (uint64_t)bytes[1] << 8;
    if (kind == 3)
        return (uintptr_t)w->end[0].sq + offset % (BARE_BLOCKS * PGASI_WQE_BB + 64) - 32;
    if (kind == 7)
        return offset << 48 | offset;
    return (uintptr_t)w->room + (kind == 1 ? SECOND : FIRST) + offset % (PIECE + 256) - 128;
}

/* An entry: 12 bytes say what; the rest of its blocks is as they were. */
static void put_entry(world_t *w, bare_t *b, const uint8_t *bytes)
{
    static const uint8_t ops[] = { PGASI_WQE_NOP,     PGASI_WQE_WRITE,    PGASI_WQE_WRITE_IMM,
                                   PGASI_WQE_SEND,    PGASI_WQE_SEND_IMM, PGASI_WQE_WAIT,
                                   PGASI_WQE_READ,    PGASI_WQE_CSWAP,    PGASI_WQE_FADD,
                                   PGASI_WQE_RECV_EN, PGASI_WQE_SEND_EN,  0x2a,
                                   PGASI_WQE_WRITE,   PGASI_WQE_SEND,     PGASI_WQE_READ,
                                   PGASI_WQE_WRITE };
    unsigned char *at = b->sq + (size_t)(b->pi % BARE_BLOCKS) * PGASI_WQE_BB;
    uint8_t op = ops[bytes[0] % 16];
    unsigned segments = bytes[1] % 8 == 7 ? bytes[1] / 8 : bytes[1] % 8,
             fixed = op == PGASI_WQE_SEND || op == PGASI_WQE_SEND_IMM ? 1 : 2;
    pgasi_wqe_set_ctrl((void *)at, b->pi, (pgasi_wqe_op_t)op, b->qpn, segments, bytes[2], bytes[3]);
    pgasi_wqe_set_raddr((void *)(at + 16), address_of(w, bytes[3] % 8, bytes + 4),
                        w->keys[bytes[3] % 8]);
    if (op == PGASI_WQE_WAIT)
        pgasi_wqe_set_enable((void *)(at + 16), bytes[4] + b->ci,
                             bytes[5] % 8 ? w->end[bytes[5] % 3].cqn : bytes[5]);
    if (op == PGASI_WQE_SEND_EN || op == PGASI_WQE_RECV_EN)
        pgasi_wqe_set_enable((void *)(at + 16), bytes[4] % 32 + w->end[1].pi,
                             bytes[5] % 8 ? w->end[bytes[5] % 3].qpn : bytes[5]);
    if (op == PGASI_WQE_CSWAP || op == PGASI_WQE_FADD)
        fixed = 3;
    for (unsigned k = fixed; k < 4; k++) {
        uint32_t bytes_there = bytes[8] & 1 ? 8 : (uint32_t)bytes[9] << (bytes[8] >> 4);
        pgasi_wqe_set_data((void *)(at + 16 * (size_t)k), address_of(w, bytes[7] % 8, bytes + 10),
                           bytes_there, w->keys[bytes[7] % 8]);
    }
    uint32_t word = htobe32(PGASI_WQE_INLINE | bytes[9]);
    if (bytes[8] & 2)
        memcpy(at + 16 * (size_t)fixed, &word, 4);
    b->pi += segments > 4 ? pgasi_wqe_blocks(segments) : 1;
}

static void put_receive(world_t *w, bare_t *b, const uint8_t *bytes)
{
    unsigned char *at = b->rq + (size_t)(b->rq_pi % BARE_ENTRIES) * BARE_STRIDE;
    pgasi_wqe_set_data((void *)at, address_of(w, bytes[0] % 8, bytes + 1), bytes[3],
                       w->keys[bytes[0] % 8]);
    pgasi_wqe_set_data((void *)(at + 16), address_of(w, bytes[4] % 8, bytes + 5), bytes[7],
                       w->keys[bytes[4] % 8]);
    b->rq_pi++;
    b->record[0] = htobe32(b->rq_pi & 0xffff);
    pgasi_snic_recv_posted(b->snic, b->qpn);
}

/* Completions are of kinds that exist, and of queue pairs that do. */
static void poll_all(world_t *w)
{
    for (int i = 0; i < 3; i++) {
        const pgasi_cqe_t *cqe = &w->end[i].cq[w->end[i].ci % BARE_CQES];
        pgasi_cqe_fields_t f;
        while (pgasi_cqe_is_there(cqe, w->end[i].ci, BARE_CQES)) {
            require(pgasi_cqe_decode(cqe, &f) && f.qpn == w->end[i].qpn,
                    "a completion is one of this queue pair");
            require((f.op >= PGASI_CQE_REQ_ERR) == (f.syndrome != 0), "errors have a reason");
            w->end[i].ci++;
            w->end[i].cq_record[0] = htobe32(w->end[i].ci & 0xffffff);
            cqe = &w->end[i].cq[w->end[i].ci % BARE_CQES];
        }
    }
}

static void check_outside(const world_t *w)
{
    bool good = true;
    for (size_t i = 0; i < ROOM; i++)
        good = good && (w->room[i] == GUARD || (i >= FIRST && i < FIRST + PIECE));
    require(good, "nothing is written but memory that is registered for it");
}

static void take_down(world_t *w)
{
    for (int i = 0; i < 3; i++)
        bare_close(&w->end[i]);
    pgasi_snic_close(w->snic);
    free(w->room);
}

static void execute(const uint8_t *data, size_t n_bytes)
{
    world_t w;
    build(&w, data[0]);
    memset(w.room + FIRST, 1, PIECE);
    for (size_t at = 1; at + 14 <= n_bytes;) {
        bare_t *b = &w.end[data[at] >> 4 & 1 ? 2 : data[at] >> 5 & 1];
        switch (data[at] & 7) {
        case 0:
            bare_ring(b);
            at++;
            break;
        case 1:
            for (int i = 0; i < data[at] >> 3; i++)
                pgasi_snic_step(w.snic);
            at++;
            break;
        case 2:
            put_receive(&w, b, data + at + 1);
            at += 9;
            break;
        case 3: /* a block of any bytes */
            if (n_bytes - at > PGASI_WQE_BB) {
                memcpy(b->sq + (size_t)(b->pi++ % BARE_BLOCKS) * PGASI_WQE_BB, data + at + 1,
                       PGASI_WQE_BB);
                at += PGASI_WQE_BB;
            }
            at++;
            break;
        case 4: /* a doorbell for entries that do not exist */
            b->pi += data[at + 1];
            bare_ring(b);
            at += 2;
            break;
        default:
            put_entry(&w, b, data + at + 1);
            at += 13;
        }
    }
    for (int i = 0; i < 3; i++)
        bare_ring(&w.end[i]);
    for (int i = 0; i < 20000 && pgasi_snic_step(w.snic); i++)
        if (i % 16 == 0)
            poll_all(&w);
    poll_all(&w);
    check_outside(&w);
    take_down(&w);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n_bytes)
{
    static bool started;
    if (!started)
        pgasi_log_set_fd(open("/dev/null", O_WRONLY));
    started = true;
    if (n_bytes > 4 && data[0] % 4 == 0)
        decode(data + 1, n_bytes - 1);
    else if (n_bytes > 4)
        execute(data + 1, n_bytes - 1);
    return 0;
}
