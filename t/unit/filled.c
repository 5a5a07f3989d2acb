/* Fills the channel of a rank to itself with calls, then drains it, in one thread: for
 * benchmarks/instructions, which counts the instructions between the entry and the exit of
 * count_fill and of count_drain, first with n calls, then with 2 n. Single elements are reached in
 * count_fill, at places of the own heap; nothing is drained.
 *
 * Chunks are large enough for all calls: no thread waits for room.
 *
 * usage: filled WAY BYTES N, where WAY is trad, batch, write, ovfl, counter, typed-trad,
 * typed-write, slow, which is trad and 10 instructions, slots, which is the ring of slots of
 * benchmarks/ref_ring.h, get, put, update, fetch, or places, which only reads where the elements
 * are. Exit status 0 if all calls ran, none of them before it was drained; 77 if this was compiled
 * without optimization. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "base/checks.h"
#include "benchmarks/ref_ring.h"
#include "t/unit/lone.h"

#define WORDS 512

typedef void (*fill_fn_t)(size_t n);
typedef void (*drain_fn_t)(void);

static pgas_handler_t item, items;
static pgas_agg_t *agg, *overflow;
static pgas_sync_t done = PGAS_SYNC_INIT;
static pgas_gptr_t *place;
static ref_ring_t ring;
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

FILL(ovfl, 8, pgas_agg_call(overflow, 0, item, &args, sizeof args))
FILL(counter, 8, pgas_call(0, item, &args, sizeof args, &done))

static uint64_t n_slots; /* messages in the ring */

static __attribute__((noinline)) void slots_8(size_t n)
{
    ref_slots_send(&ring, n, 8, NULL);
    n_slots = n;
}

static __attribute__((noinline)) void drain_slots(void)
{
    ref_slots_receive(&ring, n_slots, 8);
    memset(&ring, 0, sizeof ring);
    n_ran += n_slots;
}

/* Loops over elements, each beside the loop that only has its global pointers. */
#define ELEMENTS(WAY, ACCESS)                                      \
    static __attribute__((noinline)) void WAY##_8(size_t n)        \
    {                                                              \
        const pgas_gptr_t *at = place;                             \
        uint64_t value = 0;                                        \
        pgas_status_t bad = PGAS_OK;                               \
        for (size_t i = 0; i < n; i++) {                           \
            pgas_gptr_t ptr = at[i];                               \
            ACCESS;                                                \
            __asm__ volatile("" ::"r"(ptr), "r"(value), "r"(bad)); \
        }                                                          \
        n_bad += bad != PGAS_OK;                                   \
    }
ELEMENTS(places, (void)0)
ELEMENTS(get, bad |= pgas_get_u64(ptr, &value))
ELEMENTS(put, bad |= pgas_put_u64(ptr, i))
ELEMENTS(update, bad |= pgas_update_u64(ptr, PGAS_ADD, 1))
ELEMENTS(fetch, bad |= pgas_fetch_op_u64(ptr, PGAS_ADD, 1, &value))

static __attribute__((noinline)) void drain(void);

static const struct {
    const char *way;
    size_t bytes;
    fill_fn_t fill;
    drain_fn_t drain; /* NULL: nothing is to be drained */
} fills[] = { { "trad", 8, trad_8, drain },
              { "batch", 8, batch_8, drain },
              { "write", 8, write_8, drain },
              { "trad", 64, trad_64, drain },
              { "batch", 64, batch_64, drain },
              { "write", 64, write_64, drain },
              { "trad", 256, trad_256, drain },
              { "batch", 256, batch_256, drain },
              { "write", 256, write_256, drain },
              { "typed-trad", 8, typed_trad_8, drain },
              { "typed-write", 8, typed_write_8, drain },
              { "slow", 8, slow_8, drain },
              { "ovfl", 8, ovfl_8, drain },
              { "counter", 8, counter_8, drain },
              { "slots", 8, slots_8, drain_slots },
              { "places", 8, places_8, NULL },
              { "get", 8, get_8, NULL },
              { "put", 8, put_8, NULL },
              { "update", 8, update_8, NULL },
              { "fetch", 8, fetch_8, NULL } };

static __attribute__((noinline)) void drain(void)
{
    while (pgas_progress() > 0)
        ;
}

/* The names that instructions.t knows. */
__attribute__((noinline)) void count_fill(fill_fn_t fill, size_t n);
__attribute__((noinline)) void count_drain(drain_fn_t drain_fn);
void count_fill(fill_fn_t fill, size_t n)
{
    fill(n);
    n_bad += n_ran != 0;
}
void count_drain(drain_fn_t drain_fn)
{
    drain_fn();
    n_bad += n_ran == 0;
}

static void check_all_ran(size_t n)
{
    n_bad += n_ran != n;
    n_ran = 0;
}

static void fill_and_drain(fill_fn_t fill, drain_fn_t drain_fn, size_t n)
{
    fill(n); /* endpoints, buffers and pages are there afterwards */
    if (drain_fn) {
        drain_fn();
        check_all_ran(n);
    }
    for (size_t k = 1; k <= 2; k++) {
        count_fill(fill, k * n);
        if (!drain_fn)
            continue;
        count_drain(drain_fn);
        check_all_ran(k * n);
    }
}

/* 2 n words of the heap, some of them again and again. */
static void choose_places(size_t n)
{
    pgas_gptr_t words;
    n_bad += pgas_alloc(WORDS * sizeof(uint64_t), &words) != PGAS_OK;
    place = calloc(2 * n, sizeof *place);
    if (!place)
        abort();
    for (size_t i = 0; i < 2 * n; i++)
        place[i] = words + i * 7 % WORDS * sizeof(uint64_t);
}

int main(int argc, char **argv)
{
    pgas_handler_opts_t opts = PGAS_HANDLER_OPTS_INIT;
    pgas_agg_opts_t style = PGAS_AGG_OPTS_INIT;
    size_t bytes = argc == 4 ? strtoul(argv[2], NULL, 10) : 0, k = 0;
    size_t n = argc == 4 ? strtoul(argv[3], NULL, 10) : 0;
#ifndef __OPTIMIZE__
    printf("not optimized\n");
    return 77;
#endif
    while (k < PGASI_ARRAY_LENGTH(fills) &&
           (argc != 4 || bytes != fills[k].bytes || strcmp(argv[1], fills[k].way) != 0))
        k++;
    if (k == PGASI_ARRAY_LENGTH(fills)) {
        fprintf(stderr, "usage: filled WAY 8|64|256 N\n");
        return 2;
    }
    opts.batch = run_items;
    style.style = PGAS_AGG_OVERFLOW;
    n_bad += pgas_handler_register("item", run_item, NULL, NULL, &item) != PGAS_OK;
    n_bad += pgas_handler_register("items", run_item, NULL, &opts, &items) != PGAS_OK;
    if (lone_init(1, "HEAP_SIZE=64K SERVICE_THREADS=0 CHUNK_SIZE=256K") != PGAS_OK ||
        pgas_agg_create(NULL, &agg) != PGAS_OK || pgas_agg_create(&style, &overflow) != PGAS_OK)
        return 1;
    choose_places(n);
    fill_and_drain(fills[k].fill, fills[k].drain, n);
    n_bad += pgas_sync_wait(&done, -1) != PGAS_OK;
    free(place);
    n_bad += pgas_agg_destroy(overflow) != PGAS_OK;
    n_bad += pgas_agg_destroy(agg) != PGAS_OK;
    n_bad += pgas_finalize() != PGAS_OK;
    return n_bad != 0;
}
