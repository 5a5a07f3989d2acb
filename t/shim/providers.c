/* what:   The providers verbs and mlx5 carry every operation through the stock libibverbs and
 *         libmlx5, over InfiniBand and RoCE.
 * env:    SHIM_ADVERSARY=0 | SHIM_ADVERSARY=7
 * log:    the peer's Ethernet address is not found
 * log:    has no GID with index 4
 * source: pgas/verbs.h; t/shim/sysfs.sh for the cards */
#include "config.h"

#include "t/tap.h"

#ifndef PGAS_HAVE_MLX5DV
int main(void)
{
    skip_all("built without libmlx5");
}
#else
#include <poll.h>
#include <sched.h>
#include "base/clock.h"
#include "t/queue_pairs.h"
#include "t/shim/pair.h"
#include "t/shim/under.h"
#include "verbs_backend/queue/gid.h" /* device.h, too */

enum { N_OF_EACH = 44, MANY = 100000, EACH = 32 };

static const char *label; /* the device's name, before each promise's */

static void test_info(pair_t *pair, bool roce, bool mlx5)
{
    pgas_verbs_info_t info = { .size = sizeof info };
    pgas_verbs_info(pair->dev, &info);
    is_str(info.link, roce ? "RoCE v2" : "InfiniBand", "%s: the link", label);
    is_int(info.gid_index, roce ? 3 : -1,
           "%s: of RoCE's GIDs that of version 2 with an IPv4 address, of InfiniBand's none",
           label);
    is_int(info.lid, roce ? 0 : 17, "%s: the LID", label);
    is_int(info.chains, mlx5, "%s: chains with our own queues alone", label);
    is_str(info.provider, mlx5 ? "mlx5" : "verbs", "%s: the provider", label);
}

static void test_write_read(pair_t *pair)
{
    fill(pair, 0, 4096, 1);
    memset(pair->bytes + 8192, 0, 8192);
    pgas_verbs_request_t write = request(pair, PGAS_VERBS_WRITE, 0, 4096, 8192);
    write.id = 77;
    post(pair, 0, &write);
    pgas_verbs_completion_t got = wait_one(pair, 0);
    ok(got.status == PGAS_OK && got.id == 77 && got.qp == pair->qps[0] &&
           got.op == PGAS_VERBS_WRITE,
       "%s: a write completes", label);
    ok(!memcmp(pair->bytes, pair->bytes + 8192, 4096), "%s: its bytes have arrived", label);
    ok(is_filled(pair, 12288, 4096, 0), "%s: and none after them", label);

    fill(pair, 0, 4096, 2);
    pgas_verbs_request_t read = request(pair, PGAS_VERBS_READ, 16384, 4096, 0);
    post(pair, 0, &read);
    got = wait_one(pair, 0);
    ok(got.status == PGAS_OK && got.op == PGAS_VERBS_READ, "%s: a read completes", label);
    ok(!memcmp(pair->bytes, pair->bytes + 16384, 4096), "%s: its result is here", label);
}

static void test_lists(pair_t *pair)
{
    pgas_verbs_span_t spans[5];
    unsigned char want[5 * 100];
    fill(pair, 0, 4096, 3);
    for (uint32_t k = 0; k < 5; k++) {
        spans[k] = span(pair, 700 * k, 20 * (k + 1));
        memcpy(want + 10 * k * (k + 1), pair->bytes + 700 * k, 20 * (k + 1));
    }
    pgas_verbs_request_t r = request(pair, PGAS_VERBS_WRITE, 0, 0, 8192);
    r.spans = spans;
    r.n_spans = 5;
    post(pair, 0, &r);
    ok(wait_one(pair, 0).status == PGAS_OK && !memcmp(pair->bytes + 8192, want, 300),
       "%s: five pieces are gathered", label);
    memset(pair->bytes, 0, 4096);
    r.op = PGAS_VERBS_READ;
    post(pair, 0, &r);
    bool same = wait_one(pair, 0).status == PGAS_OK;
    for (uint32_t k = 0; k < 5; k++)
        same = same && !memcmp(want + 10 * k * (k + 1), pair->bytes + 700 * k, 20 * (k + 1));
    ok(same, "%s: and scattered", label);
}

/* Entries of two blocks and of one in turn, more than the ring has: some go around its end. */
static void test_inline(pair_t *pair)
{
    char text[61] = "";
    bool good = true;
    memset(pair->bytes, 0, BYTES);
    for (uint32_t k = 0; k < 700; k++) {
        uint32_t bytes = k % 3 ? 60 : 8, at = k * 60;
        snprintf(text, sizeof text, "%-60u", k);
        pgas_verbs_span_t from = { (uint64_t)(uintptr_t)text, bytes, 0 };
        pgas_verbs_request_t r = request(pair, PGAS_VERBS_WRITE, 0, 0, at);
        r.flags |= PGAS_VERBS_INLINE;
        r.spans = &from;
        r.n_spans = 1;
        post(pair, 0, &r);
        memset(text, '?', sizeof text - 1); /* the buffer is free at once */
        good = good && wait_one(pair, 0).status == PGAS_OK;
        snprintf(text, sizeof text, "%-60u", k);
        good = good && !memcmp(pair->bytes + at, text, bytes) &&
               (bytes == 60 || !pair->bytes[at + bytes]);
    }
    ok(good, "%s: inline data of one block and of two, around the ring's end", label);
}

static void test_atomics(pair_t *pair)
{
    uint64_t *word = (uint64_t *)(void *)(pair->bytes + 4096),
             *old = (uint64_t *)(void *)pair->bytes;
    *word = 40;
    *old = 0;
    pgas_verbs_request_t r = request(pair, PGAS_VERBS_FADD, 0, 8, 4096);
    r.operand = 2;
    post(pair, 0, &r);
    ok(wait_one(pair, 0).status == PGAS_OK && *old == 40 && *word == 42, "%s: fetch and add",
       label);
    r.op = PGAS_VERBS_CSWAP;
    r.compare = 42;
    r.operand = UINT64_C(0x123456789abcdef0);
    post(pair, 0, &r);
    ok(wait_one(pair, 0).status == PGAS_OK && *old == 42 && *word == r.operand,
       "%s: compare and swap, equal", label);
    r.operand = 1;
    post(pair, 0, &r);
    ok(wait_one(pair, 0).status == PGAS_OK && *old == *word && *word != 1,
       "%s: compare and swap, not equal", label);
}

static void test_messages(pair_t *pair)
{
    fill(pair, 0, 1000, 4);
    pgas_verbs_span_t to = span(pair, 8192, 2000);
    pgas_verbs_recv_t recvs[2] = { { .id = 5, .spans = &to, .n_spans = 1 },
                                   { .id = 6, .spans = &to, .n_spans = 1 } };
    is_int(pgas_verbs_qp_recv(pair->qps[1], recvs, 2, NULL), PGAS_OK,
           "%s: receive buffers are taken", label);
    pgas_verbs_request_t r = request(pair, PGAS_VERBS_SEND_IMM, 0, 1000, 0);
    r.imm = 0x01020304;
    post(pair, 0, &r);
    pgas_verbs_completion_t got = wait_one(pair, 1);
    ok(got.status == PGAS_OK && got.op == PGAS_VERBS_RECV && got.id == 5 && got.bytes == 1000 &&
           got.qp == pair->qps[1],
       "%s: a message arrives", label);
    ok(got.has_imm && got.imm == 0x01020304, "%s: with its immediate value", label);
    ok(!memcmp(pair->bytes, pair->bytes + 8192, 1000), "%s: and its bytes", label);
    wait_one(pair, 0);
    r = request(pair, PGAS_VERBS_WRITE_IMM, 0, 16, 4096);
    r.imm = 9;
    post(pair, 0, &r);
    got = wait_one(pair, 1);
    ok(got.status == PGAS_OK && got.op == PGAS_VERBS_RECV_WRITE_IMM && got.id == 6 &&
           got.bytes == 16 && got.imm == 9 && !memcmp(pair->bytes, pair->bytes + 4096, 16),
       "%s: a write with an immediate value takes a buffer and leaves it alone", label);
    wait_one(pair, 0);
}

/* More messages than the shared queue has slots. */
static void test_shared_receives(pair_t *pair)
{
    pgas_verbs_completion_t got;
    bool good = true;
    uint64_t posted = 0;
    for (uint64_t k = 0; k < 300; k++) {
        while (posted < k + 4) {
            pgas_verbs_span_t to = span(pair, 4096 + 64 * (posted % 8), 64);
            pgas_verbs_recv_t recv = { .id = posted, .spans = &to, .n_spans = 1 };
            good = good && pgas_verbs_srq_recv(pair->srq, &recv, 1, NULL) == PGAS_OK;
            posted++;
        }
        memcpy(pair->bytes, &k, sizeof k);
        pgas_verbs_request_t r = request(pair, PGAS_VERBS_SEND, 0, sizeof k, 0);
        post(pair, 0, &r);
        got = wait_one(pair, 1);
        good = good && got.status == PGAS_OK && got.id == k &&
               !memcmp(pair->bytes + 4096 + 64 * (k % 8), &k, sizeof k);
        good = good && wait_one(pair, 0).status == PGAS_OK;
    }
    ok(good, "%s: 300 messages through a shared receive queue of 16", label);
}

/* The number of completions is exact: one for each that was asked for. */
static void test_selective(pair_t *pair)
{
    uint64_t n_done = 0, n_wrong = 0;
    fill(pair, 0, 8, 5);
    for (uint64_t k = 1; k <= MANY;) {
        pgas_verbs_request_t r = request(pair, PGAS_VERBS_WRITE, 0, 8, 4096 + 8 * (k % 512));
        r.flags = k % EACH ? 0 : PGAS_VERBS_SIGNAL;
        r.id = k;
        pgas_verbs_completion_t got[8];
        pgas_status_t status = k % EACH ? qp_write(pair->qps[0], &r, NULL)
                                        : pgas_verbs_qp_post(pair->qps[0], &r, 1, NULL);
        k += status == PGAS_OK;
        if (status == PGAS_ERR_AGAIN)
            sched_yield();
        int n = pgas_verbs_cq_poll(pair->cqs[0], got, 8);
        for (int j = 0; j < n; j++)
            n_wrong += got[j].status != PGAS_OK || got[j].id != EACH * ++n_done;
    }
    while (n_done < MANY / EACH)
        n_wrong += wait_one(pair, 0).id != EACH * ++n_done;
    pgas_verbs_completion_t more;
    is_int(n_wrong, 0, "%s: completions of 1 of %d among %d writes, in order", label, EACH, MANY);
    pgas_verbs_request_t last = request(pair, PGAS_VERBS_WRITE, 0, 8, 4096);
    last.id = 1;
    post(pair, 0, &last);
    is_int(wait_one(pair, 0).id, 1, "%s: and not one more", label);
    is_int(pgas_verbs_cq_poll(pair->cqs[0], &more, 1), 0, "%s: nor after them", label);
}

/* The same by a transmitter, which chooses the signaled requests. Every write is checked. */
static void test_transmitter(pair_t *pair)
{
    pgas_verbs_tx_opts_t opts = PGAS_VERBS_TX_OPTS_INIT;
    pgas_verbs_tx_t *tx;
    pgas_verbs_tx_info_t stats = { .size = sizeof stats };
    enum { RING = 1024 };
    uint64_t number = 0, *from = (uint64_t *)(void *)pair->bytes,
             *to = (uint64_t *)(void *)(pair->bytes + 8 * RING);
    must(pgas_verbs_tx_create(pair->qps[0], &opts, &tx), "transmitter");
    bool good = true;
    for (uint64_t k = 0; k < MANY; k++) {
        from[k % RING] = k;
        pgas_verbs_request_t r =
            request(pair, PGAS_VERBS_WRITE, 8 * (k % RING), 8, 8 * RING + 8 * (k % RING));
        r.flags = 0;
        pgas_status_t status;
        while ((status = pgas_verbs_tx_post(tx, &r, &number)) == PGAS_ERR_AGAIN) {
            pgas_verbs_tx_poll(tx);
            sched_yield();
        }
        good = good && status == PGAS_OK && number == k + 1;
        if (k % RING == RING - 1) {
            good = good && pgas_verbs_tx_wait(tx, number, 20000000) == PGAS_OK &&
                   !memcmp(from, to, 8 * RING);
            memset(to, 0, 8 * RING);
        }
    }
    good = good && pgas_verbs_tx_wait(tx, number, 20000000) == PGAS_OK;
    pgas_verbs_tx_info(tx, &stats);
    ok(good, "%s: %d writes by a transmitter", label, MANY);
    is_int(stats.completions, stats.signaled, "%s: a completion for each signal", label);
    ok(stats.signaled <= MANY / EACH + MANY / RING + 2,
       "%s: one of %d, and one where it is waited for: %llu", label, EACH,
       (unsigned long long)stats.signaled);
    pgas_verbs_tx_destroy(tx);
}

static bool is_readable(int fd)
{
    struct pollfd wanted = { .fd = fd, .events = POLLIN };
    return poll(&wanted, 1, 20000) == 1;
}

static void test_events(pair_t *pair)
{
    int fd = -1;
    is_int(pgas_verbs_cq_fd(pair->cqs[1], &fd), PGAS_OK, "%s: a descriptor to sleep on", label);
    pgas_verbs_span_t to = span(pair, 4096, 64);
    pgas_verbs_recv_t recv = { .id = 1, .spans = &to, .n_spans = 1 };
    pgas_verbs_request_t r = request(pair, PGAS_VERBS_SEND, 0, 8, 0);
    bool good = true;
    for (int k = 0; k < 8; k++) {
        good = good && pgas_verbs_qp_recv(pair->qps[1], &recv, 1, NULL) == PGAS_OK;
        good = good && pgas_verbs_cq_arm(pair->cqs[1], false) == PGAS_OK;
        post(pair, 0, &r);
        good = good && is_readable(fd) && wait_one(pair, 1).status == PGAS_OK &&
               wait_one(pair, 0).status == PGAS_OK;
    }
    ok(good, "%s: eight times armed, eight times woken", label);
    /* One completion for which no thread waits, then one of the others. */
    good = true;
    for (int k = 0; k < 2; k++)
        good = good && pgas_verbs_qp_recv(pair->qps[1], &recv, 1, NULL) == PGAS_OK;
    good = good && pgas_verbs_cq_arm(pair->cqs[1], true) == PGAS_OK;
    post(pair, 0, &r);
    good = good && wait_one(pair, 0).status == PGAS_OK;
    struct pollfd now = { .fd = fd, .events = POLLIN };
    ok(good && poll(&now, 1, 0) == 0, "%s: armed for solicited ones, others do not wake", label);
    r.flags |= PGAS_VERBS_SOLICITED;
    post(pair, 0, &r);
    ok(is_readable(fd), "%s: a solicited one does", label);
    is_int(pgas_verbs_cq_arm(pair->cqs[1], false), PGAS_ERR_BUSY,
           "%s: arming reports a completion that is there", label);
    wait_one(pair, 1);
    wait_one(pair, 1);
    wait_one(pair, 0);
}

static void test_errors(pair_t *pair)
{
    pgas_verbs_request_t rs[3] = { request(pair, PGAS_VERBS_WRITE, 0, 8, 4096),
                                   request(pair, PGAS_VERBS_WRITE, 0, 8, 4096),
                                   request(pair, PGAS_VERBS_WRITE, 0, 8, 4096) };
    for (uint64_t k = 0; k < 3; k++)
        rs[k].id = k;
    rs[1].rkey ^= 0x5500;
    rs[1].flags = 0; /* errors are reported without a request */
    uint32_t n;
    is_int(pgas_verbs_qp_post(pair->qps[0], rs, 3, &n), PGAS_OK, "%s: requests are taken", label);
    is_int(wait_one(pair, 0).status, PGAS_OK, "%s: the good one completes", label);
    pgas_verbs_completion_t bad = wait_one(pair, 0), flushed = wait_one(pair, 0);
    ok(bad.status == PGAS_ERR_RANGE && bad.id == 1 && bad.syndrome,
       "%s: a key that is none is an error of its request", label);
    ok(flushed.status == PGAS_ERR_PEER && flushed.id == 2, "%s: later requests are flushed", label);
    is_int(pgas_verbs_qp_post(pair->qps[0], rs, 1, NULL), PGAS_ERR_PEER,
           "%s: the connection has ended", label);
}

static void test_no_buffer(pair_t *pair)
{
    pgas_verbs_request_t r = request(pair, PGAS_VERBS_SEND, 0, 8, 0);
    post(pair, 0, &r);
    is_int(wait_one(pair, 0).status, PGAS_ERR_AGAIN,
           "%s: a message for which there is no buffer, to the last try", label);
}

static void test_small_buffer(pair_t *pair)
{
    pgas_verbs_span_t to = span(pair, 4096, 4);
    pgas_verbs_recv_t recv = { .id = 8, .spans = &to, .n_spans = 1 };
    pgas_verbs_request_t r = request(pair, PGAS_VERBS_SEND, 0, 8, 0);
    pgas_verbs_qp_recv(pair->qps[1], &recv, 1, NULL);
    post(pair, 0, &r);
    pgas_verbs_completion_t got = wait_one(pair, 1);
    ok(got.status == PGAS_ERR_LIMIT && got.id == 8, "%s: a receive buffer that is too small",
       label);
    ok(wait_one(pair, 0).status != PGAS_OK, "%s: is an error of the sender, too", label);
}

/* Posts without polling until completions are more than a queue has room for. When that happens
 * only the device knows: it may be slow, so bursts are repeated. @return whether the queue reported
 * the overrun before all completions had arrived */
static bool overrun(pair_t *pair, pgas_verbs_cq_t *small)
{
    enum { BURST = 40, YIELDS = 100 };
    uint64_t begin_ns = pgasi_now_ns(), n_posted = 0, n_got = 0;
    pgas_verbs_completion_t got[8];
    pgas_verbs_request_t r = request(pair, PGAS_VERBS_WRITE, 0, 8, 4096);
    while (pgasi_now_ns() - begin_ns < UINT64_C(20000000000)) {
        bool again = n_posted == n_got;
        for (int k = 0;
             again && k < BURST && pgas_verbs_qp_post(pair->qps[0], &r, 1, NULL) == PGAS_OK; k++)
            n_posted++;
        for (int k = 0; again && k < YIELDS; k++)
            sched_yield();
        int n = pgas_verbs_cq_poll(small, got, 8);
        if (n < 0)
            return n_got < n_posted;
        n_got += (uint64_t)n;
    }
    return false;
}

static void test_overrun(const char *name)
{
    pair_t pair;
    pgas_verbs_dev_opts_t opts = PGAS_VERBS_DEV_OPTS_INIT;
    pgas_verbs_cq_t *small, *large;
    opts.device = name;
    open_dev(&pair, &opts);
    must(pgas_verbs_cq_create(pair.dev, 4, 0, &small), "a small completion queue");
    large = pair.cqs[0];
    pair.cqs[0] = small;
    for (int k = 0; k < 2; k++)
        pair.qps[k] = open_qp(&pair, k, 0, 0);
    connect_qps(pair.qps[0], pair.qps[1]);
    ok(overrun(&pair, small), "%s: a completion queue that has overrun says so", label);
    is_int(pgas_verbs_cq_wait(pair.cqs[1], 0), PGAS_ERR_TIMEOUT, "%s: others are alive", label);
    must(pgas_verbs_cq_destroy(large), "closing");
    close_pair(&pair);
}

static void test_device(const char *name, bool roce, bool mlx5)
{
    pair_t pair;
    label = name;
    open_pair(&pair, name, 0);
    test_info(&pair, roce, mlx5);
    test_write_read(&pair);
    test_lists(&pair);
    test_inline(&pair);
    test_atomics(&pair);
    test_messages(&pair);
    test_selective(&pair);
    test_events(&pair);
    test_errors(&pair);
    close_pair(&pair);

    test_overrun(name);
    open_pair(&pair, name, 0);
    test_transmitter(&pair);
    close_pair(&pair);

    open_pair(&pair, name, PAIR_SRQ);
    test_shared_receives(&pair);
    close_pair(&pair);
    open_pair(&pair, name, PAIR_IMPATIENT);
    test_no_buffer(&pair);
    close_pair(&pair);
    open_pair(&pair, name, 0);
    test_small_buffer(&pair);
    ok(close_pair(&pair), "%s: everything can be closed", label);
}

/* Connections use the parameters in the addresses. */
static void test_addresses(void)
{
    pair_t pair, other;
    pgas_verbs_address_t address;
    pgasi_rdma_address_t inside;
    open_pair(&pair, "mlx5_1", 0);
    open_pair(&other, "mlx5_0", 0);
    pgas_verbs_qp_t *qp = open_qp(&pair, 0, 0, 0);
    qp_address(other.qps[0], &address);
    is_int(pgas_verbs_qp_connect(qp, &address), PGAS_ERR_MISMATCH,
           "no way from RoCE to InfiniBand");
    qp_address(pair.qps[0], &address);
    must(pgasi_rdma_address_unpack(&address, &inside), "an address of our own");
    inside.gid[15]++;
    pgasi_rdma_address_pack(&inside, &address);
    is_int(pgas_verbs_qp_connect(qp, &address), PGAS_ERR_PEER, "RoCE: a peer with an unknown GID");
    pgas_verbs_qp_destroy(qp);
    close_pair(&other);
    close_pair(&pair);
}

/* An entry of the table that was asked for, of the older version. */
static void test_other_gid(void)
{
    pair_t pair;
    pgas_verbs_info_t info = { .size = sizeof info };
    pgas_verbs_dev_opts_t opts = PGAS_VERBS_DEV_OPTS_INIT;
    opts.device = "mlx5_1:1";
    opts.gid_index = 2;
    open_dev(&pair, &opts);
    pgas_verbs_info(pair.dev, &info);
    ok(info.gid_index == 2 && !strcmp(info.link, "RoCE v1"),
       "RoCE: another GID that was asked for");
    for (int k = 0; k < 2; k++)
        pair.qps[k] = open_qp(&pair, k, 0, 0);
    pgas_verbs_address_t address;
    pgasi_rdma_address_t inside;
    qp_address(pair.qps[0], &address);
    must(pgasi_rdma_address_unpack(&address, &inside), "an address of our own");
    ok(memcmp(info.gid, inside.gid, sizeof info.gid) == 0 && info.gid[15] != 0,
       "RoCE: addresses have that GID");
    connect_qps(pair.qps[0], pair.qps[1]);
    pgas_verbs_request_t r = request(&pair, PGAS_VERBS_WRITE, 0, 8, 4096);
    post(&pair, 0, &r);
    is_int(wait_one(&pair, 0).status, PGAS_OK, "RoCE: and it works");
    close_pair(&pair);
    opts.gid_index = 4;
    is_int(pgas_verbs_open(&opts, &pair.dev), PGAS_ERR_INVALID, "RoCE: a GID that there is not");
}

/* A queue pair of one provider and one of the other, over RoCE. */
static void test_both(void)
{
    pair_t pairs[2];
    pgas_verbs_dev_opts_t opts = PGAS_VERBS_DEV_OPTS_INIT;
    static const char *const names[2] = { "mlx5_1", "verbs:mlx5_1" };
    for (int k = 0; k < 2; k++) {
        opts.device = names[k];
        open_dev(&pairs[k], &opts);
        pairs[k].qps[0] = open_qp(&pairs[k], 0, 0, 0);
    }
    connect_qps(pairs[0].qps[0], pairs[1].qps[0]);
    for (int k = 0; k < 2; k++) {
        fill(&pairs[k], 0, 100, (unsigned)k);
        pgas_verbs_request_t r = request(&pairs[k], PGAS_VERBS_WRITE, 0, 100, 0);
        r.remote_addr = (uint64_t)(uintptr_t)(pairs[1 - k].bytes + 4096);
        r.rkey = pairs[1 - k].mem.rkey;
        post(&pairs[k], 0, &r);
        ok(wait_one(&pairs[k], 0).status == PGAS_OK &&
               !memcmp(pairs[k].bytes, pairs[1 - k].bytes + 4096, 100),
           "from %s to %s", names[k], names[1 - k]);
    }
    ok(close_pair(&pairs[0]) && close_pair(&pairs[1]), "and both can be closed");
}

int main(int argc, char **argv)
{
    (void)argc;
    under_shim(argv);
    plan(4 * N_OF_EACH + 9);
    test_device("mlx5_0", false, true);
    test_device("mlx5_1", true, true);
    test_device("verbs:mlx5_0", false, false);
    test_device("verbs:mlx5_1", true, false);
    test_addresses();
    test_other_gid();
    test_both();
    return done();
}
#endif
