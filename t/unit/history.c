/* what: The checker of histories accepts those that a plain key could have given, in any overlap,
 *       and refuses each planted error: a stale read, a lost update, a value that nobody wrote, two
 *       successful insertions, a delete in the wrong order, a repeated version. 2000 operations of
 *       8 threads need few configurations.
 * source: t/history.h; the made histories come from a plain key, with seeds */
#include "t/history.h"
#include "t/random.h"
#include "t/tap.h"

#define OPS_MAX 2000

/* Short forms: times, then what. */
#define AT(b, e)         .begin = (b), .end = (e)
#define GET(x, ver)      .kind = HISTORY_GET, .value = (x), .version = (ver)
#define MISS             .kind = HISTORY_GET, .outcome = HISTORY_NOT_FOUND
#define PUT(x, ver)      .kind = HISTORY_PUT, .value = (x), .version = (ver)
#define DELETE           .kind = HISTORY_DELETE
#define ADD(x, was, ver) .kind = HISTORY_ADD, .value = (x), .before = (was), .version = (ver)
#define INSERT(x, ver)   PUT(x, ver), .condition = HISTORY_IF_ABSENT
#define CAS(x, old, ver) PUT(x, ver), .condition = HISTORY_IF_VERSION, .expected = (old)

typedef struct {
    const char *name;
    history_verdict_t want;
    history_op_t op[6];
} case_t;

static const case_t cases[] = {
    { "one read of an absent key", HISTORY_GOOD, { { AT(1, 2), MISS } } },
    { "a write and a read", HISTORY_GOOD, { { AT(1, 2), PUT(7, 1) }, { AT(3, 4), GET(7, 1) } } },
    { "a read may see a write that has not ended, and a later read too",
      HISTORY_GOOD,
      { { AT(1, 9), PUT(7, 1) },
        { AT(2, 3), MISS },
        { AT(4, 5), GET(7, 1) },
        { AT(6, 7), GET(7, 1) } } },
    { "but not one read the new value and the next one the old value",
      HISTORY_BAD,
      { { AT(1, 9), PUT(7, 1) }, { AT(2, 3), GET(7, 1) }, { AT(4, 5), MISS } } },
    { "writes that overlap have any order",
      HISTORY_GOOD,
      { { AT(1, 9), PUT(7, 1) }, { AT(1, 9), PUT(8, 2) }, { AT(10, 11), GET(7, 1) } } },
    { "but only one",
      HISTORY_BAD,
      { { AT(1, 9), PUT(7, 1) },
        { AT(1, 9), PUT(8, 2) },
        { AT(10, 11), GET(7, 1) },
        { AT(12, 13), GET(8, 2) } } },
    { "an end and a begin at the same time overlap",
      HISTORY_GOOD,
      { { AT(1, 5), PUT(7, 1) }, { AT(5, 6), MISS } } },
    { "a stale read",
      HISTORY_BAD,
      { { AT(1, 2), PUT(7, 1) }, { AT(3, 4), PUT(8, 2) }, { AT(5, 6), GET(7, 1) } } },
    { "a stale read of an absent key",
      HISTORY_BAD,
      { { AT(1, 2), PUT(7, 1) }, { AT(3, 4), MISS } } },
    { "the right value with an old version",
      HISTORY_BAD,
      { { AT(1, 2), PUT(7, 1) }, { AT(3, 4), PUT(7, 2) }, { AT(5, 6), GET(7, 1) } } },
    { "a value that nobody wrote",
      HISTORY_BAD,
      { { AT(1, 2), PUT(7, 1) }, { AT(3, 4), GET(9, 1) } } },
    { "a lost update", HISTORY_BAD, { { AT(1, 5), ADD(1, 0, 1) }, { AT(2, 6), ADD(1, 0, 2) } } },
    { "updates one after the other",
      HISTORY_GOOD,
      { { AT(1, 5), ADD(1, 2, 2) }, { AT(2, 6), ADD(2, 0, 1) }, { AT(7, 8), GET(3, 2) } } },
    { "two successful insertions",
      HISTORY_BAD,
      { { AT(1, 5), INSERT(7, 1) }, { AT(2, 6), INSERT(8, 2) } } },
    { "one of two insertions",
      HISTORY_GOOD,
      { { AT(1, 5), INSERT(7, 1) }, { AT(2, 6), INSERT(8, 1), .outcome = HISTORY_EXISTS } } },
    { "an insertion that is refused without a reason",
      HISTORY_BAD,
      { { AT(1, 5), INSERT(7, 0), .outcome = HISTORY_EXISTS } } },
    { "a delete that has ended before a read of the value",
      HISTORY_BAD,
      { { AT(1, 2), PUT(7, 1) }, { AT(3, 4), DELETE }, { AT(5, 6), GET(7, 1) } } },
    { "a delete that overlaps the read",
      HISTORY_GOOD,
      { { AT(1, 2), PUT(7, 1) }, { AT(3, 6), DELETE }, { AT(5, 6), GET(7, 1) } } },
    { "two deletes of one insertion",
      HISTORY_BAD,
      { { AT(1, 2), PUT(7, 1) }, { AT(3, 6), DELETE }, { AT(3, 6), DELETE } } },
    { "a delete that finds nothing, behind a write",
      HISTORY_BAD,
      { { AT(1, 2), PUT(7, 1) }, { AT(3, 4), DELETE, .outcome = HISTORY_NOT_FOUND } } },
    { "compare-and-swap of the version",
      HISTORY_GOOD,
      { { AT(1, 2), PUT(7, 1) }, { AT(3, 8), CAS(8, 1, 2) }, { AT(3, 8), CAS(9, 2, 3) } } },
    { "two swaps of one version",
      HISTORY_BAD,
      { { AT(1, 2), PUT(7, 1) }, { AT(3, 8), CAS(8, 1, 2) }, { AT(3, 8), CAS(9, 1, 3) } } },
    { "a swap that is refused without a reason",
      HISTORY_BAD,
      { { AT(1, 2), PUT(7, 1) }, { AT(3, 8), CAS(8, 1, 0), .outcome = HISTORY_MISMATCH } } },
    { "a refused swap reports the version that it wanted",
      HISTORY_BAD,
      { { AT(1, 2), PUT(7, 0) }, { AT(3, 8), CAS(8, 1, 1), .outcome = HISTORY_MISMATCH } } },
    { "a write without a version has any, but only one",
      HISTORY_BAD,
      { { AT(1, 2), PUT(7, 0) }, { AT(3, 4), GET(7, 5) }, { AT(5, 6), GET(7, 6) } } },
    { "a version that is used again after a delete",
      HISTORY_BAD,
      { { AT(1, 2), PUT(7, 1) }, { AT(3, 4), DELETE }, { AT(5, 6), PUT(7, 1) } } },
    { "a write if present, where nothing is",
      HISTORY_GOOD,
      { { AT(1, 2), PUT(7, 0), .condition = HISTORY_IF_PRESENT, .outcome = HISTORY_NOT_FOUND } } },
};

static size_t case_length(const case_t *c)
{
    size_t n = 0;
    while (n < 6 && c->op[n].end != 0)
        n++;
    return n;
}

/* Each case in the order of the table, and in the opposite order. */
static void small_histories(void)
{
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        history_op_t turned[6];
        size_t n = case_length(&cases[i]);
        for (size_t k = 0; k < n; k++)
            turned[k] = cases[i].op[n - 1 - k];
        ok(history_check(cases[i].op, n, NULL, NULL) == cases[i].want &&
               history_check(turned, n, NULL, NULL) == cases[i].want,
           "%s: %s", cases[i].name, cases[i].want == HISTORY_GOOD ? "good" : "bad");
    }
}

static void begins_with_a_value(void)
{
    history_state_t first = { .value = 7, .version = 3, .present = true };
    history_op_t op = { AT(1, 2), GET(7, 3) };
    ok(history_check(&op, 1, &first, NULL) == HISTORY_GOOD &&
           history_check(&op, 1, NULL, NULL) == HISTORY_BAD,
       "a key may have a value before its history");
}

/* ---- made histories ---- */

typedef struct {
    history_op_t op[OPS_MAX + 64];
    size_t n;
    uint64_t last_version;
    history_state_t key;
} made_t;

static history_op_t draw_op(const made_t *m, int thread)
{
    history_op_t op = { .thread = thread, .value = (int64_t)below(1000000) };
    switch (below(8)) {
    case 0:
        op.kind = HISTORY_DELETE;
        break;
    case 1:
        op.kind = HISTORY_ADD;
        break;
    case 2:
        op.condition = HISTORY_IF_ABSENT;
        op.kind = HISTORY_PUT;
        break;
    case 3:
        op.kind = HISTORY_PUT;
        break;
    case 4:
    case 5:
        op.kind = HISTORY_PUT;
        op.condition = HISTORY_IF_VERSION;
        op.expected = m->last_version - below(2 + m->last_version / 2) / 2;
        break;
    default:
        op.kind = HISTORY_GET;
    }
    return op;
}

/* Carries an operation out on the plain key, and notes its result. history_step judges: the only
 * result that it accepts is the right one. */
static void take_effect(made_t *m, history_op_t *op)
{
    bool present = m->key.present;
    if (op->kind == HISTORY_GET)
        op->value = m->key.value;
    op->before = present ? m->key.value : 0;
    for (int outcome = HISTORY_DONE; outcome <= HISTORY_MISMATCH; outcome++) {
        bool new_version = outcome == HISTORY_DONE && op->kind != HISTORY_GET;
        op->outcome = (history_outcome_t)outcome;
        op->version = new_version ? m->last_version + 1 : m->key.version;
        if (op->kind == HISTORY_DELETE && outcome == HISTORY_DONE)
            op->version = 0;
        if (history_step(&m->key, op)) {
            m->last_version += new_version && op->version != 0;
            return;
        }
    }
    bail("no result fits");
}

/* n operations of some threads. At each tick one thread begins, takes effect or ends. */
static void make(made_t *m, size_t n, int n_threads)
{
    enum { IDLE, BEGUN, EFFECTIVE } phase[64] = { IDLE };
    history_op_t doing[64];
    *m = (made_t){ .n = 0 };
    for (uint64_t now = 1; m->n < n; now++) {
        int t = below_int(n_threads);
        if (phase[t] == IDLE) {
            doing[t] = draw_op(m, t);
            doing[t].begin = now;
            phase[t] = BEGUN;
        } else if (phase[t] == BEGUN) {
            take_effect(m, &doing[t]);
            phase[t] = EFFECTIVE;
        } else {
            doing[t].end = now;
            m->op[m->n++] = doing[t];
            phase[t] = IDLE;
        }
    }
    /* What has taken effect belongs to the history. */
    for (int t = 0; t < n_threads; t++) {
        if (phase[t] == EFFECTIVE) {
            doing[t].end = UINT64_MAX;
            m->op[m->n++] = doing[t];
        }
    }
}

static void short_made_histories(made_t *m)
{
    int n_good = 0;
    for (int i = 0; i < 2000; i++) {
        make(m, 1 + below(60), 1 + below_int(8));
        n_good += history_check(m->op, m->n, NULL, NULL) == HISTORY_GOOD;
    }
    is_int(n_good, 2000, "2000 short histories of up to 8 threads are good");
}

static void forget_versions(made_t *m)
{
    for (size_t i = 0; i < m->n; i++)
        if (m->op[i].condition != HISTORY_IF_VERSION)
            m->op[i].version = 0;
}

static void long_made_histories(made_t *m, bool with_versions)
{
    int n_good = 0;
    size_t most = 0;
    clock_t begin = clock();
    for (int i = 0; i < 20; i++) {
        history_report_t report;
        make(m, OPS_MAX, 8);
        if (!with_versions)
            forget_versions(m);
        n_good += history_check(m->op, m->n, NULL, &report) == HISTORY_GOOD;
        most = report.n_configurations > most ? report.n_configurations : most;
    }
    diag("at most %zu configurations, %.0f ms for 20 histories", most,
         (double)(clock() - begin) * 1e3 / CLOCKS_PER_SEC);
    ok(n_good == 20 && most < 200000, "20 histories of %d operations of 8 threads are good%s",
       OPS_MAX, with_versions ? "" : ", without versions");
}

/* ---- a search that tries all orders ---- */

static bool any_order(const history_op_t *ops, size_t n, unsigned done, history_state_t key)
{
    if (done + 1 == 1u << n)
        return true;
    for (size_t i = 0; i < n; i++) {
        bool first = !(done >> i & 1);
        for (size_t k = 0; k < n && first; k++)
            first = done >> k & 1 || ops[k].end >= ops[i].begin;
        history_state_t next = key;
        if (first && history_step(&next, &ops[i]) && any_order(ops, n, done | 1u << i, next))
            return true;
    }
    return false;
}

/* Small histories of few values, most of them with a wrong result. */
static void agrees_with_all_orders(made_t *m)
{
    int n_different = 0, n_good = 0;
    for (int i = 0; i < 20000; i++) {
        make(m, 4 + below(4), 4);
        forget_versions(m);
        for (size_t k = 0; k < m->n; k++) {
            m->op[k].expected = 1 + below(3);
            m->op[k].value %= 2;
            m->op[k].before %= 2;
        }
        bool want = any_order(m->op, m->n, 0, (history_state_t){ .present = false });
        n_good += want;
        n_different += want != (history_check(m->op, m->n, NULL, NULL) == HISTORY_GOOD);
    }
    diag("%d of 20000 are good", n_good);
    ok(n_different == 0 && n_good > 1000 && n_good < 19000,
       "20000 small histories: the verdict of a search through all orders");
}

/* ---- one planted error in a long history ---- */

typedef bool (*plant_fn_t)(made_t *m, size_t i);

static bool is_write(const history_op_t *op)
{
    return op->outcome == HISTORY_DONE && op->kind == HISTORY_PUT;
}

/* Finds the last write that has ended before `time`; its value may still be the right one. */
static const history_op_t *write_before(const made_t *m, uint64_t time, uint64_t other_version)
{
    const history_op_t *found = NULL;
    for (size_t i = 0; i < m->n; i++)
        if (is_write(&m->op[i]) && m->op[i].end < time && m->op[i].version + 20 < other_version &&
            (!found || found->end < m->op[i].end))
            found = &m->op[i];
    return found;
}

static bool stale_read(made_t *m, size_t i)
{
    history_op_t *op = &m->op[i];
    if (op->kind != HISTORY_GET || op->outcome != HISTORY_DONE)
        return false;
    const history_op_t *old = write_before(m, op->begin, op->version);
    if (!old)
        return false;
    op->value = old->value;
    op->version = old->version;
    return true;
}

static bool lost_update(made_t *m, size_t i)
{
    history_op_t *op = &m->op[i];
    if (op->kind != HISTORY_ADD)
        return false;
    op->before += op->value;
    return true;
}

static bool never_written(made_t *m, size_t i)
{
    history_op_t *op = &m->op[i];
    if (op->kind != HISTORY_GET || op->outcome != HISTORY_DONE)
        return false;
    op->value = -5;
    return true;
}

static bool double_insert(made_t *m, size_t i)
{
    history_op_t *op = &m->op[i];
    if (op->condition != HISTORY_IF_ABSENT || op->outcome != HISTORY_EXISTS)
        return false;
    op->outcome = HISTORY_DONE;
    op->version = m->last_version + 100;
    return true;
}

/* A delete that happened is noted as if it had come a hundred ticks later. */
static bool late_delete(made_t *m, size_t i)
{
    history_op_t *op = &m->op[i];
    if (op->kind != HISTORY_DELETE || op->outcome != HISTORY_DONE || op->end == UINT64_MAX)
        return false;
    op->begin = op->end + 100;
    op->end = op->begin + 1;
    return true;
}

/* Operations that overlap the changed one allow some of the changes, so not all are errors. */
static void planted(made_t *m, plant_fn_t plant, int least, const char *name)
{
    int n_bad = 0, n_planted = 0;
    for (int i = 0; i < 20; i++) {
        make(m, OPS_MAX, 8);
        size_t at = m->n / 2, from = m->n / 2;
        while (at < m->n && !plant(m, at))
            at++;
        n_planted += at < m->n;
        history_report_t report;
        bool bad = history_check(m->op, m->n, NULL, &report) == HISTORY_BAD;
        n_bad += bad && report.n_ordered > from / 2 && report.n_ordered < m->n;
    }
    diag("%s: %d planted, %d found", name, n_planted, n_bad);
    ok(n_planted == 20 && n_bad >= least, "%s in one of %d operations is found", name, OPS_MAX);
}

int main(void)
{
    static made_t m;
    plan((int)(sizeof cases / sizeof cases[0]) + 10);
    pgasi_rng_seed(&rng, tap_seed(1));
    small_histories();
    begins_with_a_value();
    short_made_histories(&m);
    long_made_histories(&m, true);
    long_made_histories(&m, false);
    agrees_with_all_orders(&m);
    planted(&m, stale_read, 20, "a stale read");
    planted(&m, lost_update, 20, "a lost update");
    planted(&m, never_written, 20, "a value that nobody wrote");
    planted(&m, double_insert, 12, "a second insertion");
    planted(&m, late_delete, 12, "a delete in the wrong order");
    return done();
}
