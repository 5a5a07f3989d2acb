/* Pins, walks and prefetch.
 *   what:   A pin gives the part of a chunk that is at one rank as a plain pointer, to read, write
 *           or operate. It keeps the chunk although other ranks want it; they get it afterwards.
 *           Pins nest. An operation that would wait for the thread's own pin is refused. Get, set
 *           and apply work within a pin. A cache whose chunks are all pinned is reported. Walks
 *           cover a range once, in order; prefetch does not change results.
 *   np:     2 3 4
 *   nodes:  1 1 2
 *   env:    PGAS_SERVICE_THREADS=1 | PGAS_SERVICE_THREADS=0 | PGAS_LANES=1
 *   source: pgas/array.h
 */
#include "array/array.h"
#include "array/protocol.h"
#include "call/progress.h"
#include "msg/serve.h"
#include "t/spmd/array_crew.h"

/* of 8 elements, and of 512: scalars in those are used by plain instructions */
static uint64_t chunk;
static pgas_handler_t rung;
static int n_rung;

static void on_rung(const void *args, size_t bytes, pgas_thread_t source, void *context)
{
    (void)args;
    (void)bytes;
    (void)source;
    (void)context;
    __atomic_add_fetch(&n_rung, 1, __ATOMIC_RELEASE);
}

/* An array of which each rank has two and a half chunks, so that every second chunk is at two
 * ranks. */
static pgas_array_t *make_array(size_t bytes, size_t n_lines)
{
    static uint64_t offsets[JOB_RANKS_MAX + 1];
    for (int r = 0; r <= n_ranks; r++)
        offsets[r] = (uint64_t)r * (2 * chunk + chunk / 2);
    return crew_array(bytes, offsets[n_ranks], (size_t)chunk, n_lines, offsets);
}

static void span_of(const pgas_array_t *array, uint64_t i, uint64_t *first_p, uint64_t *end_p)
{
    uint64_t first = i / chunk * chunk, end = first + chunk, own, n;
    BAD(pgas_array_range(array, pgas_array_home(array, i), &own, &n));
    *first_p = first > own ? first : own;
    *end_p = end < own + n ? end : own + n;
}

static void spans(void)
{
    pgas_array_t *array = make_array(8, 3);
    uint64_t n = pgas_array_n_elems(array), first, end;
    for (uint64_t i = (uint64_t)me; i < n; i += (uint64_t)n_ranks)
        BAD(pgas_array_set_u64(array, i, i * 3));
    BAD(pgas_barrier(NULL));
    for (uint64_t i = 0; i < n; i++) {
        pgas_array_pin_t pin;
        span_of(array, i, &first, &end);
        if (BAD(pgas_array_pin(array, i, PGAS_ARRAY_READ, 0, &pin)))
            continue;
        crew_judge(pin.first == first && pin.n == end - first, "the span of a pin");
        for (uint64_t k = 0; k < pin.n; k++)
            crew_judge(((const uint64_t *)pin.data)[k] == (first + k) * 3, "what is pinned");
        BAD(pgas_array_unpin(&pin));
        GAVE(pgas_array_unpin(&pin), PGAS_ERR_INVALID);
    }
    BAD(pgas_array_destroy(array));
    spmd_is_int(crew_faults(), 0, "a pin has the part of a chunk that is at one rank");
}

static void writes_and_operands(void)
{
    pgas_array_t *array = make_array(4, 3);
    uint64_t n = pgas_array_n_elems(array);
    pgas_array_pin_t pin;
    uint32_t value = 0;
    for (int turn = 0; turn < n_ranks; turn++) { /* each rank writes all, one after the other */
        for (uint64_t i = 0; i < n && turn == me; i = pin.first + pin.n) {
            BAD(pgas_array_pin(array, i, PGAS_ARRAY_WRITE, 0, &pin));
            for (uint64_t k = 0; k < pin.n; k++) {
                uint32_t was = turn ? (uint32_t)(i + k) * 8 + (uint32_t)turn - 1 : 0;
                crew_judge(((uint32_t *)pin.data)[k] == was, "what was there");
                ((uint32_t *)pin.data)[k] = (uint32_t)(i + k) * 8 + (uint32_t)turn;
            }
            BAD(pgas_array_unpin(&pin));
        }
        BAD(pgas_barrier(NULL));
        BAD(pgas_array_get_u32(array, n - 1 - (uint64_t)me, &value));
        crew_judge(value == (uint32_t)(n - 1 - (uint64_t)me) * 8 + (uint32_t)turn,
                   "what was written through a pin");
        BAD(pgas_barrier(NULL));
    }
    /* One rank of each node operates, all at the same time: threads of a node share a pinned chunk.
     * */
    for (uint64_t i = 0; i < n && pgas_node_rank() == 0; i = pin.first + pin.n) {
        BAD(pgas_array_pin(array, i, PGAS_ARRAY_OPERATE, PGAS_OP(PGAS_ADD, PGAS_U32), &pin));
        for (uint64_t k = 0; k < pin.n; k++)
            ((uint32_t *)pin.data)[k] += 1000;
        /* and beside the pointer */
        BAD(pgas_array_apply_u32(array, i, PGAS_ADD, 100000));
        BAD(pgas_array_unpin(&pin));
    }
    BAD(pgas_barrier(NULL));
    uint64_t first = 0, end = 0;
    for (uint64_t i = 0; i < n; i++) {
        span_of(array, i, &first, &end);
        uint32_t want = (uint32_t)(i * 8) + (uint32_t)n_ranks - 1 + 1000 * (uint32_t)pgas_n_nodes();
        BAD(pgas_array_get_u32(array, i, &value));
        crew_judge(value == want + (i == first ? 100000 * (uint32_t)pgas_n_nodes() : 0),
                   "operands through a pin");
    }
    BAD(pgas_barrier(NULL));
    BAD(pgas_array_destroy(array));
    spmd_is_int(crew_faults(), 0, "writes and contributions through pins are seen");
}

/* ---- own pins ---- */

static void nested(void)
{
    pgas_array_t *array = make_array(8, 6);
    uint64_t mine = (uint64_t)(job_right()) * (2 * chunk + chunk / 2) + chunk, value, x = 5;
    pgas_array_pin_t outer, inner, third, other;
    BAD(pgas_array_pin(array, mine, PGAS_ARRAY_WRITE, 0, &outer));
    BAD(pgas_array_pin(array, outer.first, PGAS_ARRAY_READ, 0, &inner));
    BAD(pgas_array_pin(array, outer.first + 1, PGAS_ARRAY_WRITE, 0, &third));
    crew_judge(inner.data == outer.data && third.data == outer.data, "nested pins of one chunk");
    ((uint64_t *)outer.data)[0] = 11;
    crew_judge(((uint64_t *)inner.data)[0] == 11, "one memory");
    BAD(pgas_array_get_u64(array, outer.first, &value));
    crew_judge(value == 11, "get within a pin");
    BAD(pgas_array_set_u64(array, outer.first + 1, 12));
    crew_judge(((uint64_t *)third.data)[1] == 12, "set within a pin");
    BAD(pgas_array_apply_u64(array, outer.first + 1, PGAS_ADD, 8));
    crew_judge(((uint64_t *)third.data)[1] == 20, "apply within a pin");
    BAD(pgas_array_fetch_op(array, outer.first + 1, PGAS_OP(PGAS_MAX, PGAS_U64), &x, &value));
    crew_judge(value == 20, "fetch_op within a pin");
    BAD(pgas_array_unpin(&outer)); /* in any order */
    BAD(pgas_array_pin(array, mine - chunk, PGAS_ARRAY_READ, 0, &other));
    ((uint64_t *)third.data)[2] = 21;
    BAD(pgas_array_unpin(&third));
    crew_judge(((uint64_t *)inner.data)[2] == 21, "the last pin of a chunk");
    BAD(pgas_array_unpin(&inner));
    BAD(pgas_array_unpin(&other));
    BAD(pgas_barrier(NULL));
    for (int r = 0; r < n_ranks; r++) {
        BAD(pgas_array_get_u64(array, (uint64_t)r * (2 * chunk + chunk / 2) + chunk + 0, &value));
        crew_judge(value == 11 || (uint64_t)r * (2 * chunk + chunk / 2) % chunk != 0,
                   "seen by all");
    }
    BAD(pgas_barrier(NULL));
    BAD(pgas_array_destroy(array));
    spmd_is_int(crew_faults(), 0, "pins nest, on one chunk and on several");
}

/* Never a wait for oneself: done, or refused. */
static bool done_or_refused(pgas_status_t status)
{
    return status == PGAS_OK || status == PGAS_ERR_DEADLOCK;
}

static void own_deadlocks(void)
{
    pgas_array_t *array = make_array(8, 6);
    pgas_array_pin_t pin, inner;
    uint64_t begin = UINT64_MAX, value = 7, old = 0;
    for (uint64_t i = 0; i < pgas_array_n_elems(array); i++)
        if (begin == UINT64_MAX && pgas_node_of(pgas_array_home(array, i)) != pgas_node() &&
            i % chunk == 0)
            begin = i;
    /* a chunk of another node that no other rank has */
    if (begin != UINT64_MAX && me == n_ranks - 1) {
        BAD(pgas_array_pin(array, begin, PGAS_ARRAY_READ, 0, &pin));
        GAVE(pgas_array_pin(array, begin, PGAS_ARRAY_WRITE, 0, &inner), PGAS_ERR_DEADLOCK);
        GAVE(pgas_array_pin(array, begin, PGAS_ARRAY_OPERATE, PGAS_OP(PGAS_ADD, PGAS_U64), &inner),
             PGAS_ERR_DEADLOCK);
        crew_judge(done_or_refused(pgas_array_set_u64(array, begin, 7)),
                   "set of what is pinned to read");
        crew_judge(done_or_refused(pgas_array_apply_u64(array, begin, PGAS_ADD, 0)),
                   "apply to such");
        crew_judge(done_or_refused(pgas_array_fetch_op(array, begin, PGAS_OP(PGAS_ADD, PGAS_U64),
                                                       &old, &value)),
                   "fetch_op, too");
        BAD(pgas_array_get_u64(array, begin + 1, &value));
        BAD(pgas_array_unpin(&pin));
        BAD(pgas_array_pin(array, begin, PGAS_ARRAY_OPERATE, PGAS_OP(PGAS_ADD, PGAS_U64), &pin));
        GAVE(pgas_array_pin(array, begin, PGAS_ARRAY_READ, 0, &inner), PGAS_ERR_DEADLOCK);
        GAVE(pgas_array_pin(array, begin, PGAS_ARRAY_WRITE, 0, &inner), PGAS_ERR_DEADLOCK);
        GAVE(pgas_array_pin(array, begin, PGAS_ARRAY_OPERATE, PGAS_OP(PGAS_MAX, PGAS_U64), &inner),
             PGAS_ERR_DEADLOCK);
        GAVE(pgas_array_get_u64(array, begin, &value), PGAS_ERR_DEADLOCK);
        GAVE(pgas_array_set_u64(array, begin, 3), PGAS_ERR_DEADLOCK);
        GAVE(pgas_array_apply_u64(array, begin, PGAS_MAX, 3), PGAS_ERR_DEADLOCK);
        BAD(pgas_array_pin(array, begin, PGAS_ARRAY_OPERATE, PGAS_OP(PGAS_ADD, PGAS_U64), &inner));
        BAD(pgas_array_unpin(&inner));
        BAD(pgas_array_apply_u64(array, begin + 1, PGAS_ADD, 9));
        BAD(pgas_array_unpin(&pin));
        BAD(pgas_array_get_u64(array, begin + 1, &value));
        crew_judge(value == 9, "it continues as before");
    }
    BAD(pgas_barrier(NULL));
    if (me == 0) { /* at home none of this needs another rank: it succeeds or is refused */
        BAD(pgas_array_pin(array, 0, PGAS_ARRAY_READ, 0, &pin));
        pgas_status_t status = pgas_array_pin(array, 0, PGAS_ARRAY_WRITE, 0, &inner);
        crew_judge(done_or_refused(status), "a pin to write at home");
        if (status == PGAS_OK)
            BAD(pgas_array_unpin(&inner));
        crew_judge(done_or_refused(pgas_array_set_u64(array, 0, 1)), "set at home");
        BAD(pgas_array_unpin(&pin));
        BAD(pgas_array_set_u64(array, 0, 1));
    }
    BAD(pgas_barrier(NULL));
    BAD(pgas_array_destroy(array));
    spmd_is_int(crew_faults(), 0, "operations that would wait for the own pin are refused");
}

/* Ranks of one node count their pins of one chunk in the same words. */
static void by_neighbours(void)
{
    enum { PINS = 100000 };
    pgas_array_t *array = make_array(8, 3);
    pgasi_array_t *a = pgasi_array_of(array);
    uint64_t first = 0, n = 0;
    int neighbour = 0;
    while (pgas_node_of(neighbour) != pgas_node())
        neighbour++;
    BAD(pgas_array_range(array, neighbour, &first, &n));
    BAD(pgas_barrier(NULL));
    for (int k = 0; k < PINS; k++) {
        pgas_array_pin_t outer, inner;
        BAD(pgas_array_pin(array, first, k % 2 ? PGAS_ARRAY_READ : PGAS_ARRAY_WRITE, 0, &outer));
        BAD(pgas_array_pin(array, first, PGAS_ARRAY_READ, 0, &inner));
        BAD(pgas_array_unpin(&outer));
        BAD(pgas_array_unpin(&inner));
    }
    BAD(pgas_barrier(NULL));
    const pgasi_array_grant_t *grant = &a->peer[neighbour].grants[0];
    crew_judge(grant->pins_read == 0 && grant->pins_write == 0, "pins are left that no thread has");
    BAD(pgas_barrier(NULL));
    BAD(pgas_array_destroy(array));
    spmd_is_int(crew_faults(), 0, "all pins of ranks of one node are counted");
}

static void a_full_cache(void)
{
    enum { MOST = 16 };
    pgas_array_t *array = crew_array(8, (uint64_t)(n_ranks * MOST) * chunk, (size_t)chunk, 4, NULL);
    pgas_array_pin_t pins[MOST], more;
    pgas_array_info_t info = { .size = sizeof info };
    uint64_t value = 0, first = 0, n = 0;
    int far = -1, n_pins = 0;
    for (int r = 0; r < n_ranks; r++)
        far = pgas_node_of(r) != pgas_node() ? r : far;
    BAD(pgas_array_info(array, &info));
    if (far >= 0) {
        BAD(pgas_array_range(array, far, &first, &n));
        pgas_status_t status = PGAS_OK;
        while (n_pins < MOST && status == PGAS_OK) {
            status = pgas_array_pin(array, first + (uint64_t)n_pins * chunk, PGAS_ARRAY_READ, 0,
                                    &pins[n_pins]);
            n_pins += status == PGAS_OK;
        }
        crew_judge(status == PGAS_ERR_NO_MEMORY && n_pins == (int)info.n_lines,
                   "as many pins as lines");
        BAD(pgas_array_pin(array, first, PGAS_ARRAY_READ, 0, &more)); /* that one is there */
        BAD(pgas_array_unpin(&more));
        BAD(pgas_array_get_u64(array, first + (uint64_t)n_pins * chunk + 1, &value));
        crew_judge(value == 0, "get works without cache lines");
        BAD(pgas_array_fetch_op(array, first + (uint64_t)(n_pins + 1) * chunk + (uint64_t)me,
                                PGAS_OP(PGAS_ADD, PGAS_U64), &(uint64_t){ 1 }, &value));
        BAD(pgas_array_unpin(&pins[n_pins / 2]));
        BAD(pgas_array_pin(array, first + (uint64_t)n_pins * chunk, PGAS_ARRAY_READ, 0,
                           &pins[n_pins / 2]));
        while (n_pins > 0)
            BAD(pgas_array_unpin(&pins[--n_pins]));
    }
    BAD(pgas_barrier(NULL));
    BAD(pgas_array_destroy(array));
    spmd_is_int(crew_faults(), 0,
                "a cache of which all lines are pinned has no room, and has it again");
}

/* ---- others' wishes ---- */

/* While rank 0 has a chunk of a rank pinned, of the last one or its own, the others set, apply and
 * read it. They ring first; what rank 0 sees stays as it is until it lets go, and then their wishes
 * come true. */
static void keeps_still(pgas_array_mode_t mode, int home)
{
    pgas_array_t *array = make_array(8, 3);
    uint64_t i = 0, value = 0, n_changed = 0;
    bool alone = pgas_n_nodes() == n_ranks; /* threads of the same node need not wait for a pin */
    BAD(pgas_array_range(array, home, &i, &value));
    n_rung = 0;
    BAD(pgas_barrier(NULL));
    if (me == 0) {
        pgas_array_pin_t pin;
        BAD(pgas_array_pin(array, i, mode,
                           mode == PGAS_ARRAY_OPERATE ? PGAS_OP(PGAS_ADD, PGAS_U64) : 0, &pin));
        BAD(pgas_barrier(NULL));
        volatile uint64_t *data = pin.data;
        while (__atomic_load_n(&n_rung, __ATOMIC_ACQUIRE) < n_ranks - 1)
            crew_serve();
        for (int k = 0; k < 300; k++) { /* their wishes arrive meanwhile */
            crew_serve();
            for (uint64_t x = 0; x < pin.n; x++)
                n_changed += data[x] != 0;
        }
        crew_judge(n_changed == 0 || !alone, "what is pinned changed");
        if (mode == PGAS_ARRAY_WRITE && pin.n > 1)
            data[1] = 55;
        if (mode == PGAS_ARRAY_OPERATE && pin.n > 1)
            data[1] += 55;
        BAD(pgas_array_unpin(&pin));
    } else {
        BAD(pgas_barrier(NULL));
        BAD(pgas_call(0, rung, NULL, 0, NULL));
        if (me % 2)
            BAD(pgas_array_set_u64(array, i, 7));
        else
            BAD(pgas_array_apply_u64(array, i, PGAS_MAX, 7));
        if (alone && mode != PGAS_ARRAY_READ) {
            BAD(pgas_array_get_u64(array, i + 1, &value));
            crew_judge(value == 55, "who waited for a pin sees what it did");
        }
    }
    BAD(pgas_barrier(NULL));
    BAD(pgas_array_get_u64(array, i, &value));
    crew_judge(value == 7, "a wish comes true after the pin");
    BAD(pgas_barrier(NULL));
    BAD(pgas_array_destroy(array));
}

static void against_others(void)
{
    for (int home = 0; home < n_ranks; home += n_ranks - 1) {
        keeps_still(PGAS_ARRAY_READ, home);
        keeps_still(PGAS_ARRAY_WRITE, home);
        keeps_still(PGAS_ARRAY_OPERATE, home);
    }
    spmd_is_int(crew_faults(), 0, "a pinned chunk does not change, others have it afterwards");
}

/* ---- walks, prefetch ---- */

static void walks(void)
{
    pgas_array_t *array = make_array(4, 3);
    uint64_t n = pgas_array_n_elems(array), first, end;
    pgas_array_walk_t w;
    for (int k = 0; k < 60; k++) {
        uint64_t from = (uint64_t)(k * 29) % n, count = (uint64_t)(k * 13) % (n - from + 1),
                 at = from;
        pgas_array_mode_t mode = k % 5 == 4 ? PGAS_ARRAY_OPERATE : PGAS_ARRAY_READ;
        BAD(pgas_array_walk_begin(array, from, count, mode,
                                  mode == PGAS_ARRAY_OPERATE ? PGAS_OP(PGAS_MAX, PGAS_U32) : 0,
                                  &w));
        while (pgas_array_walk_next(&w)) {
            span_of(array, at, &first, &end);
            end = end < from + count ? end : from + count;
            crew_judge(w.first == at && w.n == end - at && w.data, "a step of a walk");
            at += w.n;
            if (k % 7 == 6 && at > from + count / 2)
                break; /* the end may come early */
        }
        BAD(pgas_array_walk_end(&w));
        crew_judge(at == from + count || k % 7 == 6, "a walk over a range");
        if (k % 3 == 0)
            BAD(pgas_array_prefetch(array, from, count, mode,
                                    mode == PGAS_ARRAY_OPERATE ? PGAS_OP(PGAS_MAX, PGAS_U32) : 0,
                                    NULL));
    }
    BAD(pgas_barrier(NULL));
    /* another one's */
    uint64_t share = n / (uint64_t)n_ranks, begin = (uint64_t)(job_right()) * share;
    uint64_t mine = me == n_ranks - 2 ? n - begin : share;
    BAD(pgas_array_prefetch(array, begin, mine, PGAS_ARRAY_WRITE, 0, NULL));
    BAD(pgas_array_walk_begin(array, begin, mine, PGAS_ARRAY_WRITE, 0, &w));
    while (pgas_array_walk_next(&w))
        for (uint64_t k = 0; k < w.n; k++)
            ((uint32_t *)w.data)[k] += (uint32_t)(w.first + k);
    BAD(pgas_array_walk_end(&w));
    BAD(pgas_barrier(NULL));
    BAD(pgas_array_prefetch(array, 0, n, PGAS_ARRAY_READ, 0, NULL));
    for (uint64_t i = 0; i < n; i++) {
        uint32_t value = 1;
        BAD(pgas_array_get_u32(array, i, &value));
        crew_judge(value == i, "what walks wrote");
    }
    GAVE(pgas_array_walk_begin(array, n, 1, PGAS_ARRAY_READ, 0, &w), PGAS_ERR_RANGE);
    GAVE(pgas_array_prefetch(array, n, 1, PGAS_ARRAY_READ, 0, NULL), PGAS_ERR_RANGE);
    BAD(pgas_barrier(NULL));
    BAD(pgas_array_destroy(array));
    spmd_is_int(crew_faults(), 0,
                "walks go over a range once and in order; prefetch harms nothing");
}

/* The home's threads pin and add through the pointer; at the other ranks' request the home adds
 * too. Additions at the same time would be lost. */
static void foreign_accesses(void)
{
    enum { ADDS = 30000 };
    pgas_array_t *array = make_array(8, 3);
    uint64_t one = 1, value = 0, sum = 0;
    int64_t mine = ADDS, all = 0;
    if (me == 0 || pgas_node_of(0) != pgas_node())
        for (int n = 0; n < ADDS; n++)
            BAD(pgas_array_fetch_op(array, 3, PGAS_OP(PGAS_ADD, PGAS_U64), &one, &value));
    else
        mine = 0;
    for (; me == 0 && sum < ADDS * (uint64_t)n_ranks * 2; mine++) {
        pgas_array_pin_t pin;
        if (BAD(pgas_array_pin(array, 3, PGAS_ARRAY_WRITE, 0, &pin)))
            break;
        volatile uint64_t *at = (uint64_t *)pin.data + 3;
        sum = *at;
        *at = sum + 1;
        BAD(pgas_array_unpin(&pin));
    }
    BAD(pgas_allreduce(NULL, &mine, &all, 1, PGAS_I64, PGAS_ADD));
    BAD(pgas_array_get_u64(array, 3, &value));
    crew_judge(value == (uint64_t)all, "what was added");
    BAD(pgas_barrier(NULL));
    BAD(pgas_array_destroy(array));
    spmd_is_int(crew_faults(), 0,
                "no access of another node comes between two through a pin at home");
}

/* ---- fewer lines than pins ---- */

/* Chunk k of the last rank of another node; elements begin at 0 if there is none. */
static bool far_chunk(const pgas_array_t *array, uint64_t k, uint64_t *i_p)
{
    uint64_t first = 0, n = 0;
    int far = -1;
    for (int r = 0; r < n_ranks; r++)
        far = pgas_node_of(r) != pgas_node() ? r : far;
    if (far >= 0)
        BAD(pgas_array_range(array, far, &first, &n));
    *i_p = first + k * chunk;
    return far >= 0;
}

static int n_taken, n_ended, n_refused;

/* One line: the second thread's pin waits until the first one's has ended. */
static void pin_after_another(int who, void *arg)
{
    pgas_array_pin_t pin;
    uint64_t i;
    if (far_chunk(arg, (uint64_t)who, &i) && who == 0) {
        BAD(pgas_array_pin(arg, i, PGAS_ARRAY_READ, 0, &pin));
        __atomic_store_n(&n_taken, 1, __ATOMIC_RELEASE);
        while (!__atomic_load_n(&pgasi_array_of(arg)->want_line.first, __ATOMIC_RELAXED) &&
               !__atomic_load_n(&n_ended, __ATOMIC_ACQUIRE))
            crew_serve();
        crew_judge(n_ended == 0, "a pin ended that had no line");
        BAD(pgas_array_unpin(&pin));
    } else if (far_chunk(arg, (uint64_t)who, &i)) {
        while (!__atomic_load_n(&n_taken, __ATOMIC_ACQUIRE))
            crew_serve();
        if (!BAD(pgas_array_pin(arg, i, PGAS_ARRAY_READ, 0, &pin)))
            BAD(pgas_array_unpin(&pin));
        __atomic_store_n(&n_ended, 1, __ATOMIC_RELEASE);
    }
}

/* Two lines: each thread has one and wants another. The one that asks last is refused, so that
 * neither waits for ever. */
static void pin_crosswise(int who, void *arg)
{
    pgas_array_pin_t first, second;
    uint64_t i, other;
    for (uint64_t n = 0; n < 30; n++) {
        bool far = far_chunk(arg, (n * 5 + 2 * (uint64_t)who) % 8, &i) &&
                   far_chunk(arg, (n * 5 + 2 * (uint64_t)who + 1) % 8, &other);
        if (far)
            BAD(pgas_array_pin(arg, i, PGAS_ARRAY_READ, 0, &first));
        crew_meet(who);
        pgas_status_t status =
            far ? pgas_array_pin(arg, other, PGAS_ARRAY_READ, 0, &second) : PGAS_ERR_NO_MEMORY;
        if (status == PGAS_OK)
            BAD(pgas_array_unpin(&second));
        else
            GAVE(status, PGAS_ERR_NO_MEMORY);
        __atomic_add_fetch(&n_refused, status != PGAS_OK, __ATOMIC_RELAXED);
        if (far)
            BAD(pgas_array_unpin(&first));
        crew_meet(who);
        crew_judge(who > 0 || n_refused == (far ? 1 : 2), "one of two is refused");
        if (who == 0)
            n_refused = 0;
        crew_meet(who);
    }
}

static void all_want_more(void)
{
    pgas_array_t *array = crew_array(8, (uint64_t)n_ranks * 8 * chunk, (size_t)chunk, 1, NULL);
    n_taken = n_ended = n_refused = 0;
    crew_run(2, pin_after_another, array);
    BAD(pgas_barrier(NULL));
    BAD(pgas_array_destroy(array));
    spmd_is_int(crew_faults(), 0,
                "a pin waits for a line as long as only pins of others have them");
    array = crew_array(8, (uint64_t)n_ranks * 8 * chunk, (size_t)chunk, 2, NULL);
    crew_run(2, pin_crosswise, array);
    BAD(pgas_barrier(NULL));
    BAD(pgas_array_destroy(array));
    spmd_is_int(crew_faults(), 0,
                "of threads that pin more than the cache has none waits for ever");
}

/* ---- threads inside an access ---- */

/* The holder's second thread is inside an access of an element, in its operator, while the taker
 * asks for the first chunk. The looker is the rank that gives that chunk away: its home, or the one
 * with a line. */
static struct {
    int holder, looker, taker, n_inside, n_let_go;
    uint64_t i; /* of the holder's access */
} inside;
static __thread bool stays;
static pgas_op_t stay_op;
static pgas_handler_t let_go;

static void on_let_go(const void *args, size_t bytes, pgas_thread_t source, void *context)
{
    (void)args;
    (void)bytes;
    (void)source;
    (void)context;
    __atomic_store_n(&inside.n_let_go, 1, __ATOMIC_RELEASE);
}

static void add_and_stay(void *to, const void *from)
{
    uint64_t a, b;
    memcpy(&a, to, sizeof a);
    memcpy(&b, from, sizeof b);
    a += b;
    memcpy(to, &a, sizeof a);
    if (!stays)
        return;
    __atomic_store_n(&inside.n_inside, 1, __ATOMIC_RELEASE);
    while (!__atomic_load_n(&inside.n_let_go, __ATOMIC_ACQUIRE))
        sched_yield();
}

/* Whether the first chunk waits for a thread inside, at this rank. Serving. */
static bool waits(const pgasi_array_t *a)
{
    pgasi_array_location_t place = pgasi_array_locate(&a->map, 0);
    if (place.home == me)
        return a->dir[place.index].closed == 1;
    uint32_t number = a->line_of[place.chunk];
    return number && a->line[number - 1].closed == 1;
}

static void look(pgas_array_t *array, uint64_t n_before)
{
    pgas_array_info_t info = { .size = sizeof info };
    do {
        crew_serve();
        BAD(pgas_array_info(array, &info));
    } while (info.recalls == n_before);
    pgasi_path_state_t before = pgasi_serve_begin();
    pgasi_array_poll();
    crew_judge(waits(pgasi_array_of(array)) == (inside.i == 0),
               "a chunk waits for a thread that is inside it, and for no other");
    pgasi_serve_end(before);
    BAD(pgas_call(inside.holder, let_go, NULL, 0, NULL));
}

static bool may_combine(const pgas_array_t *array)
{
    uint64_t rights = pgas_array_rights(pgas_array_mapping(array, inside.i));
    return (rights & PGAS_ARRAY_RIGHT_CHANGE) ||
           ((rights & PGAS_ARRAY_RIGHT_COMBINE) && rights >> 32 == stay_op);
}

static void stay_inside(int who, void *array)
{
    uint64_t one = 1;
    pgas_array_info_t info = { .size = sizeof info };
    pgas_array_pin_t pin;
    /* the second time, threads that share the chunk have entries for the operator */
    for (int k = 0; k < 2; k++) {
        if (me == inside.looker || me == inside.holder)
            BAD(pgas_array_apply(array, me == inside.looker ? 0 : inside.i, stay_op, &one));
        crew_meet(who);
    }
    if (who == 1 && me == inside.holder) {
        stays =
            crew_judge(may_combine(array), "threads that share a chunk operate without its lock");
        BAD(pgas_array_apply(array, inside.i, stay_op, &one));
        __atomic_store_n(&inside.n_inside, 1, __ATOMIC_RELEASE);
    }
    if (who == 1)
        return;
    BAD(pgas_array_info(array, &info));
    while (me == inside.holder && !__atomic_load_n(&inside.n_inside, __ATOMIC_ACQUIRE))
        crew_serve();
    BAD(pgas_barrier(NULL));
    if (me == inside.looker)
        look(array, info.recalls);
    if (me != inside.taker || BAD(pgas_array_pin(array, 0, PGAS_ARRAY_WRITE, 0, &pin)))
        return;
    uint64_t n_added = 4;
    if (inside.i == 0)
        n_added = inside.looker == inside.holder ? 5 : 9;
    crew_judge(*(uint64_t *)pin.data == n_added, "what the thread inside has added");
    BAD(pgas_array_unpin(&pin));
}

static void kept_by_access(pgas_array_mode_t mode, int holder, uint64_t i, int looker, int taker,
                           const char *what)
{
    pgas_array_t *array = crew_array(8, (uint64_t)n_ranks * 1024, 512, 3, NULL);
    pgas_array_pin_t pin;
    inside.holder = holder;
    inside.looker = looker;
    inside.taker = taker;
    inside.i = i;
    inside.n_inside = inside.n_let_go = 0;
    if (me == looker) { /* it has the chunk from now on */
        BAD(pgas_array_pin(array, 0, mode, stay_op, &pin));
        BAD(pgas_array_unpin(&pin));
    }
    crew_run(2, stay_inside, array);
    BAD(pgas_array_destroy(array));
    spmd_is_int(crew_faults(), 0, "%s", what);
}

static void accesses_keep(void)
{
    pgas_op_def_t def = { .elem_bytes = 8, .identity = &(uint64_t){ 0 }, .combine = add_and_stay };
    BAD(pgas_op_register("t.stay", &def, &stay_op));
    int last = n_ranks - 1, neighbour = n_ranks / pgas_n_nodes() - 1;
    const pgas_array_mode_t writes = PGAS_ARRAY_WRITE, operates = PGAS_ARRAY_OPERATE;
    kept_by_access(writes, neighbour, 0, 0, last,
                   "a home gives a chunk away when no thread of its node is inside");
    kept_by_access(writes, last, 0, last, 0, "and a cache its line, when no thread of its rank is");
    kept_by_access(operates, last, 0, last, 0, "also a line of operands");
    kept_by_access(writes, last - 1, (uint64_t)(last - 1) * 1024 + 512, last, 0,
                   "whatever threads of other ranks do");
}

int main(int argc, char **argv)
{
    pgas_handler_register("t.rung", on_rung, NULL, NULL, &rung);
    pgas_handler_register("t.let_go", on_let_go, NULL, NULL, &let_go);
    job_begin(&argc, &argv, 26);
    for (chunk = 8; chunk <= 512; chunk *= 64) {
        spmd_diag("chunks of %d elements", (int)chunk);
        spans();
        writes_and_operands();
        nested();
        own_deadlocks();
        by_neighbours();
        a_full_cache();
        against_others();
        foreign_accesses();
        all_want_more();
        walks();
    }
    accesses_keep();
    return job_end();
}
