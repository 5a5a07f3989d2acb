/* Replication that the CPUs of the replicas carry out, by MPI send and receive along the chain.
 *
 * The client sends each piece to the first replica, with a copy of its bytes. A replica receives
 * pieces in order, executes each one and sends it on; the last one sends the old words to the
 * client. Receives are posted ahead for a whole window, so that no message is unexpected, and a
 * buffer is used again when it has been sent on. All messages are sent without waiting. */
#include "benchmarks/group_work.h"
#include "benchmarks/ref.h"

#include <mpi.h>
#include <stdlib.h>
#include <string.h>

#define TAG_PIECE 21
#define TAG_ACK   22

typedef struct {
    uint64_t kind, offset, source, bytes;
    uint64_t expected, desired, execute_map, n_words;
} head_t;

static MPI_Comm comm = MPI_COMM_NULL;
static char *region, *scratch, *buffers, *acks, *data;
static size_t stride;         /* of buffers */
static MPI_Request *in, *out; /* of a slot: the receive and the send */
static uint32_t n_slots;
static int n_replicas;

static char *buffer_of(uint64_t k)
{
    return buffers + k % n_slots * stride;
}

static uint64_t *words_of(char *buffer)
{
    return (uint64_t *)(void *)(buffer + sizeof(head_t));
}

static char *data_of(char *buffer)
{
    return buffer + sizeof(head_t) + (size_t)n_replicas * sizeof(uint64_t);
}

static size_t ack_bytes(void)
{
    return (size_t)n_replicas * sizeof(uint64_t);
}

static MPI_Request *requests(void)
{
    MPI_Request *all = malloc(n_slots * sizeof *all);
    if (!all)
        bench_die("out of memory");
    for (uint32_t i = 0; i < n_slots; i++)
        all[i] = MPI_REQUEST_NULL;
    return all;
}

static bool open_mpi(const group_run_t *run)
{
    size_t carried =
        run->kind == PGAS_GROUP_WRITE ? (run->bytes < run->piece ? run->bytes : run->piece) : 0;
    if (comm == MPI_COMM_NULL)
        MPI_Comm_dup(MPI_COMM_WORLD, &comm);
    n_replicas = run->n_ranks - 1;
    n_slots = run->window;
    stride = (sizeof(head_t) + ack_bytes() + carried + 63) / 64 * 64;
    region = bench_buffer(GROUP_REGION_BYTES);
    scratch = bench_buffer(run->piece);
    data = bench_buffer(run->bytes);
    buffers = bench_buffer(n_slots * stride);
    acks = bench_buffer(n_slots * ack_bytes());
    in = requests();
    out = requests();
    return true;
}

static void close_mpi(void)
{
    free(region);
    free(scratch);
    free(data);
    free(buffers);
    free(acks);
    free(in);
    free(out);
    MPI_Comm_free(&comm);
}

/* ---- a replica ---- */

static void execute(char *buffer, int replica)
{
    head_t head;
    memcpy(&head, buffer, sizeof head);
    switch ((pgas_group_kind_t)head.kind) {
    case PGAS_GROUP_WRITE:
        memcpy(region + head.offset, data_of(buffer), head.bytes);
        break;
    case PGAS_GROUP_MEMCPY:
        memcpy(region + head.offset, region + head.source, head.bytes);
        break;
    case PGAS_GROUP_FLUSH:
        memcpy(scratch, region + head.offset, head.bytes);
        bench_use(scratch);
        break;
    default: {
        uint64_t *word = (uint64_t *)(void *)(region + head.offset), old = head.expected;
        if ((head.execute_map >> replica & 1) == 0)
            old = __atomic_load_n(word, __ATOMIC_SEQ_CST);
        else
            __atomic_compare_exchange_n(word, &old, head.desired, false, __ATOMIC_SEQ_CST,
                                        __ATOMIC_SEQ_CST);
        words_of(buffer)[replica] = old;
    }
    }
}

static void post_receive(int rank, uint64_t k)
{
    MPI_Irecv(buffer_of(k), (int)stride, MPI_BYTE, rank - 1, TAG_PIECE, comm, &in[k % n_slots]);
}

static void serve(int rank, uint64_t n)
{
    uint64_t lag = (n_slots + 1) / 2; /* a send has this many pieces of time before it is awaited */
    bool last = rank == n_replicas;
    for (uint64_t k = 0; k < n && k < n_slots; k++)
        post_receive(rank, k);
    MPI_Barrier(comm);
    for (uint64_t k = 0; k < n; k++) {
        MPI_Status status;
        int bytes;
        MPI_Wait(&in[k % n_slots], &status);
        MPI_Get_count(&status, MPI_BYTE, &bytes);
        execute(buffer_of(k), rank - 1);
        if (last)
            MPI_Isend(words_of(buffer_of(k)), (int)ack_bytes(), MPI_BYTE, 0, TAG_ACK, comm,
                      &out[k % n_slots]);
        else
            MPI_Isend(buffer_of(k), bytes, MPI_BYTE, rank + 1, TAG_PIECE, comm, &out[k % n_slots]);
        if (k + 1 >= lag && k + 1 - lag + n_slots < n) {
            uint64_t again = k + 1 - lag;
            MPI_Wait(&out[again % n_slots], MPI_STATUS_IGNORE);
            post_receive(rank, again + n_slots);
        }
    }
    MPI_Waitall((int)n_slots, out, MPI_STATUSES_IGNORE);
}

/* ---- the client ---- */

typedef struct {
    uint64_t n_sent, n_acked, n_all, each; /* pieces; of one operation */
    uint64_t *begin;                       /* [n_slots] of the operation of a piece */
} client_t;

static void send_piece(const group_run_t *run, client_t *c)
{
    uint64_t k = c->n_sent, i = k / c->each, done = k % c->each * run->piece;
    char *buffer = buffer_of(k);
    uint64_t left = run->bytes - done;
    head_t head = { .kind = run->kind,
                    .offset = group_offset(run, i) + done,
                    .source = group_offset(run, i) - GROUP_REGION_BYTES / 2 + done,
                    .bytes = left < run->piece ? left : run->piece,
                    .expected = i,
                    .desired = i + 1,
                    .execute_map = ~UINT64_C(0),
                    .n_words = (uint64_t)n_replicas };
    size_t carried = run->kind == PGAS_GROUP_WRITE ? head.bytes : 0;
    c->begin[k % n_slots] = done == 0 ? bench_now() : c->begin[(k - 1) % n_slots];
    MPI_Wait(&out[k % n_slots], MPI_STATUS_IGNORE);
    memcpy(buffer, &head, sizeof head);
    memset(words_of(buffer), 0, ack_bytes());
    memcpy(data_of(buffer), data + done, carried);
    MPI_Irecv(acks + k % n_slots * ack_bytes(), (int)ack_bytes(), MPI_BYTE, n_replicas, TAG_ACK,
              comm, &in[k % n_slots]);
    MPI_Isend(buffer, (int)(sizeof head + ack_bytes() + carried), MPI_BYTE, 1, TAG_PIECE, comm,
              &out[k % n_slots]);
    c->n_sent++;
}

static void acknowledged(const group_run_t *run, client_t *c)
{
    uint64_t k = c->n_acked++, i = k / c->each;
    if (run->ns && k % c->each == c->each - 1)
        run->ns[i] = bench_since(c->begin[k % n_slots]);
}

/* Takes all acknowledgements that are here; waits for one if there is none. */
static void take_acks(const group_run_t *run, client_t *c)
{
    int there = 1;
    MPI_Wait(&in[c->n_acked % n_slots], MPI_STATUS_IGNORE);
    do {
        acknowledged(run, c);
        if (c->n_acked < c->n_sent)
            MPI_Test(&in[c->n_acked % n_slots], &there, MPI_STATUS_IGNORE);
    } while (there && c->n_acked < c->n_sent);
}

static double issue(const group_run_t *run)
{
    client_t c = { .each = group_pieces(run), .begin = calloc(n_slots, sizeof(uint64_t)) };
    if (!c.begin)
        bench_die("out of memory");
    c.n_all = run->n * c.each;
    MPI_Barrier(comm);
    uint64_t begin = bench_now();
    while (c.n_acked < c.n_all) {
        while (c.n_sent < c.n_all && c.n_sent - c.n_acked < n_slots)
            send_piece(run, &c);
        take_acks(run, &c);
    }
    double ns = bench_since(begin);
    MPI_Waitall((int)n_slots, out, MPI_STATUSES_IGNORE);
    free(c.begin);
    return ns;
}

static void loop_mpi(const group_run_t *run, group_result_t *result_p)
{
    double cpu_ns = group_cpu_ns(), all_ns = 0;
    *result_p = (group_result_t){ 0 };
    if (run->rank == 0)
        result_p->ns = issue(run);
    else
        serve(run->rank, run->n * group_pieces(run));
    cpu_ns = run->rank > 0 ? group_cpu_ns() - cpu_ns : 0;
    MPI_Reduce(&cpu_ns, &all_ns, 1, MPI_DOUBLE, MPI_SUM, 0, comm);
    result_p->cpu_ns = all_ns;
}

const group_way_t ref_group = { .name = "mpi",
                                .doc = "replicas that receive, execute and send on by MPI",
                                .open = open_mpi,
                                .loop = loop_mpi,
                                .close = close_mpi };
