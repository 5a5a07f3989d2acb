/* Inspects descriptors that have arrived, without running them: reports to callers that wait for
 * the arrival of calls whose thread stays away, and counts calls for threads that never came. */
#include "msg/recv.h"

#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "boot/boot.h"
#include "mem/thread.h"
#include "msg/channel_memory.h"
#include "msg/serve.h"

bool pgasi_ep_pending(int number)
{
    const endpoint_t *ep = &pgasi_recv.eps[number];
    uint32_t n = __atomic_load_n(&ep->n_incoming, __ATOMIC_ACQUIRE);
    for (uint32_t i = 0; i < n; i++)
        if (has_arrived(ep, i))
            return true;
    return __atomic_load_n(&pgasi_eps_opened[number * PGASI_WORDS_PER_LINE], __ATOMIC_RELAXED) !=
               __atomic_load_n(&ep->n_opened_seen, __ATOMIC_RELAXED) ||
           __atomic_load_n(&ep->far, __ATOMIC_RELAXED) != NULL;
}

static pgasi_place_t place_of(const incoming_t *in)
{
    return (pgasi_place_t){ in->at, in->chunk, in->base, in->phase };
}

/* Finds the descriptors that were published together at a place, and moves the place behind them.
 * False: nothing has arrived, or something malformed, which the drain reports. The caller holds the
 * endpoint's lock. */
static bool next_descs(pgasi_place_t *p, const char *chunks, uint64_t n_chunks,
                       const char **descs_p, size_t *bytes_p)
{
    uint64_t header;
    while (pgasi_desc_has_arrived(header = __atomic_load_n((const uint64_t *)(const void *)p->at,
                                                           __ATOMIC_ACQUIRE),
                                  p->phase)) {
        uint32_t id = pgasi_desc_handler(header);
        uint64_t number = *(const uint64_t *)(const void *)(p->at + 8);
        if (id != PGASI_DESC_WRAP) {
            uint64_t front = id == PGASI_DESC_BATCH ? 8 : 0;
            *bytes_p = front ? pgasi_desc_bytes(header) : pgasi_desc_room(header);
            *descs_p = p->at + front;
            if (front + *bytes_p > (uint64_t)(p->chunk + pgasi_chunk_bytes - p->at))
                return false;
            p->at += PGASI_ALIGN_UP(front + *bytes_p, PGASI_RING_UNIT);
            return true;
        }
        if (number >= n_chunks)
            return false;
        p->base += pgasi_chunk_bytes;
        p->at = p->chunk = chunks + number * pgasi_chunk_bytes;
        p->phase = phase_of(pgasi_desc_slot(header) & 1);
    }
    return false;
}

/* ---- reports for threads that stay away ---- */

/* If the receiver is beyond the reported place, reports continue from the receiver's place. The
 * sender cannot overwrite anything of the channel before it has run. */
static void catch_up(const endpoint_t *ep, report_t *t)
{
    for (uint32_t i = 0; i < ep->n_incoming; i++) {
        const incoming_t *in = &ep->incoming[i];
        if (in->state != t->channel.state ||
            t->position >= in->base + (uint64_t)(in->at - in->chunk))
            continue;
        t->place = place_of(in);
    }
}

/* Reports arrivals to callers that wait for them; the descriptors stay. The caller holds both
 * locks. */
static uint64_t report_channel(const endpoint_t *ep, report_t *t)
{
    const char *descs;
    size_t bytes;
    uint64_t n = 0;
    catch_up(ep, t);
    pgasi_place_t p = t->place;
    for (; next_descs(&p, t->channel.chunks, t->channel.n_chunks, &descs, &bytes); n++)
        pgasi_descs_arrived((char *)(uintptr_t)descs, bytes, t->channel.source_rank);
    t->place.chunk = p.chunk;
    t->place.base = p.base;
    __atomic_store_n(&t->place.phase, p.phase, __ATOMIC_RELAXED);
    __atomic_store_n(&t->place.at, p.at, __ATOMIC_RELAXED);
    __atomic_store_n(&t->position, p.base + (uint64_t)(p.at - p.chunk), __ATOMIC_RELAXED);
    return n;
}

/* This polls without a lock, as has_arrived does. */
__attribute__((no_sanitize("thread"))) static bool has_unreported(int number, const report_t *t)
{
    const char *at = __atomic_load_n(&t->place.at, __ATOMIC_RELAXED);
    uint64_t phase = __atomic_load_n(&t->place.phase, __ATOMIC_RELAXED);
    if (__atomic_load_n(&t->position, __ATOMIC_RELAXED) <
        __atomic_load_n(&t->channel.state->head, __ATOMIC_RELAXED))
        return pgasi_ep_pending(number);
    return pgasi_desc_has_arrived(*(const volatile uint64_t *)(const void *)at, phase);
}

static uint64_t report_ep(int number)
{
    endpoint_t *ep = &pgasi_recv.eps[number];
    const report_t *some = __atomic_load_n(&ep->reports, __ATOMIC_ACQUIRE);
    while (some && !has_unreported(number, some))
        some = some->next;
    if (!some)
        return 0;
    uint64_t n = 0;
    pgasi_path_state_t before = pgasi_serve_begin(); /* answers are sent as from handlers */
    if (pgasi_spin_try(&ep->lock)) {
        for (report_t *t = ep->reports; t && !ep->left; t = t->next)
            n += report_channel(ep, t);
        pgasi_spin_unlock(&ep->lock);
    }
    pgasi_serve_end(before);
    return n;
}

void pgasi_recv_expect(int number, int source_rank, const char *descs, size_t bytes)
{
    pgasi_ctl_t ctl;
    report_t t = { .position = 0 };
    uint64_t header;
    memcpy(&header, descs, sizeof header);
    if (number < PGASI_EP_FIRST_THREAD || pgasi_desc_handler(header) != PGASI_DESC_CHANNEL ||
        bytes < 8 + sizeof ctl)
        return;
    memcpy(&ctl, descs + 8, sizeof ctl);
    if (!pgasi_chanmem_find(&ctl, source_rank, &t.channel) || t.channel.ep != number)
        return;
    if (t.channel.by_put)
        __atomic_store_n(&pgasi_recvq_by_put, true, __ATOMIC_RELAXED);
    t.place.at = t.place.chunk = t.channel.chunks + t.channel.first * pgasi_chunk_bytes;
    t.place.phase = phase_of(false);
    report_t *kept = malloc(sizeof *kept);
    if (!kept)
        return;
    for (const report_t *other = pgasi_recv.eps[number].reports; other; other = other->next) {
        if (other->channel.state == t.channel.state) { /* the sender announced it twice */
            free(kept);
            return;
        }
    }
    t.next = pgasi_recv.eps[number].reports;
    *kept = t;
    __atomic_store_n(&pgasi_recv.eps[number].reports, kept, __ATOMIC_RELEASE);
    __atomic_store_n(&pgasi_recv.some_reports, true, __ATOMIC_RELEASE);
}

uint64_t pgasi_eps_report(void)
{
    uint64_t n = 0;
    if (PGAS_LIKELY(!__atomic_load_n(&pgasi_recv.some_reports, __ATOMIC_ACQUIRE)))
        return 0;
    for (int p = PGASI_EP_FIRST_THREAD; p < pgasi_n_eps; p++)
        n += report_ep(p);
    return n;
}

/* ---- calls that wait for a thread that never came ---- */

static uint64_t count_descs(const char *at, size_t bytes)
{
    uint64_t n = 0;
    for (const char *end = at + bytes; end - at >= 8;) {
        uint64_t header = *(const uint64_t *)(const void *)at;
        n += 1 + (uint64_t)pgasi_desc_more(header);
        at += pgasi_desc_room(header);
    }
    return n;
}

/* Counts up to the first missing valid bit. */
static uint64_t count_channel(const incoming_t *in)
{
    pgasi_place_t p = place_of(in);
    const char *descs;
    size_t bytes;
    uint64_t n = 0;
    while (next_descs(&p, in->chunks, in->n_chunks, &descs, &bytes))
        n += count_descs(descs, bytes);
    return n;
}

/* The caller holds the endpoint's lock. */
static uint64_t count_waiting(int number)
{
    endpoint_t *ep = &pgasi_recv.eps[number];
    uint32_t n_opened =
        __atomic_load_n(&pgasi_eps_opened[number * PGASI_WORDS_PER_LINE], __ATOMIC_ACQUIRE);
    if (n_opened != ep->n_opened_seen)
        pgasi_recv_find_opened(ep, n_opened);
    uint64_t n = 0;
    for (uint32_t i = 0; i < ep->n_incoming; i++)
        n += count_channel(&ep->incoming[i]);
    pgasi_spin_lock(&ep->far_lock, 0);
    for (const pgasi_message_t *f = ep->far; f; f = f->next)
        n += count_descs(f->data, f->bytes);
    pgasi_spin_unlock(&ep->far_lock);
    return n;
}

void pgasi_eps_report_absent(void)
{
    static int warned;
    int zone;
    for (int number = PGASI_EP_FIRST_THREAD; number < pgasi_n_eps && !warned; number++) {
        int slot = number - PGASI_EP_FIRST_THREAD;
        if (!pgasi_ep_used(number) || pgasi_thread_zone(slot, &zone) ||
            !pgasi_spin_try(&pgasi_recv.eps[number].lock))
            continue;
        uint64_t n = pgasi_recv.eps[number].left ? 0 : count_waiting(number);
        pgasi_spin_unlock(&pgasi_recv.eps[number].lock);
        if (n)
            pgasi_warn_once(
                &warned, "call",
                "pgas_quiesce waits: %llu calls are for slot %d of this rank, which no thread has",
                (unsigned long long)n, slot);
    }
}
