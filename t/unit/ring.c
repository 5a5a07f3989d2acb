/* what: Rings have their documented form on both sides: a naive reader finds the calls that the
 *       library writes for a peer, and the library runs the calls that a naive writer writes. Both
 *       hold over many passes, with the reader far behind or not.
 * needs: tsan-ok
 * source: src/msg/recv_queue.h, descriptor.h; the other rank is a thread with code of its own;
 * seeded model test */
#include <pthread.h>
#include <sched.h>
#include "base/checks.h"
#include "base/rng.h"
#include "msg/recv_queue.h"
#include "msg/send_queue.h"
#include "msg/descriptor.h"
#include "mem/ctx.h"
#include "t/tap.h"
#include "t/unit/lone.h"

#define N_CALLS   12000
#define ARGS_MAX  256
#define MIXED_MAX 64

static pgas_handler_t numbered;

/* ---- the other rank's side, written from the description alone ---- */

/* A place in a channel. */
typedef struct {
    pgasi_channel_t channel;
    char *chunk;
    uint64_t offset; /* in it */
    uint64_t left;   /* bytes of the former chunks */
    bool odd;        /* its marks are */
} place_t;

static place_t first_place(pgasi_channel_t channel)
{
    return (place_t){ channel, channel.chunks + channel.first * pgasi_chunk_bytes, 0, 0, false };
}

static uint64_t *word_at(const place_t *p, uint64_t further)
{
    return (uint64_t *)(void *)(p->chunk + p->offset + further);
}

/* The mark that a first word there bears. */
static uint64_t mark_of(const place_t *p)
{
    return UINT64_C(1) << (p->odd ? 53 : 63);
}

static void enter(place_t *p, uint64_t number, bool odd)
{
    p->left += pgasi_chunk_bytes;
    p->chunk = p->channel.chunks + number * pgasi_chunk_bytes;
    p->offset = 0;
    p->odd = odd;
}

typedef struct {
    place_t at;
    uint64_t *consumed, told, next;
    int n_bad;
    bool slow;
} reader_t;

static uint64_t round_up(uint64_t bytes)
{
    return (bytes + 15) / 16 * 16;
}

/* Calls come in stretches that are longer than a pass: some of one size and by themselves, which
 * take the short paths, some mixed. */
static bool is_plain_stretch(uint64_t number)
{
    return number / 600 % 2 == 0;
}

/* The arguments of call number n are n, then words that look like headers of a phase, made from
 * n; the size follows from n. */
static size_t size_of(uint64_t number)
{
    static const size_t plain[] = { 8, 64, 16, 256, 8 };
    return is_plain_stretch(number) ? plain[number / 1200 % 5]
                                    : 8 + (size_t)(number * 2654435761u >> 7) % (MIXED_MAX - 7);
}

static unsigned char byte_of(uint64_t number, size_t i)
{
    uint64_t word = (pgasi_desc_header(numbered, 8, 5) & ~PGASI_DESC_PHASES) |
                    (UINT64_C(1) << ((number + i / 8) % 2 ? 53 : 63));
    return ((unsigned char *)&word)[i % 8];
}

static bool is_call(const char *args, size_t bytes, uint64_t number)
{
    uint64_t is;
    memcpy(&is, args, 8);
    bool good = is == number && bytes == size_of(number);
    for (size_t i = 8; i < bytes && good; i++)
        good = (unsigned char)args[i] == byte_of(number, i);
    return good;
}

static void make_call(char *args, uint64_t number)
{
    memcpy(args, &number, 8);
    for (size_t i = 8; i < size_of(number); i++)
        args[i] = (char)byte_of(number, i);
}

static void read_descs(reader_t *r, const char *at, size_t bytes)
{
    while (bytes > 0) {
        uint64_t header = *(const uint64_t *)(const void *)at;
        size_t room = pgasi_desc_room(header), stride = pgasi_desc_stride(header);
        r->n_bad +=
            !(header & PGASI_DESC_PHASES) || room > bytes || pgasi_desc_handler(header) != numbered;
        if (r->n_bad)
            return;
        for (uint32_t i = 0; i <= pgasi_desc_more(header); i++)
            r->n_bad += !is_call(at + 8 + i * stride, pgasi_desc_bytes(header), r->next++);
        at += room;
        bytes -= room;
    }
}

/* Takes one published thing; false if there is none. */
static bool read_one(reader_t *r)
{
    const uint64_t *word = word_at(&r->at, 0);
    uint64_t header = __atomic_load_n(word, __ATOMIC_ACQUIRE);
    if ((header & PGASI_DESC_PHASES) != mark_of(&r->at))
        return false;
    size_t bytes = pgasi_desc_room(header);
    if (pgasi_desc_handler(header) == PGASI_DESC_WRAP) {
        enter(&r->at, word[1], pgasi_desc_slot(header) == 1);
        return true;
    }
    if (pgasi_desc_handler(header) == PGASI_DESC_BATCH) {
        bytes = 8 + pgasi_desc_bytes(header);
        read_descs(r, (const char *)(word + 1), bytes - 8);
    } else {
        read_descs(r, (const char *)word, bytes);
    }
    r->at.offset += round_up(bytes);
    r->n_bad += r->at.offset > pgasi_chunk_bytes - 16;
    return true;
}

static void tell(reader_t *r, bool always)
{
    if (r->at.left != r->told || always)
        __atomic_store_n(r->consumed, r->told = r->at.left, __ATOMIC_RELEASE);
}

static void *reader_main(void *arg)
{
    reader_t *r = arg;
    while (r->next < N_CALLS && !r->n_bad) {
        bool some = read_one(r);
        if (!r->slow || !some) /* a slow reader gives room only when the writer can have no more */
            tell(r, false);
        if (!some)
            sched_yield();
    }
    tell(r, true);
    return NULL;
}

/* A single call. The count of sent bytes must include it at once, whether or not the tail is
 * stored. */
static int call_and_count(const char *args, size_t bytes)
{
    uint64_t before = pgasi_sendqs_sent();
    int status = bytes == 8 ? pgas_call(1, numbered, args, 8, NULL)
                            : pgas_call(1, numbered, args, bytes, NULL);
    return status != PGAS_OK || pgasi_sendqs_sent() - before < round_up(8 + bytes);
}

/* We send to rank 1, directly and gathered; the naive reader must find every call in order. */
static int send_to_reader(bool slow, uint64_t seed)
{
    reader_t reader = { .slow = slow };
    pgasi_rng_t rng;
    pthread_t thread;
    pgas_agg_t *agg = NULL;
    int n_bad = pgas_agg_create(NULL, &agg) != PGAS_OK;
    reader.at = first_place(lone_receiver(1, PGASI_EP_ANY, PGASI_CTX_FIRST_OWN));
    reader.consumed = (uint64_t *)(uintptr_t)reader.at.channel.consumed;
    pgasi_rng_seed(&rng, seed);
    pthread_create(&thread, NULL, reader_main, &reader);
    for (uint64_t i = 0; i < N_CALLS && !n_bad; i++) {
        char args[ARGS_MAX];
        make_call(args, i);
        bool direct = pgasi_rng_below(&rng, 4) == 0,
             plain = is_plain_stretch(i) && pgasi_rng_below(&rng, 1000) > 0;
        if (plain && pgasi_rng_below(&rng, 10) == 0)
            n_bad += call_and_count(args, size_of(i));
        else if (plain && size_of(i) == 8)
            n_bad += pgas_call(1, numbered, args, 8, NULL) != PGAS_OK;
        else if (plain || direct)
            n_bad += pgas_call(1, numbered, args, size_of(i), NULL) != PGAS_OK;
        else
            n_bad += pgas_agg_call(agg, 1, numbered, args, size_of(i)) != PGAS_OK;
        if (pgasi_rng_below(&rng, 100) == 0)
            n_bad += pgas_agg_flush(agg, 1, NULL) != PGAS_OK;
        /* single calls and streams: see pgas_call_inline */
        if (pgasi_rng_below(&rng, i / 300 % 2 ? 6 : 60) == 0)
            pgas_progress();
    }
    n_bad += pgas_agg_destroy(agg) != PGAS_OK;
    pthread_join(thread, NULL);
    n_bad += reader.at.left + reader.at.offset != pgasi_sendqs_sent();
    return n_bad + reader.n_bad;
}

/* ---- a naive writer ---- */

static uint64_t n_ran;
static int n_wrong;

static void on_numbered(const void *args, size_t bytes, pgas_thread_t source, void *context)
{
    uint64_t number = __atomic_load_n(&n_ran, __ATOMIC_RELAXED);
    (void)context;
    n_wrong += !is_call(args, bytes, number) || source != pgas_thread_make(2, 5);
    __atomic_store_n(&n_ran, number + 1, __ATOMIC_RELEASE);
}

typedef struct {
    uint64_t seed;
    int n_flipped; /* 1: spoil the arguments of one call */
    place_t at;
} writer_t;

/* Room for a descriptor at the tail and 16 bytes after it: here, or in the other of the two chunks
 * when it is free. */
static void make_room(place_t *p, size_t bytes)
{
    if (p->offset + bytes + 16 <= pgasi_chunk_bytes)
        return;
    uint64_t uses = p->left / pgasi_chunk_bytes + 1, number = p->channel.first + uses % 2,
             *word = word_at(p, 0);
    while (uses > 1 &&
           __atomic_load_n(p->channel.consumed, __ATOMIC_ACQUIRE) < (uses - 1) * pgasi_chunk_bytes)
        sched_yield();
    bool odd = uses / 2 % 2 == 1;
    uint64_t first_word = mark_of(p) | PGASI_DESC_WRAP | (uint64_t)odd << PGASI_DESC_SLOT_SHIFT;
    word[1] = number;
    enter(p, number, odd);
    *word_at(p, 0) = 0;
    __atomic_store_n(word, first_word, __ATOMIC_RELEASE);
}

static void *writer_main(void *arg)
{
    writer_t *w = arg;
    place_t *p = &w->at;
    pgasi_rng_t rng;
    pgasi_rng_seed(&rng, w->seed);
    for (uint64_t i = 0; i < N_CALLS;) {
        uint64_t in_batch = pgasi_rng_below(&rng, 5), first_word = 0;
        size_t bytes = in_batch > 1 ? 8 : 0;
        uint64_t n = PGASI_MIN(in_batch > 1 ? in_batch : 1, N_CALLS - i);
        for (uint64_t k = 0; k < n; k++)
            bytes += 8 + (size_of(i + k) + 7) / 8 * 8;
        make_room(p, round_up(bytes));
        char *at = (char *)word_at(p, 0);
        if (in_batch > 1) {
            first_word = PGASI_DESC_VALID | PGASI_DESC_BATCH |
                         (uint64_t)(bytes - 8) << PGASI_DESC_BYTES_SHIFT;
            at += 8;
        }
        for (uint64_t k = 0; k < n; k++, i++) {
            uint64_t header = pgasi_desc_header(numbered, size_of(i), 5);
            make_call(at + 8, i);
            if (w->n_flipped && i == N_CALLS / 2)
                at[8] ^= 1;
            if (first_word)
                memcpy(at, &header, 8);
            else
                first_word = header;
            at += pgasi_desc_room(header);
        }
        *word_at(p, round_up(bytes)) = 0;
        __atomic_store_n(word_at(p, 0), (first_word & ~PGASI_DESC_PHASES) | mark_of(p),
                         __ATOMIC_RELEASE);
        p->offset += round_up(bytes);
    }
    return NULL;
}

static int run_writer(uint64_t seed, int n_flipped)
{
    writer_t writer = { .seed = seed, .n_flipped = n_flipped };
    pthread_t thread;
    writer.at = first_place(lone_sender(2));
    n_ran = 0;
    n_wrong = 0;
    pthread_create(&thread, NULL, writer_main, &writer);
    while (__atomic_load_n(&n_ran, __ATOMIC_ACQUIRE) < N_CALLS)
        pgas_progress();
    pthread_join(thread, NULL);
    return n_wrong;
}

/* One job for each direction: positions begin at 0. */
static bool job(const char *params, int (*body)(uint64_t seed), uint64_t seed, bool want_good)
{
    bool good = lone_init(3, params) == PGAS_OK;
    good = (body(seed) == 0) == want_good && good;
    /* For finalize: the others have consumed all calls of this rank, and this rank all of theirs.
     * */
    lone_consumed = pgasi_sendqs_sent();
    lone_sent = pgasi_recvq_consumed();
    return pgas_finalize() == PGAS_OK && good;
}

static int to_fast_reader(uint64_t seed)
{
    return send_to_reader(false, seed);
}

static int to_slow_reader(uint64_t seed)
{
    return send_to_reader(true, seed);
}

static int from_writer(uint64_t seed)
{
    return run_writer(seed, 0);
}

static int from_liar(uint64_t seed)
{
    return run_writer(seed, 1);
}

int main(void)
{
    static const char *const params[] = {
        "HEAP_SIZE=64K SERVICE_THREADS=0 CHUNK_SIZE=4K CALL_MAX=256",
        "HEAP_SIZE=64K SERVICE_THREADS=1 CHUNK_SIZE=4K CALL_MAX=256 AGG_SIZE=300",
        "HEAP_SIZE=64K SERVICE_THREADS=2 CHUNK_SIZE=16K AGG_SIZE=1K"
    };
    plan(10);
    uint64_t seed = tap_seed(3);
    pgas_handler_register("numbered", on_numbered, NULL, NULL, &numbered);
    for (int i = 0; i < 3; i++) {
        ok(job(params[i], to_fast_reader, seed, true), "to a fast reader: %s", params[i]);
        ok(job(params[i], to_slow_reader, seed + 1, true), "to a slow reader");
        ok(job(params[i], from_writer, seed + 2, true), "from a naive writer");
    }
    ok(job(params[0], from_liar, seed + 2, false), "a call that came out wrong is noticed");
    return done();
}
