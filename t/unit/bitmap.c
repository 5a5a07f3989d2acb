/* what: Bitmaps behave as an array of bool, at every length around word boundaries.
 * source: src/base/bitmap.h; seeded model test */
#include "base/bitmap.h"
#include "base/rng.h"
#include "t/tap.h"

#define BITS_MAX 200

typedef struct {
    bool bit[BITS_MAX];
    size_t n_bits;
} model_t;

static size_t model_find(const model_t *model, size_t from, bool wanted)
{
    while (from < model->n_bits && model->bit[from] != wanted)
        from++;
    return from < model->n_bits ? from : model->n_bits;
}

static bool agrees(const model_t *model, const uint64_t *words, size_t from)
{
    size_t count = 0;
    for (size_t i = 0; i < model->n_bits; i++) {
        count += model->bit[i];
        if (model->bit[i] != pgasi_bitmap_test(words, i))
            return false;
    }
    return count == pgasi_bitmap_count(words, model->n_bits) &&
           model_find(model, from, true) == pgasi_bitmap_find_set(words, model->n_bits, from) &&
           model_find(model, from, false) == pgasi_bitmap_find_clear(words, model->n_bits, from);
}

/* the step at which bitmap and model first differ, or -1 */
static int run(uint64_t seed, size_t n_bits, uint64_t padding, int broken_step)
{
    uint64_t words[BITS_MAX / 64 + 1];
    model_t model = { .n_bits = n_bits };
    pgasi_rng_t rng;
    pgasi_rng_seed(&rng, seed);
    memset(words, 0, sizeof words);
    for (size_t i = n_bits; i < 8 * sizeof words; i++) /* bits beyond the end may be anything */
        words[i / 64] |= padding & (UINT64_C(1) << i % 64);
    for (int step = 0; step < 300; step++) {
        size_t bit = pgasi_rng_below(&rng, n_bits);
        bool on = pgasi_rng_below(&rng, 100) < (step / 100 == 1 ? 90u : 20u);
        model.bit[bit] = on;
        (on ? pgasi_bitmap_set : pgasi_bitmap_clear)(words, bit);
        if (step == broken_step)
            model.bit[bit] = !on;
        if (!agrees(&model, words, pgasi_rng_below(&rng, n_bits + 2)))
            return step;
    }
    return -1;
}

static void equals_an_array_of_bool(uint64_t seed)
{
    int n_good = 0;
    for (size_t n_bits = 1; n_bits <= BITS_MAX; n_bits++) {
        n_good += run(seed + n_bits, n_bits, 0, -1) == -1 &&
                  run(seed + n_bits, n_bits, ~UINT64_C(0), -1) == -1;
    }
    is_int(n_good, BITS_MAX, "300 random steps at each length from 1 to %d bits", BITS_MAX);
    is_int(run(seed, 100, 0, 150), 150, "the check finds a wrong bit (broken on purpose)");
}

static void full_and_empty_are_found(void)
{
    uint64_t words[4];
    int n_good = 0;
    for (size_t n = 1; n <= 256; n++) {
        memset(words, 0, sizeof words);
        n_good += pgasi_bitmap_find_set(words, n, 0) == n;
        memset(words, 0xff, sizeof words);
        n_good += pgasi_bitmap_find_clear(words, n, 0) == n && pgasi_bitmap_count(words, n) == n;
    }
    is_int(n_good, 512, "nothing to be found gives n_bits");
}

static void words_are_counted(void)
{
    is_int(pgasi_bitmap_words(0), 0, "0 bits need no word");
    is_int(pgasi_bitmap_words(64), 1, "64 bits need one");
    is_int(pgasi_bitmap_words(65), 2, "65 bits need two");
}

int main(void)
{
    plan(6);
    equals_an_array_of_bool(tap_seed(20240101));
    full_and_empty_are_found();
    words_are_counted();
    return done();
}
