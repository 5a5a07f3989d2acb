/* Replicas of processes without a job: creation, the service thread, and queries. */
#include "group/replica.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <signal.h>
#include <unistd.h>
#include "base/checks.h"
#include "base/info_fill.h"
#include "base/log.h"
#include "group/device.h"

#define CLIENTS_MAX   64u
#define CLIENTS_LIMIT (1u << 20)
#define EVENTS        64
#define RECORDS       4u /* for each client: most of them have vanished */

/* ---- the service thread ---- */

static void on_source(pgas_replica_t *replica, const pgasi_group_source_t *source, uint32_t events)
{
    switch (source->kind) {
    case PGASI_SOURCE_LISTENER:
        pgasi_peers_accept(replica);
        return;
    case PGASI_SOURCE_PEER:
        pgasi_peer_on_event(source->peer, events);
        return;
    case PGASI_SOURCE_SESSION:
        pgasi_peer_poll_session(source->peer);
        return;
    case PGASI_SOURCE_WAKEUP:
    default:
        return; /* has_ended says the rest */
    }
}

static void *serve(void *arg)
{
    pgas_replica_t *replica = arg;
    struct epoll_event events[EVENTS];
    pthread_mutex_lock(&replica->lock);
    while (!replica->has_ended) {
        int limit_ms = pgasi_peers_check_limits(replica);
        pgasi_peers_sweep(replica);
        pthread_mutex_unlock(&replica->lock);
        int n = epoll_wait(replica->epoll_fd, events, EVENTS, limit_ms);
        pthread_mutex_lock(&replica->lock);
        replica->n_rounds++;
        for (int i = 0; i < n && !replica->has_ended; i++)
            on_source(replica, events[i].data.ptr, events[i].events);
    }
    pthread_mutex_unlock(&replica->lock);
    return NULL;
}

/* Signals are for the threads of the program. */
static pgas_status_t start_thread(pgas_replica_t *replica)
{
    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    int error = pthread_create(&replica->thread, NULL, serve, replica);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    return error == 0 ? PGAS_OK : PGAS_ERR_LIMIT;
}

/* ---- the region ---- */

static pgas_status_t open_device(pgas_replica_t *replica, const char *device)
{
    pgas_verbs_info_t info = { .size = sizeof info };
    pgas_status_t status = pgasi_group_device_open(device, &replica->dev);
    if (status == PGAS_OK)
        status = pgas_verbs_info(replica->dev, &info);
    if (status != PGAS_OK)
        return status;
    memcpy(replica->provider, info.provider, sizeof replica->provider);
    replica->ways = pgasi_group_device_ways(replica->dev) & pgasi_session_ways();
    return PGAS_OK;
}

/* Where only calls carry pieces, no card needs to reach the region. */
static pgas_status_t map_region(pgas_replica_t *replica, void *region)
{
    if (!region) {
        region = mmap(NULL, replica->region_bytes, PROT_READ | PROT_WRITE,
                      MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
        if (region == MAP_FAILED)
            return PGAS_ERR_NO_MEMORY;
        replica->own_region = true;
    }
    replica->region = region;
    return PGAS_OK;
}

static pgas_status_t make_region(pgas_replica_t *replica, const pgas_replica_opts_t *opts,
                                 bool uses_card)
{
    pgas_status_t status = uses_card ? open_device(replica, opts->device) : PGAS_ERR_UNSUPPORTED;
    replica->ways |= pgasi_session_ways() & PGASI_GROUP_HAS(PGAS_GROUP_CALLS);
    if (status != PGAS_OK)
        return replica->ways == 0 ? status : map_region(replica, opts->region);
    status = pgas_verbs_mem_register(replica->dev, opts->region, replica->region_bytes,
                                     PGAS_VERBS_ACCESS_ALL, &replica->mem);
    replica->region = replica->mem.addr;
    return status;
}

/* ---- creation ---- */

static pgas_status_t watch(const pgas_replica_t *replica, int fd, pgasi_group_source_t *source)
{
    struct epoll_event event = { .events = EPOLLIN, .data.ptr = source };
    return epoll_ctl(replica->epoll_fd, EPOLL_CTL_ADD, fd, &event) == 0 ? PGAS_OK : PGAS_ERR_LIMIT;
}

static pgas_status_t make_descriptors(pgas_replica_t *replica)
{
    replica->epoll_fd = epoll_create1(EPOLL_CLOEXEC);
    replica->wakeup_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    replica->spare_fd = open("/dev/null", O_RDONLY | O_CLOEXEC);
    if (replica->epoll_fd < 0 || replica->wakeup_fd < 0 || replica->spare_fd < 0)
        return PGAS_ERR_LIMIT;
    replica->listener.kind = PGASI_SOURCE_LISTENER;
    replica->wakeup.kind = PGASI_SOURCE_WAKEUP;
    pgas_status_t status = watch(replica, replica->wakeup_fd, &replica->wakeup);
    return status == PGAS_OK ? watch(replica, replica->listen_fd, &replica->listener) : status;
}

static void close_if_open(int fd)
{
    if (fd >= 0)
        close(fd);
}

static void free_replica(pgas_replica_t *replica)
{
    close_if_open(replica->listen_fd);
    close_if_open(replica->epoll_fd);
    close_if_open(replica->wakeup_fd);
    close_if_open(replica->spare_fd);
    if (replica->own_region)
        munmap(replica->region, replica->region_bytes);
    if (replica->dev) {
        pgas_verbs_mem_release(replica->dev, &replica->mem);
        pgas_verbs_close(replica->dev);
    }
    pgasi_copy_end(replica);
    pgasi_records_fini(&replica->records);
    pthread_mutex_destroy(&replica->lock);
    explicit_bzero(replica->key, sizeof replica->key);
    free(replica);
}

static pgas_status_t check_opts(const pgas_replica_opts_t *opts)
{
    size_t page = (size_t)sysconf(_SC_PAGESIZE);
    if (!opts || !PGASI_OPTS_SANE(opts, sizeof *opts) || !opts->listen || opts->region_bytes == 0)
        return PGAS_ERR_INVALID;
    if ((opts->next && strlen(opts->next) >= PGASI_GROUP_NAME_BYTES) ||
        opts->clients_max > CLIENTS_LIMIT)
        return PGAS_ERR_INVALID;
    if (opts->region && ((uintptr_t)opts->region % page != 0 || opts->region_bytes % page != 0))
        return PGAS_ERR_INVALID;
    return opts->region_bytes <= PGASI_GROUP_REGION_MAX ? PGAS_OK : PGAS_ERR_LIMIT;
}

static pgas_status_t fill_in(pgas_replica_t *replica, const pgas_replica_opts_t *opts,
                             bool uses_card)
{
    pgas_status_t status = pgasi_group_key(opts->key, replica->key);
    if (status != PGAS_OK)
        return status;
    replica->id = pgasi_group_random();
    replica->clients_max = opts->clients_max != 0 ? opts->clients_max : CLIENTS_MAX;
    replica->region_bytes = PGASI_ALIGN_UP(opts->region_bytes, (uint64_t)sysconf(_SC_PAGESIZE));
    status = pgasi_records_init(&replica->records, RECORDS * replica->clients_max);
    if (status != PGAS_OK)
        return status;
    if (opts->next)
        memcpy(replica->next, opts->next, strlen(opts->next));
    status = pgasi_group_listen(opts->listen, replica->key[0] != 0, &replica->listen_fd,
                                replica->address);
    if (status == PGAS_OK)
        status = make_descriptors(replica);
    return status == PGAS_OK ? make_region(replica, opts, uses_card) : status;
}

pgas_status_t pgas_replica_create(const pgas_replica_opts_t *opts, pgas_replica_t **replica_p)
{
    return pgasi_replica_make(opts, true, replica_p);
}

pgas_status_t pgasi_replica_make(const pgas_replica_opts_t *opts, bool uses_card,
                                 pgas_replica_t **replica_p)
{
    pgas_status_t status = replica_p != NULL ? check_opts(opts) : PGAS_ERR_INVALID;
    if (status != PGAS_OK)
        return status;
    pgas_replica_t *replica = calloc(1, sizeof *replica);
    if (!replica)
        return PGAS_ERR_NO_MEMORY;
    replica->listen_fd = replica->epoll_fd = replica->wakeup_fd = replica->spare_fd = -1;
    pthread_mutex_init(&replica->lock, NULL);
    status = fill_in(replica, opts, uses_card);
    if (status == PGAS_OK)
        status = start_thread(replica);
    if (status != PGAS_OK) {
        free_replica(replica);
        return status;
    }
    PGASI_INFO("group", "replica at %s, region of %llu bytes", replica->address,
               (unsigned long long)replica->region_bytes);
    *replica_p = replica;
    return PGAS_OK;
}

pgas_status_t pgas_replica_destroy(pgas_replica_t *replica)
{
    const uint64_t one = 1;
    if (!replica)
        return PGAS_OK;
    pthread_mutex_lock(&replica->lock);
    replica->has_ended = true;
    pthread_mutex_unlock(&replica->lock);
    ssize_t n = write(replica->wakeup_fd, &one, sizeof one);
    (void)n; /* the counter is not full */
    pthread_join(replica->thread, NULL);
    for (pgasi_group_peer_t *peer = replica->peers; peer != NULL; peer = peer->next)
        pgasi_peer_close(peer);
    pgasi_peers_sweep(replica);
    free_replica(replica);
    return PGAS_OK;
}

pgas_status_t pgas_replica_info(pgas_replica_t *replica, pgas_replica_info_t *info_p)
{
    pgas_replica_info_t info;
    pgasi_group_state_t state;
    if (!replica)
        return PGAS_ERR_INVALID;
    memset(&info, 0, sizeof info);
    pthread_mutex_lock(&replica->lock);
    pgasi_replica_count(replica, &state);
    pthread_mutex_unlock(&replica->lock);
    memcpy(info.address, replica->address, sizeof info.address);
    info.region = replica->region;
    info.region_bytes = replica->region_bytes;
    info.epoch = state.epoch;
    info.n_clients = state.n_clients;
    info.n_executed = state.n_executed;
    info.n_refills = state.n_refills;
    info.refill_ns = state.refill_ns;
    return pgasi_info_fill(info_p, &info, sizeof info);
}
