/** Inside of the transport "verbs". A rank has one device or several, its rails (rails.c). A
 *  context has completion queues, and one queue pair for each peer that it uses, made on first use.
 *  The peer's context 0 makes the other end. All messages arrive in the receive queue and the
 *  buffers of context 0.
 *
 *  An operation of the caller is a pending operation (pgasi_verbs_pending_t) on an endpoint. It is
 *  posted at once if the endpoint is connected, no operation waits before it, and the send queue
 *  has room. Otherwise it waits in the endpoint's queue, which progress empties. A posted operation
 *  whose end must be reported is in flight until the number of its last request is done. So
 *  operations of a context to a peer are executed in the order of issue. The context's pool of
 *  pending operations bounds all queues; beyond it operations return PGAS_ERR_AGAIN.
 *
 *  Atomics that the card cannot do atomically with the CPUs are requests to the owner's context 0.
 *  The reply is a write into a slot of the requesting context, on the queue pair on which the
 *  request came. So a reply needs no progress of other contexts.
 *
 *  Threads. The fields of a context belong to the thread that uses the context. All contexts use
 *  the connection manager (cm.c), under a lock of its own that no transfer takes. Any thread writes
 *  `dead` marks. */
#ifndef PGASI_VERBS_TRANSPORT_INSIDE_H
#define PGASI_VERBS_TRANSPORT_INSIDE_H

#include <pthread.h>
#include <string.h>
#include "base/checks.h"
#include "base/clock.h"
#include "base/param.h"
#include "base/pool.h"
#include "transport/transport.h"
#include "verbs_backend/queue/device.h"
#include "verbs_backend/transport/format.h"
#include "verbs_backend/transport/pending.h"

#define PGASI_VERBS_CTXS_MAX  1024
#define PGASI_VERBS_RAILS_MAX 8
/* waiting or in flight on a context; further ones get PGAS_ERR_AGAIN */
#define PGASI_VERBS_PENDING_MAX 4096
#define PGASI_VERBS_SLOTS       1024 /* atomics in flight on a context */
/* bytes of a small buffer; less data is copied even if it is registered */
#define PGASI_VERBS_SMALL         512
#define PGASI_VERBS_N_SMALL       256
#define PGASI_VERBS_N_LARGE       64
#define PGASI_VERBS_CQ_DEPTH      4096
#define PGASI_VERBS_INLINE        60
#define PGASI_VERBS_INBOUND_DEPTH 32 /* replies in flight to one context of a peer */
/* for closing a context that was not drained before */
#define PGASI_VERBS_CLOSE_NS  PGASI_NS_PER_S
#define PGASI_VERBS_PIECE_MAX (UINT64_C(1) << 30)

typedef struct pgasi_verbs_tp pgasi_verbs_tp_t;
typedef struct pgasi_verbs_ctx pgasi_verbs_ctx_t;
typedef struct pgasi_verbs_ep pgasi_verbs_ep_t;
typedef struct pgasi_verbs_cm pgasi_verbs_cm_t;
typedef struct pgasi_verbs_lost pgasi_verbs_lost_t;
typedef struct pgasi_verbs_receiver pgasi_verbs_receiver_t;

/* ---- memory ---- */

/** Registered memory. */
typedef struct {
    pgas_verbs_mem_t mems[PGASI_VERBS_RAILS_MAX]; /* of each rail */
    uint32_t name; /* place in the table, and how often the place was used */
    bool allocated;
} pgasi_verbs_mem_t;

/** A peer's memory as one context sees it. */
typedef struct {
    pgasi_tp_key_t super;
    pgasi_verbs_tp_t *tp;
    const pgasi_verbs_ctx_t *ctx;
    int peer;
    uint32_t rkeys[PGASI_VERBS_RAILS_MAX], name;
    bool nic_atomics; /* the card's atomics may be used for 8 bytes */
    uint64_t base, bytes;
    void *mapped; /* where this process can load and store, or NULL */
    size_t packed_bytes;
    unsigned char packed[]; /* the device's part, which it needs to map the memory */
} pgasi_verbs_key_t;

/* ---- the connection manager (cm.c) ---- */

/** A connect request of a context to a peer, and the reply. */
typedef struct pgasi_verbs_connect {
    struct pgasi_verbs_connect *next;
    pgasi_verbs_ctx_t *ctx;
    int peer;
    uint64_t ticket;
    pgas_verbs_address_t mine;
    int rail;
    uint64_t slots_addr;
    uint32_t slots_rkey;
    bool sent;
    /* stored last, by the thread that reads the reply; then the request is in no list */
    int completed;
    pgas_status_t status;
    uint32_t inbound;
    pgas_verbs_address_t theirs;
} pgasi_verbs_connect_t;

/* ---- endpoints ---- */

typedef enum {
    PGASI_VERBS_EP_CONNECTING,
    PGASI_VERBS_EP_READY,
    PGASI_VERBS_EP_DEAD
} pgasi_verbs_ep_state_t;

struct pgasi_verbs_ep {
    pgasi_verbs_ctx_t *ctx;
    int peer;
    pgasi_verbs_ep_state_t state;
    /* why the connection ended; progress then ends all operations */
    pgas_status_t broken;
    pgas_verbs_qp_t *qp;
    pgas_verbs_tx_t *tx;
    int rail;
    int cq; /* place of its completion queue in the context */
    uint64_t posted, done;
    uint32_t cookie, inbound; /* sent before each message */
    uint32_t message_bytes;   /* header and data of one message to this peer */
    /* flushes: posted ones that wait for replies; requested: atomics that wait for replies */
    pgasi_verbs_queue_t waiting, in_flight, flushes, requested;
    uint64_t n_requested, n_replied; /* atomic requests, and replies */
    /* operations that begin now wait until so many replies have arrived */
    uint64_t fence;
    /* bounce buffers of posted requests, in order of their numbers */
    pgasi_verbs_buffer_t *buffers, **buffers_last;
    pgasi_verbs_connect_t connect;
    bool connecting; /* counted in the context's n_connecting */
    /* puts or atomics were posted since it was idle: they may be lost with the peer */
    bool has_data;
    bool active; /* in the context's list of endpoints with unfinished operations */
    pgasi_verbs_ep_t *active_next, **active_back;
    pgasi_verbs_ep_t *next; /* next endpoint of the context */
};

typedef struct {
    pgas_verbs_cq_t *cq;
    int rail;
    uint32_t reserved;   /* completions for which its queue pairs have reserved room */
    pgas_verbs_tx_t *tx; /* one of its transmitters, by which all of them are polled */
} pgasi_verbs_send_cq_t;

struct pgasi_verbs_ctx {
    pgasi_tp_ctx_t super;
    pgasi_verbs_tp_t *tp;
    int index;
    enum { PGASI_VERBS_OPEN, PGASI_VERBS_DRAINING, PGASI_VERBS_DRAINED, PGASI_VERBS_CLOSING } phase;
    pgasi_verbs_ep_t **eps; /* n_ranks pointers; pages are touched on first use */
    pgasi_verbs_ep_t *all_eps, *active_eps;
    pgasi_verbs_send_cq_t *cqs;
    int n_cqs;
    uint32_t n_connecting;
    uint32_t last_amo_request; /* number of the last request */
    /* status of puts or atomics that were lost with a peer since the last flush of all peers */
    pgas_status_t lost;
    /* pieces: as many as there are buffers, so that waiting gets cannot use them up */
    pgasi_pool_t pending_pool, pieces, flushes;
    uint32_t turn; /* of the rails, see pgasi_verbs_rail_choose */
    /* of each rail on which the context has connections */
    pgas_verbs_mem_t buffer_mem[PGASI_VERBS_RAILS_MAX], slot_mem[PGASI_VERBS_RAILS_MAX];
    pgasi_verbs_buffer_t *buffers, *free_small, *free_large; /* made with the first endpoint */
    uint32_t large_bytes;
    pgasi_verbs_amo_reply_t *slots;
    uint32_t *free_slots;
    uint32_t n_free_slots;
    struct {
        const char *from, *to;
        uint32_t lkeys[PGASI_VERBS_RAILS_MAX], version;
    } last_mem; /* the memory that was found last */
    int wake_fd, epoll_fd;
    pgasi_tp_comp_t drain_comp; /* its fn NULL: the flush has ended */
    uint32_t n_idle;
    pgasi_verbs_receiver_t *receiver; /* of context 0 */
};

typedef struct {
    pgas_verbs_dev_t *dev;
    int distance;
    bool is_active, is_near;
    bool has_failed;                    /* atomic */
    uint64_t n_connections, n_requests; /* atomic: of closed connections */
} pgasi_verbs_rail_t;

struct pgasi_verbs_tp {
    pgasi_tp_t super;
    pgasi_tp_opts_t opts;
    pgasi_params_t params;
    pgasi_verbs_rail_t rails[PGASI_VERBS_RAILS_MAX];
    int n_rails;
    pgas_verbs_dev_t *dev; /* of rail 0, which allocates memory */
    pgasi_verbs_tp_address_t address;
    char sample; /* peers copy it, to find out whether they may */
    const void *(*addr_of)(void *arg, int rank);
    void *addr_arg;
    char detail[128];
    /* n_ranks bytes: PGASI_VERBS_GONE, PGASI_VERBS_LEFT, PGASI_VERBS_UNREACHABLE */
    unsigned char *dead;
    pthread_mutex_t lost_lock;
    pgasi_verbs_lost_t *lost; /* lost connections to ranks that may be alive */
    int n_lost;               /* read without the lock */
    bool closing;
    int warned_key, warned_machine;
    pgasi_verbs_cm_t *cm;
    pthread_mutex_t lock; /* guards ctxs, mems */
    pgasi_verbs_ctx_t *ctxs[PGASI_VERBS_CTXS_MAX];
    pgasi_verbs_mem_t **mems; /* by place; NULL: free */
    uint16_t *mem_uses;
    uint32_t n_mems;
    uint32_t mem_version; /* changes when memory is released */
};

/* casts from the types of the ops table, with which ours begin */
static inline pgasi_verbs_tp_t *pgasi_verbs_tp_of(pgasi_tp_t *tp)
{
    return (pgasi_verbs_tp_t *)(void *)tp;
}
static inline pgasi_verbs_ctx_t *pgasi_verbs_ctx_of(pgasi_tp_ctx_t *ctx)
{
    return (pgasi_verbs_ctx_t *)(void *)ctx;
}
static inline pgasi_verbs_key_t *pgasi_verbs_key_of(pgasi_tp_key_t *key)
{
    return (pgasi_verbs_key_t *)(void *)key;
}

/* tp.c */
extern const pgasi_tp_ops_t pgasi_verbs_table;
/** Copies the address of a rank. @return false: it is not an address of this transport */
bool pgasi_verbs_address_of(const pgasi_verbs_tp_t *tp, int rank,
                            pgasi_verbs_tp_address_t *address_p);
/** Marks a peer as lost on all contexts; the first time it logs that and calls error_fn. Any thread
 *  may call it that holds no lock of the transport. */
void pgasi_verbs_peer_gone(pgasi_verbs_tp_t *tp, int peer, const char *why);
/** LEFT: it has finalized and sends no more replies. UNREACHABLE: it is alive, but its connection
 *  is lost. */
enum { PGASI_VERBS_GONE = 1, PGASI_VERBS_LEFT = 2, PGASI_VERBS_UNREACHABLE = 4 };
static inline bool pgasi_verbs_is_dead(const pgasi_verbs_tp_t *tp, int peer)
{
    return PGAS_UNLIKELY((__atomic_load_n(&tp->dead[peer], __ATOMIC_RELAXED) & PGASI_VERBS_GONE) !=
                         0);
}
/** The status with which operations to a peer end. PGAS_OK: they continue. */
static inline pgas_status_t pgasi_verbs_end_of(const pgasi_verbs_tp_t *tp, int peer)
{
    unsigned char marks = __atomic_load_n(&tp->dead[peer], __ATOMIC_RELAXED);
    if (PGAS_LIKELY((marks & (PGASI_VERBS_GONE | PGASI_VERBS_UNREACHABLE)) == 0))
        return PGAS_OK;
    return (marks & PGASI_VERBS_UNREACHABLE) != 0 ? PGAS_ERR_TRANSPORT : PGAS_ERR_PEER;
}

/* rails.c */
pgas_status_t pgasi_verbs_rails_open(pgasi_verbs_tp_t *tp);
void pgasi_verbs_rails_close(pgasi_verbs_tp_t *tp);
/** The rail of the next connection of a context to this peer. -1: they have none in common. */
int pgasi_verbs_rail_choose(pgasi_verbs_ctx_t *ctx, const pgasi_verbs_tp_address_t *peer);
/** The rail of a context's first connection, unless its peer or the rail forbids it. */
int pgasi_verbs_rail_first(const pgasi_verbs_ctx_t *ctx);
/** New connections avoid this rail. */
void pgasi_verbs_rail_failed(pgasi_verbs_tp_t *tp, int rail);
/** Counts the requests of a connection that is closed. */
void pgasi_verbs_rail_count(pgasi_verbs_tp_t *tp, int rail, const pgas_verbs_tx_t *tx);
void pgasi_verbs_rails_describe(const pgasi_verbs_tp_t *tp, char *text, size_t bytes);
/** Registers the memory mems[0] with a further rail. It may be registered there already. */
pgas_status_t pgasi_verbs_mem_join(pgasi_verbs_tp_t *tp, pgas_verbs_mem_t *mems, int rail,
                                   uint32_t access);
pgas_status_t pgasi_verbs_mem_join_all(pgasi_verbs_tp_t *tp, pgas_verbs_mem_t *mems,
                                       uint32_t access);
/** Releases memory on all rails. */
void pgasi_verbs_mem_leave(pgasi_verbs_tp_t *tp, pgas_verbs_mem_t *mems);

/* lost.c */
/** A connection to a peer was lost: the backend asks its owner whether the peer has died. Any
 *  thread may call it; cm->lock may be held.
 *  @param socket  true: the TCP connection has ended; false: a queue pair is broken */
void pgasi_verbs_lost_add(pgasi_verbs_tp_t *tp, int peer, bool socket, const char *why);
/** Asks about each lost connection that is due. No lock is held. */
void pgasi_verbs_lost_run(pgasi_verbs_tp_t *tp);
void pgasi_verbs_lost_fini(pgasi_verbs_tp_t *tp);
/** Whether a peer is known to have died. Without suspect_fn every lost connection counts as a
 *  death. */
bool pgasi_verbs_has_died(const pgasi_verbs_tp_t *tp, int peer);
/** Gives up a peer that is alive; the first time it logs that and calls error_fn. Any thread may
 *  call it that holds no lock of the transport. */
void pgasi_verbs_unreachable(pgasi_verbs_tp_t *tp, int peer, const char *why);

/* ctx.c */
pgas_status_t pgasi_verbs_ctx_open(pgasi_tp_t *tp, int index, pgasi_tp_ctx_t **ctx_p);
pgas_status_t pgasi_verbs_ctx_drain(pgasi_tp_ctx_t *ctx);
void pgasi_verbs_ctx_close(pgasi_tp_ctx_t *ctx);
int pgasi_verbs_progress(pgasi_tp_ctx_t *ctx);
/** A readable fd wakes a thread that sleeps on the context's descriptor. */
pgas_status_t pgasi_verbs_ctx_watch(const pgasi_verbs_ctx_t *ctx, int fd);
/** Finds or opens a completion queue of the context on this rail, with room for one more queue pair
 *  of this depth.
 *  @param index_p  its place */
pgas_status_t pgasi_verbs_ctx_cq(pgasi_verbs_ctx_t *ctx, int rail, uint32_t depth, int *index_p);
void pgasi_verbs_ctx_cq_leave(pgasi_verbs_ctx_t *ctx, uint32_t depth, int index);
/** Opens a transmitter for a queue pair on a completion queue of the context. */
pgas_status_t pgasi_verbs_ctx_tx_open(pgasi_verbs_ctx_t *ctx, int cq, pgas_verbs_qp_t *qp,
                                      const pgas_verbs_tx_opts_t *opts, pgas_verbs_tx_t **tx_p);
void pgasi_verbs_ctx_tx_close(pgasi_verbs_ctx_t *ctx, int cq, pgas_verbs_tx_t *tx);
pgas_status_t pgasi_verbs_event_fd(pgasi_tp_ctx_t *ctx, int *fd_p);
pgas_status_t pgasi_verbs_arm(pgasi_tp_ctx_t *ctx);
pgas_status_t pgasi_verbs_wake(pgasi_tp_ctx_t *ctx);

/* bounce.c */
/** Allocates the context's buffers, if it has none. */
pgas_status_t pgasi_verbs_buffers_init(pgasi_verbs_ctx_t *ctx);
/** Takes a buffer. @param bytes  at most ctx->large_bytes @return NULL: none is free now */
pgasi_verbs_buffer_t *pgasi_verbs_buffer_take(pgasi_verbs_ctx_t *ctx, size_t bytes);
void pgasi_verbs_buffer_give(pgasi_verbs_ctx_t *ctx, pgasi_verbs_buffer_t *buffer);
void pgasi_verbs_buffers_fini(pgasi_verbs_ctx_t *ctx);
/** Registers the context's buffers and slots with a rail, unless they are. */
pgas_status_t pgasi_verbs_buffers_join(pgasi_verbs_ctx_t *ctx, int rail);
/** The slots for results of atomics. Slot 0 is for results that are not needed. */
pgas_status_t pgasi_verbs_slots_init(pgasi_verbs_ctx_t *ctx);
bool pgasi_verbs_slot_take(pgasi_verbs_ctx_t *ctx, uint32_t *slot_p);
void pgasi_verbs_slot_give(pgasi_verbs_ctx_t *ctx, uint32_t slot);

/* endpoint.c */
pgas_status_t pgasi_verbs_ep_open(pgasi_verbs_ctx_t *ctx, int peer, pgasi_verbs_ep_t **ep_p);
/** Checks whether the reply to the connect request has arrived, and connects.
 *  @return whether it has */
bool pgasi_verbs_ep_connect(pgasi_verbs_ep_t *ep);
void pgasi_verbs_ep_activate(pgasi_verbs_ep_t *ep);
void pgasi_verbs_ep_deactivate(pgasi_verbs_ep_t *ep);
/** Ends all operations of an endpoint with a status; no further ones begin. */
void pgasi_verbs_ep_fail(pgasi_verbs_ep_t *ep, pgas_status_t status);
/** Closes all endpoints of the context, and informs the peers. */
void pgasi_verbs_eps_close(pgasi_verbs_ctx_t *ctx);

/** The endpoint of a peer; it is opened if there is none. */
static inline pgas_status_t pgasi_verbs_ep_get(pgasi_verbs_ctx_t *ctx, int peer,
                                               pgasi_verbs_ep_t **ep_p)
{
    if (PGAS_UNLIKELY(peer < 0 || peer >= ctx->tp->opts.n_ranks))
        return PGAS_ERR_RANGE;
    pgasi_verbs_ep_t *ep = ctx->eps[peer];
    if (PGAS_UNLIKELY(!ep))
        return pgasi_verbs_ep_open(ctx, peer, ep_p);
    pgas_status_t end = pgasi_verbs_end_of(ctx->tp, peer);
    if (PGAS_UNLIKELY(ep->state == PGASI_VERBS_EP_DEAD || end != PGAS_OK))
        return end != PGAS_OK ? end : PGAS_ERR_PEER;
    *ep_p = ep;
    return PGAS_OK;
}

/* pending.c */
/** Begins a pending operation. *pending is copied if the operation does not end at once.
 *  @return the status of the operation */
pgas_status_t pgasi_verbs_submit(pgasi_verbs_ep_t *ep, pgasi_verbs_pending_t *pending);
/** Begins waiting operations and completes finished ones. @return how many */
int pgasi_verbs_ep_progress(pgasi_verbs_ep_t *ep);
/** Posts a request; its buffer becomes free when the request is done.
 *  @return as pgas_verbs_tx_post */
pgas_status_t pgasi_verbs_post(pgasi_verbs_ep_t *ep, const pgas_verbs_request_t *request,
                               pgasi_verbs_buffer_t *buffer);
/** The advance function of endpoints' transmitters: it stores numbers and calls no completion. */
void pgasi_verbs_advanced(void *arg, pgas_verbs_tx_t *tx, uint64_t done, pgas_status_t status);
/** Completes a pending operation that is in no queue: frees its buffer and slot, and calls its
 *  completion. */
void pgasi_verbs_finish(pgasi_verbs_ep_t *ep, pgasi_verbs_pending_t *pending, pgas_status_t status);
/** Buffers have run out: requests a completion from every endpoint that uses some. */
void pgasi_verbs_reclaim(pgasi_verbs_ctx_t *ctx);

static inline bool pgasi_verbs_ep_is_idle(const pgasi_verbs_ep_t *ep)
{
    return !ep->waiting.first && !ep->in_flight.first && !ep->requested.first &&
           !ep->flushes.first && ep->done >= ep->posted;
}

/** Calls the completion of an operation, unless the context is closing: then the owner may not
 *  exist any more. */
static inline void pgasi_verbs_complete(const pgasi_verbs_ctx_t *ctx, pgasi_tp_comp_t *comp,
                                        pgas_status_t status)
{
    if (comp && ctx->phase != PGASI_VERBS_CLOSING)
        comp->fn(comp, status);
}

/* rma.c, amo.c, am.c: the operations, and functions that post pending ones. Each run function
 * returns PGAS_OK: all is posted, and nothing is left to report; PGAS_INPROGRESS: all is posted,
 * and pending->number says when it is done; PGAS_ERR_AGAIN: it must be called again with the same
 * operation; other errors: the connection has ended. */
pgas_status_t pgasi_verbs_run_put(pgasi_verbs_ep_t *ep, pgasi_verbs_pending_t *pending);
pgas_status_t pgasi_verbs_run_get(pgasi_verbs_ep_t *ep, pgasi_verbs_pending_t *pending);
pgas_status_t pgasi_verbs_run_amo(pgasi_verbs_ep_t *ep, pgasi_verbs_pending_t *pending);
pgas_status_t pgasi_verbs_run_amo_request(pgasi_verbs_ep_t *ep, pgasi_verbs_pending_t *pending);
pgas_status_t pgasi_verbs_run_message(pgasi_verbs_ep_t *ep, pgasi_verbs_pending_t *pending);

pgas_status_t pgasi_verbs_put(pgasi_tp_ctx_t *ctx, int peer, pgasi_tp_key_t *key,
                              uint64_t remote_addr, const void *src, size_t bytes,
                              pgasi_tp_comp_t *comp);
pgas_status_t pgasi_verbs_get(pgasi_tp_ctx_t *ctx, int peer, pgasi_tp_key_t *key,
                              uint64_t remote_addr, void *dst, size_t bytes, pgasi_tp_comp_t *comp);
pgas_status_t pgasi_verbs_amo(pgasi_tp_ctx_t *ctx, int peer, pgasi_tp_key_t *key,
                              uint64_t remote_addr, pgasi_amo_t op, size_t bytes, uint64_t operand,
                              uint64_t compare, void *result, pgasi_tp_comp_t *comp);
pgas_status_t pgasi_verbs_am(pgasi_tp_ctx_t *ctx, int peer, const void *header, size_t header_bytes,
                             const void *data, size_t bytes, pgasi_tp_comp_t *comp);
/** Checks an operation through a key before anything is done. @param ep_p  the endpoint */
pgas_status_t pgasi_verbs_check(pgasi_verbs_ctx_t *ctx, const pgasi_verbs_key_t *key, int peer,
                                uint64_t remote_addr, size_t bytes, pgasi_verbs_ep_t **ep_p);
/** Completes atomics whose replies have arrived. @return how many */
int pgasi_verbs_take_replies(pgasi_verbs_ep_t *ep);

/* flush.c */
pgas_status_t pgasi_verbs_fence(pgasi_tp_ctx_t *ctx);
pgas_status_t pgasi_verbs_flush_peer(pgasi_tp_ctx_t *ctx, int peer, pgasi_tp_comp_t *comp);
/** A part of a flush has ended. */
void pgasi_verbs_part_done(pgasi_verbs_ctx_t *ctx, pgasi_verbs_flush_t *flush,
                           pgas_status_t status);

/* memory.c */
pgas_status_t pgasi_verbs_tp_mem_alloc(pgasi_tp_t *tp, size_t bytes, pgasi_tp_mem_t **mem_p,
                                       void **addr_p);
pgas_status_t pgasi_verbs_tp_mem_register(pgasi_tp_t *tp, void *addr, size_t bytes,
                                          pgasi_tp_mem_t **mem_p);
void pgasi_verbs_tp_mem_release(pgasi_tp_t *tp, pgasi_tp_mem_t *mem);
pgas_status_t pgasi_verbs_key_pack(pgasi_tp_t *tp, pgasi_tp_mem_t *mem, void *buffer,
                                   size_t *bytes_io);
pgas_status_t pgasi_verbs_key_unpack(pgasi_tp_ctx_t *ctx, int peer, const void *buffer,
                                     size_t bytes, pgasi_tp_key_t **key_p);
pgas_status_t pgasi_verbs_key_map(pgasi_tp_key_t *key, uint64_t remote_addr, void **addr_p);
void pgasi_verbs_key_release(pgasi_tp_key_t *key);
/** The local key of memory of this rank on a rail; 0: it is not registered as a whole. */
uint32_t pgasi_verbs_lkey_of(pgasi_verbs_ctx_t *ctx, int rail, const void *addr, uint64_t bytes);
/** Whether `bytes` bytes at addr are inside of the named memory. The caller holds tp->lock. */
bool pgasi_verbs_mem_has(const pgasi_verbs_tp_t *tp, uint32_t name, uint64_t addr, uint64_t bytes);

/* receive.c and inbound.c, on context 0 */
pgas_status_t pgasi_verbs_receiver_open(pgasi_verbs_ctx_t *ctx);
void pgasi_verbs_receiver_close(pgasi_verbs_ctx_t *ctx);
int pgasi_verbs_receive(pgasi_verbs_ctx_t *ctx);
/** A transmitter of replies on a completion queue of context 0, or NULL. */
pgas_verbs_tx_t *pgasi_verbs_receiver_tx(const pgasi_verbs_ctx_t *ctx, int cq);
/** @return true: nothing has arrived, so the caller may sleep */
bool pgasi_verbs_receiver_arm(pgasi_verbs_ctx_t *ctx);
void pgasi_verbs_am_release(pgasi_tp_ctx_t *ctx, void *data);
/** The content of a connect request. */
typedef struct {
    int peer, ctx, rail;
    const pgas_verbs_address_t *theirs;
    uint64_t slots_addr;
    uint32_t slots_rkey;
} pgasi_verbs_asked_t;
/** Opens this rank's end of a queue pair on which a context of a peer will send. The thread of
 *  context 0 calls it. */
pgas_status_t pgasi_verbs_accept(pgasi_verbs_ctx_t *ctx, const pgasi_verbs_asked_t *asked,
                                 pgas_verbs_address_t *mine_p, uint32_t *inbound_p);
/** A peer no longer uses a queue pair: this end is closed when all arrived messages have been
 *  delivered.
 *  @param inbound  PGASI_VERBS_ALL_INBOUND: all of the peer's */
void pgasi_verbs_dismiss(pgasi_verbs_ctx_t *ctx, int peer, uint32_t inbound);
#define PGASI_VERBS_ALL_INBOUND UINT32_MAX
size_t pgasi_verbs_receiver_bytes(const pgasi_verbs_tp_t *tp);

/* cm.c */
pgas_status_t pgasi_verbs_cm_open(pgasi_verbs_tp_t *tp);
void pgasi_verbs_cm_close(pgasi_verbs_tp_t *tp);
/** A descriptor that is readable when cm_run has something to do. */
int pgasi_verbs_cm_fd(const pgasi_verbs_tp_t *tp);
bool pgasi_verbs_cm_has_jobs(const pgasi_verbs_tp_t *tp);
/** Requests a connection. The request stays in place until it is completed or cancelled. */
void pgasi_verbs_cm_connect(pgasi_verbs_tp_t *tp, pgasi_verbs_connect_t *request);
void pgasi_verbs_cm_cancel(pgasi_verbs_tp_t *tp, pgasi_verbs_connect_t *request);
/** On return no other thread is completing a request of the context, so the context and its
 *  endpoints may be freed. */
void pgasi_verbs_cm_await_replies(pgasi_verbs_tp_t *tp);
/** Informs a peer that this rank no longer uses one of its queue pairs. */
void pgasi_verbs_cm_disconnect(pgasi_verbs_tp_t *tp, int peer, uint32_t inbound);
/** Informs all peers that this rank finalizes, so that its end does not count as a death. */
void pgasi_verbs_cm_leave(pgasi_verbs_tp_t *tp);
/** Opens the TCP connection to a peer again. @return whether it is open */
bool pgasi_verbs_cm_reconnect(pgasi_verbs_tp_t *tp, int peer);
/** A peer has died: context 0 closes the ends that the peer used. */
void pgasi_verbs_cm_dismiss(pgasi_verbs_tp_t *tp, int peer);
/** Context 0 runs the connection manager again in a moment, even if it sleeps. Any thread may call
 *  it. */
void pgasi_verbs_cm_run_later(pgasi_verbs_tp_t *tp);
/** Reads and writes what is possible without waiting; context 0 also executes jobs.
 *  @return how many events and jobs */
int pgasi_verbs_cm_run(pgasi_verbs_ctx_t *ctx);

#endif
