/* Messages from other nodes. A message for any thread of the rank runs at once, in place if it is
 * aligned. A message for an endpoint of its own is kept in order until its thread drains the
 * endpoint. A sender of too many receives a stop. */
#include "msg/recv.h"

#include <stdlib.h>
#include <string.h>

#include "base/bitmap.h"
#include "base/log.h"
#include "base/param.h"
#include "boot/boot.h"
#include "boot/hooks.h"
#include "boot/wait.h"
#include "mem/ctx.h"
#include "msg/channel_memory.h"
#include "msg/send_queue.h"

uint64_t pgasi_far_consumed;

static struct {
    char *data; /* for messages that arrive misaligned */
    size_t bytes;
} scratch;

pgas_status_t pgasi_far_arrivals_start(void)
{
    pgasi_far_consumed = 0;
    scratch.bytes = pgasi_far_message_max();
    scratch.data = malloc(scratch.bytes);
    return scratch.data ? PGAS_OK : PGAS_ERR_NO_MEMORY;
}

void pgasi_far_arrivals_stop(void)
{
    free(scratch.data);
    scratch.data = NULL;
}

/* ---- messages that wait for an endpoint ---- */

/* Sends a stop or go to a sender: without locks, in the context of handlers. The highest number is
 * the latest. */
static void send_stop_or_go(const endpoint_t *ep, int rank, pgasi_ctl_what_t what, uint64_t number)
{
    pgasi_ctl_t ctl = { what, (uint32_t)(ep - pgasi_recv.eps), 0, 0, 0, 0, 0, 0, number };
    pgasi_ctl_send(rank, &ctl, NULL, 0);
}

/* Sends a go to the stopped senders when half of the limit has run. */
static __attribute__((noinline)) void send_go(endpoint_t *ep)
{
    size_t n = (size_t)pgasi_boot.n_ranks, rank = 0;
    for (;;) {
        pgasi_spin_lock(&ep->far_lock, 0);
        bool some = ep->n_stopped && ep->far_bytes <= pgasi_param.far_queue / 2;
        rank = some ? pgasi_bitmap_find_set(ep->stopped, n, rank) : n;
        some = rank < n;
        uint64_t number = 0;
        if (some) {
            pgasi_bitmap_clear(ep->stopped, rank);
            ep->n_stopped--;
            number = ++ep->n_words;
        }
        pgasi_spin_unlock(&ep->far_lock);
        if (!some)
            return;
        send_stop_or_go(ep, (int)rank, PGASI_CTL_GO, number);
    }
}

uint64_t pgasi_recv_drain_far(endpoint_t *ep)
{
    uint64_t n = 0;
    while (__atomic_load_n(&ep->far, __ATOMIC_ACQUIRE)) {
        pgasi_spin_lock(&ep->far_lock, 0);
        pgasi_message_t *f = ep->far;
        __atomic_store_n(&ep->far, f->next, __ATOMIC_RELAXED);
        if (!f->next)
            ep->far_end = &ep->far;
        ep->far_bytes -= f->bytes;
        bool some_stopped = ep->n_stopped > 0;
        pgasi_spin_unlock(&ep->far_lock);
        if (PGAS_UNLIKELY(some_stopped))
            send_go(ep);
        n += run_descs(ep, f->data, f->bytes, f->source_rank);
        __atomic_store_n(&ep->far_consumed, ep->far_consumed + f->bytes, __ATOMIC_RELEASE);
        free(f);
    }
    return n;
}

pgas_status_t pgasi_ep_put(int number, int source_rank, const void *descs, size_t bytes)
{
    endpoint_t *ep = &pgasi_recv.eps[number];
    pgasi_message_t *f = malloc(sizeof *f + bytes);
    if (!f)
        return PGAS_ERR_NO_MEMORY;
    *f = (pgasi_message_t){ NULL, bytes, source_rank };
    memcpy(f->data, descs, bytes);
    pgasi_recv_expect(number, source_rank, f->data, bytes);
    pgasi_path_state_t before = pgasi_handlers_enter(true);
    /* otherwise they will be refused, and the caller learns that */
    if (!__atomic_load_n(&ep->left, __ATOMIC_RELAXED))
        pgasi_descs_arrived(f->data, bytes, source_rank);
    pgasi_spin_lock(&ep->far_lock, 0);
    __atomic_store_n(ep->far_end, f, __ATOMIC_RELEASE);
    ep->far_end = &f->next;
    ep->far_bytes += bytes;
    bool stop = ep->far_bytes > pgasi_param.far_queue &&
                !pgasi_bitmap_test(ep->stopped, (size_t)source_rank);
    uint64_t word = 0;
    if (PGAS_UNLIKELY(stop)) {
        pgasi_bitmap_set(ep->stopped, (size_t)source_rank);
        ep->n_stopped++;
        word = ++ep->n_words;
    }
    pgasi_spin_unlock(&ep->far_lock);
    if (PGAS_UNLIKELY(stop))
        send_stop_or_go(ep, source_rank, PGASI_CTL_STOP, word);
    pgasi_handlers_leave(before);
    pgasi_recv_open_ep(number);
    return PGAS_OK;
}

/* ---- arriving ---- */

/* A single call is a few words. */
static inline void copy_words(char *to, const char *from, size_t bytes)
{
    if (PGAS_LIKELY(bytes <= 32 && bytes % 8 == 0))
        for (size_t i = 0; i < bytes; i += 8)
            memcpy(to + i, from + i, 8);
    else
        memcpy(to, from, bytes);
}

/* The endpoint that a message is for. -1: the message is malformed, not of this job, or arrived
 * after the job's end. */
static inline int ep_of_message(const pgasi_tp_am_t *am)
{
    uint32_t header[2] = { 0, PGASI_EP_ANY };
    bool sane = pgasi_running &&
                (am->header_bytes == sizeof header[0] || am->header_bytes == sizeof header) &&
                am->data_bytes <= scratch.bytes &&
                (uint32_t)am->source < (uint32_t)pgasi_boot.n_ranks;
    if (PGAS_UNLIKELY(!sane))
        return -1;
    memcpy(header, am->header, am->header_bytes);
    sane = header[0] == pgasi_far_mark(am->source, am->data_bytes) &&
           header[1] < (uint32_t)pgasi_n_eps;
    return sane ? (int)header[1] : -1;
}

/* Returns true if the message has memory of the program. Then *head_p is its header. */
static bool is_data(const pgasi_tp_am_t *am, pgasi_far_head_t *head_p)
{
    uint32_t word[2];
    if (PGAS_LIKELY(am->header_bytes != sizeof word + sizeof *head_p))
        return false;
    memcpy(word, am->header, sizeof word);
    memcpy(head_p, (const char *)am->header + sizeof word, sizeof *head_p);
    return pgasi_running && (uint32_t)am->source < (uint32_t)pgasi_boot.n_ranks &&
           word[0] == pgasi_far_mark(am->source, am->data_bytes) && word[1] == PGASI_FAR_DATA &&
           pgasi_hooks.data_arrived;
}

static __attribute__((noinline)) bool data_arrived(const pgasi_tp_am_t *am,
                                                   const pgasi_far_head_t *head)
{
    pgasi_path_state_t before = pgasi_handlers_enter(true);
    pgasi_hooks.data_arrived(am->source, head, am->data, am->data_bytes);
    pgasi_handlers_leave(before);
    return false;
}

bool pgasi_far_arrived(void *arg, const pgasi_tp_am_t *am)
{
    pgasi_far_head_t head;
    (void)arg;
    if (PGAS_UNLIKELY(is_data(am, &head)))
        return data_arrived(am, &head);
    int ep = ep_of_message(am);
    if (PGAS_UNLIKELY(ep < 0)) {
        if (pgasi_first_dropped())
            PGASI_ERROR("call", "a message of %zu bytes %s: dropped", am->data_bytes,
                        pgasi_running ? "without this job's key, or malformed"
                                      : "that came after the end of the job");
        return false;
    }
    if (PGAS_UNLIKELY(ep != PGASI_EP_ANY)) {
        if (pgasi_ep_put(ep, am->source, am->data, am->data_bytes) != PGAS_OK)
            pgasi_fatal("call", "no memory for a message of %zu bytes", am->data_bytes);
        pgasi_wake(pgasi_boot.node_rank);
        if (ep == PGASI_EP_SERVICE)
            pgasi_wake_service(pgasi_boot.node_rank);
        return false;
    }
    const char *descs = am->data;
    if ((uintptr_t)descs % 8) {
        copy_words(scratch.data, descs, am->data_bytes);
        descs = scratch.data;
    }
    pgasi_path_state_t before = pgasi_handlers_enter(true);
    pgasi_descs_run(descs, am->data_bytes, am->source);
    pgasi_handlers_leave(before);
    __atomic_store_n(&pgasi_far_consumed, pgasi_far_consumed + am->data_bytes, __ATOMIC_RELEASE);
    return false;
}
