/** A chain that is being formed: the members that the client knows, and its connections to them.
 *
 *      gather.c   agreement on a list of members     reform.c   chains over it
 *      add.c      new members */
#ifndef PGASI_GROUP_FORMING_H
#define PGASI_GROUP_FORMING_H

#include "group/client.h"
#include "group/members.h"

typedef struct pgasi_group_forming {
    pgasi_group_view_t view;
    pgasi_group_link_t links[PGASI_CONTACTS_MAX]; /* of the view's contacts */
    pgasi_group_step_t step;
} pgasi_group_forming_t;

/** Begins a new agreement: the group's links belong to the view until there is one. The
 *  view keeps dead members until a chain has been formed. @return PGAS_ERR_NO_MEMORY */
pgas_status_t pgasi_group_look_again(pgas_group_t *g);

/** Carries out the steps of the view until all members have taken one list. Then g->links, n and
 *  epoch describe it, and all pieces of the window wait to be sent.
 *  @param by_itself  without the program: a member of the last chain that is dead, or that another
 *                    client has removed, is reported (pgasi_group_lost), and nothing is formed
 *  @return PGAS_ERR_AGAIN    a client adds a member: call it again, soon
 *          PGAS_ERR_PEER     no member lives; or one has been reported
 *          PGAS_ERR_TIMEOUT  a member does not answer, but is connected */
pgas_status_t pgasi_group_agree(pgas_group_t *g, bool by_itself, uint64_t limit_ns);

/** Forms a chain, after the one before has ended.
 *  @return as pgasi_group_agree; PGAS_ERR_AGAIN also: the list has changed */
pgas_status_t pgasi_group_try(pgas_group_t *g, bool by_itself, uint64_t limit_ns);

/** Releases the lock for a moment, between attempts. */
void pgasi_group_rest(pgas_group_t *g);

/** Sends a list to a replica. @return PGAS_ERR_EXISTS  it has a newer one; otherwise as
 *  pgasi_group_ask */
pgas_status_t pgasi_group_send_list(pgas_group_t *g, pgasi_group_link_t *link,
                                    const pgasi_group_list_t *list, uint64_t limit_ns);

#endif
