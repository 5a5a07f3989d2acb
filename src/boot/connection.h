/** Connections and sockets of the service ring, for links.c. */
#ifndef PGASI_CONNECTION_H
#define PGASI_CONNECTION_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/socket.h>
#include "boot/watch.h"

/* ---- socket.c ---- */

/** Fills in the address as the kernel takes it. @return its length */
socklen_t pgasi_socket_address(const pgasi_address_t *address, struct sockaddr_storage *to_p);
void pgasi_socket_set_options(int fd);
/** Whether an error says that the host did not answer. */
bool pgasi_socket_is_silence(int error);
/** Whether an error says that descriptors or memory are missing here. */
bool pgasi_socket_is_full(int error);
/** Listens at the address, fills in its port, and writes both as text.
 *  @return the descriptor, or -1 */
int pgasi_socket_listen(pgasi_address_t *address_io, int backlog, char *text, size_t bytes);

/* ---- connection.c ---- */

#define PGASI_RECORD_BYTES 24

typedef struct pgasi_connection {
    struct pgasi_connection *next;
    uint32_t id;
    int fd, rank; /* rank -1: a stranger */
    enum {
        PGASI_WAITING,
        PGASI_DIALLING,
        PGASI_GREETED,
        PGASI_STRANGER,
        PGASI_LINKED,
        PGASI_CLOSING,
        PGASI_CLOSED
    } state;
    bool dialled;
    int n_drops;
    /* of WAITING: the next try; of dials, strangers and CLOSING: the end */
    uint64_t due_ns, limit_ns;
    size_t in_bytes, out_bytes, out_room;
    char in[PGASI_RECORD_BYTES];
    char *out;
} pgasi_connection_t;

typedef struct {
    int epoll_fd;
    pgasi_connection_t *first; /* newest first */
    uint32_t n_ids;            /* 0 is the listener's */
} pgasi_connections_t;

/** @return NULL: no memory */
pgasi_connection_t *pgasi_connection_add(pgasi_connections_t *set, int fd, int rank);
pgasi_connection_t *pgasi_connection_find(const pgasi_connections_t *set, uint32_t id);
/** Sets the events that the connection waits for. how: EPOLL_CTL_ADD or EPOLL_CTL_MOD */
void pgasi_connection_poll(const pgasi_connections_t *set, const pgasi_connection_t *c, int how);
/** Queues data and sends as much as the socket accepts. */
void pgasi_connection_send(const pgasi_connections_t *set, pgasi_connection_t *c, const void *data,
                           size_t bytes);
/** Sends as much of the queued data as the socket accepts. */
void pgasi_connection_push(const pgasi_connections_t *set, pgasi_connection_t *c);
/** Closes the socket. The sweep frees the connection. */
void pgasi_connection_close(pgasi_connection_t *c);
void pgasi_connections_sweep(pgasi_connections_t *set);

#endif
