/* Memory of the receive queues of a node, and the table of this rank's endpoints.
 *
 * The chunks are in sparse memory: a chunk that was never used costs nothing. Senders of the node
 * open channels and take further chunks by atomic operations on the receiver's header; no thread of
 * the receiver takes part. Each endpoint has its own lock, so calls for one thread wait for no
 * other thread. */
#include "msg/recv.h"

#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include "base/bitmap.h"
#include "base/log.h"
#include "base/param.h"
#include "boot/boot.h"
#include "mem/ctx.h"
#include "mem/thread.h"

#define HEADER_BYTES 65536
#define EPS_MAX      66
#define FURTHER_MAX  65536 /* chunks that no channel owns at the start */
#define CHANNELS_MAX ((HEADER_BYTES - (EPS_MAX + 2) * 64 - FURTHER_MAX / 8) * 8)

PGASI_STATIC_ASSERT(offsetof(pgasi_channel_state_t, head) ==
                        offsetof(pgasi_channel_state_t, consumed) + 8,
                    "see pgasi_channel_t");

/* Senders of the node write to this header. */
typedef struct {
    /* A counter per endpoint, each in its own cache line. It changes when a bit of `opened` is
     * set. */
    PGASI_ALIGNED(64) uint32_t n_opened[EPS_MAX * PGASI_WORDS_PER_LINE];
    /* a sender has given a further chunk back */
    PGASI_ALIGNED(64) uint32_t some_given;
    PGASI_ALIGNED(64) uint64_t taken[FURTHER_MAX / 64]; /* of the further chunks */
    PGASI_ALIGNED(64) uint64_t opened[CHANNELS_MAX / 64];
} header_t;
PGASI_STATIC_ASSERT(sizeof(header_t) <= HEADER_BYTES,
                    "the header has its place in front of the lines");

uint64_t pgasi_chunk_bytes;
int pgasi_n_eps;
const uint32_t *pgasi_eps_opened;
uint64_t pgasi_eps_left;
bool pgasi_recvq_by_put;
int pgasi_recvq_zone = -1;
pgasi_recv_t pgasi_recv;

static struct {
    pgasi_shm_t shm;
    void **of; /* [node_size] the mapped memory of each rank */
    pgasi_recvq_size_t size;
} memory;

int pgasi_ep_of_slot(int slot)
{
    if (slot == PGAS_SLOT_ANY)
        return PGASI_EP_ANY;
    if (slot == PGAS_SLOT_SERVICE)
        return PGASI_EP_SERVICE;
    return slot + PGASI_EP_FIRST_THREAD < pgasi_n_eps ? slot + PGASI_EP_FIRST_THREAD : -1;
}

static header_t *header_of(int node_rank)
{
    return memory.of[node_rank];
}

static pgasi_channel_state_t *state_at(int node_rank, size_t channel)
{
    return (pgasi_channel_state_t *)(void *)((char *)memory.of[node_rank] + HEADER_BYTES) + channel;
}

static size_t states_bytes(size_t n)
{
    return PGASI_ALIGN_UP(n * sizeof(pgasi_channel_state_t), 4096);
}

static char *chunks_of(int node_rank)
{
    return (char *)memory.of[node_rank] + HEADER_BYTES + states_bytes(memory.size.n_channels);
}

/* Chunks have the wanted size, or a smaller one if those of all channels would not fit. A chunk
 * always has room for the largest call. A channel owns at least two, one to write and one to read.
 * At least half of the memory is left for channels that grow. */
static pgas_status_t size_for(const pgasi_params_t *p, size_t n_ranks, pgasi_recvq_size_t *size_p)
{
    size_t n = n_ranks * (PGASI_CTX_FIRST_OWN + (size_t)p->ctxs) *
               (PGASI_EP_FIRST_THREAD + (size_t)p->ctxs);
    size_t n_first = (size_t)PGASI_MIN(p->chunks, p->chunks_max);
    uint64_t least = 4096;
    while (least < p->call_max + 256)
        least *= 2;
    uint64_t chunk = PGASI_MAX(p->chunk_size, least);
    while (chunk > least && n * n_first * chunk > p->chunk_memory / 2)
        chunk /= 2;
    while (n_first > 2 && n * n_first * chunk > p->chunk_memory)
        n_first--;
    bool too_much = n * n_first * chunk > p->chunk_memory || n > CHANNELS_MAX;
    size_t n_further = too_much ? 0 : p->chunk_memory / chunk - n * n_first;
    n_further = PGASI_MIN(n_further, n * (size_t)PGASI_MAX(p->chunks_max - (int)n_first, 0));
    size_t n_chunks = n * n_first + PGASI_MIN(n_further, (size_t)FURTHER_MAX);
    *size_p = (pgasi_recvq_size_t){ n, n_first, n_chunks, chunk,
                                    HEADER_BYTES + states_bytes(n) + n_chunks * chunk };
    return too_much ? PGAS_ERR_LIMIT : PGAS_OK;
}

/* Every node is sized as if it had as many ranks as the largest, so that chunks have one size
 * everywhere. */
pgas_status_t pgasi_recvq_size_here(pgasi_recvq_size_t *size_p)
{
    size_t largest = (size_t)pgasi_boot.node_size,
           *n_of = calloc((size_t)pgasi_boot.n_nodes, sizeof *n_of);
    for (int i = 0; n_of && i < pgasi_boot.n_ranks; i++) {
        size_t n = ++n_of[pgasi_boot.node_of[i]];
        largest = PGASI_MAX(largest, n);
    }
    bool have = n_of != NULL;
    free(n_of);
    return have ? size_for(&pgasi_param, largest, size_p) : PGAS_ERR_NO_MEMORY;
}

static pgas_status_t choose_size(void)
{
    pgas_status_t status = pgasi_recvq_size_here(&memory.size);
    pgasi_chunk_bytes = memory.size.chunk_bytes;
    pgasi_n_eps = PGASI_EP_FIRST_THREAD + pgasi_param.ctxs;
    pgasi_recv.channels_per_ep = memory.size.n_channels / (size_t)pgasi_n_eps;
    pgasi_recv.incoming_max =
        (size_t)pgasi_boot.n_ranks * (PGASI_CTX_FIRST_OWN + (size_t)pgasi_param.ctxs);
    if (status != PGAS_OK && pgasi_boot.node_rank == 0) {
        if (memory.size.n_chunks * pgasi_chunk_bytes > pgasi_param.chunk_memory)
            PGASI_ERROR("call",
                        "%zu channels of %llu bytes exceed PGAS_CHUNK_MEMORY=%zu: raise it, or "
                        "lower PGAS_CALL_MAX "
                        "or PGAS_LANES",
                        memory.size.n_channels,
                        (unsigned long long)(memory.size.n_first * pgasi_chunk_bytes),
                        pgasi_param.chunk_memory);
        else
            PGASI_ERROR("call", "%zu channels into a rank are too many: lower PGAS_LANES",
                        memory.size.n_channels);
    }
    return status;
}

static size_t stopped_bytes(void)
{
    return pgasi_bitmap_words((size_t)pgasi_boot.n_ranks) * sizeof(uint64_t);
}

static pgas_status_t make_eps(void)
{
    pgasi_recv.eps = aligned_alloc(64, (size_t)pgasi_n_eps * sizeof *pgasi_recv.eps);
    if (!pgasi_recv.eps)
        return PGAS_ERR_NO_MEMORY;
    memset(pgasi_recv.eps, 0, (size_t)pgasi_n_eps * sizeof *pgasi_recv.eps);
    pgas_status_t status = PGAS_OK;
    for (int i = 0; i < pgasi_n_eps; i++) {
        pgasi_recv.eps[i].incoming =
            pgasi_lazy_alloc(pgasi_recv.incoming_max * sizeof *pgasi_recv.eps[i].incoming);
        pgasi_recv.eps[i].next_headers =
            pgasi_lazy_alloc(pgasi_recv.incoming_max * sizeof *pgasi_recv.eps[i].next_headers);
        pgasi_recv.eps[i].far_end = &pgasi_recv.eps[i].far;
        pgasi_recv.eps[i].stopped = pgasi_lazy_alloc(stopped_bytes());
        if (!pgasi_recv.eps[i].incoming || !pgasi_recv.eps[i].next_headers ||
            !pgasi_recv.eps[i].stopped)
            status = PGAS_ERR_NO_MEMORY;
    }
    return status;
}

static void free_eps(void)
{
    for (int i = 0; pgasi_recv.eps && i < pgasi_n_eps; i++) {
        pgasi_lazy_free(pgasi_recv.eps[i].incoming,
                        pgasi_recv.incoming_max * sizeof *pgasi_recv.eps[i].incoming);
        pgasi_lazy_free(pgasi_recv.eps[i].next_headers,
                        pgasi_recv.incoming_max * sizeof *pgasi_recv.eps[i].next_headers);
        pgasi_lazy_free(pgasi_recv.eps[i].stopped, stopped_bytes());
        while (pgasi_recv.eps[i].reports) {
            report_t *t = pgasi_recv.eps[i].reports;
            pgasi_recv.eps[i].reports = t->next;
            free(t);
        }
        while (pgasi_recv.eps[i].far) {
            pgasi_message_t *f = pgasi_recv.eps[i].far;
            pgasi_recv.eps[i].far = f->next;
            free(f);
        }
    }
    free(pgasi_recv.eps);
    pgasi_recv.eps = NULL;
}

/* A failure is logged by pgasi_place_memory, and leaves the memory where it is. */
static void place(char *from, size_t bytes, int zone)
{
    if (zone >= 0)
        (void)pgasi_place_memory(from, bytes, zone);
}

void pgasi_recvq_place(int slot)
{
    int zone = -1, ep = pgasi_ep_of_slot(slot);
    size_t bytes = pgasi_recv.channels_per_ep * memory.size.n_first * pgasi_chunk_bytes;
    if (ep >= PGASI_EP_FIRST_THREAD && memory.of && pgasi_thread_zone(slot, &zone))
        place(chunks_of(pgasi_boot.node_rank) + (size_t)ep * bytes, bytes, zone);
}

char *pgasi_recvq_chunk_of(int source, int ep, int ctx)
{
    size_t of_port = (size_t)source * (size_t)pgasi_n_ctxs + (size_t)ctx;
    size_t channel = (size_t)ep * pgasi_recv.channels_per_ep + of_port;
    return chunks_of(pgasi_boot.node_rank) + channel * memory.size.n_first * pgasi_chunk_bytes;
}

pgas_status_t pgasi_recvqs_start(void)
{
    pgas_status_t status = choose_size();
    memory.of = calloc((size_t)pgasi_boot.node_size, sizeof *memory.of);
    if (status == PGAS_OK)
        status = memory.of ? make_eps() : PGAS_ERR_NO_MEMORY;
    status = pgasi_boot_agree(status);
    if (status == PGAS_OK)
        status = pgasi_shm_create_each(memory.size.bytes, false, &memory.shm, memory.of);
    if (status == PGAS_OK) {
        pgasi_eps_opened = header_of(pgasi_boot.node_rank)->n_opened;
        pgasi_recvq_zone = pgasi_place_own_zone();
        place(memory.shm.base, memory.shm.bytes, pgasi_recvq_zone);
    } else {
        pgasi_recvqs_stop();
    }
    pgasi_eps_left = 0;
    pgasi_recv.some_reports = false;
    pgasi_recvq_by_put = false;
    return status;
}

void pgasi_recvqs_stop(void)
{
    if (memory.shm.base)
        pgasi_shm_release_each(&memory.shm, memory.of);
    memory.shm = (pgasi_shm_t){ NULL, 0, 0 };
    free(memory.of);
    memory.of = NULL;
    free_eps();
}

void pgasi_recvq_open(int node_rank, int ep, int ctx, pgasi_channel_t *channel_p)
{
    size_t of_port = (size_t)pgasi_boot.node_rank * (size_t)pgasi_n_ctxs + (size_t)ctx;
    size_t channel = (size_t)ep * pgasi_recv.channels_per_ep + of_port;
    header_t *header = header_of(node_rank);
    *channel_p =
        (pgasi_channel_t){ chunks_of(node_rank), (uint32_t)(channel * memory.size.n_first),
                           (uint32_t)memory.size.n_first, &state_at(node_rank, channel)->consumed };
    __atomic_fetch_or(&header->opened[channel / 64], UINT64_C(1) << channel % 64, __ATOMIC_RELAXED);
    __atomic_fetch_add(&header->n_opened[ep * PGASI_WORDS_PER_LINE], 1, __ATOMIC_RELEASE);
}

bool pgasi_recvq_grow(int node_rank, uint32_t *number_p, bool *fresh_p)
{
    header_t *header = header_of(node_rank);
    size_t first = memory.size.n_channels * memory.size.n_first, n = memory.size.n_chunks - first;
    for (size_t i = 0; i < n; i += 64) {
        uint64_t word = __atomic_load_n(&header->taken[i / 64], __ATOMIC_RELAXED);
        while (word != UINT64_MAX) {
            size_t number = i + (size_t)__builtin_ctzll(~word);
            if (number >= n)
                return false;
            uint64_t with = word | UINT64_C(1) << number % 64;
            if (__atomic_compare_exchange_n(&header->taken[i / 64], &word, with, true,
                                            __ATOMIC_ACQUIRE, __ATOMIC_RELAXED)) {
                *number_p = (uint32_t)(first + number);
                *fresh_p = !__atomic_load_n(&header->some_given, __ATOMIC_RELAXED);
                return true;
            }
        }
    }
    return false;
}

void pgasi_recvq_shrink(int node_rank, uint32_t number)
{
    header_t *header = header_of(node_rank);
    size_t i = number - memory.size.n_channels * memory.size.n_first;
    __atomic_store_n(&header->some_given, 1, __ATOMIC_RELAXED);
    __atomic_fetch_and(&header->taken[i / 64], ~(UINT64_C(1) << i % 64), __ATOMIC_RELEASE);
}

/* ---- channels into this rank ---- */

/* Receiving begins at the channel's first chunk. */
static void add_incoming(endpoint_t *ep, const incoming_t *channel)
{
    incoming_t *in = &ep->incoming[ep->n_incoming];
    *in = *channel;
    in->at = in->chunk = in->chunks + in->first * pgasi_chunk_bytes;
    in->phase = phase_of(false);
    set_head(ep, in);
    __atomic_store_n(&ep->n_incoming, ep->n_incoming + 1, __ATOMIC_RELEASE);
}

void pgasi_recvq_join(const pgasi_join_t *join)
{
    if (join->by_put)
        __atomic_store_n(&pgasi_recvq_by_put, true, __ATOMIC_RELAXED);
    add_incoming(&pgasi_recv.eps[join->ep],
                 &(incoming_t){ .state = join->state,
                                .chunks = join->chunks,
                                .first = join->first,
                                .n_first = join->n_first,
                                .n_chunks = join->n_chunks,
                                .source_rank = join->source_rank,
                                .source_ctx = join->source_ctx,
                                .by_put = join->by_put,
                                .wakeup = pgasi_boot.node_size + join->source_rank });
}

void pgasi_recv_find_opened(endpoint_t *ep, uint32_t n_opened)
{
    int me = pgasi_boot.node_rank;
    const header_t *header = header_of(me);
    size_t first = (size_t)(ep - pgasi_recv.eps) * pgasi_recv.channels_per_ep;
    for (size_t i = 0; i < pgasi_recv.channels_per_ep; i++) {
        size_t channel = first + i;
        if (!(__atomic_load_n(&header->opened[channel / 64], __ATOMIC_RELAXED) >> channel % 64 & 1))
            continue;
        pgasi_channel_state_t *state = state_at(me, channel);
        bool known = false;
        for (uint32_t k = 0; k < ep->n_incoming && !known; k++)
            known = ep->incoming[k].state == state;
        if (known)
            continue;
        int source = (int)(i / (size_t)pgasi_n_ctxs);
        uint32_t number = (uint32_t)(channel * memory.size.n_first);
        add_incoming(ep, &(incoming_t){ .state = state,
                                        .chunks = chunks_of(me),
                                        .first = number,
                                        .n_first = (uint32_t)memory.size.n_first,
                                        .n_chunks = (uint32_t)memory.size.n_chunks,
                                        .wakeup = source,
                                        .source_rank = pgasi_boot.node_members[source] });
    }
    __atomic_store_n(&ep->n_opened_seen, n_opened, __ATOMIC_RELAXED);
}

void pgasi_recv_open_ep(int number)
{
    if (!pgasi_ep_used(number))
        __atomic_fetch_add(
            &header_of(pgasi_boot.node_rank)->n_opened[number * PGASI_WORDS_PER_LINE], 1,
            __ATOMIC_RELEASE);
}

/* ---- locks ---- */

bool pgasi_recv_try_lock(void)
{
    return pgasi_spin_try(&pgasi_recv.eps[PGASI_EP_ANY].lock);
}

void pgasi_recv_lock(void)
{
    pgasi_spin_lock(&pgasi_recv.eps[PGASI_EP_ANY].lock, 0);
}

void pgasi_recv_unlock(void)
{
    pgasi_spin_unlock(&pgasi_recv.eps[PGASI_EP_ANY].lock);
}
