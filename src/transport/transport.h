/** The interface between libpgas and a network: one ops table, filled with refusals, overlaid by
 *  backends.
 *
 *  A transport instance (`pgasi_tp_t`) belongs to one rank. It has contexts. Context 0 is the
 *  service context, whose address peers use; further contexts only initiate. The caller ensures
 *  that one thread at a time uses a context; several threads may use several contexts at one time.
 *  Peers are named by rank. Endpoints open on first use.
 *
 *  Completion: an operation returns PGAS_OK when it is locally complete (the buffer is reusable;
 *  for get and fetching atomics: the result is stored). It returns PGAS_INPROGRESS when it was
 *  accepted: `comp->fn` will run once, inside progress() of the same context. Otherwise it returns
 *  an error (PGAS_ERR_AGAIN: nothing has happened; progress and try again). `comp` may be NULL:
 *  then only a flush reports the completion. Only a flush reports the remote completion of puts and
 *  non-fetching atomics. A callback may issue operations, but never calls progress(). */
#ifndef PGASI_TRANSPORT_H
#define PGASI_TRANSPORT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include "pgas/status.h"

typedef struct pgasi_tp pgasi_tp_t;
typedef struct pgasi_tp_ctx pgasi_tp_ctx_t;
typedef struct pgasi_tp_mem pgasi_tp_mem_t; /* registered or allocated memory of this rank */
typedef struct pgasi_tp_key pgasi_tp_key_t; /* a peer's memory as one context sees it */

typedef struct pgasi_tp_comp {
    void (*fn)(struct pgasi_tp_comp *self, pgas_status_t status);
    /* For messages: a transport that may repeat messages does not copy their data, not even small
     * ones. The data must not change until fn runs or am_arrived is called. */
    bool in_place;
    /* For puts: the transport does not repeat one after the loss of a connection, because the peer
     * may have used the memory for other data meanwhile. If the transport cannot know whether such
     * a put has arrived, the put ends with PGAS_ERR_TRANSPORT. */
    bool once;
} pgasi_tp_comp_t;

/** The parts of an operation, such as a flush of several endpoints. The operation completes when
 *  all parts have completed. pgasi_tp_parts_begin counts one part that belongs to the caller, so
 *  the operation cannot complete while the caller still adds parts; pgasi_tp_parts_end is followed
 *  by the end of that part. */
typedef struct {
    pgasi_tp_comp_t *comp; /* NULL: no completion is called */
    pgas_status_t status;  /* of a part that failed */
    size_t n;
} pgasi_tp_parts_t;

static inline void pgasi_tp_parts_begin(pgasi_tp_parts_t *parts)
{
    *parts = (pgasi_tp_parts_t){ .n = 1 };
}

/** A part has ended. @return whether it was the last one */
static inline bool pgasi_tp_parts_done(pgasi_tp_parts_t *parts, pgas_status_t status)
{
    if (status != PGAS_OK)
        parts->status = status;
    return --parts->n == 0;
}

/** All parts have been added.
 *  @return what the operation returns: PGAS_INPROGRESS if `comp` will be called, otherwise its
 *          status */
static inline pgas_status_t pgasi_tp_parts_end(pgasi_tp_parts_t *parts, pgasi_tp_comp_t *comp)
{
    if (parts->n == 1)
        return parts->status;
    parts->comp = comp;
    return PGAS_INPROGRESS;
}

typedef enum {
    PGASI_TP_PUT = 1u << 0,
    PGASI_TP_GET = 1u << 1,
    PGASI_TP_AMO = 1u << 2, /* atomic with CPU atomics on the same word */
    PGASI_TP_AM = 1u << 3,
    /* mem_alloc gives memory that key_map can map at same-host peers */
    PGASI_TP_MEM_ALLOC = 1u << 4,
    PGASI_TP_WAKEUP = 1u << 5 /* event_fd and arm work */
} pgasi_tp_cap_t;

/** Atomic operations that every transport has, on words of 4 and 8 bytes. */
typedef enum {
    PGASI_AMO_ADD,
    PGASI_AMO_AND,
    PGASI_AMO_OR,
    PGASI_AMO_XOR,
    PGASI_AMO_SWAP,
    PGASI_AMO_CSWAP
} pgasi_amo_t;

/** Whether the arguments of an atomic operation are valid: 4 or 8 bytes, aligned, a known operator;
 *  SWAP and CSWAP need a result. */
static inline bool pgasi_amo_is_valid(pgasi_amo_t op, size_t bytes, uint64_t addr,
                                      const void *result)
{
    return (unsigned)op <= PGASI_AMO_CSWAP && (bytes == 4 || bytes == 8) && addr % bytes == 0 &&
           (result || op < PGASI_AMO_SWAP);
}

/* __atomic_compare_exchange_n leaves the word's value in compare if the two differ. */
#define PGASI_AMO_APPLY(bits)                                                                 \
    static inline uint##bits##_t pgasi_amo_apply_##bits(uint##bits##_t *word, pgasi_amo_t op, \
                                                        uint##bits##_t operand,               \
                                                        uint##bits##_t compare)               \
    {                                                                                         \
        switch (op) {                                                                         \
        case PGASI_AMO_ADD:                                                                   \
            return __atomic_fetch_add(word, operand, __ATOMIC_SEQ_CST);                       \
        case PGASI_AMO_AND:                                                                   \
            return __atomic_fetch_and(word, operand, __ATOMIC_SEQ_CST);                       \
        case PGASI_AMO_OR:                                                                    \
            return __atomic_fetch_or(word, operand, __ATOMIC_SEQ_CST);                        \
        case PGASI_AMO_XOR:                                                                   \
            return __atomic_fetch_xor(word, operand, __ATOMIC_SEQ_CST);                       \
        case PGASI_AMO_SWAP:                                                                  \
            return __atomic_exchange_n(word, operand, __ATOMIC_SEQ_CST);                      \
        case PGASI_AMO_CSWAP:                                                                 \
            __atomic_compare_exchange_n(word, &compare, operand, false, __ATOMIC_SEQ_CST,     \
                                        __ATOMIC_SEQ_CST);                                    \
            return compare;                                                                   \
        }                                                                                     \
        return 0;                                                                             \
    }
PGASI_AMO_APPLY(32)
PGASI_AMO_APPLY(64)
#undef PGASI_AMO_APPLY

/** Stores the old value of a word of 4 or 8 bytes as the result of an operation. result NULL: it is
 *  not wanted. */
static inline void pgasi_amo_store(void *result, size_t bytes, uint64_t old)
{
    uint32_t old_32 = (uint32_t)old;
    if (result && bytes == 4)
        memcpy(result, &old_32, 4);
    else if (result)
        memcpy(result, &old, 8);
}

/** Applies an operation to a word of 4 or 8 bytes by an instruction of this CPU.
 *  @return the old value */
static inline uint64_t pgasi_amo_apply(void *word, pgasi_amo_t op, size_t bytes, uint64_t operand,
                                       uint64_t compare)
{
    if (bytes == 4)
        return pgasi_amo_apply_32((uint32_t *)word, op, (uint32_t)operand, (uint32_t)compare);
    return pgasi_amo_apply_64((uint64_t *)word, op, operand, compare);
}

#define PGASI_TP_ALL_PEERS     (-1)
#define PGASI_TP_AM_HEADER_MAX 32
#define PGASI_TP_KEY_MAX       512 /* the most bytes of a packed key */

/** An incoming active message. header and data are valid during the callback. If the callback
 *  returns true it has kept `data`, which stays valid until am_release(context, data). A backend
 *  that receives data in temporary memory copies them first, unless the consumer has set
 *  `am_in_passing`. The data of a large message are complete, even if they arrived in pieces. The
 *  contents are not trusted: the consumer checks the job key, sizes and numbers. */
typedef struct pgasi_tp_am {
    const void *header;
    size_t header_bytes;
    void *data;
    size_t data_bytes;
    /* the rank that sent it: in range, but not proven: a hostile process may send a wrong one */
    int source;
} pgasi_tp_am_t;

typedef bool (*pgasi_tp_am_fn_t)(void *arg, const pgasi_tp_am_t *am);
typedef void (*pgasi_tp_error_fn_t)(void *arg, int peer, pgas_status_t status);

/** A connection to a peer was lost, and the transport asks whether the rank has died. Runs inside
 *  progress() of any context.
 *  @return true   the transport gives up the peer and calls error_fn
 *          false  the rank is alive, or its state is not known yet. Then the transport reopens the
 *          connection if it can, and the owner calls peer_dead when it learns of the death */
typedef bool (*pgasi_tp_suspect_fn_t)(void *arg, int peer);

typedef struct {
    int rank, n_ranks;
    /* some off-node peers share this host (fake nodes): open shared memory transports */
    bool same_host_peers;
    bool same_host_only; /* and no peer is on another host: no network is needed */
    /* larger incoming active messages are dropped, counted and logged once */
    size_t am_data_max;
    pgasi_tp_am_fn_t am_fn; /* runs inside progress() of context 0 */
    /* am_fn never keeps data: they may stay where they arrived, at any alignment */
    bool am_in_passing;
    /* From now on operations to this peer end with the status. May be NULL. */
    pgasi_tp_error_fn_t error_fn;
    pgasi_tp_suspect_fn_t suspect_fn; /* a connection was lost; NULL: the peer counts as dead */
    /* distance from this rank's CPUs to an RDMA device, 0 is near; NULL: not known */
    int (*device_distance)(const char *name);
    void *arg; /* first argument of am_fn, error_fn and suspect_fn */
} pgasi_tp_opts_t;

typedef struct {
    char name[32];    /* "ucx" */
    char detail[128]; /* version and devices, for pgas_info */
    uint32_t caps;    /* pgasi_tp_cap_t */
    /* longest active message that is sent without keeping a copy (it mostly completes at once) */
    size_t am_inline_max;
    /* Active messages of up to this many bytes transfer memory faster than gets. It may be more
     * than am_data_max. 0: gets are faster. */
    size_t am_bulk_max;
    size_t ctx_bytes;     /* estimate of memory of one context */
    size_t peer_bytes;    /* estimate of memory of one open endpoint */
    size_t receive_bytes; /* the most that context 0 reserves for incoming messages */
} pgasi_tp_attr_t;

typedef struct pgasi_tp_ops {
    pgas_status_t (*open)(const pgasi_tp_opts_t *opts, pgasi_tp_t **tp_p);
    /* called after all contexts are closed; the caller orders it among ranks */
    void (*close)(pgasi_tp_t *tp);
    void (*query)(pgasi_tp_t *tp, pgasi_tp_attr_t *attr_p);
    /** The address of context 0: valid until close. */
    pgas_status_t (*address)(pgasi_tp_t *tp, const void **addr_p, size_t *bytes_p);
    /** addr_of(rank) is called when an endpoint opens. The caller keeps addresses alive until
     *  close. */
    pgas_status_t (*set_peers)(pgasi_tp_t *tp, const void *(*addr_of)(void *arg, int rank),
                               void *arg);

    /* index 0: the service context */
    pgas_status_t (*ctx_open)(pgasi_tp_t *tp, int index, pgasi_tp_ctx_t **ctx_p);
    /** Begins, and continues, to complete all operations of a context and to close its endpoints,
     *  without waiting. Nothing is issued on it from now on. The peers may have to progress their
     *  context 0, so drain all contexts at one time, and progress context 0 meanwhile.
     *  @return PGAS_INPROGRESS  progress the context and call again
     *          otherwise        ctx_close has nothing left to wait for */
    pgas_status_t (*ctx_drain)(pgasi_tp_ctx_t *ctx);
    /** Closes the context, and must always be called. It drains a context that was not drained
     *  before, within a time limit also when peers are dead. Operations that are not complete by
     *  then are given up: their callbacks do not run if the caller gave up the drain. */
    void (*ctx_close)(pgasi_tp_ctx_t *ctx);

    pgas_status_t (*mem_alloc)(pgasi_tp_t *tp, size_t bytes, pgasi_tp_mem_t **mem_p, void **addr_p);
    pgas_status_t (*mem_register)(pgasi_tp_t *tp, void *addr, size_t bytes, pgasi_tp_mem_t **mem_p);
    void (*mem_release)(pgasi_tp_t *tp, pgasi_tp_mem_t *mem);
    pgas_status_t (*key_pack)(pgasi_tp_t *tp, pgasi_tp_mem_t *mem, void *buffer, size_t *bytes_io);
    pgas_status_t (*key_unpack)(pgasi_tp_ctx_t *ctx, int peer, const void *buffer, size_t bytes,
                                pgasi_tp_key_t **key_p);
    /** Gives an address at which this process loads and stores the peer's memory, valid until
     *  key_release. @return PGAS_ERR_UNSUPPORTED: there is none */
    pgas_status_t (*key_map)(pgasi_tp_key_t *key, uint64_t remote_addr, void **addr_p);
    void (*key_release)(pgasi_tp_key_t *key);

    pgas_status_t (*put)(pgasi_tp_ctx_t *ctx, int peer, pgasi_tp_key_t *key, uint64_t remote_addr,
                         const void *src, size_t bytes, pgasi_tp_comp_t *comp);
    pgas_status_t (*get)(pgasi_tp_ctx_t *ctx, int peer, pgasi_tp_key_t *key, uint64_t remote_addr,
                         void *dst, size_t bytes, pgasi_tp_comp_t *comp);
    /** bytes is 4 or 8. result NULL: not fetching (only ADD, AND, OR, XOR). CSWAP stores `operand`
     *  if the word equals `compare`; *result becomes the old word. The operation may write result
     *  until it is complete. */
    pgas_status_t (*amo)(pgasi_tp_ctx_t *ctx, int peer, pgasi_tp_key_t *key, uint64_t remote_addr,
                         pgasi_amo_t op, size_t bytes, uint64_t operand, uint64_t compare,
                         void *result, pgasi_tp_comp_t *comp);
    /** Sends a message to the peer's am_fn. header, up to PGASI_TP_AM_HEADER_MAX, is copied at
     *  once; data belong to the caller until completion. Messages of one context to one peer arrive
     *  in the order of issue, with any sizes; those of different contexts in any order. A flush
     *  does not imply that they were executed. */
    pgas_status_t (*am)(pgasi_tp_ctx_t *ctx, int peer, const void *header, size_t header_bytes,
                        const void *data, size_t bytes, pgasi_tp_comp_t *comp);
    /** Tells the transport that all messages with this completion have arrived at the peer. The
     *  transport does not read their data any more, not even if it repeats them after the loss of
     *  a connection. @return the number of their completions, which will not run */
    uint32_t (*am_arrived)(pgasi_tp_ctx_t *ctx, int peer, pgasi_tp_comp_t *comp);
    /** Puts and atomics before it become visible at each peer before those after it. */
    pgas_status_t (*fence)(pgasi_tp_ctx_t *ctx);
    /** Completes when all puts and atomics issued on the context to peer (or PGASI_TP_ALL_PEERS)
     *  are visible there. */
    pgas_status_t (*flush)(pgasi_tp_ctx_t *ctx, int peer, pgasi_tp_comp_t *comp);

    int (*progress)(pgasi_tp_ctx_t *ctx); /* @return > 0: something happened */
    pgas_status_t (*event_fd)(pgasi_tp_ctx_t *ctx, int *fd_p);
    /* @return PGAS_ERR_BUSY: events wait, so progress first */
    pgas_status_t (*arm)(pgasi_tp_ctx_t *ctx);
    /* Makes event_fd readable. Any thread may call it. */
    pgas_status_t (*wake)(pgasi_tp_ctx_t *ctx);
    void (*am_release)(pgasi_tp_ctx_t *ctx,
                       void *data); /* called by the thread that uses the context */
    /** The owner knows that a peer has died. Operations to it, in flight or issued later, end with
     *  PGAS_ERR_PEER; those in flight inside the next progress() of their context. Any thread may
     *  call it, more than once. */
    void (*peer_dead)(pgasi_tp_t *tp, int peer);
} pgasi_tp_ops_t;

/** The first member of every backend's instance, context and key, so that a call needs no further
 *  look-up. */
struct pgasi_tp {
    const pgasi_tp_ops_t *ops;
};
struct pgasi_tp_ctx {
    const pgasi_tp_ops_t *ops;
};
struct pgasi_tp_key {
    const pgasi_tp_ops_t *ops;
    /* Loads, stores and __atomic builtins at key_map's address may replace put, get and amo. A
     * fence orders loads and stores among themselves, and put, get and amo among themselves. A
     * flush orders both kinds. */
    bool direct;
};

/** A table in which every entry refuses with PGAS_ERR_UNSUPPORTED (and does nothing, for void
 *  entries). */
extern const pgasi_tp_ops_t pgasi_tp_refusals;

/** Finds the table of a transport by name ("ucx", "verbs", "loopback"). Missing entries are
 *  refusals, never NULL. @return NULL: no such transport */
const pgasi_tp_ops_t *pgasi_tp_find(const char *name);

/** Whether there is a transport of that name. Its code and its libraries stay untouched. */
bool pgasi_tp_exists(const char *name);

/** The tables of backends that were built in; registry.c lists them. */
const pgasi_tp_ops_t *pgasi_ucx_ops(void);
const pgasi_tp_ops_t *pgasi_loopback_ops(void);
const pgasi_tp_ops_t *pgasi_verbs_ops(void);

/** Wraps a table with fault injection as PGAS_FAULT says (see fault.h).
 *  @return ops itself  the text is empty
 *          NULL        the text is invalid; why says so */
const pgasi_tp_ops_t *pgasi_tp_fault_wrap(const pgasi_tp_ops_t *ops, const char *text,
                                          uint64_t seed, char *why, size_t why_bytes);

#endif
