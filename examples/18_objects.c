/* 18_objects: work that threads of all ranks take from one queue.
 *
 * An object on rank 0 has the numbers that are still to be tried. Each thread calls its method
 * `draw`, which runs at rank 0 and gives the next range. Threads that are fast draw more often.
 * Methods of an object never overlap, and requests of several threads of a rank share messages. A
 * lock protects the best result, which is in memory of rank 0 and is changed by puts.
 *
 *   mpirun -n 4 build/examples/18_objects */
#include <pgas/pgas.h>
#include <pthread.h>
#include <stdio.h>
#include "usage.h"

#define N_THREADS 3
#define LIMIT     100000

typedef struct {
    int64_t next;
} numbers_t;

typedef struct {
    int64_t number, n_steps;
} best_t;

static numbers_t numbers = { 1 };
static pgas_object_t queue; /* the name of the numbers of rank 0 */
static pgas_lock_t lock;
static pgas_gptr_t best; /* on rank 0 */
static int n_bad;

/* The first of the next *arg numbers. */
PGAS_METHOD(draw, numbers_t, int64_t, int64_t)
{
    int64_t first = object->next;
    object->next += *arg;
    return first;
}

/* Steps of Collatz' sequence until it reaches 1. */
static int64_t count_steps(int64_t number)
{
    int64_t n = 0;
    for (; number != 1; n++)
        number = number % 2 ? 3 * number + 1 : number / 2;
    return n;
}

/* Replaces the best result if this one is better. */
static pgas_status_t offer(const best_t *mine)
{
    best_t old;
    pgas_status_t status = pgas_lock_acquire(lock, -1, NULL);
    if (status != PGAS_OK)
        return status;
    status = pgas_get(&old, best, sizeof old);
    if (status == PGAS_OK && mine->n_steps > old.n_steps)
        status = pgas_put(best, mine, sizeof *mine);
    if (status == PGAS_OK)
        status = pgas_flush(0); /* the next holder of the lock sees the put */
    pgas_status_t released = pgas_lock_release(lock);
    return status == PGAS_OK ? released : status;
}

static pgas_status_t search(void)
{
    best_t mine = { 0, -1 };
    int64_t n = 1000, first;
    pgas_status_t status;
    while ((status = pgas_object_call_draw(queue, &n, &first)) == PGAS_OK && first < LIMIT) {
        for (int64_t i = first; i < first + n && i < LIMIT; i++) {
            int64_t n_steps = count_steps(i);
            if (n_steps > mine.n_steps)
                mine = (best_t){ i, n_steps };
        }
    }
    return status == PGAS_OK ? offer(&mine) : status;
}

static void *work(void *arg)
{
    int bad = pgas_thread_attach() != PGAS_OK || search() != PGAS_OK;
    bad += pgas_thread_detach() != PGAS_OK;
    __atomic_add_fetch(&n_bad, bad, __ATOMIC_RELAXED);
    return arg;
}

int main(int argc, char **argv)
{
    usage_check(pgas_launcher_rank(), argc, argv, "18_objects\n", 0);
    if (pgas_init(NULL, NULL) != PGAS_OK || pgas_alloc(sizeof(best_t), &best) != PGAS_OK)
        return 1;
    best = pgas_gptr_at(best, 0);
    if (pgas_rank() == 0) {
        *(best_t *)pgas_gptr_local(best, sizeof(best_t)) = (best_t){ 0, -1 };
        n_bad += pgas_object_create(&numbers, &queue) != PGAS_OK;
        n_bad += pgas_lock_create(&lock) != PGAS_OK;
    }
    pgas_broadcast(NULL, &queue, sizeof queue, 0);
    pgas_broadcast(NULL, &lock, sizeof lock, 0);

    pthread_t thread[N_THREADS];
    for (int i = 0; i < N_THREADS; i++)
        n_bad += pthread_create(&thread[i], NULL, work, NULL) != 0;
    for (int i = 0; i < N_THREADS; i++)
        n_bad += pthread_join(thread[i], NULL) != 0;
    pgas_barrier(NULL);

    best_t found = { 0, 0 };
    n_bad += pgas_get(&found, best, sizeof found) != PGAS_OK;
    pgas_quiesce(); /* releases are not waited for: the last one has arrived now */
    n_bad += pgas_rank() == 0 &&
             (pgas_object_destroy(queue) != PGAS_OK || pgas_lock_destroy(lock) != PGAS_OK);
    int good = !n_bad && found.number == 77031 && found.n_steps == 350;
    if (pgas_rank() == 0 || !good)
        printf("below %d, %lld takes %lld steps, the most of all: %s\n", LIMIT,
               (long long)found.number, (long long)found.n_steps, good ? "right" : "WRONG");
    pgas_free(pgas_gptr_at(best, pgas_rank()));
    pgas_finalize();
    return good ? 0 : 1;
}
