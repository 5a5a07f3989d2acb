/* what: A replicated log is recovered from every torn prefix of its last record, and from any state
 *       that deaths of replicas and writers leave behind: no acknowledged record is lost.
 * A model of writers, replicas and deaths, seeded
 * source: examples/replog */
#include "examples/replog/scan.h"
#include "t/random.h"
#include "t/tap.h"

#define REGION     (REPLOG_DATA_AT + (512u << 10))
#define N_REPLICAS 3
#define ALL        7

static unsigned char regions[N_REPLICAS][REGION];

/* Some of the regions, as a view in which they have numbers from 0. */
typedef struct {
    int n, index[N_REPLICAS];
} members_t;

static bool read_region(void *arg, int replica, uint64_t offset, void *to, size_t bytes)
{
    const members_t *members = arg;
    memcpy(to, regions[members->index[replica]] + offset, bytes);
    return true;
}

static members_t members_of(int map)
{
    members_t members = { 0 };
    for (int i = 0; i < N_REPLICAS; i++)
        if ((map >> i & 1) != 0)
            members.index[members.n++] = i;
    return members;
}

static replog_view_t view_of(members_t *members)
{
    return (replog_view_t){ members, members->n, REGION, read_region };
}

static uint64_t *commit_word(int i)
{
    return (uint64_t *)(void *)(regions[i] + REPLOG_COMMIT_AT);
}

/* ---- the format ---- */

static void records_come_back(void)
{
    unsigned char bytes[128], text[64];
    replog_record_t record;
    int n_wrong = 0;
    is_int(replog_crc32c("123456789", 9), 0xe3069283, "the checksum is CRC-32C");
    for (uint32_t n = 0; n < sizeof text; n++) {
        for (uint32_t i = 0; i < n; i++)
            text[i] = (unsigned char)below(256);
        replog_encode(bytes, n + 1, 7, text, n);
        bool good = replog_decode(bytes, sizeof bytes, &record) && record.seq == n + 1 &&
                    record.term == 7 && record.bytes == n && record.span == replog_span(n) &&
                    record.span % 8 == 0 && memcmp(bytes + REPLOG_RECORD_HEAD, text, n) == 0;
        n_wrong += !good || replog_decode(bytes, record.span - 1, &record);
    }
    is_int(n_wrong, 0, "records of 0 to 63 bytes come back, and need all of their bytes");
    uint64_t word = replog_commit_make(5, 800), next = replog_commit_make(6, 0);
    ok(replog_commit_term(word) == 5 && replog_commit_end(word) == 800 && word < next,
       "a commit word has term and end; the term counts first");
}

static void heads_are_checked(void)
{
    uint64_t head[REPLOG_HEAD_BYTES / 8] = { 0 };
    is_int(replog_head_check(head, REGION), REPLOG_BLANK, "a region of zeros is blank");
    head[REPLOG_LOCK_AT / 8] = 77;
    is_int(replog_head_check(head, REGION), REPLOG_BLANK, "also with a lock");
    replog_head_make(head, REGION);
    is_int(replog_head_check(head, REGION), REPLOG_LOG, "a head makes it a log");
    is_int(replog_head_check(head, REGION + 4096), REPLOG_STRANGE, "but of this size only");
    head[REPLOG_COMMIT_AT / 8] = replog_commit_make(1, REGION);
    is_int(replog_head_check(head, REGION), REPLOG_STRANGE, "nor with an end beyond the region");
    head[0] ^= 1;
    is_int(replog_head_check(head, REGION), REPLOG_STRANGE, "another magic is strange");
}

/* ---- every torn prefix ---- */

#define N_RECORDS 5

/* A log of five records on replica i. @return the position of the last one */
static uint64_t make_log(int i, uint64_t *end_p)
{
    uint64_t at = 0, last = 0;
    memset(regions[i], 0, REGION);
    replog_head_make((uint64_t *)(void *)regions[i], REGION);
    for (uint64_t seq = 1; seq <= N_RECORDS; seq++) {
        char text[32];
        uint32_t n = (uint32_t)snprintf(text, sizeof text, "record %d of the log", (int)seq);
        last = at;
        replog_encode(regions[i] + REPLOG_DATA_AT + at, seq, 1, text, n);
        at += replog_span(n);
    }
    *end_p = at;
    return last;
}

/* Whole records of replica i below `end`; *torn_p: whether something else follows. */
static int count_records(int i, uint64_t end, bool *torn_p)
{
    members_t members = members_of(1 << i);
    replog_view_t view = view_of(&members);
    replog_scan_t scan;
    replog_record_t record;
    const void *payload;
    replog_scan_result_t result;
    int n = 0;
    if (!replog_scan_begin(&scan, &view, 0, 0, end))
        return -1;
    while ((result = replog_scan_next(&scan, &record, &payload)) == REPLOG_SCAN_RECORD)
        n++;
    replog_scan_end(&scan);
    *torn_p = result == REPLOG_SCAN_TORN;
    return n;
}

typedef void (*tear_t)(unsigned char *record, uint32_t k, uint32_t span);

static void cut(unsigned char *record, uint32_t k, uint32_t span)
{
    memset(record + k, 0, span - k);
}

static void garble(unsigned char *record, uint32_t k, uint32_t span)
{
    (void)span;
    record[k] ^= (unsigned char)(1 + below(255));
}

/* Damages the last record from byte k on; with the commit word before it, then behind it.
 * @return whether the recovery is as it must be */
static bool torn_at(uint32_t k, tear_t tear)
{
    static unsigned char before[256];
    replog_state_t state;
    bool torn, torn_beyond;
    uint64_t end, last = make_log(0, &end);
    uint32_t span = (uint32_t)(end - last);
    unsigned char *record = regions[0] + REPLOG_DATA_AT + last;
    memcpy(before, record, span);
    tear(record, k, span);
    bool is_whole = memcmp(before, record, span) == 0;

    members_t one = members_of(1), two = members_of(3);
    replog_view_t alone = view_of(&one), both = view_of(&two);
    *commit_word(0) = replog_commit_make(1, last);
    bool good = replog_recover(&alone, &state) == REPLOG_FOUND && state.end == last &&
                state.last_seq == N_RECORDS - 1 && count_records(0, last, &torn) == 4 && !torn &&
                count_records(0, end, &torn_beyond) == 4 + is_whole && torn_beyond == !is_whole;

    *commit_word(0) = replog_commit_make(1, end);
    good = good && replog_recover(&alone, &state) == (is_whole ? REPLOG_FOUND : REPLOG_DAMAGED);

    /* Another replica has the record. */
    make_log(1, &end);
    *commit_word(1) = replog_commit_make(1, end);
    good = good && replog_recover(&both, &state) == REPLOG_FOUND && state.end == end &&
           state.last_seq == N_RECORDS && state.best == !is_whole &&
           state.replicas[0].agreed == (is_whole ? end : 0);
    return good;
}

static void every_torn_prefix_is_recovered(void)
{
    uint64_t end, last = make_log(0, &end);
    int n_wrong = 0, n = (int)(end - last);
    for (int k = 0; k <= n; k++)
        n_wrong += !torn_at((uint32_t)k, cut);
    is_int(n_wrong, 0, "the last record cut at each of its %d bytes", n);
    n_wrong = 0;
    for (int k = 0; k < n; k++)
        n_wrong += !torn_at((uint32_t)k, garble);
    is_int(n_wrong, 0, "or garbled at each byte");
}

/* Replica 0 was the only one that got record 5, and died. The others then got another record 5, in
 * the next term, which is shorter. */
static void stale_records_do_not_win(void)
{
    replog_state_t state;
    uint64_t end, last = make_log(0, &end);
    members_t two = members_of(3);
    replog_view_t view = view_of(&two);
    make_log(1, &end);
    replog_encode(regions[1] + REPLOG_DATA_AT + last, N_RECORDS, 2, "other", 5);
    *commit_word(0) = replog_commit_make(1, end);
    *commit_word(1) = replog_commit_make(2, last + replog_span(5));
    ok(replog_recover(&view, &state) == REPLOG_FOUND && state.best == 1 &&
           state.end == last + replog_span(5) && state.last_seq == N_RECORDS,
       "the greater term wins, also with the shorter log");
    ok(state.least == last && state.replicas[0].agreed == last &&
           state.replicas[1].agreed == state.end,
       "the stale replica differs behind the last common record");
    memset(regions[2], 0, REGION);
    members_t all = members_of(ALL);
    view = view_of(&all);
    ok(replog_recover(&view, &state) == REPLOG_FOUND && state.best == 1 && state.least == 0 &&
           state.replicas[2].kind == REPLOG_BLANK && state.replicas[2].agreed == 0,
       "a blank replica lacks everything");
    regions[2][0] = 1;
    ok(replog_recover(&view, &state) == REPLOG_FOREIGN && state.culprit == 2,
       "a region with something else is named");
}

/* ---- writers and replicas that die ---- */

/* Records that must never be lost: their checksums, by number. */
static uint32_t kept[16384];
static uint64_t n_kept;

/* A writer's orders to its group: bytes of the log, or (n_bytes 0) a swap of commit words. Each
 * member has carried out some steps of them; a byte is a step, and a swap is one. Earlier members
 * of the chain are never behind. */
typedef struct {
    uint64_t at, n_bytes;
    uint64_t expected, desired;
    uint64_t mark; /* 0: none; written as a step before the swap */
    int map;       /* of regions */
} order_t;

static order_t orders[256];
static unsigned char sent[REGION]; /* the log as the writer has sent it */
static int n_orders;
static uint64_t progress[N_REPLICAS]; /* steps */

static uint64_t steps_of(const order_t *order)
{
    return order->n_bytes > 0 ? order->n_bytes : 1 + (order->mark != 0);
}

static uint64_t all_steps(void)
{
    uint64_t n = 0;
    for (int k = 0; k < n_orders; k++)
        n += steps_of(&orders[k]);
    return n;
}

static void carry_out(int i, const order_t *order, uint64_t from, uint64_t to)
{
    if (order->n_bytes > 0)
        memcpy(regions[i] + REPLOG_DATA_AT + order->at + from, sent + order->at + from, to - from);
    else if (order->mark != 0 && from == 0)
        memcpy(regions[i] + REPLOG_MARK_AT, &order->mark, sizeof order->mark);
    bool swaps = order->n_bytes == 0 && to == steps_of(order) && (order->map >> i & 1) != 0;
    if (swaps && *commit_word(i) == order->expected)
        *commit_word(i) = order->desired;
}

/* Region i carries out steps until it has made so many. */
static void advance(int i, uint64_t until)
{
    uint64_t first = 0;
    for (int k = 0; k < n_orders; k++) {
        uint64_t end = first + steps_of(&orders[k]);
        uint64_t from = progress[i] > first ? progress[i] : first;
        uint64_t to = until < end ? until : end;
        if (from < to)
            carry_out(i, &orders[k], from - first, to - first);
        first = end;
    }
    progress[i] = until > progress[i] ? until : progress[i];
}

static void forget_orders(void)
{
    memset(progress, 0, sizeof progress);
    n_orders = 0;
}

static void complete(const members_t *members)
{
    for (int k = 0; k < members->n; k++)
        advance(members->index[k], all_steps());
    forget_orders();
}

/* The members go on, in the order of the chain, and stop somewhere. */
static void go_on(const members_t *members)
{
    uint64_t limit = all_steps();
    for (int k = 0; k < members->n; k++) {
        int i = members->index[k];
        uint64_t target = below(3) == 0 ? limit : below(limit + 1);
        limit = target > progress[i] ? target : progress[i];
        advance(i, limit);
    }
}

/* The writer waits for its orders; now and then everything is killed before they are complete.
 * @return whether it is alive */
static bool finish(const members_t *members)
{
    if (below(12) != 0) {
        complete(members);
        return true;
    }
    go_on(members);
    forget_orders();
    return false;
}

typedef struct {
    uint32_t term;
    uint64_t end, seq; /* of the last record */
} writer_t;

static bool swap_words(const members_t *members, uint64_t expected, uint64_t desired, int map)
{
    orders[n_orders++] = (order_t){ .expected = expected, .desired = desired, .map = map };
    return finish(members);
}

/* The replicas that have begun the last term. They have everything that must be kept. */
static members_t holders;

static bool swap_term(const members_t *members, uint64_t expected, uint64_t desired)
{
    orders[n_orders++] = (order_t){
        .expected = expected, .desired = desired, .mark = 1 + below(UINT64_MAX), .map = ALL
    };
    bool is_alive = finish(members), have_all = true;
    for (int k = 0; k < members->n; k++)
        have_all &= *commit_word(members->index[k]) == desired;
    if (have_all)
        holders = *members;
    return is_alive;
}

/* As in examples/replog/writer.c. @return whether the writer is alive */
static bool repair(const members_t *members, const replog_state_t *state, writer_t *writer)
{
    uint64_t found = replog_commit_make(state->term, state->end);
    *writer = (writer_t){ state->greatest_term + 1, state->end, state->last_seq };
    memcpy(sent, regions[members->index[state->best]] + REPLOG_DATA_AT, state->end);
    for (int k = 0; k < members->n; k++) {
        uint64_t head[REPLOG_HEAD_BYTES / 8];
        replog_head_make(head, REGION);
        memcpy(regions[members->index[k]], head, REPLOG_LOCK_AT);
    }
    if (state->least < state->end) {
        orders[n_orders++] = (order_t){ .at = state->least, .n_bytes = state->end - state->least };
        if (!finish(members))
            return false;
    }
    for (int k = 0; k < members->n; k++)
        if (state->replicas[k].commit != found &&
            !swap_words(members, state->replicas[k].commit, found, 1 << members->index[k]))
            return false;
    return swap_term(members, found, replog_commit_make(writer->term, writer->end));
}

static void append_batch(writer_t *writer)
{
    uint64_t at = writer->end;
    for (uint64_t n = 1 + below(3); n > 0; n--) {
        char text[40];
        for (size_t i = 0; i < sizeof text; i++)
            text[i] = (char)below(256);
        uint32_t bytes = (uint32_t)below(sizeof text);
        replog_encode(sent + writer->end, ++writer->seq, writer->term, text, bytes);
        writer->end += replog_span(bytes);
    }
    orders[n_orders++] = (order_t){ .at = at, .n_bytes = writer->end - at };
    orders[n_orders++] = (order_t){ .expected = replog_commit_make(writer->term, at),
                                    .desired = replog_commit_make(writer->term, writer->end),
                                    .map = ALL };
}

/* Visits the records of a region below `end`. @return their number; -1: torn */
static int64_t each_record(int i, uint64_t end,
                           void (*visit)(uint64_t seq, const replog_record_t *record))
{
    replog_record_t record;
    int64_t n = 0;
    for (uint64_t at = 0; at < end; at += record.span) {
        if (!replog_decode(regions[i] + REPLOG_DATA_AT + at, end - at, &record) ||
            record.seq != (uint64_t)++n)
            return -1;
        visit(record.seq, &record);
    }
    return n;
}

static int n_lost;

static void keep(uint64_t seq, const replog_record_t *record)
{
    if (seq > n_kept)
        kept[n_kept++] = record->crc;
    else
        n_lost += kept[seq - 1] != record->crc;
}

static void compare(uint64_t seq, const replog_record_t *record)
{
    n_lost += seq <= n_kept && kept[seq - 1] != record->crc;
}

/* The records of region i below `end` must include all that are kept. keeps: the others are kept
 * from now on. */
static int lost_below(int i, uint64_t end, bool keeps)
{
    n_lost = 0;
    int64_t n = each_record(i, end, keeps ? keep : compare);
    return n_lost + (n < (int64_t)n_kept);
}

static int n_wrong, n_repairs, n_departures, n_stale, n_by_end, n_by_least;

/* Whether the members are those of the last term, and nothing is between two terms. */
static bool is_settled(const replog_view_t *view, const replog_state_t *state)
{
    const members_t *members = view->arg;
    bool settled = members->n == holders.n;
    for (int k = 0; k < members->n && settled; k++)
        settled = members->index[k] == holders.index[k] && replog_is_current(view, state, k) &&
                  state->replicas[k].mark == state->replicas[0].mark;
    return settled;
}

/* Both rules hold; and two others, which look at ends without terms, do not always. */
static void check_state(const replog_view_t *view, const replog_state_t *state)
{
    const members_t *members = view->arg;
    uint64_t least = state->end, greatest = 0;
    int longest = 0;
    for (int k = 0; k < members->n; k++) {
        uint64_t commit = state->replicas[k].commit, end = replog_commit_end(commit);
        if (end < least)
            least = end;
        if (end > greatest) {
            greatest = end;
            longest = members->index[k];
        }
        n_stale += state->replicas[k].agreed < end;
        n_wrong += replog_is_current(view, state, k) &&
                   memcmp(regions[members->index[k]] + REPLOG_DATA_AT,
                          regions[members->index[state->best]] + REPLOG_DATA_AT, state->shown) != 0;
    }
    n_by_end += lost_below(longest, greatest, false) != 0;
    n_by_least += lost_below(members->index[state->best], least, false) != 0;
    n_wrong += lost_below(members->index[state->best], state->end, false) != 0;
    n_wrong += lost_below(members->index[state->best], state->shown, is_settled(view, state)) != 0;
}

/* A member dies, and the writer goes on with the others: they carry out everything, and get a new
 * term before anything is acknowledged. */
static bool depart(members_t *members, writer_t *writer)
{
    int k = below_int(members->n);
    go_on(members);
    memmove(&members->index[k], &members->index[k + 1],
            (size_t)(members->n - k - 1) * sizeof *members->index);
    members->n--;
    n_departures++;
    if (!finish(members))
        return false;
    writer->term++;
    return swap_term(members, replog_commit_make(writer->term - 1, writer->end),
                     replog_commit_make(writer->term, writer->end));
}

/* A writer's life on a group. */
static void live(members_t *members)
{
    replog_view_t view = view_of(members);
    replog_state_t state;
    writer_t writer;
    replog_outcome_t outcome = replog_recover(&view, &state);
    n_wrong += outcome == REPLOG_NONE ? n_kept > 0 : outcome != REPLOG_FOUND;
    check_state(&view, &state);
    if (!repair(members, &state, &writer))
        return;
    n_repairs++;
    for (int k = 0; k < members->n; k++)
        n_wrong += lost_below(members->index[k], writer.end, true) != 0;
    for (uint64_t n = below(30); n > 0; n--) {
        uint64_t what = below(10);
        append_batch(&writer);
        if (what == 0 && members->n > 1 && !depart(members, &writer))
            return;
        if (what < 6) {
            go_on(members);
            continue;
        }
        if (!finish(members))
            return;
        n_wrong += lost_below(members->index[members->n - 1], writer.end, true) != 0;
    }
    go_on(members);
    forget_orders();
}

#define N_LIVES 6000

static void nothing_acknowledged_is_lost(void)
{
    members_t members = holders = members_of(ALL);
    for (int life = 0; life < N_LIVES && n_wrong == 0; life++) {
        if (life % 25 == 0) { /* the log is nearly full: another one */
            memset(regions, 0, sizeof regions);
            n_kept = 0;
            members = holders = members_of(ALL);
        }
        live(&members);
        /* One of the holders at least is in the next group, and any others. */
        members = members_of(1 << holders.index[below_int(holders.n)] | below_int(ALL + 1));
    }
    is_int(n_wrong, 0, "%d lives of writers: no acknowledged record is lost, and no shown one",
           N_LIVES);
    ok(n_repairs > N_LIVES / 3 && n_departures > N_LIVES / 10 && n_stale > N_LIVES / 100,
       "%d repairs, %d departures, %d stale replicas", n_repairs, n_departures, n_stale);
    ok(n_by_least > 0, "the least end of all replicas would lose some (made on purpose): %d times",
       n_by_least);
    diag("the greatest end without terms would lose some %d times", n_by_end);
}

int main(void)
{
    pgasi_rng_seed(&rng, tap_seed(1));
    plan(18);
    records_come_back();
    heads_are_checked();
    every_torn_prefix_is_recovered();
    stale_records_do_not_win();
    nothing_acknowledged_is_lost();
    return done();
}
