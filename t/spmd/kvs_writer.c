/* Writes numbered values to a durable store until it is killed: the program of t/spmd/kvs_kill.t,
 * no test by itself.
 *   kvs_writer DIR HOW ACKS N     HOW is second or always; N: numbers that a thread writes at most
 * Two threads of each rank write the numbers 1, 2, .. to keys in turn; each seventh number deletes
 * its key. After each write the thread stores its number in the file ACKS.R.T. At the start it
 * checks that the store has what these files acknowledge. Meanwhile all ranks save again and
 * again. */
#include <fcntl.h>
#include <inttypes.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include "pgas/kvs.h"
#include "pgas/pgas.h"

#define N_THREADS 2
#define N_KEYS    50 /* of a thread; not a multiple of 7 */
#define BYTES_MAX 1500

typedef struct {
    int number; /* of the thread */
    int fd;     /* of its acknowledgements */
    uint64_t acked, last;
    pgas_status_t status;
    pthread_t thread;
} writer_t;

static pgas_kvs_t *kvs;
static int n_done; /* threads */

static size_t key_of(const writer_t *w, uint64_t i, char *key)
{
    return (size_t)sprintf(key, "rank %d thread %d key %" PRIu64, pgas_rank(), w->number,
                           i % N_KEYS);
}

/* The value of a number: the number, then bytes that depend on it. */
static size_t value_of(uint64_t i, unsigned char *value)
{
    size_t n = sizeof i + (size_t)(i * 7919 % (BYTES_MAX - sizeof i));
    memcpy(value, &i, sizeof i);
    for (size_t k = sizeof i; k < n; k++)
        value[k] = (unsigned char)(i * 31 + k);
    return n;
}

/* ---- the check ---- */

/* Whether the store has what write i leaves; 0: the key was never written. */
static bool is_after(const writer_t *w, uint64_t slot, uint64_t i)
{
    char key[64];
    unsigned char got[BYTES_MAX], want[BYTES_MAX];
    size_t n = 0;
    pgas_status_t status = pgas_kvs_get(kvs, key, key_of(w, slot, key), got, sizeof got, &n);
    if (i == 0 || i % 7 == 0)
        return status == PGAS_ERR_NOT_FOUND;
    return status == PGAS_OK && n == value_of(i, want) && memcmp(got, want, n) == 0;
}

/* The write after the last acknowledged one may have happened. */
static int check(const writer_t *w)
{
    int n_bad = 0;
    for (uint64_t slot = 0; slot < N_KEYS; slot++) {
        uint64_t next = w->acked + 1;
        uint64_t last = w->acked - (w->acked + N_KEYS - slot) % N_KEYS;
        if (last > w->acked) /* below 0: not written yet */
            last = 0;
        if (is_after(w, slot, last) || (next % N_KEYS == slot && is_after(w, slot, next)))
            continue;
        n_bad++;
        printf("rank %d thread %d: write %" PRIu64 " of %" PRIu64 " is not there\n", pgas_rank(),
               w->number, last, w->acked);
    }
    return n_bad;
}

/* ---- writing ---- */

static pgas_status_t write_number(const writer_t *w, uint64_t i)
{
    char key[64];
    unsigned char value[BYTES_MAX];
    size_t key_bytes = key_of(w, i, key);
    if (i % 7 != 0)
        return pgas_kvs_put(kvs, key, key_bytes, value, value_of(i, value));
    pgas_status_t status = pgas_kvs_delete(kvs, key, key_bytes);
    return status == PGAS_ERR_NOT_FOUND ? PGAS_OK : status;
}

static void *write_all(void *arg)
{
    writer_t *w = arg;
    w->status = pgas_thread_attach();
    for (uint64_t i = w->acked + 1; i <= w->last && w->status == PGAS_OK; i++) {
        w->status = write_number(w, i);
        if (w->status == PGAS_OK && pwrite(w->fd, &i, sizeof i, 0) != sizeof i)
            w->status = PGAS_ERR_IO;
    }
    pgas_thread_detach();
    __atomic_add_fetch(&n_done, 1, __ATOMIC_RELEASE);
    return NULL;
}

/* Saves until the threads of all ranks have ended. */
static pgas_status_t save_all(void)
{
    int all = 0;
    pgas_status_t status = PGAS_OK;
    while (status == PGAS_OK && all < N_THREADS * pgas_n_ranks()) {
        int mine = __atomic_load_n(&n_done, __ATOMIC_ACQUIRE);
        status = pgas_kvs_save(kvs, NULL);
        if (status == PGAS_OK)
            status = pgas_allreduce(NULL, &mine, &all, 1, PGAS_I32, PGAS_ADD);
    }
    return status;
}

static int run(const char *acks, uint64_t n)
{
    writer_t writer[N_THREADS] = { { .number = 0 } };
    char path[4096];
    int n_bad = 0;
    for (int i = 0; i < N_THREADS; i++) {
        snprintf(path, sizeof path, "%s.%d.%d", acks, pgas_rank(), i);
        writer[i].number = i;
        writer[i].fd = open(path, O_RDWR | O_CREAT, 0666);
        if (pread(writer[i].fd, &writer[i].acked, sizeof(uint64_t), 0) < 0)
            n_bad++;
        writer[i].last = writer[i].acked + n;
        n_bad += check(&writer[i]);
    }
    pgas_allreduce(NULL, &n_bad, &n_bad, 1, PGAS_I32, PGAS_ADD);
    if (pgas_rank() == 0)
        printf(n_bad == 0 ? "complete\n" : "incomplete\n");
    fflush(stdout);
    if (n_bad > 0 || n == 0)
        return n_bad > 0;
    for (int i = 0; i < N_THREADS; i++)
        pthread_create(&writer[i].thread, NULL, write_all, &writer[i]);
    n_bad += save_all() != PGAS_OK;
    for (int i = 0; i < N_THREADS; i++) {
        pthread_join(writer[i].thread, NULL);
        n_bad += writer[i].status != PGAS_OK;
        close(writer[i].fd);
    }
    return n_bad > 0;
}

int main(int argc, char **argv)
{
    pgas_kvs_opts_t opts = PGAS_KVS_OPTS_INIT;
    if (argc != 5 || pgas_init(NULL, NULL) != PGAS_OK)
        return 2;
    opts.dir = argv[1];
    opts.durability = strcmp(argv[2], "always") == 0 ? PGAS_KVS_SYNC_ALWAYS : PGAS_KVS_SYNC_SECOND;
    opts.n_keys = 4096;
    opts.bytes = 4u << 20;
    int result = pgas_kvs_create(NULL, &opts, &kvs) != PGAS_OK;
    if (result == 0) {
        result = run(argv[3], strtoull(argv[4], NULL, 10));
        pgas_kvs_destroy(kvs);
    }
    pgas_finalize();
    return result;
}
