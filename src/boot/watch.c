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
 *   RUN              abort: the job ends. continue: the hook of the call layer runs. If MPI blocks
 *                    for the dead rank (pgasi_watch_block), the job ends in this mode, too. The
 *                    live ranks wait for each other before they leave (pgasi_watch_leave).
 *   ENDING           Ranks leave and say so on their links (BYE). A process that ended without it
 *                    is dead only if the last agreement stays open for PGAS_PEER_TIMEOUT_S. */
#include "boot/watch.h"

#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/param.h"
#include "boot/hooks.h"

#define NS_PER_S     UINT64_C(1000000000)
#define SOLO_MS      1000 /* interval of checks of processes without pidfd */
#define REPORT_MS    200  /* from the report of a death to the end of the job */
#define FIRST_LINK_S 30   /* limit for the first link to the next host */
#define EVENT_WAKE   UINT64_MAX
#define NO_PIDFD     (-1)
#define NOT_WATCHED  (-2)

typedef struct {
    int rank;
    pgasi_ring_cause_t cause;
} news_t;

enum { SUSPECT = 1, LOST };

static enum { OFF, STARTING, INIT, RUN, ENDING } phase;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_mutex_t hook_lock = PTHREAD_MUTEX_INITIALIZER;
static int epoll_fd = -1, wake_fd = -1;
static int *pid_fds; /* [host_ranks] */
static int n_pidfds, n_solo;
static bool is_far; /* the processes of some ranks are not visible here */
static bool has_ring, has_thread, stopping;
static pthread_t thread;
static pgasi_ring_t ring;
static int *leader_of;             /* [n_ranks] the ring's number of each rank's host */
static pgasi_address_t *addresses; /* [n_ranks] */
static unsigned char *suspects;    /* [n_ranks] */
static bool some_suspect;
static news_t *news;
static int n_news;
static int abort_code = -1;  /* >= 0: a peer ends the job with it */
static bool is_torn;         /* STARTING: some ranks cannot reach each other */
static uint64_t vanished_ns; /* ENDING: when the first process ended; 0: none has */
static bool lost_in_the_end; /* ENDING: a rank is dead */
static int polling;
static bool must_report;           /* log the stack of the initial thread */
static const pgas_team_t *blocked; /* MPI blocks for its members; under hook_lock */

/* ---- findings, under the lock ---- */

void pgasi_watch_died(void *arg, int rank, pgasi_ring_cause_t cause)
{
    (void)arg;
    news[n_news++] = (news_t){ rank, cause }; /* at most once per rank, so it fits */
}

void pgasi_watch_told_report(void *arg)
{
    (void)arg;
    must_report = true;
}

void pgasi_watch_told_abort(int rank, int exit_code)
{
    PGASI_INFO("watch", "rank %d ends the job with exit code %d", rank, exit_code);
    if (abort_code < 0)
        abort_code = exit_code;
}

static void process_ended(int i)
{
    if (pid_fds[i] >= 0) {
        epoll_ctl(epoll_fd, EPOLL_CTL_DEL, pid_fds[i], NULL);
        close(pid_fds[i]);
        n_pidfds--;
    } else {
        n_solo--;
    }
    pid_fds[i] = NOT_WATCHED;
    if (__atomic_load_n(&phase, __ATOMIC_RELAXED) != ENDING)
        pgasi_ring_exited(&ring, pgasi_boot.host_members[i]);
    else if (!vanished_ns)
        vanished_ns = pgasi_now_ns();
}

static void look_at_solo(void)
{
    for (int i = 0; n_solo > 0 && i < pgasi_boot.host_ranks; i++)
        if (pid_fds[i] == NO_PIDFD && kill(pgasi_boot.host_pids[i], 0) != 0 && errno == ESRCH)
            process_ended(i);
}

/* A LOST rank counts as dead. The ring checks a SUSPECT one. */
static void look_at_suspects(void)
{
    if (!__atomic_exchange_n(&some_suspect, false, __ATOMIC_ACQ_REL))
        return;
    for (int r = 0; r < pgasi_boot.n_ranks; r++) {
        int how = __atomic_exchange_n(&suspects[r], 0, __ATOMIC_ACQ_REL);
        if (how == LOST)
            pgasi_ring_exited(&ring, r);
        else if (how == SUSPECT && has_ring)
            pgasi_ring_suspect(&ring, r);
    }
}

static void look_at_requests(void)
{
    pgasi_report_from_t whose = pgasi_report_asked();
    if (whose == PGASI_REPORT_ALL && has_ring)
        pgasi_ring_ask_report(&ring);
    else if (whose == PGASI_REPORT_ALL)
        pgasi_report_ask_host();
    must_report = must_report || whose != PGASI_REPORT_NONE;
}

/* ---- reports, without the lock ---- */

static void list_ranks(const news_t *some, int n, char *text, size_t bytes)
{
    size_t used = (size_t)snprintf(text, bytes, "rank%s", n > 1 ? "s" : "");
    for (int i = 0; i < n && used < bytes; i++)
        used += (size_t)snprintf(text + used, bytes - used, "%s %d", i ? "," : "", some[i].rank);
}

static bool found_here(const news_t *some, int n)
{
    for (int i = 0; i < n; i++)
        if (some[i].cause != PGASI_RING_TOLD)
            return true;
    return false;
}

static _Noreturn void end_job(const news_t *some, int n)
{
    static const char *const when[] = { "", " during init", " during init", "",
                                        " during finalize" };
    char text[512];
    list_ranks(some, n, text, sizeof text);
    const char *then = blocked ? " while a team was made" : when[phase];
    bool here = found_here(some, n);
    if (here && pgasi_shm_first_to_report(PGASI_REPORT_DEATH))
        PGASI_ERROR("watch", "%s died%s: ending the job", text, then);
    if (!here)
        pgasi_shm_first_to_report(PGASI_REPORT_END); /* this rank reports the end, too */
    struct timespec until_passed_on = { 0, (here ? 1 : 2) * REPORT_MS * 1000000L };
    nanosleep(&until_passed_on,
              NULL); /* launchers drop what they have not read when the job is aborted */
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
    pthread_mutex_lock(&hook_lock);
    bool can = !is_member(blocked, rank);
    if (can && pgasi_hooks.rank_died)
        pgasi_hooks.rank_died(rank);
    else if (can && pgasi_boot_peer_died(rank))
        PGASI_ERROR("watch", "rank %d died", rank);
    pthread_mutex_unlock(&hook_lock);
    return can;
}

static void explain_silence(const news_t *some, int n)
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
static bool is_death(const news_t *some, int n)
{
    int n_sure = 0;
    for (int i = 0; i < n; i++)
        n_sure += some[i].cause == PGASI_RING_EXITED || some[i].cause == PGASI_RING_REFUSED;
    return n_sure > 0;
}

static void report(const news_t *some, int n)
{
    if (phase == STARTING) {
        if (!is_death(some, n)) {
            __atomic_store_n(&is_torn, true, __ATOMIC_RELEASE);
            return;
        }
    } else {
        explain_silence(some, n);
    }
    if (phase < RUN || pgasi_param.on_peer_death == PGASI_ON_PEER_DEATH_ABORT)
        end_job(some, n);
    for (int i = 0; i < n; i++)
        if (!go_on_without(some[i].rank))
            end_job(some, n);
    if (phase == ENDING)
        __atomic_store_n(&lost_in_the_end, true, __ATOMIC_RELEASE);
}

/* ---- polling ---- */

static void handle(uint64_t data)
{
    uint64_t drained;
    if (data == EVENT_WAKE) {
        if (read(wake_fd, &drained, sizeof drained) < 0)
            return;
    } else if (data & PGASI_LINKS_EVENT) {
        if (has_ring)
            pgasi_links_event(data);
    } else if (pid_fds[data] >= 0) {
        process_ended((int)data);
    }
}

/* Waits at most wait_ms for events and handles everything that is due. @return the time of the next
 * call */
static uint64_t look(int wait_ms)
{
    struct epoll_event events[16];
    int n = epoll_wait(epoll_fd, events, 16, wait_ms);
    pthread_mutex_lock(&lock);
    for (int i = 0; i < n; i++)
        handle(events[i].data.u64);
    look_at_solo();
    look_at_suspects();
    look_at_requests();
    bool reports = must_report;
    must_report = false;
    uint64_t next = has_ring ? pgasi_links_timers() : UINT64_MAX;
    if (n_solo > 0)
        next = PGASI_MIN(next, pgasi_now_ns() + SOLO_MS * UINT64_C(1000000));
    int n_fresh = n_news, code = abort_code;
    news_t *fresh = n_fresh ? malloc((size_t)n_fresh * sizeof *fresh) : NULL;
    if (fresh) {
        memcpy(fresh, news, (size_t)n_fresh * sizeof *fresh);
        n_news = 0;
    }
    pthread_mutex_unlock(&lock);
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

static void look_around(void)
{
    if (__atomic_exchange_n(&polling, 1, __ATOMIC_ACQUIRE))
        return;
    look(0);
    __atomic_store_n(&polling, 0, __ATOMIC_RELEASE);
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
    while (!__atomic_load_n(&stopping, __ATOMIC_ACQUIRE))
        next = look(until(next));
    return NULL;
}

static void wake(void)
{
    uint64_t one = 1;
    if (wake_fd >= 0 && write(wake_fd, &one, sizeof one) < 0)
        PGASI_DEBUG("watch", "cannot wake the watching thread: errno %d", errno);
}

static pgas_status_t start_thread(void)
{
    sigset_t all, before;
    stopping = false;
    sigfillset(&all);
    pthread_sigmask(SIG_BLOCK, &all, &before);
    /* The default stack size, because the program's thread-local data lies on the stack too. */
    int rc = pthread_create(&thread, NULL, watch_main, NULL);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    if (rc != 0) {
        PGASI_ERROR("watch", "cannot start a thread: %s; see ulimit -u", strerror(rc));
        return PGAS_ERR_NO_MEMORY;
    }
    has_thread = true;
    return PGAS_OK;
}

static void stop_thread(void)
{
    if (!has_thread)
        return;
    __atomic_store_n(&stopping, true, __ATOMIC_RELEASE);
    wake();
    pthread_join(thread, NULL);
    has_thread = false;
}

/* ---- starting ---- */

static void watch_process(int i)
{
    static int warned;
    int fd = (int)syscall(SYS_pidfd_open, pgasi_boot.host_pids[i], 0);
    struct epoll_event event = { .events = EPOLLIN, .data.u64 = (uint64_t)i };
    if (fd >= 0 && epoll_ctl(epoll_fd, EPOLL_CTL_ADD, fd, &event) == 0) {
        pid_fds[i] = fd;
        n_pidfds++;
        return;
    }
    int reason = errno;
    if (fd >= 0)
        close(fd);
    pid_fds[i] = NO_PIDFD;
    n_solo++;
    if (reason == ESRCH)
        return; /* it has ended: the first poll reports it */
    pgasi_warn_once(&warned, "watch",
                    "cannot watch the process of rank %d by pidfd_open (%s): such processes are "
                    "checked once a second%s",
                    pgasi_boot.host_members[i], strerror(reason),
                    reason == EMFILE
                        ? "; a rank needs a descriptor for each rank of its host (ulimit -n)"
                        : "");
}

static void watch_host(void)
{
    for (int i = 0; i < pgasi_boot.host_ranks; i++)
        if (pgasi_boot.host_members[i] != pgasi_boot.rank && pgasi_boot.host_pids[i])
            watch_process(i);
}

static pgas_status_t allocate(void)
{
    size_t n = (size_t)pgasi_boot.n_ranks;
    struct epoll_event event = { .events = EPOLLIN, .data.u64 = EVENT_WAKE };
    leader_of = calloc(n, sizeof *leader_of);
    addresses = calloc(n, sizeof *addresses);
    suspects = calloc(n, 1);
    news = calloc(n, sizeof *news);
    pid_fds = malloc((size_t)pgasi_boot.host_ranks * sizeof *pid_fds);
    if (!leader_of || !addresses || !suspects || !news || !pid_fds)
        return PGAS_ERR_NO_MEMORY;
    for (int i = 0; i < pgasi_boot.host_ranks; i++)
        pid_fds[i] = NOT_WATCHED;
    epoll_fd = epoll_create1(EPOLL_CLOEXEC);
    wake_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (epoll_fd >= 0 && wake_fd >= 0 && epoll_ctl(epoll_fd, EPOLL_CTL_ADD, wake_fd, &event) == 0)
        return PGAS_OK;
    PGASI_ERROR("watch", "cannot watch the other ranks: %s", strerror(errno));
    return PGAS_ERR_IO;
}

static int own_leader(void)
{
    for (int i = 0; i < pgasi_boot.host_ranks; i++)
        if (pgasi_boot.host_pids[i])
            return pgasi_boot.host_members[i];
    return pgasi_boot.rank;
}

/* Gathers the host and the address of all ranks. *wanted_p: whether the job needs the ring. */
static pgas_status_t introduce(MPI_Comm world, bool *wanted_p)
{
    size_t n = (size_t)pgasi_boot.n_ranks;
    pgasi_card_t mine, *cards = malloc(n * sizeof *cards);
    pgas_status_t status = pgasi_mpi_agree(world, cards ? PGAS_OK : PGAS_ERR_NO_MEMORY);
    if (status != PGAS_OK || !cards)
        goto out;
    pgasi_address_collect(pgasi_param.watch_interface, &mine);
    mine.leader = own_leader();
    status = pgasi_mpi_status(MPI_Allgather(&mine, sizeof mine, MPI_BYTE, cards, sizeof mine,
                                            MPI_BYTE, world),
                              "the exchange of hosts");
    if (status != PGAS_OK)
        goto out;
    is_far = false;
    for (size_t r = 0; r < n; r++) {
        leader_of[r] = cards[r].leader;
        is_far = is_far || leader_of[r] != leader_of[0];
    }
    *wanted_p = is_far || (n > 1 && pgasi_param.on_peer_death == PGASI_ON_PEER_DEATH_CONTINUE);
    pgasi_address_t address;
    memset(&address, 0, sizeof address);
    if (*wanted_p && pgasi_address_choose(cards, (int)n, pgasi_boot.rank, &address))
        pgasi_links_listen(&address);
    if (*wanted_p)
        status = pgasi_mpi_status(MPI_Allgather(&address, sizeof address, MPI_BYTE, addresses,
                                                sizeof address, MPI_BYTE, world),
                                  "the exchange of addresses");
out:
    free(cards);
    return status;
}

static bool all_listen(void)
{
    for (int r = 0; r < pgasi_boot.n_ranks; r++)
        if (addresses[r].port == 0)
            return false;
    return true;
}

/* Waits until the watch's thread has made the link. */
static bool wait_for_link(void)
{
    uint64_t limit = pgasi_now_ns() + FIRST_LINK_S * NS_PER_S;
    struct timespec pause = { 0, 200000 };
    for (;;) {
        pthread_mutex_lock(&lock);
        bool closed = pgasi_links_closed();
        pthread_mutex_unlock(&lock);
        bool torn = __atomic_load_n(&is_torn, __ATOMIC_ACQUIRE);
        if (closed || torn || pgasi_now_ns() > limit)
            return closed && !torn && ring.next >= 0;
        nanosleep(&pause, NULL);
    }
}

/* No rank listens to the links any more when the first one closes them: their end would look like
 * deaths. What the ring has believed since its start was wrong. */
static pgas_status_t no_ring(MPI_Comm world)
{
    pthread_mutex_lock(&lock);
    has_ring = false;
    pthread_mutex_unlock(&lock);
    pgas_status_t status = pgasi_mpi_agree(world, PGAS_OK);
    pthread_mutex_lock(&lock);
    pgasi_links_end();
    pgasi_ring_forget(&ring);
    n_news = 0;
    pthread_mutex_unlock(&lock);
    if (pgasi_boot.rank == 0 && !is_far)
        PGASI_WARN("watch", "the ranks of this job cannot connect to each other by TCP: after a "
                            "death a rank that leaves counts as dead");
    else if (pgasi_boot.rank == 0)
        PGASI_WARN("watch", "the hosts of this job cannot watch each other by TCP: deaths on "
                            "another host may go unnoticed; "
                            "set PGAS_WATCH_INTERFACE to one on a network that they share");
    return status;
}

static void forked(void)
{
    if (has_ring)
        pgasi_links_forked();
}

static pgas_status_t start_ring(MPI_Comm world, bool wanted)
{
    static bool minds_forks;
    bool listens = wanted && all_listen();
    if (listens && !minds_forks)
        minds_forks = pthread_atfork(NULL, NULL, forked) == 0;
    if (listens) {
        pthread_mutex_lock(&lock);
        pgasi_links_begin(epoll_fd, &ring, addresses);
        has_ring = true;
        pgasi_ring_start(&ring);
        pthread_mutex_unlock(&lock);
        wake();
    }
    pgas_status_t status = !wanted || (listens && wait_for_link()) ? PGAS_OK : PGAS_ERR_TIMEOUT;
    status = pgasi_mpi_agree(world, status);
    return status == PGAS_ERR_TIMEOUT ? no_ring(world) : status;
}

pgas_status_t pgasi_watch_start(MPI_Comm world)
{
    bool wants_ring = false;
    phase = STARTING;
    vanished_ns = 0;
    lost_in_the_end = has_ring = is_torn = false;
    abort_code = -1;
    must_report = false;
    n_news = n_pidfds = n_solo = 0;
    pgas_status_t status = pgasi_mpi_agree(world, allocate());
    if (status == PGAS_OK)
        status = introduce(world, &wants_ring);
    if (status == PGAS_OK && !pgasi_ring_init(&ring, pgasi_boot.rank, pgasi_boot.n_ranks, leader_of,
                                              &pgasi_links_ops, NULL))
        status = PGAS_ERR_NO_MEMORY;
    if (status == PGAS_OK) {
        watch_host();
        pgasi_report_start(wake_fd);
        status = start_thread();
    }
    status = pgasi_mpi_agree(world, status);
    if (status == PGAS_OK)
        status = start_ring(world, wants_ring);
    if (status == PGAS_OK)
        phase = INIT;
    else
        pgasi_watch_end(world);
    return status;
}

void pgasi_watch_run(void)
{
    if (phase == OFF)
        return;
    phase = RUN;
    if (pgasi_param.service_threads > 0)
        return;
    stop_thread();
    pgasi_hooks.look_around = look_around;
}

void pgasi_watch_set_hook(void (*died)(int rank))
{
    pthread_mutex_lock(&hook_lock);
    pgasi_hooks.rank_died = died;
    pthread_mutex_unlock(&hook_lock);
}

bool pgasi_watch_block(pgas_team_t *team)
{
    pthread_mutex_lock(&hook_lock);
    bool whole = !pgasi_team_is_broken(team);
    if (whole)
        blocked = team;
    pthread_mutex_unlock(&hook_lock);
    if (whole && phase == RUN && !has_thread && start_thread() != PGAS_OK)
        PGASI_WARN("watch", "a death while this team is made goes unnoticed");
    return whole;
}

void pgasi_watch_unblock(void)
{
    pthread_mutex_lock(&hook_lock);
    blocked = NULL;
    pthread_mutex_unlock(&hook_lock);
    if (phase == RUN && pgasi_param.service_threads == 0)
        stop_thread();
}

static void doubt(int rank, int how)
{
    if (!suspects || rank < 0 || rank >= pgasi_boot.n_ranks)
        return;
    __atomic_store_n(&suspects[rank], (unsigned char)how, __ATOMIC_RELEASE);
    __atomic_store_n(&some_suspect, true, __ATOMIC_RELEASE);
    wake();
}

void pgasi_watch_lost(int rank)
{
    doubt(rank, LOST);
}

/* Whether a process of this host has ended; -1: unknown. */
static int has_ended(int rank)
{
    for (int i = 0; i < pgasi_boot.host_ranks; i++) {
        struct pollfd end = { .fd = pid_fds[i], .events = POLLIN };
        if (pgasi_boot.host_members[i] == rank && pid_fds[i] >= 0)
            return poll(&end, 1, 0) > 0;
    }
    return -1;
}

bool pgasi_watch_suspect(int rank)
{
    pthread_mutex_lock(&lock);
    bool known = !suspects || !pgasi_ring_is_live(&ring, rank);
    int ended = known ? 1 : has_ended(rank);
    bool asks = has_ring;
    pthread_mutex_unlock(&lock);
    if (ended == 0 || (ended < 0 && asks))
        doubt(rank, SUSPECT);
    return ended > 0 || (ended < 0 && !asks);
}

/* ---- the end ---- */

static bool all_ready(void)
{
    pthread_mutex_lock(&lock);
    bool all = pgasi_ring_all_ready(&ring);
    pthread_mutex_unlock(&lock);
    return all;
}

void pgasi_watch_leave(void)
{
    pgasi_wait_t w = PGASI_WAIT_INIT;
    if (!has_ring)
        return;
    pthread_mutex_lock(&lock);
    pgasi_ring_done(&ring);
    pthread_mutex_unlock(&lock);
    while (!all_ready())
        pgasi_wait_step(&w);
    pgasi_wait_end(&w);
}

void pgasi_watch_abort(int exit_code)
{
    struct timespec pause = { .tv_nsec = 100000 };
    uint64_t limit = pgasi_now_ns() + NS_PER_S;
    if (!has_ring)
        return;
    while (pthread_mutex_trylock(&lock) != 0) {
        if (pgasi_now_ns() > limit)
            return;
        nanosleep(&pause, NULL);
    }
    pgasi_links_say_abort(exit_code);
    pthread_mutex_unlock(&lock);
}

/* The last agreement of all ranks. It completes on a rank only after all others have begun it. */
static pgas_status_t part(MPI_Comm world)
{
    int mine = 0, all, done = 0;
    MPI_Request request = MPI_REQUEST_NULL;
    pgasi_mpi_lock();
    int rc = MPI_Iallreduce(&mine, &all, 1, MPI_INT, MPI_MIN, world, &request);
    pgasi_mpi_unlock();
    uint64_t patience = (uint64_t)pgasi_param.peer_timeout_s * NS_PER_S;
    struct timespec pause = { 0, 20000 };
    while (rc == MPI_SUCCESS) {
        pgasi_mpi_lock();
        rc = MPI_Test(&request, &done, MPI_STATUS_IGNORE);
        pgasi_mpi_unlock();
        if (done || rc != MPI_SUCCESS)
            break;
        if (!has_thread)
            look_around();
        uint64_t since = __atomic_load_n(&vanished_ns, __ATOMIC_RELAXED);
        if (__atomic_load_n(&lost_in_the_end, __ATOMIC_ACQUIRE) ||
            (since && pgasi_now_ns() - since > patience))
            return PGAS_ERR_PEER;
        nanosleep(&pause, NULL);
    }
    return pgasi_mpi_status(rc, "the last agreement");
}

static void release(void)
{
    stop_thread();
    pgasi_report_stop();
    pgasi_hooks.look_around = NULL;
    pthread_mutex_lock(&lock);
    if (has_ring)
        pgasi_links_say_bye();
    pgasi_links_end();
    has_ring = false;
    phase = OFF;
    for (int i = 0; pid_fds && i < pgasi_boot.host_ranks; i++)
        if (pid_fds[i] >= 0)
            close(pid_fds[i]);
    if (epoll_fd >= 0)
        close(epoll_fd);
    if (wake_fd >= 0)
        close(wake_fd);
    epoll_fd = wake_fd = -1;
    pgasi_ring_fini(&ring);
    free(pid_fds);
    free(leader_of);
    free(addresses);
    free(suspects);
    free(news);
    pid_fds = leader_of = NULL;
    addresses = NULL;
    suspects = NULL;
    news = NULL;
    pthread_mutex_unlock(&lock);
}

pgas_status_t pgasi_watch_end(MPI_Comm world)
{
    pgas_status_t status = PGAS_OK;
    __atomic_store_n(&phase, ENDING, __ATOMIC_RELEASE);
    if (world != MPI_COMM_NULL)
        status = part(world);
    if (status == PGAS_ERR_PEER && pgasi_param.on_peer_death == PGASI_ON_PEER_DEATH_ABORT) {
        PGASI_ERROR("watch", "a rank died while the library ended: ending the job");
        pgasi_boot_abort(1);
    }
    release();
    return status;
}

void pgasi_watch_print(FILE *out)
{
    pthread_mutex_lock(&lock);
    fprintf(out, "watch: %d processes of this host", n_pidfds + n_solo);
    if (n_solo)
        fprintf(out, " (%d without pidfd, once a second)", n_solo);
    fprintf(out, ", %s\n", has_thread ? "by a thread" : "when a thread waits");
    if (has_ring)
        fprintf(out, "  other hosts: %d connections, listens at %s\n", pgasi_links_count(),
                pgasi_links_listener());
    pthread_mutex_unlock(&lock);
}
