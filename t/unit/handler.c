/* what: Handlers get numbers by sorted name, whatever the order of registration. Names are checked.
 *       Handlers registered after init get their numbers by agreement, and earlier numbers do not
 *       change. Finalize removes numbers, not registrations.
 * source: pgas/call.h, src/call/handler.c; seeded model test */
#include "base/rng.h"
#include "t/handlers.h"
#include "t/tap.h"
#include "t/unit/lone.h"

#define N      300
#define PARAMS "HEAP_SIZE=64K SERVICE_THREADS=0"

static char name[N][40];
static pgas_handler_t number[N];
static uint64_t runs[N];

/* Registers the names [from, to) in random order; counts refusals. */
static int register_some(pgasi_rng_t *rng, int from, int to)
{
    int order[N], n_bad = 0;
    for (int i = from; i < to; i++)
        order[i] = i;
    for (int i = to - 1; i > from; i--) {
        int k = from + (int)pgasi_rng_below(rng, (uint64_t)(i - from + 1)), other = order[k];
        order[k] = order[i];
        order[i] = other;
    }
    for (int i = from; i < to; i++) {
        int k = order[i];
        n_bad += pgas_handler_register(name[k], on_count, &runs[k], NULL, &number[k]) != PGAS_OK ||
                 number[k] != 0;
    }
    return n_bad;
}

/* Names [from, to) must have the numbers after `from`, in the order of their names. */
static int wrong_numbers(int from, int to)
{
    int n_bad = 0;
    for (int i = from; i < to; i++) {
        int before = 0;
        for (int k = from; k < to; k++)
            before += strcmp(name[k], name[i]) < 0;
        n_bad += number[i] != from + 1 + before;
    }
    return n_bad;
}

static void numbers_follow_names(uint64_t seed)
{
    pgasi_rng_t rng;
    pgasi_rng_seed(&rng, seed);
    for (int i = 0; i < N; i++)
        snprintf(name[i], sizeof name[i], "%c%" PRIx64 ".%d", 'A' + i % 50,
                 pgasi_rng_u64(&rng) >> (i % 60), i);
    int n_bad = register_some(&rng, 0, N / 2);
    n_bad += lone_init(1, PARAMS) != PGAS_OK;
    is_int(n_bad + wrong_numbers(0, N / 2), 0, "numbers from 1 on, by sorted name");
    n_bad = register_some(&rng, N / 2, N) + (pgas_handlers_agree() != PGAS_OK);
    is_int(n_bad + wrong_numbers(0, N / 2) + wrong_numbers(N / 2, N), 0, "later ones behind them");
    pgas_handler_t swapped = number[0];
    number[0] = number[1];
    number[1] = swapped;
    ok(wrong_numbers(0, N / 2) > 0, "two numbers that are swapped are noticed");
    number[1] = number[0];
    number[0] = swapped;
    n_bad = 0;
    for (int i = 0; i < N; i++)
        n_bad += pgas_call(0, number[i], NULL, 0, NULL) != PGAS_OK;
    n_bad += pgas_quiesce() != PGAS_OK;
    for (int i = 0; i < N; i++)
        n_bad += runs[i] != 1;
    is_int(n_bad, 0, "each number runs its own handler");
}

static void names(void)
{
    static pgas_handler_t h, again;
    char longest[PGAS_HANDLER_NAME_MAX + 2];
    memset(longest, 'n', sizeof longest);
    longest[PGAS_HANDLER_NAME_MAX + 1] = '\0';
    ok(pgas_handler_register(longest, on_count, NULL, NULL, &h) == PGAS_ERR_INVALID,
       "a name of 64 characters is too long");
    longest[PGAS_HANDLER_NAME_MAX] = '\0';
    ok(pgas_handler_register(longest, on_count, NULL, NULL, &h) == PGAS_OK, "63 are allowed");
    ok(pgas_handler_register("", on_count, NULL, NULL, &h) == PGAS_ERR_INVALID &&
           pgas_handler_register(NULL, on_count, NULL, NULL, &h) == PGAS_ERR_INVALID &&
           pgas_handler_register("x", NULL, NULL, NULL, &h) == PGAS_ERR_INVALID &&
           pgas_handler_register("x", on_count, NULL, NULL, NULL) == PGAS_ERR_INVALID,
       "nothing is not a name, a function or a place for the number");
    ok(pgas_handler_register(name[5], on_nothing, &runs[5], NULL, &again) == PGAS_ERR_EXISTS &&
           pgas_handler_register(name[5], on_count, &runs[6], NULL, &again) == PGAS_ERR_EXISTS,
       "a name is taken by its function and context");
    ok(pgas_handler_register(name[5], on_count, &runs[5], NULL, &again) == PGAS_OK &&
           again == number[5],
       "the same again has its number at once");
}

static void over_a_finalize(void)
{
    ok(pgas_finalize() == PGAS_OK && number[3] == 0 && number[N - 1] == 0,
       "finalize takes the numbers away");
    ok(lone_init(1, PARAMS) == PGAS_OK && number[3] != 0 && number[3] != number[4],
       "init gives them again");
}

static void there_is_a_limit(void)
{
    static pgas_handler_t many[PGAS_HANDLERS_MAX + 1];
    char text[32];
    int n = 0;
    pgas_status_t status = PGAS_OK;
    while (n <= PGAS_HANDLERS_MAX && status == PGAS_OK) {
        snprintf(text, sizeof text, "many.%d", n);
        status = pgas_handler_register(text, on_nothing, NULL, NULL, &many[n]);
        n += status == PGAS_OK;
    }
    ok(status == PGAS_ERR_LIMIT && n == PGAS_HANDLERS_MAX - N - 1, "4096 handlers and no more");
    ok(pgas_handlers_agree() == PGAS_OK && many[0] != 0 && many[n - 1] != 0,
       "they all have numbers");
    int n_same = 0;
    for (int i = 0; i < n; i++)
        n_same += many[i] <= N || many[i] > PGAS_HANDLERS_MAX;
    is_int(n_same, 0, "up to 4096");
}

int main(void)
{
    plan(14);
    numbers_follow_names(tap_seed(8));
    names();
    over_a_finalize();
    there_is_a_limit();
    pgas_finalize();
    return done();
}
