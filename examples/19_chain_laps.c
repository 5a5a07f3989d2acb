/* 19_chain_laps: a chain of requests that is posted once and runs again and again. In each round a
 * client rewrites an entry of the chain and then sends a message that starts the entry. The NIC
 * then writes the word that the client has chosen to the client. See docs/chains.md.
 *
 *   build/examples/19_chain_laps [DEVICE]
 *
 * DEVICE is "snic", the software NIC, unless it is given. Client and server are one process
 * here. */
#include <endian.h>
#include "queue_pairs.h"

#define ROUNDS  1000 /* the ring has 16 slots: it goes round many times */
#define N_WORDS 64   /* of the server; the word behind them is the client's */
#define DATA_AT 32   /* offset of the data segment in an entry that writes */
#define WAIT_US INT64_C(10000000)
#define DEPTH   8

static pgas_verbs_cq_t *arrived, *answered, *sent, *enabled;
static pgas_verbs_cq_t *unseen;          /* no thread polls it */
static pgas_verbs_qp_t *client, *server; /* the client's messages to the server */
static pgas_verbs_qp_t *ring, *back;     /* the server's answers to the client */
static pgas_verbs_qp_t *master;          /* WAIT and ENABLE of the server */

/* The slots of the ring's send queue, which the client may rewrite. */
static struct {
    pgas_verbs_mem_t mem;
    uint32_t bytes, n, first;
} slots;

static void open_queues(void)
{
    uint32_t rewritable =
        PGAS_VERBS_QP_MANAGED_SEND | PGAS_VERBS_QP_REMOTE_SLOTS | PGAS_VERBS_QP_IGNORE_OVERRUN;
    arrived = open_cq(64, 0);
    answered = open_cq(64, 0);
    sent = open_cq(64, 0);
    enabled = open_cq(64, 0);
    unseen = open_cq(64, PGAS_VERBS_CQ_IGNORE_OVERRUN);

    client = open_qp(sent, answered, DEPTH, 0);
    server = open_qp(unseen, arrived, DEPTH, 0);
    ring = open_qp(unseen, unseen, DEPTH, rewritable);
    back = open_qp(sent, answered, DEPTH, 0);
    master = open_qp(enabled, enabled, DEPTH, PGAS_VERBS_QP_MASTER);

    connect_to(client, server);
    connect_to(server, client);
    connect_to(ring, back);
    connect_to(back, ring);
    connect_to(master, master);
}

static void post(pgas_verbs_qp_t *qp, pgas_verbs_request_t request)
{
    must(pgas_verbs_qp_post(qp, &request, 1, NULL), "post");
}

/* Fills every slot of the ring with an entry that writes a word to the client. */
static void fill_ring(void)
{
    pgas_verbs_span_t word = word_at(0);
    pgas_verbs_qp_info_t info = { .size = sizeof info };
    slots.first = pgas_verbs_qp_position(ring);
    must(pgas_verbs_qp_info(ring, &info), "the slots");
    slots.mem = info.slots;
    slots.bytes = info.slot_bytes;
    slots.n = (uint32_t)(slots.mem.bytes / slots.bytes);
    for (uint32_t i = 0; i < slots.n; i++)
        post(ring, (pgas_verbs_request_t){ .op = PGAS_VERBS_WRITE_IMM,
                                           .flags = PGAS_VERBS_SIGNAL,
                                           .spans = &word,
                                           .n_spans = 1,
                                           .remote_addr = word_at(N_WORDS).addr,
                                           .rkey = mem.rkey });
}

/* The server: when message `round` has arrived, one more entry of the ring may run. */
static void allow_one_entry(uint32_t round)
{
    post(master, (pgas_verbs_request_t){ .op = PGAS_VERBS_WAIT, .cq = arrived, .index = round });
    post(master, (pgas_verbs_request_t){ .op = PGAS_VERBS_SEND_ENABLE,
                                         .flags = PGAS_VERBS_SIGNAL,
                                         .qp = ring,
                                         .index = slots.first + round + 1 });
}

/* The client: puts the address of another word into this round's entry. */
static void rewrite_entry(uint32_t round)
{
    uint64_t chosen = word_at((int)(round % N_WORDS)).addr;
    uint32_t data[] = { htobe32(8), htobe32(mem.lkey), htobe32((uint32_t)(chosen >> 32)),
                        htobe32((uint32_t)chosen) };
    pgas_verbs_span_t from = { (uintptr_t)data, sizeof data, 0 };
    uint64_t slot = (slots.first + round) % slots.n;
    post(client, (pgas_verbs_request_t){ .op = PGAS_VERBS_WRITE,
                                         .flags = PGAS_VERBS_INLINE,
                                         .spans = &from,
                                         .n_spans = 1,
                                         .remote_addr = (uintptr_t)slots.mem.addr +
                                                        slot * slots.bytes + DATA_AT,
                                         .rkey = slots.mem.rkey });
}

static void take_one(pgas_verbs_cq_t *cq, const char *what)
{
    pgas_verbs_completion_t c;
    must(pgas_verbs_cq_wait(cq, WAIT_US), what);
    must(pgas_verbs_cq_poll(cq, &c, 1) == 1 ? c.status : PGAS_ERR_TRANSPORT, what);
}

static int run_round(uint32_t round)
{
    const pgas_verbs_recv_t no_buffer = { 0 };
    words[round % N_WORDS] = 1000 + round;
    must(pgas_verbs_qp_recv(server, &no_buffer, 1, NULL), "a receive buffer");
    must(pgas_verbs_qp_recv(back, &no_buffer, 1, NULL), "a receive buffer");
    allow_one_entry(round);

    rewrite_entry(round);
    post(client, (pgas_verbs_request_t){ .op = PGAS_VERBS_SEND, .flags = PGAS_VERBS_SIGNAL });
    take_one(answered, "the answer"); /* the entry has run: its slot may be rewritten */
    int good = words[N_WORDS] == words[round % N_WORDS];

    take_one(arrived, "the message"); /* each of these frees an entry of a queue */
    take_one(sent, "the client's message");
    take_one(enabled, "the chain");
    return good;
}

int main(int argc, char **argv)
{
    uint32_t n_right = 0;
    open_device(argc, argv, "19_chain_laps [DEVICE, as in pgas_info --devices; snic]\n");
    open_queues();
    fill_ring();
    for (uint32_t i = 0; i < ROUNDS; i++)
        n_right += (uint32_t)run_round(i);
    printf("%u of %d rounds right, in a ring of %u entries that were posted once\n", n_right,
           ROUNDS, slots.n);
    printf("%s\n", n_right == ROUNDS ? "right" : "WRONG");
    return n_right == ROUNDS ? 0 : 1;
}
