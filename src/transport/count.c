/* The counting wrapper; see count.h. Counters are written by one thread each, with relaxed
 * stores. */
#include "transport/count.h"

#include <pthread.h>
#include <stdlib.h>
#include "base/checks.h"
#include "transport/wrap.h"

typedef struct count_ctx {
    pgasi_wrap_ctx_t super;
    pgasi_tp_counts_t counts;
    struct count_ctx *next;
} count_ctx_t;

typedef struct {
    pgasi_wrap_t super;
    pthread_mutex_t lock; /* contexts and closed */
    count_ctx_t *ctxs;
    pgasi_tp_counts_t closed; /* counts of closed contexts, and of incoming messages */
    pgasi_tp_am_fn_t am_fn;
    pgasi_tp_error_fn_t error_fn;
    pgasi_tp_suspect_fn_t suspect_fn;
    void *arg;
} count_t;

static const pgasi_tp_ops_t *wrapped;
static const char *watched;
static size_t watched_bytes;
static const pgasi_tp_ops_t table;

static count_t *count_of(pgasi_tp_t *tp)
{
    return (count_t *)(void *)tp;
}

static count_ctx_t *ctx_of(pgasi_tp_ctx_t *ctx)
{
    return (count_ctx_t *)(void *)ctx;
}

/* Only one thread writes a counter, so a plain addition is enough; the store makes it visible to
 * the thread that sums. */
static void add(uint64_t *counter, uint64_t n)
{
    __atomic_store_n(counter, *counter + n, __ATOMIC_RELAXED);
}

static pgas_status_t count(pgasi_tp_ctx_t *ctx, pgasi_count_kind_t kind, size_t bytes,
                           pgas_status_t status)
{
    pgasi_tp_counts_t *counts = &ctx_of(ctx)->counts;
    if (PGAS_LIKELY(status >= 0)) {
        add(&counts->n_ops[kind], 1);
        add(&counts->n_bytes[kind], bytes);
    } else {
        add(status == PGAS_ERR_AGAIN ? &counts->n_again : &counts->n_failed, 1);
    }
    return status;
}

/* Counts the bytes of an operation that are in watched memory. */
static pgas_status_t count_data(pgasi_tp_ctx_t *ctx, pgasi_count_kind_t kind, const void *data,
                                size_t bytes, pgas_status_t status)
{
    size_t inside = (size_t)((const char *)data - watched);
    if (status >= 0 && inside < watched_bytes && bytes <= watched_bytes - inside) {
        pgasi_tp_counts_t *counts = &ctx_of(ctx)->counts;
        add(&counts->n_watched, 1);
        add(&counts->watched_bytes, bytes);
    }
    return count(ctx, kind, bytes, status);
}

static pgas_status_t count_memory(pgasi_tp_t *tp, size_t bytes, pgas_status_t status)
{
    if (status == PGAS_OK) {
        __atomic_fetch_add(&count_of(tp)->closed.n_registered, 1, __ATOMIC_RELAXED);
        __atomic_fetch_add(&count_of(tp)->closed.registered_bytes, bytes, __ATOMIC_RELAXED);
    }
    return status;
}

static void sum(pgasi_tp_counts_t *to, const pgasi_tp_counts_t *from)
{
    uint64_t *to_words = (uint64_t *)(void *)to;
    const uint64_t *from_words = (const uint64_t *)(const void *)from;
    for (size_t i = 0; i < sizeof *to / sizeof *to_words; i++)
        add(&to_words[i], __atomic_load_n(&from_words[i], __ATOMIC_RELAXED));
}

static bool on_am(void *arg, const pgasi_tp_am_t *am)
{
    count_t *tp = arg;
    add(&tp->closed.n_received, 1);
    add(&tp->closed.received_bytes, am->data_bytes);
    return tp->am_fn(tp->arg, am);
}

static void on_error(void *arg, int peer, pgas_status_t status)
{
    const count_t *tp = arg;
    tp->error_fn(tp->arg, peer, status);
}

static bool on_suspect(void *arg, int peer)
{
    const count_t *tp = arg;
    return tp->suspect_fn(tp->arg, peer);
}

static pgas_status_t count_open(const pgasi_tp_opts_t *opts, pgasi_tp_t **tp_p)
{
    count_t *tp = calloc(1, sizeof *tp);
    if (!tp)
        return PGAS_ERR_NO_MEMORY;
    pgasi_tp_opts_t inner_opts = *opts;
    tp->super.super.ops = &table;
    tp->am_fn = opts->am_fn;
    tp->error_fn = opts->error_fn;
    tp->suspect_fn = opts->suspect_fn;
    tp->arg = opts->arg;
    inner_opts.am_fn = opts->am_fn != NULL ? on_am : NULL;
    inner_opts.error_fn = opts->error_fn != NULL ? on_error : NULL;
    inner_opts.suspect_fn = opts->suspect_fn != NULL ? on_suspect : NULL;
    inner_opts.arg = tp;
    pgas_status_t status = wrapped->open(&inner_opts, &tp->super.inner);
    if (status != PGAS_OK) {
        free(tp);
        return status;
    }
    pthread_mutex_init(&tp->lock, NULL);
    *tp_p = &tp->super.super;
    return PGAS_OK;
}

static void count_close(pgasi_tp_t *tp_base)
{
    count_t *tp = count_of(tp_base);
    tp->super.inner->ops->close(tp->super.inner);
    pthread_mutex_destroy(&tp->lock);
    free(tp);
}

static pgas_status_t count_ctx_open(pgasi_tp_t *tp_base, int index, pgasi_tp_ctx_t **ctx_p)
{
    count_t *tp = count_of(tp_base);
    count_ctx_t *ctx;
    if (posix_memalign((void **)&ctx, PGASI_CACHELINE,
                       PGASI_ALIGN_UP(sizeof *ctx, PGASI_CACHELINE)) != 0)
        return PGAS_ERR_NO_MEMORY;
    *ctx = (count_ctx_t){ .super = { .super.ops = &table, .tp = &tp->super } };
    pgas_status_t status =
        tp->super.inner->ops->ctx_open(tp->super.inner, index, &ctx->super.inner);
    if (status != PGAS_OK) {
        free(ctx);
        return status;
    }
    pthread_mutex_lock(&tp->lock);
    ctx->next = tp->ctxs;
    tp->ctxs = ctx;
    pthread_mutex_unlock(&tp->lock);
    *ctx_p = &ctx->super.super;
    return PGAS_OK;
}

static void count_ctx_close(pgasi_tp_ctx_t *tp_ctx)
{
    count_ctx_t *ctx = ctx_of(tp_ctx);
    count_t *tp = (count_t *)(void *)ctx->super.tp;
    ctx->super.inner->ops->ctx_close(ctx->super.inner);
    pthread_mutex_lock(&tp->lock);
    count_ctx_t **at = &tp->ctxs;
    while (*at != ctx)
        at = &(*at)->next;
    *at = ctx->next;
    sum(&tp->closed, &ctx->counts);
    pthread_mutex_unlock(&tp->lock);
    free(ctx);
}

static pgas_status_t count_put(pgasi_tp_ctx_t *ctx, int peer, pgasi_tp_key_t *key,
                               uint64_t remote_addr, const void *src, size_t bytes,
                               pgasi_tp_comp_t *comp)
{
    pgasi_tp_ctx_t *inner = pgasi_wrap_ctx_of(ctx)->inner;
    pgas_status_t status =
        inner->ops->put(inner, peer, pgasi_wrap_key(key), remote_addr, src, bytes, comp);
    return count_data(ctx, PGASI_COUNT_PUT, src, bytes, status);
}

static pgas_status_t count_get(pgasi_tp_ctx_t *ctx, int peer, pgasi_tp_key_t *key,
                               uint64_t remote_addr, void *dst, size_t bytes, pgasi_tp_comp_t *comp)
{
    pgasi_tp_ctx_t *inner = pgasi_wrap_ctx_of(ctx)->inner;
    pgas_status_t status =
        inner->ops->get(inner, peer, pgasi_wrap_key(key), remote_addr, dst, bytes, comp);
    return count(ctx, PGASI_COUNT_GET, bytes, status);
}

static pgas_status_t count_amo(pgasi_tp_ctx_t *ctx, int peer, pgasi_tp_key_t *key,
                               uint64_t remote_addr, pgasi_amo_t op, size_t bytes, uint64_t operand,
                               uint64_t compare, void *result, pgasi_tp_comp_t *comp)
{
    pgasi_tp_ctx_t *inner = pgasi_wrap_ctx_of(ctx)->inner;
    pgas_status_t status = inner->ops->amo(inner, peer, pgasi_wrap_key(key), remote_addr, op, bytes,
                                           operand, compare, result, comp);
    return count(ctx, PGASI_COUNT_AMO, bytes, status);
}

static pgas_status_t count_am(pgasi_tp_ctx_t *ctx, int peer, const void *header,
                              size_t header_bytes, const void *data, size_t bytes,
                              pgasi_tp_comp_t *comp)
{
    pgasi_tp_ctx_t *inner = pgasi_wrap_ctx_of(ctx)->inner;
    pgas_status_t status = inner->ops->am(inner, peer, header, header_bytes, data, bytes, comp);
    return count_data(ctx, PGASI_COUNT_AM, data, bytes, status);
}

static pgas_status_t count_fence(pgasi_tp_ctx_t *ctx)
{
    pgasi_tp_ctx_t *inner = pgasi_wrap_ctx_of(ctx)->inner;
    return count(ctx, PGASI_COUNT_FENCE, 0, inner->ops->fence(inner));
}

static pgas_status_t count_flush(pgasi_tp_ctx_t *ctx, int peer, pgasi_tp_comp_t *comp)
{
    pgasi_tp_ctx_t *inner = pgasi_wrap_ctx_of(ctx)->inner;
    return count(ctx, PGASI_COUNT_FLUSH, 0, inner->ops->flush(inner, peer, comp));
}

static int count_progress(pgasi_tp_ctx_t *ctx)
{
    pgasi_tp_ctx_t *inner = pgasi_wrap_ctx_of(ctx)->inner;
    return inner->ops->progress(inner);
}

static pgas_status_t count_mem_alloc(pgasi_tp_t *tp, size_t bytes, pgasi_tp_mem_t **mem_p,
                                     void **addr_p)
{
    return count_memory(tp, bytes, pgasi_wrap_mem_alloc(tp, bytes, mem_p, addr_p));
}

static pgas_status_t count_mem_register(pgasi_tp_t *tp, void *addr, size_t bytes,
                                        pgasi_tp_mem_t **mem_p)
{
    return count_memory(tp, bytes, pgasi_wrap_mem_register(tp, addr, bytes, mem_p));
}

static const pgasi_tp_ops_t table = {
    .open = count_open,
    .close = count_close,
    .query = pgasi_wrap_query,
    .address = pgasi_wrap_address,
    .set_peers = pgasi_wrap_set_peers,
    .ctx_open = count_ctx_open,
    .ctx_drain = pgasi_wrap_ctx_drain,
    .ctx_close = count_ctx_close,
    .mem_alloc = count_mem_alloc,
    .mem_register = count_mem_register,
    .mem_release = pgasi_wrap_mem_release,
    .key_pack = pgasi_wrap_key_pack,
    .key_unpack = pgasi_wrap_key_unpack,
    .key_map = pgasi_wrap_key_map,
    .key_release = pgasi_wrap_key_release,
    .put = count_put,
    .get = count_get,
    .amo = count_amo,
    .am = count_am,
    .fence = count_fence,
    .flush = count_flush,
    .progress = count_progress,
    .event_fd = pgasi_wrap_event_fd,
    .arm = pgasi_wrap_arm,
    .wake = pgasi_wrap_wake,
    .am_arrived = pgasi_wrap_am_arrived,
    .am_release = pgasi_wrap_am_release,
    .peer_dead = pgasi_wrap_peer_dead,
};

void pgasi_tp_count_watch(const void *from, size_t bytes)
{
    watched = from;
    watched_bytes = bytes;
}

const pgasi_tp_ops_t *pgasi_tp_count_wrap(const pgasi_tp_ops_t *ops)
{
    wrapped = ops;
    return &table;
}

bool pgasi_tp_count_query(pgasi_tp_t *tp_base, pgasi_tp_counts_t *counts_p)
{
    if (tp_base->ops != &table)
        return false;
    count_t *tp = count_of(tp_base);
    *counts_p = (pgasi_tp_counts_t){ 0 };
    pthread_mutex_lock(&tp->lock);
    sum(counts_p, &tp->closed);
    for (const count_ctx_t *ctx = tp->ctxs; ctx != NULL; ctx = ctx->next)
        sum(counts_p, &ctx->counts);
    pthread_mutex_unlock(&tp->lock);
    return true;
}
