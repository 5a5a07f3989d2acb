/* what:   WAIT and ENABLE work on queues of the program's own through the stock libmlx5, with
 *         managed queues whose entries are rewritten until they run.
 * env:    SHIM_ADVERSARY=0 | SHIM_ADVERSARY=7
 * log:    has no WAIT and ENABLE
 * source: pgas/verbs.h; cross-channel queues as DPDK, DOCA and RedN use them */
#include "config.h"
#include "t/queue_pairs.h"

#include "t/tap.h"

#ifndef PGAS_HAVE_MLX5DV
int main(void)
{
    skip_all("built without libmlx5");
}
#else
#include "t/shim/pair.h"
#include "t/shim/under.h"
#include "verbs_backend/queue/raw.h"

enum {
    N_OF_EACH = 18,
    ADDR_AT = 16 + 16 + 8 /* of a write's entry: control, remote address, then length and key */
};

static const char *label;

/* A pair, a master that is connected with itself, and a managed queue that is, too. All send
 * completions but the pair's go to cq. */
typedef struct {
    pair_t pair;
    pgas_verbs_qp_t *master, *managed;
    pgas_verbs_cq_t *cq;
} chain_t;

static pgas_verbs_qp_t *open_self(chain_t *chain, uint32_t flags)
{
    pgas_verbs_qp_opts_t opts = PGAS_VERBS_QP_OPTS_INIT;
    pgas_verbs_qp_t *qp = NULL;
    opts.send_cq = opts.recv_cq = chain->cq;
    opts.flags = flags;
    must(pgas_verbs_qp_create(chain->pair.dev, &opts, &qp), "queue pair of a chain");
    connect_qps(qp, qp);
    return qp;
}

static void open_chain(chain_t *chain, const char *device)
{
    open_pair(&chain->pair, device, 0);
    must(pgas_verbs_cq_create(chain->pair.dev, 64, 0, &chain->cq), "completion queue");
    chain->master = open_self(chain, PGAS_VERBS_QP_MASTER);
    chain->managed = open_self(chain, PGAS_VERBS_QP_MANAGED_SEND | PGAS_VERBS_QP_REMOTE_SLOTS);
}

static void close_chain(chain_t *chain)
{
    pgas_verbs_qp_destroy(chain->master);
    pgas_verbs_qp_destroy(chain->managed);
    pgas_verbs_cq_destroy(chain->cq);
    close_pair(&chain->pair);
}

static pgas_verbs_completion_t wait_chain(chain_t *chain)
{
    pgas_verbs_completion_t completion;
    must(pgas_verbs_cq_wait(chain->cq, 20000000), "waiting for a chain");
    if (pgas_verbs_cq_poll(chain->cq, &completion, 1) != 1)
        bail("no completion after waiting for one");
    return completion;
}

/* When a write of the pair's has come back that was posted now, the card has checked everything
 * rung before, twice. */
static void pass_time(chain_t *chain)
{
    for (int k = 0; k < 3; k++) {
        pgas_verbs_request_t r = request(&chain->pair, PGAS_VERBS_WRITE, 60000, 8, 61000);
        post(&chain->pair, 0, &r);
        wait_one(&chain->pair, 0);
    }
}

static void enable(chain_t *chain, pgas_verbs_op_t op, pgas_verbs_qp_t *qp, uint32_t position)
{
    pgas_verbs_request_t r = { .op = op, .qp = qp, .index = position };
    must(pgas_verbs_qp_post(chain->master, &r, 1, NULL), "ENABLE");
}

/* Two entries of a queue: the first writes 8 bytes over where the second finds its data, which was
 * written to copy "WRONG".
 * @return the position between them */
static uint32_t post_rewriting(pair_t *pair, pgas_verbs_qp_t *qp)
{
    pgas_verbs_mem_t slots = { 0 };
    uint32_t slot_bytes = 0;
    memset(pair->bytes, 0, BYTES);
    strcpy((char *)pair->bytes + 1024, "WRONG");
    strcpy((char *)pair->bytes + 2048, "right");
    must(qp_slots(qp, &slots, &slot_bytes), "where the ring is");
    uint64_t there = htobe64((uint64_t)(uintptr_t)(pair->bytes + 2048));
    memcpy(pair->bytes, &there, sizeof there);

    uint32_t at = pgas_verbs_qp_position(qp) + 1; /* the first takes one block */
    pgas_verbs_span_t from = span(pair, 0, 8);
    pgas_verbs_request_t rs[2] = { request(pair, PGAS_VERBS_WRITE, 0, 8, 0),
                                   request(pair, PGAS_VERBS_WRITE, 1024, 8, 4096) };
    rs[0].spans = &from;
    rs[0].remote_addr =
        (uint64_t)(uintptr_t)slots.addr + at % (slots.bytes / slot_bytes) * slot_bytes + ADDR_AT;
    rs[0].rkey = slots.rkey;
    rs[1].id = 2;
    must(pgas_verbs_qp_post(qp, rs, 2, NULL), "two entries");
    return at;
}

static void test_rewritten(chain_t *chain)
{
    pair_t *pair = &chain->pair;
    pgas_verbs_completion_t none;
    uint32_t at = post_rewriting(pair, chain->managed);
    pass_time(chain);
    ok(is_filled(pair, 4096, 8, 0) && pgas_verbs_cq_poll(chain->cq, &none, 1) == 0,
       "%s: ringing a managed queue runs nothing", label);
    enable(chain, PGAS_VERBS_SEND_ENABLE, chain->managed, at);
    is_int(wait_chain(chain).status, PGAS_OK, "%s: the first is enabled and runs", label);
    pass_time(chain);
    ok(is_filled(pair, 4096, 8, 0), "%s: the second is not, and does not", label);
    enable(chain, PGAS_VERBS_SEND_ENABLE, chain->managed, pgas_verbs_qp_position(chain->managed));
    pgas_verbs_completion_t got = wait_chain(chain);
    ok(got.status == PGAS_OK && got.id == 2, "%s: the second is enabled and runs", label);
    is_str((char *)pair->bytes + 4096, "right", "%s: as the first has rewritten it", label);
}

/* The same without ENABLE must come out wrong where the card reads ahead: else nothing would be
 * shown above. */
static void test_read_ahead(chain_t *chain)
{
    const char *adversary = getenv("SHIM_ADVERSARY");
    bool ahead = adversary && strtoul(adversary, NULL, 0) & PGAS_VERBS_SNIC_PREFETCH;
    pgas_verbs_qp_t *qp = open_self(chain, PGAS_VERBS_QP_REMOTE_SLOTS);
    post_rewriting(&chain->pair, qp);
    wait_chain(chain);
    wait_chain(chain);
    is_str((char *)chain->pair.bytes + 4096, ahead ? "WRONG" : "right",
           "%s: entries that are not managed are %s", label,
           ahead ? "read at the doorbell" : "read when their turn comes");
    pgas_verbs_qp_destroy(qp);
}

/* The chain is posted; a message makes it run, without a thread of this program. */
static void test_wait(chain_t *chain, uint32_t n_received)
{
    pair_t *pair = &chain->pair;
    pgas_verbs_completion_t none;
    memset(pair->bytes, 0, BYTES);
    strcpy((char *)pair->bytes + 1024, "forward");
    pgas_verbs_span_t to = span(pair, 8192, 64);
    pgas_verbs_recv_t recv = { .id = 3, .spans = &to, .n_spans = 1 };
    must(pgas_verbs_qp_recv(pair->qps[1], &recv, 1, NULL), "receive buffer");
    pgas_verbs_request_t copy = request(pair, PGAS_VERBS_WRITE, 1024, 8, 4096);
    must(pgas_verbs_qp_post(chain->managed, &copy, 1, NULL), "the entry");
    pgas_verbs_request_t rs[2] = {
        { .op = PGAS_VERBS_WAIT, .cq = pair->cqs[1], .index = n_received },
        { .op = PGAS_VERBS_SEND_ENABLE,
          .qp = chain->managed,
          .index = pgas_verbs_qp_position(chain->managed) },
    };
    must(pgas_verbs_qp_post(chain->master, rs, 2, NULL), "WAIT and ENABLE");
    pass_time(chain);
    ok(is_filled(pair, 4096, 8, 0) && pgas_verbs_cq_poll(chain->cq, &none, 1) == 0,
       "%s: WAIT waits", label);
    pgas_verbs_request_t send = request(pair, PGAS_VERBS_SEND, 1024, 8, 0);
    post(pair, 0, &send);
    is_int(wait_chain(chain).status, PGAS_OK, "%s: until the message is there", label);
    is_str((char *)pair->bytes + 4096, "forward", "%s: then the managed queue runs", label);
    wait_one(pair, 0);
    wait_one(pair, 1);
}

/* Two messages, one buffer allowed. */
static void test_managed_receive(chain_t *chain)
{
    pair_t *pair = &chain->pair, ends = *pair;
    pgas_verbs_completion_t none;
    ends.qps[0] = open_qp(pair, 0, 0, 0);
    ends.qps[1] = open_qp(pair, 1, PGAS_VERBS_QP_MANAGED_RECV, 0);
    connect_qps(ends.qps[0], ends.qps[1]);
    pgas_verbs_span_t to = span(pair, 8192, 64);
    pgas_verbs_recv_t recvs[2] = { { .id = 1, .spans = &to, .n_spans = 1 },
                                   { .id = 2, .spans = &to, .n_spans = 1 } };
    must(pgas_verbs_qp_recv(ends.qps[1], recvs, 2, NULL), "receive buffers");
    pgas_verbs_request_t send = request(&ends, PGAS_VERBS_SEND, 0, 8, 0);
    post(&ends, 0, &send);
    post(&ends, 0, &send);
    pass_time(chain);
    is_int(pgas_verbs_cq_poll(pair->cqs[1], &none, 1), 0,
           "%s: buffers of a managed queue are not used", label);
    enable(chain, PGAS_VERBS_RECV_ENABLE, ends.qps[1], 1);
    is_int(wait_one(&ends, 1).id, 1, "%s: until one is enabled", label);
    wait_one(&ends, 0);
    pass_time(chain);
    is_int(pgas_verbs_cq_poll(pair->cqs[1], &none, 1), 0, "%s: and no other", label);
    enable(chain, PGAS_VERBS_RECV_ENABLE, ends.qps[1], 2);
    is_int(wait_one(&ends, 1).id, 2, "%s: until that is", label);
    wait_one(&ends, 0);
    pgas_verbs_qp_destroy(ends.qps[0]);
    pgas_verbs_qp_destroy(ends.qps[1]);
}

/* A card lets a managed queue run when its doorbell is rung, which is why the provider does not:
 * here the test does, by the means of another queue pair. That the promises above can fail is shown
 * so, too. */
static void test_rung_by_hand(chain_t *chain)
{
    pair_t *pair = &chain->pair;
    memset(pair->bytes, 0, BYTES);
    strcpy((char *)pair->bytes + 1024, "rung");
    pgas_verbs_request_t copy = request(pair, PGAS_VERBS_WRITE, 1024, 8, 4096);
    must(pgas_verbs_qp_post(chain->managed, &copy, 1, NULL), "the entry");
    pgasi_raw_qp_t *managed = (pgasi_raw_qp_t *)(void *)chain->managed;
    const pgasi_raw_qp_t *other = (const pgasi_raw_qp_t *)(const void *)pair->qps[0];
    other->ring_doorbell(managed);
    is_int(wait_chain(chain).status, PGAS_OK, "%s: a doorbell runs a managed queue", label);
    is_str((char *)pair->bytes + 4096, "rung", "%s: as it stands", label);
}

static void test_device(const char *device)
{
    chain_t chain;
    label = device;
    open_chain(&chain, device);
    test_rewritten(&chain);
    test_read_ahead(&chain);
    test_wait(&chain, 0);
    test_managed_receive(&chain);
    test_wait(&chain, 3);
    test_rung_by_hand(&chain);
    close_chain(&chain);
}

static void test_absent(void)
{
    pair_t pair;
    pgas_verbs_info_t info = { .size = sizeof info };
    static const uint32_t flags[] = { PGAS_VERBS_QP_MASTER, PGAS_VERBS_QP_MANAGED_SEND,
                                      PGAS_VERBS_QP_MANAGED_RECV };
    open_pair(&pair, "mlx5_2", 0);
    pgas_verbs_info(pair.dev, &info);
    ok(!info.chains && info.chains_why[0], "a card without the capability says why: %s",
       info.chains_why);
    for (int k = 0; k < 3; k++) {
        pgas_verbs_qp_opts_t opts = PGAS_VERBS_QP_OPTS_INIT;
        pgas_verbs_qp_t *qp;
        opts.send_cq = opts.recv_cq = pair.cqs[0];
        opts.flags = flags[k];
        is_int(pgas_verbs_qp_create(pair.dev, &opts, &qp), PGAS_ERR_UNSUPPORTED,
               "and refuses queue pairs of chains, flag %u", flags[k]);
    }
    pgas_verbs_request_t r = request(&pair, PGAS_VERBS_WRITE, 0, 8, 4096);
    post(&pair, 0, &r);
    is_int(wait_one(&pair, 0).status, PGAS_OK, "but has all the others");
    close_pair(&pair);
}

int main(int argc, char **argv)
{
    (void)argc;
    under_shim(argv);
    plan(2 * N_OF_EACH + 5);
    test_device("mlx5_0");
    test_device("mlx5_1");
    test_absent();
    return done();
}
#endif
