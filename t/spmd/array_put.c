/* Elements that travel one-sided.
 *   what:   Between nodes, where calls are puts into channels, elements are puts, too: into the
 *           cache line of a rank that fetches a chunk, and into the home's chunk when a rank writes
 *           them back. The messages behind them carry no elements. Where calls are messages, or
 *           the transport has no room, messages carry the elements. Where ranks map each other's
 *           heaps no message carries elements, and the home merges contributions in the cache's
 *           line. In each case a rank reads what the last one wrote, while lines are used again
 *           and again for other chunks.
 *   np:     2 3
 *   nodes:  1
 *   tls:    tcp,self tcp,self tcp,self tcp,self tcp,self posix
 *   env:    PGAS_FAR_CALLS=put |
 *   env:    PGAS_FAR_CALLS=put PGAS_TRANSPORT=verbs PGAS_VERBS_DEVICE=snic |
 *   env:    PGAS_FAR_CALLS=put PGAS_FAULT=delay=5,reorder=5,again=2 |
 *   env:    PGAS_FAR_CALLS=put PGAS_TRANSPORT=verbs PGAS_VERBS_DEVICE=snic
 *   env:    PGAS_FAULT=delay=9,reorder=9,again=3 PGAS_SERVICE_THREADS=0 |
 *   env:    PGAS_FAR_CALLS=message |
 *   env:    PGAS_FAR_CALLS=auto
 *   source: src/array/put.h, src/msg/far_channel.h
 */
#include "base/param.h"
#include "mem/ctx.h"
#include "t/spmd/array_crew.h"

#define CHUNK    256
#define LINES    4
#define N_CHUNKS 64 /* of each rank */
#define N_ELEMS  ((uint64_t)N_CHUNKS * CHUNK)
#define BYTES    (CHUNK * sizeof(uint64_t)) /* of a chunk */
#define N_LAPS   6

/* Whether this rank maps the heap of the next one. It is known after the first request. */
static bool is_mapped(void)
{
    return pgasi_ctxs[PGASI_CTX_SERVICE]->peer[(me + 1) % n_ranks].heap_bytes != 0;
}

static bool by_puts(void)
{
    return pgasi_param.far_calls == PGASI_FAR_CALLS_PUT && !is_mapped();
}

static bool has_faults(void)
{
    return *pgasi_param.fault != 0;
}

static pgas_array_t *make(void)
{
    pgas_array_opts_t opts = PGAS_ARRAY_OPTS_INIT;
    pgas_array_t *array = NULL;
    opts.chunk_elems = CHUNK;
    opts.cache_bytes = LINES * BYTES;
    opts.prefetch = -1;
    BAD(pgas_array_create(NULL, 8, N_ELEMS * (uint64_t)n_ranks, &opts, &array));
    return array;
}

/* The first element of the rank that is `ahead` ranks ahead. */
static uint64_t first_of(int ahead)
{
    return N_ELEMS * (uint64_t)((me + ahead) % n_ranks);
}

static uint64_t value_of(uint64_t i, uint64_t lap)
{
    return i * UINT64_C(0x9e3779b97f4a7c15) + lap * 77;
}

static void write_all(pgas_array_t *array, uint64_t from, uint64_t lap)
{
    pgas_array_walk_t w;
    pgas_array_walk_begin(array, from, N_ELEMS, PGAS_ARRAY_WRITE, 0, &w);
    while (pgas_array_walk_next(&w))
        for (uint64_t k = 0; k < w.n; k++)
            ((uint64_t *)w.data)[k] = value_of(w.first + k, lap);
    BAD(pgas_array_walk_end(&w));
}

static void read_all(pgas_array_t *array, uint64_t from, uint64_t lap)
{
    pgas_array_walk_t w;
    uint64_t n_wrong = 0;
    pgas_array_walk_begin(array, from, N_ELEMS, PGAS_ARRAY_READ, 0, &w);
    while (pgas_array_walk_next(&w))
        for (uint64_t k = 0; k < w.n; k++)
            n_wrong += ((const uint64_t *)w.data)[k] != value_of(w.first + k, lap);
    BAD(pgas_array_walk_end(&w));
    crew_judge(n_wrong == 0, "elements that were written");
}

/* Each rank sends so many messages to each other one that it gets a channel. */
static void make_channels(pgas_array_t *array)
{
    for (int ahead = 1; ahead < n_ranks; ahead++) {
        write_all(array, first_of(ahead), 0);
        BAD(pgas_barrier(NULL));
        read_all(array, first_of(0), 0);
        BAD(pgas_barrier(NULL));
    }
}

/* This rank fetches the next rank's chunks, and the previous rank fetches this rank's. */
static void fetched_by_puts(void)
{
    pgas_array_t *array = make();
    make_channels(array);
    pgas_array_info_t before = crew_info(array), after;
    BAD(pgas_barrier(NULL));
    read_all(array, first_of(1), 0);
    BAD(pgas_barrier(NULL));
    after = crew_info(array);
    uint64_t n_put = after.put_bytes - before.put_bytes;
    if (by_puts() && !has_faults())
        crew_judge(n_put == N_CHUNKS * BYTES, "each chunk was put");
    else if (by_puts())
        crew_judge(n_put > 0, "chunks were put");
    else
        crew_judge(n_put == 0, "no chunk was put");
    if (n_put == N_CHUNKS * BYTES || is_mapped())
        crew_judge(after.data_bytes == before.data_bytes, "messages carried no elements");
    else
        crew_judge(after.data_bytes - before.data_bytes >= N_CHUNKS * BYTES - n_put,
                   "messages carried all other chunks");
    BAD(pgas_barrier(NULL));
    BAD(pgas_array_destroy(array));
    spmd_is_int(crew_faults(), 0, "chunks that are fetched are put into the line where calls are");
}

static void written_back_by_puts(void)
{
    pgas_array_t *array = make();
    make_channels(array);
    read_all(array, first_of(0), 0); /* no other rank has a chunk of this one */
    BAD(pgas_barrier(NULL));
    write_all(array, first_of(1), 1);
    BAD(pgas_barrier(NULL));
    pgas_array_info_t before = crew_info(array), after;
    BAD(pgas_barrier(NULL));
    read_all(array, first_of(0), 1); /* the last lines return */
    BAD(pgas_barrier(NULL));
    after = crew_info(array);
    if (by_puts() && !has_faults())
        crew_judge(after.put_bytes - before.put_bytes > 0 && after.data_bytes == before.data_bytes,
                   "elements that are written back are put");
    if (!by_puts() && !is_mapped())
        crew_judge(after.put_bytes == 0 && after.data_bytes > before.data_bytes,
                   "elements that are written back are in messages");
    BAD(pgas_barrier(NULL));
    BAD(pgas_array_destroy(array));
    spmd_is_int(crew_faults(), 0, "elements that are written back are put into the home's chunk");
}

/* Each rank adds to all elements of the next one, and the home reads the sums. */
static void contributions(void)
{
    enum { N_ADDS = 3 };
    pgas_array_t *array = make();
    pgas_array_walk_t w;
    uint64_t n_wrong = 0;
    make_channels(array);
    pgas_array_info_t before = crew_info(array);
    for (int k = 0; k < N_ADDS; k++) {
        pgas_array_walk_begin(array, first_of(1), N_ELEMS, PGAS_ARRAY_OPERATE,
                              PGAS_OP(PGAS_ADD, PGAS_U64), &w);
        while (pgas_array_walk_next(&w))
            for (uint64_t i = 0; i < w.n; i++)
                ((uint64_t *)w.data)[i] += w.first + i;
        BAD(pgas_array_walk_end(&w));
    }
    BAD(pgas_barrier(NULL));
    pgas_array_walk_begin(array, first_of(0), N_ELEMS, PGAS_ARRAY_READ, 0, &w);
    while (pgas_array_walk_next(&w))
        for (uint64_t i = 0; i < w.n; i++)
            n_wrong +=
                ((const uint64_t *)w.data)[i] != value_of(w.first + i, 0) + N_ADDS * (w.first + i);
    BAD(pgas_array_walk_end(&w));
    crew_judge(n_wrong == 0, "sums");
    BAD(pgas_barrier(NULL));
    uint64_t n_bytes = crew_info(array).data_bytes - before.data_bytes;
    /* lists of chunks count as data, too: 16 bytes a chunk */
    crew_judge(is_mapped() ? n_bytes < N_CHUNKS * BYTES / 8 : n_bytes >= N_ADDS * N_CHUNKS * BYTES,
               "contributions in messages");
    BAD(pgas_barrier(NULL));
    BAD(pgas_array_destroy(array));
    spmd_is_int(crew_faults(), 0, "the home merges contributions in the line where it maps them");
}

/* Three threads of each rank write one part after the other, and read what others wrote. */
static void one_lap(int number, void *arg)
{
    pgas_array_t *array = arg;
    for (uint64_t lap = 1; lap <= N_LAPS; lap++) {
        uint64_t part = N_ELEMS / 3, from = first_of((int)lap) + (uint64_t)number * part;
        for (uint64_t i = from; i < from + part; i += 1 + i % 3)
            BAD(pgas_array_set_u64(array, i, value_of(i, lap)));
        crew_meet(number);
        from = first_of((int)lap + 1) + (uint64_t)((number + 1) % 3) * part;
        for (uint64_t i = from, value = 0; i < from + part; i += 1 + i % 3) {
            BAD(pgas_array_get_u64(array, i, &value));
            crew_judge(value == value_of(i, lap), "what another thread wrote");
        }
        crew_meet(number);
    }
}

static void contents(void)
{
    pgas_array_t *array = make();
    crew_run(3, one_lap, array);
    BAD(pgas_array_destroy(array));
    spmd_is_int(crew_faults(), 0, "what is read is what was written, %d times over few lines",
                N_LAPS);
}

int main(int argc, char **argv)
{
    job_begin(&argc, &argv, 4);
    fetched_by_puts();
    written_back_by_puts();
    contributions();
    contents();
    return job_end();
}
