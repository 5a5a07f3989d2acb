/* Heads of broadcasts: how they are made and checked, and to which ranks this rank sends. See
 * bcast.h and tree.h. */
#include <stdlib.h>

#include "base/checks.h"
#include "base/log.h"
#include "base/param.h"
#include "bcast/bcast.h"
#include "boot/boot.h"
#include "boot/hooks.h"
#include "base/sync.h"
#include "mem/thread.h"
#include "msg/dispatch.h"
#include "msg/send_queue.h"

#define UNSYNCED 8 /* one of so many broadcasts that no counter waits for is acknowledged */

PGASI_STATIC_ASSERT(sizeof(pgasi_bcast_head_t) == 24, "args of a broadcast are aligned to 8");

/* The tree of all ranks. Each other team has its own, made when a broadcast first needs it. */
static pgasi_tree_t world_tree;

/* ---- trees of teams ---- */

typedef struct {
    pgasi_tree_t tree; /* of team ranks */
    int node_of[];
} team_tree_t;

static void free_team_tree(void *attachment)
{
    team_tree_t *t = attachment;
    if (t)
        pgasi_tree_fini(&t->tree);
    free(t);
}

static team_tree_t *make_team_tree(const pgas_team_t *team)
{
    int n = pgas_team_size(team);
    team_tree_t *t = malloc(sizeof *t + (size_t)n * sizeof t->node_of[0]);
    if (!t)
        return NULL;
    for (int i = 0; i < n; i++)
        t->node_of[i] = pgasi_boot.node_of[pgas_team_to_global(team, i)];
    if (pgasi_tree_init(&t->tree, n, t->node_of, pgasi_boot.n_nodes) == PGAS_OK)
        return t;
    free(t);
    return NULL;
}

/* NULL: no memory. Two threads may make the tree at the same time; one of the trees stays. */
static const pgasi_tree_t *tree_of(pgas_team_t *team)
{
    team_tree_t *t = pgasi_team_attachment(team);
    if (PGAS_UNLIKELY(!t)) {
        t = make_team_tree(team);
        if (t && !pgasi_team_attach(team, t)) {
            free_team_tree(t);
            t = pgasi_team_attachment(team);
        }
    }
    return t ? &t->tree : NULL;
}

/* A broadcast as its team numbers its ranks. */
typedef struct {
    const pgas_team_t *team; /* NULL: all ranks */
    const pgasi_tree_t *tree;
    int root;
} view_t;

static pgas_status_t view_of(const pgasi_bcast_head_t *h, view_t *v)
{
    int root = pgas_thread_rank(h->source);
    if (PGAS_LIKELY(h->team == 0)) {
        *v = (view_t){ NULL, &world_tree, root < pgasi_boot.n_ranks ? root : -1 };
    } else {
        pgas_team_t *team = pgasi_team_of_number(h->team);
        if (!team)
            return PGAS_ERR_NOT_FOUND;
        *v = (view_t){ team, tree_of(team), pgas_team_from_global(team, root) };
    }
    if (v->root < 0)
        return PGAS_ERR_NOT_FOUND;
    return v->tree ? PGAS_OK : PGAS_ERR_NO_MEMORY;
}

/* The rank of the job at a position. */
static int rank_at(const view_t *v, uint32_t position)
{
    int member = pgasi_tree_rank(v->tree, v->root, position);
    return v->team ? pgas_team_to_global(v->team, member) : member;
}

/* ---- the root ---- */

void pgasi_bcast_begin(pgasi_bcast_head_t *h, const pgasi_call_to_t *call)
{
    *h = (pgasi_bcast_head_t){ .source = pgas_thread_self(),
                               .high = (uint32_t)pgas_team_size(call->target.team),
                               .team = pgasi_team_number(call->target.team),
                               .handler = call->handler };
    bool threads = call->target.slot == PGAS_TARGET_TEAM_THREADS;
    h->flags =
        (uint8_t)((call->o->when == PGAS_REMOTE ? PGASI_BCAST_REMOTE : 0) |
                  (threads ? PGASI_BCAST_THREADS : 0) | (call->o->spawn ? PGASI_BCAST_SPAWN : 0));
}

bool pgasi_bcast_is_turn(void)
{
    static __thread uint32_t n_unsynced;
    return ++n_unsynced % UNSYNCED == 0;
}

void pgasi_bcast_members(const pgasi_bcast_head_t *h, int *member_of)
{
    view_t v;
    if (view_of(h, &v) != PGAS_OK)
        return;
    for (uint32_t position = 0; position < h->high; position++)
        member_of[position] = pgasi_tree_rank(v.tree, v.root, position);
}

/* ---- all ranks ---- */

bool pgasi_bcast_is_sane(const pgasi_bcast_head_t *h)
{
    view_t v;
    pgas_status_t status = view_of(h, &v);
    if (status == PGAS_ERR_NO_MEMORY)
        return h->low < h->high && h->slot < PGAS_BROADCASTS_MAX;
    return status == PGAS_OK && h->low < h->high && h->high <= (uint32_t)pgas_team_size(v.team) &&
           h->slot < PGAS_BROADCASTS_MAX && rank_at(&v, h->low) == pgasi_boot.rank;
}

__attribute__((cold)) void pgasi_bcast_drop(pgas_thread_t source)
{
    if (pgasi_first_dropped())
        PGASI_ERROR("call", "malformed broadcast from rank %d: dropped", pgas_thread_rank(source));
}

static __attribute__((cold)) void skip(pgasi_bcast_plan_t *plan, int rank)
{
    if (!plan->error)
        plan->error = pgasi_error_pack(PGAS_ERR_PEER, rank, PGAS_OPERATION_CALL, plan->handler);
}

/* A dead child is skipped: its children become children of this rank. */
static void add_children(const view_t *v, uint32_t low, uint32_t high, pgasi_bcast_plan_t *plan)
{
    while (high - low > 1) {
        uint32_t cut = pgasi_tree_cut(v->tree, v->root, low, high);
        int rank = rank_at(v, cut);
        if (PGAS_UNLIKELY(pgasi_boot_is_dead(rank))) {
            skip(plan, rank);
            add_children(v, cut, high, plan);
        } else if (plan->n < PGASI_BCAST_CHILDREN_MAX) {
            plan->child[plan->n++] = (pgasi_bcast_child_t){ rank, cut, high };
        } else {
            skip(plan, rank); /* too many dead ranks */
        }
        high = cut;
    }
}

pgas_status_t pgasi_bcast_plan(const pgasi_bcast_head_t *h, pgasi_bcast_plan_t *plan)
{
    view_t v;
    plan->n = 0;
    plan->error = 0;
    plan->handler = h->handler;
    pgas_status_t status = view_of(h, &v);
    if (status == PGAS_OK)
        add_children(&v, h->low, h->high, plan);
    return status;
}

pgas_status_t pgasi_bcast_plan_start(void)
{
    pgasi_hooks.team_ended = free_team_tree;
    return pgasi_tree_init(&world_tree, pgasi_boot.n_ranks, pgasi_boot.node_of, pgasi_boot.n_nodes);
}

void pgasi_bcast_plan_stop(void)
{
    pgasi_tree_fini(&world_tree);
}
