/* what:    The board of a team gives every member the result of a plain loop over all members, in
 *          the order of members. This holds for any number of members, flat and in groups, and with
 *          writers running ahead. There is no race.
 * needs:   tsan-ok
 * source:  members are threads of one process. The operation is the composition of functions x -> a
 *          x + b, which is associative but not commutative, so a wrong order shows */
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/hash.h"
#include "base/param.h"
#include "base/rng.h"
#include "boot/internal.h"
#include "t/tap.h"

enum { N_MAX = 40, N_STEPS = 80, BURST = 3 * PGASI_BOARD_DEPTH, BYTES_MAX = 100000 };

typedef struct {
    uint32_t a, b;
} affine_t;

static pgasi_wakeup_t wakeups[1], *wakeup_table[1];
static int wakeup_of[N_MAX]; /* all members share the wakeup flag of this process */
static uint64_t seed;
static void *memory;
static uint64_t plain[N_MAX]; /* written before a barrier and read after it, without atomics */

typedef struct {
    int n, me;
    uint64_t first_bad; /* number of the first wrong step + 1 */
    unsigned char *src, *dst, *want;
} member_t;

/* ---- the model ---- */

static void compose(void *to, const void *from)
{
    affine_t *dst = to;
    const affine_t *src = from;
    *dst = (affine_t){ dst->a * src->a, dst->b * src->a + src->b };
}

static const pgas_op_def_t *compose_def;

static uint64_t word_of(uint64_t step, int who, size_t i)
{
    return pgasi_hash_combine(pgasi_hash_combine(seed + step, (uint64_t)who), i);
}

static void fill(unsigned char *at, size_t n, uint64_t step, int who)
{
    for (size_t i = 0; i < n; i++) {
        uint64_t word = word_of(step, who, i);
        memcpy(at + i * sizeof word, &word, sizeof word);
    }
}

static void model(unsigned char *want, size_t n, uint64_t step, int members)
{
    for (size_t i = 0; i < n; i++) {
        affine_t sum = { 1, 0 };
        for (int who = 0; who < members; who++) {
            uint64_t word = word_of(step, who, i);
            affine_t one;
            memcpy(&one, &word, sizeof one);
            compose(&sum, &one);
        }
        memcpy(want + i * sizeof sum, &sum, sizeof sum);
    }
}

/* ---- steps ---- */

typedef struct {
    uint64_t number;
    int kind, root;
    size_t n; /* words */
} step_t;

static step_t draw(uint64_t number, int n_members)
{
    static const size_t sizes[] = { 0, 1, 2, 3, 6, 7, 8, 9, 40, 100, 1000, 1025, 4095, 4096, 4097 };
    pgasi_rng_t rng;
    pgasi_rng_seed(&rng, pgasi_hash_combine(seed, number));
    step_t s = { number, (int)pgasi_rng_below(&rng, 9),
                 (int)pgasi_rng_below(&rng, (uint64_t)n_members),
                 sizes[pgasi_rng_below(&rng, sizeof sizes / sizeof sizes[0])] };
    size_t limit = s.kind < 6 ? BYTES_MAX / 8 : BYTES_MAX / 8 / (size_t)n_members;
    if (s.n > limit)
        s.n = limit;
    return s;
}

static bool same(const member_t *m, size_t words)
{
    return memcmp(m->dst, m->want, words * 8) == 0;
}

static bool barrier_orders(pgasi_board_t *board, const member_t *m, const step_t *s, bool in_halves)
{
    bool good = true;
    plain[m->me] = s->number;
    good = in_halves ? pgasi_board_arrive(board) == PGAS_OK : pgasi_board_barrier(board) == PGAS_OK;
    for (int i = 0; good && (m->me == 0 || !in_halves) && i < m->n; i++)
        good = plain[i] == s->number;
    if (in_halves)
        good = pgasi_board_release(board) == PGAS_OK && good && plain[0] == s->number;
    return good && pgasi_board_barrier(board) == PGAS_OK;
}

static bool combining(pgasi_board_t *board, const member_t *m, const step_t *s)
{
    fill(m->src, s->n, s->number, m->me);
    if (s->kind == 3) {
        bool good = pgasi_board_reduce(board, m->src, m->me == s->root ? m->dst : NULL, s->n,
                                       compose_def, s->root) == PGAS_OK;
        model(m->want, s->n, s->number, m->n);
        return good && (m->me != s->root || same(m, s->n));
    }
    if (s->kind == 4) {
        bool good = pgasi_board_allreduce(board, m->src, m->dst, s->n, compose_def) == PGAS_OK;
        model(m->want, s->n, s->number, m->n);
        return good && same(m, s->n);
    }
    bool inclusive = s->number % 2;
    int end = m->me + inclusive;
    bool good = pgasi_board_scan(board, m->src, m->dst, s->n, compose_def, inclusive) == PGAS_OK;
    model(m->want, s->n, s->number, end);
    return good && (end == 0 || same(m, s->n));
}

static bool moving(pgasi_board_t *board, const member_t *m, const step_t *s)
{
    size_t block = s->n * 8;
    bool all = s->kind == 8, good;
    for (int i = 0; i < (all ? m->n : 1); i++)
        fill(m->src + (size_t)i * block, s->n, s->number + (uint64_t)i * 1000000, m->me);
    for (int i = 0; i < m->n; i++)
        fill(m->want + (size_t)i * block, s->n, s->number + (all ? (uint64_t)m->me * 1000000 : 0),
             i);
    if (s->kind == 6) {
        good = pgasi_board_gather(board, m->src, m->me == s->root ? m->dst : NULL, block,
                                  s->root) == PGAS_OK;
        return good && (m->me != s->root || same(m, s->n * (size_t)m->n));
    }
    good = (all ? pgasi_board_alltoall : pgasi_board_allgather)(board, m->src, m->dst, block) ==
           PGAS_OK;
    return good && same(m, s->n * (size_t)m->n);
}

static bool one(pgasi_board_t *board, const member_t *m, const step_t *s)
{
    if (s->kind < 2)
        return barrier_orders(board, m, s, s->kind == 1);
    if (s->kind == 2) {
        fill(m->me == s->root ? m->dst : m->want, s->n, s->number, s->root);
        return pgasi_board_broadcast(board, m->dst, s->n * 8, s->root) == PGAS_OK &&
               (m->me == s->root || same(m, s->n));
    }
    return s->kind < 6 ? combining(board, m, s) : moving(board, m, s);
}

/* ---- promises ---- */

/* Small collectives with a root run several times with the same root: members that only send run
 * ahead until slots are used up. */
static void *run(void *arg)
{
    member_t *m = arg;
    pgasi_board_t board;
    pgasi_board_init(&board, memory, m->n, m->me, wakeup_of);
    for (uint64_t number = 1; number <= N_STEPS; number++) {
        step_t s = draw(number, m->n);
        bool bursts = s.n <= 100 && (s.kind == 2 || s.kind == 3 || s.kind == 6);
        for (int i = 0; i < (bursts ? BURST : 1); i++) {
            s.number = number + (uint64_t)i * 1000;
            if (!one(&board, m, &s) && m->first_bad == 0)
                m->first_bad = number;
        }
    }
    return NULL;
}

static void members(int n)
{
    pthread_t threads[N_MAX];
    member_t all[N_MAX];
    uint64_t bad = 0;
    memory = aligned_alloc(4096, (pgasi_board_bytes(n) + 4095) / 4096 * 4096);
    memset(memory, 0, pgasi_board_bytes(n));
    memset(plain, 0, sizeof plain);
    for (int i = 0; i < n; i++) {
        all[i] = (member_t){ n, i, 0, malloc(BYTES_MAX), malloc(BYTES_MAX), malloc(BYTES_MAX) };
        pthread_create(&threads[i], NULL, run, &all[i]);
    }
    for (int i = 0; i < n; i++) {
        pthread_join(threads[i], NULL);
        if (all[i].first_bad != 0 && bad == 0) {
            bad = all[i].first_bad;
            diag("member %d: step %d, kind %d", i, (int)bad, draw(bad, n).kind);
        }
        free(all[i].src);
        free(all[i].dst);
        free(all[i].want);
    }
    free(memory);
    ok(bad == 0, "%d members", n);
}

static int n_asked; /* whether the team is broken */

static bool is_broken(void *arg)
{
    return ++n_asked > *(int *)arg;
}

/* Of three members one has died. Member 0 knows this, leaves and frees its data. Member 1 fetches
 * these before it knows of the death. */
static void a_member_leaves(void)
{
    enum { N = 3, BYTES = 1 << 16 };
    pid_t self[1] = { getpid() };
    pgasi_board_t board[2];
    memset(board, 0, sizeof board);
    char *dst = malloc((size_t)N * BYTES);
    void *src = mmap(NULL, BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    int at_once = 0, later = 3;
    memory = aligned_alloc(4096, PGASI_ALIGN_UP(pgasi_board_bytes(N), (size_t)4096));
    memset(memory, 0, pgasi_board_bytes(N));
    for (int i = 0; i < 2; i++) {
        pgasi_board_init(&board[i], memory, N, i, wakeup_of);
        board[i].pids = self;
        board[i].is_broken = is_broken;
        board[i].arg = i == 0 ? &at_once : &later;
    }
    pgasi_board_message_t *of_dead = &board[1].messages[2 * PGASI_BOARD_DEPTH + 1];
    pgas_status_t first = pgasi_direct_broadcast(&board[0], src, BYTES, 0);
    munmap(src, BYTES);
    n_asked = 0;
    of_dead->step = 1; /* the dead member had entered */
    pgas_status_t second = pgasi_direct_broadcast(&board[1], dst, BYTES, 0);
    ok(first == PGAS_ERR_PEER && second == PGAS_ERR_PEER && n_asked > later,
       "a member whose source has gone after a death reports the death");
    free(dst);
    free(memory);
}

/* A result in the wrong order must be seen. */
static void checker_can_fail(void)
{
    affine_t x = { 2, 1 }, y = { 3, 5 }, xy = x, yx = y;
    compose(&xy, &y);
    compose(&yx, &x);
    ok(xy.b != yx.b, "the operation distinguishes orders");
}

int main(void)
{
    static const int sizes[] = { 1, 2, 3, 5, 16, 17, 33, 40 };
    char why[PGASI_PARAM_WHY_BYTES];
    plan(10);
    seed = tap_seed(0);
    pgas_op_t op;
    static const affine_t neutral = { 1, 0 };
    pgas_op_register("t.compose", &(pgas_op_def_t){ 8, 8, &neutral, compose, NULL }, &op);
    compose_def = pgasi_op_find(op);
    pgasi_param_defaults(&pgasi_param, pgasi_param_origins, why, sizeof why);
    pgasi_boot.oversubscribed = true;
    for (size_t i = 0; i < PGASI_ARRAY_LENGTH(wakeups); i++)
        wakeup_table[i] = &wakeups[i];
    pgasi_wakeups = wakeup_table;
    if (pgasi_wait_start() != PGAS_OK)
        bail("no wakeup flag");
    for (int i = 0; i < 8; i++)
        members(sizes[i]);
    a_member_leaves();
    checker_can_fail();
    pgasi_wait_stop();
    return done();
}
