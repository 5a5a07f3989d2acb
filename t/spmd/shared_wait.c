/* Waits for what the shared context sends.
 *   what:   Without service threads a thread that sleeps in a wait drives the shared context, too:
 *           what was sent with PGAS_WAY_SEND arrives although no other thread makes progress and
 *           naps are long.
 *   np:     2 3
 *   nodes:  1
 *   tls:    tcp,self posix
 *   env:    PGAS_SERVICE_THREADS=0 PGAS_NAP_MAX_US=1000000
 *   source: pgas/call.h, pgas/agg.h
 */
#include "t/spmd/job.h"

#define N_ROUNDS    20
#define LONG_ENOUGH INT64_C(60000000)

PGAS_HANDLER_RETURN(shared_wait_twice, int64_t, int64_t)
{
    return 2 * *arg;
}

static int one_round(void)
{
    pgas_sync_t done = PGAS_SYNC_INIT, flushed = PGAS_SYNC_INIT;
    pgas_agg_opts_t o = PGAS_AGG_OPTS_INIT;
    pgas_agg_t *agg = NULL;
    int64_t result[4] = { 0 };
    o.way = PGAS_WAY_SEND;
    int n_bad = pgas_agg_create(&o, &agg) != PGAS_OK;
    for (int64_t i = 0; i < 4; i++) {
        pgas_call_opts_t opts = PGAS_CALL_OPTS_INIT;
        opts.sync = &done;
        opts.result = &result[i];
        opts.result_bytes = sizeof result[i];
        pgas_target_t target = i % 2 ? pgas_on_service(job_right()) : pgas_on_rank(job_right());
        n_bad += pgas_agg_call_to(agg, target, pgas_handler_shared_wait_twice, &i, sizeof i,
                                  &opts) != PGAS_OK;
    }
    n_bad += pgas_agg_flush(agg, PGAS_ALL, &flushed) != PGAS_OK;
    n_bad += pgas_sync_wait(&flushed, LONG_ENOUGH) != PGAS_OK;
    n_bad += pgas_sync_wait(&done, LONG_ENOUGH) != PGAS_OK;
    for (int i = 0; i < 4; i++)
        n_bad += result[i] != 2 * i;
    return n_bad + (pgas_agg_destroy(agg) != PGAS_OK);
}

int main(int argc, char **argv)
{
    int n_bad = 0;
    job_begin(&argc, &argv, 1);
    for (int i = 0; i < N_ROUNDS && n_bad == 0; i++)
        n_bad += one_round();
    spmd_is_int(n_bad, 0, "aggregated calls by the shared context arrive during waits");
    return job_end();
}
