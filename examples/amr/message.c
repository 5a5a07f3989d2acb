/* amr: messages as calls with described arguments (pgas/call_args.h), in three ways.
 *
 * The handler puts a message into an inbox. The program later uses it there, in place. There are
 * two inboxes, for even and for odd epochs. These are enough, because no message arrives two epochs
 * early: its sender first needs strips of this rank, or a collective in which both take part. */
#include "message.h"
#include <stdlib.h>

static struct {
    message_t *of; /* each rank */
    pgas_sync_t missing;
} inbox[2];

void messages_init(void)
{
    for (int i = 0; i < 2; i++)
        inbox[i].of = need(calloc((size_t)pgas_n_ranks(), sizeof *inbox[i].of));
    check(pgas_barrier(NULL), "pgas_barrier"); /* before the first message of any rank */
}

void messages_free(void)
{
    free(inbox[0].of);
    free(inbox[1].of);
}

message_t *message_of(uint32_t epoch, int rank)
{
    return &inbox[epoch & 1].of[rank];
}

void message_empty(message_t *message)
{
    strips_free(&message->strips);
    cells_free(&message->values);
    for (size_t i = 0; i < message->n_parts; i++)
        cells_free(&message->parts[i].cells);
    free(message->parts);
    *message = (message_t){ 0 };
}

/* Moves a message into the inbox. Its vectors move, too; no number is copied. */
static void accept(message_t *message, int source)
{
    message_t *to = message_of(message->epoch, source);
    strips_take(&message->strips, &to->strips);
    cells_take(&message->values, &to->values);
    for (size_t i = 0; i < message->n_parts; i++) {
        part_t *part = &message->parts[i];
        message_add_part(to, part->leaf, part->octant, &part->cells);
    }
    check(pgas_sync_done(&inbox[message->epoch & 1].missing, 1), "pgas_sync_done");
}

void messages_wait(uint32_t epoch, int n)
{
    pgas_sync_t *missing = &inbox[epoch & 1].missing;
    check(pgas_sync_add(missing, n), "pgas_sync_add");
    check(pgas_sync_wait(missing, -1), "waiting for messages");
}

/* ---- registered, pointers: the library carries the structure ---- */

#define DELIVER_FIELDS(F) F(STRUCT, message, message)
PGAS_HANDLER_ARGS(deliver, DELIVER_FIELDS)
{
    accept(message, pgas_thread_rank(source));
}

/* ---- packed: the program packs the structure into one piece of memory ---- */

PGAS_HANDLER(deliver_packed, int32_t)
{
    pgas_archive_t archive = PGAS_ARCHIVE_INIT;
    message_t message = { 0 };
    void *address, *aligned;
    size_t bytes;
    check(pgas_buffer_get(0, &address, &bytes), "pgas_buffer_get");
    aligned = need(aligned_alloc(16, (bytes + 15) / 16 * 16));
    memcpy(aligned, address, bytes);
    check(pgas_archive_from_bytes(aligned, bytes, &archive), "pgas_archive_from_bytes");
    check(pgas_view_message(&archive, &message), "reading a message");
    accept(&message, *arg);
    pgas_drop_message(&message);
    pgas_archive_free(&archive);
    free(aligned);
}

static pgas_status_t send_packed(int rank, const message_t *message)
{
    pgas_archive_t archive = PGAS_ARCHIVE_INIT;
    int32_t source = pgas_rank();
    check(pgas_save_message(&archive, message), "writing a message");
    size_t bytes = pgas_archive_bytes(&archive);
    void *packed = need(aligned_alloc(16, (bytes + 15) / 16 * 16));
    check(pgas_archive_pack(&archive, packed, bytes), "pgas_archive_pack");
    pgas_archive_free(&archive);

    pgas_buffer_t buffer = { .mode = PGAS_BUFFER_COPY, .address = packed, .bytes = bytes };
    pgas_status_t status =
        pgas_call_deliver_packed_to(pgas_on_rank(rank), &source,
                                    PGAS_CALL_OPTS(.buffers = &buffer, .n_buffers = 1));
    free(packed);
    return status;
}

/* ---- for all ways ---- */

void message_send(int rank, message_t *message)
{
    if (rank == pgas_rank())
        accept(message, rank);
    else if (settings.way == PACKED)
        check(send_packed(rank, message), "sending a packed message");
    else
        check(pgas_call_deliver(rank, message, NULL), "sending a message");
    message_empty(message);
}

void message_cells(cells_t *cells, size_t n)
{
    pgas_rma_object_t *object;
    cells_free(cells);
    if (settings.way != POINTERS) {
        check(cells_resize(cells, n), "registered memory");
        return;
    }
    check(pgas_rma_object_take(need(malloc(n * sizeof(double))), n * sizeof(double), &object),
          "an object of malloc");
    check(cells_adopt(cells, object, n), "a vector of malloc");
}

void message_add_part(message_t *message, int leaf, int octant, cells_t *cells)
{
    size_t n = message->n_parts;
    if ((n & (n - 1)) == 0) /* room for a power of two */
        message->parts = need(realloc(message->parts, (n ? 2 * n : 1) * sizeof *message->parts));
    message->parts[n] = (part_t){ .leaf = leaf, .octant = octant };
    cells_take(cells, &message->parts[n].cells);
    message->n_parts++;
}
