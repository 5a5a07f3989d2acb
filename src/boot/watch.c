/* The watch: detects ranks of the job that have died.
 *
 * Ranks of the own host are watched by pidfd. Across hosts ranks watch each other on the service
 * ring (ring.h says what proves a death, links.c has the sockets). A job on one host has a ring
 * only in the mode continue, where the live ranks need it to leave together. A thread sleeps in
 * epoll on all these descriptors. With PGAS_SERVICE_THREADS=0 the thread exists only while MPI
 * blocks: during init, and while a team is made. Otherwise every wait polls before it sleeps.
 *
 * A new death is reported upward after the lock is released. The phase decides what follows:
 *   STARTING, INIT   The job ends in both modes of PGAS_ON_PEER_DEATH: init cannot succeed on some
 *                    ranks only.
 *   RUN              abort: the job ends. continue: hooks.rank_died runs. If MPI blocks
 *                    for the dead rank (pgasi_watch_block), the job ends in this mode, too. The
 *                    live ranks wait for each other before they leave (pgasi_watch_leave).
 *   ENDING           Ranks leave and say so on their links (BYE). A process that ended without it
 *                    is dead only if the last agreement stays open for PGAS_PEER_TIMEOUT_S. */
#include "boot/watch.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/param.h"
#include "boot/hooks.h"

#define POLL_MS   1000 /* interval of checks of processes without pidfd */
#define REPORT_MS 200  /* from the report of a death to the end of the job */

enum { SUSPECT = 1, LOST };

pgasi_watch_t pgasi_watch = { .lock = PTHREAD_MUTEX_INITIALIZER,
                              .hook_lock = PTHREAD_MUTEX_INITIALIZER,
                              .epoll_fd = -1,
                              .wake_fd = -1,
                              .abort_code = -1 };

/* ---- findings, under the lock ---- */

void pgasi_watch_died(void *arg, int rank, pgasi_ring_cause_t cause)
{
    (void)arg;
    pgasi_watch.news[pgasi_watch.n_news++] =
        (pgasi_watch_news_t){ rank, cause }; /* at most one for each rank, so it fits */
}

void pgasi_watch_report_wanted(void *arg)
{
    (void)arg;
    pgasi_watch.must_report = true;
}

void pgasi_watch_job_aborted(int rank, int exit_code)
{
    PGASI_INFO("watch", "rank %d ends the job with exit code %d", rank, exit_code);
    if (pgasi_watch.abort_code < 0)
        pgasi_watch.abort_code = exit_code;
}

static void process_ended(int rank)
{
    if (__atomic_load_n(&pgasi_watch.phase, __ATOMIC_RELAXED) != PGASI_WATCH_ENDING)
        pgasi_ring_exited(&pgasi_watch.ring, rank);
    else if (!pgasi_watch.vanished_ns)
        pgasi_watch.vanished_ns = pgasi_now_ns();
}

/* A LOST rank counts as dead. The ring checks a SUSPECT one. */
static void look_at_suspects(void)
{
    if (!__atomic_exchange_n(&pgasi_watch.some_suspect, false, __ATOMIC_ACQ_REL))
        return;
    for (int r = 0; r < pgasi_boot.n_ranks; r++) {
        int how = __atomic_exchange_n(&pgasi_watch.suspects[r], 0, __ATOMIC_ACQ_REL);
        if (how == LOST)
            pgasi_ring_exited(&pgasi_watch.ring, r);
        else if (how == SUSPECT && pgasi_watch.has_ring)
            pgasi_ring_suspect(&pgasi_watch.ring, r);
    }
}

static void look_at_requests(void)
{
    pgasi_report_from_t whose = pgasi_report_asked();
    if (whose == PGASI_REPORT_ALL && pgasi_watch.has_ring)
        pgasi_ring_ask_report(&pgasi_watch.ring);
    else if (whose == PGASI_REPORT_ALL)
        pgasi_report_ask_host();
    pgasi_watch.must_report = pgasi_watch.must_report || whose != PGASI_REPORT_NONE;
}

/* ---- reports, without the lock ---- */

static void list_ranks(const pgasi_watch_news_t *some, int n, char *text, size_t bytes)
{
    size_t used = (size_t)snprintf(text, bytes, "rank%s", n > 1 ? "s" : "");
    for (int i = 0; i < n && used < bytes; i++)
        used += (size_t)snprintf(text + used, bytes - used, "%s %d", i ? "," : "", some[i].rank);
}

static bool found_here(const pgasi_watch_news_t *some, int n)
{
    for (int i = 0; i < n; i++)
        if (some[i].cause != PGASI_RING_REPORTED)
            return true;
    return false;
}

static _Noreturn void end_job(const pgasi_watch_news_t *some, int n)
{
    static const char *const when[] = { "", " during init", " during init", "",
                                        " during finalize" };
    char text[512];
    list_ranks(some, n, text, sizeof text);
    const char *then = pgasi_watch.blocked ? " while a team was made" : when[pgasi_watch.phase];
    bool here = found_here(some, n);
    if (here && pgasi_shm_first_to_report(PGASI_REPORT_DEATH))
        PGASI_ERROR("watch", "%s died%s: ending the job", text, then);
    if (!here)
        pgasi_shm_first_to_report(PGASI_REPORT_END); /* this rank reports the end, too */
    struct timespec until_passed_on = { 0, (here ? 1 : 2) * REPORT_MS * 1000000L };
    nanosleep(&until_passed_on,
              NULL); /* some launchers drop unread output when the job is aborted */
    pgasi_boot_abort(1);
}

static bool is_member(const pgas_team_t *team, int rank)
{
    for (int i = 0; team && i < team->size; i++)
        if (pgas_team_to_global(team, i) == rank)
            return true;
    return false;
}

/* @return false: it cannot, because MPI waits for the rank */
static bool go_on_without(int rank)
{
    pthread_mutex_lock(&pgasi_watch.hook_lock);
    bool can = !is_member(pgasi_watch.blocked, rank);
    if (can && pgasi_hooks.rank_died)
        pgasi_hooks.rank_died(rank);
    else if (can && pgasi_boot_peer_died(rank))
        PGASI_ERROR("watch", "rank %d died", rank);
    pthread_mutex_unlock(&pgasi_watch.hook_lock);
    return can;
}

static void explain_silence(const pgasi_watch_news_t *some, int n)
{
    int n_silent = 0, first = -1;
    for (int i = 0; i < n; i++) {
        if (some[i].cause != PGASI_RING_SILENT)
            continue;
        first = n_silent++ ? first : some[i].rank;
    }
    if (n_silent)
        PGASI_ERROR("watch",
                    "the host of rank %d has been silent for %d s (PGAS_PEER_TIMEOUT_S): its %d "
                    "ranks are lost",
                    first, pgasi_param.peer_timeout_s, n_silent);
}

/* While the job starts, a network that blocks connections proves no death, and neither does a
 * peer's conclusion from it. A rank that detects a real death ends the job by itself. */
static bool is_death(const pgasi_watch_news_t *some, int n)
{
    int n_sure = 0;
    for (int i = 0; i < n; i++)
        n_sure += some[i].cause == PGASI_RING_EXITED || some[i].cause == PGASI_RING_REFUSED;
    return n_sure > 0;
}

static void report(const pgasi_watch_news_t *some, int n)
{
    if (pgasi_watch.phase == PGASI_WATCH_STARTING) {
        if (!is_death(some, n)) {
            __atomic_store_n(&pgasi_watch.is_torn, true, __ATOMIC_RELEASE);
            return;
        }
    } else {
        explain_silence(some, n);
    }
    if (pgasi_watch.phase < PGASI_WATCH_RUN ||
        pgasi_param.on_peer_death == PGASI_ON_PEER_DEATH_ABORT)
        end_job(some, n);
    for (int i = 0; i < n; i++)
        if (!go_on_without(some[i].rank))
            end_job(some, n);
    if (pgasi_watch.phase == PGASI_WATCH_ENDING)
        __atomic_store_n(&pgasi_watch.lost_in_the_end, true, __ATOMIC_RELEASE);
}

/* ---- polling ---- */

static void handle(uint64_t data)
{
    uint64_t drained;
    if (data == PGASI_WATCH_EVENT) {
        if (read(pgasi_watch.wake_fd, &drained, sizeof drained) < 0)
            return;
    } else if (data & PGASI_LINKS_EVENT) {
        if (pgasi_watch.has_ring)
            pgasi_links_event(data);
    } else {
        int rank = pgasi_procs_event(data);
        if (rank >= 0)
            process_ended(rank);
    }
}

/* Waits at most wait_ms for events and handles everything that is due. @return the time of the next
 * call */
static uint64_t look(int wait_ms)
{
    struct epoll_event events[16];
    int n_by_fd, n_polled;
    int n = epoll_wait(pgasi_watch.epoll_fd, events, 16, wait_ms);
    pthread_mutex_lock(&pgasi_watch.lock);
    for (int i = 0; i < n; i++)
        handle(events[i].data.u64);
    for (int rank; (rank = pgasi_procs_poll()) >= 0;)
        process_ended(rank);
    look_at_suspects();
    look_at_requests();
    bool reports = pgasi_watch.must_report;
    pgasi_watch.must_report = false;
    uint64_t next = pgasi_watch.has_ring ? pgasi_links_timers() : UINT64_MAX;
    pgasi_procs_count(&n_by_fd, &n_polled);
    if (n_polled > 0)
        next = PGASI_MIN(next, pgasi_now_ns() + POLL_MS * PGASI_NS_PER_MS);
    int n_fresh = pgasi_watch.n_news, code = pgasi_watch.abort_code;
    pgasi_watch_news_t *fresh = n_fresh ? malloc((size_t)n_fresh * sizeof *fresh) : NULL;
    if (fresh) {
        memcpy(fresh, pgasi_watch.news, (size_t)n_fresh * sizeof *fresh);
        pgasi_watch.n_news = 0;
    }
    pthread_mutex_unlock(&pgasi_watch.lock);
    if (fresh)
        report(fresh, n_fresh);
    free(fresh);
    if (reports)
        pgasi_report_log();
    if (code >= 0) {
        pgasi_shm_first_to_report(PGASI_REPORT_END); /* the peer that ends the job reports it */
        pgasi_boot_abort(code);
    }
    return next;
}

void pgasi_watch_look_around(void)
{
    if (__atomic_exchange_n(&pgasi_watch.polling, 1, __ATOMIC_ACQUIRE))
        return;
    look(0);
    __atomic_store_n(&pgasi_watch.polling, 0, __ATOMIC_RELEASE);
}

static int until(uint64_t when_ns)
{
    uint64_t now = pgasi_now_ns();
    if (when_ns == UINT64_MAX)
        return -1;
    return when_ns <= now ? 0 : (int)PGASI_MIN((when_ns - now) / 1000000 + 1, (uint64_t)3600000);
}

static void *watch_main(void *arg)
{
    (void)arg;
    uint64_t next = 0;
    while (!__atomic_load_n(&pgasi_watch.stopping, __ATOMIC_ACQUIRE))
        next = look(until(next));
    return NULL;
}

void pgasi_watch_wake(void)
{
    uint64_t one = 1;
    if (pgasi_watch.wake_fd >= 0 && write(pgasi_watch.wake_fd, &one, sizeof one) < 0)
        PGASI_DEBUG("watch", "cannot wake the watching thread: errno %d", errno);
}

pgas_status_t pgasi_watch_start_thread(void)
{
    sigset_t all, before;
    pgasi_watch.stopping = false;
    sigfillset(&all);
    pthread_sigmask(SIG_BLOCK, &all, &before);
    /* The default stack size, because the program's thread-local data is on the stack too. */
    int rc = pthread_create(&pgasi_watch.thread, NULL, watch_main, NULL);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    if (rc != 0) {
        PGASI_ERROR("watch", "cannot start a thread: %s; see ulimit -u", strerror(rc));
        return PGAS_ERR_NO_MEMORY;
    }
    pgasi_watch.has_thread = true;
    return PGAS_OK;
}

void pgasi_watch_stop_thread(void)
{
    if (!pgasi_watch.has_thread)
        return;
    __atomic_store_n(&pgasi_watch.stopping, true, __ATOMIC_RELEASE);
    pgasi_watch_wake();
    pthread_join(pgasi_watch.thread, NULL);
    pgasi_watch.has_thread = false;
}

void pgasi_watch_run(void)
{
    if (pgasi_watch.phase == PGASI_WATCH_OFF)
        return;
    pgasi_watch.phase = PGASI_WATCH_RUN;
    if (pgasi_param.service_threads > 0)
        return;
    pgasi_watch_stop_thread();
    pgasi_hooks.look_around = pgasi_watch_look_around;
}

void pgasi_watch_set_hook(void (*died)(int rank))
{
    pthread_mutex_lock(&pgasi_watch.hook_lock);
    pgasi_hooks.rank_died = died;
    pthread_mutex_unlock(&pgasi_watch.hook_lock);
}

bool pgasi_watch_block(pgas_team_t *team)
{
    pthread_mutex_lock(&pgasi_watch.hook_lock);
    bool whole = !pgasi_team_is_broken(team);
    if (whole)
        pgasi_watch.blocked = team;
    pthread_mutex_unlock(&pgasi_watch.hook_lock);
    if (whole && pgasi_watch.phase == PGASI_WATCH_RUN && !pgasi_watch.has_thread &&
        pgasi_watch_start_thread() != PGAS_OK)
        PGASI_WARN("watch", "a death during the creation of this team is not detected");
    return whole;
}

void pgasi_watch_unblock(void)
{
    pthread_mutex_lock(&pgasi_watch.hook_lock);
    pgasi_watch.blocked = NULL;
    pthread_mutex_unlock(&pgasi_watch.hook_lock);
    if (pgasi_watch.phase == PGASI_WATCH_RUN && pgasi_param.service_threads == 0)
        pgasi_watch_stop_thread();
}

static void doubt(int rank, int how)
{
    if (!pgasi_watch.suspects || rank < 0 || rank >= pgasi_boot.n_ranks)
        return;
    __atomic_store_n(&pgasi_watch.suspects[rank], (unsigned char)how, __ATOMIC_RELEASE);
    __atomic_store_n(&pgasi_watch.some_suspect, true, __ATOMIC_RELEASE);
    pgasi_watch_wake();
}

void pgasi_watch_lost(int rank)
{
    doubt(rank, LOST);
}

bool pgasi_watch_suspect(int rank)
{
    pthread_mutex_lock(&pgasi_watch.lock);
    bool known = !pgasi_watch.suspects || !pgasi_ring_is_live(&pgasi_watch.ring, rank);
    int ended = known ? 1 : pgasi_procs_has_ended(rank);
    bool asks = pgasi_watch.has_ring;
    pthread_mutex_unlock(&pgasi_watch.lock);
    if (ended == 0 || (ended < 0 && asks))
        doubt(rank, SUSPECT);
    return ended > 0 || (ended < 0 && !asks);
}

/* ---- the end ---- */

static bool all_ready(void)
{
    pthread_mutex_lock(&pgasi_watch.lock);
    bool all = pgasi_ring_all_ready(&pgasi_watch.ring);
    pthread_mutex_unlock(&pgasi_watch.lock);
    return all;
}

void pgasi_watch_leave(void)
{
    pgasi_wait_t w = PGASI_WAIT_INIT;
    if (!pgasi_watch.has_ring)
        return;
    pthread_mutex_lock(&pgasi_watch.lock);
    pgasi_ring_done(&pgasi_watch.ring);
    pthread_mutex_unlock(&pgasi_watch.lock);
    while (!all_ready())
        pgasi_wait_step(&w);
    pgasi_wait_end(&w);
}

void pgasi_watch_abort(int exit_code)
{
    struct timespec pause = { .tv_nsec = 100000 };
    uint64_t limit = pgasi_now_ns() + PGASI_NS_PER_S;
    if (!pgasi_watch.has_ring)
        return;
    while (pthread_mutex_trylock(&pgasi_watch.lock) != 0) {
        if (pgasi_now_ns() > limit)
            return;
        nanosleep(&pause, NULL);
    }
    pgasi_links_say_abort(exit_code);
    pthread_mutex_unlock(&pgasi_watch.lock);
}

void pgasi_watch_print(FILE *out)
{
    int n_by_fd, n_polled;
    pthread_mutex_lock(&pgasi_watch.lock);
    pgasi_procs_count(&n_by_fd, &n_polled);
    fprintf(out, "watch: %d processes of this host", n_by_fd + n_polled);
    if (n_polled)
        fprintf(out, " (%d without pidfd, once a second)", n_polled);
    fprintf(out, ", %s\n", pgasi_watch.has_thread ? "by a thread" : "when a thread waits");
    if (pgasi_watch.has_ring)
        fprintf(out, "  other hosts: %d connections, listens at %s\n", pgasi_links_count(),
                pgasi_links_listener());
    pthread_mutex_unlock(&pgasi_watch.lock);
}
