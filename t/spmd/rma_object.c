/* Registered objects in a job of several ranks.
 *   what:   Objects are memory of the rank's heap. Peers read and write them by their global
 *           pointers, and creating or growing them registers nothing. Handlers create objects, and
 *           other threads keep or destroy them. A vector grows while threads read what they share.
 *           Without room in the heap objects are plain memory, which transfers take, too. Memory
 *           that objects no longer use is there for pgas_alloc.
 *   np:     1 2 3 4 5
 *   nodes:  0 1 2
 *   tls:    posix tcp,self sysv,cma
 *   env:    PGAS_SERVICE_THREADS=1 | PGAS_SERVICE_THREADS=0
 *   env:    | PGAS_FAULT=delay=20,reorder=10,again=5
 *   log:    no room in the heap for an object
 *   source: pgas/rma_object.h; src/transport/count.h
 */
#include <pthread.h>
#include "boot/hooks.h"
#include "mem/segment.h"
#include "pgas/rma_object.h"
#include "t/spmd/job.h"
#include "transport/count.h"

#define HEAP ((size_t)16 << 20)

static pgas_rma_info_t info(void)
{
    pgas_rma_info_t i = { .size = sizeof i };
    (void)pgas_rma_info(&i);
    return i;
}

static unsigned char byte_of(int rank, size_t bytes, size_t at)
{
    return (unsigned char)(rank * 37 + (int)bytes + (int)at * 7);
}

static void fill(pgas_rma_object_t *o, int rank)
{
    for (size_t i = 0; i < o->bytes; i++)
        ((unsigned char *)o->data)[i] = byte_of(rank, o->bytes, i);
}

static int n_wrong(const void *data, size_t bytes, int rank)
{
    int n = 0;
    for (size_t i = 0; i < bytes; i++)
        n += ((const unsigned char *)data)[i] != byte_of(rank, bytes, i);
    return n;
}

/* ---- peers ---- */

static const size_t sizes[] = { 1, 64, 4096, 100000, (size_t)3 << 20 };
#define N_SIZES (sizeof sizes / sizeof *sizes)

static uint64_t registered(void)
{
    pgasi_tp_counts_t c = { .registered_bytes = 0 };
    if (pgasi_tp)
        pgasi_tp_count_query(pgasi_tp, &c);
    return c.registered_bytes;
}

static void reach(void)
{
    pgas_gptr_t all[JOB_RANKS_MAX];
    int n_bad = 0;
    uint64_t n_before = registered();
    for (size_t i = 0; i < N_SIZES; i++) {
        size_t bytes = sizes[i];
        pgas_rma_object_t *o = NULL, *copy = NULL;
        n_bad += pgas_rma_object_create(bytes, &o) != PGAS_OK || !o->ptr ||
                 pgas_rma_object_create(bytes, &copy) != PGAS_OK;
        fill(o, me);
        job_gather(o->ptr, all);
        for (int r = 0; r < n_ranks; r++) {
            memset(copy->data, 0, bytes);
            n_bad +=
                pgas_get(copy->data, all[r], bytes) != PGAS_OK || n_wrong(copy->data, bytes, r) > 0;
        }
        pgas_barrier(NULL);
        fill(copy, job_right());
        n_bad += pgas_put(all[job_right()], copy->data, bytes) != PGAS_OK;
        n_bad += pgas_flush(job_right()) != PGAS_OK;
        pgas_barrier(NULL);
        n_bad += n_wrong(o->data, bytes, me) > 0;
        n_bad += pgas_rma_object_destroy(o) != PGAS_OK || pgas_rma_object_destroy(copy) != PGAS_OK;
    }
    spmd_is_int(n_bad, 0, "peers read and write objects by their global pointers");
    spmd_ok(registered() == n_before, "and nothing is registered for them");
    pgas_gptr_t ptr;
    static char other[4096];
    bool is_noticed = pgas_mem_attach(other, sizeof other, &ptr) == PGAS_OK &&
                      (!pgasi_tp || registered() > n_before) && pgas_mem_detach(ptr) == PGAS_OK;
    spmd_ok(is_noticed, "a registration would be noticed");
}

/* ---- handlers ---- */

#define N_CALLS 200

typedef struct {
    int number;
    size_t bytes;
} order;

static pgas_rma_object_t *made[JOB_RANKS_MAX][N_CALLS];

/* Every third object is destroyed in a handler that follows. */
PGAS_HANDLER(make, order)
{
    pgas_rma_object_t *o = NULL;
    int rank = pgas_thread_rank(source);
    if (pgas_rma_object_create(arg->bytes, &o) != PGAS_OK)
        return;
    fill(o, rank);
    if (arg->number % 3 == 2 && made[rank][arg->number - 2]) {
        pgas_rma_object_destroy(made[rank][arg->number - 2]);
        made[rank][arg->number - 2] = NULL;
    }
    made[rank][arg->number] = o;
}

static void in_handlers(void)
{
    int n_bad = 0, n_left = 0;
    for (int i = 0; i < N_CALLS; i++)
        for (int r = 0; r < n_ranks; r++) {
            order o = { i, (size_t)(i % 7 == 0 ? 40000 : 100 + i) };
            n_bad += pgas_call_make(r, &o, NULL) != PGAS_OK;
        }
    n_bad += pgas_quiesce() != PGAS_OK;
    for (int r = 0; r < n_ranks; r++)
        for (int i = 0; i < N_CALLS; i++) {
            pgas_rma_object_t *o = made[r][i];
            n_left += o != NULL;
            if (o)
                n_bad += n_wrong(o->data, o->bytes, r) > 0 || pgas_rma_object_destroy(o) != PGAS_OK;
        }
    spmd_is_int(n_bad, 0, "handlers create objects, and other threads destroy them");
    spmd_is_int(n_left, n_ranks * (N_CALLS - N_CALLS / 3), "all of them arrive");
}

/* ---- threads ---- */

PGAS_RMA_VECTOR(numbers, uint64_t)

#define N_READERS     3
#define N_GENERATIONS 300

static struct {
    pthread_mutex_t lock;
    pthread_cond_t changed;
    numbers_t newest; /* a share of the writer's vector */
    int generation;
} board = { .lock = PTHREAD_MUTEX_INITIALIZER, .changed = PTHREAD_COND_INITIALIZER };

static void *reader_main(void *arg)
{
    int *n_bad_p = arg, seen = 0;
    numbers_t mine = { { NULL, NULL, 0, 0 } };
    while (seen < N_GENERATIONS) {
        pthread_mutex_lock(&board.lock);
        while (board.generation == seen)
            pthread_cond_wait(&board.changed, &board.lock);
        seen = board.generation;
        numbers_share(&board.newest, &mine);
        pthread_mutex_unlock(&board.lock);
        for (size_t i = 0; i < numbers_size(&mine); i++)
            *n_bad_p += numbers_data(&mine)[i] != i * 3;
        *n_bad_p += numbers_size(&mine) != (size_t)seen * 10;
        *n_bad_p += numbers_push(&mine, 99) != PGAS_OK; /* not seen by the writer */
    }
    numbers_free(&mine);
    return NULL;
}

static void grow_while_shared(void)
{
    pthread_t thread[N_READERS];
    int n_bad[N_READERS] = { 0 }, sum = 0;
    numbers_t v = { { NULL, NULL, 0, 0 } };
    uint64_t n_before = registered();
    for (int i = 0; i < N_READERS; i++)
        pthread_create(&thread[i], NULL, reader_main, &n_bad[i]);
    for (int generation = 1; generation <= N_GENERATIONS; generation++) {
        for (int i = 0; i < 10; i++)
            sum += numbers_push(&v, numbers_size(&v) * 3) != PGAS_OK;
        pthread_mutex_lock(&board.lock);
        numbers_share(&v, &board.newest);
        board.generation = generation;
        pthread_cond_broadcast(&board.changed);
        pthread_mutex_unlock(&board.lock);
    }
    for (int i = 0; i < N_READERS; i++) {
        pthread_join(thread[i], NULL);
        sum += n_bad[i];
    }
    for (size_t i = 0; i < numbers_size(&v); i++)
        sum += numbers_data(&v)[i] != i * 3;
    numbers_free(&board.newest);
    numbers_free(&v);
    spmd_is_int(sum, 0, "a vector grows while threads that are not attached share and read it");
    spmd_ok(registered() == n_before, "which registers nothing");
}

/* ---- the heap ---- */

static void no_room(void)
{
    enum { N = 60 };
    pgas_rma_object_t *o[N];
    pgas_gptr_t window = PGAS_NULL, all[JOB_RANKS_MAX];
    size_t bytes = (size_t)300 << 10;
    uint64_t before = info().n_unregistered;
    int n_bad = pgas_alloc(bytes, &window) != PGAS_OK, n_plain = 0;
    job_gather(window, all);
    for (int i = 0; i < N; i++) {
        n_bad += pgas_rma_object_create(bytes, &o[i]) != PGAS_OK;
        n_plain += !o[i]->ptr;
    }
    spmd_ok(n_plain > 0 && n_plain < N && info().n_unregistered - before == (uint64_t)n_plain,
            "without room in the heap objects are plain memory, as counted");
    fill(o[N - 1], me);
    n_bad += o[N - 1]->ptr != PGAS_NULL;
    n_bad += pgas_put(all[job_right()], o[N - 1]->data, bytes) != PGAS_OK ||
             pgas_flush(job_right()) != PGAS_OK;
    pgas_barrier(NULL);
    n_bad += n_wrong(pgas_gptr_local(window, bytes), bytes, (me + n_ranks - 1) % n_ranks) > 0;
    for (int i = 0; i < N; i++)
        n_bad += pgas_rma_object_destroy(o[i]) != PGAS_OK;
    n_bad += pgas_free(window) != PGAS_OK;
    spmd_is_int(n_bad, 0, "and transfers take them");
    n_bad = pgas_alloc(HEAP * 3 / 4, &window) != PGAS_OK || pgas_free(window) != PGAS_OK;
    spmd_is_int(n_bad, 0, "pgas_alloc gets the memory that objects no longer use");
}

static void report(void)
{
    char *text = NULL;
    size_t bytes = 0;
    pgas_rma_object_t *o = NULL;
    unsigned long long now = 0, high = 0, limit = 0, n_objects = 0;
    bool good = pgas_rma_object_create(1000, &o) == PGAS_OK;
    FILE *out = open_memstream(&text, &bytes);
    pgas_info_print(out, NULL);
    pgas_stats_print(out);
    fclose(out);
    const char *at = strstr(text, "\n  objects ");
    good = good && at && sscanf(at, " objects %llu %llu %llu", &now, &high, &limit) == 3 &&
           now == info().pool_bytes && high == info().pool_high_bytes && high >= HEAP / 2 &&
           limit >= HEAP / 2;
    at = strstr(text, "objects now ");
    good = good && at && sscanf(at, "objects now %llu", &n_objects) == 1 && n_objects == 1;
    free(text);
    good = good && pgas_rma_object_destroy(o) == PGAS_OK;
    spmd_ok(good, "pgas_info_print and pgas_stats_print list objects and their memory");
}

int main(int argc, char **argv)
{
    pgasi_hooks.wrap_transport = pgasi_tp_count_wrap;
    setenv("PGAS_HEAP_SIZE", "16M", 0);
    job_begin(&argc, &argv, 12);
    reach();
    in_handlers();
    grow_while_shared();
    no_room();
    report();
    pgas_rma_info_t i = info();
    spmd_ok(i.n_objects == 0 && i.object_bytes == 0, "no object is left");
    return job_end();
}
