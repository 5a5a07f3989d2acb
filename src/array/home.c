/* The home's side of the protocol: carries out the table's actions for directory entries.
 *
 * Each chunk has a queue of requests in the order of arrival. The home starts the first request
 * when the chunk is in a stable state, and the next one when the first is done.
 *
 * A step may require that the threads of this node leave the chunk. If threads are inside, a round
 * of progress detects when they have left, and one barrier serves all chunks that are closing. If
 * the chunk is pinned, unpin continues the step. */
#include "array/home.h"

#include <stdlib.h>
#include <string.h>

#include "array/array.h"
#include "array/audit.h"
#include "array/contribution.h"
#include "array/registry.h"
#include "array/slots.h"
#include "array/sparse.h"
#include "array/words.h"
#include "array/wire.h"
#include "base/checks.h"
#include "base/op.h"
#include "boot/boot.h"

#define AHEAD_MAX   32                  /* chunks that a walk of this rank recalls ahead ... */
#define AHEAD_BYTES ((uint64_t)1 << 20) /* ... if they are not larger */
#define FORESEE     16                  /* sparse operands whose memory is requested together */
#define SMALL       ((size_t)16)        /* bytes of values for which every request has room */

static void step(pgasi_array_t *a, uint64_t index, pgasi_array_event_t event, int source);
static void dispatch(pgasi_array_t *a, uint64_t index);

/* ---- members ---- */

static bool is_exact(const pgasi_array_t *a)
{
    return a->n_ranks <= PGASI_ARRAY_EXACT_RANKS;
}

static pgasi_array_site_t site_of(pgasi_array_t *a, uint64_t index)
{
    return pgasi_array_site_at_home(a, a->rank, index, a->peer[a->rank].grants[index].now.chunk);
}

/* Recalls the chunk from all members but one. Each of them answers. */
static void give(pgasi_array_t *a, uint64_t index, int but)
{
    pgasi_array_dir_t *dir = &a->dir[index];
    uint64_t chunk = a->peer[a->rank].grants[index].now.chunk;
    for (int r = 0; r < a->n_ranks && dir->members; r++) {
        if (r == but || r == a->rank || !(dir->members & pgasi_array_bit_of(a, r)))
            continue;
        pgasi_array_send_event(a, a->global[r], chunk, PGASI_E_GIVE, 0);
        dir->pending++;
    }
    pgasi_array_site_t site = site_of(a, index);
    if (site.grant->now.stays_shared)
        pgasi_array_grant_share(&site, false);
    dir->members = but < 0 ? 0 : pgasi_array_bit_of(a, but);
}

/* ---- threads of this node leave ---- */

static void close_home(pgasi_array_t *a, uint64_t index)
{
    pgasi_array_dir_t *dir = &a->dir[index];
    pgasi_array_site_t site = site_of(a, index);
    dir->closed = (uint8_t)pgasi_array_grant_close(&site, dir->level, true);
    if (dir->closed == PGASI_ARRAY_CLOSING) {
        dir->next_closing = a->closing_dir;
        a->closing_dir = (uint32_t)index;
        a->n_closing++;
        pgasi_array_poll_soon();
    }
}

/* Threads here record no more operands for the chunk. Those that they have recorded are combined
 * into it while the grant permits that. */
static void end_own(pgasi_array_t *a, uint64_t index)
{
    if (!pgasi_array_sparse_end_own(a, a->peer[a->rank].grants[index].now.chunk))
        return;
    for (uint32_t j = 0; j < a->sparse->n_threads; j++)
        if (a->sparse->thread[j])
            pgasi_array_home_combine_own(a, a->sparse->thread[j]);
}

static void quiesce(pgasi_array_t *a, uint64_t index, pgasi_array_level_t level)
{
    end_own(a, index);
    pgasi_array_count(&a->info.recalls, 1);
    a->dir[index].level = (uint8_t)level;
    a->dir[index].pending++;
    close_home(a, index);
}

void pgasi_array_home_poll(pgasi_array_t *a)
{
    uint32_t index = a->closing_dir;
    a->closing_dir = PGASI_ARRAY_NONE;
    pgasi_array_list_begin();
    while (index != PGASI_ARRAY_NONE) {
        pgasi_array_dir_t *dir = &a->dir[index];
        uint32_t next = dir->next_closing;
        if (pgasi_array_all_left(true)) {
            a->n_closing--;
            dir->closed = PGASI_ARRAY_CLOSED;
            pgasi_array_grant_settled(&a->peer[a->rank].grants[index]);
            step(a, index, PGASI_E_QUIET, -1);
        } else {
            dir->next_closing = a->closing_dir;
            a->closing_dir = index;
        }
        index = next;
    }
    pgasi_array_list_end();
}

void pgasi_array_home_unpinned(pgasi_array_t *a, uint64_t index)
{
    pgasi_array_dir_t *dir = &a->dir[index];
    if (dir->closed == PGASI_ARRAY_PINNED) {
        close_home(a, index);
        if (dir->closed == PGASI_ARRAY_CLOSED)
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
        return PGASI_E_FETCH_W; /* it has lost its copy since its request */
    if (dir->state == PGASI_H_O && dir->op != r->op) {
        if (r->event == PGASI_E_FETCH_O)
            return PGASI_E_FETCH_O_OTHER;
        if (r->event == PGASI_E_OP_A)
            return PGASI_E_OP_A_OTHER;
    }
    return (pgasi_array_event_t)r->event;
}

/* Whether a pin of this node keeps an access of another node waiting. The end of that pin
 * continues it. */
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

pgasi_array_request_t *pgasi_array_home_new_request(pgasi_array_t *a, size_t bytes)
{
    pgasi_array_request_t *r = bytes <= SMALL ? a->spare : NULL;
    if (r) {
        a->spare = r->next;
        memset(r, 0, sizeof *r);
    } else {
        r = calloc(1, sizeof *r + PGASI_MAX(bytes, SMALL));
    }
    if (r)
        r->large = bytes > SMALL;
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

static pgas_status_t add_own(pgasi_array_t *a, uint64_t index, pgasi_array_event_t event,
                             uint32_t op, pgasi_array_access_t *x)
{
    pgasi_array_request_t *r = pgasi_array_home_new_request(a, 0);
    if (!r)
        return PGAS_ERR_NO_MEMORY;
    r->event = (uint8_t)event;
    r->source = a->rank;
    r->op = op;
    r->own = x;
    pgasi_array_home_request(a, index, r);
    return PGAS_OK;
}

/* Whether other ranks have to give the chunk back before a thread of this rank may access it. */
static bool needs_recall(const pgasi_array_t *a, uint64_t index, pgasi_array_event_t event)
{
    switch (a->dir[index].state) {
    case PGASI_H_O:
        return event != PGASI_E_OP_A;
    case PGASI_H_D:
        return a->prefetch != 0;
    case PGASI_H_S:
        return a->prefetch && event != PGASI_E_OP_R;
    default:
        return false;
    }
}

/* A thread of this rank accesses chunks in order, and other ranks have them. The function requests
 * the next ones, too, so that their recalls overlap. No thread waits for them. */
static void recall_ahead(pgasi_array_t *a, uint64_t first, uint64_t n, pgasi_array_event_t event,
                         uint32_t op)
{
    for (uint64_t j = first; j < first + n && j < a->n_home; j++)
        if (needs_recall(a, j, event) && !a->dir[j].first)
            add_own(a, j, event, op, NULL);
}

pgas_status_t pgasi_array_home_access(pgasi_array_t *a, uint64_t index, pgasi_array_access_t *x)
{
    pgasi_array_event_t event = pgasi_array_op_event(x);
    bool walks = needs_recall(a, index, event);
    bool ahead = walks && index > 0 && a->last_recall + 1 >= index && a->last_recall <= index;
    uint64_t n = PGASI_MIN(PGASI_MAX(AHEAD_BYTES / a->stride, 1), AHEAD_MAX);
    pgasi_array_list_begin();
    pgas_status_t status = add_own(a, index, event, x->op, x);
    if (ahead)
        recall_ahead(a, index + 1, n, event, x->op);
    pgasi_array_list_end();
    if (walks)
        a->last_recall = ahead ? index + n : index;
    return status;
}

/* In these states the table's rows for an apply change nothing and send nothing. */
pgas_status_t pgasi_array_home_try_apply(pgasi_array_t *a, uint64_t index, pgasi_array_access_t *x)
{
    const pgasi_array_dir_t *dir = &a->dir[index];
    bool at_once = dir->state == PGASI_H_U || (dir->state == PGASI_H_O && dir->op == x->op);
    pgasi_array_site_t site = site_of(a, index);
    return at_once && !dir->first ? pgasi_array_grant_try(&site, x, false) : PGAS_INPROGRESS;
}

void pgasi_array_home_group_done(pgasi_array_t *a, pgasi_array_group_t *group, pgas_status_t status)
{
    if (group->status == PGAS_OK)
        group->status = status;
    if (--group->n_pending)
        return;
    pgasi_array_access_t x = { .kind = PGASI_ARRAY_APPLY,
                               .chunk = group->chunk,
                               .token = group->token,
                               .status = group->status };
    pgasi_array_send_reply(a, a->global[group->source], &x, NULL, 0);
    free(group);
}

/* The grant permits it now. @return false: a thread of this node has pinned the chunk since the
 * home started the request. */
static bool execute_for_other(pgasi_array_t *a, const pgasi_array_site_t *site,
                              pgasi_array_request_t *r)
{
    uint64_t small[PGASI_ARRAY_VALUE_MAX / 8];
    size_t bytes = pgasi_array_out_bytes(&r->x, a->pub.elem_bytes);
    void *out = bytes <= sizeof small ? small : malloc(bytes);
    r->x.out = out;
    r->x.status = out ? pgasi_array_grant_try(site, &r->x, false) : PGAS_ERR_NO_MEMORY;
    PGASI_ASSERT(r->x.status != PGAS_INPROGRESS || r->x.foreign);
    bool done = r->x.status != PGAS_INPROGRESS;
    if (done && r->group)
        pgasi_array_home_group_done(a, r->group, r->x.status);
    else if (done)
        pgasi_array_send_reply(a, a->global[r->source], &r->x, out,
                               r->x.status == PGAS_OK ? bytes : 0);
    if (out != small)
        free(out);
    return done;
}

/* Carries out the access of the first request. @return false: it has to wait for a pin. */
static bool execute(pgasi_array_t *a, uint64_t index)
{
    pgasi_array_request_t *r = a->dir[index].first;
    pgasi_array_site_t site = site_of(a, index);
    const pgasi_array_access_t *x = r->source == a->rank ? r->own : &r->x;
    if (x && x->kind == PGASI_ARRAY_PIN)
        end_own(a, index); /* the thread combines by a plain pointer */
    if (r->source != a->rank)
        return execute_for_other(a, &site, r);
    if (!r->own)
        return true; /* no thread waits for it any more */
    pgas_status_t status = pgasi_array_grant_try(&site, r->own, false);
    PGASI_ASSERT(status != PGAS_INPROGRESS);
    pgasi_array_done(r->own, status);
    return true;
}

/* ---- contents ---- */

void pgasi_array_home_elements(pgasi_array_t *a, uint64_t index, uint64_t offset, const void *data,
                               size_t bytes)
{
    if (offset <= a->stride && bytes <= a->stride - offset)
        memcpy(a->peer[a->rank].data + index * a->stride + offset, data, bytes);
}

void pgasi_array_home_contribution(pgasi_array_t *a, uint64_t index, int source, uint32_t op,
                                   const void *data, size_t bytes)
{
    if (!pgasi_array_contribution_new(a, index, source, op, data, bytes))
        return;
    step(a, index, PGASI_E_WB_O, source);
    pgasi_array_contributions_settle(&a->dir[index], data, bytes);
}

/* The cache may use the line for another chunk when it has WB_ACK. */
static void send_late_ack(pgasi_array_t *a, uint64_t index)
{
    int source = a->late_ack;
    a->late_ack = -1;
    if (source >= 0)
        pgasi_array_send_event(a, a->global[source], a->peer[a->rank].grants[index].now.chunk,
                               PGASI_E_WB_ACK, 0);
}

/* As a rule the step merges the contribution, and then sends WB_ACK. Otherwise the home's threads
 * have not left yet, or further answers are missing, so the values are copied. No other message is
 * sent to the source in between. */
void pgasi_array_home_contribution_in_line(pgasi_array_t *a, uint64_t index, int source,
                                           uint32_t op, const void *data, size_t bytes)
{
    a->late_ack = source;
    pgasi_array_home_contribution(a, index, source, op, data, bytes);
    send_late_ack(a, index);
}

/* ---- sparse contributions ---- */

/* The index among the chunks of this rank, of element i of this rank. */
static uint64_t index_of(const pgasi_array_t *a, uint64_t i)
{
    uint64_t begin = a->map.offsets[a->rank];
    return a->map.whole ? (i >> a->map.shift) - (begin >> a->map.shift)
                        : pgasi_array_locate(&a->map, i).index;
}

/* If threads here leave the chunk, or a thread of this node has pinned it, the operand is kept
 * until the next merge. @return false: there is no such element, or its chunk is not Operated by
 * that operator. */
static bool keep(pgasi_array_t *a, const pgasi_array_sparse_entry_t *entry,
                 const pgas_op_def_t *def)
{
    uint64_t i = a->map.offsets[a->rank] + entry->element;
    if (i >= a->map.offsets[a->rank + 1])
        return false;
    uint64_t index = index_of(a, i);
    const pgasi_array_dir_t *dir = &a->dir[index];
    bool operated = dir->state == PGASI_H_O || dir->state == PGASI_H_Om || dir->state == PGASI_H_Or;
    if (!operated || dir->op != entry->op)
        return false;
    pgasi_array_contribution_add(a, index, entry->op, def, (uint32_t)(i & a->pub.mask),
                                 entry->operand);
    return true;
}

/* What the loop over a batch reads, in registers. */
typedef struct {
    const pgasi_array_t *array;
    const uint64_t *grant;
    char *data;
    uint64_t begin, n, own;
    uint32_t shift, elem;
    bool packed; /* the elements of this rank follow each other without gaps */
} view_t;

static view_t view_of(const pgasi_array_t *a)
{
    uint64_t begin = a->map.offsets[a->rank];
    return (view_t){ .array = a,
                     .grant = a->sparse ? a->sparse->grant : NULL,
                     .data = a->peer[a->rank].data,
                     .begin = begin,
                     .n = a->sparse ? a->map.offsets[a->rank + 1] - begin : 0,
                     .own = (uint64_t)a->rank + 1,
                     .shift = a->map.shift,
                     .elem = a->pub.elem_bytes,
                     .packed = a->map.whole && a->stride == (a->pub.mask + 1) * a->pub.elem_bytes };
}

/* Where the operand belongs. The processor begins to load it. NULL: it cannot be combined at
 * once. */
PGAS_INLINE char *foresee(const view_t *v, const pgasi_array_sparse_entry_t *entry)
{
    uint64_t i = v->begin + entry->element;
    if (PGAS_UNLIKELY(entry->element >= v->n) ||
        PGAS_UNLIKELY(__atomic_load_n(&v->grant[i >> v->shift], __ATOMIC_RELAXED) !=
                      ((uint64_t)entry->op << 32 | v->own)))
        return NULL;
    char *at = v->data + entry->element * (size_t)v->elem;
    if (!v->packed)
        at =
            v->data + index_of(v->array, i) * v->array->stride + (i & v->array->pub.mask) * v->elem;
    __builtin_prefetch(at, 1);
    return at;
}

static bool fits(const pgasi_array_t *a, const pgas_op_def_t *def)
{
    return def && def->elem_bytes == a->pub.elem_bytes &&
           def->operand_bytes <= sizeof(((pgasi_array_sparse_entry_t *)0)->operand);
}

/* By plain instructions if only the thread that serves changes the element (grant.c). */
PGAS_INLINE void combine_into(char *at, size_t elem, const pgasi_array_sparse_entry_t *entry,
                              const pgas_op_def_t *def, bool alone)
{
    pgasi_array_change_fn_t fn = def->merge ? def->merge : def->combine;
    uint64_t value, operand;
    if (!alone) {
        pgasi_array_combine_word(at, elem, entry->op, fn, entry->operand);
    } else if (entry->op == PGAS_OP(PGAS_ADD, PGAS_U64) ||
               entry->op == PGAS_OP(PGAS_ADD, PGAS_I64)) {
        memcpy(&operand, entry->operand, sizeof operand);
        memcpy(&value, at, sizeof value);
        value += operand;
        memcpy(at, &value, sizeof value);
    } else {
        fn(at, entry->operand);
    }
}

static const char *entry_at(const char *entries, size_t j)
{
    return entries + j * sizeof(pgasi_array_sparse_entry_t);
}

static void foresee_some(const view_t *v, const char *entries, size_t n, char **at)
{
    pgasi_array_sparse_entry_t entry;
    for (size_t j = 0; j < n; j++) {
        memcpy(&entry, entry_at(entries, j), sizeof entry);
        at[j] = foresee(v, &entry);
    }
}

static bool combine_some(pgasi_array_t *a, const view_t *v, const char *entries, size_t n,
                         char *const *at)
{
    pgasi_array_sparse_entry_t entry;
    const pgas_op_def_t *def = NULL;
    uint32_t op = 0;
    bool alone = pgasi_boot.node_size == 1;
    for (size_t j = 0; j < n; j++) {
        memcpy(&entry, entry_at(entries, j), sizeof entry);
        if (PGAS_UNLIKELY(!def || entry.op != op)) {
            op = entry.op;
            def = pgasi_op_find(op);
            if (!fits(a, def))
                return false;
        }
        if (PGAS_LIKELY(at[j] != NULL))
            combine_into(at[j], v->elem, &entry, def, alone);
        else if (!keep(a, &entry, def))
            return false;
    }
    return true;
}

/* An atomic instruction waits until all earlier ones have found their pages. So the elements of
 * some operands are requested together, before those in front of them are combined. */
bool pgasi_array_home_batch(pgasi_array_t *a, const void *entries, size_t n)
{
    view_t v = view_of(a);
    char *at[2][FORESEE];
    size_t m = PGASI_MIN(n, (size_t)FORESEE), next;
    foresee_some(&v, entries, m, at[0]);
    for (size_t done = 0, turn = 0; done < n; done += m, m = next, turn = !turn) {
        next = PGASI_MIN(n - done - m, (size_t)FORESEE);
        foresee_some(&v, entry_at(entries, done + m), next, at[!turn]);
        if (!combine_some(a, &v, entry_at(entries, done), m, at[turn]))
            return false;
    }
    return true;
}

void pgasi_array_home_combine_own(pgasi_array_t *a, pgasi_array_batches_t *batches)
{
    const pgasi_array_batch_t *b = pgasi_array_sparse_take(a, batches, a->rank);
    if (b)
        pgasi_array_home_batch(a, b->entry, b->n);
}

/* ---- the table ---- */

/* A rank combines operands into the chunk without a line. Threads here record theirs, too, because
 * atomic instructions on random elements would wait for memory one by one. */
static void begin_own(pgasi_array_t *a, uint64_t index)
{
    const pgasi_array_grant_t *grant = &a->peer[a->rank].grants[index];
    if (grant->now.stays_shared)
        pgasi_array_sparse_begin_own(a, grant->now.chunk, grant->now.op);
}

static void combine_here(pgasi_array_t *a, uint64_t index)
{
    pgasi_array_site_t site = site_of(a, index);
    pgasi_array_grant_share(&site, true);
    begin_own(a, index);
}

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
        pgasi_array_contribution_is_whole(dir, source);
        break;
    case PGASI_A_MERGE:
        pgasi_array_contributions_merge(a, index);
        send_late_ack(a, index);
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
        begin_own(a, index);
        break;
    case PGASI_A_SEND_DATA_R:
    case PGASI_A_SEND_DATA_W:
        pgasi_array_send_data(a, source, grant->now.chunk,
                              action == PGASI_A_SEND_DATA_R ? PGASI_E_DATA_R : PGASI_E_DATA_W,
                              r->line, data, r->pull);
        break;
    case PGASI_A_SEND_GRANT_W:
        pgasi_array_send_event(a, to, grant->now.chunk, PGASI_E_GRANT_W, r->line);
        break;
    case PGASI_A_SEND_GRANT_O:
        if (r->line == PGASI_ARRAY_NONE)
            combine_here(a, index);
        pgasi_array_send_grant_o(a, source, grant->now.chunk, r->line);
        break;
    case PGASI_A_SEND_WB_ACK:
        if (a->late_ack == source)
            break;
        pgasi_array_send_event(a, to, grant->now.chunk, PGASI_E_WB_ACK, 0);
        break;
    case PGASI_A_COUNT:
        dir->pending--;
        break;
    case PGASI_A_NEXT:
        pop(a, dir);
        break;
    /* STORE: the elements arrived before the answer. SERVE: dispatch runs already, or runs next */
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
    bool asked = (s->actions & PGASI_ARRAY_QUIESCES) != 0;
    dir->state = s->next;
    for (uint64_t left = s->actions; left; left &= left - 1) {
        pgasi_array_action_t action = (pgasi_array_action_t)__builtin_ctzll(left);
        if (action != PGASI_A_EXEC)
            act(a, index, action, source);
        else if (!execute(a, index))
            /* the request stays the first; the state that it has led to is stable */
            left &= ~PGASI_ARRAY_BIT(NEXT);
    }
    if (asked && dir->closed == PGASI_ARRAY_CLOSED)
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

/* ---- start and end ---- */

void pgasi_array_home_start(pgasi_array_t *a)
{
    a->closing_dir = PGASI_ARRAY_NONE;
    a->late_ack = -1;
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
    for (uint64_t j = 0; a->dir && j < a->n_home; j++)
        while (a->dir[j].first)
            pop(a, &a->dir[j]);
    pgasi_array_contributions_free(a);
    free(a->dir);
    while (a->spare) {
        pgasi_array_request_t *r = a->spare;
        a->spare = r->next;
        free(r);
    }
}

void pgasi_array_home_forget(pgasi_array_t *a, const pgasi_array_access_t *x)
{
    for (uint64_t j = 0; j < a->n_home; j++) {
        for (pgasi_array_request_t *r = a->dir[j].first; r; r = r->next)
            if (r->own == x)
                r->own = NULL;
    }
}

bool pgasi_array_home_is_quiet(const pgasi_array_t *a)
{
    for (uint64_t j = 0; j < a->n_home; j++)
        if (pgasi_array_is_transit(a->dir[j].state) || a->dir[j].first)
            return false;
    return true;
}
