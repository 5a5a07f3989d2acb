/* Connections of a replica. Nothing here waits. A peer that sends nothing, little or garbage costs
 * a descriptor for a moment. Connections without a right HELLO are few and have a time limit, and
 * the oldest one is closed for a new one. Peers that do not read their answers are closed. */
#include "group/replica.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>
#include "base/checks.h"
#include "base/clock.h"
#include "base/log.h"

#define STRANGERS_MAX 64
#define HELLO_NS      (5 * PGASI_NS_PER_S)
#define TURN          16         /* messages of one connection before others have their turn */
#define OUT_PAUSE     (1u << 20) /* answers that wait; requests are not read meanwhile */
#define OUT_MAX       (8u << 20)

static bool takes_requests(const pgasi_group_peer_t *peer)
{
    return peer->out_bytes < OUT_PAUSE && !peer->is_ending;
}

static void watch(const pgasi_group_peer_t *peer, int how)
{
    uint32_t reads = takes_requests(peer) ? EPOLLIN : 0,
             writes = peer->out_bytes > 0 ? EPOLLOUT : 0;
    struct epoll_event event = { .events = reads | writes,
                                 .data.ptr = (void *)(uintptr_t)&peer->source };
    epoll_ctl(peer->replica->epoll_fd, how, peer->fd, &event);
}

/* ---- beginning and end ---- */

static bool add_peer(pgas_replica_t *replica, int fd)
{
    pgasi_group_peer_t *peer = calloc(1, sizeof *peer);
    if (!peer)
        return false;
    peer->replica = peer->session.replica = replica;
    peer->source = (pgasi_group_source_t){ PGASI_SOURCE_PEER, peer };
    peer->session.source = (pgasi_group_source_t){ PGASI_SOURCE_SESSION, peer };
    peer->fd = fd;
    peer->id = ++replica->n_peers;
    peer->limit_ns = pgasi_now_ns() + HELLO_NS;
    peer->next = replica->peers;
    replica->peers = peer;
    pgasi_group_set_options(fd);
    watch(peer, EPOLL_CTL_ADD);
    return true;
}

/* Makes room for a new stranger. The list has the newest first. */
static void limit_strangers(const pgas_replica_t *replica)
{
    pgasi_group_peer_t *oldest = NULL;
    int n = 0;
    for (pgasi_group_peer_t *peer = replica->peers; peer != NULL; peer = peer->next) {
        if (peer->fd < 0 || peer->is_known)
            continue;
        n++;
        oldest = peer;
    }
    if (n >= STRANGERS_MAX)
        pgasi_peer_close(oldest);
}

/* Without descriptors the connection would stay in the backlog, and wake the thread again and
 * again. */
static void turn_away(pgas_replica_t *replica)
{
    static int warned;
    pgasi_warn_once(&warned, "group", "no descriptors are left for clients: see ulimit -n");
    if (replica->spare_fd < 0)
        return;
    close(replica->spare_fd);
    int fd = accept(replica->listen_fd, NULL, NULL);
    if (fd >= 0)
        close(fd);
    replica->spare_fd = open("/dev/null", O_RDONLY | O_CLOEXEC);
}

void pgasi_peers_accept(pgas_replica_t *replica)
{
    for (int i = 0; i < TURN; i++) {
        int fd = accept4(replica->listen_fd, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);
        if (fd < 0 && (errno == EMFILE || errno == ENFILE || errno == ENOMEM))
            turn_away(replica);
        if (fd < 0)
            return;
        limit_strangers(replica);
        if (!add_peer(replica, fd))
            close(fd);
    }
}

void pgasi_peer_close(pgasi_group_peer_t *peer)
{
    if (peer->fd < 0)
        return;
    epoll_ctl(peer->replica->epoll_fd, EPOLL_CTL_DEL, peer->fd, NULL);
    close(peer->fd);
    peer->fd = -1;
    pgasi_peer_gone(peer);
}

void pgasi_peers_sweep(pgas_replica_t *replica)
{
    for (pgasi_group_peer_t **at = &replica->peers; *at != NULL;) {
        pgasi_group_peer_t *peer = *at;
        if (peer->fd >= 0) {
            at = &peer->next;
            continue;
        }
        *at = peer->next;
        free(peer->in.body);
        free(peer->out);
        free(peer);
    }
}

int pgasi_peers_check_limits(pgas_replica_t *replica)
{
    uint64_t now_ns = pgasi_now_ns(), first_ns = UINT64_MAX;
    for (pgasi_group_peer_t *peer = replica->peers; peer != NULL; peer = peer->next) {
        if (peer->fd < 0 || peer->is_known)
            continue;
        if (peer->limit_ns <= now_ns)
            pgasi_peer_close(peer);
        else
            first_ns = PGASI_MIN(first_ns, peer->limit_ns);
    }
    if (replica->list.is_frozen) {
        if (replica->thaw_ns <= now_ns)
            pgasi_replica_thaw(replica, 0);
        else
            first_ns = PGASI_MIN(first_ns, replica->thaw_ns);
    }
    return first_ns == UINT64_MAX ? -1 : (int)((first_ns - now_ns) / PGASI_NS_PER_MS) + 1;
}

/* ---- bytes ---- */

static void write_out(pgasi_group_peer_t *peer)
{
    size_t sent = 0;
    while (sent < peer->out_bytes) {
        ssize_t n =
            send(peer->fd, peer->out + sent, peer->out_bytes - sent, MSG_NOSIGNAL | MSG_DONTWAIT);
        if (n <= 0)
            break; /* the socket is full; or broken, which the next read finds out */
        sent += (size_t)n;
    }
    peer->out_bytes -= sent;
    if (peer->out_bytes > 0)
        memmove(peer->out, peer->out + sent, peer->out_bytes);
    if (peer->out_bytes == 0 && peer->is_ending)
        pgasi_peer_close(peer);
    else
        watch(peer, EPOLL_CTL_MOD);
}

static bool make_room(pgasi_group_peer_t *peer, size_t bytes)
{
    if (peer->out_bytes + bytes <= peer->out_room)
        return true;
    size_t room = 2 * peer->out_room + bytes;
    unsigned char *out = room <= OUT_MAX ? realloc(peer->out, room) : NULL;
    if (!out)
        return false;
    peer->out = out;
    peer->out_room = room;
    return true;
}

void pgasi_peer_send(pgasi_group_peer_t *peer, uint16_t type, uint32_t number, const void *body,
                     uint32_t bytes)
{
    const pgasi_group_head_t head = { PGASI_GROUP_MAGIC, PGASI_GROUP_VERSION, type, bytes, number };
    if (peer->fd < 0)
        return;
    if (!make_room(peer, sizeof head + bytes)) {
        pgasi_peer_close(peer);
        return;
    }
    memcpy(peer->out + peer->out_bytes, &head, sizeof head);
    if (bytes > 0)
        memcpy(peer->out + peer->out_bytes + sizeof head, body, bytes);
    peer->out_bytes += sizeof head + bytes;
    write_out(peer);
}

static void read_in(pgasi_group_peer_t *peer)
{
    for (int i = 0; i < TURN && peer->fd >= 0 && takes_requests(peer); i++) {
        pgas_status_t status = pgasi_group_recv(peer->fd, &peer->in, 0);
        if (status == PGAS_ERR_AGAIN)
            return;
        bool may_be_answered =
            status == PGAS_OK || status == PGAS_ERR_LIMIT || status == PGAS_ERR_MISMATCH;
        if (may_be_answered)
            pgasi_peer_answer(peer, status);
        else
            pgasi_peer_close(peer);
    }
}

void pgasi_peer_on_event(pgasi_group_peer_t *peer, uint32_t events)
{
    if (peer->fd >= 0 && (events & EPOLLOUT) != 0)
        write_out(peer);
    if (peer->fd >= 0 && (events & ~(uint32_t)EPOLLOUT) != 0)
        read_in(peer);
    if (peer->fd >= 0 && (events & (EPOLLHUP | EPOLLERR)) != 0)
        pgasi_peer_close(peer);
}
