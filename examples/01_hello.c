/* 01_hello: ranks, and the nodes on which they share memory.
 *
 *   mpirun -n 4 build/examples/01_hello
 *
 * With PGAS_NODE_MAXSIZE=2 the library treats each two ranks of a host as a node:
 *
 *   PGAS_NODE_MAXSIZE=2 mpirun -n 4 build/examples/01_hello */
#include <pgas/pgas.h>
#include <stdio.h>
#include "usage.h"

int main(int argc, char **argv)
{
    usage_check(pgas_launcher_rank(), argc, argv, "01_hello\n", 0);

    /* NULL: all processes of MPI. The library starts MPI if the program has not; then it also ends
     * MPI. */
    if (pgas_init(NULL, NULL) != PGAS_OK)
        return 1; /* the log has said why */
    int rank = pgas_rank(), n_ranks = pgas_n_ranks();

    /* Ranks print one after the other, so that the lines come in order. Every rank takes part in
     * every barrier. */
    for (int turn = 0; turn < n_ranks; turn++) {
        if (turn == rank) {
            printf("rank %d of %d: node %d of %d, number %d of %d there\n", rank, n_ranks,
                   pgas_node(), pgas_n_nodes(), pgas_node_rank(), pgas_node_size());
            fflush(stdout);
        }
        pgas_barrier(NULL);
    }

    /* A collective: the sum of all ranks' numbers, on every rank. */
    int64_t sum = rank;
    pgas_allreduce(NULL, &sum, &sum, 1, PGAS_I64, PGAS_ADD);
    int good = sum == (int64_t)n_ranks * (n_ranks - 1) / 2;
    if (rank == 0)
        printf("the sum of all ranks is %lld: %s\n", (long long)sum, good ? "right" : "WRONG");
    pgas_finalize();
    return good ? 0 : 1;
}
