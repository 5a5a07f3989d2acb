/* The home's side of the protocol: carries out what the table says for directory entries.
 *
 * Requests stand in a queue for each chunk, in the order in which they came; the first is looked at
 * when the chunk is in a stable state, and the next when it is done. What a step asks the threads
 * of this node to do (to leave) may end at once, or later: in rounds of progress for those that are
 * inside (one barrier for all chunks that are closing), at unpin for pins. */
#include "array/array.h"

#include <stdlib.h>
#include <string.h>

#include "array/op.h"
#include "array/slots.h"
#include "base/checks.h"
#include "boot/wait.h"

static void step(pgasi_array_t *a, uint64_t index, pgasi_array_event_t event, int source);
static void dispatch(pgasi_array_t *a, uint64_t index);

/* ---- whom it concerns ---- */

static bool is_exact(const pgasi_array_t *a)
{
    return a->n_ranks <= PGASI_ARRAY_EXACT_RANKS;
}

static pgasi_array_site_t site_of(pgasi_array_t *a, uint64_t index)
{
    pgasi_array_grant_t *grant = &a->peer[a->rank].grants[index];
    return (pgasi_array_site_t){ a,
                                 grant,
                                 a->peer[a->rank].data + index * a->stride,
                                 grant->now.chunk,
                                 true,
                                 grant->now.chunk >= a->map.n_blocks };
}

/* Those that have it give it back; each answers. */
static void give(pgasi_array_t *a, uint64_t index, int but)
{
    pgasi_array_dir_t *dir = &a->dir[index];
    uint64_t chunk = a->peer[a->rank].grants[index].now.chunk;
    for (int r = 0; r < a->n_ranks && dir->members; r++) {
        if (r == but || a->node_rank[r] >= 0 || !(dir->members & pgasi_array_bit_of(a, r)))
            continue;
        pgasi_array_send_event(a, a->global[r], chunk, PGASI_E_GIVE, 0);
        dir->pending++;
    }
    dir->members = but < 0 ? 0 : pgasi_array_bit_of(a, but);
}

/* ---- threads of this node leave ---- */

static void close_home(pgasi_array_t *a, uint64_t index)
{
    pgasi_array_dir_t *dir = &a->dir[index];
    pgasi_array_site_t site = site_of(a, index);
    dir->closed = (uint8_t)pgasi_array_grant_close(&site, dir->level, true);
    if (dir->closed == 1) {
        dir->next_closing = a->closing_dir;
        a->closing_dir = (uint32_t)index;
        a->n_closing++;
        pgasi_array_poll_soon();
    }
}

static void quiesce(pgasi_array_t *a, uint64_t index, pgasi_array_level_t level)
{
    pgasi_array_count(&a->info.recalls, 1);
    a->dir[index].level = (uint8_t)level;
    a->dir[index].pending++;
    close_home(a, index);
}

void pgasi_array_home_poll(pgasi_array_t *a)
{
    uint32_t index = a->closing_dir;
    a->closing_dir = PGASI_ARRAY_NONE;
    while (index != PGASI_ARRAY_NONE) {
        pgasi_array_dir_t *dir = &a->dir[index];
        uint32_t next = dir->next_closing;
        if (pgasi_array_all_left(true)) {
            a->n_closing--;
            dir->closed = 0;
            step(a, index, PGASI_E_QUIET, -1);
        } else {
            dir->next_closing = a->closing_dir;
            a->closing_dir = index;
        }
        index = next;
    }
}

void pgasi_array_home_unpinned(pgasi_array_t *a, uint64_t index)
{
    pgasi_array_dir_t *dir = &a->dir[index];
    if (dir->closed == 2) {
        close_home(a, index);
        if (dir->closed == 0)
            step(a, index, PGASI_E_QUIET, -1);
    } else {
        dispatch(a, index);
    }
}

/* ---- requests ---- */

static pgasi_array_event_t event_of(const pgasi_array_t *a, const pgasi_array_dir_t *dir)
{
    const pgasi_array_request_t *r = dir->first;
    if (r->event == PGASI_E_UPGRADE && dir->state == PGASI_H_S &&
        !(is_exact(a) && (dir->members & pgasi_array_bit_of(a, r->source))))
        return PGASI_E_FETCH_W; /* it has lost its copy meanwhile */
    if (dir->state == PGASI_H_O && dir->op != r->op) {
        if (r->event == PGASI_E_FETCH_O)
            return PGASI_E_FETCH_O_OTHER;
        if (r->event == PGASI_E_OP_A)
            return PGASI_E_OP_A_OTHER;
    }
    return (pgasi_array_event_t)r->event;
}

/* A pin of this node keeps an access of another node waiting; unpin looks again. */
static bool is_kept_waiting(pgasi_array_t *a, uint64_t index)
{
    pgasi_array_request_t *r = a->dir[index].first;
    return r->event >= PGASI_E_OP_R && r->event <= PGASI_E_OP_A && r->x.foreign &&
           pgasi_array_grant_is_pinned_against(&a->peer[a->rank].grants[index], &r->x);
}

static void dispatch(pgasi_array_t *a, uint64_t index)
{
    pgasi_array_dir_t *dir = &a->dir[index];
    if (dir->dispatching)
        return;
    dir->dispatching = true;
    while (dir->first && !pgasi_array_is_transit(dir->state) && !is_kept_waiting(a, index))
        step(a, index, event_of(a, dir), dir->first->source);
    dir->dispatching = false;
}

static void pop(pgasi_array_t *a, pgasi_array_dir_t *dir)
{
    pgasi_array_request_t *r = dir->first;
    dir->first = r->next;
    if (!dir->first)
        dir->last = NULL;
    if (r->large) {
        free(r);
        return;
    }
    r->next = a->spare;
    a->spare = r;
}

pgasi_array_request_t *pgasi_array_new_request(pgasi_array_t *a, size_t bytes)
{
    pgasi_array_request_t *r = bytes ? NULL : a->spare;
    if (r) {
        a->spare = r->next;
        memset(r, 0, sizeof *r);
    } else {
        r = calloc(1, sizeof *r + bytes);
    }
    if (r)
        r->large = bytes != 0;
    return r;
}

void pgasi_array_home_request(pgasi_array_t *a, uint64_t index, pgasi_array_request_t *r)
{
    pgasi_array_dir_t *dir = &a->dir[index];
    r->next = NULL;
    if (dir->last)
        dir->last->next = r;
    else
        dir->first = r;
    dir->last = r;
    if (dir->first == r)
        dispatch(a, index);
}

pgasi_array_event_t pgasi_array_event_of_access(const pgasi_array_access_t *x)
{
    pgasi_array_need_t need = pgasi_array_need(x);
    return need == PGASI_ARRAY_NEED_R   ? PGASI_E_OP_R
           : need == PGASI_ARRAY_NEED_W ? PGASI_E_OP_W
                                        : PGASI_E_OP_A;
}

pgas_status_t pgasi_array_home_own(pgasi_array_t *a, uint64_t index, pgasi_array_access_t *x)
{
    pgasi_array_request_t *r = pgasi_array_new_request(a, 0);
    if (!r)
        return PGAS_ERR_NO_MEMORY;
    r->event = (uint8_t)pgasi_array_event_of_access(x);
    r->source = a->rank;
    r->op = x->op;
    r->own = x;
    pgasi_array_home_request(a, index, r);
    return PGAS_OK;
}

/* Of the first request: by the grant, which allows it now. False: a thread of this node has pinned
 * the chunk since it was looked at, and the access is of another node. */
static bool execute(pgasi_array_t *a, uint64_t index)
{
    pgasi_array_request_t *r = a->dir[index].first;
    pgasi_array_site_t site = site_of(a, index);
    if (r->own) {
        pgas_status_t status = pgasi_array_grant_try(&site, r->own, false);
        PGASI_ASSERT(status != PGAS_INPROGRESS);
        pgasi_array_done(r->own, status);
    } else if (r->source != a->rank) {
        uint64_t small[PGASI_ARRAY_VALUE_MAX / 8];
        size_t bytes = pgasi_array_out_bytes(a, &r->x);
        void *out = bytes <= sizeof small ? small : malloc(bytes);
        r->x.out = out;
        r->x.status = out ? pgasi_array_grant_try(&site, &r->x, false) : PGAS_ERR_NO_MEMORY;
        PGASI_ASSERT(r->x.status != PGAS_INPROGRESS || r->x.foreign);
        bool kept = r->x.status == PGAS_INPROGRESS;
        if (!kept)
            pgasi_array_send_reply(a, a->global[r->source], &r->x, out,
                                   r->x.status == PGAS_OK ? bytes : 0);
        if (out != small)
            free(out);
        return !kept;
    }
    return true;
}

/* ---- contents ---- */

void pgasi_array_home_elements(pgasi_array_t *a, uint64_t index, uint64_t offset, const void *data,
                               size_t bytes)
{
    if (offset <= a->stride && bytes <= a->stride - offset)
        memcpy(a->peer[a->rank].data + index * a->stride + offset, data, bytes);
}

#define SPARE_KEPT 64 /* buffers that are not given back */

static pgasi_array_contribution_t *new_kept(pgasi_array_t *a, uint64_t index, int source,
                                            uint32_t op)
{
    pgasi_array_dir_t *dir = &a->dir[index];
    pgasi_array_contribution_t *k = a->spare_contributions;
    if (k) {
        a->spare_contributions = k->next;
        a->n_spare_contributions--;
    } else {
        k = malloc(sizeof *k + a->stride);
    }
    if (!k)
        pgasi_array_broken(a, "no memory for operands of", a->peer[a->rank].grants[index].now.chunk,
                           dir->state, 0);
    *k = (pgasi_array_contribution_t){
        .next = dir->kept, .op = op, .source = source, .operands = k->room
    };
    dir->kept = k;
    return k;
}

static void free_kept(pgasi_array_t *a, pgasi_array_contribution_t *k)
{
    if (a->n_spare_contributions == SPARE_KEPT) {
        free(k);
        return;
    }
    k->next = a->spare_contributions;
    a->spare_contributions = k;
    a->n_spare_contributions++;
}

/* There is at most one, because a cache gets the chunk again only after the merge. */
static pgasi_array_contribution_t *coming_from(const pgasi_array_dir_t *dir, int source)
{
    pgasi_array_contribution_t *k = dir->kept;
    while (k && k->source != source)
        k = k->next;
    return k;
}

void pgasi_array_home_contribution_piece(pgasi_array_t *a, uint64_t index, int source, uint32_t op,
                                         uint64_t offset, const void *data, size_t bytes)
{
    pgasi_array_contribution_t *k = coming_from(&a->dir[index], source);
    if (!k)
        k = new_kept(a, index, source, op);
    if (offset <= a->stride && bytes <= a->stride - offset)
        memcpy(k->room + offset, data, bytes);
}

/* As a rule they are merged before the message has been looked at, without a copy; but operators of
 * the program may rely on alignment. */
void pgasi_array_home_contribution(pgasi_array_t *a, uint64_t index, int source, uint32_t op,
                                   const void *data, size_t bytes)
{
    if (bytes > a->stride)
        return;
    pgasi_array_contribution_t *k = new_kept(a, index, source, op);
    bool aligned = (uintptr_t)data % PGASI_ARRAY_CONTRIBUTION_ALIGN == 0 ||
                   op < PGAS_ARRAY_OP(PGAS_ARRAY_N_KINDS, 0);
    k->operands = aligned ? data : memcpy(k->room, data, bytes);
    step(a, index, PGASI_E_WB_O, source);
    for (k = a->dir[index].kept; k; k = k->next) {
        if (k->operands != data)
            continue;
        memcpy(k->room, data, bytes);
        k->operands = k->room;
    }
}

/* Of those whose answer has come: others are not all here. */
static void merge(pgasi_array_t *a, uint64_t index)
{
    pgasi_array_dir_t *dir = &a->dir[index];
    pgasi_array_location_t loc = pgasi_array_locate_index(&a->map, a->rank, index);
    uint64_t k0 = loc.first & a->open.mask;
    char *data = a->peer[a->rank].data + index * a->stride + k0 * a->open.elem_bytes;
    for (pgasi_array_contribution_t **at = &dir->kept, *k; (k = *at);) {
        if (!k->whole) {
            at = &k->next;
            continue;
        }
        const pgas_array_op_def_t *def = pgasi_array_op_find(k->op);
        if (!def)
            pgasi_array_broken(a, "unknown operator for", loc.chunk, dir->state, 0);
        pgasi_array_op_merge_run(def, data, k->operands + k0 * def->operand_bytes, loc.n);
        *at = k->next;
        free_kept(a, k);
    }
}

static void keep(const pgasi_array_dir_t *dir, int source)
{
    pgasi_array_contribution_t *k = coming_from(dir, source);
    if (k)
        k->whole = true;
}

/* ---- the table ---- */

static void act(pgasi_array_t *a, uint64_t index, pgasi_array_action_t action, int source)
{
    pgasi_array_dir_t *dir = &a->dir[index];
    pgasi_array_request_t *r = dir->first;
    pgasi_array_grant_t *grant = &a->peer[a->rank].grants[index];
    int to = source >= 0 ? a->global[source] : -1;
    const char *data = a->peer[a->rank].data + index * a->stride;
    switch (action) {
    case PGASI_A_QUIESCE:
        quiesce(a, index, PGASI_ARRAY_NO_ACCESS);
        break;
    case PGASI_A_QUIESCE_WRITES:
        quiesce(a, index, PGASI_ARRAY_NO_WRITES);
        break;
    case PGASI_A_KEEP:
        keep(dir, source);
        break;
    case PGASI_A_MERGE:
        merge(a, index);
        break;
    case PGASI_A_DROP:
        dir->members &= is_exact(a) ? ~pgasi_array_bit_of(a, source) : ~UINT64_C(0);
        break;
    case PGASI_A_JOIN:
        dir->members |= pgasi_array_bit_of(a, source);
        break;
    case PGASI_A_GIVE_ALL:
        give(a, index, -1);
        break;
    case PGASI_A_GIVE_OTHERS:
        give(a, index, source);
        break;
    case PGASI_A_GIVE_OWNER:
    case PGASI_A_LEND_OWNER:
        pgasi_array_send_event(a, a->global[dir->owner], grant->now.chunk,
                               action == PGASI_A_LEND_OWNER ? PGASI_E_LEND : PGASI_E_GIVE, 0);
        dir->pending++;
        break;
    case PGASI_A_SET_OP:
        dir->op = r->op;
        break;
    case PGASI_A_OWN:
        dir->members = 0;
        dir->owner = source;
        break;
    case PGASI_A_ADD:
        dir->members |= pgasi_array_bit_of(a, source);
        break;
    case PGASI_A_OPEN_ALL:
        pgasi_array_grant_open(grant, PGASI_ARRAY_ALL, 0);
        break;
    case PGASI_A_OPEN_READ:
        pgasi_array_grant_open(grant, PGASI_ARRAY_READS, 0);
        break;
    case PGASI_A_OPEN_OPERATE:
        pgasi_array_grant_open(grant, PGASI_ARRAY_OPERATES, dir->op);
        break;
    case PGASI_A_SEND_DATA_R:
    case PGASI_A_SEND_DATA_W:
        pgasi_array_send_data(a, to, grant->now.chunk,
                              action == PGASI_A_SEND_DATA_R ? PGASI_E_DATA_R : PGASI_E_DATA_W,
                              r->line, data, r->pull);
        break;
    case PGASI_A_SEND_GRANT_W:
        pgasi_array_send_event(a, to, grant->now.chunk, PGASI_E_GRANT_W, r->line);
        break;
    case PGASI_A_SEND_GRANT_O:
        pgasi_array_send_event(a, to, grant->now.chunk, PGASI_E_GRANT_O, r->line);
        break;
    case PGASI_A_SEND_WB_ACK:
        pgasi_array_send_event(a, to, grant->now.chunk, PGASI_E_WB_ACK, 0);
        break;
    case PGASI_A_COUNT:
        dir->pending--;
        break;
    case PGASI_A_NEXT:
        pop(a, dir);
        break;
    /* STORE: what came before the answer. SERVE: dispatch, which is at work or follows */
    default:
        break;
    }
}

static void step(pgasi_array_t *a, uint64_t index, pgasi_array_event_t event, int source)
{
    pgasi_array_dir_t *dir = &a->dir[index];
    const pgasi_array_step_t *s = pgasi_array_step(dir->state, event);
    if (!s->known)
        pgasi_array_broken(a, "home of", a->peer[a->rank].grants[index].now.chunk, dir->state,
                           (int)event);
    bool asked = (s->actions &
                  (UINT64_C(1) << PGASI_A_QUIESCE | UINT64_C(1) << PGASI_A_QUIESCE_WRITES)) != 0;
    dir->state = s->next;
    for (uint64_t left = s->actions; left; left &= left - 1) {
        pgasi_array_action_t action = (pgasi_array_action_t)__builtin_ctzll(left);
        if (action != PGASI_A_EXEC)
            act(a, index, action, source);
        else if (!execute(a, index))
            /* it stays the first; the state that it has led to is stable */
            left &= ~(UINT64_C(1) << PGASI_A_NEXT);
    }
    if (asked && dir->closed == 0)
        step(a, index, PGASI_E_QUIET, -1);
    else if (pgasi_array_is_transit(dir->state) && dir->pending == 0)
        step(a, index, PGASI_E_ALL_IN, -1);
    PGASI_ASSERT(pgasi_array_home_is_sound(a, index));
    dispatch(a, index);
}

void pgasi_array_home_answer(pgasi_array_t *a, uint64_t index, pgasi_array_event_t event,
                             int source)
{
    step(a, index, event, source);
}

/* ---- begin and end ---- */

void pgasi_array_home_start(pgasi_array_t *a)
{
    a->closing_dir = PGASI_ARRAY_NONE;
    for (uint64_t j = 0; j < a->n_home; j++) {
        pgasi_array_grant_t *grant = &a->peer[a->rank].grants[j];
        memset(grant, 0, sizeof *grant);
        grant->now.chunk = pgasi_array_locate_index(&a->map, a->rank, j).chunk;
        grant->now.permits = PGASI_ARRAY_ALL;
        a->dir[j].state = PGASI_H_U;
    }
}

void pgasi_array_home_stop(pgasi_array_t *a)
{
    for (uint64_t j = 0; a->dir && j < a->n_home; j++) {
        while (a->dir[j].first)
            pop(a, &a->dir[j]);
        while (a->dir[j].kept) {
            pgasi_array_contribution_t *k = a->dir[j].kept;
            a->dir[j].kept = k->next;
            free_kept(a, k);
        }
    }
    free(a->dir);
    while (a->spare_contributions) {
        pgasi_array_contribution_t *k = a->spare_contributions;
        a->spare_contributions = k->next;
        free(k);
    }
    while (a->spare) {
        pgasi_array_request_t *r = a->spare;
        a->spare = r->next;
        free(r);
    }
}

void pgasi_array_home_forget(pgasi_array_t *a, pgasi_array_access_t *x)
{
    for (uint64_t j = 0; j < a->n_home; j++) {
        for (pgasi_array_request_t *r = a->dir[j].first; r; r = r->next)
            if (r->own == x)
                r->own = NULL;
    }
}
