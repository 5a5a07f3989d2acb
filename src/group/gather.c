/* Clients and the list of members: greeting members, passing lists on, removing the dead. members.c
 * decides. This file carries the steps out, over one connection for each replica. */
#include <stdlib.h>
#include <string.h>
#include "base/clock.h"
#include "base/log.h"
#include "group/forming.h"

#define SILENT_NS (5 * PGASI_NS_PER_S) /* then a replica counts as dead, though it is connected */

/* ---- contacts ---- */

static pgas_status_t begin(pgas_group_t *g)
{
    if (g->forming)
        return PGAS_OK;
    g->forming = calloc(1, sizeof *g->forming);
    if (!g->forming)
        return PGAS_ERR_NO_MEMORY;
    for (uint32_t i = 0; i < PGASI_CONTACTS_MAX; i++)
        g->forming->links[i].fd = -1;
    return PGAS_OK;
}

static void hang_up_all(pgasi_group_forming_t *f)
{
    for (uint32_t i = 0; i < PGASI_CONTACTS_MAX; i++)
        pgasi_group_hang_up(&f->links[i]);
}

void pgasi_group_forget(pgas_group_t *g)
{
    if (!g->forming)
        return;
    hang_up_all(g->forming);
    free(g->forming);
    g->forming = NULL;
}

static void move_link(pgasi_group_link_t *to, pgasi_group_link_t *from)
{
    *to = *from;
    from->fd = -1;
    from->in = (pgasi_group_in_t){ .body = NULL };
}

/* The list in the last WELCOME. */
static pgas_status_t take_list(const pgasi_group_link_t *link, pgasi_group_list_t *list)
{
    const pgasi_group_welcome_t *w = &link->welcome;
    memset(list, 0, sizeof *list);
    list->epoch = w->epoch;
    list->is_frozen = (w->flags & PGASI_GROUP_FREEZE) != 0;
    list->n = w->n_members;
    if (list->n > PGAS_GROUP_REPLICAS_MAX)
        return PGAS_ERR_FORMAT;
    memcpy(list->names, link->in.body + sizeof *w, list->n * sizeof list->names[0]);
    return PGAS_OK;
}

static pgas_status_t check_region(const pgas_group_t *g, const pgasi_group_link_t *link)
{
    if (g->region_bytes == 0 || link->welcome.region_bytes == g->region_bytes)
        return PGAS_OK;
    PGASI_ERROR("group", "%s has a region of %llu bytes, others have %llu", link->name.address,
                (unsigned long long)link->welcome.region_bytes,
                (unsigned long long)g->region_bytes);
    return PGAS_ERR_MISMATCH;
}

/* ---- the first contacts ---- */

/* Follows the names of next replicas from links[0] on, as far as no list is known. */
static pgas_status_t walk(pgas_group_t *g, pgasi_group_list_t *list, uint64_t limit_ns)
{
    pgasi_group_link_t *links = g->forming->links;
    while (links[list->n - 1].welcome.epoch == 0 && links[list->n - 1].welcome.next[0] != '\0') {
        const char *next = links[list->n - 1].welcome.next;
        if (list->n == PGAS_GROUP_REPLICAS_MAX)
            return PGAS_ERR_LIMIT;
        pgas_status_t status = pgasi_group_greet(g, next, limit_ns, &links[list->n]);
        if (status == PGAS_OK && pgasi_group_list_find(list, links[list->n].name.id) >= 0) {
            PGASI_ERROR("group", "the replicas from %s on form a circle", next);
            status = PGAS_ERR_MISMATCH;
        } else if (status == PGAS_OK) {
            status = check_region(g, &links[list->n]);
        }
        if (status != PGAS_OK) {
            pgasi_group_hang_up(&links[list->n]);
            return status;
        }
        list->names[list->n] = links[list->n].name;
        list->n++;
    }
    return PGAS_OK;
}

/* The view begins with the members of a list, or with those that the walk has found. */
static pgas_status_t find_members(pgas_group_t *g, pgasi_group_link_t *first, uint64_t limit_ns)
{
    pgasi_group_forming_t *f = g->forming;
    pgasi_group_list_t *list = &f->step.list;
    pgas_status_t status = take_list(first, list);
    g->region_bytes = first->welcome.region_bytes;
    if (status == PGAS_OK && list->epoch == 0) {
        move_link(&f->links[0], first);
        list->names[0] = f->links[0].name;
        list->n = 1;
        status = walk(g, list, limit_ns);
    }
    if (status != PGAS_OK)
        return status;
    pgasi_group_view_init(&f->view, list);
    int at = pgasi_group_view_find(&f->view, first->name.id);
    if (first->fd >= 0 && at >= 0)
        move_link(&f->links[at], first);
    return PGAS_OK;
}

pgas_status_t pgasi_group_gather(pgas_group_t *g, const char *address, uint64_t limit_ns)
{
    pgasi_group_link_t first;
    pgas_status_t status = pgasi_group_greet(g, address, limit_ns, &first);
    if (status != PGAS_OK)
        return status;
    pgasi_group_forget(g);
    status = begin(g);
    if (status == PGAS_OK)
        status = find_members(g, &first, limit_ns);
    pgasi_group_hang_up(&first);
    if (status == PGAS_OK)
        status = pgasi_group_agree(g, false, limit_ns);
    if (status != PGAS_OK)
        pgasi_group_forget(g);
    return status;
}

/* ---- again ---- */

pgas_status_t pgasi_group_look_again(pgas_group_t *g)
{
    static const pgasi_group_list_t none;
    bool is_new = g->forming == NULL;
    pgas_status_t status = begin(g);
    if (status != PGAS_OK)
        return status;
    pgasi_group_forming_t *f = g->forming;
    if (is_new) {
        f->step.list = none;
        f->step.list.n = g->n;
        for (uint32_t i = 0; i < g->n; i++)
            f->step.list.names[i] = g->links[i].name;
        pgasi_group_view_init(&f->view, &f->step.list);
    }
    for (uint32_t i = 0; i < g->n; i++) {
        int at = pgasi_group_view_find(&f->view, g->links[i].name.id);
        if (at >= 0 && g->links[i].fd >= 0)
            move_link(&f->links[at], &g->links[i]);
    }
    pgasi_group_view_again(&f->view);
    return PGAS_OK;
}

/* ---- steps ---- */

/* Connects, if there is no connection. */
static pgas_status_t reach(pgas_group_t *g, uint32_t to, uint64_t limit_ns)
{
    pgasi_group_link_t *link = &g->forming->links[to];
    const pgasi_group_name_t *name = &g->forming->view.contacts[to].name;
    if (link->name.id != name->id) { /* the link of a contact that was dropped, or none yet */
        pgasi_group_hang_up(link);
        *link = (pgasi_group_link_t){ .name = *name, .fd = -1 };
    }
    return link->fd >= 0 ? PGAS_OK : pgasi_group_dial_once(name->address, limit_ns, &link->fd);
}

/* A host that has vanished does not end its connections, and neither its card nor it answers. */
static bool is_lost(const pgasi_group_link_t *link, pgas_status_t status)
{
    if (link->fd >= 0)
        return false;
    bool is_silent = status == PGAS_ERR_TIMEOUT && link->unreachable_ns != 0 &&
                     pgasi_now_ns() - link->unreachable_ns > SILENT_NS;
    return status == PGAS_ERR_PEER || is_silent;
}

static pgas_status_t greet(pgas_group_t *g, uint32_t to, uint64_t limit_ns)
{
    pgasi_group_forming_t *f = g->forming;
    pgasi_group_link_t *link = &f->links[to];
    pgasi_group_list_t *list = &f->step.list;
    pgas_status_t status = reach(g, to, limit_ns);
    if (status == PGAS_OK)
        status = pgasi_group_hello(g, link, limit_ns);
    bool is_another = status == PGAS_OK && link->welcome.id != f->view.contacts[to].name.id;
    if (is_another) /* it listens where the member was */
        pgasi_group_hang_up(link);
    if (is_another || is_lost(link, status)) {
        pgasi_group_view_dead(&f->view, to);
        return PGAS_OK;
    }
    if (status == PGAS_OK)
        status = check_region(g, link);
    if (status == PGAS_OK)
        status = take_list(link, list);
    if (status == PGAS_OK)
        pgasi_group_view_answer(&f->view, to, list);
    if (status == PGAS_OK)
        link->unreachable_ns = 0;
    return status;
}

pgas_status_t pgasi_group_send_list(pgas_group_t *g, pgasi_group_link_t *link,
                                    const pgasi_group_list_t *list, uint64_t limit_ns)
{
    struct {
        pgasi_group_members_t members;
        pgasi_group_name_t names[PGAS_GROUP_REPLICAS_MAX];
    } body;
    body.members = (pgasi_group_members_t){ .epoch = list->epoch,
                                            .flags = list->is_frozen ? PGASI_GROUP_FREEZE : 0,
                                            .n_members = list->n };
    memcpy(body.names, list->names, list->n * sizeof list->names[0]);
    return pgasi_group_ask(g, link, PGASI_GROUP_MEMBERS, &body,
                           (uint32_t)(sizeof body.members + list->n * sizeof list->names[0]),
                           PGASI_GROUP_DONE, limit_ns);
}

static pgas_status_t send_list(pgas_group_t *g, uint32_t to, uint64_t limit_ns)
{
    pgasi_group_forming_t *f = g->forming;
    pgasi_group_link_t *link = &f->links[to];
    pgas_status_t status = pgasi_group_send_list(g, link, &f->step.list, limit_ns);
    if (status == PGAS_OK)
        pgasi_group_view_answer(&f->view, to, &f->step.list);
    else if (is_lost(link, status))
        pgasi_group_view_dead(&f->view, to);
    else if (status == PGAS_ERR_EXISTS)
        pgasi_group_view_again(&f->view);
    else
        return status;
    return PGAS_OK;
}

/* ---- deaths ---- */

/* Whether the list to be sent is a new one: no member has it yet. */
static bool is_proposal(const pgasi_group_forming_t *f)
{
    for (uint32_t i = 0; i < f->view.n; i++)
        if (f->view.contacts[i].state == PGASI_CONTACT_LIVES &&
            f->view.contacts[i].list.epoch >= f->step.list.epoch)
            return false;
    return true;
}

/* The first member of the last chain that the new list has no more. @return -1: none */
static int find_missing(const pgas_group_t *g)
{
    for (uint32_t i = 0; i < g->n; i++)
        if (pgasi_group_list_find(&g->forming->step.list, g->links[i].name.id) < 0)
            return (int)i;
    return -1;
}

/* Whether the program must hear of a death first, because it names replicas by their places. */
static bool must_report(const pgas_group_t *g)
{
    bool is_new = g->forming->step.kind == PGASI_STEP_FORM ||
                  (g->forming->step.kind == PGASI_STEP_SEND && is_proposal(g->forming));
    return is_new && find_missing(g) >= 0;
}

/* ---- agreement ---- */

/* The links of the list become those of the group. */
static void take_links(pgas_group_t *g)
{
    pgasi_group_forming_t *f = g->forming;
    const pgasi_group_list_t *list = &f->step.list;
    uint32_t from[PGAS_GROUP_REPLICAS_MAX];
    for (uint32_t j = 0; j < list->n; j++) {
        from[j] = j > 0 ? from[j - 1] : 0; /* of a member that has been added */
        for (uint32_t i = 0; i < g->n; i++)
            if (g->links[i].name.id == list->names[j].id)
                from[j] = i;
    }
    for (uint32_t j = 0; j < list->n; j++)
        move_link(&g->links[j], &f->links[pgasi_group_view_find(&f->view, list->names[j].id)]);
    g->n = list->n;
    g->epoch = list->epoch;
    if (g->window.slots)
        pgasi_group_window_reform(&g->window, g->n, from);
}

pgas_status_t pgasi_group_agree(pgas_group_t *g, bool by_itself, uint64_t limit_ns)
{
    pgasi_group_forming_t *f = g->forming;
    for (;;) {
        pgas_status_t status = PGAS_OK;
        pgasi_group_view_next(&f->view, &f->step);
        if (by_itself && must_report(g)) {
            if (f->view.froze != 0)
                hang_up_all(f); /* so that the members thaw */
            pgasi_group_lost(g, find_missing(g));
            return PGAS_ERR_PEER;
        }
        switch (f->step.kind) {
        case PGASI_STEP_GREET:
            status = greet(g, f->step.to, limit_ns);
            break;
        case PGASI_STEP_SEND:
            status = send_list(g, f->step.to, limit_ns);
            break;
        case PGASI_STEP_WAIT:
            pgasi_group_view_again(&f->view);
            return PGAS_ERR_AGAIN;
        case PGASI_STEP_FORM:
            take_links(g);
            return pgasi_group_choose_way(g, g->way ? g->way : g->wanted_way);
        case PGASI_STEP_GIVE_UP:
        default:
            return PGAS_ERR_PEER;
        }
        if (status != PGAS_OK)
            return status;
    }
}
