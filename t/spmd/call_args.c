/* Calls with archives.
 *   what:   Streams and chunks of any size and number arrive whole before the handler runs, by
 *           every way between ranks. Objects are handed over and shared. Memory of the program is
 *           free at local completion, or on return without a counter. Order is kept. Wrong calls
 *           are refused and change nothing. Replies have chunks, too. At the end no object is
 *           left.
 *   np:     2 3 1 5
 *   nodes:  0 1 2
 *   tls:    posix sysv,cma tcp,self
 *   env:    PGAS_SERVICE_THREADS=1 | PGAS_VM_READ=0 | PGAS_SERVICE_THREADS=0 PGAS_CHUNK_SIZE=4K
 *   env:    PGAS_CALL_MAX=1K | PGAS_BUFFER_LIMIT=2M
 *   env:    PGAS_FAULT=delay=5,reorder=4,again=3 PGAS_VM_READ=0 | PGAS_CALL_MAX=64
 *   source: pgas/call_archive.h
 */
#include <sched.h>
#include "base/checks.h"
#include "base/rng.h"
#include "pgas/call_archive.h"
#include "t/pattern.h"
#include "t/spmd/job.h"

#define N_MIXED    120
#define N_FLIGHT   300
#define MANY       3000
#define LARGEST    ((size_t)1 << 20)
#define FULL_TRIES 20

static pgas_handler_t check, blocking_check, keep, ordered, give, give_none, give_plain, plain,
    gate, open_gate, closed, relay, give_halves;
static uint64_t n_run, n_done;
static int n_bad_seen;
static unsigned char *memory; /* [LARGEST], with pattern 1 */

/* ---- messages of items ---- */

/* Both sides compute the same items from a seed. */
typedef enum { SCALAR, TEXT, VECTOR, POINTER, OBJECT, REFERENCE, N_KINDS } kind_t;
typedef struct {
    kind_t kind;
    uint64_t seed;
    size_t bytes;
} item_t;

typedef struct {
    uint64_t seed;
    uint32_t n;
    int32_t source;
} about_t;

static item_t item_at(pgasi_rng_t *rng)
{
    static const size_t most[] = { 16, 300, 4095, LARGEST / 8, LARGEST / 8, 40000 };
    item_t item = { .kind = (kind_t)(pgasi_rng_below(rng, N_KINDS)) };
    item.seed = pgasi_rng_u64(rng);
    item.bytes = (size_t)pgasi_rng_below(rng, most[item.kind]);
    if (item.kind >= POINTER && pgasi_rng_below(rng, 3) != 0)
        item.bytes %= 20000;
    return item;
}

/* Memory of the program in a message, which must stay. */
typedef struct {
    unsigned char *memory[16];
    int n;
} owned_t;

static void put_item(pgas_archive_t *out, const item_t *item, owned_t *owned)
{
    static _Thread_local unsigned char room[4096];
    pgas_rma_object_t *object;
    unsigned char *at;
    switch (item->kind) {
    case SCALAR:
        pattern_fill(room, item->seed, item->bytes);
        pgas_archive_put(out, room, item->bytes);
        break;
    case TEXT:
        memset(room, 'a' + (int)(item->seed % 26), item->bytes);
        room[item->bytes] = 0;
        pgas_archive_put_string(out, (char *)room);
        break;
    case VECTOR:
        pattern_fill(room, item->seed, item->bytes);
        pgas_archive_put_vector(out, room, item->bytes, 1);
        break;
    case OBJECT:
        if (pgas_rma_object_create(item->bytes, &object) != PGAS_OK)
            break;
        pattern_fill(object->data, item->seed, item->bytes);
        pgas_archive_put_object(out, object, item->bytes);
        pgas_rma_object_destroy(object);
        break;
    default:
        at = job_alloc(item->bytes);
        pattern_fill(at, item->seed, item->bytes);
        owned->memory[owned->n++] = at;
        if (item->kind == POINTER) {
            pgas_archive_put_vector(out, at, item->bytes, 1);
        } else if (pgas_rma_object_reference(at, item->bytes, NULL, NULL, &object) == PGAS_OK) {
            pgas_archive_put_object(out, object, item->bytes);
            pgas_rma_object_destroy(object);
        }
    }
}

static void free_owned(owned_t *owned)
{
    while (owned->n)
        free(owned->memory[--owned->n]);
}

static bool get_item(pgas_archive_t *in, const item_t *item)
{
    unsigned char room[16];
    const char *text = "";
    const void *data = NULL;
    pgas_rma_object_t *object = NULL;
    size_t n = 0;
    bool good;
    switch (item->kind) {
    case SCALAR:
        return pgas_archive_get(in, room, item->bytes) == PGAS_OK &&
               pattern_matches(room, item->seed, item->bytes);
    case TEXT:
        return pgas_archive_get_string(in, &text) == PGAS_OK && strlen(text) == item->bytes &&
               (!item->bytes || text[item->bytes - 1] == 'a' + (int)(item->seed % 26));
    case VECTOR:
    case POINTER:
        return pgas_archive_get_vector(in, 1, &data, &n) == PGAS_OK && n == item->bytes &&
               pattern_matches(data, item->seed, n);
    default:
        good = pgas_archive_get_object(in, &object, &n) == PGAS_OK && n == item->bytes && object &&
               object->bytes >= n && pattern_matches(object->data, item->seed, n);
        pgas_rma_object_destroy(object);
        return good;
    }
}

static void put_items(pgas_archive_t *out, uint64_t seed, uint32_t n, owned_t *owned)
{
    about_t about = { seed, n, me };
    pgasi_rng_t rng;
    pgasi_rng_seed(&rng, seed);
    pgas_archive_put(out, &about, sizeof about);
    for (uint32_t i = 0; i < n; i++) {
        item_t item = item_at(&rng);
        put_item(out, &item, owned);
    }
}

static bool get_items(pgas_archive_t *in, about_t *about_p)
{
    pgasi_rng_t rng;
    bool good = pgas_archive_get(in, about_p, sizeof *about_p) == PGAS_OK;
    pgasi_rng_seed(&rng, about_p->seed);
    for (uint32_t i = 0; good && i < about_p->n; i++) {
        item_t item = item_at(&rng);
        good = get_item(in, &item);
    }
    return good;
}

/* Plain and blocking; a blocking one may run beside others. */
static void on_check(const void *args, size_t bytes, pgas_thread_t source, void *context)
{
    pgas_archive_t in;
    about_t about = { 0, 0, 0 };
    (void)args;
    (void)bytes;
    bool good = context == (void *)&n_run && pgas_archive_from_call(&in) == PGAS_OK;
    good = good && (uintptr_t)in.begin % 16 == 0 && get_items(&in, &about) &&
           pgas_thread_rank(source) == about.source && pgas_archive_free(&in) == PGAS_OK;
    /* a second reader begins at the start again */
    good = good && pgas_archive_from_call(&in) == PGAS_OK && get_items(&in, &about) &&
           pgas_archive_free(&in) == PGAS_OK;
    __atomic_fetch_add(&n_bad_seen, !good, __ATOMIC_RELAXED);
    __atomic_fetch_add(&n_run, 1, __ATOMIC_RELEASE);
}

/* The sum over all ranks of the calls that ran since the last time, and whether all were right. */
static bool all_ran(uint64_t n_mine)
{
    pgas_status_t quiet = pgas_quiesce();
    uint64_t sums[3] = { n_mine, n_run, (uint64_t)n_bad_seen }, all[3] = { 0, 0, 1 };
    pgas_status_t status = pgas_allreduce(NULL, sums, all, 3, PGAS_U64, PGAS_ADD);
    n_run = 0;
    n_bad_seen = 0;
    pgas_barrier(NULL);
    if (all[0] != all[1] || all[2])
        spmd_diag("%llu calls, %llu ran, %llu bad", (unsigned long long)all[0],
                  (unsigned long long)all[1], (unsigned long long)all[2]);
    return quiet == PGAS_OK && status == PGAS_OK && all[0] == all[1] && !all[2];
}

static pgas_target_t target_of(int rank, unsigned choice)
{
    switch (choice % 4) {
    case 0:
        return pgas_on_service(rank);
    case 1:
        return pgas_on_thread(pgas_thread_make(rank, 0));
    default:
        return pgas_on_rank(rank);
    }
}

static void mixtures_arrive(void)
{
    uint64_t n = 0;
    int n_bad = 0;
    pgas_archive_t out = PGAS_ARCHIVE_INIT;
    for (uint32_t i = 0; i < N_MIXED; i++) {
        pgas_sync_t done = PGAS_SYNC_INIT;
        owned_t owned = { .n = 0 };
        uint64_t seed = (uint64_t)me << 32 | i;
        pgas_call_opts_t opts = PGAS_CALL_OPTS_INIT;
        put_items(&out, seed, i % 13, &owned);
        if (i % 4 != 3)
            opts.sync = &done;
        if (i % 4 == 1)
            opts.when = PGAS_LOCAL;
        if (i % 8 == 6)
            opts.way = PGAS_WAY_SEND;
        pgas_status_t status = pgas_call_args(target_of((int)(i % (uint32_t)n_ranks), i / 3),
                                              i % 5 == 4 ? blocking_check : check, &out, &opts);
        n_bad += status != PGAS_OK || out.n_chunks;
        /* REFERENCE stays the program's until all readers have gone */
        n_bad += pgas_sync_wait(&done, -1) != PGAS_OK;
        if (i % 4 == 3)
            n_bad += pgas_quiesce() != PGAS_OK;
        free_owned(&owned);
        n++;
    }
    n_bad += pgas_quiesce() != PGAS_OK;
    spmd_ok(all_ran(n) && !n_bad, "mixtures of all kinds arrive, to ranks, services and threads");
    pgas_archive_free(&out);
}

static void sizes_arrive(void)
{
    static const size_t sizes[] = { 0, 1, 4095, 4096, 4097, 16383, 16384, 16385, 70000, LARGEST };
    uint64_t n = 0;
    int n_bad = 0;
    pgas_archive_t out = PGAS_ARCHIVE_INIT;
    for (size_t i = 0; i < 2 * sizeof sizes / sizeof sizes[0]; i++) {
        pgas_sync_t done = PGAS_SYNC_INIT;
        size_t bytes = sizes[i / 2];
        out.threshold = i % 2 ? SIZE_MAX : 0;
        /* the items are a seed that gives none, and then a vector that the handler leaves */
        put_items(&out, i, 0, NULL);
        pgas_archive_put_vector(&out, memory, bytes, 1);
        n_bad += pgas_call_args(pgas_on_rank(job_right()), check, &out,
                                PGAS_CALL_OPTS(.sync = &done)) != PGAS_OK ||
                 pgas_sync_wait(&done, -1) != PGAS_OK;
        n++;
        pgas_archive_clear(&out);
    }
    n_bad += pgas_quiesce() != PGAS_OK;
    spmd_ok(all_ran(n) && !n_bad, "streams and chunks of all sizes arrive");
    pgas_archive_free(&out);
}

/* ---- many chunks, and many calls ---- */

static void on_keep(const void *args, size_t bytes, pgas_thread_t source, void *context)
{
    pgas_archive_t in;
    uint32_t n = 0;
    (void)args;
    (void)bytes;
    (void)source;
    (void)context;
    bool good =
        pgas_archive_from_call(&in) == PGAS_OK && pgas_archive_get(&in, &n, sizeof n) == PGAS_OK;
    for (uint32_t i = 0; good && i < n; i++) {
        const void *data;
        size_t size;
        good = pgas_archive_get_vector(&in, 1, &data, &size) == PGAS_OK && size == 100 + i % 50 &&
               pattern_matches(data, 1, size);
    }
    n_bad_seen += !good;
    n_run++;
    pgas_archive_free(&in);
}

static void many_chunks_arrive(void)
{
    pgas_sync_t done = PGAS_SYNC_INIT;
    pgas_archive_t out = PGAS_ARCHIVE_INIT;
    uint32_t n = MANY;
    out.threshold = 100;
    pgas_archive_put(&out, &n, sizeof n);
    for (uint32_t i = 0; i < n; i++)
        pgas_archive_put_vector(&out, memory, 100 + i % 50, 1);
    bool good = pgas_call_args(pgas_on_rank(job_right()), keep, &out,
                               PGAS_CALL_OPTS(.sync = &done)) == PGAS_OK &&
                pgas_sync_wait(&done, -1) == PGAS_OK;
    spmd_ok(all_ran(1) && good, "%d chunks arrive", MANY);
    for (uint32_t i = 0; i < 65536; i++)
        pgas_archive_put_vector(&out, memory, 100, 1);
    good = pgas_call_args(pgas_on_rank(job_right()), keep, &out, PGAS_CALL_OPTS(.sync = &done)) ==
               PGAS_ERR_LIMIT &&
           out.n_chunks == 65536 && pgas_sync_wait(&done, 0) == PGAS_OK;
    spmd_ok(good, "65536 are refused, and the archive is as before");
    pgas_archive_free(&out);
}

static uint64_t last_seen[JOB_RANKS_MAX];

static void on_ordered(const void *args, size_t bytes, pgas_thread_t source, void *context)
{
    pgas_archive_t in;
    uint64_t number = 0;
    pgas_rma_object_t *object = NULL;
    size_t size;
    (void)args;
    (void)bytes;
    (void)context;
    bool good = pgas_archive_from_call(&in) == PGAS_OK &&
                pgas_archive_get(&in, &number, sizeof number) == PGAS_OK &&
                pgas_archive_get_object(&in, &object, &size) == PGAS_OK && size == 5000 &&
                pattern_matches(object->data, number, size);
    uint64_t *last = &last_seen[pgas_thread_rank(source)];
    n_bad_seen += !good || number != *last + 1;
    *last = number;
    n_run++;
    pgas_rma_object_destroy(object);
    pgas_archive_free(&in);
}

static void order_is_kept(void)
{
    pgas_archive_t out = PGAS_ARCHIVE_INIT;
    int n_bad = 0;
    for (uint64_t i = 1; i <= N_FLIGHT; i++) {
        pgas_rma_object_t *object;
        n_bad += pgas_rma_object_create(5000, &object) != PGAS_OK;
        pattern_fill(object->data, i, 5000);
        pgas_archive_put(&out, &i, sizeof i);
        pgas_archive_put_object(&out, object, 5000);
        pgas_rma_object_destroy(object);
        n_bad += pgas_call_args(pgas_on_rank(job_right()), ordered, &out, NULL) != PGAS_OK;
    }
    n_bad += pgas_quiesce() != PGAS_OK;
    spmd_ok(all_ran(N_FLIGHT) && !n_bad, "calls without a counter run in the order issued");
    pgas_archive_free(&out);
}

/* ---- when memory is free ---- */

static int gate_open, closed_open;

static void on_gate(const void *args, size_t bytes, pgas_thread_t source, void *context)
{
    pgas_archive_t in;
    const void *data;
    size_t n = 0;
    (void)args;
    (void)bytes;
    (void)source;
    (void)context;
    bool good = pgas_archive_from_call(&in) == PGAS_OK &&
                pgas_archive_get_vector(&in, 1, &data, &n) == PGAS_OK && n == LARGEST / 2;
    /* the source changes its memory only now */
    while (!__atomic_load_n(&gate_open, __ATOMIC_ACQUIRE))
        pgas_progress();
    n_bad_seen += !good || !pattern_matches(data, 1, n);
    n_run++;
    pgas_archive_free(&in);
}

/* Occupies the thread that runs it, outside of the library. */
static void on_closed(const void *args, size_t bytes, pgas_thread_t source, void *context)
{
    (void)args;
    (void)bytes;
    (void)source;
    (void)context;
    while (!__atomic_load_n(&closed_open, __ATOMIC_ACQUIRE))
        sched_yield();
}

static void on_open(const void *args, size_t bytes, pgas_thread_t source, void *context)
{
    (void)args;
    (void)bytes;
    (void)source;
    (void)context;
    __atomic_store_n(&gate_open, 1, __ATOMIC_RELEASE);
}

static void memory_is_free_early(void)
{
    pgas_archive_t out = PGAS_ARCHIVE_INIT;
    pgas_sync_t local = PGAS_SYNC_INIT, done = PGAS_SYNC_INIT;
    unsigned char *mine = job_alloc(LARGEST / 2);
    pattern_fill(mine, 1, LARGEST / 2);
    pgas_archive_put_vector(&out, mine, LARGEST / 2, 1);
    bool good = pgas_call_args(pgas_on_rank(job_right()), gate, &out,
                               PGAS_CALL_OPTS(.sync = &done, .local = &local)) == PGAS_OK &&
                pgas_sync_wait(&local, -1) == PGAS_OK;
    /* the handler has not ended, as it waits for this */
    memset(mine, 0, LARGEST / 2);
    good = good && pgas_call(job_right(), open_gate, NULL, 0, NULL) == PGAS_OK &&
           pgas_sync_wait(&done, -1) == PGAS_OK;
    spmd_ok(all_ran(1) && good, "local completion comes before the handler has run");
    __atomic_store_n(&gate_open, 1, __ATOMIC_RELEASE);
    pgas_barrier(NULL);
    pattern_fill(mine, 1, LARGEST / 2);
    pgas_archive_put_vector(&out, mine, LARGEST / 2, 1);
    good = pgas_call_args(pgas_on_rank(job_right()), gate, &out, NULL) == PGAS_OK;
    memset(mine, 0, LARGEST / 2);
    good = good && pgas_quiesce() == PGAS_OK;
    spmd_ok(all_ran(1) && good, "without a counter memory is free on return");
    free(mine);
    pgas_archive_free(&out);
}

/* ---- no room ---- */

/* Rank 0 stays outside of the library, so its receive queue or table of calls in flight fills. */
static void again_changes_nothing(void)
{
    pgas_archive_t out = PGAS_ARCHIVE_INIT;
    pgas_status_t status = PGAS_OK;
    pgas_call_opts_t opts = PGAS_CALL_OPTS_INIT;
    uint64_t n = 0;
    bool good = true;
    opts.full = PGAS_FULL_AGAIN;
    pgas_barrier(NULL);
    spmd_progress(NULL);
    spmd_barrier(); /* rank 0 has left the library */
    if (me == 1)
        good = pgas_call(0, closed, NULL, 0, NULL) == PGAS_OK;
    for (int n_full = 0; me == 1 && n_full < FULL_TRIES && n < 4000;) {
        if (status == PGAS_OK) {
            put_items(&out, 0, 0, NULL);
            pgas_archive_put_vector(&out, memory, 5000, 1);
        }
        status = pgas_call_args(pgas_on_rank(0), check, &out, &opts);
        n += status == PGAS_OK;
        n_full += status == PGAS_ERR_AGAIN;
        good = good && (status == PGAS_OK || status == PGAS_ERR_AGAIN);
    }
    if (me == 1)
        good = good && status == PGAS_ERR_AGAIN && out.n_chunks == 1 &&
               out.chunk[0].data == memory && !out.chunk[0].object;
    spmd_ok(good, "AGAIN after some calls, and the archive is as before");
    if (me == 0)
        __atomic_store_n(&closed_open, 1, __ATOMIC_RELEASE);
    spmd_progress(job_progress);
    if (me == 1) {
        good = pgas_call_args(pgas_on_rank(0), check, &out, NULL) == PGAS_OK;
        n++;
    }
    spmd_ok(all_ran(n) && good, "it is sent when there is room; all run");
    pgas_archive_free(&out);
}

/* ---- replies ---- */

static void count_done(void *arg)
{
    __atomic_fetch_add((uint64_t *)arg, 1, __ATOMIC_RELEASE);
}

static void on_give(const void *args, size_t bytes, pgas_thread_t source, void *context)
{
    pgas_archive_t in, out = PGAS_ARCHIVE_INIT;
    about_t about = { 0, 0, 0 };
    owned_t owned = { .n = 0 };
    (void)args;
    (void)bytes;
    (void)source;
    (void)context;
    bool good = pgas_archive_from_call(&in) == PGAS_OK && get_items(&in, &about);
    pgas_archive_free(&in);
    put_items(&out, about.seed + 1, about.n, &owned);
    pgas_archive_put_vector(&out, memory, about.seed % 2 ? LARGEST / 4 : 10, 1);
    good = good && pgas_reply_args(&out, owned.n ? NULL : count_done, &n_done) == PGAS_OK &&
           !out.n_chunks;
    good = good && pgas_reply_args(&out, NULL, NULL) == PGAS_ERR_CONTEXT;
    n_bad_seen += !good;
    n_run++;
    n_done += owned.n != 0;
    free_owned(&owned);
    pgas_archive_free(&out);
}

/* Items without REFERENCE, as the reply has no counter for them. */
static bool is_usable(uint64_t seed, uint32_t n)
{
    pgasi_rng_t rng;
    pgasi_rng_seed(&rng, seed);
    for (uint32_t i = 0; i < n; i++)
        if (item_at(&rng).kind == REFERENCE)
            return false;
    return true;
}

static bool ask(int rank, uint64_t seed, uint32_t n)
{
    pgas_archive_t out = PGAS_ARCHIVE_INIT, in;
    about_t about = { 0, 0, 0 };
    owned_t owned = { .n = 0 };
    const void *data;
    size_t size;
    put_items(&out, seed, n, &owned);
    bool good = pgas_call_args_return(pgas_on_rank(rank), give, &out, &in) == PGAS_OK &&
                get_items(&in, &about) && about.seed == seed + 1 && about.source == rank &&
                pgas_archive_get_vector(&in, 1, &data, &size) == PGAS_OK &&
                size == (seed % 2 ? LARGEST / 4 : 10) && pattern_matches(data, 1, size);
    pgas_archive_free(&in);
    pgas_archive_free(&out);
    free_owned(&owned);
    return good;
}

static void replies_come_back(void)
{
    uint64_t n = 0;
    int n_bad = 0;
    for (uint64_t seed = 0; seed < 200; seed++) {
        uint32_t items = (uint32_t)(seed % 6);
        if (!is_usable(seed, items) || !is_usable(seed + 1, items))
            continue;
        n_bad += !ask((int)(seed % (uint64_t)n_ranks), seed, items);
        n++;
    }
    n_bad += pgas_quiesce() != PGAS_OK;
    uint64_t done[2] = { n, n_done }, all[2] = { 0, 1 };
    pgas_allreduce(NULL, done, all, 2, PGAS_U64, PGAS_ADD);
    spmd_ok(all_ran(n) && !n_bad && n > 20, "replies with chunks and without come back");
    spmd_ok(all[0] == all[1], "and the memory of each is free once");
}

#define HALF ((size_t)640 << 10)

static void put_halves(pgas_archive_t *out)
{
    pgas_archive_put_vector(out, memory, HALF, 1);
    pgas_archive_put_vector(out, memory, HALF, 1);
}

static bool get_halves(pgas_archive_t *in)
{
    const void *data[2];
    size_t size[2];
    return pgas_archive_get_vector(in, 1, &data[0], &size[0]) == PGAS_OK && size[0] == HALF &&
           pgas_archive_get_vector(in, 1, &data[1], &size[1]) == PGAS_OK && size[1] == HALF &&
           pattern_matches(data[0], 1, HALF) && pattern_matches(data[1], 1, HALF);
}

static void on_give_halves(const void *args, size_t bytes, pgas_thread_t source, void *context)
{
    pgas_archive_t out = PGAS_ARCHIVE_INIT;
    (void)args;
    (void)bytes;
    (void)source;
    (void)context;
    put_halves(&out);
    n_bad_seen += pgas_reply_args(&out, NULL, NULL) != PGAS_OK;
    pgas_archive_free(&out);
}

/* Holds the bytes of its call while it waits for a reply of as many. */
static void on_relay(const void *args, size_t bytes, pgas_thread_t source, void *context)
{
    pgas_archive_t out = PGAS_ARCHIVE_INIT, in, reply;
    (void)args;
    (void)bytes;
    (void)source;
    (void)context;
    bool good =
        pgas_archive_from_call(&in) == PGAS_OK && get_halves(&in) &&
        pgas_call_args_return(pgas_on_rank(job_right()), give_halves, &out, &reply) == PGAS_OK &&
        get_halves(&reply);
    pgas_archive_free(&reply);
    pgas_archive_free(&in);
    __atomic_fetch_add(&n_bad_seen, !good, __ATOMIC_RELAXED);
    __atomic_fetch_add(&n_run, 1, __ATOMIC_RELEASE);
}

static void replies_have_room(void)
{
    pgas_sync_t done = PGAS_SYNC_INIT;
    pgas_archive_t out = PGAS_ARCHIVE_INIT;
    put_halves(&out);
    bool good = pgas_call_args(pgas_on_rank(job_right()), relay, &out,
                               PGAS_CALL_OPTS(.sync = &done)) == PGAS_OK &&
                pgas_sync_wait(&done, -1) == PGAS_OK;
    spmd_ok(all_ran(1) && good, "a reply arrives while its caller holds PGAS_BUFFER_LIMIT");
    pgas_archive_free(&out);
}

/* context: not NULL for the handler that replies by pgas_reply. */
static void on_give_none(const void *args, size_t bytes, pgas_thread_t source, void *context)
{
    (void)args;
    (void)bytes;
    (void)source;
    if (context)
        pgas_reply("12345", 5);
    n_run++;
}

static void on_plain(const void *args, size_t bytes, pgas_thread_t source, void *context)
{
    pgas_archive_t out = PGAS_ARCHIVE_INIT, in;
    (void)args;
    (void)bytes;
    (void)source;
    (void)context;
    n_bad_seen += pgas_archive_from_call(&in) != PGAS_ERR_INVALID ||
                  pgas_reply_args(&out, NULL, NULL) != PGAS_ERR_INVALID;
    n_run++;
}

static void answers_of_other_kinds(void)
{
    pgas_archive_t out = PGAS_ARCHIVE_INIT, in;
    pgas_sync_t done = PGAS_SYNC_INIT;
    pgas_archive_put(&out, &me, sizeof me);
    bool good = pgas_call_args_return(pgas_on_rank(0), give_none, &out, &in) == PGAS_ERR_MISMATCH &&
                pgas_archive_free(&in) == PGAS_OK;
    good = good &&
           pgas_call_args_return(pgas_on_rank(0), give_plain, &out, &in) == PGAS_ERR_MISMATCH &&
           pgas_archive_free(&in) == PGAS_OK;
    spmd_ok(all_ran(2) && good, "a handler that gives no archive: the caller gets MISMATCH");
    good = pgas_call(job_right(), plain, NULL, 0, &done) == PGAS_OK &&
           pgas_sync_wait(&done, -1) == PGAS_OK;
    spmd_ok(all_ran(1) && good, "calls without an archive have none to read, and none is wanted");
    pgas_archive_free(&out);
}

/* ---- refusals ---- */

static void wrong_calls(void)
{
    pgas_archive_t out = PGAS_ARCHIVE_INIT, in = PGAS_ARCHIVE_INIT, bad = PGAS_ARCHIVE_INIT;
    pgas_sync_t done = PGAS_SYNC_INIT;
    pgas_buffer_t buffer = { .mode = PGAS_BUFFER_COPY };
    pgas_target_t right = pgas_on_rank(job_right());
    int n_bad = 0;
    char result;
    pgas_archive_put_vector(&out, memory, 10000, 1);
    n_bad += pgas_call_args(right, check, NULL, NULL) != PGAS_ERR_INVALID;
    n_bad += pgas_call_args(pgas_on_rank(n_ranks), check, &out, NULL) != PGAS_ERR_RANGE;
    n_bad += pgas_call_args(right, 60000, &out, NULL) != PGAS_ERR_NOT_FOUND;
    n_bad += pgas_call_args(pgas_on_team(NULL), check, &out, NULL) != PGAS_ERR_UNSUPPORTED;
    n_bad +=
        pgas_call_args(right, check, &out, PGAS_CALL_OPTS(.buffers = &buffer, .n_buffers = 1)) !=
        PGAS_ERR_UNSUPPORTED;
    n_bad +=
        pgas_call_args(right, check, &out, PGAS_CALL_OPTS(.spawn = true)) != PGAS_ERR_UNSUPPORTED;
    n_bad += pgas_call_args(right, check, &out,
                            PGAS_CALL_OPTS(.sync = &done, .result = &result, .result_bytes = 1)) !=
             PGAS_ERR_UNSUPPORTED;
    n_bad += pgas_call_args_return(right, check, &out, NULL) != PGAS_ERR_INVALID;
    n_bad += pgas_call_args_return_nb(right, check, &out, NULL, &in, NULL) != PGAS_ERR_INVALID;
    memset(&in, 0xee, sizeof in);
    n_bad += pgas_call_args_return(right, 60000, &out, &in) != PGAS_ERR_NOT_FOUND ||
             pgas_archive_free(&in) != PGAS_OK;
    n_bad += pgas_archive_from_call(&in) != PGAS_ERR_CONTEXT;
    n_bad += pgas_reply_args(&out, NULL, NULL) != PGAS_ERR_CONTEXT;
    pgas_archive_fail(&bad, PGAS_ERR_RANGE);
    n_bad += pgas_call_args(right, check, &bad, NULL) != PGAS_ERR_RANGE;
    n_bad += out.n_chunks != 1 || out.chunk[0].data != memory || out.chunk[0].object;
    spmd_ok(!n_bad, "wrong calls are refused, and the archive is as before");
    pgas_archive_free(&out);
    pgas_archive_free(&bad);
}

static void all_objects_have_ended(void)
{
    pgas_rma_info_t info = { .size = sizeof info };
    pgas_barrier(NULL);
    bool good = pgas_quiesce() == PGAS_OK && pgas_rma_info(&info) == PGAS_OK;
    spmd_ok(good && !info.n_objects && !info.object_bytes, "all objects have ended (%llu left)",
            (unsigned long long)info.n_objects);
    spmd_ok(info.n_calls_sent > N_MIXED && info.n_calls_received > 0 && info.bytes_sent > LARGEST &&
                info.n_registered_sent > N_FLIGHT && !info.n_registrations,
            "the counters of pgas_rma_info count calls; nothing was registered on the way");
}

int main(int argc, char **argv)
{
    pgas_handler_opts_t blocks = PGAS_HANDLER_OPTS_INIT;
    blocks.blocks = true;
    pgas_handler_register("t.check", on_check, &n_run, NULL, &check);
    pgas_handler_register("t.blocking_check", on_check, &n_run, &blocks, &blocking_check);
    pgas_handler_register("t.keep", on_keep, NULL, NULL, &keep);
    pgas_handler_register("t.ordered", on_ordered, NULL, NULL, &ordered);
    pgas_handler_register("t.gate", on_gate, NULL, &blocks, &gate);
    pgas_handler_register("t.open", on_open, NULL, NULL, &open_gate);
    pgas_handler_register("t.plain", on_plain, NULL, NULL, &plain);
    pgas_handler_register("t.give_plain", on_give_none, &n_run, NULL, &give_plain);
    pgas_handler_register("t.closed", on_closed, NULL, NULL, &closed);
    pgas_handler_register("t.give", on_give, NULL, NULL, &give);
    pgas_handler_register("t.relay", on_relay, NULL, &blocks, &relay);
    pgas_handler_register("t.give_halves", on_give_halves, NULL, NULL, &give_halves);
    pgas_handler_register("t.give_none", on_give_none, NULL, NULL, &give_none);
    job_begin(&argc, &argv, 17);
    memory = job_alloc(LARGEST);
    pattern_fill(memory, 1, LARGEST);
    mixtures_arrive();
    sizes_arrive();
    many_chunks_arrive();
    order_is_kept();
    memory_is_free_early();
    again_changes_nothing();
    replies_come_back();
    replies_have_room();
    answers_of_other_kinds();
    wrong_calls();
    all_objects_have_ended();
    free(memory);
    return job_end();
}
