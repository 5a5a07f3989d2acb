/** What every benchmark shares: options, rounds, statistics and output.
 *
 *  A program is a table of cases; a case is one loop of ours and the reference loops that do the
 *  same work. Every rank calls every loop. Rounds are interleaved (ours, reference, reference,
 *  ours, ...), so that drift of a shared machine hits both sides, and a ratio is the median of the
 *  ratios of single rounds. Between loops all ranks wait in the barrier of the side that just ran:
 *  a rank that has nothing to do in a loop is served by that barrier's progress.
 *
 *  Benchmarks use the public headers only; the reference loops (ref.h) are the only files with MPI
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
/* small transfers walk through so much memory, then start again */
#define BENCH_STRIDE_MASK ((size_t)4095)
#define BENCH_TABLE_BYTES (64u << 20) /* table of the random updates, of each rank */

/** One execution of a loop. */
typedef struct bench_run {
    size_t bytes;   /* size of one operation */
    uint64_t iters; /* how many each active rank does */
    int rank, n_ranks, peer;
    /* this rank initiates: in pair programs the lower half, or all if the case goes both ways */
    bool active;
    bool far;              /* some peer (without peers: some rank) is on another node */
    int arg;               /* of the case: which operation, how many counters */
    double round_ms;       /* how long a round should take, for loops that go by the clock */
    int thread, n_threads; /* 0 of 1, but inside of bench_team */
    int team;              /* how many threads --threads asks for */
    bool paper;            /* --paper */
} bench_run_t;

/** Runs iters operations and returns the nanoseconds that took, 0 on a rank that only answers.
 *  (Cases of metric BENCH_VALUE return the value itself.) Collective. */
typedef double (*bench_loop_fn_t)(const bench_run_t *run);

/** Where a reference loop comes from: says how to start it and in which barrier its ranks wait.
 *  BENCH_OURS: the library under other conditions. */
typedef enum { BENCH_OURS, BENCH_MEMORY, BENCH_UCX, BENCH_MPI, BENCH_KINDS } bench_kind_t;

typedef struct {
    const char *name; /* the column, and the key in "vs" */
    bench_kind_t kind;
    bench_loop_fn_t loop;
} bench_ref_t;

typedef enum {
    BENCH_LATENCY,      /* ns per operation */
    BENCH_BANDWIDTH,    /* MB/s, all active ranks together */
    BENCH_RATE,         /* million operations per second, all active ranks together */
    BENCH_RATE_EACH,    /* million operations per second and rank */
    BENCH_RATE_MS,      /* operations per millisecond, all active ranks together */
    BENCH_RATE_MS_EACH, /* operations per millisecond and active rank */
    BENCH_VALUE         /* what the loop returns */
} bench_metric_t;

#define BENCH_NODE     1u
#define BENCH_FAR      2u
#define BENCH_ANYWHERE (BENCH_NODE | BENCH_FAR)
#define BENCH_REFS_MAX 4

typedef struct {
    const char *variant; /* words after the path in the case's name; "" for the plain case */
    const char *doc;
    unsigned paths;
    bench_metric_t metric;
    bench_loop_fn_t ours;
    bench_ref_t refs[BENCH_REFS_MAX]; /* up to the first without a name */
    size_t min_bytes, max_bytes;      /* 0: as the program (both 0 there: no sizes) */
    int arg;
    bool both_ways;   /* in pair programs: both halves initiate */
    bool average;     /* over ranks, instead of the slowest rank */
    bool on_request;  /* only when --case names it */
    bool no_sizes;    /* though the program has some */
    bool bandwidth;   /* of BENCH_RATE: in MB/s, too, as a further figure */
    const char *unit; /* NULL: that of the metric */
    bool higher;      /* of BENCH_VALUE: higher is better */
    double round_ms;  /* length of one round; 0: the usual half millisecond */
    /* NULL, or gives PGAS_OK if the library offers what the case needs; on every rank */
    pgas_status_t (*probe)(const bench_run_t *run);
} bench_case_t;

/** What else is known of the rounds of a case. */
typedef struct {
    const char *name; /* a word of the case's name in JSON: "remote" */
    const char *unit;
    bool higher; /* is better */
    double median, min, max;
} bench_figure_t;
#define BENCH_FIGURES_MAX 8

/** An option of one program. */
typedef struct {
    const char *name, *arg, *doc;         /* arg NULL: it takes none */
    const char *(*set)(const char *text); /* gives what is wrong, or NULL */
} bench_option_t;
#define BENCH_OPTIONS_MAX 16

typedef enum {
    BENCH_PAIR,   /* exactly two ranks */
    BENCH_PAIRS,  /* an even number; rank r works with rank r + n/2 */
    BENCH_ANY,    /* any number; no peers */
    BENCH_TWO_UP, /* two or more, no peers */
    /* two or more; ranks 0 and 1 work with each other, loops return at once on others, whose peer
     * is -1 */
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
    void (*prepare)(void);  /* before pgas_init: handlers; may be NULL */
    void (*setup)(void);    /* after it; may be NULL */
    void (*teardown)(void); /* may be NULL */
    const char *size_label; /* heading of the first column; NULL: Size */
    const size_t *sizes;    /* only these, rising, 0 at the end; NULL: doubling */
    bool compare;           /* always with the references */
    bool threads;           /* has cases in which several threads of a rank work: --threads */
    uint64_t granule;       /* iterations of a round are a multiple of this; 0: any number */
    uint64_t paper_iters;   /* of one round with --paper; 0: no such option */
    int paper_rounds;       /* then; 0: one */
    /* if they depend on the job; may be NULL */
    uint64_t (*paper_iters_of)(const bench_case_t *c, const bench_run_t *run);
    void (*result)(const bench_case_t *c, size_t bytes, const char *against, double median,
                   double ratio);
    /* on rank 0, for every size: once against "" with our figure, then with that of each reference;
     * may be NULL */
    /* after the last case, on every rank; may be NULL */
    void (*finish)(const bench_run_t *run, bool json);
    /* on rank 0, for every size: how many; may be NULL */
    int (*figures)(const bench_case_t *c, bench_figure_t *figure);
    const bench_option_t *options; /* up to one without a name; may be NULL */
    const char *(*path)(void);     /* of BENCH_ALONE: the first word of cases' names, */
    const char *(*about)(void);    /* and what stands below the title */
} bench_program_t;

/** The table of cases, for the initializer of a program. */
#define BENCH_CASES(table) .cases = (table), .n_cases = (int)(sizeof(table) / sizeof *(table))

/** The main of a benchmark. 0: all cases ran; 2: bad usage; 1: something failed. */
int bench_main(const bench_program_t *program, int argc, char **argv);

/** Ends the job with a message unless status is PGAS_OK. */
void bench_check(pgas_status_t status, const char *what);
/** Ends the job with a message. */
__attribute__((noreturn, format(printf, 1, 2))) void bench_die(const char *fmt, ...);
/** Zeroed memory for a table with random accesses, of huge pages where the system gives them: it is
 *  the library that is measured, not the walk through page tables. Ends the program when there is
 *  none; freed with free(). */
void *bench_table(size_t bytes);
/** A line on standard error, from rank 0. */
__attribute__((format(printf, 1, 2))) void bench_say(const char *fmt, ...);

/** Ordinary memory at a page border, every page written. free() it. */
void *bench_buffer(size_t bytes);

/** Computes for so long without calling any library. */
void bench_compute(double ms);

/** Times single operations with pauses of a millisecond between them, while about nine tenths of
 *  run->round_ms last, and gives the median in ns. op does n operations; n is 1 unless one takes
 *  only nanoseconds. */
double bench_sample(const bench_run_t *run, void (*op)(const bench_run_t *run, int n), int n);

/** Runs the loop in n threads of this rank at once, all attached, the calling one first; thread t
 *  has slot t and an equal share of the iterations. Returns the nanoseconds from the first's begin
 *  to the last's end, 0 on a rank that only answers. Threads are started once and kept. */
double bench_team(const bench_run_t *run, int n, bench_loop_fn_t loop);
#define BENCH_TEAM_MAX 16
/** Moves the calling thread to cores that no rank has taken, if there are any. */
void bench_take_spare(void);
/** Ends the threads, before pgas_finalize. */
void bench_team_end(void);

/** ---- what loops use ---- */

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

/** The compiler may keep nothing in registers across this: every operation stands for one in a
 *  larger program. Both sides of a comparison have it. */
#define bench_step() __asm__ volatile("" ::: "memory")

/** Keeps a result alive. */
#define bench_use(value) __asm__ volatile("" ::"r"(value) : "memory")

/** One round of a spin loop; *spins is 0 at the start of each wait. After many rounds the processor
 *  goes to others (more ranks than cores). */
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

/** A start value that differs between ranks. */
static inline uint64_t bench_seed(int rank)
{
    return UINT64_C(0x9e3779b97f4a7c15) * (uint64_t)(rank + 1);
}

/** Byte offset of operation i of small size: walks through 4 KiB. */
static inline size_t bench_walk(uint64_t i, size_t bytes)
{
    return (size_t)(i * bytes) & BENCH_STRIDE_MASK;
}

/** How many operations of a size lie side by side in the window, as in OSU's bandwidth tests. */
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

/** Sorts in rising order. */
void bench_sort(double *values, size_t n);

/** Expands CALL with a constant for the usual message sizes, so that copies are inlined as in a
 *  program that knows its message; any other size takes the variable. */
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
