/* Reports of a job that does not proceed: SIGUSR2 to one rank makes every rank log the stack of its
 * initial thread.
 *
 * The handler is installed only if the program has none. A signal that another process sends with
 * sigqueue, as the library does, requests a report of this rank alone; any other signal requests
 * reports of all ranks. The watch passes the request on (watch.c). Then it sends the signal to the
 * initial thread, whose handler stores the stack, and the watch logs the stack. */
#include "boot/watch.h"

#include <errno.h>
#include <execinfo.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/log.h"

#define SIGNAL      SIGUSR2
#define FRAMES_MAX  24
#define N_OWN       2 /* frames of the handler itself */
#define PATIENCE_MS 1000
#define STEP_MS     10
#define INTERVAL_NS PGASI_NS_PER_S /* a launcher may send the signal to all ranks */

static struct {
    pthread_t initial;
    pid_t initial_tid;
    int wake_fd;
    bool installed;
    pgasi_report_from_t asked;
    bool wants_stack;
    void *frames[FRAMES_MAX];
    int n_frames;
    int stored_fd; /* an eventfd: the stack is stored */
    uint64_t last_ns;
} reports = { .wake_fd = -1, .stored_fd = -1 };

static void on_signal(int number, siginfo_t *info, void *context)
{
    int saved_errno = errno;
    uint64_t one = 1;
    (void)number;
    (void)context;
    if (pthread_equal(pthread_self(), reports.initial) &&
        __atomic_exchange_n(&reports.wants_stack, false, __ATOMIC_ACQ_REL)) {
        reports.n_frames = pgasi_backtrace(reports.frames, FRAMES_MAX);
        if (write(reports.stored_fd, &one, sizeof one) < 0)
            errno = 0; /* an earlier event is still in it */
    } else {
        bool here = info->si_code == SI_QUEUE && info->si_pid != getpid();
        pgasi_report_from_t from = here ? PGASI_REPORT_HERE : PGASI_REPORT_ALL;
        __atomic_store_n(&reports.asked, from, __ATOMIC_RELEASE);
        if (write(reports.wake_fd, &one, sizeof one) < 0)
            errno = 0; /* it is awake already */
    }
    errno = saved_errno;
}

void pgasi_report_start(int wake)
{
    struct sigaction former, ours;
    reports.initial = pthread_self();
    reports.initial_tid = gettid();
    reports.wake_fd = wake;
    reports.asked = PGASI_REPORT_NONE;
    reports.wants_stack = false;
    reports.last_ns = 0;
    memset(&ours, 0, sizeof ours);
    ours.sa_sigaction = on_signal;
    ours.sa_flags = SA_SIGINFO | SA_RESTART | SA_ONSTACK;
    sigemptyset(&ours.sa_mask);
    bool is_free = sigaction(SIGNAL, NULL, &former) == 0 && !(former.sa_flags & SA_SIGINFO) &&
                   former.sa_handler == SIG_DFL;
    reports.stored_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    reports.installed = is_free && reports.stored_fd >= 0 && sigaction(SIGNAL, &ours, NULL) == 0;
}

/* The program may have installed another handler meanwhile. */
static bool has_handler(void)
{
    struct sigaction now;
    return reports.installed && sigaction(SIGNAL, NULL, &now) == 0 && (now.sa_flags & SA_SIGINFO) &&
           now.sa_sigaction == on_signal;
}

void pgasi_report_stop(void)
{
    if (has_handler())
        signal(SIGNAL, SIG_DFL);
    reports.installed = false;
    reports.wake_fd = -1; /* a handler of the program may still call this one */
    if (reports.stored_fd >= 0)
        close(reports.stored_fd);
    reports.stored_fd = -1;
}

pgasi_report_from_t pgasi_report_asked(void)
{
    return __atomic_exchange_n(&reports.asked, PGASI_REPORT_NONE, __ATOMIC_ACQ_REL);
}

/* SIGUSR2 would end a process without a handler. If the thread blocks SIGUSR2, the signal would
 * stay pending, and would end the process when the thread unblocks it after pgas_finalize.
 * @param path     the status of a process (of its main thread) or of a thread
 * @param unknown  the answer if the file cannot be opened */
static bool takes_signal(const char *path, bool unknown)
{
    char line[256];
    unsigned long long blocked = 0, caught = 0;
    FILE *status = fopen(path, "re");
    if (!status)
        return unknown;
    while (fgets(line, sizeof line, status))
        if (sscanf(line, "SigBlk: %llx", &blocked) != 1 &&
            sscanf(line, "SigCgt: %llx", &caught) == 1)
            break;
    fclose(status);
    return (caught & ~blocked) >> (SIGNAL - 1) & 1;
}

static bool process_takes_signal(pid_t pid)
{
    char path[64];
    snprintf(path, sizeof path, "/proc/%d/status", (int)pid);
    return takes_signal(path, false);
}

static bool initial_takes_signal(void)
{
    char path[64];
    snprintf(path, sizeof path, "/proc/self/task/%d/status", (int)reports.initial_tid);
    return has_handler() && takes_signal(path, true);
}

void pgasi_report_ask_host(void)
{
    const union sigval nothing = { .sival_int = 0 };
    for (int i = 0; i < pgasi_boot.host_ranks; i++) {
        bool other = pgasi_boot.host_members[i] != pgasi_boot.rank && pgasi_boot.host_pids[i];
        if (other && process_takes_signal(pgasi_boot.host_pids[i]))
            sigqueue(pgasi_boot.host_pids[i], SIGNAL, nothing);
    }
}

/* An event that is already there belongs to the stack of an earlier request. */
static bool get_stack(void)
{
    struct pollfd stored = { .fd = reports.stored_fd, .events = POLLIN };
    uint64_t count;
    int rc;
    if (reports.stored_fd < 0 ||
        (read(reports.stored_fd, &count, sizeof count) < 0 && errno != EAGAIN))
        return false;
    for (int ms = 0; !initial_takes_signal(); ms += STEP_MS) { /* it may be inside the handler */
        if (!has_handler() || ms >= PATIENCE_MS)
            return false;
        poll(NULL, 0, STEP_MS);
    }
    __atomic_store_n(&reports.wants_stack, true, __ATOMIC_RELEASE);
    if (pthread_kill(reports.initial, SIGNAL) != 0)
        return false;
    do
        rc = poll(&stored, 1, PATIENCE_MS);
    while (rc < 0 && errno == EINTR);
    if (rc <= 0 && __atomic_exchange_n(&reports.wants_stack, false, __ATOMIC_ACQ_REL))
        return false;
    return rc > 0 || poll(&stored, 1, PATIENCE_MS) > 0;
}

void pgasi_report_log(void)
{
    uint64_t now = pgasi_now_ns();
    if (reports.last_ns && now - reports.last_ns < INTERVAL_NS)
        return;
    reports.last_ns = now;
    if (!get_stack()) {
        pgasi_log_line(
            PGASI_LOG_WARN, "report",
            "the initial thread does not answer SIGUSR2, or the program handles or blocks it");
        return;
    }
    char **name = backtrace_symbols(reports.frames, reports.n_frames);
    pgasi_log_line(PGASI_LOG_WARN, "report", "the initial thread of this rank is in:");
    for (int i = N_OWN; name && i < reports.n_frames; i++)
        pgasi_log_line(PGASI_LOG_WARN, "report", "  %s", name[i]);
    free(name);
}
