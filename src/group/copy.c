/* Copying the region of another replica, when a client adds this one to a group.
 *
 * COPY comes twice. The first time clients continue, and the source notes the ranges that they
 * change. This replica fetches the whole region, and then changed ranges until they are few. The
 * second time the group is frozen. This replica fetches the last changes, and the source's records
 * of clients. The service thread does that without the lock of the replica: this replica has no
 * clients yet. */
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include "base/checks.h"
#include "base/clock.h"
#include "base/log.h"
#include "group/replica.h"

#define CHUNK      (64u << 10)
#define FEW_BYTES  (1u << 20) /* are fetched while the group is frozen */
#define ROUNDS_MAX 8
#define ANSWER_NS  (4 * PGASI_NS_PER_S)

/* The connection to the source. */
struct pgasi_group_copying {
    uint64_t owner; /* id of the connection of the client */
    int fd;
    uint32_t number;
    pgasi_group_in_t in;
};

void pgasi_copy_end(pgas_replica_t *replica)
{
    pgasi_group_copying_t *c = replica->copying;
    if (!c)
        return;
    if (c->fd >= 0)
        close(c->fd);
    free(c->in.body);
    free(c);
    replica->copying = NULL;
}

void pgasi_copy_gone(pgas_replica_t *replica, uint64_t owner)
{
    if (replica->copying && replica->copying->owner == owner)
        pgasi_copy_end(replica);
}

/* ---- requests to the source ---- */

static pgas_status_t ask(pgasi_group_copying_t *c, uint16_t type, const void *body, uint32_t bytes,
                         uint16_t answer)
{
    uint64_t limit_ns = pgasi_now_ns() + ANSWER_NS;
    pgas_status_t status = pgasi_group_send(c->fd, type, ++c->number, body, bytes, limit_ns);
    if (status == PGAS_OK)
        status = pgasi_group_recv(c->fd, &c->in, limit_ns);
    if (status != PGAS_OK)
        return status;
    if (c->in.head.type == PGASI_GROUP_REFUSED) {
        pgasi_group_refused_t refused;
        memcpy(&refused, c->in.body, sizeof refused);
        return (pgas_status_t)refused.status;
    }
    return c->in.head.type == answer && c->in.head.number == c->number ? PGAS_OK : PGAS_ERR_FORMAT;
}

static bool has_ended(pgas_replica_t *replica)
{
    pthread_mutex_lock(&replica->lock);
    bool ended = replica->has_ended;
    pthread_mutex_unlock(&replica->lock);
    return ended;
}

/* Pages of zeros are not touched, so that they need no memory here either. */
static pgas_status_t fetch(pgas_replica_t *replica, uint64_t offset, uint64_t bytes)
{
    pgasi_group_copying_t *c = replica->copying;
    for (uint64_t at = offset; at < offset + bytes; at += CHUNK) {
        const pgasi_group_range_t range = { at, PGASI_MIN(offset + bytes - at, CHUNK) };
        if (has_ended(replica))
            return PGAS_ERR_PEER;
        pgas_status_t status = ask(c, PGASI_GROUP_READ, &range, sizeof range, PGASI_GROUP_DATA);
        if (status == PGAS_OK && c->in.head.bytes != range.bytes)
            status = PGAS_ERR_FORMAT;
        if (status != PGAS_OK)
            return status;
        if (memcmp(replica->region + at, c->in.body, range.bytes) != 0)
            memcpy(replica->region + at, c->in.body, range.bytes);
    }
    return PGAS_OK;
}

/* One answer with changed ranges. @param bytes_p  of them; 0: nothing has changed */
static pgas_status_t fetch_changed(pgas_replica_t *replica, uint64_t *bytes_p)
{
    pgasi_group_copying_t *c = replica->copying;
    *bytes_p = 0;
    pgas_status_t status = ask(c, PGASI_GROUP_CHANGED, NULL, 0, PGASI_GROUP_CHANGED);
    if (status != PGAS_OK || c->in.head.bytes == 0)
        return status;
    uint32_t bytes = c->in.head.bytes, n = bytes / (uint32_t)sizeof(pgasi_group_range_t);
    pgasi_group_range_t *ranges = malloc(bytes);
    if (!ranges)
        return PGAS_ERR_NO_MEMORY;
    memcpy(ranges, c->in.body, bytes);
    for (uint32_t i = 0; i < n && status == PGAS_OK; i++) {
        bool inside = ranges[i].offset + ranges[i].bytes <= replica->region_bytes;
        status = inside ? fetch(replica, ranges[i].offset, ranges[i].bytes) : PGAS_ERR_RANGE;
        *bytes_p += ranges[i].bytes;
    }
    free(ranges);
    return status;
}

static pgas_status_t fetch_records(pgas_replica_t *replica)
{
    pgasi_group_copying_t *c = replica->copying;
    pgasi_group_record_t from;
    pgasi_records_clear(&replica->records);
    for (pgasi_group_table_t table = { 0 };; table.index++) {
        pgas_status_t status = ask(c, PGASI_GROUP_TABLE, &table, sizeof table, PGASI_GROUP_RECORD);
        if (status != PGAS_OK)
            return status;
        memcpy(&from, c->in.body, sizeof from);
        if (from.client == 0)
            return PGAS_OK;
        pgasi_record_t *record = pgasi_records_use(&replica->records, from.client,
                                                   pgasi_pow2_up(PGASI_MAX(from.n_old, 1u)));
        if (!record)
            return PGAS_ERR_NO_MEMORY;
        pgasi_record_skip(record, from.executed - from.n_old);
        for (uint32_t i = 0; i < from.n_old; i++) {
            uint64_t word;
            memcpy(&word, c->in.body + sizeof from + i * sizeof word, sizeof word);
            pgasi_record_add(record, word);
        }
    }
}

/* ---- COPY ---- */

static pgas_status_t greet(const pgas_replica_t *replica)
{
    pgasi_group_copying_t *c = replica->copying;
    pgasi_group_hello_t hello = { .client = replica->id, .is_replica = 1 };
    pgasi_group_welcome_t welcome;
    memcpy(hello.key, replica->key, sizeof hello.key);
    pgas_status_t status = ask(c, PGASI_GROUP_HELLO, &hello, sizeof hello, PGASI_GROUP_WELCOME);
    if (status != PGAS_OK)
        return status;
    memcpy(&welcome, c->in.body, sizeof welcome);
    if (welcome.region_bytes != replica->region_bytes || welcome.id == replica->id)
        return PGAS_ERR_MISMATCH;
    return ask(c, PGASI_GROUP_TRACK, NULL, 0, PGASI_GROUP_DONE);
}

static pgas_status_t copy_all(pgas_replica_t *replica, const char *from)
{
    uint64_t bytes = UINT64_MAX;
    pgas_status_t status =
        pgasi_group_dial_once(from, pgasi_now_ns() + ANSWER_NS, &replica->copying->fd);
    if (status == PGAS_OK)
        status = greet(replica);
    if (status == PGAS_OK)
        status = fetch(replica, 0, replica->region_bytes);
    for (int i = 0; i < ROUNDS_MAX && bytes > FEW_BYTES && status == PGAS_OK; i++)
        status = fetch_changed(replica, &bytes);
    return status;
}

static pgas_status_t copy_rest(pgas_replica_t *replica)
{
    uint64_t bytes = 1;
    pgas_status_t status = PGAS_OK;
    while (bytes > 0 && status == PGAS_OK)
        status = fetch_changed(replica, &bytes);
    return status == PGAS_OK ? fetch_records(replica) : status;
}

pgas_status_t pgasi_copy(pgas_replica_t *replica, uint64_t owner, const pgasi_group_copy_t *copy)
{
    pgas_status_t status;
    if (copy->is_last && (!replica->copying || replica->copying->owner != owner))
        return PGAS_ERR_NOT_INIT;
    if (!copy->is_last) {
        pgasi_copy_end(replica);
        replica->copying = calloc(1, sizeof *replica->copying);
        if (!replica->copying)
            return PGAS_ERR_NO_MEMORY;
        replica->copying->owner = owner;
        replica->copying->fd = -1;
    }
    pthread_mutex_unlock(&replica->lock);
    status = copy->is_last ? copy_rest(replica) : copy_all(replica, copy->from);
    pthread_mutex_lock(&replica->lock);
    if (status != PGAS_OK)
        PGASI_INFO("group", "%s cannot copy the region of %s: %s", replica->address, copy->from,
                   pgas_status_name(status));
    if (status != PGAS_OK || copy->is_last)
        pgasi_copy_end(replica);
    return status;
}
