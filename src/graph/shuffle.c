/* A round is an alltoall of counts and an alltoallv of items.
 *
 * The counts also say whether a rank has ended, and with which status. Every rank sees those of all
 * ranks, so all ranks end after the same round with the same status. */
#include "graph/shuffle.h"

#include <stdbool.h>
#include <stdlib.h>
#include "base/checks.h"
#include "graph/graph.h"
#include "pgas/coll.h"
#include "pgas/runtime.h"

#define BUFFER_BYTES (2u << 20) /* of all buckets of a rank; the same for what arrives */
#define FEWEST       64         /* items of a bucket */

/* A count: the number of items, whether the rank has ended, and its status. */
#define ENDED        (UINT64_C(1) << 32)
#define STATUS_SHIFT 40

static void free_all(pgasi_shuffle_t *s)
{
    free(s->out);
    free(s->in);
    free(s->n_out);
    free(s->counts);
    free(s->out_bytes);
    s->out = s->in = NULL;
}

pgas_status_t pgasi_shuffle_init(pgasi_shuffle_t *s, size_t item_bytes,
                                 pgasi_shuffle_take_fn_t take, void *arg)
{
    size_t n_ranks = (size_t)pgas_n_ranks();
    uint32_t room = (uint32_t)(BUFFER_BYTES / n_ranks / item_bytes);
    *s = (pgasi_shuffle_t){
        .item_bytes = item_bytes,
        .room = PGASI_MAX(room, FEWEST),
        .n_ranks = (int)n_ranks,
        .take = take,
        .arg = arg,
    };
    s->out = pgasi_graph_array(n_ranks * s->room, item_bytes);
    s->in = pgasi_graph_array(n_ranks * s->room, item_bytes);
    s->n_out = pgasi_graph_zeroed(n_ranks, sizeof *s->n_out);
    s->counts = pgasi_graph_array(2 * n_ranks, sizeof *s->counts);
    s->out_bytes = pgasi_graph_array(2 * n_ranks, sizeof *s->out_bytes);
    s->in_bytes = s->out_bytes + n_ranks;
    bool have = s->out && s->in && s->n_out && s->counts && s->out_bytes;
    pgas_status_t status = pgasi_graph_agree(have ? PGAS_OK : PGAS_ERR_NO_MEMORY, NULL);
    if (status != PGAS_OK)
        free_all(s);
    return status;
}

/* Moves the buckets together, as alltoallv wants them. */
static void pack(pgasi_shuffle_t *s, uint64_t flags)
{
    char *to = s->out;
    for (int r = 0; r < s->n_ranks; r++) {
        s->counts[r] = s->n_out[r] | flags;
        s->out_bytes[r] = s->n_out[r] * s->item_bytes;
        if (s->out_bytes[r] > 0)
            memmove(to, s->out + (size_t)r * s->room * s->item_bytes, s->out_bytes[r]);
        to += s->out_bytes[r];
        s->n_out[r] = 0;
    }
}

static void take_all(pgasi_shuffle_t *s)
{
    const char *from = s->in;
    for (int r = 0; r < s->n_ranks; r++) {
        if (s->in_bytes[r] > 0)
            s->take(s->arg, r, from, s->in_bytes[r] / s->item_bytes);
        from += s->in_bytes[r];
    }
}

/* @return whether all ranks have ended, or one has an error */
static bool exchange(pgasi_shuffle_t *s, uint64_t flags)
{
    uint64_t *in = s->counts + s->n_ranks;
    bool all_ended = true;
    pack(s, flags);
    pgas_status_t status = pgas_alltoall(NULL, s->counts, in, sizeof *in);
    for (int r = 0; status == PGAS_OK && r < s->n_ranks; r++) {
        s->in_bytes[r] = (size_t)(in[r] & UINT32_MAX) * s->item_bytes;
        all_ended = all_ended && (in[r] & ENDED);
        if (in[r] >> STATUS_SHIFT != 0)
            status = (pgas_status_t) - (int)(in[r] >> STATUS_SHIFT);
    }
    if (status == PGAS_OK)
        status = pgas_alltoallv(NULL, s->out, s->out_bytes, s->in, s->in_bytes);
    if (status == PGAS_OK)
        take_all(s);
    s->status = status;
    return status != PGAS_OK || all_ended;
}

void pgasi_shuffle_round(pgasi_shuffle_t *s)
{
    if (s->status == PGAS_OK)
        exchange(s, 0);
    else
        memset(s->n_out, 0, (size_t)s->n_ranks * sizeof *s->n_out);
}

pgas_status_t pgasi_shuffle_end(pgasi_shuffle_t *s, pgas_status_t mine)
{
    uint64_t flags = ENDED;
    if (mine != PGAS_OK)
        flags |= (uint64_t)-mine << STATUS_SHIFT;
    while (s->status == PGAS_OK && !exchange(s, flags))
        continue;
    free_all(s);
    return s->status;
}
