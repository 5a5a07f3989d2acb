/* what: Two replicas forward writes by entries alone: a client's message fills in the entry that
 *       the replica's card executes next. Thousands of writes under every adversary are right. With
 *       queues that are not managed, and are rung when they are filled, wrong writes are found.
 * needs: tsan-ok
 * source: chained writes after Hyperloop and RedN; seeded test with its own check of what
 * arrived */
#include "t/queue_pairs.h"
#include "t/unit/snic.h"
#include "verbs_backend/wqe.h"

#if defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
#define SANITIZED
#endif
#endif
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define SANITIZED
#endif

#define WINDOW  16u  /* operations under way; each has a place of its own */
#define PLACE   256u /* bytes at most */
#define SCRATCH (WINDOW * PLACE)
#define DEPTH   32u /* operations that are prepared ahead */
#define ACCESS  PGAS_VERBS_ACCESS_ALL

typedef struct {
    pgas_verbs_dev_t *dev;
    pgas_verbs_mem_t mem;
    unsigned char *bytes;
} machine_t;

/* A replica: messages arrive by prev and leave by next; master enables next. */
typedef struct {
    machine_t m;
    pgas_verbs_cq_t *recv_cq, *next_cq, *master_cq;
    pgas_verbs_qp_t *prev, *next, *master;
    pgas_verbs_mem_t slots;
    uint32_t slot_bytes, n_prepared;
    const machine_t *behind; /* where it forwards to; NULL: it acknowledges to the client */
    bool managed;
} replica_t;

typedef struct {
    machine_t m;
    pgas_verbs_cq_t *send_cq, *ack_cq;
    pgas_verbs_qp_t *out, *ack;
    unsigned char expected[WINDOW][PLACE];
    uint32_t bytes[WINDOW];
} client_t;

static void open_machine(machine_t *m, pgas_verbs_engine_t engine, uint32_t adversary,
                         uint64_t seed)
{
    m->dev = snic_device(engine, adversary, seed);
    must(pgas_verbs_mem_register(m->dev, NULL, SNIC_BYTES, ACCESS, &m->mem), "memory");
    m->bytes = m->mem.addr;
}

static pgas_verbs_cq_t *open_cq(const machine_t *m)
{
    pgas_verbs_cq_t *cq = NULL;
    must(pgas_verbs_cq_create(m->dev, 256, 0, &cq), "a completion queue");
    return cq;
}

static pgas_verbs_qp_t *open_qp(const machine_t *m, pgas_verbs_cq_t *send_cq,
                                pgas_verbs_cq_t *recv_cq, uint32_t flags)
{
    pgas_verbs_qp_opts_t opts = PGAS_VERBS_QP_OPTS_INIT;
    opts.send_cq = send_cq;
    opts.recv_cq = recv_cq;
    opts.flags = flags;
    return snic_qp(m->dev, opts, NULL);
}

static void open_replica(replica_t *r, const machine_t *behind, bool managed)
{
    r->behind = behind;
    r->managed = managed;
    r->recv_cq = open_cq(&r->m);
    r->next_cq = open_cq(&r->m);
    r->master_cq = open_cq(&r->m);
    r->prev = open_qp(&r->m, r->recv_cq, r->recv_cq, 0);
    r->next = open_qp(&r->m, r->next_cq, r->next_cq,
                      PGAS_VERBS_QP_REMOTE_SLOTS |
                          (managed ? PGAS_VERBS_QP_MANAGED_SEND : PGAS_VERBS_QP_MASTER));
    r->master = open_qp(&r->m, r->master_cq, r->master_cq, PGAS_VERBS_QP_MASTER);
    snic_connect(r->master, r->master);
    must(qp_slots(r->next, &r->slots, &r->slot_bytes), "the slots");
}

static void connect_both(pgas_verbs_qp_t *a, pgas_verbs_qp_t *b)
{
    snic_connect(a, b);
    snic_connect(b, a);
}

/* The next operation: a receive entry that scatters into the entry which forwards, and what lets
 * that go. */
static void prepare(replica_t *r)
{
    uint32_t number = r->n_prepared++, n = 0;
    pgas_verbs_request_t wait = { .op = PGAS_VERBS_WAIT, .cq = r->recv_cq, .index = number };
    if (!r->managed)
        must(qp_write(r->next, &wait, NULL), "a wait");
    uint32_t position =
        pgas_verbs_qp_position(r->next) % (uint32_t)(r->slots.bytes / r->slot_bytes);
    unsigned char *entry = (unsigned char *)r->slots.addr + (size_t)position * r->slot_bytes;
    pgas_verbs_span_t nothing = { (uintptr_t)r->m.bytes + SCRATCH, 8, r->m.mem.lkey };
    pgas_verbs_request_t requests[2];
    if (r->behind)
        requests[n++] =
            (pgas_verbs_request_t){ .op = PGAS_VERBS_WRITE,
                                    .spans = &nothing,
                                    .n_spans = 1,
                                    .remote_addr = (uintptr_t)r->behind->bytes + SCRATCH,
                                    .rkey = r->behind->mem.rkey };
    requests[n++] =
        (pgas_verbs_request_t){ .op = r->behind != NULL ? PGAS_VERBS_SEND : PGAS_VERBS_SEND_IMM,
                                .flags = PGAS_VERBS_SIGNAL,
                                .imm = number };
    must(pgas_verbs_qp_post(r->next, requests, n, NULL), "what forwards");
    pgas_verbs_span_t patch = { (uintptr_t)entry + PGASI_WQE_SEGMENT, 2 * PGASI_WQE_SEGMENT,
                                r->slots.lkey };
    pgas_verbs_recv_t recv = { number, &patch, r->behind != NULL };
    must(pgas_verbs_qp_recv(r->prev, &recv, 1, NULL), "a receive entry");
    pgas_verbs_request_t go[2] = { wait,
                                   { .op = PGAS_VERBS_SEND_ENABLE,
                                     .flags = PGAS_VERBS_SIGNAL,
                                     .qp = r->next,
                                     .index = pgas_verbs_qp_position(r->next) } };
    if (r->managed)
        must(pgas_verbs_qp_post(r->master, go, 2, NULL), "what lets it go");
}

/* The replica's processor: off the way of messages, it prepares one operation for each that is
 * done. */
static int serve(replica_t *r)
{
    pgas_verbs_completion_t c;
    int n_bad = 0;
    while (pgas_verbs_cq_poll(r->recv_cq, &c, 1) == 1)
        n_bad += c.status != PGAS_OK;
    while (pgas_verbs_cq_poll(r->master_cq, &c, 1) == 1)
        n_bad += c.status != PGAS_OK;
    while (pgas_verbs_cq_poll(r->next_cq, &c, 1) == 1) {
        n_bad += c.status != PGAS_OK;
        if (n_bad == 0)
            prepare(r);
    }
    return n_bad;
}

/* The bytes go to the first replica; the message says how its card forwards them to the second. */
static void issue(client_t *c, const replica_t *r, uint32_t number, pgasi_rng_t *rng)
{
    uint32_t place = number % WINDOW, at = place * PLACE,
             bytes = 1 + (uint32_t)pgasi_rng_below(rng, PLACE);
    unsigned char patch[2 * PGASI_WQE_SEGMENT];
    fill(c->m.bytes + at, bytes, pgasi_rng_u64(rng));
    memcpy(c->expected[place], c->m.bytes + at, bytes);
    c->bytes[place] = bytes;
    pgasi_wqe_set_raddr((void *)patch, (uintptr_t)r->behind->bytes + at, r->behind->mem.rkey);
    pgasi_wqe_set_data((void *)(patch + PGASI_WQE_SEGMENT), (uintptr_t)r->m.bytes + at, bytes,
                       r->m.mem.lkey);
    pgas_verbs_span_t data = { (uintptr_t)c->m.bytes + at, bytes, c->m.mem.lkey },
                      text = { (uintptr_t)patch, sizeof patch, 0 };
    pgas_verbs_recv_t recv = { number, NULL, 0 };
    pgas_verbs_request_t requests[2] = { { .op = PGAS_VERBS_WRITE,
                                           .spans = &data,
                                           .n_spans = 1,
                                           .remote_addr = (uintptr_t)r->m.bytes + at,
                                           .rkey = r->m.mem.rkey },
                                         { .op = PGAS_VERBS_SEND,
                                           .flags = PGAS_VERBS_INLINE | PGAS_VERBS_SIGNAL,
                                           .spans = &text,
                                           .n_spans = 1 } };
    must(pgas_verbs_qp_recv(c->ack, &recv, 1, NULL), "room for an answer");
    must(pgas_verbs_qp_post(c->out, requests, 2, NULL), "an operation");
}

/* An answer has come: the bytes are everywhere, or they are wrong. Places are cleared for the
 * next. */
static bool is_right(const client_t *c, const replica_t *replicas, uint32_t number)
{
    uint32_t place = number % WINDOW, at = place * PLACE;
    bool right = true;
    for (int i = 0; i < 2; i++) {
        right = right && memcmp(replicas[i].m.bytes + at, c->expected[place], c->bytes[place]) == 0;
        memset(replicas[i].m.bytes + at, 0, PLACE);
    }
    return right;
}

static void close_machine(machine_t *m, pgas_verbs_cq_t *const *cqs, int n_cqs)
{
    for (int i = 0; i < n_cqs; i++)
        must(pgas_verbs_cq_destroy(cqs[i]), "close a completion queue");
    pgas_verbs_mem_release(m->dev, &m->mem);
    must(pgas_verbs_close(m->dev), "close a device");
}

/* @return operations that were wrong; -1: something failed */
static int run_chain(pgas_verbs_engine_t engine, uint32_t adversary, uint64_t seed,
                     uint32_t n_operations, bool managed)
{
    static client_t c;
    static replica_t r[2];
    pgasi_rng_t rng;
    uint32_t n_issued = 0, n_done = 0;
    int n_wrong = 0, n_bad = 0;
    pgasi_rng_seed(&rng, seed);
    memset(&c, 0, sizeof c);
    memset(r, 0, sizeof r);
    machine_t *machines[3] = { &c.m, &r[0].m, &r[1].m };
    for (uint64_t i = 0; i < 3; i++)
        open_machine(machines[i], engine, adversary, seed * 3 + i);
    open_replica(&r[0], &r[1].m, managed);
    open_replica(&r[1], NULL, managed);
    c.send_cq = open_cq(&c.m);
    c.ack_cq = open_cq(&c.m);
    c.out = open_qp(&c.m, c.send_cq, c.send_cq, 0);
    c.ack = open_qp(&c.m, c.ack_cq, c.ack_cq, 0);
    connect_both(c.out, r[0].prev);
    connect_both(r[0].next, r[1].prev);
    connect_both(r[1].next, c.ack);
    for (uint32_t i = 0; i < DEPTH; i++) {
        prepare(&r[0]);
        prepare(&r[1]);
    }
    for (int round = 0; n_done < n_operations && n_bad == 0; round++) {
        pgas_verbs_completion_t got;
        if (n_issued < n_operations && n_issued - n_done < WINDOW && pgasi_rng_below(&rng, 3) == 0)
            issue(&c, &r[0], n_issued++, &rng);
        pgas_verbs_snic_step(machines[pgasi_rng_below(&rng, 3)]->dev);
        while (pgas_verbs_cq_poll(c.send_cq, &got, 1) == 1)
            n_bad += got.status != PGAS_OK;
        while (pgas_verbs_cq_poll(c.ack_cq, &got, 1) == 1) {
            n_bad += got.status != PGAS_OK || !got.has_imm || got.imm != n_done;
            n_wrong += n_bad == 0 && !is_right(&c, r, n_done);
            n_done++;
        }
        if (round % 16 == 0)
            n_bad += serve(&r[0]) + serve(&r[1]);
        if (engine == PGAS_VERBS_ENGINE_THREAD || engine == PGAS_VERBS_ENGINE_PROCESS)
            sched_yield();
        if (round > 50 * SNIC_STEPS_MAX)
            bail("the chain has come to a stop after %u operations", n_done);
    }
    pgas_verbs_qp_t *qps[] = { c.out,       c.ack,     r[0].prev, r[0].next,
                               r[0].master, r[1].prev, r[1].next, r[1].master };
    for (size_t i = 0; i < PGASI_ARRAY_LENGTH(qps); i++)
        pgas_verbs_qp_destroy(qps[i]);
    close_machine(&c.m, (pgas_verbs_cq_t *[]){ c.send_cq, c.ack_cq }, 2);
    for (int i = 0; i < 2; i++)
        close_machine(&r[i].m, (pgas_verbs_cq_t *[]){ r[i].recv_cq, r[i].next_cq, r[i].master_cq },
                      3);
    return n_bad > 0 ? -1 : n_wrong;
}

int main(void)
{
    plan(SNIC_N_ADVERSARIES + 7);
    uint64_t seed = tap_seed(7);
    for (int i = 0; i < SNIC_N_ADVERSARIES; i++)
        is_int(run_chain(PGASI_SNIC_ENGINE_STEP, snic_adversaries[i], seed + (uint64_t)i, 3000,
                         true),
               0, "3000 operations, adversary %u", (unsigned)snic_adversaries[i]);
    int n_wrong = 0;
    for (uint64_t i = 0; i < 20; i++)
        n_wrong +=
            run_chain(PGASI_SNIC_ENGINE_STEP, PGAS_VERBS_SNIC_ALL, seed + 100 + i, 300, true);
    is_int(n_wrong, 0, "20 seeds, all adversaries");
    is_int(run_chain(PGAS_VERBS_ENGINE_CALLER, 0, seed, 20000, true), 0,
           "20000 operations by the thread that polls");
    is_int(run_chain(PGAS_VERBS_ENGINE_CALLER, PGAS_VERBS_SNIC_ALL, seed, 3000, true), 0,
           "the same, all adversaries");
    is_int(run_chain(PGAS_VERBS_ENGINE_THREAD, PGAS_VERBS_SNIC_ALL, seed, 1000, true), 0,
           "by the engines' threads");
#ifndef SANITIZED
    is_int(run_chain(PGAS_VERBS_ENGINE_PROCESS, PGAS_VERBS_SNIC_ALL, seed, 1000, true), 0,
           "by the engines' process");
#else
    skip(1, "a process of its own, not in a sanitizer build");
#endif
    n_wrong = run_chain(PGASI_SNIC_ENGINE_STEP, PGAS_VERBS_SNIC_PREFETCH, seed, 2000, false);
    ok(n_wrong > 1000,
       "queues that are not managed, rung when they are filled, with PREFETCH: %d of 2000 wrong",
       n_wrong);
    n_wrong = run_chain(PGASI_SNIC_ENGINE_STEP, PGAS_VERBS_SNIC_ALL, seed, 2000, false);
    ok(n_wrong > 1000, "the same with all adversaries: %d of 2000 wrong", n_wrong);
    return done();
}
