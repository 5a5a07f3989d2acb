/* 13_queue_pairs: the low level of the library, which needs no MPI. It shows a
 * transmitter, which asks for few completions and counts them for the program. It also shows a
 * chain of requests that the NIC carries out without a CPU.
 *
 *   build/examples/13_queue_pairs [DEVICE]
 *
 * DEVICE is "snic", the software NIC, unless it is given; others are "mlx5_0" or "rxe0". */
#include "queue_pairs.h"

#define N_WRITES  10000
#define DEPTH     256
#define SECOND_US INT64_C(1000000)

/* The words of the page that this program uses. */
enum { TARGET = 8, SOURCE = 16, COPY = 17, ROOM = 24, MESSAGE = 32 };

static pgas_verbs_cq_t *arrived; /* completions of received messages: the chain waits for one */
static pgas_verbs_cq_t *sent;    /* completions of the transmitter */
static pgas_verbs_cq_t *others;

static uint64_t post_write(pgas_verbs_tx_t *tx, uint64_t value)
{
    /* The value is small: post copies it into the queue, so it may be on the stack. */
    pgas_verbs_span_t span = { (uint64_t)(uintptr_t)&value, sizeof value, 0 };
    pgas_verbs_request_t write = { .op = PGAS_VERBS_WRITE,
                                   .spans = &span,
                                   .n_spans = 1,
                                   .remote_addr = word_at(TARGET).addr,
                                   .rkey = mem.rkey };
    uint64_t number;
    pgas_status_t status;

    while ((status = pgas_verbs_tx_post(tx, &write, &number)) == PGAS_ERR_AGAIN)
        pgas_verbs_tx_poll(tx); /* the queue is full */
    must(status, "post");
    return number;
}

/* Many small writes. The transmitter signals one request in 32, and one number says which requests
 * are complete. */
static int transmit(pgas_verbs_qp_t *qp)
{
    pgas_verbs_tx_t *tx;
    pgas_verbs_tx_info_t stats = { .size = sizeof stats };
    uint64_t last = 0;

    must(pgas_verbs_tx_create(qp, NULL, &tx), "a transmitter");
    for (uint64_t value = 1; value <= N_WRITES; value++)
        last = post_write(tx, value);
    must(pgas_verbs_tx_wait(tx, last, SECOND_US), "wait");

    pgas_verbs_tx_info(tx, &stats);
    printf("%d writes, %d completions, the last value is %d\n", N_WRITES, (int)stats.completions,
           (int)words[TARGET]);
    pgas_verbs_tx_destroy(tx);
    return words[TARGET] == N_WRITES;
}

/* Queues a copy of a word that nothing starts yet: the queue is managed. */
static void prepare_copy(pgas_verbs_qp_t *copier)
{
    pgas_verbs_span_t from = word_at(SOURCE);
    pgas_verbs_request_t copy = { .op = PGAS_VERBS_WRITE,
                                  .flags = PGAS_VERBS_SIGNAL,
                                  .spans = &from,
                                  .n_spans = 1,
                                  .remote_addr = word_at(COPY).addr,
                                  .rkey = mem.rkey };
    must(pgas_verbs_qp_post(copier, &copy, 1, NULL), "post the copy");
}

static void send_message(pgas_verbs_qp_t *from, pgas_verbs_qp_t *to)
{
    pgas_verbs_span_t room = word_at(ROOM), message = word_at(MESSAGE);
    pgas_verbs_recv_t recv = { .spans = &room, .n_spans = 1 };
    pgas_verbs_request_t send = { .op = PGAS_VERBS_SEND, .spans = &message, .n_spans = 1 };
    must(pgas_verbs_qp_recv(to, &recv, 1, NULL), "a receive buffer");
    must(pgas_verbs_qp_post(from, &send, 1, NULL), "send");
}

/* When a message arrives, the NIC copies a word by itself. A WAIT for the message's completion
 * precedes an ENABLE of the queue with the copy. */
static int chain(pgas_verbs_qp_t *a, pgas_verbs_qp_t *b)
{
    pgas_verbs_qp_t *copier = open_qp(others, arrived, DEPTH, PGAS_VERBS_QP_MANAGED_SEND);
    pgas_verbs_qp_t *master = open_qp(others, arrived, DEPTH, PGAS_VERBS_QP_MASTER);
    connect_to(copier, copier);
    connect_to(master, master);

    words[SOURCE] = 4711;
    prepare_copy(copier);
    pgas_verbs_request_t program[] = {
        { .op = PGAS_VERBS_WAIT, .cq = arrived, .index = 0 },
        { .op = PGAS_VERBS_SEND_ENABLE, .qp = copier, .index = pgas_verbs_qp_position(copier) }
    };
    uint32_t n_posted;
    must(pgas_verbs_qp_post(master, program, 2, &n_posted), "post the chain");

    send_message(a, b);
    must(pgas_verbs_cq_wait(others, SECOND_US), "wait for the copy");
    printf("after the message the word is %d\n", (int)words[COPY]);
    pgas_verbs_qp_destroy(copier);
    pgas_verbs_qp_destroy(master);
    return words[COPY] == 4711;
}

int main(int argc, char **argv)
{
    pgas_verbs_info_t info = { .size = sizeof info };
    open_device(argc, argv, "13_queue_pairs [DEVICE, as in pgas_info --devices; snic]\n");
    arrived = open_cq(DEPTH, 0);
    sent = open_cq(DEPTH, 0);
    others = open_cq(DEPTH, 0);
    pgas_verbs_qp_t *a = open_qp(sent, arrived, DEPTH, 0), *b = open_qp(others, arrived, DEPTH, 0);
    connect_to(a, b);
    connect_to(b, a);

    int good = transmit(a);
    pgas_verbs_info(dev, &info);
    if (info.chains)
        good = chain(a, b) && good;
    else
        printf("no chains: %s\n", info.chains_why);
    printf("%s\n", good ? "right" : "WRONG");
    return good ? 0 : 1;
}
