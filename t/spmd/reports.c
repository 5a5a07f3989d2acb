/* SIGUSR2 and programs that block it, or keep the library's handler.
 *   what:   A rank that blocks SIGUSR2 while another rank asks for reports has no pending signal,
 *           also after pgas_finalize. A handler that outlives the library writes to no descriptor.
 *   np:     2
 *   nodes:  0
 *   env:    PGAS_ON_PEER_DEATH=abort | PGAS_ON_PEER_DEATH=continue
 *   log:    report: warn:
 *   turn:   waits
 *   source: docs/debugging.md
 */
#include <signal.h>
#include <sys/eventfd.h>
#include <time.h>
#include <unistd.h>
#include "t/spmd/job.h"

#define MANY 32

static bool is_pending(void)
{
    sigset_t pending;
    return sigpending(&pending) != 0 || sigismember(&pending, SIGUSR2);
}

/* The descriptors take the numbers of those that the library has closed. */
static bool writes_nowhere(void)
{
    int fds[MANY];
    uint64_t count;
    bool good = true;
    for (int i = 0; i < MANY; i++)
        fds[i] = eventfd(0, EFD_NONBLOCK);
    raise(SIGUSR2);
    for (int i = 0; i < MANY; i++) {
        good = good && fds[i] >= 0 && read(fds[i], &count, sizeof count) < 0;
        close(fds[i]);
    }
    return good;
}

int main(int argc, char **argv)
{
    const struct timespec while_asked = { 0, 500000000 };
    struct sigaction handler;
    sigset_t usr2;
    job_begin(&argc, &argv, 2);
    sigemptyset(&usr2);
    sigaddset(&usr2, SIGUSR2);
    if (pgas_rank() == 1)
        sigprocmask(SIG_BLOCK, &usr2, NULL);
    pgas_barrier(NULL);
    if (pgas_rank() == 0)
        raise(SIGUSR2);
    nanosleep(&while_asked, NULL);
    pgas_barrier(NULL);
    sigaction(SIGUSR2, NULL, &handler);
    job_stop();
    spmd_ok(!is_pending(), "no signal is left pending in a rank that blocks it");
    sigaction(SIGUSR2, &handler, NULL);
    sigprocmask(SIG_UNBLOCK, &usr2, NULL);
    spmd_ok(writes_nowhere(), "a handler that outlives the library writes to no descriptor");
    return spmd_end();
}
