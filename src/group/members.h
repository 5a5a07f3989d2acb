/** Lists of members: which ones a replica takes, and the next step of a client that forms a chain.
 *  Pure: no I/O.
 *
 *  A list has an epoch; a replica takes lists of higher epochs only. A client greets all members
 *  that it knows, and takes the list with the highest epoch as the present one. It sends that list
 *  to members with a lower epoch, in chain order, and begins anew when a member refuses it. So the
 *  first living member decides between two clients. A chain is formed over a list only after all of
 *  its members have taken it.
 *
 *  To remove dead members, a client proposes a list of the next epoch. To add a member, a client
 *  freezes the group: it sends the present list again, with the next epoch and is_frozen. Then no
 *  member opens chains. The connection that froze a member may send it a new list of the same
 *  epoch. If that connection ends instead, the member thaws: it goes back to the list, with another
 *  epoch.
 *
 *  Replicas that fail do not come back: a new process has another id. */
#ifndef PGASI_GROUP_MEMBERS_H
#define PGASI_GROUP_MEMBERS_H

#include "group/wire.h"

typedef struct {
    uint64_t epoch; /* 0: none yet */
    uint32_t n;
    bool is_frozen;
    pgasi_group_name_t names[PGAS_GROUP_REPLICAS_MAX];
} pgasi_group_list_t;

/** The position of a member. @return -1: it is none */
int pgasi_group_list_find(const pgasi_group_list_t *list, uint64_t id);
/** Whether two lists have the same members in the same order. */
bool pgasi_group_list_equal(const pgasi_group_list_t *a, const pgasi_group_list_t *b);

/* ---- replicas ---- */

typedef enum {
    PGASI_LIST_TAKEN,  /* *mine has changed: all chains must be drained */
    PGASI_LIST_KNOWN,  /* it is *mine already */
    PGASI_LIST_REFUSED /* *mine is at least as new */
} pgasi_list_verdict_t;

/** A list has come over connection `from`, which is not 0. *freezer: the connection that froze this
 *  replica, or 0. */
pgasi_list_verdict_t pgasi_group_list_take(pgasi_group_list_t *mine, uint64_t *freezer,
                                           const pgasi_group_list_t *offered, uint64_t from);

/** A connection has ended, or its freeze takes too long.
 *  @return whether it froze this replica: then *mine has changed, and all clients need a notice */
bool pgasi_group_list_thaw(pgasi_group_list_t *mine, uint64_t *freezer, uint64_t from);

/* ---- clients ---- */

#define PGASI_CONTACTS_MAX (3 * PGAS_GROUP_REPLICAS_MAX)

/** A replica, as far as the client knows it. */
typedef struct {
    pgasi_group_name_t name;
    enum {
        PGASI_CONTACT_NEW,   /* must be greeted */
        PGASI_CONTACT_LIVES, /* `list` is its answer */
        PGASI_CONTACT_DEAD   /* a dead contact stays dead */
    } state;
    pgasi_group_list_t list;
} pgasi_group_contact_t;

typedef struct {
    uint64_t froze; /* the epoch to which this client has frozen members; 0: none */
    uint32_t n;
    pgasi_group_contact_t contacts[PGASI_CONTACTS_MAX];
} pgasi_group_view_t;

typedef enum {
    PGASI_STEP_GREET,  /* greet contact `to`: then pgasi_group_view_answer or _dead */
    PGASI_STEP_SEND,   /* send `list` to contact `to`: then _answer with this list, _dead, or, if it
                          is refused, _again */
    PGASI_STEP_FORM,   /* form a chain over `list`; if a member refuses, _again */
    PGASI_STEP_WAIT,   /* a client adds a member: _again, after a moment */
    PGASI_STEP_GIVE_UP /* no member lives */
} pgasi_group_step_kind_t;

typedef struct {
    pgasi_group_step_kind_t kind;
    uint32_t to;
    pgasi_group_list_t list;
} pgasi_group_step_t;

/** Begins with the members of a list; nothing is known about them. If all members answer that they
 *  have no list yet, `known` with epoch 1 is proposed, as the first one. */
void pgasi_group_view_init(pgasi_group_view_t *v, const pgasi_group_list_t *known);

/** The contact with this id. @return -1: none */
int pgasi_group_view_find(const pgasi_group_view_t *v, uint64_t id);

void pgasi_group_view_answer(pgasi_group_view_t *v, uint32_t i, const pgasi_group_list_t *list);
void pgasi_group_view_dead(pgasi_group_view_t *v, uint32_t i);
/** All contacts that live must be greeted again. */
void pgasi_group_view_again(pgasi_group_view_t *v);

/** The next step. New contacts are added to the view. */
void pgasi_group_view_next(pgasi_group_view_t *v, pgasi_group_step_t *step_p);

#endif
