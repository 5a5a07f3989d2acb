/* 03_atomics: a counter that all ranks share, and a linked list to which all ranks add at the same
 * time, without locks.
 *
 * The list only grows. Taking elements off would need a version number beside the pointer (the ABA
 * problem), for which a 64-bit global pointer has no room.
 *
 *   mpirun -n 4 build/examples/03_atomics */
#include <pgas/pgas.h>
#include <stdio.h>
#include <stdlib.h>
#include "usage.h"

#define N_EACH 1000

typedef struct {
    uint64_t ticket;
    pgas_gptr_t next;
} element_t;

/* All ranks share the one on rank 0. */
typedef struct {
    uint64_t counter;
    pgas_gptr_t head; /* of the list; a global pointer is a 64-bit word, so it can be swapped */
} shared_t;

static void check(pgas_status_t status)
{
    if (status != PGAS_OK) {
        fprintf(stderr, "rank %d: %s\n", pgas_rank(), pgas_status_text(status));
        exit(1); /* the launcher ends the other ranks */
    }
}

/* Sets the element's pointer to the head that was read, and makes the element the head unless the
 * head has changed meanwhile. Then it tries again. */
static void push(pgas_gptr_t head, pgas_gptr_t element)
{
    pgas_gptr_t seen, found;
    check(pgas_get_u64(head, &seen));
    for (;;) {
        check(pgas_put_u64(pgas_gptr_add(element, offsetof(element_t, next)), seen));
        check(pgas_compare_swap_u64(head, seen, element, &found));
        if (found == seen)
            return;
        seen = found;
    }
}

/* Walks along the list, on whichever ranks its elements are. @return how many there are; -1: a
 * ticket is wrong or occurs twice */
static int count_list(pgas_gptr_t head, int n_wanted)
{
    pgas_gptr_t at;
    int n = 0;
    char *met = (char *)calloc((size_t)n_wanted, 1);
    for (check(pgas_get_u64(head, &at)); at != PGAS_NULL && n < n_wanted; n++) {
        element_t element;
        check(pgas_get(&element, at, sizeof element));
        if (element.ticket >= (uint64_t)n_wanted || met[element.ticket]++)
            break;
        at = element.next;
    }
    free(met);
    return at == PGAS_NULL ? n : -1;
}

int main(int argc, char **argv)
{
    usage_check(pgas_launcher_rank(), argc, argv, "03_atomics\n", 0);
    if (pgas_init(NULL, NULL) != PGAS_OK)
        return 1;
    int rank = pgas_rank(), n_ranks = pgas_n_ranks();

    pgas_gptr_t block, elements;
    check(pgas_alloc(sizeof(shared_t), &block));
    *(shared_t *)pgas_gptr_local(block, sizeof(shared_t)) = (shared_t){ 0, PGAS_NULL };
    pgas_barrier(NULL);

    pgas_gptr_t counter = pgas_gptr_add(pgas_gptr_at(block, 0), offsetof(shared_t, counter));
    pgas_gptr_t head = pgas_gptr_add(pgas_gptr_at(block, 0), offsetof(shared_t, head));

    /* Memory of this rank alone; others reach it through the pointers in the list. */
    check(pgas_alloc_on(pgas_rank(), PGAS_ZONE_NONE, N_EACH * sizeof(element_t), &elements));
    element_t *mine = (element_t *)pgas_gptr_local(elements, N_EACH * sizeof(element_t));
    for (int i = 0; i < N_EACH; i++) {
        /* No other rank gets this ticket. */
        check(pgas_fetch_op_u64(counter, PGAS_ADD, 1, &mine[i].ticket));
        push(head, pgas_gptr_elem(elements, i, sizeof(element_t)));
    }
    pgas_barrier(NULL);

    uint64_t total;
    int n_wanted = N_EACH * n_ranks;
    check(pgas_get_u64(counter, &total));
    int n_found = count_list(head, n_wanted);
    int good = total == (uint64_t)n_wanted && n_found == n_wanted;
    if (rank == 0) {
        printf("%d ranks drew %llu tickets, the list has %d elements, each ticket once: %s\n",
               n_ranks, (unsigned long long)total, n_found, good ? "right" : "WRONG");
    }
    pgas_barrier(NULL); /* no rank reads the list any more */
    pgas_free_on(elements);
    pgas_free(block);
    pgas_finalize();
    return good ? 0 : 1;
}
