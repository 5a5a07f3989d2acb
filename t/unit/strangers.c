/* what: Messages for broadcasts, locks, objects and memory of other ranks may come from any rank
 *       with any contents. A malformed message has no effect except perhaps a log line, a
 *       well-formed one runs, and proper messages still work afterwards.
 * log: malformed broadcast
 * log: no live block
 * log: does not fit
 * log: a block of rank
 * log: releases a lock
 * log: does not exist here
 * source: src/bcast/bcast.h, src/msg/descriptor.h; random messages, half of them nearly right
 */
#include <sched.h>
#include <unistd.h>
#include "base/log.h"
#include "base/rng.h"
#include "boot/boot.h"
#include "bcast/bcast.h"
#include "call/handler.h"
#include "msg/recv_queue.h"
#include "msg/send_queue.h"
#include "call/task.h"
#include "mem/thread.h"
#include "t/tap.h"
#include "t/unit/lone.h"

#define RANKS      5
#define N_MESSAGES 20000
#define ARGS_MAX   160

static pgas_handler_t nop, add;
static uint64_t n_runs, counter;
static pgas_lock_t lock;
static pgas_object_t object;
static pgas_gptr_t block;

static void on_nop(const void *args, size_t bytes, pgas_thread_t source, void *context)
{
    (void)args;
    (void)bytes;
    (void)source;
    (void)context;
    n_runs++;
}

static void op_add(void *at, const void *args, size_t bytes, void *result, size_t result_bytes,
                   pgas_thread_t source)
{
    (void)args;
    (void)bytes;
    (void)result;
    (void)result_bytes;
    (void)source;
    ++*(uint64_t *)at;
}

/* As if it had arrived in a ring. */
static void receive(uint32_t id, const void *args, size_t bytes, int rank)
{
    static uint64_t words[ARGS_MAX / 8 + 2];
    words[0] = pgasi_desc_header(id, bytes, 0);
    memcpy(words + 1, args, bytes);
    pgasi_recv_lock();
    pgasi_path_state_t before = pgasi_handlers_enter(true);
    pgasi_descs_run((const char *)words, pgasi_desc_room(words[0]), rank);
    pgasi_handlers_leave(before);
    pgasi_recv_unlock();
}

/* Words that are there, in the places of others. */
static uint64_t a_word(pgasi_rng_t *rng)
{
    uint64_t draw = pgasi_rng_u64(rng), small = draw >> 8 & 7;
    const uint64_t known[] = { lock,
                               object,
                               block,
                               small,
                               small | small << 32,
                               nop,
                               (uint64_t)nop | 1 << 16,
                               draw,
                               pgas_gptr_make((int)small,
                                              (UINT64_C(1) << 30) + (draw >> 16 & 0xFFF8)),
                               64,
                               1u << 20 };
    return known[(draw >> 3) % (sizeof known / sizeof known[0])];
}

static size_t nearly_right(uint32_t id, char *args, pgasi_rng_t *rng)
{
    size_t n = (size_t)pgasi_rng_below(rng, ARGS_MAX / 8 + 1);
    for (size_t i = 0; i < n; i++) {
        uint64_t word = a_word(rng);
        memcpy(args + 8 * i, &word, 8);
    }
    if (id <= PGASI_DESC_BCAST_BUFFER && n >= 3 && pgasi_rng_below(rng, 2)) {
        uint64_t draw = pgasi_rng_u64(rng);
        uint32_t root = (uint32_t)(draw % RANKS), low = (uint32_t)(draw >> 8) % RANKS;
        pgasi_bcast_head_t h = {
            pgas_thread_make((int)root, 0), low, low + 1 + (uint32_t)(draw >> 16) % (RANKS - low),
            (uint32_t)(draw >> 24 & 3),     nop, (uint8_t)(draw >> 32 & 15),
            (uint8_t)(draw >> 40 & 31),     0
        };
        memcpy(args, &h, sizeof h);
    }
    return 8 * n;
}

static void random_messages(uint64_t seed)
{
    static const uint32_t ids[] = { PGASI_DESC_BCAST,     PGASI_DESC_BCAST_BUFFER,
                                    PGASI_DESC_BCAST_ACK, PGASI_DESC_BCAST_THREAD,
                                    PGASI_DESC_LOCK,      PGASI_DESC_OBJECT,
                                    PGASI_DESC_ALLOC };
    pgasi_rng_t rng;
    pgasi_rng_seed(&rng, seed);
    for (int i = 0; i < N_MESSAGES; i++) {
        uint32_t id = ids[pgasi_rng_below(&rng, sizeof ids / sizeof ids[0])];
        char args[ARGS_MAX + 8];
        size_t bytes = nearly_right(id, args, &rng);
        if (bytes && pgasi_rng_below(&rng, 8) == 0)
            bytes -= 1 + (size_t)pgasi_rng_below(&rng, 7);
        receive(id, args, bytes, (int)pgasi_rng_below(&rng, RANKS));
    }
    while (pgasi_tasks_pending())
        sched_yield();
    ok(true, "%d messages leave us alive", N_MESSAGES);
    ok(pgasi_n_dropped > 0 && n_runs > 0, "some were refused, some ran");
}

static void proper_ones(void)
{
    pgasi_bcast_head_t h = { pgas_thread_make(2, 0), 0, 0, 0, nop, 0, 0, 0 };
    uint64_t before = n_runs;
    for (h.low = 0; h.low < RANKS; h.low++) { /* one of these places is ours */
        h.high = h.low + 1;
        receive(PGASI_DESC_BCAST, &h, sizeof h, 2);
    }
    is_int((intmax_t)(n_runs - before), 1, "a proper broadcast runs once");
    h.low = 1;
    h.high = 0;
    receive(PGASI_DESC_BCAST, &h, sizeof h, 2);
    is_int((intmax_t)(n_runs - before), 1, "one of no stretch does not");
    uint64_t value = counter;
    ok(pgas_object_call(object, add, NULL, 0, NULL, 0) == PGAS_OK && counter == value + 1,
       "the object still answers");
}

int main(void)
{
    plan(6);
    pgas_handler_register("t.nop", on_nop, NULL, NULL, &nop);
    pgas_method_register("t.add", op_add, &add);
    bool good = lone_init(RANKS, "HEAP_SIZE=1M SERVICE_THREADS=0 CALL_MAX=1K") == PGAS_OK &&
                pgas_lock_create(&lock) == PGAS_OK &&
                pgas_object_create(&counter, &object) == PGAS_OK &&
                pgas_alloc_on(pgas_rank(), PGAS_ZONE_NONE, 4096, &block) == PGAS_OK;
    ok(good, "a lock, an object, a block");
    random_messages(tap_seed(7));
    proper_ones();
    int status = done();
    fflush(stdout);
    _exit(status); /* no rank reads the forwarded messages, so the library would not end */
}
