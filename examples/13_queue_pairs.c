/* 13_queue_pairs: the low level, without MPI: a transmitter that signals by itself, and a chain
 * that a NIC does alone.
 *
 *   build/examples/13_queue_pairs [DEVICE]       ("snic", the software NIC, if nothing is given;
 *                                                "mlx5_0", "rxe0") */
#include <pgas/verbs.h>
#include <stdio.h>
#include <stdlib.h>
#include "usage.h"

#define N         10000
#define SECOND_NS UINT64_C(1000000000)
static pgas_verbs_dev_t *dev;
static pgas_verbs_cq_t *arrived; /* completions of what is received: the chain waits for one */
static pgas_verbs_cq_t *sent;    /* of what the transmitter sends */
static pgas_verbs_cq_t *rest;
static pgas_verbs_mem_t mem;
static uint64_t *words;

static void must(pgas_status_t status, const char *what)
{
    if (status != PGAS_OK) {
        fprintf(stderr, "13_queue_pairs: %s: %s\n", what, pgas_status_text(status));
        exit(1);
    }
}

static pgas_verbs_qp_t *make_qp(pgas_verbs_cq_t *send_cq, uint32_t flags)
{
    pgas_verbs_qp_opts_t opts = PGAS_VERBS_QP_OPTS_INIT;
    pgas_verbs_qp_t *qp;
    opts.send_cq = send_cq;
    opts.recv_cq = arrived;
    opts.flags = flags;
    must(pgas_verbs_qp_open(dev, &opts, &qp), "a queue pair");
    return qp;
}

/* Usually the address travels to another process by some other way. Both ends connect. */
static void connect_to(pgas_verbs_qp_t *qp, const pgas_verbs_qp_t *peer)
{
    pgas_verbs_address_t address;
    pgas_verbs_qp_address(peer, &address);
    must(pgas_verbs_qp_connect(qp, &address), "connect");
}

static pgas_verbs_span_t at(int word)
{
    return (pgas_verbs_span_t){ (uint64_t)(uintptr_t)&words[word], sizeof *words, mem.lkey };
}

/* Many small writes: one in 32 is signaled, and one number tells what is complete. */
static int transmit(pgas_verbs_qp_t *a)
{
    pgas_verbs_tx_t *tx;
    pgas_verbs_tx_stats_t stats;
    uint64_t value, number;
    must(pgas_verbs_tx_open(a, NULL, &tx), "a transmitter");
    for (value = 1; value <= N; value++) {
        /* small: it is copied into the queue */
        pgas_verbs_span_t span = { (uint64_t)(uintptr_t)&value, sizeof value, 0 };
        pgas_verbs_request_t write = { PGAS_VERBS_WRITE, .spans = &span, .n_spans = 1,
                                       .remote_addr = at(8).addr };
        write.rkey = mem.rkey;
        pgas_status_t status;
        while ((status = pgas_verbs_tx_post(tx, &write, &number)) == PGAS_ERR_AGAIN)
            pgas_verbs_tx_poll(tx);
        must(status, "post");
    }
    must(pgas_verbs_tx_wait(tx, number, SECOND_NS), "wait");
    pgas_verbs_tx_stats(tx, &stats);
    printf("%d writes, %d completions, the last value is %d\n", N, (int)stats.completions,
           (int)words[8]);
    pgas_verbs_tx_close(tx);
    return words[8] == N;
}

/* When a message arrives, the NIC copies a word without us: a WAIT for the message's completion
 * lets a queue go on. */
static int chain(pgas_verbs_qp_t *a, pgas_verbs_qp_t *b)
{
    pgas_verbs_qp_t *copier = make_qp(rest, PGAS_VERBS_QP_MANAGED_SEND),
                    *master = make_qp(rest, PGAS_VERBS_QP_MASTER);
    connect_to(copier, copier);
    connect_to(master, master);
    words[16] = 4711;
    pgas_verbs_span_t from = at(16), room = at(24), message = at(32);
    pgas_verbs_request_t copy = { PGAS_VERBS_WRITE, PGAS_VERBS_SIGNAL, .spans = &from, .n_spans = 1,
                                  .remote_addr = at(17).addr };
    copy.rkey = mem.rkey;
    must(pgas_verbs_qp_post(copier, &copy, 1, NULL), "post the copy");
    uint32_t n, behind = pgas_verbs_qp_position(copier);
    pgas_verbs_request_t program[] = {
        { .op = PGAS_VERBS_WAIT, .cq = arrived, .index = 0 },
        { .op = PGAS_VERBS_SEND_ENABLE, .qp = copier, .index = behind }
    };
    must(pgas_verbs_qp_post(master, program, 2, &n), "post the chain");
    pgas_verbs_recv_t recv = { .spans = &room, .n_spans = 1 };
    must(pgas_verbs_qp_recv(b, &recv, 1, NULL), "a receive buffer");

    pgas_verbs_request_t send = { .op = PGAS_VERBS_SEND, .spans = &message, .n_spans = 1 };
    must(pgas_verbs_qp_post(a, &send, 1, NULL), "send");
    must(pgas_verbs_cq_wait(rest, SECOND_NS), "wait for the copy");
    printf("after the message the word is %d\n", (int)words[17]);
    pgas_verbs_qp_close(copier);
    pgas_verbs_qp_close(master);
    return words[17] == 4711;
}

int main(int argc, char **argv)
{
    pgas_verbs_dev_opts_t opts = PGAS_VERBS_DEV_OPTS_INIT;
    pgas_verbs_info_t info;
    usage_check(0, argc, argv, "13_queue_pairs [DEVICE, as in pgas_info --devices; snic]\n", 1);
    opts.device = argc > 1 ? argv[1] : "snic";
    must(pgas_verbs_open(&opts, &dev), opts.device);
    pgas_verbs_query(dev, &info);
    must(pgas_verbs_mem_alloc(dev, 4096, PGAS_VERBS_ACCESS_ALL, &mem), "memory");
    words = mem.addr;
    must(pgas_verbs_cq_open(dev, 256, 0, &arrived), "a completion queue");
    must(pgas_verbs_cq_open(dev, 256, 0, &sent), "a completion queue");
    must(pgas_verbs_cq_open(dev, 256, 0, &rest), "a completion queue");
    pgas_verbs_qp_t *a = make_qp(sent, 0), *b = make_qp(rest, 0);
    connect_to(a, b);
    connect_to(b, a);
    int good = transmit(a);
    good = good && (info.chains ? chain(a, b) : printf("no chains: %s\n", info.chains_why) > 0);
    printf("%s\n", good ? "right" : "WRONG");
    return good ? 0 : 1;
}
