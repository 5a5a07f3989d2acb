/* Start and stop of locks, objects, and memory of other ranks. */
#include "object/start.h"

#include "object/lock.h"
#include "object/objects.h"
#include "object/owner.h"
#include "object/request.h"

pgas_status_t pgasi_object_start(void)
{
    pgasi_objects_start();
    pgasi_requests_start();
    pgasi_owner_start();
    pgasi_alloc_on_start();
    return pgasi_locks_start();
}

void pgasi_object_stop(void)
{
    pgasi_objects_stop();
    pgasi_locks_stop();
}
