/* what: whoever sleeps is counted, woken by a ring and gone from the count afterwards; a ring without sleepers costs nothing
 *       that could be seen; the service's sleep ends by its descriptor; no order of ring and sleep loses a change
 * needs: tsan-ok
 * source: src/boot/wait.h */
#include <poll.h>
#include <pthread.h>
#include "boot/boot.h"
#include "boot/wait.h"
#include "t/tap.h"
#include "t/unit/lone.h"

#define ROUNDS 3000

static uint64_t ball, n_progress;
static uint64_t passenger; /* plain: handed over with the ball */

static int progress_nothing(void)
{
    __atomic_add_fetch(&n_progress, 1, __ATOMIC_RELAXED);
    return 0;
}

static void wait_for(uint64_t value)
{
    pgasi_wait_t w = PGASI_WAIT_INIT;
    while (__atomic_load_n(&ball, __ATOMIC_ACQUIRE) != value)
        pgasi_wait_step(&w);
    pgasi_wait_end(&w);
}

static void throw(uint64_t value)
{
    __atomic_store_n(&ball, value, __ATOMIC_RELEASE);
    pgasi_bell_ring(0);
}

static void *partner(void *arg)
{
    int *n_bad = arg;
    for (uint64_t i = 0; i < ROUNDS; i++) {
        wait_for(2 * i + 1);
        *n_bad += passenger != i;
        passenger = i + 7;
        throw(2 * i + 2);
    }
    return NULL;
}

/* To and fro; both sleep now and then, when the other has no processor. */
static void changes_are_seen(void)
{
    pthread_t thread;
    int n_bad = 0, n_bad_there = 0;
    ball = 0;
    pthread_create(&thread, NULL, partner, &n_bad_there);
    for (uint64_t i = 0; i < ROUNDS; i++) {
        passenger = i;
        throw(2 * i + 1);
        wait_for(2 * i + 2);
        n_bad += passenger != i + 7;
    }
    pthread_join(thread, NULL);
    is_int(n_bad + n_bad_there, 0, "what was written before the ring is there after the wait");
    is_int(pgasi_bells[0]->sleepers, 0, "nobody is counted as asleep");
    ok(__atomic_load_n(&n_progress, __ATOMIC_RELAXED) > 0, "waiting progresses");
}

static void *sleeper(void *arg)
{
    (void)arg;
    wait_for(1);
    return NULL;
}

/* The sleeper is seen in the count; the ring changes the word that it sleeps on. */
static void sleepers_are_counted(void)
{
    pthread_t thread[3];
    ball = 0;
    uint32_t word = __atomic_load_n(&pgasi_bells[0]->word, __ATOMIC_RELAXED);
    pgasi_bell_ring(0);
    is_int(__atomic_load_n(&pgasi_bells[0]->word, __ATOMIC_RELAXED), word, "a ring without sleepers changes nothing");
    for (int i = 0; i < 3; i++)
        pthread_create(&thread[i], NULL, sleeper, NULL);
    while (__atomic_load_n(&pgasi_bells[0]->sleepers, __ATOMIC_ACQUIRE) != 3)
        sched_yield();
    throw(1);
    ok(__atomic_load_n(&pgasi_bells[0]->word, __ATOMIC_RELAXED) != word, "a ring with sleepers does");
    for (int i = 0; i < 3; i++)
        pthread_join(thread[i], NULL);
    is_int(pgasi_bells[0]->sleepers, 0, "and they are gone");
}

static bool readable(int fd)
{
    struct pollfd p = { .fd = fd, .events = POLLIN };
    return poll(&p, 1, 0) == 1 && (p.revents & POLLIN);
}

static void the_service_sleeps_on_a_descriptor(void)
{
    int fd = pgasi_wait_kick_fd();
    pgasi_bell_ring(0);
    ok(fd >= 0 && !readable(fd), "awake, it is not kicked");
    pgasi_wait_service_announce();
    ok(!readable(fd), "asleep, not yet");
    pgasi_bell_ring(0);
    pgasi_bell_ring(0);
    ok(readable(fd) && !(__atomic_load_n(&pgasi_bells[0]->sleepers, __ATOMIC_RELAXED) & PGASI_BELL_SERVICE),
       "a ring kicks it once");
    pgasi_wait_service_revoke();
    ok(!readable(fd), "and is used up");
    pgasi_wait_service_announce();
    pgasi_wait_service_revoke();
    pgasi_bell_ring(0);
    ok(!readable(fd), "who got up again is not kicked");
}

static void limits(void)
{
    uint64_t before = pgasi_now_ns(), limit = pgasi_wait_limit(1000), after = pgasi_now_ns();
    ok(limit >= before + 1000000 && limit <= after + 1000000 && !pgasi_wait_is_over(limit) && pgasi_wait_is_over(before - 1),
       "a wait ends after its microseconds");
    ok(pgasi_wait_limit(-1) == UINT64_MAX && pgasi_wait_limit(INT64_MAX) == UINT64_MAX &&
           pgasi_wait_limit(INT64_MAX / 400) == UINT64_MAX && !pgasi_wait_is_over(UINT64_MAX),
       "or never, if they are more than can be counted");
}

int main(void)
{
    plan(14);
    ok(pgasi_boot_start(NULL, "SPIN_US=5 NAP_MAX_US=2000") == PGAS_OK, "start");
    pgasi_boot_set_progress(progress_nothing);
    changes_are_seen();
    sleepers_are_counted();
    the_service_sleeps_on_a_descriptor();
    limits();
    pgasi_boot_stop();
    return done();
}
