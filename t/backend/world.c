/* See world.h. */
#include "t/backend/world.h"

#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include "base/checks.h"
#include "base/hash.h"
#include "base/log.h"

world_t world;

static char *addresses; /* of all ranks, in order */
static int *address_at;
static pgasi_tp_mem_t *heap_mem;
static bool heap_is_ours;

static void demand(pgas_status_t status, const char *what)
{
    if (status < 0) {
        printf("Bail out! rank %d: %s: %s\n", world.rank, what, pgas_status_text(status));
        fflush(stdout);
        MPI_Abort(MPI_COMM_WORLD, 99);
    }
}

static bool no_message_expected(void *arg, const pgasi_tp_am_t *am)
{
    (void)arg, (void)am;
    demand(PGAS_ERR_INTERNAL, "a message came that nobody sent");
    return false;
}

static const void *address_of(void *arg, int rank)
{
    (void)arg;
    return addresses + address_at[rank];
}

static void exchange_addresses(void)
{
    const void *mine;
    size_t bytes;
    demand(world.ops->address(world.tp, &mine, &bytes), "address");
    int n = (int)((bytes + 7) / 8 * 8), total = 0;
    int *n_of = calloc((size_t)world.size, sizeof(int));
    address_at = calloc((size_t)world.size, sizeof(int));
    MPI_Allgather(&n, 1, MPI_INT, n_of, 1, MPI_INT, MPI_COMM_WORLD);
    for (int i = 0; i < world.size; i++) {
        address_at[i] = total;
        total += n_of[i];
    }
    addresses = calloc(1, (size_t)total);
    char *padded = calloc(1, (size_t)n);
    memcpy(padded, mine, bytes);
    MPI_Allgatherv(padded, n, MPI_BYTE, addresses, n_of, address_at, MPI_BYTE, MPI_COMM_WORLD);
    free(padded);
    free(n_of);
    demand(world.ops->set_peers(world.tp, address_of, NULL), "set_peers");
}

static void make_heap(const world_opts_t *opts)
{
    void *addr = NULL;
    heap_is_ours = opts->registered || (world.attr.caps & PGASI_TP_MEM_ALLOC) == 0;
    world.heap_bytes = opts->heap_bytes != 0 ? opts->heap_bytes : 1 << 20;
    if (heap_is_ours) {
        addr = mmap(NULL, world.heap_bytes, PROT_READ | PROT_WRITE,
                    MAP_SHARED | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
        demand(addr == MAP_FAILED ? PGAS_ERR_NO_MEMORY : PGAS_OK, "heap");
        demand(world.ops->mem_register(world.tp, addr, world.heap_bytes, &heap_mem),
               "mem_register");
    } else {
        demand(world.ops->mem_alloc(world.tp, world.heap_bytes, &heap_mem, &addr), "mem_alloc");
    }
    world.heap = addr;
}

static void exchange_keys(void)
{
    char mine[PGASI_TP_KEY_MAX] = { 0 };
    size_t bytes = sizeof mine, n = (size_t)world.size;
    uint64_t base = (uint64_t)(uintptr_t)world.heap;
    demand(world.ops->key_pack(world.tp, heap_mem, mine, &bytes), "key_pack");
    world.packed_keys = calloc(n, sizeof mine);
    world.key_bytes = calloc(n, sizeof(size_t));
    world.bases = calloc(n, sizeof(uint64_t));
    MPI_Allgather(mine, sizeof mine, MPI_BYTE, world.packed_keys, sizeof mine, MPI_BYTE,
                  MPI_COMM_WORLD);
    MPI_Allgather(&bytes, sizeof bytes, MPI_BYTE, world.key_bytes, sizeof bytes, MPI_BYTE,
                  MPI_COMM_WORLD);
    MPI_Allgather(&base, sizeof base, MPI_BYTE, world.bases, sizeof base, MPI_BYTE, MPI_COMM_WORLD);
    for (int ctx = 0; ctx < world.n_ctxs; ctx++) {
        world.keys[ctx] = calloc(n, sizeof(pgasi_tp_key_t *));
        for (int i = 0; i < world.size; i++) {
            demand(world.ops->key_unpack(world.ctxs[ctx], i,
                                         world.packed_keys + (size_t)i * PGASI_TP_KEY_MAX,
                                         world.key_bytes[i], &world.keys[ctx][i]),
                   "key_unpack");
        }
    }
}

static void choose_table(void)
{
    char why[256] = "";
    const char *fault = getenv("PGAS_TEST_FAULT"), *name = getenv("PGAS_TEST_TRANSPORT");
    name = name != NULL ? name : "ucx";
    world.ops = pgasi_tp_find(name);
    if (!world.ops) {
        snprintf(why, sizeof why, "PGAS_TEST_TRANSPORT=%s is not in this build", name);
    } else if (fault) {
        world.ops = pgasi_tp_fault_wrap(world.ops, fault, spmd_seed(7) + (uint64_t)world.rank, why,
                                        sizeof why);
    }
    if (!world.ops) {
        fprintf(stderr, "%s\n", why);
        demand(PGAS_ERR_NOT_FOUND, "transport");
    }
}

void world_open(const world_opts_t *opts)
{
    char why[256];
    world.rank = spmd_rank();
    world.size = spmd_size();
    world.n_ctxs = opts->n_ctxs != 0 ? opts->n_ctxs : 2;
    pgasi_log_setup("warn", world.rank, world.size, why, sizeof why);
    choose_table();
    pgasi_tp_opts_t tp_opts = {
        .rank = world.rank,
        .n_ranks = PGASI_MAX(world.size, opts->job_ranks),
        .same_host_peers = !opts->real_nodes,
        .am_data_max = opts->am_data_max != 0 ? opts->am_data_max : 16 << 20,
        .am_fn = opts->am_fn != NULL ? opts->am_fn : no_message_expected,
        .error_fn = opts->error_fn,
        .suspect_fn = opts->suspect_fn,
    };
    demand(world.ops->open(&tp_opts, &world.tp), "open");
    world.ops->query(world.tp, &world.attr);
    for (int i = 0; i < world.n_ctxs; i++)
        demand(world.ops->ctx_open(world.tp, i, &world.ctxs[i]), "ctx_open");
    exchange_addresses();
    make_heap(opts);
    exchange_keys();
    spmd_progress(world_progress);
    world_barrier();
}

void world_close(void)
{
    world_barrier();
    for (int ctx = 0; ctx < world.n_ctxs; ctx++) {
        for (int i = 0; i < world.size; i++)
            world.ops->key_release(world.keys[ctx][i]);
        free(world.keys[ctx]);
    }
    world_barrier();
    spmd_progress(NULL);
    for (int ctx = world.n_ctxs - 1; ctx >= 0; ctx--)
        world.ops->ctx_close(world.ctxs[ctx]);
    MPI_Barrier(MPI_COMM_WORLD);
    world.ops->mem_release(world.tp, heap_mem);
    if (heap_is_ours)
        munmap(world.heap, world.heap_bytes);
    world.ops->close(world.tp);
    free(addresses);
    free(address_at);
    free(world.packed_keys);
    free(world.key_bytes);
    free(world.bases);
    memset(&world, 0, sizeof world);
}

static void completed(pgasi_tp_comp_t *self, pgas_status_t status)
{
    pending_t *pending = (pending_t *)(void *)self;
    demand(pending->done ? PGAS_ERR_INTERNAL : PGAS_OK, "completed twice");
    pending->done = true;
    pending->status = status;
}

pgasi_tp_comp_t *world_pending(pending_t *pending)
{
    *pending = (pending_t){ .super.fn = completed };
    return &pending->super;
}

void world_progress(void)
{
    static int n_idle;
    int n = 0;
    for (int i = 0; i < world.n_ctxs; i++)
        n += world.ctxs[i]->ops->progress(world.ctxs[i]);
    n_idle = n > 0 ? 0 : n_idle + 1;
    if (n_idle > 50) /* there may be more ranks than cores */
        sched_yield();
}

pgas_status_t world_wait(pgas_status_t status, pending_t *pending)
{
    if (status != PGAS_INPROGRESS) {
        demand(pending->done ? PGAS_ERR_INTERNAL : PGAS_OK,
               "completed although it said it was complete");
        return status;
    }
    while (!pending->done)
        world_progress();
    return pending->status;
}

/* Repeats an operation while it is refused, then waits for it. */
#define UNTIL_DONE(call)                                 \
    do {                                                 \
        pending_t pending;                               \
        pgasi_tp_comp_t *comp = world_pending(&pending); \
        pgas_status_t status;                            \
        while ((status = (call)) == PGAS_ERR_AGAIN)      \
            world_progress();                            \
        return world_wait(status, &pending);             \
    } while (0)

pgas_status_t world_put(int ctx, int peer, size_t offset, const void *src, size_t bytes)
{
    UNTIL_DONE(world.ctxs[ctx]->ops->put(world.ctxs[ctx], peer, world.keys[ctx][peer],
                                         world.bases[peer] + offset, src, bytes, comp));
}

pgas_status_t world_get(int ctx, int peer, size_t offset, void *dst, size_t bytes)
{
    UNTIL_DONE(world.ctxs[ctx]->ops->get(world.ctxs[ctx], peer, world.keys[ctx][peer],
                                         world.bases[peer] + offset, dst, bytes, comp));
}

pgas_status_t world_amo(int ctx, int peer, size_t offset, pgasi_amo_t op, size_t bytes,
                        uint64_t operand, uint64_t compare, void *result)
{
    UNTIL_DONE(world.ctxs[ctx]->ops->amo(world.ctxs[ctx], peer, world.keys[ctx][peer],
                                         world.bases[peer] + offset, op, bytes, operand, compare,
                                         result, comp));
}

pgas_status_t world_am(int ctx, int peer, const void *header, size_t header_bytes, const void *data,
                       size_t bytes)
{
    UNTIL_DONE(
        world.ctxs[ctx]->ops->am(world.ctxs[ctx], peer, header, header_bytes, data, bytes, comp));
}

pgas_status_t world_flush(int ctx, int peer)
{
    UNTIL_DONE(world.ctxs[ctx]->ops->flush(world.ctxs[ctx], peer, comp));
}

pgas_status_t world_fence(int ctx)
{
    pgas_status_t status;
    while ((status = world.ctxs[ctx]->ops->fence(world.ctxs[ctx])) == PGAS_ERR_AGAIN)
        world_progress();
    return status;
}

void world_barrier(void)
{
    MPI_Request request;
    int done = 0;
    MPI_Ibarrier(MPI_COMM_WORLD, &request);
    while (!done) {
        world_progress();
        MPI_Test(&request, &done, MPI_STATUS_IGNORE);
    }
}

/* The eight bytes from a place that is a multiple of eight. */
static uint64_t word_at(uint64_t seed, size_t at)
{
    return pgasi_hash_u64(seed * 77777 + at / 8);
}

void world_fill(void *to, uint64_t seed, size_t from, size_t bytes)
{
    char *at = to;
    while (bytes > 0) {
        uint64_t word = word_at(seed, from);
        size_t skip = from % 8, n = PGASI_MIN(8 - skip, bytes);
        memcpy(at, (const char *)&word + skip, n);
        at += n;
        from += n;
        bytes -= n;
    }
}

bool world_matches(const void *data, uint64_t seed, size_t from, size_t bytes)
{
    const char *at = data;
    while (bytes > 0) {
        uint64_t word = word_at(seed, from);
        size_t skip = from % 8, n = PGASI_MIN(8 - skip, bytes);
        if (memcmp(at, (const char *)&word + skip, n) != 0)
            return false;
        at += n;
        from += n;
        bytes -= n;
    }
    return true;
}
