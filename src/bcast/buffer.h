/** Broadcasts of buffers: the head of their messages, and sending to children. */
#ifndef PGASI_BCAST_BUFFER_H
#define PGASI_BCAST_BUFFER_H

#include "base/checks.h"
#include "bcast/bcast.h"

#define PGASI_BCAST_BUFFER_BYTES 64 /* the head counts as so many, see pgas/call.h */

enum {
    PGASI_BCAST_IN_MESSAGE = 1, /* SCATTER: the pieces follow the arguments */
    /* PULL: several buffers in one block: their number, their sizes, and the buffers, padded */
    PGASI_BCAST_PACKED = 2
};

/** Precedes the arguments. */
typedef struct {
    pgasi_bcast_head_t h;
    uint64_t bytes; /* of the buffer; SCATTER: of all pieces of the range, padded to 8 */
    /* PUSH: the buffer's address in every heap; PULL: the buffer at the rank above; SCATTER: the
     * sizes of the range there */
    uint64_t at;
    uint64_t pieces; /* SCATTER: the pieces there */
    uint16_t way, flags;
    uint32_t args_bytes;
} pgasi_bcast_buffer_head_t;

/** The data that a rank has: the buffer, or sizes and pieces of its range. */
typedef struct {
    const char *data;
    const uint64_t *sizes; /* SCATTER; data are the pieces */
    pgas_gptr_t ptr;       /* of data, for peers */
    pgas_gptr_t sizes_ptr;
} pgasi_bcast_data_t;

static inline uint64_t pgasi_bcast_padded(uint64_t bytes)
{
    return PGASI_ALIGN_UP(bytes, 8);
}

/** Sends the message to a rank; sizes and pieces if it has PGASI_BCAST_IN_MESSAGE. */
pgas_status_t pgasi_bcast_buffer_send(int rank, const pgasi_bcast_buffer_head_t *head,
                                      const void *args, const void *sizes, size_t sizes_bytes,
                                      const void *pieces);
/** Sends to all children of the plan, and puts the buffer there first if it is pushed.
 *  @return the first error, which is also reported to the entry */
pgas_status_t pgasi_bcast_buffer_forward(const pgasi_bcast_buffer_head_t *mine,
                                         const pgasi_bcast_plan_t *plan,
                                         const pgasi_bcast_data_t *have, const void *args,
                                         pgasi_bcast_entry_t *entry);

#endif
