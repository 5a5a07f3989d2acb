/* Forming chains anew. pgas_group_reform does it after a death. The client does it by itself,
 * inside progress, when the list of members has changed or the chain has ended without a death. */
#include <string.h>
#include <time.h>
#include "base/checks.h"
#include "base/clock.h"
#include "base/log.h"
#include "group/device.h"
#include "group/forming.h"

#define SELF_NS  (2 * PGASI_NS_PER_S)   /* for one attempt inside progress */
#define SOON_NS  PGASI_NS_PER_MS        /* between attempts: while a list changes */
#define LATER_NS (50 * PGASI_NS_PER_MS) /* after errors */
#define VAIN_MAX 100u                   /* attempts without any piece completed in between */

/* ---- one attempt ---- */

/* Judges an error that member i answered, or that happened here (-1). Another member may have died
 * since the list was agreed upon; then its neighbours cannot connect to it.
 * @return PGAS_ERR_AGAIN  another attempt may succeed */
static pgas_status_t judge(pgas_group_t *g, int i, pgas_status_t status)
{
    bool may_pass = status == PGAS_ERR_PEER || status == PGAS_ERR_NOT_INIT;
    if (i < 0)
        return may_pass ? PGAS_ERR_AGAIN : status;
    int at = pgasi_group_view_find(&g->forming->view, g->links[i].name.id);
    bool is_gone = g->links[i].fd < 0 && status == PGAS_ERR_PEER;
    if (status == PGAS_ERR_RANGE)
        PGASI_WARN("group", "%s lacks operations that are complete: it cannot be a member",
                   g->links[i].name.address);
    if (is_gone || status == PGAS_ERR_RANGE)
        pgasi_group_view_dead(&g->forming->view, (uint32_t)at);
    may_pass = may_pass || status == PGAS_ERR_RANGE || status == PGAS_ERR_TRANSPORT;
    return may_pass ? PGAS_ERR_AGAIN : status;
}

pgas_status_t pgasi_group_try(pgas_group_t *g, bool by_itself, uint64_t limit_ns)
{
    int failed;
    pgasi_group_end(g);
    if (g->dev && !pgasi_group_device_works(g->dev)) {
        pgasi_group_lost(g, -1);
        return PGAS_ERR_PEER;
    }
    pgas_status_t status = pgasi_group_look_again(g);
    if (status == PGAS_OK)
        status = pgasi_group_agree(g, by_itself, limit_ns);
    if (status != PGAS_OK)
        return status;
    status = pgasi_group_form(g, limit_ns, &failed);
    if (status != PGAS_OK)
        return judge(g, failed, status);
    pgasi_group_forget(g);
    if (!by_itself)
        g->n_told = g->n;
    PGASI_INFO("group", "a chain of %u replicas, epoch %llu", g->n, (unsigned long long)g->epoch);
    return PGAS_OK;
}

/* ---- by itself ---- */

void pgasi_group_mend(pgas_group_t *g)
{
    uint64_t now_ns = pgasi_now_ns();
    if (now_ns < g->mend_ns)
        return;
    pgas_status_t status = pgasi_group_try(g, true, now_ns + SELF_NS);
    bool is_soon = status == PGAS_OK || status == PGAS_ERR_AGAIN;
    g->mend_ns = pgasi_now_ns() + (is_soon ? SOON_NS : LATER_NS);
    g->n_vain += status != PGAS_ERR_AGAIN && status != PGAS_ERR_TIMEOUT;
    if (g->n_vain > VAIN_MAX && g->condition != PGASI_GROUP_BROKEN)
        pgasi_group_lost(g, g->suspect);
}

/* ---- by the program ---- */

void pgasi_group_rest(pgas_group_t *g)
{
    const struct timespec time = { 0, SOON_NS };
    pgasi_group_unlock(g);
    nanosleep(&time, NULL);
    pgasi_group_lock(g);
}

/* Waits until all pieces are complete. */
static pgas_status_t settle(pgas_group_t *g, uint64_t limit_ns)
{
    while (g->condition != PGASI_GROUP_BROKEN && g->window.acked < g->window.pushed) {
        uint64_t now_ns = pgasi_now_ns();
        pgas_sync_t room = PGAS_SYNC_INIT;
        if (now_ns >= limit_ns)
            return PGAS_ERR_TIMEOUT;
        room.count = 1;
        g->room = &room;
        g->room_wanted = g->size;
        pgasi_group_unlock(g);
        pgas_sync_wait(&room,
                       (int64_t)PGASI_MIN((limit_ns - now_ns) / 1000 + 1, (uint64_t)INT64_MAX));
        pgasi_group_lock(g);
        if (g->room == &room)
            g->room = NULL;
    }
    return g->condition == PGASI_GROUP_BROKEN ? PGAS_ERR_AGAIN : PGAS_OK;
}

/* With the turn and the lock. */
static pgas_status_t reform(pgas_group_t *g, uint64_t limit_ns)
{
    for (;;) {
        pgas_status_t status = PGAS_OK;
        if (g->condition != PGASI_GROUP_RUNS)
            status = pgasi_group_try(g, false, limit_ns);
        if (status == PGAS_OK)
            status = settle(g, limit_ns);
        if (status != PGAS_ERR_AGAIN)
            return status;
        if (pgasi_now_ns() >= limit_ns)
            return PGAS_ERR_TIMEOUT;
        pgasi_group_rest(g);
    }
}

pgas_status_t pgas_group_reform(pgas_group_t *group, int64_t timeout_us)
{
    uint64_t limit_ns = pgasi_limit_ns(timeout_us);
    if (!group || !group->is_client)
        return PGAS_ERR_INVALID;
    pgas_status_t status = pgasi_group_begin(group);
    if (status != PGAS_OK)
        return status;
    pgasi_group_lock(group);
    status = reform(group, limit_ns);
    pgasi_group_unlock(group);
    pgasi_group_give_turn(group);
    return status;
}
