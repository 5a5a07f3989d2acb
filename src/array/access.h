/** Accesses of threads to elements: by the grant, and by the protocol where the grant does not
 *  permit it. */
#ifndef PGASI_ARRAY_ACCESS_H
#define PGASI_ARRAY_ACCESS_H

#include "array/array.h"

/** Finds the grant through which this rank reaches a chunk now.
 *  @return false: the chunk is not at home on this node, and has no cache line. */
bool pgasi_array_site(pgasi_array_t *a, const pgasi_array_location_t *loc,
                      pgasi_array_site_t *site_p);

/** Carries an access out, waiting as needed. x->chunk is set. */
pgas_status_t pgasi_array_do(pgasi_array_t *a, const pgasi_array_location_t *loc,
                             pgasi_array_access_t *x);
/** Carries an access out if the grant permits it. @return PGAS_ERR_AGAIN: it does not */
pgas_status_t pgasi_array_try(pgasi_array_t *a, const pgasi_array_location_t *loc,
                              pgasi_array_access_t *x);
/** pgasi_array_do for many, whose waits overlap: x[j] at loc[j]. @return the first error. */
pgas_status_t pgasi_array_do_all(pgasi_array_t *a, const pgasi_array_location_t *loc,
                                 pgasi_array_access_t *x, size_t n);

/** The checks of every public function. Leaves the access that an inline function began. */
pgas_status_t pgasi_array_check(const pgas_array_t *array, uint64_t i);
/** @return PGAS_ERR_UNSUPPORTED: it is not an operator of arrays.
 *          PGAS_ERR_NOT_FOUND: there is no such operator here.
 *          PGAS_ERR_MISMATCH: it is for elements of another size. */
pgas_status_t pgasi_array_check_op(const pgas_array_t *array, pgas_op_t op,
                                   const pgas_op_def_t **def_p);

#endif
