/* Fills the channel of a rank to itself with calls, then drains it, in one thread: for
 * instructions.t, which counts the instructions between the entry and the exit of count_fill and of
 * count_drain, first with n calls, then with 2 n.
 *
 * Chunks are large enough for all calls: no thread waits for room.
 *
 * usage: filled WAY BYTES N, where WAY is trad, batch, write, typed-trad, typed-write, or slow,
 * which is trad and 10 instructions. Exit status 0 if all calls ran, none of them before it was
 * drained; 77 if this was compiled without optimization. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "base/checks.h"
#include "t/unit/lone.h"

typedef void (*fill_fn_t)(size_t n);

static pgas_handler_t item, items;
static pgas_agg_t *agg;
static uint64_t n_ran, n_bad;

/* Not counted. */
static __attribute__((noinline)) void run_item(const void *data, size_t bytes, pgas_thread_t source,
                                               void *context)
{
    (void)data;
    (void)bytes;
    (void)source;
    (void)context;
    n_ran++;
}

static __attribute__((noinline)) void run_items(const void *data, size_t bytes, size_t stride,
                                                size_t n, pgas_thread_t source, void *context)
{
    (void)data;
    (void)bytes;
    (void)stride;
    (void)source;
    (void)context;
    n_ran += n;
}

/* Its body is counted when a batch is drained. */
PGAS_HANDLER(typed_item, uint64_t)
{
    n_ran++;
}

static inline void waste(void)
{
    __asm__ volatile("nop\n nop\n nop\n nop\n nop\n nop\n nop\n nop\n nop\n nop");
}

/* As a program would, with a size that the compiler knows. */
#define FILL(WAY, BYTES, CALL)                                            \
    static __attribute__((noinline)) void WAY##_##BYTES(size_t n)         \
    {                                                                     \
        pgas_agg_t *a = agg;                                              \
        pgas_status_t bad = PGAS_OK;                                      \
        for (size_t i = 0; i < n; i++) {                                  \
            struct {                                                      \
                uint64_t word[BYTES / 8];                                 \
            } args = { { i } };                                           \
            bad |= CALL;                                                  \
        }                                                                 \
        n_bad += bad != PGAS_OK || pgas_agg_flush(a, 0, NULL) != PGAS_OK; \
    }
#define FILLS(BYTES)                                                   \
    FILL(trad, BYTES, pgas_agg_call(a, 0, item, &args, sizeof args))   \
    FILL(batch, BYTES, pgas_agg_call(a, 0, items, &args, sizeof args)) \
    FILL(write, BYTES, pgas_call(0, item, &args, sizeof args, NULL))
FILLS(8)
FILLS(64)
FILLS(256)
FILL(typed_trad, 8, pgas_agg_typed_item(a, 0, &args.word[0]))
FILL(typed_write, 8, pgas_call_typed_item(0, &args.word[0], NULL))
FILL(slow, 8, (waste(), pgas_agg_call(a, 0, item, &args, sizeof args)))

static const struct {
    const char *way;
    size_t bytes;
    fill_fn_t fill;
} fills[] = { { "trad", 8, trad_8 },
              { "batch", 8, batch_8 },
              { "write", 8, write_8 },
              { "trad", 64, trad_64 },
              { "batch", 64, batch_64 },
              { "write", 64, write_64 },
              { "trad", 256, trad_256 },
              { "batch", 256, batch_256 },
              { "write", 256, write_256 },
              { "typed-trad", 8, typed_trad_8 },
              { "typed-write", 8, typed_write_8 },
              { "slow", 8, slow_8 } };

static __attribute__((noinline)) void drain(void)
{
    while (pgas_progress() > 0)
        ;
}

/* The names that instructions.t knows. */
__attribute__((noinline)) void count_fill(fill_fn_t fill, size_t n);
__attribute__((noinline)) void count_drain(void);
void count_fill(fill_fn_t fill, size_t n)
{
    fill(n);
    n_bad += n_ran != 0;
}
void count_drain(void)
{
    drain();
    n_bad += n_ran == 0;
}

static void check_all_ran(size_t n)
{
    n_bad += n_ran != n;
    n_ran = 0;
}

static void fill_and_drain(fill_fn_t fill, size_t n)
{
    fill(n); /* endpoints, buffers and pages are there afterwards */
    drain();
    check_all_ran(n);
    for (size_t k = 1; k <= 2; k++) {
        count_fill(fill, k * n);
        count_drain();
        check_all_ran(k * n);
    }
}

int main(int argc, char **argv)
{
    pgas_handler_opts_t opts = PGAS_HANDLER_OPTS_INIT;
    size_t bytes = argc == 4 ? strtoul(argv[2], NULL, 10) : 0, k = 0;
#ifndef __OPTIMIZE__
    printf("not optimized\n");
    return 77;
#endif
    while (k < PGASI_ARRAY_LENGTH(fills) &&
           (argc != 4 || bytes != fills[k].bytes || strcmp(argv[1], fills[k].way) != 0))
        k++;
    if (k == PGASI_ARRAY_LENGTH(fills)) {
        fprintf(stderr, "usage: filled trad|batch|write|typed-trad|typed-write|slow 8|64|256 N\n");
        return 2;
    }
    opts.batch = run_items;
    n_bad += pgas_handler_register("item", run_item, NULL, NULL, &item) != PGAS_OK;
    n_bad += pgas_handler_register("items", run_item, NULL, &opts, &items) != PGAS_OK;
    if (lone_init(1, "HEAP_SIZE=64K SERVICE_THREADS=0 CHUNK_SIZE=256K") != PGAS_OK ||
        pgas_agg_create(NULL, &agg) != PGAS_OK)
        return 1;
    fill_and_drain(fills[k].fill, strtoul(argv[3], NULL, 10));
    n_bad += pgas_agg_destroy(agg) != PGAS_OK;
    n_bad += pgas_finalize() != PGAS_OK;
    return n_bad != 0;
}
