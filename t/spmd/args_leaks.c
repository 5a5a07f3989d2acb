/* A million typed calls leave no object and no memory.
 *   what:   After 10^6 calls with vectors and objects that the target takes, shares or leaves, with
 *           results, refused calls and full targets, no object is left, no more of the heap is used
 *           than after the first thousands, and no memory was registered for a transfer. Threads
 *           that are not attached destroy the objects that handlers kept.
 *   np:     2
 *   nodes:  0 1
 *   timeout: 240
 *   source: pgas/call_args.h, pgas/rma_object.h
 */
#include <pthread.h>
#include <semaphore.h>
#include "pgas/call_args.h"
#include "t/spmd/job.h"

/* Calls of all ranks in 11 rounds. Between nodes a call costs several messages. */
#define N_ROUNDS 11
#define N_NEAR   100000
#define N_FAR    91000
#define N_SLOTS  64

PGAS_RMA_VECTOR(cells, double)

#define SUM_FIELDS(F)      \
    F(SCALAR, double, sum) \
    F(RMA_VECTOR, cells, values)
PGAS_STRUCT(sum, SUM_FIELDS)

/* What handlers have kept; the thread `ends' gives it back. */
static struct {
    pthread_mutex_t lock;
    cells_t halo[N_SLOTS];
    pgas_rma_object_t *object[N_SLOTS];
    sem_t any;
} kept = { .lock = PTHREAD_MUTEX_INITIALIZER };
static bool over;
static int n_wrong, n_ran;

static void give_back(int i)
{
    cells_t halo = { 0 };
    pthread_mutex_lock(&kept.lock);
    pgas_rma_object_t *object = kept.object[i];
    kept.object[i] = NULL;
    cells_take(&kept.halo[i], &halo);
    pthread_mutex_unlock(&kept.lock);
    cells_free(&halo);
    pgas_rma_object_destroy(object);
}

static void *ends(void *arg)
{
    for (int i = 0; !__atomic_load_n(&over, __ATOMIC_ACQUIRE); i++) {
        while (sem_wait(&kept.any) != 0)
            ;
        give_back(i % N_SLOTS);
    }
    for (int i = 0; i < N_SLOTS; i++)
        give_back(i);
    return arg;
}

static double first_and_last(const cells_t *v)
{
    return cells_data(v)[0] + cells_data(v)[cells_size(v) - 1];
}

#define KEEP_FIELDS(F)     \
    F(SCALAR, uint32_t, i) \
    F(STRING, text)        \
    F(OBJECT, object)      \
    F(RMA_VECTOR, cells, halo)
PGAS_HANDLER_ARGS(keep, KEEP_FIELDS)
{
    unsigned at = i % N_SLOTS;
    n_ran++;
    n_wrong += strcmp(text, "halo") != 0 || first_and_last(halo) != 2.0 * i;
    n_wrong += object && ((unsigned char *)object->data)[object->bytes - 1] != (unsigned char)i;
    pthread_mutex_lock(&kept.lock);
    if (i % 3 == 0) {
        cells_take(halo, &kept.halo[at]);
    } else if (i % 3 == 1) {
        cells_share(halo, &kept.halo[at]);
        pgas_rma_object_destroy(kept.object[at]);
        kept.object[at] = pgas_rma_object_share(object);
    }
    pthread_mutex_unlock(&kept.lock);
    if (i % 3 < 2)
        sem_post(&kept.any);
}

/* The result shares the argument every second time. */
#define ADD_FIELDS(F)      \
    F(SCALAR, uint32_t, i) \
    F(RMA_VECTOR, cells, halo)
PGAS_HANDLER_ARGS_RETURN(add, ADD_FIELDS, sum)
{
    result->sum = first_and_last(halo);
    if (i % 2)
        cells_share(halo, &result->values);
}

/* Vectors of 16 bytes to 12 KiB: below the threshold and above. */
static size_t size_of(uint32_t i)
{
    return i % 8 ? 2 + i % 5 : 512 + i % 1024;
}

static int make(uint32_t i, cells_t *halo, pgas_rma_object_t **object_p)
{
    size_t n = size_of(i);
    int n_bad = cells_resize(halo, n) != PGAS_OK;
    if (!n_bad)
        cells_data(halo)[0] = cells_data(halo)[n - 1] = i;
    *object_p = NULL;
    if (i % 5 == 0)
        n_bad += pgas_rma_object_create(i % 10 ? 40 : 5000, object_p) != PGAS_OK;
    if (*object_p)
        memset((*object_p)->data, (unsigned char)i, (*object_p)->bytes);
    return n_bad;
}

static int result_of(uint32_t i, const cells_t *halo)
{
    sum_t sum = { 0 };
    int n_bad = pgas_call_return_add(job_right(), i, halo, &sum) != PGAS_OK;
    n_bad += sum.sum != 2.0 * i;
    if (i % 2)
        n_bad +=
            cells_size(&sum.values) != cells_size(halo) || first_and_last(&sum.values) != 2.0 * i;
    pgas_free_sum(&sum);
    return n_bad;
}

/* A target without room refuses, and the arguments are still the caller's. */
static int call_again(uint32_t i, const cells_t *halo, pgas_rma_object_t *object)
{
    pgas_call_opts_t o = PGAS_CALL_OPTS_INIT;
    pgas_status_t status;
    o.full = PGAS_FULL_AGAIN;
    while ((status = pgas_call_keep_to(pgas_on_rank(job_right()), i, "halo", object, halo, &o)) ==
           PGAS_ERR_AGAIN)
        pgas_progress();
    return status != PGAS_OK;
}

static int one(uint32_t i)
{
    cells_t halo = { 0 };
    pgas_rma_object_t *object;
    int n_bad = make(i, &halo, &object);
    if (i % 64 == 0)
        n_bad += result_of(i, &halo);
    if (i % 101 == 0)
        n_bad += pgas_call_keep(n_ranks, i, "halo", object, &halo, NULL) != PGAS_ERR_RANGE ||
                 pgas_call_keep(0, i, "halo", object, NULL, NULL) != PGAS_ERR_INVALID;
    n_bad += i % 4 ? pgas_call_keep(job_right(), i, "halo", object, &halo, NULL) != PGAS_OK
                   : call_again(i, &halo, object);
    cells_free(&halo);
    pgas_rma_object_destroy(object);
    return n_bad;
}

static uint64_t pool_bytes(void)
{
    pgas_rma_info_t info = { .size = sizeof info };
    return pgas_rma_info(&info) == PGAS_OK ? info.pool_high_bytes : 0;
}

int main(int argc, char **argv)
{
    pthread_t thread;
    pgas_rma_info_t info = { .size = sizeof info };
    uint64_t after_one = 0;
    int n_bad = 0;
    job_begin(&argc, &argv, 5);
    int n_each = (pgas_n_nodes() == 1 ? N_NEAR : N_FAR) / n_ranks;
    n_bad += sem_init(&kept.any, 0, 0) != 0;
    n_bad += pthread_create(&thread, NULL, ends, NULL) != 0;
    for (int round = 0; round < N_ROUNDS; round++) {
        for (int i = 0; i < n_each; i++)
            n_bad += one((uint32_t)(round * n_each + i));
        if (round == 0)
            after_one = pool_bytes();
    }
    n_bad += pgas_quiesce() != PGAS_OK;
    __atomic_store_n(&over, true, __ATOMIC_RELEASE);
    sem_post(&kept.any);
    n_bad += pthread_join(thread, NULL) != 0;
    n_bad += pgas_rma_info(&info) != PGAS_OK;
    spmd_is_int(n_bad, 0, "calls are accepted, refused and answered");
    spmd_ok(n_ran == N_ROUNDS * n_each && n_wrong == 0, "each runs once, with its arguments");
    spmd_is_int((int)info.n_objects, 0, "no object is left");
    spmd_ok(info.object_bytes == 0 && info.n_registrations == 0,
            "no registered memory is left, and none was registered on the way");
    /* Other moments have other numbers of calls under way. */
    spmd_ok(info.pool_high_bytes <= 4 * after_one + (1 << 20), "the heap is used no further");
    spmd_diag("pool: at most %llu KiB, after one round %llu KiB",
              (unsigned long long)info.pool_high_bytes >> 10, (unsigned long long)after_one >> 10);
    return job_end();
}
