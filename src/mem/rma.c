/* Put, get, flush, fence: the slow sides of include/pgas/rma.h.
 *
 * Typed scalars and pgas_gptr_local never come here on the node. Off the node a put is one
 * transport call on the thread's own lane, no lock; remote completion is a number per lane and
 * peer: a put remembers how many operations were issued, a flush remembers how many of them it
 * covered, so any number of puts share one flush. Heaps that the transport says may be loaded and
 * stored are (fake nodes over shared memory): complete when done, nothing is counted. */
#include "mem/rma.h"

#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "boot/boot.h"
#include "boot/wait.h"

#define LANE_SPINS 256 /* looks at the own lane alone before the general wait */

pgas_status_t (*pgasi_rma_service)(const pgasi_rma_t *rma);

/* ---- requests ---- */

static void part_done(pgasi_tp_comp_t *comp, pgas_status_t status)
{
    pgasi_req_t *req = PGASI_CONTAINER_OF(comp, pgasi_req_t, comp);
    if (status != PGAS_OK && req->status == PGAS_OK)
        req->status = status;
    pgasi_lane_count(pgasi_lanes[req->lane], -1);
    __atomic_store_n(&req->pending, req->pending - 1, __ATOMIC_RELEASE);
}

void pgasi_req_begin(pgasi_req_t *req)
{
    req->comp.fn = part_done;
    req->pending = 0;
    req->status = PGAS_OK;
    req->peer = 0;
    req->lane = pgasi_self.lane ? pgasi_self.lane->index : 0;
    req->number = 0;
}

static inline int32_t pending(const pgasi_req_t *req)
{
    return __atomic_load_n(&req->pending, __ATOMIC_ACQUIRE);
}

static int lane_progress(pgasi_lane_t *lane)
{
    pgasi_lane_lock(lane);
    int n = pgasi_lane_progress(lane);
    pgasi_lane_unlock(lane);
    return n;
}

pgas_status_t pgasi_req_wait(pgasi_req_t *req)
{
    for (int i = 0; i < LANE_SPINS && pending(req); i++)
        lane_progress(pgasi_lanes[req->lane]);
    pgasi_wait_t w = PGASI_WAIT_INIT;
    while (pending(req))
        pgasi_wait_step(&w);
    pgasi_wait_end(&w);
    return (pgas_status_t)req->status;
}

/* ---- carrying out ---- */

/* The issuing of one part, lane open and locked. */
static pgas_status_t issue(pgasi_lane_t *lane, const pgasi_rma_t *rma, pgasi_req_t *req)
{
    int rank = pgas_gptr_rank(rma->ptr);
    pgasi_tp_key_t *key;
    uint64_t address;
    pgas_status_t status =
        pgasi_key_get(lane, rank, pgas_gptr_offset(rma->ptr), rma->bytes, &key, &address);
    if (status != PGAS_OK)
        return status;
    const pgasi_tp_ops_t *ops = lane->tp->ops;
    switch (rma->kind) {
    case PGASI_RMA_PUT:
        return ops->put(lane->tp, rank, key, address, rma->buffer, rma->bytes, &req->comp);
    case PGASI_RMA_GET:
        return ops->get(lane->tp, rank, key, address, rma->buffer, rma->bytes, &req->comp);
    case PGASI_RMA_AMO:
        return ops->amo(lane->tp, rank, key, address, rma->op, rma->bytes, rma->operand,
                        rma->compare, rma->buffer, &req->comp);
    }
    return PGAS_ERR_INTERNAL;
}

/* The transport has no room. Peers may have to act first, and they may wait for this rank. So the
 * wait serves them, and it releases the lock of a shared lane meanwhile. Lane locked. */
static void wait_for_room(pgasi_lane_t *lane, pgasi_wait_t *w)
{
    if (pgasi_lane_progress(lane) > 0)
        return;
    pgasi_lane_unlock(lane);
    pgasi_wait_step(w);
    pgasi_lane_lock(lane);
}

static __attribute__((noinline)) pgas_status_t
issue_with_room(pgasi_lane_t *lane, const pgasi_rma_t *rma, pgasi_req_t *req)
{
    pgasi_wait_t w = PGASI_WAIT_INIT;
    pgas_status_t status = PGAS_ERR_AGAIN;
    while (status == PGAS_ERR_AGAIN) {
        wait_for_room(lane, &w);
        status =
            pgasi_boot_is_dead(pgas_gptr_rank(rma->ptr)) ? PGAS_ERR_PEER : issue(lane, rma, req);
    }
    pgasi_lane_unlock(lane);
    pgasi_wait_end(&w);
    pgasi_lane_lock(lane);
    return status;
}

pgas_status_t pgasi_rma_far(const pgasi_rma_t *rma, pgasi_req_t *req)
{
    pgas_status_t status = pgasi_thread_check_wait();
    if (PGAS_UNLIKELY(status != PGAS_OK))
        return status;
    pgasi_lane_t *lane = pgasi_self.lane;
    bool writes = rma->kind == PGASI_RMA_PUT || (rma->kind == PGASI_RMA_AMO && !rma->buffer);
    pgasi_lane_lock(lane);
    status = pgasi_lane_open(lane);
    /* Counted before issuing: the callback may come at once. */
    req->pending++;
    pgasi_lane_count(lane, 1);
    if (PGAS_LIKELY(status == PGAS_OK))
        status = issue(lane, rma, req);
    if (PGAS_UNLIKELY(status == PGAS_ERR_AGAIN))
        status = issue_with_room(lane, rma, req);
    if (status != PGAS_INPROGRESS) {
        req->pending--;
        pgasi_lane_count(lane, -1);
    }
    if (status >= PGAS_OK && writes) {
        int rank = pgas_gptr_rank(rma->ptr);
        req->peer = rank;
        req->number = ++lane->peer[rank].issued;
        __atomic_store_n(&lane->issued, lane->issued + 1, __ATOMIC_RELAXED);
    }
    pgasi_lane_unlock(lane);
    return status < PGAS_OK ? status : PGAS_OK;
}

/* Off the node too a heap may be within reach of loads and stores, by the transport's leave: its
 * address, or NULL. Errors of all kinds give NULL and are found out on the long way. */
static inline void *reach(pgas_gptr_t ptr, size_t bytes)
{
    const pgasi_lane_t *lane = pgasi_self.lane;
    int rank = pgas_gptr_rank(ptr);
    if (PGAS_UNLIKELY(!pgasi_thread_attached() || !lane || pgasi_self.in_handler ||
                      rank >= pgasi_boot.n_ranks))
        return NULL;
    const pgasi_lane_peer_t *peer = &lane->peer[rank];
    uint64_t heap_bytes = __atomic_load_n(&peer->heap_bytes, __ATOMIC_ACQUIRE);
    uint64_t inside = pgas_gptr_offset(ptr) - PGASI_HEAP_OFFSET;
    return heap_bytes && bytes <= heap_bytes && inside <= heap_bytes - bytes ? peer->heap + inside
                                                                             : NULL;
}

static uint64_t amo_apply_64(uint64_t *word, pgasi_amo_t op, uint64_t operand, uint64_t compare)
{
    switch (op) {
    case PGASI_AMO_ADD:
        return __atomic_fetch_add(word, operand, __ATOMIC_SEQ_CST);
    case PGASI_AMO_AND:
        return __atomic_fetch_and(word, operand, __ATOMIC_SEQ_CST);
    case PGASI_AMO_OR:
        return __atomic_fetch_or(word, operand, __ATOMIC_SEQ_CST);
    case PGASI_AMO_XOR:
        return __atomic_fetch_xor(word, operand, __ATOMIC_SEQ_CST);
    case PGASI_AMO_SWAP:
        return __atomic_exchange_n(word, operand, __ATOMIC_SEQ_CST);
    case PGASI_AMO_CSWAP:
        __atomic_compare_exchange_n(word, &compare, operand, false, __ATOMIC_SEQ_CST,
                                    __ATOMIC_SEQ_CST);
        return compare;
    }
    return 0;
}

static uint32_t amo_apply_32(uint32_t *word, pgasi_amo_t op, uint32_t operand, uint32_t compare)
{
    switch (op) {
    case PGASI_AMO_ADD:
        return __atomic_fetch_add(word, operand, __ATOMIC_SEQ_CST);
    case PGASI_AMO_AND:
        return __atomic_fetch_and(word, operand, __ATOMIC_SEQ_CST);
    case PGASI_AMO_OR:
        return __atomic_fetch_or(word, operand, __ATOMIC_SEQ_CST);
    case PGASI_AMO_XOR:
        return __atomic_fetch_xor(word, operand, __ATOMIC_SEQ_CST);
    case PGASI_AMO_SWAP:
        return __atomic_exchange_n(word, operand, __ATOMIC_SEQ_CST);
    case PGASI_AMO_CSWAP:
        __atomic_compare_exchange_n(word, &compare, operand, false, __ATOMIC_SEQ_CST,
                                    __ATOMIC_SEQ_CST);
        return compare;
    }
    return 0;
}

void pgasi_rma_apply(const pgasi_rma_t *rma, void *address)
{
    switch (rma->kind) {
    case PGASI_RMA_PUT:
        memmove(address, rma->buffer, rma->bytes);
        break;
    case PGASI_RMA_GET:
        memmove(rma->buffer, address, rma->bytes);
        break;
    case PGASI_RMA_AMO:
        if (rma->bytes == 4) {
            uint32_t old =
                amo_apply_32(address, rma->op, (uint32_t)rma->operand, (uint32_t)rma->compare);
            if (rma->buffer)
                memcpy(rma->buffer, &old, sizeof old);
        } else {
            uint64_t old = amo_apply_64(address, rma->op, rma->operand, rma->compare);
            if (rma->buffer)
                memcpy(rma->buffer, &old, sizeof old);
        }
        break;
    }
}

pgas_status_t pgasi_rma_start(const pgasi_rma_t *rma, pgasi_req_t *req)
{
    pgasi_where_t where;
    void *address;
    pgas_status_t status = pgasi_resolve(rma->ptr, rma->bytes, &where, &address);
    if (PGAS_UNLIKELY(status != PGAS_OK))
        return status;
    if (PGAS_UNLIKELY(rma->kind == PGASI_RMA_AMO ? pgas_gptr_offset(rma->ptr) % rma->bytes != 0
                                                 : !rma->buffer && rma->bytes))
        return PGAS_ERR_INVALID;
    if (!rma->bytes)
        return PGAS_OK;
    if (where == PGASI_WHERE_FAR) {
        address = reach(rma->ptr, rma->bytes);
        if (!address)
            return pgasi_rma_far(rma, req);
        where = PGASI_WHERE_HERE;
    }
    if (where == PGASI_WHERE_HERE) {
        pgasi_rma_apply(rma, address);
        return PGAS_OK;
    }
    status = pgasi_thread_check_wait();
    return status == PGAS_OK ? pgasi_rma_service(rma) : status;
}

static inline pgas_status_t blocking(const pgasi_rma_t *rma)
{
    pgasi_req_t req;
    pgasi_req_begin(&req);
    pgas_status_t status = pgasi_rma_start(rma, &req);
    return status == PGAS_OK && pending(&req) ? pgasi_req_wait(&req) : status;
}

static pgas_status_t start_public(const pgasi_rma_t *rma, pgas_req_t *req_p)
{
    if (!req_p)
        return PGAS_ERR_INVALID;
    pgasi_req_begin(pgasi_req(req_p));
    return pgasi_rma_start(rma, pgasi_req(req_p));
}

/* ---- public: transfers ---- */

static inline pgasi_rma_t put_of(pgas_gptr_t dst, const void *src, size_t bytes)
{
    return (pgasi_rma_t){
        .kind = PGASI_RMA_PUT, .ptr = dst, .buffer = (void *)(uintptr_t)src, .bytes = bytes
    };
}

static inline pgasi_rma_t get_of(void *dst, pgas_gptr_t src, size_t bytes)
{
    return (pgasi_rma_t){ .kind = PGASI_RMA_GET, .ptr = src, .buffer = dst, .bytes = bytes };
}

pgas_status_t pgas_put_far(pgas_gptr_t dst, const void *src, size_t bytes)
{
    void *here = reach(dst, bytes);
    if (PGAS_LIKELY(here && src)) {
        memmove(here, src, bytes);
        return PGAS_OK;
    }
    pgasi_rma_t rma = put_of(dst, src, bytes);
    return blocking(&rma);
}

pgas_status_t pgas_get_far(void *dst, pgas_gptr_t src, size_t bytes)
{
    const void *here = reach(src, bytes);
    if (PGAS_LIKELY(here && dst)) {
        memmove(dst, here, bytes);
        return PGAS_OK;
    }
    pgasi_rma_t rma = get_of(dst, src, bytes);
    return blocking(&rma);
}

pgas_status_t pgas_put_nb_far(pgas_gptr_t dst, const void *src, size_t bytes, pgas_req_t *req_p)
{
    pgasi_rma_t rma = put_of(dst, src, bytes);
    return start_public(&rma, req_p);
}

pgas_status_t pgas_get_nb_far(void *dst, pgas_gptr_t src, size_t bytes, pgas_req_t *req_p)
{
    pgasi_rma_t rma = get_of(dst, src, bytes);
    return start_public(&rma, req_p);
}

pgas_status_t pgas_copy(pgas_gptr_t dst, pgas_gptr_t src, size_t bytes)
{
    pgasi_where_t dst_where, src_where;
    void *to, *from;
    pgas_status_t status = pgasi_resolve(dst, bytes, &dst_where, &to);
    if (status == PGAS_OK)
        status = pgasi_resolve(src, bytes, &src_where, &from);
    if (status != PGAS_OK)
        return status;
    if (src_where == PGASI_WHERE_HERE)
        status = pgas_put(dst, from, bytes);
    else if (dst_where == PGASI_WHERE_HERE)
        return pgas_get(to, src, bytes);
    else
        for (size_t done = 0; done < bytes && status == PGAS_OK;) {
            char bounce[16384];
            size_t piece = PGASI_MIN(bytes - done, sizeof bounce);
            status = pgas_get(bounce, src + done, piece);
            if (status == PGAS_OK)
                status = pgas_put(dst + done, bounce, piece);
            done += piece;
        }
    return status == PGAS_OK && dst_where == PGASI_WHERE_FAR ? pgas_flush(pgas_gptr_rank(dst))
                                                             : status;
}

#define FAR_TYPED(BITS)                                                            \
    pgas_status_t pgas_put_u##BITS##_far(pgas_gptr_t dst, uint##BITS##_t value)    \
    {                                                                              \
        if (pgas_gptr_offset(dst) % sizeof value)                                  \
            return PGAS_ERR_INVALID;                                               \
        uint##BITS##_t *there = reach(dst, sizeof value);                          \
        if (there) {                                                               \
            __atomic_store_n(there, value, __ATOMIC_RELAXED);                      \
            return PGAS_OK;                                                        \
        }                                                                          \
        pgasi_rma_t rma = put_of(dst, &value, sizeof value);                       \
        return blocking(&rma);                                                     \
    }                                                                              \
    pgas_status_t pgas_get_u##BITS##_far(pgas_gptr_t src, uint##BITS##_t *value_p) \
    {                                                                              \
        if (pgas_gptr_offset(src) % sizeof *value_p)                               \
            return PGAS_ERR_INVALID;                                               \
        const uint##BITS##_t *there = reach(src, sizeof *value_p);                 \
        if (there && value_p) {                                                    \
            *value_p = __atomic_load_n(there, __ATOMIC_RELAXED);                   \
            return PGAS_OK;                                                        \
        }                                                                          \
        pgasi_rma_t rma = get_of(value_p, src, sizeof *value_p);                   \
        return blocking(&rma);                                                     \
    }
FAR_TYPED(8)
FAR_TYPED(16)
FAR_TYPED(32)
FAR_TYPED(64)

/* ---- public: atomics ---- */

#define AMO_TYPED(BITS)                                                                          \
    static pgas_status_t amo_u##BITS(pgas_gptr_t word, pgas_amo_t op, uint##BITS##_t operand,    \
                                     uint##BITS##_t compare, uint##BITS##_t *old_p,              \
                                     pgasi_req_t *req)                                           \
    {                                                                                            \
        if (op > PGAS_AMO_CSWAP || (!old_p && op >= PGAS_AMO_SWAP))                              \
            return PGAS_ERR_INVALID;                                                             \
        pgasi_rma_t rma = { PGASI_RMA_AMO,   word,    old_p,  sizeof operand,                    \
                            (pgasi_amo_t)op, operand, compare };                                 \
        return pgasi_rma_start(&rma, req);                                                       \
    }                                                                                            \
    pgas_status_t pgas_amo_u##BITS(pgas_gptr_t word, pgas_amo_t op, uint##BITS##_t operand,      \
                                   uint##BITS##_t compare, uint##BITS##_t *old_p)                \
    {                                                                                            \
        uint##BITS##_t *there = reach(word, sizeof operand);                                     \
        if (there && op <= PGAS_AMO_CSWAP && (old_p || op < PGAS_AMO_SWAP) &&                    \
            pgas_gptr_offset(word) % sizeof operand == 0) {                                      \
            operand = amo_apply_##BITS(there, (pgasi_amo_t)op, operand, compare);                \
            if (old_p)                                                                           \
                *old_p = operand;                                                                \
            return PGAS_OK;                                                                      \
        }                                                                                        \
        pgasi_req_t req;                                                                         \
        pgasi_req_begin(&req);                                                                   \
        pgas_status_t status = amo_u##BITS(word, op, operand, compare, old_p, &req);             \
        return status == PGAS_OK && pending(&req) ? pgasi_req_wait(&req) : status;               \
    }                                                                                            \
    pgas_status_t pgas_amo_u##BITS##_nb(pgas_gptr_t word, pgas_amo_t op, uint##BITS##_t operand, \
                                        uint##BITS##_t compare, uint##BITS##_t *old_p,           \
                                        pgas_req_t *req_p)                                       \
    {                                                                                            \
        if (!req_p)                                                                              \
            return PGAS_ERR_INVALID;                                                             \
        pgasi_req_begin(pgasi_req(req_p));                                                       \
        return amo_u##BITS(word, op, operand, compare, old_p, pgasi_req(req_p));                 \
    }
AMO_TYPED(32)
AMO_TYPED(64)

/* ---- public: completion ---- */

/* Other threads of a shared lane may have flushed more meanwhile, and threads read this without its
 * lock. */
static void set_flushed(pgasi_lane_t *lane, uint64_t *flushed, uint64_t number)
{
    if (__atomic_load_n(flushed, __ATOMIC_RELAXED) >= number)
        return;
    pgasi_lane_lock(lane);
    if (*flushed < number)
        __atomic_store_n(flushed, number, __ATOMIC_RELAXED);
    pgasi_lane_unlock(lane);
}

/* Makes the operations numbered up to now to a rank (or all: -1) visible there. */
static pgas_status_t flush_lane(pgasi_lane_t *lane, int rank)
{
    pgasi_req_t req;
    pgasi_wait_t w = PGASI_WAIT_INIT;
    pgasi_req_begin(&req);
    pgasi_lane_lock(lane);
    uint64_t number = rank >= 0 ? lane->peer[rank].issued : lane->issued;
    uint64_t *flushed = rank >= 0 ? &lane->peer[rank].flushed : &lane->flushed;
    pgas_status_t status = PGAS_OK;
    if (*flushed < number) {
        req.pending = 1;
        pgasi_lane_count(lane, 1);
        int peers = rank >= 0 ? rank : PGASI_TP_ALL_PEERS;
        while ((status = lane->tp->ops->flush(lane->tp, peers, &req.comp)) == PGAS_ERR_AGAIN)
            wait_for_room(lane, &w);
        if (status != PGAS_INPROGRESS) {
            req.pending = 0;
            pgasi_lane_count(lane, -1);
        }
    }
    pgasi_lane_unlock(lane);
    pgasi_wait_end(&w);
    if (status == PGAS_INPROGRESS)
        status = pgasi_req_wait(&req);
    if (status == PGAS_OK)
        set_flushed(lane, flushed, number);
    /* What is visible there is complete here too, also for who looks at its request: a transport
     * may tell the one before the other. (A shared lane may never be idle; there the requests
     * themselves are waited for.) */
    return status == PGAS_OK && !lane->shared ? pgasi_lane_wait_idle(lane) : status;
}

pgas_status_t pgas_flush(int rank)
{
    pgas_status_t status = pgasi_thread_check_wait();
    if (status != PGAS_OK)
        return status;
    if (rank < 0 || rank >= pgasi_boot.n_ranks)
        return PGAS_ERR_RANGE;
    __atomic_thread_fence(__ATOMIC_SEQ_CST);
    return pgasi_self.lane->issued ? flush_lane(pgasi_self.lane, rank) : PGAS_OK;
}

pgas_status_t pgas_flush_all(void)
{
    pgas_status_t status = pgasi_thread_check_wait();
    if (status != PGAS_OK)
        return status;
    __atomic_thread_fence(__ATOMIC_SEQ_CST);
    return flush_lane(pgasi_self.lane, -1);
}

pgas_status_t pgas_fence(void)
{
    pgas_status_t status = pgasi_thread_check();
    if (status != PGAS_OK)
        return status;
    __atomic_thread_fence(__ATOMIC_SEQ_CST);
    pgasi_lane_t *lane = pgasi_self.lane;
    if (!lane->issued)
        return PGAS_OK;
    pgasi_lane_lock(lane);
    /* Direct stores, which may follow, would overtake what is still under way. */
    bool wait = lane->has_direct && lane->flushed != lane->issued && !pgasi_self.in_handler;
    status = wait ? PGAS_OK : lane->tp->ops->fence(lane->tp);
    pgasi_lane_unlock(lane);
    return wait ? flush_lane(lane, -1) : status;
}

pgas_status_t pgas_wait_local_far(pgas_req_t *req)
{
    pgas_status_t status = pgasi_thread_check_wait();
    if (status != PGAS_OK)
        return status;
    return req ? pgasi_req_wait(pgasi_req(req)) : PGAS_ERR_INVALID;
}

pgas_status_t pgas_test_local(pgas_req_t *req)
{
    pgas_status_t status = pgasi_thread_check();
    if (status != PGAS_OK || !req)
        return status != PGAS_OK ? status : PGAS_ERR_INVALID;
    pgasi_req_t *r = pgasi_req(req);
    if (pending(r) && !pgasi_self.in_handler)
        lane_progress(pgasi_lanes[r->lane]);
    return pending(r) ? PGAS_INPROGRESS : (pgas_status_t)r->status;
}

static bool is_flushed(const pgasi_req_t *r)
{
    if (r->number == 0) /* then nothing else need be set: see pgas_put_nb */
        return true;
    const pgasi_lane_t *lane = pgasi_lanes[r->lane];
    return __atomic_load_n(&lane->peer[r->peer].flushed, __ATOMIC_RELAXED) >= r->number ||
           __atomic_load_n(&lane->flushed, __ATOMIC_RELAXED) ==
               __atomic_load_n(&lane->issued, __ATOMIC_RELAXED);
}

pgas_status_t pgas_wait_remote(pgas_req_t *req)
{
    pgas_status_t status = pgas_wait_local_far(req);
    if (status != PGAS_OK || is_flushed(pgasi_req(req)))
        return status;
    return flush_lane(pgasi_lanes[pgasi_req(req)->lane], pgasi_req(req)->peer);
}

static void flush_done(pgasi_tp_comp_t *comp, pgas_status_t status)
{
    pgasi_lane_flush_t *f = PGASI_CONTAINER_OF(comp, pgasi_lane_flush_t, comp);
    uint64_t *flushed = f->rank >= 0 ? &f->lane->peer[f->rank].flushed : &f->lane->flushed;
    if (status == PGAS_OK)
        __atomic_store_n(flushed, PGASI_MAX(*flushed, f->number), __ATOMIC_RELAXED);
    f->status = status;
    f->running = false;
    pgasi_lane_count(f->lane, -1);
}

/* Lane locked. */
static pgas_status_t flush_start(pgasi_lane_flush_t *f)
{
    int peers = f->rank >= 0 ? f->rank : PGASI_TP_ALL_PEERS;
    f->number = f->rank >= 0 ? f->lane->peer[f->rank].issued : f->lane->issued;
    f->running = true;
    pgasi_lane_count(f->lane, 1);
    pgas_status_t status = f->lane->tp->ops->flush(f->lane->tp, peers, &f->comp);
    if (status == PGAS_INPROGRESS)
        return status;
    flush_done(&f->comp, status);
    f->status = PGAS_OK; /* told here */
    return status == PGAS_ERR_AGAIN ? PGAS_INPROGRESS : status;
}

/* No more than one flush at a time to a peer: those who look meanwhile share it, or the next. */
pgas_status_t pgasi_lane_flush_look(pgasi_lane_t *lane, int rank, uint64_t number)
{
    pgasi_lane_flush_t **own = rank >= 0 ? &lane->peer[rank].flush : &lane->flush, *f = *own;
    if (!f) {
        f = *own = calloc(1, sizeof *f);
        if (!f)
            return PGAS_ERR_NO_MEMORY;
        *f = (pgasi_lane_flush_t){ .comp.fn = flush_done, .lane = lane, .rank = rank };
    }
    lane->tp->ops->progress(lane->tp);
    pgas_status_t failed = f->status;
    if ((rank >= 0 ? lane->peer[rank].flushed : lane->flushed) >= number)
        return PGAS_OK;
    f->status = PGAS_OK;
    return failed != PGAS_OK ? failed : f->running ? PGAS_INPROGRESS : flush_start(f);
}

pgas_status_t pgas_test_remote(pgas_req_t *req)
{
    pgas_status_t status = pgas_test_local(req);
    if (status != PGAS_OK || is_flushed(pgasi_req(req)))
        return status;
    status = pgasi_thread_check_wait();
    if (status != PGAS_OK)
        return status;
    pgasi_req_t *r = pgasi_req(req);
    pgasi_lane_lock(pgasi_lanes[r->lane]);
    status = pgasi_lane_flush_look(pgasi_lanes[r->lane], r->peer, r->number);
    pgasi_lane_unlock(pgasi_lanes[r->lane]);
    return status;
}
