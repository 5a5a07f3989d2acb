/* Connects ranks. The first context that needs a peer opens a TCP connection between the two ranks.
 * All contexts of both exchange the addresses of their queue pairs over it. It stays open, because
 * a socket shows the end of a process at once, and a queue pair late or never. A rank that
 * finalizes announces it first. Any other end of a connection proves nothing (lost.c).
 *
 * One lock guards all of it. No transfer takes the lock, and nothing blocks. The thread of any
 * context may read and write. Context 0 does the work that needs the receive queue: it opens and
 * closes the other end of a queue pair. */
#include "verbs_backend/transport/cm.h"

#include <errno.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include "base/log.h"

#define EVENTS 16

static size_t table_bytes(const pgasi_verbs_tp_t *tp)
{
    return (size_t)tp->opts.n_ranks * sizeof(pgasi_cm_connection_t *);
}

/* ---- jobs of context 0 ---- */

void pgasi_cm_add_job(pgasi_verbs_cm_t *cm, uint64_t connection, int peer,
                      const pgasi_cm_record_t *record)
{
    pgasi_cm_job_t *job = calloc(1, sizeof *job);
    if (!job)
        pgasi_fatal("verbs", "no memory to answer rank %d", peer);
    job->connection = connection;
    job->peer = peer;
    if (record)
        job->record = *record;
    *cm->last_job = job;
    cm->last_job = &job->next;
    __atomic_store_n(&cm->n_jobs, cm->n_jobs + 1, __ATOMIC_RELEASE);
}

static pgasi_cm_connection_t *find_connection(const pgasi_verbs_cm_t *cm, uint64_t id)
{
    pgasi_cm_connection_t *at = cm->connections;
    while (at && at->id != id)
        at = at->next;
    return at && at->state == PGASI_CM_OPEN ? at : NULL;
}

static pgasi_cm_job_t *take_job(pgasi_verbs_cm_t *cm)
{
    pthread_mutex_lock(&cm->lock);
    pgasi_cm_job_t *job = cm->jobs;
    if (job) {
        cm->jobs = job->next;
        cm->last_job = !cm->jobs ? &cm->jobs : cm->last_job;
        __atomic_store_n(&cm->n_jobs, cm->n_jobs - 1, __ATOMIC_RELEASE);
    }
    pthread_mutex_unlock(&cm->lock);
    return job;
}

static void do_job(pgasi_verbs_ctx_t *ctx, const pgasi_cm_job_t *job)
{
    const pgasi_cm_record_t *asked = &job->record;
    if (asked->kind != PGASI_CM_CONNECT_REQUEST) {
        pgasi_verbs_dismiss(ctx, job->peer,
                            asked->kind == PGASI_CM_DISCONNECT ? asked->inbound
                                                               : PGASI_VERBS_ALL_INBOUND);
        return;
    }
    pgasi_cm_record_t record = { .kind = PGASI_CM_CONNECT_REPLY, .ticket = asked->ticket };
    const pgasi_verbs_asked_t request = { .peer = job->peer,
                                          .ctx = (int)asked->ctx,
                                          .rail = (int)asked->rail,
                                          .theirs = &asked->address,
                                          .slots_addr = asked->slots_addr,
                                          .slots_rkey = asked->slots_rkey };
    record.status = (int16_t)pgasi_verbs_accept(ctx, &request, &record.address, &record.inbound);
    pthread_mutex_lock(&ctx->tp->cm->lock);
    pgasi_cm_connection_t *connection = find_connection(ctx->tp->cm, job->connection);
    if (connection)
        pgasi_cm_send_record(ctx->tp->cm, connection, ctx->tp, &record);
    pthread_mutex_unlock(&ctx->tp->cm->lock);
    /* the peer repeats its request on another connection */
    if (!connection && record.status == PGAS_OK)
        pgasi_verbs_dismiss(ctx, job->peer, record.inbound);
}

static int do_jobs(pgasi_verbs_ctx_t *ctx)
{
    int n = 0;
    for (pgasi_cm_job_t *job; (job = take_job(ctx->tp->cm)) != NULL; n++) {
        do_job(ctx, job);
        free(job);
    }
    return n;
}

static void wake_service(pgasi_verbs_tp_t *tp)
{
    pthread_mutex_lock(&tp->lock);
    if (tp->ctxs[0])
        pgasi_verbs_wake(&tp->ctxs[0]->super);
    pthread_mutex_unlock(&tp->lock);
}

/* ---- connect requests ---- */

void pgasi_cm_complete_request(pgasi_verbs_tp_t *tp, pgasi_verbs_connect_t *request,
                               pgas_status_t status)
{
    pgasi_verbs_connect_t **at = &tp->cm->requests;
    while (*at != request)
        at = &(*at)->next;
    *at = request->next;
    request->status = status;
    __atomic_store_n(&request->completed, 1, __ATOMIC_RELEASE);
    pgasi_verbs_wake(&request->ctx->super);
}

void pgasi_cm_complete_all(pgasi_verbs_tp_t *tp, int peer, pgas_status_t status)
{
    for (pgasi_verbs_connect_t *request = tp->cm->requests, *next; request != NULL;
         request = next) {
        next = request->next;
        if (request->peer == peer)
            pgasi_cm_complete_request(tp, request, status);
    }
}

static void send_request(pgasi_verbs_tp_t *tp, pgasi_cm_connection_t *connection,
                         pgasi_verbs_connect_t *request)
{
    pgasi_cm_record_t record = { .kind = PGASI_CM_CONNECT_REQUEST,
                                 .ctx = (uint32_t)request->ctx->index,
                                 .ticket = request->ticket,
                                 .slots_addr = request->slots_addr,
                                 .slots_rkey = request->slots_rkey,
                                 .rail = (uint32_t)request->rail,
                                 .address = request->mine };
    request->sent = true;
    pgasi_cm_send_record(tp->cm, connection, tp, &record);
}

void pgasi_cm_send_requests(pgasi_verbs_tp_t *tp, pgasi_cm_connection_t *connection)
{
    for (pgasi_verbs_connect_t *request = tp->cm->requests; request != NULL;
         request = request->next)
        if (request->peer == connection->peer && !request->sent)
            send_request(tp, connection, request);
}

void pgasi_cm_take_back_requests(const pgasi_verbs_tp_t *tp, int peer)
{
    for (pgasi_verbs_connect_t *request = tp->cm->requests; request != NULL;
         request = request->next)
        request->sent = request->sent && request->peer != peer;
}

void pgasi_verbs_cm_connect(pgasi_verbs_tp_t *tp, pgasi_verbs_connect_t *request)
{
    pgasi_verbs_cm_t *cm = tp->cm;
    pthread_mutex_lock(&cm->lock);
    request->ticket = ++cm->n_tickets;
    request->next = cm->requests;
    cm->requests = request;
    pgasi_cm_connection_t *connection = cm->of_peer[request->peer];
    if (!connection)
        pgasi_cm_begin_connect(tp, request->peer, false);
    else if (connection->left)
        pgasi_cm_complete_request(tp, request, PGAS_ERR_PEER);
    else if (connection->state == PGASI_CM_OPEN)
        send_request(tp, connection, request);
    pthread_mutex_unlock(&cm->lock);
}

void pgasi_verbs_cm_cancel(pgasi_verbs_tp_t *tp, pgasi_verbs_connect_t *request)
{
    pthread_mutex_lock(&tp->cm->lock);
    if (!request->completed) {
        pgasi_cm_complete_request(tp, request, PGAS_ERR_PEER);
    } else if (request->status == PGAS_OK && tp->cm->of_peer[request->peer] &&
               tp->cm->of_peer[request->peer]->state == PGASI_CM_OPEN) {
        pgasi_cm_send_record(tp->cm, tp->cm->of_peer[request->peer], tp,
                             &(pgasi_cm_record_t){ .kind = PGASI_CM_DISCONNECT,
                                                   .inbound = request->inbound });
    }
    pthread_mutex_unlock(&tp->cm->lock);
}

void pgasi_verbs_cm_await_replies(pgasi_verbs_tp_t *tp)
{
    pthread_mutex_lock(&tp->cm->lock);
    pthread_mutex_unlock(&tp->cm->lock);
}

/* ---- for contexts ---- */

int pgasi_verbs_cm_fd(const pgasi_verbs_tp_t *tp)
{
    return tp->cm->epoll_fd;
}

bool pgasi_verbs_cm_has_jobs(const pgasi_verbs_tp_t *tp)
{
    return __atomic_load_n(&tp->cm->n_jobs, __ATOMIC_ACQUIRE) > 0;
}

/* The peer may have opened a connection before this rank saw the end of the former one. */
static bool take_open_one(pgasi_verbs_tp_t *tp, int peer)
{
    for (pgasi_cm_connection_t *at = tp->cm->connections; at != NULL; at = at->next) {
        if (at->peer == peer && at->state == PGASI_CM_OPEN && !at->left) {
            tp->cm->of_peer[peer] = at;
            pgasi_cm_send_requests(tp, at);
            return true;
        }
    }
    return false;
}

bool pgasi_verbs_cm_reconnect(pgasi_verbs_tp_t *tp, int peer)
{
    pthread_mutex_lock(&tp->cm->lock);
    if (!tp->cm->of_peer[peer] && !take_open_one(tp, peer))
        pgasi_cm_begin_connect(tp, peer, true);
    const pgasi_cm_connection_t *connection = tp->cm->of_peer[peer];
    bool open = connection && connection->state == PGASI_CM_OPEN;
    pthread_mutex_unlock(&tp->cm->lock);
    return open;
}

void pgasi_verbs_cm_dismiss(pgasi_verbs_tp_t *tp, int peer)
{
    pthread_mutex_lock(&tp->cm->lock);
    pgasi_cm_add_job(tp->cm, 0, peer, NULL);
    pthread_mutex_unlock(&tp->cm->lock);
}

int pgasi_verbs_cm_run(pgasi_verbs_ctx_t *ctx)
{
    pgasi_verbs_tp_t *tp = ctx->tp;
    pgasi_verbs_cm_t *cm = tp->cm;
    struct epoll_event events[EVENTS];
    if (pthread_mutex_trylock(&cm->lock) != 0)
        return 0;
    int n = epoll_wait(cm->epoll_fd, events, EVENTS, 0);
    for (int i = 0; i < n; i++)
        if (!events[i].data.ptr || events[i].data.ptr == &cm->timer_fd)
            pgasi_cm_on_own_event(tp, &events[i]);
        else
            pgasi_cm_on_event(tp, events[i].data.ptr, events[i].events);
    if (cm->n_connecting > 0)
        pgasi_cm_check_limits(tp);
    pgasi_cm_sweep(cm);
    pthread_mutex_unlock(&cm->lock);
    pgasi_verbs_lost_run(tp);
    if (ctx->index == 0 && ctx->receiver)
        n += do_jobs(ctx);
    else if (pgasi_verbs_cm_has_jobs(tp))
        wake_service(tp);
    return PGASI_MAX(n, 0);
}

void pgasi_verbs_cm_disconnect(pgasi_verbs_tp_t *tp, int peer, uint32_t inbound)
{
    pthread_mutex_lock(&tp->cm->lock);
    pgasi_cm_connection_t *connection = tp->cm->of_peer[peer];
    if (connection && connection->state == PGASI_CM_OPEN)
        pgasi_cm_send_record(tp->cm, connection, tp,
                             &(pgasi_cm_record_t){ .kind = PGASI_CM_DISCONNECT,
                                                   .inbound = inbound });
    pthread_mutex_unlock(&tp->cm->lock);
}

void pgasi_verbs_cm_leave(pgasi_verbs_tp_t *tp)
{
    pgasi_verbs_cm_t *cm = tp->cm;
    pthread_mutex_lock(&cm->lock);
    if (!cm->leaving) {
        cm->leaving = true;
        for (pgasi_cm_connection_t *at = cm->connections; at != NULL; at = at->next)
            if (at->state == PGASI_CM_OPEN)
                pgasi_cm_send_record(cm, at, tp, &(pgasi_cm_record_t){ .kind = PGASI_CM_LEAVE });
    }
    pthread_mutex_unlock(&cm->lock);
}

/* ---- opening and closing ---- */

pgas_status_t pgasi_verbs_cm_open(pgasi_verbs_tp_t *tp)
{
    pgas_status_t status = pgasi_cm_find_hosts(tp);
    pgasi_verbs_cm_t *cm = status == PGAS_OK ? calloc(1, sizeof *cm) : NULL;
    if (!cm)
        return status == PGAS_OK ? PGAS_ERR_NO_MEMORY : status;
    void *table = mmap(NULL, table_bytes(tp), PROT_READ | PROT_WRITE,
                       MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (!pgasi_cm_open_descriptors(tp, cm) || table == MAP_FAILED) {
        int error = errno;
        PGASI_ERROR("verbs", "cannot listen for other ranks: %s%s", strerror(error),
                    pgasi_cm_is_full(error) ? "; see ulimit -n" : "");
        if (table != MAP_FAILED)
            munmap(table, table_bytes(tp));
        pgasi_cm_close_descriptors(cm);
        free(cm);
        return PGAS_ERR_IO;
    }
    cm->of_peer = table;
    cm->last_job = &cm->jobs;
    pthread_mutex_init(&cm->lock, NULL);
    tp->cm = cm;
    return PGAS_OK;
}

void pgasi_verbs_cm_close(pgasi_verbs_tp_t *tp)
{
    pgasi_verbs_cm_t *cm = tp->cm;
    for (pgasi_cm_connection_t *at = cm->connections; at != NULL; at = at->next)
        if (at->state != PGASI_CM_CLOSED)
            pgasi_cm_close_connection(tp, at);
    pgasi_cm_sweep(cm);
    while (cm->jobs) {
        pgasi_cm_job_t *job = cm->jobs;
        cm->jobs = job->next;
        free(job);
    }
    pgasi_cm_close_descriptors(cm);
    munmap(cm->of_peer, table_bytes(tp));
    pthread_mutex_destroy(&cm->lock);
    free(cm);
    tp->cm = NULL;
}
