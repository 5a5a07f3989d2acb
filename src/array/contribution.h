/** Contributions at the home: the values that caches have combined for a chunk in state Operated,
 *  from the arrival of the first piece until the merge. The callers are serving (msg/serve.h). */
#ifndef PGASI_ARRAY_CONTRIBUTION_H
#define PGASI_ARRAY_CONTRIBUTION_H

#include "array/home.h"

/** Takes a contribution that arrives in one piece. Its values stay in the message if possible.
 *  @return NULL: it does not fit the chunk. */
pgasi_array_contribution_t *pgasi_array_contribution_new(pgasi_array_t *a, uint64_t index,
                                                         int source, uint32_t op, const void *data,
                                                         size_t bytes);
/** Takes a piece of a contribution. */
void pgasi_array_contribution_piece(pgasi_array_t *a, uint64_t index, int source, uint32_t op,
                                    uint64_t offset, const void *data, size_t bytes);
/** Combines a sparse contribution for element k of the block into those that are kept here. */
void pgasi_array_contribution_add(pgasi_array_t *a, uint64_t index, uint32_t op,
                                  const pgas_op_def_t *def, uint32_t k, const void *operand);
/** The source's answer has arrived, so all pieces of its contribution are here. */
void pgasi_array_contribution_is_whole(const pgasi_array_dir_t *dir, int source);
/** Copies values that are still in a message. */
void pgasi_array_contributions_settle(pgasi_array_dir_t *dir, const void *data, size_t bytes);
/** Merges all whole contributions into the elements. */
void pgasi_array_contributions_merge(pgasi_array_t *a, uint64_t index);
void pgasi_array_contributions_free(pgasi_array_t *a);

#endif
