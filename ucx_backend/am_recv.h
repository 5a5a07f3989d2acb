/** Receiving active messages: the declarations that am_recv.c (receives and delivers) and sources.c
 *  (senders, and messages that wait for their turn) share. */
#ifndef PGASI_UCX_AM_RECV_H
#define PGASI_UCX_AM_RECV_H

#include "ucx_backend/buffers.h"
#include "ucx_backend/ucx.h"

/** A message that waits for its data, for its turn, or for both. */
typedef struct held {
    struct held *next;
    pgasi_ucx_ctx_t *ctx; /* that receives it */
    struct source *source;
    uint32_t number;
    bool complete;
    bool skip;     /* too large or failed: it keeps its place, but is not delivered */
    bool ucx_data; /* data belongs to UCX */
    size_t header_bytes;
    unsigned char header[PGASI_TP_AM_HEADER_MAX];
    void *data;
    size_t bytes;
} pgasi_ucx_held_t;

/** One opening of one context of one peer. */
typedef struct source {
    uint32_t next_number;
    int rank;
    bool seen; /* a message has arrived since the place was given to this opening */
    pgasi_ucx_ctx_t *ctx;
    pgasi_ucx_held_t *held;
} pgasi_ucx_source_t;

typedef struct {
    uint32_t n_sources;
    pgasi_ucx_source_t
        *sources[]; /* by context and opening; each is allocated with its first message */
} pgasi_ucx_sender_t;

struct pgasi_ucx_rx {
    pgasi_tp_am_fn_t am_fn; /* these fields are needed by every message */
    void *arg;
    size_t data_max;
    bool in_passing;
    uint32_t cookie;
    uint32_t rank_mask;
    uint32_t last_packed; /* the source of the last message, which is mostly the next one's, too */
    pgasi_ucx_source_t *last;
    pgasi_ucx_buffers_t buffers;
    pgasi_pool_t held;
    pgasi_ucx_sender_t **senders; /* by rank */
    uint64_t n_dropped, n_too_large;
};

/** Whether senders repeat messages after the loss of a connection (journal.c). */
static inline bool pgasi_ucx_repeats(const pgasi_ucx_ctx_t *ctx)
{
    return ctx->tp->err_mode == UCP_ERR_HANDLING_MODE_PEER;
}

/* sources.c */
/** Counts a dropped message, and logs the first one. @param source  0: not known */
void pgasi_ucx_drop(pgasi_ucx_rx_t *rx, const char *why, uint32_t source);
/** The source of a message; NULL: there is no such rank or context. */
pgasi_ucx_source_t *pgasi_ucx_find_source(pgasi_ucx_ctx_t *ctx, uint32_t packed);
void pgasi_ucx_free_held(pgasi_ucx_ctx_t *ctx, pgasi_ucx_held_t *held, bool with_data);
/** Inserts a message into the list; the caller adds the data.
 *  @return NULL: no memory, or the number is in the list already */
pgasi_ucx_held_t *pgasi_ucx_hold(pgasi_ucx_source_t *source, uint32_t number, const void *header,
                                 size_t header_bytes);

#endif
