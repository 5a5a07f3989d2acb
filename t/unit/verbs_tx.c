/* what: Transmitters over the software NIC: a hundred thousand writes with one completion for 32,
 *       private and shared among threads; reads, atomics, messages and gathered writes; transfers
 *       that are cut; sleeping until a completion; a connection that ends; also over a NIC that is
 *       as late and as much out of order as allowed.
 * needs: tsan-ok
 * source: pgas/verbs.h */
#include <pthread.h>
#include <sched.h>
#include "base/checks.h"
#include "base/rng.h"
#include "t/must.h"
#include "t/queue_pairs.h"
#include "t/tap.h"
#include "t/unit/verbs_buffers.h"
#include "verbs_backend/queue/device.h"

#define WRITES      100000
#define THREADS     4
#define PATIENCE_US INT64_C(60000000)

/* Two queue pairs that are connected to each other; the second receives. */
typedef struct {
    pgas_verbs_dev_t *dev;
    pgas_verbs_cq_t *cqs[2];
    pgas_verbs_qp_t *qps[2];
    pgas_verbs_mem_t mem; /* first half ours, second half the peer's */
    pgas_verbs_tx_t *tx;
} pair_t;

static uint32_t adversary; /* of the devices that are opened */

static void open_pair(pair_t *p, size_t bytes, const pgas_verbs_tx_opts_t *tx, uint32_t cq_flags,
                      uint64_t message_max)
{
    pgas_verbs_dev_opts_t dev = PGAS_VERBS_DEV_OPTS_INIT;
    dev.device = "snic";
    dev.engine = adversary != 0 ? PGAS_VERBS_ENGINE_THREAD : PGAS_VERBS_ENGINE_CALLER;
    const pgas_verbs_snic_opts_t snic = { .size = sizeof snic, .adversary = adversary, .seed = 1 };
    dev.snic = &snic;
    must(pgas_verbs_open(&dev, &p->dev), "the device");
    if (message_max != 0)
        p->dev->limits.message_max = message_max;
    must(pgas_verbs_mem_register(p->dev, NULL, bytes, PGAS_VERBS_ACCESS_ALL, &p->mem), "memory");
    pgas_verbs_address_t addresses[2];
    for (int i = 0; i < 2; i++) {
        pgas_verbs_qp_opts_t qp = PGAS_VERBS_QP_OPTS_INIT;
        must(pgas_verbs_cq_create(p->dev, 1024, cq_flags, &p->cqs[i]), "a completion queue");
        qp.send_cq = qp.recv_cq = p->cqs[i];
        must(pgas_verbs_qp_create(p->dev, &qp, &p->qps[i]), "a queue pair");
        qp_address(p->qps[i], &addresses[i]);
    }
    must(pgas_verbs_qp_connect(p->qps[0], &addresses[1]), "connecting");
    must(pgas_verbs_qp_connect(p->qps[1], &addresses[0]), "connecting");
    must(pgas_verbs_tx_create(p->qps[0], tx, &p->tx), "a transmitter");
}

/* @return whether nothing is left. */
static bool close_pair(pair_t *p)
{
    pgas_verbs_mem_release(p->dev, &p->mem);
    for (int i = 0; i < 2; i++) {
        pgas_verbs_qp_destroy(p->qps[i]);
        pgas_verbs_cq_destroy(p->cqs[i]);
    }
    return pgas_verbs_close(p->dev) == PGAS_OK;
}

static char *ours(const pair_t *p, uint64_t at)
{
    return (char *)p->mem.addr + at;
}

static char *theirs(const pair_t *p, uint64_t at)
{
    return (char *)p->mem.addr + p->mem.bytes / 2 + at;
}

static uint64_t post(pair_t *p, const pgas_verbs_request_t *request)
{
    uint64_t number = 0;
    pgas_status_t status;
    while ((status = pgas_verbs_tx_post(p->tx, request, &number)) == PGAS_ERR_AGAIN) {
        pgas_verbs_tx_poll(p->tx);
        sched_yield();
    }
    return status == PGAS_OK ? number : 0;
}

static pgas_verbs_request_t write_of(const pair_t *p, const pgas_verbs_span_t *span, void *to)
{
    return (pgas_verbs_request_t){ .op = PGAS_VERBS_WRITE,
                                   .spans = span,
                                   .n_spans = 1,
                                   .remote_addr = (uintptr_t)to,
                                   .rkey = p->mem.rkey };
}

/* ---- many writes ---- */

typedef struct {
    pair_t *pair;
    int index, n_bad;
} writer_t;

/* Into every word of one's part, again and again; the last value wins. */
static void *write_words(void *arg)
{
    writer_t *w = arg;
    pair_t *p = w->pair;
    uint64_t number = 0, value;
    pgas_verbs_span_t span = { (uintptr_t)&value, 8, 0 };
    for (uint64_t i = 0; i < WRITES; i++) {
        value = i + 1;
        pgas_verbs_request_t request =
            write_of(p, &span, theirs(p, ((uint64_t)w->index * 512 + i % 512) * 8));
        number = post(p, &request);
        w->n_bad += number == 0;
    }
    w->n_bad += pgas_verbs_tx_wait(p->tx, number, PATIENCE_US) != PGAS_OK;
    for (uint64_t i = WRITES - 512; i < WRITES; i++)
        w->n_bad += memcmp(theirs(p, ((uint64_t)w->index * 512 + i % 512) * 8),
                           &(uint64_t){ i + 1 }, 8) != 0;
    return NULL;
}

static void write_alone(void)
{
    pair_t pair;
    pgas_verbs_tx_info_t stats = { .size = sizeof stats };
    open_pair(&pair, 1 << 16, NULL, 0, 0);
    writer_t writer = { .pair = &pair };
    write_words(&writer);
    pgas_verbs_tx_info(pair.tx, &stats);
    is_int(writer.n_bad, 0, "%d writes arrive, in order", WRITES);
    ok(stats.completions <= WRITES / 32 + 1 && stats.posted == WRITES && stats.inlined == WRITES,
       "with %d completions, by themselves inline", (int)stats.completions);
    ok(stats.doorbells <= WRITES / 16 + stats.refused + 2, "and %d doorbells",
       (int)stats.doorbells);
    ok(close_pair(&pair), "nothing is left");
}

static void write_together(void)
{
    pair_t pair;
    pgas_verbs_tx_opts_t opts = PGAS_VERBS_TX_OPTS_INIT;
    pgas_verbs_tx_info_t stats = { .size = sizeof stats };
    pthread_t threads[THREADS];
    writer_t writers[THREADS];
    int n_bad = 0;
    opts.shared = true;
    open_pair(&pair, 1 << 16, &opts, 0, 0);
    for (int t = 0; t < THREADS; t++) {
        writers[t] = (writer_t){ .pair = &pair, .index = t };
        pthread_create(&threads[t], NULL, write_words, &writers[t]);
    }
    for (int t = 0; t < THREADS; t++) {
        pthread_join(threads[t], NULL);
        n_bad += writers[t].n_bad;
    }
    pgas_verbs_tx_info(pair.tx, &stats);
    is_int(n_bad, 0, "%d threads write by one queue pair", THREADS);
    ok(stats.posted == (uint64_t)THREADS * WRITES &&
           stats.completions <= stats.posted / 32 + THREADS + 1,
       "with %d completions", (int)stats.completions);
    close_pair(&pair);
}

/* ---- operations ---- */

static bool carry_out(pair_t *p, const pgas_verbs_request_t *request)
{
    uint64_t number = post(p, request);
    return number != 0 && pgas_verbs_tx_wait(p->tx, number, PATIENCE_US) == PGAS_OK;
}

static void read_and_add(pair_t *p)
{
    uint64_t *old = (uint64_t *)(void *)ours(p, 0), *word = (uint64_t *)(void *)theirs(p, 0);
    pgas_verbs_span_t span = { (uintptr_t)old, 8, p->mem.lkey };
    pgas_verbs_request_t request = { .op = PGAS_VERBS_FADD,
                                     .spans = &span,
                                     .n_spans = 1,
                                     .remote_addr = (uintptr_t)word,
                                     .rkey = p->mem.rkey,
                                     .operand = 5 };
    *word = 37;
    ok(carry_out(p, &request) && *old == 37 && *word == 42, "fetch and add");
    request.op = PGAS_VERBS_CSWAP;
    request.compare = 42;
    request.operand = 7;
    ok(carry_out(p, &request) && *old == 42 && *word == 7, "compare and swap");
    request.op = PGAS_VERBS_READ;
    *old = 0;
    ok(carry_out(p, &request) && *old == 7, "read");
}

static void gather(pair_t *p, uint32_t piece, bool small)
{
    pgas_verbs_span_t spans[5];
    pgas_verbs_tx_info_t before = { .size = sizeof before }, after = { .size = sizeof after };
    for (uint32_t i = 0; i < 5; i++) {
        memset(ours(p, i * 1000), (int)i + 1, piece);
        spans[i] = (pgas_verbs_span_t){ (uintptr_t)ours(p, i * 1000), piece, p->mem.lkey };
    }
    pgas_verbs_request_t request = write_of(p, spans, theirs(p, 0));
    request.n_spans = 5;
    pgas_verbs_tx_info(p->tx, &before);
    bool good = carry_out(p, &request);
    pgas_verbs_tx_info(p->tx, &after);
    for (uint32_t i = 0; i < 5 * piece; i++)
        good = good && *theirs(p, i) == (char)(i / piece + 1);
    ok(good && after.inlined - before.inlined == small, "five pieces of %u bytes, %s", piece,
       small ? "inline" : "by pointers");
    request.n_spans = 6;
    ok(pgas_verbs_tx_post(p->tx, &request, NULL) == PGAS_ERR_LIMIT, "six are too many");
}

static void send(pair_t *p)
{
    pgas_verbs_span_t room = { (uintptr_t)theirs(p, 0), 64, p->mem.lkey },
                      span = { (uintptr_t) "message", 8, 0 };
    pgas_verbs_recv_t recv = { .id = 5, .spans = &room, .n_spans = 1 };
    pgas_verbs_request_t request = {
        .op = PGAS_VERBS_SEND_IMM, .spans = &span, .n_spans = 1, .imm = 11
    };
    pgas_verbs_completion_t c;
    bool good = pgas_verbs_qp_recv(p->qps[1], &recv, 1, NULL) == PGAS_OK && carry_out(p, &request);
    good = good && pgas_verbs_cq_wait(p->cqs[1], PATIENCE_US) == PGAS_OK &&
           pgas_verbs_cq_poll(p->cqs[1], &c, 1) == 1;
    ok(good && c.id == 5 && c.bytes == 8 && c.imm == 11 && strcmp(theirs(p, 0), "message") == 0,
       "a message with immediate data");
}

static void use_operations(void)
{
    pair_t pair;
    open_pair(&pair, 1 << 16, NULL, 0, 0);
    read_and_add(&pair);
    gather(&pair, 9, true);
    gather(&pair, 700, false);
    send(&pair);
    close_pair(&pair);
}

/* ---- buffers ---- */

static void use_buffers(void)
{
    pair_t pair;
    buffers_t buffers;
    pgas_verbs_span_t span;
    pgasi_rng_t rng;
    int n_bad = 0, n = 0;
    open_pair(&pair, 1 << 16, NULL, 0, 0);
    buffers_open(pair.dev, 500, BUFFERS_MAX, &buffers);
    pgasi_rng_seed(&rng, tap_seed(4));
    for (uint64_t i = 0; i < 20000; i++) {
        while (!buffers_take(&buffers, &span)) {
            n_bad += pgas_verbs_tx_ring(pair.tx, true) != PGAS_OK;
            pgas_verbs_tx_poll(pair.tx);
        }
        span.bytes = 100 + (uint32_t)pgasi_rng_below(&rng, 400);
        memset((void *)(uintptr_t)span.addr, (int)i, span.bytes);
        pgas_verbs_request_t request = write_of(&pair, &span, theirs(&pair, i % 50 * 500));
        uint64_t number = post(&pair, &request);
        buffers_give(&buffers, &span, pair.tx, number);
        if (i % 50 == 49) {
            n_bad += pgas_verbs_tx_wait(pair.tx, number, PATIENCE_US) != PGAS_OK;
            for (uint64_t k = 0; k < 50; k++)
                n_bad += *theirs(&pair, k * 500) != (char)(i - 49 + k) ||
                         *theirs(&pair, k * 500 + 99) != (char)(i - 49 + k);
        }
    }
    is_int(n_bad, 0, "buffers go round without a byte lost");
    pgas_verbs_tx_wait(pair.tx, pgas_verbs_tx_posted(pair.tx), PATIENCE_US);
    while (buffers_take(&buffers, &span))
        n++;
    is_int(n, BUFFERS_MAX, "all come back");
    buffers_close(&buffers);
    ok(close_pair(&pair), "nothing is left");
}

/* ---- large transfers ---- */

static bool transfer(pair_t *p, uint64_t bytes, bool reads)
{
    uint64_t at = 0, number = 0;
    const pgas_verbs_span_t span = { .addr = (uintptr_t)ours(p, 0), .lkey = p->mem.lkey };
    const pgas_verbs_request_t request = { .op = reads ? PGAS_VERBS_READ : PGAS_VERBS_WRITE,
                                           .spans = &span,
                                           .n_spans = 1,
                                           .remote_addr = (uintptr_t)theirs(p, 0),
                                           .rkey = p->mem.rkey };
    pgas_status_t status;
    while ((status = pgas_verbs_tx_transfer(p->tx, &request, bytes, &at, &number)) ==
           PGAS_ERR_AGAIN)
        pgas_verbs_tx_poll(p->tx);
    return status == PGAS_OK && at == bytes &&
           pgas_verbs_tx_wait(p->tx, number, PATIENCE_US) == PGAS_OK;
}

static void cut_transfers(void)
{
    enum { BYTES = 3000001 };
    pair_t pair;
    pgasi_rng_t rng;
    pgas_verbs_tx_info_t stats = { .size = sizeof stats };
    open_pair(&pair, 1 << 23, NULL, 0, 4096);
    pgasi_rng_seed(&rng, 3);
    for (uint64_t i = 0; i < BYTES / 8; i++)
        ((uint64_t *)(void *)ours(&pair, 0))[i] = pgasi_rng_u64(&rng);
    ok(transfer(&pair, BYTES, false) && memcmp(ours(&pair, 0), theirs(&pair, 0), BYTES) == 0,
       "a write of many requests");
    pgas_verbs_tx_info(pair.tx, &stats);
    is_int((int)stats.posted, BYTES / 4096 + 1, "as many as it takes");
    memset(ours(&pair, 0), 0, BYTES);
    ok(transfer(&pair, BYTES, true) && memcmp(ours(&pair, 0), theirs(&pair, 0), BYTES) == 0,
       "a read of many requests");
    close_pair(&pair);
}

/* ---- sleeping ---- */

static void *ring_later(void *arg)
{
    pair_t *p = arg;
    pgas_verbs_span_t room = { (uintptr_t)theirs(p, 0), 64, p->mem.lkey };
    pgas_verbs_recv_t recv = { .id = 1, .spans = &room, .n_spans = 1 };
    for (int i = 0; i < 2000; i++)
        sched_yield(); /* so that the waiting thread probably sleeps; no result depends on it */
    return pgas_verbs_qp_recv(p->qps[1], &recv, 1, NULL) == PGAS_OK ? p : NULL;
}

/* A message that waits for a buffer completes late. */
static void sleep_until(uint32_t cq_flags, const char *how)
{
    pair_t pair;
    pthread_t later;
    void *result;
    open_pair(&pair, 4096, NULL, cq_flags, 0);
    pgas_verbs_span_t span = { (uintptr_t) "late", 5, 0 };
    pgas_verbs_request_t request = { .op = PGAS_VERBS_SEND, .spans = &span, .n_spans = 1 };
    uint64_t number = post(&pair, &request);
    pgas_status_t first = pgas_verbs_tx_wait(pair.tx, number, 20000);
    pthread_create(&later, NULL, ring_later, &pair);
    pgas_status_t second = pgas_verbs_tx_wait(pair.tx, number, PATIENCE_US);
    pthread_join(later, &result);
    ok(first == PGAS_ERR_TIMEOUT && second == PGAS_OK && result != NULL,
       "waiting times out, then ends when it is done, %s", how);
    close_pair(&pair);
}

/* ---- the end ---- */

typedef struct {
    int n_ends;
    uint64_t done;
    pgas_status_t status;
} ending_t;

static void note_end(void *arg, pgas_verbs_tx_t *tx, uint64_t done, pgas_status_t status)
{
    ending_t *e = arg;
    (void)tx;
    e->n_ends += status != PGAS_OK;
    e->done = done;
    e->status = status;
}

static void end_connection(void)
{
    pair_t pair;
    ending_t ending = { 0, 0, PGAS_OK };
    pgas_verbs_tx_opts_t opts = PGAS_VERBS_TX_OPTS_INIT;
    opts.advance = note_end;
    opts.arg = &ending;
    open_pair(&pair, 1 << 16, &opts, 0, 0);
    uint64_t word = 1, numbers[200] = { 0 };
    pgas_verbs_span_t span = { (uintptr_t)&word, 8, 0 };
    int n = 0;
    for (; n < 200; n++) {
        pgas_verbs_request_t request = write_of(&pair, &span, theirs(&pair, 0));
        request.rkey += n == 100; /* no such key */
        pgas_status_t status;
        while ((status = pgas_verbs_tx_post(pair.tx, &request, &numbers[n])) == PGAS_ERR_AGAIN)
            pgas_verbs_tx_poll(pair.tx);
        if (status != PGAS_OK)
            break;
    }
    int n_bad = 0;
    for (int i = 0; i < n; i++) {
        pgas_status_t status = pgas_verbs_tx_wait(pair.tx, numbers[i], PATIENCE_US);
        n_bad +=
            i >= 100 ? status != PGAS_ERR_RANGE : status != PGAS_OK && status != PGAS_ERR_RANGE;
    }
    ok(n > 100 && n_bad == 0, "after a request that fails all end, with its status");
    pgas_verbs_request_t request = write_of(&pair, &span, theirs(&pair, 0));
    ok(pgas_verbs_tx_post(pair.tx, &request, NULL) == PGAS_ERR_PEER &&
           pgas_verbs_tx_ring(pair.tx, true) == PGAS_ERR_PEER,
       "nothing more is posted");
    ok(ending.n_ends == 1 && ending.status == PGAS_ERR_RANGE &&
           ending.done == pgas_verbs_tx_posted(pair.tx) &&
           pgas_verbs_tx_done(pair.tx) == ending.done,
       "the requesting thread gets it once");
    ok(close_pair(&pair), "nothing is left");
}

int main(void)
{
    plan(52);
    for (int i = 0; i < 2; i++) {
        adversary = i == 0 ? 0 : PGAS_VERBS_SNIC_ALL;
        write_alone();
        write_together();
        use_operations();
        use_buffers();
        cut_transfers();
        sleep_until(0, "with naps");
        sleep_until(PGAS_VERBS_CQ_EVENTS, "with events");
        end_connection();
    }
    return done();
}
