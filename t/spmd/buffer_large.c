/* Large buffers.
 *   what:   64 MiB are copied, pushed, pulled by the serving thread and by a helper, and come back
 *           as a reply. Every word is right.
 *   np:     2
 *   nodes:  0 1
 *   tls:    posix tcp,self
 *   env:    PGAS_HEAP_SIZE=160M
 *   source: pgas/call.h
 */
#include "t/spmd/buffers.h"
#include "t/spmd/job.h"

#define BYTES   ((size_t)64 << 20)
#define N_WORDS (BYTES / 8)

static pgas_handler_t check, give;
static int n_good, n_bad_words;
static uint64_t *in_heap, *in_private;

static uint64_t word_of(uint64_t seed, size_t i)
{
    return (i + seed) * UINT64_C(0x9E3779B97F4A7C15);
}

static void fill(uint64_t *words, uint64_t seed)
{
    for (size_t i = 0; i < N_WORDS; i++)
        words[i] = word_of(seed, i);
}

static size_t first_wrong(const uint64_t *words, uint64_t seed)
{
    size_t i = 0;
    while (i < N_WORDS && words[i] == word_of(seed, i))
        i++;
    return i;
}

static void on_check(const void *args, size_t bytes, pgas_thread_t source, void *context)
{
    uint64_t seed;
    void *address = NULL;
    size_t n = 0;
    (void)source;
    (void)context;
    memcpy(&seed, args, sizeof seed);
    if (bytes == 8 && pgas_buffer_get(0, &address, &n) == PGAS_OK && n == BYTES &&
        first_wrong(address, seed) == N_WORDS)
        n_good++;
    else
        n_bad_words++;
}

static void on_give(const void *args, size_t bytes, pgas_thread_t source, void *context)
{
    (void)args;
    (void)bytes;
    (void)source;
    (void)context;
    fill(in_private, 9);
    n_good += pgas_reply(in_private, BYTES) == PGAS_OK;
}

/* Rank 0 calls rank 1. */
static void goes_over(pgas_buffer_mode_t mode, uint64_t *from, pgas_gptr_t to, bool helper,
                      uint64_t seed, uint64_t told, const char *what)
{
    int n_bad = 0;
    n_good = n_bad_words = 0;
    pgas_barrier(NULL);
    if (pgas_rank() == 0) {
        pgas_sync_t executed = PGAS_SYNC_INIT;
        pgas_call_opts_t opts = PGAS_CALL_OPTS_INIT;
        pgas_buffer_t b = { mode, from, BYTES, to, helper, NULL };
        opts.sync = &executed;
        fill(from, seed);
        n_bad += call_buffers(pgas_on_rank(1), check, &told, 8, &b, 1, &opts, NULL) != PGAS_OK;
        n_bad += pgas_sync_wait(&executed, -1) != PGAS_OK;
    }
    n_bad += pgas_quiesce() != PGAS_OK;
    bool here = pgas_rank() == 1;
    spmd_ok(n_bad == 0 && n_good == (here && seed == told) && n_bad_words == (here && seed != told),
            "64 MiB %s", what);
}

int main(int argc, char **argv)
{
    pgas_handler_register("t.check", on_check, NULL, NULL, &check);
    pgas_handler_register("t.give", on_give, NULL, NULL, &give);
    job_begin(&argc, &argv, 10);
    pgas_gptr_t heap = PGAS_NULL, pushed = PGAS_NULL;
    spmd_ok(pgas_alloc(BYTES, &heap) == PGAS_OK && pgas_alloc(BYTES, &pushed) == PGAS_OK, "alloc");
    in_heap = pgas_gptr_local(heap, BYTES);
    in_private = job_alloc(BYTES);
    goes_over(PGAS_BUFFER_COPY, in_private, PGAS_NULL, false, 1, 1, "copied");
    goes_over(PGAS_BUFFER_PUSH, in_private, pgas_gptr_at(pushed, 1), false, 2, 2, "pushed");
    goes_over(PGAS_BUFFER_PULL, in_heap, PGAS_NULL, false, 3, 3, "pulled from the heap");
    goes_over(PGAS_BUFFER_PULL, in_private, PGAS_NULL, false, 4, 4, "pulled from private memory");
    goes_over(PGAS_BUFFER_PULL, in_heap, PGAS_NULL, true, 5, 5, "pulled from the heap by a helper");
    goes_over(PGAS_BUFFER_PULL, in_private, PGAS_NULL, true, 6, 6,
              "pulled from private memory by a helper");
    goes_over(PGAS_BUFFER_PULL, in_heap, PGAS_NULL, false, 7, 8,
              "of another kind than told are noticed");
    int n_bad = 0;
    for (int i = 0; i < 2 && pgas_rank() == 0; i++) {
        uint64_t *place = i ? in_heap : in_private;
        n_bad += pgas_call_return(1, give, NULL, 0, place, BYTES) != PGAS_OK ||
                 first_wrong(place, 9) != N_WORDS;
    }
    pgas_barrier(NULL);
    spmd_is_int(n_bad, 0, "64 MiB as a reply, into heap and private memory");
    if (pgas_rank() == 0) {
        in_heap[N_WORDS - 1] ^= 1;
        n_bad = first_wrong(in_heap, 9) != N_WORDS - 1;
    }
    spmd_is_int(n_bad, 0, "whose last wrong word would be noticed");
    free(in_private);
    return job_end();
}
