/* what: A header gives back the fields that were written. A run of descriptors is cut into calls as
 *       a naive reader cuts it, including runs of calls under one header. A descriptor that is cut
 *       short, has no valid bit or names no handler is dropped and counted, and stops no other.
 * source: src/msg/descriptor.h, src/call/handler.h; seeded model test */
#include <fcntl.h>
#include "base/log.h"
#include "base/rng.h"
#include "call/handler.h"
#include "t/tap.h"
#include "t/unit/lone.h"

#define ROUNDS    400
#define BYTES_MAX 20000

static pgas_handler_t first, second;
static uint64_t seen_sum;
static int n_seen, n_bad;

static uint64_t digest(uint64_t handler, const void *args, size_t bytes, uint64_t source)
{
    uint64_t sum = handler * 1000003 + bytes * 31 + source;
    for (size_t i = 0; i < bytes; i++)
        sum = sum * 131 + ((const unsigned char *)args)[i];
    return sum;
}

static void on_call(const void *args, size_t bytes, pgas_thread_t source, void *context)
{
    pgas_handler_t number = *(pgas_handler_t *)context;
    seen_sum = seen_sum * 7 + digest(number, args, bytes, source);
    n_bad += (uintptr_t)args % (bytes <= 4 ? 4 : 8) != 0;
    n_seen++;
}

/* Arguments of up to 4 bytes take 4 in a run. */
static size_t stride_of(size_t bytes)
{
    return bytes - 1 < 4 ? 4 : (bytes + 7) / 8 * 8;
}

static void headers(void)
{
    static const size_t bytes[] = { 0, 1, 4, 5, 7, 8, 9, 4096, PGASI_DESC_BYTES_MAX };
    static const uint32_t handlers[] = {
        1, 2, PGAS_HANDLERS_MAX, PGASI_DESC_ACK, PGASI_DESC_BATCH, PGASI_DESC_WRAP
    };
    static const int slots[] = { 0, 1, 4093, PGAS_SLOT_SERVICE };
    int n_wrong = 0;
    for (size_t b = 0; b < sizeof bytes / sizeof bytes[0]; b++) {
        for (size_t h = 0; h < sizeof handlers / sizeof handlers[0]; h++) {
            for (size_t s = 0; s < sizeof slots / sizeof slots[0]; s++) {
                uint64_t header = pgasi_desc_header(handlers[h], bytes[b], slots[s]);
                size_t padded = (bytes[b] + 7) / 8 * 8, stride = stride_of(bytes[b]);
                n_wrong +=
                    !(header & PGASI_DESC_VALID) || pgasi_desc_handler(header) != handlers[h];
                n_wrong +=
                    pgasi_desc_bytes(header) != bytes[b] || pgasi_desc_slot(header) != slots[s];
                n_wrong += pgasi_desc_more(header) != 0 || (header & PGASI_DESC_TOKEN) != 0;
                n_wrong += pgasi_desc_room(header) != 8 + padded;
                n_wrong += pgasi_desc_room(header | PGASI_DESC_TOKEN) != 16 + padded;
                header |= (uint64_t)PGASI_DESC_MORE_MAX << PGASI_DESC_MORE_SHIFT;
                n_wrong += pgasi_desc_more(header) != PGASI_DESC_MORE_MAX ||
                           pgasi_desc_bytes(header) != bytes[b];
                n_wrong += pgasi_desc_stride(header) != stride;
                n_wrong +=
                    pgasi_desc_room(header) != 8 + stride * (1 + (size_t)PGASI_DESC_MORE_MAX);
            }
        }
    }
    is_int(n_wrong, 0, "headers give back their fields");
}

/* Writes random descriptors to `at`, and their sum and number into *sum_p and *n_p. */
static size_t write_descs(pgasi_rng_t *rng, uint64_t *words, uint64_t *sum_p, int *n_p,
                          int source_rank)
{
    size_t used = 0;
    for (uint64_t descs = pgasi_rng_below(rng, 30); descs > 0; descs--) {
        size_t bytes = (size_t)pgasi_rng_below(rng, 60), stride = stride_of(bytes);
        uint64_t more = bytes && pgasi_rng_below(rng, 3) == 0 ? pgasi_rng_below(rng, 6) : 0;
        int slot = (int)pgasi_rng_below(rng, 4096);
        pgas_handler_t handler = pgasi_rng_below(rng, 2) ? first : second;
        words[used / 8] = pgasi_desc_header(handler, bytes, slot) | more << PGASI_DESC_MORE_SHIFT;
        used += 8;
        for (uint64_t i = 0; i <= more; i++) {
            for (size_t k = 0; k < stride; k++)
                ((unsigned char *)words)[used + k] = (unsigned char)pgasi_rng_u64(rng);
            *sum_p = *sum_p * 7 + digest(handler, (unsigned char *)words + used, bytes,
                                         pgas_thread_make(source_rank, slot));
            ++*n_p;
            used += stride;
        }
        used = (used + 7) / 8 * 8;
    }
    return used;
}

static int model(uint64_t seed, bool break_one)
{
    static uint64_t words[BYTES_MAX / 8];
    pgasi_rng_t rng;
    int n_wrong = 0;
    pgasi_rng_seed(&rng, seed);
    for (int round = 0; round < ROUNDS; round++) {
        uint64_t want = 0, dropped = pgasi_n_dropped;
        int n_want = 0, rank = (int)pgasi_rng_below(&rng, 1000);
        size_t bytes = write_descs(&rng, words, &want, &n_want, rank);
        if (break_one && bytes > 16)
            words[1] ^= 1;
        seen_sum = 0;
        n_seen = 0;
        uint64_t n = pgasi_descs_run((const char *)words, bytes, rank);
        n_wrong += n != (uint64_t)n_want || n_seen != n_want || seen_sum != want ||
                   pgasi_n_dropped != dropped;
    }
    return n_wrong + n_bad;
}

static void models(uint64_t seed)
{
    is_int(model(seed, false), 0, "random descriptors run as a naive reader runs them");
    int former = pgasi_log_set_fd(open("/dev/null", O_WRONLY));
    ok(model(seed, true) > 0, "a wrong bit is noticed");
    close(pgasi_log_set_fd(former));
}

/* Runs one descriptor and says how many calls ran and how many drops were counted. */
static bool runs(const uint64_t *words, size_t bytes, int calls, uint64_t drops)
{
    uint64_t before = pgasi_n_dropped;
    n_seen = 0;
    pgasi_descs_run((const char *)words, bytes, 0);
    return n_seen == calls && pgasi_n_dropped == before + drops;
}

static void malformed(void)
{
    uint64_t good = pgasi_desc_header(first, 8, 0);
    int former = pgasi_log_set_fd(open("/dev/null", O_WRONLY));
    ok(runs((uint64_t[]){ good, 1, pgasi_desc_header(first, 9, 0), 2 }, 32, 1, 1),
       "the last descriptor is cut short");
    ok(runs((uint64_t[]){ good, 1, good }, 24, 1, 1), "a header without its arguments");
    ok(runs((uint64_t[]){ good, 1, 0 }, 20, 1, 0), "a rest that is no header is left");
    ok(runs((uint64_t[]){ good & ~PGASI_DESC_VALID, 1, good, 1 }, 32, 0, 1),
       "a header without its mark ends the run");
    ok(runs((uint64_t[]){ pgasi_desc_header(0, 8, 0), 1, good, 1 }, 32, 1, 1), "handler 0 is none");
    ok(runs((uint64_t[]){ pgasi_desc_header(3, 8, 0), 1, good, 1 }, 32, 1, 1),
       "so is the first one after the last");
    ok(runs((uint64_t[]){ pgasi_desc_header(PGASI_DESC_WRAP, 0, 0), good, 1 }, 24, 1, 1),
       "no ends of chunks within a batch");
    ok(runs((uint64_t[]){ pgasi_desc_header(PGASI_DESC_BATCH, 8, 0), 1, good, 1 }, 32, 1, 1),
       "no batches within a batch");
    ok(runs((uint64_t[]){ good | UINT64_C(1) << PGASI_DESC_MORE_SHIFT, 1 }, 16, 0, 1),
       "a run of two with one");
    ok(runs((uint64_t[]){ pgasi_desc_header(first, PGASI_DESC_BYTES_MAX, 0), 1 }, 16, 0, 1),
       "a size beyond the message");
    ok(runs((uint64_t[]){ good }, 0, 0, 0) && runs((uint64_t[]){ good }, 7, 0, 0),
       "nothing is nothing");
    close(pgasi_log_set_fd(former));
}

int main(void)
{
    plan(15);
    uint64_t seed = tap_seed(1);
    pgas_handler_register("first", on_call, &first, NULL, &first);
    pgas_handler_register("second", on_call, &second, NULL, &second);
    ok(lone_init(1, "HEAP_SIZE=64K SERVICE_THREADS=0") == PGAS_OK, "init");
    headers();
    models(seed);
    malformed();
    pgas_finalize();
    return done();
}
