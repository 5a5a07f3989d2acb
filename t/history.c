/* The search of history.h.
 *
 * All begins and ends stand in one list, in the order of time. The search takes the first begin
 * whose result fits the present state, removes the operation from the list, and starts again at the
 * head. It may pass begins, but no end: an operation whose end comes first must be ordered now.
 * If there is none, the search takes the last operation back and continues behind its begin.
 *
 * A configuration is the set of ordered operations and the state of the key. One that was seen
 * before cannot succeed now. Operations are numbered by their begins, so nearly all of a set is
 * "all up to k". The memory holds only the words of the bitmap behind these. */
#include "t/history.h"
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define NONE SIZE_MAX

/* A begin or an end. Places 0 to n - 1 of the search are begins, n to 2n - 1 are ends, and place 2n
 * is the head of the list. */
typedef struct {
    size_t before, after;
} link_t;

/* One configuration in the memory; its words follow those of the configurations before it. */
typedef struct {
    uint64_t hash;
    history_state_t state;
    size_t word, from, to; /* place of the first word; which words of the bitmap it has */
} seen_t;

typedef struct {
    const history_op_t **op; /* by their begins */
    size_t n;
    link_t *link;
    uint64_t *set; /* bitmap of ordered operations */
    size_t from;   /* all words before this one are full */
    size_t to;     /* all words from this one on are empty */
    history_state_t state;
    size_t *taken; /* stack of ordered operations, and of the states before them */
    history_state_t *former;
    size_t n_taken;
    seen_t *seen;
    size_t n_seen, seen_room;
    size_t *slot; /* hash table of indices into seen */
    size_t n_slots;
    uint64_t *words;
    size_t n_words, words_room;
} search_t;

static void *room(void *old, size_t n, size_t bytes)
{
    void *memory = realloc(old, (n ? n : 1) * bytes);
    if (!memory)
        abort();
    return memory;
}

/* ---- a plain key ---- */

static bool sees_version(history_state_t *state, uint64_t version)
{
    if (version != 0 && state->version != 0 && version != state->version)
        return false;
    if (version != 0)
        state->version = version;
    return true;
}

/* The status that the condition gives. A version that is not known may be any. */
static bool condition_gives(history_state_t *state, const history_op_t *op)
{
    bool may_match = state->version == 0 || state->version == op->expected;
    bool may_differ = state->version == 0 || state->version != op->expected;
    if (!state->present) {
        bool absent_is_good = op->kind == HISTORY_PUT && op->condition <= HISTORY_IF_ABSENT;
        return op->outcome == (absent_is_good ? HISTORY_DONE : HISTORY_NOT_FOUND);
    }
    if (op->condition == HISTORY_IF_ABSENT)
        return op->outcome == HISTORY_EXISTS;
    if (op->condition != HISTORY_IF_VERSION)
        return op->outcome == HISTORY_DONE;
    if (op->outcome == HISTORY_MISMATCH)
        return may_differ && op->version != op->expected;
    return op->outcome == HISTORY_DONE && may_match;
}

static bool reads(history_state_t *state, const history_op_t *op)
{
    if (!state->present)
        return op->outcome == HISTORY_NOT_FOUND && op->version == 0;
    return op->outcome == HISTORY_DONE && op->value == state->value &&
           sees_version(state, op->version);
}

/* A write that its condition refuses only sees the key. */
static bool writes(history_state_t *state, const history_op_t *op)
{
    if (!condition_gives(state, op))
        return false;
    if (op->outcome != HISTORY_DONE)
        return state->present ? sees_version(state, op->version) : op->version == 0;
    if (op->kind == HISTORY_DELETE)
        *state = (history_state_t){ .present = false };
    else
        *state = (history_state_t){ op->value, op->version, true };
    return op->kind == HISTORY_PUT || op->version == 0;
}

static bool adds(history_state_t *state, const history_op_t *op)
{
    int64_t sum = state->present ? state->value : 0;
    if (op->outcome != HISTORY_DONE || op->before != sum)
        return false;
    sum = (int64_t)((uint64_t)sum + (uint64_t)op->value);
    *state = (history_state_t){ sum, op->version, true };
    return true;
}

bool history_step(history_state_t *state, const history_op_t *op)
{
    history_state_t next = *state;
    bool fits = false;
    switch (op->kind) {
    case HISTORY_GET:
        fits = reads(&next, op);
        break;
    case HISTORY_PUT:
    case HISTORY_DELETE:
        fits = writes(&next, op);
        break;
    case HISTORY_ADD:
        fits = adds(&next, op);
        break;
    }
    if (fits)
        *state = next;
    return fits;
}

/* ---- the list of begins and ends ---- */

static int by_begin(const void *a, const void *b)
{
    const history_op_t *x = *(const history_op_t *const *)a, *y = *(const history_op_t *const *)b;
    if (x->begin != y->begin)
        return x->begin < y->begin ? -1 : 1;
    return (x > y) - (x < y);
}

typedef struct {
    uint64_t time;
    size_t place;
} event_t;

/* At equal times begins come first, so that such operations overlap. */
static int by_time(const void *a, const void *b)
{
    const event_t *x = a, *y = b;
    if (x->time != y->time)
        return x->time < y->time ? -1 : 1;
    return (x->place > y->place) - (x->place < y->place);
}

static void make_list(search_t *s)
{
    event_t *event = room(NULL, 2 * s->n, sizeof *event);
    for (size_t i = 0; i < s->n; i++) {
        event[i] = (event_t){ s->op[i]->begin, i };
        event[s->n + i] = (event_t){ s->op[i]->end, s->n + i };
    }
    qsort(event, 2 * s->n, sizeof *event, by_time);
    size_t last = 2 * s->n;
    for (size_t i = 0; i < 2 * s->n; i++) {
        s->link[last].after = event[i].place;
        s->link[event[i].place].before = last;
        last = event[i].place;
    }
    s->link[last].after = 2 * s->n;
    s->link[2 * s->n].before = last;
    free(event);
}

static void unlink_place(search_t *s, size_t place)
{
    link_t *l = &s->link[place];
    s->link[l->before].after = l->after;
    s->link[l->after].before = l->before;
}

static void relink_place(search_t *s, size_t place)
{
    link_t *l = &s->link[place];
    s->link[l->before].after = place;
    s->link[l->after].before = place;
}

/* ---- the memory of configurations ---- */

/* Orders operation i, or takes it back. */
static void flip(search_t *s, size_t i)
{
    size_t word = i / 64;
    s->set[word] ^= UINT64_C(1) << i % 64;
    if (word < s->from)
        s->from = word;
    if (word >= s->to)
        s->to = word + 1;
    while (s->from < s->to && s->set[s->from] == UINT64_MAX)
        s->from++;
    while (s->to > s->from && s->set[s->to - 1] == 0)
        s->to--;
}

static uint64_t mix(uint64_t hash, uint64_t word)
{
    hash = (hash ^ word) * UINT64_C(0x9E3779B97F4A7C15);
    return hash ^ (hash >> 29);
}

static uint64_t hash_of(const search_t *s)
{
    uint64_t hash = mix(mix(s->from, (uint64_t)s->state.value), s->state.version * 2);
    hash = mix(hash, s->state.present);
    for (size_t i = s->from; i < s->to; i++)
        hash = mix(hash, s->set[i]);
    return hash;
}

static bool is_same(const search_t *s, const seen_t *seen, uint64_t hash)
{
    return seen->hash == hash && seen->from == s->from && seen->to == s->to &&
           seen->state.value == s->state.value && seen->state.version == s->state.version &&
           seen->state.present == s->state.present &&
           memcmp(s->words + seen->word, s->set + s->from, (s->to - s->from) * 8) == 0;
}

static size_t find(const search_t *s, uint64_t hash, bool compare)
{
    size_t i = hash & (s->n_slots - 1);
    while (s->slot[i] != NONE && !(compare && is_same(s, &s->seen[s->slot[i]], hash)))
        i = (i + 1) & (s->n_slots - 1);
    return i;
}

static void grow(search_t *s)
{
    s->n_slots = s->n_slots ? 2 * s->n_slots : 4096;
    s->slot = room(s->slot, s->n_slots, sizeof *s->slot);
    for (size_t i = 0; i < s->n_slots; i++)
        s->slot[i] = NONE;
    for (size_t i = 0; i < s->n_seen; i++)
        s->slot[find(s, s->seen[i].hash, false)] = i;
    s->seen_room = s->n_slots / 2;
    s->seen = room(s->seen, s->seen_room, sizeof *s->seen);
}

/* Remembers the present configuration. @return false if it was seen before */
static bool is_new(search_t *s)
{
    if (s->n_seen == s->seen_room)
        grow(s);
    uint64_t hash = hash_of(s);
    size_t i = find(s, hash, true), n = s->to - s->from;
    if (s->slot[i] != NONE)
        return false;
    if (s->n_words + n > s->words_room) {
        s->words_room = 2 * s->words_room + n + 1024;
        s->words = room(s->words, s->words_room, sizeof *s->words);
    }
    memcpy(s->words + s->n_words, s->set + s->from, n * 8);
    s->seen[s->n_seen] = (seen_t){ hash, s->state, s->n_words, s->from, s->to };
    s->slot[i] = s->n_seen++;
    s->n_words += n;
    return true;
}

/* ---- the search ---- */

/* Orders operation i next, if its result fits and the configuration is new. */
static bool take(search_t *s, size_t i)
{
    history_state_t former = s->state;
    if (!history_step(&s->state, s->op[i]))
        return false;
    flip(s, i);
    if (!is_new(s)) {
        flip(s, i);
        s->state = former;
        return false;
    }
    s->taken[s->n_taken] = i;
    s->former[s->n_taken++] = former;
    unlink_place(s, i);
    unlink_place(s, s->n + i);
    return true;
}

static size_t take_back(search_t *s)
{
    size_t i = s->taken[--s->n_taken];
    s->state = s->former[s->n_taken];
    flip(s, i);
    relink_place(s, s->n + i);
    relink_place(s, i);
    return i;
}

/* The search is at the end of operation `stuck`; it remembers this if it never came further. */
static void note_progress(const search_t *s, history_report_t *report, size_t stuck)
{
    if (s->n_taken < report->n_ordered || (s->n_taken == report->n_ordered && s->n_taken > 0))
        return;
    report->n_ordered = s->n_taken;
    report->stuck[0] = report->stuck[1] = stuck;
}

static history_verdict_t search(search_t *s, history_report_t *report)
{
    size_t head = 2 * s->n, at = s->link[head].after;
    while (s->link[head].after != head) {
        if (at < s->n && take(s, at)) {
            at = s->link[head].after;
        } else if (at < s->n) {
            at = s->link[at].after;
        } else {
            note_progress(s, report, at - s->n);
            if (s->n_taken == 0)
                return HISTORY_BAD;
            at = s->link[take_back(s)].after;
        }
        if (s->n_seen > HISTORY_CONFIGURATIONS_MAX)
            return HISTORY_TOO_BIG;
    }
    report->n_ordered = s->n;
    return HISTORY_GOOD;
}

/* ---- versions ---- */

static bool makes_version(const history_op_t *op)
{
    return op->version != 0 && op->outcome == HISTORY_DONE &&
           (op->kind == HISTORY_PUT || op->kind == HISTORY_ADD);
}

static int by_version(const void *a, const void *b)
{
    const history_op_t *x = *(const history_op_t *const *)a, *y = *(const history_op_t *const *)b;
    return (x->version > y->version) - (x->version < y->version);
}

/* Two writes with the same version; their numbers go to report->stuck. */
static bool repeats_version(const history_op_t *ops, size_t n, history_report_t *report)
{
    const history_op_t **write = room(NULL, n, sizeof(history_op_t *));
    size_t n_writes = 0;
    bool repeats = false;
    for (size_t i = 0; i < n; i++)
        if (makes_version(&ops[i]))
            write[n_writes++] = &ops[i];
    qsort(write, n_writes, sizeof *write, by_version);
    for (size_t i = 1; i < n_writes && !repeats; i++) {
        repeats = write[i]->version == write[i - 1]->version;
        report->stuck[0] = (size_t)(write[i - 1] - ops);
        report->stuck[1] = (size_t)(write[i] - ops);
    }
    free(write);
    return repeats;
}

static void start(search_t *s, const history_op_t *ops, size_t n, const history_state_t *first)
{
    *s = (search_t){ .n = n };
    s->op = room(NULL, n, sizeof(history_op_t *));
    s->link = room(NULL, 2 * n + 1, sizeof *s->link);
    s->set = room(NULL, n / 64 + 1, sizeof *s->set);
    s->taken = room(NULL, n, sizeof *s->taken);
    s->former = room(NULL, n, sizeof *s->former);
    memset(s->set, 0, (n / 64 + 1) * sizeof *s->set);
    if (first)
        s->state = *first;
    for (size_t i = 0; i < n; i++)
        s->op[i] = &ops[i];
    qsort(s->op, n, sizeof *s->op, by_begin);
    make_list(s);
}

static void stop(search_t *s)
{
    free(s->op);
    free(s->link);
    free(s->set);
    free(s->taken);
    free(s->former);
    free(s->seen);
    free(s->slot);
    free(s->words);
}

history_verdict_t history_check(const history_op_t *ops, size_t n, const history_state_t *first,
                                history_report_t *report_p)
{
    history_report_t report = { .n_ordered = 0 };
    history_verdict_t verdict = HISTORY_BAD;
    search_t s;
    if (!repeats_version(ops, n, &report)) {
        start(&s, ops, n, first);
        verdict = search(&s, &report);
        for (int i = 0; i < 2 && n > 0; i++)
            report.stuck[i] = (size_t)(s.op[report.stuck[i]] - ops);
        report.n_configurations = s.n_seen;
        stop(&s);
    }
    if (report_p)
        *report_p = report;
    return verdict;
}

void history_print(const history_op_t *op, char *text, size_t bytes)
{
    static const char *const kinds[] = { "get", "put", "delete", "add" };
    static const char *const conditions[] = { "", " if-absent", " if-present", " if-version" };
    static const char *const outcomes[] = { "done", "not found", "exists", "mismatch" };
    snprintf(text, bytes,
             "thread %d, %" PRIu64 " to %" PRIu64 ": %s %" PRId64 "%s %" PRIu64
             " -> %s, before %" PRId64 ", version %" PRIu64,
             op->thread, op->begin, op->end, kinds[op->kind], op->value, conditions[op->condition],
             op->expected, outcomes[op->outcome], op->before, op->version);
}
