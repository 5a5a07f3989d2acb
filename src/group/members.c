/* Decisions about lists of members. They are rare, so each one looks at all contacts anew.
 *
 * A list is never put together from several lists: it is one that a member has taken, or such a
 * list without dead members. A member that has been added gets its first list after it has copied
 * the region. So a list that it knows is never older than its region. */
#include "group/members.h"

#include <string.h>
#include "base/checks.h"

int pgasi_group_list_find(const pgasi_group_list_t *list, uint64_t id)
{
    for (uint32_t i = 0; i < list->n; i++)
        if (list->names[i].id == id)
            return (int)i;
    return -1;
}

bool pgasi_group_list_equal(const pgasi_group_list_t *a, const pgasi_group_list_t *b)
{
    if (a->n != b->n)
        return false;
    for (uint32_t i = 0; i < a->n; i++)
        if (a->names[i].id != b->names[i].id)
            return false;
    return true;
}

/* ---- replicas ---- */

/* A list of the epoch that the replica has already. */
static pgasi_list_verdict_t take_same_epoch(const pgasi_group_list_t *mine, uint64_t freezer,
                                            const pgasi_group_list_t *offered, uint64_t from)
{
    if (offered->is_frozen)
        return PGASI_LIST_REFUSED; /* also if another client freezes the same list */
    if (mine->is_frozen)
        return from == freezer ? PGASI_LIST_TAKEN : PGASI_LIST_REFUSED;
    return pgasi_group_list_equal(mine, offered) ? PGASI_LIST_KNOWN : PGASI_LIST_REFUSED;
}

pgasi_list_verdict_t pgasi_group_list_take(pgasi_group_list_t *mine, uint64_t *freezer,
                                           const pgasi_group_list_t *offered, uint64_t from)
{
    pgasi_list_verdict_t verdict = PGASI_LIST_TAKEN;
    if (offered->epoch < mine->epoch)
        return PGASI_LIST_REFUSED;
    if (offered->epoch == mine->epoch)
        verdict = take_same_epoch(mine, *freezer, offered, from);
    if (verdict == PGASI_LIST_TAKEN) {
        *mine = *offered;
        *freezer = offered->is_frozen ? from : 0;
    }
    return verdict;
}

bool pgasi_group_list_thaw(pgasi_group_list_t *mine, uint64_t *freezer, uint64_t from)
{
    if (!mine->is_frozen || *freezer != from)
        return false;
    mine->epoch++; /* the client may have begun to send the list with the new member */
    mine->is_frozen = false;
    *freezer = 0;
    return true;
}

/* ---- views ---- */

int pgasi_group_view_find(const pgasi_group_view_t *v, uint64_t id)
{
    for (uint32_t i = 0; i < v->n; i++)
        if (v->contacts[i].name.id == id)
            return (int)i;
    return -1;
}

/* A dead contact that no living contact names. @return -1: none */
static int find_useless(const pgasi_group_view_t *v)
{
    for (uint32_t i = 0; i < v->n; i++) {
        bool named = v->contacts[i].state != PGASI_CONTACT_DEAD;
        for (uint32_t j = 0; j < v->n && !named; j++)
            named = v->contacts[j].state == PGASI_CONTACT_LIVES &&
                    pgasi_group_list_find(&v->contacts[j].list, v->contacts[i].name.id) >= 0;
        if (!named)
            return (int)i;
    }
    return -1;
}

/* @return false: there is no room; then it counts as dead */
static bool add_contact(pgasi_group_view_t *v, const pgasi_group_name_t *name)
{
    int at = v->n < PGASI_CONTACTS_MAX ? (int)v->n++ : find_useless(v);
    if (at < 0)
        return false;
    pgasi_group_contact_t *contact = &v->contacts[at];
    contact->name = *name;
    contact->state = PGASI_CONTACT_NEW;
    contact->list.epoch = 0;
    contact->list.n = 0;
    contact->list.is_frozen = false;
    return true;
}

/* @return whether there was one that the view did not have */
static bool add_contacts(pgasi_group_view_t *v, const pgasi_group_list_t *list)
{
    bool added = false;
    for (uint32_t i = 0; i < list->n; i++)
        if (pgasi_group_view_find(v, list->names[i].id) < 0)
            added |= add_contact(v, &list->names[i]);
    return added;
}

void pgasi_group_view_init(pgasi_group_view_t *v, const pgasi_group_list_t *known)
{
    v->froze = 0;
    v->n = 0;
    add_contacts(v, known);
}

void pgasi_group_view_answer(pgasi_group_view_t *v, uint32_t i, const pgasi_group_list_t *list)
{
    v->contacts[i].state = PGASI_CONTACT_LIVES;
    v->contacts[i].list = *list;
}

void pgasi_group_view_dead(pgasi_group_view_t *v, uint32_t i)
{
    v->contacts[i].state = PGASI_CONTACT_DEAD;
}

void pgasi_group_view_again(pgasi_group_view_t *v)
{
    for (uint32_t i = 0; i < v->n; i++)
        if (v->contacts[i].state == PGASI_CONTACT_LIVES)
            v->contacts[i].state = PGASI_CONTACT_NEW;
}

/* ---- decisions ---- */

static bool lives(const pgasi_group_view_t *v, uint64_t id)
{
    int i = pgasi_group_view_find(v, id);
    return i >= 0 && v->contacts[i].state == PGASI_CONTACT_LIVES;
}

static bool is_of(const pgasi_group_contact_t *contact, uint64_t epoch)
{
    return contact->state == PGASI_CONTACT_LIVES && contact->list.epoch == epoch;
}

/* The list that most of its members have taken, if there are several of one epoch; a frozen one
 * before all others. Other clients must come to the same result. */
static const pgasi_group_list_t *find_present(const pgasi_group_view_t *v, uint64_t epoch,
                                              bool *unique_p)
{
    const pgasi_group_list_t *best = NULL;
    uint32_t most = 0;
    *unique_p = true;
    for (uint32_t i = 0; i < v->n; i++) {
        const pgasi_group_list_t *list = &v->contacts[i].list;
        uint32_t n = 0;
        if (!is_of(&v->contacts[i], epoch))
            continue;
        if (list->is_frozen)
            return list;
        for (uint32_t j = 0; j < v->n; j++)
            n +=
                is_of(&v->contacts[j], epoch) && pgasi_group_list_equal(&v->contacts[j].list, list);
        if (best && !pgasi_group_list_equal(best, list))
            *unique_p = false;
        if (n > most || (n == most && list->names[0].id < best->names[0].id)) {
            most = n;
            best = list;
        }
    }
    return best;
}

/* A list of the next epoch, with the members of a list that live. */
static void propose(const pgasi_group_view_t *v, const pgasi_group_list_t *present,
                    pgasi_group_step_t *step)
{
    pgasi_group_list_t *list = &step->list;
    uint32_t n = 0;
    list->epoch = present->epoch + 1;
    list->is_frozen = false;
    for (uint32_t i = 0; i < present->n; i++)
        if (lives(v, present->names[i].id))
            list->names[n++] = present->names[i];
    list->n = n;
    step->kind = n > 0 ? PGASI_STEP_SEND : PGASI_STEP_GIVE_UP;
    if (n > 0)
        step->to = (uint32_t)pgasi_group_view_find(v, list->names[0].id);
}

/* The first member that has not taken the present list. */
static bool pass_on(const pgasi_group_view_t *v, const pgasi_group_list_t *present,
                    pgasi_group_step_t *step)
{
    for (uint32_t i = 0; i < present->n; i++) {
        int at = pgasi_group_view_find(v, present->names[i].id);
        if (v->contacts[at].list.epoch == present->epoch)
            continue;
        step->kind = PGASI_STEP_SEND;
        step->to = (uint32_t)at;
        return true;
    }
    return false;
}

static bool has_dead(const pgasi_group_view_t *v, const pgasi_group_list_t *list)
{
    for (uint32_t i = 0; i < list->n; i++)
        if (!lives(v, list->names[i].id))
            return true;
    return false;
}

/* Contacts that have not been greeted, also those that living contacts name in their lists.
 * @return false: there are none */
static bool greet(pgasi_group_view_t *v, uint64_t epoch, pgasi_group_step_t *step)
{
    bool more = true;
    while (more) {
        more = false;
        for (uint32_t i = 0; i < v->n; i++) {
            if (v->contacts[i].state == PGASI_CONTACT_NEW) {
                step->kind = PGASI_STEP_GREET;
                step->to = i;
                return true;
            }
            if (is_of(&v->contacts[i], epoch) && add_contacts(v, &v->contacts[i].list))
                more = true;
        }
    }
    return false;
}

static uint64_t highest_epoch(const pgasi_group_view_t *v)
{
    uint64_t epoch = 0;
    for (uint32_t i = 0; i < v->n; i++)
        if (v->contacts[i].state == PGASI_CONTACT_LIVES)
            epoch = PGASI_MAX(epoch, v->contacts[i].list.epoch);
    return epoch;
}

/* No member has a list: all contacts that live become members. */
static void propose_first(const pgasi_group_view_t *v, pgasi_group_step_t *step)
{
    pgasi_group_list_t *all = &step->list; /* propose may shorten it in place */
    all->epoch = 0;
    all->n = 0;
    for (uint32_t i = 0; i < v->n && all->n < PGAS_GROUP_REPLICAS_MAX; i++)
        all->names[all->n++] = v->contacts[i].name;
    propose(v, all, step);
}

void pgasi_group_view_next(pgasi_group_view_t *v, pgasi_group_step_t *step_p)
{
    bool unique;
    if (greet(v, highest_epoch(v), step_p))
        return;
    uint64_t epoch = highest_epoch(v);
    const pgasi_group_list_t *present = find_present(v, epoch, &unique);
    if (!present)
        step_p->kind = PGASI_STEP_GIVE_UP;
    else if (epoch == 0)
        propose_first(v, step_p);
    else if (present->is_frozen && v->froze != epoch)
        step_p->kind = PGASI_STEP_WAIT;
    else if (present->is_frozen || !unique || has_dead(v, present))
        propose(v, present, step_p);
    else {
        step_p->list = *present;
        if (!pass_on(v, present, step_p))
            step_p->kind = PGASI_STEP_FORM;
    }
}
