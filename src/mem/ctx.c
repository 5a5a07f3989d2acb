/* Contexts over the transport: see ctx.h.
 *
 * Context 0 uses the transport's service context, which also receives. The rank's receive lock
 * protects both. Other contexts open a transport context at their first use off the node; a job on
 * one node opens no transport at all. */
#include "mem/ctx.h"

#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/param.h"
#include "base/spin.h"
#include "boot/boot.h"
#include "boot/hooks.h"
#include "mem/rma.h"
#include "mem/thread.h"
#include "transport/fault.h"

#define FAR_MESSAGE_LEAST 16384 /* for the library's own requests */
#define GIVE_UP_NS        (2 * PGASI_NS_PER_S)
/* time after a use during which helpers poll a context */
#define WATCH_NS (200 * PGASI_NS_PER_MS)

pgasi_ctx_t **pgasi_ctxs;
int pgasi_n_ctxs;
pgasi_tp_t *pgasi_tp;

static struct {
    char *of; /* [n_ranks][bytes] */
    size_t bytes;
} addresses;
static struct {
    uint32_t all; /* threads that wait for everything that was issued */
    int busy;     /* a thread checks the contexts of others */
} help;

void *pgasi_lazy_alloc(size_t bytes)
{
    void *memory = mmap(NULL, bytes, PROT_READ | PROT_WRITE,
                        MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    return memory == MAP_FAILED ? NULL : memory;
}

void pgasi_lazy_free(void *memory, size_t bytes)
{
    if (memory)
        munmap(memory, bytes);
}

static pgas_status_t ctx_create(int index, pgasi_ctx_t **ctx_p)
{
    pgasi_ctx_t *ctx = calloc(1, sizeof *ctx);
    if (!ctx)
        return PGAS_ERR_NO_MEMORY;
    ctx->index = index;
    ctx->shared = index == PGASI_CTX_SHARED;
    ctx->peer = pgasi_lazy_alloc((size_t)pgasi_boot.n_ranks * sizeof *ctx->peer);
    if (!ctx->peer) {
        free(ctx);
        return PGAS_ERR_NO_MEMORY;
    }
    *ctx_p = ctx;
    return PGAS_OK;
}

static void ctx_destroy(pgasi_ctx_t *ctx)
{
    bool touched = ctx->issued || ctx->tp; /* some peer's entry was used */
    if (touched) {
        for (int r = 0; r < pgasi_boot.n_ranks; r++) {
            while (ctx->peer[r].keys) {
                pgasi_peer_key_t *key = ctx->peer[r].keys;
                ctx->peer[r].keys = key->next;
                if (key->key)
                    key->key->ops->key_release(key->key);
                free(key);
            }
        }
    }
    if (ctx->tp)
        ctx->tp->ops->ctx_close(ctx->tp);
    for (int r = 0; touched && r < pgasi_boot.n_ranks; r++)
        free(ctx->peer[r].flush); /* closing may have ended it */
    free(ctx->flush);
    pgasi_nb_destroy(ctx);
    pgasi_lazy_free(ctx->peer, (size_t)pgasi_boot.n_ranks * sizeof *ctx->peer);
    free(ctx);
}

pgas_status_t pgasi_ctx_of_slot(int slot, pgasi_ctx_t **ctx_p)
{
    int index = slot < pgasi_param.ctxs ? PGASI_CTX_FIRST_OWN + slot : PGASI_CTX_SHARED;
    pgasi_ctx_t *ctx = __atomic_load_n(&pgasi_ctxs[index], __ATOMIC_ACQUIRE);
    if (!ctx) {
        pgas_status_t status = ctx_create(index, &ctx);
        if (status != PGAS_OK)
            return status;
        pgasi_ctx_t *expected = NULL;
        if (!__atomic_compare_exchange_n(&pgasi_ctxs[index], &expected, ctx, false,
                                         __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE)) {
            ctx_destroy(ctx);
            ctx = expected;
        }
    }
    *ctx_p = ctx;
    return PGAS_OK;
}

pgas_status_t pgasi_ctx_open(pgasi_ctx_t *ctx)
{
    if (PGAS_LIKELY(ctx->tp))
        return PGAS_OK;
    if (!pgasi_tp)
        return PGAS_ERR_UNSUPPORTED;
    pgasi_tp_ctx_t *tp = NULL;
    pgas_status_t status = pgasi_tp->ops->ctx_open(pgasi_tp, ctx->index, &tp);
    if (status == PGAS_OK)
        __atomic_store_n(&ctx->tp, tp, __ATOMIC_RELEASE);
    return status;
}

/* The context is open. */
static inline int poll_ctx(pgasi_ctx_t *ctx)
{
    int n = ctx->nb ? pgasi_nb_progress(ctx) : 0;
    return n + ctx->tp->ops->progress(ctx->tp);
}

int pgasi_ctx_progress(pgasi_ctx_t *ctx)
{
    __atomic_store_n(&ctx->n_progressed, ctx->n_progressed + 1, __ATOMIC_RELAXED);
    return ctx->tp ? poll_ctx(ctx) : 0;
}

/* Own contexts: waits until the borrower returns the context. An owner that is already inside stays
 * there: the borrower sees this and leaves. */
void pgasi_ctx_lock_slow(pgasi_ctx_t *ctx)
{
    if (!ctx->shared) {
        while (ctx->inside == 1 && __atomic_load_n(&ctx->borrowed, __ATOMIC_ACQUIRE)) {
            pgasi_ctx_leave(ctx);
            while (__atomic_load_n(&ctx->borrowed, __ATOMIC_ACQUIRE))
                sched_yield();
            pgasi_ctx_enter(ctx);
        }
        return;
    }
    pgasi_spin_lock(&ctx->lock, 0);
    __atomic_store_n(&ctx->n_entered, ctx->n_entered + 1, __ATOMIC_RELAXED); /* see needs_help */
}

bool pgasi_ctx_try_lock(pgasi_ctx_t *ctx)
{
    if (ctx->shared)
        return pgasi_spin_try(&ctx->lock);
    pgasi_ctx_enter(ctx);
    if (ctx->inside > 1 || !__atomic_load_n(&ctx->borrowed, __ATOMIC_ACQUIRE))
        return true;
    pgasi_ctx_leave(ctx);
    return false;
}

void pgasi_ctx_wait_for_room(pgasi_ctx_t *ctx, pgasi_wait_t *w)
{
    if (pgasi_ctx_progress(ctx) > 0)
        return;
    pgasi_ctx_unlock(ctx);
    pgasi_wait_step(w);
    pgasi_ctx_lock(ctx);
}

bool pgasi_ctx_give_up(uint64_t *limit_ns_p)
{
    if (PGAS_LIKELY(!pgasi_boot_some_dead()))
        return false;
    uint64_t now = pgasi_now_ns();
    *limit_ns_p = *limit_ns_p ? *limit_ns_p : now + GIVE_UP_NS;
    return now > *limit_ns_p;
}

pgas_status_t pgasi_ctx_wait_idle(pgasi_ctx_t *ctx)
{
    pgasi_wait_t w = PGASI_WAIT_INIT;
    uint64_t limit_ns = 0;
    pgas_status_t status = PGAS_OK;
    while (status == PGAS_OK && __atomic_load_n(&ctx->in_flight, __ATOMIC_ACQUIRE))
        if (pgasi_ctx_give_up(&limit_ns))
            status = PGAS_ERR_PEER;
        else
            pgasi_wait_step(&w);
    pgasi_wait_end(&w);
    return status;
}

/* ---- helping ---- */

uint32_t pgasi_ctxs_unwatched;

void pgasi_ctxs_watch(void)
{
    if (__atomic_exchange_n(&pgasi_ctxs_unwatched, 0, __ATOMIC_ACQ_REL))
        pgasi_wait_kick_own();
}

void pgasi_ctxs_help_all(bool on)
{
    __atomic_fetch_add(&help.all, on ? 1 : UINT32_MAX, __ATOMIC_ACQ_REL);
    if (on)
        pgasi_ctxs_watch();
}

static pgasi_ctx_t *open_ctx(int index)
{
    pgasi_ctx_t *ctx = __atomic_load_n(&pgasi_ctxs[index], __ATOMIC_ACQUIRE);
    return ctx && __atomic_load_n(&ctx->tp, __ATOMIC_ACQUIRE) ? ctx : NULL;
}

/* The transport has buffers of its own, so accepted operations may not be sent yet. Therefore
 * helpers poll a context for a while after its use. */
static bool needs_help(pgasi_ctx_t *ctx, uint64_t now)
{
    uint32_t entered = __atomic_load_n(&ctx->n_entered, __ATOMIC_RELAXED);
    if (entered != ctx->seen_entered) {
        ctx->seen_entered = entered;
        ctx->watch_until_ns = now + WATCH_NS;
    }
    return __atomic_load_n(&ctx->in_flight, __ATOMIC_RELAXED) || now < ctx->watch_until_ns ||
           __atomic_load_n(&help.all, __ATOMIC_RELAXED);
}

bool pgasi_ctxs_need_help(void)
{
    uint64_t now = pgasi_now_ns();
    bool some = pgasi_sync_some_left();
    for (int i = PGASI_CTX_SHARED; pgasi_tp && i < pgasi_n_ctxs && !some; i++) {
        pgasi_ctx_t *ctx = open_ctx(i);
        some = ctx && needs_help(ctx, now);
    }
    return some;
}

int pgasi_ctxs_help(void)
{
    if (!pgasi_tp || __atomic_exchange_n(&help.busy, 1, __ATOMIC_ACQUIRE))
        return 0;
    uint64_t now = pgasi_now_ns();
    int n = 0, n_borrowed = 0;
    for (int i = PGASI_CTX_SHARED; i < pgasi_n_ctxs; i++) {
        pgasi_ctx_t *ctx = open_ctx(i);
        if (!ctx || !needs_help(ctx, now))
            continue;
        uint32_t progressed = __atomic_load_n(&ctx->n_progressed, __ATOMIC_RELAXED);
        bool looked_at = progressed != ctx->seen_progressed;
        ctx->seen_progressed = progressed;
        if (looked_at)
            continue;
        if (ctx->shared) {
            if (pgasi_ctx_try_lock(ctx)) {
                n += poll_ctx(ctx);
                pgasi_ctx_unlock(ctx);
            }
        } else {
            __atomic_store_n(&ctx->borrowed, 1, __ATOMIC_RELAXED);
            n_borrowed++;
        }
    }
    if (n_borrowed)
        pgasi_wait_heavy_barrier();
    for (int i = PGASI_CTX_FIRST_OWN; i < pgasi_n_ctxs && n_borrowed; i++) {
        pgasi_ctx_t *ctx = open_ctx(i);
        if (!ctx || !__atomic_load_n(&ctx->borrowed, __ATOMIC_RELAXED))
            continue;
        n_borrowed--;
        if (__atomic_load_n(&ctx->inside, __ATOMIC_ACQUIRE) == 0)
            n += poll_ctx(ctx);
        __atomic_store_n(&ctx->borrowed, 0, __ATOMIC_RELEASE);
    }
    __atomic_store_n(&help.busy, 0, __ATOMIC_RELEASE);
    return n;
}

/* The sizes that every rank tells the others. */
typedef struct {
    uint64_t address, am_bulk_max;
} sizes_t;
static size_t far_bulk_max; /* the least of all ranks */

static const void *address_of(void *arg, int rank)
{
    (void)arg;
    return addresses.of + (size_t)rank * addresses.bytes;
}

static void on_error(void *arg, int peer, pgas_status_t status)
{
    (void)arg;
    (void)status;
    if (pgasi_hooks.peer_lost)
        pgasi_hooks.peer_lost(peer);
}

static bool on_suspect(void *arg, int peer)
{
    (void)arg;
    return !pgasi_hooks.peer_suspect || pgasi_hooks.peer_suspect(peer);
}

void pgasi_ctxs_peer_dead(int rank)
{
    if (pgasi_tp)
        pgasi_tp->ops->peer_dead(pgasi_tp, rank);
}

static const char *transport_name(char *text)
{
    pgasi_param_text(&pgasi_param, PGASI_PARAM_ID_TRANSPORT, text);
    return text;
}

pgas_status_t pgasi_ctxs_check(void)
{
    char why[PGASI_PARAM_WHY_BYTES] = "", text[PGASI_PARAM_TEXT_BYTES];
    const char *name = transport_name(text);
    pgasi_fault_plan_t plan;
    pgas_status_t status = PGAS_OK;
    if (!pgasi_tp_exists(name)) {
        snprintf(why, sizeof why,
                 "PGAS_TRANSPORT=%s is not in this build; `pgas_info` lists what is", name);
        status = PGAS_ERR_UNSUPPORTED;
    } else if (strcmp(name, "loopback") == 0 && pgasi_boot.n_nodes > 1) {
        snprintf(why, sizeof why,
                 "PGAS_TRANSPORT=loopback does not reach the other nodes, of which there are %d",
                 pgasi_boot.n_nodes - 1);
        status = PGAS_ERR_UNSUPPORTED;
    } else {
        int used = snprintf(why, sizeof why, "PGAS_FAULT=%s: ", pgasi_param.fault);
        status = pgasi_fault_parse(pgasi_param.fault, &plan, why + used, sizeof why - (size_t)used);
    }
    if (status != PGAS_OK && pgasi_boot.rank == 0)
        PGASI_ERROR("param", "%s", why);
    return status;
}

/* Chooses the table of the transport, after pgasi_ctxs_check. */
static const pgasi_tp_ops_t *choose_ops(void)
{
    char why[PGASI_PARAM_WHY_BYTES], text[PGASI_PARAM_TEXT_BYTES];
    const pgasi_tp_ops_t *ops =
        pgasi_tp_fault_wrap(pgasi_tp_find(transport_name(text)), pgasi_param.fault,
                            (uint64_t)pgasi_param.fault_seed, why, sizeof why);
    return ops && pgasi_hooks.wrap_transport ? pgasi_hooks.wrap_transport(ops) : ops;
}

size_t pgasi_far_message_max(void)
{
    size_t call = 2 * (pgasi_param.call_max + 64);
    return PGASI_MAX(PGASI_MAX(call, pgasi_param.agg_size + 64), FAR_MESSAGE_LEAST);
}

size_t pgasi_far_bulk_max(void)
{
    return far_bulk_max;
}

static pgas_status_t open_transport(void)
{
    const pgasi_tp_ops_t *ops = choose_ops();
    if (!ops)
        return PGAS_ERR_UNSUPPORTED;
    pgasi_tp_opts_t opts = {
        .rank = pgasi_boot.rank,
        .n_ranks = pgasi_boot.n_ranks,
        .same_host_peers = pgasi_boot.same_host_peers,
        .same_host_only = pgasi_boot.host_ranks == pgasi_boot.n_ranks,
        .am_data_max = pgasi_far_message_max(),
        .am_fn = pgasi_hooks.message_arrived,
        .am_in_passing = true,
        .error_fn = on_error,
        .suspect_fn = on_suspect,
        .device_distance = pgasi_place_distance,
    };
    pgas_status_t status = ops->open(&opts, &pgasi_tp);
    if (status != PGAS_OK)
        return status;
    return ops->ctx_open(pgasi_tp, 0, &pgasi_ctxs[0]->tp);
}

/* Gives every rank the address of every rank: the only thing that is stored for each peer. */
static pgas_status_t exchange_addresses(void)
{
    const void *mine;
    size_t bytes;
    pgas_status_t status = pgasi_tp->ops->address(pgasi_tp, &mine, &bytes);
    status = pgasi_boot_agree(status);
    if (status != PGAS_OK)
        return status;
    pgasi_tp_attr_t attr;
    pgasi_tp->ops->query(pgasi_tp, &attr);
    sizes_t my_sizes = { bytes, attr.am_bulk_max };
    sizes_t *sizes = calloc((size_t)pgasi_boot.n_ranks, sizeof *sizes);
    if (!sizes)
        return PGAS_ERR_NO_MEMORY;
    status = pgasi_boot_allgather(&my_sizes, sizes, sizeof my_sizes);
    addresses.bytes = 0;
    far_bulk_max = attr.am_bulk_max;
    for (int r = 0; r < pgasi_boot.n_ranks; r++) {
        addresses.bytes = PGASI_MAX(addresses.bytes, PGASI_ALIGN_UP(sizes[r].address, 8));
        far_bulk_max = PGASI_MIN(far_bulk_max, sizes[r].am_bulk_max);
    }
    free(sizes);
    char *padded = calloc(1, addresses.bytes);
    addresses.of = calloc((size_t)pgasi_boot.n_ranks, addresses.bytes);
    if (status == PGAS_OK && (!padded || !addresses.of))
        status = PGAS_ERR_NO_MEMORY;
    status = pgasi_boot_agree(status);
    if (status == PGAS_OK) {
        memcpy(padded, mine, bytes);
        status = pgasi_boot_allgather(padded, addresses.of, addresses.bytes);
    }
    free(padded);
    if (status == PGAS_OK)
        status = pgasi_tp->ops->set_peers(pgasi_tp, address_of, NULL);
    return status;
}

pgas_status_t pgasi_ctxs_start(void)
{
    pgasi_n_ctxs = PGASI_CTX_FIRST_OWN + pgasi_param.ctxs;
    pgasi_ctxs = calloc((size_t)pgasi_n_ctxs, sizeof *pgasi_ctxs);
    if (!pgasi_ctxs)
        return PGAS_ERR_NO_MEMORY;
    pgas_status_t status = ctx_create(PGASI_CTX_SERVICE, &pgasi_ctxs[PGASI_CTX_SERVICE]);
    if (status == PGAS_OK)
        status = ctx_create(PGASI_CTX_SHARED, &pgasi_ctxs[PGASI_CTX_SHARED]);
    bool needed = pgasi_boot.n_nodes > 1;
    if (status == PGAS_OK && needed)
        status = open_transport();
    status = pgasi_boot_agree(status);
    if (status == PGAS_OK && needed)
        status = pgasi_boot_agree(exchange_addresses());
    if (status != PGAS_OK)
        pgasi_ctxs_stop();
    return status;
}

/* A connection ends together with the peer's end of it, which the peer's context 0 closes. So
 * context 0 is progressed until all ranks have reached this point. It closes its own connections
 * when the other contexts of all ranks are closed. */
static int serve_connections(void)
{
    return pgasi_ctx_progress(pgasi_ctxs[PGASI_CTX_SERVICE]);
}

/* Drains the contexts first to last. @return the number of contexts that are not complete */
static int drain_some(int first, int last)
{
    int n_left = 0;
    for (int i = first; i <= last; i++) {
        pgasi_ctx_t *ctx = open_ctx(i);
        if (!ctx || ctx->tp->ops->ctx_drain(ctx->tp) != PGAS_INPROGRESS)
            continue;
        pgasi_ctx_progress(ctx);
        n_left++;
    }
    return n_left;
}

static int drain_until_through(int first, int last)
{
    uint64_t limit = pgasi_now_ns() + GIVE_UP_NS;
    int n_left;
    while ((n_left = drain_some(first, last)) > 0 && pgasi_now_ns() < limit)
        if (serve_connections() == 0)
            sched_yield();
    pgasi_boot_barrier();
    return n_left;
}

int pgasi_ctxs_drain(void)
{
    if (!pgasi_tp)
        return 0;
    pgasi_hooks.progress = serve_connections;
    for (int i = 0; i < pgasi_n_ctxs; i++)
        if (pgasi_ctxs[i])
            pgasi_nb_close(pgasi_ctxs[i]);
    int n_left = drain_until_through(PGASI_CTX_SHARED, pgasi_n_ctxs - 1);
    n_left += drain_until_through(PGASI_CTX_SERVICE, PGASI_CTX_SERVICE);
    pgasi_hooks.progress = NULL;
    return n_left;
}

void pgasi_ctxs_stop(void)
{
    if (pgasi_ctxs) {
        for (int i = pgasi_n_ctxs - 1; i >= 0; i--) /* context 0, which receives, is closed last */
            if (pgasi_ctxs[i])
                ctx_destroy(pgasi_ctxs[i]);
    }
    if (pgasi_tp)
        pgasi_tp->ops->close(pgasi_tp);
    pgasi_tp = NULL;
    free(pgasi_ctxs);
    pgasi_ctxs = NULL;
    free(addresses.of);
    addresses.of = NULL;
}
