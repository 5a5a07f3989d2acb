/** The replica's end of one client's chain: a session. The ways differ in how pieces arrive and are
 *  executed; each is a table of functions. The service thread of the replica calls them, with the
 *  lock of the replica, and no other thread uses a session.
 *
 *      closed --open--> opened --connect--> running --drain--> drained --free--> closed
 *
 *  A session is drained when its client asks for it, vanishes, or when a newer list of members
 *  comes. Its counts and old words are then in the record of the client. */
#ifndef PGASI_GROUP_SESSION_H
#define PGASI_GROUP_SESSION_H

#include "group/records.h"
#include "group/wire.h"

#define PGASI_SESSION_FDS 3

typedef struct pgasi_session pgasi_session_t;

/** The object that an event of epoll belongs to. */
typedef struct {
    enum {
        PGASI_SOURCE_LISTENER,
        PGASI_SOURCE_WAKEUP,
        PGASI_SOURCE_PEER,
        PGASI_SOURCE_SESSION
    } kind;
    struct pgasi_group_peer *peer; /* of the last two */
} pgasi_group_source_t;

/** A way. Functions that are not needed are NULL. */
typedef struct {
    /** Makes queues and staging slots for s->open; fills in s->opened but its region, and s->status
     *  if the words are in memory of the way. On error nothing is left. */
    pgas_status_t (*open)(pgasi_session_t *s);
    /** Connects, and makes all slots ready. */
    pgas_status_t (*connect)(pgasi_session_t *s, const pgasi_group_connect_t *connect);
    /** A descriptor of the session is readable: takes the pieces that have arrived, and makes slots
     *  ready. Arms the descriptors again.
     *  @return an error: the chain is broken here */
    pgas_status_t (*poll)(pgasi_session_t *s);
    /** The drain in three steps. end_input: on return no piece arrives any more. */
    void (*end_input)(pgasi_session_t *s);
    /** @return whether all pieces that have arrived are executed */
    bool (*is_drained)(pgasi_session_t *s);
    /** Enters executed pieces and old words in the client's record (pgasi_session_keep), then frees
     *  the way's part. It is also called if the session was opened only, or if the drain took too
     *  long. */
    void (*close)(pgasi_session_t *s);
} pgasi_session_ops_t;

typedef enum {
    PGASI_SESSION_CLOSED,
    PGASI_SESSION_OPENED,
    PGASI_SESSION_RUNNING,
    PGASI_SESSION_DRAINED
} pgasi_session_state_t;

struct pgas_replica;

struct pgasi_session {
    struct pgas_replica *replica;
    pgasi_group_source_t source; /* the client's connection, too */
    const pgasi_session_ops_t *ops;
    pgasi_session_state_t state;
    pgasi_group_open_t open;
    pgasi_group_opened_t opened;
    pgasi_group_status_t *status; /* words that the client reads; NULL: there are none */
    uint64_t executed;            /* pieces of this chain, as far as is known */
    uint64_t n_refills, refill_ns;
    pgas_status_t error;        /* the chain is broken here; the client knows */
    int fds[PGASI_SESSION_FDS]; /* that are watched; -1: none */
    void *way;                  /* belongs to the way */
};

extern const pgasi_session_ops_t pgasi_session_chain;   /* chain.c */
extern const pgasi_session_ops_t pgasi_session_forward; /* forward.c */

/** For tests of the tests. Bit 0: the loop queues of chains may run one entry that no message has
 *  rewritten yet. Bit 1: the next queues may. */
extern uint32_t pgasi_session_early;

/** Enters the table of a way. Before the first replica exists. */
void pgasi_session_set_ops(pgas_group_way_t way, const pgasi_session_ops_t *ops);

/* ---- for ways ---- */

/** Lets the service thread call poll when this descriptor is readable, until close. Call it once
 *  for each descriptor, in open or connect. */
pgas_status_t pgasi_session_watch(pgasi_session_t *s, int fd);

/** Notes a range of the region that a piece has changed, for replicas that copy it. */
void pgasi_session_note(const pgasi_session_t *s, uint64_t offset, uint64_t bytes);
/** Whether there are such replicas. */
bool pgasi_session_is_noting(const pgasi_session_t *s);

/** Enters in the client's record that the chain has executed so many pieces. The record also gets
 *  the old words of pieces that no earlier chain had executed: word(s, k) is called for some of the
 *  last `slots`. */
void pgasi_session_keep(pgasi_session_t *s, uint64_t executed, uint32_t slots,
                        uint64_t (*word)(const pgasi_session_t *s, uint64_t k));

/** Counts a refill that began at this time of the thread's CPU clock, and stores the status words;
 *  `armed` last, with release. */
uint64_t pgasi_session_cpu_ns(void);
void pgasi_session_refilled(pgasi_session_t *s, uint64_t armed, uint64_t begin_ns);

/* ---- for the replica ---- */

/** The ways that have a table, as PGASI_GROUP_HAS bits. */
uint32_t pgasi_session_ways(void);

pgas_status_t pgasi_session_open(pgasi_session_t *s, const pgasi_group_open_t *open);
pgas_status_t pgasi_session_connect(pgasi_session_t *s, const pgasi_group_connect_t *connect);
/** Polls a running session after an event. @return an error only once: the client needs a notice */
pgas_status_t pgasi_session_poll(pgasi_session_t *s);
/** The record of the session's client, for s->open. @return NULL: no memory */
pgasi_record_t *pgasi_session_record(const pgasi_session_t *s);
/** Drains sessions together: at most 2 s in all. Those that do not run are left alone. */
void pgasi_session_drain(pgasi_session_t *const *sessions, size_t n);
/** Forgets a session in any state. */
void pgasi_session_free(pgasi_session_t *s);

#endif
