/* what: An error completes its request and all later ones, on both sides. A receiver without a
 *       buffer is retried, or given up. Overrun queues are errors unless that is to be ignored.
 *       Closing is noticed, whatever is under way. Options out of range open no queue pair.
 * needs: tsan-ok
 * source: pgas/verbs.h; the InfiniBand architecture */
#include "t/queue_pairs.h"
#include "t/unit/snic.h"

#define STEP     PGASI_SNIC_ENGINE_STEP
#define SIGNAL   PGAS_VERBS_SIGNAL
#define N_BEHIND 5

static uint32_t adversary;

/* ---- errors, and later requests ---- */

/* A SEND of so many bytes to a buffer of so many; then more sends and buffers. */
static void sends_fit_or_fail(void)
{
    static const struct {
        uint32_t sent, room;
        pgas_status_t sender, receiver;
    } sizes[] = { { 64, 64, PGAS_OK, PGAS_OK },
                  { 63, 64, PGAS_OK, PGAS_OK },
                  { 65, 64, PGAS_ERR_INVALID, PGAS_ERR_LIMIT },
                  { 0, 64, PGAS_OK, PGAS_OK },
                  { 0, 0, PGAS_OK, PGAS_OK },
                  { 1, 0, PGAS_ERR_INVALID, PGAS_ERR_LIMIT } };
    for (size_t i = 0; i < PGASI_ARRAY_LENGTH(sizes); i++) {
        pair_t p;
        pgas_verbs_completion_t got[2][3];
        pair_open(&p, STEP, adversary, 1);
        fill(p.bytes[0], 128, i);
        pair_recv(&p, 1, 0, sizes[i].room, 100);
        pair_recv(&p, 1, 512, 64, 101);
        pair_post(&p, PGAS_VERBS_SEND, 0, 0, sizes[i].sent, SIGNAL, 1);
        pair_post(&p, PGAS_VERBS_SEND, 0, 0, 8, SIGNAL, 2);
        bool good = snic_take(p.dev, p.cq[0], got[0], 3) == 2 &&
                    snic_take(p.dev, p.cq[1], got[1], 3) == 2,
             all = sizes[i].sender == PGAS_OK;
        good = good && is_done(&got[0][0], 1, sizes[i].sender) &&
               is_done(&got[0][1], 2, all ? PGAS_OK : PGAS_ERR_PEER);
        good = good && is_done(&got[1][0], 100, sizes[i].receiver) &&
               is_done(&got[1][1], 101, all ? PGAS_OK : PGAS_ERR_PEER);
        if (all)
            good = good && got[1][0].bytes == sizes[i].sent &&
                   memcmp(p.bytes[1], p.bytes[0], sizes[i].sent) == 0;
        for (uint32_t k = all ? sizes[i].sent : 0; k < 512; k++)
            good = good && p.bytes[1][k] == 0;
        ok(good, "a SEND of %u bytes to a buffer of %u", sizes[i].sent, sizes[i].room);
        pair_close(&p);
    }
}

/* Posts that fail at the k-th: earlier ones complete, silently if they are not signaled; all later
 * ones are flushed, signaled or not. */
static void all_behind_an_error_is_flushed(void)
{
    pair_t p;
    pgas_verbs_completion_t got[2][20];
    pair_open(&p, STEP, adversary, 1);
    for (uint64_t i = 0; i < 4; i++)
        pair_recv(&p, 1, 0, 64, 100 + i);
    for (uint64_t i = 0; i < 3; i++)
        pair_recv(&p, 0, 0, 64, 200 + i);
    pair_post(&p, PGAS_VERBS_WRITE, 0, 0, 8, 0, 1);
    pair_post(&p, PGAS_VERBS_WRITE, 0, 0, 8, SIGNAL, 2);
    pair_post(&p, PGAS_VERBS_WRITE, 0, SNIC_BYTES, 8, 0, 3); /* beyond its memory */
    for (uint64_t i = 0; i < N_BEHIND; i++)
        pair_post(&p, i % 2 ? PGAS_VERBS_SEND : PGAS_VERBS_WRITE, 0, 8, 8, i % 2 ? SIGNAL : 0,
                  4 + i);
    int n = snic_take(p.dev, p.cq[0], got[0], 20);
    is_int(n, 2 + N_BEHIND + 3,
           "a signaled one, the error, later ones, and the receive buffers here");
    bool good = is_done(&got[0][0], 2, PGAS_OK) && is_done(&got[0][1], 3, PGAS_ERR_RANGE);
    int n_sends = 0, n_recvs = 0;
    for (int i = 2; i < n; i++) {
        bool recv = got[0][i].op == PGAS_VERBS_RECV;
        good = good && is_done(&got[0][i], recv ? 200u + (uint64_t)n_recvs : 4u + (uint64_t)n_sends,
                               PGAS_ERR_PEER);
        n_sends += !recv;
        n_recvs += recv;
    }
    ok(good && n_sends == N_BEHIND && n_recvs == 3, "each in its order, with its status");
    n = snic_take(p.dev, p.cq[1], got[1], 20);
    good = n == 4;
    for (int i = 0; i < n; i++)
        good = good && is_done(&got[1][i], 100 + (uint64_t)i, PGAS_ERR_PEER);
    ok(good && p.bytes[1][8] == 0, "the peer's buffers are flushed, nothing was written there");
    pgas_verbs_request_t more = { .op = PGAS_VERBS_NOP, .flags = SIGNAL };
    is_int(pgas_verbs_qp_post(p.qp[0], &more, 1, NULL), PGAS_ERR_PEER, "a post now gets the error");
    pair_close(&p);
}

/* A receive buffer outside of memory: the receiver gets the reason, the sender only a failure. */
static void bad_receive_buffers_are_refused(void)
{
    static const struct {
        const char *what;
        uint32_t at, bytes, key;
        bool for_reads;
    } buffers[] = { { "beyond memory", SNIC_BYTES - 8, 16, 0, false },
                    { "of a wrong key", 0, 16, 0x40000000, false },
                    { "in memory that is not for writes", 0, 16, 0, true } };
    for (size_t i = 0; i < PGASI_ARRAY_LENGTH(buffers); i++) {
        pair_t p;
        pgas_verbs_completion_t got[2][2];
        pair_open(&p, STEP, adversary, 1);
        pgas_verbs_span_t span = pair_span(&p, 1, buffers[i].at, buffers[i].bytes);
        span.lkey ^= buffers[i].key;
        pgas_verbs_mem_t readable = { .addr = NULL };
        if (buffers[i].for_reads)
            must(pgas_verbs_mem_register(p.dev, p.bytes[1], SNIC_BYTES, PGAS_VERBS_REMOTE_READ,
                                         &readable),
                 "memory");
        span.lkey = buffers[i].for_reads ? readable.lkey : span.lkey;
        pgas_verbs_recv_t recv = { 100, &span, 1 };
        must(pgas_verbs_qp_recv(p.qp[1], &recv, 1, NULL), "a receive buffer");
        memset(p.bytes[0], 1, 16);
        pair_post(&p, PGAS_VERBS_SEND, 0, 0, 16, SIGNAL, 1);
        bool good =
            snic_take(p.dev, p.cq[0], got[0], 2) == 1 && snic_take(p.dev, p.cq[1], got[1], 2) == 1;
        ok(good && is_done(&got[0][0], 1, PGAS_ERR_TRANSPORT) &&
               is_done(&got[1][0], 100, PGAS_ERR_RANGE) && p.bytes[1][SNIC_BYTES - 1] == 0 &&
               p.bytes[1][0] == 0,
           "a receive buffer %s", buffers[i].what);
        pgas_verbs_mem_release(p.dev, &readable);
        pair_close(&p);
    }
}

/* ---- receivers that are not ready ---- */

static void pair_with(pair_t *p, const pgas_verbs_qp_opts_t *opts, pgas_verbs_engine_t engine)
{
    pair_on(p, snic_device(engine, adversary, 1), opts, PGAS_VERBS_ACCESS_ALL);
    p->own_dev = true;
}

static void tries_end_where_they_are_counted(void)
{
    for (uint32_t tries = 0; tries < 7; tries += 3) {
        pgas_verbs_qp_opts_t opts = PGAS_VERBS_QP_OPTS_INIT;
        pgas_verbs_completion_t got[3];
        pair_t p;
        opts.rnr_retry = tries;
        pair_with(&p, &opts, STEP);
        pair_post(&p, PGAS_VERBS_SEND, 0, 0, 8, SIGNAL, 1);
        pair_post(&p, PGAS_VERBS_WRITE, 0, 0, 8, SIGNAL, 2);
        for (int i = 0; i < 2000; i++) /* a try is some steps in which nothing is done */
            pgas_verbs_snic_step(p.dev);
        ok(snic_take(p.dev, p.cq[0], got, 3) == 2 && is_done(&got[0], 1, PGAS_ERR_AGAIN) &&
               is_done(&got[1], 2, PGAS_ERR_PEER),
           "no buffer, %u tries more", tries);
        pair_close(&p);
    }
}

/* Retries without end: later requests wait, and continue when there is a buffer. */
static void tries_without_end_go_on(pgas_verbs_op_t op)
{
    pgas_verbs_completion_t got[3];
    pair_t p;
    pair_open(&p, STEP, adversary, 1);
    memset(p.bytes[0], 7, 8);
    pair_post(&p, op, 0, 0, 8, SIGNAL, 1);
    pair_post(&p, PGAS_VERBS_WRITE, 0, 1024, 8, SIGNAL, 2);
    for (int i = 0; i < 1000; i++)
        pgas_verbs_snic_step(p.dev);
    ok(pgas_verbs_cq_poll(p.cq[0], got, 3) == 0 && p.bytes[1][1024] == 0,
       "nothing is done, nor any later request");
    pair_recv(&p, 1, 0, 64, 100);
    ok(snic_take(p.dev, p.cq[0], got, 2) == 2 && is_done(&got[0], 1, PGAS_OK) &&
           is_done(&got[1], 2, PGAS_OK) && p.bytes[1][1024] == 7,
       "a buffer, and all continues");
    pair_close(&p);
}

/* The same by the engines that run by themselves: the buffer comes when the sender has waited for
 * long. */
static void engines_try_again(pgas_verbs_engine_t engine)
{
    pgas_verbs_completion_t got[1];
    pair_t p;
    pair_open(&p, engine, adversary, 1);
    pair_post(&p, PGAS_VERBS_SEND, 0, 0, 8, SIGNAL, 1);
    int n = 0;
    for (int i = 0; i < 1000; i++)
        n += pgas_verbs_cq_poll(p.cq[0], got, 1);
    pair_recv(&p, 1, 0, 64, 100);
    ok(n == 0 && snic_await(p.cq[0], got, 1) == 1 && is_done(&got[0], 1, PGAS_OK),
       "engine %d retries", (int)engine);
    pair_close(&p);
}

/* ---- peers that are not there ---- */

static void closed_peers_do_not_answer(bool before)
{
    pgas_verbs_completion_t got[3];
    pair_t p;
    pair_open(&p, STEP, adversary, 1);
    if (!before) {
        pair_post(&p, PGAS_VERBS_SEND, 0, 0, 8, SIGNAL, 1); /* waits for a buffer */
        for (int i = 0; i < 100; i++)
            pgas_verbs_snic_step(p.dev);
    }
    pgas_verbs_qp_destroy(p.qp[1]);
    p.qp[1] = NULL;
    if (before)
        pair_post(&p, PGAS_VERBS_WRITE, 0, 0, 8, SIGNAL, 1);
    pair_post(&p, PGAS_VERBS_WRITE, 0, 0, 8, SIGNAL, 2);
    ok(snic_take(p.dev, p.cq[0], got, 3) == 2 && is_done(&got[0], 1, PGAS_ERR_PEER) &&
           is_done(&got[1], 2, PGAS_ERR_PEER) && got[0].syndrome != got[1].syndrome,
       "a peer that was closed %s: retries are exceeded, later requests are flushed",
       before ? "before" : "meanwhile");
    pair_close(&p);
}

/* A peer in error answers as little as one that is gone. */
static void peers_in_error_do_not_answer(void)
{
    pgas_verbs_completion_t got[3];
    pair_t p;
    pair_open(&p, STEP, adversary, 1);
    pgas_verbs_request_t bad = {
        .op = PGAS_VERBS_READ, .flags = SIGNAL, .id = 9, .rkey = 0x40000000
    };
    pgas_verbs_span_t span = pair_span(&p, 1, 0, 8);
    bad.spans = &span;
    bad.n_spans = 1;
    snic_post(p.qp[1], &bad);
    bool good = snic_take(p.dev, p.cq[1], got, 3) == 1 && is_done(&got[0], 9, PGAS_ERR_RANGE);
    pgas_verbs_span_t own = pair_span(&p, 0, 0, 8);
    pgas_verbs_request_t request = pair_request(&p, PGAS_VERBS_WRITE, &own, 0, 1);
    pgas_status_t status = pgas_verbs_qp_post(p.qp[0], &request, 1, NULL);
    int n = snic_take(p.dev, p.cq[0], got, 3);
    ok(good && (status == PGAS_ERR_PEER || (n == 1 && is_done(&got[0], 1, PGAS_ERR_PEER))),
       "a peer in error");
    pair_close(&p);
}

/* Random traffic on two pairs of one device; one end is closed in the middle. The other pair is not
 * affected. */
static void close_while_traffic(pgas_verbs_engine_t engine)
{
    int n_bad = 0;
    for (uint64_t round = 0; round < 20; round++) {
        pair_t p, q;
        pgas_verbs_completion_t got[64];
        pair_open(&p, engine, adversary, round + 1);
        pair_on(&q, p.dev, NULL, PGAS_VERBS_ACCESS_ALL);
        for (uint64_t i = 0; i < 32; i++) {
            pair_post(&p, PGAS_VERBS_WRITE, 0, 8 * (uint32_t)i, 8, SIGNAL, i);
            pair_post(&q, PGAS_VERBS_WRITE, 0, 8 * (uint32_t)i, 8, SIGNAL, i);
            for (uint64_t k = 0; engine == STEP && k < round % 4; k++)
                pgas_verbs_snic_step(p.dev);
        }
        pgas_verbs_qp_destroy(p.qp[round % 2]);
        p.qp[round % 2] = NULL;
        int n = engine == STEP ? snic_take(p.dev, q.cq[0], got, 32) : snic_await(q.cq[0], got, 32);
        n_bad += n != 32;
        for (int i = 0; i < n; i++)
            n_bad += !is_done(&got[i], (uint64_t)i, PGAS_OK);
        pair_close(&q);
        pair_close(&p);
    }
    is_int(n_bad, 0, "engine %d: a queue pair is closed under way, others continue", (int)engine);
}

/* ---- queues that run over ---- */

static void send_queues_are_full_or_run_over(void)
{
    pgas_verbs_qp_opts_t opts = PGAS_VERBS_QP_OPTS_INIT;
    pgas_verbs_completion_t got[64];
    pair_t p;
    opts.send_depth = 8;
    opts.send_spans = 1;
    opts.inline_max = 0;
    pair_with(&p, &opts, STEP);
    pgas_verbs_request_t request = { .op = PGAS_VERBS_NOP, .flags = SIGNAL };
    int n = 0;
    while (n < 1000 && pgas_verbs_qp_post(p.qp[0], &request, 1, NULL) == PGAS_OK)
        n++;
    ok(n >= 8 && n < 1000, "a queue of 8 takes %d, then refuses", n);
    is_int(snic_take(p.dev, p.cq[0], got, 64), n, "and carries them out");
    pair_close(&p);

    opts.flags = PGAS_VERBS_QP_IGNORE_OVERRUN;
    pair_with(&p, &opts, STEP);
    n = 0;
    while (n < 1000 && qp_write(p.qp[0], &request, NULL) == PGAS_OK)
        n++;
    is_int(n, 1000, "without the check it takes everything");
    pair_close(&p);
}

/* A small completion queue that no thread polls. */
static void completion_queues_die_or_are_overwritten(bool ignore)
{
    pgas_verbs_qp_opts_t opts = PGAS_VERBS_QP_OPTS_INIT;
    pgas_verbs_completion_t got[64];
    pgas_verbs_cq_t *small = NULL;
    pair_t p;
    pgas_verbs_dev_t *dev = snic_device(STEP, 0, 1);
    must(pgas_verbs_cq_create(dev, 4, ignore ? PGAS_VERBS_CQ_IGNORE_OVERRUN : 0, &small),
         "a small queue");
    opts.send_cq = small;
    pair_on(&p, dev, &opts, PGAS_VERBS_ACCESS_ALL);
    memset(p.bytes[0], 5, 64);
    for (uint32_t i = 0; i < 32; i++)
        pair_post(&p, PGAS_VERBS_WRITE, i, i, 1, SIGNAL, i);
    snic_settle(dev);
    int n_arrived = 0, polled = 0;
    while (n_arrived < 32 && p.bytes[1][n_arrived] == 5)
        n_arrived++;
    do
        polled = pgas_verbs_cq_poll(small, got, 64);
    while (polled > 0);
    if (ignore)
        ok(n_arrived == 32 && polled == 0, "overrun is ignored: all %d are done", n_arrived);
    else
        ok(n_arrived < 32 && n_arrived >= 4 && polled == -1,
           "overrun: after %d requests the queue is dead", n_arrived);
    if (!ignore) {
        ok(pgas_verbs_cq_wait(small, 1) == PGAS_ERR_TRANSPORT, "a waiting thread gets the error");
        pgas_verbs_request_t more = { .op = PGAS_VERBS_NOP, .flags = SIGNAL };
        pgas_verbs_qp_post(p.qp[0], &more, 1, NULL);
        snic_settle(dev);
        is_int(pgas_verbs_cq_poll(small, got, 64), -1, "and it stays so");
    }
    for (int i = 0; i < 2; i++) {
        pgas_verbs_qp_destroy(p.qp[i]);
        p.qp[i] = NULL;
    }
    must(pgas_verbs_cq_destroy(small), "close the small queue");
    pair_close(&p);
    must(pgas_verbs_close(dev), "close the device");
}

/* ---- options ---- */

/* Opens a queue pair with the options, and closes it. */
static pgas_status_t gives(pgas_verbs_dev_t *dev, const pgas_verbs_qp_opts_t *opts)
{
    pgas_verbs_qp_t *qp = NULL;
    pgas_status_t status = pgas_verbs_qp_create(dev, opts, &qp);
    if (status == PGAS_OK)
        pgas_verbs_qp_destroy(qp);
    return status;
}

/* Each option at its first and last value, and at the values before and after these. */
static void options_are_checked(void)
{
    pgas_verbs_dev_t *dev = snic_device(STEP, 0, 1), *other = snic_device(STEP, 0, 2);
    pgas_verbs_cq_t *cq, *other_cq;
    pgas_verbs_srq_t *other_srq;
    must(pgas_verbs_cq_create(dev, 64, 0, &cq), "a queue");
    must(pgas_verbs_cq_create(other, 64, 0, &other_cq), "a queue");
    must(pgas_verbs_srq_create(other, 8, 1, &other_srq), "a queue");
    pgas_verbs_qp_opts_t good = PGAS_VERBS_QP_OPTS_INIT;
    good.send_cq = good.recv_cq = cq;
    pgas_verbs_qp_opts_t changed;
#define WITH(field, value) (changed = good, changed.field = (value), gives(dev, &changed))
    is_int(gives(dev, &good), PGAS_OK, "the defaults");
    ok(gives(NULL, &good) == PGAS_ERR_INVALID && gives(dev, NULL) == PGAS_ERR_INVALID &&
           pgas_verbs_qp_create(dev, &good, NULL) == PGAS_ERR_INVALID &&
           WITH(size, sizeof good - 8) == PGAS_ERR_INVALID,
       "no device, no options, no place, options of another size");
    ok(WITH(send_cq, NULL) == PGAS_ERR_INVALID && WITH(recv_cq, NULL) == PGAS_ERR_INVALID,
       "no queue");
    ok(WITH(send_cq, other_cq) == PGAS_ERR_INVALID && WITH(recv_cq, other_cq) == PGAS_ERR_INVALID &&
           WITH(srq, other_srq) == PGAS_ERR_INVALID,
       "a queue of another device");
    ok(WITH(send_depth, 1) == PGAS_OK && WITH(send_depth, 0) == PGAS_ERR_INVALID,
       "a depth of 1 at least");
    ok(WITH(send_spans, 1) == PGAS_OK && WITH(send_spans, 0) == PGAS_ERR_INVALID,
       "a span at least");
    ok(WITH(reads_max, 1) == PGAS_OK && WITH(reads_max, 0) == PGAS_ERR_INVALID, "a read at least");
    ok(WITH(retry, 7) == PGAS_OK && WITH(retry, 8) == PGAS_ERR_INVALID, "7 tries at most");
    ok(WITH(rnr_retry, 7) == PGAS_OK && WITH(rnr_retry, 8) == PGAS_ERR_INVALID,
       "and 7 of no receive buffer");
    ok(WITH(access, 0) == PGAS_OK && WITH(access, PGAS_VERBS_ACCESS_ALL + 1) == PGAS_ERR_INVALID,
       "kinds of access");
    ok(WITH(flags, PGAS_VERBS_QP_IGNORE_OVERRUN) == PGAS_OK &&
           WITH(flags, 2 * PGAS_VERBS_QP_IGNORE_OVERRUN) == PGAS_ERR_INVALID,
       "flags");
    ok(WITH(send_depth, UINT32_MAX) == PGAS_ERR_LIMIT &&
           WITH(recv_depth, UINT32_MAX) == PGAS_ERR_LIMIT &&
           WITH(send_spans, UINT32_MAX) == PGAS_ERR_LIMIT &&
           WITH(recv_spans, UINT32_MAX) == PGAS_ERR_LIMIT &&
           WITH(inline_max, UINT32_MAX) == PGAS_ERR_LIMIT,
       "options beyond the limits");
#undef WITH
    must(pgas_verbs_srq_destroy(other_srq), "close");
    must(pgas_verbs_cq_destroy(other_cq), "close");
    must(pgas_verbs_cq_destroy(cq), "close");
    must(pgas_verbs_close(other), "close");
    must(pgas_verbs_close(dev), "close");
}

/* All that must hold whatever the adversary does. */
static void all_rules(uint32_t how)
{
    adversary = how;
    diag("adversary %u", (unsigned)how);
    sends_fit_or_fail();
    all_behind_an_error_is_flushed();
    bad_receive_buffers_are_refused();
    tries_end_where_they_are_counted();
    tries_without_end_go_on(PGAS_VERBS_SEND);
    tries_without_end_go_on(PGAS_VERBS_WRITE_IMM);
    engines_try_again(PGAS_VERBS_ENGINE_CALLER);
    engines_try_again(PGAS_VERBS_ENGINE_THREAD);
    closed_peers_do_not_answer(true);
    closed_peers_do_not_answer(false);
    peers_in_error_do_not_answer();
    close_while_traffic(STEP);
    close_while_traffic(PGAS_VERBS_ENGINE_CALLER);
    close_while_traffic(PGAS_VERBS_ENGINE_THREAD);
}

int main(void)
{
    plan(2 * 28 + 7 + 12);
    all_rules(0);
    all_rules(PGAS_VERBS_SNIC_ALL);
    adversary = 0;
    options_are_checked();
    send_queues_are_full_or_run_over();
    completion_queues_die_or_are_overwritten(false);
    completion_queues_die_or_are_overwritten(true);
    return done();
}
