/* The generators of YCSB's loads, see ycsb.h. */
#include "benchmarks/ycsb.h"
#include "benchmarks/bench.h"

#include <math.h>

/* ---- Zipf's law ---- */

static double powers(uint64_t from, uint64_t to, double theta)
{
    double sum = 0;
    for (uint64_t i = from + 1; i <= to; i++)
        sum += pow((double)i, -theta);
    return sum;
}

static void derive(ycsb_zipf_t *zipf)
{
    double zeta_two = 1 + pow(2, -zipf->theta);
    zipf->alpha = 1 / (1 - zipf->theta);
    zipf->second = zeta_two;
    zipf->eta = (1 - pow(2 / (double)zipf->n, 1 - zipf->theta)) / (1 - zeta_two / zipf->zeta);
}

void ycsb_zipf_init(ycsb_zipf_t *zipf, uint64_t n, double theta)
{
    zipf->n = n;
    zipf->theta = theta;
    zipf->zeta = powers(0, n, theta);
    derive(zipf);
}

void ycsb_zipf_grow(ycsb_zipf_t *zipf, uint64_t n)
{
    if (n <= zipf->n)
        return;
    zipf->zeta += powers(zipf->n, n, zipf->theta);
    zipf->n = n;
    derive(zipf);
}

/* From 0 to below 1. */
static double draw_point(uint64_t *state)
{
    return (double)(bench_random(state) >> 11) / (double)(UINT64_C(1) << 53);
}

uint64_t ycsb_zipf_draw(const ycsb_zipf_t *zipf, uint64_t *state)
{
    double point = draw_point(state), mass = point * zipf->zeta;
    uint64_t item;
    if (mass < 1)
        return 0;
    if (mass < zipf->second)
        return 1;
    item = (uint64_t)((double)zipf->n * pow(zipf->eta * point - zipf->eta + 1, zipf->alpha));
    return item < zipf->n ? item : zipf->n - 1;
}

/* A prime above 2^32 has no common divisor with n. */
uint64_t ycsb_scatter(uint64_t item, uint64_t n)
{
    const uint64_t prime = UINT64_C(11400714819323198549);
    return (uint64_t)((bench_wide_t)item * prime % n);
}

/* ---- operations ---- */

const ycsb_mix_t *ycsb_mix(char name)
{
    static const ycsb_mix_t mixes[] = { { 'a', { [YCSB_READ] = 50, [YCSB_UPDATE] = 50 }, false },
                                        { 'b', { [YCSB_READ] = 95, [YCSB_UPDATE] = 5 }, false },
                                        { 'c', { [YCSB_READ] = 100 }, false },
                                        { 'd', { [YCSB_READ] = 95, [YCSB_INSERT] = 5 }, true },
                                        { 'e', { [YCSB_SCAN] = 95, [YCSB_INSERT] = 5 }, false },
                                        { 'f', { [YCSB_READ] = 50, [YCSB_MODIFY] = 50 }, false } };
    return name >= 'a' && name <= 'f' ? &mixes[name - 'a'] : NULL;
}

static ycsb_op_t draw_op(const ycsb_mix_t *mix, uint64_t *state)
{
    int left = (int)bench_random_below(state, 100), op = 0;
    while (left >= mix->percent[op])
        left -= mix->percent[op++];
    return (ycsb_op_t)op;
}

/* A key that exists, n_new keys after the load. */
static uint64_t draw_key(const ycsb_load_t *load, ycsb_zipf_t *zipf, uint64_t n_new,
                         uint64_t *state)
{
    uint64_t n = load->n_keys;
    if (load->mix->latest)
        n += n_new;
    if (load->theta == 0)
        return bench_random_below(state, n);
    if (!load->mix->latest)
        return ycsb_scatter(ycsb_zipf_draw(zipf, state), n);
    ycsb_zipf_grow(zipf, n);
    return n - 1 - ycsb_zipf_draw(zipf, state);
}

uint64_t ycsb_draw(const ycsb_load_t *load, ycsb_entry_t *list, uint64_t n)
{
    uint64_t state = load->seed, n_inserts = 0, clients = (uint64_t)load->n_clients;
    ycsb_zipf_t zipf;
    if (load->theta > 0)
        ycsb_zipf_init(&zipf, load->n_keys, load->theta);
    for (uint64_t i = 0; i < n; i++) {
        ycsb_op_t op = draw_op(load->mix, &state);
        uint64_t length = 0, key;
        if (op == YCSB_SCAN)
            length = 1 + bench_random_below(&state, YCSB_SCAN_MAX);
        if (op == YCSB_INSERT)
            key = load->n_keys + (uint64_t)load->client + clients * n_inserts++;
        else
            key = draw_key(load, &zipf, clients * n_inserts, &state);
        list[i] = (uint64_t)op << 56 | length << 48 | key;
    }
    return n_inserts;
}
