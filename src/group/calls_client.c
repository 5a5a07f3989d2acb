/* The client's side of the way calls: see calls.h.
 *
 * Messages leave through the context that the rank's threads share, so that they keep their order.
 * A handler takes acknowledgements: it stores their words, and the next poll of the client takes
 * them from there. So the handler needs no lock that is held for long. */
#include "group/calls.h"

#include <stdlib.h>
#include <string.h>

#include "base/checks.h"
#include "base/clock.h"
#include "base/spin.h"
#include "boot/boot.h"
#include "group/client.h"

#define SPINS     64u
#define ALL_ARMED (UINT64_C(1) << 62) /* a replica has a slot for each piece of the window */

/* The client's end of a chain. */
typedef struct calls_end {
    struct calls_end *next;
    uint64_t number;
    uint32_t n, slots;
    bool is_broken;   /* a wrong acknowledgement has come */
    uint64_t n_taken; /* acknowledgements */
    uint64_t *words;  /* [slots][n] */
    uint32_t *got;    /* [slots] bytes of an acknowledgement so far */
    /* the message that is leaving */
    bool is_sending, has_failed;
    pgasi_calls_message_t out;
    struct {
        pgasi_group_piece_t piece;
        uint64_t old[PGAS_GROUP_REPLICAS_MAX];
    } first;
} calls_end_t;

/* Handlers look for ends here. The lock also protects words and got. */
static struct {
    int lock;
    calls_end_t *first;
    uint64_t n_made;
} ends;

static calls_end_t *end_of(const pgas_group_t *g)
{
    return (calls_end_t *)g->carried;
}

/* ---- acknowledgements ---- */

static void take_part(calls_end_t *e, const pgasi_calls_head_t *head, const void *part,
                      uint32_t bytes)
{
    uint32_t k = (uint32_t)head->number & (e->slots - 1), all = e->n * (uint32_t)sizeof(uint64_t);
    if (head->number - e->n_taken >= e->slots || head->bytes != all) {
        e->is_broken = true;
        return;
    }
    memcpy((char *)(e->words + (size_t)k * e->n) + head->offset, part, bytes);
    e->got[k] += bytes;
}

/* Acknowledgements of chains that have ended are dropped. */
static void on_ack(const pgasi_calls_head_t *head, const void *part, uint32_t bytes)
{
    pgasi_spin_lock(&ends.lock, SPINS);
    calls_end_t *e = ends.first;
    while (e && e->number != head->to)
        e = e->next;
    if (e)
        take_part(e, head, part, bytes);
    pgasi_spin_unlock(&ends.lock);
}

/* @return whether the next acknowledgement is there */
static bool take_next(calls_end_t *e, uint64_t *words)
{
    uint32_t k = (uint32_t)e->n_taken & (e->slots - 1);
    size_t bytes = e->n * sizeof *words;
    pgasi_spin_lock(&ends.lock, SPINS);
    bool whole = e->got[k] == bytes;
    if (whole) {
        memcpy(words, e->words + (size_t)k * e->n, bytes);
        e->got[k] = 0;
        e->n_taken++;
    }
    pgasi_spin_unlock(&ends.lock);
    return whole;
}

/* ---- sending ---- */

static void begin_message(const pgas_group_t *g, calls_end_t *e, const pgasi_group_slot_t *slot)
{
    uint64_t k = (uint64_t)(slot - g->window.slots);
    const uint64_t *known = pgasi_group_window_known(&g->window, slot);
    size_t words_bytes = e->n * sizeof e->first.old[0];
    e->first.piece = slot->piece;
    memset(e->first.old, 0, words_bytes);
    if (known)
        memcpy(e->first.old, known, words_bytes);
    e->out = (pgasi_calls_message_t){ .rank = g->links[0].opened.rank,
                                      .first = &e->first,
                                      .data = (char *)g->data_mem.addr + k * g->piece_bytes };
    e->out.first_bytes = (uint32_t)(sizeof e->first.piece + words_bytes);
    e->out.data_bytes = slot->piece.kind == PGAS_GROUP_WRITE ? slot->piece.bytes : 0;
    e->out.head = (pgasi_calls_head_t){ .to = pgasi_calls_number(&g->links[0].opened.prev),
                                        .number = slot->piece.number,
                                        .kind = PGASI_CALLS_PIECE,
                                        .bytes = e->out.first_bytes + e->out.data_bytes };
    e->is_sending = true;
}

/* Sends the rest of the message that is leaving. */
static void continue_message(pgas_group_t *g, calls_end_t *e)
{
    pgas_status_t status = e->is_sending ? pgasi_calls_send(&e->out, false) : PGAS_OK;
    if (status == PGAS_OK) {
        e->is_sending = false;
    } else if (status != PGAS_ERR_AGAIN) {
        e->has_failed = true;
        pgasi_group_suspect(g, 0);
    }
}

static void send_pieces(pgas_group_t *g)
{
    calls_end_t *e = end_of(g);
    uint32_t n = pgasi_group_window_sendable(&g->window);
    uint64_t now_ns = n ? pgasi_now_ns() : 0;
    for (; n > 0 && !e->is_sending && !e->has_failed; n--) {
        pgasi_group_slot_t *slot = pgasi_group_window_send(&g->window);
        if (slot->start_ns == 0)
            slot->start_ns = now_ns;
        begin_message(g, e, slot);
        continue_message(g, e);
    }
}

static int poll_acks(pgas_group_t *g)
{
    calls_end_t *e = end_of(g);
    uint64_t words[PGAS_GROUP_REPLICAS_MAX];
    int n = 0;
    if (e->is_sending && !e->has_failed)
        continue_message(g, e);
    for (; take_next(e, words); n++)
        pgasi_group_take_ack(g, words, pgasi_now_ns());
    if (__atomic_load_n(&e->is_broken, __ATOMIC_RELAXED))
        pgasi_group_suspect(g, (int)g->n - 1);
    return n;
}

/* Replicas are always ready. */
static void refresh(pgas_group_t *g)
{
    static const pgasi_group_status_t ready = { .armed = ALL_ARMED };
    for (uint32_t i = 0; i < g->n; i++)
        pgasi_group_take_status(g, i, &ready);
}

/* ---- chains ---- */

static void free_end(calls_end_t *e)
{
    free(e->words);
    free(e->got);
    free(e);
}

static pgas_status_t open_end(pgas_group_t *g)
{
    calls_end_t *e = calloc(1, sizeof *e);
    if (!e)
        return PGAS_ERR_NO_MEMORY;
    e->n = g->n;
    e->slots = g->window.mask + 1;
    e->words = calloc((size_t)e->slots * e->n, sizeof *e->words);
    e->got = calloc(e->slots, sizeof *e->got);
    if (!e->words || !e->got) {
        free_end(e);
        return PGAS_ERR_NO_MEMORY;
    }
    pgasi_spin_lock(&ends.lock, SPINS);
    e->number = ++ends.n_made;
    e->next = ends.first;
    ends.first = e;
    pgasi_spin_unlock(&ends.lock);
    g->carried = (pgasi_group_queues_t *)(void *)e;
    pgasi_calls_on_ack = on_ack;
    return PGAS_OK;
}

static void tell_peers(const pgas_group_t *g, uint32_t i, pgasi_group_connect_t *connect_p)
{
    *connect_p = (pgasi_group_connect_t){ .next_rank = -1, .client_rank = pgasi_boot.rank };
    if (i + 1 == g->n) {
        pgasi_calls_set_address(&connect_p->next, end_of(g)->number);
    } else {
        connect_p->next = g->links[i + 1].opened.prev;
        connect_p->next_rank = g->links[i + 1].opened.rank;
    }
}

static pgas_status_t connect_end(pgas_group_t *g)
{
    for (uint32_t i = 0; i < g->n; i++)
        if (g->links[i].opened.rank < 0 || g->links[i].opened.rank >= pgasi_boot.n_ranks)
            return PGAS_ERR_FORMAT;
    refresh(g);
    return PGAS_OK;
}

static void close_end(pgas_group_t *g)
{
    calls_end_t *e = end_of(g);
    if (!e)
        return;
    pgasi_spin_lock(&ends.lock, SPINS);
    calls_end_t **at = &ends.first;
    while (*at != e)
        at = &(*at)->next;
    *at = e->next;
    pgasi_spin_unlock(&ends.lock);
    free_end(e);
    g->carried = NULL;
}

const pgasi_group_carrier_t pgasi_group_by_calls = { .send = send_pieces,
                                                     .poll = poll_acks,
                                                     .refresh = refresh,
                                                     .open = open_end,
                                                     .peers = tell_peers,
                                                     .connect = connect_end,
                                                     .close = close_end };
