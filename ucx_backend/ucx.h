/** Inside of the UCX backend: a rank has one UCX context (ucp_context), a context of the transport
 *  is one worker, and endpoints are opened by (context, peer) on first use.
 *
 *  Hot paths cost one call into UCX and a handful of instructions: keys know their endpoint, UCX's
 *  requests begin with fields of ours (request_size), and an operation that completes at once
 *  allocates nothing. All queues are bounded; beyond the bound operations return PGAS_ERR_AGAIN.
 *  The fields of a context belong to the thread that uses it; other threads write only `dead` marks
 *  and `repairs`. */
#ifndef PGASI_UCX_H
#define PGASI_UCX_H

#include <pthread.h>
#include <string.h>
#include "base/checks.h"
#include "base/clock.h"
#include "base/pool.h"
#include "transport/transport.h"
#include "ucx_backend/library.h"

#define PGASI_UCX_CTXS_MAX 1024
/* requests that UCX may hold for a context; beyond that operations return PGAS_ERR_AGAIN */
#define PGASI_UCX_PENDING_MAX 4096
/* unacknowledged non-fetching atomics of an endpoint before the backend itself flushes */
#define PGASI_UCX_POSTS_MAX 4096
/* messages that may overtake an unfinished one to the same peer */
#define PGASI_UCX_AHEAD_MAX   1024
#define PGASI_UCX_AHEAD_BYTES (4u << 20)
/* a number further ahead than this is invalid */
#define PGASI_UCX_REORDER_MAX 8192
#define PGASI_UCX_EAGER_MAX   7680  /* fits into one UCX segment of 8 KiB beside all headers */
#define PGASI_UCX_AM_BULK_MAX 61440 /* the same for TCP's receive segments of 64 KiB */
#define PGASI_UCX_CLOSE_NS    PGASI_NS_PER_S /* for closing a context that was not drained before */

#define PGASI_UCX_GIVE_UP_S 20 /* for opening a lost connection again */

/* flags of a peer */
#define PGASI_UCX_DEAD     1
#define PGASI_UCX_REOPENED 2 /* a connection to it was lost although it is alive; this was logged */

typedef struct pgasi_ucx pgasi_ucx_t;
typedef struct pgasi_ucx_ctx pgasi_ucx_ctx_t;
typedef struct pgasi_ucx_ep pgasi_ucx_ep_t;
typedef struct pgasi_ucx_rx pgasi_ucx_rx_t;
typedef struct pgasi_ucx_flush pgasi_ucx_flush_t;
typedef struct pgasi_ucx_key pgasi_ucx_key_t;
typedef struct pgasi_ucx_entry pgasi_ucx_entry_t;
typedef struct pgasi_ucx_flush_part pgasi_ucx_flush_part_t;

#define PGASI_UCX_RANK_BITS 20
/* openings of a context that receivers distinguish: each numbers its messages from zero */
#define PGASI_UCX_OPENINGS   4
#define PGASI_UCX_AM_LONG    17 /* ids of the two forms of messages */
#define PGASI_UCX_AM_COMPACT 18
/* of the number in a compact prefix; twice PGASI_UCX_REORDER_MAX must fit */
#define PGASI_UCX_NUMBER_BITS 15

/** The prefix of every active message, before the user's header: its sender, and its number among
 *  the messages of that context to this peer, xor the receiver's cookie. The cookie is in the
 *  receiver's address. So a message of another job has an impossible number.
 *
 *  The compact form is the second word alone, with the source and the low bits of the number. It is
 *  used if the source fits into 17 bits (up to 2 ranks of 8192 contexts, 1024 ranks of 32, and so
 *  on). Then a short call and all its headers fit into one cache line of UCX's shared-memory
 *  queues. */
typedef struct {
    /* rank in the low 20 bits, above it the context, and in two bits which opening of it */
    uint32_t source;
    uint32_t number;
} pgasi_ucx_am_prefix_t;

/* The source of messages in the n-th opening of a context. */
static inline uint32_t pgasi_ucx_source(int rank, int ctx, unsigned n)
{
    return (uint32_t)rank | ((uint32_t)ctx * PGASI_UCX_OPENINGS + n % PGASI_UCX_OPENINGS)
                                << PGASI_UCX_RANK_BITS;
}

/** An active message that UCX has not finished; UCX reads the header until then. */
typedef struct pgasi_ucx_send {
    struct {
        pgasi_ucx_am_prefix_t prefix;
        unsigned char user[PGASI_TP_AM_HEADER_MAX];
    } header;
    pgasi_ucx_ep_t *ep;
    /* flushes with a larger mark wait for this message; 0: it has a completion of its own */
    uint64_t flush_mark;
} pgasi_ucx_send_t;

/** The first bytes of every UCX request; set if an operation does not complete at once. */
typedef struct pgasi_ucx_request {
    pgasi_ucx_ctx_t *ctx;
    pgasi_tp_comp_t *comp;
    void *extra;     /* a send, a part of a flush, or an entry of a journal */
    uint32_t n_lost; /* connections that the endpoint had lost when an entry was issued */
    /* list of the endpoint's fetching atomics; back NULL: it is not in the list */
    struct pgasi_ucx_request *next, **back;
} pgasi_ucx_request_t;

/** The operations of an endpoint that are not acknowledged yet (journal.c). */
typedef struct {
    /* the endpoint has a journal, because its peer is another rank, behind a connection that may be
     * lost */
    bool on;
    bool doubtful; /* atomics were in flight on a lost connection; the next flush reports that */
    enum { PGASI_UCX_LINK_UP, PGASI_UCX_LINK_LOST, PGASI_UCX_LINK_DOWN, PGASI_UCX_LINK_ENDED } link;
    uint32_t n_lost;     /* connections that were lost */
    ucs_status_t why;    /* reason of the last loss */
    uint32_t n_entries;  /* in the list */
    uint32_t n_requests; /* UCX's requests for entries */
    size_t bytes;        /* memory that the listed entries occupy, here or at the peer */
    uint64_t issued;     /* number of the last entry */
    /* all entries up to this number have arrived, except messages that UCX still holds */
    uint64_t acked;
    /* the flush in flight acknowledges entries up to this number; equal to acked: there is none */
    uint64_t asked;
    uint64_t wanted; /* highest number for which a caller waits */
    pgasi_ucx_entry_t *first, **last;
    pgasi_ucx_entry_t *gets, **last_get;
    pgasi_ucx_flush_part_t *marks; /* flushes that wait for a number, oldest first */
    pgasi_ucx_key_t *keys;
    uint64_t since_ns; /* the connection has failed since then; 0: it works */
    uint64_t retry_ns; /* when to open it again */
    uint64_t pause_ns;
} pgasi_ucx_journal_t;

struct pgasi_ucx_ep {
    ucp_ep_h ep;
    pgasi_ucx_ctx_t *ctx;
    int peer;
    bool dead;     /* set by any thread, relaxed */
    bool used;     /* an operation other than a message was issued */
    bool dirty;    /* puts or atomics were issued since the last flush began */
    bool active;   /* in the context's list: dirty, or a flush is in flight */
    int n_flushes; /* in flight */
    uint32_t am_source;
    bool am_compact; /* am_source has the compact form */
    uint32_t am_number;
    uint32_t am_cookie;
    uint32_t n_am_pending; /* messages that UCX holds */
    uint32_t n_am_flushed; /* those of them without a completion of their own */
    uint32_t n_am_ahead;   /* messages issued since n_am_pending was zero */
    size_t am_ahead_bytes;
    uint32_t n_posts; /* non-fetching atomics since the backend's last own flush began */
    bool posts_flushing;
    pgasi_ucx_request_t *fetches; /* fetching atomics in flight */
    pgasi_tp_comp_t posts_comp;
    pgasi_ucx_ep_t *active_next, **active_back;
    pgasi_ucx_ep_t *next; /* next endpoint of the context */
    void *close_request;
    pgasi_ucx_journal_t journal;
};

/* why a message that arrives now must wait (one to the own rank), or is dropped */
#define PGASI_UCX_GATE_IDLE       1u /* outside of progress() */
#define PGASI_UCX_GATE_DELIVERING 2u /* inside of am_fn */
#define PGASI_UCX_GATE_STOPPED    4u

/** A flush in flight. */
struct pgasi_ucx_flush {
    pgasi_ucx_ctx_t *ctx;
    pgasi_tp_parts_t parts;
    int peer; /* or PGASI_TP_ALL_PEERS */
    uint64_t mark;
    pgasi_ucx_flush_t *next, **back;
};

struct pgasi_ucx_flush_part {
    pgasi_ucx_ep_t *ep;
    pgasi_ucx_flush_t *flush;
    uint64_t number; /* number of the last journal entry for which it waits */
    pgasi_ucx_flush_part_t *next;
};

struct pgasi_ucx_ctx {
    pgasi_tp_ctx_t super;
    pgasi_ucx_t *tp;
    int index;
    ucp_worker_h worker;
    pgasi_ucx_ep_t **eps; /* n_ranks pointers; pages are touched on first use */
    pgasi_ucx_ep_t *all_eps;
    pgasi_ucx_ep_t *active_eps;
    enum { PGASI_UCX_OPEN, PGASI_UCX_DRAINING, PGASI_UCX_CLOSING, PGASI_UCX_GIVEN_UP } phase;
    pgasi_tp_comp_t drain_comp; /* its fn NULL: the flush has ended */
    size_t n_closing;           /* endpoints that UCX is closing */
    size_t n_pending;           /* requests that UCX holds */
    pgasi_ucx_send_t *spare;
    pgasi_pool_t sends;
    bool stored_directly; /* by this context, since the last fence or flush */
    bool has_direct;      /* it has keys of other ranks' mapped memory */
    uint32_t n_fences;    /* fences for which direct stores must still wait */
    pgasi_tp_comp_t fence_comp;
    size_t n_flushed_sends; /* messages in flight without a completion of their own */
    uint64_t flush_mark;
    pgasi_pool_t flushes;
    pgasi_pool_t flush_parts;
    pgasi_pool_t small_entries, large_entries; /* entries of journals */
    pgasi_ucx_flush_t *running;
    pgasi_ucx_rx_t *rx; /* context 0 only */
    uint32_t n_ready;   /* messages that wait only for the next progress */
    unsigned gate;      /* 0: messages may be delivered now; otherwise PGASI_UCX_GATE_ bits */
    uint32_t fence;     /* counts fences */
    /* an endpoint's connection is down, or its peer has died; any thread sets it */
    uint32_t repairs;
};

struct pgasi_ucx {
    pgasi_tp_t super;
    pgasi_tp_opts_t opts;
    ucp_context_h context;
    ucp_err_handling_mode_t err_mode;
    size_t am_bulk_max; /* as in pgasi_tp_attr_t */
    uint32_t caps;
    uint32_t cookie;
    unsigned rank_bits; /* bits of a rank in this job */
    char detail[128];
    const void *(*addr_of)(void *arg, int rank);
    void *addr_arg;
    void *address; /* header and UCX address of context 0, in one block */
    size_t address_bytes;
    unsigned char *dead; /* n_ranks bytes: PGASI_UCX_DEAD, PGASI_UCX_REOPENED */
    bool closing;
    int warned_key;
    int logged_files;     /* it was logged that no file is left for a connection */
    int logged_ctx;       /* it was logged that a context could not be opened */
    int logged_connect;   /* it was logged that a connection could not be opened */
    pthread_mutex_t lock; /* guards ctxs */
    pgasi_ucx_ctx_t *ctxs[PGASI_UCX_CTXS_MAX];
    /* by rank: how often a context of this index was opened for messages */
    unsigned char *n_openings[PGASI_UCX_CTXS_MAX];
};

/** A peer's memory as one context sees it. */
struct pgasi_ucx_key {
    pgasi_tp_key_t super;
    pgasi_ucx_ep_t *ep;
    ucp_rkey_h rkey; /* NULL: the memory is mapped, or the connection is down */
    uint64_t base, bytes;
    void *mapped; /* where this process can load and store, or NULL */
    bool unmap;   /* the mapping belongs to this key */
    void *packed; /* UCX's packed key, for another connection; NULL without a journal */
    pgasi_ucx_key_t *next, **back;
};

/** The header of the address that peers get; UCX's own address follows. */
typedef struct {
    uint32_t magic;
    uint32_t cookie;
} pgasi_ucx_address_t;

#define PGASI_UCX_ADDRESS_MAGIC 0x31415855u

/* casts from the types of the ops table, with which ours begin */
static inline pgasi_ucx_t *pgasi_ucx_of(pgasi_tp_t *tp)
{
    return (pgasi_ucx_t *)(void *)tp;
}
static inline pgasi_ucx_ctx_t *pgasi_ucx_ctx_of(pgasi_tp_ctx_t *ctx)
{
    return (pgasi_ucx_ctx_t *)(void *)ctx;
}
static inline pgasi_ucx_key_t *pgasi_ucx_key_of(pgasi_tp_key_t *key)
{
    return (pgasi_ucx_key_t *)(void *)key;
}

/** Copies a few bytes inline, because a call of memcpy costs more. */
static inline void pgasi_ucx_copy(void *to, const void *from, size_t bytes)
{
    if (bytes == 8) {
        memcpy(to, from, 8);
    } else if (bytes == 4) {
        memcpy(to, from, 4);
    } else if (bytes > 8 && bytes <= 16) {
        uint64_t head, tail;
        memcpy(&head, from, 8);
        memcpy(&tail, (const char *)from + bytes - 8, 8);
        memcpy(to, &head, 8);
        memcpy((char *)to + bytes - 8, &tail, 8);
    } else if (bytes > 0) {
        memcpy(to, from, bytes);
    }
}

/* status.c */
pgas_status_t pgasi_ucx_status(ucs_status_t status);
/** Converts a failure of set-up to a status and logs it.
 *  @param doing  what has failed
 *  @param cure  NULL: none is known */
pgas_status_t pgasi_ucx_failed(ucs_status_t status, const char *doing, const char *cure);
/** As pgasi_ucx_failed, but only the first failure with this flag is logged, because the caller may
 *  try again. */
pgas_status_t pgasi_ucx_failed_again(int *logged, ucs_status_t status, const char *doing,
                                     const char *cure);

/* context.c */
extern const pgasi_tp_ops_t pgasi_ucx_table;

/* ctx.c */
pgas_status_t pgasi_ucx_ctx_open(pgasi_tp_t *tp, int index, pgasi_tp_ctx_t **ctx_p);
pgas_status_t pgasi_ucx_ctx_drain(pgasi_tp_ctx_t *ctx);
void pgasi_ucx_ctx_close(pgasi_tp_ctx_t *ctx);
pgas_status_t pgasi_ucx_address(pgasi_tp_t *tp, const void **addr_p, size_t *bytes_p);
int pgasi_ucx_progress(pgasi_tp_ctx_t *ctx);
pgas_status_t pgasi_ucx_event_fd(pgasi_tp_ctx_t *ctx, int *fd_p);
pgas_status_t pgasi_ucx_arm(pgasi_tp_ctx_t *ctx);
pgas_status_t pgasi_ucx_wake(pgasi_tp_ctx_t *ctx);

/* endpoint.c */
pgas_status_t pgasi_ucx_ep_open(pgasi_ucx_ctx_t *ctx, int peer, pgasi_ucx_ep_t **ep_p);
/** Begins to close all endpoints of the context. n_closing counts those that are not closed yet. */
void pgasi_ucx_eps_begin_close(pgasi_ucx_ctx_t *ctx);
/** Stops waiting for endpoints that are not closed yet. */
void pgasi_ucx_eps_give_up(pgasi_ucx_ctx_t *ctx);
/** Frees all endpoints, after the worker was destroyed. */
void pgasi_ucx_eps_free(pgasi_ucx_ctx_t *ctx);
/** Marks a peer as dead on all contexts. */
void pgasi_ucx_peer_dead(pgasi_tp_t *tp, int peer);
/** As pgasi_ucx_peer_dead; the first time it logs that and calls error_fn. */
void pgasi_ucx_peer_gone(pgasi_ucx_t *tp, int peer, const char *why);

/** reopened: logs that a lost connection was opened again. unreachable: logs that it cannot be
 *  opened, and calls error_fn. */
void pgasi_ucx_reopened(pgasi_ucx_ep_t *ep);
void pgasi_ucx_unreachable(pgasi_ucx_ep_t *ep);

static inline bool pgasi_ucx_is_dead(const pgasi_ucx_ep_t *ep)
{
    return PGAS_UNLIKELY(__atomic_load_n(&ep->dead, __ATOMIC_RELAXED));
}

static inline pgas_status_t pgasi_ucx_ep_get(pgasi_ucx_ctx_t *ctx, int peer, pgasi_ucx_ep_t **ep_p)
{
    if (PGAS_UNLIKELY(peer < 0 || peer >= ctx->tp->opts.n_ranks))
        return PGAS_ERR_RANGE;
    pgasi_ucx_ep_t *ep = ctx->eps[peer];
    if (PGAS_LIKELY(ep)) {
        *ep_p = ep;
        return PGAS_OK;
    }
    return pgasi_ucx_ep_open(ctx, peer, ep_p);
}

/* memory.c */
pgas_status_t pgasi_ucx_mem_alloc(pgasi_tp_t *tp, size_t bytes, pgasi_tp_mem_t **mem_p,
                                  void **addr_p);
pgas_status_t pgasi_ucx_mem_register(pgasi_tp_t *tp, void *addr, size_t bytes,
                                     pgasi_tp_mem_t **mem_p);
void pgasi_ucx_mem_release(pgasi_tp_t *tp, pgasi_tp_mem_t *mem);
pgas_status_t pgasi_ucx_key_pack(pgasi_tp_t *tp, pgasi_tp_mem_t *mem, void *buffer,
                                 size_t *bytes_io);
pgas_status_t pgasi_ucx_key_unpack(pgasi_tp_ctx_t *ctx, int peer, const void *buffer, size_t bytes,
                                   pgasi_tp_key_t **key_p);
pgas_status_t pgasi_ucx_key_map(pgasi_tp_key_t *key, uint64_t remote_addr, void **addr_p);
void pgasi_ucx_key_release(pgasi_tp_key_t *key);

/* rma.c, amo.c */
pgas_status_t pgasi_ucx_put(pgasi_tp_ctx_t *ctx, int peer, pgasi_tp_key_t *key,
                            uint64_t remote_addr, const void *src, size_t bytes,
                            pgasi_tp_comp_t *comp);
pgas_status_t pgasi_ucx_get(pgasi_tp_ctx_t *ctx, int peer, pgasi_tp_key_t *key,
                            uint64_t remote_addr, void *dst, size_t bytes, pgasi_tp_comp_t *comp);
pgas_status_t pgasi_ucx_amo(pgasi_tp_ctx_t *ctx, int peer, pgasi_tp_key_t *key,
                            uint64_t remote_addr, pgasi_amo_t op, size_t bytes, uint64_t operand,
                            uint64_t compare, void *result, pgasi_tp_comp_t *comp);
/** Fails the fetching atomics of an endpoint, which UCX does not complete when the endpoint
 *  fails. */
void pgasi_ucx_fail_fetches(pgasi_ucx_ep_t *ep, pgas_status_t status);
/** Fails only those that were issued on former connections. */
void pgasi_ucx_fail_old_fetches(pgasi_ucx_ep_t *ep, pgas_status_t status);
/** The callback of puts and gets. */
void pgasi_ucx_op_done(void *request, ucs_status_t status, void *unused);

/** Calls the completion of an operation, unless the context was given up: then the owner may not
 *  exist any more. */
static inline void pgasi_ucx_complete(const pgasi_ucx_ctx_t *ctx, pgasi_tp_comp_t *comp,
                                      pgas_status_t status)
{
    if (comp && ctx->phase != PGASI_UCX_GIVEN_UP)
        comp->fn(comp, status);
}

/** Converts UCX's result of an operation to a status, and stores what the callback needs. */
static inline pgas_status_t pgasi_ucx_posted(pgasi_ucx_ctx_t *ctx, ucs_status_ptr_t ptr,
                                             pgasi_tp_comp_t *comp)
{
    if (PGAS_LIKELY(!ptr))
        return PGAS_OK;
    if (PGAS_UNLIKELY(UCS_PTR_IS_ERR(ptr)))
        return pgasi_ucx_status(UCS_PTR_STATUS(ptr));
    pgasi_ucx_request_t *request = ptr;
    request->ctx = ctx;
    request->comp = comp;
    ctx->n_pending++;
    return PGAS_INPROGRESS;
}

/** Checks an operation through a key before UCX sees it. */
static inline pgas_status_t pgasi_ucx_check(const pgasi_ucx_ctx_t *ctx, const pgasi_ucx_key_t *key,
                                            int peer, uint64_t remote_addr, size_t bytes)
{
    if (PGAS_UNLIKELY(bytes > key->bytes || remote_addr - key->base > key->bytes - bytes))
        return PGAS_ERR_RANGE;
    if (PGAS_UNLIKELY(key->ep->peer != peer || key->ep->ctx != ctx))
        return PGAS_ERR_INVALID;
    if (pgasi_ucx_is_dead(key->ep))
        return PGAS_ERR_PEER;
    return PGAS_LIKELY(ctx->n_pending < PGASI_UCX_PENDING_MAX) ? PGAS_OK : PGAS_ERR_AGAIN;
}

/* flush.c */
pgas_status_t pgasi_ucx_fence(pgasi_tp_ctx_t *ctx);
pgas_status_t pgasi_ucx_flush_peer(pgasi_tp_ctx_t *ctx, int peer, pgasi_tp_comp_t *comp);
void pgasi_ucx_activate(pgasi_ucx_ep_t *ep);
/** A message without a completion of its own is done; flushes may wait for it. */
void pgasi_ucx_send_flushed(pgasi_ucx_ctx_t *ctx, int peer, uint64_t mark);

/** Whether a direct store would overtake operations before a fence. */
static inline bool pgasi_ucx_must_wait(const pgasi_ucx_ctx_t *ctx)
{
    return PGAS_UNLIKELY(ctx->n_fences > 0);
}

/** A part of a flush has ended. */
void pgasi_ucx_part_done(pgasi_ucx_flush_t *flush, pgas_status_t status);
void pgasi_ucx_deactivate_if_clean(pgasi_ucx_ep_t *ep);

/** The next flush has to flush this endpoint. */
static inline void pgasi_ucx_dirty(pgasi_ucx_ep_t *ep)
{
    if (!ep->dirty)
        pgasi_ucx_activate(ep);
}

/* am.c */
pgas_status_t pgasi_ucx_am(pgasi_tp_ctx_t *ctx, int peer, const void *header, size_t header_bytes,
                           const void *data, size_t bytes, pgasi_tp_comp_t *comp);

/* journal.c */
void pgasi_ucx_journal_init(pgasi_ucx_ep_t *ep);
pgas_status_t pgasi_ucx_journal_am(pgasi_ucx_ep_t *ep, const void *header, size_t header_bytes,
                                   const void *data, size_t bytes, pgasi_tp_comp_t *comp);
pgas_status_t pgasi_ucx_journal_put(pgasi_ucx_ep_t *ep, pgasi_ucx_key_t *key, uint64_t remote_addr,
                                    const void *src, size_t bytes, pgasi_tp_comp_t *comp);
pgas_status_t pgasi_ucx_journal_get(pgasi_ucx_ep_t *ep, pgasi_ucx_key_t *key, uint64_t remote_addr,
                                    void *dst, size_t bytes, pgasi_tp_comp_t *comp);
/** To be called before an atomic.
 *  @return PGAS_OK
 *          PGAS_ERR_AGAIN  the journal is full, or the connection is down */
pgas_status_t pgasi_ucx_journal_may_post(pgasi_ucx_ep_t *ep);
/** A non-fetching atomic was issued. */
void pgasi_ucx_journal_posted(pgasi_ucx_ep_t *ep);
/** Adds a part to the flush, which ends when all entries so far have arrived.
 *  @return false: they have arrived already */
bool pgasi_ucx_journal_flush(pgasi_ucx_ep_t *ep, pgasi_ucx_flush_t *flush);
/** Keeps the packed form of a key, for another connection. */
pgas_status_t pgasi_ucx_journal_key(pgasi_ucx_key_t *key, const void *packed, size_t bytes);
void pgasi_ucx_journal_forget_key(pgasi_ucx_key_t *key);
/** The connection is lost. */
void pgasi_ucx_journal_lost(pgasi_ucx_ep_t *ep, ucs_status_t status);
/** Reopens lost connections and ends operations to dead peers. Not to be called inside callbacks of
 *  UCX. */
int pgasi_ucx_repair(pgasi_ucx_ctx_t *ctx);
/** Initialises the context's pools of entries. */
void pgasi_ucx_journal_pools(pgasi_ucx_ctx_t *ctx);
/** Connects an endpoint, for the first time or again. */
ucs_status_t pgasi_ucx_connect(pgasi_ucx_ep_t *ep);

/* am_recv.c */
pgas_status_t pgasi_ucx_rx_open(pgasi_ucx_ctx_t *ctx);
/** Stops the delivery of messages and returns UCX's memory to it. rx_close follows after the worker
 *  was destroyed. */
void pgasi_ucx_rx_stop(pgasi_ucx_ctx_t *ctx);
void pgasi_ucx_rx_close(pgasi_ucx_ctx_t *ctx);
/** Delivers messages of the own rank that arrived outside of progress. @return how many */
int pgasi_ucx_rx_deliver(pgasi_ucx_ctx_t *ctx);
uint32_t pgasi_ucx_journal_arrived(pgasi_tp_ctx_t *ctx, int peer, pgasi_tp_comp_t *comp);
void pgasi_ucx_am_release(pgasi_tp_ctx_t *ctx, void *data);

#endif
