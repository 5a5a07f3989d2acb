/* The ring of ranks that watch each other across hosts: see ring.h. Pure; t/unit/watch_ring.c runs
 * it on a simulated network.
 *
 * After a partition each side must find many silent hosts, and each of them costs a time limit. So
 * when a host is silent, the ring dials several hosts behind it at once, twice as many after each
 * round. */
#include "boot/ring.h"

#include <stdlib.h>
#include <string.h>

#define WIDTH_FIRST 2
#define WIDTH_MAX   64

enum { LIVE, DONE, READY, DEAD, LEFT };

static const int *sorted_host_of;

static int by_host_and_rank(const void *a, const void *b)
{
    int x = *(const int *)a, y = *(const int *)b, hx = sorted_host_of[x], hy = sorted_host_of[y];
    if (hx != hy)
        return hx < hy ? -1 : 1;
    return (x > y) - (x < y);
}

bool pgasi_ring_init(pgasi_ring_t *ring, int me, int n, const int *host_of,
                     const pgasi_ring_ops_t *ops, void *arg)
{
    memset(ring, 0, sizeof *ring);
    ring->me = me;
    ring->n = n;
    ring->host_of = host_of;
    ring->next = -1;
    ring->width = WIDTH_FIRST;
    ring->ops = ops;
    ring->arg = arg;
    ring->order = malloc((size_t)n * sizeof *ring->order);
    ring->place_of = malloc((size_t)n * sizeof *ring->place_of);
    ring->state = calloc((size_t)n, 1);
    if (!ring->order || !ring->place_of || !ring->state) {
        pgasi_ring_fini(ring);
        return false;
    }
    for (int i = 0; i < n; i++)
        ring->order[i] = i;
    sorted_host_of = host_of;
    qsort(ring->order, (size_t)n, sizeof *ring->order, by_host_and_rank);
    for (int i = 0; i < n; i++)
        ring->place_of[ring->order[i]] = i;
    return true;
}

void pgasi_ring_fini(pgasi_ring_t *ring)
{
    free(ring->order);
    free(ring->place_of);
    free(ring->state);
    free(ring->links);
    memset(ring, 0, sizeof *ring);
    ring->next = -1;
}

void pgasi_ring_forget(pgasi_ring_t *ring)
{
    memset(ring->state, LIVE, (size_t)ring->n);
    ring->next = -1;
    ring->n_links = 0;
}

bool pgasi_ring_is_live(const pgasi_ring_t *ring, int rank)
{
    return ring->state[rank] <= READY;
}

bool pgasi_ring_is_linked(const pgasi_ring_t *ring, int rank)
{
    for (int i = 0; i < ring->n_links; i++)
        if (ring->links[i].rank == rank)
            return true;
    return false;
}

static int find_link(const pgasi_ring_t *ring, int id)
{
    for (int i = 0; i < ring->n_links; i++)
        if (ring->links[i].id == id)
            return i;
    return -1;
}

/* Removes a link. @return the rank at its other end; -1: there is no such link */
static int take_link(pgasi_ring_t *ring, int id)
{
    int i = find_link(ring, id);
    if (i < 0)
        return -1;
    int rank = ring->links[i].rank;
    ring->links[i] = ring->links[--ring->n_links];
    return rank;
}

/* Returns the first live rank behind `from` in the circle; -1: only this rank is live. */
static int live_behind(const pgasi_ring_t *ring, int from)
{
    for (int i = 1; i <= ring->n; i++) {
        int rank = ring->order[(ring->place_of[from] + i) % ring->n];
        if (rank == ring->me)
            return -1;
        if (pgasi_ring_is_live(ring, rank))
            return rank;
    }
    return -1;
}

static void seek(pgasi_ring_t *ring)
{
    int next = live_behind(ring, ring->me);
    if (ring->ending || next == ring->next)
        return;
    ring->next = next;
    if (next >= 0)
        ring->ops->dial(ring->arg, next);
}

void pgasi_ring_start(pgasi_ring_t *ring)
{
    seek(ring);
}

/* Sends a report over all links except the link over which it arrived. */
static void spread(const pgasi_ring_t *ring, pgasi_ring_news_t what, int value, int from)
{
    for (int i = 0; i < ring->n_links; i++)
        if (ring->links[i].id != from)
            ring->ops->send(ring->arg, ring->links[i].id, what, value);
}

/* ---- leaving ---- */

/* The least state of all ranks: LIVE, DONE or READY while this rank is alive. */
static int least_state(const pgasi_ring_t *ring)
{
    int least = LEFT;
    for (int r = 0; r < ring->n; r++)
        least = ring->state[r] < least ? ring->state[r] : least;
    return least;
}

static void advance(pgasi_ring_t *ring, int rank, int state, int from)
{
    if (ring->state[rank] >= state)
        return;
    ring->state[rank] = (unsigned char)state;
    spread(ring, state == DONE ? PGASI_RING_DONE : PGASI_RING_READY, rank, from);
}

static void be_ready_if_all_done(pgasi_ring_t *ring)
{
    if (ring->state[ring->me] == DONE && least_state(ring) == DONE)
        advance(ring, ring->me, READY, -1);
}

void pgasi_ring_done(pgasi_ring_t *ring)
{
    advance(ring, ring->me, DONE, -1);
    be_ready_if_all_done(ring);
}

bool pgasi_ring_all_ready(const pgasi_ring_t *ring)
{
    return ring->ending || least_state(ring) == READY;
}

/* ---- deaths ---- */

static void hang_up_on(pgasi_ring_t *ring, int rank)
{
    for (int i = ring->n_links - 1; i >= 0; i--) {
        if (ring->links[i].rank != rank)
            continue;
        int id = ring->links[i].id;
        ring->links[i] = ring->links[--ring->n_links];
        ring->ops->hang_up(ring->arg, id);
    }
}

/* A rank is dead: the report arrived over the link `from` (-1: this rank detected the death). */
static void bury(pgasi_ring_t *ring, int rank, pgasi_ring_cause_t cause, int from)
{
    ring->state[rank] = DEAD;
    if (ring->state[ring->me] != READY)
        ring->ops->died(ring->arg, rank, cause);
    hang_up_on(ring, rank);
    spread(ring, PGASI_RING_DEATH, rank, from);
}

static void lose(pgasi_ring_t *ring, int rank, pgasi_ring_cause_t cause, int from)
{
    if (rank == ring->me || !pgasi_ring_is_live(ring, rank))
        return;
    bury(ring, rank, cause, from);
    be_ready_if_all_done(ring);
    seek(ring);
}

static void dial_hosts_behind(pgasi_ring_t *ring, int rank)
{
    int host = ring->host_of[rank];
    for (int n = 0; n < ring->width && rank >= 0;) {
        rank = live_behind(ring, rank);
        if (rank < 0 || ring->host_of[rank] == host)
            continue;
        host = ring->host_of[rank];
        if (host != ring->host_of[ring->me] && !pgasi_ring_is_linked(ring, rank))
            ring->ops->dial(ring->arg, rank);
        n++;
    }
    ring->width = ring->width < WIDTH_MAX ? 2 * ring->width : WIDTH_MAX;
}

static void lose_host(pgasi_ring_t *ring, int rank)
{
    /* otherwise this host would have seen its end */
    if (ring->host_of[rank] == ring->host_of[ring->me]) {
        ring->ops->dial(ring->arg, rank);
        return;
    }
    for (int r = 0; r < ring->n; r++)
        if (ring->host_of[r] == ring->host_of[rank] && pgasi_ring_is_live(ring, r))
            bury(ring, r, PGASI_RING_SILENT, -1);
    be_ready_if_all_done(ring);
    seek(ring);
    if (!ring->ending)
        dial_hosts_behind(ring, rank);
}

/* ---- events ---- */

static void tell_all(pgasi_ring_t *ring, int link)
{
    if (ring->report > 0)
        ring->ops->send(ring->arg, link, PGASI_RING_REPORT, ring->report);
    for (int r = 0; r < ring->n; r++)
        if (ring->state[r] == DEAD)
            ring->ops->send(ring->arg, link, PGASI_RING_DEATH, r);
        else if (ring->state[r] == DONE)
            ring->ops->send(ring->arg, link, PGASI_RING_DONE, r);
        else if (ring->state[r] == READY)
            ring->ops->send(ring->arg, link, PGASI_RING_READY, r);
}

bool pgasi_ring_linked(pgasi_ring_t *ring, int link, int rank)
{
    if (ring->n_links == ring->room) {
        int room = 2 * ring->room + 4;
        pgasi_ring_link_t *links = realloc(ring->links, (size_t)room * sizeof *links);
        if (!links) {
            ring->ops->hang_up(ring->arg, link);
            return false;
        }
        ring->links = links;
        ring->room = room;
    }
    tell_all(ring, link);
    if (!pgasi_ring_is_live(ring, rank)) {
        ring->ops->hang_up(ring->arg, link);
        return false;
    }
    ring->links[ring->n_links++] = (pgasi_ring_link_t){ link, rank };
    return true;
}

void pgasi_ring_lost(pgasi_ring_t *ring, int link, bool silent)
{
    int rank = take_link(ring, link);
    if (rank < 0 || !pgasi_ring_is_live(ring, rank))
        return;
    if (silent)
        lose_host(ring, rank);
    else
        ring->ops->dial(ring->arg, rank);
}

void pgasi_ring_refused(pgasi_ring_t *ring, int rank)
{
    lose(ring, rank, PGASI_RING_REFUSED, -1);
}

void pgasi_ring_silent(pgasi_ring_t *ring, int rank)
{
    if (pgasi_ring_is_live(ring, rank))
        lose_host(ring, rank);
}

void pgasi_ring_exited(pgasi_ring_t *ring, int rank)
{
    lose(ring, rank, PGASI_RING_EXITED, -1);
}

/* ---- events that links cause ---- */

static void report(pgasi_ring_t *ring, int number, int from)
{
    if (number <= ring->report)
        return;
    ring->report = number;
    ring->ops->report(ring->arg);
    spread(ring, PGASI_RING_REPORT, number, from);
}

void pgasi_ring_ask_report(pgasi_ring_t *ring)
{
    report(ring, ring->report + 1, -1);
}

static void received_death(pgasi_ring_t *ring, int at, int rank)
{
    if (rank == ring->me)
        lose(ring, ring->links[at].rank, PGASI_RING_CUT_OFF, -1);
    else
        lose(ring, rank, PGASI_RING_REPORTED, ring->links[at].id);
}

void pgasi_ring_received(pgasi_ring_t *ring, int link, pgasi_ring_news_t what, int value)
{
    int at = find_link(ring, link);
    if (at < 0)
        return;
    if (what == PGASI_RING_DEATH)
        received_death(ring, at, value);
    else if (what == PGASI_RING_REPORT)
        report(ring, value, link);
    else if (value != ring->me)
        advance(ring, value, what == PGASI_RING_DONE ? DONE : READY, link);
    be_ready_if_all_done(ring);
}

void pgasi_ring_bye(pgasi_ring_t *ring, int link)
{
    int at = find_link(ring, link);
    if (at < 0)
        return;
    ring->ending = true;
    ring->state[ring->links[at].rank] = LEFT;
}

void pgasi_ring_suspect(pgasi_ring_t *ring, int rank)
{
    if (rank != ring->me && pgasi_ring_is_live(ring, rank))
        ring->ops->dial(ring->arg, rank);
}
