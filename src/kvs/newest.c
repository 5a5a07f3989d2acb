/* See newest.h. Slots have 24 bytes, and a table is filled to three quarters at most. */
#include "kvs/newest.h"
#include <stdlib.h>
#include "base/checks.h"
#include "kvs/kvs.h"
#include "pgas/coll.h"
#define XXH_INLINE_ALL
#include <xxhash.h>

#define SLOTS_LEAST 1024u
#define TAKEN       UINT64_MAX /* a version that no record has */

/* ---- the table ---- */

/* The slot that has the key, or the empty one where it belongs. */
static pgasi_newest_key_t *find(const pgasi_newest_t *newest, const uint64_t hash[2])
{
    uint64_t i = hash[0];
    for (;; i++) {
        pgasi_newest_key_t *slot = &newest->slots[i & (newest->n_slots - 1)];
        if (slot->version == 0 || (slot->hash[0] == hash[0] && slot->hash[1] == hash[1]))
            return slot;
    }
}

static bool grow(pgasi_newest_t *newest)
{
    pgasi_newest_t larger = { .n_slots = PGASI_MAX(2 * newest->n_slots, SLOTS_LEAST) };
    larger.slots = calloc(larger.n_slots, sizeof *larger.slots);
    if (!larger.slots)
        return false;
    for (uint64_t i = 0; i < newest->n_slots; i++)
        if (newest->slots[i].version != 0)
            *find(&larger, newest->slots[i].hash) = newest->slots[i];
    free(newest->slots);
    newest->slots = larger.slots;
    newest->n_slots = larger.n_slots;
    return true;
}

static bool note(pgasi_newest_t *newest, const pgasi_newest_key_t *key)
{
    if (newest->n >= newest->n_slots / 4 * 3 && !grow(newest))
        return false;
    pgasi_newest_key_t *slot = find(newest, key->hash);
    if (slot->version < key->version) {
        newest->n += slot->version == 0;
        *slot = *key;
    }
    return true;
}

static bool take(pgasi_newest_t *newest, const pgasi_newest_key_t *key)
{
    pgasi_newest_key_t *slot = find(newest, key->hash);
    if (slot->version == 0 || slot->version != key->version)
        return false;
    slot->version = TAKEN;
    return true;
}

static pgasi_newest_key_t key_of(const pgasi_newest_t *newest, const void *key, size_t bytes,
                                 uint64_t version)
{
    XXH128_hash_t hash = XXH3_128bits_withSeed(key, bytes, newest->seed);
    return (pgasi_newest_key_t){ .hash = { hash.low64, hash.high64 }, .version = version };
}

bool pgasi_newest_note(pgasi_newest_t *newest, const void *key, size_t bytes, uint64_t version)
{
    pgasi_newest_key_t noted = key_of(newest, key, bytes, version);
    return note(newest, &noted);
}

bool pgasi_newest_take(pgasi_newest_t *newest, const void *key, size_t bytes, uint64_t version)
{
    pgasi_newest_key_t taken = key_of(newest, key, bytes, version);
    return newest->n > 0 && take(newest, &taken);
}

void pgasi_newest_fini(pgasi_newest_t *newest)
{
    free(newest->slots);
    newest->slots = NULL;
    newest->n = newest->n_slots = 0;
}

/* ---- several ranks ---- */

/* An exchange of keys: each rank judges those of its share of the hashes. */
typedef struct {
    pgas_team_t *team;
    const int *ranks; /* that take part */
    int n_ranks;
    size_t n_sent, n_received;           /* keys */
    size_t *sent_bytes, *received_bytes; /* [of the team] */
    size_t *next;                        /* [of the team]: where its next key is in `sent` */
    pgasi_newest_key_t *sent, *received;
} exchange_t;

/* The slot depends on the other half of the hash, so a judge's table is evenly filled. */
static int judge_of(const exchange_t *x, const pgasi_newest_key_t *key)
{
    return x->ranks[key->hash[1] % (uint64_t)x->n_ranks];
}

static void rewind_next(exchange_t *x)
{
    size_t at = 0;
    for (int rank = 0; rank < pgas_team_size(x->team); rank++) {
        x->next[rank] = at;
        at += x->sent_bytes[rank] / sizeof *x->sent;
    }
}

static pgas_status_t exchange_sizes(exchange_t *x, const pgasi_newest_t *newest)
{
    size_t n = (size_t)pgas_team_size(x->team);
    x->sent_bytes = calloc(n, sizeof *x->sent_bytes);
    x->received_bytes = calloc(n, sizeof *x->received_bytes);
    x->next = calloc(n, sizeof *x->next);
    bool made = x->sent_bytes && x->received_bytes && x->next;
    pgas_status_t status = pgasi_kvs_agree(x->team, made ? PGAS_OK : PGAS_ERR_NO_MEMORY);
    if (status != PGAS_OK)
        return status;
    for (uint64_t i = 0; i < newest->n_slots; i++)
        if (newest->slots[i].version != 0)
            x->sent_bytes[judge_of(x, &newest->slots[i])] += sizeof *x->sent;
    status = pgas_alltoall(x->team, x->sent_bytes, x->received_bytes, sizeof *x->sent_bytes);
    for (size_t rank = 0; rank < n && status == PGAS_OK; rank++)
        x->n_received += x->received_bytes[rank] / sizeof *x->received;
    x->n_sent = newest->n;
    return status;
}

static pgas_status_t send_keys(exchange_t *x, const pgasi_newest_t *newest)
{
    x->sent = malloc(PGASI_MAX(x->n_sent, 1) * sizeof *x->sent);
    x->received = malloc(PGASI_MAX(x->n_received, 1) * sizeof *x->received);
    pgas_status_t status =
        pgasi_kvs_agree(x->team, x->sent && x->received ? PGAS_OK : PGAS_ERR_NO_MEMORY);
    if (status != PGAS_OK)
        return status;
    rewind_next(x);
    for (uint64_t i = 0; i < newest->n_slots; i++)
        if (newest->slots[i].version != 0)
            x->sent[x->next[judge_of(x, &newest->slots[i])]++] = newest->slots[i];
    return pgas_alltoallv(x->team, x->sent, x->sent_bytes, x->received, x->received_bytes);
}

/* Of the ranks that have noted the newest version of a key, the first may take it. */
static pgas_status_t judge(exchange_t *x)
{
    pgasi_newest_t all = { .n = 0 };
    bool noted = true;
    for (size_t i = 0; i < x->n_received && noted; i++)
        noted = note(&all, &x->received[i]);
    for (size_t i = 0; i < x->n_received && noted; i++)
        if (!take(&all, &x->received[i]))
            x->received[i].version = TAKEN;
    pgasi_newest_fini(&all);
    return pgasi_kvs_agree(x->team, noted ? PGAS_OK : PGAS_ERR_NO_MEMORY);
}

static pgas_status_t return_keys(exchange_t *x, pgasi_newest_t *newest)
{
    pgas_status_t status =
        pgas_alltoallv(x->team, x->received, x->received_bytes, x->sent, x->sent_bytes);
    rewind_next(x);
    for (uint64_t i = 0; i < newest->n_slots && status == PGAS_OK; i++)
        if (newest->slots[i].version != 0)
            newest->slots[i] = x->sent[x->next[judge_of(x, &newest->slots[i])]++];
    return status;
}

pgas_status_t pgasi_newest_share(pgasi_newest_t *newest, pgas_team_t *team, const int *ranks,
                                 int n_ranks)
{
    exchange_t x = { .team = team, .ranks = ranks, .n_ranks = n_ranks };
    if (pgas_team_size(team) == 1)
        return PGAS_OK;
    pgas_status_t status = exchange_sizes(&x, newest);
    if (status == PGAS_OK)
        status = send_keys(&x, newest);
    if (status == PGAS_OK)
        status = judge(&x);
    if (status == PGAS_OK)
        status = return_keys(&x, newest);
    free(x.sent_bytes);
    free(x.received_bytes);
    free(x.next);
    free(x.sent);
    free(x.received);
    return status;
}
