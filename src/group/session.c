/* Sessions: the part that is common to the ways. Drains of several sessions run together, so that a
 * list of members takes effect soon even if a chain does not come to rest. */
#include "group/replica.h"

#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <time.h>
#include "base/checks.h"
#include "base/clock.h"
#include "base/log.h"
#include "group/device.h"

#define DRAIN_NS (2 * PGASI_NS_PER_S)
#define SPINS    1000 /* polls before a drain begins to nap */

static const pgasi_session_ops_t *ways[PGAS_GROUP_CALLS + 1] = {
    [PGAS_GROUP_CHAIN] = &pgasi_session_chain, [PGAS_GROUP_VERBS] = &pgasi_session_forward
};

void pgasi_session_set_ops(pgas_group_way_t way, const pgasi_session_ops_t *ops)
{
    ways[way] = ops;
}

uint32_t pgasi_session_ways(void)
{
    uint32_t bits = 0;
    for (uint32_t way = 0; way < PGASI_ARRAY_LENGTH(ways); way++)
        bits |= ways[way] != NULL ? PGASI_GROUP_HAS(way) : 0;
    return bits;
}

/* ---- for ways ---- */

pgas_status_t pgasi_session_watch(pgasi_session_t *s, int fd)
{
    struct epoll_event event = { .events = EPOLLIN, .data.ptr = &s->source };
    int i = 0;
    while (i < PGASI_SESSION_FDS && s->fds[i] >= 0)
        i++;
    if (i == PGASI_SESSION_FDS || epoll_ctl(s->replica->epoll_fd, EPOLL_CTL_ADD, fd, &event) != 0)
        return PGAS_ERR_LIMIT;
    s->fds[i] = fd;
    return PGAS_OK;
}

static void unwatch(pgasi_session_t *s)
{
    for (int i = 0; i < PGASI_SESSION_FDS; i++) {
        /* a child of a fork may still have it, so closing it is not enough */
        if (s->fds[i] >= 0)
            epoll_ctl(s->replica->epoll_fd, EPOLL_CTL_DEL, s->fds[i], NULL);
        s->fds[i] = -1;
    }
}

bool pgasi_session_is_noting(const pgasi_session_t *s)
{
    return s->replica->n_tracking > 0;
}

void pgasi_session_note(const pgasi_session_t *s, uint64_t offset, uint64_t bytes)
{
    uint64_t room = s->replica->region_bytes;
    if (offset >= room)
        return;
    for (pgasi_group_peer_t *peer = s->replica->peers; peer != NULL; peer = peer->next)
        if (peer->changes.bits)
            pgasi_changes_note(&peer->changes, offset, PGASI_MIN(bytes, room - offset));
}

void pgasi_session_keep(pgasi_session_t *s, uint64_t executed, uint32_t slots,
                        uint64_t (*word)(const pgasi_session_t *s, uint64_t k))
{
    pgasi_record_t *record = pgasi_session_record(s);
    uint64_t first = s->open.first, end = first + executed;
    s->executed = executed;
    if (!record)
        return; /* it had been dropped, for there are too many clients */
    uint64_t known = PGASI_MIN(slots, record->mask + 1);
    if (end > record->executed + known)
        pgasi_record_skip(record, end - known);
    while (record->executed < end)
        pgasi_record_add(record, word(s, record->executed - first));
}

uint64_t pgasi_session_cpu_ns(void)
{
    struct timespec now;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
    return (uint64_t)now.tv_sec * PGASI_NS_PER_S + (uint64_t)now.tv_nsec;
}

/* A card reads the word at any moment; the software NIC does so by a plain copy. Therefore this is
 * not an atomic store, which ThreadSanitizer would take for a race with that copy. */
__attribute__((no_sanitize("thread"))) static void store_word(uint64_t *word, uint64_t value)
{
    __atomic_thread_fence(__ATOMIC_RELEASE);
    *(volatile uint64_t *)word = value;
}

void pgasi_session_refilled(pgasi_session_t *s, uint64_t armed, uint64_t begin_ns)
{
    s->n_refills++;
    s->refill_ns += pgasi_session_cpu_ns() - begin_ns;
    if (!s->status)
        return;
    store_word(&s->status->n_refills, s->n_refills);
    store_word(&s->status->refill_ns, s->refill_ns);
    store_word(&s->status->armed, armed);
}

/* ---- for the replica ---- */

pgasi_record_t *pgasi_session_record(const pgasi_session_t *s)
{
    return pgasi_records_use(&s->replica->records, s->source.peer->client,
                             PGASI_MIN(s->open.slots, PGASI_GROUP_OLD_MAX));
}

/* A card's compare-and-swap need not be atomic with that of a CPU. So as long as there are chains
 * that cards execute, there are no others. */
static bool is_mixed(const pgas_replica_t *replica, pgas_group_way_t way)
{
    for (const pgasi_group_peer_t *peer = replica->peers; peer != NULL; peer = peer->next) {
        const pgasi_session_t *s = &peer->session;
        bool is_open = s->state == PGASI_SESSION_OPENED || s->state == PGASI_SESSION_RUNNING;
        if (is_open && (s->open.way == PGAS_GROUP_CHAIN) != (way == PGAS_GROUP_CHAIN))
            return true;
    }
    return false;
}

pgas_status_t pgasi_session_open(pgasi_session_t *s, const pgasi_group_open_t *open)
{
    pgas_replica_t *replica = s->replica;
    const pgasi_session_ops_t *ops = ways[open->way];
    if (!ops || (replica->ways & PGASI_GROUP_HAS(open->way)) == 0)
        return PGAS_ERR_UNSUPPORTED;
    if (is_mixed(replica, (pgas_group_way_t)open->way)) {
        PGASI_WARN("group",
                   "%s: a client asks for another way than the other clients use: set "
                   "PGAS_GROUP_WAY to the same for all",
                   replica->address);
        return PGAS_ERR_MISMATCH;
    }
    for (int i = 0; i < PGASI_SESSION_FDS; i++)
        s->fds[i] = -1;
    s->open = *open;
    s->executed = s->n_refills = s->refill_ns = 0;
    s->error = PGAS_OK;
    s->status = NULL;
    s->way = NULL;
    memset(&s->opened, 0, sizeof s->opened);
    s->opened.rank = -1;
    pgas_status_t status = ops->open(s);
    if (status != PGAS_OK)
        return status;
    s->ops = ops;
    s->state = PGASI_SESSION_OPENED;
    pgasi_group_member_t *member = &s->opened.member;
    member->region = (uintptr_t)replica->region;
    member->region_bytes = replica->region_bytes;
    member->region_lkey = replica->mem.lkey;
    member->region_rkey = replica->mem.rkey;
    return PGAS_OK;
}

/* Ends the way's part, and keeps the counts. */
static void end_way(pgasi_session_t *s, pgasi_session_state_t after)
{
    unwatch(s);
    s->ops->close(s);
    s->state = after;
    s->replica->n_executed += s->executed;
    s->replica->n_refills += s->n_refills;
    s->replica->refill_ns += s->refill_ns;
}

pgas_status_t pgasi_session_connect(pgasi_session_t *s, const pgasi_group_connect_t *connect)
{
    if (s->state != PGASI_SESSION_OPENED)
        return s->state == PGASI_SESSION_CLOSED ? PGAS_ERR_NOT_INIT : PGAS_ERR_EXISTS;
    pgas_status_t status = s->ops->connect(s, connect);
    if (status == PGAS_OK)
        s->state = PGASI_SESSION_RUNNING;
    else
        end_way(s, PGASI_SESSION_CLOSED);
    return status;
}

pgas_status_t pgasi_session_poll(pgasi_session_t *s)
{
    if (s->state != PGASI_SESSION_RUNNING || s->error != PGAS_OK)
        return PGAS_OK;
    s->error = s->ops->poll(s);
    if (s->error == PGAS_OK)
        return PGAS_OK;
    if (s->status)
        store_word(&s->status->error, (uint64_t)(int64_t)s->error);
    unwatch(s);
    return s->error;
}

/* Waits until all of them are at rest, at most until the limit. A device that has ended executes
 * nothing more. */
static void await_rest(pgasi_session_t *const *sessions, size_t n)
{
    pgas_verbs_dev_t *dev = n > 0 ? sessions[0]->replica->dev : NULL;
    if (dev && !pgasi_group_device_works(dev))
        return;
    uint64_t limit_ns = pgasi_now_ns() + DRAIN_NS;
    size_t n_left = n;
    for (int round = 0; n_left > 0; round++) {
        n_left = 0;
        for (size_t i = 0; i < n; i++)
            n_left += sessions[i]->state == PGASI_SESSION_RUNNING &&
                      !sessions[i]->ops->is_drained(sessions[i]);
        if (n_left > 0 && pgasi_now_ns() > limit_ns) {
            PGASI_WARN("group", "%zu chains did not come to rest", n_left);
            return;
        }
        if (n_left > 0 && round > SPINS)
            poll(NULL, 0, 1);
    }
}

void pgasi_session_drain(pgasi_session_t *const *sessions, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        unwatch(sessions[i]);
        if (sessions[i]->state == PGASI_SESSION_RUNNING)
            sessions[i]->ops->end_input(sessions[i]);
    }
    await_rest(sessions, n);
    for (size_t i = 0; i < n; i++)
        if (sessions[i]->state == PGASI_SESSION_RUNNING ||
            sessions[i]->state == PGASI_SESSION_OPENED)
            end_way(sessions[i], PGASI_SESSION_DRAINED);
}

void pgasi_session_free(pgasi_session_t *s)
{
    pgasi_session_drain(&s, 1);
    s->state = PGASI_SESSION_CLOSED;
}
