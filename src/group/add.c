/* Adding a replica. It copies the region of the last member, at first while all clients continue,
 * then, for a moment, while the group is frozen. If anything fails in between, the present members
 * continue with another list, and the new replica can be added later. */
#include <string.h>
#include "base/checks.h"
#include "base/clock.h"
#include "base/log.h"
#include "group/device.h"
#include "group/forming.h"

#define FROZEN_NS (4 * PGASI_NS_PER_S) /* members thaw by themselves after 5 s */

/* ---- the new replica ---- */

/* A replica that was a member earlier has an older list with a present member in it. */
static bool was_member(const pgas_group_t *g, const pgasi_group_link_t *link)
{
    pgasi_group_name_t name;
    if (link->welcome.epoch >= g->epoch)
        return false;
    for (uint32_t k = 0; k < link->welcome.n_members; k++) {
        memcpy(&name, link->in.body + sizeof link->welcome + k * sizeof name, sizeof name);
        for (uint32_t i = 0; i < g->n; i++)
            if (g->links[i].name.id == name.id)
                return true;
    }
    return false;
}

static pgas_status_t check_new(const pgas_group_t *g, const pgasi_group_link_t *link)
{
    for (uint32_t i = 0; i < g->n; i++)
        if (g->links[i].name.id == link->name.id)
            return PGAS_ERR_EXISTS;
    if (link->welcome.epoch != 0 && !was_member(g, link)) {
        PGASI_ERROR("group", "%s is a member of another group", link->name.address);
        return PGAS_ERR_EXISTS;
    }
    if (link->welcome.region_bytes != g->region_bytes) {
        PGASI_ERROR("group", "%s has a region of %llu bytes, the group has %llu",
                    link->name.address, (unsigned long long)link->welcome.region_bytes,
                    (unsigned long long)g->region_bytes);
        return PGAS_ERR_MISMATCH;
    }
    if (g->n == PGAS_GROUP_REPLICAS_MAX)
        return PGAS_ERR_LIMIT;
    bool has_way = (link->welcome.ways & PGASI_GROUP_HAS(g->way)) != 0;
    bool connects =
        pgasi_group_device_connects(link->welcome.provider, g->links[0].welcome.provider);
    return has_way && connects ? PGAS_OK : PGAS_ERR_UNSUPPORTED;
}

/* @param source  the member that it copies */
static pgas_status_t copy(pgas_group_t *g, pgasi_group_link_t *link,
                          const pgasi_group_name_t *source, bool is_last, uint64_t limit_ns)
{
    pgasi_group_copy_t request = { .is_last = is_last };
    memcpy(request.from, source->address, sizeof request.from);
    return pgasi_group_ask(g, link, PGASI_GROUP_COPY, &request, sizeof request, PGASI_GROUP_DONE,
                           limit_ns);
}

/* ---- lists ---- */

/* Sends a list to all members, in order. */
static pgas_status_t send_to(pgas_group_t *g, const pgasi_group_list_t *list, uint64_t limit_ns)
{
    pgas_status_t status = PGAS_OK;
    for (uint32_t i = 0; i < g->n && status == PGAS_OK; i++)
        status = pgasi_group_send_list(g, &g->links[i], list, limit_ns);
    return status;
}

/* With the lock: no piece is sent or taken meanwhile. */
static pgas_status_t add_frozen(pgas_group_t *g, pgasi_group_link_t *link, pgasi_group_list_t *list,
                                uint64_t limit_ns)
{
    list->epoch = g->epoch + 1;
    list->n = g->n;
    list->is_frozen = true;
    for (uint32_t i = 0; i < g->n; i++)
        list->names[i] = g->links[i].name;
    pgas_status_t status = send_to(g, list, limit_ns);
    if (status == PGAS_OK)
        status = copy(g, link, &list->names[g->n - 1], true, limit_ns);
    if (status != PGAS_OK)
        return status;
    list->is_frozen = false;
    list->names[list->n++] = link->name;
    status = send_to(g, list, limit_ns);
    return status == PGAS_OK ? pgasi_group_send_list(g, link, list, limit_ns) : status;
}

/* Forms the chain over the present list, whether the new member is in it or not. */
static pgas_status_t form(pgas_group_t *g, uint64_t froze, uint64_t limit_ns)
{
    for (;;) {
        pgas_status_t status = pgasi_group_look_again(g);
        if (status != PGAS_OK)
            return status;
        g->forming->view.froze = froze;
        status = pgasi_group_try(g, true, limit_ns);
        if (status != PGAS_ERR_AGAIN)
            return status;
        if (pgasi_now_ns() >= limit_ns)
            return PGAS_ERR_TIMEOUT;
        pgasi_group_rest(g);
    }
}

static pgas_status_t join(pgas_group_t *g, pgasi_group_link_t *link, uint64_t limit_ns)
{
    pgasi_group_list_t list;
    uint64_t frozen_limit_ns = pgasi_now_ns() + FROZEN_NS;
    memset(&list, 0, sizeof list);
    pgas_status_t added = add_frozen(g, link, &list, frozen_limit_ns);
    pgasi_group_suspect(g, -1); /* the chain has ended */
    pgas_status_t status = form(g, list.epoch, PGASI_MAX(limit_ns, frozen_limit_ns));
    if (status != PGAS_OK)
        return status;
    for (uint32_t i = 0; i < g->n; i++)
        if (g->links[i].name.id == link->name.id)
            return PGAS_OK;
    return added != PGAS_OK && added != PGAS_ERR_EXISTS ? added : PGAS_ERR_AGAIN;
}

/* ---- both ---- */

/* Waits until the group has a chain. */
static pgas_status_t await_chain(pgas_group_t *g, uint64_t limit_ns)
{
    while (g->condition != PGASI_GROUP_RUNS) {
        if (g->condition == PGASI_GROUP_BROKEN)
            return PGAS_ERR_PEER;
        if (pgasi_now_ns() >= limit_ns)
            return PGAS_ERR_TIMEOUT;
        pgasi_group_progress(g);
        pgasi_group_rest(g);
    }
    return PGAS_OK;
}

/* With the turn and the lock, which it releases during the long copy.
 * @return PGAS_ERR_AGAIN  the list of members has changed meanwhile */
static pgas_status_t add_once(pgas_group_t *g, pgasi_group_link_t *link, uint64_t limit_ns)
{
    pgas_status_t status = await_chain(g, limit_ns);
    if (status == PGAS_OK)
        status = pgasi_group_hello(g, link, limit_ns);
    if (status == PGAS_OK)
        status = check_new(g, link);
    if (status != PGAS_OK)
        return status;
    const pgasi_group_name_t source = g->links[g->n - 1].name;
    pgasi_group_unlock(g);
    status = copy(g, link, &source, false, limit_ns);
    pgasi_group_lock(g);
    bool source_failed = status == PGAS_ERR_PEER && link->fd >= 0;
    if (source_failed)
        return PGAS_ERR_AGAIN; /* its death is noticed here, too */
    if (status == PGAS_OK)
        status = await_chain(g, limit_ns);
    if (status != PGAS_OK)
        return status;
    return g->links[g->n - 1].name.id == source.id ? join(g, link, limit_ns) : PGAS_ERR_AGAIN;
}

static pgas_status_t add(pgas_group_t *g, const char *address, uint64_t limit_ns)
{
    pgasi_group_link_t link;
    pgas_status_t status = pgasi_group_greet(g, address, limit_ns, &link);
    if (status != PGAS_OK)
        return status;
    pgasi_group_lock(g);
    while ((status = add_once(g, &link, limit_ns)) == PGAS_ERR_AGAIN) {
        status = PGAS_ERR_TIMEOUT;
        if (pgasi_now_ns() >= limit_ns)
            break;
        pgasi_group_progress(g);
        pgasi_group_rest(g);
    }
    if (status == PGAS_OK)
        g->n_told = g->n;
    pgasi_group_unlock(g);
    pgasi_group_hang_up(&link);
    return status;
}

pgas_status_t pgas_group_add(pgas_group_t *group, const char *address, int64_t timeout_us)
{
    uint64_t limit_ns = pgasi_limit_ns(timeout_us);
    if (!group || !address || !group->is_client)
        return PGAS_ERR_INVALID;
    pgas_status_t status = pgasi_group_begin(group);
    if (status != PGAS_OK)
        return status;
    status = add(group, address, limit_ns);
    pgasi_group_give_turn(group);
    return status;
}
