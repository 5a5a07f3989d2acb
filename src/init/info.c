/* The library's reports about itself: pgas_info_print and pgas_stats_print. */
#include "config.h"

#include "pgas/info.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/fold.h"
#include "base/log.h"
#include "base/param.h"
#include "boot/boot.h"
#include "boot/wait.h"
#include "call/service.h"
#include "call/sync.h"
#include "call/task.h"
#include "init/account.h"
#include "mem/ctx.h"
#include "mem/segment.h"
#include "mem/thread.h"
#include "msg/channel_memory.h"
#include "msg/dispatch.h"
#include "msg/recv_queue.h"
#include "msg/send_queue.h"
#include "pgas/call.h"
#include "pgas/mem.h"
#include "pgas/rma_object.h"
#include "pgas/version.h"

/* ---- pgas_info ---- */

static void print_transports(FILE *out)
{
    fprintf(out, "transports:");
    for (const char *at = pgasi_param_describe(PGASI_PARAM_ID_TRANSPORT)->allowed; *at;) {
        char name[32];
        int length = (int)strcspn(at, "|");
        snprintf(name, sizeof name, "%.*s", length, at);
        fprintf(out, " %s%s", name, pgasi_tp_exists(name) ? "" : " (not in this build)");
        at += length + (at[length] == '|');
    }
    fprintf(out, "\n");
    if (pgasi_tp) {
        pgasi_tp_attr_t attr;
        memset(&attr, 0, sizeof attr);
        pgasi_tp->ops->query(pgasi_tp, &attr);
        fprintf(out, "  in use between nodes: %s, %s\n", attr.name, attr.detail);
    } else if (pgasi_running) {
        fprintf(out, "  in use between nodes: none, all ranks share one node\n");
    }
}

static void print_progress_rule(FILE *out)
{
    int n = pgasi_param.service_threads;
    const char *server =
        n ? "the target's service thread, or any of its threads inside the library"
          : "PGAS_SERVICE_THREADS=0: a thread of the target inside the library; while all of "
            "them compute, the operation waits";
#define RULE "  %-46s %s\n"
    fprintf(out, "progress rule (what completes an operation while the target computes):\n");
    fprintf(out, RULE, "put, get, atomics within the node", "the caller, by loads and stores");
    fprintf(out, RULE, "put, get, atomics on attached memory", server);
    fprintf(out, RULE, "put, get between nodes, RDMA or shared memory", "the transport");
    fprintf(out, RULE, "put, get between nodes, TCP", server);
    fprintf(out, RULE, "atomics between nodes", server);
    fprintf(out, RULE, "calls and replies", server);
    fprintf(out, RULE, "collectives", "every rank, inside the same collective");
    fprintf(out, RULE, "collectives with a counter", "every rank, inside the library");
    fprintf(out, RULE, "operations begun by a thread that computes",
            n ? "its rank's service thread, within a millisecond"
              : "another thread of its rank inside the library");
    fprintf(out, "  any blocking function of the library makes progress, and pgas_progress()\n");
#undef RULE
}

static void print_registered(FILE *out)
{
    pgas_mem_owner_t owners[PGAS_MEM_OWNERS_MAX];
    int n = 0;
    if (pgas_mem_owners(owners, PGAS_MEM_OWNERS_MAX, &n) != PGAS_OK)
        return;
    fprintf(out, "memory of this rank that peers reach, %s:\n",
            pgasi_tp ? "pinned for the transport" : "none of it pinned");
    fprintf(out, "  %-31s %14s %14s %14s\n", "owner", "bytes now", "at most", "limit");
    for (int i = 0; i < n; i++) {
        const pgas_mem_owner_t *o = &owners[i];
        fprintf(out, "  %-31s %14" PRIu64 " %14" PRIu64 " ", o->name, o->bytes, o->high_bytes);
        if (o->max_bytes)
            fprintf(out, "%14" PRIu64 "\n", o->max_bytes);
        else
            fprintf(out, "%14s\n", "-");
    }
}

/* __VERSION__ of clang begins with its name */
#ifdef __clang__
#define COMPILER_TEXT __VERSION__
#else
#define COMPILER_TEXT "gcc " __VERSION__
#endif
#ifdef PGAS_HAVE_HWLOC
#define HWLOC_TEXT "hwloc " PGAS_HWLOC_VERSION_TEXT
#else
#define HWLOC_TEXT "no hwloc"
#endif

/* Without a job: loads the parameters of this process. */
static pgas_status_t load_params(FILE *out)
{
    char why[PGASI_PARAM_WHY_BYTES] = "";
    pgas_status_t status = pgasi_param_load(&pgasi_param, pgasi_param_origins, why, sizeof why);
    if (status != PGAS_OK)
        fprintf(out, "%s\n", why);
    return status;
}

static void print_all(FILE *out)
{
    fprintf(out, "libpgas %s\n", PGAS_VERSION_TEXT);
    fprintf(out,
            "build: " PGAS_MPI_NAME " " PGAS_MPI_VERSION_TEXT ", UCX " PGAS_UCX_VERSION_TEXT
            ", " HWLOC_TEXT ", " COMPILER_TEXT "%s\n",
            PGAS_DEBUG ? ", debug" : "");
    fprintf(out, "MPI: %s\n", pgasi_boot_mpi_text());
    char quota[64] = "";
    if (pgasi_boot.quota_percent)
        snprintf(quota, sizeof quota, ", a cgroup's quota of %.2f CPUs",
                 pgasi_boot.quota_percent / 100.0);
    if (pgasi_running)
        fprintf(out,
                "job: rank %d of %d, node %d of %d, %d ranks on this node, %d CPUs for %d ranks of "
                "this host%s%s\n",
                pgasi_boot.rank, pgasi_boot.n_ranks, pgasi_boot.node, pgasi_boot.n_nodes,
                pgasi_boot.node_size, pgasi_boot.host_cpus, pgasi_boot.host_ranks, quota,
                pgasi_boot.oversubscribed ? " (oversubscribed: waits yield at once)" : "");
    print_transports(out);
    if (pgasi_running)
        fprintf(out, "heap: %s, pages of %zu bytes\n",
                pgasi_heap_from_transport ? "from the transport" : "anonymous",
                pgasi_heap_page_bytes);
    fprintf(out, "wake-ups: %s\n",
            pgasi_wait_light_is_fence ? "fences (no membarrier here)" : "membarrier");
    print_progress_rule(out);
    if (pgasi_running) {
        pgasi_watch_print(out);
        fprintf(out,
                "contexts: %d (PGAS_LANES, one of the service thread, one that further "
                "threads share)\n",
                pgasi_n_ctxs);
        pgasi_account_print(out);
        print_registered(out);
    } else {
        fprintf(
            out,
            "bytes per rank: depend on ranks and nodes; mpirun -n N pgas_info --job prints them\n");
    }
    fprintf(out, "parameters:\n");
    pgasi_param_print(out);
    pgasi_param_print_ucx(out);
}

/* Ends a stream of open_memstream and prints its text. */
static pgas_status_t print_folded(FILE *out, FILE *lines, char **text)
{
    bool whole = fclose(lines) == 0;
    if (whole)
        pgasi_fold(out, *text);
    free(*text);
    if (!whole)
        return PGAS_ERR_NO_MEMORY;
    return ferror(out) ? PGAS_ERR_IO : PGAS_OK;
}

/* Before pgas_init every process of a job would print the same. */
static bool prints_all(void)
{
    return pgasi_running || pgasi_boot_launcher_rank() == 0;
}

static pgas_status_t print_one(FILE *lines, const char *name)
{
    char why[PGASI_PARAM_WHY_BYTES];
    pgas_status_t status = pgasi_param_print_var(lines, name, why, sizeof why);
    if (status != PGAS_OK)
        PGASI_ERROR("param", "%s", why);
    return status;
}

pgas_status_t pgas_info_print(FILE *out, const char *name)
{
    char *text = NULL;
    size_t bytes = 0;
    if (!out)
        return PGAS_ERR_INVALID;
    if (!name && !prints_all())
        return PGAS_OK;
    pgas_status_t status = pgasi_running ? PGAS_OK : load_params(out);
    if (status != PGAS_OK)
        return status;
    if (!name && !pgasi_running)
        pgasi_param_warn_unknown();
    FILE *lines = open_memstream(&text, &bytes);
    if (!lines)
        return PGAS_ERR_NO_MEMORY;
    if (name)
        status = print_one(lines, name);
    else
        print_all(lines);
    pgas_status_t printed = print_folded(out, lines, &text);
    return status != PGAS_OK ? status : printed;
}

int pgas_launcher_rank(void)
{
    return pgasi_boot_launcher_rank();
}

/* Nothing in a job without objects and archives. */
static void print_archives(FILE *out)
{
    pgas_rma_info_t info = { .size = sizeof info };
    (void)pgas_rma_info(&info);
    if (!info.n_calls_sent && !info.n_calls_received && !info.pool_high_bytes && !info.n_objects)
        return;
    fprintf(out,
            "pgas stats, rank %d: calls with archives sent %" PRIu64 ", %" PRIu64
            " bytes, received %" PRIu64 ", %" PRIu64 " bytes; serialization took %" PRIu64
            " us; chunks sent registered %" PRIu64 ", by pointer %" PRIu64 ", received %" PRIu64
            "; registrations for transfers %" PRIu64 "; objects now %" PRIu64 ", %" PRIu64
            " registered bytes, memory for them %" PRIu64 " bytes, at most %" PRIu64
            ", objects without room in the heap %" PRIu64 "\n",
            pgasi_boot.rank, info.n_calls_sent, info.bytes_sent, info.n_calls_received,
            info.bytes_received, info.serialize_us, info.n_registered_sent, info.n_pointers_sent,
            info.n_chunks_received, info.n_registrations, info.n_objects, info.object_bytes,
            info.pool_bytes, info.pool_high_bytes, info.n_unregistered);
}

pgas_status_t pgas_stats_print(FILE *out)
{
    if (!out)
        return PGAS_ERR_INVALID;
    if (!pgasi_running)
        return PGAS_ERR_NOT_INIT;
    pgasi_sendq_stats_t sum;
    memset(&sum, 0, sizeof sum);
    for (int i = 0; i < pgasi_n_ctxs; i++) {
        if (!pgasi_ctxs[i] || !pgasi_ctxs[i]->sendq)
            continue;
        const pgasi_sendq_stats_t *s = pgasi_sendq_stats(pgasi_ctxs[i]->sendq);
        for (size_t k = 0; k < PGASI_ARRAY_LENGTH(sum.published); k++)
            sum.published[k] += s->published[k];
        sum.calls += s->calls;
        sum.bytes += s->bytes;
        sum.open_high = PGASI_MAX(sum.open_high, s->open_high);
        sum.blocked_ns += s->blocked_ns;
        sum.n_far += s->n_far;
        sum.n_full += s->n_full;
        sum.n_queued += s->n_queued;
        sum.backlog_high = PGASI_MAX(sum.backlog_high, s->backlog_high);
    }
    uint64_t n_channels, n_grown;
    pgasi_recvq_count(&n_channels, &n_grown);
    uint32_t n_granted, granted_high;
    uint64_t n_refused;
    pgasi_chanmem_count(&n_granted, &granted_high, &n_refused);
    fprintf(out,
            "pgas stats, rank %d: sent %" PRIu64 " bytes of calls; gathered %" PRIu64
            " calls, %" PRIu64 " bytes; batches: full %" PRIu64 ", in time %" PRIu64
            ", flushed %" PRIu64 ", by quiesce %" PRIu64 ", for order %" PRIu64
            ", behind handlers %" PRIu64 ", for room %" PRIu64 ", open at once %" PRIu64
            "; messages between nodes %" PRIu64 "; peer full %" PRIu64
            " times, callers blocked for %" PRIu64 " us, batches that waited %" PRIu64
            ", at most %" PRIu64 " bytes at once; ran %" PRIu64 " calls through channels, %" PRIu64
            " bytes of messages; channels into it %" PRIu64 ", of which %" PRIu64
            " took further chunks; chunks granted to other nodes %" PRIu32 ", at most %" PRIu32
            ", refused %" PRIu64 "; handler threads %d; dropped %" PRIu64
            "; completions reported by message %" PRIu64 ", written to the counter %" PRIu64
            "; service rounds %" PRIu64 ", sleeps %" PRIu64 "\n",
            pgasi_boot.rank, pgasi_sendqs_sent(), sum.calls, sum.bytes,
            sum.published[PGASI_PUBLISH_FULL], sum.published[PGASI_PUBLISH_TIME],
            sum.published[PGASI_PUBLISH_EXPLICIT], sum.published[PGASI_PUBLISH_QUIESCE],
            sum.published[PGASI_PUBLISH_ORDER], sum.published[PGASI_PUBLISH_DRAINED],
            sum.published[PGASI_PUBLISH_ROOM], sum.open_high, sum.n_far, sum.n_full,
            sum.blocked_ns / 1000, sum.n_queued, sum.backlog_high, pgasi_recvq_n_calls(),
            pgasi_far_consumed, n_channels, n_grown, n_granted, granted_high, n_refused,
            pgasi_tasks_threads(), pgasi_n_dropped, pgasi_sync_stats.n_answers,
            pgasi_sync_stats.n_written, pgasi_service_stats.rounds, pgasi_service_stats.wakeups);
    print_archives(out);
    return ferror(out) ? PGAS_ERR_IO : PGAS_OK;
}
