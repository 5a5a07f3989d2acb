/* Waiting without wasting the processor.
 *
 * Shaped for two cases: ranks with cores of their own, where an answer arrives within a microsecond
 * and spinning is right; and more runnable threads than cores, where every spin delays the thread
 * that is waited for. So a wait spins for PGAS_SPIN_US (not when oversubscribed), yields a few
 * dozen times, then sleeps on the futex of the wakeup flag.
 *
 * Why no wakeup is lost: a sleeper increments `sleepers`, runs membarrier on all registered
 * processes, then polls again and only then sleeps. A waker stores its change, then loads
 * `sleepers` with a compiler barrier in between. The membarrier happens either before the waker's
 * load (which then sees the sleeper) or after its store (which the sleeper's second poll then
 * sees).
 *
 * Choice of the thread to wake: a waker that finds both a sleeper and a sleeping service thread
 * wakes the sleeper only. Each thread that is woken runs everything that has arrived, independent
 * of the event for which it waits. A counted sleeper may be awake at that moment: it works, or it
 * leaves its wait. The futex call returns the number of woken threads; if it is 0, the waker wakes
 * the service thread too. wait.pml models this protocol. */
#include "boot/wait.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/futex.h>
#include <linux/membarrier.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/param.h"
#include "base/sync.h"
#include "boot/boot.h"
#include "boot/hooks.h"

#define SPINS_PER_CLOCK     16
#define FREE_LOOKS          64 /* the progress round between them is long enough as a pause */
#define YIELDS_BEFORE_SLEEP (FREE_LOOKS + 40)
#define NAP_MIN_US          50
#define MESSAGES_NS         UINT64_C(20000000)
#define NAP_SHARE           16 /* a nap is at most this fraction of the time waited so far */
#define KICK_FDS_MAX        1024
#define MEMBARRIER_TRIES    1000

pgasi_wakeup_t **pgasi_wakeups;
bool pgasi_wait_light_is_fence;

static struct {
    int own_pipe[2];
    int peer_fd[KICK_FDS_MAX]; /* fd + 1 by number of the wakeup flag, 0: not open yet */
} kicks = { .own_pipe = { -1, -1 } };
static pgasi_wakeup_t **wakeups_before_move; /* [node_size]; NULL: they were not moved */

static pgasi_wakeup_t *own_wakeup(void)
{
    return pgasi_wakeups[pgasi_boot.node_rank];
}

/* The kernel may lack memory for a moment. After the registration only a system call filter that
 * was installed later causes another failure. Then no fence of this process replaces the barrier,
 * because its peers use none. */
static void membarrier(void)
{
    for (int i = 0; syscall(SYS_membarrier, MEMBARRIER_CMD_GLOBAL_EXPEDITED, 0, 0) != 0; i++) {
        if (errno != ENOMEM || i == MEMBARRIER_TRIES)
            pgasi_fatal("wait",
                        "membarrier fails (errno %d), but worked in pgas_init: set system call "
                        "filters earlier",
                        errno);
        sched_yield();
    }
}

void pgasi_wait_heavy_barrier(void)
{
    if (!pgasi_wait_light_is_fence)
        membarrier();
    __atomic_thread_fence(__ATOMIC_SEQ_CST);
}

void pgasi_wait_make_wakeup(pgasi_wakeup_t *wakeup)
{
    struct stat pipe_stat;
    wakeup->kick_fd = kicks.own_pipe[1];
    wakeup->pid = (int32_t)getpid();
    wakeup->kick_inode = fstat(kicks.own_pipe[1], &pipe_stat) == 0 ? (uint64_t)pipe_stat.st_ino : 0;
}

static bool register_for_membarrier(void)
{
    return syscall(SYS_membarrier, MEMBARRIER_CMD_REGISTER_GLOBAL_EXPEDITED, 0, 0) == 0;
}

/* In a process with threads, of MPI for example, the first registration waits for a grace period of
 * the kernel: 10 to 20 ms were measured. Before main it costs one system call. */
__attribute__((constructor)) static void register_early(void)
{
    (void)register_for_membarrier();
}

pgas_status_t pgasi_wait_start(void)
{
    pgasi_wait_light_is_fence = !register_for_membarrier();
    if (pipe2(kicks.own_pipe, O_NONBLOCK | O_CLOEXEC) != 0) {
        PGASI_ERROR("wait", "cannot open a pipe: errno %d", errno);
        return PGAS_ERR_IO;
    }
    pgasi_wait_make_wakeup(own_wakeup());
    return PGAS_OK;
}

pgas_status_t pgasi_wait_move_wakeups(pgasi_wakeup_t *const *wakeup_of)
{
    size_t n = (size_t)pgasi_boot.node_size;
    pgasi_wakeup_t **home = malloc(n * sizeof *home);
    if (!home)
        return PGAS_ERR_NO_MEMORY;
    memcpy(home, pgasi_wakeups, n * sizeof *home);
    wakeups_before_move = home;
    for (size_t i = 0; i < n; i++)
        __atomic_store_n(&pgasi_wakeups[i], wakeup_of[i], __ATOMIC_RELEASE);
    return PGAS_OK;
}

void pgasi_wait_restore_wakeups(void)
{
    if (!wakeups_before_move)
        return;
    memcpy(pgasi_wakeups, wakeups_before_move,
           (size_t)pgasi_boot.node_size * sizeof *pgasi_wakeups);
    free(wakeups_before_move);
    wakeups_before_move = NULL;
}

void pgasi_wait_stop(void)
{
    for (int i = 0; i < KICK_FDS_MAX; i++) {
        if (kicks.peer_fd[i] > 0)
            close(kicks.peer_fd[i] - 1);
        kicks.peer_fd[i] = 0;
    }
    for (int i = 0; i < 2; i++) {
        if (kicks.own_pipe[i] >= 0)
            close(kicks.own_pipe[i]);
        kicks.own_pipe[i] = -1;
    }
}

int pgasi_wait_kick_fd(void)
{
    return kicks.own_pipe[0];
}

static bool is_dead(int number)
{
    bool on_node = number < pgasi_boot.node_size;
    return pgasi_boot_is_dead(on_node ? pgasi_boot.node_members[number]
                                      : number - pgasi_boot.node_size);
}

/* Opens the owner's pipe, for reading too: otherwise, after the owner's death, a write to a pipe
 * without a reader would end this process by SIGPIPE. The owner's process and descriptor numbers
 * may refer to something else if the owner has died or is in another PID namespace. @return -1: it
 * cannot be opened */
static int open_pipe(const pgasi_wakeup_t *wakeup)
{
    char path[64];
    struct stat found;
    snprintf(path, sizeof path, "/proc/%d/fd/%d", (int)wakeup->pid, (int)wakeup->kick_fd);
    int fd = open(path, O_RDWR | O_NONBLOCK | O_CLOEXEC | O_NOCTTY);
    if (fd < 0)
        return -1;
    if (fstat(fd, &found) == 0 && S_ISFIFO(found.st_mode) &&
        (uint64_t)found.st_ino == wakeup->kick_inode)
        return fd;
    close(fd);
    errno = ESRCH;
    return -1;
}

/* Returns the descriptor of a rank's pipe in this process, opened at the first kick; -1: it cannot
 * be opened. */
static int kick_fd_of(int number)
{
    if (number == pgasi_boot.node_rank)
        return kicks.own_pipe[1];
    if (number >= KICK_FDS_MAX)
        return -1;
    int known = __atomic_load_n(&kicks.peer_fd[number], __ATOMIC_ACQUIRE);
    if (known)
        return known - 1;
    int fd = open_pipe(pgasi_wakeups[number]);
    if (fd < 0) {
        static int warned;
        if (!is_dead(number))
            pgasi_warn_once(
                &warned, "wait",
                "cannot open the pipe of process %d (errno %d): it polls every millisecond instead",
                (int)pgasi_wakeups[number]->pid, errno);
        return -1;
    }
    int expected = 0;
    if (!__atomic_compare_exchange_n(&kicks.peer_fd[number], &expected, fd + 1, false,
                                     __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE)) {
        close(fd);
        fd = expected - 1;
    }
    return fd;
}

/* @return false: the pipe holds no byte */
static bool kick(int number)
{
    int fd = kick_fd_of(number);
    if (fd >= 0 && (write(fd, "", 1) == 1 || errno == EAGAIN))
        return true;
    __atomic_store_n(&pgasi_wakeups[number]->unreached, 1, __ATOMIC_RELAXED);
    return false;
}

bool pgasi_wake_threads(int number)
{
    pgasi_wakeup_t *wakeup = pgasi_wakeups[number];
    __atomic_fetch_add(&wakeup->word, 1, __ATOMIC_RELEASE);
    return syscall(SYS_futex, &wakeup->word, FUTEX_WAKE, INT_MAX, NULL, NULL, 0) > 0;
}

void pgasi_wake_slow(int number)
{
    pgasi_wakeup_t *wakeup = pgasi_wakeups[number];
    __atomic_thread_fence(__ATOMIC_SEQ_CST);
    uint32_t sleepers = __atomic_load_n(&wakeup->sleepers, __ATOMIC_RELAXED);
    if (sleepers & (PGASI_WAKEUP_SERVICE - 1) && pgasi_wake_threads(number))
        return;
    if (!(sleepers & PGASI_WAKEUP_SERVICE) ||
        !(__atomic_fetch_and(&wakeup->sleepers, ~PGASI_WAKEUP_SERVICE, __ATOMIC_ACQ_REL) &
          PGASI_WAKEUP_SERVICE))
        return;
    if (!kick(number)) /* the next waker tries again; a stale bit costs one extra kick */
        __atomic_fetch_or(&wakeup->sleepers, PGASI_WAKEUP_SERVICE, __ATOMIC_ACQ_REL);
}

void pgasi_wake_service(int number)
{
    pgasi_wakeup_t *wakeup = pgasi_wakeups[number];
    __atomic_thread_fence(__ATOMIC_SEQ_CST);
    if (__atomic_load_n(&wakeup->resting, __ATOMIC_RELAXED))
        kick(number);
}

bool pgasi_wait_is_unreached(void)
{
    return __atomic_load_n(&own_wakeup()->unreached, __ATOMIC_RELAXED) != 0;
}

void pgasi_wait_service_rests(bool rests)
{
    char drained[64];
    __atomic_fetch_add(&own_wakeup()->resting, rests ? 1 : UINT32_MAX, __ATOMIC_SEQ_CST);
    while (!rests && read(kicks.own_pipe[0], drained, sizeof drained) > 0) {
    }
}

void pgasi_wait_kick_own(void)
{
    if (write(kicks.own_pipe[1], "", 1) < 0 && errno != EAGAIN)
        PGASI_DEBUG("wait", "cannot wake the service thread: errno %d", errno);
}

void pgasi_wait_service_announce(void)
{
    __atomic_fetch_or(&own_wakeup()->sleepers, PGASI_WAKEUP_SERVICE, __ATOMIC_SEQ_CST);
    pgasi_wait_heavy_barrier();
}

void pgasi_wait_service_revoke(void)
{
    char drained[64];
    __atomic_fetch_and(&own_wakeup()->sleepers, ~PGASI_WAKEUP_SERVICE, __ATOMIC_SEQ_CST);
    while (read(kicks.own_pipe[0], drained, sizeof drained) > 0) {
    }
}

static void announce(pgasi_wait_t *w)
{
    pgasi_wakeup_t *wakeup = own_wakeup();
    w->word = __atomic_load_n(&wakeup->word, __ATOMIC_ACQUIRE);
    __atomic_fetch_add(&wakeup->sleepers, 1, __ATOMIC_SEQ_CST);
    w->announced = true;
    pgasi_wait_heavy_barrier();
    /* Only now: from here on other threads see the sleep, and raise no counter ahead. */
    if (pgasi_hooks.before_sleep)
        pgasi_hooks.before_sleep();
}

static void withdraw(pgasi_wait_t *w)
{
    __atomic_fetch_sub(&own_wakeup()->sleepers, 1, __ATOMIC_SEQ_CST);
    w->announced = false;
}

/* Sleeps until a wakeup or the end of the nap. */
static void nap(pgasi_wait_t *w)
{
    uint64_t waited_us = (pgasi_now_ns() - w->since_ns) / 1000;
    uint64_t nap_us = PGASI_MIN(waited_us / NAP_SHARE, (uint64_t)pgasi_param.nap_max_us);
    if (PGAS_UNLIKELY(pgasi_pollers_exist())) { /* their completions wake no thread */
        if (pgasi_pollers_sleep(waited_us))
            return;
        nap_us = PGASI_MIN(nap_us, PGASI_POLLERS_NAP_US);
    }
    nap_us = PGASI_MAX(nap_us, NAP_MIN_US);
    struct timespec limit = { (time_t)(nap_us / 1000000), (long)(nap_us % 1000000) * 1000 };
    pgasi_wakeup_t *wakeup = own_wakeup();
    if (pgasi_hooks.look_around)
        pgasi_hooks.look_around();
    long rc = syscall(SYS_futex, &wakeup->word, FUTEX_WAIT, w->word, &limit, NULL, 0);
    if (rc == 0 || errno == EAGAIN) { /* woken: stay awake for a while, because more may arrive */
        withdraw(w);
        w->steps = 0;
        w->spin_until_ns = 0;
        if (pgasi_hooks.woken)
            pgasi_hooks.woken();
    }
}

/* Messages of MPI wake no thread. While non-blocking collectives are under way a wait yields for a
 * while instead of sleeping, because many messages may follow each other. */
static bool expects_messages(const pgasi_wait_t *w)
{
    return PGAS_UNLIKELY(__atomic_load_n(&pgasi_coll_n_pending, __ATOMIC_RELAXED)) &&
           pgasi_now_ns() - w->since_ns < MESSAGES_NS;
}

/* The first polls do not read the clock, because most answers arrive within them. @return false:
 * the thread should sleep */
static bool stay_awake(pgasi_wait_t *w)
{
    w->steps++;
    if (w->steps < FREE_LOOKS && !pgasi_boot.oversubscribed)
        return true;
    if (!w->since_ns)
        w->since_ns = pgasi_now_ns();
    if (w->steps == FREE_LOOKS && !pgasi_boot.oversubscribed)
        w->spin_until_ns = pgasi_now_ns() + (uint64_t)pgasi_param.spin_us * 1000;
    if (w->spin_until_ns) {
        pgasi_cpu_relax();
        if (w->steps % SPINS_PER_CLOCK == 0 && pgasi_now_ns() > w->spin_until_ns) {
            w->spin_until_ns = 0;
            w->steps = FREE_LOOKS;
        }
    } else if ((w->steps < YIELDS_BEFORE_SLEEP && !pgasi_pollers_can_sleep()) ||
               expects_messages(w)) {
        sched_yield();
    } else {
        return false;
    }
    return true;
}

static void begin_block(pgasi_wait_t *w)
{
    w->away = true;
    pgasi_thread_hooks.on_block(true);
}

int pgasi_wait_do_work(void)
{
    int (*work)(void) = pgasi_thread_hooks.work;
    pgasi_thread_hooks.work = NULL;
    int n = work();
    pgasi_thread_hooks.work = work;
    return n;
}

void pgasi_wait_step(pgasi_wait_t *w)
{
    if (PGAS_UNLIKELY(pgasi_thread_hooks.on_block) && !w->away)
        begin_block(w);
    /* read once: the hook is removed when the job ends */
    int (*progress)(void) = pgasi_hooks.progress;
    if ((progress && progress() > 0) ||
        (PGAS_UNLIKELY(pgasi_thread_hooks.work) && pgasi_wait_do_work() > 0)) {
        if (w->announced)
            withdraw(w);
        w->steps = 0;
        return;
    }
    if (stay_awake(w))
        return;
    if (w->announced)
        nap(w);
    else
        announce(w);
}

void pgasi_wait_step_quiet(pgasi_wait_t *w)
{
    struct timespec limit = { 0, NAP_MIN_US * 1000 };
    if (!stay_awake(w))
        nanosleep(&limit, NULL);
}

void pgasi_wait_end_slow(pgasi_wait_t *w)
{
    if (w->announced) {
        withdraw(w);
        int (*progress)(void) = pgasi_hooks.progress;
        if (progress)
            progress();
    }
    /* last: it may take long, and the thread must not be counted as asleep meanwhile */
    if (w->away) {
        w->away = false;
        pgasi_thread_hooks.on_block(false);
    }
}
