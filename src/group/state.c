/* The state of a client between calls: acknowledgements, credits, and the end of chains.
 *
 * A replica is dead when its connection ends. Any other failure only means that the chain has
 * ended. A replica also ends it when the list of members changes, and its neighbours detect that as
 * errors. Then the client forms the chain anew by itself. If a replica is dead, the client learns
 * that when it greets the members. */
#include <poll.h>
#include <string.h>
#include <time.h>
#include "base/checks.h"
#include "base/clock.h"
#include "base/spin.h"
#include "group/client.h"

#define SPINS        64u
#define LOOK_NS      (10 * PGASI_NS_PER_MS)  /* between checks of the links */
#define BEAT_NS      (100 * PGASI_NS_PER_MS) /* between readings of the status words */
#define REFRESH_NS   20000u                  /* at least, between two questions for credits */
#define CLOCK_ROUNDS 16u /* rounds without an event between looks at the clock */

/* ---- locks ---- */

void pgasi_group_lock(pgas_group_t *g)
{
    pgasi_spin_lock(&g->lock, SPINS);
}

void pgasi_group_unlock(pgas_group_t *g)
{
    pgasi_spin_unlock(&g->lock);
}

static __thread char this_thread __attribute__((tls_model("initial-exec")));

pgas_status_t pgasi_group_take_turn(pgas_group_t *g)
{
    if (__atomic_load_n(&g->turn_of, __ATOMIC_RELAXED) == &this_thread)
        return PGAS_ERR_CONTEXT;
    /* the thread that has the turn may wait for calls that only this thread can run */
    for (uint32_t n = 0; !pgasi_spin_try(&g->turn); n++)
        if (n < SPINS)
            pgasi_cpu_relax();
        else if (pgasi_sync_progress() == 0)
            sched_yield();
    __atomic_store_n(&g->turn_of, &this_thread, __ATOMIC_RELAXED);
    return PGAS_OK;
}

pgas_status_t pgasi_group_begin(pgas_group_t *g)
{
    pgas_status_t status = pgasi_sync_check_wait();
    return status == PGAS_OK ? pgasi_group_take_turn(g) : status;
}

void pgasi_group_give_turn(pgas_group_t *g)
{
    __atomic_store_n(&g->turn_of, NULL, __ATOMIC_RELAXED);
    pgasi_spin_unlock(&g->turn);
}

/* ---- arrivals ---- */

/* Ends the wait of pgasi_group_await_room. */
static void end_wait(pgas_group_t *g)
{
    pgas_sync_t *room = g->room;
    g->room = NULL;
    if (room != NULL)
        pgasi_sync_lower_locked(room, PGAS_OK, -1, PGAS_OPERATION_GROUP, 0);
}

void pgasi_group_take_ack(pgas_group_t *g, const uint64_t *words, uint64_t now_ns)
{
    pgasi_group_slot_t *slot = pgasi_group_window_ack(&g->window, words);
    if (slot == NULL) {
        pgasi_group_suspect(g, (int)g->n - 1);
        return;
    }
    pgasi_latency_record(&g->latency, now_ns - slot->start_ns);
    g->n_ops += slot->is_last;
    g->bytes += slot->piece.bytes;
    pgas_sync_t *sync = slot->sync;
    slot->sync = NULL;
    g->n_vain = 0;
    if (sync != NULL)
        pgasi_sync_lower_locked(sync, PGAS_OK, -1, PGAS_OPERATION_GROUP, 0);
}

void pgasi_group_take_status(pgas_group_t *g, uint32_t i, const pgasi_group_status_t *status)
{
    g->links[i].status = *status;
    g->n_status++;
    pgasi_group_window_arm(&g->window, i, status->armed);
    if (status->error != 0)
        pgasi_group_suspect(g, (int)i);
}

pgas_status_t pgasi_group_await_room(pgas_group_t *g, uint32_t n_pieces)
{
    while (pgasi_group_window_room(&g->window) < n_pieces) {
        if (g->condition == PGASI_GROUP_BROKEN)
            return PGAS_ERR_PEER;
        if (pgasi_group_progress(g) > 0 || g->condition == PGASI_GROUP_BROKEN)
            continue;
        pgas_sync_t room = PGAS_SYNC_INIT;
        room.count = 1;
        g->room = &room;
        g->room_wanted = n_pieces;
        pgasi_group_unlock(g);
        pgasi_sync_wait_own(&room);
        pgasi_group_lock(g);
    }
    return g->condition == PGASI_GROUP_BROKEN ? PGAS_ERR_PEER : PGAS_OK;
}

/* ---- failures ---- */

void pgasi_group_suspect(pgas_group_t *g, int i)
{
    if (g->condition != PGASI_GROUP_RUNS)
        return;
    g->condition = PGASI_GROUP_BREAKS;
    g->suspect = i;
}

void pgasi_group_lost(pgas_group_t *g, int i)
{
    uint64_t at = 0;
    if (g->condition == PGASI_GROUP_BROKEN)
        return;
    g->condition = PGASI_GROUP_BROKEN;
    g->dead = i;
    if (i < 0)
        PGASI_WARN("group", "the own device does not work any more, or no chain can be formed");
    else
        PGASI_WARN("group", "replica %d (%s) is dead or cannot be reached", i,
                   g->links[i].name.address);
    for (pgas_sync_t *sync; (sync = pgasi_group_window_fail(&g->window, &at)) != NULL;)
        pgasi_sync_lower_locked(sync, PGAS_ERR_PEER, i, PGAS_OPERATION_GROUP, 0);
    end_wait(g);
}

/* A replica reports that its chain has ended. */
void pgasi_group_take_notice(pgas_group_t *g, const pgasi_group_link_t *link)
{
    pgasi_group_notice_t notice;
    memcpy(&notice, link->in.body, sizeof notice);
    bool is_news = notice.status != PGAS_OK || notice.epoch > g->epoch;
    if (is_news && g->condition == PGASI_GROUP_RUNS)
        pgasi_group_suspect(g, (int)(link - g->links));
}

bool pgasi_group_look(pgas_group_t *g, pgasi_group_link_t *link)
{
    pgas_status_t status = PGAS_ERR_PEER;
    while (link->fd >= 0 && (status = pgasi_group_recv(link->fd, &link->in, 0)) == PGAS_OK)
        if (link->in.head.type == PGASI_GROUP_NOTICE)
            pgasi_group_take_notice(g, link);
    return status == PGAS_ERR_AGAIN;
}

static void look_at_links(pgas_group_t *g)
{
    for (uint32_t i = 0; i < g->n; i++)
        if (g->links[i].fd < 0) /* an answer took too long */
            pgasi_group_suspect(g, (int)i);
        else if (!pgasi_group_look(g, &g->links[i]))
            pgasi_group_lost(g, (int)i);
}

/* ---- rounds ---- */

/* Asks for credits while they are few, but not for each piece. */
static void refresh_credits(pgas_group_t *g)
{
    uint64_t credits = pgasi_group_window_credits(&g->window);
    if (credits >= g->slots / 2 || g->window.acked == g->window.pushed)
        return;
    if (g->window.sent - g->sent_at_refresh < g->slots / 8 + 1) {
        uint64_t now_ns = pgasi_now_ns();
        if (credits > 0 || now_ns - g->refresh_ns < REFRESH_NS)
            return;
        g->refresh_ns = now_ns;
    }
    g->sent_at_refresh = g->window.sent;
    g->carrier->refresh(g);
}

static void look_around(pgas_group_t *g)
{
    uint64_t now_ns = pgasi_now_ns();
    if (now_ns >= g->look_ns) {
        g->look_ns = now_ns + LOOK_NS;
        look_at_links(g);
    }
    if (now_ns >= g->beat_ns && g->condition == PGASI_GROUP_RUNS) {
        g->beat_ns = now_ns + BEAT_NS;
        g->carrier->refresh(g);
    }
}

int pgasi_group_progress(pgas_group_t *g)
{
    if (g->condition == PGASI_GROUP_BROKEN)
        return 0;
    if (g->condition == PGASI_GROUP_BREAKS) {
        pgasi_group_mend(g);
        return 0;
    }
    int n = g->carrier->poll(g);
    if (g->condition == PGASI_GROUP_RUNS) {
        if (g->window.sent < g->window.pushed)
            g->carrier->send(g);
        refresh_credits(g);
    }
    if (n > 0 && g->room != NULL && pgasi_group_window_room(&g->window) >= g->room_wanted)
        end_wait(g);
    if (n == 0 && g->n_idle++ % CLOCK_ROUNDS == 0)
        look_around(g);
    return n;
}

int pgasi_group_poll(void *group)
{
    pgas_group_t *g = group;
    if (!pgasi_spin_try(&g->lock))
        return 0;
    int n = pgasi_group_progress(g);
    pgasi_group_unlock(g);
    return n;
}

static void nap(int64_t us)
{
    struct timespec time = { us / 1000000, us % 1000000 * 1000 };
    nanosleep(&time, NULL);
}

/* Sleeps until an acknowledgement comes, or a connection ends. Credits come without an event, so
 * the sleep is short while pieces wait for them. */
void pgasi_group_sleep(void *group, int64_t max_us)
{
    pgas_group_t *g = group;
    struct pollfd wanted[1 + PGAS_GROUP_REPLICAS_MAX];
    nfds_t n = 0;
    if (!pgasi_spin_try(&g->asleep)) {
        nap(PGASI_MIN(max_us, 1000));
        return;
    }
    pgasi_group_lock(g);
    bool runs = g->condition == PGASI_GROUP_RUNS;
    int fd = runs ? g->carrier->arm(g) : -1;
    bool waits = runs && g->window.sent < g->window.pushed;
    for (uint32_t i = 0; i < g->n && fd >= 0; i++)
        if (g->links[i].fd >= 0)
            wanted[n++] = (struct pollfd){ .fd = g->links[i].fd, .events = POLLIN };
    pgasi_group_unlock(g);
    if (fd >= 0) {
        wanted[n++] = (struct pollfd){ .fd = fd, .events = POLLIN };
        struct timespec time = { 0, (long)PGASI_MIN(max_us, waits ? 50 : 100000) * 1000 };
        ppoll(wanted, n, &time, NULL);
    } else if (!runs) {
        nap(PGASI_MIN(max_us, 1000));
    }
    pgasi_spin_unlock(&g->asleep);
}
