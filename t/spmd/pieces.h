/* A wrapper around a transport whose puts arrive in the worst allowed way: late, the last ones
 * first, from their ends, in pieces of a few bytes. But all puts before a fence arrive before those
 * after it, and a word of 8 aligned bytes arrives at once. Put and fence are refused sometimes. The
 * wrapper stores to memory that this process maps, so it works for transports whose keys can be
 * mapped, and passes operations of others on.
 *
 *   pgasi_hooks.wrap_transport = pieces_wrap;      before the job starts
 *   pieces_mode = PIECES_TORN;          any time */
#ifndef T_SPMD_PIECES_H
#define T_SPMD_PIECES_H

#include <stdlib.h>
#include <string.h>
#include "base/rng.h"
#include "mem/ctx.h"
#include "transport/wrap.h"

typedef enum {
    PIECES_WHOLE, /* as they come */
    PIECES_TORN,
    /* forbidden on purpose: of pieces_ctx, puts of words at once, others when the mode changes */
    PIECES_CROSSED
} pieces_mode_t;

/* A put as it was issued, and its bytes. */
typedef struct {
    const char *from;
    size_t bytes;
} pieces_put_t;

#define PIECES_NOTED_MAX 64
static pieces_mode_t pieces_mode;
static int pieces_ctx = -1;
static uint64_t pieces_seed = 1, n_torn, n_fences_torn, n_not_mapped;
/* Puts of the context while pieces_noting is set; and the puts and messages that contain the words
 * sought. */
static bool pieces_noting;
static pieces_put_t pieces_noted[PIECES_NOTED_MAX];
static int n_noted;
static const void *pieces_words;
static size_t pieces_words_bytes;
static int n_with_words;

typedef struct pieces_op {
    struct pieces_op *next;
    char *to;
    const char *from;
    size_t left; /* bytes that have not arrived, the first ones */
    bool word;
    int peer;
    pgasi_tp_comp_t *comp;
} pieces_op_t;

typedef struct {
    pgasi_wrap_ctx_t super;
    int index;
    pgasi_rng_t rng;
    pieces_op_t *pending, *arrived; /* the last one first */
} pieces_ctx_t;

static const pgasi_tp_ops_t *pieces_ops;
static int pieces_rank;
static const pgasi_tp_ops_t pieces_table;

static pgas_status_t pieces_open(const pgasi_tp_opts_t *opts, pgasi_tp_t **tp_p)
{
    pgasi_wrap_t *tp = calloc(1, sizeof *tp);
    if (!tp)
        return PGAS_ERR_NO_MEMORY;
    tp->super.ops = &pieces_table;
    pieces_rank = opts->rank;
    pgas_status_t status = pieces_ops->open(opts, &tp->inner);
    if (status == PGAS_OK)
        *tp_p = &tp->super;
    else
        free(tp);
    return status;
}

static void pieces_close(pgasi_tp_t *tp)
{
    pgasi_tp_t *inner = pgasi_wrap_of(tp)->inner;
    inner->ops->close(inner);
    free(tp);
}

static pgas_status_t pieces_ctx_open(pgasi_tp_t *tp, int index, pgasi_tp_ctx_t **ctx_p)
{
    pieces_ctx_t *ctx = calloc(1, sizeof *ctx);
    if (!ctx)
        return PGAS_ERR_NO_MEMORY;
    ctx->super.super.ops = &pieces_table;
    ctx->super.tp = pgasi_wrap_of(tp);
    ctx->index = index;
    pgasi_rng_seed(&ctx->rng, pieces_seed + (uint64_t)(pieces_rank * 64 + index));
    pgasi_tp_t *inner = pgasi_wrap_of(tp)->inner;
    pgas_status_t status = inner->ops->ctx_open(inner, index, &ctx->super.inner);
    if (status == PGAS_OK)
        *ctx_p = &ctx->super.super;
    else
        free(ctx);
    return status;
}

static pieces_ctx_t *pieces_ctx_of(pgasi_tp_ctx_t *ctx)
{
    return (pieces_ctx_t *)(void *)ctx;
}

/* Delivers some bytes of the end of a put. It reads the source now, not before. */
static void one_piece(pieces_ctx_t *ctx, pieces_op_t *op)
{
    if (op->word) {
        uint64_t word;
        memcpy(&word, op->from, sizeof word);
        __atomic_store_n((uint64_t *)(void *)op->to, word, __ATOMIC_RELEASE);
        op->left = 0;
        return;
    }
    for (uint64_t n = 1 + pgasi_rng_below(&ctx->rng, 8); n > 0 && op->left > 0; n--) {
        op->left--;
        *(volatile char *)(op->to + op->left) = op->from[op->left];
    }
}

/* Delivers all pending puts to a peer, the last one first. */
static void carry_out(pieces_ctx_t *ctx, int peer)
{
    for (pieces_op_t **at = &ctx->pending; *at;) {
        pieces_op_t *op = *at;
        if (peer != PGASI_TP_ALL_PEERS && op->peer != peer) {
            at = &op->next;
            continue;
        }
        while (op->left > 0)
            one_piece(ctx, op);
        *at = op->next;
        op->next = ctx->arrived;
        ctx->arrived = op;
    }
    __atomic_thread_fence(__ATOMIC_RELEASE);
}

static bool is_crossed(const pieces_ctx_t *ctx)
{
    return __atomic_load_n(&pieces_mode, __ATOMIC_RELAXED) == PIECES_CROSSED &&
           ctx->index == pieces_ctx;
}

/* Delivers a few pieces of random puts. */
static void carry_on(pieces_ctx_t *ctx)
{
    for (uint64_t n = pgasi_rng_below(&ctx->rng, 40); n > 0 && ctx->pending; n--) {
        pieces_op_t **at = &ctx->pending;
        while ((*at)->next && pgasi_rng_below(&ctx->rng, 3) == 0)
            at = &(*at)->next;
        one_piece(ctx, *at);
        if ((*at)->left == 0) {
            pieces_op_t *op = *at;
            *at = op->next;
            op->next = ctx->arrived;
            ctx->arrived = op;
        }
    }
}

static void complete_arrived(pieces_ctx_t *ctx)
{
    while (ctx->arrived) {
        pieces_op_t *op = ctx->arrived;
        ctx->arrived = op->next;
        if (op->comp)
            op->comp->fn(op->comp, PGAS_OK);
        free(op);
    }
}

static int pieces_progress(pgasi_tp_ctx_t *tp_ctx)
{
    pieces_ctx_t *ctx = pieces_ctx_of(tp_ctx);
    int n = ctx->super.inner->ops->progress(ctx->super.inner);
    if (!is_crossed(ctx))
        carry_on(ctx);
    complete_arrived(ctx);
    return n;
}

static void pieces_ctx_close(pgasi_tp_ctx_t *tp_ctx)
{
    pieces_ctx_t *ctx = pieces_ctx_of(tp_ctx);
    carry_out(ctx, PGASI_TP_ALL_PEERS);
    complete_arrived(ctx);
    ctx->super.inner->ops->ctx_close(ctx->super.inner);
    free(ctx);
}

static pgas_status_t pieces_ctx_drain(pgasi_tp_ctx_t *tp_ctx)
{
    pieces_ctx_t *ctx = pieces_ctx_of(tp_ctx);
    carry_out(ctx, PGASI_TP_ALL_PEERS);
    pgas_status_t status = pgasi_wrap_ctx_drain(tp_ctx);
    return ctx->arrived ? PGAS_INPROGRESS : status;
}

static void note_source(const pieces_ctx_t *ctx, const void *from, size_t bytes, bool is_put)
{
    if (!__atomic_load_n(&pieces_noting, __ATOMIC_RELAXED) || ctx->index != pieces_ctx)
        return;
    if (is_put && n_noted < PIECES_NOTED_MAX)
        pieces_noted[n_noted++] = (pieces_put_t){ from, bytes };
    n_with_words += memmem(from, bytes, pieces_words, pieces_words_bytes) != NULL;
}

static bool refused(pieces_ctx_t *ctx)
{
    return pgasi_rng_below(&ctx->rng, 8) == 0;
}

static pgas_status_t pieces_put(pgasi_tp_ctx_t *tp_ctx, int peer, pgasi_tp_key_t *key, uint64_t at,
                                const void *from, size_t bytes, pgasi_tp_comp_t *comp)
{
    pieces_ctx_t *ctx = pieces_ctx_of(tp_ctx);
    pgasi_tp_ctx_t *inner = ctx->super.inner;
    pgasi_tp_key_t *inner_key = pgasi_wrap_key(key);
    void *to;
    note_source(ctx, from, bytes, true);
    pieces_mode_t mode = __atomic_load_n(&pieces_mode, __ATOMIC_RELAXED);
    if (mode == PIECES_WHOLE || (mode == PIECES_CROSSED && !is_crossed(ctx)))
        return inner->ops->put(inner, peer, inner_key, at, from, bytes, comp);
    if (inner_key->ops->key_map(inner_key, at, &to) != PGAS_OK) {
        n_not_mapped++;
        return inner->ops->put(inner, peer, inner_key, at, from, bytes, comp);
    }
    pieces_op_t *op = !is_crossed(ctx) && refused(ctx) ? NULL : malloc(sizeof *op);
    if (!op)
        return PGAS_ERR_AGAIN;
    *op = (pieces_op_t){ ctx->pending, to, from, bytes, bytes == 8 && at % 8 == 0, peer, comp };
    n_torn += !op->word;
    if (op->word && is_crossed(ctx)) {
        one_piece(ctx, op);
        op->next = ctx->arrived;
        ctx->arrived = op;
    } else {
        ctx->pending = op;
    }
    return PGAS_INPROGRESS;
}

static pgas_status_t pieces_fence(pgasi_tp_ctx_t *tp_ctx)
{
    pieces_ctx_t *ctx = pieces_ctx_of(tp_ctx);
    if (is_crossed(ctx))
        return PGAS_OK;
    if (ctx->pending && refused(ctx))
        return PGAS_ERR_AGAIN;
    n_fences_torn += ctx->pending != NULL;
    carry_out(ctx, PGASI_TP_ALL_PEERS);
    return ctx->super.inner->ops->fence(ctx->super.inner);
}

static pgas_status_t pieces_flush(pgasi_tp_ctx_t *tp_ctx, int peer, pgasi_tp_comp_t *comp)
{
    pieces_ctx_t *ctx = pieces_ctx_of(tp_ctx);
    if (!is_crossed(ctx))
        carry_out(ctx, peer);
    return ctx->super.inner->ops->flush(ctx->super.inner, peer, comp);
}

static pgas_status_t pieces_get(pgasi_tp_ctx_t *ctx, int peer, pgasi_tp_key_t *key, uint64_t at,
                                void *to, size_t bytes, pgasi_tp_comp_t *comp)
{
    pgasi_tp_ctx_t *inner = pgasi_wrap_ctx_of(ctx)->inner;
    return inner->ops->get(inner, peer, pgasi_wrap_key(key), at, to, bytes, comp);
}

static pgas_status_t pieces_amo(pgasi_tp_ctx_t *ctx, int peer, pgasi_tp_key_t *key, uint64_t at,
                                pgasi_amo_t op, size_t bytes, uint64_t operand, uint64_t compare,
                                void *result, pgasi_tp_comp_t *comp)
{
    pgasi_tp_ctx_t *inner = pgasi_wrap_ctx_of(ctx)->inner;
    return inner->ops->amo(inner, peer, pgasi_wrap_key(key), at, op, bytes, operand, compare,
                           result, comp);
}

static pgas_status_t pieces_am(pgasi_tp_ctx_t *ctx, int peer, const void *header,
                               size_t header_bytes, const void *data, size_t bytes,
                               pgasi_tp_comp_t *comp)
{
    pgasi_tp_ctx_t *inner = pgasi_wrap_ctx_of(ctx)->inner;
    note_source(pieces_ctx_of(ctx), data, bytes, false);
    return inner->ops->am(inner, peer, header, header_bytes, data, bytes, comp);
}

static pgas_status_t pieces_arm(pgasi_tp_ctx_t *tp_ctx)
{
    const pieces_ctx_t *ctx = pieces_ctx_of(tp_ctx);
    return ctx->pending || ctx->arrived ? PGAS_ERR_BUSY : pgasi_wrap_arm(tp_ctx);
}

static const pgasi_tp_ops_t pieces_table = {
    .open = pieces_open,
    .close = pieces_close,
    .query = pgasi_wrap_query,
    .address = pgasi_wrap_address,
    .set_peers = pgasi_wrap_set_peers,
    .ctx_open = pieces_ctx_open,
    .ctx_drain = pieces_ctx_drain,
    .ctx_close = pieces_ctx_close,
    .mem_alloc = pgasi_wrap_mem_alloc,
    .mem_register = pgasi_wrap_mem_register,
    .mem_release = pgasi_wrap_mem_release,
    .key_pack = pgasi_wrap_key_pack,
    .key_unpack = pgasi_wrap_key_unpack,
    .key_map = pgasi_wrap_key_map,
    .key_release = pgasi_wrap_key_release,
    .put = pieces_put,
    .get = pieces_get,
    .amo = pieces_amo,
    .am = pieces_am,
    .fence = pieces_fence,
    .flush = pieces_flush,
    .progress = pieces_progress,
    .event_fd = pgasi_wrap_event_fd,
    .arm = pieces_arm,
    .wake = pgasi_wrap_wake,
    .am_release = pgasi_wrap_am_release,
    .peer_dead = pgasi_wrap_peer_dead,
};

static inline const pgasi_tp_ops_t *pieces_wrap(const pgasi_tp_ops_t *ops)
{
    pieces_ops = ops;
    return &pieces_table;
}

#endif
