/* what: A queue pair executes and completes its requests in order. No write overtakes an earlier
 *       one, and receive buffers are used one after the other. A completion arrives after the
 *       bytes. At most the agreed number of reads is under way. This holds under every adversary.
 * source: pgas/verbs.h; the InfiniBand architecture; seeded model test */
#include "t/queue_pairs.h"
#include "t/unit/snic.h"

#define STEP        PGASI_SNIC_ENGINE_STEP
#define N_STREAMS   3
#define N_OPS       1500
#define N_UNDER_WAY 60 /* requests that are not complete */
#define N_SLOTS     64 /* of 64 bytes each, at the far end, for writes and atomics */
#define SLOT        64u
/* results of reads, and bytes that arrive by sends: a slot for each of the last 128 */
#define LANDING      (N_SLOTS * SLOT)
#define N_LANDINGS   128u
#define OTHER_PLACES (LANDING + N_LANDINGS * SLOT)
#define N_OTHER      64u

typedef struct {
    pgas_verbs_op_t op;
    bool signaled;
    uint32_t slot, bytes;
    unsigned char result[SLOT]; /* of reads and atomics */
} op_t;

/* The bytes that a receiver is to see. */
typedef struct {
    uint32_t bytes, imm;
    bool has_imm, has_data;
    unsigned char data[SLOT];
} message_t;

/* One pair: end 0 sends. */
typedef struct {
    pair_t p;
    pgasi_rng_t rng;
    op_t ops[N_OPS];
    message_t messages[N_OPS];
    uint64_t n_posted, n_done, n_sent, n_buffers, n_received;
    unsigned char far[N_SLOTS * SLOT];
    bool is_read[N_SLOTS]; /* since the last fence: a write there needs one */
    int n_bad;
} stream_t;

static uint32_t landing_of(uint64_t number)
{
    return LANDING + (uint32_t)(number % N_LANDINGS) * SLOT;
}

static bool overwrites(pgas_verbs_op_t op)
{
    return op == PGAS_VERBS_WRITE || op == PGAS_VERBS_WRITE_IMM || op == PGAS_VERBS_FADD ||
           op == PGAS_VERBS_CSWAP;
}

/* The bytes of a request, cut into spans at random; every second span is elsewhere in memory. */
static uint32_t cut(stream_t *s, const unsigned char *data, uint32_t bytes,
                    pgas_verbs_span_t *spans)
{
    uint32_t n = 0, done = 0;
    while (n < 5 && (done < bytes || n == 0)) {
        uint32_t piece =
            n == 4 ? bytes - done : (uint32_t)pgasi_rng_below(&s->rng, bytes - done + 1);
        uint32_t place = n % 2 ? OTHER_PLACES + (uint32_t)(s->n_posted % N_OTHER) * SLOT
                               : landing_of(s->n_posted);
        memcpy(s->p.bytes[0] + place + done, data + done, piece);
        spans[n++] = pair_span(&s->p, 0, place + done, piece);
        done += piece;
    }
    return n;
}

static void apply(stream_t *s, op_t *op, const pgas_verbs_request_t *r, const unsigned char *data)
{
    unsigned char *slot = s->far + op->slot * SLOT;
    uint64_t word;
    memcpy(&word, slot, 8);
    if (op->op == PGAS_VERBS_READ || op->op == PGAS_VERBS_FADD || op->op == PGAS_VERBS_CSWAP)
        memcpy(op->result, slot, op->bytes);
    if (op->op == PGAS_VERBS_WRITE || op->op == PGAS_VERBS_WRITE_IMM)
        memcpy(slot, data, op->bytes);
    if (op->op == PGAS_VERBS_FADD)
        word += r->operand;
    if (op->op == PGAS_VERBS_CSWAP && word == r->compare)
        word = r->operand;
    if (op->op == PGAS_VERBS_FADD || op->op == PGAS_VERBS_CSWAP)
        memcpy(slot, &word, 8);
    if (op->op == PGAS_VERBS_SEND || op->op == PGAS_VERBS_SEND_IMM ||
        op->op == PGAS_VERBS_WRITE_IMM) {
        message_t *m = &s->messages[s->n_sent++];
        *m = (message_t){
            op->bytes, r->imm, op->op != PGAS_VERBS_SEND, op->op != PGAS_VERBS_WRITE_IMM, { 0 }
        };
        memcpy(m->data, data, op->bytes);
    }
}

static void post_one(stream_t *s)
{
    static const pgas_verbs_op_t ops[] = { PGAS_VERBS_WRITE,    PGAS_VERBS_READ,
                                           PGAS_VERBS_SEND,     PGAS_VERBS_WRITE_IMM,
                                           PGAS_VERBS_SEND_IMM, PGAS_VERBS_FADD,
                                           PGAS_VERBS_CSWAP,    PGAS_VERBS_NOP,
                                           PGAS_VERBS_WRITE };
    op_t *op = &s->ops[s->n_posted];
    unsigned char data[SLOT];
    pgas_verbs_span_t spans[5];
    *op = (op_t){ .op = ops[pgasi_rng_below(&s->rng, PGASI_ARRAY_LENGTH(ops))] };
    op->signaled =
        pgasi_rng_below(&s->rng, 3) == 0 || s->n_posted + 1 == N_OPS || s->n_posted % 16 == 15;
    op->slot = (uint32_t)pgasi_rng_below(&s->rng, N_SLOTS);
    bool gets =
        op->op == PGAS_VERBS_READ || op->op == PGAS_VERBS_FADD || op->op == PGAS_VERBS_CSWAP;
    op->bytes =
        gets && op->op != PGAS_VERBS_READ ? 8 : 8 + (uint32_t)pgasi_rng_below(&s->rng, SLOT - 7);
    if (op->op == PGAS_VERBS_NOP)
        op->bytes = 0;
    fill(data, sizeof data, s->n_posted + 77);
    memcpy(data, &s->n_posted, 8);
    pgas_verbs_request_t r = pair_request(&s->p, op->op, spans, op->slot * SLOT, s->n_posted);
    r.flags = op->signaled ? PGAS_VERBS_SIGNAL : 0;
    r.imm = (uint32_t)s->n_posted * 3;
    memcpy(&r.compare, s->far + op->slot * SLOT, 8);
    r.operand =
        /* the number below stays */
        op->op == PGAS_VERBS_CSWAP ? r.compare + (UINT64_C(1) << 41) : UINT64_C(1) << 40;
    if (gets) {
        spans[0] = pair_span(&s->p, 0, landing_of(s->n_posted), op->bytes);
    } else {
        r.n_spans = op->op == PGAS_VERBS_NOP ? 0 : cut(s, data, op->bytes, spans);
        r.flags |= op->op != PGAS_VERBS_NOP && op->bytes <= 60 && pgasi_rng_below(&s->rng, 2)
                       ? PGAS_VERBS_INLINE
                       : 0;
    }
    if ((overwrites(op->op) && s->is_read[op->slot]) || pgasi_rng_below(&s->rng, 20) == 0) {
        r.flags |= PGAS_VERBS_FENCE;
        memset(s->is_read, 0, sizeof s->is_read);
    }
    s->is_read[op->slot] |= op->op == PGAS_VERBS_READ;
    apply(s, op, &r, data);
    s->n_posted++;
    must(qp_write(s->p.qp[0], &r, NULL), "a request");
    if (r.flags & PGAS_VERBS_INLINE) /* the caller's again */
        for (uint32_t i = 0; i < r.n_spans; i++)
            memset((void *)(uintptr_t)spans[i].addr, 0xee, spans[i].bytes);
    if (pgasi_rng_below(&s->rng, 3) == 0 || s->n_posted == N_OPS || s->n_posted % 16 == 0)
        must(pgas_verbs_qp_post(s->p.qp[0], NULL, 0, NULL), "a doorbell");
}

/* All up to this one are done: their bytes are there. */
static void look_back(stream_t *s, uint64_t number)
{
    for (; s->n_done <= number; s->n_done++) {
        const op_t *op = &s->ops[s->n_done];
        uint64_t word;
        memcpy(&word, s->p.bytes[1] + op->slot * SLOT, 8);
        if (op->op == PGAS_VERBS_WRITE || op->op == PGAS_VERBS_WRITE_IMM)
            s->n_bad += (word & 0xffffff) < s->n_done; /* atomics add above */
        if (op->op == PGAS_VERBS_READ || op->op == PGAS_VERBS_FADD || op->op == PGAS_VERBS_CSWAP)
            s->n_bad += memcmp(s->p.bytes[0] + landing_of(s->n_done), op->result, op->bytes) != 0;
    }
}

static void poll_sender(stream_t *s)
{
    pgas_verbs_completion_t c;
    while (pgas_verbs_cq_poll(s->p.cq[0], &c, 1) == 1) {
        uint64_t next = s->n_done;
        while (next < s->n_posted && !s->ops[next].signaled)
            next++;
        s->n_bad +=
            c.id != next || c.status != PGAS_OK || c.qp != s->p.qp[0] || c.op != s->ops[next].op;
        if (c.id < s->n_posted)
            look_back(s, c.id);
    }
}

static void poll_receiver(stream_t *s)
{
    pgas_verbs_completion_t c;
    while (pgas_verbs_cq_poll(s->p.cq[1], &c, 1) == 1) {
        const message_t *m = &s->messages[s->n_received];
        s->n_bad += s->n_received >= s->n_sent || c.id != s->n_received || c.status != PGAS_OK ||
                    c.bytes != m->bytes;
        s->n_bad += c.has_imm != m->has_imm || (m->has_imm && c.imm != m->imm);
        s->n_bad += (c.op == PGAS_VERBS_RECV) != m->has_data;
        s->n_bad += m->has_data && memcmp(s->p.bytes[1] + landing_of(c.id), m->data, m->bytes) != 0;
        s->n_received++;
    }
    while (s->n_buffers < s->n_received + N_LANDINGS / 2 && pgasi_rng_below(&s->rng, 4) > 0) {
        pair_recv(&s->p, 1, landing_of(s->n_buffers), SLOT, s->n_buffers);
        s->n_buffers++;
    }
}

static int run_streams(pgas_verbs_engine_t engine, uint32_t adversary, uint64_t seed, bool spoil)
{
    static stream_t streams[N_STREAMS];
    int n_bad = 0, n_ready = 0;
    pgas_verbs_dev_t *dev = snic_device(engine, adversary, seed);
    pgasi_rng_t rng;
    pgasi_rng_seed(&rng, seed);
    for (int i = 0; i < N_STREAMS; i++) {
        memset(&streams[i], 0, sizeof streams[i]);
        pgasi_rng_seed(&streams[i].rng, seed + 100 * (uint64_t)i);
        pair_on(&streams[i].p, dev, NULL, PGAS_VERBS_ACCESS_ALL);
    }
    for (int round = 0; n_ready < N_STREAMS; round++) {
        stream_t *s = &streams[pgasi_rng_below(&rng, N_STREAMS)];
        if (s->n_posted < N_OPS && s->n_posted - s->n_done < N_UNDER_WAY)
            post_one(s);
        for (uint64_t k = pgasi_rng_below(&rng, 6); engine == STEP && k > 0; k--)
            pgas_verbs_snic_step(dev);
        poll_sender(s);
        poll_receiver(s);
        n_ready = 0;
        for (int i = 0; i < N_STREAMS; i++)
            n_ready += streams[i].n_done == N_OPS && streams[i].n_received == streams[i].n_sent;
        if (engine == PGAS_VERBS_ENGINE_THREAD)
            sched_yield();
        if (round > 10 * SNIC_STEPS_MAX)
            bail("requests are lost: %d streams of %d are ready", n_ready, N_STREAMS);
    }
    streams[0].far[9] ^= spoil;
    for (int i = 0; i < N_STREAMS; i++) {
        stream_t *s = &streams[i];
        n_bad += s->n_bad + (memcmp(s->p.bytes[1], s->far, sizeof s->far) != 0);
        pair_close(&s->p);
    }
    must(pgas_verbs_close(dev), "close the device");
    return n_bad;
}

/* ---- reads under way ---- */

#define N_READS 48

/* The peer's word counts steps, so each result says when the word was read; it is seen to arrive
 * later. Returns how many were under way at once, at most. */
static int reads_under_way(uint32_t reads_max, uint64_t seed)
{
    pgas_verbs_qp_opts_t opts = PGAS_VERBS_QP_OPTS_INIT;
    pgas_verbs_completion_t got[N_READS];
    uint64_t began[N_READS], came[N_READS] = { 0 };
    volatile uint64_t *clock;
    pair_t p;
    opts.reads_max = reads_max;
    pair_on(&p, snic_device(STEP, PGAS_VERBS_SNIC_DELAY | PGAS_VERBS_SNIC_SHUFFLE, seed), &opts,
            PGAS_VERBS_ACCESS_ALL);
    p.own_dev = true;
    clock = (volatile uint64_t *)(void *)p.bytes[1];
    for (uint32_t i = 0; i < N_READS; i++)
        pair_post(&p, PGAS_VERBS_READ, 8 * i, 0, 8, PGAS_VERBS_SIGNAL, i);
    do {
        ++*clock;
        for (uint32_t i = 0; i < N_READS; i++) {
            memcpy(&began[i], p.bytes[0] + 8 * i, 8);
            if (began[i] != 0 && came[i] == 0)
                came[i] = *clock;
        }
    } while (pgas_verbs_snic_step(p.dev));
    int most = 0, n = snic_take(p.dev, p.cq[0], got, N_READS);
    for (uint64_t t = 1; n == N_READS && t < *clock; t++) {
        int now = 0;
        for (int i = 0; i < N_READS; i++)
            now += began[i] <= t && t < came[i] - 1;
        most = PGASI_MAX(most, now);
    }
    pair_close(&p);
    return n == N_READS ? most : 1000;
}

static void reads_are_counted(void)
{
    static const uint32_t limits[] = { 1, 2, 4, 8 };
    for (size_t i = 0; i < PGASI_ARRAY_LENGTH(limits); i++) {
        int most = 0;
        for (uint64_t seed = 1; seed <= 50; seed++)
            most = PGASI_MAX(most, reads_under_way(limits[i], seed));
        ok(most == (int)limits[i], "of %u reads at once there are up to %d", limits[i], most);
    }
}

int main(void)
{
    plan(SNIC_N_ADVERSARIES + 8);
    uint64_t seed = tap_seed(11);
    for (int i = 0; i < SNIC_N_ADVERSARIES; i++)
        is_int(run_streams(STEP, snic_adversaries[i], seed + (uint64_t)i, false), 0,
               "%d streams of %d requests, adversary %u", N_STREAMS, N_OPS,
               (unsigned)snic_adversaries[i]);
    ok(run_streams(STEP, 0, seed, true) > 0, "a byte that was changed is noticed (on purpose)");
    is_int(run_streams(PGAS_VERBS_ENGINE_CALLER, 0, seed, false), 0, "by the thread that polls");
    is_int(run_streams(PGAS_VERBS_ENGINE_CALLER, PGAS_VERBS_SNIC_ALL, seed, false), 0,
           "the same, all adversaries");
    is_int(run_streams(PGAS_VERBS_ENGINE_THREAD, PGAS_VERBS_SNIC_ALL, seed, false), 0,
           "by the engine's thread, all adversaries");
    reads_are_counted();
    return done();
}
