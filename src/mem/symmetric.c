/* Blocks at the same offset on all ranks of a team.
 *
 * The ranks' heaps may differ, because each rank is in teams of its own. So each rank reserves the
 * lowest place that is free in its heap, and one small allreduce compares the places. If all are
 * the same, the search ends. They are while only the team of all ranks allocates. Otherwise each
 * rank looks again from the highest of these places on. The places only grow, and no free place of
 * all ranks is skipped, so the search finds one if there is one. Each round ends at least one hole
 * of some rank's heap. To bound the rounds in fragmented heaps, a search that has not ended after
 * SEARCH_ROUNDS tries once the place behind all blocks of all ranks. It goes on only if that place
 * is beyond some heap's end.
 *
 * A block belongs to the set of its ranks: a team of the same ranks may free it. */
#include <inttypes.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "base/checks.h"
#include "base/hash.h"
#include "base/log.h"
#include "boot/boot.h"
#include "mem/rma_object.h"
#include "mem/segment.h"
#include "pgas/coll.h"
#include "pgas/mem.h"

#define SEARCH_ROUNDS 16

/* The blocks of teams that are not all ranks, by offset. */
typedef struct {
    uint64_t offset, team;
} owned_t;
static struct {
    pthread_mutex_t lock;
    owned_t *of;
    size_t n, room;
    size_t n_promised; /* entries that allocations under way will need */
} owned = { .lock = PTHREAD_MUTEX_INITIALIZER };

uint32_t pgasi_symmetric_votes;

/* ---- blocks and their teams ---- */

/* A number for the set of the team's ranks; 0: all ranks. */
static uint64_t ranks_of(const pgas_team_t *team)
{
    uint64_t sum = 0;
    int n = team ? pgas_team_size(team) : pgasi_boot.n_ranks;
    for (int i = 0; n < pgasi_boot.n_ranks && i < n; i++)
        sum += pgasi_hash_u64((uint64_t)pgas_team_to_global(team, i) + 1);
    return n < pgasi_boot.n_ranks ? sum | 1 : 0;
}

/* The first entry at or above an offset. The lock is held. */
static size_t find_owned(uint64_t offset)
{
    size_t low = 0, high = owned.n;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (owned.of[middle].offset < offset)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

static uint64_t owner_of(uint64_t offset)
{
    pthread_mutex_lock(&owned.lock);
    size_t at = find_owned(offset);
    uint64_t team = at < owned.n && owned.of[at].offset == offset ? owned.of[at].team : 0;
    pthread_mutex_unlock(&owned.lock);
    return team;
}

/* Makes room for one more block of a team, so that own cannot fail. */
static pgas_status_t promise_entry(void)
{
    pgas_status_t status = PGAS_OK;
    pthread_mutex_lock(&owned.lock);
    if (owned.n + owned.n_promised == owned.room) {
        size_t room = PGASI_MAX(2 * owned.room, 16);
        owned_t *of = realloc(owned.of, room * sizeof *of);
        if (of) {
            owned.of = of;
            owned.room = room;
        } else {
            status = PGAS_ERR_NO_MEMORY;
        }
    }
    owned.n_promised += status == PGAS_OK;
    pthread_mutex_unlock(&owned.lock);
    return status;
}

/* Ends a promise, and enters the block if there is one. */
static void own(bool has_block, uint64_t offset, uint64_t team)
{
    pthread_mutex_lock(&owned.lock);
    owned.n_promised--;
    if (has_block) {
        size_t at = find_owned(offset);
        memmove(&owned.of[at + 1], &owned.of[at], (owned.n - at) * sizeof *owned.of);
        owned.of[at] = (owned_t){ offset, team };
        owned.n++;
    }
    pthread_mutex_unlock(&owned.lock);
}

static void disown(uint64_t offset)
{
    pthread_mutex_lock(&owned.lock);
    size_t at = find_owned(offset);
    if (at < owned.n && owned.of[at].offset == offset) {
        owned.n--;
        memmove(&owned.of[at], &owned.of[at + 1], (owned.n - at) * sizeof *owned.of);
    }
    pthread_mutex_unlock(&owned.lock);
}

void pgasi_symmetric_stop(void)
{
    free(owned.of);
    owned.of = NULL;
    owned.n = owned.room = owned.n_promised = 0;
}

/* ---- agreement ---- */

/* The values that the ranks compare. */
typedef struct {
    uint64_t value, value_min; /* of bytes or a pointer: the greatest, and the least */
    uint64_t place, place_min; /* likewise of reserved places */
    uint64_t error;            /* the greatest negated status */
} ballot_t;

/* Replaces a rank's values by those of all. */
static pgas_status_t vote(pgas_team_t *team, ballot_t *b)
{
    ballot_t mine = *b;
    __atomic_add_fetch(&pgasi_symmetric_votes, 1, __ATOMIC_RELAXED);
    mine.value_min = ~b->value;
    mine.place_min = ~b->place;
    pgas_status_t status =
        pgas_allreduce(team, &mine, b, sizeof *b / sizeof(uint64_t), PGAS_U64, PGAS_MAX);
    b->value_min = ~b->value_min;
    b->place_min = ~b->place_min;
    return status;
}

/* The common status of a vote. */
static pgas_status_t outcome(const ballot_t *b)
{
    if (b->value != b->value_min)
        return PGAS_ERR_MISMATCH;
    return (pgas_status_t)(-(int64_t)b->error);
}

static bool is_first(const pgas_team_t *team)
{
    return pgas_team_rank(team) == 0;
}

/* ---- allocating ---- */

typedef struct {
    pgas_team_t *team;
    size_t bytes;
    uint64_t offset; /* of the reserved place */
    bool has_place;
    pgas_status_t status; /* of this rank alone */
} search_t;

static void drop_place(search_t *s)
{
    if (s->has_place)
        pgasi_heap_unreserve(s->offset);
    s->has_place = false;
}

/* Reserves the first place at or above `from`. */
static void look_from(search_t *s, uint64_t from)
{
    if (s->has_place && s->offset == from)
        return;
    drop_place(s);
    s->status = pgasi_heap_reserve(from, s->bytes, &s->offset);
    if (s->status == PGAS_ERR_NO_MEMORY) {
        pgasi_rma_blocks_trim();
        s->status = pgasi_heap_reserve(from, s->bytes, &s->offset);
    }
    s->has_place = s->status == PGAS_OK;
}

/* One round. @return the common status; *place_p: the highest place; *same_p: all have it */
static pgas_status_t compare(search_t *s, uint64_t *place_p, bool *same_p)
{
    ballot_t b = { .value = s->bytes,
                   .place = s->has_place ? s->offset : 0,
                   .error = (uint64_t)(-(int64_t)s->status) };
    pgas_status_t status = vote(s->team, &b);
    if (status != PGAS_OK)
        return status;
    status = outcome(&b);
    if (status == PGAS_ERR_MISMATCH && is_first(s->team))
        PGASI_ERROR("mem",
                    "pgas_alloc of %" PRIu64 " bytes on one rank, but of %" PRIu64
                    " on another: sizes must be the same",
                    b.value_min, b.value);
    *place_p = b.place;
    *same_p = b.place == b.place_min;
    return status;
}

/* Tries the place behind all blocks of all ranks. @return true: all ranks have it */
static bool try_top(search_t *s)
{
    uint64_t place = 0;
    bool same = false;
    look_from(s, pgasi_heap_top());
    pgas_status_t status = compare(s, &place, &same);
    if (status != PGAS_OK || same)
        return status == PGAS_OK;
    look_from(s, place);
    return compare(s, &place, &same) == PGAS_OK && same;
}

static pgas_status_t search(search_t *s)
{
    pgas_status_t status;
    uint64_t place = 0;
    bool same = false;
    if (s->status == PGAS_OK && s->bytes)
        look_from(s, 0);
    for (int round = 1; (status = compare(s, &place, &same)) == PGAS_OK && !same; round++) {
        if (round == SEARCH_ROUNDS && try_top(s))
            return PGAS_OK;
        look_from(s, place);
    }
    return status;
}

pgas_status_t pgas_team_alloc(pgas_team_t *team, size_t bytes, pgas_gptr_t *ptr_p)
{
    pgas_status_t status = pgasi_boot_enter(team);
    if (status != PGAS_OK)
        return status;
    search_t s = { .team = team, .bytes = bytes, .status = ptr_p ? PGAS_OK : PGAS_ERR_INVALID };
    uint64_t ranks = ranks_of(team);
    bool promised = ranks && bytes && s.status == PGAS_OK;
    if (promised)
        s.status = promise_entry();
    promised = promised && s.status == PGAS_OK;
    status = search(&s);
    if (promised)
        own(status == PGAS_OK, s.offset, ranks);
    if (status == PGAS_ERR_NO_MEMORY && s.status == PGAS_ERR_NO_MEMORY)
        pgasi_heap_report(team ? "pgas_team_alloc" : "pgas_alloc", bytes);
    if (status != PGAS_OK) {
        drop_place(&s);
        return status;
    }
    *ptr_p = bytes ? pgas_gptr_make(pgasi_boot.rank, PGASI_HEAP_OFFSET + s.offset) : PGAS_NULL;
    return PGAS_OK;
}

/* ---- freeing ---- */

pgas_status_t pgas_team_free(pgas_team_t *team, pgas_gptr_t ptr)
{
    pgas_status_t status = pgasi_boot_enter(team);
    if (status != PGAS_OK)
        return status;
    uint64_t whole = pgas_gptr_offset(ptr), offset = whole - PGASI_HEAP_OFFSET;
    bool good = !ptr || (whole >= PGASI_HEAP_OFFSET && pgasi_heap_is_reserved(offset) &&
                         owner_of(offset) == ranks_of(team));
    ballot_t b = { .value = whole, .error = good ? 0 : (uint64_t)-PGAS_ERR_INVALID };
    status = vote(team, &b);
    if (status != PGAS_OK)
        return status;
    status = outcome(&b);
    if (status == PGAS_ERR_MISMATCH && is_first(team))
        PGASI_ERROR("mem",
                    "pgas_free of offset %#" PRIx64 " on one rank, but of another block, %#" PRIx64
                    ", on another rank",
                    b.value_min, b.value);
    if (status == PGAS_ERR_INVALID && !good)
        PGASI_ERROR("mem",
                    "pgas_free of %#" PRIx64
                    ": no live block of pgas_alloc for these ranks (freed twice?)",
                    ptr);
    if (status == PGAS_OK && ptr) {
        disown(offset);
        pgasi_heap_unreserve(offset);
    }
    return status;
}
