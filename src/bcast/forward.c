/* Sends broadcasts of buffers to children. See buffer.h. */
#include <stdlib.h>
#include <string.h>

#include "base/checks.h"
#include "base/param.h"
#include "bcast/buffer.h"
#include "msg/descriptor.h"
#include "msg/recv_queue.h"
#include "msg/send_queue.h"
#include "pgas/rma.h"

PGASI_STATIC_ASSERT(sizeof(pgasi_bcast_buffer_head_t) <= PGASI_BCAST_BUFFER_BYTES &&
                        sizeof(pgasi_bcast_buffer_head_t) % 8 == 0,
                    "pgas/call.h says 64");

pgas_status_t pgasi_bcast_buffer_send(int rank, const pgasi_bcast_buffer_head_t *head,
                                      const void *args, const void *sizes, size_t sizes_bytes,
                                      const void *pieces)
{
    if (!(head->flags & PGASI_BCAST_IN_MESSAGE))
        return pgasi_sendq_call_pair(rank, PGASI_EP_ANY, false, PGASI_DESC_BCAST_BUFFER, head,
                                     sizeof *head, args, head->args_bytes, pgasi_bcast_full());
    size_t room = pgasi_bcast_padded(head->args_bytes), bytes = room + sizes_bytes + head->bytes;
    char *all = calloc(1, bytes + 1);
    if (!all)
        return PGAS_ERR_NO_MEMORY;
    if (head->args_bytes)
        memcpy(all, args, head->args_bytes);
    memcpy(all + room, sizes, sizes_bytes);
    memcpy(all + room + sizes_bytes, pieces, head->bytes);
    pgas_status_t status =
        pgasi_sendq_call_pair(rank, PGASI_EP_ANY, false, PGASI_DESC_BCAST_BUFFER, head,
                              sizeof *head, all, bytes, pgasi_bcast_full());
    free(all);
    return status;
}

static uint64_t sum_of(const uint64_t *sizes, uint32_t n)
{
    uint64_t sum = 0;
    for (uint32_t i = 0; i < n; i++)
        sum += pgasi_bcast_padded(sizes[i]);
    return sum;
}

static bool fits_message(const pgasi_bcast_buffer_head_t *head, size_t sizes_bytes)
{
    return sizeof *head + pgasi_bcast_padded(head->args_bytes) + sizes_bytes + head->bytes <=
           pgasi_param.call_max;
}

static pgas_status_t send_each(const pgasi_bcast_buffer_head_t *mine, const pgasi_bcast_child_t *c,
                               const pgasi_bcast_data_t *have, const void *args)
{
    pgasi_bcast_buffer_head_t theirs = *mine;
    uint32_t first = c->low - mine->h.low, n = c->high - c->low;
    uint64_t before = sum_of(have->sizes, first);
    theirs.h.low = c->low;
    theirs.h.high = c->high;
    theirs.bytes = sum_of(have->sizes + first, n);
    theirs.at = pgas_gptr_add(have->sizes_ptr, (int64_t)(first * sizeof(uint64_t)));
    theirs.pieces = pgas_gptr_add(have->ptr, (int64_t)before);
    theirs.flags = fits_message(&theirs, n * sizeof(uint64_t)) ? PGASI_BCAST_IN_MESSAGE : 0;
    return pgasi_bcast_buffer_send(c->rank, &theirs, args, have->sizes + first,
                                   n * sizeof(uint64_t), have->data + before);
}

static pgas_status_t push(const pgasi_bcast_buffer_head_t *head, int rank, const char *data)
{
    pgas_gptr_t there = pgas_gptr_at(head->at, rank);
    pgas_status_t status = head->bytes ? pgas_put(there, data, head->bytes) : PGAS_OK;
    return status == PGAS_OK && head->bytes && !pgas_gptr_local(there, head->bytes)
               ? pgas_flush(rank)
               : status;
}

static pgas_status_t send_to_child(const pgasi_bcast_buffer_head_t *mine,
                                   const pgasi_bcast_child_t *c, const pgasi_bcast_data_t *have,
                                   const void *args)
{
    if (mine->way == PGAS_BUFFER_SCATTER)
        return send_each(mine, c, have, args);
    pgasi_bcast_buffer_head_t theirs = *mine;
    theirs.h.low = c->low;
    theirs.h.high = c->high;
    if (mine->way == PGAS_BUFFER_PULL)
        theirs.at = have->ptr;
    pgas_status_t status =
        mine->way == PGAS_BUFFER_PUSH ? push(mine, c->rank, have->data) : PGAS_OK;
    return status == PGAS_OK ? pgasi_bcast_buffer_send(c->rank, &theirs, args, NULL, 0, NULL)
                             : status;
}

pgas_status_t pgasi_bcast_buffer_forward(const pgasi_bcast_buffer_head_t *mine,
                                         const pgasi_bcast_plan_t *plan,
                                         const pgasi_bcast_data_t *have, const void *args,
                                         pgasi_bcast_entry_t *entry)
{
    pgas_status_t first_error = PGAS_OK;
    for (int i = 0; i < plan->n; i++) {
        pgas_status_t status = send_to_child(mine, &plan->child[i], have, args);
        if (status == PGAS_OK)
            pgasi_bcast_count(&pgasi_bcast_stats.n_down);
        else
            pgasi_bcast_child_done(entry, plan->child[i].rank, status);
        first_error = first_error == PGAS_OK ? status : first_error;
    }
    return first_error;
}
