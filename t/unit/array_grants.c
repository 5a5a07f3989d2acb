/* what: One thread at a time uses a grant, also while the grant becomes another chunk's. While the
 *       first thread that uses arrays has its time alone, no other thread begins to use them.
 * needs: tsan-ok
 * source: src/array/array.h, src/array/slots.c */
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <string.h>
#include "array/array.h"
#include "array/own_pins.h"
#include "array/slots.h"
#include "base/clock.h"
#include "boot/boot.h"
#include "call/progress.h"
#include "msg/serve.h"
#include "t/tap.h"
#include "t/unit/lone.h"

#define N_RENEWALS 100000 /* and until so many reads */
#define N_READS    1000
/* of an element: long enough that another thread comes in between, if it can */
#define WORDS 64
#define HEAT  4 /* recalls after which a chunk is guarded: each access is under the lock */

static pgas_array_t *array;
static pgasi_array_grant_t grant;
static uint64_t element[WORDS];
static char *const data = (char *)element;
static int n_running, n_torn, n_reads;

static pgasi_array_site_t site(void)
{
    return (
        pgasi_array_site_t){ .array = pgasi_array_of(array), .grant = &grant, .line_data = &data };
}

static bool get_whole(uint64_t *words)
{
    pgasi_array_access_t x = { .kind = PGASI_ARRAY_GET, .n = 1, .out = words };
    pgasi_array_site_t at = site();
    if (pgasi_array_grant_try(&at, &x, false) != PGAS_OK)
        return true; /* between two chunks */
    __atomic_add_fetch(&n_reads, 1, __ATOMIC_RELAXED);
    for (int k = 1; k < WORDS; k++)
        if (words[k] != words[0])
            return false;
    return true;
}

static void *read_all_the_time(void *arg)
{
    uint64_t words[WORDS];
    (void)arg;
    while (__atomic_load_n(&n_running, __ATOMIC_ACQUIRE) > 0)
        __atomic_add_fetch(&n_torn, !get_whole(words), __ATOMIC_RELAXED);
    return NULL;
}

static void renewals(void)
{
    pthread_t reader;
    uint64_t words[WORDS];
    n_running = 1;
    pthread_create(&reader, NULL, read_all_the_time, NULL);
    for (uint64_t n = 0; n < N_RENEWALS || __atomic_load_n(&n_reads, __ATOMIC_RELAXED) < N_READS;
         n++) {
        pgasi_array_site_t at = site();
        for (int k = 0; k < WORDS; k++)
            words[k] = n;
        pgasi_array_grant_renew(&grant, 0, HEAT, PGASI_ARRAY_NOTHING);
        pgasi_array_grant_open(&grant, PGASI_ARRAY_ALL, 0);
        pgasi_array_grant_try(
            &at, &(pgasi_array_access_t){ .kind = PGASI_ARRAY_SET, .n = 1, .in = words }, false);
    }
    __atomic_store_n(&n_running, 0, __ATOMIC_RELEASE);
    pthread_join(reader, NULL);
    diag("%d reads", n_reads);
    is_int(n_torn, 0, "elements are whole although their grant is renewed again and again");
    element[1]++;
    ok(!get_whole(words), "a torn element would be noticed");
}

/* ---- pins ---- */

static bool pins(pgas_array_mode_t mode)
{
    pgasi_array_access_t x = { .kind = PGASI_ARRAY_PIN, .pin = (uint8_t)mode, .n = 1 };
    pgasi_array_site_t at = site();
    bool good =
        pgasi_array_own_pin_room() == PGAS_OK && pgasi_array_grant_try(&at, &x, true) == PGAS_OK;
    if (good)
        pgasi_array_own_pin_add(&grant);
    return good;
}

/* Whether a thread waits for exactly that. */
static bool unpin_recalls(pgas_array_mode_t mode)
{
    bool recall = false;
    return pgasi_array_grant_unpin(&grant, mode, false, &recall) == PGAS_OK && recall;
}

static bool is_kept_away(uint8_t kind)
{
    pgasi_array_access_t x = { .kind = kind, .n = 1, .foreign = true };
    return pgasi_array_grant_is_pinned_against(&grant, &x);
}

static void open_fresh(void)
{
    pgasi_array_grant_renew(&grant, 0, HEAT, PGASI_ARRAY_NOTHING);
    pgasi_array_grant_open(&grant, PGASI_ARRAY_ALL, 0);
}

/* ---- caches that merge at the home ---- */

#define ADD PGAS_OP(PGAS_ADD, PGAS_U64)

static void open_to_combine(void)
{
    pgasi_array_grant_renew(&grant, 0, HEAT, PGASI_ARRAY_NOTHING);
    pgasi_array_grant_open(&grant, PGASI_ARRAY_OPERATES, ADD);
}

static bool is_seized(uint64_t chunk, uint32_t op)
{
    bool seized = pgasi_array_grant_seize(&grant, chunk, op);
    if (seized)
        pgasi_array_grant_release(&grant);
    return seized;
}

static void a_cache_merges(void)
{
    pgasi_array_site_t at = site();
    pgasi_array_access_t pin = {
        .kind = PGASI_ARRAY_PIN, .pin = PGAS_ARRAY_OPERATE, .op = ADD, .n = 1
    };
    bool recall;
    open_to_combine();
    bool free = is_seized(0, ADD) && pgasi_array_grant_seize(&grant, 0, ADD);
    bool held = !is_seized(0, ADD);
    pgasi_array_grant_release(&grant);
    ok(free && held && is_seized(0, ADD), "one cache at a time merges into an idle chunk");
    ok(!is_seized(0, PGAS_OP(PGAS_MAX, PGAS_U64)) && !is_seized(1, ADD),
       "not by another operator, not into another chunk");
    bool good =
        pgasi_array_own_pin_room() == PGAS_OK && pgasi_array_grant_try(&at, &pin, true) == PGAS_OK;
    pgasi_array_own_pin_add(&grant);
    ok(good && !is_seized(0, ADD), "not while a thread has pinned it");
    pgasi_array_grant_unpin(&grant, PGAS_ARRAY_OPERATE, false, &recall);
    grant.now.owner = 1;
    good = !is_seized(0, ADD);
    grant.now.owner = 0;
    grant.now.published = 1;
    good = good && !is_seized(0, ADD);
    grant.now.published = 0;
    pgasi_array_grant_share(&at, true);
    ok(good && !is_seized(0, ADD), "not while threads have mapping entries, or the home combines");
    pgasi_array_grant_share(&at, false);
    grant.now.recall = PGASI_ARRAY_NO_ACCESS;
    good = !is_seized(0, ADD);
    open_to_combine();
    good = good && is_seized(0, ADD);
    pgasi_array_grant_close(&at, PGASI_ARRAY_NO_ACCESS, true);
    ok(good && !is_seized(0, ADD), "not when the home has recalled it");
}

/* ---- pins ---- */

static void pins_keep_away(void)
{
    pgasi_array_site_t at = site();
    open_fresh();
    bool good = pins(PGAS_ARRAY_READ) &&
                pgasi_array_grant_close(&at, PGASI_ARRAY_NO_WRITES, true) != PGASI_ARRAY_PINNED;
    ok(good && !unpin_recalls(PGAS_ARRAY_READ), "a pin to read lets writing be taken away");
    open_fresh();
    good = pins(PGAS_ARRAY_READ) &&
           pgasi_array_grant_close(&at, PGASI_ARRAY_NO_ACCESS, true) == PGASI_ARRAY_PINNED;
    ok(good && unpin_recalls(PGAS_ARRAY_READ), "and keeps reading, until it ends");
    open_fresh();
    good = pins(PGAS_ARRAY_WRITE) &&
           pgasi_array_grant_close(&at, PGASI_ARRAY_NO_WRITES, true) == PGASI_ARRAY_PINNED;
    ok(good && unpin_recalls(PGAS_ARRAY_WRITE), "a pin to write keeps writing, until it ends");
    open_fresh();
    good = pins(PGAS_ARRAY_WRITE) && pins(PGAS_ARRAY_READ) &&
           pgasi_array_grant_close(&at, PGASI_ARRAY_NO_ACCESS, true) == PGASI_ARRAY_PINNED;
    good = good && pgasi_array_grant_close(&at, PGASI_ARRAY_NO_WRITES, true) == PGASI_ARRAY_PINNED;
    ok(good && !unpin_recalls(PGAS_ARRAY_WRITE) && unpin_recalls(PGAS_ARRAY_READ),
       "of two wishes the greater one waits for all pins");
    open_fresh();
    good = pins(PGAS_ARRAY_WRITE) && pins(PGAS_ARRAY_WRITE) &&
           pgasi_array_grant_close(&at, PGASI_ARRAY_NO_WRITES, true) == PGASI_ARRAY_PINNED;
    ok(good && !unpin_recalls(PGAS_ARRAY_WRITE) && unpin_recalls(PGAS_ARRAY_WRITE),
       "the last of equal pins is the end");
    open_fresh();
    pgasi_array_access_t other = { .kind = PGASI_ARRAY_PIN, .pin = PGAS_ARRAY_READ, .n = 1 };
    good = pins(PGAS_ARRAY_READ) &&
           pgasi_array_grant_close(&at, PGASI_ARRAY_NO_ACCESS, true) == PGASI_ARRAY_PINNED;
    good = good && pgasi_array_grant_try(&at, &other, false) == PGAS_INPROGRESS &&
           pins(PGAS_ARRAY_READ);
    ok(good && !unpin_recalls(PGAS_ARRAY_READ) && unpin_recalls(PGAS_ARRAY_READ),
       "while a thread waits for pins, other threads add none");
    open_fresh();
    good = pins(PGAS_ARRAY_READ) && !is_kept_away(PGASI_ARRAY_GET) && is_kept_away(PGASI_ARRAY_SET);
    good = good && unpin_recalls(PGAS_ARRAY_READ) && !is_kept_away(PGASI_ARRAY_SET);
    ok(good && pins(PGAS_ARRAY_READ) && !unpin_recalls(PGAS_ARRAY_READ),
       "accesses of another node wait for pins that are against them, and for no others");
}

/* ---- recalls soon after the first use ---- */

#define LONG_NS (600 * UINT64_C(1000)) /* a recall so long after the first use is not soon */

static void let_time_pass(void)
{
    for (uint64_t begin = pgasi_now_ns(); pgasi_now_ns() - begin < LONG_NS;)
        sched_yield();
}

static void read_as_thread(void)
{
    uint64_t words[WORDS];
    pgasi_array_site_t at = site();
    pgasi_array_grant_try(&at,
                          &(pgasi_array_access_t){ .kind = PGASI_ARRAY_GET, .n = 1, .out = words },
                          true);
}

static void heat_of_recalls(void)
{
    pgasi_array_site_t at = site();
    pgasi_array_grant_renew(&grant, 0, 1, PGASI_ARRAY_NOTHING);
    pgasi_array_grant_open(&grant, PGASI_ARRAY_READS, 0);
    let_time_pass();
    read_as_thread();
    pgasi_array_grant_close(&at, PGASI_ARRAY_NO_ACCESS, true);
    is_int(grant.now.heat, 2,
           "a recall soon after the first use counts, also long after the grant");
    pgasi_array_grant_renew(&grant, 0, 1, PGASI_ARRAY_NOTHING);
    pgasi_array_grant_open(&grant, PGASI_ARRAY_READS, 0);
    read_as_thread();
    let_time_pass();
    pgasi_array_grant_close(&at, PGASI_ARRAY_NO_ACCESS, true);
    is_int(grant.now.heat, 0, "one long after it does not");
}

/* ---- a second and a third thread ---- */

enum { N_NEWCOMERS = 3, N_LOOKS = 3000 };
static int n_begun, n_done, n_early;
static bool is_over;

static void *come(void *arg)
{
    uint64_t value = 0;
    bool bad = pgas_thread_attach() != PGAS_OK;
    __atomic_add_fetch(&n_begun, 1, __ATOMIC_ACQ_REL);
    bad = pgas_array_get_u64(arg, 1, &value) != PGAS_OK || value != 7 || bad;
    __atomic_add_fetch(&n_early, bad || !__atomic_load_n(&is_over, __ATOMIC_ACQUIRE),
                       __ATOMIC_RELAXED);
    __atomic_add_fetch(&n_done, 1, __ATOMIC_RELEASE);
    pgas_thread_detach();
    return NULL;
}

/* While the first thread is alone it stores without fences, and readers see its exclusive grants.
 * This ends under the rank's receive lock, which the test holds. Until then no other thread reads,
 * however many begin at once. */
static void newcomers(void)
{
    pthread_t thread[N_NEWCOMERS];
    pgas_array_t *words = NULL;
    bool good = pgas_array_create(NULL, 8, 512, NULL, &words) == PGAS_OK &&
                pgas_array_set_u64(words, 1, 7) == PGAS_OK;
    ok(good && pgasi_array_is_sole() && (pgas_array_readable(words, 1) & 1),
       "the first thread is alone");
    pgasi_path_state_t before = pgasi_serve_begin();
    for (int k = 0; k < N_NEWCOMERS; k++)
        pthread_create(&thread[k], NULL, come, words);
    while (__atomic_load_n(&n_begun, __ATOMIC_ACQUIRE) < N_NEWCOMERS)
        sched_yield();
    for (int n = 0; n < N_LOOKS && __atomic_load_n(&n_done, __ATOMIC_ACQUIRE) == 0; n++)
        sched_yield();
    __atomic_store_n(&is_over, true, __ATOMIC_RELEASE);
    pgasi_serve_end(before);
    for (int k = 0; k < N_NEWCOMERS; k++)
        pthread_join(thread[k], NULL);
    is_int(n_early, 0, "no thread reads before the first one's time alone is over");
    pgas_array_destroy(words);
}

/* ---- one instruction after the other ---- */

#if defined __has_feature
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
#define SANITIZED 1
#endif
#endif
#if defined __SANITIZE_ADDRESS__ || defined __SANITIZE_THREAD__
#define SANITIZED 1
#endif

enum { RENEW, OPEN, CLOSE, UNSHOW, ASK, PIN, UNPIN, GET, SET, N_STEPPED };
static const char *const stepped[N_STEPPED] = { "renew", "open",  "close", "unshow", "ask for pins",
                                                "pin",   "unpin", "get",   "set" };

#if defined __x86_64__ && !defined SANITIZED

static volatile uint32_t last_lock;
static volatile int n_taken, n_given;

static void after_instruction(int signal)
{
    uint32_t lock = __atomic_load_n(&grant.lock, __ATOMIC_RELAXED);
    (void)signal;
    n_taken += lock != 0 && last_lock == 0;
    n_given += lock == 0 && last_lock != 0;
    last_lock = lock;
}

/* Below the stack's pointer 128 bytes may be in use. */
#define TRAP_FLAG(how)                                                                      \
    __asm__ volatile("sub $128, %%rsp; pushfq; " how ", (%%rsp); popfq; add $128, %%rsp" :: \
                         : "cc", "memory")

static void step_through(int what)
{
    static uint64_t words[WORDS];
    pgasi_array_access_t pin = { .kind = PGASI_ARRAY_PIN, .pin = PGAS_ARRAY_READ, .n = 1 };
    pgasi_array_access_t get = { .kind = PGASI_ARRAY_GET, .n = 1, .out = words };
    pgasi_array_access_t set = { .kind = PGASI_ARRAY_SET, .n = 1, .in = words };
    pgasi_array_site_t at = site();
    bool recall;
    if (what == UNPIN && pgasi_array_own_pin_room() == PGAS_OK)
        pgasi_array_own_pin_add(&grant);
    n_taken = n_given = 0;
    TRAP_FLAG("orq $0x100");
    switch (what) {
    case RENEW:
        pgasi_array_grant_renew(&grant, 0, HEAT, PGASI_ARRAY_NOTHING);
        break;
    case OPEN:
        pgasi_array_grant_open(&grant, PGASI_ARRAY_ALL, 0);
        break;
    case CLOSE:
        pgasi_array_grant_close(&at, PGASI_ARRAY_NO_WRITES, false);
        break;
    case UNSHOW:
        pgasi_array_grant_withdraw(&at);
        break;
    case ASK:
        pgasi_array_grant_is_pinned_against(&grant, &set);
        break;
    case PIN:
        pgasi_array_grant_try(&at, &pin, true);
        break;
    case UNPIN:
        pgasi_array_grant_unpin(&grant, PGAS_ARRAY_READ, false, &recall);
        break;
    case GET:
        pgasi_array_grant_try(&at, &get, true);
        break;
    default:
        pgasi_array_grant_try(&at, &set, true);
        break;
    }
    TRAP_FLAG("andq $~0x100");
}

/* By a rank of the node. */
static void locked_once(int node_rank)
{
    struct sigaction act = { .sa_handler = after_instruction }, before;
    int n_bad = 0, was = pgasi_boot.node_rank;
    sigaction(SIGTRAP, &act, &before);
    pgasi_boot.node_rank = node_rank;
    pgasi_array_grant_renew(&grant, 0, HEAT, PGASI_ARRAY_NOTHING);
    for (int what = RENEW; what < N_STEPPED; what++) {
        step_through(what);
        if (n_taken == 1 && n_given == 1)
            continue;
        diag("%s: the lock is taken %d times and given back %d times", stepped[what], n_taken,
             n_given);
        n_bad++;
    }
    pgasi_boot.node_rank = was;
    sigaction(SIGTRAP, &before, NULL);
    is_int(n_bad, 0, "rank %d of a node has the lock from its taking to its end", node_rank);
}

#else
static void locked_once(int node_rank)
{
    (void)node_rank;
    (void)stepped;
    skip(1, "steps of single instructions are for x86-64 without sanitizers");
}
#endif

int main(void)
{
    plan(21);
    lone_init(3, "HEAP_SIZE=1M SERVICE_THREADS=0 LANES=5");
    if (pgas_array_create(NULL, sizeof element, 1, NULL, &array) != PGAS_OK)
        bail("no array");
    newcomers();
    a_cache_merges();
    pins_keep_away();
    heat_of_recalls();
    renewals();
    for (int r = 0; r < 3; r++)
        locked_once(r);
    pgas_array_destroy(array);
    pgas_finalize();
    return done();
}
