/* Refusals.
 *   what:   Bad input and wrong use end with the documented status, the same on all ranks if all
 *           take part, and with a line that names the error. The library stays usable.
 *   np:     1 2 3 4 5 7
 *   nodes:  0 1 2 3
 *   tls:    posix sysv,cma tcp,self
 *   env:    PGAS_HEAP_SIZE=1M | PGAS_HEAP_SIZE=1M PGAS_SERVICE_THREADS=0
 *   source: include/pgas, docs/install.md */
#include "base/param.h"
#include "boot/boot.h"
#include "call/handler.h"
#include "msg/send_queue.h"
#include "mem/ctx.h"
#include "mem/thread.h"
#include "pgas/graph.h"
#include "t/handlers.h"
#include "t/spmd/job.h"
#include "t/spmd/said.h"

#define AREA 4096

static uint64_t ran;
static pgas_handler_t count;
static pgas_gptr_t areas[JOB_RANKS_MAX], users[JOB_RANKS_MAX];
static unsigned char *own;
static _Alignas(64) unsigned char user_memory[AREA];

/* ---- before init and after finalize: every public function ---- */

#define REFUSES(call) n_bad += bad((call) == PGAS_ERR_NOT_INIT, #call)

static int bad(bool good, const char *what)
{
    if (!good && spmd_rank() == 0)
        printf("# not as promised: %s\n", what);
    return !good;
}

static int memory_refuses(void)
{
    pgas_gptr_t ptr = pgas_gptr_make(0, UINT64_C(1) << 30), out = PGAS_NULL;
    pgas_heap_info_t info = { .size = sizeof info };
    int n_bad = 0;
    REFUSES(pgas_alloc(8, &out));
    REFUSES(pgas_free(ptr));
    REFUSES(pgas_alloc_on(0, PGAS_ZONE_NONE, 8, &out));
    REFUSES(pgas_free_on(ptr));
    REFUSES(pgas_mem_attach(user_memory, 8, &out));
    REFUSES(pgas_mem_detach(ptr));
    REFUSES(pgas_heap_info(&info));
    n_bad +=
        bad(out == PGAS_NULL && pgas_gptr_of(user_memory) == PGAS_NULL && !pgas_gptr_local(ptr, 1),
            "pointers");
    return n_bad;
}

static int transfers_refuse(void)
{
    pgas_gptr_t ptr = pgas_gptr_make(0, UINT64_C(1) << 30);
    uint64_t x64 = 0;
    uint32_t x32 = 0;
    uint16_t x16 = 0;
    uint8_t x8 = 0;
    pgas_sync_t done = PGAS_SYNC_INIT;
    int n_bad = 0;
    REFUSES(pgas_put(ptr, &x64, 8));
    REFUSES(pgas_get(&x64, ptr, 8));
    REFUSES(pgas_copy(ptr, ptr, 8));
    REFUSES(pgas_put_nb(ptr, &x64, 8, PGAS_REMOTE, &done));
    REFUSES(pgas_get_nb(&x64, ptr, 8, NULL));
    REFUSES(pgas_flush(0));
    REFUSES(pgas_flush_all());
    REFUSES(pgas_fence());
    REFUSES(pgas_put_strided(ptr, 8, &x64, 8, 8, 1));
    REFUSES(pgas_get_strided(&x64, 8, ptr, 8, 8, 1));
    REFUSES(pgas_put_many(&ptr, &x64, 8, 1, &done));
    REFUSES(pgas_get_many(&x64, &ptr, 8, 1, &done));
    REFUSES(pgas_put_signal(ptr, &x64, 8, ptr, 1, PGAS_SWAP));
    REFUSES(pgas_signal_wait(&x64, PGAS_EQ, 1, 0, NULL));
    REFUSES(pgas_put_u8(ptr, 1));
    REFUSES(pgas_get_u8(ptr, &x8));
    REFUSES(pgas_put_u16(ptr, 1));
    REFUSES(pgas_get_u16(ptr, &x16));
    REFUSES(pgas_put_u32(ptr, 1));
    REFUSES(pgas_get_u32(ptr, &x32));
    REFUSES(pgas_put_u64(ptr, 1));
    REFUSES(pgas_get_u64(ptr, &x64));
    REFUSES(pgas_fetch_op_nb(ptr, PGAS_OP(PGAS_ADD, PGAS_U32), &x32, &x32, &done));
    REFUSES(pgas_compare_swap_nb(ptr, PGAS_U64, &x64, &x64, &x64, NULL));
    REFUSES(pgas_update_f64(ptr, PGAS_MAX, 1));
    REFUSES(pgas_fetch_op_u64(ptr, PGAS_ADD, 1, &x64));
    REFUSES(pgas_update_u32(ptr, PGAS_ADD, 1));
    REFUSES(pgas_compare_swap_u64(ptr, 1, 2, &x64));
    n_bad += done.count != 0;
    return n_bad;
}

static int calls_refuse(void)
{
    uint64_t x = 0;
    pgas_sync_t sync = { 1, 0, NULL, NULL }, *syncs = &sync;
    size_t index;
    pgas_agg_t *agg = NULL;
    int n_bad = 0;
    REFUSES(pgas_handlers_agree());
    REFUSES(pgas_sync_wait(&sync, 0));
    REFUSES(pgas_sync_wait_all(&syncs, 1, 0));
    REFUSES(pgas_sync_wait_any(&syncs, 1, 0, &index));
    REFUSES(pgas_call(0, 1, &x, 8, NULL));
    REFUSES(pgas_call_to(pgas_on_rank(0), 1, &x, 8, PGAS_CALL_OPTS(.full = PGAS_FULL_AGAIN)));
    REFUSES(pgas_call_return(0, 1, &x, 8, &x, 8));
    REFUSES(pgas_quiesce());
    REFUSES(pgas_agg_create(NULL, &agg));
    n_bad += bad(pgas_reply(&x, 8) == PGAS_ERR_CONTEXT && !agg, "pgas_reply, pgas_agg_create");
    n_bad += bad(pgas_agg_flush(NULL, 0, NULL) < 0 && pgas_agg_flush(NULL, PGAS_ALL, NULL) < 0 &&
                     pgas_agg_destroy(NULL) == PGAS_OK,
                 "agg");
    n_bad += bad(pgas_agg_call_far(NULL, 0, 1, &x, 8) < 0, "pgas_agg_call_far");
    n_bad += bad(pgas_sync_test(&sync) == PGAS_INPROGRESS, "pgas_sync_test before");
    pgas_sync_done(&sync, 1);
    n_bad += bad(pgas_sync_test(&sync) == PGAS_OK, "pgas_sync_test");
    pgas_sync_info_t info = { .size = sizeof info };
    n_bad += bad(pgas_sync_done(&sync, 2) == PGAS_OK && sync.count == -2, "pgas_sync_done");
    n_bad += bad(pgas_sync_reset(&sync) == PGAS_OK && sync.count == 0 &&
                     pgas_sync_info(&sync, &info) == PGAS_OK && info.status == PGAS_OK,
                 "pgas_sync_reset, pgas_sync_info");
    n_bad += bad(!pgas_handler_name(1), "pgas_handler_name");
    return n_bad;
}

static int collectives_refuse(void)
{
    uint64_t x = 0, y = 0;
    pgas_team_t *team = NULL;
    MPI_Comm comm = MPI_COMM_WORLD;
    int n_bad = 0;
    REFUSES(pgas_barrier(NULL));
    REFUSES(pgas_broadcast(NULL, &x, 8, 0));
    REFUSES(pgas_scan(NULL, &x, &y, 1, PGAS_U64, PGAS_ADD));
    REFUSES(pgas_reduce(NULL, &x, 1, PGAS_U64, PGAS_ADD, 0));
    REFUSES(pgas_allreduce(NULL, &x, &y, 1, PGAS_U64, PGAS_ADD));
    REFUSES(pgas_exscan(NULL, &x, &y, 1, PGAS_U64, PGAS_ADD));
    REFUSES(pgas_gather(NULL, &x, &y, 8, 0));
    REFUSES(pgas_allgather(NULL, &x, &y, 8));
    REFUSES(pgas_alltoall(NULL, &x, &y, 8));
    REFUSES(pgas_team_split(NULL, 0, 0, &team));
    REFUSES(pgas_team_from_comm(&comm, &team));
    n_bad += bad(pgas_team_destroy(NULL) == PGAS_OK && !team, "pgas_team_destroy");
    n_bad += bad(!pgas_team_node() && pgas_team_rank(NULL) == -1 && pgas_team_size(NULL) <= 0 &&
                     pgas_team_to_global(NULL, 0) == -1 && pgas_team_from_global(NULL, 0) == -1,
                 "teams");
    return n_bad;
}

static int runtime_refuses(void)
{
    pgas_thread_info_t place = { .size = sizeof place };
    pgas_graph_t *graph = NULL;
    int n_bad = 0;
    REFUSES(pgas_finalize());
    REFUSES(pgas_thread_attach());
    REFUSES(pgas_thread_detach());
    REFUSES(pgas_thread_info(&place));
    REFUSES(pgas_stats_print(stdout));
    REFUSES(pgas_graph_read("/dev/null", NULL, &graph));
    n_bad += bad(!pgas_initialized() && pgas_rank() == -1 && pgas_n_ranks() == 0 &&
                     pgas_node() == -1 && pgas_n_nodes() == 0 && pgas_node_of(0) == -1 &&
                     pgas_node_rank() == -1 && pgas_node_size() == 0 && pgas_progress() == 0 &&
                     pgas_thread_slot(pgas_thread_self()) == 4094,
                 "ranks, nodes, threads");
    n_bad += bad(strcmp(pgas_version(), PGAS_VERSION_TEXT) == 0 &&
                     strcmp(pgas_status_name(PGAS_ERR_PEER), "PGAS_ERR_PEER") == 0,
                 "what needs no library");
    return n_bad;
}

static void unstarted(const char *when)
{
    spmd_is_int(memory_refuses() + transfers_refuse(), 0, "%s: memory and transfers", when);
    spmd_is_int(calls_refuse() + collectives_refuse() + runtime_refuses(), 0,
                "%s: calls, collectives, runtime", when);
}

/* ---- init that does not start ---- */

static void init_refuses(const char *params, pgas_status_t want, const char *words)
{
    /* rings are a matter of each node */
    int size = spmd_size(), most = strstr(params, "CHUNK_MEMORY") ? size : 1;
    pgas_init_opts_t opts = PGAS_INIT_OPTS_INIT;
    opts.params = params;
    said_begin();
    pgas_status_t status = pgas_init(NULL, &opts);
    int ranks = said_by(words);
    spmd_ok(status == want && ranks >= 1 && ranks <= most && !pgas_initialized(),
            "init with %s: %s, said once", params, pgas_status_name(want));
    if (status == PGAS_OK)
        pgas_finalize();
}

static void parameters(void)
{
    init_refuses("HEAP_SIZE=plenty", PGAS_ERR_INVALID, "PGAS_HEAP_SIZE=plenty");
    init_refuses("HEAPSIZE=1M", PGAS_ERR_INVALID, "PGAS_HEAP_SIZE");
    init_refuses("SERVICE_THREADS=99", PGAS_ERR_INVALID, "0..16");
    init_refuses("CHUNK_SIZE=5000", PGAS_ERR_INVALID, "power of two");
    init_refuses("LANES", PGAS_ERR_INVALID, "NAME=");
    init_refuses("LOG=loud", PGAS_ERR_INVALID, "error, warn");
    init_refuses("MEMORY_LIMIT=64K", PGAS_ERR_LIMIT, "PGAS_MEMORY_LIMIT=65536");
    init_refuses("HEAP_SIZE=8T", PGAS_ERR_LIMIT, "of this host reserve");
    init_refuses("CHUNK_MEMORY=64K CALL_MAX=1M", PGAS_ERR_LIMIT, "PGAS_CHUNK_MEMORY=65536");
    init_refuses("FAULT=xyz", PGAS_ERR_INVALID, "PGAS_FAULT=xyz: `xyz' is no fault");
    if (pgasi_tp_find("verbs"))
        spmd_skip(1, "all transports are in this build");
    else
        init_refuses("TRANSPORT=verbs", PGAS_ERR_UNSUPPORTED,
                     "PGAS_TRANSPORT=verbs is not in this build");
    said_begin();
    pgas_init_opts_t opts = { sizeof opts, "TRANSPORT=loopback" };
    pgas_status_t status = pgas_init(NULL, &opts);
    bool started = status == PGAS_OK, alone = started && pgas_n_nodes() == 1;
    pgas_finalize();
    int ranks = said_by("PGAS_TRANSPORT=loopback does not reach");
    spmd_ok(started ? alone && !ranks : status == PGAS_ERR_UNSUPPORTED && ranks == 1,
            "a transport that does not reach the other nodes is refused, said once; on one node "
            "none is needed");
    setenv("PGAS_SPIN_US", "-3", 1);
    init_refuses("INFO=0", PGAS_ERR_INVALID, "PGAS_SPIN_US=-3");
    unsetenv("PGAS_SPIN_US");
}

/* A size that no version had, on one rank; and that of a structure of zeros, which is a default. */
static void sizes_of_options(void)
{
    pgas_init_opts_t opts = { spmd_rank() == spmd_size() - 1 ? 1 : sizeof opts, NULL };
    said_begin();
    pgas_status_t status = pgas_init(NULL, &opts);
    int ranks = said_by("pgas_init_opts_t has a size of 1");
    spmd_ok(status == PGAS_ERR_INVALID && ranks == 1 && !pgas_initialized(),
            "options of a wrong size, on one rank");
    pgas_init_opts_t zero = { 0, "SPIN_US=77" }, wrong = { 8, NULL };
    status = pgas_init(NULL, &zero);
    pgas_agg_opts_t agg_opts = PGAS_AGG_OPTS_INIT, agg_zero = PGAS_AGG_OPTS_INIT;
    agg_opts.size = 8;
    agg_zero.size = 0;
    pgas_agg_t *agg = NULL;
    spmd_ok(
        status == PGAS_OK && pgasi_param.spin_us == 77 &&
            pgas_init(NULL, &wrong) == PGAS_ERR_INVALID &&
            pgas_agg_create(&agg_opts, &agg) == PGAS_ERR_INVALID && !agg &&
            pgas_agg_create(&agg_zero, &agg) == PGAS_OK && pgas_agg_destroy(agg) == PGAS_OK &&
            pgas_finalize() == PGAS_OK && !pgas_initialized(),
        "no size is that of the first version; a further init and aggregators refuse a wrong one");
}

static void unknown_variable(void)
{
    setenv("PGAS_HEEP_SIZE", "1M", 1);
    said_begin();
    pgas_status_t status = pgas_init(NULL, NULL);
    int ranks = said_by("PGAS_HEEP_SIZE is not a known variable: did you mean PGAS_HEAP_SIZE?");
    unsetenv("PGAS_HEEP_SIZE");
    spmd_ok(status == PGAS_OK && ranks == 1,
            "an unknown PGAS_ name is warned about, with the one that is meant");
    pgas_finalize();
}

static void versions(void)
{
    if (spmd_size() == 1) {
        spmd_skip(1, "needs two ranks");
        return;
    }
    setenv("PGAS_TEST_VERSION", "1:9.8.7", 1);
    said_begin();
    pgas_status_t status = pgas_init(NULL, NULL);
    int ranks = said_by("runs libpgas 9.8.7, rank 0 runs " PGAS_VERSION_TEXT);
    unsetenv("PGAS_TEST_VERSION");
    spmd_ok(status == PGAS_ERR_MISMATCH && ranks == 1 && !pgas_initialized(),
            "another version on a rank");
}

static void missing_handler(void)
{
    static pgas_handler_t extra;
    if (spmd_size() == 1) {
        spmd_skip(1, "needs two ranks");
        return;
    }
    if (spmd_rank() != 1)
        pgas_handler_register("t.extra", on_count, &ran, NULL, &extra);
    said_begin();
    pgas_status_t status = pgas_init(NULL, NULL);
    int ranks = said_by("handler 't.extra' is registered on rank 0 but missing on rank 1");
    spmd_ok(status == PGAS_ERR_MISMATCH && ranks == 1 && !pgas_initialized(),
            "a handler that is missing on a rank");
    if (spmd_rank() == 1) /* a refused init keeps the handlers of the others */
        pgas_handler_register("t.extra", on_count, &ran, NULL, &extra);
}

/* ---- pointers and sizes ---- */

/* Every way to use a pointer, with a size that may not fit; returns the statuses that differ from
 * want. */
static int all_forms(pgas_gptr_t ptr, size_t bytes, pgas_status_t want)
{
    unsigned char *buffer = job_alloc(2 * AREA), before[2 * AREA];
    size_t sane = bytes <= 2 * AREA ? bytes : 1;
    uint64_t old = 0;
    pgas_sync_t done = PGAS_SYNC_INIT;
    int n_bad = 0;
    memset(buffer, 0x77, 2 * AREA);
    memcpy(before, buffer, sizeof before);
    n_bad += bad(pgas_put(ptr, buffer, bytes) == want, "put");
    n_bad += bad(pgas_get(buffer, ptr, bytes) == want, "get");
    n_bad +=
        bad(pgas_copy(ptr, areas[me], bytes) < 0 && pgas_copy(areas[me], ptr, bytes) < 0, "copy");
    n_bad += bad(pgas_put_nb(ptr, buffer, bytes, PGAS_REMOTE, &done) == want &&
                     pgas_get_nb(buffer, ptr, bytes, &done) == want && done.count == 0 &&
                     done.error == 0,
                 "nb");
    n_bad += bad(pgas_put_strided(ptr, (int64_t)sane, buffer, 1, bytes, 2) == want, "put_strided");
    n_bad += bad(pgas_get_strided(buffer, 1, ptr, (int64_t)sane, bytes, 2) == want, "get_strided");
    if (bytes == 8 && ptr % 8 == 0) {
        n_bad += bad(pgas_put_u64(ptr, 1) == want && pgas_get_u64(ptr, &old) == want, "scalar");
        n_bad += bad(pgas_fetch_op_u64(ptr, PGAS_ADD, 1, &old) == want &&
                         pgas_update_u64(ptr, PGAS_ADD, 1) == want,
                     "atomic");
        n_bad += bad(pgas_put_signal(ptr, buffer, 0, ptr, 1, PGAS_ADD) == want, "put_signal");
    }
    n_bad += bad(memcmp(buffer, before, sizeof before) == 0, "nothing was transferred");
    free(buffer);
    return n_bad;
}

/* Again once peers' heaps are known: from then on those in reach are loaded and stored. */
static void pointers(const char *when)
{
    uint64_t heap = UINT64_C(1) << 30, size = UINT64_C(1) << 20;
    memset(own, 0x11, AREA);
    pgas_barrier(NULL);
    int n_bad = all_forms(PGAS_NULL, 8, PGAS_ERR_RANGE);
    n_bad += all_forms(pgas_gptr_make(job_right(), 64), 8, PGAS_ERR_RANGE);
    n_bad += all_forms(pgas_gptr_make(job_right(), heap - 8), 8, PGAS_ERR_RANGE);
    spmd_is_int(n_bad, 0, "null and addresses before the heap, %s", when);
    n_bad = all_forms(pgas_gptr_make(n_ranks, heap), 8, PGAS_ERR_RANGE);
    n_bad += all_forms(pgas_gptr_make(PGAS_RANKS_MAX - 1, heap), 8, PGAS_ERR_RANGE);
    spmd_is_int(n_bad, 0, "ranks that do not exist, %s", when);
    n_bad = all_forms(pgas_gptr_make(job_right(), heap + size), 8, PGAS_ERR_RANGE);
    n_bad += all_forms(pgas_gptr_make(job_right(), heap + size - 4), 8, PGAS_ERR_RANGE);
    n_bad += all_forms(areas[job_right()], SIZE_MAX, PGAS_ERR_RANGE);
    n_bad += all_forms(areas[job_right()], (size_t)INT64_MAX, PGAS_ERR_RANGE);
    n_bad += all_forms(pgas_gptr_make(job_right(), PGAS_OFFSET_MAX - 6), 8, PGAS_ERR_RANGE);
    spmd_is_int(n_bad, 0, "bytes after the heap, sizes beyond all bounds, %s", when);
    n_bad = all_forms(pgas_gptr_add(users[job_right()], AREA), 8, PGAS_ERR_RANGE);
    n_bad += all_forms(pgas_gptr_add(users[job_right()], AREA - 4), 8, PGAS_ERR_RANGE);
    n_bad += all_forms(pgas_gptr_add(users[job_right()], INT64_C(1) << 33), 8, PGAS_ERR_RANGE);
    spmd_is_int(n_bad, 0, "bytes after attached memory, segments that do not exist, %s", when);
    uint64_t x = 0;
    pgas_sync_t done = PGAS_SYNC_INIT;
    n_bad = pgas_put(areas[job_right()], NULL, 8) != PGAS_ERR_INVALID ||
            pgas_get(NULL, areas[job_right()], 8) != PGAS_ERR_INVALID;
    n_bad += pgas_put_nb(areas[job_right()], NULL, 8, PGAS_LOCAL, NULL) != PGAS_ERR_INVALID ||
             pgas_get_nb(NULL, areas[job_right()], 8, NULL) != PGAS_ERR_INVALID;
    n_bad += pgas_put_strided(areas[job_right()], 8, NULL, 8, 8, 1) != PGAS_ERR_INVALID;
    n_bad += pgas_get_many(&x, NULL, 8, 1, &done) != PGAS_ERR_INVALID;
    n_bad += pgas_put_strided(areas[job_right()], INT64_MAX, &x, 0, 1, 3) != PGAS_ERR_RANGE;
    n_bad += pgas_put_strided(areas[job_right()], INT64_MIN, &x, 0, 1, 2) != PGAS_ERR_RANGE;
    n_bad += pgas_flush(PGAS_ALL - 1) != PGAS_ERR_RANGE || pgas_flush(n_ranks) != PGAS_ERR_RANGE;
    spmd_is_int(n_bad, 0, "null buffers, strides beyond all bounds, %s", when);
    pgas_flush_all();
    pgas_barrier(NULL);
    n_bad = 0;
    for (int i = 0; i < AREA; i++)
        n_bad += own[i] != 0x11;
    spmd_is_int(n_bad, 0, "nothing of this was written, %s", when);
}

/* Each form of access reaches the last bytes of the heap. */
static void known_heaps(void)
{
    pgas_gptr_t last = pgas_gptr_make(job_right(), (UINT64_C(1) << 30) + (UINT64_C(1) << 20) - 8);
    uint64_t x = 0, old = 0;
    int n_bad = pgas_get(&x, last, 8) != PGAS_OK || pgas_get_u64(last, &old) != PGAS_OK;
    n_bad += pgas_fetch_op_u64(last, PGAS_ADD, 0, &old) != PGAS_OK ||
             pgas_put(areas[job_right()], own, 8) != PGAS_OK;
    n_bad += pgas_flush_all() != PGAS_OK;
    spmd_is_int(n_bad, 0, "the last bytes of the heap are within bounds");
}

/* NULL for the value that an operation reads or stores, on the node and between nodes. */
static void null_values(void)
{
    pgas_gptr_t there = areas[job_right()];
    uint64_t x = 0;
    uint32_t x32 = 0;
    pgas_barrier(NULL); /* no rank calls before all have counted */
    int n_bad = 0;
    uint64_t before = ran;
    pgas_barrier(NULL);
    n_bad += bad(pgas_get_u8(there, NULL) == PGAS_ERR_INVALID &&
                     pgas_get_u16(there, NULL) == PGAS_ERR_INVALID &&
                     pgas_get_u32(there, NULL) == PGAS_ERR_INVALID &&
                     pgas_get_u64(there, NULL) == PGAS_ERR_INVALID,
                 "get of scalars");
    n_bad += bad(pgas_fetch_op_u64(there, PGAS_ADD, 0, NULL) == PGAS_OK &&
                     pgas_fetch_op_u32(there, PGAS_OR, 0, NULL) == PGAS_OK,
                 "fetching without a place is as not fetching");
    n_bad += bad(pgas_fetch_op_u64(there, PGAS_MAX, 0, NULL) == PGAS_OK &&
                     pgas_compare_swap_u64(there, 1, x, NULL) == PGAS_ERR_INVALID &&
                     pgas_compare_swap_u32(there, 1, x32, NULL) == PGAS_ERR_INVALID,
                 "swap");
    pgas_agg_t *agg = NULL;
    n_bad += bad(pgas_agg_create(NULL, &agg) == PGAS_OK, "pgas_agg_create");
    for (int i = 0; i < 3; i++) /* the third finds the run of the others open */
        n_bad += bad(pgas_agg_call(agg, job_right(), count, i < 2 ? &x : NULL, 8) ==
                         (i < 2 ? PGAS_OK : PGAS_ERR_INVALID),
                     "agg");
    n_bad += bad(pgas_agg_destroy(agg) == PGAS_OK && pgas_quiesce() == PGAS_OK && ran == before + 2,
                 "calls run");
    spmd_is_int(n_bad, 0, "null values are refused, on the node as elsewhere");
}

/* ---- the heap ---- */

static void frees(void)
{
    pgas_gptr_t block = PGAS_NULL, local = PGAS_NULL, all[JOB_RANKS_MAX];
    int n_bad = pgas_alloc(128, &block) != PGAS_OK ||
                pgas_alloc_on(pgas_rank(), PGAS_ZONE_NONE, 128, &local) != PGAS_OK;
    job_gather(local, all);
    said_begin();
    pgas_status_t status = pgas_free(pgas_gptr_add(block, 64));
    spmd_ok(said("no live block of pgas_alloc") && status == PGAS_ERR_INVALID,
            "free of the middle of a block");
    said_begin();
    status = pgas_free_on(block);
    spmd_ok(said("no live block of pgas_alloc_on") && status == PGAS_ERR_INVALID,
            "a symmetric block is not a local one");
    said_begin();
    status = pgas_free(pgas_gptr_at(local, me));
    bool named = said("pgas_free of ");
    spmd_ok(named && (status == PGAS_ERR_INVALID || status == PGAS_ERR_MISMATCH),
            "and the reverse");
    n_bad += pgas_free(block) != PGAS_OK || pgas_free_on(local) != PGAS_OK;
    said_begin();
    status = pgas_free(block);
    spmd_ok(said("freed twice?") && status == PGAS_ERR_INVALID, "double free of a symmetric block");
    said_begin();
    status = pgas_free_on(local);
    spmd_ok(said("freed twice?") && status == PGAS_ERR_INVALID, "double free of a local block");
    if (n_ranks == 1) {
        spmd_skip(3, "needs two ranks");
        spmd_is_int(n_bad, 0, "the good ones work");
        return;
    }
    said_begin();
    pgas_barrier(NULL);
    status = pgas_free_on(all[job_right()]);
    pgas_barrier(NULL); /* the owners answer */
    spmd_ok(said_by("freed twice?") == n_ranks && status == PGAS_ERR_INVALID,
            "double free of another rank's block");
    said_begin();
    status = pgas_alloc(me == n_ranks - 1 ? 64 : 128, &block);
    spmd_ok(said("sizes must be the same") && status == PGAS_ERR_MISMATCH,
            "different sizes: refused on all ranks");
    pgas_gptr_t first = PGAS_NULL, second = PGAS_NULL;
    n_bad += pgas_alloc(64, &first) != PGAS_OK || pgas_alloc(64, &second) != PGAS_OK;
    said_begin();
    status = pgas_free(me == n_ranks - 1 ? first : second);
    spmd_ok(said("but of another block") && status == PGAS_ERR_MISMATCH,
            "different blocks: refused on all ranks");
    n_bad += pgas_free(pgas_gptr_at(first, job_right())) != PGAS_OK || pgas_free(second) != PGAS_OK;
    spmd_is_int(n_bad, 0, "the good ones work; a block is freed by the pointer of any rank");
}

static void exhausted(void)
{
    pgas_gptr_t block = 5, local = PGAS_NULL;
    int n_bad = 0;
    if (me == n_ranks - 1)
        n_bad += pgas_alloc_on(pgas_rank(), PGAS_ZONE_NONE, (size_t)600 << 10, &local) != PGAS_OK;
    said_begin();
    pgas_status_t status = pgas_alloc((size_t)700 << 10, &block);
    int ranks = said_by("pgas_alloc of 716800 bytes does not fit: PGAS_HEAP_SIZE=1048576");
    n_bad += pgas_free_on(local) != PGAS_OK;
    spmd_ok(
        status == PGAS_ERR_NO_MEMORY && block == 5 && ranks == 1 && n_bad == 0,
        "a heap that is exhausted on one rank: every rank hears it, that one says what was asked");
}

/* ---- messages from nowhere ---- */

static uint64_t dropped_at_right(void)
{
    uint64_t dropped = __atomic_load_n(&pgasi_n_dropped, __ATOMIC_RELAXED), all[JOB_RANKS_MAX];
    pgas_allgather(NULL, &dropped, all, sizeof dropped);
    return all[job_right()];
}

static void strangers(void)
{
    uint32_t header;
    uint64_t records[2] = { pgasi_desc_header(count, 8, 0), 0 }, before = dropped_at_right();
    uint64_t own_before = pgasi_n_dropped;
    pgasi_ctx_t *ctx = pgasi_self.ctx;
    int n_bad = 0, n_sent = 0;
    uint64_t n_ran = ran;
    if (pgas_n_nodes() == 1) {
        spmd_skip(1, "all ranks share a node");
        return;
    }
    said_begin();
    pgas_barrier(NULL);
    if (pgas_node_of(job_right()) != pgas_node()) {
        pgasi_ctx_lock(ctx); /* the service thread would lend a hand */
        for (int i = 0; i < 8; i++) {
            size_t header_bytes = i == 4 ? 3 : sizeof header;
            header =
                pgasi_far_mark(i == 1 ? n_ranks : me, i == 2 ? 17 : 16) ^ (i == 0 ? 1u << 31 : 0);
            records[0] = pgasi_desc_header(i == 3 ? 4000 : count, i == 5 ? 800 : 8, 0);
            if (i == 6)
                records[0] = 5;
            else if (i == 7)
                records[0] = pgasi_desc_header(PGASI_DESC_BATCH, 8, 0);
            pgas_status_t status = pgasi_ctx_open(ctx);
            while (status == PGAS_OK || status == PGAS_ERR_AGAIN) {
                status = ctx->tp->ops->am(ctx->tp, job_right(), &header, header_bytes, records, 16,
                                          NULL);
                if (status != PGAS_ERR_AGAIN)
                    break;
                ctx->tp->ops->progress(ctx->tp);
            }
            n_bad += status != PGAS_OK && status != PGAS_INPROGRESS;
            for (int k = 0; k < 1000; k++) /* the data must stay until it has left */
                ctx->tp->ops->progress(ctx->tp);
            n_sent++;
        }
        pgasi_ctx_unlock(ctx);
        n_bad += pgas_call(job_right(), count, NULL, 0, NULL) != PGAS_OK;
    }
    /* pgas_quiesce must not be used here, because no rank has counted these bytes as sent. The test
     * waits for the one good call instead, which may come through a channel and overtake them. */
    int left = (me + n_ranks - 1) % n_ranks;
    while (pgas_node_of(left) != pgas_node() &&
           (__atomic_load_n(&ran, __ATOMIC_RELAXED) == n_ran ||
            __atomic_load_n(&pgasi_n_dropped, __ATOMIC_RELAXED) < own_before + 8))
        pgas_progress();
    pgas_barrier(NULL);
    if (pgas_node_of(left) != pgas_node())
        pgasi_far_consumed -= 4 * sizeof records; /* four passed as messages of the job */
    pgas_barrier(NULL);
    n_bad += dropped_at_right() != before + (uint64_t)n_sent;
    int ranks = said_by(": dropped");
    int lines = 0;
    for (const char *at = said_text; (at = strstr(at, "dropped")); at++)
        lines++;
    spmd_ok(
        n_bad == 0 && ranks > 0 && lines <= 1 && ran == n_ran + (pgas_node_of(left) != pgas_node()),
        "messages without the job's key, and malformed ones, are dropped, counted and logged once");
}

int main(int argc, char **argv)
{
    pgas_handler_register("t.count", on_count, &ran, NULL, &count);
    spmd_begin(&argc, &argv, MPI_THREAD_SERIALIZED);
    spmd_plan(4 + 18 + 6 + 7 + 1 + 9 + 1 + 1 + 2 + 1);
    unstarted("before init");
    unknown_variable(); /* first: said once in the life of a process */
    parameters();
    sizes_of_options();
    versions();
    missing_handler();
    job_start(NULL);
    pgas_gptr_t ptr = PGAS_NULL, user = PGAS_NULL;
    bool good =
        pgas_alloc(AREA, &ptr) == PGAS_OK && pgas_mem_attach(user_memory, AREA, &user) == PGAS_OK;
    own = pgas_gptr_local(ptr, AREA);
    job_gather(ptr, areas);
    job_gather(user, users);
    spmd_ok(good, "memory");
    pointers("at first");
    known_heaps();
    pointers("later");
    null_values();
    frees();
    exhausted();
    strangers();
    job_stop();
    unstarted("after finalize");
    return spmd_end();
}
