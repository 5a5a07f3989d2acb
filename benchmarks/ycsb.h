/** The loads of YCSB (Cooper et al., SoCC 2010): which operations, on which keys.
 *
 *  Keys are numbers. A load of n keys begins with the keys 0 .. n - 1. Programs draw lists of
 *  operations before their clock runs, because a draw takes longer than an access to a table. */
#ifndef YCSB_H
#define YCSB_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define YCSB_THETA    0.99 /* the skew that YCSB uses */
#define YCSB_SCAN_MAX 100

/** Zipf's law: item i of 0 .. n - 1 has a probability proportional to 1 / (i + 1)^theta.
 *  Source: Gray et al., Quickly Generating Billion-Record Synthetic Databases, SIGMOD 1994. Their
 *  method is exact for the items 0 and 1, and an approximation for others. YCSB uses it, too. */
typedef struct {
    uint64_t n;
    double theta, alpha, eta;
    double zeta;   /* the sum of 1 / i^theta for i from 1 to n */
    double second; /* below this point, in units of 1 / zeta, is item 1 */
} ycsb_zipf_t;

/** Cost: n powers. theta: above 0, below 1 */
void ycsb_zipf_init(ycsb_zipf_t *zipf, uint64_t n, double theta);
/** Raises the number of items to n. Cost: a power for each new item. */
void ycsb_zipf_grow(ycsb_zipf_t *zipf, uint64_t n);
/** Draws an item. *state is the random numbers' (bench_random), never 0. */
uint64_t ycsb_zipf_draw(const ycsb_zipf_t *zipf, uint64_t *state);

/** The place of an item among n, one for each item, so that frequent items are not neighbours. n is
 *  below 2^32. */
uint64_t ycsb_scatter(uint64_t item, uint64_t n);

typedef enum {
    YCSB_READ,
    YCSB_UPDATE, /* writes a whole value */
    YCSB_INSERT,
    YCSB_SCAN,
    YCSB_MODIFY, /* reads a value, and writes a value that depends on it */
    YCSB_OPS
} ycsb_op_t;

typedef struct {
    char name;             /* 'a' to 'f' */
    int percent[YCSB_OPS]; /* of all operations; their sum is 100 */
    bool latest;           /* keys that were inserted lately are read most */
} ycsb_mix_t;

/** @return the workload with this name; NULL: there is none */
const ycsb_mix_t *ycsb_mix(char name);

/** One operation in a word. */
typedef uint64_t ycsb_entry_t;
static inline ycsb_op_t ycsb_op(ycsb_entry_t entry)
{
    return (ycsb_op_t)(entry >> 56);
}
static inline uint64_t ycsb_key(ycsb_entry_t entry)
{
    return entry & ((UINT64_C(1) << 48) - 1);
}
/** The keys of a scan, 1 to YCSB_SCAN_MAX. */
static inline unsigned ycsb_length(ycsb_entry_t entry)
{
    return (unsigned)(entry >> 48 & 0xff);
}

typedef struct {
    const ycsb_mix_t *mix;
    uint64_t n_keys; /* below 2^32 */
    double theta;    /* 0: uniform keys */
    /* Client c of n inserts the keys n_keys + c, n_keys + c + n, n_keys + c + 2n, ... With `latest`
     * it reads the keys of the others as if they had inserted as many. */
    int client, n_clients;
    uint64_t seed; /* never 0 */
} ycsb_load_t;

/** Draws n operations. @return the number of inserts among them */
uint64_t ycsb_draw(const ycsb_load_t *load, ycsb_entry_t *list, uint64_t n);

#endif
