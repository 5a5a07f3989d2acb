/* Stamps, and the choice between the cache and calls.
 *
 * A chunk of stamps is worth having on another node if it is read often between two writes
 * there. A request and a withdrawal cost some round trips, each hit saves one. So a rank
 * requests a chunk after some misses. At a withdrawal that number is halved if there were four
 * times as many hits. Otherwise it doubles. */
#include "kvs/stamps.h"

#include <stdlib.h>
#include "base/checks.h"
#include "kvs/kvs.h"

#define NEED_LEAST 3  /* log2 of the misses before a request */
#define NEED_MOST  13 /* 4 << NEED_MOST hits can be counted */
#define CACHED_MAX (UINT64_C(32) << 20)

/* What this rank knows of a chunk. Threads update it without a lock, since it is only a guess. */
typedef struct {
    uint16_t misses, hits;
    uint8_t need;
    bool requested;
} chunk_t;

struct pgasi_stamps {
    pgas_array_t *array;
    uint64_t n_buckets;
    chunk_t *chunks;
};

pgas_status_t pgasi_stamps_create(pgas_team_t *team, uint64_t n_buckets, pgasi_stamps_t **stamps_p)
{
    pgasi_stamps_t *stamps = calloc(1, sizeof *stamps);
    uint64_t n = n_buckets * (uint64_t)pgas_team_size(team);
    uint64_t n_chunks = n / PGASI_STAMPS_CHUNK;
    chunk_t *chunks = calloc(n_chunks, sizeof *chunks);
    pgas_array_opts_t opts = PGAS_ARRAY_OPTS_INIT;
    opts.chunk_elems = PGASI_STAMPS_CHUNK;
    opts.cache_bytes = PGASI_MAX(PGASI_MIN(2 * n * sizeof(uint64_t), CACHED_MAX), 65536);
    opts.prefetch = -1;
    pgas_status_t status = pgasi_kvs_agree(team, stamps && chunks ? PGAS_OK : PGAS_ERR_NO_MEMORY);
    if (status != PGAS_OK) {
        free(chunks);
        free(stamps);
        return status;
    }
    for (uint64_t i = 0; i < n_chunks; i++)
        chunks[i].need = NEED_LEAST;
    *stamps = (pgasi_stamps_t){ .n_buckets = n_buckets, .chunks = chunks };
    status = pgas_array_create(team, sizeof(uint64_t), n, &opts, &stamps->array);
    if (status != PGAS_OK) {
        free(chunks);
        free(stamps);
        return status;
    }
    *stamps_p = stamps;
    return PGAS_OK;
}

pgas_status_t pgasi_stamps_destroy(pgasi_stamps_t *stamps)
{
    if (!stamps)
        return PGAS_OK;
    pgas_status_t status = pgas_array_destroy(stamps->array);
    free(stamps->chunks);
    free(stamps);
    return status;
}

static uint64_t index_of(const pgasi_stamps_t *stamps, int home, uint32_t bucket)
{
    return (uint64_t)home * stamps->n_buckets + bucket;
}

/* ---- other nodes ---- */

static void note_loss(chunk_t *chunk)
{
    bool paid = chunk->hits >= 4u << chunk->need;
    if (!paid && chunk->need < NEED_MOST)
        chunk->need++;
    if (paid && chunk->need > NEED_LEAST)
        chunk->need--;
    chunk->hits = 0;
    chunk->misses = 0;
    chunk->requested = false;
}

bool pgasi_stamps_look(pgasi_stamps_t *stamps, int home, uint32_t bucket, uint64_t *stamp_p)
{
    uint64_t i = index_of(stamps, home, bucket);
    chunk_t *chunk = &stamps->chunks[i / PGASI_STAMPS_CHUNK];
    if (pgas_array_try_get(stamps->array, i, stamp_p) == PGAS_OK) {
        chunk->hits = (uint16_t)(chunk->hits + (chunk->hits < UINT16_MAX));
        return true;
    }
    /* a request takes some time: misses that follow it directly are no loss */
    if (chunk->requested && (chunk->hits > 0 || ++chunk->misses > 1u << NEED_LEAST))
        note_loss(chunk);
    if (!chunk->requested && ++chunk->misses >= 1u << chunk->need) {
        chunk->misses = 0;
        chunk->requested = true;
        (void)pgas_array_prefetch(stamps->array, i, 1, PGAS_ARRAY_READ, 0, NULL);
    }
    return false;
}

/* ---- the home's node ---- */

bool pgasi_stamps_read(pgasi_stamps_t *stamps, int home, uint32_t bucket, uint64_t *stamp_p)
{
    return pgas_array_try_get(stamps->array, index_of(stamps, home, bucket), stamp_p) == PGAS_OK;
}

void pgasi_stamps_pin(pgasi_stamps_t *stamps, int home, uint32_t bucket, pgas_array_pin_t *pin_p)
{
    pin_p->data = NULL;
    (void)pgas_array_pin(stamps->array, index_of(stamps, home, bucket), PGAS_ARRAY_WRITE, 0, pin_p);
}

void pgasi_stamps_unpin(pgas_array_pin_t *pin)
{
    if (pin->data)
        (void)pgas_array_unpin(pin);
}

pgas_status_t pgasi_stamps_change(pgasi_stamps_t *stamps, int home, uint32_t bucket)
{
    uint64_t i = index_of(stamps, home, bucket), stamp;
    pgas_status_t status = pgas_array_try_get(stamps->array, i, &stamp);
    if (status == PGAS_OK) {
        stamp++;
        status = pgas_array_set(stamps->array, i, &stamp);
    }
    return status == PGAS_ERR_CONTEXT ? PGAS_ERR_AGAIN : status;
}
