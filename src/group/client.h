/** The object behind pgas_group_t: a client of a group. Calls on one group take turns (turn). Its
 *  state has a lock that is held for short times (lock), also by the poller.
 *
 *      client.c   join, leave, describe    submit.c   operations
 *      queues.c   the client's queue pairs  state.c    acknowledgements, credits, deaths
 *
 *  A chain is formed by pgasi_group_form, from a list of members, and ended by pgasi_group_end. */
#ifndef PGASI_GROUP_CLIENT_H
#define PGASI_GROUP_CLIENT_H

#include "base/sync.h"
#include "group/latency.h"
#include "group/link.h"
#include "group/window.h"
#include "pgas/verbs.h"

/** The connection to a member, and its last answers. */
typedef struct {
    pgasi_group_name_t name;
    int fd;          /* -1: none, or it has ended */
    uint32_t number; /* of the last request */
    pgasi_group_in_t in;
    pgasi_group_welcome_t welcome;
    pgasi_group_opened_t opened;
    pgasi_group_status_t status; /* as last read */
    uint64_t unreachable_ns;     /* reads of the status words fail since then; 0: they do not */
} pgasi_group_link_t;

typedef enum {
    PGASI_GROUP_RUNS,
    PGASI_GROUP_BREAKS, /* the chain has ended somewhere, or the list of members has changed: the
                           client forms it anew, inside progress */
    PGASI_GROUP_BROKEN  /* a replica is dead; operations under way have been reported */
} pgasi_group_condition_t;

typedef struct pgasi_group_queues pgasi_group_queues_t;

/** How messages travel: by queue pairs (queues.c), or by calls. All functions are called with the
 *  lock. */
typedef struct {
    /** Sends all pieces that are sendable, as far as there is room: pgasi_group_window_send gives
     *  them, in order. */
    void (*send)(pgas_group_t *g);
    /** Takes acknowledgements (pgasi_group_take_ack). @return their number */
    int (*poll)(pgas_group_t *g);
    /** Asks for all status words, unless a question is under way; later the answers come
     *  (pgasi_group_take_status). */
    void (*refresh)(pgas_group_t *g);
    /** Makes the client's end of a chain over g->links[0 .. g->n - 1], before and after OPEN. */
    pgas_status_t (*open)(pgas_group_t *g);
    /** The peers of the queues of member i. */
    void (*peers)(const pgas_group_t *g, uint32_t i, pgasi_group_connect_t *connect_p);
    pgas_status_t (*connect)(pgas_group_t *g);
    /** Ends it. No acknowledgement comes any more. */
    void (*close)(pgas_group_t *g);
    /** A descriptor that becomes readable with the next acknowledgement, armed; -1: there are
     *  acknowledgements already, or no descriptor. */
    int (*arm)(pgas_group_t *g);
} pgasi_group_carrier_t;
extern const pgasi_group_carrier_t pgasi_group_by_queues;
extern const pgasi_group_carrier_t pgasi_group_by_calls; /* libpgas only */

/** Functions that pgas_group_create (libpgas only) adds to a group of ranks. */
typedef struct {
    pgas_status_t (*destroy)(pgas_group_t *g); /* collective; frees by pgasi_group_free */
    void (*describe)(const pgas_group_t *g, pgas_group_info_t *info); /* adds to it */
} pgasi_group_job_ops_t;

struct pgas_group {
    int turn;      /* submissions */
    void *turn_of; /* the thread that has the turn */
    int lock;      /* of all fields below */
    int asleep;    /* a thread sleeps on the descriptors */
    /* options */
    pgas_group_way_t wanted_way, way;
    pgas_group_full_t full;
    bool events;
    uint32_t size;        /* of the window */
    uint32_t piece_bytes; /* a multiple of 64 */
    uint32_t slots;       /* of a replica */
    uint64_t client;
    uint8_t key[PGASI_GROUP_KEY_BYTES];
    int64_t timeout_us;
    /* the group */
    uint64_t region_bytes, epoch;
    uint32_t n;      /* members */
    uint32_t n_told; /* their number, as the program knows it: its arrays of old words have room */
    pgasi_group_link_t links[PGAS_GROUP_REPLICAS_MAX];
    pgasi_group_member_t members[PGAS_GROUP_REPLICAS_MAX]; /* as programs need them */
    pgasi_group_layout_t layout;
    /* pieces */
    pgasi_group_window_t window;
    pgas_verbs_dev_t *dev;     /* NULL with calls */
    pgas_verbs_mem_t data_mem; /* one place for each slot of the window; registered if dev */
    const pgasi_group_carrier_t *carrier;
    void *carried;     /* belongs to the carrier: queues */
    pgas_sync_t *room; /* a thread waits until a piece completes; or NULL */
    uint32_t room_wanted;
    uint32_t n_idle;   /* rounds without an event */
    uint64_t n_status; /* answers with status words */
    uint64_t sent_at_refresh, refresh_ns, look_ns, beat_ns;
    /* failures */
    bool has_chain;
    pgasi_group_condition_t condition;
    int suspect;                         /* the first replica at which something failed */
    int dead;                            /* -1: none */
    struct pgasi_group_forming *forming; /* NULL: no chain is being formed */
    uint64_t mend_ns;                    /* not before that time */
    uint32_t n_vain;                     /* chains formed since a piece was completed */
    /* figures */
    uint64_t n_ops, bytes, n_resent;
    pgasi_latency_t latency;
    pgasi_poller_t poller;
    bool is_client;
    const pgasi_group_job_ops_t *job_ops; /* NULL: joined */
    void *job;
};

/* ---- forming (client.c) ---- */

/** Reads a program's options, or takes the defaults (NULL), and checks them.
 *  @return PGAS_ERR_INVALID, or PGAS_ERR_LIMIT (the window) */
pgas_status_t pgasi_group_read_opts(const pgas_group_opts_t *given, pgas_group_opts_t *opts_p);

/** A group with checked options and a device, but without members. Destroy it by pgasi_group_free.
 *  @return as pgas_group_join */
pgas_status_t pgasi_group_make(const pgas_group_opts_t *opts, pgas_group_t **g_p);
/** Joins the group to which the address belongs: gather, prepare, form, start.
 *  @return as pgas_group_join; after an error only pgasi_group_free is possible */
pgas_status_t pgasi_group_enter(pgas_group_t *g, const char *address);
/** Waits until all operations are complete, or the group is broken.
 *  @return PGAS_ERR_CONTEXT  the thread must not wait, or has the turn */
pgas_status_t pgasi_group_settle(pgas_group_t *g);
/** Ends the chain, if there is one, and frees all memory of the group. */
void pgasi_group_free(pgas_group_t *g);

/** Connects to all members of the group to which `address` belongs; makes the first list if there
 *  is none, and removes members that are dead. Afterwards g->links, n, epoch and region_bytes are
 *  valid, and the way is chosen.
 *  @return as pgas_group_join. PGAS_ERR_AGAIN: the list is just changing */
pgas_status_t pgasi_group_gather(pgas_group_t *g, const char *address, uint64_t limit_ns);

/** Chooses the way, from the ways of the members and of this client's device. (choose.c)
 *  @return PGAS_ERR_UNSUPPORTED  one of them does not have the wanted way, or any */
pgas_status_t pgasi_group_choose_way(pgas_group_t *g, pgas_group_way_t wanted);

/** Makes the window and its memory, for g->n members; then registers the poller. */
pgas_status_t pgasi_group_prepare(pgas_group_t *g);
void pgasi_group_start(pgas_group_t *g);

/* ---- chains (client.c); the caller holds turn and lock ---- */

/** Connects to a replica, which may not listen yet, and greets it; link->welcome is its answer. The
 *  members that follow the welcome are in link->in.body.
 *  @return as pgas_group_join */
pgas_status_t pgasi_group_greet(pgas_group_t *g, const char *address, uint64_t limit_ns,
                                pgasi_group_link_t *link);
/** Greets it over the connection of the link, also again. */
pgas_status_t pgasi_group_hello(pgas_group_t *g, pgasi_group_link_t *link, uint64_t limit_ns);
void pgasi_group_hang_up(pgasi_group_link_t *link);
void pgasi_group_hang_up_all(pgas_group_t *g);

/** Sends a request and receives its answer, whose body is in link->in. Notices in between are
 *  handled.
 *  @return the status of REFUSED; otherwise an error of the connection, which is then closed
 *          PGAS_ERR_FORMAT  also: another answer came */
pgas_status_t pgasi_group_ask(pgas_group_t *g, pgasi_group_link_t *link, uint16_t type,
                              const void *body, uint32_t bytes, uint16_t answer, uint64_t limit_ns);

/** Forms a chain over g->links[0 .. n-1], which are connected, with g->epoch: OPEN, CONNECT. The
 *  window must be empty, or pgasi_group_window_reform has been called.
 *  @return an error: there is no chain; *failed_p is the member at which it failed, or -1 */
pgas_status_t pgasi_group_form(pgas_group_t *g, uint64_t limit_ns, int *failed_p);

/** Ends the client's part of the chain, if there is one, after it has taken the acknowledgements
 *  that have come. The replicas notice it, or end theirs with the next OPEN. */
void pgasi_group_end(pgas_group_t *g);

/** Closes the connections of g->forming, and forgets it. */
void pgasi_group_forget(pgas_group_t *g);

/* ---- state (state.c); the caller holds the lock ---- */

/** The oldest piece is complete. now_ns: the time. */
void pgasi_group_take_ack(pgas_group_t *g, const uint64_t *words, uint64_t now_ns);
void pgasi_group_take_status(pgas_group_t *g, uint32_t i, const pgasi_group_status_t *status);
/** Something failed at replica i, or, with i = -1, here: the chain must be formed anew. */
void pgasi_group_suspect(pgas_group_t *g, int i);
/** Replica i is dead: operations under way end with PGAS_ERR_PEER. */
void pgasi_group_lost(pgas_group_t *g, int i);
/** A notice is in link->in. */
void pgasi_group_take_notice(pgas_group_t *g, const pgasi_group_link_t *link);
/** Reads the notices that a link has sent. @return false: the connection has ended */
bool pgasi_group_look(pgas_group_t *g, pgasi_group_link_t *link);

/** Waits until room for so many pieces is in the window, or the group is broken. Releases the lock
 *  meanwhile. @return PGAS_ERR_PEER: it is broken */
pgas_status_t pgasi_group_await_room(pgas_group_t *g, uint32_t n_pieces);

/** One round: acknowledgements, sends, credits, deaths. @return acknowledgements taken */
int pgasi_group_progress(pgas_group_t *g);

/** Forms the chain anew without the program, if it is time for an attempt. */
void pgasi_group_mend(pgas_group_t *g);

/** The functions of the poller. */
int pgasi_group_poll(void *group);
void pgasi_group_sleep(void *group, int64_t max_us);

/* ---- locks ---- */

void pgasi_group_lock(pgas_group_t *g);
void pgasi_group_unlock(pgas_group_t *g);
/** @return PGAS_ERR_CONTEXT  this thread has the turn already */
pgas_status_t pgasi_group_take_turn(pgas_group_t *g);
/** The same, for functions that wait. @return PGAS_ERR_CONTEXT  also: the thread must not wait */
pgas_status_t pgasi_group_begin(pgas_group_t *g);
void pgasi_group_give_turn(pgas_group_t *g);

#endif
