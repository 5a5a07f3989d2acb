/* 17_elsewhere: memory that one rank allocates on another one.
 *
 * Every rank has a letter box, a list of letters. The sender of a letter allocates memory for it
 * on the receiver's rank, puts the text there, and links the letter to the receiver's list. The
 * receiver reads its letters by plain loads, without a message. A pool with the rank of the
 * receiver requests memory there once in a while, not for each letter.
 *
 *   mpirun -n 4 build/examples/17_elsewhere */
#include <pgas/pgas.h>
#include <stdio.h>
#include <string.h>
#include "usage.h"

#define N_LETTERS 100

typedef struct {
    pgas_gptr_t next;
    int32_t from, length;
    char text[40];
} letter_t;

static int n_bad;

static void check(pgas_status_t status)
{
    n_bad += status != PGAS_OK;
}

/* Puts a letter at its place, and makes it the first of the list, unless another rank has changed
 * the list meanwhile. Then it tries again. */
static void post(pgas_gptr_t box, pgas_gptr_t place, letter_t *letter)
{
    pgas_gptr_t seen, found;
    check(pgas_get_u64(box, &seen));
    for (;;) {
        letter->next = seen;
        check(pgas_put(place, letter, offsetof(letter_t, text) + (size_t)letter->length));
        check(pgas_flush(pgas_gptr_rank(place)));
        check(pgas_compare_swap_u64(box, seen, place, &found));
        if (found == seen || n_bad)
            return;
        seen = found;
    }
}

/* Letters of several sizes to one rank. The pool's memory is there. */
static pgas_pool_t *send_letters(int rank, pgas_gptr_t box)
{
    pgas_pool_t *pool = NULL;
    pgas_pool_opts_t opts = PGAS_POOL_OPTS_INIT;
    opts.owner = "letters";
    opts.rank = rank;
    check(pgas_pool_create(&opts, &pool));
    for (int i = 0; i < N_LETTERS && !n_bad; i++) {
        letter_t letter = { PGAS_NULL, pgas_rank(), 0, "" };
        pgas_block_t block;
        letter.length = snprintf(letter.text, sizeof letter.text, "letter %d", i) + 1;
        check(
            pgas_pool_acquire(pool, offsetof(letter_t, text) + (size_t)letter.length, -1, &block));
        if (!n_bad)
            post(box, block.ptr, &letter);
    }
    return pool;
}

/* The letters of the own box, the last one first. */
static int read_letters(pgas_gptr_t box, int from)
{
    int n = 0;
    const letter_t *letter;
    pgas_gptr_t at = *(const pgas_gptr_t *)pgas_gptr_local(box, sizeof at);
    for (; (letter = pgas_gptr_local(at, 1)) != NULL; at = letter->next, n++) {
        char want[40];
        snprintf(want, sizeof want, "letter %d", N_LETTERS - 1 - n);
        n_bad += letter->from != from || strcmp(letter->text, want) != 0;
    }
    return n;
}

int main(int argc, char **argv)
{
    usage_check(pgas_launcher_rank(), argc, argv, "17_elsewhere\n", 0);
    pgas_gptr_t box, archive = PGAS_NULL;
    if (pgas_init(NULL, NULL) != PGAS_OK || pgas_alloc(sizeof(pgas_gptr_t), &box) != PGAS_OK)
        return 1;
    int n_ranks = pgas_n_ranks(), right = (pgas_rank() + 1) % n_ranks;
    int left = (pgas_rank() + n_ranks - 1) % n_ranks;
    *(pgas_gptr_t *)pgas_gptr_local(box, sizeof(pgas_gptr_t)) = PGAS_NULL;
    pgas_barrier(NULL); /* all boxes are empty */

    pgas_pool_t *pool = send_letters(right, pgas_gptr_at(box, right));
    pgas_barrier(NULL); /* all letters are there */
    int n_read = read_letters(box, left);

    /* One block of a rank, in one of its NUMA zones. Any rank may free it. */
    uint64_t count = (uint64_t)n_read, back = 0;
    check(pgas_alloc_on(left, PGAS_ZONE(0), sizeof count, &archive));
    check(pgas_put_u64(archive, count));
    check(pgas_flush(left));
    check(pgas_get_u64(archive, &back));
    check(pgas_free_on(archive));

    pgas_barrier(NULL); /* no rank reads letters any more */
    check(pgas_pool_destroy(pool));
    int good = !n_bad && n_read == N_LETTERS && back == N_LETTERS;
    printf("rank %d: %d letters from rank %d: %s\n", pgas_rank(), n_read, left,
           good ? "right" : "WRONG");
    pgas_free(box);
    pgas_finalize();
    return good ? 0 : 1;
}
