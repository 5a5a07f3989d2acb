/* Channels to other nodes, the sender's side: see far_channel.h.
 *
 * Asking and growing are messages, once per channel and chunk; what is sent through it is either
 * what channel.c does on the node, or two puts a descriptor or batch, from the buffer in which it
 * was gathered. The header's put may find no room when the arguments have left: it is owed then,
 * and paid before anything else goes there. */
#include "msg/far_channel.h"

#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "boot/boot.h"
#include "boot/wait.h"
#include "msg/out.h"
#include "mem/segment.h"
#include "mem/thread.h"

#define ASK_AGAIN 65536u /* messages after a refusal */

/* What a descriptor's header was when its put found no room. */
typedef struct {
    buffer_t *buffer; /* in which it stands; NULL: nothing is owed */
    uint64_t at;      /* address there */
} owed_t;

struct far_channel {
    int state;          /* far_state_t; the answers change it, under the inbox lock */
    int more;           /* the same for a further chunk */
    uint32_t n_refused; /* looks for one since it was refused */
    pgasi_outbox_t *ob;
    pgasi_note_t granted, chunk;
    pgasi_segment_wire_t wire;
    uint64_t told[2];  /* by puts: as a line of inbox.h, told by messages and read on demand */
    uint64_t seen[2];  /* what is being read of it */
    uint64_t position; /* by puts: the tail; a chunk counts as a whole */
    uint64_t phase;
    pgasi_tp_key_t *key;
    uint64_t region; /* address there */
    owed_t owed;
    pgasi_tp_comp_t read; /* of seen */
    bool reading;
    chunk_t chunks[]; /* PGAS_CHUNKS_MAX */
};

static pgasi_outbox_t *outbox_of(int ctx)
{
    pgasi_ctx_t *l = __atomic_load_n(&pgasi_ctxs[ctx], __ATOMIC_ACQUIRE);
    return l ? __atomic_load_n(&l->outbox, __ATOMIC_ACQUIRE) : NULL;
}

static int state_of(const far_channel_t *far)
{
    return __atomic_load_n(&far->state, __ATOMIC_ACQUIRE);
}

int pgasi_far_channel_state(const out_t *out)
{
    return out->far ? state_of(out->far) : FAR_NONE;
}

/* ---- notes ---- */

/* A message to the rank of a destination, out of the order of what waits for it. False: not now. */
static bool send_note(pgasi_outbox_t *ob, out_t *out, int port, const pgasi_note_t *note)
{
    uint64_t header = pgasi_desc_header(PGASI_DESC_CHANNEL, sizeof *note, 0);
    buffer_t *buffer = pgasi_out_buffer(ob, pgasi_desc_room(header), true);
    if (!buffer)
        return false;
    memcpy(buffer->data, &header, sizeof header);
    memcpy(buffer->data + sizeof header, note, sizeof *note);
    buffer->used = pgasi_desc_room(header);
    pgas_status_t status = pgasi_far_message(ob, out, port, buffer);
    if (status == PGAS_ERR_AGAIN)
        buffer_release(buffer);
    return status == PGAS_OK;
}

static pgasi_note_t note_of(const pgasi_outbox_t *ob, const out_t *out, pgasi_note_what_t what)
{
    pgasi_note_t note;
    memset(&note, 0, sizeof note);
    note.what = what;
    note.port = (uint32_t)out->port;
    note.ctx = (uint32_t)ob->ctx->index;
    return note;
}

/* ... and its process can be named here, to be woken: it is in the same PID namespace. */
static bool on_this_host(int rank)
{
    for (int i = 0; i < pgasi_boot.host_ranks; i++)
        if (pgasi_boot.host_members[i] == rank)
            return pgasi_boot.host_pids[i] != 0;
    return false;
}

bool pgasi_far_channel_ask(pgasi_outbox_t *ob, out_t *out)
{
    out->ask_at = out->n_messages + ASK_AGAIN;
    if (!pgasi_region.n_chunks || !pgasi_far_wants_channels(on_this_host(out->rank)))
        return true;
    if (!out->far) {
        far_channel_t *far = calloc(1, pgasi_far_channel_bytes());
        if (!far)
            return true;
        far->ob = ob;
        __atomic_store_n(&out->far, far, __ATOMIC_RELEASE);
    }
    int state = state_of(out->far);
    if (state != FAR_NONE && state != FAR_REFUSED)
        return true;
    pgasi_note_t note = note_of(ob, out, PGASI_NOTE_ASK);
    /* the answer may come at once */
    __atomic_store_n(&out->far->state, FAR_ASKED, __ATOMIC_RELAXED);
    if (send_note(ob, out, PGASI_PORT_ANY, &note))
        return true;
    __atomic_store_n(&out->far->state, state, __ATOMIC_RELAXED);
    out->ask_at = out->n_messages + PGASI_FAR_ASK_AFTER;
    return false;
}

static bool on_grant(far_channel_t *far, const pgasi_note_t *note, const char *data, size_t bytes)
{
    bool sane = bytes == sizeof far->wire && note->n == pgasi_region.n_first &&
                note->channel < pgasi_region.n_channels && note->number < pgasi_region.n_chunks &&
                note->n <= pgasi_region.n_chunks - note->number;
    if (state_of(far) != FAR_ASKED)
        return false;
    if (sane) {
        far->granted = *note;
        memcpy(&far->wire, data, bytes);
    }
    __atomic_store_n(&far->state,
                     sane      ? FAR_GRANTED
                     : note->n ? FAR_DECLINED
                               : FAR_REFUSED,
                     __ATOMIC_RELEASE);
    return sane || !note->n;
}

/* Told by whoever runs the message, and read by who may use the context. */
static void raise_told(far_channel_t *far, uint64_t position)
{
    uint64_t was = __atomic_load_n(&far->told[0], __ATOMIC_RELAXED);
    while (position > was && !__atomic_compare_exchange_n(&far->told[0], &was, position, true,
                                                          __ATOMIC_RELEASE, __ATOMIC_RELAXED)) {
    }
}

static bool on_chunk(far_channel_t *far, const pgasi_note_t *note)
{
    if (__atomic_load_n(&far->more, __ATOMIC_ACQUIRE) != FAR_ASKED)
        return false;
    far->chunk = *note;
    bool got = note->n == 1 && note->number < pgasi_region.n_chunks;
    __atomic_store_n(&far->more, got ? FAR_GRANTED : FAR_REFUSED, __ATOMIC_RELEASE);
    return got || !note->n;
}

static bool on_told(far_channel_t *far, const pgasi_note_t *note)
{
    bool sane = note->position <= __atomic_load_n(&far->position, __ATOMIC_ACQUIRE);
    if (sane)
        raise_told(far, note->position);
    return sane;
}

/* About the channel of a context of this rank. */
static bool take_note(const pgasi_note_t *note, int source, const char *data, size_t bytes)
{
    pgasi_outbox_t *ob = outbox_of((int)note->ctx);
    out_t *out = ob ? &ob->out[note->port * ob->n_ranks + (uint32_t)source] : NULL;
    far_channel_t *far = out ? __atomic_load_n(&out->far, __ATOMIC_ACQUIRE) : NULL;
    if (far && note->what == PGASI_NOTE_GRANT)
        return on_grant(far, note, data, bytes);
    if (far && note->what == PGASI_NOTE_CHUNK)
        return on_chunk(far, note);
    return far && note->what == PGASI_NOTE_TOLD && on_told(far, note);
}

bool pgasi_far_channel_note(const pgasi_note_t *note, int source, const char *data, size_t bytes)
{
    bool sane = note->what == PGASI_NOTE_STOP || note->what == PGASI_NOTE_GO;
    if (sane)
        pgasi_far_set_stop((int)note->port, source, note->position, note->what == PGASI_NOTE_STOP);
    else
        sane = take_note(note, source, data, bytes);
    if (sane)
        pgasi_bell_ring(pgasi_boot.node_rank); /* somebody may wait for room */
    return sane;
}

void pgasi_far_channel_tell(int port, int source_rank, int source_ctx, uint64_t position)
{
    pgasi_note_t note = { PGASI_NOTE_TOLD, (uint32_t)port, (uint32_t)source_ctx, 0, 0, 0, 0, 0,
                          position };
    pgasi_note_tell(source_rank, &note, NULL, 0);
}

/* ---- from messages to the channel ---- */

static void set_chunks(out_t *out, chunk_t *chunks, const pgasi_note_t *granted)
{
    out->channel.first = granted->number;
    out->channel.n_first = granted->n;
    pgasi_channel_set_chunks(out, chunks, granted->fresh != 0);
}

/* The region is within reach of stores. */
static void go_by_stores(pgasi_outbox_t *ob, out_t *out, int dest, char *region)
{
    far_channel_t *far = out->far;
    pgasi_line_t *line =
        (pgasi_line_t *)(void *)(region + pgasi_region.lines_at) + far->granted.channel;
    set_chunks(out, far->chunks, &far->granted);
    out->channel.chunks = region + pgasi_region.chunks_at;
    out->channel.consumed = &line->consumed;
    out->bell_number = pgasi_boot.node_size + out->rank;
    __atomic_store_n(&pgasi_bells[out->bell_number], (pgasi_bell_t *)(void *)region,
                     __ATOMIC_RELEASE);
    pgasi_channel_begin(ob, out, dest);
}

static void go_by_puts(out_t *out, pgasi_tp_key_t *key, uint64_t region)
{
    far_channel_t *far = out->far;
    set_chunks(out, far->chunks, &far->granted);
    far->key = key;
    far->region = region;
    far->position = 0;
    far->phase = PGAS_CALL_PHASE_EVEN;
    out->channel.consumed = far->told;
    __atomic_store_n(&out->kind, OUT_PUT, __ATOMIC_RELEASE);
}

/* Nothing comes of it: the chunks go back. */
static void decline(pgasi_outbox_t *ob, out_t *out)
{
    pgasi_note_t note = note_of(ob, out, PGASI_NOTE_BACK);
    note.channel = out->far->granted.channel;
    for (uint32_t i = 0; i < out->far->granted.n; i++) {
        note.number = out->far->granted.number + i;
        send_note(ob, out, PGASI_PORT_ANY, &note);
    }
    __atomic_store_n(&out->far->state, FAR_DECLINED, __ATOMIC_RELEASE);
}

void pgasi_far_channel_join(pgasi_outbox_t *ob, out_t *out, int dest)
{
    far_channel_t *far = out->far;
    pgasi_tp_key_t *key;
    uint64_t address;
    char *mapped;
    if (pgasi_key_learn(ob->ctx, out->rank, &far->wire) != PGAS_OK ||
        pgasi_heap_tail_of(ob->ctx, out->rank, &key, &address, &mapped) != PGAS_OK) {
        decline(ob, out);
        return;
    }
    bool by_stores =
        mapped && pgasi_param.far_calls != PGASI_FAR_CALLS_PUT && on_this_host(out->rank);
    bool by_puts =
        pgasi_param.far_calls == PGASI_FAR_CALLS_PUT ||
        (pgasi_param.far_calls == PGASI_FAR_CALLS_AUTO && pgasi_far_wants_channels(false));
    if (!by_stores && !by_puts) {
        decline(ob, out);
        return;
    }
    pgasi_note_t note = note_of(ob, out, PGASI_NOTE_JOIN);
    note.channel = far->granted.channel;
    note.by_put = !by_stores;
    if (!send_note(ob, out, out->port, &note))
        return; /* next time */
    if (by_stores)
        go_by_stores(ob, out, dest, mapped);
    else
        go_by_puts(out, key, address);
    __atomic_store_n(&far->state, FAR_JOINED, __ATOMIC_RELEASE);
}

bool pgasi_far_channel_grow(out_t *out, uint32_t *number_p, bool *fresh_p)
{
    far_channel_t *far = out->far;
    int more = __atomic_load_n(&far->more, __ATOMIC_ACQUIRE);
    if (more == FAR_GRANTED) {
        *number_p = far->chunk.number;
        *fresh_p = far->chunk.fresh != 0;
        __atomic_store_n(&far->more, FAR_NONE, __ATOMIC_RELAXED);
        return true;
    }
    if (more == FAR_ASKED || (more == FAR_REFUSED && ++far->n_refused % ASK_AGAIN))
        return false;
    pgasi_outbox_t *ob = far->ob;
    pgasi_note_t note = note_of(ob, out, PGASI_NOTE_MORE);
    note.channel = far->granted.channel;
    __atomic_store_n(&far->more, FAR_ASKED, __ATOMIC_RELAXED);
    if (!send_note(ob, out, PGASI_PORT_ANY, &note))
        __atomic_store_n(&far->more, more, __ATOMIC_RELAXED);
    return false;
}

bool pgasi_far_channel_shrink(out_t *out, uint32_t number)
{
    pgasi_note_t note = note_of(out->far->ob, out, PGASI_NOTE_BACK);
    note.channel = out->far->granted.channel;
    note.number = number;
    return send_note(out->far->ob, out, PGASI_PORT_ANY, &note);
}

/* ---- by puts ---- */

/* One put from a buffer, which is the transport's until all its puts are done. */
static pgas_status_t put(pgasi_outbox_t *ob, const out_t *out, buffer_t *buffer, uint64_t at,
                         const void *from, size_t bytes)
{
    pgasi_ctx_t *ctx = ob->ctx;
    pgas_status_t status =
        ctx->tp->ops->put(ctx->tp, out->rank, out->far->key, at, from, bytes, &buffer->comp);
    if (status < PGAS_OK)
        return status;
    if (status == PGAS_INPROGRESS) {
        buffer->n_uses++;
        pgasi_ctx_count(ctx, 1);
    }
    count_issued(ob, out);
    return PGAS_OK;
}

/* The header of a descriptor whose arguments have left. */
static pgas_status_t show_far(pgasi_outbox_t *ob, const out_t *out, buffer_t *buffer, uint64_t at)
{
    pgas_status_t status = ob->ctx->tp->ops->fence(ob->ctx->tp);
    return status < PGAS_OK ? status
                            : put(ob, out, buffer, at, &buffer->shown, sizeof buffer->shown);
}

bool pgasi_far_channel_owes(const out_t *out)
{
    return out->kind == OUT_PUT && out->far->owed.buffer;
}

/* PGAS_ERR_AGAIN, or the debt is gone, with the peer too. */
pgas_status_t pgasi_far_channel_pay(pgasi_outbox_t *ob, const out_t *out)
{
    if (!pgasi_far_channel_owes(out))
        return PGAS_OK;
    owed_t *owed = &out->far->owed;
    pgas_status_t status =
        pgasi_boot_is_dead(out->rank) ? PGAS_ERR_PEER : show_far(ob, out, owed->buffer, owed->at);
    if (status == PGAS_ERR_AGAIN)
        return status;
    buffer_drop(owed->buffer);
    owed->buffer = NULL;
    return PGAS_OK;
}

/* Puts `bytes` bytes of a buffer, with the zero at their end, behind the place of a header, and
 * shows that, which moves the tail. PGAS_ERR_AGAIN: nothing has happened. Otherwise the buffer's
 * use has ended, or ends when the header has left. */
static pgas_status_t put_desc(pgasi_outbox_t *ob, out_t *out, buffer_t *buffer, uint64_t at,
                              const char *body, size_t bytes, uint64_t header, uint64_t tail)
{
    buffer->shown = header;
    pgas_status_t status = put(ob, out, buffer, at + 8, body, bytes);
    if (status == PGAS_ERR_AGAIN)
        return status;
    if (status == PGAS_OK) {
        /* before it can be seen, as in show() */
        __atomic_store_n(&out->far->position, tail, __ATOMIC_RELEASE);
        status = show_far(ob, out, buffer, at);
    }
    if (status == PGAS_ERR_AGAIN) {
        out->far->owed = (owed_t){ buffer, at };
        pgasi_out_hold(ob, out);
        return PGAS_OK;
    }
    buffer_drop(buffer);
    return status;
}

static uint64_t address_of(const far_channel_t *far, const chunk_t *chunk, uint64_t inside)
{
    return far->region + pgasi_region.chunks_at + chunk->number * pgasi_chunk_bytes + inside;
}

/* On to the next chunk: its first header is cleared before the descriptor that names it is
 * shown. */
static pgas_status_t next_chunk(pgasi_outbox_t *ob, out_t *out)
{
    far_channel_t *far = out->far;
    buffer_t *buffer = pgasi_channel_find_chunk(out) ? pgasi_out_buffer(ob, 32, true) : NULL;
    if (!buffer)
        return PGAS_ERR_AGAIN;
    uint64_t inside = far->position & (pgasi_chunk_bytes - 1), base = far->position - inside;
    int next = (out->current + 1) % out->n_chunks;
    chunk_t *left = &out->chunks[out->current], *c = &out->chunks[next];
    uint64_t words[2] = { c->number, 0 };
    uint64_t header = pgasi_desc_shown(PGASI_DESC_VALID | PGASI_DESC_WRAP, far->phase) |
                      (uint64_t)!c->odd << PGASI_DESC_SLOT_SHIFT;
    memcpy(buffer->data, words, sizeof words);
    buffer->n_uses = 1;
    pgas_status_t status = put(ob, out, buffer, address_of(far, c, 0), buffer->data + 8, 8);
    bool cleared = status == PGAS_OK;
    if (cleared)
        status = put_desc(ob, out, buffer, address_of(far, left, inside), buffer->data, 8, header,
                          base + pgasi_chunk_bytes);
    if (status != PGAS_OK) {
        if (!cleared || status == PGAS_ERR_AGAIN)
            buffer_drop(buffer); /* else it has been */
        return status;
    }
    left->free_at = base + pgasi_chunk_bytes;
    out->current = next;
    c->odd = !c->odd;
    far->phase = c->odd ? PGAS_CALL_PHASE_ODD : PGAS_CALL_PHASE_EVEN;
    return PGAS_OK;
}

/* Room for so many bytes in one piece at the tail, and a unit behind them. */
static pgas_status_t make_room(pgasi_outbox_t *ob, out_t *out, uint64_t bytes)
{
    pgas_status_t status = pgasi_far_channel_pay(ob, out);
    uint64_t inside = out->far->position & (pgasi_chunk_bytes - 1);
    if (status != PGAS_OK || bytes + PGASI_RING_UNIT <= pgasi_chunk_bytes - inside)
        return status;
    status = next_chunk(ob, out);
    return status == PGAS_OK ? pgasi_far_channel_pay(ob, out) : status;
}

pgas_status_t pgasi_far_channel_probe(pgasi_outbox_t *ob, out_t *out, size_t bytes)
{
    return make_room(ob, out, PGASI_ALIGN_UP(bytes, PGASI_RING_UNIT));
}

pgas_status_t pgasi_far_channel_put(pgasi_outbox_t *ob, out_t *out, buffer_t *buffer, size_t bytes,
                                    bool batch)
{
    far_channel_t *far = out->far;
    uint64_t header =
        PGASI_DESC_VALID | PGASI_DESC_BATCH | (uint64_t)bytes << PGASI_DESC_BYTES_SHIFT;
    const char *body = batch ? buffer->data : buffer->data + 8;
    if (!batch)
        memcpy(&header, buffer->data, sizeof header);
    uint64_t room = PGASI_ALIGN_UP(bytes + (batch ? 8 : 0), PGASI_RING_UNIT);
    if (PGAS_UNLIKELY(room > pgasi_chunk_bytes - 64))
        pgasi_fatal("call", "%zu bytes do not fit a chunk", bytes);
    pgas_status_t status = make_room(ob, out, room);
    buffer->n_uses = 1;
    if (status != PGAS_OK && status != PGAS_ERR_AGAIN)
        buffer_drop(buffer);
    if (status != PGAS_OK)
        return status;
    memset(buffer->data + room - (batch ? 8 : 0), 0, 8);
    uint64_t inside = far->position & (pgasi_chunk_bytes - 1);
    return put_desc(ob, out, buffer, address_of(far, &out->chunks[out->current], inside), body,
                    room, pgasi_desc_shown(header, far->phase), far->position + room);
}

/* ---- for others ---- */

uint64_t pgasi_far_channel_position(const out_t *out)
{
    return __atomic_load_n(&out->far->position, __ATOMIC_ACQUIRE);
}

static void take_seen(far_channel_t *far)
{
    raise_told(far, far->seen[0]);
    far->told[1] = far->seen[1];
}

static void was_read(pgasi_tp_comp_t *comp, pgas_status_t status)
{
    far_channel_t *far = PGASI_CONTAINER_OF(comp, far_channel_t, read);
    if (status == PGAS_OK)
        take_seen(far);
    pgasi_ctx_count(far->ob->ctx, -1);
    far->reading = false;
}

void pgasi_far_channel_look(out_t *out)
{
    far_channel_t *far = out->far;
    pgasi_ctx_t *ctx = far->ob->ctx;
    if (far->reading)
        return;
    uint64_t at = far->region + pgasi_region.lines_at + far->granted.channel * sizeof(pgasi_line_t);
    far->read.fn = was_read;
    pgas_status_t status = ctx->tp->ops->get(ctx->tp, out->rank, far->key, at, far->seen,
                                             sizeof far->seen, &far->read);
    if (status == PGAS_OK)
        take_seen(far);
    far->reading = status == PGAS_INPROGRESS;
    pgasi_ctx_count(ctx, far->reading);
}

/* Asks the receiver's line; what the last question brought. */
uint64_t pgasi_far_channel_head(out_t *out)
{
    pgasi_far_channel_look(out);
    return out->far->told[1];
}

size_t pgasi_far_channel_bytes(void)
{
    return pgasi_region.n_chunks
               ? sizeof(far_channel_t) + (size_t)pgasi_param.chunks_max * sizeof(chunk_t)
               : 0;
}

void pgasi_far_channel_free(out_t *out)
{
    if (out->far)
        pgasi_out_free_buffer(out->far->owed.buffer);
    free(out->far);
    out->far = NULL;
}
