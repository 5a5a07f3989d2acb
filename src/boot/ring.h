/** The ring of ranks that watch each other across hosts, as decisions without I/O: which rank a
 *  rank connects to, which deaths follow from an event, and which other ranks it notifies. links.c
 *  has the connections.
 *
 *  Ranks are ordered by host, then by number. Each connects to the next live rank of that circle.
 *  So a host has one connection to the next host and one from the host before, for any number of
 *  its ranks. A link carries reports in both directions. A rank forwards a report over all its
 *  other links, unless it already has the report.
 *
 *  The conclusion from an event:
 *    the rank's host saw its process end   The rank is dead.
 *    a link ends with FIN or RST           Nothing yet: this rank dials it again.
 *    a host that is up refuses a dial The rank is dead: a live rank has a listener. a link or a
 *    dial stays silent Its host, unless the own, is dead with all its ranks. a peer says that this
 *    rank is dead The two are cut off: the peer counts as dead.
 *
 *  After a death the live ranks leave together. Each says DONE in pgas_finalize and READY when it
 *  knows that all live ranks are done. It leaves when all are ready. A rank that is ready does not
 *  treat the end of another rank as a death.
 *
 *  A request for reports has a number. If the number is higher than all before, the rank reports
 *  and forwards the request. So each rank reports once. */
#ifndef PGASI_RING_H
#define PGASI_RING_H

#include <stdbool.h>
#include <stdint.h>

typedef enum {
    PGASI_RING_EXITED,
    PGASI_RING_REFUSED,
    PGASI_RING_SILENT,
    PGASI_RING_REPORTED,
    PGASI_RING_CUT_OFF
} pgasi_ring_cause_t;

typedef enum {
    PGASI_RING_DEATH,
    PGASI_RING_DONE,
    PGASI_RING_READY,
    PGASI_RING_REPORT,
    PGASI_N_RING_NEWS
} pgasi_ring_news_t;

typedef struct {
    /** Checks whether the rank is alive: opens a connection to it, unless one is being opened. The
     *  answer is one of the events linked, refused, silent. There is no answer if the rank is alive
     *  and is not the next one. */
    void (*dial)(void *arg, int rank);
    /** Sends a report over a link. value: a rank, or the number of a request for reports. */
    void (*send)(void *arg, int link, pgasi_ring_news_t what, int value);
    /** Closes a link after its pending messages are sent. The link causes no further events. */
    void (*hang_up)(void *arg, int link);
    /** Reports a dead rank, once for each rank, unless this rank is ready. It must not call the
     *  ring. */
    void (*died)(void *arg, int rank, pgasi_ring_cause_t cause);
    /** This rank must report. */
    void (*report)(void *arg);
} pgasi_ring_ops_t;

typedef struct {
    int id, rank;
} pgasi_ring_link_t;

typedef struct {
    int me, n;
    const int *host_of;    /* [n] a number shared by the ranks of one host; owned by the caller */
    int *order, *place_of; /* [n] the circle, and the position of each rank in it */
    unsigned char *state;  /* [n] */
    int next;              /* the rank that this one is linked to or dials; -1: no other is live */
    int width;             /* further hosts to dial when the next silent host is found */
    int report;            /* the highest number of a request for reports */
    bool ending;           /* some have left: the circle is not closed again */
    pgasi_ring_link_t *links;
    int n_links, room;
    const pgasi_ring_ops_t *ops;
    void *arg;
} pgasi_ring_t;

/** @return false: no memory. It does not dial; pgasi_ring_start does. */
bool pgasi_ring_init(pgasi_ring_t *ring, int me, int n, const int *host_of,
                     const pgasi_ring_ops_t *ops, void *arg);
void pgasi_ring_fini(pgasi_ring_t *ring);
void pgasi_ring_start(pgasi_ring_t *ring);
/** There is no ring: all ranks count as live again, and no link exists. No operation is called. */
void pgasi_ring_forget(pgasi_ring_t *ring);

bool pgasi_ring_is_live(const pgasi_ring_t *ring, int rank);
bool pgasi_ring_is_linked(const pgasi_ring_t *ring, int rank);

/* Events. Ranks are in range. The caller chooses the number of a link, unique among open links. */

/** Both sides of a connection have identified themselves. @return false if this rank considers the
 *  other one dead: it has reported this to the other one, and there is no link. */
bool pgasi_ring_linked(pgasi_ring_t *ring, int link, int rank);
/** A link ended. silent: the other host did not answer for the whole time limit. */
void pgasi_ring_lost(pgasi_ring_t *ring, int link, bool silent);
void pgasi_ring_refused(pgasi_ring_t *ring, int rank);
void pgasi_ring_silent(pgasi_ring_t *ring, int rank);
void pgasi_ring_exited(pgasi_ring_t *ring, int rank);
void pgasi_ring_received(pgasi_ring_t *ring, int link, pgasi_ring_news_t what, int value);
/** The rank of the link leaves in order: its end is not a death. */
void pgasi_ring_bye(pgasi_ring_t *ring, int link);
/** The transport has lost its connection to the rank. */
void pgasi_ring_suspect(pgasi_ring_t *ring, int rank);
/** Asks all ranks for reports, this one as well. */
void pgasi_ring_ask_report(pgasi_ring_t *ring);
/** This rank is in pgas_finalize, and says DONE. */
void pgasi_ring_done(pgasi_ring_t *ring);
/** Whether this rank may leave: all live ranks are ready, or one of them has left. */
bool pgasi_ring_all_ready(const pgasi_ring_t *ring);

#endif
