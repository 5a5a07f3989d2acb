/* The loops of pgas_verbs_rate, and the parts that pgas_verbs_latency uses too. manual is what
 * users of infinity write, and a little better: infinity rings the doorbell for each request. */
#include "benchmarks/verbs_work.h"

#include <stdio.h>
#include <string.h>

#define CQ_DEPTH 1024u

pgas_verbs_dev_t *verbs_dev;
pgas_verbs_mem_t verbs_source, verbs_target;

static pgas_verbs_dev_opts_t dev_opts = PGAS_VERBS_DEV_OPTS_INIT;
static pgas_verbs_info_t info = { .size = sizeof info };
static pgas_verbs_recv_t receives[VERBS_SERVED];
static pgas_verbs_span_t receive_spans[VERBS_SERVED];

/* ---- the device ---- */

static const char *const engines[] = { [PGAS_VERBS_ENGINE_CALLER] = "caller",
                                       [PGAS_VERBS_ENGINE_THREAD] = "thread",
                                       [PGAS_VERBS_ENGINE_PROCESS] = "process" };

static const char *set_device(const char *text)
{
    dev_opts.device = text;
    return *text ? NULL : "--device: a name";
}

static const char *set_engine(const char *text)
{
    for (size_t i = 0; i < sizeof engines / sizeof engines[0]; i++) {
        if (strcmp(text, engines[i]) == 0) {
            dev_opts.engine = (pgas_verbs_engine_t)i;
            return NULL;
        }
    }
    return "--engine: caller, thread or process";
}

const bench_option_t verbs_options[] = {
    { "device", "NAME",
      "\"snic\", \"mlx5_0\", \"verbs:mlx5_0:1\"; else the first active port, hardware first",
      set_device },
    { "engine", "ENGINE",
      "carries out the software NIC's work: caller (the default), thread, process", set_engine },
    { NULL, NULL, NULL, NULL }
};

void verbs_open(void)
{
    const size_t bytes = 2 * VERBS_BYTES_MAX;
    pgas_status_t status = pgas_verbs_open(&dev_opts, &verbs_dev);
    if (status != PGAS_OK)
        bench_die("%s: %s", dev_opts.device ? dev_opts.device : "no device",
                  pgas_status_text(status));
    pgas_verbs_info(verbs_dev, &info);
    bench_check(pgas_verbs_mem_register(verbs_dev, NULL, bytes, PGAS_VERBS_ACCESS_ALL,
                                        &verbs_source),
                "pgas_verbs_mem_register");
    bench_check(pgas_verbs_mem_register(verbs_dev, NULL, bytes, PGAS_VERBS_ACCESS_ALL,
                                        &verbs_target),
                "pgas_verbs_mem_register");
    for (size_t i = 0; i < bytes; i++)
        ((unsigned char *)verbs_source.addr)[i] = (unsigned char)(i % 251 + 1);
    memset(verbs_target.addr, 0, bytes);
    for (uint32_t i = 0; i < VERBS_SERVED; i++) {
        receive_spans[i] =
            (pgas_verbs_span_t){ (uintptr_t)verbs_target.addr, VERBS_BYTES_MAX, verbs_target.lkey };
        receives[i] = (pgas_verbs_recv_t){ .spans = &receive_spans[i], .n_spans = 1 };
    }
}

void verbs_close(void)
{
    pgas_verbs_mem_release(verbs_dev, &verbs_source);
    pgas_verbs_mem_release(verbs_dev, &verbs_target);
    bench_check(pgas_verbs_close(verbs_dev), "pgas_verbs_close");
}

static bool is_software(void)
{
    return strcmp(info.provider, "snic") == 0;
}

/* The provider that has opened the device: a name may ask for another one than the device's own. */
const char *verbs_path(void)
{
    return dev_opts.device && strncmp(dev_opts.device, "verbs:", 6) == 0 ? "verbs" : info.provider;
}

const char *verbs_about(void)
{
    static char text[160];
    snprintf(text, sizeof text, "Device: %s, port %d, %s%s%s", info.name, info.port, info.link,
             is_software() ? ", engine " : "", is_software() ? engines[dev_opts.engine] : "");
    return text;
}

bool verbs_has_chains(void)
{
    return info.chains;
}

/* ---- pairs ---- */

static void connect_to(pgas_verbs_qp_t *qp, const pgas_verbs_qp_t *peer)
{
    pgas_verbs_qp_info_t there = { .size = sizeof there };
    bench_check(pgas_verbs_qp_info(peer, &there), "pgas_verbs_qp_info");
    bench_check(pgas_verbs_qp_connect(qp, &there.address), "pgas_verbs_qp_connect");
}

static void open_cq(uint32_t flags, pgas_verbs_cq_t **cq_p)
{
    bench_check(pgas_verbs_cq_create(verbs_dev, CQ_DEPTH, flags, cq_p), "pgas_verbs_cq_create");
}

static pgas_verbs_qp_t *open_qp(pgas_verbs_cq_t *send_cq, pgas_verbs_cq_t *recv_cq, uint32_t flags)
{
    pgas_verbs_qp_opts_t opts = PGAS_VERBS_QP_OPTS_INIT;
    pgas_verbs_qp_t *qp;
    opts.send_cq = send_cq;
    opts.recv_cq = recv_cq;
    opts.send_depth = VERBS_DEPTH;
    opts.recv_depth = VERBS_RECEIVES;
    opts.inline_max = VERBS_INLINE;
    opts.flags = flags;
    bench_check(pgas_verbs_qp_create(verbs_dev, &opts, &qp), "pgas_verbs_qp_create");
    return qp;
}

void verbs_receive(pgas_verbs_qp_t *qp, uint32_t n)
{
    uint32_t taken;
    bench_check(pgas_verbs_qp_recv(qp, receives, n, &taken), "pgas_verbs_qp_recv");
}

void verbs_pair_open(verbs_pair_t *pair, uint32_t qp_flags, uint32_t cq_flags)
{
    open_cq(cq_flags, &pair->cq);
    open_cq(0, &pair->recv_cq);
    open_cq(0, &pair->back_cq);
    open_cq(0, &pair->back_recv_cq);
    pair->qp = open_qp(pair->cq, pair->back_recv_cq, qp_flags);
    pair->peer = open_qp(pair->back_cq, pair->recv_cq, 0);
    connect_to(pair->qp, pair->peer);
    connect_to(pair->peer, pair->qp);
    for (uint32_t i = 0; i < VERBS_RECEIVES; i += VERBS_SERVED)
        verbs_receive(pair->peer, VERBS_SERVED);
}

void verbs_pair_close(verbs_pair_t *pair)
{
    pgas_verbs_qp_destroy(pair->qp);
    pgas_verbs_qp_destroy(pair->peer);
    bench_check(pgas_verbs_cq_destroy(pair->cq), "pgas_verbs_cq_destroy");
    bench_check(pgas_verbs_cq_destroy(pair->recv_cq), "pgas_verbs_cq_destroy");
    bench_check(pgas_verbs_cq_destroy(pair->back_cq), "pgas_verbs_cq_destroy");
    bench_check(pgas_verbs_cq_destroy(pair->back_recv_cq), "pgas_verbs_cq_destroy");
    *pair = (verbs_pair_t){ 0 };
}

int verbs_poll_good(pgas_verbs_cq_t *cq)
{
    pgas_verbs_completion_t completions[16];
    int n = pgas_verbs_cq_poll(cq, completions, 16);
    for (int i = 0; i < n; i++)
        bench_check(completions[i].status, "a request");
    if (n < 0)
        bench_die("a completion queue has overrun");
    return n;
}

int verbs_serve(verbs_pair_t *pair)
{
    int n, all = 0;
    while (all < (int)VERBS_SERVED && (n = verbs_poll_good(pair->recv_cq)) > 0)
        all += n;
    for (int left = all; left > 0; left -= VERBS_SERVED)
        verbs_receive(pair->peer, left < (int)VERBS_SERVED ? (uint32_t)left : VERBS_SERVED);
    return all;
}

int verbs_poll(verbs_pair_t *pair)
{
    return verbs_poll_good(pair->cq);
}

/* ---- loops ---- */

static verbs_pair_t pair_auto, pair_manual, pair_signaled, pair_limit;
static pgas_verbs_tx_t *tx;
static size_t last_at; /* where the last message came from */
static struct {
    uint64_t n_messages, n_completions;
} counts[VERBS_WAYS];

/* A request in which only the addresses change. */
typedef struct {
    pgas_verbs_request_t request;
    pgas_verbs_span_t span;
    uint64_t from, to;
    bool takes_receives;
    uint64_t n_served; /* receive buffers given back */
    uint64_t n_completions;
} message_t;

static void begin_message(message_t *m, pgas_verbs_op_t op, size_t bytes, uint32_t flags)
{
    *m = (message_t){ .from = (uintptr_t)verbs_source.addr,
                      .to = (uintptr_t)verbs_target.addr,
                      .takes_receives = op == PGAS_VERBS_SEND,
                      .span = { .bytes = (uint32_t)bytes, .lkey = verbs_source.lkey },
                      .request = {
                          .op = op, .flags = flags, .n_spans = 1, .rkey = verbs_target.rkey } };
    m->request.spans = &m->span;
}

static inline void place_message(message_t *m, uint64_t i)
{
    size_t at = verbs_walk(i, m->span.bytes);
    m->span.addr = m->from + at;
    m->request.remote_addr = m->to + at;
}

bool verbs_arrived(pgas_verbs_op_t op, size_t bytes)
{
    const char *from = verbs_source.addr, *to = verbs_target.addr;
    return memcmp(from + last_at, to + (op == PGAS_VERBS_SEND ? 0 : last_at), bytes) == 0;
}

/* The receiver's part, the same for all loops. */
static inline void receive_some(verbs_pair_t *pair, message_t *m, uint64_t i)
{
    if (m->takes_receives && i % VERBS_SERVED == VERBS_SERVED - 1)
        m->n_served += (uint64_t)verbs_serve(pair);
}

static void receive_rest(verbs_pair_t *pair, message_t *m, uint64_t n)
{
    while (m->takes_receives && m->n_served < n)
        m->n_served += (uint64_t)verbs_serve(pair);
}

/* Polls both sides. @return completions of the sending side */
static int look(verbs_pair_t *pair, message_t *m, uint32_t *spins)
{
    int n = verbs_poll(pair);
    if (n == 0 && m->takes_receives)
        m->n_served += (uint64_t)verbs_serve(pair);
    if (n == 0)
        bench_relax(spins);
    return n;
}

static int await(verbs_pair_t *pair, message_t *m)
{
    uint32_t spins = 0;
    int n;
    while ((n = look(pair, m, &spins)) == 0)
        continue;
    m->n_completions += (uint64_t)n;
    return n;
}

static void end_loop(verbs_way_t way, const message_t *m, uint64_t n, size_t at)
{
    last_at = at;
    counts[way].n_messages += n;
    counts[way].n_completions += m->n_completions;
}

double verbs_completions(verbs_way_t way)
{
    double n = (double)counts[way].n_completions * VERBS_INTERVAL / (double)counts[way].n_messages;
    counts[way].n_messages = counts[way].n_completions = 0;
    return n;
}

static void write_one(verbs_pair_t *pair, const message_t *m)
{
    pgas_status_t status = pgas_verbs_qp_post(pair->qp, &m->request, 1, NULL);
    if (__builtin_expect(status != PGAS_OK, 0))
        bench_check(status, "pgas_verbs_qp_post");
}

static void open_auto(void)
{
    if (tx)
        return;
    pgas_verbs_tx_opts_t opts = PGAS_VERBS_TX_OPTS_INIT;
    opts.interval = VERBS_INTERVAL;
    opts.batch = VERBS_BATCH;
    verbs_pair_open(&pair_auto, 0, 0);
    bench_check(pgas_verbs_tx_create(pair_auto.qp, &opts, &tx), "pgas_verbs_tx_create");
}

/* Waits for room, or for the posted requests. */
static void move_auto(message_t *m, uint32_t *spins)
{
    if (pgas_verbs_tx_poll(tx) > 0)
        return;
    if (m->takes_receives)
        m->n_served += (uint64_t)verbs_serve(&pair_auto);
    bench_relax(spins);
}

void verbs_post_auto(pgas_verbs_op_t op, size_t bytes, uint64_t n)
{
    pgas_verbs_tx_info_t before = { .size = sizeof before }, after = { .size = sizeof after };
    uint32_t spins = 0;
    message_t m;
    open_auto();
    pgas_verbs_tx_info(tx, &before);
    begin_message(&m, op, bytes, 0);
    for (uint64_t i = 0; i < n; i++) {
        pgas_status_t status;
        place_message(&m, i);
        while (
            __builtin_expect((status = pgas_verbs_tx_post(tx, &m.request, NULL)) != PGAS_OK, 0)) {
            if (status != PGAS_ERR_AGAIN)
                bench_check(status, "pgas_verbs_tx_post");
            move_auto(&m, &spins);
        }
        receive_some(&pair_auto, &m, i);
        bench_step();
    }
    bench_check(pgas_verbs_tx_ring(tx, true), "pgas_verbs_tx_ring");
    while (pgas_verbs_tx_done(tx) < pgas_verbs_tx_posted(tx))
        move_auto(&m, &spins);
    receive_rest(&pair_auto, &m, n);
    pgas_verbs_tx_info(tx, &after);
    m.n_completions = after.completions - before.completions;
    end_loop(VERBS_AUTO, &m, n, verbs_walk(n - 1, bytes));
}

static void open_plain(verbs_pair_t *pair)
{
    if (!pair->qp)
        verbs_pair_open(pair, 0, 0);
}

static uint32_t inline_flag(size_t bytes)
{
    return bytes <= VERBS_INLINE ? PGAS_VERBS_INLINE : 0;
}

void verbs_post_manual(pgas_verbs_op_t op, size_t bytes, uint64_t n)
{
    uint32_t room = VERBS_DEPTH, unsignaled = 0, unrung = 0, flags = inline_flag(bytes);
    message_t m;
    open_plain(&pair_manual);
    begin_message(&m, op, bytes, flags);
    for (uint64_t i = 0; i < n; i++) {
        if (room == 0)
            room = VERBS_INTERVAL * (uint32_t)await(&pair_manual, &m);
        place_message(&m, i);
        m.request.flags = flags | PGAS_VERBS_MORE;
        if (++unsignaled == VERBS_INTERVAL) {
            m.request.flags = flags | PGAS_VERBS_MORE | PGAS_VERBS_SIGNAL;
            unsignaled = 0;
        }
        if (++unrung == VERBS_BATCH) {
            m.request.flags &= ~PGAS_VERBS_MORE;
            unrung = 0;
        }
        write_one(&pair_manual, &m);
        room--;
        receive_some(&pair_manual, &m, i);
        bench_step();
    }
    while (room < VERBS_DEPTH)
        room += VERBS_INTERVAL * (uint32_t)await(&pair_manual, &m);
    receive_rest(&pair_manual, &m, n);
    end_loop(VERBS_MANUAL, &m, n, verbs_walk(n - 1, bytes));
}

void verbs_post_signaled(pgas_verbs_op_t op, size_t bytes, uint64_t n)
{
    uint32_t room = VERBS_DEPTH, unrung = 0;
    message_t m;
    open_plain(&pair_signaled);
    begin_message(&m, op, bytes, inline_flag(bytes) | PGAS_VERBS_SIGNAL);
    for (uint64_t i = 0; i < n; i++) {
        if (room == 0)
            room = (uint32_t)await(&pair_signaled, &m);
        place_message(&m, i);
        m.request.flags |= PGAS_VERBS_MORE;
        if (++unrung == VERBS_BATCH) {
            m.request.flags &= ~PGAS_VERBS_MORE;
            unrung = 0;
        }
        write_one(&pair_signaled, &m);
        room--;
        receive_some(&pair_signaled, &m, i);
        bench_step();
    }
    while (room < VERBS_DEPTH)
        room += (uint32_t)await(&pair_signaled, &m);
    receive_rest(&pair_signaled, &m, n);
    end_loop(VERBS_SIGNALED, &m, n, verbs_walk(n - 1, bytes));
}

/* ---- the limit: a queue that was written once ---- */

#define ENABLED_TOGETHER VERBS_SERVED /* messages */

static struct {
    verbs_pair_t master; /* its queue holds the ENABLEs */
    pgas_verbs_op_t op;
    size_t bytes;
    uint32_t n_blocks, blocks_each; /* of the ring, of an entry */
    uint32_t position;              /* position up to which the queue may run */
    uint32_t n_enables;
} limit;

static void close_limit(void)
{
    if (!pair_limit.qp)
        return;
    verbs_pair_close(&limit.master);
    verbs_pair_close(&pair_limit);
}

/* Writes the whole ring, so that it begins again after its end; one entry of VERBS_INTERVAL is
 * signaled. */
static void fill_ring(pgas_verbs_op_t op, size_t bytes)
{
    pgas_verbs_qp_info_t ring = { .size = sizeof ring };
    uint32_t flags = inline_flag(bytes), position = 0;
    message_t m;
    bench_check(pgas_verbs_qp_info(pair_limit.qp, &ring), "pgas_verbs_qp_info");
    begin_message(&m, op, bytes, 0);
    m.request.n_spans = op != PGAS_VERBS_NOP;
    if (op == PGAS_VERBS_NOP)
        flags = 0;
    limit.n_blocks = (uint32_t)(ring.slots.bytes / ring.slot_bytes);
    for (uint32_t i = 0; position < limit.n_blocks; i++) {
        place_message(&m, i);
        m.request.flags = flags | PGAS_VERBS_MORE |
                          (i % VERBS_INTERVAL == VERBS_INTERVAL - 1 ? PGAS_VERBS_SIGNAL : 0);
        write_one(&pair_limit, &m);
        position = pgas_verbs_qp_position(pair_limit.qp);
        if (i == 0)
            limit.blocks_each = position;
    }
    bench_check(pgas_verbs_qp_post(pair_limit.qp, NULL, 0, NULL), "a doorbell");
}

static void open_limit(pgas_verbs_op_t op, size_t bytes)
{
    const uint32_t flags =
        PGAS_VERBS_QP_MANAGED_SEND | PGAS_VERBS_QP_REMOTE_SLOTS | PGAS_VERBS_QP_IGNORE_OVERRUN;
    if (pair_limit.qp && limit.op == op && limit.bytes == bytes)
        return;
    close_limit();
    verbs_pair_open(&pair_limit, flags, 0);
    verbs_pair_open(&limit.master, PGAS_VERBS_QP_MASTER, 0);
    limit.op = op;
    limit.bytes = bytes;
    limit.position = limit.n_enables = 0;
    fill_ring(op, bytes);
}

static void enable(uint32_t n_messages)
{
    limit.position += n_messages * limit.blocks_each;
    const pgas_verbs_request_t request = { .op = PGAS_VERBS_SEND_ENABLE,
                                           .flags = ++limit.n_enables % VERBS_INTERVAL == 0
                                                        ? PGAS_VERBS_SIGNAL
                                                        : 0,
                                           .qp = pair_limit.qp,
                                           .index = limit.position };
    bench_check(pgas_verbs_qp_post(limit.master.qp, &request, 1, NULL), "pgas_verbs_qp_post");
}

/* An ENABLE is complete when it has been executed. One of VERBS_INTERVAL is signaled, and few
 * messages are under way, so their queue is never full. */
void verbs_post_limit(pgas_verbs_op_t op, size_t bytes, uint64_t n)
{
    uint64_t enabled = 0, done = 0;
    message_t m;
    open_limit(op, bytes);
    begin_message(&m, op, bytes, 0);
    while (done < n) {
        while (enabled < n && enabled - done < VERBS_DEPTH) {
            uint32_t some =
                n - enabled < ENABLED_TOGETHER ? (uint32_t)(n - enabled) : ENABLED_TOGETHER;
            enable(some);
            enabled += some;
            receive_some(&pair_limit, &m, enabled - 1);
        }
        verbs_poll(&limit.master);
        done += VERBS_INTERVAL * (uint64_t)await(&pair_limit, &m);
    }
    receive_rest(&pair_limit, &m, n);
    uint32_t last = (limit.position - limit.blocks_each) % limit.n_blocks / limit.blocks_each;
    end_loop(VERBS_LIMIT, &m, n, verbs_walk(last, bytes));
}

void verbs_loops_end(void)
{
    verbs_pair_t *const pairs[] = { &pair_auto, &pair_manual, &pair_signaled };
    if (tx)
        pgas_verbs_tx_destroy(tx);
    tx = NULL;
    close_limit();
    for (size_t i = 0; i < sizeof pairs / sizeof pairs[0]; i++)
        if (pairs[i]->qp)
            verbs_pair_close(pairs[i]);
}
