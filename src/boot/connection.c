/* Connections of the service ring: their list, the events for which epoll waits, and the data that
 * are not sent yet. */
#include "boot/connection.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <unistd.h>

void pgasi_connection_poll(const pgasi_connections_t *set, const pgasi_connection_t *c, int how)
{
    bool writes = c->state == PGASI_DIALLING || c->out_bytes > 0, reads = c->state != PGASI_CLOSING;
    struct epoll_event event = { .events = (reads ? EPOLLIN : 0u) | (writes ? EPOLLOUT : 0u),
                                 .data.u64 = PGASI_LINKS_EVENT | c->id };
    epoll_ctl(set->epoll_fd, how, c->fd, &event);
}

pgasi_connection_t *pgasi_connection_add(pgasi_connections_t *set, int fd, int rank)
{
    pgasi_connection_t *c = calloc(1, sizeof *c);
    if (!c)
        return NULL;
    set->n_ids = set->n_ids % INT32_MAX + 1; /* 0 is the listener */
    c->id = set->n_ids;
    c->fd = fd;
    c->rank = rank;
    c->limit_ns = c->due_ns = UINT64_MAX;
    c->next = set->first;
    set->first = c;
    return c;
}

pgasi_connection_t *pgasi_connection_find(const pgasi_connections_t *set, uint32_t id)
{
    pgasi_connection_t *c = set->first;
    while (c && c->id != id)
        c = c->next;
    return c;
}

void pgasi_connection_close(pgasi_connection_t *c)
{
    if (c->fd >= 0)
        close(c->fd);
    c->fd = -1;
    c->state = PGASI_CLOSED;
}

void pgasi_connections_sweep(pgasi_connections_t *set)
{
    for (pgasi_connection_t **at = &set->first; *at;) {
        pgasi_connection_t *c = *at;
        if (c->state != PGASI_CLOSED) {
            at = &c->next;
            continue;
        }
        *at = c->next;
        free(c->out);
        free(c);
    }
}

void pgasi_connection_push(const pgasi_connections_t *set, pgasi_connection_t *c)
{
    size_t sent = 0;
    bool broken = false; /* a read will report it */
    while (sent < c->out_bytes && !broken) {
        ssize_t n = send(c->fd, c->out + sent, c->out_bytes - sent, MSG_NOSIGNAL | MSG_DONTWAIT);
        if (n < 0 && errno == EAGAIN)
            break;
        broken = n <= 0;
        sent += broken ? 0 : (size_t)n;
    }
    c->out_bytes -= sent;
    if (c->out_bytes > 0)
        memmove(c->out, c->out + sent, c->out_bytes);
    if (c->state == PGASI_CLOSING && (broken || c->out_bytes == 0))
        pgasi_connection_close(c);
    else
        pgasi_connection_poll(set, c, EPOLL_CTL_MOD);
}

void pgasi_connection_send(const pgasi_connections_t *set, pgasi_connection_t *c, const void *data,
                           size_t bytes)
{
    if (c->out_bytes + bytes > c->out_room) {
        size_t room = 2 * c->out_room + 4 * bytes;
        char *out = realloc(c->out, room);
        if (!out)
            return; /* this link loses the report; another link may carry it */
        c->out = out;
        c->out_room = room;
    }
    memcpy(c->out + c->out_bytes, data, bytes);
    c->out_bytes += bytes;
    pgasi_connection_push(set, c);
}
