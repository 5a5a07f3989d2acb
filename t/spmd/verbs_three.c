/* what: A queue pair to which the program posts, a transmitter and pgas_call work in one program. A
 *       call finds the data that the other two have written before it.
 * np: 1 2 3 4
 * nodes: 0 1
 * source: pgas/verbs.h, pgas/call.h */
#include <sched.h>
#include <stdint.h>
#include "pgas/verbs.h"
#include "t/queue_pairs.h"
#include "t/spmd/job.h"

#define ROUNDS      200
#define STREAM      5000
#define PATIENCE_US INT64_C(60000000)

/* The words that the left neighbour writes here. */
typedef struct {
    uint64_t by_hand[ROUNDS];
    uint64_t by_transmitter[ROUNDS];
    uint64_t stream[64];
} area_t;

typedef struct {
    pgas_verbs_dev_t *dev;
    pgas_verbs_cq_t *cq[2];
    /* [0] is posted to by hand, [1] by the transmitter; each to_left is the other end of the left
     * neighbour's to_right */
    pgas_verbs_qp_t *to_right[2], *to_left[2];
    pgas_verbs_tx_t *tx;
    pgas_verbs_mem_t mine, right; /* right: the right neighbour's */
} layers_t;

static pgas_handler_t look_up, look_at_stream;
static area_t *area;

static int rank_beside(int distance)
{
    return (pgas_rank() + pgas_n_ranks() + distance) % pgas_n_ranks();
}

static void handle_look_up(const void *args, size_t bytes, pgas_thread_t source, void *context)
{
    uint64_t round = *(const uint64_t *)args, found[2];
    (void)bytes, (void)source, (void)context;
    found[0] = __atomic_load_n(&area->by_hand[round], __ATOMIC_ACQUIRE);
    found[1] = __atomic_load_n(&area->by_transmitter[round], __ATOMIC_ACQUIRE);
    pgas_reply(found, sizeof found);
}

static void handle_look_at_stream(const void *args, size_t bytes, pgas_thread_t source,
                                  void *context)
{
    uint64_t last = *(const uint64_t *)args, n_good = 0;
    (void)bytes, (void)source, (void)context;
    for (uint64_t i = 0; i < 64; i++)
        n_good += __atomic_load_n(&area->stream[i], __ATOMIC_ACQUIRE) == last - (last - i) % 64;
    pgas_reply(&n_good, sizeof n_good);
}

/* ---- opening ---- */

/* Two queue pairs to each neighbour, in a ring. */
static bool open_queues(layers_t *l)
{
    typedef struct {
        pgas_verbs_address_t right[2], left[2];
        pgas_verbs_mem_t mem;
    } ends_t;
    static ends_t mine, all[JOB_RANKS_MAX];
    bool good = true;
    for (int i = 0; i < 2 && good; i++) {
        pgas_verbs_qp_opts_t opts = PGAS_VERBS_QP_OPTS_INIT;
        good = pgas_verbs_cq_create(l->dev, 1024, 0, &l->cq[i]) == PGAS_OK;
        opts.send_cq = opts.recv_cq = l->cq[i];
        good = good && pgas_verbs_qp_create(l->dev, &opts, &l->to_right[i]) == PGAS_OK &&
               pgas_verbs_qp_create(l->dev, &opts, &l->to_left[i]) == PGAS_OK;
        if (good) {
            qp_address(l->to_right[i], &mine.right[i]);
            qp_address(l->to_left[i], &mine.left[i]);
        }
    }
    mine.mem = l->mine;
    good = pgas_allgather(NULL, &mine, all, sizeof mine) == PGAS_OK && good;
    const ends_t *right = &all[rank_beside(1)], *left = &all[rank_beside(-1)];
    l->right = right->mem;
    for (int i = 0; i < 2 && good; i++)
        good = pgas_verbs_qp_connect(l->to_right[i], &right->left[i]) == PGAS_OK &&
               pgas_verbs_qp_connect(l->to_left[i], &left->right[i]) == PGAS_OK;
    return good && pgas_verbs_tx_create(l->to_right[1], NULL, &l->tx) == PGAS_OK;
}

static bool open_layers(layers_t *l)
{
    pgas_verbs_dev_opts_t dev = PGAS_VERBS_DEV_OPTS_INIT;
    dev.device = "snic";
    bool good = pgas_verbs_open(&dev, &l->dev) == PGAS_OK;
    good = good && pgas_verbs_mem_register(l->dev, NULL, sizeof(area_t), PGAS_VERBS_ACCESS_ALL,
                                           &l->mine) == PGAS_OK;
    area = l->mine.addr;
    return !job_any(!good) && !job_any(!open_queues(l));
}

static bool close_layers(layers_t *l)
{
    bool good = true;
    pgas_verbs_tx_destroy(l->tx);
    for (int i = 0; i < 2; i++) {
        pgas_verbs_qp_destroy(l->to_right[i]);
        pgas_verbs_qp_destroy(l->to_left[i]);
        good = pgas_verbs_cq_destroy(l->cq[i]) == PGAS_OK && good;
    }
    pgas_verbs_mem_release(l->dev, &l->mine);
    return pgas_verbs_close(l->dev) == PGAS_OK && good;
}

/* ---- use ---- */

static pgas_verbs_request_t write_of(const layers_t *l, const pgas_verbs_span_t *span,
                                     size_t offset)
{
    return (pgas_verbs_request_t){ .op = PGAS_VERBS_WRITE,
                                   .flags = PGAS_VERBS_INLINE,
                                   .spans = span,
                                   .n_spans = 1,
                                   .remote_addr = (uintptr_t)l->right.addr + offset,
                                   .rkey = l->right.rkey };
}

/* By hand: signaled, rung, polled. */
static bool write_by_hand(layers_t *l, uint64_t round, uint64_t value)
{
    pgas_verbs_span_t span = { (uintptr_t)&value, 8, 0 };
    pgas_verbs_request_t request = write_of(l, &span, offsetof(area_t, by_hand) + round * 8);
    pgas_verbs_completion_t c = { 0 };
    request.flags |= PGAS_VERBS_SIGNAL;
    request.id = round;
    return pgas_verbs_qp_post(l->to_right[0], &request, 1, NULL) == PGAS_OK &&
           pgas_verbs_cq_wait(l->cq[0], PATIENCE_US) == PGAS_OK &&
           pgas_verbs_cq_poll(l->cq[0], &c, 1) == 1 && c.status == PGAS_OK && c.id == round &&
           c.qp == l->to_right[0];
}

static bool write_by_transmitter(layers_t *l, uint64_t round, uint64_t value)
{
    pgas_verbs_tx_t *tx = l->tx;
    pgas_verbs_span_t span = { (uintptr_t)&value, 8, 0 };
    pgas_verbs_request_t request = write_of(l, &span, offsetof(area_t, by_transmitter) + round * 8);
    uint64_t number;
    return pgas_verbs_tx_post(tx, &request, &number) == PGAS_OK &&
           pgas_verbs_tx_wait(tx, number, PATIENCE_US) == PGAS_OK;
}

static void write_and_call(layers_t *l)
{
    int n_bad = 0;
    for (uint64_t round = 0; round < ROUNDS; round++) {
        uint64_t found[2] = { 0, 0 }, value = (uint64_t)pgas_rank() * 100000 + round + 1;
        n_bad += !write_by_hand(l, round, value) || !write_by_transmitter(l, round, value + 50000);
        n_bad += pgas_call_return(rank_beside(1), look_up, &round, sizeof round, found,
                                  sizeof found) != PGAS_OK;
        n_bad += found[0] != value || found[1] != value + 50000;
    }
    spmd_is_int(n_bad, 0, "a call finds the earlier writes by hand and by the transmitter");
}

/* All three at once, without waiting in between. */
static void stream_and_call(layers_t *l)
{
    pgas_verbs_tx_t *tx = l->tx;
    pgas_verbs_tx_info_t before = { .size = sizeof before }, after = { .size = sizeof after };
    uint64_t number = 0, last = STREAM - 1, n_good = 0, hand = 0;
    int n_bad = 0;
    pgas_verbs_tx_info(tx, &before);
    for (uint64_t i = 0; i < STREAM; i++) {
        pgas_verbs_span_t span = { (uintptr_t)&i, 8, 0 };
        pgas_verbs_request_t request = write_of(l, &span, offsetof(area_t, stream) + i % 64 * 8);
        pgas_status_t status;
        while ((status = pgas_verbs_tx_post(tx, &request, &number)) == PGAS_ERR_AGAIN) {
            pgas_verbs_tx_poll(tx);
            sched_yield();
        }
        n_bad += status != PGAS_OK;
        if (i % 100 == 0)
            n_bad += !write_by_hand(l, hand++, i);
        if (i % 250 == 0)
            n_bad += pgas_call_return(rank_beside(1), look_at_stream, &last, sizeof last, &n_good,
                                      sizeof n_good) != PGAS_OK;
    }
    n_bad += pgas_verbs_tx_wait(tx, number, PATIENCE_US) != PGAS_OK;
    pgas_verbs_tx_info(tx, &after);
    n_bad += pgas_call_return(rank_beside(1), look_at_stream, &last, sizeof last, &n_good,
                              sizeof n_good) != PGAS_OK;
    spmd_ok(n_bad == 0 && n_good == 64,
            "a stream of writes, writes by hand and calls run at the same time");
    spmd_ok(after.completions - before.completions <= STREAM / 32 + 1,
            "with one completion for 32 writes of the stream");
}

int main(int argc, char **argv)
{
    static layers_t layers;
    pgas_handler_register("t.look_up", handle_look_up, NULL, NULL, &look_up);
    pgas_handler_register("t.look_at_stream", handle_look_at_stream, NULL, NULL, &look_at_stream);
    job_begin(&argc, &argv, 5);
    if (!spmd_ok(open_layers(&layers), "queue pairs, a transmitter and the library open together"))
        MPI_Abort(MPI_COMM_WORLD, 99);
    write_and_call(&layers);
    stream_and_call(&layers);
    spmd_barrier();
    spmd_ok(close_layers(&layers), "and close");
    return job_end();
}
