/* what: Hashes depend on every bit, on the order and on the length, do not collide on small keys,
 *       and do not read beyond the run.
 * source: src/base/hash.h */
#include "base/hash.h"
#include "base/rng.h"
#include "t/tap.h"
#include "t/unit/collisions.h"

#define N_KEYS 100000

static void small_keys_do_not_collide(void)
{
    uint64_t *words = malloc(N_KEYS * sizeof *words), *texts = malloc(N_KEYS * sizeof *texts);
    for (int i = 0; i < N_KEYS; i++) {
        char text[16];
        snprintf(text, sizeof text, "key%d", i);
        words[i] = pgasi_hash_u64((uint64_t)i);
        texts[i] = pgasi_hash_text(text);
    }
    is_int(collisions(words, N_KEYS), 0, "%d integers", N_KEYS);
    is_int(collisions(texts, N_KEYS), 0, "%d texts", N_KEYS);
    texts[0] = texts[1];
    is_int(collisions(texts, N_KEYS), 1, "the check finds a collision (made on purpose)");
    free(words);
    free(texts);
}

static void every_bit_counts(void)
{
    unsigned char bytes[37] = { 0 };
    int n_flips = 0, n_weak = 0;
    uint64_t base = pgasi_hash_bytes(bytes, sizeof bytes, 0);
    for (size_t bit = 0; bit < 8 * sizeof bytes; bit++) {
        bytes[bit / 8] ^= (unsigned char)(1 << bit % 8);
        int flips = __builtin_popcountll(base ^ pgasi_hash_bytes(bytes, sizeof bytes, 0));
        bytes[bit / 8] ^= (unsigned char)(1 << bit % 8);
        n_flips += flips;
        n_weak += flips < 10;
    }
    double mean = (double)n_flips / (8 * sizeof bytes);
    ok(mean > 30 && mean < 34, "one input bit changes half of the output bits (%.1f of 64)", mean);
    is_int(n_weak, 0, "and never just a few");
}

static void length_and_order_count(void)
{
    static const char zeros[64];
    uint64_t hashes[65];
    for (int i = 0; i <= 64; i++)
        hashes[i] = pgasi_hash_bytes(zeros, (size_t)i, 0);
    is_int(collisions(hashes, 65), 0, "runs of zeros of different lengths differ");
    ok(pgasi_hash_combine(pgasi_hash_combine(0, 1), 2) !=
           pgasi_hash_combine(pgasi_hash_combine(0, 2), 1),
       "the order of words counts");
    ok(pgasi_hash_bytes("abc", 3, 1) != pgasi_hash_bytes("abc", 3, 2), "the seed counts");
}

static void place_does_not_count(void)
{
    unsigned char room[64 + 8];
    int n_same = 0;
    for (int shift = 0; shift < 8; shift++) {
        memset(room, 0xee + shift, sizeof room);
        for (int i = 0; i < 29; i++)
            room[shift + i] = (unsigned char)(i * 7);
        uint64_t first = pgasi_hash_bytes(room + shift, 29, 5);
        static uint64_t at_zero;
        at_zero = shift == 0 ? first : at_zero;
        n_same += first == at_zero;
    }
    is_int(n_same, 8, "neither alignment nor the bytes around a run count");
}

int main(void)
{
    plan(9);
    small_keys_do_not_collide();
    every_bit_counts();
    length_and_order_count();
    place_does_not_count();
    return done();
}
