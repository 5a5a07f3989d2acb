/* Reports of a job that does not go on: SIGUSR2 to one rank makes every rank log the stack of its
 * initial thread.
 *
 * The handler is installed only if the program has none. A signal that another process sends with
 * sigqueue, as the library does, asks this rank alone; any other signal asks all ranks. The watch
 * passes the request on (watch.c). Then it sends the signal to the initial thread, whose handler
 * stores the stack, and the watch logs the stack. */
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

static pthread_t initial;
static pid_t initial_tid;
static int wake_fd = -1;
static bool installed;
static pgasi_report_from_t asked;
static bool wants_stack;
static void *frames[FRAMES_MAX];
static int n_frames;
static int stored_fd = -1; /* an eventfd: the stack is stored */
static uint64_t last_ns;

static void on_signal(int number, siginfo_t *info, void *context)
{
    int saved_errno = errno;
    uint64_t one = 1;
    (void)number;
    (void)context;
    if (pthread_equal(pthread_self(), initial) &&
        __atomic_exchange_n(&wants_stack, false, __ATOMIC_ACQ_REL)) {
        n_frames = backtrace(frames, FRAMES_MAX);
        if (write(stored_fd, &one, sizeof one) < 0)
            errno = 0; /* it was written to before */
    } else {
        bool here = info->si_code == SI_QUEUE && info->si_pid != getpid();
        pgasi_report_from_t from = here ? PGASI_REPORT_HERE : PGASI_REPORT_ALL;
        __atomic_store_n(&asked, from, __ATOMIC_RELEASE);
        if (write(wake_fd, &one, sizeof one) < 0)
            errno = 0; /* it is awake already */
    }
    errno = saved_errno;
}

void pgasi_report_start(int wake)
{
    struct sigaction former, ours;
    initial = pthread_self();
    initial_tid = gettid();
    wake_fd = wake;
    asked = PGASI_REPORT_NONE;
    wants_stack = false;
    last_ns = 0;
    memset(&ours, 0, sizeof ours);
    ours.sa_sigaction = on_signal;
    ours.sa_flags = SA_SIGINFO | SA_RESTART | SA_ONSTACK;
    sigemptyset(&ours.sa_mask);
    bool is_free = sigaction(SIGNAL, NULL, &former) == 0 && !(former.sa_flags & SA_SIGINFO) &&
                   former.sa_handler == SIG_DFL;
    backtrace(frames, FRAMES_MAX); /* the first call loads a library: not for handlers */
    stored_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    installed = is_free && stored_fd >= 0 && sigaction(SIGNAL, &ours, NULL) == 0;
}

/* The program may have installed another handler since. */
static bool has_handler(void)
{
    struct sigaction now;
    return installed && sigaction(SIGNAL, NULL, &now) == 0 && (now.sa_flags & SA_SIGINFO) &&
           now.sa_sigaction == on_signal;
}

void pgasi_report_stop(void)
{
    if (has_handler())
        signal(SIGNAL, SIG_DFL);
    installed = false;
    wake_fd = -1; /* a handler of the program may still call this one */
    if (stored_fd >= 0)
        close(stored_fd);
    stored_fd = -1;
}

pgasi_report_from_t pgasi_report_asked(void)
{
    return __atomic_exchange_n(&asked, PGASI_REPORT_NONE, __ATOMIC_ACQ_REL);
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
    snprintf(path, sizeof path, "/proc/self/task/%d/status", (int)initial_tid);
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

/* An event that is there already is late: of a stack that a former request asked for. */
static bool get_stack(void)
{
    struct pollfd stored = { .fd = stored_fd, .events = POLLIN };
    uint64_t count;
    int rc;
    if (stored_fd < 0 || (read(stored_fd, &count, sizeof count) < 0 && errno != EAGAIN))
        return false;
    for (int ms = 0; !initial_takes_signal(); ms += STEP_MS) { /* it may be inside the handler */
        if (!has_handler() || ms >= PATIENCE_MS)
            return false;
        poll(NULL, 0, STEP_MS);
    }
    __atomic_store_n(&wants_stack, true, __ATOMIC_RELEASE);
    if (pthread_kill(initial, SIGNAL) != 0)
        return false;
    do
        rc = poll(&stored, 1, PATIENCE_MS);
    while (rc < 0 && errno == EINTR);
    if (rc <= 0 && __atomic_exchange_n(&wants_stack, false, __ATOMIC_ACQ_REL))
        return false;
    return rc > 0 || poll(&stored, 1, PATIENCE_MS) > 0;
}

void pgasi_report_log(void)
{
    uint64_t now = pgasi_now_ns();
    if (last_ns && now - last_ns < INTERVAL_NS)
        return;
    last_ns = now;
    if (!get_stack()) {
        pgasi_log_line(
            PGASI_LOG_WARN, "report",
            "the initial thread does not answer SIGUSR2, or the program handles or blocks it");
        return;
    }
    char **name = backtrace_symbols(frames, n_frames);
    pgasi_log_line(PGASI_LOG_WARN, "report", "the initial thread of this rank is in:");
    for (int i = N_OWN; name && i < n_frames; i++)
        pgasi_log_line(PGASI_LOG_WARN, "report", "  %s", name[i]);
    free(name);
}
