/** Objects at their owner, and the format of calls that carry requests for them. */
#ifndef PGASI_OBJECTS_H
#define PGASI_OBJECTS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "base/checks.h"
#include "pgas/object.h"

#define PGASI_OBJECT_ON_STACK 1024 /* bytes of a call or an answer that need no allocation */

/** A call has this head, then each request with its arguments, padded to 8. The answer has each
 *  result with its bytes, padded to 8. */
typedef struct {
    pgas_object_t object;
    uint32_t n, answer_bytes;
} pgasi_object_call_t;

typedef struct {
    uint32_t bytes, result_bytes;
    uint16_t method;
    uint16_t slot; /* of the thread that asks */
    uint32_t unused;
} pgasi_object_request_t;

typedef struct {
    int32_t status;
    uint32_t unused;
} pgasi_object_result_t;

PGASI_STATIC_ASSERT(sizeof(pgasi_object_call_t) + sizeof(pgasi_object_request_t) <= 32,
                    "pgas/object.h says 32");

static inline size_t pgasi_object_padded(size_t bytes)
{
    return PGASI_ALIGN_UP(bytes, 8);
}

/** Whether this is the number of a method. */
bool pgasi_method_is_known(uint32_t method);

/** Runs a method of an object of this rank, in a handler.
 *  @return PGAS_OK
 *          PGAS_ERR_NOT_FOUND: there is no such object or method
 *          PGAS_ERR_DEADLOCK: the thread runs a method of the same object */
pgas_status_t pgasi_object_run(pgas_object_t object, const pgasi_object_request_t *r,
                               const void *args, void *result);

void pgasi_objects_start(void);
void pgasi_objects_stop(void);

#endif
