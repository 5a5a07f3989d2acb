/* Litmus tests of arrays.
 *   what:   Reads and writes of elements are sequentially consistent: store buffering, message
 *           passing, independent readers of independent writers, and one order of the writes to an
 *           element. A thread that has been informed of applied operations, by one operator or by
 *           two in one chunk, sees them. Increments by locks, fetch_op, apply and compare_swap are
 *           all counted. A pinned chunk does not change although others want it. The elements are
 *           in one chunk or in several, of one home or of several, also structures; the threads are
 *           on one node or on several.
 *   np:     2 3 4 4
 *   nodes:  1 1 1 2
 *   env:    PGAS_ARRAY_ACCESS=open | PGAS_FAULT=delay=5,reorder=5,again=2 | PGAS_SERVICE_THREADS=0
 *   env:    | PGAS_LANES=1
 *   source: pgas/array.h; `make soak` runs more (LITMUS_ROUNDS). Values only grow, so that each
 *   read is judged against all
 *           writes, not those of its own round: of x = r; a = y and y = s; b = x either a >= s or b
 *           >= r, for all r and s
 */
#include "base/clock.h"
#include "base/param.h"
#include "t/spmd/array_crew.h"

#define ROLES_MAX    4
#define ROUNDS_MAX   4000
#define N_CHUNKS     12
#define CHUNK_INLINE 512 /* scalars in smaller chunks are not used by plain instructions */
#define CHUNK_SMALL  8

static int n_rounds;
static uint64_t recalls_ns, chunk;
static bool can_fail; /* a test of the test: the notes are spoilt before they are judged */

/* ---- roles: threads that run freely, and note the values that they read ---- */

typedef struct litmus {
    const char *name;
    int n_roles;
    void (*role)(const struct litmus *l, int role);
    bool (*is_allowed)(const struct litmus *l);
    void (*spoil)(void);
    bool one_a_rank; /* at most */
} litmus_t;

static uint64_t notes[ROLES_MAX][2][ROUNDS_MAX], all_notes[ROLES_MAX][2][ROUNDS_MAX];
static int shift; /* role r is played by rank (r + shift) % n_ranks */

/* The layout of the elements, and their type. */
typedef struct {
    const char *name;
    uint64_t x, y;
    size_t bytes;
    uint64_t chunk;
} layout_t;

static pgas_array_t *array;
static const layout_t *layout;

typedef struct {
    const litmus_t *litmus;
    int here[ROLES_MAX], n_here;
} cast_t;

static void play(int who, void *arg)
{
    const cast_t *cast = arg;
    if (who < cast->n_here)
        cast->litmus->role(cast->litmus, cast->here[who]);
}

/* Elements of 8 bytes bear a number; structures bear it in each of their words, else they are
 * torn. */
#define STRUCT_WORDS 5

static void put(uint64_t i, uint64_t value)
{
    uint64_t words[STRUCT_WORDS];
    if (layout->bytes == 8) {
        BAD(pgas_array_set_u64(array, i, value));
        return;
    }
    for (int k = 0; k < STRUCT_WORDS; k++)
        words[k] = value;
    BAD(pgas_array_set(array, i, words));
}

static uint64_t look(uint64_t i)
{
    uint64_t words[STRUCT_WORDS] = { UINT64_MAX };
    if (layout->bytes == 8) {
        BAD(pgas_array_get_u64(array, i, words));
        return words[0];
    }
    BAD(pgas_array_get(array, i, words));
    for (int k = 1; k < STRUCT_WORDS; k++)
        crew_judge(words[k] == words[0], "a structure is torn");
    return words[0];
}

/* Without guards an access of words takes the lock only if it is left to the protocol. */
static bool takes_the_short_way(void)
{
    pgas_array_info_t info = crew_info(array);
    uint64_t sum[2];
    BAD(pgas_allreduce(NULL, (uint64_t[]){ info.guarded, info.misses }, sum, 2, PGAS_U64,
                       PGAS_ADD));
    bool words = layout->bytes == 8 && layout->chunk == CHUNK_INLINE;
    return !words || pgasi_param.array_access != PGASI_ARRAY_ACCESS_OPEN || sum[0] <= sum[1];
}

/* Runs the litmus test with its roles on this rank and others. @return the number of forbidden
 * results */
static int perform(const litmus_t *l)
{
    cast_t cast = { .litmus = l };
    uint64_t zero[STRUCT_WORDS] = { 0 };
    memset(notes, 0, sizeof notes);
    int n_roles = l->one_a_rank && n_ranks < l->n_roles ? n_ranks : l->n_roles;
    for (int r = 0; r < n_roles; r++)
        if ((r + shift) % n_ranks == me)
            cast.here[cast.n_here++] = r;
    int32_t mine = cast.n_here, most = 0;
    BAD(pgas_allreduce(NULL, &mine, &most, 1, PGAS_I32, PGAS_MAX));
    if (layout->bytes <= sizeof zero)
        BAD(pgas_array_fill(array, zero));
    crew_run(most, play, &cast);
    BAD(pgas_allreduce(NULL, notes, all_notes, sizeof notes / 8, PGAS_U64, PGAS_ADD));
    if (can_fail)
        l->spoil();
    crew_judge(l->is_allowed(l), l->name);
    crew_judge(takes_the_short_way(), "an access took the lock that need not");
    return crew_faults();
}

/* ---- store buffering ---- */

static void buffering_role(const litmus_t *l, int role)
{
    uint64_t own = role == 0 ? layout->x : layout->y, other = role == 0 ? layout->y : layout->x;
    (void)l;
    for (int r = 1; r <= n_rounds; r++) {
        put(own, (uint64_t)r);
        notes[role][0][r - 1] = look(other);
    }
}

static bool buffering_is_allowed(const litmus_t *l)
{
    int n_bad = 0;
    (void)l;
    for (int r = 1; r <= n_rounds; r++) {
        /* so the other's write of a + 1 came later, and its read as well */
        uint64_t a = all_notes[0][0][r - 1];
        n_bad += a < (uint64_t)n_rounds && all_notes[1][0][a] < (uint64_t)r;
        n_bad += r > 1 && a < all_notes[0][0][r - 2];
    }
    return n_bad == 0;
}

static void buffering_spoil(void)
{
    all_notes[0][0][n_rounds / 2] = 0;
    all_notes[1][0][0] = 0;
}

/* ---- message passing ---- */

/* Data and then a flag, each written in several ways. Applied values only grow, too. */
static void pass(uint64_t i, uint64_t value, int how)
{
    uint64_t old[STRUCT_WORDS], words[STRUCT_WORDS], last[STRUCT_WORDS], index = i;
    pgas_array_pin_t pin;
    /* no thread of the node reads the elements that are written by a pointer */
    bool apart = pgas_n_nodes() == n_ranks && n_ranks >= 3;
    for (int k = 0; k < STRUCT_WORDS; k++) {
        words[k] = value;
        last[k] = value - 1;
    }
    if (how == 1 && layout->bytes == 8) {
        BAD(pgas_array_apply_u64(array, i, PGAS_MAX, value));
    } else if (how == 2 && layout->bytes == 8) {
        BAD(pgas_array_fetch_op(array, i, PGAS_OP(PGAS_ADD, PGAS_U64), &(uint64_t){ 1 }, old));
        crew_judge(old[0] == value - 1, "fetch_op's old value");
    } else if (how == 3) {
        BAD(pgas_array_compare_swap(array, i, last, words, old));
        crew_judge(memcmp(old, last, layout->bytes) == 0, "compare_swap's old value");
    } else if (how == 4) {
        BAD(pgas_array_store(array, i, 1, words));
    } else if (how == 5) {
        BAD(pgas_array_set_many(array, &index, 1, words));
    } else if (how == 6 && apart && !BAD(pgas_array_pin(array, i, PGAS_ARRAY_WRITE, 0, &pin))) {
        memcpy((char *)pin.data + (i - pin.first) * layout->bytes, words, layout->bytes);
        BAD(pgas_array_unpin(&pin));
    } else {
        put(i, value);
    }
}

static void passing_role(const litmus_t *l, int role)
{
    (void)l;
    for (int r = 1; r <= n_rounds; r++) {
        if (role == 0) {
            pass(layout->x, (uint64_t)r, r % 7);
            pass(layout->y, (uint64_t)r, r / 7 % 5 == 1 ? 0 : r / 7 % 5);
        } else {
            notes[role][0][r - 1] = look(layout->y);
            notes[role][1][r - 1] = look(layout->x);
        }
    }
}

static bool passing_is_allowed(const litmus_t *l)
{
    int n_bad = 0;
    for (int role = 1; role < l->n_roles; role++) {
        for (int r = 0; r < n_rounds; r++) {
            n_bad += all_notes[role][1][r] < all_notes[role][0][r];
            n_bad += r > 0 && all_notes[role][0][r] < all_notes[role][1][r - 1] - 1 &&
                     all_notes[role][1][r - 1] > 0;
        }
    }
    return n_bad == 0;
}

static void passing_spoil(void)
{
    all_notes[1][0][3] = 7;
    all_notes[1][1][3] = 6;
}

/* ---- independent reads of independent writes ---- */

static void independent_role(const litmus_t *l, int role)
{
    (void)l;
    for (int r = 1; r <= n_rounds; r++) {
        if (role < 2) {
            put(role == 0 ? layout->x : layout->y, (uint64_t)r);
        } else {
            notes[role][0][r - 1] = look(role == 2 ? layout->x : layout->y);
            notes[role][1][r - 1] = look(role == 2 ? layout->y : layout->x);
        }
    }
}

/* Reader 2 saw x new and then y old, reader 3 y new and then x old: no order has both. */
static bool independent_is_allowed(const litmus_t *l)
{
    (void)l;
    for (int i = 0; i < n_rounds; i++) {
        for (int j = 0; j < n_rounds; j++)
            if (all_notes[2][0][i] > all_notes[3][1][j] && all_notes[3][0][j] > all_notes[2][1][i])
                return false;
    }
    return true;
}

static void independent_spoil(void)
{
    all_notes[2][0][1] = all_notes[3][0][1] = 2;
    all_notes[2][1][1] = all_notes[3][1][1] = 1;
}

/* ---- coherence: two writers, two readers, one element ---- */

static void coherence_role(const litmus_t *l, int role)
{
    (void)l;
    for (int r = 1; r <= n_rounds; r++) {
        if (role < 2)
            put(layout->x, (uint64_t)(2 * r + role));
        notes[role][0][r - 1] = look(layout->x);
    }
}

/* No value comes back in a log after another one, and any two values have the same order in any two
 * logs. Writers number their values upwards, so these must also grow by writer. */
static bool coherence_is_allowed(const litmus_t *l)
{
    static int place[ROLES_MAX][2 * ROUNDS_MAX + 2];
    memset(place, 0, sizeof place);
    for (int role = 0; role < l->n_roles; role++) {
        uint64_t last = 0, newest[2] = { 0, 0 };
        for (int r = 0, at = 1; r < n_rounds; r++) {
            uint64_t value = all_notes[role][0][r];
            if (value == last)
                continue;
            if (value > 2 * (uint64_t)n_rounds + 1 || place[role][value] ||
                value < newest[value % 2])
                return false;
            place[role][value] = at++;
            last = newest[value % 2] = value;
        }
    }
    for (int a = 0; a < l->n_roles; a++) {
        for (int b = 0; b < l->n_roles; b++) {
            int last = 0;
            for (int r = 0; r < n_rounds; r++) {
                int at = place[b][all_notes[a][0][r]];
                if (at > 0 && at < last)
                    return false;
                last = at > 0 ? at : last;
            }
        }
    }
    return true;
}

static void coherence_spoil(void)
{
    for (int role = 2; role < 4; role++) {
        memset(all_notes[role], 0, sizeof all_notes[role]);
        for (int r = 0; r < n_rounds; r++)
            all_notes[role][0][r] = (r == 1) == (role == 2) ? 2 : 3;
        all_notes[role][0][0] = 0;
    }
}

/* ---- n-way increments ---- */

/* By a lock, fetch_op, apply and compare_swap; of elements side by side, with two operators, and
 * reads between. */
static void increments_role(const litmus_t *l, int role)
{
    uint64_t x = layout->x, first = x / chunk * chunk, value = 0, old = 0, expected, seen = 0,
             one = 1;
    (void)l;
    for (int r = 1; r <= n_rounds; r++) {
        int how = (r + role) % 4;
        /* without service threads a lock changes hands at the pace of naps */
        how = how == 0 && r % 16 > 3 ? 2 : how;
        if (how == 0) {
            BAD(pgas_array_lock(array, x, PGAS_ARRAY_WRITE, -1));
            BAD(pgas_array_get_u64(array, x, &value));
            BAD(pgas_array_set_u64(array, x, value + 1));
            BAD(pgas_array_unlock(array, x));
        } else if (how == 1) {
            BAD(pgas_array_fetch_op(array, first + 3, PGAS_OP(PGAS_ADD, PGAS_U64), &one, &old));
            crew_judge(old >= seen, "fetch_op's old value went back");
            seen = old + 1;
        } else if (how == 2) {
            BAD(pgas_array_apply_u64(array, first + 4, PGAS_ADD, 1));
            if (r % 3)
                BAD(pgas_array_apply_u64(array, first + 5, PGAS_XOR, 1 << 20));
            else
                BAD(pgas_array_apply_u64(array, first + 5, PGAS_ADD, 1));
        } else {
            BAD(pgas_array_get_u64(array, first + 6, &value));
            do {
                expected = value;
                BAD(pgas_array_compare_swap(array, first + 6, &expected,
                                            &(uint64_t){ expected + 1 }, &value));
            } while (value != expected);
        }
        notes[role][0][how]++;
        notes[role][1][0] += how == 2 && r % 3 > 0;
    }
}

static bool increments_is_allowed(const litmus_t *l)
{
    uint64_t want[4] = { 0, 0, 0, 0 }, is[5], n_xor = 0, first = layout->x / chunk * chunk;
    for (int role = 0; role < l->n_roles; role++) {
        for (int how = 0; how < 4; how++)
            want[how] += all_notes[role][0][how];
        n_xor += all_notes[role][1][0];
    }
    is[0] = look(layout->x);
    for (uint64_t k = 1; k < 5; k++)
        is[k] = look(first + 2 + k);
    return is[0] == want[0] && is[1] == want[1] && is[2] == want[2] && is[4] == want[3] &&
           is[3] == (want[2] - n_xor) + (n_xor % 2 << 20);
}

static void increments_spoil(void)
{
    all_notes[0][0][2]--;
}

/* ---- applies and reads ---- */

/* All threads apply two operators to elements of one chunk, which is recalled each time the
 * operator changes. Reads see all of the thread's own contributions. */
static void applies_role(const litmus_t *l, int role)
{
    uint64_t first = layout->x / chunk * chunk, sum = 0, most = 0, value = 0;
    (void)l;
    for (int r = 1; r <= n_rounds; r++) {
        uint64_t x = (uint64_t)(r * ROLES_MAX + role);
        if (r % 16 < 12) {
            BAD(pgas_array_apply_u64(array, first, PGAS_ADD, x));
            sum += x;
        } else {
            BAD(pgas_array_apply_u64(array, first + 1, PGAS_MAX, x));
            most = x;
        }
        if (r % 32 == 7) {
            BAD(pgas_array_get_u64(array, first, &value));
            crew_judge(value >= sum, "a read misses the thread's own contribution");
            BAD(pgas_array_get_u64(array, first + 1, &value));
            crew_judge(value >= most, "a read misses a maximum of the thread's");
        }
    }
    notes[role][0][0] = sum;
    notes[role][0][1] = most;
}

static bool applies_is_allowed(const litmus_t *l)
{
    uint64_t first = layout->x / chunk * chunk, sum = 0, most = 0;
    for (int role = 0; role < l->n_roles; role++) {
        sum += all_notes[role][0][0];
        most = most > all_notes[role][0][1] ? most : all_notes[role][0][1];
    }
    return look(first) == sum && look(first + 1) == most;
}

static void applies_spoil(void)
{
    all_notes[1][0][0]++;
}

/* ---- pins against recalls ---- */

/* Two write a whole chunk through a pin, one number for all; the others read it in a pin, twice.
 * Only where ranks have nodes of their own, since pins of one node share the chunk. */
static void pins_role(const litmus_t *l, int role)
{
    pgas_array_pin_t pin;
    (void)l;
    for (int r = 1; r <= n_rounds / 4; r++) {
        if (BAD(pgas_array_pin(array, layout->x, role < 2 ? PGAS_ARRAY_WRITE : PGAS_ARRAY_READ, 0,
                               &pin)))
            return;
        volatile uint64_t *data = pin.data;
        uint64_t words = pin.n * layout->bytes / 8, was = data[0], n_other = 0;
        for (uint64_t k = 0; k < words; k++)
            n_other += data[k] != was;
        for (uint64_t k = 0; k < words && role < 2; k++)
            data[k] = was + 1;
        for (uint64_t k = words; k-- > 0;)
            n_other += data[k] != was + (role < 2);
        crew_judge(n_other == 0, "a pinned chunk changed");
        BAD(pgas_array_unpin(&pin));
        notes[role][0][0] += role < 2;
    }
}

static bool pins_is_allowed(const litmus_t *l)
{
    (void)l;
    return look(layout->x) == all_notes[0][0][0] + all_notes[1][0][0];
}

static void pins_spoil(void)
{
    all_notes[0][0][0]--;
}

/* ---- accesses against recalls ---- */

#define LARGE_WORDS 8192
static _Thread_local uint64_t large[LARGE_WORDS];

/* Elements of 8 bytes, and elements whose copy takes so long that the copying thread is interrupted
 * in it. */
static void put_any(uint64_t i, uint64_t value)
{
    if (layout->bytes < sizeof large) {
        put(i, value);
        return;
    }
    for (int k = 0; k < LARGE_WORDS; k++)
        large[k] = value;
    BAD(pgas_array_set(array, i, large));
}

static uint64_t look_any(uint64_t i)
{
    if (layout->bytes < sizeof large)
        return look(i);
    uint64_t n_other = 0;
    BAD(pgas_array_get(array, i, large));
    for (int k = 1; k < LARGE_WORDS; k++)
        n_other += large[k] != large[0];
    crew_judge(n_other == 0, "a large structure is torn");
    return large[0];
}

static uint64_t recalled_at(int role)
{
    return layout->x / chunk * chunk + (uint64_t)role;
}

/* Each writes an element of its own in one chunk and reads it back. The first does so all the time.
 * The others do it now and then, and read its element, so that the chunk is taken from the first
 * wherever it may be. */
static void recalls_role(const litmus_t *l, int role)
{
    uint64_t value = 0, elsewhere = N_CHUNKS * chunk - 1, begun = pgasi_now_ns(), number = 0;
    int at_once = layout->bytes == 8 ? 3000 : 30;
    if (role > 0)
        at_once = 1;
    (void)l;
    while (pgasi_now_ns() - begun < recalls_ns) {
        for (int k = 0; k < at_once; k++) {
            put_any(recalled_at(role), ++number);
            crew_judge(look_any(recalled_at(role)) == number, "the value just written is not read");
        }
        if (role > 0) {
            uint64_t seen = look_any(recalled_at(0));
            crew_judge(seen >= value, "a number went back");
            value = seen;
            look_any(elsewhere);
        }
        /* else another thread takes the chunk away */
        if (role > 0 || pgasi_param.service_threads == 0)
            crew_serve();
    }
    notes[role][0][0] = number;
}

static bool recalls_is_allowed(const litmus_t *l)
{
    bool good = true;
    for (int role = 0; role < l->n_roles; role++)
        good &= look_any(recalled_at(role)) == all_notes[role][0][0];
    return good;
}

static void recalls_spoil(void)
{
    all_notes[0][0][0]++;
}

/* ---- */

enum { BUFFERING, PASSING, INDEPENDENT, COHERENCE, INCREMENTS, APPLIES, PINS, RECALLS, N_LITMUS };

static const litmus_t all[N_LITMUS] = {
    { "store buffering", 2, buffering_role, buffering_is_allowed, buffering_spoil, false },
    { "message passing", 3, passing_role, passing_is_allowed, passing_spoil, false },
    { "independent reads of independent writes", 4, independent_role, independent_is_allowed,
      independent_spoil, false },
    { "coherence of one element", 4, coherence_role, coherence_is_allowed, coherence_spoil, false },
    { "increments by locks, fetch_op, apply and compare_swap", 4, increments_role,
      increments_is_allowed, increments_spoil, false },
    { "applies with two operators, and reads", 4, applies_role, applies_is_allowed, applies_spoil,
      false },
    { "pins against recalls", 4, pins_role, pins_is_allowed, pins_spoil, true },
    { "accesses against recalls", 3, recalls_role, recalls_is_allowed, recalls_spoil, false },
};

static bool applies_here(const litmus_t *l)
{
    bool on_words = l == &all[INCREMENTS] || l == &all[APPLIES];
    if (l == &all[PINS] && pgas_n_nodes() < n_ranks)
        return false;
    if (l == &all[RECALLS])
        return layout->bytes == 8 || layout->bytes == sizeof large;
    return layout->bytes != sizeof large && (!on_words || layout->bytes == 8);
}

static int everywhere(const litmus_t *l)
{
    const uint64_t usual = CHUNK_INLINE, small = CHUNK_SMALL, last = (N_CHUNKS - 1) * usual;
    const layout_t layouts[] = {
        { "in one chunk", 1, 2, 8, usual },
        { "in two chunks of one home", 1, usual, 8, usual },
        { "of two homes", 2, last, 8, usual },
        { "in one small chunk", 1, 2, 8, small },
        { "structures in one chunk", last, last + 1, STRUCT_WORDS * 8, usual },
        { "structures of two homes", 2, (N_CHUNKS - 1) * small + 5, STRUCT_WORDS * 8, small },
        { "large structures", 1, 5, sizeof large, 4 }, /* for the last litmus only */
    };
    int n_faults = 0;
    for (size_t k = 0; k < sizeof layouts / sizeof layouts[0]; k++) {
        layout = &layouts[k];
        chunk = layout->chunk;
        if (!applies_here(l))
            continue;
        array = crew_array(layout->bytes, N_CHUNKS * chunk, (size_t)chunk, 4, NULL);
        shift = (int)k % n_ranks;
        int faults = perform(l);
        if (faults > 0)
            printf("# rank %d: %s, %s, roles from rank %d on\n", me, l->name, layout->name, shift);
        n_faults += faults;
        BAD(pgas_array_destroy(array));
    }
    return n_faults + crew_faults();
}

/* Notes that no order of reads and writes explains. */
static void forbidden_is_noticed(void)
{
    const layout_t one = { "in one chunk", 1, 2, 8, CHUNK_INLINE };
    int n_missed = 0;
    layout = &one;
    chunk = one.chunk;
    shift = 0;
    can_fail = true;
    for (int k = 0; k < N_LITMUS; k++) {
        if (!applies_here(&all[k]))
            continue;
        array = crew_array(8, N_CHUNKS * chunk, (size_t)chunk, 4, NULL);
        crew_mute();
        if (perform(&all[k]) == 0) {
            spmd_diag("%s: nothing is noticed", all[k].name);
            n_missed++;
        }
        BAD(pgas_array_destroy(array));
    }
    can_fail = false;
    spmd_is_int(n_missed, 0, "forbidden results are noticed");
}

int main(int argc, char **argv)
{
    const char *rounds = getenv("LITMUS_ROUNDS");
    job_begin(&argc, &argv, N_LITMUS + 1);
    n_rounds = rounds ? atoi(rounds) : 1000;
    n_rounds = n_rounds < ROUNDS_MAX ? n_rounds : ROUNDS_MAX;
    recalls_ns = (uint64_t)n_rounds * 60000;
    for (int k = 0; k < N_LITMUS; k++)
        spmd_is_int(everywhere(&all[k]), 0, "%s", all[k].name);
    n_rounds = 20;
    recalls_ns = 1000000;
    forbidden_is_noticed();
    return job_end();
}
