/* what: not a test by itself: rank 2 disagrees at the second of three promises; t/lint/harness.t
 * checks the output */
#include "t/spmd.h"

int main(int argc, char **argv)
{
    spmd_begin(&argc, &argv, MPI_THREAD_FUNNELED);
    spmd_plan(3);
    spmd_ok(true, "all agree");
    spmd_is_int(spmd_rank() == 2 ? 2 : 0, 0, "rank 2 disagrees");
    spmd_is_str("a", "a", "all agree again");
    return spmd_end();
}
