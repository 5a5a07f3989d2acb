/* what: a net connects every rank and thread with every other over MPI's allgather: writes arrive
 * where they should,
 *       messages whole, in order and from whom they are; threads beyond the cap share transmitters;
 *       errors are the same on all ranks
 * np: 1 2 3 4
 * source: pgas/verbs.h, nets */
#include <pthread.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include "pgas/verbs.h"
#include "t/spmd.h"

#define THREADS     3
#define CONNECTIONS 2
#define RANKS_MAX   8
#define MESSAGES    200
#define LARGE       3000
#define PATIENCE_NS UINT64_C(60000000000)

static pgas_verbs_dev_t *dev;
static int failing_exchanges; /* so many more exchanges, then they fail; -1: never */

static int exchange(void *arg, const void *mine, void *all, size_t bytes)
{
    (void)arg;
    if (failing_exchanges >= 0 && failing_exchanges-- == 0)
        return 1;
    return MPI_Allgather(mine, (int)bytes, MPI_BYTE, all, (int)bytes, MPI_BYTE, MPI_COMM_WORLD);
}

static pgas_verbs_net_opts_t make_opts(void)
{
    pgas_verbs_net_opts_t opts;
    pgas_verbs_net_opts_init(&opts);
    opts.rank = spmd_rank();
    opts.n_ranks = spmd_size();
    opts.n_threads = THREADS;
    opts.connections = CONNECTIONS;
    opts.exchange = exchange;
    opts.srq_depth = 64;
    opts.qp.send_depth = 64;
    return opts;
}

/* ---- one-sided ---- */

typedef struct {
    pgas_verbs_net_t *net;
    pgas_verbs_mem_t mine, all[RANKS_MAX]; /* a word for each (rank, thread) that writes */
    pgas_verbs_bufs_t *bufs[THREADS];
} world_t;

typedef struct {
    world_t *world;
    int thread, n_bad;
} worker_t;

static uint64_t word_of(int from, int thread, int to)
{
    return UINT64_C(0x1000000) + (uint64_t)(from * 10000 + thread * 100 + to);
}

static pgas_status_t post(pgas_verbs_tx_t *tx, const pgas_verbs_request_t *request,
                          uint64_t *number_p)
{
    pgas_status_t status;
    while ((status = pgas_verbs_tx_post(tx, request, number_p)) == PGAS_ERR_AGAIN) {
        pgas_verbs_tx_poll(tx);
        sched_yield();
    }
    return status;
}

static void *write_words(void *arg)
{
    worker_t *w = arg;
    for (int peer = 0; peer < spmd_size(); peer++) {
        pgas_verbs_tx_t *tx = pgas_verbs_net_tx(w->world->net, peer, w->thread);
        uint64_t word = word_of(spmd_rank(), w->thread, peer), number = 0;
        uint64_t at = (uint64_t)(spmd_rank() * THREADS + w->thread) * 8;
        pgas_verbs_span_t span = { (uintptr_t)&word, 8, 0 };
        pgas_verbs_request_t request = { .op = PGAS_VERBS_WRITE,
                                         .spans = &span,
                                         .n_spans = 1,
                                         .remote_addr = (uintptr_t)w->world->all[peer].addr + at,
                                         .rkey = w->world->all[peer].rkey };
        w->n_bad += post(tx, &request, &number) != PGAS_OK ||
                    pgas_verbs_tx_wait(tx, number, PATIENCE_NS) != PGAS_OK;
    }
    return NULL;
}

static int run_workers(world_t *world, void *(*fn)(void *),
                       void (*meanwhile)(world_t *world, int *n_bad))
{
    worker_t workers[THREADS];
    pthread_t threads[THREADS];
    int n_bad = 0;
    for (int t = 0; t < THREADS; t++) {
        workers[t] = (worker_t){ .world = world, .thread = t };
        pthread_create(&threads[t], NULL, fn, &workers[t]);
    }
    if (meanwhile)
        meanwhile(world, &n_bad);
    for (int t = 0; t < THREADS; t++) {
        pthread_join(threads[t], NULL);
        n_bad += workers[t].n_bad;
    }
    return n_bad;
}

static void write_to_all(world_t *world)
{
    size_t bytes = (size_t)spmd_size() * THREADS * 8;
    bool good = pgas_verbs_mem_alloc(dev, bytes, PGAS_VERBS_ACCESS_ALL, &world->mine) == PGAS_OK;
    good = good && pgas_verbs_net_share(world->net, &world->mine, world->all) == PGAS_OK;
    good = good && world->all[spmd_rank()].addr == world->mine.addr &&
           world->all[spmd_rank()].rkey == world->mine.rkey;
    spmd_ok(good, "memory is known to all ranks");
    int n_bad = run_workers(world, write_words, NULL);
    spmd_barrier();
    const uint64_t *words = world->mine.addr;
    for (int i = 0; i < spmd_size() * THREADS; i++)
        n_bad += words[i] != word_of(i / THREADS, i % THREADS, spmd_rank());
    spmd_is_int(n_bad, 0, "what all threads of all ranks write is there once they have waited");
}

/* ---- messages ---- */

typedef struct {
    uint32_t source, thread, sequence, bytes;
} head_t;

static uint32_t size_of(uint32_t thread, uint32_t sequence)
{
    return (uint32_t)sizeof(head_t) + (sequence * 7 + thread) % 50 +
           (sequence % 16 == 5 ? LARGE : 0);
}

static unsigned char byte_at(const head_t *head, uint32_t i)
{
    return (unsigned char)(head->source * 31 + head->thread * 17 + head->sequence + i);
}

static void make_message(void *to, const head_t *head)
{
    memcpy(to, head, sizeof *head);
    for (uint32_t i = sizeof *head; i < head->bytes; i++)
        ((unsigned char *)to)[i] = byte_at(head, i);
}

static bool is_message(const pgas_verbs_message_t *message, head_t *head_p)
{
    if (!message->data || message->bytes < sizeof *head_p)
        return false;
    memcpy(head_p, message->data, sizeof *head_p);
    bool good = head_p->bytes == message->bytes && (int)head_p->source == message->source &&
                head_p->thread < THREADS &&
                message->bytes == size_of(head_p->thread, head_p->sequence) && message->has_imm &&
                message->imm == head_p->sequence;
    for (uint32_t i = sizeof *head_p; good && i < message->bytes; i++)
        good = ((const unsigned char *)message->data)[i] == byte_at(head_p, i);
    return good;
}

static void *send_messages(void *arg)
{
    worker_t *w = arg;
    pgas_verbs_bufs_t *bufs = w->world->bufs[w->thread];
    for (uint32_t i = 0; i < MESSAGES * (uint32_t)spmd_size(); i++) {
        int peer = (int)(i % (uint32_t)spmd_size());
        pgas_verbs_tx_t *tx = pgas_verbs_net_tx(w->world->net, peer, w->thread);
        head_t head = { (uint32_t)spmd_rank(), (uint32_t)w->thread, i / (uint32_t)spmd_size(), 0 };
        pgas_verbs_span_t span;
        head.bytes = size_of(head.thread, head.sequence);
        while (pgas_verbs_bufs_take(bufs, &span) != PGAS_OK) {
            for (int p = 0; p < spmd_size(); p++) {
                pgas_verbs_tx_mark(pgas_verbs_net_tx(w->world->net, p, w->thread));
                pgas_verbs_tx_poll(pgas_verbs_net_tx(w->world->net, p, w->thread));
            }
            sched_yield();
        }
        make_message((void *)(uintptr_t)span.addr, &head);
        span.bytes = head.bytes;
        pgas_verbs_request_t request = {
            .op = PGAS_VERBS_SEND_IMM, .spans = &span, .n_spans = 1, .imm = head.sequence
        };
        uint64_t number = 0;
        w->n_bad += post(tx, &request, &number) != PGAS_OK;
        pgas_verbs_bufs_give(bufs, &span, tx, number);
    }
    for (int p = 0; p < spmd_size(); p++) {
        pgas_verbs_tx_t *tx = pgas_verbs_net_tx(w->world->net, p, w->thread);
        w->n_bad += pgas_verbs_tx_wait(tx, pgas_verbs_tx_posted(tx), PATIENCE_NS) != PGAS_OK;
    }
    return NULL;
}

static void receive_messages(world_t *world, int *n_bad)
{
    uint32_t next[RANKS_MAX][THREADS] = { { 0 } };
    for (int left = MESSAGES * THREADS * spmd_size(); left > 0; left--) {
        pgas_verbs_message_t message;
        pgas_status_t status;
        head_t head;
        while ((status = pgas_verbs_net_receive(world->net, &message)) == PGAS_ERR_AGAIN) {
            if (pgas_verbs_cq_wait(pgas_verbs_net_cq(world->net), PATIENCE_NS) != PGAS_OK) {
                (*n_bad)++;
                return;
            }
        }
        bool good = status == PGAS_OK && is_message(&message, &head);
        *n_bad += !good || head.sequence != next[head.source][head.thread]++;
        pgas_verbs_net_release(world->net, &message);
    }
}

static void send_to_all(world_t *world)
{
    int n_bad = 0;
    for (int t = 0; t < THREADS; t++)
        n_bad += pgas_verbs_bufs_open(dev, 4096, 8, &world->bufs[t]) != PGAS_OK;
    n_bad += run_workers(world, send_messages, receive_messages);
    spmd_is_int(n_bad, 0,
                "messages of all threads arrive whole, in order, from whom they are, with more "
                "under way than buffers");
}

static void notify(world_t *world)
{
    int peer = (spmd_rank() + 1) % spmd_size(), n_bad = 0;
    pgas_verbs_tx_t *tx = pgas_verbs_net_tx(world->net, peer, 0);
    uint64_t word = 4711, number = 0;
    pgas_verbs_span_t span = { (uintptr_t)&word, 8, 0 };
    pgas_verbs_request_t request = { .op = PGAS_VERBS_WRITE_IMM,
                                     .spans = &span,
                                     .n_spans = 1,
                                     .imm = 99,
                                     .remote_addr = (uintptr_t)world->all[peer].addr,
                                     .rkey = world->all[peer].rkey };
    n_bad += post(tx, &request, &number) != PGAS_OK;
    pgas_verbs_tx_ring(tx);
    pgas_verbs_message_t message;
    pgas_status_t status;
    while ((status = pgas_verbs_net_receive(world->net, &message)) == PGAS_ERR_AGAIN)
        sched_yield();
    n_bad += status != PGAS_OK || message.data || !message.has_imm || message.imm != 99 ||
             message.bytes != 8;
    n_bad += message.source != (spmd_rank() + spmd_size() - 1) % spmd_size() ||
             *(const uint64_t *)world->mine.addr != 4711;
    pgas_verbs_net_release(world->net, &message);
    spmd_is_int(n_bad, 0, "a write with immediate data tells its receiver, without data");
}

static void share_transmitters(world_t *world)
{
    pgas_verbs_tx_t *first = pgas_verbs_net_tx(world->net, 0, 0),
                    *second = pgas_verbs_net_tx(world->net, 0, 1);
    spmd_ok(first && second && first != second && pgas_verbs_net_tx(world->net, 0, 2) == first,
            "threads have transmitters of their own up to the cap, and share them beyond");
    spmd_ok(!pgas_verbs_net_tx(world->net, -1, 0) &&
                !pgas_verbs_net_tx(world->net, spmd_size(), 0) &&
                !pgas_verbs_net_tx(world->net, 0, THREADS),
            "ranks and threads that do not exist have none");
}

static void leave(world_t *world)
{
    uint64_t word = 1;
    pgas_verbs_span_t span = { (uintptr_t)&word, 8, 0 };
    pgas_verbs_request_t request = { .op = PGAS_VERBS_SEND, .spans = &span, .n_spans = 1 };
    bool good = true;
    for (int i = 0; i < 100; i++) /* more than there are buffers, and nobody receives */
        good = good && post(pgas_verbs_net_tx(world->net, (spmd_rank() + 1) % spmd_size(), 1),
                            &request, NULL) == PGAS_OK;
    spmd_barrier();
    pgas_verbs_net_close(world->net);
    for (int t = 0; t < THREADS; t++)
        pgas_verbs_bufs_close(world->bufs[t]);
    pgas_verbs_mem_release(dev, &world->mine);
    spmd_ok(good, "a net closes while messages are under way that nobody receives");
}

/* ---- maps and errors ---- */

/* Even peers by one connection, odd ones by another; the same at both ends. */
static int by_sum(void *arg, int peer, int thread)
{
    (void)arg, (void)thread;
    return (peer + spmd_rank()) % 2;
}

static int out_of_range(void *arg, int peer, int thread)
{
    (void)arg, (void)peer, (void)thread;
    return spmd_rank() == spmd_size() - 1 ? CONNECTIONS : 0;
}

static void use_maps(void)
{
    pgas_verbs_net_opts_t opts = make_opts();
    pgas_verbs_net_t *net;
    opts.map = by_sum;
    opts.srq_depth = 0;
    bool good = pgas_verbs_net_open(dev, &opts, &net) == PGAS_OK;
    for (int peer = 0; good && peer < spmd_size(); peer++)
        good = pgas_verbs_net_tx(net, peer, 0) == pgas_verbs_net_tx(net, peer, 2);
    spmd_ok(good,
            "a map of the program's chooses connections, and a net may be without receive buffers");
    if (good)
        pgas_verbs_net_close(net);
    opts.map = out_of_range;
    spmd_ok(pgas_verbs_net_open(dev, &opts, &net) == PGAS_ERR_RANGE,
            "a map that is wrong on one rank is refused on all");
}

static void refuse(void)
{
    pgas_verbs_net_opts_t opts = make_opts();
    pgas_verbs_net_t *net;
    opts.n_threads = spmd_rank() == 0 ? 1 : THREADS;
    pgas_status_t want = spmd_size() > 1 ? PGAS_ERR_MISMATCH : PGAS_OK,
                  status = pgas_verbs_net_open(dev, &opts, &net);
    spmd_ok(status == want, "ranks that disagree are all refused");
    if (status == PGAS_OK)
        pgas_verbs_net_close(net);
    opts = make_opts();
    opts.qp.send_spans = spmd_rank() == 0 ? 1000 : 5;
    spmd_ok(pgas_verbs_net_open(dev, &opts, &net) == PGAS_ERR_LIMIT,
            "queues that one rank cannot open are refused on all");
    opts = make_opts();
    int n_bad = 0;
    for (int i = 0; i < 4; i++) {
        failing_exchanges = i;
        n_bad += pgas_verbs_net_open(dev, &opts, &net) != PGAS_ERR_IO;
    }
    failing_exchanges = -1;
    spmd_is_int(n_bad, 0, "an exchange that fails, at whatever time, is told");
    opts.exchange = NULL;
    spmd_ok(pgas_verbs_net_open(dev, &opts, &net) == PGAS_ERR_INVALID,
            "without an exchange there is no net");
}

int main(int argc, char **argv)
{
    static world_t world;
    spmd_begin(&argc, &argv, MPI_THREAD_SERIALIZED);
    spmd_plan(15);
    failing_exchanges = -1;
    pgas_verbs_dev_opts_t dev_opts = PGAS_VERBS_DEV_OPTS_INIT;
    dev_opts.device = "snic";
    pgas_verbs_net_opts_t opts = make_opts();
    bool good = pgas_verbs_open(&dev_opts, &dev) == PGAS_OK &&
                pgas_verbs_net_open(dev, &opts, &world.net) == PGAS_OK;
    if (!spmd_ok(good, "a net opens"))
        MPI_Abort(MPI_COMM_WORLD, 99);
    share_transmitters(&world);
    write_to_all(&world);
    send_to_all(&world);
    notify(&world);
    leave(&world);
    use_maps();
    refuse();
    spmd_ok(pgas_verbs_close(dev) == PGAS_OK, "nothing is left open");
    return spmd_end();
}
