/* Blocks of teams in the symmetric heap.
 *   what:   Blocks of overlapping teams, of all ranks and of one rank have one offset on the ranks
 *           of their team and overlap no other block there. A request is refused only if no offset
 *           is free on all ranks of the team, and then on all of them. Equal heaps cost one
 *           allreduce, fragmented ones a bounded number. Only a team of the same ranks frees a
 *           block.
 *   np:     1 2 3 4 5 7
 *   nodes:  0 1 2 3
 *   env:    PGAS_HEAP_SIZE=256K | PGAS_HEAP_SIZE=256K PGAS_SERVICE_THREADS=0
 *   log:    does not fit: PGAS_HEAP_SIZE=
 *   log:    no live block of pgas_alloc
 *   log:    sizes must be the same
 *   log:    but of another block
 *   source: pgas/mem.h; seeded test against a map of the heap
 */
#include "base/checks.h"
#include "base/rng.h"
#include "mem/segment.h"
#include "t/spmd/job.h"

#define STEPS     900
#define N_SLOTS   12
#define GRAIN     64
#define MAP_WORDS 64 /* 256 KiB in grains */

enum { WORLD, PARITY, HALF, NODE, ALONE, N_KINDS };

typedef struct {
    pgas_gptr_t ptr;
    size_t bytes;
    unsigned char mark;
} block_t;

static pgas_team_t *team_of[N_KINDS];
static int color_of[N_KINDS];
static block_t blocks[N_KINDS][N_SLOTS]; /* ALONE: pgas_alloc_on of this rank */

static int make_teams(void)
{
    int colors[N_KINDS] = { 0, me % 2, me < n_ranks / 2, pgas_node(), me }, n_bad = 0;
    for (int k = PARITY; k < ALONE; k++)
        n_bad += pgas_team_split(NULL, colors[k], me, &team_of[k]) != PGAS_OK;
    memcpy(color_of, colors, sizeof colors);
    return n_bad;
}

static uint64_t first_grain(const block_t *b)
{
    return (pgas_gptr_offset(b->ptr) - PGASI_HEAP_OFFSET) / GRAIN;
}

static uint64_t n_grains(size_t bytes)
{
    return (bytes + GRAIN - 1) / GRAIN;
}

/* Sets the grains that are in use on this rank. @return the number of overlaps */
static int draw_map(uint64_t *map)
{
    int n_bad = 0;
    memset(map, 0, MAP_WORDS * sizeof *map);
    for (int i = 0; i < N_KINDS * N_SLOTS; i++) {
        const block_t *b = &blocks[i / N_SLOTS][i % N_SLOTS];
        for (uint64_t g = 0; b->ptr && g < n_grains(b->bytes); g++) {
            uint64_t at = first_grain(b) + g;
            n_bad += map[at / 64] >> at % 64 & 1;
            map[at / 64] |= UINT64_C(1) << at % 64;
        }
    }
    return n_bad;
}

/* Blocks of teams end below all blocks of one rank. */
static void close_top(uint64_t *map)
{
    uint64_t lowest = MAP_WORDS * 64;
    for (int i = 0; i < N_SLOTS; i++)
        if (blocks[ALONE][i].ptr)
            lowest = PGASI_MIN(lowest, first_grain(&blocks[ALONE][i]));
    for (uint64_t at = lowest; at < MAP_WORDS * 64; at++)
        map[at / 64] |= UINT64_C(1) << at % 64;
}

static bool has_room(const uint64_t *map, size_t bytes)
{
    uint64_t run = 0;
    for (uint64_t at = 0; at < MAP_WORDS * 64; at++) {
        run = map[at / 64] >> at % 64 & 1 ? 0 : run + 1;
        if (run == n_grains(bytes))
            return true;
    }
    return false;
}

static bool is_marked(const block_t *b)
{
    const unsigned char *at = pgas_gptr_local(b->ptr, b->bytes);
    for (size_t i = 0; i < b->bytes; i += b->bytes / 5 + 1)
        if (at[i] != b->mark)
            return false;
    return at[b->bytes - 1] == b->mark;
}

/* All ranks of the team have the same value. */
static bool is_common(pgas_team_t *team, uint64_t value)
{
    uint64_t least = 0, most = 0;
    return pgas_allreduce(team, &value, &least, 1, PGAS_U64, PGAS_MIN) == PGAS_OK &&
           pgas_allreduce(team, &value, &most, 1, PGAS_U64, PGAS_MAX) == PGAS_OK && least == most;
}

static int allocate(int kind, block_t *b, size_t bytes, int *n_full_p)
{
    pgas_team_t *team = team_of[kind];
    uint64_t map[MAP_WORDS], all[MAP_WORDS];
    int n_bad = draw_map(map);
    close_top(map);
    n_bad += pgas_allreduce(team, map, all, MAP_WORDS, PGAS_U64, PGAS_OR) != PGAS_OK;
    pgas_status_t status = pgas_team_alloc(team, bytes, &b->ptr);
    n_bad += !is_common(team, (uint64_t)(int64_t)status);
    n_bad += status != (has_room(all, bytes) ? PGAS_OK : PGAS_ERR_NO_MEMORY);
    if (status != PGAS_OK) {
        ++*n_full_p;
        b->ptr = PGAS_NULL;
        return n_bad;
    }
    b->bytes = bytes;
    n_bad += pgas_gptr_rank(b->ptr) != me || pgas_gptr_offset(b->ptr) % GRAIN;
    n_bad += !is_common(team, pgas_gptr_offset(b->ptr));
    memset(pgas_gptr_local(b->ptr, bytes), b->mark, bytes);
    return n_bad + draw_map(map);
}

/* Another team than the one that allocated, unless it has the same ranks. */
static int free_by_others(int kind, const block_t *b)
{
    int n_bad = 0;
    if (kind == WORLD && pgas_team_size(team_of[PARITY]) < n_ranks)
        n_bad += pgas_team_free(team_of[PARITY], b->ptr) != PGAS_ERR_INVALID;
    if (kind != WORLD && kind != ALONE && n_ranks == 1)
        n_bad += pgas_free(pgas_gptr_add(b->ptr, 1)) != PGAS_ERR_INVALID;
    return n_bad;
}

static int release(int kind, block_t *b, bool by_others)
{
    int n_bad = !is_marked(b);
    pgas_team_t *team = team_of[kind];
    if (by_others)
        n_bad += free_by_others(kind, b);
    /* by the pointer of some rank of the team */
    int other = pgas_team_to_global(team, pgas_team_size(team) / 2);
    n_bad += pgas_team_free(team, pgas_gptr_at(b->ptr, other)) != PGAS_OK;
    if (by_others)
        n_bad += pgas_team_free(team, b->ptr) != PGAS_ERR_INVALID;
    b->ptr = PGAS_NULL;
    return n_bad;
}

static int alone(block_t *b, size_t bytes)
{
    int n_bad = 0;
    if (b->ptr) {
        n_bad = !is_marked(b) || pgas_free_on(b->ptr) != PGAS_OK;
        b->ptr = PGAS_NULL;
    } else if (pgas_alloc_on(me, PGAS_ZONE_NONE, bytes, &b->ptr) == PGAS_OK) {
        b->bytes = bytes;
        memset(pgas_gptr_local(b->ptr, bytes), b->mark, bytes);
    }
    return n_bad;
}

/* All ranks draw the same numbers. Of the teams of a split, those of the drawn colour act, or
 * all. */
static void model(uint64_t seed)
{
    pgasi_rng_t common, own;
    int n_bad = 0, n_full = 0;
    pgasi_rng_seed(&common, seed);
    pgasi_rng_seed(&own, seed + 1 + (uint64_t)me);
    for (int i = 0; i < STEPS; i++) {
        int kind = (int)pgasi_rng_below(&common, N_KINDS),
            slot = (int)pgasi_rng_below(&common, N_SLOTS), color = (int)pgasi_rng_below(&common, 3);
        size_t most = pgasi_rng_below(&common, 8) ? 4000 : 90000;
        size_t bytes = 1 + (size_t)pgasi_rng_below(&common, most);
        /* rarely: each refusal is a line of the log on every rank */
        bool by_others = pgasi_rng_below(&common, 60) == 0;
        block_t *b = &blocks[kind][slot];
        bool acts = kind == WORLD || color == 2 || color == color_of[kind] % 2;
        if (!b->ptr)
            b->mark = (unsigned char)(pgasi_rng_u64(&own) | 1);
        if (kind == ALONE)
            n_bad += acts ? alone(b, 1 + (size_t)pgasi_rng_below(&own, most / 4)) : 0;
        else if (acts && b->ptr)
            n_bad += release(kind, b, by_others);
        else if (acts)
            n_bad += allocate(kind, b, bytes, &n_full);
    }
    spmd_is_int(n_bad, 0, "blocks of overlapping teams: one offset, apart, refused only if full");
    spmd_ok(n_full > 0, "and some were refused");
    block_t twin = blocks[WORLD][0];
    uint64_t map[MAP_WORDS];
    for (int k = 0; k < ALONE; k++) {
        for (int s = 0; s < N_SLOTS; s++) {
            if (!blocks[k][s].ptr)
                continue;
            twin = blocks[ALONE][0];
            blocks[ALONE][0] = blocks[k][s];
            n_bad += draw_map(map) == 0;
            blocks[ALONE][0] = twin;
        }
    }
    spmd_is_int(n_bad, 0, "an overlap is noticed");
    for (int k = 0; k < N_KINDS; k++)
        for (int s = 0; s < N_SLOTS; s++)
            if (blocks[k][s].ptr)
                n_bad += k == ALONE ? alone(&blocks[k][s], 0) : release(k, &blocks[k][s], false);
    pgas_heap_info_t info = { .size = sizeof info };
    n_bad += pgas_heap_info(&info) != PGAS_OK || info.symmetric_bytes || info.local_bytes;
    spmd_is_int(n_bad, 0, "all is free again");
}

static void one_vote(void)
{
    pgas_gptr_t ptr[10];
    uint32_t before = pgasi_symmetric_votes;
    int n_bad = 0;
    for (int i = 0; i < 10; i++)
        n_bad += pgas_alloc(100 + (size_t)i, &ptr[i]) != PGAS_OK;
    for (int i = 0; i < 10; i += 2)
        n_bad += pgas_free(ptr[i]) != PGAS_OK || pgas_alloc(50, &ptr[i]) != PGAS_OK;
    for (int i = 0; i < 10; i++)
        n_bad += pgas_free(ptr[i]) != PGAS_OK;
    spmd_ok(n_bad == 0 && pgasi_symmetric_votes - before == 30,
            "equal heaps: one allreduce for each call");
}

/* The holes of even ranks are where odd ranks have blocks. So each round of a search skips one
 * hole. */
static void combs(void)
{
    enum { TEETH = 200, TOOTH = 256 };
    pgas_gptr_t tooth[TEETH], block = PGAS_NULL, large = PGAS_NULL;
    int n_bad = 0;
    if (n_ranks == 1) {
        spmd_skip(3, "needs two ranks");
        return;
    }
    for (int i = 0; i < TEETH; i++)
        n_bad += pgas_team_alloc(team_of[PARITY], TOOTH, &tooth[i]) != PGAS_OK;
    for (int i = me % 2; i < TEETH; i += 2) {
        n_bad += pgas_team_free(team_of[PARITY], tooth[i]) != PGAS_OK;
        tooth[i] = PGAS_NULL;
    }
    uint32_t before = pgasi_symmetric_votes;
    n_bad += pgas_alloc(TOOTH, &block) != PGAS_OK;
    uint32_t votes = pgasi_symmetric_votes - before;
    spmd_ok(n_bad == 0 && votes <= 20, "a search in fragmented heaps is short: %u rounds", votes);
    /* now nothing is left behind all blocks, so all holes are visited in vain */
    size_t rest = 262144 - (pgas_gptr_offset(block) - PGASI_HEAP_OFFSET) - TOOTH;
    n_bad += pgas_alloc(rest, &large) != PGAS_OK;
    before = pgasi_symmetric_votes;
    pgas_gptr_t none = 7;
    pgas_status_t status = pgas_alloc(TOOTH, &none);
    votes = pgasi_symmetric_votes - before;
    spmd_ok(n_bad == 0 && status == PGAS_ERR_NO_MEMORY && none == 7 && votes <= TEETH + 5 &&
                is_common(NULL, (uint64_t)(int64_t)status),
            "and ends where there is no room: %u rounds", votes);
    for (int i = 0; i < TEETH; i++)
        n_bad += pgas_team_free(team_of[PARITY], tooth[i]) != PGAS_OK;
    n_bad += pgas_free(block) != PGAS_OK || pgas_free(large) != PGAS_OK;
    spmd_is_int(n_bad, 0, "all is free again");
}

static void refusals(void)
{
    pgas_team_t *twin = NULL;
    pgas_gptr_t block = PGAS_NULL, second = PGAS_NULL, none = 7;
    pgas_team_t *half = team_of[HALF];
    bool last = pgas_team_rank(half) == pgas_team_size(half) - 1,
         single = pgas_team_size(half) == 1;
    int n_bad = pgas_team_split(half, 0, -me, &twin) != PGAS_OK;
    n_bad += pgas_team_alloc(half, 100, &block) != PGAS_OK ||
             pgas_team_alloc(half, 100, &second) != PGAS_OK;
    n_bad += pgas_team_alloc(half, last && !single ? 8 : 9, &none) !=
             (single ? PGAS_OK : PGAS_ERR_MISMATCH);
    n_bad += single ? pgas_team_free(half, none) != PGAS_OK : none != 7;
    n_bad += pgas_team_alloc(half, 8, last ? NULL : &none) != PGAS_ERR_INVALID;
    n_bad += pgas_team_free(half, last && !single ? block : second) !=
             (single ? PGAS_OK : PGAS_ERR_MISMATCH);
    n_bad += pgas_team_free(half, pgas_gptr_add(block, 64)) != PGAS_ERR_INVALID;
    n_bad += pgas_free_on(block) != PGAS_ERR_INVALID;
    if (pgas_team_size(half) < n_ranks)
        n_bad += pgas_free(block) != PGAS_ERR_INVALID && pgas_free(block) != PGAS_ERR_MISMATCH;
    n_bad += pgas_team_free(twin, block) != PGAS_OK;
    n_bad += !single && pgas_team_free(twin, second) != PGAS_OK;
    n_bad += pgas_team_alloc(half, 0, &none) != PGAS_OK || none != PGAS_NULL ||
             pgas_team_free(half, PGAS_NULL) != PGAS_OK;
    spmd_is_int(n_bad, 0, "refusals; a team of the same ranks frees");
    pgas_team_destroy(twin);
}

int main(int argc, char **argv)
{
    job_begin(&argc, &argv, 10);
    spmd_is_int(make_teams(), 0, "teams");
    one_vote();
    model(spmd_seed(2601));
    combs();
    refusals();
    for (int k = PARITY; k < NODE; k++)
        pgas_team_destroy(team_of[k]);
    pgas_team_destroy(team_of[NODE]);
    return job_end();
}
