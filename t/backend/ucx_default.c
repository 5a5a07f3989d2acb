/* The backend's choices without settings of the user.
 *   what:   On real nodes the backend opens no shared-memory transports, contexts are small, and
 *           peers are watched. With peers on the host memory is shared. A wrong PGAS_UCX_TLS is
 *           refused with its name.
 *   np:     2
 *   log:    ucx: error: opening the network failed: .*PGAS_UCX_TLS
 *   source: transport.h, same_host_peers; design.md, data plane */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include "t/backend/world.h"

static int n_arrived;

static bool on_am(void *arg, const pgasi_tp_am_t *am)
{
    (void)arg, (void)am;
    n_arrived++;
    return false;
}

static long resident_kib(void)
{
    long pages = 0, resident = 0;
    FILE *statm = fopen("/proc/self/statm", "r");
    if (!statm || fscanf(statm, "%ld %ld", &pages, &resident) != 2)
        resident = 0;
    if (statm)
        fclose(statm);
    return resident * (sysconf(_SC_PAGESIZE) / 1024);
}

static void exchange(const char *what)
{
    int other = 1 - world.rank;
    uint64_t word = 41, back = 0, old = 0;
    memset(world.heap, 0, 4096);
    n_arrived = 0;
    world_barrier();
    bool good = world_put(0, other, 8, &word, 8) == PGAS_OK && world_flush(0, other) == PGAS_OK &&
                world_amo(1, other, 8, PGASI_AMO_ADD, 8, 1, 0, &old) == PGAS_OK && old == 41 &&
                world_get(1, other, 8, &back, 8) == PGAS_OK && back == 42 &&
                world_am(1, other, "hello", 5, world.heap, 20000) == PGAS_OK;
    while (n_arrived < 1)
        world_progress();
    spmd_ok(good, "%s: put, add, get and send", what);
    world_barrier();
}

static void real_nodes(void)
{
    void *addr;
    pgasi_tp_ctx_t *ctxs[8];
    world_open(&(world_opts_t){ .am_fn = on_am, .real_nodes = true });
    spmd_diag("%s", world.attr.detail);
    spmd_ok((world.attr.caps & PGASI_TP_MEM_ALLOC) == 0 &&
                world.ops->key_map(world.keys[0][1 - world.rank], world.bases[1 - world.rank],
                                   &addr) == PGAS_ERR_UNSUPPORTED,
            "real nodes: no memory is shared");
    exchange("real nodes");
    long before = resident_kib();
    for (int i = 0; i < 8; i++)
        world.ops->ctx_open(world.tp, 10 + i, &ctxs[i]);
    long each = (resident_kib() - before) / 8;
    spmd_ok((size_t)each * 1024 <= world.attr.ctx_bytes,
            "a context takes %ld KiB, no more than announced", each);
    for (int i = 0; i < 8; i++)
        world.ops->ctx_close(ctxs[i]);
    world_close();
}

static void same_host(void)
{
    void *addr;
    world_open(&(world_opts_t){ .am_fn = on_am });
    spmd_diag("%s", world.attr.detail);
    spmd_ok((world.attr.caps & PGASI_TP_MEM_ALLOC) != 0 &&
                world.ops->key_map(world.keys[0][1 - world.rank], world.bases[1 - world.rank],
                                   &addr) == PGAS_OK,
            "peers on the host: memory is shared");
    exchange("peers on the host");
    world_close();
}

static void wrong_name(void)
{
    pgasi_tp_t *tp = NULL;
    pgasi_tp_opts_t opts = { .n_ranks = 1, .am_fn = on_am };
    setenv("PGAS_UCX_TLS", "pigeon", 1);
    spmd_ok(pgasi_tp_find("ucx")->open(&opts, &tp) < 0 && !tp, "an unknown transport is refused");
    unsetenv("PGAS_UCX_TLS");
    opts.am_fn = NULL;
    spmd_ok(pgasi_tp_find("ucx")->open(&opts, &tp) == PGAS_ERR_INVALID && !tp,
            "so are options without a receiver of messages");
}

int main(int argc, char **argv)
{
    unsetenv("PGAS_UCX_TLS");
    unsetenv("UCX_TLS");
    spmd_begin(&argc, &argv, MPI_THREAD_SINGLE);
    spmd_plan(7);
    real_nodes();
    same_host();
    wrong_name();
    return spmd_end();
}
