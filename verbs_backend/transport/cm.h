/** The connection manager: the declarations that its files share. cm.c serves contexts, cm_socket.c
 *  manages TCP connections, cm_listen.c the listeners, hosts.c the addresses. cm->lock guards all
 *  of it. */
#ifndef PGASI_VERBS_CM_H
#define PGASI_VERBS_CM_H

#include <errno.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include "verbs_backend/transport/inside.h"

#define PGASI_CM_STRANGER_NS \
    UINT64_C(30000000000) /* time limit of a connecting process for sending HELLO */

enum {
    PGASI_CM_HELLO = 1,
    PGASI_CM_WELCOME,
    PGASI_CM_CONNECT_REQUEST,
    PGASI_CM_CONNECT_REPLY,
    PGASI_CM_DISCONNECT,
    PGASI_CM_LEAVE
};

typedef struct {
    uint32_t magic;
    uint16_t kind;
    int16_t status;      /* CONNECT_REPLY */
    uint32_t rank, ctx;  /* of the sender; ctx: CONNECT_REQUEST */
    uint64_t secret;     /* HELLO: the receiver's */
    uint64_t ticket;     /* CONNECT_REQUEST, CONNECT_REPLY */
    uint64_t slots_addr; /* CONNECT_REQUEST */
    uint32_t slots_rkey;
    uint32_t inbound; /* CONNECT_REPLY, DISCONNECT */
    uint32_t rail;    /* CONNECT_REQUEST */
    uint32_t reserved;
    pgas_verbs_address_t address;
} pgasi_cm_record_t;

typedef struct connection {
    struct connection *next;
    uint64_t id;
    int fd, peer;
    /* GREETED: HELLO was sent; UNKNOWN: no HELLO has arrived yet */
    enum {
        PGASI_CM_CONNECTING,
        PGASI_CM_GREETED,
        PGASI_CM_UNKNOWN,
        PGASI_CM_OPEN,
        PGASI_CM_CLOSED
    } state;
    bool left;  /* the peer has sent LEAVE */
    bool again; /* it replaces a lost connection */
    int host;   /* place of the peer's address that is tried next */
    uint64_t limit_ns;
    size_t in_bytes, out_bytes, out_room;
    char in[sizeof(pgasi_cm_record_t)];
    char *out;
} pgasi_cm_connection_t;

/** A job for context 0. */
typedef struct job {
    struct job *next;
    uint64_t connection; /* id */
    int peer;
    pgasi_cm_record_t record; /* kind 0: the peer has died */
} pgasi_cm_job_t;

struct pgasi_verbs_cm {
    pthread_mutex_t lock;
    int epoll_fd;
    int n_listeners, listeners[PGASI_VERBS_HOSTS_MAX];
    /* closed when descriptors have run out, to accept and close connecting processes */
    int spare_fd;
    int timer_fd; /* ends a pause of the listeners */
    pgasi_cm_connection_t *connections;
    pgasi_cm_connection_t **of_peer; /* n_ranks pointers; pages are touched on first use */
    pgasi_verbs_connect_t *requests;
    uint64_t n_tickets, n_connections;
    bool leaving;
    pgasi_cm_job_t *jobs, **last_job;
    int n_jobs, n_connecting; /* read without the lock */
    int warned_stranger, warned_full;
};

/** Whether an error says that no descriptors are left. */
static inline bool pgasi_cm_is_full(int error)
{
    return error == EMFILE || error == ENFILE;
}

/* hosts.c */
/** Finds the addresses of the named interface, or of loopback for a job on one host, or of all
 *  interfaces. A machine without addresses can still connect to itself. A missing named interface
 *  is an error. */
pgas_status_t pgasi_cm_find_hosts(pgasi_verbs_tp_t *tp);
bool pgasi_cm_is_loopback(const uint8_t host[16]);
/** @return bytes of *to_p */
socklen_t pgasi_cm_to_sockaddr(const uint8_t host[16], uint16_t port,
                               struct sockaddr_storage *to_p);

/* cm_socket.c */
void pgasi_cm_watch(const pgasi_verbs_cm_t *cm, pgasi_cm_connection_t *connection, int how);
void pgasi_cm_set_options(int fd);
pgasi_cm_connection_t *pgasi_cm_add_connection(pgasi_verbs_cm_t *cm, int fd, int peer);
void pgasi_cm_send_record(const pgasi_verbs_cm_t *cm, pgasi_cm_connection_t *connection,
                          const pgasi_verbs_tp_t *tp, pgasi_cm_record_t *record);
/** Closes the socket; sweep frees the rest. */
void pgasi_cm_close_connection(pgasi_verbs_tp_t *tp, pgasi_cm_connection_t *connection);
void pgasi_cm_sweep(pgasi_verbs_cm_t *cm);
/** @param again  it replaces a lost connection */
void pgasi_cm_begin_connect(pgasi_verbs_tp_t *tp, int peer, bool again);
void pgasi_cm_check_limits(pgasi_verbs_tp_t *tp);
void pgasi_cm_on_event(pgasi_verbs_tp_t *tp, pgasi_cm_connection_t *connection, uint32_t events);

/* cm_listen.c */
void pgasi_cm_on_own_event(pgasi_verbs_tp_t *tp, const struct epoll_event *event);
void pgasi_cm_close_descriptors(const pgasi_verbs_cm_t *cm);
/** Opens the listeners and all other descriptors. @return false: errno says why */
bool pgasi_cm_open_descriptors(pgasi_verbs_tp_t *tp, pgasi_verbs_cm_t *cm);

/* cm.c */
void pgasi_cm_add_job(pgasi_verbs_cm_t *cm, uint64_t connection, int peer,
                      const pgasi_cm_record_t *record);
/** Takes the request out of the list. Its context may continue after this call. */
void pgasi_cm_complete_request(pgasi_verbs_tp_t *tp, pgasi_verbs_connect_t *request,
                               pgas_status_t status);
void pgasi_cm_complete_all(pgasi_verbs_tp_t *tp, int peer, pgas_status_t status);
void pgasi_cm_send_requests(pgasi_verbs_tp_t *tp, pgasi_cm_connection_t *connection);
/** Requests that were sent on a lost connection are sent again on the next one. */
void pgasi_cm_take_back_requests(const pgasi_verbs_tp_t *tp, int peer);

#endif
