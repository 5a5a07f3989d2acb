/** Inside of the UCX backend: one context per rank, one worker per context, endpoints by (context,
 *  peer) on first use.
 *
 *  Hot paths cost one call into UCX and a handful of instructions: keys know their endpoint,
 *  requests carry our three words in front (request_size), nothing is allocated for an operation
 *  that completes at once. All waiting lists are bounded; what does not fit is refused with
 *  PGAS_ERR_AGAIN. A context's fields belong to the thread that uses the context; only `dead` marks
 *  are written by others. */
#ifndef PGASI_UCX_H
#define PGASI_UCX_H

#include <pthread.h>
#include <string.h>
#include <ucp/api/ucp.h>
#include "base/checks.h"
#include "base/clock.h"
#include "base/pool.h"
#include "transport/transport.h"

#define PGASI_UCX_CTXS_MAX 1024
/* requests that UCX may hold for a context before we say AGAIN */
#define PGASI_UCX_PENDING_MAX 4096
/* unacknowledged non-fetching atomics per endpoint before we flush by ourselves */
#define PGASI_UCX_POSTS_MAX 4096
/* messages that may overtake one that is still under way to the same peer */
#define PGASI_UCX_AHEAD_MAX   1024
#define PGASI_UCX_AHEAD_BYTES (4u << 20)
/* a sequence number further ahead than this is no message of ours */
#define PGASI_UCX_REORDER_MAX 8192
#define PGASI_UCX_EAGER_MAX   7680 /* what one UCX segment of 8 KiB holds beside all headers */
#define PGASI_UCX_CLOSE_NS    PGASI_NS_PER_S /* for draining a context by itself */

#define PGASI_UCX_GIVE_UP_S 20 /* for opening a lost connection again */

/* flags of a peer */
#define PGASI_UCX_DEAD     1
#define PGASI_UCX_REOPENED 2 /* a connection to it was lost although it is alive; logged */

typedef struct pgasi_ucx pgasi_ucx_t;
typedef struct pgasi_ucx_ctx pgasi_ucx_ctx_t;
typedef struct pgasi_ucx_ep pgasi_ucx_ep_t;
typedef struct pgasi_ucx_rx pgasi_ucx_rx_t;
typedef struct pgasi_ucx_flush pgasi_ucx_flush_t;
typedef struct pgasi_ucx_key pgasi_ucx_key_t;
typedef struct pgasi_ucx_entry pgasi_ucx_entry_t;
typedef struct pgasi_ucx_flush_part pgasi_ucx_flush_part_t;

#define PGASI_UCX_RANK_BITS 20
/* a context that is closed and opened again numbers its messages from zero */
#define PGASI_UCX_OPENINGS    4
#define PGASI_UCX_AM_LONG     17 /* ids of the two forms of messages */
#define PGASI_UCX_AM_COMPACT  18
#define PGASI_UCX_NUMBER_BITS 15 /* of a compact prefix; twice PGASI_UCX_REORDER_MAX must fit */

/** What stands before a user's header in every active message: who sent it, and its number among
 *  those of that context to that peer, xor the receiver's cookie, which its address tells: what
 *  comes from another job has an impossible number.
 *
 *  The compact form is the second word alone, source and the last bits of the number in one. It is
 *  used where the source fits into 17 bits (up to 2 ranks of 8192 contexts, 1024 of 32, and so on),
 *  so that a short call and all its headers stay in one cache line of UCX's shared-memory
 *  queues. */
typedef struct {
    /* rank in the low 20 bits, above it the context, and in two bits which opening of it */
    uint32_t source;
    uint32_t number;
} pgasi_ucx_am_prefix_t;

/* What a context calls itself in messages of its n-th opening. */
static inline uint32_t pgasi_ucx_source(int rank, int ctx, unsigned n)
{
    return (uint32_t)rank | ((uint32_t)ctx * PGASI_UCX_OPENINGS + n % PGASI_UCX_OPENINGS)
                                << PGASI_UCX_RANK_BITS;
}

/** An active message that UCX has not finished; the header must stay until then. */
typedef struct pgasi_ucx_send {
    struct {
        pgasi_ucx_am_prefix_t prefix;
        unsigned char user[PGASI_TP_AM_HEADER_MAX];
    } header;
    pgasi_ucx_ep_t *ep;
    /* flushes with a larger mark wait for this message; 0: it has a completion of its own */
    uint64_t flush_mark;
} pgasi_ucx_send_t;

/** Ours, at the start of every UCX request; written when an operation does not complete at once. */
typedef struct pgasi_ucx_request {
    pgasi_ucx_ctx_t *ctx;
    pgasi_tp_comp_t *comp;
    void *extra;     /* send, part of a flush, or entry of a journal */
    uint32_t n_lost; /* of the endpoint, when an entry was issued */
    /* fetching atomics of an endpoint; back NULL: not in its list */
    struct pgasi_ucx_request *next, **back;
} pgasi_ucx_request_t;

/** Operations of an endpoint that are not acknowledged yet; journal.c. */
typedef struct {
    /* the endpoint has one: its peer is another rank, behind a connection that may be lost */
    bool on;
    bool doubtful; /* atomics were in flight on a lost connection: the next flush reports */
    enum { PGASI_UCX_LINK_UP, PGASI_UCX_LINK_LOST, PGASI_UCX_LINK_DOWN, PGASI_UCX_LINK_ENDED } link;
    uint32_t n_lost;     /* connections */
    ucs_status_t why;    /* reason of the last loss */
    uint32_t n_entries;  /* in the list */
    uint32_t n_requests; /* of entries that UCX holds */
    size_t bytes;        /* memory that the entries of the list occupy, here or at the peer */
    uint64_t issued;     /* number of the last entry */
    /* all entries up to this number have arrived, but for messages that UCX holds */
    uint64_t acked;
    uint64_t asked;  /* the flush in flight acknowledges up to this; acked: none is */
    uint64_t wanted; /* highest number that a caller waits for */
    pgasi_ucx_entry_t *first, **last;
    pgasi_ucx_entry_t *gets, **last_get;
    pgasi_ucx_flush_part_t *marks; /* flushes that wait for a number, oldest first */
    pgasi_ucx_key_t *keys;
    uint64_t since_ns; /* the connection has not worked since then */
    uint64_t retry_ns; /* when to open it again */
    uint64_t pause_ns;
} pgasi_ucx_journal_t;

struct pgasi_ucx_ep {
    ucp_ep_h ep;
    pgasi_ucx_ctx_t *ctx;
    int peer;
    bool dead;     /* set by any thread, relaxed */
    bool used;     /* something was ever issued, messages apart */
    bool dirty;    /* puts or atomics since the last flush began */
    bool active;   /* in the context's list: dirty or being flushed */
    int n_flushes; /* under way */
    uint32_t am_source;
    bool am_compact; /* am_source is the compact one */
    uint32_t am_number;
    uint32_t am_cookie;
    uint32_t n_am_pending; /* messages that UCX holds */
    uint32_t n_am_flushed; /* those of them that have no completion of their own */
    uint32_t n_am_ahead;   /* messages issued since n_am_pending left zero */
    size_t am_ahead_bytes;
    uint32_t n_posts; /* non-fetching atomics since the last flush of ours began */
    bool posts_flushing;
    pgasi_ucx_request_t *fetches; /* fetching atomics under way */
    pgasi_tp_comp_t posts_comp;
    pgasi_ucx_ep_t *active_next, **active_back;
    pgasi_ucx_ep_t *next; /* all endpoints of the context */
    void *close_request;
    pgasi_ucx_journal_t journal;
};

/* why a message that comes in now has to wait (one to ourselves) or is not wanted */
#define PGASI_UCX_GATE_IDLE    1u /* not inside progress() */
#define PGASI_UCX_GATE_SHOWING 2u /* inside am_fn */
#define PGASI_UCX_GATE_STOPPED 4u

/** A flush under way. */
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
    uint64_t number; /* of the last entry of the journal that it waits for */
    pgasi_ucx_flush_part_t *next;
};

struct pgasi_ucx_ctx {
    pgasi_tp_ctx_t super;
    pgasi_ucx_t *tp;
    int index;
    ucp_worker_h worker;
    pgasi_ucx_ep_t **eps; /* n_ranks pointers, touched where used */
    pgasi_ucx_ep_t *all_eps;
    pgasi_ucx_ep_t *active_eps;
    enum { PGASI_UCX_OPEN, PGASI_UCX_DRAINING, PGASI_UCX_CLOSING, PGASI_UCX_GIVEN_UP } phase;
    pgasi_tp_comp_t drain_comp; /* its fn NULL: the flush has ended */
    size_t n_closing;           /* endpoints that UCX is closing */
    size_t n_pending;           /* requests that UCX holds */
    pgasi_ucx_send_t *spare;
    pgasi_pool_t sends;
    bool stored_directly; /* since the last fence or flush */
    bool has_direct;      /* keys of other ranks' memory that is mapped */
    uint32_t n_fences;    /* fences that direct stores still have to wait for */
    pgasi_tp_comp_t fence_comp;
    size_t n_flushed_sends; /* pending messages without a completion of their own */
    uint64_t flush_mark;
    pgasi_pool_t flushes;
    pgasi_pool_t flush_parts;
    pgasi_pool_t small_entries, large_entries; /* of journals */
    pgasi_ucx_flush_t *running;
    pgasi_ucx_rx_t *rx; /* context 0 only */
    uint32_t n_ready;   /* messages that wait only for the next progress */
    unsigned gate;      /* 0: messages may be shown now; else why not (PGASI_UCX_GATE_*) */
    uint32_t fence;     /* counts fences */
    /* some endpoint's connection is not up, or its peer has died; set by any thread */
    uint32_t repairs;
};

struct pgasi_ucx {
    pgasi_tp_t super;
    pgasi_tp_opts_t opts;
    ucp_context_h context;
    ucp_err_handling_mode_t err_mode;
    uint32_t caps;
    uint32_t cookie;
    unsigned rank_bits; /* that a rank needs in this job */
    char detail[128];
    const void *(*addr_of)(void *arg, int rank);
    void *addr_arg;
    void *address; /* header and UCX address of context 0, one block */
    size_t address_bytes;
    unsigned char *dead; /* n_ranks: PGASI_UCX_DEAD, PGASI_UCX_REOPENED */
    bool closing;
    int warned_key;
    int told_files;       /* logged: no file is left for a connection */
    int told_ctx;         /* logged: a context could not be opened */
    int told_connect;     /* logged: a connection could not be opened */
    pthread_mutex_t lock; /* contexts */
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
    void *mapped; /* where we can reach base by load and store, or NULL */
    bool unmap;   /* it is a mapping of this key's own */
    void *packed; /* UCX's part as it came, for another connection; NULL without a journal */
    pgasi_ucx_key_t *next, **back;
};

/** The address that peers get: UCX's own follows. */
typedef struct {
    uint32_t magic;
    uint32_t cookie;
} pgasi_ucx_address_t;

#define PGASI_UCX_ADDRESS_MAGIC 0x31415855u

/* casts from the table's types: each of ours begins with them */
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

/** Copy a few bytes; a call to memcpy costs more than that. */
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
/** Translate a failure of set-up and log it with what we were doing and the cure. */
pgas_status_t pgasi_ucx_failed(ucs_status_t status, const char *doing, const char *cure);
/** The same, but only the first of all failures with this flag is logged: the caller may try
 *  again. */
pgas_status_t pgasi_ucx_failed_again(int *told, ucs_status_t status, const char *doing,
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
/** Begin to close all endpoints of the context; n_closing are on their way then. */
void pgasi_ucx_eps_begin_close(pgasi_ucx_ctx_t *ctx);
/** Wait no longer for those that are on their way. */
void pgasi_ucx_eps_give_up(pgasi_ucx_ctx_t *ctx);
/** After the worker is destroyed. */
void pgasi_ucx_eps_free(pgasi_ucx_ctx_t *ctx);
/** Mark a peer as dead on all contexts. */
void pgasi_ucx_peer_dead(pgasi_tp_t *tp, int peer);
/** The same; logs and tells the owner the first time. */
void pgasi_ucx_peer_gone(pgasi_ucx_t *tp, int peer, const char *why);

/** Log that a lost connection was reopened, or cannot be; the latter also goes to the owner's
 *  error_fn. */
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
                            uint64_t remote_addr, pgas_amo_t op, size_t bytes, uint64_t operand,
                            uint64_t compare, void *result, pgasi_tp_comp_t *comp);
/** Fail the fetching atomics of an endpoint, which UCX forgets when it fails. */
void pgasi_ucx_fail_fetches(pgasi_ucx_ep_t *ep, pgas_status_t status);
/** Fail only those that were issued on former connections. */
void pgasi_ucx_fail_old_fetches(pgasi_ucx_ep_t *ep, pgas_status_t status);
/** The callback of puts and gets. */
void pgasi_ucx_op_done(void *request, ucs_status_t status, void *unused);

/** Call what was given with an operation; not of a context that is given up, where it may be
 *  gone. */
static inline void pgasi_ucx_tell(const pgasi_ucx_ctx_t *ctx, pgasi_tp_comp_t *comp,
                                  pgas_status_t status)
{
    if (comp && ctx->phase != PGASI_UCX_GIVEN_UP)
        comp->fn(comp, status);
}

/** Turn what UCX returned for an operation into a status; keeps what the callback needs. */
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

/** Refuse an operation through a key before UCX sees it. */
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
/** A message without completion of its own is done: flushes may be waiting for it. */
void pgasi_ucx_send_flushed(pgasi_ucx_ctx_t *ctx, int peer, uint64_t mark);

/** Whether a store of our own would overtake what a fence put before it. */
static inline bool pgasi_ucx_must_wait(const pgasi_ucx_ctx_t *ctx)
{
    return PGAS_UNLIKELY(ctx->n_fences > 0);
}

/** One part of a flush has ended. */
void pgasi_ucx_part_done(pgasi_ucx_flush_t *flush, pgas_status_t status);
void pgasi_ucx_deactivate_if_clean(pgasi_ucx_ep_t *ep);

/** Remember that a flush has something to do. */
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
/** Before an atomic: PGAS_ERR_AGAIN if the journal is full, or the connection is not up. */
pgas_status_t pgasi_ucx_journal_may_post(pgasi_ucx_ep_t *ep);
/** A non-fetching atomic was issued. */
void pgasi_ucx_journal_posted(pgasi_ucx_ep_t *ep);
/** Adds a part to the flush that ends when all entries so far have arrived. False: they have
 *  already. */
bool pgasi_ucx_journal_flush(pgasi_ucx_ep_t *ep, pgasi_ucx_flush_t *flush);
/** Remember how to unpack a key for another connection. */
pgas_status_t pgasi_ucx_journal_key(pgasi_ucx_key_t *key, const void *packed, size_t bytes);
void pgasi_ucx_journal_forget_key(pgasi_ucx_key_t *key);
/** The connection is lost. */
void pgasi_ucx_journal_lost(pgasi_ucx_ep_t *ep, ucs_status_t status);
/** Reopens lost connections and ends operations to dead peers. Not inside callbacks of UCX. */
int pgasi_ucx_repair(pgasi_ucx_ctx_t *ctx);
/** The context's pools of entries. */
void pgasi_ucx_journal_pools(pgasi_ucx_ctx_t *ctx);
/** Connect an endpoint, for the first time or again. */
ucs_status_t pgasi_ucx_connect(pgasi_ucx_ep_t *ep);

/* am_recv.c */
pgas_status_t pgasi_ucx_rx_open(pgasi_ucx_ctx_t *ctx);
/** Show nothing from now on, and give UCX its memory back; close comes after the worker is
 *  destroyed. */
void pgasi_ucx_rx_stop(pgasi_ucx_ctx_t *ctx);
void pgasi_ucx_rx_close(pgasi_ucx_ctx_t *ctx);
/** Deliver what came in while nobody was allowed to look (messages to oneself). */
int pgasi_ucx_rx_deliver(pgasi_ucx_ctx_t *ctx);
void pgasi_ucx_am_release(pgasi_tp_ctx_t *ctx, void *data);

#endif
