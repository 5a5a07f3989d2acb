/* The requests of clients to a replica. Each one is answered at once, in order. */
#include "group/replica.h"

#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include "base/checks.h"
#include "base/clock.h"
#include "base/log.h"
#include "group/device.h"

#define FREEZE_NS  (5 * PGASI_NS_PER_S) /* the clients of the group wait meanwhile */
#define RANGES_MAX (PGASI_GROUP_BODY_MAX / sizeof(pgasi_group_range_t))

/* ---- answers ---- */

static void done(pgasi_group_peer_t *peer)
{
    pgasi_peer_send(peer, PGASI_GROUP_DONE, peer->in.head.number, NULL, 0);
}

static __attribute__((format(printf, 3, 4))) void
refuse(pgasi_group_peer_t *peer, pgas_status_t status, const char *format, ...)
{
    pgasi_group_refused_t refused = { .status = status };
    va_list args;
    va_start(args, format);
    vsnprintf(refused.reason, sizeof refused.reason, format, args);
    va_end(args);
    pgasi_peer_send(peer, PGASI_GROUP_REFUSED, PGASI_MAX(peer->in.head.number, 1u), &refused,
                    sizeof refused);
}

/* The last answer of a connection. */
static void refuse_and_end(pgasi_group_peer_t *peer, pgas_status_t status, const char *reason)
{
    peer->is_ending = true;
    refuse(peer, status, "%s", reason);
}

static void notify(pgasi_group_peer_t *peer, pgas_status_t status)
{
    const pgasi_group_notice_t notice = { .status = status, .epoch = peer->replica->list.epoch };
    pgasi_peer_send(peer, PGASI_GROUP_NOTICE, 0, &notice, sizeof notice);
}

/* ---- HELLO ---- */

/* Takes the same time wherever the keys differ. A replica without a key accepts all. */
static bool is_right_key(const pgas_replica_t *replica, const uint8_t key[PGASI_GROUP_KEY_BYTES])
{
    volatile uint8_t differs = 0, any = 0;
    for (unsigned i = 0; i < PGASI_GROUP_KEY_BYTES; i++) {
        any |= replica->key[i];
        differs |= replica->key[i] ^ key[i];
    }
    return any == 0 || differs == 0;
}

/* A client may have several connections, such as one that it has not closed yet. */
static bool has_room(const pgas_replica_t *replica, const pgasi_group_hello_t *hello)
{
    uint32_t n = 0;
    for (const pgasi_group_peer_t *peer = replica->peers; peer != NULL; peer = peer->next) {
        if (peer->fd < 0 || !peer->is_known || peer->is_replica)
            continue;
        if (peer->client == hello->client)
            return true;
        n++;
    }
    return hello->is_replica || n < replica->clients_max;
}

static void welcome(pgasi_group_peer_t *peer)
{
    const pgas_replica_t *replica = peer->replica;
    struct {
        pgasi_group_welcome_t welcome;
        pgasi_group_name_t names[PGAS_GROUP_REPLICAS_MAX];
    } answer;
    memset(&answer, 0, sizeof answer.welcome);
    answer.welcome.id = replica->id;
    answer.welcome.region_bytes = replica->region_bytes;
    answer.welcome.epoch = replica->list.epoch;
    answer.welcome.ways = replica->ways;
    answer.welcome.n_members = replica->list.n;
    answer.welcome.flags = replica->list.is_frozen ? PGASI_GROUP_FREEZE : 0;
    memcpy(answer.welcome.next, replica->next, sizeof replica->next);
    memcpy(answer.welcome.provider, replica->provider, sizeof replica->provider);
    memcpy(answer.names, replica->list.names, replica->list.n * sizeof answer.names[0]);
    pgasi_peer_send(peer, PGASI_GROUP_WELCOME, peer->in.head.number, &answer,
                    (uint32_t)(sizeof answer.welcome + replica->list.n * sizeof answer.names[0]));
}

static void on_hello(pgasi_group_peer_t *peer)
{
    static int warned;
    pgasi_group_hello_t hello;
    memcpy(&hello, peer->in.body, sizeof hello);
    if (!is_right_key(peer->replica, hello.key)) {
        pgasi_warn_once(&warned, "group", "%s refused a client with a wrong key",
                        peer->replica->address);
        refuse_and_end(peer, PGAS_ERR_CONTEXT, "wrong key");
        return;
    }
    if (!peer->is_known && !has_room(peer->replica, &hello)) {
        refuse_and_end(peer, PGAS_ERR_LIMIT, "the replica has its maximum of clients");
        return;
    }
    if (peer->is_known && (hello.client != peer->client || hello.is_replica != peer->is_replica)) {
        refuse_and_end(peer, PGAS_ERR_INVALID, "the connection belongs to another client");
        return;
    }
    peer->is_known = true;
    peer->is_replica = hello.is_replica != 0;
    peer->client = hello.client;
    welcome(peer);
}

/* ---- lists of members ---- */

/* Drains the chains of all clients. All but the sender of the list get a notice. */
static void drain_all(pgas_replica_t *replica, const pgasi_group_peer_t *sender)
{
    size_t n = 0, i = 0;
    for (pgasi_group_peer_t *peer = replica->peers; peer != NULL; peer = peer->next)
        n++;
    pgasi_session_t **sessions = malloc(PGASI_MAX(n, (size_t)1) * sizeof(pgasi_session_t *));
    for (pgasi_group_peer_t *peer = replica->peers; peer != NULL; peer = peer->next)
        if (sessions)
            sessions[i++] = &peer->session;
        else
            pgasi_session_drain(&(pgasi_session_t *){ &peer->session }, 1);
    pgasi_session_drain(sessions, i);
    free(sessions);
    for (pgasi_group_peer_t *peer = replica->peers; peer != NULL; peer = peer->next)
        if (peer != sender && peer->fd >= 0 && peer->wants_notice)
            notify(peer, PGAS_OK);
}

static void on_members(pgasi_group_peer_t *peer)
{
    pgas_replica_t *replica = peer->replica;
    pgasi_group_members_t members;
    pgasi_group_list_t list;
    memcpy(&members, peer->in.body, sizeof members);
    memset(&list, 0, sizeof list);
    list.epoch = members.epoch;
    list.is_frozen = (members.flags & PGASI_GROUP_FREEZE) != 0;
    list.n = members.n_members;
    memcpy(list.names, peer->in.body + sizeof members, list.n * sizeof list.names[0]);
    if (pgasi_group_list_find(&list, replica->id) < 0) {
        refuse(peer, PGAS_ERR_MISMATCH, "this replica is not in the list");
        return;
    }
    switch (pgasi_group_list_take(&replica->list, &replica->freezer, &list, peer->id)) {
    case PGASI_LIST_TAKEN:
        replica->thaw_ns = pgasi_now_ns() + FREEZE_NS;
        drain_all(replica, peer);
        done(peer);
        return;
    case PGASI_LIST_KNOWN:
        done(peer);
        return;
    case PGASI_LIST_REFUSED:
        refuse(peer, PGAS_ERR_EXISTS, "the list of members has epoch %llu%s",
               (unsigned long long)replica->list.epoch, replica->list.is_frozen ? " (frozen)" : "");
    }
}

void pgasi_replica_thaw(pgas_replica_t *replica, uint64_t id)
{
    id = id != 0 ? id : replica->freezer;
    if (!pgasi_group_list_thaw(&replica->list, &replica->freezer, id))
        return;
    PGASI_WARN("group", "%s: a client that was adding a replica vanished, or took too long",
               replica->address);
    drain_all(replica, NULL);
}

/* ---- chains ---- */

/* @return PGAS_ERR_AGAIN  the chain does not fit the present list and the place of this replica */
static pgas_status_t check_open(const pgas_replica_t *replica, const pgasi_group_open_t *open)
{
    const pgasi_group_list_t *list = &replica->list;
    bool fits = open->epoch == list->epoch && !list->is_frozen && open->n == list->n &&
                list->names[open->position].id == replica->id;
    return fits ? PGAS_OK : PGAS_ERR_AGAIN;
}

/* Ends the chains of this client, also of former connections that have not been closed yet: its
 * record must be complete. */
static void end_chains(const pgasi_group_peer_t *peer)
{
    for (pgasi_group_peer_t *p = peer->replica->peers; p != NULL; p = p->next)
        if (p->client == peer->client && p->session.state != PGASI_SESSION_CLOSED)
            pgasi_session_free(&p->session);
}

/* Opens the chain; checks that this replica has all that the client counts as complete. */
static pgas_status_t open_chain(pgasi_group_peer_t *peer, const pgasi_group_open_t *open,
                                pgasi_record_t **record_p)
{
    pgasi_session_t *s = &peer->session;
    pgas_status_t status = check_open(peer->replica, open);
    if (status != PGAS_OK)
        return status;
    end_chains(peer);
    s->open = *open;
    pgasi_record_t *record = pgasi_session_record(s);
    if (!record)
        return PGAS_ERR_NO_MEMORY;
    if (record->executed < open->first)
        return PGAS_ERR_RANGE;
    *record_p = record;
    return pgasi_session_open(s, open);
}

static void on_open(pgasi_group_peer_t *peer)
{
    pgasi_group_open_t open;
    pgasi_record_t *record;
    struct {
        pgasi_group_opened_t opened;
        uint64_t old[PGASI_GROUP_OLD_MAX];
    } answer;
    if (peer->replica->dev && !pgasi_group_device_works(peer->replica->dev)) {
        pgasi_peer_close(peer); /* as if this process had died */
        return;
    }
    memcpy(&open, peer->in.body, sizeof open);
    peer->wants_notice = true;
    pgas_status_t status = open_chain(peer, &open, &record);
    if (status != PGAS_OK) {
        refuse(peer, status, "no chain: epoch %llu%s, %u members",
               (unsigned long long)peer->replica->list.epoch,
               peer->replica->list.is_frozen ? " (frozen)" : "", peer->replica->list.n);
        return;
    }
    answer.opened = peer->session.opened;
    answer.opened.executed = record->executed;
    answer.opened.n_old = pgasi_record_words(record, open.first, answer.old, PGASI_GROUP_OLD_MAX);
    pgasi_peer_send(peer, PGASI_GROUP_OPENED, peer->in.head.number, &answer,
                    (uint32_t)(sizeof answer.opened + answer.opened.n_old * sizeof answer.old[0]));
}

static void on_connect(pgasi_group_peer_t *peer)
{
    pgasi_group_connect_t connect;
    memcpy(&connect, peer->in.body, sizeof connect);
    /* a list has come in between; the client has a notice */
    pgas_status_t status = peer->session.state == PGASI_SESSION_DRAINED
                               ? PGAS_ERR_AGAIN
                               : pgasi_session_connect(&peer->session, &connect);
    if (status == PGAS_OK)
        done(peer);
    else
        refuse(peer, status, "not connected");
}

static void on_close(pgasi_group_peer_t *peer)
{
    pgasi_session_free(&peer->session);
    done(peer);
}

static void on_leave(pgasi_group_peer_t *peer)
{
    end_chains(peer);
    pgasi_records_drop(&peer->replica->records, peer->client);
    done(peer);
}

void pgasi_peer_poll_session(pgasi_group_peer_t *peer)
{
    pgas_status_t status = pgasi_session_poll(&peer->session);
    if (status == PGAS_OK || peer->fd < 0)
        return;
    PGASI_INFO("group", "%s: a chain is broken: %s", peer->replica->address,
               pgas_status_name(status));
    notify(peer, status);
}

/* ---- the region, and counts ---- */

static void poll_all(const pgas_replica_t *replica)
{
    for (pgasi_group_peer_t *peer = replica->peers; peer != NULL; peer = peer->next)
        pgasi_peer_poll_session(peer);
}

static void on_read(pgasi_group_peer_t *peer)
{
    const pgas_replica_t *replica = peer->replica;
    pgasi_group_range_t range;
    memcpy(&range, peer->in.body, sizeof range);
    if (range.offset + range.bytes > replica->region_bytes)
        refuse(peer, PGAS_ERR_RANGE, "beyond the region");
    else
        pgasi_peer_send(peer, PGASI_GROUP_DATA, peer->in.head.number,
                        replica->region + range.offset, (uint32_t)range.bytes);
}

void pgasi_replica_count(const pgas_replica_t *replica, pgasi_group_state_t *state_p)
{
    pgasi_group_state_t state = { .epoch = replica->list.epoch,
                                  .n_executed = replica->n_executed,
                                  .n_refills = replica->n_refills,
                                  .refill_ns = replica->refill_ns };
    for (const pgasi_group_peer_t *peer = replica->peers; peer != NULL; peer = peer->next) {
        const pgasi_session_t *s = &peer->session;
        state.n_clients += peer->fd >= 0 && peer->is_known && !peer->is_replica;
        if (s->state != PGASI_SESSION_OPENED && s->state != PGASI_SESSION_RUNNING)
            continue;
        state.n_executed += s->executed;
        state.n_refills += s->n_refills;
        state.refill_ns += s->refill_ns;
    }
    *state_p = state;
}

static void on_state(pgasi_group_peer_t *peer)
{
    pgasi_group_state_t state;
    poll_all(peer->replica);
    pgasi_replica_count(peer->replica, &state);
    pgasi_peer_send(peer, PGASI_GROUP_STATE, peer->in.head.number, &state, sizeof state);
}

static void on_track(pgasi_group_peer_t *peer)
{
    bool first = peer->changes.bits == NULL;
    pgas_status_t status = pgasi_changes_begin(&peer->changes, peer->replica->region_bytes);
    if (status != PGAS_OK) {
        refuse(peer, status, "no memory for changed ranges");
        return;
    }
    peer->replica->n_tracking += first;
    done(peer);
}

static void on_changed(pgasi_group_peer_t *peer)
{
    if (!peer->changes.bits) {
        refuse(peer, PGAS_ERR_NOT_INIT, "TRACK comes first");
        return;
    }
    pgasi_group_range_t *ranges = malloc(RANGES_MAX * sizeof ranges[0]);
    if (!ranges) {
        refuse(peer, PGAS_ERR_NO_MEMORY, "changed ranges");
        return;
    }
    poll_all(peer->replica);
    uint32_t n = pgasi_changes_take(&peer->changes, peer->replica->region_bytes, ranges,
                                    (uint32_t)RANGES_MAX);
    pgasi_peer_send(peer, PGASI_GROUP_CHANGED, peer->in.head.number, ranges,
                    (uint32_t)(n * sizeof ranges[0]));
    free(ranges);
}

static void on_table(pgasi_group_peer_t *peer)
{
    pgasi_group_table_t table;
    struct {
        pgasi_group_record_t record;
        uint64_t old[PGASI_GROUP_OLD_MAX];
    } answer;
    memcpy(&table, peer->in.body, sizeof table);
    const pgasi_record_t *record = pgasi_records_at(&peer->replica->records, table.index);
    answer.record = (pgasi_group_record_t){ .client = 0 };
    if (record) {
        answer.record.client = record->client;
        answer.record.executed = record->executed;
        answer.record.n_old = pgasi_record_words(record, 0, answer.old, PGASI_GROUP_OLD_MAX);
    }
    pgasi_peer_send(peer, PGASI_GROUP_RECORD, peer->in.head.number, &answer,
                    (uint32_t)(sizeof answer.record + answer.record.n_old * sizeof answer.old[0]));
}

static bool has_chains(const pgas_replica_t *replica)
{
    for (const pgasi_group_peer_t *p = replica->peers; p != NULL; p = p->next)
        if (p->session.state == PGASI_SESSION_OPENED || p->session.state == PGASI_SESSION_RUNNING)
            return true;
    return false;
}

/* A replica that was a member before may be added again. */
static void on_copy(pgasi_group_peer_t *peer)
{
    pgasi_group_copy_t copy;
    memcpy(&copy, peer->in.body, sizeof copy);
    pgas_status_t status =
        has_chains(peer->replica) ? PGAS_ERR_EXISTS : pgasi_copy(peer->replica, peer->id, &copy);
    if (status == PGAS_OK)
        done(peer);
    else
        refuse(peer, status, "the region was not copied");
}

/* ---- all of them ---- */

static void (*const handlers[PGASI_GROUP_N_TYPES])(pgasi_group_peer_t *peer) = {
    [PGASI_GROUP_HELLO] = on_hello,     [PGASI_GROUP_MEMBERS] = on_members,
    [PGASI_GROUP_OPEN] = on_open,       [PGASI_GROUP_CONNECT] = on_connect,
    [PGASI_GROUP_CLOSE] = on_close,     [PGASI_GROUP_READ] = on_read,
    [PGASI_GROUP_STATE] = on_state,     [PGASI_GROUP_TRACK] = on_track,
    [PGASI_GROUP_CHANGED] = on_changed, [PGASI_GROUP_LEAVE] = on_leave,
    [PGASI_GROUP_COPY] = on_copy,       [PGASI_GROUP_TABLE] = on_table,
};

/* STATE and CHANGED are requests without a body, and answers with one. */
static bool is_request(const pgasi_group_head_t *head)
{
    bool both = head->type == PGASI_GROUP_STATE || head->type == PGASI_GROUP_CHANGED;
    return !both || head->bytes == 0;
}

void pgasi_peer_answer(pgasi_group_peer_t *peer, pgas_status_t status)
{
    const pgasi_group_head_t *head = &peer->in.head;
    if (status == PGAS_ERR_MISMATCH)
        refuse_and_end(peer, status, "another version");
    else if (!peer->is_known && head->type != PGASI_GROUP_HELLO)
        pgasi_peer_close(peer);
    else if (status != PGAS_OK)
        refuse(peer, status, "beyond a limit");
    else if (!handlers[head->type] || !is_request(head))
        pgasi_peer_close(peer);
    else
        handlers[head->type](peer);
}

void pgasi_peer_gone(pgasi_group_peer_t *peer)
{
    pgas_replica_t *replica = peer->replica;
    pgasi_session_free(&peer->session);
    replica->n_tracking -= peer->changes.bits != NULL;
    pgasi_changes_end(&peer->changes);
    pgasi_copy_gone(replica, peer->id);
    if (!replica->has_ended)
        pgasi_replica_thaw(replica, peer->id);
}
