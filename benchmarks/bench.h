/** What every benchmark shares: options, rounds, statistics and output.
 *
 *  A program is a table of cases. A case is one loop of the library and the reference loops that do
 *  the same work. Every rank calls every loop. Rounds are interleaved (ours, reference, reference,
 *  ours, ...), so that drift of a shared machine affects both sides. A ratio is the median of the
 *  ratios of single rounds. Between loops all ranks wait in the barrier of the side that has just
 *  run: that barrier's progress serves a rank that has nothing to do in a loop.
 *
 *  Benchmarks use the public headers only. The reference loops (ref.h) are the only files with MPI
 *  and UCX. */
#ifndef BENCH_H
#define BENCH_H

#include <sched.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <time.h>
#include "pgas/pgas.h"

#define BENCH_PAGE_BYTES 4096u
/* operations between two flushes, as in OSU's bandwidth tests */
#define BENCH_WINDOW_OPS   64
#define BENCH_WINDOW_BYTES (16u << 20) /* memory that transfers walk through */
/* small transfers use this much memory again and again */
#define BENCH_STRIDE_MASK ((size_t)4095)
#define BENCH_TABLE_BYTES (64u << 20) /* each rank's table of the random updates */

/** One execution of a loop. */
typedef struct bench_run {
    size_t bytes;   /* size of one operation */
    uint64_t iters; /* operations of each active rank */
    int rank, n_ranks, peer;
    /* This rank initiates operations: in pair programs the lower half, or all if the case has
     * both_ways. */
    bool active;
    bool far;              /* some peer (without peers: some rank) is on another node */
    int arg;               /* of the case: the operation, the number of counters, ... */
    double round_ms;       /* length of a round, for loops that stop by the clock */
    int thread, n_threads; /* 0 of 1, except in bench_team */
    int team;              /* threads of --threads */
    bool paper;            /* --paper */
} bench_run_t;

/** Runs run->iters operations. Collective. @return their time in nanoseconds; 0 on a rank that only
 *  answers; the value itself for the metric BENCH_VALUE */
typedef double (*bench_loop_fn_t)(const bench_run_t *run);

/** The kind of a reference loop. The harness opens each kind once, and its ranks wait in the kind's
 *  own barrier. BENCH_OURS: the library under other conditions. BENCH_RAW: plain pointers into the
 *  symmetric heaps of all ranks, on one node. */
typedef enum {
    BENCH_OURS,
    BENCH_MEMORY,
    BENCH_RAW,
    BENCH_UCX,
    BENCH_MPI,
    BENCH_KINDS
} bench_kind_t;

typedef struct {
    const char *name; /* the column, and the key in "vs" */
    bench_kind_t kind;
    bench_loop_fn_t loop; /* NULL: not in this build; the table says that it is skipped */
} bench_ref_t;

typedef enum {
    BENCH_LATENCY,      /* ns per operation */
    BENCH_BANDWIDTH,    /* MB/s, all active ranks together */
    BENCH_RATE,         /* million operations per second, all active ranks together */
    BENCH_RATE_EACH,    /* million operations per second and rank */
    BENCH_RATE_MS,      /* operations per millisecond, all active ranks together */
    BENCH_RATE_MS_EACH, /* operations per millisecond and active rank */
    BENCH_VALUE         /* the loop's return value */
} bench_metric_t;

#define BENCH_NODE     1u
#define BENCH_FAR      2u
#define BENCH_ANYWHERE (BENCH_NODE | BENCH_FAR)
#define BENCH_REFS_MAX 10

typedef struct {
    const char *variant; /* words after the path in the case's name; "": the plain case */
    const char *doc;
    unsigned paths;
    bench_metric_t metric;
    bench_loop_fn_t ours;
    bench_ref_t refs[BENCH_REFS_MAX]; /* ends with the first that has no name */
    size_t min_bytes, max_bytes;      /* 0: as the program; both 0 there: no sizes */
    int arg;
    bool both_ways;   /* in pair programs: both halves initiate */
    bool average;     /* the average over ranks, instead of the slowest rank */
    bool on_request;  /* only when --case names it */
    bool no_sizes;    /* the case has none, though the program has some */
    bool bandwidth;   /* of BENCH_RATE: a further figure in MB/s */
    const char *unit; /* NULL: that of the metric */
    bool higher;      /* of BENCH_VALUE: higher is better */
    double round_ms;  /* length of one round; 0: the usual half millisecond */
    /* Threads of each rank, in the references too. With 2 or more, MPI starts with
     * MPI_THREAD_MULTIPLE. Each thread has a context unless the user sets PGAS_LANES. */
    int threads;
    /* NULL, or called on every rank; gives PGAS_OK if the library offers what the case needs */
    pgas_status_t (*probe)(const bench_run_t *run);
} bench_case_t;

/** A further figure of the rounds of a case. */
typedef struct {
    const char *name; /* becomes part of the case's name in JSON: "remote" */
    const char *unit;
    bool higher; /* is better */
    double median, min, max;
} bench_figure_t;
#define BENCH_FIGURES_MAX 8

/** An option of one program. */
typedef struct {
    const char *name, *arg, *doc;         /* arg NULL: it takes none */
    const char *(*set)(const char *text); /* @return what is wrong, or NULL */
} bench_option_t;
#define BENCH_OPTIONS_MAX 16

typedef enum {
    BENCH_PAIR,   /* exactly two ranks */
    BENCH_PAIRS,  /* an even number; rank r works with rank r + n/2 */
    BENCH_ANY,    /* any number; no peers */
    BENCH_TWO_UP, /* two or more, no peers */
    /* Two or more. Ranks 0 and 1 are peers; on other ranks peer is -1 and loops return at once. */
    BENCH_CROWD,
    BENCH_ALONE /* one process, which starts neither MPI nor the library */
} bench_ranks_t;

typedef struct {
    const char *name;
    const char *doc;
    bench_ranks_t ranks;
    const char *label; /* heading of our column: "Latency" */
    size_t min_bytes, max_bytes;
    const bench_case_t *cases;
    int n_cases;
    void (*prepare)(void);  /* called before pgas_init, registers handlers; may be NULL */
    void (*setup)(void);    /* called after pgas_init; may be NULL */
    void (*teardown)(void); /* may be NULL */
    const char *size_label; /* heading of the first column; NULL: Size */
    const size_t *sizes;    /* all sizes, rising, 0 at the end; NULL: doubling */
    bool compare;           /* as if --compare were given */
    bool threads;           /* has cases with several threads of a rank: --threads */
    uint64_t granule;       /* iterations of a round are a multiple of this; 0: any number */
    uint64_t paper_iters;   /* iterations of one round with --paper; 0: no such option */
    int paper_rounds;       /* rounds with --paper; 0: one */
    /* the iterations, if they depend on the job; may be NULL */
    uint64_t (*paper_iters_of)(const bench_case_t *c, const bench_run_t *run);
    /* Called on rank 0 for every size: with "" and our figure, then with each reference and its
     * figure. May be NULL. */
    void (*result)(const bench_case_t *c, size_t bytes, const char *against, double median,
                   double ratio);
    /* called on every rank after the last case; may be NULL */
    void (*finish)(const bench_run_t *run, bool json);
    /* called on rank 0 for every size; @return the number of figures; may be NULL */
    int (*figures)(const bench_case_t *c, bench_figure_t *figure);
    const bench_option_t *options; /* ends with one that has no name; may be NULL */
    /* BENCH_ALONE: the first word of the cases' names; NULL: they have none */
    const char *(*path)(void);
    const char *(*about)(void); /* BENCH_ALONE: the line below the title */
    /* Bytes of the archive that the case ("") or a reference makes: "archive_bytes" in JSON. Tables
     * then have one line for each reference instead of columns. May be NULL. */
    size_t (*archive_bytes)(const bench_case_t *c, const char *against);
    /* Runs and prints the cases instead of the harness, which only reads the options. Collective;
     * @return the exit status */
    int (*run)(bench_run_t *run);
} bench_program_t;

/** The table of cases, for the initializer of a program. */
#define BENCH_CASES(table) .cases = (table), .n_cases = (int)(sizeof(table) / sizeof *(table))

/** The main of a benchmark. @return 0: all cases ran; 1: something failed; 2: bad usage */
int bench_main(const bench_program_t *program, int argc, char **argv);

/** Ends the job with a message unless status is PGAS_OK. */
void bench_check(pgas_status_t status, const char *what);
/** Ends the job with a message. */
__attribute__((noreturn, format(printf, 1, 2))) void bench_die(const char *fmt, ...);
/** Zeroed memory for a table with random accesses; free() it. It has huge pages where the system
 *  gives them, so that the walk through page tables is not measured. The program ends when there is
 *  no memory. */
void *bench_table(size_t bytes);
/** Rank 0 prints a line on standard error. */
__attribute__((format(printf, 1, 2))) void bench_say(const char *fmt, ...);

/** Ordinary memory at a page boundary, every page written. free() it. */
void *bench_buffer(size_t bytes);

/** Computes for `ms` without calling any library. */
void bench_compute(double ms);

/** Times single operations with pauses of a millisecond between them, for about nine tenths of
 *  run->round_ms. op does n operations; n is 1 unless one operation takes only nanoseconds. @return
 *  the median time of an operation in ns */
double bench_sample(const bench_run_t *run, void (*op)(const bench_run_t *run, int n), int n);

/** Runs the loop in n threads of this rank at the same time. The calling thread is the first. All
 *  are attached: thread t has slot t and an equal share of the iterations. Threads are started once
 *  and kept. @return the nanoseconds from the first start to the last end; 0 on a rank that only
 *  answers */
double bench_team(const bench_run_t *run, int n, bench_loop_fn_t loop);
#define BENCH_TEAM_MAX 16
/** Moves the calling thread to cores to which no rank is bound, if there are any. */
void bench_take_spare(void);
/** Ends the threads, before pgas_finalize. */
void bench_team_end(void);

/** ---- inline helpers of loops ---- */

static inline uint64_t bench_now(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * UINT64_C(1000000000) + (uint64_t)now.tv_nsec;
}

static inline double bench_since(uint64_t begin)
{
    return (double)(bench_now() - begin);
}

/** The compiler keeps nothing in registers across this, as if other code of a larger program ran
 *  between two operations. Both sides of a comparison use it. */
#define bench_step() __asm__ volatile("" ::: "memory")

/** Prevents the compiler from removing the computation of a value. */
#define bench_use(value) __asm__ volatile("" ::"r"(value) : "memory")

/** One round of a spin loop; *spins is 0 at the start of each wait. After many rounds it yields the
 *  processor, for jobs with more ranks than cores. */
static inline void bench_relax(uint32_t *spins)
{
    if (++*spins % 4096 == 0)
        sched_yield();
#if defined(__x86_64__) || defined(__i386__)
    __builtin_ia32_pause();
#endif
}

/** xorshift64: the same cheap generator on both sides of a comparison. The state is never 0. */
static inline uint64_t bench_random(uint64_t *state)
{
    uint64_t x = *state;
    x ^= x << 13;
    x ^= x >> 7;
    x ^= x << 17;
    return *state = x;
}

__extension__ typedef unsigned __int128 bench_wide_t;

/** A random number below n, by the high word of a product. */
static inline uint64_t bench_random_below(uint64_t *state, uint64_t n)
{
    return (uint64_t)(((bench_wide_t)bench_random(state) * n) >> 64);
}

/** A start value, different on each rank. */
static inline uint64_t bench_seed(int rank)
{
    return UINT64_C(0x9e3779b97f4a7c15) * (uint64_t)(rank + 1);
}

/** Byte offset of operation i of a small size, within 4 KiB. */
static inline size_t bench_walk(uint64_t i, size_t bytes)
{
    return (size_t)(i * bytes) & BENCH_STRIDE_MASK;
}

/** The number of operations of a size with memory of their own in the window, as in OSU's bandwidth
 *  tests. */
static inline uint64_t bench_slots(size_t bytes)
{
    uint64_t n = BENCH_WINDOW_BYTES / bytes;
    if (n < 1)
        return 1;
    return n > BENCH_WINDOW_OPS ? BENCH_WINDOW_OPS : n;
}

/** Random elements of a table with run->arg elements on each rank: index and rank in one word. They
 *  are drawn before the clock runs, as in bale. */
#define BENCH_RANK_BITS 20
#define BENCH_RANK_MASK ((1u << BENCH_RANK_BITS) - 1)
void bench_draw_places(uint64_t *place, size_t n, const bench_run_t *run);
static inline int bench_place_rank(uint64_t place)
{
    return (int)(place & BENCH_RANK_MASK);
}
static inline uint64_t bench_place_index(uint64_t place)
{
    return place >> BENCH_RANK_BITS;
}

/** The addresses of a collective allocation at all ranks, for loops over plain pointers; free()
 *  them. NULL for ranks of other nodes. */
uint64_t **bench_addresses(pgas_gptr_t allocation, size_t bytes);

/** Sorts in rising order. */
void bench_sort(double *values, size_t n);

/** Expands CALL with a constant for the usual message sizes, so that the compiler inlines copies as
 *  in a program that knows its message size. Other sizes use the variable. */
#define BENCH_SIZE(size, CALL) \
    case size:                 \
        CALL(size);            \
        break
#define BENCH_BY_SIZE(bytes, CALL) \
    do {                           \
        switch (bytes) {           \
            BENCH_SIZE(8, CALL);   \
            BENCH_SIZE(16, CALL);  \
            BENCH_SIZE(32, CALL);  \
            BENCH_SIZE(64, CALL);  \
            BENCH_SIZE(128, CALL); \
            BENCH_SIZE(256, CALL); \
        default:                   \
            CALL(bytes);           \
        }                          \
    } while (0)

#endif
