/* 14_chain_laps: a chain that is posted once and run again and again. A client rewrites one of its
 * entries, then sends a message that lets the entry go: the card writes the word that the client
 * has chosen back to it. See "Chains" in pgas/verbs.h.
 *   build/examples/14_chain_laps [DEVICE]       ("snic", the software NIC, if nothing is given).
 *                                               Both sides are one process here. */
#include <endian.h>
#include <pgas/verbs.h>
#include <stdio.h>
#include <stdlib.h>
#include "usage.h"

#define ROUNDS  1000 /* many laps: the ring has 16 slots */
#define N_WORDS 64
#define DATA_AT 32 /* of the data segment in an entry that writes */
#define WAIT_NS UINT64_C(10000000000)
static pgas_verbs_dev_t *dev;
static pgas_verbs_mem_t mem;
static uint64_t *words; /* the server's; the one behind them is the client's */

static void must(pgas_status_t status, const char *what)
{
    if (status != PGAS_OK) {
        fprintf(stderr, "14_chain_laps: %s: %s\n", what, pgas_status_text(status));
        exit(1);
    }
}

static pgas_verbs_cq_t *make_cq(uint32_t flags)
{
    pgas_verbs_cq_t *cq;
    must(pgas_verbs_cq_open(dev, 64, flags, &cq), "a completion queue");
    return cq;
}

static pgas_verbs_qp_t *make_qp(pgas_verbs_cq_t *send_cq, pgas_verbs_cq_t *recv_cq, uint32_t flags)
{
    pgas_verbs_qp_opts_t opts = PGAS_VERBS_QP_OPTS_INIT;
    pgas_verbs_qp_t *qp;
    opts.send_depth = opts.recv_depth = 8;
    opts.send_cq = send_cq;
    opts.recv_cq = recv_cq;
    opts.flags = flags;
    must(pgas_verbs_qp_open(dev, &opts, &qp), "a queue pair");
    return qp;
}

static void connect_to(pgas_verbs_qp_t *qp, const pgas_verbs_qp_t *peer)
{
    pgas_verbs_address_t address;
    pgas_verbs_qp_address(peer, &address);
    must(pgas_verbs_qp_connect(qp, &address), "connect");
}

static void post(pgas_verbs_qp_t *qp, pgas_verbs_request_t request)
{
    must(pgas_verbs_qp_post(qp, &request, 1, NULL), "post");
}

static void take(pgas_verbs_cq_t *cq, const char *what)
{
    pgas_verbs_completion_t c;
    must(pgas_verbs_cq_wait(cq, WAIT_NS), what);
    must(pgas_verbs_cq_poll(cq, &c, 1) == 1 ? c.status : PGAS_ERR_TRANSPORT, what);
}

static int run(void)
{
    pgas_verbs_cq_t *arrived = make_cq(0), *answered = make_cq(0), *sent = make_cq(0),
                    *enabled = make_cq(0);
    pgas_verbs_cq_t *unseen = make_cq(PGAS_VERBS_CQ_IGNORE_OVERRUN); /* no thread polls it */
    pgas_verbs_qp_t *client = make_qp(sent, answered, 0), *server = make_qp(unseen, arrived, 0);
    pgas_verbs_qp_t *master = make_qp(enabled, enabled, PGAS_VERBS_QP_MASTER),
                    *back = make_qp(sent, answered, 0);
    uint32_t flags =
        PGAS_VERBS_QP_MANAGED_SEND | PGAS_VERBS_QP_REMOTE_SLOTS | PGAS_VERBS_QP_IGNORE_OVERRUN;
    pgas_verbs_qp_t *ring = make_qp(unseen, unseen, flags),
                    *pairs[][2] = { { client, server }, { ring, back }, { master, master } };
    for (int i = 0; i < 3; i++)
        connect_to(pairs[i][0], pairs[i][1]);
    connect_to(server, client);
    connect_to(back, ring);
    pgas_verbs_mem_t slots; /* each holds one entry that writes a word to the client */
    uint32_t slot_bytes, first = pgas_verbs_qp_position(ring);
    must(pgas_verbs_qp_buffer(ring, &slots, &slot_bytes), "the slots");
    uint32_t n_slots = (uint32_t)(slots.bytes / slot_bytes), n_right = 0;
    pgas_verbs_span_t word = { (uintptr_t)words, 8, mem.lkey };
    for (uint32_t i = 0; i < n_slots; i++)
        post(ring, (pgas_verbs_request_t){ .op = PGAS_VERBS_WRITE_IMM,
                                           .flags = PGAS_VERBS_SIGNAL,
                                           .spans = &word,
                                           .n_spans = 1,
                                           .remote_addr = (uintptr_t)&words[N_WORDS],
                                           .rkey = mem.rkey });
    const pgas_verbs_recv_t none = { 0 };
    for (uint32_t i = 0; i < ROUNDS; i++) {
        words[i % N_WORDS] = 1000 + i;
        must(pgas_verbs_qp_recv(server, &none, 1, NULL), "a receive buffer");
        must(pgas_verbs_qp_recv(back, &none, 1, NULL), "a receive buffer");
        post(master, (pgas_verbs_request_t){ .op = PGAS_VERBS_WAIT, .cq = arrived, .index = i });
        post(master, (pgas_verbs_request_t){ PGAS_VERBS_SEND_ENABLE, PGAS_VERBS_SIGNAL, .qp = ring,
                                             .index = first + i + 1 });
        /* The client puts another word into this round's entry. Its message follows it. */
        uint64_t chosen = (uintptr_t)&words[i % N_WORDS];
        uint32_t patch[] = { htobe32(8), htobe32(mem.lkey), htobe32((uint32_t)(chosen >> 32)),
                             htobe32((uint32_t)chosen) };
        pgas_verbs_span_t from = { (uintptr_t)patch, sizeof patch, 0 };
        uint64_t slot = (uintptr_t)slots.addr + (uint64_t)((first + i) % n_slots) * slot_bytes;
        post(client, (pgas_verbs_request_t){ .op = PGAS_VERBS_WRITE,
                                             .flags = PGAS_VERBS_INLINE,
                                             .spans = &from,
                                             .n_spans = 1,
                                             .remote_addr = slot + DATA_AT,
                                             .rkey = slots.rkey });
        post(client, (pgas_verbs_request_t){ .op = PGAS_VERBS_SEND, .flags = PGAS_VERBS_SIGNAL });
        take(answered, "the answer"); /* the entry has run: its slot may be rewritten */
        n_right += words[N_WORDS] == words[i % N_WORDS];
        take(arrived, "the message"); /* each makes room in a queue */
        take(sent, "what was sent");
        take(enabled, "the chain");
    }
    printf("%u of %d rounds right, in a ring of %u entries that were posted once\n", n_right,
           ROUNDS, n_slots);
    return n_right == ROUNDS;
}

int main(int argc, char **argv)
{
    pgas_verbs_dev_opts_t opts = PGAS_VERBS_DEV_OPTS_INIT;
    usage_check(0, argc, argv, "14_chain_laps [DEVICE, as in pgas_info --devices; snic]\n", 1);
    opts.device = argc > 1 ? argv[1] : "snic";
    must(pgas_verbs_open(&opts, &dev), opts.device);
    must(pgas_verbs_mem_alloc(dev, 4096, PGAS_VERBS_ACCESS_ALL, &mem), "memory");
    words = mem.addr;
    int good = run();
    printf("%s\n", good ? "right" : "WRONG");
    return good ? 0 : 1;
}
