/* what:    Every collective gives the result of a plain loop over all ranks' data: all types and
 *          operations, sizes from 0 to 1 MiB, all kinds of roots, teams in any order. Every rank
 *          gets the same bits.
 * np:      1 2 3 4 5 7
 * nodes:   0 2 3 1
 * source: a seeded model: each rank can compute the contributions of all ranks, so checks need no
 * communication */
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/hash.h"
#include "base/rng.h"
#include "boot/internal.h"
#include "boot/hooks.h"
#include "pgas/coll.h"
#include "pgas/init.h"
#include "t/spmd.h"

#define MAX_BYTES   ((size_t)1 << 20)
#define GUARD_BYTES 64
#define PATTERN     0xa5
#define N_TYPES     10
#define N_OPS       7

typedef struct {
    pgas_team_t *team;
    const char *name;
    uint64_t key; /* the same on all members */
    bool absent;  /* this rank is no member */
} side_t;

static uint64_t seed;
static unsigned char *src, *dst, *want, *spare;

/* ---- the model ---- */

static size_t bytes_of(int type)
{
    static const size_t bytes[] = { 0, 1, 2, 4, 8, 1, 2, 4, 8, 4, 8 };
    return bytes[type];
}

static bool is_float(int type)
{
    return type == PGAS_F32 || type == PGAS_F64;
}

static bool is_bitwise(int op)
{
    return op == PGAS_AND || op == PGAS_OR || op == PGAS_XOR;
}

/* The contribution of member `who` to the operation `key`. With these floats no order of combining
 * rounds. */
static void fill(unsigned char *at, size_t n, int type, int op, uint64_t key, int who)
{
    static const double factors[4] = { 1, -1, 2, 0.5 };
    size_t bytes = bytes_of(type);
    for (size_t i = 0; i < n; i++) {
        uint64_t random = pgasi_hash_combine(pgasi_hash_combine(key, (uint64_t)who), i);
        double real = op == PGAS_PROD ? factors[random % 4] : (double)(random % 1000) - 500;
        float small = (float)real;
        if (type == PGAS_F64)
            memcpy(at + i * bytes, &real, bytes);
        else if (type == PGAS_F32)
            memcpy(at + i * bytes, &small, bytes);
        else
            memcpy(at + i * bytes, &random, bytes);
    }
}

static uint64_t wrap(uint64_t a, uint64_t b, int op)
{
    switch (op) {
    case PGAS_ADD:
        return a + b;
    case PGAS_PROD:
        return a * b;
    case PGAS_AND:
        return a & b;
    case PGAS_OR:
        return a | b;
    default:
        return a ^ b;
    }
}

static bool picks_second(int op, bool second_is_less)
{
    return op == PGAS_MIN ? second_is_less : !second_is_less;
}

/* One element, as slow and plain as it gets. */
static void combine_one(unsigned char *a_at, const unsigned char *b_at, int type, int op)
{
    int64_t a = 0, b = 0;
    double x, y;
    float f, g;
    size_t bytes = bytes_of(type);
    if (is_float(type)) {
        memcpy(&f, a_at, sizeof f);
        memcpy(&g, b_at, sizeof g);
        x = f;
        y = g;
        if (type == PGAS_F64) {
            memcpy(&x, a_at, sizeof x);
            memcpy(&y, b_at, sizeof y);
        }
        double z = picks_second(op, y < x) ? y : x;
        if (op == PGAS_ADD)
            z = x + y;
        else if (op == PGAS_PROD)
            z = x * y;
        f = (float)z;
        memcpy(a_at, type == PGAS_F64 ? (void *)&z : (void *)&f, bytes);
        return;
    }
    memcpy(&a, a_at, bytes);
    memcpy(&b, b_at, bytes);
    if (op == PGAS_MIN || op == PGAS_MAX) {
        int shift = 64 - 8 * (int)bytes;
        bool less = (uint64_t)b < (uint64_t)a;
        if (type >= PGAS_I8 && type <= PGAS_I64)
            less = (int64_t)((uint64_t)b << shift) < (int64_t)((uint64_t)a << shift);
        a = picks_second(op, less) ? b : a;
    } else {
        a = (int64_t)wrap((uint64_t)a, (uint64_t)b, op);
    }
    memcpy(a_at, &a, bytes);
}

/* The combination of members begin .. end-1 into want; end > begin. */
static void model(int begin, int end, size_t n, int type, int op, uint64_t key)
{
    size_t bytes = bytes_of(type);
    fill(want, n, type, op, key, begin);
    for (int who = begin + 1; who < end; who++) {
        fill(spare, n, type, op, key, who);
        for (size_t i = 0; i < n; i++)
            combine_one(want + i * bytes, spare + i * bytes, type, op);
    }
}

/* The neutral element: combined with any value it gives that value. */
static bool is_neutral(const unsigned char *at, size_t n, int type, int op, uint64_t key)
{
    size_t bytes = bytes_of(type);
    fill(spare, n, type, op, key, 12345);
    memcpy(want, spare, n * bytes);
    for (size_t i = 0; i < n; i++)
        combine_one(spare + i * bytes, at + i * bytes, type, op);
    return memcmp(spare, want, n * bytes) == 0;
}

/* ---- buffers ---- */

static void clear(size_t bytes)
{
    memset(dst, PATTERN, bytes + GUARD_BYTES);
}

static bool untouched(const unsigned char *at, size_t bytes)
{
    for (size_t i = 0; i < bytes; i++)
        if (at[i] != PATTERN)
            return false;
    return true;
}

/* @return whether the bytes are the expected ones, and no byte after them was written */
static bool is_want(const unsigned char *got, size_t bytes)
{
    return memcmp(got, want, bytes) == 0 && (got != dst || untouched(dst + bytes, GUARD_BYTES));
}

/* A size: often small or at the limits of the board's slots (56 bytes, 8 KiB), sometimes large. */
static size_t choose_bytes(pgasi_rng_t *rng, size_t limit)
{
    static const size_t borders[] = { 0,    1,    8,    55,    56,    57,    64,
                                      8191, 8192, 8193, 16384, 65536, 262145 };
    uint64_t kind = pgasi_rng_below(rng, 16);
    size_t bytes;
    if (kind == 0)
        bytes = pgasi_rng_below(rng, MAX_BYTES + 1);
    else if (kind < 4)
        bytes = pgasi_rng_below(rng, 40000);
    else if (kind < 8)
        bytes = pgasi_rng_below(rng, 300);
    else
        bytes = borders[pgasi_rng_below(rng, sizeof borders / sizeof borders[0])];
    return bytes < limit ? bytes : limit;
}

/* ---- one operation each ---- */

typedef struct {
    pgas_team_t *team;
    int me, n, root;
    uint64_t key;
    size_t bytes; /* of a block */
    int type, op;
    size_t n_elems;
    bool in_place;
} case_t;

static case_t draw(const side_t *side, int number)
{
    pgasi_rng_t rng;
    case_t c = {
        side->team, pgas_team_rank(side->team), pgas_team_size(side->team), 0, 0, 0, 0, 0, 0, false
    };
    c.key = pgasi_hash_combine(pgasi_hash_combine(seed, side->key), (uint64_t)number);
    pgasi_rng_seed(&rng, c.key);
    c.root = (int)pgasi_rng_below(&rng, (uint64_t)c.n);
    c.bytes = choose_bytes(&rng, MAX_BYTES / (size_t)c.n);
    do {
        c.type = PGAS_U8 + (int)pgasi_rng_below(&rng, N_TYPES);
        c.op = PGAS_ADD * (1 + (int)pgasi_rng_below(&rng, N_OPS));
    } while (is_float(c.type) && is_bitwise(c.op));
    c.n_elems = choose_bytes(&rng, MAX_BYTES) / bytes_of(c.type);
    c.in_place = pgasi_rng_below(&rng, 4) == 0;
    return c;
}

static size_t choose_elems(const case_t *c, size_t elem_bytes)
{
    return c->n_elems * bytes_of(c->type) / elem_bytes;
}

static bool one_broadcast(const case_t *c)
{
    fill(want, c->bytes / 8 + 1, PGAS_U64, 0, c->key, c->root);
    clear(c->bytes);
    if (c->me == c->root)
        memcpy(dst, want, c->bytes);
    return pgas_broadcast(c->team, dst, c->bytes, c->root) == PGAS_OK && is_want(dst, c->bytes);
}

/* Which buffer gets the result. */
static unsigned char *target(const case_t *c)
{
    fill(src, c->n_elems, c->type, c->op, c->key, c->me);
    clear(c->n_elems * bytes_of(c->type));
    return c->in_place ? src : dst;
}

static bool one_allreduce(const case_t *c)
{
    unsigned char *out = target(c);
    if (pgas_allreduce(c->team, src, out, c->n_elems, (pgas_type_t)c->type, (pgas_op_t)c->op) !=
        PGAS_OK)
        return false;
    model(0, c->n, c->n_elems, c->type, c->op, c->key);
    return is_want(out, c->n_elems * bytes_of(c->type));
}

static bool one_reduce(const case_t *c)
{
    size_t bytes = c->n_elems * bytes_of(c->type);
    fill(dst, c->n_elems, c->type, c->op, c->key, c->me);
    memset(dst + bytes, PATTERN, GUARD_BYTES);
    if (pgas_reduce(c->team, dst, c->n_elems, (pgas_type_t)c->type, (pgas_op_t)c->op, c->root) !=
        PGAS_OK)
        return false;
    if (c->me == c->root)
        model(0, c->n, c->n_elems, c->type, c->op, c->key);
    else
        fill(want, c->n_elems, c->type, c->op, c->key, c->me);
    return is_want(dst, bytes);
}

static bool one_scan(const case_t *c)
{
    unsigned char *out = target(c);
    if (pgas_scan(c->team, src, out, c->n_elems, (pgas_type_t)c->type, (pgas_op_t)c->op) != PGAS_OK)
        return false;
    model(0, c->me + 1, c->n_elems, c->type, c->op, c->key);
    return is_want(out, c->n_elems * bytes_of(c->type));
}

static bool one_exscan(const case_t *c)
{
    unsigned char *out = target(c);
    if (pgas_exscan(c->team, src, out, c->n_elems, (pgas_type_t)c->type, (pgas_op_t)c->op) !=
        PGAS_OK)
        return false;
    if (c->me == 0)
        return is_neutral(out, c->n_elems, c->type, c->op, c->key);
    model(0, c->me, c->n_elems, c->type, c->op, c->key);
    return is_want(out, c->n_elems * bytes_of(c->type));
}

/* ---- operators of the program ---- */

/* x -> a x + b, one after another: the order of ranks matters. The second operator has the greatest
 * contributions that reductions take. */
typedef struct {
    uint64_t a, b;
} affine_t;
typedef struct {
    affine_t affine;
    uint64_t more[510];
} large_t;
static pgas_op_t op_affine, op_large;

static void combine_affine(void *to, const void *from)
{
    affine_t *f = to;
    const affine_t *g = from;
    *f = (affine_t){ f->a * g->a, f->b * g->a + g->b };
}

static void combine_large(void *to, const void *from)
{
    large_t *f = to;
    const large_t *g = from;
    combine_affine(&f->affine, &g->affine);
    for (size_t i = 0; i < sizeof f->more / sizeof f->more[0]; i++)
        f->more[i] ^= g->more[i];
}

static void register_operators(void)
{
    static const large_t neutral = { { 1, 0 }, { 0 } };
    pgas_op_def_t affine = { sizeof(affine_t), 0, &neutral, combine_affine, NULL },
                  large = { sizeof(large_t), 0, &neutral, combine_large, NULL };
    spmd_ok(pgas_op_register("t.affine", &affine, &op_affine) == PGAS_OK &&
                pgas_op_register("t.large", &large, &op_large) == PGAS_OK,
            "operators are registered");
}

/* The combination of members begin .. end-1 into want, or the neutral elements. */
static void model_own(const case_t *c, size_t n, pgas_op_t op, int begin, int end)
{
    size_t words = op == op_affine ? 2 : 512;
    for (size_t i = 0; i < n * words; i++)
        ((uint64_t *)(void *)want)[i] = i % words == 0;
    for (int who = begin; who < end; who++) {
        fill(spare, n * words, PGAS_U64, 0, c->key, who);
        for (size_t i = 0; i < n; i++)
            if (op == op_affine)
                combine_affine(want + i * words * 8, spare + i * words * 8);
            else
                combine_large(want + i * words * 8, spare + i * words * 8);
    }
}

static bool one_own(const case_t *c)
{
    bool is_large = c->key % 3 == 0;
    pgas_op_t op = is_large ? op_large : op_affine;
    size_t elem = is_large ? sizeof(large_t) : sizeof(affine_t), n = choose_elems(c, elem);
    void *out = c->in_place ? src : dst;
    int kind = (int)(c->key / 3 % 4), begin = 0, end = c->n;
    pgas_status_t status;
    fill(src, n * elem / 8, PGAS_U64, 0, c->key, c->me);
    clear(n * elem);
    if (kind == 0) {
        status = pgas_allreduce(c->team, src, out, n, PGAS_TYPE_NONE, op);
    } else if (kind == 1) {
        out = src;
        status = pgas_reduce(c->team, src, n, PGAS_TYPE_NONE, op, c->root);
        begin = c->me == c->root ? 0 : c->me;
        end = c->me == c->root ? c->n : c->me + 1;
    } else {
        bool inclusive = kind == 2;
        end = c->me + inclusive;
        status = inclusive ? pgas_scan(c->team, src, out, n, PGAS_TYPE_NONE, op)
                           : pgas_exscan(c->team, src, out, n, PGAS_TYPE_NONE, op);
    }
    if (status != PGAS_OK)
        return false;
    model_own(c, n, op, begin, end);
    return is_want(out, n * elem);
}

/* ---- blocks ---- */

/* Block r of a buffer holds the bytes of member r for member `to`. */
static void fill_block(unsigned char *at, const case_t *c, int who, int to)
{
    fill(spare, c->bytes / 8 + 1, PGAS_U64, 0, c->key + (uint64_t)to, who);
    memcpy(at, spare, c->bytes);
}

static void want_blocks(const case_t *c, int to)
{
    for (int r = 0; r < c->n; r++)
        fill_block(want + (size_t)r * c->bytes, c, r, to);
}

static bool one_gather(const case_t *c)
{
    bool at_root = c->me == c->root;
    fill_block(src, c, c->me, 0);
    clear((size_t)c->n * c->bytes);
    if (pgas_gather(c->team, src, at_root || c->key % 2 ? dst : NULL, c->bytes, c->root) != PGAS_OK)
        return false;
    want_blocks(c, 0);
    return at_root ? is_want(dst, (size_t)c->n * c->bytes)
                   : untouched(dst, (size_t)c->n * c->bytes + GUARD_BYTES);
}

static bool one_allgather(const case_t *c)
{
    fill_block(src, c, c->me, 0);
    clear((size_t)c->n * c->bytes);
    if (pgas_allgather(c->team, src, dst, c->bytes) != PGAS_OK)
        return false;
    want_blocks(c, 0);
    return is_want(dst, (size_t)c->n * c->bytes);
}

static bool one_alltoall(const case_t *c)
{
    for (int to = 0; to < c->n; to++)
        fill_block(src + (size_t)to * c->bytes, c, c->me, to);
    clear((size_t)c->n * c->bytes);
    if (pgas_alltoall(c->team, src, dst, c->bytes) != PGAS_OK)
        return false;
    want_blocks(c, c->me);
    return is_want(dst, (size_t)c->n * c->bytes);
}

/* ---- blocks of any sizes ---- */

/* The size of the block from `who` for `to`; every third one is empty. */
static size_t block_of(const case_t *c, int who, int to)
{
    uint64_t random = pgasi_hash_combine(c->key, (uint64_t)who * 1000 + (uint64_t)to);
    return random % 3 == 0 ? 0 : random % (c->bytes + 1);
}

static void fill_exactly(unsigned char *at, const case_t *c, int who, int to, size_t bytes)
{
    fill(spare, bytes / 8 + 1, PGAS_U64, 0, c->key + (uint64_t)to, who);
    memcpy(at, spare, bytes);
}

/* What this rank gets from all; the sizes in bytes_of. @return their sum */
static size_t want_any_blocks(const case_t *c, int to, bool by_target, size_t *bytes_of)
{
    size_t sum = 0;
    for (int r = 0; r < c->n; r++) {
        bytes_of[r] = block_of(c, r, by_target ? to : 0);
        fill_exactly(want + sum, c, r, by_target ? to : 0, bytes_of[r]);
        sum += bytes_of[r];
    }
    return sum;
}

static bool one_gatherv(const case_t *c)
{
    bool at_root = c->me == c->root;
    size_t bytes_of[16], mine = block_of(c, c->me, 0);
    fill_exactly(src, c, c->me, 0, mine);
    size_t sum = want_any_blocks(c, 0, false, bytes_of);
    clear(sum);
    return pgas_gatherv(c->team, mine > 0 ? src : NULL, mine, at_root ? dst : NULL,
                        at_root ? bytes_of : NULL, c->root) == PGAS_OK &&
           (at_root ? is_want(dst, sum) : untouched(dst, sum + GUARD_BYTES));
}

static bool one_allgatherv(const case_t *c)
{
    size_t bytes_of[16], mine = block_of(c, c->me, 0);
    fill_exactly(src, c, c->me, 0, mine);
    size_t sum = want_any_blocks(c, 0, false, bytes_of);
    clear(sum);
    return pgas_allgatherv(c->team, src, mine, dst, bytes_of) == PGAS_OK && is_want(dst, sum);
}

static size_t fill_any_blocks(const case_t *c, size_t *bytes_of)
{
    size_t sum = 0;
    for (int r = 0; r < c->n; r++) {
        bytes_of[r] = block_of(c, c->me, r);
        fill_exactly(src + sum, c, c->me, r, bytes_of[r]);
        sum += bytes_of[r];
    }
    return sum;
}

static bool one_alltoallv(const case_t *c)
{
    size_t in[16], out[16], sum = want_any_blocks(c, c->me, true, in);
    fill_any_blocks(c, out);
    clear(sum);
    return pgas_alltoallv(c->team, src, out, dst, in) == PGAS_OK && is_want(dst, sum);
}

/* ---- those that proceed meanwhile ---- */

static void note_end(void *arg, pgas_status_t status)
{
    *(int *)arg = (int)status;
}

/* Whether it was accepted, and ends without an error. */
static bool ends(pgas_status_t accepted, const int *result)
{
    pgasi_wait_t w = PGASI_WAIT_INIT;
    while (accepted == PGAS_OK && *result == PGAS_INPROGRESS) {
        pgasi_coll_progress();
        pgasi_wait_step(&w);
    }
    pgasi_wait_end(&w);
    return accepted == PGAS_OK && *result == PGAS_OK;
}

static bool one_broadcast_nb(const case_t *c)
{
    int result = PGAS_INPROGRESS;
    fill(want, c->bytes / 8 + 1, PGAS_U64, 0, c->key, c->root);
    clear(c->bytes);
    if (c->me == c->root)
        memcpy(dst, want, c->bytes);
    return ends(pgasi_broadcast_start(c->team, dst, c->bytes, c->root,
                                      (pgasi_coll_end_t){ note_end, &result }),
                &result) &&
           is_want(dst, c->bytes);
}

static bool one_allreduce_nb(const case_t *c)
{
    int result = PGAS_INPROGRESS;
    size_t bytes = c->n_elems * bytes_of(c->type);
    fill(dst, c->n_elems, c->type, c->op, c->key, c->me);
    memset(dst + bytes, PATTERN, GUARD_BYTES);
    if (!ends(pgasi_allreduce_start(c->team, dst, c->n_elems, (pgas_type_t)c->type,
                                    (pgas_op_t)c->op, (pgasi_coll_end_t){ note_end, &result }),
              &result))
        return false;
    model(0, c->n, c->n_elems, c->type, c->op, c->key);
    return is_want(dst, bytes);
}

static bool one_own_nb(const case_t *c)
{
    int result = PGAS_INPROGRESS;
    bool is_large = c->key % 3 == 0;
    pgas_op_t op = is_large ? op_large : op_affine;
    size_t elem = is_large ? sizeof(large_t) : sizeof(affine_t), n = choose_elems(c, elem);
    fill(dst, n * elem / 8, PGAS_U64, 0, c->key, c->me);
    memset(dst + n * elem, PATTERN, GUARD_BYTES);
    if (!ends(pgasi_allreduce_start(c->team, dst, n, PGAS_TYPE_NONE, op,
                                    (pgasi_coll_end_t){ note_end, &result }),
              &result))
        return false;
    model_own(c, n, op, 0, c->n);
    return is_want(dst, n * elem);
}

static bool one_alltoallv_nb(const case_t *c)
{
    int result = PGAS_INPROGRESS;
    size_t in[16], out[16], sum = want_any_blocks(c, c->me, true, in);
    fill_any_blocks(c, out);
    clear(sum);
    return ends(pgasi_alltoallv_start(c->team, src, out, dst, in,
                                      (pgasi_coll_end_t){ note_end, &result }),
                &result) &&
           is_want(dst, sum);
}

/* Several at a time, and blocking ones between them: they are told apart. */
static bool one_mix_nb(const case_t *c)
{
    int result[5];
    pgasi_coll_end_t end[5];
    uint64_t sums[2] = { (uint64_t)c->me + 1, 7 }, root = (uint64_t)c->me, all = 0,
             n = (uint64_t)c->n;
    for (int i = 0; i < 5; i++) {
        result[i] = PGAS_INPROGRESS;
        end[i] = (pgasi_coll_end_t){ note_end, &result[i] };
    }
    bool good =
        pgasi_allreduce_start(c->team, &sums[0], 1, PGAS_U64, PGAS_ADD, end[0]) == PGAS_OK &&
        pgasi_barrier_start(c->team, end[1]) == PGAS_OK &&
        pgasi_broadcast_start(c->team, &root, sizeof root, c->root, end[2]) == PGAS_OK &&
        pgas_allreduce(c->team, &n, &all, 1, PGAS_U64, PGAS_ADD) == PGAS_OK && all == n * n &&
        pgasi_allreduce_start(c->team, &sums[1], 1, PGAS_U64, PGAS_ADD, end[3]) == PGAS_OK &&
        pgasi_barrier_start(c->team, end[4]) == PGAS_OK && pgas_barrier(c->team) == PGAS_OK;
    for (int i = 4; i >= 0; i--)
        good = ends(good ? PGAS_OK : PGAS_ERR_INVALID, &result[i]) && good;
    return good && sums[0] == n * (n + 1) / 2 && sums[1] == 7 * n && root == (uint64_t)c->root;
}

static bool one_barrier(const case_t *c)
{
    return pgas_barrier(c->team) == PGAS_OK;
}

typedef bool (*one_fn_t)(const case_t *c);
static const struct {
    const char *name;
    one_fn_t run;
} kinds[] = { { "broadcast", one_broadcast },
              { "allreduce", one_allreduce },
              { "reduce", one_reduce },
              { "scan", one_scan },
              { "exscan", one_exscan },
              { "operators of the program", one_own },
              { "gather", one_gather },
              { "allgather", one_allgather },
              { "alltoall", one_alltoall },
              { "barrier", one_barrier },
              { "gatherv", one_gatherv },
              { "allgatherv", one_allgatherv },
              { "alltoallv", one_alltoallv },
              { "broadcast_nb", one_broadcast_nb },
              { "allreduce_nb", one_allreduce_nb },
              { "alltoallv_nb", one_alltoallv_nb },
              { "operators of the program, _nb", one_own_nb },
              { "several at a time", one_mix_nb } };
#define N_KINDS ((int)(sizeof kinds / sizeof kinds[0]))

/* ---- promises ---- */

static void explain(const side_t *side, const char *kind, const case_t *c)
{
    printf("# rank %d: %s over %s (member %d of %d) is wrong: root %d, %zu bytes, %zu elements, "
           "type %d, op %d%s\n",
           pgasi_boot.rank, kind, side->name, c->me, c->n, c->root, c->bytes, c->n_elems, c->type,
           c->op, c->in_place ? ", in place" : "");
}

/* Runs a case, and prints the first fault. It continues after a fault, because other ranks may have
 * found none. */
static void run(const side_t *side, const char *name, one_fn_t fn, const case_t *c, bool *good_io)
{
    if (!fn(c) && *good_io) {
        explain(side, name, c);
        *good_io = false;
    }
}

static bool many(const side_t *side, int kind, int n_cases)
{
    bool good = true;
    for (int i = 0; !side->absent && i < n_cases; i++) {
        case_t c = draw(side, kind * 1000 + i);
        run(side, kinds[kind].name, kinds[kind].run, &c, &good);
    }
    return good;
}

static void each_alone(const side_t *side)
{
    for (int kind = 0; kind < N_KINDS; kind++)
        spmd_ok(many(side, kind, 12), "%s over %s equals the model", kinds[kind].name, side->name);
}

/* No barrier between them: a slot of the board that is reused too early shows here. */
static void all_mixed(const side_t *side)
{
    bool good = true;
    pgasi_rng_t rng;
    pgasi_rng_seed(&rng, seed ^ side->key);
    for (int i = 0; !side->absent && i < 150; i++) {
        int kind = (int)pgasi_rng_below(&rng, N_KINDS);
        case_t c = draw(side, 10000 + i);
        c.bytes %= 300;
        c.n_elems %= 40;
        run(side, kinds[kind].name, kinds[kind].run, &c, &good);
    }
    spmd_ok(good, "collectives of all kinds one after another over %s", side->name);
}

static void every_type_and_operation(const side_t *side)
{
    bool good = true;
    for (int type = PGAS_U8; type <= PGAS_F64; type++) {
        for (int op = PGAS_ADD; op <= PGAS_PROD; op += PGAS_ADD) {
            if (is_float(type) && is_bitwise(op))
                continue;
            case_t c = draw(side, 20000 + type * 256 + op);
            c.type = type;
            c.op = op;
            c.n_elems = c.n_elems % 2000;
            run(side, "allreduce", one_allreduce, &c, &good);
            run(side, "reduce", one_reduce, &c, &good);
            run(side, "scan", one_scan, &c, &good);
            run(side, "exscan", one_exscan, &c, &good);
        }
    }
    spmd_ok(good, "all types and operations over %s", side->name);
}

/* Sums of doubles that do round: which order does not matter here, that it is one order does. */
static void same_bits(const side_t *side, size_t n)
{
    double *mine = (double *)(void *)src, *sum = (double *)(void *)dst;
    pgasi_rng_t rng;
    int size = pgas_team_size(side->team);
    uint64_t *hashes = calloc((size_t)size, sizeof *hashes), hash;
    pgasi_rng_seed(&rng, seed + (uint64_t)pgasi_boot.rank);
    for (size_t i = 0; i < n; i++)
        mine[i] = pgasi_rng_double(&rng) - 0.5;
    bool good = pgas_allreduce(side->team, mine, sum, n, PGAS_F64, PGAS_ADD) == PGAS_OK;
    hash = pgasi_hash_bytes(sum, n * sizeof *sum, 0);
    good = good && pgas_allgather(side->team, &hash, hashes, sizeof hash) == PGAS_OK;
    for (int i = 0; good && i < size; i++)
        good = hashes[i] == hash;
    free(hashes);
    spmd_ok(good, "the sum of %zu doubles over %s has the same bits everywhere", n, side->name);
}

/* ---- the way of reductions ---- */

/* What MPI is asked to do, by MPI's profiling interface: calls, and bytes that this rank gives. */
static size_t n_alltoall, n_allgather, allgather_bytes;

int MPI_Ialltoall(const void *from, int n_from, MPI_Datatype from_type, void *to, int n_to,
                  MPI_Datatype to_type, MPI_Comm comm, MPI_Request *request)
{
    n_alltoall++;
    return PMPI_Ialltoall(from, n_from, from_type, to, n_to, to_type, comm, request);
}

int MPI_Iallgather(const void *from, int n_from, MPI_Datatype from_type, void *to, int n_to,
                   MPI_Datatype to_type, MPI_Comm comm, MPI_Request *request)
{
    n_allgather++;
    allgather_bytes += (size_t)n_from;
    return PMPI_Iallgather(from, n_from, from_type, to, n_to, to_type, comm, request);
}

/* Small: each leader gets all. Large: each combines one share, and gives that alone to all. In
 * chunks, of which the last may be small. Ranks that do not lead ask MPI for nothing. */
static bool goes_by(const side_t *side, size_t n)
{
    pgas_team_t *team = side->team != NULL ? side->team : pgasi_team_world();
    size_t n_nodes = (size_t)team->n_nodes, piece = PGASI_TEAM_CHUNK / sizeof(double), n_shared = 0,
           n_given = 0, n_chunks = 0;
    for (size_t done = 0; n_nodes > 1 && team->board.me == 0 && done < n;
         done += piece, n_chunks++) {
        size_t here = n - done < piece ? n - done : piece;
        bool large = here * sizeof(double) * n_nodes > (64 << 10);
        n_shared += large;
        n_given += large ? (here + n_nodes - 1) / n_nodes : here;
    }
    n_alltoall = n_allgather = allgather_bytes = 0;
    memset(src, 0, n * sizeof(double));
    return pgas_allreduce(team, src, dst, n, PGAS_F64, PGAS_ADD) == PGAS_OK &&
           n_alltoall == n_shared && n_allgather == n_chunks &&
           allgather_bytes == n_given * sizeof(double);
}

static void ways(const side_t *side)
{
    spmd_ok(goes_by(side, 1) && goes_by(side, 500), "small reductions over %s: all to all leaders",
            side->name);
    spmd_ok(goes_by(side, 60000) && goes_by(side, 100000), "large ones: a share for each leader");
}

/* What happens to 2 GiB and more, at another scale: all that MPI carries goes in pieces. */
static void by_pieces(side_t *side)
{
    size_t before = pgasi_between_piece_bytes;
    pgasi_between_piece_bytes = 1000;
    side->key += 7;
    bool good = true;
    for (int kind = 0; kind < N_KINDS; kind++)
        good = many(side, kind, 3) && good;
    pgasi_between_piece_bytes = before;
    spmd_ok(good, "data too long for MPI's counts is sent in pieces over %s", side->name);
}

/* Both ways of large data on one node: through each other's buffers from the first byte, and never
 * so, as where process_vm_readv is forbidden. */
static void with_and_without_direct(side_t *side)
{
    size_t before = pgasi_direct_least;
    pgas_team_t *team = side->team ? side->team : pgasi_team_world();
    const pid_t *pids = team ? team->board.pids : NULL;
    bool good = true;
    side->key += 13;
    pgasi_direct_least = 1;
    for (int kind = 0; kind < N_KINDS; kind++)
        good = many(side, kind, 3) && good;
    pgasi_direct_least = before;
    spmd_ok(good, "members read each other's buffers for data of any size, %s", side->name);
    good = true;
    if (!side->absent)
        team->board.pids = NULL;
    for (int kind = 0; kind < N_KINDS; kind++)
        good = many(side, kind, 3) && good;
    if (!side->absent)
        team->board.pids = pids;
    spmd_ok(good, "they never do so, %s", side->name);
}

static void refusals(void)
{
    int32_t x = 1, y = 7;
    int n = pgas_team_size(NULL);
    spmd_ok(pgas_allreduce(NULL, &x, &y, 1, PGAS_F32, PGAS_AND) == PGAS_ERR_UNSUPPORTED &&
                pgas_reduce(NULL, &x, 1, PGAS_F64, PGAS_XOR, 0) == PGAS_ERR_UNSUPPORTED &&
                pgas_exscan(NULL, &x, &y, 1, PGAS_F32, PGAS_OR) == PGAS_ERR_UNSUPPORTED,
            "bitwise operations on floats are refused");
    spmd_ok(pgas_allreduce(NULL, &x, &y, 1, PGAS_U32, op_affine) == PGAS_ERR_INVALID &&
                pgas_allreduce(NULL, &x, &y, 1, PGAS_TYPE_NONE, PGAS_ADD) == PGAS_ERR_INVALID &&
                pgas_scan(NULL, &x, &y, 1, PGAS_TYPE_NONE, op_affine ^ 0x10) ==
                    PGAS_ERR_UNSUPPORTED,
            "operators of the program: another size, no type, no such number");
    spmd_ok(pgas_allreduce(NULL, &x, &y, 1, (pgas_type_t)99, PGAS_ADD) == PGAS_ERR_INVALID &&
                pgas_allreduce(NULL, &x, &y, 1, PGAS_I32, 99) == PGAS_ERR_UNSUPPORTED &&
                pgas_allreduce(NULL, &x, &y, 1, PGAS_I32, PGAS_SWAP) == PGAS_ERR_UNSUPPORTED,
            "unknown types and operations are refused");
    spmd_ok(pgas_broadcast(NULL, &x, 4, n) == PGAS_ERR_INVALID &&
                pgas_broadcast(NULL, &x, 4, -1) == PGAS_ERR_INVALID &&
                pgas_gather(NULL, &x, &y, 4, n) == PGAS_ERR_INVALID &&
                pgas_reduce(NULL, &x, 1, PGAS_I32, PGAS_ADD, n) == PGAS_ERR_INVALID,
            "roots outside the team are refused");
    spmd_ok(pgas_broadcast(NULL, NULL, 4, 0) == PGAS_ERR_INVALID &&
                pgas_allgather(NULL, NULL, &y, 4) == PGAS_ERR_INVALID &&
                pgas_alltoall(NULL, &x, NULL, 4) == PGAS_ERR_INVALID &&
                pgas_allreduce(NULL, NULL, &y, 1, PGAS_I32, PGAS_ADD) == PGAS_ERR_INVALID &&
                pgas_allreduce(NULL, &x, &y, SIZE_MAX / 2, PGAS_I32, PGAS_ADD) == PGAS_ERR_INVALID,
            "NULL with a size, and sizes that overflow, are refused");
    size_t sizes[16] = { 0 }, more[16] = { 1 };
    sizes[pgas_team_rank(NULL)] = 4;
    more[0] = more[n - 1] = SIZE_MAX;
    spmd_ok(pgas_allgatherv(NULL, &x, 4, NULL, sizes) == PGAS_ERR_INVALID &&
                pgas_allgatherv(NULL, &x, 3, &y, sizes) == PGAS_ERR_INVALID &&
                pgas_allgatherv(NULL, &x, 4, &y, NULL) == PGAS_ERR_INVALID &&
                pgas_gatherv(NULL, NULL, 4, &y, sizes, 0) == PGAS_ERR_INVALID &&
                pgas_gatherv(NULL, &x, 4, &y, sizes, n) == PGAS_ERR_INVALID &&
                pgas_alltoallv(NULL, &x, sizes, &y, NULL) == PGAS_ERR_INVALID &&
                pgas_alltoallv(NULL, &x, more, &y, more) == PGAS_ERR_INVALID,
            "so are lists of sizes that are missing, wrong or too long");
    spmd_ok(pgas_broadcast(NULL, NULL, 0, 0) == PGAS_OK &&
                pgas_allgather(NULL, NULL, NULL, 0) == PGAS_OK &&
                pgas_allreduce(NULL, NULL, NULL, 0, PGAS_I32, PGAS_ADD) == PGAS_OK && y == 7,
            "NULL without a size is nothing to do, and no refusal has written anything");
}

static pgas_status_t guarded(void)
{
    return PGAS_ERR_CONTEXT;
}

static void guard_is_asked(void)
{
    pgasi_hooks.may_enter = guarded;
    bool good = pgas_barrier(NULL) == PGAS_ERR_CONTEXT &&
                pgas_alltoall(NULL, src, dst, 8) == PGAS_ERR_CONTEXT;
    pgasi_hooks.may_enter = NULL;
    spmd_ok(good, "where the guard says no, collectives are refused");
}

/* The oracle is broken on purpose, in two ways. */
static void checker_can_fail(void)
{
    side_t world = { NULL, "all ranks", 99, false };
    case_t c = draw(&world, 30000);
    c.type = PGAS_I64;
    c.op = PGAS_ADD;
    c.n_elems = 100;
    c.in_place = false;
    bool good = one_allreduce(&c);
    dst[799] ^= 1;
    spmd_ok(good && !is_want(dst, 800), "one wrong bit in a result is seen");
    dst[799] ^= 1;
    model(0, c.n, c.n_elems, c.type, c.op, c.key + 1);
    spmd_ok(!is_want(dst, 800), "the data of another operation is seen");
}

static pgas_team_t *split(int color, int key)
{
    pgas_team_t *team = NULL;
    if (pgas_team_split(NULL, color, key, &team) != PGAS_OK)
        printf("# rank %d: split failed\n", pgasi_boot.rank);
    return team;
}

/* Each rank in turn is late, and meanwhile polls for messages that others send after the
 * barrier. */
static void nobody_leaves_early(const side_t *side)
{
    bool good = true;
    for (int late = 0; late < spmd_size(); late++) {
        int left = 0;
        for (int i = 0; i < 100 && late == spmd_rank() && !left; i++) {
            sched_yield();
            MPI_Iprobe(MPI_ANY_SOURCE, 0, MPI_COMM_WORLD, &left, MPI_STATUS_IGNORE);
        }
        good = pgas_barrier(side->team) == PGAS_OK && !left && good;
        if (late != spmd_rank())
            MPI_Send(NULL, 0, MPI_BYTE, late, 0, MPI_COMM_WORLD);
        for (int i = 1; i < spmd_size() && late == spmd_rank(); i++)
            MPI_Recv(NULL, 0, MPI_BYTE, MPI_ANY_SOURCE, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    }
    spmd_ok(good, "no rank leaves a barrier before all have come, %s", side->name);
}

int main(int argc, char **argv)
{
    spmd_begin(&argc, &argv, MPI_THREAD_SERIALIZED);
    spmd_plan(5 * (N_KINDS + 1) + 2 + 6 + 2 + 10 + 8 + 1 + 2 + 4 + 2);
    seed = spmd_seed(0);
    size_t room = MAX_BYTES + GUARD_BYTES + 64;
    src = malloc(room);
    dst = malloc(room);
    want = malloc(room);
    spare = malloc(room);
    if (pgasi_boot_start(NULL, NULL) != PGAS_OK)
        return 99;
    register_operators();
    int rank = pgasi_boot.rank;
    side_t sides[5] = { { NULL, "all ranks", 1, false },
                        { pgas_team_node(), "the node", 10 + (uint64_t)pgasi_boot.node, false },
                        { split(rank % 2, rank), "odd and even ranks", 1000 + (uint64_t)(rank % 2),
                          false },
                        { split(0, -rank), "all ranks backwards", 2000, false },
                        { split(rank == 1 ? PGAS_COLOR_NONE : 3, rank * 5 % 7),
                          "all but one, shuffled", 3000, rank == 1 } };
    for (int i = 0; i < 5; i++) {
        each_alone(&sides[i]);
        all_mixed(&sides[i]);
    }
    every_type_and_operation(&sides[0]);
    every_type_and_operation(&sides[3]);
    for (int i = 0; i < 2; i++) {
        same_bits(&sides[3 * i], 1);
        same_bits(&sides[3 * i], 500);
        same_bits(&sides[3 * i], 100000);
    }
    ways(&sides[0]);
    ways(&sides[1]);
    by_pieces(&sides[0]);
    by_pieces(&sides[3]);
    for (int i = 0; i < 5; i++)
        with_and_without_direct(&sides[i]);
    refusals();
    guard_is_asked();
    nobody_leaves_early(&sides[0]);
    nobody_leaves_early(&sides[3]);
    checker_can_fail();
    for (int i = 2; i < 5; i++)
        if (sides[i].team)
            pgas_team_destroy(sides[i].team);
    pgasi_boot_stop();
    free(src);
    free(dst);
    free(want);
    free(spare);
    return spmd_end();
}
