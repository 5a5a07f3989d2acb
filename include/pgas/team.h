/** Teams: subsets of ranks with their own numbering and collectives. */
#ifndef PGAS_TEAM_H
#define PGAS_TEAM_H

#include "pgas/status.h"

PGAS_BEGIN_DECLS

/** Opaque. NULL stands for the team of all ranks wherever a team is asked for. */
typedef struct pgas_team pgas_team_t;

/** The team of the calling rank's node; lives as long as the library. */
PGAS_API pgas_team_t *pgas_team_node(void);

#define PGAS_COLOR_NONE (-1)

/** Splits a team: ranks with the same color make one team, numbered by key, then by rank in the
 *  parent.
 *  Shape:  collective over parent. color >= 0, or PGAS_COLOR_NONE for no team (*team_p becomes
 *          NULL).
 *  Owns:   pgas_team_destroy, collective over the new team; parents may be destroyed first.
 *  @return PGAS_OK, PGAS_ERR_NOT_INIT, PGAS_ERR_INVALID (negative color), PGAS_ERR_NO_MEMORY,
 *          PGAS_ERR_MPI; the same on all ranks of the parent. PGAS_ERR_PEER: a rank of the parent
 *          has died. A death in the few milliseconds after all ranks have entered ends the job,
 *          also with PGAS_ON_PEER_DEATH=continue, because MPI then waits for ever. */
PGAS_API pgas_status_t pgas_team_split(pgas_team_t *parent, int color, int key,
                                       pgas_team_t **team_p);

/** Ends a team. Collective over it. PGAS_ERR_INVALID for NULL and for the node's team. */
PGAS_API pgas_status_t pgas_team_destroy(pgas_team_t *team);

PGAS_API int pgas_team_rank(const pgas_team_t *team);
PGAS_API int pgas_team_size(const pgas_team_t *team);

/** The global rank of a team's member, and back; -1 if there is none. */
PGAS_API int pgas_team_to_global(const pgas_team_t *team, int team_rank);
PGAS_API int pgas_team_from_global(const pgas_team_t *team, int rank);

PGAS_END_DECLS
#endif
