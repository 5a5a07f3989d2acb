/** Teams: subsets of ranks with their own numbering and collectives.
 *
 *      pgas_team_t *half;
 *      pgas_team_split(NULL, pgas_rank() % 2, 0, &half);          even ranks, odd ranks
 *      pgas_barrier(half);
 *      pgas_team_destroy(half); */
#ifndef PGAS_TEAM_H
#define PGAS_TEAM_H

#include "pgas/status.h"

PGAS_BEGIN_DECLS

/** Opaque. NULL stands for the team of all ranks, except in pgas_team_destroy. */
typedef struct pgas_team pgas_team_t;

/** Returns the team of the calling rank's node, which lives as long as the library. */
PGAS_API pgas_team_t *pgas_team_node(void);

#define PGAS_COLOR_NONE (-1)

/** Splits a team: ranks with the same color form one team. They are numbered by key, then by their
 *  rank in the parent.
 *  Shape:  collective over parent. color is 0 or more. With PGAS_COLOR_NONE the rank joins no team,
 *          and *team_p becomes NULL. The parent may end before the new team.
 *  @return the same on all ranks of the parent; *team_p is unchanged after an error:
 *          PGAS_ERR_INVALID  another negative color
 *          PGAS_ERR_CONTEXT  as for collectives
 *          PGAS_ERR_NO_MEMORY, PGAS_ERR_MPI
 *          PGAS_ERR_PEER     a rank of the parent has died. A death in the few milliseconds after
 *                            all ranks have entered ends the job, also with
 *                            PGAS_ON_PEER_DEATH=continue, because MPI then waits for ever */
PGAS_API pgas_status_t pgas_team_split(pgas_team_t *parent, int color, int key,
                                       pgas_team_t **team_p);

/** Ends a team, after its non-blocking collectives. Collective over it. NULL is ignored.
 *  @return PGAS_ERR_INVALID  the node's team, or no team
 *          PGAS_ERR_CONTEXT  as for collectives
 *          PGAS_ERR_PEER     a member has died; the team stays */
PGAS_API pgas_status_t pgas_team_destroy(pgas_team_t *team);

/** Returns the caller's rank in the team, or the number of members. */
PGAS_API int pgas_team_rank(const pgas_team_t *team);
PGAS_API int pgas_team_size(const pgas_team_t *team);

/** Converts between a rank of the team and a rank of the job. -1: there is none. */
PGAS_API int pgas_team_to_global(const pgas_team_t *team, int team_rank);
PGAS_API int pgas_team_from_global(const pgas_team_t *team, int rank);

PGAS_END_DECLS
#endif
