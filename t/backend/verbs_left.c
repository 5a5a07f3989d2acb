/* A rank that ends with an unanswered request.
 *   what:   An atomic that its owner has received, but not executed before it ended, ends with
 *           PGAS_ERR_PEER.
 *   np:     2
 *   log:    is gone .it has left
 *   log:    memory is still registered
 *   source: transport.h */
#include <stdlib.h>
#include "t/backend/world.h"

int main(int argc, char **argv)
{
    setenv("PGAS_TEST_TRANSPORT", "verbs", 1);
    setenv("PGAS_VERBS_DEVICE", "snic", 1);
    spmd_begin(&argc, &argv, MPI_THREAD_SINGLE);
    spmd_plan(2);
    world_open(&(world_opts_t){ 0 });
    int other = 1 - world.rank;
    uint64_t result;
    spmd_ok(world_amo(0, other, 0, PGASI_AMO_XOR, 8, 1, 0, &result) == PGAS_OK,
            "an atomic by the owner's CPU");
    world_barrier();
    spmd_progress(NULL);
    spmd_barrier(); /* no thread polls any more */
    bool good = true;
    if (world.rank == 1) {
        MPI_Barrier(MPI_COMM_WORLD); /* the request has arrived; no thread polls */
        for (int ctx = world.n_ctxs - 1; ctx >= 0; ctx--) {
            world.ops->ctx_drain(world.ctxs[ctx]); /* begun, so that closing makes no progress */
            world.ops->ctx_close(world.ctxs[ctx]);
        }
        world.ops->close(world.tp);
    } else {
        pending_t pending;
        pgas_status_t status =
            world.ops->amo(world.ctxs[0], other, world.keys[0][other], world.bases[other],
                           PGASI_AMO_XOR, 8, 1, 0, &result, world_pending(&pending));
        MPI_Barrier(MPI_COMM_WORLD);
        good = world_wait(status, &pending) == PGAS_ERR_PEER;
    }
    spmd_ok(good, "one that is never carried out ends");
    return spmd_end();
}
