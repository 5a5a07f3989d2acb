/* 02_put_get: memory that every rank can write and read; the owner need not do anything.
 *
 * Each rank puts a greeting into its right neighbour's memory, then gets one back from its left
 * neighbour's.
 *
 *   mpirun -n 4 build/examples/02_put_get */
#include <pgas/pgas.h>
#include <stdio.h>
#include <string.h>
#include "usage.h"

#define TEXT_BYTES 64

int main(int argc, char **argv)
{
    usage_check(pgas_launcher_rank(), argc, argv, "02_put_get\n", 0);
    if (pgas_init(NULL, NULL) != PGAS_OK)
        return 1;
    int rank = pgas_rank(), n_ranks = pgas_n_ranks();
    int right = (rank + 1) % n_ranks, left = (rank + n_ranks - 1) % n_ranks;

    /* A block of the same size on every rank. box points to the block of this rank;
     * pgas_gptr_at(box, r) points to that of rank r. */
    pgas_gptr_t box;
    if (pgas_alloc(2 * TEXT_BYTES, &box) != PGAS_OK) {
        pgas_finalize();
        return 1;
    }

    /* The block of this rank is plain memory. So are the blocks of other ranks on the same node. */
    char *mine = (char *)pgas_gptr_local(box, 2 * TEXT_BYTES);
    memset(mine, 0, 2 * TEXT_BYTES);
    snprintf(mine + TEXT_BYTES, TEXT_BYTES, "the second box of rank %d", rank);
    pgas_barrier(NULL); /* no rank writes before all are ready */

    /* Put returns when our buffer may be used again. Flush returns when the text has arrived. */
    char text[TEXT_BYTES];
    snprintf(text, sizeof text, "greetings from rank %d", rank);
    pgas_status_t status = pgas_put(pgas_gptr_at(box, right), text, sizeof text);
    if (status == PGAS_OK)
        status = pgas_flush(right);
    pgas_barrier(NULL); /* all texts have arrived everywhere */

    /* Get returns with the data. Arithmetic on global pointers counts bytes. */
    char theirs[TEXT_BYTES] = "";
    pgas_gptr_t second = pgas_gptr_add(pgas_gptr_at(box, left), TEXT_BYTES);
    if (status == PGAS_OK)
        status = pgas_get(theirs, second, sizeof theirs);

    char want_box[TEXT_BYTES], want_theirs[TEXT_BYTES];
    snprintf(want_box, sizeof want_box, "greetings from rank %d", left);
    snprintf(want_theirs, sizeof want_theirs, "the second box of rank %d", left);
    int good = status == PGAS_OK && strcmp(mine, want_box) == 0 && strcmp(theirs, want_theirs) == 0;
    printf("rank %d: got \"%s\" and fetched \"%s\": %s\n", rank, mine, theirs,
           good ? "right" : "WRONG");

    pgas_free(box); /* collective: waits for all ranks */
    pgas_finalize();
    return good ? 0 : 1;
}
