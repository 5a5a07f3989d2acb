/* Arrays in OpenMP regions.
 *   what:   The attached threads of an OpenMP region share the elements of the rank, and walk,
 *           read, write and operate at the same time, also on elements of other ranks. Sums are
 *           those of a plain loop. Later regions have other numbers of threads.
 *   np:     1 2 3
 *   nodes:  0 1 2
 *   env:    OMP_NUM_THREADS=3 | OMP_NUM_THREADS=4 PGAS_LANES=2 | OMP_NUM_THREADS=2
 *   needs:  openmp
 *   source: pgas/array.h
 */
#include <omp.h>
#include "t/spmd/array_crew.h"

#define N    5000
#define BINS 200

/* Writes the own elements by walks over parts, one per thread. */
static void write_own(pgas_array_t *array, int n_threads)
{
#pragma omp parallel num_threads(n_threads)
    {
        BAD(pgas_thread_attach());
#pragma omp for
        for (int part = 0; part < n_threads * 2; part++) {
            uint64_t first = 0, n = 0, n_parts = 2 * (uint64_t)n_threads, from, to;
            pgas_array_walk_t w;
            BAD(pgas_array_range(array, -1, &first, &n));
            from = first + n * (uint64_t)part / n_parts;
            to = first + n * ((uint64_t)part + 1) / n_parts;
            BAD(pgas_array_walk_begin(array, from, to - from, PGAS_ARRAY_WRITE, 0, &w));
            while (pgas_array_walk_next(&w))
                for (uint64_t k = 0; k < w.n; k++)
                    ((uint64_t *)w.data)[k] = (w.first + k) * 3;
            BAD(pgas_array_walk_end(&w));
        }
        BAD(pgas_thread_detach());
    }
}

/* Reads all, each thread a part, and counts residues in another array. */
static uint64_t read_all(pgas_array_t *array, pgas_array_t *bins, int n_threads)
{
    uint64_t sum = 0;
#pragma omp parallel num_threads(n_threads) reduction(+ : sum)
    {
        uint64_t t = (uint64_t)omp_get_thread_num(), value = 0;
        uint64_t first = N * t / (uint64_t)n_threads, end = N * (t + 1) / (uint64_t)n_threads;
        pgas_array_walk_t w;
        BAD(pgas_thread_attach());
        BAD(pgas_array_walk_begin(array, first, end - first, PGAS_ARRAY_READ, 0, &w));
        while (pgas_array_walk_next(&w)) {
            for (uint64_t k = 0; k < w.n; k++) {
                value = ((const uint64_t *)w.data)[k];
                crew_judge(value == (w.first + k) * 3, "what another thread wrote");
                sum += value;
                BAD(pgas_array_apply_u64(bins, value % BINS, PGAS_ADD, 1));
            }
        }
        BAD(pgas_array_walk_end(&w));
        BAD(pgas_thread_detach());
    }
    return sum;
}

/* All threads of all ranks operate through pins on parts that no other thread of the node has. */
static void operate(pgas_array_t *array, int n_threads)
{
#pragma omp parallel num_threads(n_threads)
    {
        uint64_t parts = (uint64_t)(pgas_node_size() * n_threads);
        uint64_t part = (uint64_t)(pgas_node_rank() * n_threads + omp_get_thread_num());
        uint64_t first = N * part / parts, end = N * (part + 1) / parts;
        pgas_array_walk_t w;
        BAD(pgas_thread_attach());
        BAD(pgas_array_walk_begin(array, first, end - first, PGAS_ARRAY_OPERATE,
                                  PGAS_OP(PGAS_ADD, PGAS_U64), &w));
        while (pgas_array_walk_next(&w))
            for (uint64_t k = 0; k < w.n; k++)
                ((uint64_t *)w.data)[k] += 1;
        BAD(pgas_array_walk_end(&w));
        BAD(pgas_thread_detach());
    }
}

int main(int argc, char **argv)
{
    job_begin(&argc, &argv, 4);
    int most = omp_get_max_threads();
    uint64_t value = 0, zero = 0, want = (uint64_t)N * (N - 1) / 2 * 3;
    pgas_array_t *array = crew_array(8, N, 512, (size_t)most + 2, NULL);
    pgas_array_t *bins = crew_array(8, BINS, 16, (size_t)most + 2, NULL);
    for (int lap = 0; lap < 3; lap++) {
        int n_threads = 1 + (lap + most - 1) % most;
        BAD(pgas_array_fill(bins, &zero));
        write_own(array, n_threads);
        BAD(pgas_barrier(NULL));
        crew_judge(read_all(array, bins, n_threads) == want, "the sum of all elements");
        BAD(pgas_barrier(NULL));
        for (uint64_t b = 0; b < BINS; b++) {
            BAD(pgas_array_get_u64(bins, b, &value));
            /* 3 and BINS have no common divisor */
            crew_judge(value == (uint64_t)(N / BINS * n_ranks), "a bin");
        }
        BAD(pgas_barrier(NULL));
    }
    spmd_is_int(crew_faults(), 0, "threads of regions walk, read and count");
    operate(array, most);
    BAD(pgas_barrier(NULL));
    for (uint64_t i = 0; i < N; i += 7) {
        BAD(pgas_array_get_u64(array, i, &value));
        crew_judge(value == i * 3 + (uint64_t)pgas_n_nodes(),
                   "an element that each node has operated on");
    }
    spmd_is_int(crew_faults(), 0, "threads of regions operate through pins");
    BAD(pgas_barrier(NULL));
    BAD(pgas_array_destroy(bins));
    BAD(pgas_array_destroy(array));
    spmd_is_int(crew_faults(), 0, "and the arrays end");
    crew_mute();
    crew_judge(value == 0, "on purpose");
    spmd_is_int(crew_faults(), 1, "a wrong sum would be noticed");
    return job_end();
}
