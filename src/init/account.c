/* The account of memory: see account.h. */
#include "init/account.h"

#include <inttypes.h>
#include <string.h>

#include "base/checks.h"
#include "base/log.h"
#include "base/param.h"
#include "bcast/bcast.h"
#include "boot/board.h"
#include "boot/boot.h"
#include "bulk/bulk.h"
#include "call/sync.h"
#include "mem/ctx.h"
#include "mem/rma.h"
#include "mem/segment.h"
#include "msg/channel_memory.h"
#include "msg/recv_queue.h"
#include "msg/send_queue.h"

/* One line of the account. */
typedef struct {
    const char *what, *formula;
    uint64_t bytes;
} item_t;

#define N_ITEMS 18

static uint64_t heap_table_bytes(uint64_t n)
{
    return 2 * PGASI_ALIGN_UP(n * sizeof(uint64_t), 4096);
}

static uint64_t team_bytes(uint64_t n, uint64_t node)
{
    uint64_t boards = node > 1 ? 2 * pgasi_board_bytes(1) : 0;
    return boards + (n > node ? 3 * (PGASI_TEAM_CHUNK + n * sizeof(uint64_t)) : 0);
}

static void account(item_t items[N_ITEMS])
{
    uint64_t n = (uint64_t)pgasi_boot.n_ranks, node = (uint64_t)pgasi_boot.node_size,
             far = n - node;
    uint64_t ctxs = PGASI_CTX_FIRST_OWN + (uint64_t)pgasi_param.ctxs;
    pgasi_tp_attr_t attr;
    pgasi_recvq_size_t recvq;
    memset(&attr, 0, sizeof attr);
    if (pgasi_tp)
        pgasi_tp->ops->query(pgasi_tp, &attr);
    memset(&recvq, 0, sizeof recvq);
    (void)pgasi_recvq_size_here(&recvq); /* if it is too large, pgasi_recvqs_start refuses it */
    uint64_t tables = n * sizeof(pgasi_ctx_peer_t) + pgasi_sendq_table_bytes(n);
    item_t all[N_ITEMS] = {
        { "addresses of peers", "ranks x 256 B (0 on one node)", far ? n * 256 : 0 },
        { "channels into this rank",
          "64 KiB + ranks of node x contexts x endpoints x 64 B + chunks within PGAS_CHUNK_MEMORY",
          recvq.bytes },
        { "channels from other nodes", "behind the heap, within PGAS_FAR_CHUNK_MEMORY (0 without)",
          pgasi_chanmem.bytes },
        { "transport contexts", "contexts x bytes of a context (0 on one node)",
          far ? ctxs * attr.ctx_bytes : 0 },
        { "endpoints and keys", "contexts x far ranks x bytes of an endpoint",
          ctxs * far * attr.peer_bytes },
        { "receive buffers", "what the transport reserves for messages (0 on one node)",
          far ? attr.receive_bytes : 0 },
        { "tables of contexts", "contexts x ranks x bytes of a peer", ctxs * tables },
        { "operations under way", "contexts x 1024 x bytes of a record (0 on one node)",
          far ? ctxs * pgasi_nb_bytes() : 0 },
        { "send buffers", "contexts x 64 x the largest batch",
          ctxs * pgasi_sendq_pool_bytes(recvq.chunk_bytes) },
        { "queued calls of handlers", "contexts x PGAS_BACKLOG_LIMIT",
          ctxs * pgasi_param.backlog_limit },
        { "messages for threads",
          "endpoints x PGAS_FAR_QUEUE, and messages under way when it is full (0 on one node)",
          far ? (1 + (uint64_t)pgasi_param.ctxs) * pgasi_param.far_queue : 0 },
        { "calls that are answered", "65536 records x 40 B", pgasi_sync_table_bytes() },
        { "buffers of calls", "2 x PGAS_BUFFER_LIMIT: copied, pulled",
          2 * (uint64_t)pgasi_param.buffer_limit },
        { "open pulls", "256 x bytes of an offer (the buffers of a call)",
          pgasi_offers_table_bytes() },
        { "broadcasts under way", "ranks x 32 x bytes of one", pgasi_bcast_table_bytes(n) },
        { "largest message", "the larger of PGAS_CALL_MAX and PGAS_AGG_SIZE",
          pgasi_far_message_max() },
        { "heap table", "ranks x 16 B, in pages", heap_table_bytes(n) },
        { "collectives",
          "two boards of 256 KiB, between nodes 768 KiB + ranks x 24 B; each team of the program "
          "as much again",
          team_bytes(n, node) },
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
        PGASI_ERROR("memory",
                    "this configuration may need %" PRIu64
                    " bytes on a rank, PGAS_MEMORY_LIMIT=%zu: lower "
                    "PGAS_HEAP_SIZE, PGAS_BUFFER_LIMIT, PGAS_BACKLOG_LIMIT, PGAS_LANES or "
                    "PGAS_CHUNK_MEMORY",
                    worst, pgasi_param.memory_limit);
    return pgasi_boot_agree(too_much ? PGAS_ERR_LIMIT : PGAS_OK);
}

void pgasi_account_print(FILE *out)
{
    item_t items[N_ITEMS];
    account(items);
    fprintf(out, "bytes per rank at most, %d rank%s on %d node%s (unused memory costs nothing):\n",
            pgasi_boot.n_ranks, pgasi_boot.n_ranks == 1 ? "" : "s", pgasi_boot.n_nodes,
            pgasi_boot.n_nodes == 1 ? "" : "s");
    for (int i = 0; i < N_ITEMS; i++)
        fprintf(out, "  %-26s %14" PRIu64 "  %s\n", items[i].what, items[i].bytes,
                items[i].formula);
    fprintf(out, "  %-26s %14" PRIu64 "\n", "sum", pgasi_account_worst());
    fprintf(out, "  %-26s %14zu  PGAS_HEAP_SIZE, for the program\n", "symmetric heap",
            pgasi_param.heap_size);
}
