/* t/unit/tsan_verbs.c
 *   what:   Threads use two contexts of the software NIC at once. Each sends on a transmitter of
 *           its own and on a shared one, receives from a shared receive queue, and opens and closes
 *           queue pairs and memory meanwhile. Each message arrives once, with its bytes. If memory
 *           is released, or a peer closed, while requests are under way and another thread polls,
 *           each request completes once. ThreadSanitizer finds no race.
 *   needs:  tsan-ok
 *   source: include/pgas/verbs.h */
#include <pthread.h>
#include <sched.h>
#include "pgas/verbs.h"
#include "t/must.h"
#include "t/queue_pairs.h"
#include "t/tap.h"

#define THREADS      3
#define MESSAGES     2000
#define BUFFERS      64
#define BUFFER_BYTES 64
#define SECOND_US    INT64_C(1000000)
#define HANG_S       60
#define LIVES        60 /* of connections, each thread */
#define REQUESTS     8  /* of each */

typedef struct {
    pgas_verbs_dev_t *dev;
    pgas_verbs_mem_t mem;
    pgas_verbs_cq_t *send_cq, *recv_cq;
    pgas_verbs_srq_t *srq;
} side_t;

typedef struct {
    int number;
    pgas_verbs_tx_t *own, *shared;
    pgas_verbs_dev_t *dev;
    bool good;
} sender_t;

static side_t sides[2];

static void post_buffer(const side_t *side, uint64_t i)
{
    pgas_verbs_span_t room = { (uint64_t)(uintptr_t)side->mem.addr + i * BUFFER_BYTES, BUFFER_BYTES,
                               side->mem.lkey };
    const pgas_verbs_recv_t recv = { i, &room, 1 };
    must(pgas_verbs_srq_recv(side->srq, &recv, 1, NULL), "a receive buffer");
}

static void open_device(pgas_verbs_engine_t engine, pgas_verbs_dev_t **dev_p)
{
    pgas_verbs_dev_opts_t opts = PGAS_VERBS_DEV_OPTS_INIT;
    opts.device = "snic";
    opts.engine = engine;
    must(pgas_verbs_open(&opts, dev_p), "the device");
}

static void open_side(side_t *side, pgas_verbs_engine_t engine)
{
    open_device(engine, &side->dev);
    must(pgas_verbs_mem_register(side->dev, NULL, BUFFERS * BUFFER_BYTES, PGAS_VERBS_ACCESS_ALL,
                                 &side->mem),
         "memory");
    must(pgas_verbs_cq_create(side->dev, 4096, 0, &side->send_cq), "a completion queue");
    must(pgas_verbs_cq_create(side->dev, 4096, 0, &side->recv_cq), "a completion queue");
    must(pgas_verbs_srq_create(side->dev, BUFFERS, 1, &side->srq), "a shared receive queue");
    for (uint64_t i = 0; i < BUFFERS; i++)
        post_buffer(side, i);
}

static void close_side(side_t *side)
{
    must(pgas_verbs_srq_destroy(side->srq), "close");
    must(pgas_verbs_cq_destroy(side->send_cq), "close");
    must(pgas_verbs_cq_destroy(side->recv_cq), "close");
    pgas_verbs_mem_release(side->dev, &side->mem);
    must(pgas_verbs_close(side->dev), "close");
}

static pgas_verbs_qp_t *make_qp(const side_t *side)
{
    pgas_verbs_qp_opts_t opts = PGAS_VERBS_QP_OPTS_INIT;
    pgas_verbs_qp_t *qp = NULL;
    opts.send_cq = side->send_cq;
    opts.recv_cq = side->recv_cq;
    opts.srq = side->srq;
    opts.send_depth = 64;
    must(pgas_verbs_qp_create(side->dev, &opts, &qp), "a queue pair");
    return qp;
}

static void connect_pair(pgas_verbs_qp_t *qps[2])
{
    pgas_verbs_address_t address;
    for (int i = 0; i < 2; i++) {
        qp_address(qps[1 - i], &address);
        must(pgas_verbs_qp_connect(qps[i], &address), "connect");
    }
}

/* From the first side to the second. */
static void make_pair(pgas_verbs_qp_t *qps[2])
{
    for (int i = 0; i < 2; i++)
        qps[i] = make_qp(&sides[i]);
    connect_pair(qps);
}

/* Queues and memory come and go beside the traffic. */
static void change_something(pgas_verbs_dev_t *dev)
{
    static const char bytes[64];
    pgas_verbs_mem_t mem;
    pgas_verbs_cq_t *cq;
    must(pgas_verbs_mem_register(dev, (void *)(uintptr_t)bytes, sizeof bytes, 0, &mem), "register");
    must(pgas_verbs_cq_create(dev, 16, 0, &cq), "a completion queue");
    pgas_verbs_qp_opts_t opts = PGAS_VERBS_QP_OPTS_INIT;
    pgas_verbs_qp_t *qp;
    opts.send_cq = opts.recv_cq = cq;
    must(pgas_verbs_srq_create(dev, 4, 1, &opts.srq), "a shared receive queue");
    must(pgas_verbs_qp_create(dev, &opts, &qp), "a queue pair");
    pgas_verbs_qp_destroy(qp);
    must(pgas_verbs_srq_destroy(opts.srq), "close");
    must(pgas_verbs_cq_destroy(cq), "close");
    pgas_verbs_mem_release(dev, &mem);
}

static void *send_all(void *arg)
{
    sender_t *s = arg;
    s->good = true;
    for (uint64_t i = 0; i < MESSAGES && s->good; i++) {
        pgas_verbs_tx_t *tx = i % 2 == 0 ? s->own : s->shared;
        uint64_t words[2] = { (uint64_t)s->number << 32 | i, ~i }, number;
        pgas_verbs_span_t span = { (uint64_t)(uintptr_t)words, sizeof words, 0 };
        pgas_verbs_request_t r = {
            .op = PGAS_VERBS_SEND, .flags = PGAS_VERBS_INLINE, .spans = &span, .n_spans = 1
        };
        pgas_status_t status;
        while ((status = pgas_verbs_tx_post(tx, &r, &number)) == PGAS_ERR_AGAIN) {
            pgas_verbs_tx_poll(tx);
            sched_yield();
        }
        s->good = status == PGAS_OK;
        if (i % 64 == 0)
            change_something(s->dev);
        if (i % 100 == 99)
            s->good = s->good && pgas_verbs_tx_wait(tx, number, HANG_S * SECOND_US) == PGAS_OK;
    }
    uint64_t last = pgas_verbs_tx_posted(s->own);
    s->good = s->good && pgas_verbs_tx_wait(s->own, last, HANG_S * SECOND_US) == PGAS_OK;
    return NULL;
}

/* @return messages that were right and new */
static int receive_all(void)
{
    static unsigned char seen[THREADS][MESSAGES];
    const side_t *side = &sides[1];
    int n_good = 0;
    memset(seen, 0, sizeof seen);
    for (int n = 0; n < THREADS * MESSAGES;) {
        pgas_verbs_completion_t c[16];
        int got = pgas_verbs_cq_poll(side->recv_cq, c, 16);
        if (got == 0 && pgas_verbs_cq_wait(side->recv_cq, HANG_S * SECOND_US) != PGAS_OK)
            return n_good;
        for (int i = 0; i < got; i++, n++) {
            uint64_t words[2];
            memcpy(words, (const char *)side->mem.addr + c[i].id * BUFFER_BYTES, sizeof words);
            uint64_t from = words[0] >> 32, number = words[0] & 0xffffffffu;
            bool sane = c[i].status == PGAS_OK && c[i].bytes == sizeof words && from < THREADS &&
                        number < MESSAGES;
            n_good += sane && words[1] == ~number && seen[from][number]++ == 0;
            post_buffer(side, c[i].id);
        }
    }
    return n_good;
}

static void run(pgas_verbs_engine_t engine, const char *text)
{
    pgas_verbs_qp_t *qps[THREADS + 1][2];
    pgas_verbs_tx_opts_t opts = PGAS_VERBS_TX_OPTS_INIT;
    pgas_verbs_tx_t *shared;
    pthread_t threads[THREADS];
    sender_t senders[THREADS];
    bool all = true;
    open_side(&sides[0], engine);
    open_side(&sides[1], engine);
    for (int i = 0; i <= THREADS; i++)
        make_pair(qps[i]);
    opts.shared = true;
    must(pgas_verbs_tx_create(qps[THREADS][0], &opts, &shared), "the shared transmitter");
    opts.shared = false;
    for (int i = 0; i < THREADS; i++) {
        senders[i] = (sender_t){ .number = i, .shared = shared, .dev = sides[i % 2].dev };
        must(pgas_verbs_tx_create(qps[i][0], &opts, &senders[i].own), "a transmitter");
    }
    for (int i = 0; i < THREADS; i++)
        if (pthread_create(&threads[i], NULL, send_all, &senders[i]) != 0)
            bail("no thread");
    is_int(receive_all(), THREADS * MESSAGES, "%s: every message arrived once, with its bytes",
           text);
    for (int i = 0; i < THREADS; i++) {
        pthread_join(threads[i], NULL);
        all = all && senders[i].good;
    }
    ok(all, "%s: every thread has sent all", text);
    is_int(pgas_verbs_tx_wait(shared, pgas_verbs_tx_posted(shared), HANG_S * SECOND_US), PGAS_OK,
           "%s: the shared one too", text);
    for (int i = 0; i <= THREADS; i++)
        for (int k = 0; k < 2; k++)
            pgas_verbs_qp_destroy(qps[i][k]);
    for (int k = 0; k < 2; k++)
        close_side(&sides[k]);
}

/* ---- connections that come and go ---- */

/** One thread's, with memory of its own at both ends. */
typedef struct {
    unsigned random;
    pgas_verbs_engine_t engine;
    int n_bad; /* connections with a request that has not completed, or twice */
    char here[REQUESTS][64], there[REQUESTS][64];
} life_t;

static int n_living;

/* The receiving end, whose completions another thread polls. */
static pgas_verbs_qp_t *make_end(life_t *life, const side_t *side, const pgas_verbs_mem_t *mem)
{
    pgas_verbs_qp_opts_t opts = PGAS_VERBS_QP_OPTS_INIT;
    pgas_verbs_qp_t *qp;
    opts.send_cq = opts.recv_cq = side->recv_cq;
    opts.send_depth = opts.recv_depth = REQUESTS;
    must(pgas_verbs_qp_create(side->dev, &opts, &qp), "a queue pair");
    for (int i = 0; i < REQUESTS; i++) {
        pgas_verbs_span_t room = { (uint64_t)(uintptr_t)life->there[i], sizeof life->there[i],
                                   mem->lkey };
        const pgas_verbs_recv_t recv = { BUFFERS, &room, 1 };
        must(pgas_verbs_qp_recv(qp, &recv, 1, NULL), "a receive buffer");
    }
    return qp;
}

static void request(life_t *life, pgas_verbs_qp_t *qp, int i, const pgas_verbs_mem_t *from,
                    const pgas_verbs_mem_t *to)
{
    static const pgas_verbs_op_t ops[] = { PGAS_VERBS_SEND, PGAS_VERBS_WRITE, PGAS_VERBS_READ,
                                           PGAS_VERBS_WRITE_IMM };
    pgas_verbs_span_t span = { (uint64_t)(uintptr_t)life->here[i], sizeof life->here[i],
                               from->lkey };
    const pgas_verbs_request_t r = { .op = ops[rand_r(&life->random) % 4],
                                     .flags = PGAS_VERBS_SIGNAL,
                                     .spans = &span,
                                     .n_spans = 1,
                                     .remote_addr = (uint64_t)(uintptr_t)life->there[i],
                                     .rkey = to->rkey };
    pgas_status_t status = pgas_verbs_qp_post(qp, &r, 1, NULL);
    if (status != PGAS_ERR_PEER) /* once an error was polled */
        must(status, "a post");
}

/* Both ends, used and broken by one thread. */
static void live_once(life_t *life)
{
    pgas_verbs_dev_t *third = NULL, *dev = sides[0].dev;
    unsigned what = (unsigned)rand_r(&life->random);
    pgas_verbs_mem_t from, to;
    pgas_verbs_cq_t *cq;
    pgas_verbs_qp_opts_t opts = PGAS_VERBS_QP_OPTS_INIT;
    pgas_verbs_qp_t *qps[2];
    if (what % 8 == 0) {
        open_device(life->engine, &third);
        dev = third;
    }
    must(pgas_verbs_cq_create(dev, 2 * REQUESTS, what & 8 ? PGAS_VERBS_CQ_EVENTS : 0, &cq),
         "a completion queue");
    must(pgas_verbs_mem_register(dev, life->here, sizeof life->here, PGAS_VERBS_ACCESS_ALL, &from),
         "register");
    must(pgas_verbs_mem_register(sides[1].dev, life->there, sizeof life->there,
                                 PGAS_VERBS_ACCESS_ALL, &to),
         "register");
    opts.send_cq = opts.recv_cq = cq;
    opts.send_depth = REQUESTS;
    opts.retry = 0;
    must(pgas_verbs_qp_create(dev, &opts, &qps[0]), "a queue pair");
    qps[1] = make_end(life, &sides[1], &to);
    connect_pair(qps);
    for (int i = 0; i < REQUESTS; i++) {
        request(life, qps[0], i, &from, &to);
        if (i == REQUESTS / 2 && (what & 16) != 0) {
            pgas_verbs_mem_release(sides[1].dev, &to);
            must(pgas_verbs_mem_register(sides[1].dev, life->there, 64, PGAS_VERBS_ACCESS_ALL, &to),
                 "register");
        }
        if (i == REQUESTS / 2 && (what & 32) != 0) {
            pgas_verbs_qp_destroy(qps[1]);
            qps[1] = NULL;
        }
    }
    int n_completed = 0;
    pgas_verbs_completion_t c;
    while (n_completed < REQUESTS && pgas_verbs_cq_wait(cq, HANG_S * SECOND_US) == PGAS_OK)
        n_completed += pgas_verbs_cq_poll(cq, &c, 1);
    life->n_bad += n_completed != REQUESTS || pgas_verbs_cq_poll(cq, &c, 1) != 0;
    for (int i = 0; i < 2; i++)
        if (qps[i])
            pgas_verbs_qp_destroy(qps[i]);
    pgas_verbs_mem_release(sides[1].dev, &to);
    pgas_verbs_mem_release(dev, &from);
    must(pgas_verbs_cq_destroy(cq), "close");
    if (third)
        must(pgas_verbs_close(third), "close");
    memset(life->there, 0, sizeof life->there); /* no other thread writes there now */
}

static void *live(void *arg)
{
    for (int i = 0; i < LIVES; i++)
        live_once(arg);
    __atomic_sub_fetch(&n_living, 1, __ATOMIC_RELEASE);
    return NULL;
}

static void come_and_go(pgas_verbs_engine_t engine, const char *text, unsigned seed)
{
    static life_t lives[THREADS];
    pthread_t threads[THREADS];
    pgas_verbs_completion_t c[16];
    int n_bad = 0, got = 0;
    open_side(&sides[0], engine);
    open_side(&sides[1], engine);
    n_living = THREADS;
    for (int i = 0; i < THREADS; i++) {
        lives[i] = (life_t){ .random = seed + (unsigned)i, .engine = engine };
        if (pthread_create(&threads[i], NULL, live, &lives[i]) != 0)
            bail("no thread");
    }
    while (__atomic_load_n(&n_living, __ATOMIC_ACQUIRE) > 0 && got >= 0) {
        got = pgas_verbs_cq_poll(sides[1].recv_cq, c, 16);
        if (got == 0)
            pgas_verbs_cq_wait(sides[1].recv_cq, SECOND_US / 1000);
    }
    for (int i = 0; i < THREADS; i++) {
        pthread_join(threads[i], NULL);
        n_bad += lives[i].n_bad;
    }
    ok(got >= 0, "%s: the receivers' queue has not overrun", text);
    is_int(n_bad, 0, "%s: each request of a connection that breaks completes once", text);
    for (int i = 0; i < 2; i++)
        close_side(&sides[i]);
}

int main(void)
{
    plan(10);
    unsigned seed = (unsigned)tap_seed(1);
    run(PGAS_VERBS_ENGINE_CALLER, "caller");
    run(PGAS_VERBS_ENGINE_THREAD, "thread");
    come_and_go(PGAS_VERBS_ENGINE_CALLER, "caller", seed);
    come_and_go(PGAS_VERBS_ENGINE_THREAD, "thread", seed);
    return done();
}
