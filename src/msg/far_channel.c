/* Channels to other nodes, the sender's side: see far_channel.h.
 *
 * A sender requests a channel and further chunks by messages, once per channel and chunk. It then
 * writes as channel.c does on the node, or by two puts per descriptor or batch, from the buffer
 * that gathered it. The transport may have no room for the header's put when the arguments have
 * left. The header is then unsent, and leaves before any other data to this peer.
 *
 * It is one file of more than 500 lines. Its two halves, requests and writes, share the struct of a
 * channel, which no other file has. */
#include "msg/far_channel.h"

#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "boot/boot.h"
#include "boot/wait.h"
#include "msg/send.h"
#include "mem/segment.h"
#include "mem/thread.h"

#define ASK_AGAIN 65536u /* messages after a refusal */

/* A descriptor's header whose put found no room. */
typedef struct {
    buffer_t *buffer; /* which holds it; NULL: no header is unsent */
    uint64_t at;      /* address at the peer */
} unsent_t;

struct far_channel {
    int state;          /* far_state_t; the answers change it, under the receive lock */
    int more;           /* far_state_t of a further chunk */
    uint32_t n_refused; /* attempts since it was refused */
    pgasi_sendq_t *sq;
    pgasi_ctl_t granted, chunk;
    pgasi_segment_wire_t wire;
    /* by puts: as pgasi_channel_state_t; messages report it, and puts read it on demand */
    uint64_t told[2];
    uint64_t seen[2]; /* result of the read under way */
    uint64_t phase;
    pgasi_tp_key_t *key;
    uint64_t region; /* address of the channel memory at the peer */
    unsent_t unsent;
    pgasi_tp_comp_t read; /* of seen */
    bool reading;
    chunk_t chunks[]; /* PGAS_CHUNKS_MAX */
};

static pgasi_sendq_t *sendq_of(int ctx)
{
    pgasi_ctx_t *l = __atomic_load_n(&pgasi_ctxs[ctx], __ATOMIC_ACQUIRE);
    return l ? __atomic_load_n(&l->sendq, __ATOMIC_ACQUIRE) : NULL;
}

static int state_of(const far_channel_t *far)
{
    return __atomic_load_n(&far->state, __ATOMIC_ACQUIRE);
}

int pgasi_far_channel_state(const out_t *out)
{
    return out->far ? state_of(out->far) : FAR_NONE;
}

/* ---- control messages ---- */

/* Sends a message to the rank of a destination, ahead of what waits for it. False: not now. */
static bool send_ctl(pgasi_sendq_t *sq, out_t *out, int ep, const pgasi_ctl_t *ctl)
{
    uint64_t header = pgasi_desc_header(PGASI_DESC_CHANNEL, sizeof *ctl, 0);
    buffer_t *buffer = pgasi_send_buffer(sq, pgasi_desc_room(header), true);
    if (!buffer)
        return false;
    memcpy(buffer->data, &header, sizeof header);
    memcpy(buffer->data + sizeof header, ctl, sizeof *ctl);
    buffer->used = pgasi_desc_room(header);
    pgas_status_t status = pgasi_far_message(sq, out, ep, buffer);
    if (status == PGAS_ERR_AGAIN)
        buffer_release(buffer);
    return status == PGAS_OK;
}

static pgasi_ctl_t ctl_of(const pgasi_sendq_t *sq, const out_t *out, pgasi_ctl_what_t what)
{
    pgasi_ctl_t ctl;
    memset(&ctl, 0, sizeof ctl);
    ctl.what = what;
    ctl.ep = (uint32_t)out->ep;
    ctl.ctx = (uint32_t)sq->ctx->index;
    return ctl;
}

/* The rank is on this host, and its process can be named here, to be woken: it is in the same PID
 * namespace. */
static bool on_this_host(int rank)
{
    for (int i = 0; i < pgasi_boot.host_ranks; i++)
        if (pgasi_boot.host_members[i] == rank)
            return pgasi_boot.host_pids[i] != 0;
    return false;
}

bool pgasi_far_channel_ask(pgasi_sendq_t *sq, out_t *out)
{
    out->ask_at = out->n_messages + ASK_AGAIN;
    if (!pgasi_chanmem.n_chunks || !pgasi_far_wants_channels(on_this_host(out->rank)))
        return true;
    if (!out->far) {
        far_channel_t *far = calloc(1, pgasi_far_channel_bytes());
        if (!far)
            return true;
        far->sq = sq;
        __atomic_store_n(&out->far, far, __ATOMIC_RELEASE);
    }
    int state = state_of(out->far);
    if (state != FAR_NONE && state != FAR_REFUSED)
        return true;
    pgasi_ctl_t ctl = ctl_of(sq, out, PGASI_CTL_ASK);
    /* the answer may arrive at once */
    __atomic_store_n(&out->far->state, FAR_ASKED, __ATOMIC_RELAXED);
    if (send_ctl(sq, out, PGASI_EP_ANY, &ctl))
        return true;
    __atomic_store_n(&out->far->state, state, __ATOMIC_RELAXED);
    out->ask_at = out->n_messages + PGASI_FAR_ASK_AFTER;
    return false;
}

static bool on_grant(far_channel_t *far, const pgasi_ctl_t *ctl, const char *data, size_t bytes)
{
    bool sane = bytes == sizeof far->wire && ctl->n == pgasi_chanmem.n_first &&
                ctl->channel < pgasi_chanmem.n_channels && ctl->number < pgasi_chanmem.n_chunks &&
                ctl->n <= pgasi_chanmem.n_chunks - ctl->number;
    if (state_of(far) != FAR_ASKED)
        return false;
    far_state_t state = ctl->n ? FAR_DECLINED : FAR_REFUSED;
    if (sane) {
        far->granted = *ctl;
        memcpy(&far->wire, data, bytes);
        state = FAR_GRANTED;
    }
    __atomic_store_n(&far->state, state, __ATOMIC_RELEASE);
    return sane || !ctl->n;
}

/* The thread that handles the message writes it; the context's owner reads it. */
static void raise_position(far_channel_t *far, uint64_t position)
{
    uint64_t was = __atomic_load_n(&far->told[0], __ATOMIC_RELAXED);
    while (position > was && !__atomic_compare_exchange_n(&far->told[0], &was, position, true,
                                                          __ATOMIC_RELEASE, __ATOMIC_RELAXED)) {
    }
}

static bool on_chunk(far_channel_t *far, const pgasi_ctl_t *ctl)
{
    if (__atomic_load_n(&far->more, __ATOMIC_ACQUIRE) != FAR_ASKED)
        return false;
    far->chunk = *ctl;
    bool got = ctl->n == 1 && ctl->number < pgasi_chanmem.n_chunks;
    __atomic_store_n(&far->more, got ? FAR_GRANTED : FAR_REFUSED, __ATOMIC_RELEASE);
    return got || !ctl->n;
}

static bool on_told(const out_t *out, far_channel_t *far, const pgasi_ctl_t *ctl)
{
    bool sane = ctl->position <= __atomic_load_n(&out->put_position, __ATOMIC_ACQUIRE);
    if (sane)
        raise_position(far, ctl->position);
    return sane;
}

/* Takes an answer about the channel of a context of this rank. */
static bool take_answer(const pgasi_ctl_t *ctl, int source, const char *data, size_t bytes)
{
    pgasi_sendq_t *sq = sendq_of((int)ctl->ctx);
    out_t *out = sq ? &sq->out[ctl->ep * sq->n_ranks + (uint32_t)source] : NULL;
    far_channel_t *far = out ? __atomic_load_n(&out->far, __ATOMIC_ACQUIRE) : NULL;
    if (far && ctl->what == PGASI_CTL_GRANT)
        return on_grant(far, ctl, data, bytes);
    if (far && ctl->what == PGASI_CTL_CHUNK)
        return on_chunk(far, ctl);
    return far && ctl->what == PGASI_CTL_TOLD && on_told(out, far, ctl);
}

bool pgasi_far_channel_answer(const pgasi_ctl_t *ctl, int source, const char *data, size_t bytes)
{
    bool sane = ctl->what == PGASI_CTL_STOP || ctl->what == PGASI_CTL_GO;
    if (sane)
        pgasi_far_set_stop((int)ctl->ep, source, ctl->position, ctl->what == PGASI_CTL_STOP);
    else
        sane = take_answer(ctl, source, data, bytes);
    if (sane)
        pgasi_wake(pgasi_boot.node_rank); /* a thread may wait for room */
    return sane;
}

/* ---- further chunks, and where the receiver is ---- */

static bool grow(out_t *out, uint32_t *number_p, bool *fresh_p)
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
    pgasi_sendq_t *sq = far->sq;
    pgasi_ctl_t ctl = ctl_of(sq, out, PGASI_CTL_MORE);
    ctl.channel = far->granted.channel;
    __atomic_store_n(&far->more, FAR_ASKED, __ATOMIC_RELAXED);
    if (!send_ctl(sq, out, PGASI_EP_ANY, &ctl))
        __atomic_store_n(&far->more, more, __ATOMIC_RELAXED);
    return false;
}

static bool shrink(out_t *out, uint32_t number)
{
    pgasi_ctl_t ctl = ctl_of(out->far->sq, out, PGASI_CTL_BACK);
    ctl.channel = out->far->granted.channel;
    ctl.number = number;
    return send_ctl(out->far->sq, out, PGASI_EP_ANY, &ctl);
}

static void take_seen(far_channel_t *far)
{
    raise_position(far, far->seen[0]);
    far->told[1] = far->seen[1];
}

static void was_read(pgasi_tp_comp_t *comp, pgas_status_t status)
{
    far_channel_t *far = PGASI_CONTAINER_OF(comp, far_channel_t, read);
    if (status == PGAS_OK)
        take_seen(far);
    pgasi_ctx_count(far->sq->ctx, -1);
    far->reading = false;
}

static void look(out_t *out)
{
    far_channel_t *far = out->far;
    pgasi_ctx_t *ctx = far->sq->ctx;
    if (far->reading)
        return;
    uint64_t at = far->region + pgasi_chanmem.states_at +
                  far->granted.channel * sizeof(pgasi_channel_state_t);
    far->read.fn = was_read;
    pgas_status_t status = ctx->tp->ops->get(ctx->tp, out->rank, far->key, at, far->seen,
                                             sizeof far->seen, &far->read);
    if (status == PGAS_OK)
        take_seen(far);
    far->reading = status == PGAS_INPROGRESS;
    pgasi_ctx_count(ctx, far->reading);
}

/* Starts a read of the receiver's state, and returns the result of the last one. */
static uint64_t head(out_t *out)
{
    look(out);
    return out->far->told[1];
}

static const chunk_source_t store_source = { grow, shrink, pgasi_channel_head, NULL };
static const chunk_source_t put_source = { grow, shrink, head, look };

/* ---- from messages to the channel ---- */

static void set_chunks(out_t *out, chunk_t *chunks, const pgasi_ctl_t *granted)
{
    out->channel.first = granted->number;
    out->channel.n_first = granted->n;
    pgasi_channel_set_chunks(out, chunks, granted->fresh != 0);
}

/* This process maps the channel memory. */
static void go_by_stores(pgasi_sendq_t *sq, out_t *out, int dest, char *region)
{
    far_channel_t *far = out->far;
    pgasi_channel_state_t *state =
        (pgasi_channel_state_t *)(void *)(region + pgasi_chanmem.states_at) + far->granted.channel;
    set_chunks(out, far->chunks, &far->granted);
    out->channel.chunks = region + pgasi_chanmem.chunks_at;
    out->channel.consumed = &state->consumed;
    out->source = &store_source;
    out->wakeup_number = pgasi_boot.node_size + out->rank;
    __atomic_store_n(&pgasi_wakeups[out->wakeup_number], (pgasi_wakeup_t *)(void *)region,
                     __ATOMIC_RELEASE);
    pgasi_channel_begin(sq, out, dest);
}

static void go_by_puts(out_t *out, pgasi_tp_key_t *key, uint64_t region)
{
    far_channel_t *far = out->far;
    set_chunks(out, far->chunks, &far->granted);
    far->key = key;
    far->region = region;
    out->put_position = 0;
    far->phase = PGAS_CALL_PHASE_EVEN;
    out->channel.consumed = far->told;
    out->source = &put_source;
    __atomic_store_n(&out->kind, OUT_PUT, __ATOMIC_RELEASE);
}

/* The channel cannot be used: its chunks go back. */
static void decline(pgasi_sendq_t *sq, out_t *out)
{
    pgasi_ctl_t ctl = ctl_of(sq, out, PGASI_CTL_BACK);
    ctl.channel = out->far->granted.channel;
    for (uint32_t i = 0; i < out->far->granted.n; i++) {
        ctl.number = out->far->granted.number + i;
        send_ctl(sq, out, PGASI_EP_ANY, &ctl);
    }
    __atomic_store_n(&out->far->state, FAR_DECLINED, __ATOMIC_RELEASE);
}

void pgasi_far_channel_join(pgasi_sendq_t *sq, out_t *out, int dest)
{
    far_channel_t *far = out->far;
    pgasi_tp_key_t *key;
    uint64_t address;
    char *mapped;
    if (pgasi_key_learn(sq->ctx, out->rank, &far->wire) != PGAS_OK ||
        pgasi_heap_tail_of(sq->ctx, out->rank, &key, &address, &mapped) != PGAS_OK) {
        decline(sq, out);
        return;
    }
    bool by_stores =
        mapped && pgasi_param.far_calls != PGASI_FAR_CALLS_PUT && on_this_host(out->rank);
    bool by_puts =
        pgasi_param.far_calls == PGASI_FAR_CALLS_PUT ||
        (pgasi_param.far_calls == PGASI_FAR_CALLS_AUTO && pgasi_far_wants_channels(false));
    if (!by_stores && !by_puts) {
        decline(sq, out);
        return;
    }
    pgasi_ctl_t ctl = ctl_of(sq, out, PGASI_CTL_JOIN);
    ctl.channel = far->granted.channel;
    ctl.by_put = !by_stores;
    if (!send_ctl(sq, out, out->ep, &ctl))
        return; /* with a later message */
    if (by_stores)
        go_by_stores(sq, out, dest, mapped);
    else
        go_by_puts(out, key, address);
    __atomic_store_n(&far->state, FAR_JOINED, __ATOMIC_RELEASE);
}

/* ---- by puts ---- */

/* One put from a buffer. The transport uses the buffer until all its puts are done. */
static pgas_status_t put(pgasi_sendq_t *sq, const out_t *out, buffer_t *buffer, uint64_t at,
                         const void *from, size_t bytes)
{
    pgasi_ctx_t *ctx = sq->ctx;
    pgas_status_t status =
        ctx->tp->ops->put(ctx->tp, out->rank, out->far->key, at, from, bytes, &buffer->comp);
    if (status < PGAS_OK)
        return status;
    if (status == PGAS_INPROGRESS) {
        buffer->n_uses++;
        pgasi_ctx_count(ctx, 1);
    }
    count_issued(sq, out);
    return PGAS_OK;
}

/* Puts the header of a descriptor whose arguments have left. */
static pgas_status_t make_valid_far(pgasi_sendq_t *sq, const out_t *out, buffer_t *buffer,
                                    uint64_t at)
{
    pgas_status_t status = sq->ctx->tp->ops->fence(sq->ctx->tp);
    return status < PGAS_OK ? status
                            : put(sq, out, buffer, at, &buffer->shown, sizeof buffer->shown);
}

bool pgasi_far_channel_has_unsent(const out_t *out)
{
    return out->kind == OUT_PUT && out->far->unsent.buffer;
}

/* @return PGAS_OK: nothing is unsent, or the peer is dead
 * @return PGAS_ERR_AGAIN */
pgas_status_t pgasi_far_channel_send_rest(pgasi_sendq_t *sq, const out_t *out)
{
    if (!pgasi_far_channel_has_unsent(out))
        return PGAS_OK;
    unsent_t *unsent = &out->far->unsent;
    pgas_status_t status = pgasi_boot_is_dead(out->rank)
                               ? PGAS_ERR_PEER
                               : make_valid_far(sq, out, unsent->buffer, unsent->at);
    if (status == PGAS_ERR_AGAIN)
        return status;
    buffer_drop(unsent->buffer);
    unsent->buffer = NULL;
    return PGAS_OK;
}

/* Puts `bytes` bytes of a buffer, with the zero at their end, behind the place of a header. Then it
 * puts the header and moves the tail. PGAS_ERR_AGAIN: nothing has happened. Otherwise the buffer's
 * use ends now, or when the header has left. */
static pgas_status_t put_desc(pgasi_sendq_t *sq, out_t *out, buffer_t *buffer, uint64_t at,
                              const char *body, size_t bytes, uint64_t header, uint64_t tail)
{
    buffer->shown = header;
    pgas_status_t status = put(sq, out, buffer, at + 8, body, bytes);
    if (status == PGAS_ERR_AGAIN)
        return status;
    if (status == PGAS_OK) {
        /* before the peer can see it, as in make_valid() */
        __atomic_store_n(&out->put_position, tail, __ATOMIC_RELEASE);
        status = make_valid_far(sq, out, buffer, at);
    }
    if (status == PGAS_ERR_AGAIN) {
        out->far->unsent = (unsent_t){ buffer, at };
        pgasi_send_hold(sq, out);
        return PGAS_OK;
    }
    buffer_drop(buffer);
    return status;
}

static uint64_t address_of(const far_channel_t *far, const chunk_t *chunk, uint64_t inside)
{
    return far->region + pgasi_chanmem.chunks_at + chunk->number * pgasi_chunk_bytes + inside;
}

/* Continues in the next chunk. Its first header is cleared before the descriptor that names it
 * becomes valid. */
static pgas_status_t next_chunk(pgasi_sendq_t *sq, out_t *out)
{
    far_channel_t *far = out->far;
    buffer_t *buffer = pgasi_channel_find_chunk(out) ? pgasi_send_buffer(sq, 32, true) : NULL;
    if (!buffer)
        return PGAS_ERR_AGAIN;
    uint64_t inside = out->put_position & (pgasi_chunk_bytes - 1),
             base = out->put_position - inside;
    int next = (out->current + 1) % out->n_chunks;
    chunk_t *left = &out->chunks[out->current], *c = &out->chunks[next];
    uint64_t words[2] = { c->number, 0 };
    uint64_t header = pgasi_desc_shown(PGASI_DESC_VALID | PGASI_DESC_WRAP, far->phase) |
                      (uint64_t)!c->odd << PGASI_DESC_SLOT_SHIFT;
    memcpy(buffer->data, words, sizeof words);
    buffer->n_uses = 1;
    pgas_status_t status = put(sq, out, buffer, address_of(far, c, 0), buffer->data + 8, 8);
    bool cleared = status == PGAS_OK;
    if (cleared)
        status = put_desc(sq, out, buffer, address_of(far, left, inside), buffer->data, 8, header,
                          base + pgasi_chunk_bytes);
    if (status != PGAS_OK) {
        if (!cleared || status == PGAS_ERR_AGAIN)
            buffer_drop(buffer); /* otherwise put_desc has ended its use */
        return status;
    }
    left->free_at = base + pgasi_chunk_bytes;
    out->current = next;
    c->odd = !c->odd;
    far->phase = c->odd ? PGAS_CALL_PHASE_ODD : PGAS_CALL_PHASE_EVEN;
    return PGAS_OK;
}

/* Makes room for `bytes` bytes in one piece at the tail, and a unit behind them. */
static pgas_status_t make_room(pgasi_sendq_t *sq, out_t *out, uint64_t bytes)
{
    pgas_status_t status = pgasi_far_channel_send_rest(sq, out);
    uint64_t inside = out->put_position & (pgasi_chunk_bytes - 1);
    if (status != PGAS_OK || bytes + PGASI_RING_UNIT <= pgasi_chunk_bytes - inside)
        return status;
    status = next_chunk(sq, out);
    return status == PGAS_OK ? pgasi_far_channel_send_rest(sq, out) : status;
}

pgas_status_t pgasi_far_channel_probe(pgasi_sendq_t *sq, out_t *out, size_t bytes)
{
    return make_room(sq, out, PGASI_ALIGN_UP(bytes, PGASI_RING_UNIT));
}

pgas_status_t pgasi_far_channel_put(pgasi_sendq_t *sq, out_t *out, buffer_t *buffer, size_t bytes,
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
    pgas_status_t status = make_room(sq, out, room);
    buffer->n_uses = 1;
    if (status != PGAS_OK && status != PGAS_ERR_AGAIN)
        buffer_drop(buffer);
    if (status != PGAS_OK)
        return status;
    memset(buffer->data + room - (batch ? 8 : 0), 0, 8);
    uint64_t inside = out->put_position & (pgasi_chunk_bytes - 1);
    return put_desc(sq, out, buffer, address_of(far, &out->chunks[out->current], inside), body,
                    room, pgasi_desc_shown(header, far->phase), out->put_position + room);
}

/* ---- for others ---- */

size_t pgasi_far_channel_bytes(void)
{
    return pgasi_chanmem.n_chunks
               ? sizeof(far_channel_t) + (size_t)pgasi_param.chunks_max * sizeof(chunk_t)
               : 0;
}

void pgasi_far_channel_free(out_t *out)
{
    if (out->far)
        pgasi_send_free_buffer(out->far->unsent.buffer);
    free(out->far);
    out->far = NULL;
}
