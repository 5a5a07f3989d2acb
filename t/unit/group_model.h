/** Replicas of this process and a plain model of their regions. Each client has a part of the
 *  regions of its own, so that the bytes there are known. */
#ifndef T_GROUP_MODEL_H
#define T_GROUP_MODEL_H

#include "base/checks.h"
#include "base/rng.h"
#include "group/device.h"
#include "pgas/group.h"
#include "t/must.h"
#include "t/tap.h"

#define REPLICAS_MAX 8
#define BATCH_MAX    64

/* ---- replicas ---- */

typedef struct {
    int n;
    pgas_replica_t *replicas[REPLICAS_MAX];
    unsigned char *regions[REPLICAS_MAX];
    char address[64]; /* of the first one */
    size_t region_bytes;
} replicas_t;

/** Replicas on loopback; the last one starts first, because each one knows the next.
 *  @param devices  NULL: all have that of pgasi_group_dev_opts */
static inline void start_replicas_on(replicas_t *r, int n, size_t region_bytes,
                                     const char *const *devices)
{
    *r = (replicas_t){ .n = n, .region_bytes = region_bytes };
    pgasi_group_slots_wanted = 1; /* of chains: entries are used again soon */
    for (int i = n - 1; i >= 0; i--) {
        pgas_replica_opts_t opts = PGAS_REPLICA_OPTS_INIT;
        pgas_replica_info_t info = { .size = sizeof info };
        opts.listen = "127.0.0.1:0";
        opts.next = i + 1 < n ? r->address : NULL;
        opts.region_bytes = region_bytes;
        opts.device = devices ? devices[i] : NULL;
        must(pgas_replica_create(&opts, &r->replicas[i]), "a replica");
        must(pgas_replica_info(r->replicas[i], &info), "its description");
        r->regions[i] = info.region;
        memcpy(r->address, info.address, sizeof r->address);
    }
}

static inline void start_replicas(replicas_t *r, int n, size_t region_bytes)
{
    start_replicas_on(r, n, region_bytes, NULL);
}

static inline void stop_replicas(replicas_t *r)
{
    for (int i = 0; i < r->n; i++)
        must(pgas_replica_destroy(r->replicas[i]), "end a replica");
}

static inline pgas_group_t *join_group(const char *address, uint32_t window, uint32_t piece,
                                       pgas_group_way_t way)
{
    pgas_group_opts_t opts = PGAS_GROUP_OPTS_INIT;
    pgas_group_t *group = NULL;
    opts.window = window;
    opts.piece = piece;
    opts.way = way;
    must(pgas_group_join(address, &opts, &group), "join");
    return group;
}

/* ---- the model of a client ---- */

typedef struct {
    const replicas_t *real;
    pgasi_rng_t rng;
    uint64_t begin, bytes; /* the client's part, multiples of 8 */
    uint64_t write_max;    /* bytes of an operation */
    unsigned char *parts[REPLICAS_MAX];
    pgas_group_op_t ops[BATCH_MAX];
    unsigned char *data;
    uint64_t data_bytes;
    uint64_t old[BATCH_MAX][REPLICAS_MAX], want[BATCH_MAX][REPLICAS_MAX];
} model_t;

static inline void model_init(model_t *m, const replicas_t *real, uint64_t begin, uint64_t bytes,
                              uint64_t write_max, uint64_t seed)
{
    memset(m, 0, sizeof *m);
    m->real = real;
    m->begin = begin;
    m->bytes = bytes;
    m->write_max = PGASI_MIN(write_max, bytes / 2);
    pgasi_rng_seed(&m->rng, seed);
    m->data_bytes = BATCH_MAX * m->write_max;
    m->data = malloc(m->data_bytes);
    for (int i = 0; i < real->n; i++) {
        m->parts[i] = malloc(bytes);
        memcpy(m->parts[i], real->regions[i] + begin, bytes);
    }
}

static inline void model_fini(model_t *m)
{
    for (int i = 0; i < m->real->n; i++)
        free(m->parts[i]);
    free(m->data);
}

static inline uint64_t model_size(model_t *m)
{
    uint64_t most = pgasi_rng_below(&m->rng, 4) ? PGASI_MIN(m->write_max, 100u) : m->write_max;
    return pgasi_rng_below(&m->rng, most + 1);
}

/** Operation k of a batch. */
static inline pgas_group_op_t model_choose(model_t *m, int k)
{
    pgasi_rng_t *rng = &m->rng;
    uint64_t bytes = model_size(m), half = m->bytes / 2,
             at = m->begin + pgasi_rng_below(rng, m->bytes - bytes + 1),
             low = m->begin + pgasi_rng_below(rng, half - bytes + 1), high = low + half,
             word = pgasi_rng_below(rng, m->bytes / 8) * 8, found;
    unsigned char *data = m->data + (uint64_t)k * m->write_max;
    switch (pgasi_rng_below(rng, 5)) {
    case 0:
    case 1:
        for (uint64_t i = 0; i < bytes; i += 8) {
            uint64_t more = pgasi_rng_u64(rng);
            memcpy(data + i, &more, PGASI_MIN(bytes - i, 8u));
        }
        return (pgas_group_op_t)PGAS_GWRITE(at, data, bytes);
    case 2:
        return pgasi_rng_below(rng, 2) ? (pgas_group_op_t)PGAS_GMEMCPY(low, high, bytes)
                                       : (pgas_group_op_t)PGAS_GMEMCPY(high, low, bytes);
    case 3:
        memcpy(&found, m->parts[pgasi_rng_below(rng, (uint64_t)m->real->n)] + word, 8);
        return (pgas_group_op_t)PGAS_GCAS(m->begin + word,
                                          pgasi_rng_below(rng, 4) ? found : found + 1,
                                          pgasi_rng_u64(rng), pgasi_rng_u64(rng) | 1, m->old[k]);
    default:
        return (pgas_group_op_t)PGAS_GFLUSH(at, bytes);
    }
}

/** Executes it on the model. */
static inline void model_apply(model_t *m, const pgas_group_op_t *op, int k)
{
    for (int i = 0; i < m->real->n; i++) {
        unsigned char *at = m->parts[i] + (op->offset - m->begin);
        if (op->kind == PGAS_GROUP_WRITE)
            memcpy(at, op->u.data, op->bytes);
        if (op->kind == PGAS_GROUP_MEMCPY)
            memcpy(at, m->parts[i] + (op->u.source - m->begin), op->bytes);
        if (op->kind != PGAS_GROUP_CAS)
            continue;
        memcpy(&m->want[k][i], at, 8);
        if ((op->u.cas.execute_map >> i & 1) && m->want[k][i] == op->u.cas.expected)
            memcpy(at, &op->u.cas.desired, 8);
    }
}

/** A batch of n operations at random, executed on the model. */
static inline void model_batch(model_t *m, int n)
{
    for (int k = 0; k < n; k++) {
        m->ops[k] = model_choose(m, k);
        model_apply(m, &m->ops[k], k);
    }
}

/** Overwrites the data of writes, which may be reused after they were submitted. */
static inline void model_scribble(model_t *m)
{
    memset(m->data, 0xee, m->data_bytes);
}

/** @return the number of errors after a batch, in regions of replicas and in old words */
static inline int model_compare(const model_t *m, int n)
{
    int n_wrong = 0;
    for (int i = 0; i < m->real->n; i++)
        n_wrong += memcmp(m->real->regions[i] + m->begin, m->parts[i], m->bytes) != 0;
    for (int k = 0; k < n; k++)
        for (int i = 0; i < m->real->n && m->ops[k].kind == PGAS_GROUP_CAS; i++)
            n_wrong += m->old[k][i] != m->want[k][i];
    return n_wrong;
}

/** Submits a batch of n operations at random, and waits until it is complete. */
static inline pgas_status_t model_submit(model_t *m, pgas_group_t *group, int n)
{
    pgas_sync_t sync = PGAS_SYNC_INIT;
    model_batch(m, n);
    pgas_status_t status = pgas_group_submit(group, m->ops, (size_t)n, &sync);
    model_scribble(m);
    if (status == PGAS_OK)
        status = pgas_sync_wait(&sync, 20000000);
    if (status == PGAS_ERR_TIMEOUT)
        bail("a batch does not end");
    return status;
}

/** The same. @return the number of errors afterwards */
static inline int model_run(model_t *m, pgas_group_t *group, int n)
{
    return model_submit(m, group, n) == PGAS_OK ? model_compare(m, n) : 1;
}

#endif
