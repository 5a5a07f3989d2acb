/* Start and stop of broadcasts. */
#include "bcast/bcast.h"
#include "boot/hooks.h"

pgas_status_t pgasi_bcast_start(void)
{
    pgas_status_t status = pgasi_bcast_plan_start();
    pgas_status_t acks = pgasi_bcast_ack_start();
    pgasi_bcast_run_start();
    pgasi_bcast_call_start();
    pgasi_bcast_buffer_start();
    pgasi_hooks.call_team = pgasi_bcast_call;
    return status == PGAS_OK ? acks : status;
}

void pgasi_bcast_stop(void)
{
    pgasi_bcast_ack_stop();
    pgasi_bcast_plan_stop();
}
