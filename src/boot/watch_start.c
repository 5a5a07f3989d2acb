/* Start and end of the watch. At the start the hosts exchange their addresses, and the service ring
 * connects. At the end all ranks agree to part. */
#include "boot/watch.h"

#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/param.h"
#include "boot/hooks.h"

#define FIRST_LINK_S 30 /* limit for the first link to the next host */

/* ---- start ---- */

static pgas_status_t allocate(void)
{
    size_t n = (size_t)pgasi_boot.n_ranks;
    struct epoll_event event = { .events = EPOLLIN, .data.u64 = PGASI_WATCH_EVENT };
    pgasi_watch.leader_of = calloc(n, sizeof *pgasi_watch.leader_of);
    pgasi_watch.addresses = calloc(n, sizeof *pgasi_watch.addresses);
    pgasi_watch.suspects = calloc(n, 1);
    pgasi_watch.news = calloc(n, sizeof *pgasi_watch.news);
    if (!pgasi_watch.leader_of || !pgasi_watch.addresses || !pgasi_watch.suspects ||
        !pgasi_watch.news || !pgasi_procs_init())
        return PGAS_ERR_NO_MEMORY;
    pgasi_watch.epoll_fd = epoll_create1(EPOLL_CLOEXEC);
    pgasi_watch.wake_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (pgasi_watch.epoll_fd >= 0 && pgasi_watch.wake_fd >= 0 &&
        epoll_ctl(pgasi_watch.epoll_fd, EPOLL_CTL_ADD, pgasi_watch.wake_fd, &event) == 0)
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

/* Gathers the host and the address of all ranks. *wanted_p: the job needs the ring. */
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
    pgasi_watch.is_far = false;
    for (size_t r = 0; r < n; r++) {
        pgasi_watch.leader_of[r] = cards[r].leader;
        pgasi_watch.is_far =
            pgasi_watch.is_far || pgasi_watch.leader_of[r] != pgasi_watch.leader_of[0];
    }
    *wanted_p =
        pgasi_watch.is_far || (n > 1 && pgasi_param.on_peer_death == PGASI_ON_PEER_DEATH_CONTINUE);
    pgasi_address_t address;
    memset(&address, 0, sizeof address);
    if (*wanted_p && pgasi_address_choose(cards, (int)n, pgasi_boot.rank, &address))
        pgasi_links_listen(&address);
    if (*wanted_p)
        status =
            pgasi_mpi_status(MPI_Allgather(&address, sizeof address, MPI_BYTE,
                                           pgasi_watch.addresses, sizeof address, MPI_BYTE, world),
                             "the exchange of addresses");
out:
    free(cards);
    return status;
}

static bool all_listen(void)
{
    for (int r = 0; r < pgasi_boot.n_ranks; r++)
        if (pgasi_watch.addresses[r].port == 0)
            return false;
    return true;
}

/* Waits until the watch's thread has made the link. */
static bool wait_for_link(void)
{
    uint64_t limit = pgasi_now_ns() + FIRST_LINK_S * PGASI_NS_PER_S;
    struct timespec pause = { 0, 200000 };
    for (;;) {
        pthread_mutex_lock(&pgasi_watch.lock);
        bool closed = pgasi_links_closed();
        pthread_mutex_unlock(&pgasi_watch.lock);
        bool torn = __atomic_load_n(&pgasi_watch.is_torn, __ATOMIC_ACQUIRE);
        if (closed || torn || pgasi_now_ns() > limit)
            return closed && !torn && pgasi_watch.ring.next >= 0;
        nanosleep(&pause, NULL);
    }
}

/* All ranks stop listening to the links before the first rank closes them, because their end would
 * look like deaths. The conclusions of the ring since its start were wrong. */
static pgas_status_t no_ring(MPI_Comm world)
{
    pthread_mutex_lock(&pgasi_watch.lock);
    pgasi_watch.has_ring = false;
    pthread_mutex_unlock(&pgasi_watch.lock);
    pgas_status_t status = pgasi_mpi_agree(world, PGAS_OK);
    pthread_mutex_lock(&pgasi_watch.lock);
    pgasi_links_end();
    pgasi_ring_forget(&pgasi_watch.ring);
    pgasi_watch.n_news = 0;
    pthread_mutex_unlock(&pgasi_watch.lock);
    if (pgasi_boot.rank == 0 && !pgasi_watch.is_far)
        PGASI_WARN("watch", "the ranks of this job cannot connect to each other by TCP: after a "
                            "death a rank that leaves counts as dead");
    else if (pgasi_boot.rank == 0)
        PGASI_WARN("watch", "the hosts of this job cannot watch each other by TCP: deaths on "
                            "another host may not be detected; "
                            "set PGAS_WATCH_INTERFACE to one on a network that they share");
    return status;
}

static void forked(void)
{
    if (pgasi_watch.has_ring)
        pgasi_links_forked();
}

static pgas_status_t start_ring(MPI_Comm world, bool wanted)
{
    static bool minds_forks;
    bool listens = wanted && all_listen();
    if (listens && !minds_forks)
        minds_forks = pthread_atfork(NULL, NULL, forked) == 0;
    if (listens) {
        pthread_mutex_lock(&pgasi_watch.lock);
        pgasi_links_begin(pgasi_watch.epoll_fd, &pgasi_watch.ring, pgasi_watch.addresses,
                          pgasi_watch_job_aborted);
        pgasi_watch.has_ring = true;
        pgasi_ring_start(&pgasi_watch.ring);
        pthread_mutex_unlock(&pgasi_watch.lock);
        pgasi_watch_wake();
    }
    pgas_status_t status = !wanted || (listens && wait_for_link()) ? PGAS_OK : PGAS_ERR_TIMEOUT;
    status = pgasi_mpi_agree(world, status);
    return status == PGAS_ERR_TIMEOUT ? no_ring(world) : status;
}

static bool make_ring(void)
{
    static pgasi_ring_ops_t ops;
    ops = pgasi_links_ops;
    ops.died = pgasi_watch_died;
    ops.report = pgasi_watch_report_wanted;
    return pgasi_ring_init(&pgasi_watch.ring, pgasi_boot.rank, pgasi_boot.n_ranks,
                           pgasi_watch.leader_of, &ops, NULL);
}

pgas_status_t pgasi_watch_start(MPI_Comm world)
{
    bool wants_ring = false;
    pgasi_watch.phase = PGASI_WATCH_STARTING;
    pgasi_watch.vanished_ns = 0;
    pgasi_watch.lost_in_the_end = pgasi_watch.has_ring = pgasi_watch.is_torn = false;
    pgasi_watch.abort_code = -1;
    pgasi_watch.must_report = false;
    pgasi_watch.n_news = 0;
    pgas_status_t status = pgasi_mpi_agree(world, allocate());
    if (status == PGAS_OK)
        status = introduce(world, &wants_ring);
    if (status == PGAS_OK && !make_ring())
        status = PGAS_ERR_NO_MEMORY;
    if (status == PGAS_OK) {
        pgasi_procs_watch(pgasi_watch.epoll_fd);
        pgasi_report_start(pgasi_watch.wake_fd);
        status = pgasi_watch_start_thread();
    }
    status = pgasi_mpi_agree(world, status);
    if (status == PGAS_OK)
        status = start_ring(world, wants_ring);
    if (status == PGAS_OK)
        pgasi_watch.phase = PGASI_WATCH_INIT;
    else
        pgasi_watch_end(world);
    return status;
}

/* ---- end ---- */

/* The last agreement of all ranks. It completes on a rank only after all others have begun it. */
static pgas_status_t part(MPI_Comm world)
{
    int mine = 0, all, done = 0;
    MPI_Request request = MPI_REQUEST_NULL;
    pgasi_mpi_lock();
    int rc = MPI_Iallreduce(&mine, &all, 1, MPI_INT, MPI_MIN, world, &request);
    pgasi_mpi_unlock();
    uint64_t patience = (uint64_t)pgasi_param.peer_timeout_s * PGASI_NS_PER_S;
    struct timespec pause = { 0, 20000 };
    while (rc == MPI_SUCCESS) {
        pgasi_mpi_lock();
        rc = MPI_Test(&request, &done, MPI_STATUS_IGNORE);
        pgasi_mpi_unlock();
        if (done || rc != MPI_SUCCESS)
            break;
        if (!pgasi_watch.has_thread)
            pgasi_watch_look_around();
        uint64_t since = __atomic_load_n(&pgasi_watch.vanished_ns, __ATOMIC_RELAXED);
        if (__atomic_load_n(&pgasi_watch.lost_in_the_end, __ATOMIC_ACQUIRE) ||
            (since && pgasi_now_ns() - since > patience))
            return PGAS_ERR_PEER;
        nanosleep(&pause, NULL);
    }
    return pgasi_mpi_status(rc, "the last agreement");
}

static void release(void)
{
    pgasi_watch_stop_thread();
    pgasi_report_stop();
    pgasi_hooks.look_around = NULL;
    pthread_mutex_lock(&pgasi_watch.lock);
    if (pgasi_watch.has_ring)
        pgasi_links_say_bye();
    pgasi_links_end();
    pgasi_watch.has_ring = false;
    pgasi_watch.phase = PGASI_WATCH_OFF;
    pgasi_procs_fini();
    if (pgasi_watch.epoll_fd >= 0)
        close(pgasi_watch.epoll_fd);
    if (pgasi_watch.wake_fd >= 0)
        close(pgasi_watch.wake_fd);
    pgasi_watch.epoll_fd = pgasi_watch.wake_fd = -1;
    pgasi_ring_fini(&pgasi_watch.ring);
    free(pgasi_watch.leader_of);
    free(pgasi_watch.addresses);
    free(pgasi_watch.suspects);
    free(pgasi_watch.news);
    pgasi_watch.leader_of = NULL;
    pgasi_watch.addresses = NULL;
    pgasi_watch.suspects = NULL;
    pgasi_watch.news = NULL;
    pthread_mutex_unlock(&pgasi_watch.lock);
}

pgas_status_t pgasi_watch_end(MPI_Comm world)
{
    pgas_status_t status = PGAS_OK;
    __atomic_store_n(&pgasi_watch.phase, PGASI_WATCH_ENDING, __ATOMIC_RELEASE);
    if (world != MPI_COMM_NULL)
        status = part(world);
    if (status == PGAS_ERR_PEER && pgasi_param.on_peer_death == PGASI_ON_PEER_DEATH_ABORT) {
        PGASI_ERROR("watch", "a rank died while the library ended: ending the job");
        pgasi_boot_abort(1);
    }
    release();
    return status;
}
