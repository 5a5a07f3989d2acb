/* A key-value store against a plain table.
 *   what:   50,000 random operations of every kind give what a plain table gives: first one rank
 *           at a time, each on what the others left, then all ranks at the same time on keys of
 *           their own. A plain table that is wrong is noticed.
 *   np:     1 2 3 5 4
 *   nodes:  0 1 2 1 2
 *   env:    PGAS_SERVICE_THREADS=1 | PGAS_FAULT=delay=5,reorder=5,again=2 |
 *   env:    PGAS_CALL_MAX=1K | PGAS_SERVICE_THREADS=0 | PGAS_FAULT=delay=3,reorder=3,again=1
 *   timeout: 240
 *   source: pgas/kvs.h; KVS_STEPS: operations in each of both parts, of all ranks together
 */
#include "pgas/kvs.h"
#include "t/pattern.h"
#include "t/random.h"
#include "t/spmd/kvs_keys.h"

#define KEYS      400 /* of all ranks */
#define BYTES_MAX 12000
#define ITEMS_MAX 24
#define LATER_MS  INT64_C(4000000000000) /* no key expires during the test */

typedef struct {
    bool present;
    uint32_t bytes;
    uint64_t seed; /* of the pattern; of 8 bytes the value itself */
    uint64_t version;
    int64_t expires_ms;
} entry_t;

static pgas_kvs_t *kvs;
static entry_t table[KEYS];
static unsigned char room[ITEMS_MAX][BYTES_MAX];
static char names[KEYS][80];
static size_t name_bytes[KEYS];
static int n_wrong, damaged; /* the step at which the table becomes wrong; 0: none */

static void judge(bool good, const char *what, int key)
{
    if (!good && n_wrong++ < 5)
        printf("# rank %d, key %d: %s\n", me, key, what);
}

/* ---- keys and values ---- */

/* Some names are long, some begin as others do, and all have zeros. */
static void make_names(void)
{
    for (int i = 0; i < KEYS; i++) {
        memset(names[i], 0, sizeof names[i]);
        memcpy(names[i] + 1, &i, sizeof i);
        name_bytes[i] = i % 7 == 0 ? sizeof names[i] : 5 + (size_t)(i % 9);
    }
}

static size_t draw_bytes(void)
{
    static const uint32_t most[] = { 9, 33, 130, 700, 3000, BYTES_MAX };
    return below(3) ? 8 : below(most[below(6)]);
}

static void fill(unsigned char *value, uint64_t seed, size_t bytes)
{
    if (bytes == 8)
        memcpy(value, &seed, 8);
    else
        pattern_fill(value, seed, bytes);
}

static bool is_filled(const unsigned char *value, uint64_t seed, size_t bytes)
{
    return bytes == 8 ? memcmp(value, &seed, 8) == 0 : pattern_matches(value, seed, bytes);
}

/* ---- the plain table ---- */

static pgas_status_t refusal(const entry_t *e, const pgas_kvs_item_t *item)
{
    bool wants = item->condition != PGAS_KVS_ALWAYS && item->condition != PGAS_KVS_IF_ABSENT;
    if (item->op == PGAS_KVS_ADD)
        return e->present && e->bytes != 8 ? PGAS_ERR_MISMATCH : PGAS_OK;
    if (!e->present && (item->op != PGAS_KVS_PUT || wants))
        return PGAS_ERR_NOT_FOUND;
    if (item->op == PGAS_KVS_GET)
        return item->capacity < e->bytes ? PGAS_ERR_RANGE : PGAS_OK;
    if (e->present && item->condition == PGAS_KVS_IF_ABSENT)
        return PGAS_ERR_EXISTS;
    if (item->condition == PGAS_KVS_IF_VERSION && e->version != item->version)
        return PGAS_ERR_MISMATCH;
    return PGAS_OK;
}

/* What the table does for an item whose operation has begun; `seed` is of a new value. */
static pgas_status_t apply(entry_t *e, const pgas_kvs_item_t *item, uint64_t seed)
{
    pgas_status_t status = refusal(e, item);
    if (status != PGAS_OK || item->op == PGAS_KVS_GET)
        return status;
    if (item->op == PGAS_KVS_DELETE) {
        *e = (entry_t){ .present = false };
        return PGAS_OK;
    }
    if (item->op == PGAS_KVS_ADD)
        seed += e->present ? e->seed : 0;
    if (!e->present)
        e->expires_ms = 0;
    if (item->op == PGAS_KVS_PUT && !(item->keep_expiry && e->present))
        e->expires_ms = item->expires_ms;
    e->present = true;
    e->bytes = (uint32_t)item->value_bytes;
    e->seed = seed;
    return PGAS_OK;
}

/* ---- one run ---- */

typedef struct {
    pgas_kvs_item_t item;
    pgas_status_t want;
    entry_t before, after;
    uint64_t seed;
    int key;
} step_t;

static void draw_step(step_t *s, int key, int place)
{
    pgas_kvs_item_t *item = &s->item;
    const entry_t *e = &table[key];
    s->key = key;
    s->seed = below(2) ? below(1000) : pgasi_rng_u64(&rng);
    *item = (pgas_kvs_item_t){ .key = names[key], .key_bytes = name_bytes[key] };
    item->value = room[place];
    uint64_t what = below(10);
    if (what < 4) {
        item->capacity = below(10) ? BYTES_MAX : below(20);
    } else if (what < 8) {
        item->op = PGAS_KVS_PUT;
        item->value_bytes = draw_bytes();
        fill(room[place], s->seed, item->value_bytes);
        item->expires_ms = below(4) ? 0 : LATER_MS + (int64_t)below(1000);
        item->keep_expiry = below(3) == 0;
    } else {
        item->op = what == 8 ? PGAS_KVS_DELETE : PGAS_KVS_ADD;
        item->value_bytes = item->op == PGAS_KVS_ADD ? 8 : 0;
        memcpy(room[place], &s->seed, 8);
    }
    if (item->op == PGAS_KVS_PUT || item->op == PGAS_KVS_DELETE)
        item->condition = (pgas_kvs_condition_t)(below(2) ? 0 : below(4));
    if (item->op == PGAS_KVS_DELETE && item->condition == PGAS_KVS_IF_ABSENT)
        item->condition = PGAS_KVS_ALWAYS;
    if (item->condition == PGAS_KVS_IF_VERSION)
        item->version = below(4) ? e->version : e->version + 1 - below(3);
}

/* A version that a write of the same run makes is not known before the run. */
static bool needs_version(const step_t *s, int n)
{
    if (s[n].item.condition != PGAS_KVS_IF_VERSION)
        return false;
    for (int i = 0; i < n; i++)
        if (s[i].key == s[n].key)
            return true;
    return false;
}

static void check_get(const step_t *s, const entry_t *e)
{
    const pgas_kvs_item_t *item = &s->item;
    if (item->status == PGAS_OK)
        judge(item->value_bytes == e->bytes && is_filled(item->value, e->seed, e->bytes),
              "another value", s->key);
    if (item->status == PGAS_ERR_RANGE)
        judge(item->value_bytes == e->bytes, "another size", s->key);
    if (item->status == PGAS_OK)
        judge(item->expires_ms == e->expires_ms, "another time", s->key);
}

/* The version is new after a write, and otherwise as it was. */
static void check_version(step_t *s, entry_t *e)
{
    uint64_t version = s->item.version;
    bool writes = s->want == PGAS_OK && s->item.op != PGAS_KVS_GET && s->after.present;
    if (writes)
        judge(version != 0 && version != e->version, "a version that is not new", s->key);
    else if (!s->after.present)
        judge(version == 0, "a version of an absent key", s->key);
    else
        judge(version == e->version, "another version", s->key);
}

static void check_step(step_t *s)
{
    entry_t *e = &table[s->key];
    bool good = s->item.status == s->want;
    judge(good, pgas_status_name(s->item.status), s->key);
    if (!good && n_wrong <= 5)
        printf("#   wanted %s of operation %d with condition %d\n", pgas_status_name(s->want),
               (int)s->item.op, (int)s->item.condition);
    if (s->item.op == PGAS_KVS_GET)
        check_get(s, &s->before);
    if (s->item.op == PGAS_KVS_ADD && s->item.status == PGAS_OK) {
        uint64_t old, want = s->before.present ? s->before.seed : 0;
        memcpy(&old, s->item.value, 8);
        judge(old == want, "another sum before", s->key);
    }
    check_version(s, e);
    *e = s->after;
    e->version = s->item.version;
}

/* The versions of the table are those of the store, so they pass from step to step here. */
static int run_steps(int n, int first, int stride, bool waits)
{
    static step_t s[ITEMS_MAX];
    static pgas_kvs_item_t items[ITEMS_MAX];
    entry_t saved[KEYS];
    pgas_sync_t done = PGAS_SYNC_INIT;
    memcpy(saved, table, sizeof table);
    int k = 0, n_keys = (KEYS - first + stride - 1) / stride;
    for (int i = 0; i < n; i++) {
        int key = first + stride * below_int(below(2) ? n_keys : 4);
        draw_step(&s[k], key, k);
        if (needs_version(s, k))
            continue;
        s[k].before = table[key];
        s[k].want = apply(&table[key], &s[k].item, s[k].seed);
        s[k].after = table[key];
        items[k] = s[k].item;
        k++;
    }
    memcpy(table, saved, sizeof table);
    pgas_status_t status = pgas_kvs_run(kvs, items, (size_t)k, waits ? NULL : &done), first_bad;
    if (!waits && status == PGAS_OK)
        status = pgas_sync_wait(&done, -1);
    first_bad = PGAS_OK;
    for (int i = 0; i < k; i++) {
        s[i].item = items[i];
        check_step(&s[i]);
        if (first_bad == PGAS_OK)
            first_bad = items[i].status;
    }
    judge(status == (waits ? first_bad : PGAS_OK), "the status of the run", -1);
    return k;
}

/* ---- functions for one key ---- */

static void step_alone(int key)
{
    entry_t *e = &table[key];
    size_t bytes = draw_bytes(), got = 0;
    uint64_t seed = pgasi_rng_u64(&rng);
    int64_t old = 0;
    pgas_status_t status;
    switch (below(4)) {
    case 0:
        fill(room[0], seed, bytes);
        status = pgas_kvs_put(kvs, names[key], name_bytes[key], room[0], bytes);
        judge(status == PGAS_OK, "put", key);
        *e = (entry_t){ true, (uint32_t)bytes, seed, 0, 0 };
        break;
    case 1:
        status = pgas_kvs_delete(kvs, names[key], name_bytes[key]);
        judge(status == (e->present ? PGAS_OK : PGAS_ERR_NOT_FOUND), "delete", key);
        *e = (entry_t){ .present = false };
        break;
    case 2:
        status = pgas_kvs_fetch_add(kvs, names[key], name_bytes[key], (int64_t)seed, &old);
        if (e->present && e->bytes != 8) {
            judge(status == PGAS_ERR_MISMATCH, "fetch_add", key);
            break;
        }
        judge(status == PGAS_OK && (uint64_t)old == (e->present ? e->seed : 0), "fetch_add", key);
        *e = (entry_t){ true, 8, (uint64_t)old + seed, 0, e->present ? e->expires_ms : 0 };
        break;
    default:
        status = pgas_kvs_get(kvs, names[key], name_bytes[key], room[0], BYTES_MAX, &got);
        judge(status == (e->present ? PGAS_OK : PGAS_ERR_NOT_FOUND), "get", key);
        if (status == PGAS_OK)
            judge(got == e->bytes && is_filled(room[0], e->seed, got), "the value of get", key);
        return;
    }
}

/* The functions do not report versions; a look gets the new one. */
static void look(int key)
{
    entry_t *e = &table[key];
    pgas_kvs_item_t item = { .key = names[key], .key_bytes = name_bytes[key] };
    pgas_status_t status = pgas_kvs_run(kvs, &item, 1, NULL);
    if (e->present)
        judge(status == (e->bytes ? PGAS_ERR_RANGE : PGAS_OK), "the size of a value", key);
    else
        judge(status == PGAS_ERR_NOT_FOUND, "an absent key", key);
    judge((item.version != 0) == e->present, "whether there is a version", key);
    e->version = item.version;
}

static void play(int n_steps, int first, int stride)
{
    for (int done = 0; done < n_steps;) {
        int n_keys = (KEYS - first + stride - 1) / stride;
        int key = first + stride * below_int(n_keys);
        if (damaged != 0 && done >= damaged) {
            for (int i = first; i < KEYS; i += stride)
                table[i].present = !table[i].present; /* on purpose */
            damaged = 0;
        }
        if (below(4) == 0) {
            step_alone(key);
            look(key);
            done += 2;
        } else {
            done += run_steps(1 + below_int(below(2) ? 3 : ITEMS_MAX), first, stride, below(2));
        }
    }
}

/* ---- both parts ---- */

static void one_at_a_time(int n_steps)
{
    int n_turns = 5 * n_ranks;
    n_wrong = 0;
    for (int turn = 0; turn < n_turns; turn++) {
        if (turn % n_ranks == me)
            play(n_steps / n_turns, 0, 1);
        BAD(pgas_broadcast(NULL, table, sizeof table, turn % n_ranks));
    }
    spmd_is_int(n_wrong, 0, "%d operations, one rank at a time", n_steps);
}

static void count_is_right(void)
{
    uint64_t n = 0, want = 0;
    for (int i = 0; i < KEYS; i++)
        want += table[i].present;
    BAD(pgas_kvs_count(kvs, &n));
    spmd_is_int(n, want, "the number of keys");
    BAD(pgas_barrier(NULL));
}

/* Keys of this rank are me, me + n_ranks, ..; afterwards all ranks look at all keys. */
static void all_at_once(int n_steps)
{
    static entry_t all[JOB_RANKS_MAX][KEYS];
    n_wrong = 0;
    play(n_steps / n_ranks, me, n_ranks);
    BAD(pgas_allgather(NULL, table, all, sizeof table));
    for (int i = 0; i < KEYS; i++)
        table[i] = all[i % n_ranks][i];
    for (int i = 0; i < KEYS; i++) {
        uint64_t version = table[i].version;
        look(i);
        judge(table[i].version == version, "another version in the end", i);
    }
    spmd_is_int(n_wrong, 0, "%d operations, all ranks on keys of their own", n_steps);
    BAD(pgas_barrier(NULL));
}

static void the_model_can_fail(void)
{
    n_wrong = 5; /* no remarks */
    damaged = 500;
    play(3000, me, n_ranks);
    spmd_ok(n_wrong > 5, "a plain table that is wrong is noticed");
}

int main(int argc, char **argv)
{
    const char *text = getenv("KVS_STEPS");
    int n_steps = text ? atoi(text) : 50000;
    pgas_kvs_opts_t opts = PGAS_KVS_OPTS_INIT;
    job_begin(&argc, &argv, 9);
    pgasi_rng_seed(&rng, spmd_seed(1) + 1000 * (uint64_t)spmd_rank());
    make_names();
    opts.n_keys = 200;
    opts.bytes = 12 << 20;
    if (getenv("KVS_NO_CACHE"))
        opts.cache_bytes = 1;
    spmd_ok(pgas_kvs_create(NULL, &opts, &kvs) == PGAS_OK, "create");
    one_at_a_time(n_steps);
    count_is_right();
    all_at_once(n_steps);
    count_is_right();
    the_model_can_fail();
    BAD(pgas_barrier(NULL));
    uint64_t n = 1;
    BAD(pgas_kvs_clear(kvs));
    BAD(pgas_barrier(NULL));
    BAD(pgas_kvs_count(kvs, &n));
    spmd_is_int(n, 0, "clear deletes all");
    spmd_is_int(crew_faults(), 0, "no other status was wrong");
    spmd_ok(pgas_kvs_destroy(kvs) == PGAS_OK, "destroy");
    return job_end();
}
