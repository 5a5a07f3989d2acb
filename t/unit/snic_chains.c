/* what: WAIT stops a queue until a completion queue has produced the requested completions, by
 *       indices that wrap. ENABLE alone lets managed queues continue, up to a position. Entries
 *       that are rewritten before that, also by peers, are executed in their new form; entries of
 *       other queues that are rewritten are not. A result that is used without a fence may not have
 *       arrived.
 * source: pgas/verbs.h; rdma-core's and DPDK's WAIT and SEND_EN */
#include "t/queue_pairs.h"
#include "t/unit/snic.h"
#include "verbs_backend/wqe.h"

#define STEP   PGASI_SNIC_ENGINE_STEP
#define SIGNAL PGAS_VERBS_SIGNAL

static uint32_t adversary;
static uint64_t seed = 1;

/* A pair whose end 0 has these flags. */
static void chain_pair(pair_t *p, pgas_verbs_dev_t *dev, uint32_t flags)
{
    pgas_verbs_qp_opts_t opts = PGAS_VERBS_QP_OPTS_INIT;
    opts.flags = flags;
    pair_on(p, dev, &opts, PGAS_VERBS_ACCESS_ALL);
}

static void post_wait(const pair_t *p, pgas_verbs_cq_t *cq, uint32_t index)
{
    pgas_verbs_request_t wait = { .op = PGAS_VERBS_WAIT, .cq = cq, .index = index };
    snic_post(p->qp[0], &wait);
}

static void post_enable(const pair_t *p, pgas_verbs_op_t op, pgas_verbs_qp_t *target,
                        uint32_t index, uint32_t flags)
{
    pgas_verbs_request_t enable = { .op = op, .qp = target, .index = index, .flags = flags };
    snic_post(p->qp[0], &enable);
}

/* A completion in p's first queue; whatever else is under way comes to rest. */
static void produce(const pair_t *p)
{
    pgas_verbs_completion_t got[1];
    pgas_verbs_request_t nop = { .op = PGAS_VERBS_NOP, .flags = SIGNAL, .id = 5 };
    snic_post(p->qp[0], &nop);
    if (snic_take(p->dev, p->cq[0], got, 1) != 1)
        bail("a completion is missing");
    snic_settle(p->dev);
}

/* ---- WAIT ---- */

/* The k-th of n completions lets the queue go, neither sooner nor later. */
static int n_wrong_waits(uint32_t off)
{
    pgas_verbs_dev_t *dev = snic_device(STEP, adversary, seed);
    int n_bad = 0;
    for (uint32_t k = 0; k < 24; k++) {
        pair_t events, p;
        chain_pair(&events, dev, 0);
        chain_pair(&p, dev, PGAS_VERBS_QP_MASTER);
        memset(p.bytes[0], 1, 8);
        post_wait(&p, events.cq[0], k + off);
        pair_post(&p, PGAS_VERBS_WRITE, 0, 0, 8, 0, 1);
        snic_settle(dev);
        for (uint32_t n = 0; n < 24; n++) { /* completions so far */
            n_bad += (p.bytes[1][0] == 1) != (n > k);
            produce(&events);
        }
        pair_close(&p);
        pair_close(&events);
    }
    must(pgas_verbs_close(dev), "close the device");
    return n_bad;
}

static void waits_look_at_indices(void)
{
    is_int(n_wrong_waits(0), 0, "WAIT for each of 24 completions");
    ok(n_wrong_waits(1) > 0, "an index too many is noticed (on purpose)");
    pgas_verbs_dev_t *dev = snic_device(STEP, adversary, seed);
    pair_t events, p;
    chain_pair(&events, dev, 0);
    chain_pair(&p, dev, PGAS_VERBS_QP_MASTER);
    produce(&events);
    pgas_verbs_completion_t got[4];
    post_wait(&p, events.cq[0], 0);
    post_wait(&p, events.cq[0], 0xffffff);
    post_wait(&p, events.cq[0], 0x800001);
    pair_post(&p, PGAS_VERBS_WRITE, 0, 0, 8, SIGNAL, 1);
    is_int(snic_take(dev, p.cq[0], got, 1), 1,
           "WAIT for earlier completions passes, half of the indices back");
    post_wait(&p, events.cq[0], 0x7ffff0);
    pair_post(&p, PGAS_VERBS_WRITE, 0, 0, 8, SIGNAL, 2);
    is_int(snic_take(dev, p.cq[0], got, 1), 0, "WAIT for much later completions does not");
    pair_t other;
    chain_pair(&other, dev, 0);
    pair_post(&other, PGAS_VERBS_WRITE, 0, 0, 8, SIGNAL, 3);
    is_int(snic_take(dev, other.cq[0], got, 1), 1, "nor does it delay others");
    pgas_verbs_request_t wait = { .op = PGAS_VERBS_WAIT, .cq = events.cq[0] };
    is_int(pgas_verbs_qp_post(other.qp[0], &wait, 1, NULL), PGAS_ERR_INVALID,
           "a queue that is no master cannot wait");
    pair_close(&other);
    pair_close(&p);
    pair_close(&events);
    must(pgas_verbs_close(dev), "close the device");
}

/* A completion that is polled, and one that a WAIT sees, are two events. */
static void waits_see_later_than_who_polls(void)
{
    int n_apart = 0, n_bad = 0;
    for (uint64_t s = 1; s <= 40; s++) {
        pgas_verbs_dev_t *dev = snic_device(STEP, adversary, s);
        pgas_verbs_completion_t got[1];
        bool polled = false, apart = false;
        pair_t events, p, other;
        chain_pair(&events, dev, 0);
        chain_pair(&p, dev, PGAS_VERBS_QP_MASTER);
        chain_pair(&other, dev, 0);
        memset(p.bytes[0], 1, 8);
        post_wait(&p, events.cq[0], 0);
        pair_post(&p, PGAS_VERBS_WRITE, 0, 0, 1, 0, 1);
        pair_post(&events, PGAS_VERBS_WRITE, 0, 0, 1, SIGNAL, 1);
        int n_after = 0; /* steps of the NIC in which it could have seen it */
        while (pgas_verbs_snic_step(dev)) {
            bool now = pgas_verbs_cq_poll(events.cq[0], got, 1) == 1;
            for (uint32_t i = 0; now && i < 60; i++) /* the NIC has much else to do from here on */
                pair_post(&other, PGAS_VERBS_WRITE, 0, 0, 1, SIGNAL, 1);
            polled = polled || now;
            n_bad += p.bytes[1][0] == 1 && !polled;
            n_after += polled && p.bytes[1][0] == 0;
            apart = n_after > 20;
        }
        n_apart += apart;
        n_bad += p.bytes[1][0] != 1;
        pair_close(&other);
        pair_close(&p);
        pair_close(&events);
        must(pgas_verbs_close(dev), "close the device");
    }
    is_int(n_bad, 0, "no reader sees a completion too early");
    if ((adversary & PGAS_VERBS_SNIC_DELAY) != 0)
        ok(n_apart > 0, "a WAIT sees it later than a polling thread, for %d of 40 seeds", n_apart);
    else
        is_int(n_apart, 0, "a WAIT sees it as soon as a polling thread");
}

/* ---- ENABLE ---- */

/* Six writes of one byte each; positions are let go one by one, old ones in between. */
static void enable_goes_up_to_a_position(void)
{
    pgas_verbs_dev_t *dev = snic_device(STEP, adversary, seed);
    pair_t master, p;
    uint32_t position[7];
    int n_bad = 0;
    chain_pair(&master, dev, PGAS_VERBS_QP_MASTER);
    chain_pair(&p, dev, PGAS_VERBS_QP_MANAGED_SEND);
    memset(p.bytes[0], 1, 8);
    for (uint32_t i = 0; i < 6; i++) {
        position[i] = pgas_verbs_qp_position(p.qp[0]);
        pair_post(&p, PGAS_VERBS_WRITE, i, i, 1, SIGNAL, i);
    }
    position[6] = pgas_verbs_qp_position(p.qp[0]);
    snic_settle(dev);
    for (uint32_t i = 0; i < 6; i++)
        n_bad += p.bytes[1][i] != 0;
    is_int(n_bad, 0, "a managed queue that was rung alone does nothing");
    for (uint32_t i = 1; i <= 6; i++) {
        post_enable(&master, PGAS_VERBS_SEND_ENABLE, p.qp[0], position[i], SIGNAL);
        post_enable(&master, PGAS_VERBS_SEND_ENABLE, p.qp[0], position[i / 2], SIGNAL);
        snic_settle(dev);
        for (uint32_t k = 0; k < 6; k++)
            n_bad += p.bytes[1][k] != (k < i);
    }
    is_int(n_bad, 0, "it continues up to the enabled position; lower positions change nothing");
    pgas_verbs_request_t enable = { .op = PGAS_VERBS_SEND_ENABLE, .qp = p.qp[0] };
    is_int(pgas_verbs_qp_post(p.qp[1], &enable, 1, NULL), PGAS_ERR_INVALID,
           "a queue that is no master cannot enable");
    pair_close(&p);
    pair_close(&master);
    must(pgas_verbs_close(dev), "close the device");
}

/* Receive entries that are there, but not enabled: a sender waits. */
static void receive_queues_are_managed_too(void)
{
    pgas_verbs_dev_t *dev = snic_device(STEP, adversary, seed);
    pgas_verbs_completion_t got[8];
    pair_t master, p;
    int n_bad = 0;
    chain_pair(&master, dev, PGAS_VERBS_QP_MASTER);
    chain_pair(&p, dev, PGAS_VERBS_QP_MANAGED_RECV);
    for (uint32_t i = 0; i < 6; i++) {
        pair_recv(&p, 1, 64 * i, 64, i);
        pair_post(&p, PGAS_VERBS_SEND, 0, 0, 8, SIGNAL, i);
    }
    for (uint32_t i = 0; i <= 8; i++) { /* more than there are */
        if (i > 0)
            post_enable(&master, PGAS_VERBS_RECV_ENABLE, p.qp[1], i, SIGNAL);
        for (int k = 0; k < 200; k++)
            pgas_verbs_snic_step(dev);
        n_bad += pgas_verbs_cq_poll(p.cq[1], got, 8) != (i > 0 && i <= 6);
    }
    is_int(n_bad, 0, "a managed receive queue is used up to the enabled position");
    pair_close(&p);
    pair_close(&master);
    must(pgas_verbs_close(dev), "close the device");
}

/* ---- entries that are rewritten ---- */

typedef enum { BY_STORE, BY_PEER } rewriter_t;

/* A write whose source address is rewritten after it was posted and, if the queue is not managed,
 * rung. @return the byte that arrived: 1 as it was posted, 2 as it was rewritten */
static int rewritten(bool managed, rewriter_t by)
{
    pgas_verbs_dev_t *dev = snic_device(STEP, adversary, seed);
    pair_t master, p, q;
    uint32_t flags = PGAS_VERBS_QP_REMOTE_SLOTS | (managed ? PGAS_VERBS_QP_MANAGED_SEND : 0),
             slot_bytes = 0;
    pgas_verbs_mem_t slots;
    chain_pair(&master, dev, PGAS_VERBS_QP_MASTER);
    chain_pair(&p, dev, flags);
    pair_on(&q, dev, NULL, PGAS_VERBS_ACCESS_ALL);
    p.bytes[0][0] = 1;
    p.bytes[0][1] = 2;
    must(qp_slots(p.qp[0], &slots, &slot_bytes), "the slots");
    uint32_t at = pgas_verbs_qp_position(p.qp[0]) % (uint32_t)(slots.bytes / slot_bytes);
    pair_post(&p, PGAS_VERBS_WRITE, 0, 0, 1, SIGNAL, 1);
    unsigned char *entry = (unsigned char *)slots.addr + (size_t)at * slot_bytes;
    size_t field = 2 * PGASI_WQE_SEGMENT + offsetof(pgasi_wqe_data_t, addr);
    uint64_t address = htobe64((uintptr_t)p.bytes[0] + 1);
    if (by == BY_STORE) {
        memcpy(entry + field, &address, 8);
    } else {
        memcpy(q.bytes[0], &address, 8);
        pgas_verbs_span_t span = pair_span(&q, 0, 0, 8);
        pgas_verbs_request_t write = pair_request(&q, PGAS_VERBS_WRITE, &span, 0, 2);
        pgas_verbs_completion_t got[1];
        write.remote_addr = (uintptr_t)entry + field;
        write.rkey = slots.rkey;
        snic_post(q.qp[0], &write);
        if (snic_take(dev, q.cq[0], got, 1) != 1 || got[0].status != PGAS_OK)
            bail("the slots cannot be written to");
    }
    if (managed)
        post_enable(&master, PGAS_VERBS_SEND_ENABLE, p.qp[0], pgas_verbs_qp_position(p.qp[0]),
                    SIGNAL);
    snic_settle(dev);
    int arrived = p.bytes[1][0];
    pair_close(&q);
    pair_close(&p);
    pair_close(&master);
    must(pgas_verbs_close(dev), "close the device");
    return arrived;
}

static void managed_entries_can_be_rewritten(void)
{
    is_int(rewritten(true, BY_STORE), 2,
           "an entry of a managed queue is rewritten before it is enabled");
    is_int(rewritten(true, BY_PEER), 2, "the same by a peer's write");
    if ((adversary & PGAS_VERBS_SNIC_PREFETCH) != 0) {
        is_int(rewritten(false, BY_STORE), 1, "an entry of another queue is rewritten too late");
        is_int(rewritten(false, BY_PEER), 1, "the same by a peer's write");
    } else {
        is_int(rewritten(false, BY_STORE), 2,
               "without an adversary it goes well with another queue, too");
        skip(1, "the write and the entry run at the same time");
    }
    pgas_verbs_dev_t *dev = snic_device(STEP, 0, 1);
    pgas_verbs_mem_t slots;
    uint32_t slot_bytes;
    pair_t p;
    chain_pair(&p, dev, 0);
    is_int(qp_slots(p.qp[0], &slots, &slot_bytes), PGAS_ERR_UNSUPPORTED,
           "slots are known only of queues created for it");
    pair_close(&p);
    must(pgas_verbs_close(dev), "close the device");
}

/* A later entry rewrites an entry that is rung and enabled: never in time. An earlier entry of the
 * same queue, enabled separately, rewrites it: always in time. */
static void entries_rewrite_the_next(void)
{
    pgas_verbs_dev_t *dev = snic_device(STEP, adversary, seed);
    pgas_verbs_qp_opts_t opts = PGAS_VERBS_QP_OPTS_INIT;
    pgas_verbs_completion_t got[1];
    pgas_verbs_mem_t slots;
    pair_t master, p;
    uint32_t slot_bytes = 0;
    chain_pair(&master, dev, PGAS_VERBS_QP_MASTER);
    opts.flags = PGAS_VERBS_QP_REMOTE_SLOTS | PGAS_VERBS_QP_MANAGED_SEND;
    pair_on(&p, dev, &opts, PGAS_VERBS_ACCESS_ALL);
    must(qp_slots(p.qp[0], &slots, &slot_bytes), "the slots");
    uint32_t n_slots = (uint32_t)(slots.bytes / slot_bytes),
             first = pgas_verbs_qp_position(p.qp[0]);
    uint64_t address = htobe64((uintptr_t)p.bytes[0] + 33);
    p.bytes[0][32] = 1;
    p.bytes[0][33] = 2;
    memcpy(p.bytes[0], &address, 8);
    pgas_verbs_span_t span = pair_span(&p, 0, 0, 8);
    pgas_verbs_request_t rewrite = pair_request(&p, PGAS_VERBS_WRITE, &span, 0, 1);
    rewrite.remote_addr = (uintptr_t)slots.addr + (size_t)((first + 1) % n_slots) * slot_bytes +
                          2 * PGASI_WQE_SEGMENT + 8;
    rewrite.rkey = slots.rkey;
    snic_post(p.qp[0], &rewrite);
    pair_post(&p, PGAS_VERBS_WRITE, 32, 0, 1, SIGNAL, 2);
    post_enable(&master, PGAS_VERBS_SEND_ENABLE, p.qp[0], first + 1, 0);
    post_wait(&master, p.cq[0], 0);
    post_enable(&master, PGAS_VERBS_SEND_ENABLE, p.qp[0], first + 2, 0);
    bool good = snic_take(dev, p.cq[0], got, 1) == 1 && is_done(&got[0], 1, PGAS_OK);
    good = good && snic_take(dev, p.cq[0], got, 1) == 1 && is_done(&got[0], 2, PGAS_OK);
    ok(good && p.bytes[1][0] == 2,
       "an entry of a managed queue rewrites the next, which is enabled when that is done");
    pair_close(&p);
    pair_close(&master);
    must(pgas_verbs_close(dev), "close the device");
}

/* ---- fences ---- */

/* A read, and a write of the bytes read. @return whether the write was right */
static bool read_and_pass_on(bool fence, uint64_t with_seed)
{
    pgas_verbs_completion_t got[2];
    pair_t p;
    pair_open(&p, STEP, adversary, with_seed);
    fill(p.bytes[1], 64, 5);
    pair_post(&p, PGAS_VERBS_READ, 0, 0, 64, 0, 1);
    pair_post(&p, PGAS_VERBS_WRITE, 0, 128, 64, SIGNAL | (fence ? PGAS_VERBS_FENCE : 0), 2);
    bool good = snic_take(p.dev, p.cq[0], got, 2) == 1 && is_done(&got[0], 2, PGAS_OK);
    good = good && memcmp(p.bytes[0], p.bytes[1], 64) == 0; /* the read itself is done by then */
    if (!good)
        bail("a read is not complete when a later request is");
    bool right = memcmp(p.bytes[1] + 128, p.bytes[1], 64) == 0;
    pair_close(&p);
    return right;
}

/* The same through memory of atomics, and with an ENABLE in place of the write. */
static void results_come_late_without_fence(void)
{
    int n_right = 0, n_fenced = 0;
    for (uint64_t s = 1; s <= 100; s++) {
        n_right += read_and_pass_on(false, s);
        n_fenced += read_and_pass_on(true, s);
    }
    is_int(n_fenced, 100, "a result that is used after a fence is right");
    if ((adversary & PGAS_VERBS_SNIC_DELAY) != 0)
        ok(n_right > 0 && n_right < 100, "without, it is wrong for some seeds (right %d of 100)",
           n_right);
    else
        is_int(n_right, 100, "without, it is right as long as nothing is late");
}

/* ---- two runs of one seed ---- */

/* Which queue pair's bytes arrived after each step. */
static uint64_t trace(uint64_t with_seed)
{
    pgas_verbs_dev_t *dev = snic_device(STEP, adversary, with_seed);
    pair_t pairs[4];
    uint64_t hash = 1469598103934665603u;
    for (int i = 0; i < 4; i++) {
        pair_on(&pairs[i], dev, NULL, PGAS_VERBS_ACCESS_ALL);
        memset(pairs[i].bytes[0], 1, 64);
        for (uint32_t k = 0; k < 16; k++)
            pair_post(&pairs[i], k % 3 ? PGAS_VERBS_WRITE : PGAS_VERBS_READ, k % 3 ? k : 512 + k,
                      k % 3 ? k : 0, 1, SIGNAL, k);
    }
    for (int step = 0; pgas_verbs_snic_step(dev); step++) {
        for (int i = 0; i < 4; i++)
            for (int k = 0; k < 16; k++)
                hash = (hash ^ (uint64_t)(pairs[i].bytes[1][k] + pairs[i].bytes[0][512 + k])) *
                       1099511628211u;
    }
    for (int i = 0; i < 4; i++)
        pair_close(&pairs[i]);
    must(pgas_verbs_close(dev), "close the device");
    return hash;
}

static void steps_follow_from_the_seed(void)
{
    int n_same = 0, n_other = 0;
    for (uint64_t s = 1; s <= 10; s++) {
        n_same += trace(s) == trace(s);
        n_other += trace(s) != trace(s + 1);
    }
    is_int(n_same, 10, "the same seed, the same steps");
    is_int(n_other, 10, "another seed, other steps");
}

static void all_rules(uint32_t how)
{
    adversary = how;
    diag("adversary %u", (unsigned)how);
    waits_look_at_indices();
    waits_see_later_than_who_polls();
    enable_goes_up_to_a_position();
    receive_queues_are_managed_too();
    managed_entries_can_be_rewritten();
    entries_rewrite_the_next();
    results_come_late_without_fence();
    steps_follow_from_the_seed();
}

int main(void)
{
    plan(5 * 22);
    seed = tap_seed(4);
    all_rules(0);
    all_rules(PGAS_VERBS_SNIC_WRAP);
    all_rules(PGAS_VERBS_SNIC_PREFETCH);
    all_rules(PGAS_VERBS_SNIC_DELAY | PGAS_VERBS_SNIC_SHUFFLE);
    all_rules(PGAS_VERBS_SNIC_ALL);
    return done();
}
