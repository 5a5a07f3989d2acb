/* Several devices of a rank, over the ops table.
 *   what:   With several devices in PGAS_VERBS_DEVICE connections take them in turn, and each
 *           carries requests. Allocated and registered memory, messages and atomics work on all of
 *           them. A far device is used only if no near one can be. After a failure of a device new
 *           connections use the others. A rank uses a device only if the peer has it, too.
 *   np:     1 3 4
 *   env:    PGAS_VERBS_DEVICE=snic,snic | PGAS_VERBS_DEVICE=snic,snic,snic
 *   log:    but the rank is alive
 *   log:    has failed: new connections use the other devices
 *   source: verbs_backend/transport/rails.c */
#include <stdlib.h>
#include <string.h>
#include "t/backend/world.h"
#include "verbs_backend/transport/inside.h"

#define BYTES (1 << 20)

static int n_arrived;

static bool on_message(void *arg, const pgasi_tp_am_t *am)
{
    (void)arg;
    n_arrived += am->header_bytes == 8 && world_matches(am->data, 77, 0, am->data_bytes);
    return false;
}

/* Each context moves data to and from each rank, by all paths. */
static bool moves(int ctx, int peer, char *data, char *back)
{
    uint64_t seed = 100 + (uint64_t)(ctx * 100 + world.rank), old = 0, word = 0;
    size_t at = (size_t)(ctx * world.size + world.rank) * 65536, sum_at = BYTES;
    bool good = true;
    for (size_t bytes = 8; bytes <= 65536; bytes *= 8) { /* inline, bounced, in place */
        world_fill(data, seed, 0, bytes);
        memset(back, 0, bytes);
        good = good && world_put(ctx, peer, at, data, bytes) == PGAS_OK &&
               world_flush(ctx, peer) == PGAS_OK &&
               world_get(ctx, peer, at, back, bytes) == PGAS_OK &&
               world_matches(back, seed, 0, bytes);
    }
    good = good && world_amo(ctx, peer, sum_at, PGASI_AMO_ADD, 8, 1, 0, &old) == PGAS_OK &&
           world_amo(ctx, peer, sum_at + 8, PGASI_AMO_XOR, 8,
                     (uint64_t)1 << (ctx * 16 + world.rank), 0, &word) == PGAS_OK;
    world_fill(data, 77, 0, 5000);
    return good && world_am(ctx, peer, "8 bytes", 8, data, 5000) == PGAS_OK;
}

static void all_carry(bool registered)
{
    char *data = malloc(65536), *back = malloc(65536);
    n_arrived = 0;
    world_open(&(world_opts_t){
        .heap_bytes = BYTES + 4096, .n_ctxs = 2, .am_fn = on_message, .registered = registered });
    memset(world.heap, 0, BYTES + 4096);
    world_barrier();
    bool good = data && back;
    for (int ctx = 0; ctx < 2; ctx++)
        for (int peer = 0; peer < world.size; peer++)
            good = good && moves(ctx, peer, data, back);
    for (int ctx = 0; ctx < 2; ctx++)
        world_flush(ctx, PGASI_TP_ALL_PEERS);
    while (n_arrived < 2 * world.size)
        world_progress();
    world_barrier();
    uint64_t sum, bits;
    memcpy(&sum, world.heap + BYTES, 8);
    memcpy(&bits, world.heap + BYTES + 8, 8);
    spmd_ok(good, "%s memory: puts, gets, atomics and messages on all devices",
            registered ? "registered" : "allocated");
    spmd_ok(sum == 2 * (uint64_t)world.size && __builtin_popcountll(bits) == 2 * world.size,
            "atomics on one word through several devices");

    int widest = 0;
    for (int ctx = 0; ctx < 2; ctx++) {
        const pgasi_verbs_ctx_t *c = pgasi_verbs_ctx_of(world.ctxs[ctx]);
        int n_of[PGASI_VERBS_RAILS_MAX] = { 0 }, least = world.size, most = 0;
        for (int peer = 0; peer < world.size; peer++)
            n_of[c->eps[peer]->rail] += c->eps[peer]->posted > 0;
        for (int i = 0; i < c->tp->n_rails; i++) {
            least = PGASI_MIN(least, n_of[i]);
            most = PGASI_MAX(most, n_of[i]);
        }
        widest = PGASI_MAX(widest, most - least);
    }
    spmd_ok(widest <= 1, "connections of a context take the devices in turn");
    world_close();
    free(data);
    free(back);
}

static bool is_refusing;
static const pgasi_verbs_ops_t *true_ops;

static pgas_status_t write_or_refuse(pgas_verbs_qp_t *qp, const pgas_verbs_request_t *request,
                                     uint32_t flags, uint64_t id)
{
    return is_refusing ? PGAS_ERR_TRANSPORT : true_ops->qp_write_one(qp, request, flags, id);
}

static bool never(void *arg, int rank)
{
    (void)arg, (void)rank;
    return false;
}

static pgas_status_t move_word(int ctx, int peer)
{
    const uint64_t word = 5;
    pgas_status_t status = world_put(ctx, peer, 0, &word, sizeof word);
    return status == PGAS_OK ? world_flush(ctx, peer) : status;
}

/* Device 1 of rank 0 refuses all requests from some moment on. */
static void one_fails(void)
{
    static pgasi_verbs_ops_t ops;
    world_open(&(world_opts_t){ .heap_bytes = 4096, .n_ctxs = 2, .suspect_fn = never });
    pgasi_verbs_tp_t *tp = pgasi_verbs_tp_of(world.tp);
    bool before = true, of_failed = true, of_others = true, later = true;
    if (world.rank == 0) {
        true_ops = tp->rails[1].dev->ops;
        ops = *true_ops;
        ops.qp_write_one = write_or_refuse;
        tp->rails[1].dev->ops = &ops;
        for (int peer = 0; peer < world.size; peer++)
            before = before && move_word(0, peer) == PGAS_OK;
        const pgasi_verbs_ctx_t *ctx = pgasi_verbs_ctx_of(world.ctxs[0]);
        before = before && ctx->eps[1]->rail == 1;
        is_refusing = true;
        of_failed = move_word(0, 1) == PGAS_ERR_TRANSPORT && move_word(0, 1) == PGAS_ERR_TRANSPORT;
        of_others = move_word(0, 0) == PGAS_OK;
        later = move_word(1, 0) == PGAS_OK && move_word(1, 2) == PGAS_OK &&
                pgasi_verbs_ctx_of(world.ctxs[1])->eps[0]->rail != 1 &&
                pgasi_verbs_ctx_of(world.ctxs[1])->eps[2]->rail != 1;
    }
    world_barrier();
    spmd_ok(before && of_failed, "operations on a device that fails end with a status");
    spmd_ok(of_others, "those on other devices continue");
    spmd_ok(later, "new connections avoid the failed device");
    is_refusing = false;
    if (world.rank == 0)
        tp->rails[1].dev->ops = true_ops;
    world_close();
}

/* The rule alone, on a context that is made up. */
static void rule_holds(void)
{
    static pgas_verbs_dev_t dev;
    static pgasi_verbs_tp_t made_up;
    static pgasi_verbs_ctx_t context = { .tp = &made_up };
    pgasi_verbs_tp_t *tp = &made_up;
    pgasi_verbs_ctx_t *ctx = &context;
    pgasi_verbs_tp_address_t peer = { .rails = 0xf };
    bool good = true;
    tp->n_rails = 4;
    tp->address.rails = 0xf;
    for (int i = 0; i < 4; i++)
        tp->rails[i] = (pgasi_verbs_rail_t){ .dev = &dev, .is_active = true, .is_near = i >= 2 };
    for (int i = 0; i < 8; i++)
        good = good && pgasi_verbs_rail_choose(ctx, &peer) == 2 + i % 2;
    spmd_ok(good, "near devices take connections in turn, far ones none");
    peer.rails = 0xb;
    for (int i = 0; i < 4; i++)
        good = good && pgasi_verbs_rail_choose(ctx, &peer) == 3;
    spmd_ok(good, "a device that the peer does not have is not used");
    peer.rails = 0xf;
    pgasi_verbs_rail_failed(tp, 3);
    for (int i = 0; i < 4; i++)
        good = good && pgasi_verbs_rail_choose(ctx, &peer) == 2;
    pgasi_verbs_rail_failed(tp, 2);
    ctx->turn = 0;
    for (int i = 0; i < 4; i++)
        good = good && pgasi_verbs_rail_choose(ctx, &peer) == i % 2;
    spmd_ok(good, "after failures the others are used, far ones at last");
    peer.rails = 0;
    spmd_ok(pgasi_verbs_rail_choose(ctx, &peer) == -1, "without a common device there is none");
}

int main(int argc, char **argv)
{
    setenv("PGAS_TEST_TRANSPORT", "verbs", 1);
    spmd_begin(&argc, &argv, MPI_THREAD_SINGLE);
    int size;
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    spmd_plan(size >= 3 ? 13 : 10);
    all_carry(false);
    all_carry(true);
    rule_holds();
    if (size >= 3)
        one_fails();
    return spmd_end();
}
