/* An array against a plain one.
 *   what:   All threads of all ranks use elements of any size by every function at the same time.
 *           Caches have a few tiny chunks. The transport delays, reorders and refuses. Each read
 *           gives the value of the plain array. Each contribution is applied once. No value of
 *           fetch_op and compare_swap is given twice. No value is torn. A thread sees its own
 *           operations, and no sum decreases.
 *   np:     2 3 4 5 6 7 3
 *   nodes:  1 2 3 1 2 1 1
 *   tls:    posix posix tcp,self posix posix posix tcp,self
 *   env:    PGAS_FAULT=delay=5,reorder=5,again=2 | PGAS_SERVICE_THREADS=1 |
 *   env:    PGAS_CHUNK_SIZE=4K PGAS_CALL_MAX=1K PGAS_CHUNKS_MAX=2
 *   env:    PGAS_FAULT=delay=5,reorder=5,again=2 |
 *   env:    PGAS_SERVICE_THREADS=0 | PGAS_LANES=2 PGAS_FAR_CALLS=put
 *   env:    PGAS_FAULT=delay=9,reorder=9,again=3 |
 *   env:    PGAS_FAR_CALLS=message PGAS_SERVICE_THREADS=0 |
 *   env:    PGAS_FAR_CALLS=put PGAS_FAULT=delay=5,reorder=5,again=2
 *   source: pgas/array.h; `make soak` runs more (ARRAY_ROUNDS: arrays with settings drawn anew,
 *   ARRAY_STEPS: of a thread in
 *           a phase)
 */
#include "array/audit.h"
#include "t/random.h"
#include "t/spmd/array_model.h"

static model_t model;
static uint64_t n_phases, n_evictions, n_fetches, n_recalls;

/* ---- a phase of operands ---- */

/* The thread of this node that may use a pointer to contributions of element i; none if all threads
 * apply to it. */
static bool plain_operands(const model_t *m, uint64_t i, int who)
{
    uint64_t h = model_hash(m, 3, i);
    return h % 5 == 0 && (int)(h / 5 % (uint64_t)(pgas_node_size() * m->n_threads)) ==
                             pgas_node_rank() * m->n_threads + who;
}

static bool by_everybody(const model_t *m, uint64_t i)
{
    return !model_is_scalar(m) || model_hash(m, 3, i) % 5 > 0;
}

static void applied(model_t *m, model_thread_t *t, uint64_t i, uint64_t operand)
{
    t->applied[i] = model_combined(model_kind(m, i), t->applied[i], operand);
}

static void operate(model_t *m, model_thread_t *t, uint64_t at, int who)
{
    pgas_array_pin_t pin;
    if (!model_is_scalar(m))
        return;
    pgas_status_t status =
        pgas_array_pin(m->array, at, PGAS_ARRAY_OPERATE, m->op[model_kind(m, at)], &pin);
    if (model_no_pin(m, status, "pin to operate"))
        return;
    for (uint64_t i = pin.first; i < pin.first + pin.n; i++) {
        unsigned char *there = (unsigned char *)pin.data + (i - pin.first) * m->bytes;
        uint64_t operand = model_operand(m, t, i), word;
        if (model_kind(m, i) != model_kind(m, at))
            continue;
        if (by_everybody(m, i) && model_below(t, 4) == 0) {
            model_apply(m, t, i, operand);
        } else if (plain_operands(m, i, who)) {
            word = model_combined(model_kind(m, i), model_word(m, there), operand);
            memcpy(there, &word, m->bytes);
        } else {
            continue;
        }
        applied(m, t, i, operand);
    }
    BAD(pgas_array_unpin(&pin));
}

/* The allowed values of element i while others apply: at least the value that this thread has
 * applied and seen. */
static void look_at_operands(model_t *m, model_thread_t *t, uint64_t i)
{
    unsigned char value[MODEL_BYTES_MAX];
    int kind = model_kind(m, i);
    model_get(m, t, i, value);
    uint64_t word = model_word(m, value), was = model_word(m, model_elem(m, m->is, i));
    if (!model_is_scalar(m)) {
        crew_judge(model_is_whole(m, value), "half a value");
    } else if (kind == KIND_MAX || kind == KIND_MIN) {
        uint64_t least = model_combined(kind, model_combined(kind, t->seen[i], t->applied[i]), was);
        crew_judge(model_combined(kind, word, least) == word,
                   "a maximum or minimum that went back");
        t->seen[i] = word;
    } else if (kind == KIND_ADD && m->bytes >= 4) {
        uint64_t more = (word - was) & model_mask(m);
        crew_judge(more >= t->seen[i] && more >= t->applied[i] && more < 1 << 24,
                   "a sum that went back");
        t->seen[i] = more;
    }
}

static void apply_phase(model_t *m, int who, int n_steps)
{
    model_thread_t *t = &m->thread[who];
    for (uint32_t i = 0; i < m->n; i++)
        t->applied[i] = t->seen[i] = model_kind(m, i) == KIND_MIN ? UINT64_MAX : 0;
    uint64_t base = model_below(t, m->n), span = 1 + model_below(t, 2 * m->chunk);
    for (int k = 0; k < n_steps; k++) {
        uint64_t i =
            model_below(t, 3) ? (base + model_below(t, span)) % m->n : model_below(t, m->n);
        uint64_t what = model_below(t, 10);
        if (what < 6 && by_everybody(m, i)) {
            uint64_t operand = model_operand(m, t, i);
            model_apply(m, t, i, operand);
            applied(m, t, i, operand);
        } else if (what == 8) {
            operate(m, t, i, who);
        } else if (what == 9) {
            look_at_operands(m, t, i);
        }
    }
}

static void share_operands(model_t *m)
{
    static const pgas_op_t ops[] = { PGAS_ADD, PGAS_XOR, PGAS_MAX, PGAS_MIN };
    for (int kind = 0; kind < 4; kind++) {
        for (uint32_t i = 0; i < m->n; i++) {
            m->deltas[i] = kind == KIND_MIN ? UINT64_MAX : 0;
            for (int t = 0; t < m->n_threads; t++)
                m->deltas[i] = model_combined(kind, m->deltas[i], m->thread[t].applied[i]);
        }
        BAD(pgas_allreduce(NULL, m->deltas, m->all, m->n, PGAS_U64, ops[kind]));
        for (uint32_t i = 0; i < m->n; i++)
            if (model_kind(m, i) == kind)
                model_merge(m, model_elem(m, m->is, i), i, m->all[i]);
    }
}

/* ---- a phase of tickets: all add one to a few elements and get numbers ---- */

static uint64_t hot_elem(const model_t *m, int hot)
{
    return model_hash(m, 4, 0) % m->n + (uint64_t)hot * (m->n / MODEL_HOT);
}

static int n_tickets(const model_t *m)
{
    int n = (MODEL_TICKETS_MAX - 6) / (m->n_ranks * m->n_threads);
    return n < 20 ? n : 20;
}

static void one_ticket(model_t *m, model_thread_t *t, int hot)
{
    uint64_t i = hot_elem(m, hot) % m->n, one = 1;
    unsigned char old[MODEL_BYTES_MAX], seen[MODEL_BYTES_MAX], next[MODEL_BYTES_MAX];
    pgas_op_t add = m->op[KIND_ADD];
    if (model_below(t, 2)) {
        BAD(pgas_array_fetch_op(m->array, i, add, &one, old));
    } else {
        model_get(m, t, i, seen);
        for (bool done = false; !done;) {
            memcpy(next, seen, m->bytes);
            uint64_t word = model_word(m, seen) + 1;
            if (model_is_scalar(m))
                memcpy(next, &word, m->bytes);
            else
                add_bytes(next, &one, m->bytes);
            if (BAD(pgas_array_compare_swap(m->array, i, seen, next, old)))
                return;
            done = memcmp(old, seen, m->bytes) == 0;
            memcpy(seen, old, m->bytes);
        }
    }
    unsigned char number = (unsigned char)(old[0] - model_elem(m, m->is, i)[0]);
    crew_judge(model_is_whole(m, old), "half a value");
    __atomic_add_fetch(&m->marks[hot * MODEL_TICKETS_MAX + number], 1, __ATOMIC_RELAXED);
}

static void tickets_phase(model_t *m, int who)
{
    for (int hot = 0; hot < MODEL_HOT; hot++)
        for (int k = 0; k < n_tickets(m); k++)
            one_ticket(m, &m->thread[who], hot);
}

static void share_tickets(model_t *m)
{
    uint32_t n = (uint32_t)(n_tickets(m) * m->n_ranks * m->n_threads);
    BAD(pgas_allreduce(NULL, m->marks, m->all_marks, MODEL_HOT * MODEL_TICKETS_MAX, PGAS_U32,
                       PGAS_ADD));
    for (int hot = 0; hot < MODEL_HOT; hot++) {
        for (uint32_t k = 0; k < MODEL_TICKETS_MAX; k++)
            crew_judge(m->all_marks[hot * MODEL_TICKETS_MAX + (int)k] == (k < n),
                       "a number is given once");
        uint64_t i = hot_elem(m, hot) % m->n, word = model_word(m, model_elem(m, m->is, i)) + n;
        if (model_is_scalar(m))
            memcpy(model_elem(m, m->is, i), &word, m->bytes);
        for (uint32_t k = 0; k < n && !model_is_scalar(m); k++)
            model_merge(m, model_elem(m, m->is, i), i, 1);
    }
    memset(m->marks, 0, MODEL_HOT * MODEL_TICKETS_MAX * sizeof *m->marks);
}

/* ---- all read ---- */

static void read_phase(model_t *m, int who, int n_steps)
{
    model_thread_t *t = &m->thread[who];
    unsigned char value[MODEL_BYTES_MAX];
    for (int k = 0; k < n_steps; k++) {
        uint64_t i = model_below(t, m->n);
        model_get(m, t, i, value);
        crew_judge(memcmp(value, model_elem(m, m->is, i), m->bytes) == 0,
                   "what get gave of others");
    }
    if (model_below(t, 2)) {
        static _Thread_local unsigned char all[MODEL_ELEMS_MAX * MODEL_BYTES_MAX];
        BAD(pgas_array_load(m->array, 0, m->n, all));
        crew_judge(memcmp(all, m->is, (size_t)m->n * m->bytes) == 0, "what load gave of others");
        return;
    }
    pgas_array_walk_t w;
    BAD(pgas_array_walk_begin(m->array, 0, m->n, PGAS_ARRAY_READ, 0, &w));
    uint64_t n = 0;
    for (; pgas_array_walk_next(&w); n += w.n)
        crew_judge(memcmp(w.data, model_elem(m, m->is, w.first), w.n * m->bytes) == 0,
                   "what a walk gave of others");
    if (!model_no_pin(m, pgas_array_walk_end(&w), "walk"))
        crew_judge(n == m->n, "a walk over all");
}

static void share(model_t *m, uint64_t kind)
{
    if (kind < 2)
        model_share_owned(m);
    else if (kind < 4)
        share_operands(m);
    else
        share_tickets(m);
}

/* ---- arrays ---- */

typedef struct {
    int n_phases, n_steps;
} plan_t;

static void play(int who, void *arg)
{
    const plan_t *plan = arg;
    model_t *m = &model;
    pgasi_rng_seed(&m->thread[who].rng,
                   m->seed + (uint64_t)(m->me * CREW_THREADS_MAX + who) * 7919);
    for (int phase = 1; phase <= plan->n_phases; phase++) {
        crew_meet(who);
        if (who == 0) {
            m->phase = (uint64_t)phase;
            m->plain_writes = model_hash(m, 5, 0) % 2;
            memcpy(m->next, m->is, (size_t)m->n * m->bytes);
            n_phases++;
        }
        crew_meet(who);
        int kind = (int)(model_hash(m, 6, 0) % 5);
        if (kind < 2)
            model_own(m, who, plan->n_steps);
        else if (kind < 4)
            apply_phase(m, who, plan->n_steps);
        else
            tickets_phase(m, who);
        crew_meet(who);
        if (who == 0)
            share(m, kind);
        crew_meet(who);
        read_phase(m, who, plan->n_steps / 4);
    }
}

/* Any borders, also between elements of one chunk, and ranks without elements. */
static const uint64_t *draw_offsets(const model_t *m)
{
    static uint64_t offsets[JOB_RANKS_MAX + 1];
    uint64_t how = below(3);
    if (how == 0)
        return NULL;
    for (int r = 1; r < m->n_ranks; r++) {
        uint64_t most = m->n - offsets[r - 1], even = m->n / (uint64_t)m->n_ranks, n = 0;
        if (how == 1)
            n = below(most + 1);
        else if (below(2 * even + 1) < most)
            n = even;
        offsets[r] = offsets[r - 1] + n;
    }
    offsets[m->n_ranks] = m->n;
    return offsets;
}

static void set_up(model_t *m)
{
    static const uint32_t sizes[] = { 8, 1, 24, 4, 3, 2, 100, 8, 12 };
    size_t bytes = (size_t)MODEL_ELEMS_MAX * MODEL_BYTES_MAX;
    m->seed = pgasi_rng_u64(&rng);
    m->n_threads = 1 + below_int(3);
    m->bytes = sizes[below(sizeof sizes / sizeof sizes[0])];
    /* scalars in smaller chunks are not used by plain instructions */
    m->chunk = below(2) ? 1u << below(5) : 512;
    m->n =
        m->chunk < 512 ? 50 + (uint32_t)below(550) : 600 + (uint32_t)below(MODEL_ELEMS_MAX - 600);
    if (!m->is) {
        m->is = job_alloc(bytes);
        m->next = job_alloc(bytes);
        m->deltas = job_alloc(MODEL_ELEMS_MAX * 8);
        m->all = job_alloc(MODEL_ELEMS_MAX * 8);
        m->marks = job_alloc(MODEL_HOT * MODEL_TICKETS_MAX * sizeof *m->marks);
        m->all_marks = job_alloc(MODEL_HOT * MODEL_TICKETS_MAX * sizeof *m->marks);
        m->thread = job_alloc(CREW_THREADS_MAX * sizeof *m->thread);
    }
    size_t n_lines = 3;
    if (!below(3))
        n_lines = below(2) ? 1 : 64;
    m->scarce = n_lines < (size_t)m->n_threads;
    m->array = crew_array(m->bytes, m->n, m->chunk, n_lines, draw_offsets(m));
    model_register(m);
    unsigned char value[MODEL_BYTES_MAX];
    model_value(m, pgasi_rng_u64(&rng), value);
    BAD(pgas_array_fill(m->array, value));
    for (uint32_t i = 0; i < m->n; i++)
        memcpy(model_elem(m, m->is, i), value, m->bytes);
}

static void tear_down(model_t *m)
{
    pgas_array_info_t info = crew_info(m->array);
    n_evictions += info.evictions;
    n_fetches += info.fetches + info.remote_ops;
    n_recalls += info.recalls;
    BAD(pgas_array_destroy(m->array));
}

/* Compares the homes' directories with the caches while no thread uses the array. */
static uint64_t contradictions(const model_t *m)
{
    uint64_t n_wrong = 0;
    BAD(pgasi_array_audit(m->array, &n_wrong));
    return n_wrong;
}

static void rounds(int n, int n_steps)
{
    int n_faults = 0;
    uint64_t n_contradictions = 0;
    for (int i = 0; i < n; i++) {
        plan_t plan = { 2 + below_int(5), n_steps };
        set_up(&model);
        crew_run(model.n_threads, play, &plan);
        int faults = crew_faults();
        if (faults > 0)
            printf("# round %d: %u elements of %u bytes in chunks of %u, %d threads%s\n", i,
                   model.n, model.bytes, model.chunk, model.n_threads,
                   model.scarce ? ", one line" : "");
        n_faults += faults;
        n_contradictions += contradictions(&model);
        tear_down(&model);
    }
    spmd_diag("%llu phases; here %llu evictions, %llu requests, %llu recalls",
              (unsigned long long)n_phases, (unsigned long long)n_evictions,
              (unsigned long long)n_fetches, (unsigned long long)n_recalls);
    spmd_is_int(n_faults + crew_faults(), 0, "%d arrays: everything is as in the plain array", n);
    spmd_ok(pgas_n_nodes() == 1 ||
                (job_any(n_evictions > 0) && job_any(n_fetches > 0) && job_any(n_recalls > 0)),
            "chunks were fetched, evicted and recalled");
    spmd_is_int((long)n_contradictions, 0, "homes and caches agree");
}

/* An owner that its home does not know. */
static void the_audit_can_fail(model_t *m)
{
    pgasi_array_t *a = pgasi_array_of(m->array);
    uint8_t state = a->n_home ? a->dir[0].state : PGASI_H_U;
    int32_t owner = a->n_home ? a->dir[0].owner : 0;
    BAD(pgas_barrier(NULL));
    if (a->n_home) {
        a->dir[0].state = PGASI_H_D;
        a->dir[0].owner = a->rank;
    }
    uint64_t n_wrong = contradictions(m);
    if (a->n_home) {
        a->dir[0].state = state;
        a->dir[0].owner = owner;
    }
    spmd_ok(!a->n_home || n_wrong > 0, "a home that is wrong is noticed");
}

/* A byte that the plain array has wrong, a number given twice, half a value. */
static void the_model_can_fail(void)
{
    plan_t plan = { 1, 40 };
    model_t *m = &model;
    set_up(m);
    m->n_threads = 1;
    crew_run(1, play, &plan);
    int n_faults = crew_faults();
    crew_mute();
    m->is[(size_t)m->n * m->bytes - 1] ^= 1;
    read_phase(m, 0, 0);
    bool noticed = crew_faults() == 1;
    crew_mute();
    m->is[(size_t)m->n * m->bytes - 1] ^= 1;
    read_phase(m, 0, 0);
    spmd_ok(n_faults == 0 && noticed && crew_faults() == 0, "a byte that differs is noticed");
    crew_mute();
    tickets_phase(m, 0);
    m->marks[pgas_rank() == 0 ? 1 : 0]++;
    share_tickets(m);
    spmd_ok(crew_faults() > 0, "a number given twice is noticed");
    unsigned char value[MODEL_BYTES_MAX];
    m->bytes = 24;
    model_value(m, 77, value);
    bool whole = model_is_whole(m, value);
    value[20] ^= 1;
    spmd_ok(whole && !model_is_whole(m, value), "half a value is noticed");
    m->bytes = (uint32_t)crew_info(m->array).elem_bytes;
    the_audit_can_fail(m);
    pgas_barrier(NULL);
    tear_down(m);
}

int main(int argc, char **argv)
{
    const char *n_rounds = getenv("ARRAY_ROUNDS"), *n_steps = getenv("ARRAY_STEPS");
    job_begin(&argc, &argv, 7);
    pgasi_rng_seed(&rng, spmd_seed(1) + 1000 * (uint64_t)spmd_size());
    model.me = pgas_rank();
    model.n_ranks = pgas_n_ranks();
    rounds(n_rounds ? atoi(n_rounds) : 5, n_steps ? atoi(n_steps) : 60);
    the_model_can_fail();
    return job_end();
}
