/* what:   The software NIC's engine executes the requests of an ordinary program of libibverbs: the
 *         engine understands the entries that the stock libmlx5 writes, and libmlx5 understands the
 *         engine's completions.
 * env:    SHIM_ADVERSARY=0 | SHIM_ADVERSARY=7
 * source: ibv_post_send(3), ibv_poll_cq(3), ibv_get_cq_event(3) */
#include "config.h"

#include "t/tap.h"

#ifndef PGAS_HAVE_MLX5DV
int main(void)
{
    skip_all("built without libmlx5");
}
#else
#include <errno.h>
#include <infiniband/verbs.h>
#include <sched.h>
#include "base/clock.h"
#include "t/shim/under.h"

enum { BYTES = 1 << 16, DEPTH = 128, MANY = 100000, EACH = 32 };

typedef struct {
    struct ibv_context *context;
    struct ibv_port_attr port;
    struct ibv_pd *pd;
    struct ibv_mr *mr;
    struct ibv_comp_channel *channel;
    struct ibv_cq *cqs[2];
    struct ibv_srq *srq;
    struct ibv_qp *qps[2];
    unsigned char *bytes;
} pair_t;

static void must(bool good, const char *what)
{
    if (!good)
        bail("%s: %s", what, strerror(errno));
}

static struct ibv_context *open_device(const char *name)
{
    struct ibv_device **devices = ibv_get_device_list(NULL);
    struct ibv_context *context = NULL;
    for (int k = 0; devices && devices[k]; k++)
        if (!strcmp(ibv_get_device_name(devices[k]), name))
            context = ibv_open_device(devices[k]);
    if (devices)
        ibv_free_device_list(devices);
    must(context != NULL, name);
    return context;
}

static struct ibv_qp *make_qp(pair_t *pair, int which)
{
    struct ibv_qp_init_attr attr = { .send_cq = pair->cqs[which],
                                     .recv_cq = pair->cqs[which],
                                     .qp_type = IBV_QPT_RC,
                                     .srq = which ? pair->srq : NULL,
                                     .cap = { .max_send_wr = DEPTH,
                                              .max_recv_wr = 64,
                                              .max_send_sge = 3,
                                              .max_recv_sge = 2,
                                              .max_inline_data = 100 } };
    struct ibv_qp *qp = ibv_create_qp(pair->pd, &attr);
    must(qp != NULL, "queue pair");
    return qp;
}

static void connect_qp(pair_t *pair, struct ibv_qp *qp, const struct ibv_qp *peer)
{
    enum {
        ACCESS = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_WRITE |
                 IBV_ACCESS_REMOTE_ATOMIC
    };
    struct ibv_qp_attr attr = { .qp_state = IBV_QPS_INIT,
                                .port_num = 1,
                                .qp_access_flags = ACCESS };
    must(!ibv_modify_qp(qp, &attr,
                        IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS),
         "to INIT");
    attr = (struct ibv_qp_attr){ .qp_state = IBV_QPS_RTR,
                                 .path_mtu = pair->port.active_mtu,
                                 .dest_qp_num = peer->qp_num,
                                 .rq_psn = 5,
                                 .max_dest_rd_atomic = 4,
                                 .min_rnr_timer = 1,
                                 .ah_attr = { .dlid = pair->port.lid, .port_num = 1 } };
    if (pair->port.link_layer == IBV_LINK_LAYER_ETHERNET) {
        attr.ah_attr.is_global = 1;
        attr.ah_attr.grh.sgid_index = 1;
        attr.ah_attr.grh.hop_limit = 8;
        must(!ibv_query_gid(pair->context, 1, 1, &attr.ah_attr.grh.dgid), "GID");
    }
    must(!ibv_modify_qp(qp, &attr,
                        IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN |
                            IBV_QP_RQ_PSN | IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER),
         "to RTR");
    attr = (struct ibv_qp_attr){ .qp_state = IBV_QPS_RTS,
                                 .timeout = 14,
                                 .retry_cnt = 7,
                                 .rnr_retry = 0,
                                 .sq_psn = 5,
                                 .max_rd_atomic = 4 };
    must(!ibv_modify_qp(qp, &attr,
                        IBV_QP_STATE | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY |
                            IBV_QP_SQ_PSN | IBV_QP_MAX_QP_RD_ATOMIC),
         "to RTS");
}

static void open_pair(pair_t *pair, const char *device, bool shared)
{
    memset(pair, 0, sizeof *pair);
    pair->context = open_device(device);
    must(!ibv_query_port(pair->context, 1, &pair->port), "port");
    pair->pd = ibv_alloc_pd(pair->context);
    must(pair->pd != NULL, "domain");
    pair->bytes = calloc(1, BYTES);
    must(pair->bytes != NULL, "bytes");
    pair->mr = ibv_reg_mr(pair->pd, pair->bytes, BYTES,
                          IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_READ |
                              IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_ATOMIC);
    must(pair->mr != NULL, "memory");
    pair->channel = ibv_create_comp_channel(pair->context);
    must(pair->channel != NULL, "channel");
    for (int k = 0; k < 2; k++) {
        pair->cqs[k] = ibv_create_cq(pair->context, 100, pair, k ? pair->channel : NULL, 0);
        must(pair->cqs[k] != NULL, "completion queue");
    }
    if (shared) {
        struct ibv_srq_init_attr attr = { .attr = { .max_wr = 20, .max_sge = 2 } };
        pair->srq = ibv_create_srq(pair->pd, &attr);
        must(pair->srq != NULL, "shared receive queue");
    }
    for (int k = 0; k < 2; k++)
        pair->qps[k] = make_qp(pair, k);
    for (int k = 0; k < 2; k++)
        connect_qp(pair, pair->qps[k], pair->qps[1 - k]);
}

/* @return whether libibverbs could give everything back */
static bool close_pair(pair_t *pair)
{
    bool good = ibv_destroy_cq(pair->cqs[0]) == EBUSY;
    for (int k = 0; k < 2; k++)
        good = !ibv_destroy_qp(pair->qps[k]) && good;
    if (pair->srq)
        good = !ibv_destroy_srq(pair->srq) && good;
    for (int k = 0; k < 2; k++)
        good = !ibv_destroy_cq(pair->cqs[k]) && good;
    good = !ibv_destroy_comp_channel(pair->channel) && good;
    good = !ibv_dereg_mr(pair->mr) && good;
    good = !ibv_dealloc_pd(pair->pd) && good;
    good = !ibv_close_device(pair->context) && good;
    free(pair->bytes);
    return good;
}

static struct ibv_wc wait_one(pair_t *pair, int which)
{
    enum { SECONDS = 20 };
    struct ibv_wc wc;
    uint64_t begin_ns = pgasi_now_ns();
    int n;
    while ((n = ibv_poll_cq(pair->cqs[which], 1, &wc)) == 0) {
        if (pgasi_now_ns() - begin_ns > SECONDS * UINT64_C(1000000000))
            bail("no completion for %d s", SECONDS);
        sched_yield();
    }
    must(n == 1, "polling");
    return wc;
}

static struct ibv_sge piece(const pair_t *pair, size_t at, uint32_t bytes)
{
    return (struct ibv_sge){ (uintptr_t)(pair->bytes + at), bytes, pair->mr->lkey };
}

static struct ibv_send_wr request(const pair_t *pair, enum ibv_wr_opcode op, struct ibv_sge *from,
                                  size_t remote_at)
{
    struct ibv_send_wr wr = {
        .opcode = op, .send_flags = IBV_SEND_SIGNALED, .sg_list = from, .num_sge = 1
    };
    wr.wr.rdma.remote_addr = (uintptr_t)(pair->bytes + remote_at);
    wr.wr.rdma.rkey = pair->mr->rkey;
    return wr;
}

static void post(pair_t *pair, struct ibv_send_wr *wr)
{
    struct ibv_send_wr *bad;
    must(!ibv_post_send(pair->qps[0], wr, &bad), "posting");
}

static enum ibv_wc_status post_and_wait(pair_t *pair, struct ibv_send_wr *wr)
{
    post(pair, wr);
    return wait_one(pair, 0).status;
}

static void test_device(const char *name, pair_t *pair)
{
    struct ibv_device_attr attr;
    must(!ibv_query_device(pair->context, &attr), "device");
    ok(attr.vendor_id == 0x15b3 && attr.phys_port_cnt == 1 && attr.atomic_cap == IBV_ATOMIC_HCA,
       "%s: reports its error", name);
    struct ibv_qp_attr state;
    struct ibv_qp_init_attr init;
    ok(!ibv_query_qp(pair->qps[0], &state, IBV_QP_STATE, &init) && state.qp_state == IBV_QPS_RTS,
       "%s: and a queue pair's state", name);
}

static void test_write_read(const char *name, pair_t *pair)
{
    struct ibv_sge from[3] = { piece(pair, 0, 100), piece(pair, 500, 200), piece(pair, 1000, 300) };
    for (int k = 0; k < 2000; k++)
        pair->bytes[k] = (unsigned char)(k * 13 + k / 256);
    struct ibv_send_wr wr = request(pair, IBV_WR_RDMA_WRITE, from, 4096);
    wr.num_sge = 3;
    ok(post_and_wait(pair, &wr) == IBV_WC_SUCCESS &&
           !memcmp(pair->bytes + 4096, pair->bytes, 100) &&
           !memcmp(pair->bytes + 4196, pair->bytes + 500, 200) &&
           !memcmp(pair->bytes + 4396, pair->bytes + 1000, 300),
       "%s: a write of three pieces", name);
    struct ibv_sge into = piece(pair, 8192, 600);
    wr = request(pair, IBV_WR_RDMA_READ, &into, 4096);
    ok(post_and_wait(pair, &wr) == IBV_WC_SUCCESS &&
           !memcmp(pair->bytes + 8192, pair->bytes + 4096, 600),
       "%s: a read", name);
    char text[54] = "an entry of two blocks, with 53 bytes inside of it..";
    struct ibv_sge inside = { (uintptr_t)text, 53, 0 };
    wr = request(pair, IBV_WR_RDMA_WRITE, &inside, 12000);
    wr.send_flags |= IBV_SEND_INLINE;
    bool good = true;
    for (int k = 0; k < 300; k++) { /* around the ring's end */
        text[0] = (char)('a' + k % 26);
        good = good && post_and_wait(pair, &wr) == IBV_WC_SUCCESS &&
               !memcmp(pair->bytes + 12000, text, 53);
    }
    ok(good, "%s: inline data in two blocks", name);
}

static void test_atomics(const char *name, pair_t *pair)
{
    uint64_t *word = (uint64_t *)(void *)(pair->bytes + 64), *old = (uint64_t *)(void *)pair->bytes;
    struct ibv_sge result = piece(pair, 0, 8);
    struct ibv_send_wr wr = request(pair, IBV_WR_ATOMIC_FETCH_AND_ADD, &result, 0);
    wr.wr.atomic.remote_addr = (uintptr_t)word;
    wr.wr.atomic.rkey = pair->mr->rkey;
    wr.wr.atomic.compare_add = 5;
    *word = 100;
    ok(post_and_wait(pair, &wr) == IBV_WC_SUCCESS && *old == 100 && *word == 105,
       "%s: fetch and add", name);
    wr.opcode = IBV_WR_ATOMIC_CMP_AND_SWP;
    wr.wr.atomic.compare_add = 105;
    wr.wr.atomic.swap = UINT64_C(0x0102030405060708);
    ok(post_and_wait(pair, &wr) == IBV_WC_SUCCESS && *old == 105 && *word == wr.wr.atomic.swap,
       "%s: compare and swap", name);
    ok(post_and_wait(pair, &wr) == IBV_WC_SUCCESS && *old == *word && *word == wr.wr.atomic.swap,
       "%s: and not if they differ", name);
}

static void post_receive(pair_t *pair, uint64_t id, struct ibv_sge *into)
{
    struct ibv_recv_wr wr = { .wr_id = id, .sg_list = into, .num_sge = 1 }, *bad;
    must(!(pair->srq ? ibv_post_srq_recv(pair->srq, &wr, &bad)
                     : ibv_post_recv(pair->qps[1], &wr, &bad)),
         "receive buffer");
}

static void test_messages(const char *name, pair_t *pair)
{
    bool good = true;
    for (uint64_t k = 0; k < 200; k++) {
        struct ibv_sge from = piece(pair, 0, 40), into = piece(pair, 4096, 64);
        memset(pair->bytes, (int)k, 40);
        post_receive(pair, k, &into);
        struct ibv_send_wr wr = request(pair, IBV_WR_SEND_WITH_IMM, &from, 0);
        wr.imm_data = htobe32((uint32_t)k + 7);
        good = good && post_and_wait(pair, &wr) == IBV_WC_SUCCESS;
        struct ibv_wc wc = wait_one(pair, 1);
        good = good && wc.status == IBV_WC_SUCCESS && wc.opcode == IBV_WC_RECV && wc.wr_id == k &&
               wc.byte_len == 40 && wc.wc_flags & IBV_WC_WITH_IMM &&
               be32toh(wc.imm_data) == k + 7 && wc.qp_num == pair->qps[1]->qp_num &&
               !memcmp(pair->bytes, pair->bytes + 4096, 40);
    }
    ok(good, "%s: 200 messages with an immediate value%s", name,
       pair->srq ? ", through a shared receive queue" : "");
}

/* libmlx5 frees a whole run of entries with the completion after it. The queue has room for two
 * runs of EACH only twice. */
static void test_selective(const char *name, pair_t *pair)
{
    struct ibv_sge from = piece(pair, 0, 8);
    struct ibv_send_wr wr = request(pair, IBV_WR_RDMA_WRITE, &from, 4096), *bad;
    struct ibv_wc wc[8];
    uint64_t n_done = 0, n_wrong = 0, n;
    for (uint64_t k = 1; k <= MANY; k++) {
        wr.wr_id = k;
        wr.send_flags = IBV_SEND_INLINE | (k % EACH ? 0 : IBV_SEND_SIGNALED);
        while (ibv_post_send(pair->qps[0], &wr, &bad)) {
            n = (uint64_t)ibv_poll_cq(pair->cqs[0], 8, wc);
            for (uint64_t j = 0; j < n; j++)
                n_wrong += wc[j].status != IBV_WC_SUCCESS || wc[j].wr_id != EACH * ++n_done;
            if (!n)
                sched_yield();
        }
    }
    while (n_done < MANY / EACH)
        n_wrong += wait_one(pair, 0).wr_id != EACH * ++n_done;
    is_int(n_wrong, 0, "%s: completions of 1 of %d among %d writes, in order", name, EACH, MANY);
    wr.send_flags = IBV_SEND_SIGNALED;
    wr.wr_id = 1;
    post(pair, &wr);
    is_int(wait_one(pair, 0).wr_id, 1, "%s: and not one more", name);
}

static void test_events(const char *name, pair_t *pair)
{
    bool good = true;
    struct ibv_cq *cq;
    void *context;
    struct ibv_sge from = piece(pair, 0, 8), into = piece(pair, 4096, 8);
    for (int k = 0; k < 10; k++) {
        post_receive(pair, 1, &into);
        good = good && !ibv_req_notify_cq(pair->cqs[1], 0);
        struct ibv_send_wr wr = request(pair, IBV_WR_SEND, &from, 0);
        post(pair, &wr);
        good = good && !ibv_get_cq_event(pair->channel, &cq, &context) && cq == pair->cqs[1] &&
               context == pair;
        ibv_ack_cq_events(pair->cqs[1], 1);
        good = good && wait_one(pair, 1).status == IBV_WC_SUCCESS &&
               wait_one(pair, 0).status == IBV_WC_SUCCESS;
    }
    ok(good, "%s: ten events by a completion channel", name);
}

static void test_errors(const char *name, pair_t *pair)
{
    struct ibv_sge from = piece(pair, 0, 8);
    struct ibv_send_wr wrs[2] = { request(pair, IBV_WR_RDMA_WRITE, &from, 4096),
                                  request(pair, IBV_WR_RDMA_WRITE, &from, 4096) };
    wrs[0].wr_id = 1;
    wrs[0].wr.rdma.rkey ^= 0x7700;
    wrs[0].next = &wrs[1];
    wrs[1].wr_id = 2;
    post(pair, wrs);
    struct ibv_wc bad = wait_one(pair, 0), flushed = wait_one(pair, 0);
    ok(bad.status == IBV_WC_REM_ACCESS_ERR && bad.wr_id == 1, "%s: a key that is none", name);
    ok(flushed.status == IBV_WC_WR_FLUSH_ERR && flushed.wr_id == 2, "%s: flushes later requests",
       name);
    struct ibv_qp_attr state;
    struct ibv_qp_init_attr init;
    ok(!ibv_query_qp(pair->qps[0], &state, IBV_QP_STATE, &init) && state.qp_state == IBV_QPS_ERR,
       "%s: and ends the queue pair", name);
}

/* Messages carry numbers: after a reset of both ends they begin again. */
static void test_reset(const char *name, pair_t *pair)
{
    struct ibv_qp_attr attr = { .qp_state = IBV_QPS_RESET };
    for (int k = 0; k < 2; k++)
        must(!ibv_modify_qp(pair->qps[k], &attr, IBV_QP_STATE), "to RESET");
    for (int k = 0; k < 2; k++)
        connect_qp(pair, pair->qps[k], pair->qps[1 - k]);
    struct ibv_sge from = piece(pair, 0, 8);
    struct ibv_send_wr wr = request(pair, IBV_WR_RDMA_WRITE, &from, 4096);
    memcpy(pair->bytes, "again..", 8);
    ok(post_and_wait(pair, &wr) == IBV_WC_SUCCESS && !memcmp(pair->bytes + 4096, "again..", 8),
       "%s: a reset mends it", name);
    wr = request(pair, IBV_WR_SEND, &from, 0);
    is_int(post_and_wait(pair, &wr), IBV_WC_RNR_RETRY_EXC_ERR,
           "%s: a message without a receive buffer", name);
}

static void test_all(const char *name)
{
    pair_t pair;
    open_pair(&pair, name, false);
    test_device(name, &pair);
    test_write_read(name, &pair);
    test_atomics(name, &pair);
    test_messages(name, &pair);
    test_selective(name, &pair);
    test_events(name, &pair);
    test_errors(name, &pair);
    test_reset(name, &pair);
    ok(close_pair(&pair), "%s: everything is given back, in order only", name);
    open_pair(&pair, name, true);
    test_messages(name, &pair);
    close_pair(&pair);
}

int main(int argc, char **argv)
{
    (void)argc;
    under_shim(argv);
    plan(2 * 19);
    test_all("mlx5_0");
    test_all("mlx5_1");
    return done();
}
#endif
