/* Options of pgas_array_create. */
#include "array/options.h"

#include <inttypes.h>
#include <stdlib.h>

#include "base/checks.h"
#include "base/hash.h"
#include "base/log.h"
#include "pgas/coll.h"

#define CHUNK_ELEMS     512
#define CHUNK_ELEMS_MAX (UINT64_C(1) << 20)
#define CHUNK_BYTES_MAX ((size_t)16 << 20)
#define ELEM_BYTES_MAX  65536
#define LOW_PERCENT     30
#define HIGH_PERCENT    50
#define PREFETCH        32
#define PREFETCH_MAX    64

/* The options on which all ranks must agree. */
typedef struct {
    uint64_t elem_bytes, n_elems, chunk_elems, offsets, low, high;
    int64_t status;
} params_t;

static pgas_status_t check_offsets(const uint64_t *offsets, int n, uint64_t n_elems)
{
    if (offsets[0] != 0 || offsets[n] != n_elems)
        return PGAS_ERR_INVALID;
    for (int r = 0; r < n; r++)
        if (offsets[r] > offsets[r + 1])
            return PGAS_ERR_INVALID;
    return PGAS_OK;
}

pgas_status_t pgasi_array_read_opts(pgas_array_opts_t *o, const pgas_array_opts_t *opts,
                                    size_t elem_bytes, uint64_t n_elems, int n)
{
    *o = (pgas_array_opts_t)PGAS_ARRAY_OPTS_INIT;
    if (opts && opts->size != sizeof *o)
        return PGAS_ERR_INVALID;
    if (opts)
        *o = *opts;
    o->chunk_elems = o->chunk_elems ? o->chunk_elems : CHUNK_ELEMS;
    o->low_percent = o->low_percent ? o->low_percent : LOW_PERCENT;
    o->high_percent = o->high_percent ? o->high_percent : PGASI_MAX(HIGH_PERCENT, o->low_percent);
    o->prefetch = o->prefetch ? PGASI_MAX(o->prefetch, 0) : PREFETCH;
    if (!elem_bytes || elem_bytes > ELEM_BYTES_MAX || o->chunk_elems > CHUNK_ELEMS_MAX ||
        o->prefetch > PREFETCH_MAX || o->low_percent < 1 || o->high_percent < o->low_percent ||
        o->high_percent > 100 || n_elems > (UINT64_C(1) << 62) / ELEM_BYTES_MAX)
        return PGAS_ERR_INVALID;
    o->chunk_elems = (size_t)1 << pgasi_log2_up(o->chunk_elems);
    if (o->chunk_elems * elem_bytes > CHUNK_BYTES_MAX)
        return PGAS_ERR_LIMIT;
    return o->offsets ? check_offsets(o->offsets, n, n_elems) : PGAS_OK;
}

static pgas_status_t compare(const params_t *all, int n)
{
    static const char *const names[] = { "elem_bytes", "n_elems",     "chunk_elems",
                                         "offsets",    "low_percent", "high_percent" };
    pgas_status_t worst = PGAS_OK;
    for (int r = 0; r < n; r++)
        if (all[r].status < worst)
            worst = (pgas_status_t)all[r].status;
    for (int r = 1; r < n && worst == PGAS_OK; r++) {
        for (size_t f = 0; f < 6 && worst == PGAS_OK; f++) {
            const uint64_t *first = &all[0].elem_bytes, *other = &all[r].elem_bytes;
            if (first[f] == other[f])
                continue;
            worst = PGAS_ERR_MISMATCH;
            PGASI_ERROR("array",
                        "pgas_array_create: %s is %" PRIu64 " on the team's rank 0, %" PRIu64
                        " on its rank %d",
                        names[f], first[f], other[f], r);
        }
    }
    return worst;
}

pgas_status_t pgasi_array_agree_on_opts(pgas_team_t *team, const pgas_array_opts_t *o,
                                        size_t elem_bytes, uint64_t n_elems, pgas_status_t mine)
{
    int n = pgas_team_size(team);
    params_t params = { .status = mine }, *all = calloc((size_t)n, sizeof *all);
    if (!all)
        return PGAS_ERR_NO_MEMORY;
    if (mine == PGAS_OK)
        params = (params_t){ .elem_bytes = elem_bytes,
                             .n_elems = n_elems,
                             .chunk_elems = o->chunk_elems,
                             .low = (uint64_t)o->low_percent,
                             .high = (uint64_t)o->high_percent,
                             .status = PGAS_OK };
    if (mine == PGAS_OK && o->offsets)
        params.offsets = pgasi_hash_bytes(o->offsets, ((size_t)n + 1) * sizeof *o->offsets, 1);
    pgas_status_t status = pgas_allgather(team, &params, all, sizeof params);
    if (status == PGAS_OK)
        status = compare(all, n);
    free(all);
    return status;
}
