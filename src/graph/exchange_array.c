/* Exchanges of values between owners and ghosts through a coherent array, which has a word for each
 * vertex at the vertex's owner. Owners write and read their words by walks (pins). Others read
 * words of their ghosts, or combine into them in the state Operate. A barrier separates the two. */
#include <stdlib.h>
#include <string.h>
#include "base/checks.h"
#include "base/op.h"
#include "graph/run.h"
#include "pgas/coll.h"

#define CHUNK 8192 /* words */

pgas_status_t pgasi_array_open(pgasi_run_t *r)
{
    pgas_graph_t *graph = r->run.graph;
    if (graph->n_ranks == 1)
        return PGAS_OK;
    pgas_array_opts_t opts = { .size = sizeof opts,
                               .chunk_elems = CHUNK,
                               .offsets = graph->first_of };
    return pgas_array_create(NULL, sizeof(uint64_t), graph->n_vertices, &opts, &r->array);
}

void pgasi_array_close(pgasi_run_t *r)
{
    if (r->array)
        pgas_array_destroy(r->array);
    r->array = NULL;
}

/* Copies own values to or from the array. After a copy from it, the words are neutral again. */
static pgas_status_t walk_own(pgasi_run_t *r, void *values, size_t elem_bytes, bool writes,
                              uint64_t neutral)
{
    const pgas_graph_t *graph = r->run.graph;
    pgas_array_walk_t walk;
    pgas_status_t status =
        pgas_array_walk_begin(r->array, graph->first, graph->n_local, PGAS_ARRAY_WRITE, 0, &walk);
    if (status != PGAS_OK)
        return status;
    while (pgas_array_walk_next(&walk)) {
        uint64_t *words = walk.data;
        for (uint64_t k = 0; k < walk.n; k++) {
            uint32_t id = graph->id_of[walk.first + k - graph->first];
            if (writes) {
                words[k] = pgasi_word_get(values, id, elem_bytes);
            } else {
                pgasi_word_set(values, id, elem_bytes, words[k]);
                words[k] = neutral;
            }
        }
    }
    return pgas_array_walk_end(&walk);
}

/* The words of all ghosts. */
static uint64_t *ghost_words(pgasi_run_t *r)
{
    return pgasi_graph_scratch(r->run.graph, SLOT_SEND, r->run.info.n_ghosts, sizeof(uint64_t));
}

pgas_status_t pgasi_array_fetch(pgasi_run_t *r, void *values, size_t elem_bytes)
{
    const pgas_graph_t *graph = r->run.graph;
    uint64_t *words = ghost_words(r);
    pgas_status_t mine = words ? walk_own(r, values, elem_bytes, true, 0) : PGAS_ERR_NO_MEMORY;
    pgas_status_t status = pgasi_graph_agree(mine, NULL);
    if (status != PGAS_OK)
        return status;
    mine = pgas_array_get_many(r->array, graph->vertex + graph->n_local, graph->n_ghosts, words);
    for (uint64_t g = 0; mine == PGAS_OK && g < graph->n_ghosts; g++)
        pgasi_word_set(values, graph->n_local + g, elem_bytes, words[g]);
    r->run.n_sent += graph->mirror_begin[graph->n_ranks];
    return pgasi_graph_agree(mine, NULL);
}

/* Makes a word of 32 bits one of 64 bits. */
static pgas_type_t wide(pgas_type_t type)
{
    return type == PGAS_U32 ? PGAS_U64 : type;
}

pgas_status_t pgasi_array_combine(pgasi_run_t *r, void *values, pgas_type_t type, pgas_op_t op)
{
    const pgas_graph_t *graph = r->run.graph;
    size_t elem_bytes = pgasi_type_bytes(type);
    uint64_t *words = ghost_words(r);
    pgas_status_t mine = words ? walk_own(r, values, elem_bytes, true, 0) : PGAS_ERR_NO_MEMORY;
    pgas_status_t status = pgasi_graph_agree(mine, NULL);
    if (status != PGAS_OK)
        return status;
    for (uint64_t g = 0; g < graph->n_ghosts; g++)
        words[g] = pgasi_word_get(values, graph->n_local + g, elem_bytes);
    mine = pgas_array_update_many(r->array, graph->vertex + graph->n_local, graph->n_ghosts,
                                  PGAS_OP(op, wide(type)), words);
    status = pgasi_graph_agree(mine, NULL);
    if (status == PGAS_OK)
        status = pgasi_graph_agree(walk_own(r, values, elem_bytes, false, 0), NULL);
    r->run.n_sent += graph->n_ghosts;
    return status;
}

/* pgasi_exchange_members: first the membership of each vertex, then its message, each as a word. */
pgas_status_t pgasi_array_members(pgasi_run_t *r, const pgas_edge_ops_t *ops, void *context,
                                  pgas_subset_t *from)
{
    const pgas_graph_t *graph = r->run.graph;
    uint64_t *word = pgasi_graph_scratch(r->run.graph, SLOT_RECEIVE,
                                         (uint64_t)graph->n_local + graph->n_ghosts, sizeof *word);
    for (uint32_t id = 0; id < graph->n_local; id++)
        word[id] = pgas_edge_bit(from->bits, id);
    pgas_status_t status = pgasi_array_fetch(r, word, sizeof *word);
    for (uint32_t g = 0; status == PGAS_OK && g < graph->n_ghosts; g++)
        if (word[graph->n_local + g] != 0)
            pgas_edge_set_bit(from->bits, graph->n_local + g, false);
    for (uint32_t id = 0; id < graph->n_local; id++)
        if (pgas_edge_bit(from->bits, id))
            ops->read(context, id, &word[id]);
    if (status == PGAS_OK)
        status = pgasi_array_fetch(r, word, sizeof *word);
    for (uint32_t g = 0; status == PGAS_OK && g < graph->n_ghosts; g++)
        if (pgas_edge_bit(from->bits, graph->n_local + g))
            ops->copy(context, graph->n_local + g, &word[graph->n_local + g]);
    return status;
}
