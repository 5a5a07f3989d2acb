/* what: A sleeping thread is counted, woken by a wakeup and not counted afterwards. A wakeup
 *       without sleepers has no visible cost. The service's sleep ends by its descriptor. No order
 *       of wakeup and sleep loses a change, also not one for the service alone. A woken thread
 *       polls everything, and a wakeup that finds no thread wakes the service. Each rank is woken
 *       by one descriptor, a dead one without a signal. A rank that cannot be woken polls. A
 *       barrier that fails later ends the process.
 * needs: tsan-ok
 * log: cannot open the pipe of process
 * source: src/boot/wait.h */
#include <dirent.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include "base/clock.h"
#include "boot/boot.h"
#include "boot/hooks.h"
#include "boot/wait.h"
#include "t/forbid.h"
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
    pgasi_wake(0);
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
    is_int(n_bad + n_bad_there, 0, "stores before the wakeup are seen after the wait");
    is_int(pgasi_wakeups[0]->sleepers, 0, "no thread is counted as asleep");
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
    uint32_t word = __atomic_load_n(&pgasi_wakeups[0]->word, __ATOMIC_RELAXED);
    pgasi_wake(0);
    is_int(__atomic_load_n(&pgasi_wakeups[0]->word, __ATOMIC_RELAXED), word,
           "a ring without sleepers changes nothing");
    for (int i = 0; i < 3; i++)
        pthread_create(&thread[i], NULL, sleeper, NULL);
    while (__atomic_load_n(&pgasi_wakeups[0]->sleepers, __ATOMIC_ACQUIRE) != 3)
        sched_yield();
    throw(1);
    ok(__atomic_load_n(&pgasi_wakeups[0]->word, __ATOMIC_RELAXED) != word,
       "a ring with sleepers does");
    for (int i = 0; i < 3; i++)
        pthread_join(thread[i], NULL);
    is_int(pgasi_wakeups[0]->sleepers, 0, "and they are gone");
}

static bool readable(int fd)
{
    struct pollfd p = { .fd = fd, .events = POLLIN };
    return poll(&p, 1, 0) == 1 && (p.revents & POLLIN);
}

static void the_service_sleeps_on_a_descriptor(void)
{
    int fd = pgasi_wait_kick_fd();
    pgasi_wake(0);
    ok(fd >= 0 && !readable(fd), "awake, it is not kicked");
    pgasi_wait_service_announce();
    ok(!readable(fd), "asleep, not yet");
    pgasi_wake(0);
    pgasi_wake(0);
    ok(readable(fd) &&
           !(__atomic_load_n(&pgasi_wakeups[0]->sleepers, __ATOMIC_RELAXED) & PGASI_WAKEUP_SERVICE),
       "a ring kicks it once");
    pgasi_wait_service_revoke();
    ok(!readable(fd), "and is used up");
    pgasi_wait_service_announce();
    pgasi_wait_service_revoke();
    pgasi_wake(0);
    ok(!readable(fd), "a thread that has woken up is not woken again");
}

/* ---- threads that are counted ---- */

static uint64_t n_rung;

static void count_rung(void)
{
    __atomic_add_fetch(&n_rung, 1, __ATOMIC_RELAXED);
}

/* A thread that sleeps is enough; one that is only counted is not. */
static void a_ring_wakes_somebody(void)
{
    pthread_t thread;
    int fd = pgasi_wait_kick_fd();
    ball = n_rung = 0;
    pgasi_hooks.woken = count_rung;
    pgasi_wait_service_announce();
    pthread_create(&thread, NULL, sleeper, NULL);
    while (__atomic_load_n(&n_rung, __ATOMIC_ACQUIRE) == 0) {
        if (pgasi_wake_threads(0))
            break;
        sched_yield();
    }
    throw(1);
    pthread_join(thread, NULL);
    pgasi_hooks.woken = NULL;
    ok(n_rung > 0, "a thread that a ring has woken looks at everything");
    pgasi_wait_service_revoke();
    pgasi_wait_service_announce();
    __atomic_fetch_add(&pgasi_wakeups[0]->sleepers, 1, __ATOMIC_SEQ_CST);
    pgasi_wake(0);
    ok(readable(fd), "a ring that wakes no thread wakes the service");
    __atomic_fetch_sub(&pgasi_wakeups[0]->sleepers, 1, __ATOMIC_SEQ_CST);
    pgasi_wait_service_revoke();
}

static int progress_sees_itself_counted(void)
{
    n_progress += __atomic_load_n(&pgasi_wakeups[0]->sleepers, __ATOMIC_RELAXED) != 0;
    return 0;
}

/* The ring comes between the announcement and the sleep. */
static void a_ring_before_the_sleep(void)
{
    pgasi_wait_t w = PGASI_WAIT_INIT;
    n_rung = 0;
    pgasi_hooks.woken = count_rung;
    while (!w.announced)
        pgasi_wait_step(&w);
    bool woke = pgasi_wake_threads(0);
    pgasi_wait_step(&w);
    pgasi_hooks.woken = NULL;
    ok(!woke && n_rung == 1 && !w.announced && pgasi_wakeups[0]->sleepers == 0,
       "a ring just before the sleep is one, too");
    pgasi_wait_end(&w);
}

/* The same limit of steps as for a wait that announces itself. */
static void quiet_waits_are_not_counted(void)
{
    pgasi_wait_t w = PGASI_WAIT_INIT, loud = PGASI_WAIT_INIT;
    bool counted = false;
    for (int i = 0; i < 300000 && !loud.announced; i++) {
        pgasi_wait_step(&loud);
        pgasi_wait_step_quiet(&w);
        counted = counted || w.announced;
    }
    bool announced = loud.announced;
    pgasi_wait_end(&loud);
    pgasi_wait_end(&w);
    ok(announced && !counted && pgasi_wakeups[0]->sleepers == 0,
       "a wait that does not serve is not counted as asleep");
}

static int counted_at_end = -1;

static void on_block(bool begins)
{
    if (!begins)
        counted_at_end = (int)pgasi_wakeups[0]->sleepers;
}

/* Taking its run token again may last long. */
static void a_wait_that_ends_is_not_counted(void)
{
    pgasi_wait_t w = PGASI_WAIT_INIT;
    pgasi_thread_hooks.on_block = on_block;
    while (!w.announced)
        pgasi_wait_step(&w);
    n_progress = 0;
    pgasi_hooks.progress = progress_sees_itself_counted;
    pgasi_wait_end(&w);
    pgasi_hooks.progress = progress_nothing;
    pgasi_thread_hooks.on_block = NULL;
    is_int(counted_at_end, 0, "a thread that waits for its run token is not counted");
    is_int(n_progress, 0, "nor in its last round of progress");
}

/* ---- changes for the service alone ---- */

#define SERVICE_ROUNDS 60000
#define LOST_MS        2000

static uint64_t for_service, by_service;
static bool announces; /* else it only rests */

/* Lines that both write: the waker's stores to them delay the one that matters, which its load of
 * the wakeup flag may overtake. */
static struct {
    _Alignas(64) uint64_t word;
} ballast[12];

static void write_ballast(uint64_t value)
{
    for (size_t i = 0; i < PGASI_ARRAY_LENGTH(ballast); i++)
        __atomic_store_n(&ballast[i].word, value, __ATOMIC_RELAXED);
}

static void sleep_begins(void)
{
    if (announces)
        pgasi_wait_service_announce();
    else
        pgasi_wait_service_rests(true);
}

static void sleep_ends(void)
{
    if (announces)
        pgasi_wait_service_revoke();
    else
        pgasi_wait_service_rests(false);
}

static void *ring_the_service(void *arg)
{
    (void)arg;
    for (uint64_t i = 1;
         i <= SERVICE_ROUNDS && __atomic_load_n(&by_service, __ATOMIC_ACQUIRE) != UINT64_MAX; i++) {
        while (__atomic_load_n(&by_service, __ATOMIC_ACQUIRE) < i - 1) {
        }
        write_ballast(i);
        __atomic_store_n(&for_service, i, __ATOMIC_RELEASE);
        if (announces)
            pgasi_wake(0);
        else
            pgasi_wake_service(0);
    }
    return NULL;
}

/* The service checks once between the announcement of its sleep and the sleep. The waking thread
 * checks once after its store. Each time the service is a few instructions later, so that both
 * meet. */
static void rings_for_the_service_are_heard(bool by_wakeup)
{
    pthread_t thread;
    struct pollfd kicked = { .fd = pgasi_wait_kick_fd(), .events = POLLIN };
    int n_lost = 0;
    announces = by_wakeup;
    for_service = by_service = 0;
    pthread_create(&thread, NULL, ring_the_service, NULL);
    for (uint64_t done = 0; done < SERVICE_ROUNDS && n_lost == 0;) {
        for (volatile uint64_t late = done % 128; late > 0; late--) {
        }
        sleep_begins();
        if (__atomic_load_n(&for_service, __ATOMIC_ACQUIRE) == done &&
            poll(&kicked, 1, LOST_MS) == 0)
            n_lost += __atomic_load_n(&for_service, __ATOMIC_ACQUIRE) != done;
        sleep_ends();
        done = __atomic_load_n(&for_service, __ATOMIC_ACQUIRE);
        write_ballast(done);
        __atomic_store_n(&by_service, n_lost ? UINT64_MAX : done, __ATOMIC_RELEASE);
    }
    pthread_join(thread, NULL);
    is_int(n_lost, 0, "no ring for the service is lost, %s",
           by_wakeup ? "by the wakeup flag" : "also in a nap");
    ok(pgasi_wakeups[0]->resting == 0 && pgasi_wakeups[0]->sleepers == 0, "and it sleeps no more");
}

/* ---- other processes ---- */

#define KICKERS    4
#define PEERS      16
#define FIRST_PEER 1

static uint64_t n_at_start;

static int open_fds(void)
{
    int n = 0;
    DIR *fds = opendir("/proc/self/fd");
    while (fds && readdir(fds))
        n++;
    if (fds)
        closedir(fds);
    return n;
}

/* A process whose pipe belongs to the wakeup flags from first on; it lives until it is killed. */
static pid_t peer_start(int first, int n, int *read_end_p)
{
    int fds[2];
    struct stat s;
    if (pipe(fds) != 0 || fstat(fds[1], &s) != 0)
        bail("no pipe");
    pid_t pid = fork();
    if (pid == 0)
        for (;;)
            pause();
    for (int i = first; i < first + n; i++)
        *pgasi_wakeups[i] = (pgasi_wakeup_t){ .kick_fd = fds[1],
                                              .pid = (int32_t)pid,
                                              .kick_inode = (uint64_t)s.st_ino };
    close(fds[1]);
    *read_end_p = fds[0];
    return pid;
}

static void peer_kill(pid_t pid)
{
    kill(pid, SIGKILL);
    waitpid(pid, NULL, 0);
}

static void *kick_all(void *arg)
{
    (void)arg;
    __atomic_fetch_add(&n_at_start, 1, __ATOMIC_ACQ_REL);
    for (int i = FIRST_PEER; i < FIRST_PEER + PEERS; i++) {
        while (__atomic_load_n(&n_at_start, __ATOMIC_ACQUIRE) <
               (uint64_t)KICKERS * (uint64_t)(i - FIRST_PEER + 1)) {
        }
        pgasi_wake_service(i);
        __atomic_fetch_add(&n_at_start, 1, __ATOMIC_ACQ_REL);
    }
    return NULL;
}

/* All threads kick each peer for the first time at once. */
static void first_kicks(void)
{
    pthread_t thread[KICKERS];
    int read_end, n_bytes = 0;
    pid_t pid = peer_start(FIRST_PEER, PEERS, &read_end);
    for (int i = FIRST_PEER; i < FIRST_PEER + PEERS; i++)
        pgasi_wakeups[i]->resting = 1;
    int before = open_fds();
    n_at_start = 0;
    for (int i = 0; i < KICKERS; i++)
        pthread_create(&thread[i], NULL, kick_all, NULL);
    for (int i = 0; i < KICKERS; i++)
        pthread_join(thread[i], NULL);
    is_int(open_fds() - before, PEERS, "of several first kicks of a peer one descriptor is left");
    struct pollfd p = { .fd = read_end, .events = POLLIN };
    for (char byte; poll(&p, 1, 0) == 1 && p.revents & POLLIN && read(read_end, &byte, 1) == 1;)
        n_bytes++;
    is_int(n_bytes, KICKERS * PEERS, "and every kick arrives");
    close(read_end);
    peer_kill(pid);
    for (int i = FIRST_PEER; i < FIRST_PEER + PEERS; i++)
        pgasi_wake_service(i);
    ok(1, "kicks of a dead rank raise no signal");
}

/* The pipe of a rank that is not there any more, or of one that this process cannot see. */
static void what_cannot_be_kicked(void)
{
    int number = FIRST_PEER + PEERS, read_end;
    peer_kill(peer_start(number, 1, &read_end));
    pgasi_wakeups[number]->sleepers = PGASI_WAKEUP_SERVICE;
    pgasi_wake(number);
    ok(pgasi_wakeups[number]->sleepers == PGASI_WAKEUP_SERVICE && pgasi_wakeups[number]->unreached,
       "a service that could not be kicked is still announced, and knows");
    close(read_end);

    number++;
    pid_t pid = peer_start(number, 1, &read_end);
    pgasi_wakeups[number]->kick_inode++;
    pgasi_wakeups[number]->resting = 1;
    struct pollfd p = { .fd = read_end, .events = POLLIN };
    pgasi_wake_service(number);
    ok(pgasi_wakeups[number]->unreached && poll(&p, 1, 0) == 0,
       "nothing is written to a file that is not that rank's pipe");
    close(read_end);
    peer_kill(pid);

    ok(!pgasi_wait_is_unreached(), "ranks that were always reached");
    __atomic_store_n(&pgasi_wakeups[0]->unreached, 1, __ATOMIC_RELAXED);
    ok(pgasi_wait_is_unreached(), "and those that were not, know it");
}

/* ---- other memory ---- */

/* As when an init moves them, fails, and a later one does not get so far. */
static void bells_move(void)
{
    static pgasi_wakeup_t elsewhere;
    pgasi_wakeup_t *home = pgasi_wakeups[0], *there = &elsewhere;
    pgasi_wait_restore_wakeups();
    ok(pgasi_wakeups[0] == home, "wakeup flags that have not moved stay");
    pgasi_wait_make_wakeup(there);
    ok(pgasi_wait_move_wakeups(&there) == PGAS_OK && pgasi_wakeups[0] == there,
       "wakeup flags move");
    pgasi_wait_service_announce();
    pgasi_wake(0);
    ok(readable(pgasi_wait_kick_fd()) && home->sleepers == 0, "and ring there");
    pgasi_wait_service_revoke();
    pgasi_wait_restore_wakeups();
    ok(pgasi_wakeups[0] == home && there->sleepers == 0, "and go home");
    pgasi_wait_restore_wakeups();
    ok(pgasi_wakeups[0] == home, "once");
}

/* ---- the barrier ---- */

/* Said and ended: peers make no fences, so that going on would lose wake-ups. */
static void a_barrier_that_fails(void)
{
    char said[4096] = "";
    size_t used = 0;
    int fds[2], status = 0;
    ssize_t n;
    if (pgasi_wait_light_is_fence) {
        skip(1, "no membarrier here");
        return;
    }
    if (pipe(fds) != 0)
        bail("no pipe");
    pid_t pid = fork();
    if (pid == 0) {
        dup2(fds[1], 2);
        if (forbid_syscall(SYS_membarrier, ENOSYS))
            pgasi_wait_heavy_barrier();
        _exit(0);
    }
    close(fds[1]);
    while (used < sizeof said - 1 && (n = read(fds[0], said + used, sizeof said - 1 - used)) > 0)
        used += (size_t)n;
    close(fds[0]);
    waitpid(pid, &status, 0);
    ok(WIFSIGNALED(status) && WTERMSIG(status) == SIGABRT &&
           strstr(said, "membarrier fails (errno 38)"),
       "a process whose barrier fails later ends, and says why");
}

static void limits(void)
{
    uint64_t before = pgasi_now_ns(), limit = pgasi_limit_ns(1000), after = pgasi_now_ns();
    ok(limit >= before + 1000000 && limit <= after + 1000000 && !pgasi_wait_is_over(limit) &&
           pgasi_wait_is_over(before - 1),
       "a wait ends after its microseconds");
    ok(pgasi_limit_ns(-1) == UINT64_MAX && pgasi_limit_ns(INT64_MAX) == UINT64_MAX &&
           pgasi_limit_ns(INT64_MAX / 400) == UINT64_MAX && !pgasi_wait_is_over(UINT64_MAX),
       "or never, if they are more than can be counted");
}

int main(void)
{
    plan(37);
    ok(pgasi_boot_start(NULL, "SPIN_US=5 NAP_MAX_US=2000") == PGAS_OK, "start");
    pgasi_hooks.progress = progress_nothing;
    changes_are_seen();
    sleepers_are_counted();
    the_service_sleeps_on_a_descriptor();
    a_ring_wakes_somebody();
    a_ring_before_the_sleep();
    quiet_waits_are_not_counted();
    a_wait_that_ends_is_not_counted();
    rings_for_the_service_are_heard(false);
    rings_for_the_service_are_heard(true);
    first_kicks();
    what_cannot_be_kicked();
    bells_move();
    a_barrier_that_fails();
    limits();
    pgasi_boot_stop();
    return done();
}
