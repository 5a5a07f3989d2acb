/** Recording of sparse contributions (sparse.h) by the calling thread. */
#ifndef PGASI_ARRAY_RECORD_H
#define PGASI_ARRAY_RECORD_H

#include "array/array.h"
#include "base/op.h"

/** Records an operand of an apply, of so many bytes. The element exists, and the operator fits it.
 *  @return PGAS_INPROGRESS  the rank is no operator of the chunk without a line: nothing is done
 *          PGAS_ERR_PEER    a rank of the team has died */
pgas_status_t pgasi_array_sparse_add(pgasi_array_t *a, uint64_t i, pgas_op_t op, size_t bytes,
                                     const void *operand);
/** The same for elements index[which[k]], whose operands are at which[k] in `operands`. Takes those
 *  that it records from `which`. *n_p: how many there are, and how many stay. */
pgas_status_t pgasi_array_sparse_add_some(pgasi_array_t *a, const uint64_t *index, pgas_op_t op,
                                          size_t bytes, const char *operands, uint8_t *which,
                                          size_t *n_p);

#endif
