/** Invariants of the protocol. */
#ifndef PGASI_ARRAY_AUDIT_H
#define PGASI_ARRAY_AUDIT_H

#include "array/array.h"

/** Whether the grant permits what the state says: of a chunk at home, of a cache line. For
 *  assertions (invariants.c). */
bool pgasi_array_home_is_sound(const pgasi_array_t *a, uint64_t index);
bool pgasi_array_cache_line_is_sound(const pgasi_array_t *a, uint32_t line);

/** Waits until no message is under way and no chunk in transition, then compares what homes know
 *  with what caches have. Collective over the team; no thread uses the array. *n_wrong_p:
 *  contradictions that this rank found (audit.c). */
pgas_status_t pgasi_array_audit(pgas_array_t *array, uint64_t *n_wrong_p);

#endif
