/* The seam: refusals, registry, loopback, and the wrappers.
 *   what:   No entry of a table is NULL. Loopback keeps the contract of transport.h. The fault
 *           wrapper breaks what the contract leaves open and keeps its promises, in the same way
 *           for the same seed. Counters count.
 *   log:    fault: warn: PGAS_FAULT drop-reg
 *   log:    loopback: warn: dropped a message
 *   source: transport.h, fault.h, count.h
 */
#include <poll.h>
#include <sys/mman.h>
#include "base/hash.h"
#include "base/log.h"
#include "base/rng.h"
#include "t/amo_model.h"
#include "t/tap.h"
#include "transport/count.h"
#include "transport/fault.h"

enum { HEAP = 1 << 16, N_WORDS = 64, DATA_MAX = 1 << 20 };

/* --- an instance with two contexts and a heap, and its events --- */

static const pgasi_tp_ops_t *ops;
static pgasi_tp_t *tp;
static pgasi_tp_ctx_t *ctxs[2];
static pgasi_tp_mem_t *mem;
static pgasi_tp_key_t *key;
static char *heap;

static struct {
    uint32_t next[2];
    int n_arrived, n_late, n_bad;
    void *kept;
    bool keep;
} inbox;

typedef struct {
    uint32_t ctx, number;
} header_t;

static bool on_am(void *arg, const pgasi_tp_am_t *am)
{
    header_t header;
    (void)arg;
    memcpy(&header, am->header, sizeof header);
    inbox.n_arrived++;
    inbox.n_late += header.number != inbox.next[header.ctx & 1]++;
    for (size_t i = 0; i < am->data_bytes; i++)
        inbox.n_bad += ((unsigned char *)am->data)[i] != (unsigned char)(header.number + i);
    if (inbox.keep)
        inbox.kept = am->data;
    return inbox.keep;
}

static uint32_t next_number[2];

static void open_world(const pgasi_tp_ops_t *table)
{
    pgasi_tp_opts_t opts = { .rank = 0, .n_ranks = 1, .am_data_max = DATA_MAX, .am_fn = on_am };
    char packed[PGASI_TP_KEY_MAX];
    size_t bytes = sizeof packed;
    void *addr = NULL;
    ops = table;
    memset(&inbox, 0, sizeof inbox);
    memset(next_number, 0, sizeof next_number);
    if (ops->open(&opts, &tp) != PGAS_OK || ops->ctx_open(tp, 0, &ctxs[0]) != PGAS_OK ||
        ops->ctx_open(tp, 1, &ctxs[1]) != PGAS_OK ||
        ops->mem_alloc(tp, HEAP, &mem, &addr) != PGAS_OK ||
        ops->key_pack(tp, mem, packed, &bytes) != PGAS_OK ||
        ops->key_unpack(ctxs[0], 0, packed, bytes, &key) != PGAS_OK)
        bail("the transport does not open");
    heap = addr;
}

static void close_world(void)
{
    ops->key_release(key);
    ops->ctx_close(ctxs[1]);
    ops->ctx_close(ctxs[0]);
    ops->mem_release(tp, mem);
    ops->close(tp);
}

static uint64_t at(size_t offset)
{
    return (uint64_t)(uintptr_t)heap + offset;
}

static void progress(void)
{
    ctxs[0]->ops->progress(ctxs[0]);
    ctxs[1]->ops->progress(ctxs[1]);
}

typedef struct {
    pgasi_tp_comp_t super;
    int n_done;
    bool was_in_progress;
    pgas_status_t status;
} pending_t;

static bool in_progress; /* a progress call is running */
static int n_wrong_completions;
static uint64_t trace; /* returned statuses and completions, in order */

static void completed(pgasi_tp_comp_t *self, pgas_status_t status)
{
    pending_t *pending = (pending_t *)(void *)self;
    n_wrong_completions += pending->n_done++ > 0 || !in_progress;
    pending->status = status;
    trace = pgasi_hash_combine(trace, (uint64_t)status + 1000);
}

static void traced_progress(void)
{
    in_progress = true;
    progress();
    in_progress = false;
}

static pgas_status_t wait_for(pgas_status_t status, pending_t *pending)
{
    if (status != PGAS_INPROGRESS) {
        n_wrong_completions += pending->n_done;
        return status;
    }
    for (int i = 0; pending->n_done == 0 && i < 100000; i++)
        traced_progress();
    return pending->n_done == 0 ? PGAS_ERR_TIMEOUT : pending->status;
}

#define RETRY(result, call)                           \
    do {                                              \
        while (((result) = (call)) == PGAS_ERR_AGAIN) \
            traced_progress();                        \
    } while (0)

static pgas_status_t send(int ctx, size_t bytes)
{
    static unsigned char data[DATA_MAX];
    header_t header = { (uint32_t)ctx, next_number[ctx] };
    pending_t pending = { .super.fn = completed };
    pgas_status_t status;
    for (size_t i = 0; i < bytes; i++)
        data[i] = (unsigned char)(header.number + i);
    RETRY(status,
          ctxs[ctx]->ops->am(ctxs[ctx], 0, &header, sizeof header, data, bytes, &pending.super));
    next_number[ctx] += status >= 0;
    return wait_for(status, &pending);
}

/* --- refusals and registry --- */

static void refuses(void)
{
    const pgasi_tp_ops_t *no = &pgasi_tp_refusals;
    void *entries[sizeof *no / sizeof(void *)];
    bool all = true;
    memcpy(entries, no, sizeof entries);
    for (size_t i = 0; i < sizeof entries / sizeof entries[0]; i++)
        all = all && entries[i];
    ok(all, "no entry of the refusals is NULL");
    uint64_t word = 5;
    ok(no->open(NULL, NULL) == PGAS_ERR_UNSUPPORTED &&
           no->put(NULL, 0, NULL, 0, &word, 8, NULL) == PGAS_ERR_UNSUPPORTED &&
           no->get(NULL, 0, NULL, 0, &word, 8, NULL) == PGAS_ERR_UNSUPPORTED &&
           no->amo(NULL, 0, NULL, 0, PGASI_AMO_ADD, 8, 1, 1, &word, NULL) == PGAS_ERR_UNSUPPORTED &&
           no->am(NULL, 0, NULL, 0, NULL, 0, NULL) == PGAS_ERR_UNSUPPORTED &&
           no->flush(NULL, 0, NULL) == PGAS_ERR_UNSUPPORTED &&
           no->arm(NULL) == PGAS_ERR_UNSUPPORTED && no->progress(NULL) == 0 && word == 5,
       "they refuse, and change nothing");
    no->close(NULL);
    no->ctx_close(NULL);
    no->mem_release(NULL, NULL);
    no->key_release(NULL);
    all = all && no->am_arrived(NULL, 0, NULL) == 0;
    no->am_release(NULL, NULL);
    no->peer_dead(NULL, 0);
    for (int i = 0; i < 2; i++) {
        const pgasi_tp_ops_t *table = pgasi_tp_find(i == 0 ? "loopback" : "ucx");
        all = table != NULL;
        if (all) {
            memcpy(entries, table, sizeof entries);
            for (size_t j = 0; j < sizeof entries / sizeof entries[0]; j++)
                all = all && entries[j];
        }
        ok(all, "%s is there, without a hole", i == 0 ? "loopback" : "ucx");
    }
    ok(pgasi_tp_find("telegraph") == NULL && pgasi_tp_find("") == NULL,
       "an unknown transport is not found");
}

/* --- loopback --- */

static void moves_data(void)
{
    char data[100], back[100] = { 0 };
    uint64_t word = 0;
    for (int i = 0; i < 100; i++)
        data[i] = (char)(i * 7);
    ok(ops->put(ctxs[0], 0, key, at(33), data, 100, NULL) == PGAS_OK &&
           memcmp(heap + 33, data, 100) == 0 &&
           ops->get(ctxs[1], 0, key, at(33), back, 100, NULL) == PGAS_OK &&
           memcmp(back, data, 100) == 0 &&
           ops->put(ctxs[0], 0, key, at(0), NULL, 0, NULL) == PGAS_OK,
       "put and get");
    ok(ops->put(ctxs[0], 0, key, at(HEAP - 7), data, 8, NULL) == PGAS_ERR_RANGE &&
           ops->put(ctxs[0], 0, key, at(0) - 1, data, 1, NULL) == PGAS_ERR_RANGE &&
           ops->get(ctxs[0], 0, key, at(1), back, SIZE_MAX, NULL) == PGAS_ERR_RANGE &&
           ops->amo(ctxs[0], 0, key, at(HEAP), PGASI_AMO_ADD, 8, 1, 0, &word, NULL) ==
               PGAS_ERR_RANGE,
       "outside of the memory: refused");
    ok(ops->put(ctxs[0], 1, key, at(0), data, 8, NULL) == PGAS_ERR_RANGE &&
           ops->flush(ctxs[0], 1, NULL) == PGAS_ERR_RANGE &&
           ops->am(ctxs[0], -3, data, 8, data, 8, NULL) == PGAS_ERR_RANGE,
       "ranks that do not exist: refused");
}

static void does_atomics(size_t bytes)
{
    pgasi_rng_t rng;
    uint64_t word = 0, result;
    bool good = true;
    pgasi_rng_seed(&rng, bytes);
    memset(heap, 0, 64);
    for (int i = 0; i < 2000; i++) {
        pgasi_amo_t op = (pgasi_amo_t)pgasi_rng_below(&rng, 6);
        uint64_t operand = pgasi_rng_u64(&rng), compare = i % 2 == 0 ? word : operand;
        bool fetching = op >= PGASI_AMO_SWAP || i % 3 == 0;
        result = 0;
        good = ops->amo(ctxs[i % 2], 0, key, at(24), op, bytes, operand, compare,
                        fetching ? &result : NULL, NULL) == PGAS_OK &&
               (!fetching || result == word) && good;
        word = amo_result(op, bytes, word, operand, compare);
    }
    result = 0;
    memcpy(&result, heap + 24, bytes);
    ok(good && result == word, "%zu bytes: every atomic behaves as a plain word", bytes);
    ok(ops->amo(ctxs[0], 0, key, at(1), PGASI_AMO_ADD, bytes, 1, 0, NULL, NULL) ==
               PGAS_ERR_INVALID &&
           ops->amo(ctxs[0], 0, key, at(0), PGASI_AMO_CSWAP, bytes, 1, 0, NULL, NULL) ==
               PGAS_ERR_INVALID &&
           ops->amo(ctxs[0], 0, key, at(0), PGASI_AMO_ADD, bytes - 1, 1, 0, NULL, NULL) ==
               PGAS_ERR_INVALID,
       "%zu bytes: what makes no sense is refused", bytes);
}

static void sends_messages(void)
{
    bool good = true;
    for (int i = 0; i < 500; i++)
        good = send(i % 2, (size_t)(i * 37 % 5000)) >= 0 && good;
    while (inbox.n_arrived < 500)
        progress();
    ok(good && inbox.n_late == 0 && inbox.n_bad == 0, "messages arrive in order and unchanged");
    ok(ctxs[0]->ops->am(ctxs[0], 0, heap, PGASI_TP_AM_HEADER_MAX + 1, heap, 1, NULL) ==
           PGAS_ERR_LIMIT,
       "a header that is too long is refused");
    inbox.keep = true;
    good = send(0, 300) >= 0;
    while (!inbox.kept)
        progress();
    inbox.keep = false;
    good = send(0, 300) >= 0 && good;
    progress();
    const unsigned char *data = inbox.kept;
    for (size_t i = 0; i < 300; i++)
        good = good && data[i] == (unsigned char)(next_number[0] - 2 + i);
    ctxs[0]->ops->am_release(ctxs[0], inbox.kept);
    ok(good, "kept data stays");
    int before = inbox.n_arrived;
    ok(ctxs[0]->ops->am(ctxs[0], 0, "12345678", 8, heap, DATA_MAX + 1, NULL) == PGAS_OK,
       "what is too large is taken,");
    progress();
    is_int(inbox.n_arrived, before, "and dropped");
    pgas_status_t status = PGAS_OK;
    header_t header = { 0, 0 };
    for (int i = 0; i < 100000 && status == PGAS_OK; i++) {
        header.number = next_number[0];
        status = ctxs[0]->ops->am(ctxs[0], 0, &header, sizeof header, heap, 0, NULL);
        next_number[0] += status == PGAS_OK;
    }
    is_int(status, PGAS_ERR_AGAIN, "a full queue refuses");
    while (inbox.n_arrived < (int)(next_number[0] + next_number[1]))
        progress();
    is_int(inbox.n_late, 0, "and loses nothing");
}

static void sleeps_and_wakes(void)
{
    int fd;
    struct pollfd poll_fd = { .events = POLLIN };
    pgasi_tp_ctx_t *ctx = ctxs[0];
    while (ctx->ops->arm(ctx) == PGAS_ERR_BUSY)
        progress();
    bool good = ctx->ops->event_fd(ctx, &fd) == PGAS_OK;
    poll_fd.fd = fd;
    ok(good && poll(&poll_fd, 1, 0) == 0, "armed: the descriptor is quiet");
    ok(ctx->ops->wake(ctx) == PGAS_OK && poll(&poll_fd, 1, 10000) == 1 &&
           ctx->ops->arm(ctx) == PGAS_ERR_BUSY && ctx->ops->arm(ctx) == PGAS_OK,
       "wake() rings, once");
    good = send(1, 10) >= 0;
    ok(good && poll(&poll_fd, 1, 10000) == 1 && ctx->ops->arm(ctx) == PGAS_ERR_BUSY,
       "so does a message");
    progress();
}

static void keys(void)
{
    char packed[PGASI_TP_KEY_MAX], bad[PGASI_TP_KEY_MAX];
    size_t bytes = sizeof packed, small = 3;
    pgasi_tp_key_t *bad_key = NULL;
    void *addr;
    bool all = ops->key_pack(tp, mem, packed, &bytes) == PGAS_OK;
    ok(all && ops->key_pack(tp, mem, bad, &small) == PGAS_ERR_LIMIT && small == 3,
       "a buffer too small for a key");
    for (size_t i = 0; i < bytes; i++) {
        memcpy(bad, packed, sizeof bad);
        bad[i] ^= 4;
        all = all && ops->key_unpack(ctxs[0], 0, bad, bytes, &bad_key) == PGAS_ERR_FORMAT;
    }
    ok(all && !bad_key &&
           ops->key_unpack(ctxs[0], 0, packed, bytes - 1, &bad_key) == PGAS_ERR_FORMAT,
       "a key with any byte changed, or cut short, is refused");
    ok(ops->key_map(key, at(16), &addr) == PGAS_OK && addr == heap + 16 &&
           ops->key_map(key, at(HEAP), &addr) == PGAS_ERR_RANGE,
       "keys can be mapped, within their range");
}

/* --- the fault wrapper --- */

static void parses(void)
{
    static const char *const bad[] = { "delay",
                                       "delay=",
                                       "delay=x",
                                       "delay=-1",
                                       "delay=1,",
                                       "delay=1,,",
                                       "=4",
                                       "lose=3",
                                       "delay=1x",
                                       "delay= 1",
                                       "drop-reg=1:",
                                       "drop-reg=:2",
                                       "again=99999999999999999999",
                                       "delay=2000000",
                                       "reorder=1 ,again=2",
                                       "seed=18446744073709551616" };
    char why[256];
    pgasi_fault_plan_t plan = { .delay = 77 };
    bool all = true;
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        why[0] = '\0';
        bool refused = pgasi_fault_parse(bad[i], &plan, why, sizeof why) == PGAS_ERR_INVALID &&
                       !strstr(why, "PGAS_FAULT") && strstr(why, "allowed") != NULL &&
                       plan.delay == 77;
        if (!refused)
            diag("not refused: \"%s\"", bad[i]);
        all = all && refused;
    }
    ok(all, "%zu malformed texts are refused with the reason", sizeof bad / sizeof bad[0]);
    ok(pgasi_fault_parse("delay=3,reorder=0,again=12,drop-reg=2:5,seed=18446744073709551615", &plan,
                         why, sizeof why) == PGAS_OK &&
           plan.delay == 3 && plan.reorder == 0 && plan.again == 12 && plan.drop_reg == 2 &&
           plan.drop_reg_after == 5 && plan.has_seed && plan.seed == UINT64_MAX,
       "a full text is understood");
    ok(pgasi_fault_parse("", &plan, why, sizeof why) == PGAS_OK && plan.delay == 0 &&
           plan.drop_reg == -1 && !plan.has_seed,
       "an empty one means no faults");
    ok(pgasi_tp_fault_wrap(ops, "", 1, why, sizeof why) == ops &&
           pgasi_tp_fault_wrap(ops, NULL, 1, why, sizeof why) == ops &&
           pgasi_tp_fault_wrap(ops, "nonsense", 1, why, sizeof why) == NULL,
       "and wraps nothing; nonsense gives NULL");
}

/* Random operations of all kinds through a table, against a plain array; each flush is followed by
 * a check of the promises. At most one operation writes a word between two fences, so any order of
 * the rest is right. */
static bool keeps_promises(const pgasi_tp_ops_t *table, uint64_t seed)
{
    enum { STEPS = 3000, SLOTS = 40 };
    static struct {
        pending_t pending;
        uint64_t value, result, old;
        bool busy, fetches;
    } slots[SLOTS];
    uint64_t model[N_WORDS] = { 0 };
    bool touched[N_WORDS] = { false };
    static unsigned char message[4096];
    pgasi_rng_t rng;
    bool good = true;
    int n_sent = 0;
    pgasi_rng_seed(&rng, seed);
    open_world(table);
    memset(slots, 0, sizeof slots);
    n_wrong_completions = 0;
    trace = 0;
    for (int step = 0; step < STEPS; step++) {
        size_t i = (size_t)step % SLOTS, word = pgasi_rng_below(&rng, N_WORDS);
        int kind = (int)pgasi_rng_below(&rng, 8);
        pgas_status_t status = PGAS_OK;
        while (slots[i].busy && slots[i].pending.n_done == 0)
            traced_progress();
        good = good && (!slots[i].busy || slots[i].pending.status == PGAS_OK);
        good = good && (!slots[i].fetches || slots[i].result == slots[i].old);
        slots[i].pending = (pending_t){ .super.fn = completed };
        slots[i].busy = slots[i].fetches = false;
        slots[i].value = pgasi_rng_u64(&rng);
        pgasi_tp_comp_t *comp = &slots[i].pending.super;
        pgasi_tp_ctx_t *ctx = ctxs[0];
        if (kind < 5 && touched[word])
            continue;
        touched[word] = touched[word] || kind < 5;
        switch (kind) {
        case 0:
        case 1:
            RETRY(status, ctx->ops->put(ctx, 0, key, at(word * 8), &slots[i].value, 8, comp));
            model[word] = slots[i].value;
            break;
        case 2:
            RETRY(status, ctx->ops->get(ctx, 0, key, at(word * 8), &slots[i].result, 8, comp));
            slots[i].old = model[word];
            slots[i].fetches = true;
            break;
        case 3:
            RETRY(status, ctx->ops->amo(ctx, 0, key, at(word * 8), PGASI_AMO_ADD, 8, slots[i].value,
                                        0, &slots[i].result, comp));
            slots[i].old = model[word];
            slots[i].fetches = true;
            model[word] += slots[i].value;
            break;
        case 4: /* only a flush reports it */
            RETRY(status, ctx->ops->amo(ctx, 0, key, at(word * 8), PGASI_AMO_XOR, 8, slots[i].value,
                                        0, NULL, NULL));
            model[word] ^= slots[i].value;
            status = status == PGAS_INPROGRESS ? PGAS_OK : status;
            break;
        case 5:
            if (step % 3 == 0) {
                RETRY(status, ctx->ops->fence(ctx));
                memset(touched, 0, sizeof touched);
            }
            break;
        case 6:
        case 7: {
            uint32_t from = (uint32_t)kind - 6;
            header_t header = { from, next_number[from] };
            size_t bytes = pgasi_rng_below(&rng, 100);
            memset(message, 0, sizeof message);
            for (size_t j = 0; j < bytes; j++)
                message[j] = (unsigned char)(header.number + j);
            pending_t sent = { .super.fn = completed };
            RETRY(status, ctxs[from]->ops->am(ctxs[from], 0, &header, sizeof header, message, bytes,
                                              &sent.super));
            next_number[from] += status >= 0;
            status = wait_for(status, &sent);
            n_sent++;
            break;
        }
        }
        trace = pgasi_hash_combine(trace, (uint64_t)status);
        slots[i].busy = status == PGAS_INPROGRESS;
        good = good && status >= 0;
        if (step % 100 == 99) {
            pending_t flushed = { .super.fn = completed };
            RETRY(status,
                  ctx->ops->flush(ctx, step % 200 == 99 ? 0 : PGASI_TP_ALL_PEERS, &flushed.super));
            good = good && wait_for(status, &flushed) == PGAS_OK;
            good = good && memcmp(heap, model, sizeof model) == 0;
            memset(touched, 0, sizeof touched);
        }
    }
    for (int i = 0; i < 100000 && inbox.n_arrived < n_sent; i++)
        traced_progress();
    for (size_t i = 0; i < SLOTS; i++)
        while (slots[i].busy && slots[i].pending.n_done == 0)
            traced_progress();
    good = good && inbox.n_arrived == n_sent && inbox.n_late == 0 && inbox.n_bad == 0 &&
           n_wrong_completions == 0;
    close_world();
    return good;
}

static const pgasi_tp_ops_t *with_faults(const char *text, uint64_t seed)
{
    char why[256] = "";
    const pgasi_tp_ops_t *table =
        pgasi_tp_fault_wrap(pgasi_tp_find("loopback"), text, seed, why, sizeof why);
    if (!table)
        bail("%s", why);
    return table;
}

static void under_faults(void)
{
    static const char *const faults[] = { "delay=1",
                                          "delay=9",
                                          "reorder=1",
                                          "reorder=9",
                                          "again=1",
                                          "again=9",
                                          "delay=4,reorder=6,again=3",
                                          "delay=30,reorder=30,again=30" };
    uint64_t seed = tap_seed(42);
    ok(keeps_promises(pgasi_tp_find("loopback"), seed), "the promises are kept without faults");
    for (size_t i = 0; i < sizeof faults / sizeof faults[0]; i++) {
        bool good = true;
        for (uint64_t j = 0; j < 5; j++)
            good = keeps_promises(with_faults(faults[i], seed + j), seed + j) && good;
        ok(good, "and with %s", faults[i]);
    }
}

static void repeats(void)
{
    const char *text = "delay=4,reorder=6,again=3";
    keeps_promises(with_faults(text, 1), 9);
    uint64_t first = trace;
    keeps_promises(with_faults(text, 1), 9);
    ok(trace == first, "the same seed gives the same faults");
    keeps_promises(with_faults(text, 2), 9);
    uint64_t second = trace;
    ok(second != first, "another seed gives others");
    keeps_promises(with_faults("delay=4,reorder=6,again=3,seed=2", 1), 9);
    ok(trace == second, "the text's seed counts more than the caller's");
}

/* Each fault alone has its effect, and no other. */
static void does_harm(void)
{
    uint64_t word = 1;
    int longest = 0, n_again = 0, n_held = 0, run = 0, most = 0;
    open_world(with_faults("again=4", 3));
    for (int i = 0; i < 2000; i++) {
        bool again = ops->put(ctxs[0], 0, key, at(0), &word, 8, NULL) == PGAS_ERR_AGAIN;
        run = again ? run + 1 : 0;
        n_again += again;
        longest = run > longest ? run : longest;
    }
    ok(n_again > 500 && longest == 4, "again=4: %d of 2000 refused, up to %d in a row", n_again,
       longest);
    close_world();
    open_world(with_faults("delay=5", 3));
    for (int i = 0; i < 500; i++) {
        pending_t pending = { .super.fn = completed };
        pgas_status_t status = ops->put(ctxs[0], 0, key, at(0), &word, 8, &pending.super);
        n_held += status == PGAS_INPROGRESS;
        int n_calls = 0;
        for (; status == PGAS_INPROGRESS && pending.n_done == 0; n_calls++) {
            if (n_calls == 0 && ctxs[0]->ops->arm(ctxs[0]) != PGAS_ERR_BUSY)
                n_wrong_completions++;
            traced_progress();
        }
        most = n_calls > most ? n_calls : most;
    }
    ok(n_held > 250 && most == 5, "delay=5: %d of 500 completions held, up to %d calls", n_held,
       most);
    is_int(n_wrong_completions, 0, "and no thread may sleep meanwhile");
    close_world();
    open_world(with_faults("reorder=5", 3));
    int n_swapped = 0;
    /* unordered by contract: the first put may be seen after the second */
    for (int i = 0; i < 200; i++) {
        uint64_t values[2] = { 1, 2 };
        pending_t pending[2] = { { .super.fn = completed }, { .super.fn = completed } };
        memset(heap, 0, 8);
        pgas_status_t a = ops->put(ctxs[0], 0, key, at(0), &values[0], 8, &pending[0].super);
        pgas_status_t b = ops->put(ctxs[0], 0, key, at(0), &values[1], 8, &pending[1].super);
        wait_for(a, &pending[0]);
        wait_for(b, &pending[1]);
        n_swapped += heap[0] == 1;
    }
    ok(n_swapped > 20 && n_swapped < 180, "reorder=5: %d of 200 pairs of puts change places",
       n_swapped);
    close_world();
}

static void drops_registrations(void)
{
    pgasi_tp_mem_t *more;
    void *addr;
    char plain[64];
    open_world(with_faults("drop-reg=0:1", 1));
    ok(ops->mem_register(tp, plain, sizeof plain, &more) == PGAS_ERR_NO_MEMORY &&
           ops->mem_alloc(tp, 4096, &more, &addr) == PGAS_ERR_NO_MEMORY,
       "drop-reg=0:1: the first registration succeeds, later ones fail");
    close_world();
    open_world(with_faults("drop-reg=1", 1));
    ok(ops->mem_register(tp, plain, sizeof plain, &more) == PGAS_OK,
       "on another rank: nothing happens here");
    ops->mem_release(tp, more);
    close_world();
}

/* --- the checker can fail: a transport that breaks one promise --- */

static pgasi_tp_ops_t liar;
static int n_lies;

static pgas_status_t lying_am(pgasi_tp_ctx_t *ctx, int peer, const void *header,
                              size_t header_bytes, const void *data, size_t bytes,
                              pgasi_tp_comp_t *comp)
{
    static struct {
        unsigned char header[32], data[4096];
        size_t header_bytes, bytes;
        bool full;
    } held;
    const pgasi_tp_ops_t *real = pgasi_tp_find("loopback");
    /* this one goes after the next */
    if (!held.full && ++n_lies % 50 == 0 && bytes <= sizeof held.data) {
        memcpy(held.header, header, header_bytes);
        memcpy(held.data, data, bytes);
        held.header_bytes = header_bytes;
        held.bytes = bytes;
        held.full = true;
        return PGAS_OK;
    }
    pgas_status_t status = real->am(ctx, peer, header, header_bytes, data, bytes, comp);
    if (held.full && status == PGAS_OK) {
        held.full = false;
        real->am(ctx, peer, held.header, held.header_bytes, held.data, held.bytes, NULL);
    }
    return status;
}

static pgas_status_t lying_put(pgasi_tp_ctx_t *ctx, int peer, pgasi_tp_key_t *to,
                               uint64_t remote_addr, const void *src, size_t bytes,
                               pgasi_tp_comp_t *comp)
{
    return ++n_lies % 50 == 0
               ? PGAS_OK
               : pgasi_tp_find("loopback")->put(ctx, peer, to, remote_addr, src, bytes, comp);
}

/* loopback's contexts carry loopback's table; this puts the liar's in its place */
static pgas_status_t lying_ctx_open(pgasi_tp_t *on, int index, pgasi_tp_ctx_t **ctx_p)
{
    pgas_status_t status = pgasi_tp_find("loopback")->ctx_open(on, index, ctx_p);
    (*ctx_p)->ops = &liar;
    return status;
}

static void checker_can_fail(void)
{
    liar = *pgasi_tp_find("loopback");
    liar.ctx_open = lying_ctx_open;
    liar.am = lying_am;
    ok(!keeps_promises(&liar, 1), "messages out of order are found");
    liar = *pgasi_tp_find("loopback");
    liar.ctx_open = lying_ctx_open;
    liar.put = lying_put;
    ok(!keeps_promises(&liar, 1), "lost puts are found");
}

/* --- the counting wrapper --- */

static void counts(void)
{
    pgasi_tp_counts_t seen;
    uint64_t word = 0;
    const pgasi_tp_ops_t *table = pgasi_tp_count_wrap(with_faults("again=2", 5));
    open_world(table);
    int n_put = 0, n_again = 0;
    for (int i = 0; i < 300; i++) {
        pgas_status_t status = ops->put(ctxs[i % 2], 0, key, at(0), &word, 8, NULL);
        n_put += status == PGAS_OK;
        n_again += status == PGAS_ERR_AGAIN;
    }
    pgas_status_t status;
    RETRY(status, ops->get(ctxs[0], 0, key, at(HEAP), &word, 8, NULL));
    send(0, 100);
    while (inbox.n_arrived == 0)
        progress();
    ok(pgasi_tp_count_query(tp, &seen) && seen.n_ops[PGASI_COUNT_PUT] == (uint64_t)n_put &&
           seen.n_bytes[PGASI_COUNT_PUT] == 8 * (uint64_t)n_put &&
           seen.n_again >= (uint64_t)n_again && seen.n_failed == 1 &&
           seen.n_ops[PGASI_COUNT_AM] == 1 && seen.n_bytes[PGASI_COUNT_AM] == 100 &&
           seen.n_received == 1 && seen.received_bytes == 100,
       "operations, bytes, refusals and messages of both contexts are counted");
    uint64_t words[2] = { 0, 0 };
    pgasi_tp_count_watch(&words[1], sizeof words[1]);
    RETRY(status, ops->put(ctxs[0], 0, key, at(0), &words[0], 8, NULL));
    RETRY(status, ops->put(ctxs[0], 0, key, at(0), &words[0], 16, NULL));
    RETRY(status, ops->put(ctxs[0], 0, key, at(0), (char *)&words[1] + 4, 4, NULL));
    pgasi_tp_count_watch(NULL, 0);
    RETRY(status, ops->put(ctxs[0], 0, key, at(0), &words[1], 8, NULL));
    n_put += 4;
    ok(pgasi_tp_count_query(tp, &seen) && seen.n_watched == 1 && seen.watched_bytes == 4 &&
           seen.n_registered == 1 && seen.registered_bytes == HEAP,
       "what is sent from memory that is watched is counted apart, and so is memory that is "
       "registered");
    ops->ctx_close(ctxs[1]);
    pgasi_tp_counts_t after;
    ok(pgasi_tp_count_query(tp, &after) && after.n_ops[PGASI_COUNT_PUT] == (uint64_t)n_put,
       "also those of a context that was closed");
    ops->ctx_open(tp, 1, &ctxs[1]);
    close_world();
    open_world(pgasi_tp_find("loopback"));
    ok(!pgasi_tp_count_query(tp, &seen), "an instance that does not count says so");
    close_world();
}

int main(void)
{
    plan(73);
    refuses();
    for (int wrapped = 0; wrapped < 2; wrapped++) {
        const pgasi_tp_ops_t *loopback = pgasi_tp_find("loopback");
        diag(wrapped ? "loopback, counted" : "loopback");
        open_world(wrapped ? pgasi_tp_count_wrap(loopback) : loopback);
        moves_data();
        does_atomics(8);
        does_atomics(4);
        sends_messages();
        sleeps_and_wakes();
        keys();
        close_world();
    }
    parses();
    under_faults();
    repeats();
    does_harm();
    drops_registrations();
    checker_can_fail();
    counts();
    return done();
}
