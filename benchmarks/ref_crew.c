/* Threads of the reference loops, see ref_crew.h. The barrier spins, and yields after some rounds
 * for machines with fewer cores than threads. The thread that arrives last resets the counter of
 * chunks. Reductions alternate between two rows of slots, so that each needs only one barrier. */
#include "benchmarks/ref_crew.h"

#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <time.h>

#define HUGE_BYTES ((size_t)2 << 20)
#define SPINS      256 /* rounds of a wait between two yields */

typedef union {
    uint64_t whole;
    double real;
    char line[64]; /* no two threads write to one cache line */
} slot_t;

struct ref_crew {
    int n;
    ref_crew_fn_t fn;
    void *arg;
    _Alignas(64) uint64_t next; /* chunk of the loop */
    _Alignas(64) int n_waiting;
    _Alignas(64) uint32_t phase; /* barriers passed */
    slot_t slots[2][REF_CREW_MAX];
};

typedef struct {
    ref_crew_t *crew;
    pthread_t thread;
    int me;
} member_t;

static double seconds_now(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + (double)now.tv_nsec * 1e-9;
}

static void relax(uint32_t *spins)
{
    if (++*spins % SPINS == 0)
        sched_yield();
#if defined(__x86_64__) || defined(__i386__)
    __builtin_ia32_pause();
#endif
}

void ref_crew_meet(ref_crew_t *crew)
{
    uint32_t phase = REF_LOAD(crew->phase), spins = 0;
    if (__atomic_add_fetch(&crew->n_waiting, 1, __ATOMIC_ACQ_REL) == crew->n) {
        REF_STORE(crew->n_waiting, 0);
        REF_STORE(crew->next, 0);
        __atomic_store_n(&crew->phase, phase + 1, __ATOMIC_RELEASE);
        return;
    }
    while (__atomic_load_n(&crew->phase, __ATOMIC_ACQUIRE) == phase)
        relax(&spins);
}

bool ref_crew_take(ref_crew_t *crew, uint64_t n, uint64_t chunk, uint64_t *from_p, uint64_t *to_p)
{
    uint64_t from = REF_ADD(crew->next, chunk);
    if (from >= n)
        return false;
    *from_p = from;
    *to_p = n - from < chunk ? n : from + chunk;
    return true;
}

/* Between two barriers the phase is the same for all threads. */
static slot_t *meet_with(ref_crew_t *crew, int me, slot_t value)
{
    slot_t *row = crew->slots[REF_LOAD(crew->phase) % 2];
    row[me] = value;
    ref_crew_meet(crew);
    return row;
}

uint64_t ref_crew_sum(ref_crew_t *crew, int me, uint64_t value)
{
    const slot_t *row = meet_with(crew, me, (slot_t){ .whole = value });
    uint64_t sum = 0;
    for (int i = 0; i < crew->n; i++)
        sum += row[i].whole;
    return sum;
}

double ref_crew_sum_double(ref_crew_t *crew, int me, double value)
{
    const slot_t *row = meet_with(crew, me, (slot_t){ .real = value });
    double sum = 0;
    for (int i = 0; i < crew->n; i++)
        sum += row[i].real;
    return sum;
}

uint64_t ref_crew_least(ref_crew_t *crew, int me, uint64_t value)
{
    const slot_t *row = meet_with(crew, me, (slot_t){ .whole = value });
    uint64_t least = UINT64_MAX;
    for (int i = 0; i < crew->n; i++)
        least = row[i].whole < least ? row[i].whole : least;
    return least;
}

int ref_crew_size(const ref_crew_t *crew)
{
    return crew->n;
}

static void *join_in(void *arg)
{
    member_t *member = arg;
    ref_crew_meet(member->crew);
    member->crew->fn(member->crew, member->me, member->crew->arg);
    ref_crew_meet(member->crew);
    return NULL;
}

double ref_crew_run(int n_threads, ref_crew_fn_t fn, void *arg)
{
    ref_crew_t crew = { .n = n_threads, .fn = fn, .arg = arg };
    member_t members[REF_CREW_MAX];
    double begin, seconds;
    for (int i = 1; i < n_threads; i++) {
        members[i] = (member_t){ .crew = &crew, .me = i };
        if (pthread_create(&members[i].thread, NULL, join_in, &members[i]) != 0) {
            fprintf(stderr, "ref_crew: cannot start a thread\n");
            exit(1);
        }
    }
    ref_crew_meet(&crew);
    begin = seconds_now();
    fn(&crew, 0, arg);
    ref_crew_meet(&crew);
    seconds = seconds_now() - begin;
    for (int i = 1; i < n_threads; i++)
        pthread_join(members[i].thread, NULL);
    return seconds;
}

void *ref_crew_alloc(size_t bytes)
{
    size_t unit = bytes < HUGE_BYTES ? 64 : HUGE_BYTES;
    size_t whole = (bytes + unit - 1) / unit * unit;
    void *memory = aligned_alloc(unit, whole ? whole : unit);
    if (!memory) {
        fprintf(stderr, "ref_crew: no memory for %zu bytes\n", bytes);
        exit(1);
    }
    if (unit == HUGE_BYTES)
        (void)madvise(memory, whole, MADV_HUGEPAGE);
    return memory;
}
