/* what: A client that joins gets a documented status for each mistake. Batches with a wrong
 *       operation are refused as a whole. With a full window a client waits, or gets AGAIN and
 *       nothing is sent. Functions of counters may submit. When a replica ends, operations under
 *       way end with PGAS_ERR_PEER that names it, and new ones are refused. Descriptions, dumps
 *       and reads are right.
 * log: is dead or cannot be reached|with a wrong key
 * needs: tsan-ok
 * source: the promises of pgas/group.h */
#include <pthread.h>
#include "group/client.h"
#include "t/unit/group_model.h"

#define REGION 65536u

static pgas_status_t try_join(const char *address, const pgas_group_opts_t *opts)
{
    pgas_group_t *group = NULL;
    pgas_status_t status = pgas_group_join(address, opts, &group);
    if (status == PGAS_OK)
        pgas_group_destroy(group);
    return status;
}

static void test_join(const replicas_t *r)
{
    pgas_group_opts_t opts = PGAS_GROUP_OPTS_INIT;
    is_int(try_join(r->address, NULL), PGAS_OK, "default options");
    is_int(try_join(NULL, NULL), PGAS_ERR_INVALID, "no address");
    is_int(pgas_group_join(r->address, NULL, NULL), PGAS_ERR_INVALID, "no result");
    opts.window = PGAS_GROUP_WINDOW_MAX + 1;
    is_int(try_join(r->address, &opts), PGAS_ERR_LIMIT, "too large a window");
    opts.window = 0;
    opts.piece = (256u << 10) + 1;
    is_int(try_join(r->address, &opts), PGAS_ERR_INVALID, "too large a piece");
    opts.piece = 0;
    opts.way = (pgas_group_way_t)7;
    is_int(try_join(r->address, &opts), PGAS_ERR_INVALID, "no such way");
    opts.way = PGAS_GROUP_AUTO;
    opts.size = 8;
    is_int(try_join(r->address, &opts), PGAS_ERR_INVALID, "options of a wrong size");
    opts.size = sizeof opts;
    is_int(try_join("nowhere", &opts), PGAS_ERR_INVALID, "no address in numbers");
    opts.timeout_us = 30000;
    is_int(try_join("127.0.0.1:1", &opts), PGAS_ERR_TIMEOUT, "nobody listens");
    opts.timeout_us = 0;
    is_int(pgas_group_destroy(NULL), PGAS_OK, "destroying nothing");
}

static void test_key(void)
{
    pgas_replica_opts_t opts = PGAS_REPLICA_OPTS_INIT;
    pgas_replica_info_t info = { .size = sizeof info };
    pgas_group_opts_t join = PGAS_GROUP_OPTS_INIT;
    pgas_replica_t *replica = NULL;
    opts.listen = "127.0.0.1:0";
    opts.key = "secret";
    opts.region_bytes = REGION;
    must(pgas_replica_create(&opts, &replica), "a replica with a key");
    must(pgas_replica_info(replica, &info), "its address");
    is_int(try_join(info.address, &join), PGAS_ERR_CONTEXT, "no key");
    join.key = "wrong";
    is_int(try_join(info.address, &join), PGAS_ERR_CONTEXT, "a wrong key");
    join.key = "secret";
    is_int(try_join(info.address, &join), PGAS_OK, "the right key");
    must(pgas_replica_destroy(replica), "end it");
}

static void test_refusals(pgas_group_t *group, const replicas_t *r)
{
    uint64_t one = 1;
    pgas_sync_t sync = PGAS_SYNC_INIT;
    const pgas_group_op_t good = PGAS_GWRITE(0, &one, 8), far = PGAS_GWRITE(REGION - 4, &one, 8),
                          odd = PGAS_GCAS(4, 0, 1, ~UINT64_C(0), NULL);
    const pgas_group_op_t batch_1[] = { good, far }, batch_2[] = { good, odd };
    is_int(pgas_group_submit(group, batch_1, 2, &sync), PGAS_ERR_RANGE, "beyond the region");
    is_int(pgas_group_submit(group, batch_2, 2, &sync), PGAS_ERR_INVALID, "an odd cas");
    is_int(pgas_group_submit(group, NULL, 1, &sync), PGAS_ERR_INVALID, "no operations");
    is_int(pgas_group_submit(NULL, &good, 1, &sync), PGAS_ERR_INVALID, "no group");
    is_int(pgas_group_submit(group, NULL, 0, &sync), PGAS_OK, "none of no operations");
    is_int(pgas_group_write(group, REGION, &one, 1), PGAS_ERR_RANGE, "a write beyond it");
    is_int(pgas_group_memcpy(group, 0, 4, 8), PGAS_ERR_INVALID, "a memcpy onto itself");
    is_int(pgas_group_write(group, 7, &one, 0), PGAS_OK, "no bytes");
    is_int(pgas_group_flush(group, 0, 8), PGAS_OK, "a flush");
    uint64_t word;
    memcpy(&word, r->regions[0], 8);
    ok(sync.count == 0 && sync.error == 0 && word == 0, "refused batches have written nothing");
}

static void test_single(pgas_group_t *group, const replicas_t *r)
{
    uint64_t old[REPLICAS_MAX] = { 0 }, word = 5;
    is_int(pgas_group_write(group, 1024, &word, 8), PGAS_OK, "a write");
    is_int(pgas_group_cas(group, 1024, 5, 6, 1, old), PGAS_OK, "a cas by the first replica");
    ok(old[0] == 5 && old[1] == 5 && old[2] == 5, "all old words come back");
    is_int(pgas_group_cas(group, 1024, 5, 7, ~UINT64_C(0), old), PGAS_OK, "a cas by all");
    ok(old[0] == 6 && old[1] == 5 && old[2] == 5, "it found what each one had");
    is_int(pgas_group_memcpy(group, 2048, 1024, 8), PGAS_OK, "a memcpy");
    for (int i = 0; i < r->n; i++) {
        memcpy(&word, r->regions[i] + 2048, 8);
        is_int(word, i == 0 ? 6 : 7, "the word of replica %d", i);
    }
}

static void test_full(const replicas_t *r)
{
    enum { WINDOW = 16 };
    pgas_group_opts_t opts = PGAS_GROUP_OPTS_INIT;
    pgas_group_t *group = NULL;
    pgas_sync_t sync = PGAS_SYNC_INIT;
    pgas_group_op_t ops[WINDOW + 1];
    unsigned char data[WINDOW + 1];
    opts.window = WINDOW;
    opts.full = PGAS_GROUP_FULL_AGAIN;
    must(pgas_group_join(r->address, &opts, &group), "join");
    for (int i = 0; i <= WINDOW; i++) {
        data[i] = (unsigned char)(i + 1);
        ops[i] = (pgas_group_op_t)PGAS_GWRITE(4096 + (uint64_t)i, &data[i], 1);
    }
    is_int(pgas_group_submit(group, ops, WINDOW + 1, &sync), PGAS_ERR_LIMIT,
           "more at once than the window");
    must(pgas_group_submit(group, ops, WINDOW, &sync), "a full window");
    pgas_status_t status = pgas_group_submit(group, &ops[WINDOW], 1, &sync);
    ok(status == PGAS_ERR_AGAIN || status == PGAS_OK, "the next one gets AGAIN, or there is room");
    while (status == PGAS_ERR_AGAIN)
        status = pgas_group_submit(group, &ops[WINDOW], 1, &sync);
    is_int(status, PGAS_OK, "later it is accepted");
    is_int(pgas_sync_wait(&sync, -1), PGAS_OK, "all complete");
    ok(memcmp(r->regions[r->n - 1] + 4096, data, sizeof data) == 0, "each was executed once");
    must(pgas_group_destroy(group), "leave");
}

/* ---- functions of counters ---- */

typedef struct {
    pgas_group_t *group;
    pgas_sync_t sync;
    uint64_t n;
    int n_refused;
} relay_t;

/* Submits the next operation when one is complete. */
static void go_on(pgas_sync_t *sync, void *arg)
{
    relay_t *relay = arg;
    uint64_t n = ++relay->n;
    const pgas_group_op_t op = PGAS_GWRITE(8192, &n, 8);
    if (n < 50)
        relay->n_refused += pgas_group_submit(relay->group, &op, 1, sync) != PGAS_OK;
}

static bool is_over(void *arg)
{
    return __atomic_load_n(&((relay_t *)arg)->n, __ATOMIC_ACQUIRE) >= 50;
}

static void test_functions(pgas_group_t *group, const replicas_t *r)
{
    relay_t relay = { .group = group, .sync = PGAS_SYNC_INIT_FN(go_on, &relay) };
    uint64_t word = 0;
    const pgas_group_op_t op = PGAS_GWRITE(8192, &word, 8);
    must(pgas_group_submit(group, &op, 1, &relay.sync), "the first one");
    is_int(pgasi_pollers_wait(is_over, &relay, 20000000), PGAS_OK, "functions submit the next one");
    memcpy(&word, r->regions[2] + 8192, 8);
    ok(relay.n_refused == 0 && word == 49, "the last one is there");
}

/* ---- threads ---- */

enum { N_THREADS = 3, N_PER_THREAD = 300 };

typedef struct {
    pgas_group_t *group;
    int number;
    pthread_t thread;
    int n_bad;
} worker_t;

static void *work(void *arg)
{
    worker_t *w = arg;
    for (uint64_t k = 1; k <= N_PER_THREAD; k++)
        w->n_bad += pgas_group_write(w->group, 9000 + (uint64_t)w->number * 8, &k, 8) != PGAS_OK;
    return NULL;
}

static void test_threads(pgas_group_t *group, const replicas_t *r)
{
    worker_t workers[N_THREADS];
    int n_bad = 0;
    for (int i = 0; i < N_THREADS; i++) {
        workers[i] = (worker_t){ .group = group, .number = i };
        if (pthread_create(&workers[i].thread, NULL, work, &workers[i]) != 0)
            bail("a thread");
    }
    for (int i = 0; i < N_THREADS; i++) {
        uint64_t word;
        pthread_join(workers[i].thread, NULL);
        memcpy(&word, r->regions[1] + 9000 + i * 8, 8);
        n_bad += workers[i].n_bad + (word != N_PER_THREAD);
    }
    is_int(n_bad, 0, "several threads write through one group");
}

/* ---- descriptions ---- */

static void test_info(pgas_group_t *group, const replicas_t *r)
{
    pgas_group_info_t info = { .size = sizeof info };
    is_int(pgas_group_info(group, &info), PGAS_OK, "a description");
    ok(info.way == PGAS_GROUP_CHAIN && info.n_replicas == 3 && info.dead == -1 && info.epoch == 1,
       "of a chain of three");
    ok(info.region_bytes == REGION && info.window == 64 && info.piece == 64u << 10, "its sizes");
    ok(info.under_way == 0 && info.credits > 0 && info.n_ops > 0 && info.bytes > 0, "its counts");
    ok(info.p50_ns > 0 && info.p50_ns <= info.p99_ns && info.p99_ns <= info.p999_ns &&
           info.p999_ns <= info.max_ns,
       "percentiles grow");
    ok(strncmp(info.members, r->address, strlen(r->address)) == 0, "its first member");
    is_int(pgas_group_info(group, NULL), PGAS_ERR_INVALID, "no place for it");
    is_int(pgas_group_info(NULL, &info), PGAS_ERR_INVALID, "no group");
}

static void test_dump(pgas_group_t *group, const replicas_t *r)
{
    char *text = NULL;
    size_t bytes = 0;
    must(pgas_group_write(group, 512, "sixteen letters and more", 24), "a text");
    r->regions[1][544] = 'X';
    FILE *file = open_memstream(&text, &bytes);
    is_int(pgas_group_dump(group, file, 512, 40), PGAS_OK, "a dump");
    fclose(file);
    is_str(text,
           "0000000200  all        73 69 78 74 65 65 6e 20  6c 65 74 74 65 72 73 20  |sixteen "
           "letters |\n"
           "0000000210  all        61 6e 64 20 6d 6f 72 65  00 00 00 00 00 00 00 00  |and "
           "more........|\n"
           "0000000220  0,2        00 00 00 00 00 00 00 00                           |........|\n"
           "0000000220  1          58 00 00 00 00 00 00 00                           |X.......|\n",
           "equal lines are printed once");
    free(text);
    is_int(pgas_group_dump(group, stdout, REGION - 4, 8), PGAS_ERR_RANGE, "beyond the region");
    is_int(pgas_group_dump(group, NULL, 0, 8), PGAS_ERR_INVALID, "no file");
}

static void test_read(pgas_group_t *group, const replicas_t *r)
{
    static unsigned char bytes[REGION];
    int n_bad = 0;
    must(pgas_group_write(group, 700, "what all have", 13), "a text");
    r->regions[2][700] = 'W';
    for (int i = 0; i < r->n; i++)
        n_bad += pgas_group_read(group, i, 0, bytes, REGION) != PGAS_OK ||
                 memcmp(bytes, r->regions[i], REGION) != 0;
    is_int(n_bad, 0, "the whole region of each replica can be read");
    is_int(pgas_group_read(group, 2, 701, bytes, 5), PGAS_OK, "a part of it");
    ok(memcmp(bytes, "hat a", 5) == 0, "with the right bytes");
    is_int(pgas_group_read(group, 0, REGION, bytes, 0), PGAS_OK, "no bytes");
    is_int(pgas_group_read(group, 0, REGION - 4, bytes, 5), PGAS_ERR_RANGE, "beyond the region");
    is_int(pgas_group_read(group, r->n, 0, bytes, 5), PGAS_ERR_INVALID, "no such replica");
    is_int(pgas_group_read(group, 0, 0, NULL, 5), PGAS_ERR_INVALID, "no place for the bytes");
}

/* ---- sleeping ---- */

static void test_events(const replicas_t *r)
{
    pgas_group_opts_t opts = PGAS_GROUP_OPTS_INIT;
    pgas_group_t *group = NULL;
    int n_bad = 0;
    opts.events = true;
    must(pgas_group_join(r->address, &opts, &group), "join");
    for (uint64_t k = 0; k < 200; k++)
        n_bad += pgas_group_write(group, 16384, &k, 8) != PGAS_OK;
    is_int(n_bad, 0, "200 writes by a client that sleeps");
    must(pgas_group_destroy(group), "leave");
}

/* ---- deaths ---- */

static void test_death(replicas_t *r)
{
    pgas_group_t *group = join_group(r->address, 64, 0, PGAS_GROUP_AUTO);
    pgas_group_info_t info = { .size = sizeof info };
    pgas_sync_info_t why = { .size = sizeof why };
    pgas_sync_t sync = PGAS_SYNC_INIT;
    uint64_t word = 1;
    const pgas_group_op_t op = PGAS_GWRITE(128, &word, 8);
    must(pgas_group_write(group, 128, &word, 8), "while all live");
    must(pgas_replica_destroy(r->replicas[1]), "the second one ends");
    pgas_status_t status = pgas_group_submit(group, &op, 1, &sync);
    if (status == PGAS_OK)
        status = pgas_sync_wait(&sync, 20000000);
    is_int(status, PGAS_ERR_PEER, "an operation after the death of a replica");
    must(pgas_sync_info(&sync, &why), "the counter");
    ok(why.status == PGAS_OK || (why.rank == 1 && why.operation == PGAS_OPERATION_GROUP),
       "the counter names the replica");
    must(pgas_group_info(group, &info), "a description");
    is_int(info.dead, 1, "the description names it");
    is_int(pgas_group_submit(group, &op, 1, &sync), PGAS_ERR_PEER, "a new operation");
    is_int(pgas_group_write(group, 0, &word, 8), PGAS_ERR_PEER, "a single one");
    is_int(sync.count, 0, "no operation is left");
    is_int(pgas_group_destroy(group), PGAS_OK, "leaving is possible");
    r->replicas[1] = NULL;
}

int main(void)
{
    pgas_verbs_dev_opts_t dev = PGAS_VERBS_DEV_OPTS_INIT;
    replicas_t replicas;
    plan(10 + 3 + 10 + 9 + 5 + 2 + 1 + 8 + 4 + 7 + 1 + 7);
    dev.device = "snic";
    pgasi_group_dev_opts = &dev;
    start_replicas(&replicas, 3, REGION);
    test_join(&replicas);
    test_key();
    pgas_group_t *group = join_group(replicas.address, 0, 0, PGAS_GROUP_AUTO);
    test_refusals(group, &replicas);
    test_single(group, &replicas);
    test_full(&replicas);
    test_functions(group, &replicas);
    test_threads(group, &replicas);
    test_info(group, &replicas);
    test_dump(group, &replicas);
    test_read(group, &replicas);
    must(pgas_group_destroy(group), "leave");
    test_events(&replicas);
    test_death(&replicas);
    stop_replicas(&replicas);
    return done();
}
