/** Options of pgas_array_create: defaults, checks, and agreement of all ranks. */
#ifndef PGASI_ARRAY_OPTIONS_H
#define PGASI_ARRAY_OPTIONS_H

#include <stdint.h>
#include "pgas/array.h"

/** Fills *o: with defaults where opts gives none. n: ranks of the team.
 *  @return PGAS_ERR_INVALID: a value is out of range.
 *          PGAS_ERR_LIMIT: chunks are too large. */
pgas_status_t pgasi_array_read_opts(pgas_array_opts_t *o, const pgas_array_opts_t *opts,
                                    size_t elem_bytes, uint64_t n_elems, int n);

/** Compares the ranks' parameters and their statuses so far. Collective; the same on all ranks.
 *  @return PGAS_ERR_MISMATCH: they differ, and the log says where. */
pgas_status_t pgasi_array_agree_on_opts(pgas_team_t *team, const pgas_array_opts_t *o,
                                        size_t elem_bytes, uint64_t n_elems, pgas_status_t mine);

#endif
