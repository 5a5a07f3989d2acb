/* The cache's side of the protocol: carries out the table's actions for cache lines of this rank.
 *
 * policy.c decides which chunks are fetched.
 *
 * Eviction starts below the low watermark. It is a clock algorithm: a position moves in a circle
 * over the lines and evicts until the high watermark is reached. If a line was used since the last
 * visit, its mapping entries are withdrawn, so that the next use is detected. Otherwise the line is
 * evicted. All lines that are chosen at one time share a barrier. */
#include "array/cache.h"

#include <stdlib.h>
#include <string.h>

#include "array/array.h"
#include "array/audit.h"
#include "base/op.h"
#include "array/own_pins.h"
#include "array/policy.h"
#include "array/registry.h"
#include "array/slots.h"
#include "array/sparse.h"
#include "array/wire.h"
#include "base/checks.h"
#include "base/clock.h"
#include "base/sync.h"

#define MERGE_MAX ((size_t)64 * 1024) /* bytes of a chunk that is merged under its lock */

static void step(pgasi_array_t *a, uint32_t li, pgasi_array_event_t event);
static pgas_status_t fetch_for(pgasi_array_t *a, const pgasi_array_location_t *loc,
                               pgasi_array_access_t *x);

static pgasi_array_site_t site_of(pgasi_array_t *a, uint32_t li)
{
    return pgasi_array_site_of_line(a, li, a->line[li].grant.now.chunk);
}

/* The line of a chunk as a line of its own; PGASI_ARRAY_NONE: it has none. */
static uint32_t find_line(pgasi_array_t *a, uint64_t chunk)
{
    pgasi_array_run_split(a, chunk);
    return pgasi_array_line_find(a, chunk);
}

static pgasi_array_location_t locate(const pgasi_array_t *a, uint64_t chunk)
{
    pgasi_array_location_t loc;
    if (!pgasi_array_locate_chunk(&a->map, chunk, &loc))
        pgasi_array_broken(a, "no chunk", chunk, 0, 0);
    return loc;
}

/* ---- counters of prefetches ---- */

static bool is_stable(const pgasi_array_cache_line_t *line)
{
    return line->state == PGASI_C_S || line->state == PGASI_C_D || line->state == PGASI_C_O;
}

/* @return false: there is no memory, and the counter is unchanged. */
static bool promise(pgasi_array_t *a, uint32_t li, pgas_sync_t *sync)
{
    pgasi_array_told_t *told = malloc(sizeof *told);
    if (!told)
        return false;
    pgasi_sync_raise(sync);
    *told = (pgasi_array_told_t){ a->line[li].told, sync };
    a->line[li].told = told;
    return true;
}

static void tell(pgasi_array_cache_line_t *line, pgas_status_t status)
{
    pgasi_array_told_t *told = line->told;
    line->told = NULL;
    while (told) {
        pgasi_array_told_t *next = told->next;
        pgasi_sync_lower_locked(told->sync, status, -1, PGAS_OPERATION_ARRAY, 0);
        free(told);
        told = next;
    }
}

void pgasi_array_cache_end_prefetches(pgasi_array_t *a)
{
    for (uint32_t li = 0; li < a->n_lines; li++)
        tell(&a->line[li], PGAS_ERR_PEER);
}

/* ---- lines come and go ---- */

static pgasi_array_event_t event_of(pgasi_array_need_t need)
{
    switch (need) {
    case PGASI_ARRAY_NEED_R:
        return PGASI_E_NEED_R;
    case PGASI_ARRAY_NEED_W:
        return PGASI_E_NEED_W;
    default:
        return PGASI_E_NEED_O;
    }
}

/* The chunk of the first that waits may have a line by now. */
static void serve_want_line(pgasi_array_t *a)
{
    while (a->want_line.first && a->n_free) {
        pgasi_array_access_t *x = pgasi_array_queue_pop(&a->want_line);
        pgasi_array_location_t loc = locate(a, x->chunk);
        pgas_status_t status = fetch_for(a, &loc, x);
        if (status != PGAS_OK)
            pgasi_array_done(x, status);
    }
}

/* The line has reached C_I. An access that waits for the chunk requests it again. If there is none,
 * the line becomes free. */
static void give_line(pgasi_array_t *a, uint32_t li)
{
    pgasi_array_cache_line_t *line = &a->line[li];
    a->n_leaving -= line->leaving;
    line->leaving = false;
    tell(line, PGAS_OK);
    if (line->waiting.first) {
        line->op = line->waiting.first->op;
        uint64_t chunk = line->grant.now.chunk;
        *pgasi_array_heat_of(a, chunk) = line->grant.now.heat;
        line->data = pgasi_array_line_memory(a, li);
        pgasi_array_line_renew(a, li, chunk, PGASI_ARRAY_NOTHING);
        step(a, li, event_of(pgasi_array_need(line->waiting.first)));
        return;
    }
    pgasi_array_line_free(a, li, line->grant.now.chunk);
    serve_want_line(a);
}

/* ---- threads of this rank leave a line ---- */

/* Merges the contribution of a line into the elements at the home, if this rank maps them, no
 * thread of the home combines, and the home has not recalled the chunk. That is cheaper than a
 * message: the home's processor would have to load the line, and this one to get it back. */
static bool merge_there(pgasi_array_t *a, uint32_t li)
{
    const pgasi_array_cache_line_t *line = &a->line[li];
    pgasi_array_location_t loc = locate(a, line->grant.now.chunk);
    const pgas_op_def_t *def = pgasi_op_find(line->op);
    bool far = a->node_rank[line->home] < 0;
    char *there = far ? pgasi_array_mapped_chunk(a, &loc) : NULL;
    pgasi_array_grant_t *grant = far ? pgasi_array_mapped_grant(a, &loc) : NULL;
    bool aligned = (uintptr_t)there % PGASI_ARRAY_CONTRIBUTION_ALIGN == 0;
    if (!there || !grant || a->stride > MERGE_MAX || !(aligned || pgasi_op_is_built_in(line->op)) ||
        !pgasi_array_grant_seize(grant, loc.chunk, line->op))
        return false;
    uint64_t k0 = loc.first & a->pub.mask;
    pgasi_op_merge_run(def, there + k0 * a->pub.elem_bytes,
                       pgasi_array_line_memory(a, li) + k0 * def->operand_bytes, loc.n);
    pgasi_array_grant_release(grant);
    return true;
}

/* All threads have left. */
static void left(pgasi_array_t *a, uint32_t li)
{
    bool merged = a->line[li].state == PGASI_C_Oq && merge_there(a, li);
    step(a, li, merged ? PGASI_E_MERGED : PGASI_E_QUIET);
}

static void close_line(pgasi_array_t *a, uint32_t li, bool recall)
{
    pgasi_array_cache_line_t *line = &a->line[li];
    pgasi_array_site_t site = site_of(a, li);
    line->closed = (uint8_t)pgasi_array_grant_close(&site, line->level, recall);
    if (line->closed == PGASI_ARRAY_CLOSING) {
        line->next_closing = a->closing_line;
        a->closing_line = li;
        a->n_closing++;
        pgasi_array_poll_soon();
    }
}

void pgasi_array_cache_poll(pgasi_array_t *a)
{
    uint32_t li = a->closing_line;
    a->closing_line = PGASI_ARRAY_NONE;
    pgasi_array_list_begin();
    while (li != PGASI_ARRAY_NONE) {
        pgasi_array_cache_line_t *line = &a->line[li];
        uint32_t next = line->next_closing;
        if (pgasi_array_all_left(false)) {
            a->n_closing--;
            line->closed = PGASI_ARRAY_CLOSED;
            pgasi_array_grant_settled(&line->grant);
            left(a, li);
        } else {
            line->next_closing = a->closing_line;
            a->closing_line = li;
        }
        li = next;
    }
    pgasi_array_cache_keep_free(a);
    pgasi_array_list_end();
}

void pgasi_array_cache_unpinned(pgasi_array_t *a, pgasi_array_grant_t *grant)
{
    uint32_t li = (uint32_t)((pgasi_array_cache_line_t *)(void *)grant - a->line);
    if (a->line[li].closed == PGASI_ARRAY_PINNED) {
        close_line(a, li, true);
        if (a->line[li].closed == PGASI_ARRAY_CLOSED)
            left(a, li);
    }
}

/* ---- accesses that wait for a line ---- */

/* Carries out accesses in order, as many as the line permits. */
static void run(pgasi_array_t *a, uint32_t li)
{
    pgasi_array_cache_line_t *line = &a->line[li];
    while (line->waiting.first) {
        pgasi_array_site_t site = site_of(a, li);
        pgas_status_t status = pgasi_array_grant_try(&site, line->waiting.first, false);
        if (status == PGAS_INPROGRESS)
            return;
        pgasi_array_done(pgasi_array_queue_pop(&line->waiting), status);
    }
}

/* Carries out accesses that wait for the line, and requests what the first of the others needs. */
static void serve(pgasi_array_t *a, uint32_t li)
{
    pgasi_array_cache_line_t *line = &a->line[li];
    if (!is_stable(line))
        return;
    run(a, li);
    if (line->waiting.first && line->closed != PGASI_ARRAY_PINNED) {
        bool upgrade =
            line->state == PGASI_C_S && pgasi_array_need(line->waiting.first) == PGASI_ARRAY_NEED_W;
        step(a, li, upgrade ? PGASI_E_NEED_W : PGASI_E_EVICT);
    }
}

static void wait_at(pgasi_array_t *a, uint32_t li, pgasi_array_access_t *x)
{
    pgasi_array_queue_push(&a->line[li].waiting, x);
    serve(a, li);
}

/* ---- what to do about a miss ---- */

static bool is_pinned_by_waiting(const pgasi_array_t *a, const pgasi_array_grant_t *grant)
{
    for (const pgasi_array_access_t *w = a->want_line.first; w; w = w->next)
        if (pgasi_array_is_pinned_by(grant, w))
            return true;
    return false;
}

/* Whether no line can become free while x waits, because this thread or other waiting threads
 * have pinned all of them. */
static bool would_wait_for_ever(const pgasi_array_t *a, const pgasi_array_access_t *x)
{
    for (uint32_t li = 0; li < a->n_lines; li++) {
        const pgasi_array_grant_t *grant = &a->line[li].grant;
        if (!pgasi_array_is_pinned_by(grant, x) && !is_pinned_by_waiting(a, grant))
            return false;
    }
    return true;
}

static pgas_status_t carry_out_there(pgasi_array_t *a, const pgasi_array_location_t *loc,
                                     pgasi_array_access_t *x)
{
    pgasi_array_count(&a->info.remote_ops, 1);
    return pgasi_array_send_op(a, a->global[loc->home], x);
}

/* ---- eviction ---- */

static bool is_evictable(const pgasi_array_cache_line_t *line)
{
    return is_stable(line) && !line->waiting.first && !line->closed &&
           !pgasi_array_grant_is_pinned(&line->grant);
}

/* A run is looked at where its first line is. If an access waits for a line while a walk is in the
 * run, its other chunks are evicted one by one. */
static void evict_run(pgasi_array_t *a, uint32_t li)
{
    uint32_t run = a->line[li].run;
    if (a->run[run - 1].line[0] != li)
        return;
    uint32_t n = pgasi_array_run_free(a, run, a->want_line.first != NULL);
    pgasi_array_count(&a->info.evictions, n);
    serve_want_line(a);
}

static void evict(pgasi_array_t *a)
{
    pgasi_array_list_begin();
    for (uint32_t looks = 2 * a->n_lines; looks && a->n_free + a->n_leaving < a->n_high; looks--) {
        uint32_t li = a->hand;
        pgasi_array_cache_line_t *line = &a->line[li];
        a->hand = li + 1 == a->n_lines ? 0 : li + 1;
        if (line->run) {
            evict_run(a, li);
            continue;
        }
        if (!is_evictable(line))
            continue;
        if (__atomic_load_n(&line->grant.touched, __ATOMIC_RELAXED)) {
            pgasi_array_site_t site = site_of(a, li);
            pgasi_array_grant_withdraw(&site);
            continue;
        }
        line->leaving = true;
        a->n_leaving++;
        pgasi_array_count(&a->info.evictions, 1);
        step(a, li, PGASI_E_EVICT);
    }
    pgasi_array_list_end();
}

void pgasi_array_cache_keep_free(pgasi_array_t *a)
{
    if (a->want_line.first)
        /* before evict reads pins; pgasi_array_pin_ended has the matching fence before it reads
         * want_line */
        __atomic_thread_fence(__ATOMIC_SEQ_CST);
    if (a->n_free + a->n_leaving < a->n_low || (a->want_line.first && !a->n_leaving))
        evict(a);
}

/* No line is free. @return PGAS_ERR_NO_MEMORY: no line can become free while x waits. */
static pgas_status_t do_without_line(pgasi_array_t *a, const pgasi_array_location_t *loc,
                                     pgasi_array_access_t *x)
{
    if (pgasi_array_fits_call(x, a->pub.elem_bytes))
        return carry_out_there(a, loc, x);
    if (would_wait_for_ever(a, x))
        return PGAS_ERR_NO_MEMORY;
    pgasi_array_queue_push(&a->want_line, x);
    return PGAS_OK;
}

/* @return an error: the access is not accepted. */
static pgas_status_t fetch_for(pgasi_array_t *a, const pgasi_array_location_t *loc,
                               pgasi_array_access_t *x)
{
    uint32_t li = find_line(a, loc->chunk);
    if (li != PGASI_ARRAY_NONE) {
        wait_at(a, li, x);
        return PGAS_OK;
    }
    li = pgasi_array_line_take(a, loc, false);
    if (li == PGASI_ARRAY_NONE)
        return do_without_line(a, loc, x);
    a->line[li].op = x->op;
    pgasi_array_count(&a->info.fetches, 1);
    wait_at(a, li, x);
    step(a, li, event_of(pgasi_array_need(x)));
    return PGAS_OK;
}

pgas_status_t pgasi_array_cache_access(pgasi_array_t *a, const pgasi_array_location_t *loc,
                                       pgasi_array_access_t *x, bool sequential)
{
    bool has_line = find_line(a, loc->chunk) != PGASI_ARRAY_NONE;
    bool fetch = pgasi_array_should_fetch(a, loc, x, has_line, sequential);
    pgas_status_t status = fetch ? fetch_for(a, loc, x) : carry_out_there(a, loc, x);
    if (!fetch && !has_line && pgasi_array_sparse_suits(a, loc, x) &&
        pgasi_array_home_knows(a, loc->home, x->op))
        pgasi_array_sparse_ask(a, loc, x->op);
    uint64_t around = fetch && !has_line ? pgasi_array_fetch_around(a, x) : 0;
    if (around)
        pgasi_array_cache_prefetch(a, loc->chunk & ~(around - 1), around, PGASI_ARRAY_NEED_O, x->op,
                                   NULL);
    pgasi_array_cache_keep_free(a);
    return status;
}

void pgasi_array_cache_prefetch(pgasi_array_t *a, uint64_t first_chunk, uint64_t n,
                                pgasi_array_need_t need, uint32_t op, pgas_sync_t *sync)
{
    if (need == PGASI_ARRAY_NEED_O && pgasi_array_is_too_large_for_line(a, op))
        return;
    pgasi_array_location_t loc = { .cut = true };
    pgasi_array_list_begin();
    for (uint64_t chunk = first_chunk; chunk < first_chunk + n && chunk < a->map.n_blocks;
         chunk++) {
        if (!pgasi_array_locate_next(&a->map, chunk, &loc) || a->node_rank[loc.home] >= 0)
            continue;
        uint32_t li = pgasi_array_line_find(a, chunk);
        if (li != PGASI_ARRAY_NONE) {
            if (sync && !is_stable(&a->line[li]) && !promise(a, find_line(a, chunk), sync))
                break;
            continue;
        }
        if (need == PGASI_ARRAY_NEED_O && !pgasi_array_home_knows(a, loc.home, op))
            break;
        if (!pgasi_array_lines_ahead(a))
            break;
        li = pgasi_array_line_take(a, &loc, false);
        a->line[li].op = op;
        if (sync)
            promise(a, li, sync);
        pgasi_array_count(&a->info.prefetches, 1);
        step(a, li, event_of(need));
    }
    pgasi_array_list_end();
    pgasi_array_cache_keep_free(a);
}

void pgasi_array_cache_request_runs(pgasi_array_t *a, uint64_t first, uint64_t end)
{
    pgasi_array_runs_request(a, first, end);
    pgasi_array_cache_keep_free(a);
}

/* ---- contributions to chunks of this node's other ranks ---- */

void pgasi_array_cache_join(pgasi_array_t *a, const pgasi_array_location_t *loc, uint32_t op)
{
    if (a->n_near >= a->n_near_max || find_line(a, loc->chunk) != PGASI_ARRAY_NONE)
        return;
    uint32_t li = pgasi_array_line_take(a, loc, false);
    if (li == PGASI_ARRAY_NONE)
        return;
    a->line[li].op = op;
    a->line[li].joined_ns = pgasi_now_ns();
    pgasi_array_count(&a->info.prefetches, 1);
    step(a, li, PGASI_E_NEED_O);
}

bool pgasi_array_cache_await(pgasi_array_t *a, const pgasi_array_location_t *loc,
                             pgasi_array_access_t *x)
{
    uint32_t li = find_line(a, loc->chunk);
    if (li == PGASI_ARRAY_NONE || a->line[li].state != PGASI_C_IO || a->line[li].op != x->op)
        return false;
    wait_at(a, li, x);
    return true;
}

/* ---- the table ---- */

static void open_operate(pgasi_array_t *a, uint32_t li)
{
    pgasi_array_cache_line_t *line = &a->line[li];
    const pgas_op_def_t *def = pgasi_op_find(line->op);
    pgasi_op_fill_identity(def, pgasi_array_line_memory(a, li), a->pub.mask + 1);
    pgasi_array_grant_open(&line->grant, PGASI_ARRAY_OPERATES, line->op);
}

static void send_back(pgasi_array_t *a, uint32_t li, pgasi_array_event_t event)
{
    pgasi_array_cache_line_t *line = &a->line[li];
    pgasi_array_location_t loc = locate(a, line->grant.now.chunk);
    const char *data = line->data;
    uint64_t end = (loc.first & a->pub.mask) + loc.n;
    int home = a->global[loc.home];
    if (event == PGASI_E_WB_O && a->reads_lines[loc.home]) {
        pgasi_array_send_contribution_in_line(a, home, loc.chunk, line->op, li);
        return;
    }
    if (event == PGASI_E_WB_O) {
        pgasi_array_send_contribution(a, home, loc.chunk, line->op, data,
                                      end * pgasi_op_find(line->op)->operand_bytes);
        return;
    }
    if (data != pgasi_array_line_memory(a, li)) { /* it is there already */
        pgasi_array_send_answer(a, home, loc.chunk, event);
        return;
    }
    pgasi_array_send_elements(a, home, loc.chunk, event, data, end * a->pub.elem_bytes);
}

static void act(pgasi_array_t *a, uint32_t li, pgasi_array_action_t action,
                pgasi_array_event_t event)
{
    pgasi_array_cache_line_t *line = &a->line[li];
    uint64_t chunk = line->grant.now.chunk;
    switch (action) {
    case PGASI_A_QUIESCE:
    case PGASI_A_QUIESCE_WRITES:
        line->level = action == PGASI_A_QUIESCE ? PGASI_ARRAY_NO_ACCESS : PGASI_ARRAY_NO_WRITES;
        close_line(a, li, event != PGASI_E_EVICT);
        break;
    case PGASI_A_OPEN_ALL:
        pgasi_array_grant_open(&line->grant, PGASI_ARRAY_ALL, 0);
        break;
    case PGASI_A_OPEN_READ:
        pgasi_array_grant_open(&line->grant, PGASI_ARRAY_READS, 0);
        break;
    case PGASI_A_OPEN_OPERATE:
        open_operate(a, li);
        break;
    case PGASI_A_SEND_FETCH_R:
        pgasi_array_send_request(a, line->home, chunk, PGASI_E_FETCH_R, li, 0);
        break;
    case PGASI_A_SEND_FETCH_W:
        pgasi_array_send_request(a, line->home, chunk, PGASI_E_FETCH_W, li, 0);
        break;
    case PGASI_A_SEND_FETCH_O:
        pgasi_array_send_request(a, line->home, chunk, PGASI_E_FETCH_O, li, line->op);
        break;
    case PGASI_A_SEND_UPGRADE:
        pgasi_array_send_request(a, line->home, chunk, PGASI_E_UPGRADE, li, 0);
        break;
    case PGASI_A_SEND_ACK:
        pgasi_array_send_answer(a, a->global[line->home], chunk, PGASI_E_ACK);
        break;
    case PGASI_A_SEND_WB:
        send_back(a, li, PGASI_E_WB);
        break;
    case PGASI_A_SEND_WB_KEEP:
        send_back(a, li, PGASI_E_WB_KEEP);
        break;
    case PGASI_A_SEND_WB_O:
        send_back(a, li, PGASI_E_WB_O);
        break;
    case PGASI_A_RUN:
        run(a, li);
        break;
    case PGASI_A_FREE:
        give_line(a, li);
        break;
    default:
        break;
    }
}

static void step(pgasi_array_t *a, uint32_t li, pgasi_array_event_t event)
{
    pgasi_array_cache_line_t *line = &a->line[li];
    const pgasi_array_step_t *s = pgasi_array_step(line->state, event);
    if (!s->known)
        pgasi_array_broken(a, "line of", line->grant.now.chunk, line->state, (int)event);
    bool asked = (s->actions & PGASI_ARRAY_QUIESCES) != 0;
    bool freed = (s->actions & PGASI_ARRAY_BIT(FREE)) != 0;
    line->state = s->next;
    for (uint64_t left = s->actions; left; left &= left - 1)
        act(a, li, (pgasi_array_action_t)__builtin_ctzll(left), event);
    PGASI_ASSERT(freed || line->closed || asked || pgasi_array_cache_line_is_sound(a, li));
    if (asked && line->closed == PGASI_ARRAY_CLOSED)
        left(a, li);
    else if (!freed && line->waiting.first)
        serve(a, li);
    if (PGAS_UNLIKELY(line->told) && is_stable(line))
        tell(line, PGAS_OK);
}

void pgasi_array_cache_event(pgasi_array_t *a, uint64_t chunk, pgasi_array_event_t event,
                             uint32_t li_asked, char *there)
{
    bool fills = event == PGASI_E_DATA_R || event == PGASI_E_DATA_W;
    uint32_t li = pgasi_array_line_find(a, chunk);
    bool in_run = li != PGASI_ARRAY_NONE && a->line[li].run;
    bool has_copy = li != PGASI_ARRAY_NONE && !(in_run && a->line[li].state == PGASI_C_IS);
    if (fills && in_run && li == li_asked) {
        pgasi_array_run_arrived(a, li, there);
        pgasi_array_cache_keep_free(a);
        return;
    }
    if (event == PGASI_E_GRANT_O && li_asked == PGASI_ARRAY_NONE) {
        pgasi_array_sparse_granted(a, chunk, locate(a, chunk).home);
        return;
    }
    if (event == PGASI_E_GIVE)
        pgasi_array_sparse_end(a, chunk, true);
    if (!has_copy && event == PGASI_E_GIVE) { /* as in the states C_I and C_IS */
        pgasi_array_send_answer(a, a->global[locate(a, chunk).home], chunk, PGASI_E_ACK);
        return;
    }
    li = find_line(a, chunk);
    if (li == PGASI_ARRAY_NONE || (fills && li != li_asked))
        pgasi_array_broken(a, "no line for", chunk, PGASI_C_I, (int)event);
    if (fills && there)
        a->line[li].data = there;
    else if (event == PGASI_E_GIVE || event == PGASI_E_LEND)
        pgasi_array_count(&a->info.recalls, 1);
    step(a, li, event);
    pgasi_array_cache_keep_free(a);
}

void pgasi_array_cache_elements(pgasi_array_t *a, uint64_t chunk, uint32_t li, uint64_t offset,
                                const void *data, size_t bytes)
{
    if (li == pgasi_array_line_find(a, chunk) && li != PGASI_ARRAY_NONE && offset <= a->stride &&
        bytes <= a->stride - offset)
        memcpy(pgasi_array_line_memory(a, li) + offset, data, bytes);
}

/* ---- start and end ---- */

void pgasi_array_cache_start(pgasi_array_t *a)
{
    a->closing_line = PGASI_ARRAY_NONE;
    pgasi_array_lines_start(a);
}

void pgasi_array_cache_forget(pgasi_array_t *a, const pgasi_array_access_t *x)
{
    pgasi_array_queue_remove(&a->want_line, x);
    for (uint32_t li = 0; li < a->n_lines; li++)
        pgasi_array_queue_remove(&a->line[li].waiting, x);
}

bool pgasi_array_cache_empty(pgasi_array_t *a)
{
    pgasi_array_runs_split_all(a);
    for (uint32_t li = 0; li < a->n_lines; li++)
        if (is_evictable(&a->line[li]))
            step(a, li, PGASI_E_EVICT);
    return pgasi_array_sparse_empty(a) && a->n_free == a->n_lines;
}
