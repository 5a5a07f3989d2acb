/* The format of bulk messages: sizes of pieces, and the checks of a head. See wire.h. */
#include "bulk/wire.h"

#include <string.h>

#include "base/checks.h"
#include "base/param.h"
#include "boot/boot.h"
#include "mem/segment.h"
#include "msg/channel_memory.h"
#include "msg/descriptor.h"
#include "msg/recv_queue.h"
#include "pgas/call.h"

size_t pgasi_bulk_piece_max(int rank)
{
    bool near = pgasi_boot.local_of[rank] >= 0;
    size_t room = near || pgasi_chanmem.n_chunks ? pgasi_chunk_bytes / 4 : SIZE_MAX;
    if (!near) /* there may be no channel yet */
        room = PGASI_MIN(room, pgasi_far_message_max() - 128);
    return PGASI_MIN(room, (size_t)PGASI_BULK_PIECE_MAX) / 8 * 8;
}

static bool check_key(uint64_t at_8, const pgasi_bulk_head_t *h)
{
    return !at_8 || (at_8 * 8 <= h->head_bytes &&
                     h->head_bytes - at_8 * 8 >= offsetof(pgasi_segment_wire_t, key));
}

static bool check_part(const pgasi_bulk_part_t *w, const pgasi_bulk_head_t *h, pgas_thread_t source)
{
    int rank = w->mode == PGAS_BUFFER_PULL ? pgas_thread_rank(source) : pgasi_boot.rank;
    if (w->mode > PGAS_BUFFER_PULL || w->bytes > UINT64_MAX / PGASI_BULK_PARTS_MAX / 2)
        return false;
    if (h->flags & PGASI_BULK_ARCHIVE && w->mode != PGAS_BUFFER_PULL)
        return false;
    if (w->mode != PGAS_BUFFER_COPY && w->ptr && w->bytes && pgas_gptr_rank(w->ptr) != rank)
        return false;
    return check_key(w->key_at_8, h);
}

bool pgasi_bulk_head_fits(const pgasi_bulk_head_t *h)
{
    const size_t part = sizeof(pgasi_bulk_part_t) + sizeof(pgasi_segment_wire_t) + 8;
    bool archive = h->flags & PGASI_BULK_ARCHIVE;
    size_t args_max = archive ? PGASI_BULK_STREAM_MAX : pgasi_param.call_max;
    size_t other = sizeof *h + sizeof(pgasi_segment_wire_t) + args_max + 32;
    return h->n_parts <= (archive ? PGASI_BULK_PARTS_MAX : PGAS_BUFFERS_MAX) &&
           h->head_bytes >= sizeof *h && h->head_bytes <= other + h->n_parts * part &&
           (!(h->flags & PGASI_BULK_STREAM) || (archive && h->n_parts > 0 && !h->args_bytes));
}

bool pgasi_bulk_head_is_sane(const char *block, uint64_t total, pgas_thread_t source)
{
    pgasi_bulk_head_t h;
    memcpy(&h, block, sizeof h);
    size_t parts_end = sizeof h + h.n_parts * sizeof(pgasi_bulk_part_t);
    if (!pgasi_bulk_head_fits(&h) || h.head_bytes > total ||
        (h.head_bytes % 8 && !(h.flags & PGASI_BULK_ARCHIVE)) || h.args_at % 8 ||
        h.args_at < parts_end || h.args_at > h.head_bytes ||
        h.args_bytes > h.head_bytes - h.args_at || h.ep >= (uint32_t)pgasi_n_eps ||
        !check_key(h.reply_key_at_8, &h) ||
        (h.reply_ptr && pgas_gptr_rank(h.reply_ptr) != pgas_thread_rank(source)))
        return false;
    uint64_t copied = 0;
    for (size_t i = 0; i < h.n_parts; i++) {
        pgasi_bulk_part_t w;
        memcpy(&w, block + sizeof h + i * sizeof w, sizeof w);
        if (!check_part(&w, &h, source))
            return false;
        copied += w.mode == PGAS_BUFFER_COPY ? PGASI_ALIGN_UP(w.bytes, 8) : 0;
    }
    return copied == total - h.head_bytes;
}
