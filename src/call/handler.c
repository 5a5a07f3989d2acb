/* Handlers: registration by name, agreement on numbers, execution.
 *
 * Ranks agree on the names that were registered since the last agreement. They compare count and
 * checksum first, so the usual case costs one small allreduce and one comparison. They exchange the
 * names themselves only to find the one that is missing. Each rank sorts its names and numbers them
 * behind those that have numbers. So numbers do not depend on addresses, link order or the order of
 * registration. */

#include "call/handler.h"

#include <stdlib.h>
#include <string.h>

#include "base/checks.h"
#include "base/hash.h"
#include "base/log.h"
#include "boot/boot.h"
#include "call/sync.h"
#include "call/task.h"
#include "mem/thread.h"

typedef struct {
    char name[PGAS_HANDLER_NAME_MAX + 1];
    pgas_handler_fn_t fn;
    void *context;
    pgas_handler_opts_t opts;
    pgas_handler_t *handler_p;
    pgas_handler_t number; /* 0: not agreed yet */
} registration_t;

static struct {
    registration_t *list; /* handlers with a number come first, by number */
    uint32_t n, room;
    /* by number; a handler that may wait has its own function here, too */
    pgasi_handler_entry_t entry[PGAS_HANDLERS_MAX + 1];
    /* the first typed handler that could not be registered; the next agreement reports it */
    const char *bad_name;
    pgas_status_t bad_status;
} registry;

static pgasi_handler_entry_t entry_of(const registration_t *r);

/* ---- registration ---- */

static registration_t *find(const char *name)
{
    for (uint32_t i = 0; i < registry.n; i++)
        if (strcmp(registry.list[i].name, name) == 0)
            return &registry.list[i];
    return NULL;
}

pgas_status_t pgas_handler_register(const char *name, pgas_handler_fn_t fn, void *context,
                                    const pgas_handler_opts_t *opts, pgas_handler_t *handler_p)
{
    pgas_handler_opts_t o = PGAS_HANDLER_OPTS_INIT;
    if (!name || !fn || !handler_p || !*name || strlen(name) > PGAS_HANDLER_NAME_MAX ||
        !PGASI_OPTS_SANE(opts, sizeof o))
        return PGAS_ERR_INVALID;
    if (opts)
        o = *opts;
    registration_t *known = find(name);
    if (known) {
        if (known->fn != fn || known->context != context || known->opts.batch != o.batch ||
            known->opts.blocks != o.blocks)
            return PGAS_ERR_EXISTS;
        known->handler_p = handler_p;
        if (known->number)
            *handler_p = known->number;
        return PGAS_OK;
    }
    if (registry.n == PGAS_HANDLERS_MAX)
        return PGAS_ERR_LIMIT;
    if (registry.n == registry.room) {
        uint32_t room = registry.room ? 2 * registry.room : 32;
        registration_t *grown = realloc(registry.list, room * sizeof *grown);
        if (!grown)
            return PGAS_ERR_NO_MEMORY;
        registry.list = grown;
        registry.room = room;
    }
    registration_t *r = &registry.list[registry.n++];
    memset(r, 0, sizeof *r);
    memcpy(r->name, name, strlen(name));
    r->fn = fn;
    r->context = context;
    r->opts = o;
    r->handler_p = handler_p;
    *handler_p = 0;
    return PGAS_OK;
}

void pgas_handler_constructed(const char *name, pgas_status_t status)
{
    if (status == PGAS_OK || registry.bad_status != PGAS_OK)
        return;
    registry.bad_name = name;
    registry.bad_status = status;
}

/* ---- agreement ---- */

/* The error of a typed handler of this rank. Other ranks may have none. */
static pgas_status_t constructed(void)
{
    if (registry.bad_status == PGAS_ERR_EXISTS)
        PGASI_ERROR("call",
                    "handler '%s' is defined twice: give one of the two another name, or use "
                    "PGAS_HANDLER_DECLARE in a header and PGAS_HANDLER_DEFINE in one file",
                    registry.bad_name);
    else if (registry.bad_status != PGAS_OK)
        PGASI_ERROR("call", "handler '%s' cannot be registered: %s", registry.bad_name,
                    pgas_status_text(registry.bad_status));
    return pgasi_boot_agree(registry.bad_status);
}

static int by_name(const void *a, const void *b)
{
    return strcmp(((const registration_t *)a)->name, ((const registration_t *)b)->name);
}

/* Finds the first rank that lacks the name. *rank_p: n_ranks if none does. Collective. */
static pgas_status_t find_rank_without(const char *name, const registration_t *mine,
                                       uint32_t n_mine, int *rank_p)
{
    int n_ranks = pgasi_boot.n_ranks, first = n_ranks;
    bool missing = true;
    for (uint32_t k = 0; k < n_mine && missing; k++)
        missing = strcmp(mine[k].name, name) != 0;
    int at = missing ? pgasi_boot.rank : n_ranks;
    int *all = malloc((size_t)n_ranks * sizeof *all);
    if (!all)
        return PGAS_ERR_NO_MEMORY;
    pgas_status_t status = pgasi_boot_allgather(&at, all, sizeof at);
    for (int r = n_ranks - 1; status == PGAS_OK && r >= 0; r--)
        if (all[r] < n_ranks)
            first = all[r];
    free(all);
    *rank_p = first;
    return status;
}

/* One rank after another broadcasts its names, until a name is found that another rank lacks.
 * Collective. */
static void report_missing(const registration_t *mine, uint32_t n_mine)
{
    for (int r = 0; r < pgasi_boot.n_ranks; r++) {
        uint32_t n = n_mine;
        if (pgasi_boot_broadcast(&n, sizeof n, r) != PGAS_OK || n > PGAS_HANDLERS_MAX)
            return;
        for (uint32_t i = 0; i < n; i++) {
            char name[PGAS_HANDLER_NAME_MAX + 1] = "";
            int without;
            if (r == pgasi_boot.rank)
                memcpy(name, mine[i].name, sizeof name);
            if (pgasi_boot_broadcast(name, sizeof name, r) != PGAS_OK ||
                find_rank_without(name, mine, n_mine, &without) != PGAS_OK)
                return;
            if (without == pgasi_boot.n_ranks)
                continue;
            if (pgasi_boot.rank == 0)
                PGASI_ERROR("call",
                            "handler '%s' is registered on rank %d but missing on rank %d: "
                            "register the same handlers on all ranks",
                            name, r, without);
            return;
        }
    }
}

/* Compares count and checksum with those of rank 0. All ranks return the same status. */
static pgas_status_t compare(const registration_t *mine, uint32_t n_mine)
{
    struct {
        uint64_t n, sum;
    } here = { n_mine, 0 }, rank_0;
    for (uint32_t i = 0; i < n_mine; i++)
        here.sum =
            pgasi_hash_u64(here.sum ^ pgasi_hash_bytes(mine[i].name, strlen(mine[i].name), i));
    rank_0 = here;
    pgas_status_t status = pgasi_boot_broadcast(&rank_0, sizeof rank_0, 0);
    if (status == PGAS_OK && (here.n != rank_0.n || here.sum != rank_0.sum))
        status = PGAS_ERR_MISMATCH;
    return pgasi_boot_agree(status);
}

pgas_status_t pgasi_handlers_agree(void)
{
    registration_t *fresh = registry.list ? registry.list + pgasi_n_handlers : NULL;
    uint32_t n_fresh = registry.n - pgasi_n_handlers;
    if (n_fresh)
        qsort(fresh, n_fresh, sizeof *fresh, by_name);
    pgas_status_t status = constructed();
    if (status != PGAS_OK)
        return status;
    status = compare(fresh, n_fresh);
    if (status == PGAS_ERR_MISMATCH)
        report_missing(fresh, n_fresh);
    if (status != PGAS_OK)
        return status;
    for (uint32_t i = 0; i < n_fresh; i++) {
        registration_t *r = &fresh[i];
        r->number = (pgas_handler_t)(pgasi_n_handlers + 1 + i);
        pgasi_handlers[r->number] = entry_of(r);
        *r->handler_p = r->number;
    }
    __atomic_store_n(&pgasi_n_handlers, pgasi_n_handlers + n_fresh, __ATOMIC_RELEASE);
    __atomic_store_n(&pgas_call_run.n_handlers, pgasi_n_handlers, __ATOMIC_RELEASE);
    /* No rank calls a new handler before all ranks know it. */
    return pgasi_boot_barrier();
}

pgas_status_t pgas_handlers_agree(void)
{
    pgas_status_t status = pgasi_boot_enter(NULL);
    if (status != PGAS_OK)
        return status;
    status = pgasi_handlers_agree();
    if (status != PGAS_OK) {
        registry.n = pgasi_n_handlers;
        registry.bad_status = PGAS_OK;
    }
    return status;
}

const char *pgas_handler_name(pgas_handler_t handler)
{
    return pgasi_handler_known(handler) ? registry.list[handler - 1].name : NULL;
}

void pgasi_handlers_stop(void)
{
    for (uint32_t i = 0; i < registry.n; i++) {
        registry.list[i].number = 0;
        *registry.list[i].handler_p = 0;
    }
    /* the rest of the table is untouched memory */
    memset(pgasi_handlers, 0, (pgasi_n_handlers + 1) * sizeof pgasi_handlers[0]);
    pgasi_n_handlers = 0;
}

/* ---- running ---- */

/* Handlers that may wait run on handler threads. Their entry in the table of plain handlers has
 * this function, with the real entry as its context. */
static void run_on_handler_thread(const void *args, size_t bytes, pgas_thread_t source,
                                  void *context)
{
    pgasi_task_call(&(pgasi_task_call_t){ .entry = context, .source = source }, args, bytes);
}

static pgasi_handler_entry_t entry_of(const registration_t *r)
{
    pgasi_handler_entry_t *real = &registry.entry[r->number];
    *real = (pgasi_handler_entry_t){ r->fn, r->context, r->opts.batch, r->opts.blocks };
    return r->opts.blocks ? (pgasi_handler_entry_t){ run_on_handler_thread, real, NULL, true }
                          : *real;
}

typedef struct {
    uint64_t handler;
} spawn_t;

static void spawn(const void *args, size_t bytes, pgas_thread_t source, uint64_t wire)
{
    spawn_t s = { 0 };
    if (bytes >= sizeof s)
        memcpy(&s, args, sizeof s);
    if (s.handler - 1 >= pgasi_n_handlers) {
        if (pgasi_first_dropped())
            PGASI_ERROR("call",
                        "rank %d spawned handler %llu, which does not exist here: the call "
                        "is dropped",
                        pgas_thread_rank(source), (unsigned long long)s.handler);
        pgasi_call_end(pgasi_call_begin(source, (uint32_t)s.handler, wire), PGAS_ERR_NOT_FOUND);
        return;
    }
    wire = pgasi_call_arrived(source, (uint32_t)s.handler, wire);
    pgasi_task_call_t call = { &registry.entry[s.handler], source, (uint32_t)s.handler, true,
                               wire };
    pgasi_task_call(&call, (const char *)args + sizeof s, bytes - sizeof s);
}

static void on_spawn(const void *args, size_t bytes, pgas_thread_t source, void *context)
{
    (void)context;
    spawn(args, bytes, source, 0);
}

/* Passes the call on to a handler thread if its handler may wait. The answer is sent when the
 * handler has run there. */
static bool run_later(uint32_t number, const void *args, size_t bytes, pgas_thread_t source,
                      uint64_t wire)
{
    if (number == PGASI_DESC_SPAWN) {
        spawn(args, bytes, source, wire);
        return true;
    }
    if (!pgasi_handler_blocks(number))
        return false;
    wire = pgasi_call_arrived(source, number, wire);
    pgasi_task_call_t call = { &registry.entry[number], source, number, false, wire };
    pgasi_task_call(&call, args, bytes);
    return true;
}

pgas_status_t pgasi_handler_run_here(uint32_t number, const void *args, size_t bytes,
                                     pgas_thread_t source)
{
    if (number - 1u >= pgasi_n_handlers)
        return pgasi_dispatch(number, args, bytes, source);
    const pgasi_handler_entry_t *e = &registry.entry[number];
    e->fn(args, bytes, source, e->context);
    return PGAS_OK;
}

pgas_status_t pgasi_handler_run_one(uint32_t number, const void *args, size_t bytes,
                                    pgas_thread_t source)
{
    return number < PGASI_DESC_FIRST_INTERNAL ? pgasi_handler_run_here(number, args, bytes, source)
                                              : PGAS_ERR_NOT_FOUND;
}

/* ---- calls with a token ---- */

static void run_with_token(uint64_t header, const void *args, pgas_thread_t source, uint64_t wire)
{
    uint32_t number = pgasi_desc_handler(header);
    size_t bytes = pgasi_desc_bytes(header);
    if (PGAS_LIKELY(pgasi_handler_known((pgas_handler_t)number) && !pgasi_handlers[number].blocks &&
                    pgasi_wire_is_gathered(wire))) {
        pgasi_call_run_counted(&pgasi_handlers[number], number, args, bytes, source, wire);
        return;
    }
    if (run_later(number, args, bytes, source, wire))
        return;
    pgasi_call_t before = pgasi_call_begin(source, number, wire);
    pgasi_call_end(before, pgasi_dispatch(number, args, bytes, source));
}

static void refuse_with_token(pgas_thread_t source, uint32_t number, uint64_t wire)
{
    pgasi_call_end(pgasi_call_begin(source, number, wire & ~PGASI_WIRE_ARRIVED), PGAS_ERR_PEER);
}

void pgasi_handlers_start(void)
{
    static const pgasi_token_ops_t ops = { run_with_token, pgasi_call_settle_completions,
                                           refuse_with_token, pgasi_call_arrived };
    pgasi_dispatch_set_tokens(&ops);
    pgasi_handler_set_internal(PGASI_DESC_SPAWN, on_spawn);
}
