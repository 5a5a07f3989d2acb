/* Offers: the buffers of sent calls, as long as their targets may read them. See bulk.h.
 *
 * A call with pulled buffers enters an offer into a table, for which pgas/call.h says open pull.
 * The requests of the target are checked against it. The sizes of the table's two parts also bound
 * the number of such calls: the first N_PLAIN offers are of calls with buffers, the others of calls
 * with archives. */
#include <string.h>

#include "base/checks.h"
#include "base/spin.h"
#include "boot/boot.h"
#include "boot/wait.h"
#include "bulk/bulk.h"
#include "call/handler.h"
#include "call/sync.h"
#include "mem/thread.h"
#include "msg/descriptor.h"
#include "msg/dispatch.h"
#include "msg/send_queue.h"

#define N_PLAIN  256
#define N_OFFERS 2048

typedef struct {
    int busy;
    uint32_t id; /* (generation + 1) * N_OFFERS + index; 0: no rank may read */
    uint32_t generation;
    int rank; /* as in call; read while the offer may end */
    pgasi_offer_call_t call;
    /* under the receive lock */
    uint32_t n_answers; /* that read the buffers; the offer ends after them */
    bool ending;
    pgas_status_t status; /* with which it ends */
    uint32_t n;
    const pgas_buffer_t *buffer;
} offer_t;

static struct {
    offer_t *offer;                            /* [N_OFFERS] */
    pgas_buffer_t (*buffer)[PGAS_BUFFERS_MAX]; /* [N_PLAIN] */
} offers;

static offer_t *find_offer(uint32_t id, int rank)
{
    offer_t *o = &offers.offer[id % N_OFFERS];
    return id && __atomic_load_n(&o->id, __ATOMIC_ACQUIRE) == id && o->rank == rank ? o : NULL;
}

/* Ends an offer. False: it has ended before. */
static bool close_offer(uint32_t id, int rank, pgasi_offer_call_t *call_p)
{
    offer_t *o = find_offer(id, rank);
    uint32_t mine = id;
    if (!o ||
        !__atomic_compare_exchange_n(&o->id, &mine, 0, false, __ATOMIC_ACQ_REL, __ATOMIC_RELAXED))
        return false;
    *call_p = o->call;
    pgasi_spin_unlock(&o->busy);
    return true;
}

/* The caller holds the receive lock. */
static void end_offer(uint32_t id, int rank, pgas_status_t status)
{
    pgasi_offer_call_t call;
    offer_t *o = find_offer(id, rank);
    if (o && o->n_answers && status == PGAS_OK) /* all data have arrived */
        pgasi_answers_arrived(id);
    if (o && o->n_answers) {
        o->ending = true;
        o->status = status;
        return;
    }
    if (!close_offer(id, rank, &call))
        return;
    if (call.ended)
        call.ended(call.arg);
    if (call.local)
        pgasi_sync_lower(call.local, status, rank, PGAS_OPERATION_CALL, call.handler);
}

void pgasi_offer_release(uint32_t id)
{
    offer_t *o = &offers.offer[id % N_OFFERS];
    if (--o->n_answers == 0 && o->ending)
        end_offer(id, o->rank, o->status);
}

bool pgasi_offer_withdraw(uint32_t id, int rank)
{
    pgasi_offer_call_t call;
    return close_offer(id, rank, &call);
}

/* Threads begin to search at different places, each behind the offer that it found last. */
static offer_t *claim_offer(bool archive)
{
    static uint32_t n_threads;
    static __thread uint32_t hint;
    uint32_t first = archive ? N_PLAIN : 0, n = archive ? N_OFFERS - N_PLAIN : N_PLAIN;
    if (!hint)
        hint = 1 + 37 * __atomic_fetch_add(&n_threads, 1, __ATOMIC_RELAXED);
    for (uint32_t i = 0; i < n; i++) {
        uint32_t at = hint++ % n;
        if (pgasi_spin_try(&offers.offer[first + at].busy))
            return &offers.offer[first + at];
    }
    return NULL;
}

static pgas_status_t try_offer(const pgasi_offer_call_t *call, const pgas_buffer_t *buffers,
                               size_t n, uint32_t *id_p)
{
    offer_t *o = claim_offer(call->ended);
    if (!o)
        return PGAS_ERR_AGAIN;
    o->rank = call->rank;
    o->call = *call;
    o->n = (uint32_t)n;
    o->n_answers = 0;
    o->ending = false;
    o->buffer = buffers;
    if (!call->ended)
        o->buffer = memcpy(offers.buffer[o - offers.offer], buffers, n * sizeof *buffers);
    o->generation = (o->generation + 1) % (UINT32_MAX / N_OFFERS);
    *id_p = (o->generation + 1) * N_OFFERS + (uint32_t)(o - offers.offer);
    /* the caller checks after this whether the rank is dead */
    __atomic_store_n(&o->id, *id_p, __ATOMIC_SEQ_CST);
    return PGAS_OK;
}

pgas_status_t pgasi_offer_open(const pgasi_offer_call_t *call, const pgas_buffer_t *buffers,
                               size_t n, pgas_full_t full, uint32_t *id_p)
{
    pgas_status_t status = try_offer(call, buffers, n, id_p);
    if (status != PGAS_ERR_AGAIN || full != PGAS_FULL_WAIT || pgasi_self.in_handler)
        return status;
    pgasi_wait_t w = PGASI_WAIT_INIT;
    while ((status = try_offer(call, buffers, n, id_p)) == PGAS_ERR_AGAIN &&
           !pgasi_boot_is_dead(call->rank))
        pgasi_wait_step(&w);
    pgasi_wait_end(&w);
    return status == PGAS_ERR_AGAIN ? PGAS_ERR_PEER : status;
}

void pgasi_offers_peer_died(int rank)
{
    for (uint32_t i = 0; offers.offer && i < N_OFFERS; i++) {
        uint32_t id = __atomic_load_n(&offers.offer[i].id, __ATOMIC_ACQUIRE);
        if (id && offers.offer[i].rank == rank)
            end_offer(id, rank, PGAS_ERR_PEER);
    }
}

/* ---- requests of the target ---- */

/* Returns a part of an offer. NULL: the rank may not read it. */
static const pgas_buffer_t *offered(const offer_t *o, size_t part)
{
    return o && part < o->n && o->buffer[part].mode == PGAS_BUFFER_PULL ? &o->buffer[part] : NULL;
}

static bool may_read(const pgasi_bulk_ask_t *a, const offer_t *o)
{
    const pgas_buffer_t *b = offered(o, a->part);
    return b && !o->ending && a->offset <= b->bytes && a->bytes <= b->bytes - a->offset;
}

static const char *address_of(const pgasi_bulk_ask_t *a, const offer_t *o)
{
    return (const char *)o->buffer[a->part].address + a->offset;
}

bool pgasi_offer_has(uint32_t id, size_t part, uint64_t address, uint64_t bytes)
{
    const pgas_buffer_t *b = offered(find_offer(id, pgasi_boot.rank), part);
    return b && (uint64_t)(uintptr_t)b->address == address && b->bytes == bytes;
}

static void send_asked(const pgasi_bulk_ask_t *a, offer_t *o, int rank)
{
    size_t piece_max = pgasi_bulk_piece_max(rank);
    pgasi_bulk_data_t d = { a->offset, a->number, a->part, o ? PGAS_OK : PGAS_ERR_RANGE };
    if (!o) {
        pgasi_sendq_answer(rank, PGASI_DESC_BUFFER_DATA, &d, sizeof d, NULL, 0);
        return;
    }
    if (pgasi_answers_from(rank)) {
        o->n_answers++;
        pgasi_answer_begin(a, rank, address_of(a, o));
        return;
    }
    for (uint64_t done = 0; done < a->bytes; done += piece_max) {
        d.offset = a->offset + done;
        pgasi_sendq_answer(rank, PGASI_DESC_BUFFER_DATA, &d, sizeof d, address_of(a, o) + done,
                           PGASI_MIN(a->bytes - done, piece_max));
    }
}

static void on_read(const void *args, size_t bytes, pgas_thread_t source, void *context)
{
    pgasi_bulk_ask_t a;
    int rank = pgas_thread_rank(source);
    (void)context;
    if (bytes != sizeof a)
        return;
    memcpy(&a, args, sizeof a);
    offer_t *o = find_offer(a.offer, rank);
    if (!may_read(&a, o))
        o = NULL;
    if (a.number)
        send_asked(&a, o, rank);
    else if (o && a.bytes <= pgasi_bulk_piece_max(rank))
        pgasi_reply(address_of(&a, o), a.bytes);
}

static void on_free(const void *args, size_t bytes, pgas_thread_t source, void *context)
{
    pgasi_bulk_free_t f;
    (void)context;
    if (bytes != sizeof f)
        return;
    memcpy(&f, args, sizeof f);
    end_offer(f.offer, pgas_thread_rank(source), (pgas_status_t)f.status);
}

/* ---- start and stop ---- */

pgas_status_t pgasi_offers_start(void)
{
    offers.offer = pgasi_lazy_alloc(N_OFFERS * sizeof *offers.offer);
    offers.buffer = pgasi_lazy_alloc(N_PLAIN * sizeof *offers.buffer);
    pgasi_handler_set_internal(PGASI_DESC_BUFFER_READ, on_read);
    pgasi_handler_set_internal(PGASI_DESC_BUFFER_FREE, on_free);
    return offers.offer && offers.buffer ? PGAS_OK : PGAS_ERR_NO_MEMORY;
}

/* No rank reads any more. The counters of offers may no longer exist. */
static void end_open_ones(void)
{
    for (uint32_t i = N_PLAIN; offers.offer && i < N_OFFERS; i++) {
        uint32_t id = __atomic_load_n(&offers.offer[i].id, __ATOMIC_ACQUIRE);
        pgasi_offer_call_t call;
        if (id && close_offer(id, offers.offer[i].rank, &call))
            call.ended(call.arg);
    }
}

void pgasi_offers_stop(void)
{
    end_open_ones();
    pgasi_lazy_free(offers.buffer, N_PLAIN * sizeof *offers.buffer);
    offers.buffer = NULL;
    pgasi_lazy_free(offers.offer, N_OFFERS * sizeof *offers.offer);
    offers.offer = NULL;
}

size_t pgasi_offers_table_bytes(void)
{
    return N_OFFERS * sizeof *offers.offer + N_PLAIN * sizeof *offers.buffer;
}
