/* t/unit/snic_laps.c
 *   what:   The entries of a managed queue are posted once and run again and again: an ENABLE
 *           beyond the posted entries runs the ring again. A patch that arrives before a message on
 *           its connection is seen by the entry after the message's WAIT, under every adversary. A
 *           patch that arrives after the message is not.
 *   needs:  tsan-ok
 *   source: docs/chains.md */
#include <endian.h>
#include "t/queue_pairs.h"
#include "t/unit/snic.h"

#define ROUNDS  300
#define N_WORDS 15 /* not the number of slots: each pass over the ring has other words in a slot */

typedef struct {
    pgas_verbs_dev_t *dev;
    pgas_verbs_cq_t *arrived, *answered, *sent, *enabled, *unseen;
    pgas_verbs_qp_t *client, *server, *master, *ring, *back;
    pgas_verbs_mem_t mem, slots;
    uint64_t *words;
    uint32_t slot_bytes, n_slots, first;
} chain_t;

static pgas_verbs_qp_t *make_qp(const chain_t *c, pgas_verbs_cq_t *send_cq,
                                pgas_verbs_cq_t *recv_cq, uint32_t flags)
{
    pgas_verbs_qp_opts_t opts = PGAS_VERBS_QP_OPTS_INIT;
    opts.send_depth = opts.recv_depth = 8;
    opts.send_cq = send_cq;
    opts.recv_cq = recv_cq;
    opts.flags = flags;
    return snic_qp(c->dev, opts, NULL);
}

static pgas_verbs_cq_t *make_cq(const chain_t *c, uint32_t flags)
{
    pgas_verbs_cq_t *cq = NULL;
    must(pgas_verbs_cq_create(c->dev, 64, flags, &cq), "a completion queue");
    return cq;
}

static void post_one(pgas_verbs_qp_t *qp, pgas_verbs_request_t request)
{
    snic_post(qp, &request);
}

static void open_chain(chain_t *c, uint32_t adversary, uint64_t seed)
{
    c->dev = snic_device(PGASI_SNIC_ENGINE_STEP, adversary, seed);
    must(pgas_verbs_mem_register(c->dev, NULL, 4096, PGAS_VERBS_ACCESS_ALL, &c->mem), "memory");
    c->words = c->mem.addr;
    c->arrived = make_cq(c, 0);
    c->answered = make_cq(c, 0);
    c->sent = make_cq(c, 0);
    c->enabled = make_cq(c, 0);
    c->unseen = make_cq(c, PGAS_VERBS_CQ_IGNORE_OVERRUN);
    c->client = make_qp(c, c->sent, c->answered, 0);
    c->server = make_qp(c, c->unseen, c->arrived, 0);
    c->master = make_qp(c, c->enabled, c->enabled, PGAS_VERBS_QP_MASTER);
    c->ring = make_qp(c, c->unseen, c->unseen,
                      PGAS_VERBS_QP_MANAGED_SEND | PGAS_VERBS_QP_REMOTE_SLOTS |
                          PGAS_VERBS_QP_IGNORE_OVERRUN);
    c->back = make_qp(c, c->sent, c->answered, 0);
    snic_connect(c->client, c->server);
    snic_connect(c->server, c->client);
    snic_connect(c->ring, c->back);
    snic_connect(c->back, c->ring);
    snic_connect(c->master, c->master);
    c->first = pgas_verbs_qp_position(c->ring);
    must(qp_slots(c->ring, &c->slots, &c->slot_bytes), "the slots");
    c->n_slots = (uint32_t)(c->slots.bytes / c->slot_bytes);
    /* wrong unless it is rewritten */
    pgas_verbs_span_t word = { (uintptr_t)&c->words[N_WORDS + 1], 8, c->mem.lkey };
    for (uint32_t i = 0; i < c->n_slots; i++)
        post_one(c->ring, (pgas_verbs_request_t){ .op = PGAS_VERBS_WRITE_IMM,
                                                  .flags = PGAS_VERBS_SIGNAL,
                                                  .spans = &word,
                                                  .n_spans = 1,
                                                  .remote_addr = (uintptr_t)&c->words[N_WORDS],
                                                  .rkey = c->mem.rkey });
}

static void close_chain(chain_t *c)
{
    pgas_verbs_qp_t *qps[] = { c->client, c->server, c->master, c->ring, c->back };
    pgas_verbs_cq_t *cqs[] = { c->arrived, c->answered, c->sent, c->enabled, c->unseen };
    for (size_t i = 0; i < PGASI_ARRAY_LENGTH(qps); i++)
        pgas_verbs_qp_destroy(qps[i]);
    for (size_t i = 0; i < PGASI_ARRAY_LENGTH(cqs); i++)
        must(pgas_verbs_cq_destroy(cqs[i]), "close a completion queue");
    pgas_verbs_mem_release(c->dev, &c->mem);
    must(pgas_verbs_close(c->dev), "close the device");
}

/* The data segment of this round's entry. */
static void patch(const chain_t *c, uint32_t round)
{
    uint64_t chosen = (uintptr_t)&c->words[round % N_WORDS];
    uint32_t bytes[] = { htobe32(8), htobe32(c->mem.lkey), htobe32((uint32_t)(chosen >> 32)),
                         htobe32((uint32_t)chosen) };
    pgas_verbs_span_t from = { (uintptr_t)bytes, sizeof bytes, 0 };
    uint64_t slot =
        (uintptr_t)c->slots.addr + (uint64_t)((c->first + round) % c->n_slots) * c->slot_bytes;
    post_one(c->client, (pgas_verbs_request_t){ .op = PGAS_VERBS_WRITE,
                                                .flags = PGAS_VERBS_INLINE,
                                                .spans = &from,
                                                .n_spans = 1,
                                                .remote_addr = slot + 32,
                                                .rkey = c->slots.rkey });
}

static bool take(const chain_t *c, pgas_verbs_cq_t *cq)
{
    pgas_verbs_completion_t got;
    return snic_take(c->dev, cq, &got, 1) == 1 && got.status == PGAS_OK;
}

/* @return rounds whose answer was the word that the client had chosen; -1: something failed */
static int run(uint32_t adversary, uint64_t seed, bool in_time)
{
    chain_t c;
    int n_right = 0;
    bool good = true;
    const pgas_verbs_recv_t none = { 0 };
    open_chain(&c, adversary, seed);
    for (uint32_t i = 0; i < ROUNDS && good; i++) {
        c.words[i % N_WORDS] = 1000 + i;
        must(pgas_verbs_qp_recv(c.server, &none, 1, NULL), "a receive buffer");
        must(pgas_verbs_qp_recv(c.back, &none, 1, NULL), "a receive buffer");
        post_one(c.master,
                 (pgas_verbs_request_t){ .op = PGAS_VERBS_WAIT, .cq = c.arrived, .index = i });
        post_one(c.master, (pgas_verbs_request_t){ .op = PGAS_VERBS_SEND_ENABLE,
                                                   .flags = PGAS_VERBS_SIGNAL,
                                                   .qp = c.ring,
                                                   .index = c.first + i + 1 });
        if (in_time)
            patch(&c, i);
        post_one(c.client,
                 (pgas_verbs_request_t){ .op = PGAS_VERBS_SEND, .flags = PGAS_VERBS_SIGNAL });
        good = take(&c, c.answered);
        n_right += good && c.words[N_WORDS] == 1000 + i;
        good = good && take(&c, c.arrived) && take(&c, c.sent) && take(&c, c.enabled);
        if (!in_time) {
            patch(&c, i);
            snic_settle(c.dev);
        }
    }
    close_chain(&c);
    return good ? n_right : -1;
}

int main(void)
{
    plan(SNIC_N_ADVERSARIES + 1);
    uint64_t seed = tap_seed(3);
    for (int i = 0; i < SNIC_N_ADVERSARIES; i++)
        is_int(run(snic_adversaries[i], seed + (uint64_t)i, true), ROUNDS,
               "%d runs of a ring that was posted once, adversary %u", ROUNDS,
               (unsigned)snic_adversaries[i]);
    int n_right = run(0, seed, false);
    ok(n_right >= 0 && n_right < ROUNDS / 2,
       "a patch after the message comes too late: %d of %d right", n_right, ROUNDS);
    return done();
}
