/* what: Zipf's law has the known sum, and the hottest keys are as frequent as it says; the mixes of
 *       the workloads A to F have their shares; the latest keys are read most; scattering is one to
 *       one.
 * source: zeta(10^6, 0.99) = 15.391850 and 6.50 % for the hottest key, from an exact sum; the
 *         shares are from Cooper et al., SoCC 2010, table 2 */
#include "benchmarks/ycsb.h"
#include <math.h>
#include "t/tap.h"

#define N_KEYS  1000000
#define N_DRAWS 1000000

static uint32_t count[N_KEYS];
static ycsb_entry_t list[N_DRAWS];

static bool is_close(double is, double want, double error)
{
    return fabs(is - want) <= error;
}

/* How many standard deviations a number of draws is from what a probability says. */
static double deviation(double n, double p)
{
    return (n - N_DRAWS * p) / sqrt(N_DRAWS * p * (1 - p));
}

static void sums_are_known(void)
{
    ycsb_zipf_t zipf, grown;
    ycsb_zipf_init(&zipf, N_KEYS, YCSB_THETA);
    ok(is_close(zipf.zeta, 15.391850, 5e-7), "zeta(10^6) is %.6f", zipf.zeta);
    ok(is_close(100 / zipf.zeta, 6.50, 0.005), "the hottest key has %.2f %%", 100 / zipf.zeta);
    ycsb_zipf_init(&grown, 1000, YCSB_THETA);
    ycsb_zipf_grow(&grown, N_KEYS);
    ok(is_close(grown.zeta, zipf.zeta, 1e-9) && is_close(grown.eta, zipf.eta, 1e-12),
       "a sum that grows is the same");
    ycsb_zipf_grow(&grown, 10);
    is_int(grown.n, N_KEYS, "and never shrinks");
}

static void draw_zipf(double theta)
{
    uint64_t state = 42;
    ycsb_zipf_t zipf;
    ycsb_zipf_init(&zipf, N_KEYS, theta);
    memset(count, 0, sizeof count);
    for (int i = 0; i < N_DRAWS; i++)
        count[ycsb_zipf_draw(&zipf, &state)]++;
}

static bool has_law(void)
{
    const double zeta = 15.391850;
    bool good = true;
    for (int i = 0; i < 2; i++)
        good &= fabs(deviation(count[i], pow(i + 1, -YCSB_THETA) / zeta)) < 4;
    return good;
}

/* The method is an approximation behind the first two items. */
static void keys_have_frequencies(void)
{
    const double zeta = 15.391850;
    draw_zipf(YCSB_THETA);
    ok(has_law(), "the hottest keys have %.2f and %.2f %% of the draws", count[0] * 100. / N_DRAWS,
       count[1] * 100. / N_DRAWS);
    for (int from = 10; from < N_KEYS; from *= 10) {
        double sum = 0, want = 0;
        for (int i = from; i < from * 10; i++) {
            sum += count[i];
            want += pow(i + 1, -YCSB_THETA) / zeta * N_DRAWS;
        }
        ok(is_close(sum / want, 1, 0.03), "items %d to %d: %.3f of what the law says", from,
           from * 10 - 1, sum / want);
    }
    draw_zipf(0.9);
    ok(!has_law(), "the check notices another skew (broken on purpose)");
}

static bool has_shares(const ycsb_mix_t *mix, const uint64_t *n)
{
    bool good = true;
    int sum = 0;
    for (int op = 0; op < YCSB_OPS; op++) {
        double p = mix->percent[op] / 100.;
        sum += mix->percent[op];
        good &= p > 0 && p < 1 ? fabs(deviation((double)n[op], p)) < 4 : n[op] == p * N_DRAWS;
    }
    return good && sum == 100;
}

static void count_ops(uint64_t *n)
{
    memset(n, 0, YCSB_OPS * sizeof *n);
    for (int i = 0; i < N_DRAWS; i++)
        n[ycsb_op(list[i])]++;
}

static void mixes_have_shares(void)
{
    uint64_t n[YCSB_OPS], last[YCSB_OPS] = { 0 };
    for (char name = 'a'; name <= 'f'; name++) {
        ycsb_load_t load = { ycsb_mix(name), N_KEYS, YCSB_THETA, 1, 2, 7 };
        uint64_t n_inserts = ycsb_draw(&load, list, N_DRAWS);
        count_ops(n);
        ok(has_shares(load.mix, n) && n_inserts == n[YCSB_INSERT],
           "%c: %llu reads, %llu updates, %llu inserts, %llu scans, %llu modifications", name,
           (unsigned long long)n[0], (unsigned long long)n[1], (unsigned long long)n[2],
           (unsigned long long)n[3], (unsigned long long)n[4]);
        if (name == 'b')
            memcpy(last, n, sizeof last);
    }
    ok(!has_shares(ycsb_mix('a'), last), "the check notices another mix (broken on purpose)");
    ok(!ycsb_mix('g') && !ycsb_mix('A'), "there are no others");
}

/* Client 1 of 2 inserts every second number behind the keys that are loaded. */
static void latest_are_hot(void)
{
    ycsb_load_t load = { ycsb_mix('d'), 1000, YCSB_THETA, 1, 2, 7 };
    uint64_t n_new = 0, n_hottest = 0, n_reads = 0;
    bool good = true;
    ycsb_draw(&load, list, 200000);
    for (int i = 0; i < 200000; i++) {
        if (ycsb_op(list[i]) == YCSB_INSERT) {
            good &= ycsb_key(list[i]) == 1001 + 2 * n_new++;
            continue;
        }
        good &= ycsb_key(list[i]) < 1000 + 2 * n_new;
        n_hottest += ycsb_key(list[i]) == 999 + 2 * n_new;
        n_reads++;
    }
    ok(good, "D inserts new keys and reads those that exist");
    ok(is_close((double)n_hottest / (double)n_reads, 0.09, 0.02), "%.3f of the reads are the last",
       (double)n_hottest / (double)n_reads);
}

static void scans_have_lengths(void)
{
    ycsb_load_t load = { ycsb_mix('e'), 1000, 0, 0, 1, 7 };
    double sum = 0, n = 0;
    bool good = true;
    ycsb_draw(&load, list, 100000);
    for (int i = 0; i < 100000; i++) {
        unsigned length = ycsb_length(list[i]);
        bool scans = ycsb_op(list[i]) == YCSB_SCAN;
        good &= scans ? length >= 1 && length <= YCSB_SCAN_MAX : length == 0;
        sum += length;
        n += scans;
    }
    ok(good && is_close(sum / n, 50.5, 0.5), "scans of E have 1 to 100 keys, %.1f on average",
       sum / n);
}

static void places_differ(void)
{
    bool good = true;
    memset(count, 0, sizeof count);
    for (uint64_t i = 0; i < N_KEYS; i++)
        good &= count[ycsb_scatter(i, N_KEYS)]++ == 0;
    ok(good, "each item has a place of its own");
    ok(ycsb_scatter(1, N_KEYS) != ycsb_scatter(0, N_KEYS) + 1, "and neighbours are apart");
}

int main(void)
{
    plan(4 + 7 + 8 + 2 + 1 + 2);
    sums_are_known();
    keys_have_frequencies();
    mixes_have_shares();
    latest_are_hot();
    scans_have_lengths();
    places_differ();
    return done();
}
