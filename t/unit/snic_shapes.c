/* what: Requests of every shape have their documented effect: gathered from up to five pieces,
 *       scattered into several, inline around a ring's end, of 0 bytes, with an immediate word.
 *       Requests that are too large are refused. Solicited ones wake threads that sleep on them.
 *       Queue pairs may be connected to themselves. Several share a receive queue.
 * needs: tsan-ok
 * source: pgas/verbs.h; compared with plain copies */
#include <poll.h>
#include "t/unit/snic.h"

#define STEP   PGASI_SNIC_ENGINE_STEP
#define SIGNAL PGAS_VERBS_SIGNAL
#define FAR_AT 8192u

/* Random gather lists, by data pointers and inline, through a small queue so that entries wrap at
 * its end. */
static int n_bad_lists(pgas_verbs_op_t op, uint32_t flags, uint32_t adversary, bool spoil)
{
    pgas_verbs_qp_opts_t opts = PGAS_VERBS_QP_OPTS_INIT;
    pgasi_rng_t rng;
    pair_t p;
    int n_bad = 0;
    opts.send_depth = 5;
    opts.inline_max = 200;
    pair_on(&p, snic_device(STEP, adversary, 3), &opts, PGAS_VERBS_ACCESS_ALL);
    p.own_dev = true;
    pgasi_rng_seed(&rng, 5);
    fill(p.bytes[0], FAR_AT, 1);
    for (uint64_t i = 0; i < 500; i++) {
        pgas_verbs_span_t spans[5];
        unsigned char want[2048];
        pgas_verbs_completion_t got[2][1];
        uint32_t n = (uint32_t)pgasi_rng_below(&rng, 6), bytes = 0;
        for (uint32_t k = 0; k < n; k++) {
            spans[k] = pair_span(&p, 0, (uint32_t)pgasi_rng_below(&rng, FAR_AT - 400),
                                 (uint32_t)pgasi_rng_below(&rng, flags ? 41 : 300));
            memcpy(want + bytes, (void *)(uintptr_t)spans[k].addr, spans[k].bytes);
            bytes += spans[k].bytes;
        }
        memset(p.bytes[1] + FAR_AT, 0xaa, sizeof want);
        memset(want + bytes, 0xaa, sizeof want - bytes);
        want[7] ^= spoil;
        pgas_verbs_request_t request = pair_request(&p, op, spans, FAR_AT, i);
        request.n_spans = n;
        request.flags |= flags;
        if (op == PGAS_VERBS_SEND)
            pair_recv(&p, 1, FAR_AT, sizeof want, i);
        snic_post(p.qp[0], &request);
        n_bad += snic_take(p.dev, p.cq[0], got[0], 1) != 1 || !is_done(&got[0][0], i, PGAS_OK);
        if (op == PGAS_VERBS_SEND)
            n_bad += snic_take(p.dev, p.cq[1], got[1], 1) != 1 ||
                     !is_done(&got[1][0], i, PGAS_OK) || got[1][0].bytes != bytes;
        n_bad += memcmp(p.bytes[1] + FAR_AT, want, sizeof want) != 0;
    }
    pair_close(&p);
    return n_bad;
}

static void lists_are_gathered(void)
{
    is_int(n_bad_lists(PGAS_VERBS_WRITE, 0, 0, false), 0, "WRITE of up to five pieces");
    is_int(n_bad_lists(PGAS_VERBS_SEND, 0, 0, false), 0, "SEND of up to five pieces");
    is_int(n_bad_lists(PGAS_VERBS_WRITE, PGAS_VERBS_INLINE, 0, false), 0,
           "WRITE of up to five pieces inline, around the ring's end");
    is_int(n_bad_lists(PGAS_VERBS_SEND, PGAS_VERBS_INLINE, 0, false), 0,
           "SEND of up to five pieces inline, around the ring's end");
    is_int(n_bad_lists(PGAS_VERBS_WRITE, PGAS_VERBS_INLINE, PGAS_VERBS_SNIC_ALL, false), 0,
           "the same under all adversaries");
    is_int(n_bad_lists(PGAS_VERBS_WRITE, 0, 0, true), 500, "a wrong byte is noticed (on purpose)");
}

/* A read, and a receive buffer, of several pieces: they are filled one after the other. */
static void lists_are_scattered(void)
{
    pgas_verbs_qp_opts_t opts = PGAS_VERBS_QP_OPTS_INIT;
    pgas_verbs_completion_t got[2];
    pair_t p;
    opts.recv_spans = 3;
    pair_on(&p, snic_device(STEP, 0, 1), &opts, PGAS_VERBS_ACCESS_ALL);
    p.own_dev = true;
    fill(p.bytes[1], 256, 1);
    pgas_verbs_span_t spans[3] = { pair_span(&p, 0, 1000, 10), pair_span(&p, 0, 0, 100),
                                   pair_span(&p, 0, 500, 7) };
    pgas_verbs_request_t read = pair_request(&p, PGAS_VERBS_READ, spans, 3, 1);
    read.n_spans = 3;
    snic_post(p.qp[0], &read);
    ok(snic_take(p.dev, p.cq[0], got, 1) == 1 && is_done(&got[0], 1, PGAS_OK) &&
           got[0].bytes == 117 && memcmp(p.bytes[0] + 1000, p.bytes[1] + 3, 10) == 0 &&
           memcmp(p.bytes[0], p.bytes[1] + 13, 100) == 0 &&
           memcmp(p.bytes[0] + 500, p.bytes[1] + 113, 7) == 0 && p.bytes[0][507] == 0,
       "a READ into three pieces");
    pgas_verbs_span_t room[3] = { pair_span(&p, 1, 1000, 10), pair_span(&p, 1, 2000, 100),
                                  pair_span(&p, 1, 3000, 7) };
    pgas_verbs_recv_t recv = { 5, room, 3 };
    must(pgas_verbs_qp_recv(p.qp[1], &recv, 1, NULL), "a receive buffer");
    pair_post(&p, PGAS_VERBS_SEND, 0, 0, 60, SIGNAL, 2);
    ok(snic_take(p.dev, p.cq[1], got, 1) == 1 && is_done(&got[0], 5, PGAS_OK) &&
           got[0].bytes == 60 && memcmp(p.bytes[1] + 1000, p.bytes[0], 10) == 0 &&
           memcmp(p.bytes[1] + 2000, p.bytes[0] + 10, 50) == 0 && p.bytes[1][2050] == 0 &&
           p.bytes[1][3000] == 0,
       "a SEND into the first two pieces of three");
    pair_close(&p);
}

static void no_bytes_are_fine(void)
{
    static const pgas_verbs_op_t ops[] = { PGAS_VERBS_WRITE,    PGAS_VERBS_READ,
                                           PGAS_VERBS_SEND,     PGAS_VERBS_WRITE_IMM,
                                           PGAS_VERBS_SEND_IMM, PGAS_VERBS_NOP };
    for (size_t i = 0; i < PGASI_ARRAY_LENGTH(ops); i++) {
        bool receives = ops[i] == PGAS_VERBS_SEND || ops[i] == PGAS_VERBS_WRITE_IMM ||
                        ops[i] == PGAS_VERBS_SEND_IMM;
        pgas_verbs_completion_t got[2][2];
        pair_t p;
        pair_open(&p, STEP, 0, 1);
        pair_recv(&p, 1, 0, 64, 9);
        pgas_verbs_request_t request = pair_request(&p, ops[i], NULL, 0, 1);
        request.rkey = 0x40000000; /* never read */
        request.imm = 0xfeedface;
        snic_post(p.qp[0], &request);
        bool good = snic_take(p.dev, p.cq[0], got[0], 2) == 1 && is_done(&got[0][0], 1, PGAS_OK) &&
                    got[0][0].bytes == 0;
        good = good && snic_take(p.dev, p.cq[1], got[1], 2) == receives;
        if (receives)
            good = good && is_done(&got[1][0], 9, PGAS_OK) && got[1][0].bytes == 0 &&
                   got[1][0].has_imm == (ops[i] != PGAS_VERBS_SEND) &&
                   (!got[1][0].has_imm || got[1][0].imm == 0xfeedface);
        ok(good, "operation %d of no bytes", (int)ops[i]);
        pair_close(&p);
    }
}

static void what_is_too_large_is_refused(void)
{
    pgas_verbs_qp_opts_t opts = PGAS_VERBS_QP_OPTS_INIT;
    pair_t p;
    pair_on(&p, snic_device(STEP, 0, 1), &opts, PGAS_VERBS_ACCESS_ALL);
    p.own_dev = true;
    pgas_verbs_span_t spans[6] = { { 0, 0, 0 } };
    for (int i = 0; i < 6; i++)
        spans[i] = pair_span(&p, 0, 0, 8);
    pgas_verbs_request_t request = pair_request(&p, PGAS_VERBS_WRITE, spans, 0, 1);
    request.n_spans = 6;
    is_int(pgas_verbs_qp_post(p.qp[0], &request, 1, NULL), PGAS_ERR_LIMIT,
           "six pieces where five are agreed");
    request.n_spans = 2;
    spans[0].bytes = 0x7fffffff;
    spans[1].bytes = 2;
    is_int(pgas_verbs_qp_post(p.qp[0], &request, 1, NULL), PGAS_ERR_LIMIT, "2 GiB and a byte");
    spans[0].bytes = 0x80000001;
    request.n_spans = 1;
    is_int(pgas_verbs_qp_post(p.qp[0], &request, 1, NULL), PGAS_ERR_LIMIT,
           "2 GiB and a byte in one piece");
    spans[0].bytes = 61;
    request.flags |= PGAS_VERBS_INLINE;
    uint32_t position = pgas_verbs_qp_position(p.qp[0]);
    pgas_verbs_request_t large = request;
    pgas_verbs_span_t over = pair_span(&p, 0, 0, 1000);
    large.spans = &over;
    is_int(pgas_verbs_qp_post(p.qp[0], &large, 1, NULL), PGAS_ERR_LIMIT,
           "inline more than is agreed");
    is_int(pgas_verbs_qp_position(p.qp[0]), position, "a refused request takes no room");
    pgas_verbs_recv_t recv = { 1, spans, 2 };
    is_int(pgas_verbs_qp_recv(p.qp[1], &recv, 1, NULL), PGAS_ERR_LIMIT,
           "a receive buffer of two pieces where one is agreed");
    is_int(snic_settle(p.dev), 0, "and nothing is done");
    pair_close(&p);
}

/* ---- events ---- */

static bool is_readable(int fd)
{
    struct pollfd wanted = { .fd = fd, .events = POLLIN };
    return poll(&wanted, 1, 0) == 1;
}

/* Sends with and without the flag, to a receiver that sleeps on any or on solicited ones. */
static void solicited_requests_wake(bool solicited_only)
{
    pgas_verbs_qp_opts_t opts = PGAS_VERBS_QP_OPTS_INIT;
    pgas_verbs_completion_t got[8];
    pgas_verbs_cq_t *cq = NULL;
    pgas_verbs_dev_t *dev = snic_device(STEP, 0, 1);
    pair_t p;
    int fd = -1;
    must(pgas_verbs_cq_create(dev, 64, PGAS_VERBS_CQ_EVENTS, &cq), "a queue with events");
    opts.recv_cq = cq;
    pair_on(&p, dev, &opts, PGAS_VERBS_ACCESS_ALL);
    for (uint64_t i = 0; i < 8; i++)
        pair_recv(&p, 1, 0, 64, i);
    must(pgas_verbs_cq_fd(cq, &fd), "a descriptor");
    must(pgas_verbs_cq_arm(cq, solicited_only), "arm");
    bool before = is_readable(fd);
    pair_post(&p, PGAS_VERBS_SEND, 0, 0, 8, 0, 1);
    snic_settle(dev);
    bool plain = is_readable(fd);
    pair_post(&p, PGAS_VERBS_SEND, 0, 0, 8, PGAS_VERBS_SOLICITED, 2);
    snic_settle(dev);
    bool solicited = is_readable(fd);
    ok(!before && plain == !solicited_only && solicited, "%s",
       solicited_only ? "a solicited SEND alone wakes" : "any SEND wakes");
    is_int(pgas_verbs_cq_arm(cq, false), PGAS_ERR_BUSY,
           "armed while completions are there: poll them");
    is_int(pgas_verbs_cq_poll(cq, got, 8), 2, "they are");
    is_int(pgas_verbs_cq_arm(cq, solicited_only), PGAS_OK, "armed again");
    ok(!is_readable(fd), "the descriptor's events are taken");
    char bytes[8];
    pair_post(&p, PGAS_VERBS_SEND, 0, 0, 8, PGAS_VERBS_SOLICITED, 4);
    snic_settle(dev);
    bool again = read(fd, bytes, sizeof bytes) == 1;
    pair_post(&p, PGAS_VERBS_SEND, 0, 0, 8, PGAS_VERBS_SOLICITED, 5);
    snic_settle(dev);
    ok(again && !is_readable(fd), "it wakes once, until it is armed again");
    is_int(pgas_verbs_cq_poll(cq, got, 8), 2, "both are there");
    is_int(pgas_verbs_cq_arm(cq, solicited_only), PGAS_OK, "and it is armed again");
    /* fails; the receiver's buffers are flushed */
    pair_post(&p, PGAS_VERBS_WRITE, 0, SNIC_BYTES, 8, SIGNAL, 3);
    snic_settle(dev);
    ok(is_readable(fd), "an error wakes, solicited or not");
    for (int i = 0; i < 2; i++) {
        pgas_verbs_qp_destroy(p.qp[i]);
        p.qp[i] = NULL;
    }
    must(pgas_verbs_cq_destroy(cq), "close the queue");
    pair_close(&p);
    must(pgas_verbs_close(dev), "close the device");
}

/* ---- to oneself, and shared ---- */

static void oneself_can_be_the_peer(pgas_verbs_engine_t engine)
{
    pgas_verbs_dev_t *dev = snic_device(engine, 0, 1);
    pgas_verbs_qp_opts_t opts = PGAS_VERBS_QP_OPTS_INIT;
    pgas_verbs_completion_t got[5];
    pgas_verbs_cq_t *cq = NULL;
    pgas_verbs_mem_t mem;
    must(pgas_verbs_cq_create(dev, 64, 0, &cq), "a completion queue");
    must(pgas_verbs_mem_register(dev, NULL, 4096, PGAS_VERBS_ACCESS_ALL, &mem), "memory");
    pgas_verbs_qp_t *qp = snic_qp(dev, opts, cq);
    snic_connect(qp, qp);
    memcpy(mem.addr, "hello", 5);
    pgas_verbs_span_t from = { (uintptr_t)mem.addr, 5, mem.lkey },
                      room = { (uintptr_t)mem.addr + 2048, 64, mem.lkey };
    pgas_verbs_recv_t recv = { 100, &room, 1 };
    pgas_verbs_request_t requests[2] = {
        { .op = PGAS_VERBS_WRITE,
          .id = 1,
          .flags = SIGNAL,
          .spans = &from,
          .n_spans = 1,
          .remote_addr = (uintptr_t)mem.addr + 1024,
          .rkey = mem.rkey },
        { .op = PGAS_VERBS_SEND, .id = 2, .flags = SIGNAL, .spans = &from, .n_spans = 1 }
    };
    must(pgas_verbs_qp_recv(qp, &recv, 1, NULL), "a receive buffer");
    must(pgas_verbs_qp_post(qp, requests, 2, NULL), "two requests");
    int n = engine == STEP ? snic_take(dev, cq, got, 5) : snic_await(cq, got, 3), n_good = 0;
    for (int i = 0; i < n; i++)
        n_good += got[i].status == PGAS_OK && got[i].qp == qp;
    ok(n == 3 && n_good == 3 && memcmp((char *)mem.addr + 1024, "hello", 6) == 0 &&
           memcmp((char *)mem.addr + 2048, "hello", 6) == 0,
       "a queue pair connected to itself, engine %d", (int)engine);
    pgas_verbs_qp_destroy(qp);
    must(pgas_verbs_cq_destroy(cq), "close");
    pgas_verbs_mem_release(dev, &mem);
    must(pgas_verbs_close(dev), "close the device");
}

#define N_SHARING  4
#define N_MESSAGES 400

/* Senders of different queue pairs. Every buffer is used once, by any sender. Messages of each
 * sender arrive in order. */
static void receive_queues_are_shared(pgas_verbs_engine_t engine, uint32_t adversary)
{
    pgas_verbs_dev_t *dev = snic_device(engine, adversary, 9);
    pgas_verbs_qp_opts_t opts = PGAS_VERBS_QP_OPTS_INIT;
    pgas_verbs_srq_t *srq = NULL;
    pair_t pairs[N_SHARING];
    uint64_t n_sent[N_SHARING] = { 0 }, n_came[N_SHARING] = { 0 }, n_received = 0, n_bad = 0;
    bool is_posted[64] = { false };
    pgasi_rng_t rng;
    pgasi_rng_seed(&rng, 4);
    must(pgas_verbs_srq_create(dev, 32, 1, &srq), "a shared receive queue");
    opts.srq = srq;
    for (int i = 0; i < N_SHARING; i++)
        pair_on(&pairs[i], dev, &opts, PGAS_VERBS_ACCESS_ALL);
    pgas_verbs_mem_t *room = &pairs[0].mem[1]; /* of all buffers: 64 of 64 bytes */
    for (int round = 0; n_received < N_SHARING * N_MESSAGES && round < SNIC_STEPS_MAX; round++) {
        int i = (int)pgasi_rng_below(&rng, N_SHARING); /* buffers come back in any order */
        pgas_verbs_completion_t c;
        if (n_sent[i] < N_MESSAGES && round % 3 == 0) {
            pgas_verbs_span_t span = pair_span(&pairs[i], 0, 0, 16);
            uint64_t words[2] = { (uint64_t)i, n_sent[i] };
            pgas_verbs_request_t request =
                pair_request(&pairs[i], PGAS_VERBS_SEND, &span, 0, n_sent[i]);
            memcpy(pairs[i].bytes[0], words, sizeof words);
            request.flags |= PGAS_VERBS_INLINE;
            n_sent[i] += pgas_verbs_qp_post(pairs[i].qp[0], &request, 1, NULL) == PGAS_OK;
        }
        uint64_t buffer = pgasi_rng_below(&rng, 64);
        pgas_verbs_span_t span = { (uintptr_t)room->addr + buffer * 64, 64, room->lkey };
        pgas_verbs_recv_t recv = { buffer, &span, 1 };
        if (!is_posted[buffer] && round % 2 == 0)
            is_posted[buffer] = pgas_verbs_srq_recv(srq, &recv, 1, NULL) == PGAS_OK;
        pgas_verbs_snic_step(dev);
        while (pgas_verbs_cq_poll(pairs[i].cq[1], &c, 1) == 1) {
            uint64_t words[2];
            memcpy(words, (char *)room->addr + c.id * 64, sizeof words);
            n_bad += c.status != PGAS_OK || c.bytes != 16 || c.qp != pairs[i].qp[1] ||
                     words[0] != (uint64_t)i || words[1] != n_came[i] || !is_posted[c.id];
            is_posted[c.id] = false;
            n_came[i]++;
            n_received++;
        }
        while (pgas_verbs_cq_poll(pairs[i].cq[0], &c, 1) == 1)
            n_bad += c.status != PGAS_OK;
        if (engine == PGAS_VERBS_ENGINE_THREAD)
            sched_yield();
    }
    ok(n_received == N_SHARING * N_MESSAGES && n_bad == 0,
       "%d queue pairs share a receive queue, engine %d, adversary %u", N_SHARING, (int)engine,
       (unsigned)adversary);
    for (int i = 0; i < N_SHARING; i++)
        pair_close(&pairs[i]);
    must(pgas_verbs_srq_destroy(srq), "close the shared queue");
    must(pgas_verbs_close(dev), "close the device");
}

int main(void)
{
    plan(6 + 2 + 6 + 7 + 18 + 3 + 4);
    lists_are_gathered();
    lists_are_scattered();
    no_bytes_are_fine();
    what_is_too_large_is_refused();
    solicited_requests_wake(false);
    solicited_requests_wake(true);
    oneself_can_be_the_peer(STEP);
    oneself_can_be_the_peer(PGAS_VERBS_ENGINE_CALLER);
    oneself_can_be_the_peer(PGAS_VERBS_ENGINE_THREAD);
    receive_queues_are_shared(STEP, 0);
    receive_queues_are_shared(STEP, PGAS_VERBS_SNIC_ALL);
    receive_queues_are_shared(PGAS_VERBS_ENGINE_CALLER, 0);
    receive_queues_are_shared(PGAS_VERBS_ENGINE_THREAD, 0);
    return done();
}
