/* amr: exchanges between ranks: strips in every step, blocks when the tree has changed. Each rank
 * sends one message to every rank that needs its data. The same code handles a message to the rank
 * itself, so results do not depend on the number of ranks. */
#include <stdlib.h>
#include "message.h"

void exchange_plan(mesh_t *mesh)
{
    if (!mesh->strips)
        mesh->strips = need(calloc((size_t)pgas_n_ranks(), sizeof *mesh->strips));
    for (int rank = 0; rank < pgas_n_ranks(); rank++)
        strips_free(&mesh->strips[rank]);

    for (int from = mesh->first; from < mesh->first + mesh->n_blocks; from++)
        for (int face = 0; face < N_FACES; face++) {
            int to[4], n = tree_neighbors(&mesh->tree, from, face, to);
            for (int i = 0; i < n; i++)
                check(strips_push(&mesh->strips[tree_owner(&mesh->tree, to[i])],
                                  strip_make(&mesh->tree, from, face, to[i])),
                      "a list of strips");
        }
}

/* The list of strips is sent again in each step. It is shared, not copied. */
static void send_strips(const mesh_t *mesh, int rank)
{
    message_t message = { .epoch = mesh->epoch };
    const strip_t *strip = strips_data(&mesh->strips[rank]);
    size_t n = strips_size(&mesh->strips[rank]), n_values = 0;
    for (size_t i = 0; i < n; i++)
        n_values += strip_size(mesh, &strip[i]);
    message_cells(&message.values, n_values);
    double *value = cells_data(&message.values);
    for (size_t i = 0; i < n; i++) {
        strip_read(mesh, &strip[i], value);
        value += strip_size(mesh, &strip[i]);
    }
    strips_share(&mesh->strips[rank], &message.strips);
    message_send(rank, &message);
}

static void use_strips(mesh_t *mesh, message_t *message)
{
    const strip_t *strip = strips_data(&message->strips);
    const double *value = cells_data(&message->values);
    for (size_t i = 0; i < strips_size(&message->strips); i++) {
        strip_write(mesh, &strip[i], value);
        value += strip_size(mesh, &strip[i]);
    }
    message_empty(message);
}

/* Neighbours send strips to each other, so a rank waits for as many messages as it sends. */
void exchange_strips(mesh_t *mesh)
{
    int n_ranks = pgas_n_ranks(), n_messages = 0;
    mesh->epoch++;
    for (int i = 1; i <= n_ranks; i++) {
        int rank = (pgas_rank() + i) % n_ranks;
        if (strips_size(&mesh->strips[rank]) == 0)
            continue;
        send_strips(mesh, rank);
        n_messages++;
    }
    messages_wait(mesh->epoch, n_messages);
    for (int rank = 0; rank < n_ranks; rank++)
        use_strips(mesh, message_of(mesh->epoch, rank));
}

/* ---- blocks ---- */

/* Adds the new leaves of one block to the messages of their owners. A block that does not change
 * moves its memory to the message. */
static void send_block(const mesh_t *mesh, const tree_t *next, block_t *block, int new_leaf,
                       message_t *messages)
{
    int n = mesh->n, level = next->leaf[new_leaf].level;
    size_t all = (size_t)(n * n * n);
    cells_t cells = { 0 };
    if (level == block->box.level)
        message_add_part(&messages[tree_owner(next, new_leaf)], new_leaf, ALL_OCTANTS,
                         &block->cells);
    if (level < block->box.level) {
        message_cells(&cells, all / 8);
        block_shrink(mesh, block, cells_data(&cells));
        message_add_part(&messages[tree_owner(next, new_leaf)], new_leaf, box_octant(&block->box),
                         &cells);
    }
    for (int octant = 0; octant < 8 && level > block->box.level; octant++) {
        int child = new_leaf + octant;
        message_cells(&cells, all);
        block_split(mesh, block, octant, cells_data(&cells));
        message_add_part(&messages[tree_owner(next, child)], child, ALL_OCTANTS, &cells);
    }
}

static void use_parts(mesh_t *mesh, message_t *message)
{
    for (size_t i = 0; i < message->n_parts; i++) {
        part_t *part = &message->parts[i];
        block_t *block = &mesh->blocks[part->leaf - mesh->first];
        if (part->octant == ALL_OCTANTS) {
            cells_take(&part->cells, &block->cells);
            continue;
        }
        if (cells_size(&block->cells) == 0)
            message_cells(&block->cells, (size_t)(mesh->n * mesh->n * mesh->n));
        block_put_octant(mesh, block, part->octant, cells_data(&part->cells));
    }
    message_empty(message);
}

/* Returns the number of ranks that have cells for the new leaves of this rank. */
static int count_senders(const mesh_t *mesh, const tree_t *next, const int *new_leaf)
{
    int n_senders = 0, last = -1, n = mesh->tree.n;
    int first = tree_first(next, pgas_rank()), end = tree_first(next, pgas_rank() + 1);
    for (int i = 0; i < n && first < end; i++) {
        int source = tree_owner(&mesh->tree, i), low = new_leaf[i];
        int high = i + 1 < n ? new_leaf[i + 1] - 1 : next->n - 1; /* a merged leaf: low - 1 */
        bool is_ours = low < end && (high >= first || low >= first);
        if (is_ours && source != last) {
            n_senders++;
            last = source;
        }
    }
    return n_senders;
}

void exchange_blocks(mesh_t *mesh, tree_t *next, const int *new_leaf)
{
    int n_ranks = pgas_n_ranks(), n_senders = count_senders(mesh, next, new_leaf);
    message_t *messages = need(calloc((size_t)n_ranks, sizeof *messages));
    mesh->epoch++;
    for (int i = 0; i < mesh->n_blocks; i++)
        send_block(mesh, next, &mesh->blocks[i], new_leaf[mesh->first + i], messages);
    for (int rank = 0; rank < n_ranks; rank++) {
        messages[rank].epoch = mesh->epoch;
        if (messages[rank].n_parts)
            message_send(rank, &messages[rank]);
    }
    free(messages);

    mesh_disown(mesh);
    free(mesh->tree.leaf);
    mesh->tree = *next;
    mesh_own(mesh);
    messages_wait(mesh->epoch, n_senders);
    for (int rank = 0; rank < n_ranks; rank++)
        use_parts(mesh, message_of(mesh->epoch, rank));
}
