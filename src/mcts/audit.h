/** The check of a search's counts, for tests. */
#ifndef PGASI_MCTS_AUDIT_H
#define PGASI_MCTS_AUDIT_H

#include "pgas/mcts.h"

/** Checks the counts of all nodes of all ranks. Collective. *wrong_p is the number of nodes with a
 *  wrong count: their visits are fewer than those of their children, fewer than their reports, or
 *  not those that the parents count. *open_p is the number of visits of all nodes without a report:
 *  0 if nothing was lost. */
pgas_status_t pgasi_mcts_audit(pgas_mcts_t *mcts, uint64_t *wrong_p, uint64_t *open_p);

#endif
