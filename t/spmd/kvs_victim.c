/* One rank of this job is killed while all use a store: the program of t/spmd/kvs_deaths.t, no test
 * by itself.
 *   kvs_victim RANK HOW      HOW is waits: calls that wait; counts: runs with a counter; scans
 * The others continue if PGAS_ON_PEER_DEATH says so, and report the results of their calls. */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>
#include "pgas/kvs.h"
#include "pgas/pgas.h"

#define N_KEYS 512
#define DEADLY 300 /* rounds of a rank until it dies */
#define BATCH  64

static pgas_kvs_t *kvs;
static uint64_t state;
static uint64_t keys[BATCH], values[BATCH];
static pgas_kvs_item_t items[BATCH];

static uint64_t draw(uint64_t n)
{
    state = state * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return (state >> 33) % n;
}

static int expect(pgas_status_t status, pgas_status_t want, const char *what)
{
    if (status == want)
        return 0;
    printf("rank %d: %s gave %s\n", pgas_rank(), what, pgas_status_name(status));
    return 1;
}

static size_t draw_items(void)
{
    size_t n = 1 + draw(BATCH);
    for (size_t i = 0; i < n; i++) {
        keys[i] = draw(N_KEYS);
        items[i] = (pgas_kvs_item_t){ .key = &keys[i],
                                      .key_bytes = sizeof *keys,
                                      .value = &values[i],
                                      .value_bytes = sizeof *values,
                                      .capacity = sizeof *values,
                                      .op = draw(3) ? PGAS_KVS_GET : PGAS_KVS_PUT };
    }
    return n;
}

/* All items have a final status when the run is complete. */
static pgas_status_t worst_of(size_t n)
{
    pgas_status_t worst = PGAS_OK;
    for (size_t i = 0; i < n; i++)
        if (items[i].status != PGAS_OK && items[i].status != PGAS_ERR_NOT_FOUND)
            worst = items[i].status;
    return worst;
}

static pgas_status_t run_waiting(void)
{
    size_t n = draw_items();
    (void)pgas_kvs_run(kvs, items, n, NULL);
    return worst_of(n);
}

static pgas_status_t run_counting(void)
{
    pgas_sync_t done = PGAS_SYNC_INIT;
    size_t n = draw_items();
    (void)pgas_kvs_run(kvs, items, n, &done);
    pgas_status_t status = pgas_sync_wait(&done, -1);
    return status == PGAS_OK ? worst_of(n) : status;
}

static bool go_on(const pgas_kvs_item_t *item, void *arg)
{
    (void)item;
    (void)arg;
    return true;
}

static pgas_status_t run_scan(void)
{
    uint64_t cursor = 0;
    return pgas_kvs_scan(kvs, (int)draw((uint64_t)pgas_n_ranks()), &cursor, 10, go_on, NULL);
}

/* Until the library says that a rank has died. */
static int traffic(bool dies, pgas_status_t (*once)(void))
{
    pgas_status_t status = PGAS_OK;
    for (int n = 0; status == PGAS_OK; n++) {
        if (dies && n == DEADLY)
            raise(SIGKILL);
        status = once();
    }
    return expect(status, PGAS_ERR_PEER, "an operation");
}

/* The store can only be ended, and the library too. */
static int after(void)
{
    pgas_status_t status = pgas_kvs_destroy(kvs);
    int n_bad = status != PGAS_OK && expect(status, PGAS_ERR_PEER, "destroy");
    pgas_kvs_t *next = NULL;
    n_bad += expect(pgas_kvs_create(NULL, NULL, &next), PGAS_ERR_PEER, "create");
    return n_bad + expect(pgas_finalize(), PGAS_ERR_PEER, "finalize");
}

int main(int argc, char **argv)
{
    pgas_kvs_opts_t opts = PGAS_KVS_OPTS_INIT;
    struct timespec begun, ended;
    if (argc != 3 || pgas_init(NULL, NULL) != PGAS_OK)
        return 3;
    bool dies = pgas_rank() == atoi(argv[1]);
    state = (uint64_t)pgas_rank() + 1;
    opts.n_keys = N_KEYS;
    opts.bytes = 1 << 20;
    if (pgas_kvs_create(NULL, &opts, &kvs) != PGAS_OK)
        return 4;
    for (int n = 0; n < 20; n++)
        if (expect(run_waiting(), PGAS_OK, "a run of all") > 0)
            return 5;
    pgas_barrier(NULL);
    if (pgas_rank() == 0) {
        printf("started %lld\n", (long long)time(NULL));
        fflush(stdout);
    }
    pgas_barrier(NULL);
    clock_gettime(CLOCK_MONOTONIC, &begun);
    pgas_status_t (*once)(void) = run_scan;
    if (strcmp(argv[2], "waits") == 0)
        once = run_waiting;
    if (strcmp(argv[2], "counts") == 0)
        once = run_counting;
    int n_bad = traffic(dies, once);
    clock_gettime(CLOCK_MONOTONIC, &ended);
    n_bad += after();
    printf("%s %d after %d s\n", n_bad == 0 ? "survived" : "failed", pgas_rank(),
           (int)(ended.tv_sec - begun.tv_sec));
    fflush(stdout);
    _exit(n_bad);
}
