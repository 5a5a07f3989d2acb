/* Random places of all ranks' tables as programs for MPI reach them: a batch of items is put into
 * one bucket for each rank, MPI_Alltoall exchanges the lengths, one MPI_Alltoallv exchanges the
 * buckets, and the owners apply what came. Reads need a second MPI_Alltoallv, for the values.
 *
 * Buckets have room for a whole batch, so items need not be counted before. Indices have 4 bytes. A
 * rank takes its own items from their bucket, so MPI copies only what others need. With two ranks
 * on a node, batches of 20,000 to 200,000 items have the same rates. */
#include "benchmarks/ref.h"

#include <mpi.h>
#include <stdlib.h>
#include <string.h>

#define BATCH 100000

/* of puts */
typedef struct __attribute__((packed)) {
    uint32_t index;
    uint64_t value;
} put_t;

static int n_ranks, me;
/* buckets and lengths, by rank; item i of the bucket for rank r is at [r * BATCH + i] */
static int *n_out, *n_in, *first;
static put_t *puts_out, *puts_in;
static uint32_t *out, *in, *origin;
static uint64_t *values_out, *values_in;

static void *buckets(size_t elem_bytes)
{
    return bench_table((size_t)n_ranks * BATCH * elem_bytes);
}

static void need_buffers(void)
{
    if (out)
        return;
    MPI_Comm_size(MPI_COMM_WORLD, &n_ranks);
    MPI_Comm_rank(MPI_COMM_WORLD, &me);
    n_out = bench_table((size_t)n_ranks * sizeof(int));
    n_in = bench_table((size_t)n_ranks * sizeof(int));
    first = bench_table((size_t)n_ranks * sizeof(int));
    for (int r = 0; r < n_ranks; r++)
        first[r] = r * BATCH;
    out = buckets(sizeof *out);
    in = buckets(sizeof *in);
    origin = buckets(sizeof *origin);
    values_out = buckets(sizeof *values_out);
    values_in = buckets(sizeof *values_in);
    puts_out = buckets(sizeof *puts_out);
    puts_in = buckets(sizeof *puts_in);
}

void ref_alltoallv_close(void)
{
    void *const all[] = { n_out,  n_in,       first,     out,      in,
                          origin, values_out, values_in, puts_out, puts_in };
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        free(all[i]);
    out = NULL;
}

static inline uint32_t *bucket(uint32_t *of, int rank)
{
    return of + (size_t)rank * BATCH;
}

/* Exchanges the lengths of the buckets. Afterwards this rank's own bucket counts as empty.
 * @return its length */
static int exchange_lengths(void)
{
    int own = n_out[me];
    MPI_Alltoall(n_out, 1, MPI_INT, n_in, 1, MPI_INT, MPI_COMM_WORLD);
    n_out[me] = n_in[me] = 0;
    return own;
}

static inline void sort_indices(const uint64_t *place, int n)
{
    memset(n_out, 0, (size_t)n_ranks * sizeof *n_out);
    for (int i = 0; i < n; i++) {
        int rank = bench_place_rank(place[i]);
        bucket(out, rank)[n_out[rank]++] = (uint32_t)(bench_place_index(place[i]));
    }
}

/* ---- updates ---- */

static inline void add_one(uint64_t *table, const uint32_t *index, int n)
{
    for (int i = 0; i < n; i++)
        table[index[i]]++;
}

static void add_batch(uint64_t *table, const uint64_t *place, int n)
{
    sort_indices(place, n);
    int own = exchange_lengths();
    MPI_Alltoallv(out, n_out, first, MPI_UINT32_T, in, n_in, first, MPI_UINT32_T, MPI_COMM_WORLD);
    add_one(table, bucket(out, me), own);
    for (int r = 0; r < n_ranks; r++)
        add_one(table, bucket(in, r), n_in[r]);
}

/* ---- reads ---- */

static inline void sort_reads(const uint64_t *place, int n)
{
    memset(n_out, 0, (size_t)n_ranks * sizeof *n_out);
    for (int i = 0; i < n; i++) {
        int rank = bench_place_rank(place[i]), at = n_out[rank]++;
        bucket(out, rank)[at] = (uint32_t)(bench_place_index(place[i]));
        bucket(origin, rank)[at] = (uint32_t)i;
    }
}

static void get_batch(uint64_t *dst, const uint64_t *table, const uint64_t *place, int n)
{
    sort_reads(place, n);
    int own = exchange_lengths();
    MPI_Alltoallv(out, n_out, first, MPI_UINT32_T, in, n_in, first, MPI_UINT32_T, MPI_COMM_WORLD);
    for (int r = 0; r < n_ranks; r++)
        for (int i = first[r]; i < first[r] + n_in[r]; i++)
            values_out[i] = table[in[i]];
    MPI_Alltoallv(values_out, n_in, first, MPI_UINT64_T, values_in, n_out, first, MPI_UINT64_T,
                  MPI_COMM_WORLD);
    for (int i = first[me]; i < first[me] + own; i++)
        dst[origin[i]] = table[out[i]];
    for (int r = 0; r < n_ranks; r++)
        for (int i = first[r]; i < first[r] + n_out[r]; i++)
            dst[origin[i]] = values_in[i];
}

/* ---- writes ---- */

static inline void sort_puts(const uint64_t *src, const uint64_t *place, int n)
{
    memset(n_out, 0, (size_t)n_ranks * sizeof *n_out);
    for (int i = 0; i < n; i++) {
        int rank = bench_place_rank(place[i]);
        puts_out[(size_t)rank * BATCH + (size_t)n_out[rank]++] =
            (put_t){ (uint32_t)(bench_place_index(place[i])), src[i] };
    }
}

static inline void store(uint64_t *table, const put_t *put, int n)
{
    for (int i = 0; i < n; i++)
        table[put[i].index] = put[i].value;
}

static void put_batch(uint64_t *table, const uint64_t *src, const uint64_t *place, int n)
{
    static MPI_Datatype type = MPI_DATATYPE_NULL;
    if (type == MPI_DATATYPE_NULL) {
        MPI_Type_contiguous((int)sizeof(put_t), MPI_BYTE, &type);
        MPI_Type_commit(&type);
    }
    sort_puts(src, place, n);
    int own = exchange_lengths();
    MPI_Alltoallv(puts_out, n_out, first, type, puts_in, n_in, first, type, MPI_COMM_WORLD);
    store(table, puts_out + first[me], own);
    for (int r = 0; r < n_ranks; r++)
        store(table, puts_in + first[r], n_in[r]);
}

/* ---- batch by batch ---- */

void ref_alltoallv_add(uint64_t *table, const uint64_t *place, size_t n)
{
    need_buffers();
    for (size_t i = 0; i < n; i += BATCH)
        add_batch(table, place + i, (int)(n - i < BATCH ? n - i : BATCH));
}

void ref_alltoallv_get(uint64_t *dst, const uint64_t *table, const uint64_t *place, size_t n)
{
    need_buffers();
    for (size_t i = 0; i < n; i += BATCH)
        get_batch(dst + i, table, place + i, (int)(n - i < BATCH ? n - i : BATCH));
}

void ref_alltoallv_put(uint64_t *table, const uint64_t *src, const uint64_t *place, size_t n)
{
    need_buffers();
    for (size_t i = 0; i < n; i += BATCH)
        put_batch(table, src + i, place + i, (int)(n - i < BATCH ? n - i : BATCH));
}
