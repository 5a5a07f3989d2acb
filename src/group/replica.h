/** A replica: its region, the list of members, and the connections of its clients. One service
 *  thread sleeps in epoll and handles all events. Functions of other threads take the lock. */
#ifndef PGASI_GROUP_REPLICA_H
#define PGASI_GROUP_REPLICA_H

#include <pthread.h>
#include "group/link.h"
#include "group/members.h"
#include "group/session.h"

/** Ranges that have changed, for one copying replica: a bit for each granule of the region. */
typedef struct {
    uint64_t *bits;
    uint64_t n_bits;
    uint32_t log_granule;
} pgasi_group_changes_t;

/** A connection. */
typedef struct pgasi_group_peer {
    struct pgasi_group_peer *next;
    struct pgas_replica *replica;
    pgasi_group_source_t source;
    int fd; /* -1: closed; it is freed after the events of this round */
    uint64_t id;
    bool is_known;     /* its HELLO was right */
    bool is_replica;   /* it copies the region, and opens no chain */
    bool wants_notice; /* it has opened a chain, or tried to */
    bool is_ending;    /* is closed when its last answer has left */
    uint64_t client;   /* of HELLO */
    uint64_t limit_ns; /* for its HELLO */
    pgasi_group_in_t in;
    unsigned char *out; /* answers that the socket has not taken yet */
    size_t out_bytes, out_room;
    pgasi_session_t session;
    pgasi_group_changes_t changes; /* TRACK; bits NULL: it does not track */
} pgasi_group_peer_t;

typedef struct pgasi_group_copying pgasi_group_copying_t;

struct pgas_replica {
    pthread_mutex_t lock;
    pthread_t thread;
    int listen_fd, epoll_fd, wakeup_fd;
    pgasi_group_source_t listener, wakeup;
    int spare_fd; /* is closed for a moment when there are no descriptors left */
    bool has_ended;
    uint64_t id;
    char address[PGASI_GROUP_NAME_BYTES], next[PGASI_GROUP_NAME_BYTES];
    uint8_t key[PGASI_GROUP_KEY_BYTES];
    uint32_t clients_max;
    pgas_verbs_dev_t *dev; /* NULL: the device cannot be used, only calls can */
    uint32_t ways;
    char provider[16];
    pgas_verbs_mem_t mem; /* the region, registered with dev */
    unsigned char *region;
    uint64_t region_bytes;
    bool own_region; /* mapped by this file, without a device */
    pgasi_group_list_t list;
    uint64_t freezer; /* id of the connection that froze the list; 0: none */
    uint64_t thaw_ns; /* when the freeze ends in any case */
    pgasi_records_t records;
    pgasi_group_copying_t *copying; /* NULL: it does not copy another region */
    pgasi_group_peer_t *peers;
    uint64_t n_peers;                          /* in all; the last id */
    uint32_t n_tracking;                       /* connections that note changes */
    uint64_t n_rounds;                         /* times that the service thread has woken */
    uint64_t n_executed, n_refills, refill_ns; /* of sessions that have ended */
};

/* ---- replica.c ---- */

/** As pgas_replica_create. Without a card it has only the way calls. */
pgas_status_t pgasi_replica_make(const pgas_replica_opts_t *opts, bool uses_card,
                                 pgas_replica_t **replica_p);

/* ---- peers.c: connections ---- */

void pgasi_peers_accept(pgas_replica_t *replica);
/** Reads and answers the requests that have arrived. */
void pgasi_peer_on_event(pgasi_group_peer_t *peer, uint32_t events);
/** Queues a message; writes as much as the socket takes. */
void pgasi_peer_send(pgasi_group_peer_t *peer, uint16_t type, uint32_t number, const void *body,
                     uint32_t bytes);
/** Ends the connection and all that belongs to it. */
void pgasi_peer_close(pgasi_group_peer_t *peer);
/** Closes connections without a HELLO at their limit; ends a freeze that has lasted too long.
 *  @return milliseconds until the next limit; -1: there is none */
int pgasi_peers_check_limits(pgas_replica_t *replica);
/** Frees closed connections. No event of this round refers to them any more. */
void pgasi_peers_sweep(pgas_replica_t *replica);

/* ---- requests.c: requests of clients ---- */

/** Answers the message in peer->in. */
void pgasi_peer_answer(pgasi_group_peer_t *peer, pgas_status_t status);
/** Polls a session after an event. If the chain is broken, its client gets a notice. */
void pgasi_peer_poll_session(pgasi_group_peer_t *peer);
/** Ends the freeze by this connection, or by any one with id 0, if there is one. */
void pgasi_replica_thaw(pgas_replica_t *replica, uint64_t id);
/** A connection has ended: drains its chain, and ends its freeze. */
void pgasi_peer_gone(pgasi_group_peer_t *peer);

/** Counts of the replica, as far as its sessions have been polled. */
void pgasi_replica_count(const pgas_replica_t *replica, pgasi_group_state_t *state_p);

/* ---- copy.c ---- */

/** Copies the region of another replica for a client whose connection has this id. Releases the
 *  lock of the replica meanwhile. @return PGAS_ERR_NOT_INIT  the rest, without a copy before */
pgas_status_t pgasi_copy(pgas_replica_t *replica, uint64_t owner, const pgasi_group_copy_t *copy);
/** End a copy, if there is one; pgasi_copy_gone only that of this owner. */
void pgasi_copy_end(pgas_replica_t *replica);
void pgasi_copy_gone(pgas_replica_t *replica, uint64_t owner);

/* ---- changes.c ---- */

pgas_status_t pgasi_changes_begin(pgasi_group_changes_t *changes, uint64_t region_bytes);
void pgasi_changes_end(pgasi_group_changes_t *changes);
void pgasi_changes_note(pgasi_group_changes_t *changes, uint64_t offset, uint64_t bytes);
/** Takes up to n_max ranges, in order, and clears them. @return their number */
uint32_t pgasi_changes_take(pgasi_group_changes_t *changes, uint64_t region_bytes,
                            pgasi_group_range_t *ranges, uint32_t n_max);

#endif
