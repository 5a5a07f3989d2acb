/** The ring of ranks that watch each other across hosts, as decisions without I/O: whom a rank
 *  connects to, which deaths follow from an event, and which other ranks are told. watch.c has the
 *  sockets.
 *
 *  Ranks are ordered by host, then by number. Each connects to the next live rank of that circle,
 *  so a host has one connection to the next host and one from the host before, whatever the number
 *  of its ranks. A link works both ways, and news travel along all links; a rank that knows them
 *  already does not pass them on.
 *
 *  What an event proves:
 *    the rank's host saw its process end    The rank is dead.
 *    a link ends with FIN or RST            Nothing yet: the rank is dialled again.
 *    a host that is up refuses a dial       The rank is dead: its listener lives as long as it.
 *    a link or a dial stays silent          The host is gone with all its ranks (never the own).
 *    a peer says that this rank is dead     The two are cut off: the peer is dead for this rank. */
#ifndef PGASI_RING_H
#define PGASI_RING_H

#include <stdbool.h>
#include <stdint.h>

typedef enum {
    PGASI_RING_EXITED,
    PGASI_RING_REFUSED,
    PGASI_RING_SILENT,
    PGASI_RING_TOLD,
    PGASI_RING_CUT_OFF
} pgasi_ring_cause_t;

typedef struct {
    /** Finds out whether the rank lives: opens a connection to it, unless one is being opened. The
     *  answer is one of linked, refused, silent, or nothing if the rank lives and is not the next
     *  one. */
    void (*dial)(void *arg, int rank);
    /** Says on a link that a rank is dead. */
    void (*tell)(void *arg, int link, int dead_rank);
    /** Ends a link, behind what was said on it; nothing more is heard from it. */
    void (*hang_up)(void *arg, int link);
    /** A rank is dead; once for each. Calls nothing of the ring. */
    void (*died)(void *arg, int rank, pgasi_ring_cause_t cause);
} pgasi_ring_ops_t;

typedef struct {
    int id, rank;
} pgasi_ring_link_t;

typedef struct {
    int me, n;
    const int *host_of;    /* [n] any number that ranks of one host share; the caller's */
    int *order, *place_of; /* [n] the circle, and where each rank is in it */
    unsigned char *state;  /* [n] */
    int next;              /* to whom this rank is linked, or whom it dials; -1: no other lives */
    int width;             /* so many further hosts are dialled when the next silent one is found */
    bool ending;           /* some have left: the circle is not closed again */
    pgasi_ring_link_t *links;
    int n_links, room;
    const pgasi_ring_ops_t *ops;
    void *arg;
} pgasi_ring_t;

/** False: no memory. Nothing is dialled before pgasi_ring_start. */
bool pgasi_ring_init(pgasi_ring_t *ring, int me, int n, const int *host_of,
                     const pgasi_ring_ops_t *ops, void *arg);
void pgasi_ring_fini(pgasi_ring_t *ring);
void pgasi_ring_start(pgasi_ring_t *ring);
/** There is no ring: all ranks are live again, and no link exists. Nothing is called. */
void pgasi_ring_forget(pgasi_ring_t *ring);

bool pgasi_ring_is_live(const pgasi_ring_t *ring, int rank);
bool pgasi_ring_is_linked(const pgasi_ring_t *ring, int rank);

/* Events. Ranks are in range. A link's number is the caller's choice, and unique among those that
 * are open. */

/** Both sides of a connection have said who they are. Says false, after it told why, if the rank is
 *  not live for this one: then there is no link. */
bool pgasi_ring_linked(pgasi_ring_t *ring, int link, int rank);
/** It ended. silent: because the other host did not answer for the whole time limit. */
void pgasi_ring_lost(pgasi_ring_t *ring, int link, bool silent);
void pgasi_ring_refused(pgasi_ring_t *ring, int rank);
void pgasi_ring_silent(pgasi_ring_t *ring, int rank);
void pgasi_ring_exited(pgasi_ring_t *ring, int rank);
void pgasi_ring_told(pgasi_ring_t *ring, int link, int dead_rank);
/** The rank of the link has finished, and ends without being dead. */
void pgasi_ring_bye(pgasi_ring_t *ring, int link);
/** Something outside doubts that the rank lives. */
void pgasi_ring_suspect(pgasi_ring_t *ring, int rank);

#endif
