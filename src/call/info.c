/* What the library says about itself: pgas_info_print, pgas_stats_print, and the account of memory. */
#include "pgas/info.h"

#include <inttypes.h>
#include <string.h>

#include "base/log.h"
#include "base/param.h"
#include "boot/boot.h"
#include "boot/wait.h"
#include "call/account.h"
#include "call/handler.h"
#include "call/inbox.h"
#include "call/outbox.h"
#include "call/progress.h"
#include "mem/lane.h"
#include "mem/segment.h"
#include "mem/thread.h"
#include "pgas/call.h"
#include "pgas/version.h"

/* ---- the account ---- */

/* One line of the account: how many of what size, in words and numbers. */
typedef struct {
    const char *what, *formula;
    uint64_t bytes;
} item_t;

#define N_ITEMS 6
#define FAR_BUFFERS 64 /* outbox.c's limit per lane */
#define LANE_BYTES_GUESS (96u << 10) /* a UCX worker without shared memory */
#define ENDPOINT_BYTES_GUESS (8u << 10)

static void account(item_t items[N_ITEMS])
{
    uint64_t n = (uint64_t)pgasi_boot.n_ranks, node = (uint64_t)pgasi_boot.node_size;
    uint64_t lanes = 2 + (uint64_t)pgasi_param.lanes, far = n - node;
    uint64_t lane_bytes = LANE_BYTES_GUESS, endpoint = ENDPOINT_BYTES_GUESS;
    if (pgasi_tp) {
        pgasi_tp_attr_t attr;
        memset(&attr, 0, sizeof attr);
        pgasi_tp->ops->query(pgasi_tp, &attr);
        lane_bytes = attr.lane_bytes ? attr.lane_bytes : lane_bytes;
        endpoint = attr.peer_bytes ? attr.peer_bytes : endpoint;
    }
    uint64_t ring = pgasi_ring_bytes ? pgasi_ring_bytes : pgasi_param.ring_size;
    uint64_t pooled = far ? FAR_BUFFERS * (pgasi_param.agg_size + 128) : 0;
    item_t all[N_ITEMS] = {
        { "addresses of peers", "ranks x 256 B (0 on one node)", far ? n * 256 : 0 },
        { "rings into this rank", "ranks of node x lanes x PGAS_RING_SIZE, at most PGAS_RING_MEMORY", node * lanes * ring },
        { "transport lanes", "lanes x bytes of a lane (0 on one node)", far ? lanes * lane_bytes : 0 },
        { "endpoints and keys", "lanes x far ranks x bytes of an endpoint", lanes * far * endpoint },
        { "send buffers", "lanes x 64 x (PGAS_AGG_SIZE + 128)", lanes * pooled },
        { "queued calls of handlers", "lanes x PGAS_BACKLOG_LIMIT", lanes * pgasi_param.backlog_limit },
    };
    memcpy(items, all, sizeof all);
}

uint64_t pgasi_account_worst(void)
{
    item_t items[N_ITEMS];
    uint64_t sum = 0;
    account(items);
    for (int i = 0; i < N_ITEMS; i++)
        sum += items[i].bytes;
    return sum;
}

pgas_status_t pgasi_account_check(void)
{
    uint64_t worst = pgasi_account_worst() + pgasi_param.heap_size;
    bool too_much = pgasi_param.memory_limit && worst > pgasi_param.memory_limit;
    if (too_much && pgasi_boot.rank == 0)
        PGASI_ERROR("memory", "this configuration may need %" PRIu64 " bytes on a rank, PGAS_MEMORY_LIMIT=%zu: lower "
                    "PGAS_HEAP_SIZE, PGAS_BACKLOG_LIMIT, PGAS_LANES or PGAS_RING_SIZE", worst, pgasi_param.memory_limit);
    return pgasi_boot_agree(too_much ? PGAS_ERR_LIMIT : PGAS_OK);
}

void pgasi_account_print(FILE *out)
{
    item_t items[N_ITEMS];
    account(items);
    fprintf(out, "bytes per rank at most, %d rank%s on %d node%s (untouched parts cost nothing):\n", pgasi_boot.n_ranks,
            pgasi_boot.n_ranks == 1 ? "" : "s", pgasi_boot.n_nodes, pgasi_boot.n_nodes == 1 ? "" : "s");
    for (int i = 0; i < N_ITEMS; i++)
        fprintf(out, "  %-26s %14" PRIu64 "  %s\n", items[i].what, items[i].bytes, items[i].formula);
    fprintf(out, "  %-26s %14" PRIu64 "\n", "sum", pgasi_account_worst());
    fprintf(out, "  %-26s %14zu  PGAS_HEAP_SIZE, yours\n", "symmetric heap", pgasi_param.heap_size);
}

/* ---- pgas_info ---- */

static void print_transports(FILE *out)
{
    static const char *const names[] = { "ucx", "verbs", "loopback" };
    fprintf(out, "transports:");
    for (size_t i = 0; i < PGASI_ARRAY_LENGTH(names); i++)
        fprintf(out, " %s%s", names[i], pgasi_tp_find(names[i]) ? "" : " (not in this build)");
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
    const char *who = n ? "the target's service thread, or any of its threads inside the library"
                        : "a thread of the target inside the library: a target that computes makes you wait "
                          "(PGAS_SERVICE_THREADS=0)";
    fprintf(out, "progress rule (who makes an operation complete while the target computes):\n");
    fprintf(out, "  %-44s %s\n", "put, get, atomics within the node", "nobody: the caller's loads and stores");
    fprintf(out, "  %-44s %s\n", "put, get, atomics on attached memory", who);
    fprintf(out, "  %-44s %s\n", "put, get between nodes, RDMA or shared memory", "nobody: the transport");
    fprintf(out, "  %-44s %s\n", "put, get between nodes, TCP", who);
    fprintf(out, "  %-44s %s\n", "atomics between nodes", who);
    fprintf(out, "  %-44s %s\n", "calls and replies", who);
    fprintf(out, "  %-44s %s\n", "collectives", "every rank, inside the same collective");
    fprintf(out, "  any blocking function of the library progresses; so does pgas_progress()\n");
}

pgas_status_t pgas_info_print(FILE *out)
{
    if (!out)
        return PGAS_ERR_INVALID;
    if (!pgasi_running) {
        char why[PGASI_PARAM_WHY_BYTES] = "";
        pgas_status_t status = pgasi_param_load(&pgasi_param, pgasi_param_origins, why, sizeof why);
        if (status != PGAS_OK) {
            fprintf(out, "%s\n", why);
            return status;
        }
    }
    fprintf(out, "libpgas %s\n", PGAS_VERSION_TEXT);
    fprintf(out, "build: %s, compiler %s%s\n", pgasi_boot_mpi_text(), __VERSION__,
#ifdef PGAS_DEBUG
            PGAS_DEBUG ? ", debug" : ""
#else
            ""
#endif
    );
    if (pgasi_running)
        fprintf(out, "job: rank %d of %d, node %d of %d, %d ranks on this node, %d CPUs for %d ranks of this host%s\n",
                pgasi_boot.rank, pgasi_boot.n_ranks, pgasi_boot.node, pgasi_boot.n_nodes, pgasi_boot.node_size,
                pgasi_boot.host_cpus, pgasi_boot.host_ranks,
                pgasi_boot.oversubscribed ? " (oversubscribed: waits yield at once)" : "");
    print_transports(out);
    if (pgasi_running)
        fprintf(out, "heap: %s, pages of %zu bytes\n", pgasi_heap_from_transport ? "from the transport" : "from memfd",
                pgasi_heap_page_bytes);
    fprintf(out, "wake-ups: %s\n", pgasi_wait_light_is_fence ? "fences (no membarrier here)" : "membarrier");
    print_progress_rule(out);
    if (pgasi_running)
        pgasi_account_print(out);
    fprintf(out, "parameters:\n");
    pgasi_param_print(out);
    return ferror(out) ? PGAS_ERR_IO : PGAS_OK;
}

pgas_status_t pgas_stats_print(FILE *out)
{
    if (!out)
        return PGAS_ERR_INVALID;
    if (!pgasi_running)
        return PGAS_ERR_NOT_INIT;
    pgasi_outbox_stats_t sum;
    memset(&sum, 0, sizeof sum);
    for (int i = 0; i < pgasi_n_lanes; i++) {
        if (!pgasi_lanes[i] || !pgasi_lanes[i]->outbox)
            continue;
        const pgasi_outbox_stats_t *s = pgasi_outbox_stats(pgasi_lanes[i]->outbox);
        for (size_t k = 0; k < PGASI_ARRAY_LENGTH(sum.published); k++)
            sum.published[k] += s->published[k];
        sum.n_far += s->n_far;
        sum.n_full += s->n_full;
        sum.n_queued += s->n_queued;
        sum.backlog_high = PGASI_MAX(sum.backlog_high, s->backlog_high);
    }
    fprintf(out,
            "pgas stats, rank %d: sent %" PRIu64 " bytes of calls; batches: full %" PRIu64
            ", flushed %" PRIu64 ", for order %" PRIu64 ", behind handlers %" PRIu64 "; messages between nodes %" PRIu64
            "; peer full %" PRIu64 " times, batches that waited %" PRIu64 ", at most %" PRIu64 " bytes at once; ran %" PRIu64
            " calls from the node, %" PRIu64 " bytes from elsewhere; dropped %" PRIu64 "; service rounds %" PRIu64
            ", sleeps %" PRIu64 "\n",
            pgasi_boot.rank, pgasi_outboxes_sent(), sum.published[PGASI_PUBLISH_FULL],
            sum.published[PGASI_PUBLISH_EXPLICIT], sum.published[PGASI_PUBLISH_ORDER], sum.published[PGASI_PUBLISH_DRAINED],
            sum.n_far, sum.n_full, sum.n_queued, sum.backlog_high, pgasi_inbox_n_calls(), pgasi_far_consumed,
            pgasi_n_dropped, pgasi_service_stats.rounds, pgasi_service_stats.wakeups);
    return ferror(out) ? PGAS_ERR_IO : PGAS_OK;
}
