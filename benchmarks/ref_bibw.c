/* Large messages over MPI in both directions at once, in several threads: the loop of osu_bibw, and
 * parcels as HPX sends them. Each thread has its own communicator, so no thread searches the
 * messages of another thread. */
#include "benchmarks/ref.h"

#include <mpi.h>
#include <stdlib.h>
#include <string.h>

#define HEADER_BYTES 8192 /* of a parcel; data that fit travel in it */
#define HEADERS      8    /* receives posted at the same time */
#define TAG_HEADER   (2 * BENCH_WINDOW_OPS)

typedef struct {
    uint64_t bytes;
    int32_t tag; /* of the data */
} header_t;

typedef struct {
    char bytes[HEADER_BYTES];
} header_room_t;

/* The data of a thread. They are on no cache line of another thread. */
typedef struct {
    _Alignas(128) MPI_Comm comm;
    char *from, *to;
    size_t room;
    header_room_t *sent, *received;
} lane_t;
static lane_t lane[BENCH_TEAM_MAX];
static int n_lanes;

/* Collective, by the threads of main. */
static void need_lanes(int n, size_t bytes)
{
    for (; n_lanes < n; n_lanes++) {
        lane_t *l = &lane[n_lanes];
        MPI_Comm_dup(MPI_COMM_WORLD, &l->comm);
        l->sent = bench_buffer(BENCH_WINDOW_OPS * sizeof *l->sent);
        l->received = bench_buffer(HEADERS * sizeof *l->received);
    }
    for (int i = 0; i < n; i++) {
        lane_t *l = &lane[i];
        if (l->room >= bytes)
            continue;
        free(l->from);
        free(l->to);
        l->from = bench_buffer(bytes);
        l->to = bench_buffer(bytes);
        l->room = bytes;
    }
}

void ref_bibw_close(void)
{
    for (; n_lanes > 0; n_lanes--) {
        lane_t *l = &lane[n_lanes - 1];
        MPI_Comm_free(&l->comm);
        free(l->from);
        free(l->to);
        free(l->sent);
        free(l->received);
        memset(l, 0, sizeof *l);
    }
}

static double in_threads(const bench_run_t *run, bench_loop_fn_t loop)
{
    int n = run->arg > 1 ? run->arg : 1;
    need_lanes(n, run->bytes);
    return n > 1 ? bench_team(run, n, loop) : loop(run);
}

static int next_window(uint64_t left)
{
    return left < BENCH_WINDOW_OPS ? (int)left : BENCH_WINDOW_OPS;
}

/* ---- osu_bibw ---- */

static double messages(const bench_run_t *run)
{
    MPI_Request request[2 * BENCH_WINDOW_OPS];
    const lane_t *l = &lane[run->thread];
    uint64_t begin = bench_now();
    int bytes = (int)run->bytes;
    for (uint64_t left = run->iters; left > 0;) {
        int n = next_window(left);
        for (int i = 0; i < n; i++)
            MPI_Irecv(l->to, bytes, MPI_BYTE, run->peer, 0, l->comm, &request[i]);
        for (int i = 0; i < n; i++)
            MPI_Isend(l->from, bytes, MPI_BYTE, run->peer, 0, l->comm, &request[n + i]);
        MPI_Waitall(2 * n, request, MPI_STATUSES_IGNORE);
        left -= (uint64_t)n;
    }
    return bench_since(begin);
}

double ref_mpi_bibw(const bench_run_t *run)
{
    return in_threads(run, messages);
}

/* ---- parcels ---- */

/* The receives of a window of parcels: of headers in [0, HEADERS), of data behind them. */
typedef struct {
    const bench_run_t *run;
    const lane_t *lane;
    MPI_Request request[HEADERS + BENCH_WINDOW_OPS];
    char *data[BENCH_WINDOW_OPS];
    int n, n_posted, n_done; /* parcels; posted: receives of headers */
} inbox_t;

static bool fits_header(size_t bytes)
{
    return bytes <= HEADER_BYTES - sizeof(header_t);
}

static void post_header(inbox_t *in, int slot)
{
    if (in->n_posted == in->n)
        return;
    in->n_posted++;
    MPI_Irecv(&in->lane->received[slot], HEADER_BYTES, MPI_BYTE, in->run->peer, TAG_HEADER,
              in->lane->comm, &in->request[slot]);
}

static void header_arrived(inbox_t *in, int slot)
{
    const char *room = in->lane->received[slot].bytes;
    header_t h;
    memcpy(&h, room, sizeof h);
    char *data = malloc(h.bytes);
    if (!data)
        bench_die("out of memory");
    if (fits_header(h.bytes)) {
        memcpy(data, room + sizeof h, h.bytes);
        bench_use(data);
        free(data);
        in->n_done++;
    } else {
        in->data[h.tag] = data;
        MPI_Irecv(data, (int)h.bytes, MPI_BYTE, in->run->peer, h.tag, in->lane->comm,
                  &in->request[HEADERS + h.tag]);
    }
    post_header(in, slot);
}

static void data_arrived(inbox_t *in, int tag)
{
    bench_use(in->data[tag]);
    free(in->data[tag]);
    in->n_done++;
}

static void receive_parcels(const bench_run_t *run, int n)
{
    inbox_t in = { .run = run, .lane = &lane[run->thread], .n = n };
    int at[HEADERS + BENCH_WINDOW_OPS], n_ended;
    for (int i = 0; i < HEADERS + BENCH_WINDOW_OPS; i++)
        in.request[i] = MPI_REQUEST_NULL;
    for (int slot = 0; slot < HEADERS; slot++)
        post_header(&in, slot);
    while (in.n_done < n) {
        MPI_Waitsome(HEADERS + BENCH_WINDOW_OPS, in.request, &n_ended, at, MPI_STATUSES_IGNORE);
        for (int i = 0; i < n_ended; i++)
            if (at[i] < HEADERS)
                header_arrived(&in, at[i]);
            else
                data_arrived(&in, at[i] - HEADERS);
    }
}

static void send_parcel(const bench_run_t *run, int tag, MPI_Request request[2])
{
    const lane_t *l = &lane[run->thread];
    header_t h = { run->bytes, tag };
    char *room = l->sent[tag].bytes;
    bool inside = fits_header(run->bytes);
    memcpy(room, &h, sizeof h);
    if (inside)
        memcpy(room + sizeof h, l->from, run->bytes);
    MPI_Isend(room, (int)(sizeof h + (inside ? run->bytes : 0)), MPI_BYTE, run->peer, TAG_HEADER,
              l->comm, &request[0]);
    request[1] = MPI_REQUEST_NULL;
    if (!inside)
        MPI_Isend(l->from, (int)run->bytes, MPI_BYTE, run->peer, tag, l->comm, &request[1]);
}

static double parcels(const bench_run_t *run)
{
    MPI_Request request[2 * BENCH_WINDOW_OPS];
    uint64_t begin = bench_now();
    for (uint64_t left = run->iters; left > 0;) {
        int n = next_window(left);
        for (int i = 0; i < n; i++)
            send_parcel(run, i, &request[2 * i]);
        receive_parcels(run, n);
        MPI_Waitall(2 * n, request, MPI_STATUSES_IGNORE);
        left -= (uint64_t)n;
    }
    return bench_since(begin);
}

double ref_mpi_parcels(const bench_run_t *run)
{
    return in_threads(run, parcels);
}
