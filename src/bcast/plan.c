/* Heads of broadcasts: how they are made and checked, and to which ranks this rank sends. See
 * bcast.h and tree.h. */
#include "base/checks.h"
#include "base/log.h"
#include "base/param.h"
#include "bcast/bcast.h"
#include "boot/boot.h"
#include "mem/sync.h"
#include "mem/thread.h"
#include "msg/dispatch.h"
#include "msg/send_queue.h"

#define UNSYNCED 8 /* one of so many broadcasts that no counter waits for is acknowledged */

PGASI_STATIC_ASSERT(sizeof(pgasi_bcast_head_t) == 24, "args of a broadcast are aligned to 8");

static pgasi_tree_t tree;

/* ---- the root ---- */

void pgasi_bcast_begin(pgasi_bcast_head_t *h, const pgasi_call_to_t *call)
{
    *h = (pgasi_bcast_head_t){ .source = pgas_thread_self(),
                               .high = (uint32_t)pgasi_boot.n_ranks,
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

int pgasi_bcast_rank_at(uint32_t position)
{
    return pgasi_tree_rank(&tree, pgasi_boot.rank, position);
}

/* ---- all ranks ---- */

bool pgasi_bcast_is_sane(const pgasi_bcast_head_t *h)
{
    int root = pgas_thread_rank(h->source);
    return root < pgasi_boot.n_ranks && h->low < h->high &&
           h->high <= (uint32_t)pgasi_boot.n_ranks && h->slot < PGAS_BROADCASTS_MAX &&
           pgasi_tree_rank(&tree, root, h->low) == pgasi_boot.rank;
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
static void add_children(int root, uint32_t low, uint32_t high, pgasi_bcast_plan_t *plan)
{
    while (high - low > 1) {
        uint32_t cut = pgasi_tree_cut(&tree, root, low, high);
        int rank = pgasi_tree_rank(&tree, root, cut);
        if (PGAS_UNLIKELY(pgasi_boot_is_dead(rank))) {
            skip(plan, rank);
            add_children(root, cut, high, plan);
        } else if (plan->n < PGASI_BCAST_CHILDREN_MAX) {
            plan->child[plan->n++] = (pgasi_bcast_child_t){ rank, cut, high };
        } else {
            skip(plan, rank); /* too many dead ranks */
        }
        high = cut;
    }
}

void pgasi_bcast_plan(const pgasi_bcast_head_t *h, pgasi_bcast_plan_t *plan)
{
    plan->n = 0;
    plan->error = 0;
    plan->handler = h->handler;
    add_children(pgas_thread_rank(h->source), h->low, h->high, plan);
}

pgas_status_t pgasi_bcast_plan_start(void)
{
    return pgasi_tree_init(&tree, pgasi_boot.n_ranks, pgasi_boot.node_of, pgasi_boot.n_nodes);
}

void pgasi_bcast_plan_stop(void)
{
    pgasi_tree_fini(&tree);
}
