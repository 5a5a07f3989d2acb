/* Channels of the node, receiving side: see recv_queue.h.
 *
 * Shaped for many small calls from few active senders: a look costs one load per channel that was
 * ever used, a single call moves one cache line, a published batch is walked without looking at
 * marks. Chunks live in sparse memory: one that was never used costs nothing. Each endpoint has a
 * lock of its own, so that what is for a thread waits for nobody else. */
#include "msg/recv_queue.h"

#include <sched.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include "base/bitmap.h"
#include "base/log.h"
#include "base/param.h"
#include "base/spin.h"
#include "boot/boot.h"
#include "boot/wait.h"
#include "msg/far_channel.h"
#include "msg/dispatch.h"
#include "msg/send_queue.h"
#include "msg/serve.h"
#include "msg/descriptor.h"
#include "msg/channel_memory.h"
#include "mem/ctx.h"
#include "mem/thread.h"

#define HEADER_BYTES   65536
#define EPS_MAX        66
#define WORDS_PER_LINE 16
#define RECENT_TURNS   7     /* rounds in a row for one channel alone, */
#define RECENT_CALLS   8     /* while it brings at most so many calls in each */
#define FURTHER_MAX    65536 /* chunks that no channel has from the start */
#define CHANNELS_MAX   ((HEADER_BYTES - (EPS_MAX + 2) * 64 - FURTHER_MAX / 8) * 8)

PGASI_STATIC_ASSERT(offsetof(pgasi_channel_state_t, head) ==
                        offsetof(pgasi_channel_state_t, consumed) + 8,
                    "see pgasi_channel_t");

/* What senders of the node write to. */
typedef struct {
    /* one word of a line changes whenever a bit is set */
    PGASI_ALIGNED(64) uint32_t n_opened[EPS_MAX * WORDS_PER_LINE];
    /* a further chunk was given back */
    PGASI_ALIGNED(64) uint32_t some_given;
    PGASI_ALIGNED(64) uint64_t taken[FURTHER_MAX / 64]; /* of the further chunks */
    PGASI_ALIGNED(64) uint64_t opened[CHANNELS_MAX / 64];
} header_t;
PGASI_STATIC_ASSERT(sizeof(header_t) <= HEADER_BYTES,
                    "the header has its place in front of the lines");

typedef struct {
    const char *at;    /* the next descriptor */
    uint64_t phase;    /* the mark it will bear */
    const char *chunk; /* in which it stands */
    uint64_t base;     /* position of the chunk's first byte */
    pgasi_channel_state_t *state;
    char *chunks; /* number 0 */
    uint32_t first, n_first, n_chunks;
    int source_rank, source_ctx;
    int wakeup; /* number of the sender's */
    bool grown, by_put;
} incoming_t;

/* A place in a channel. */
typedef struct {
    const char *at, *chunk; /* the next descriptor; in which it stands */
    uint64_t base, phase;   /* position of the chunk; the mark that it will bear */
} place_t;

/* A channel from elsewhere to a thread, joined or about to be: up to where it was told what has
 * arrived. Receive lock held, but for looks. */
typedef struct tell {
    struct tell *next;
    pgasi_join_t channel;
    place_t place;
    uint64_t position; /* of it */
} tell_t;

/* A message from elsewhere that waits for the threads of its endpoint. */
typedef struct far {
    struct far *next;
    size_t bytes;
    int source_rank;
    _Alignas(8) char data[];
} far_t;

typedef struct {
    PGASI_ALIGNED(64) int lock;
    uint32_t n_incoming, n_opened_seen;
    bool left;
    incoming_t *incoming; /* [incoming_max], the first n_incoming used */
    uintptr_t *marks; /* where the next descriptor of each will show; lowest bit: in an odd phase */
    /* the channel in which something came last, and how often in a row it alone was drained */
    uint32_t recent, turns;
    uint64_t n_calls;
    far_t *far, **far_end; /* in order; both ends under far_lock */
    uint64_t far_consumed; /* bytes */
    int far_lock;          /* also of what follows */
    uint64_t far_bytes;    /* in the list */
    uint64_t n_words;      /* said to senders about it */
    uint64_t *stopped;     /* [n_ranks] bits: who was told to stop */
    int n_stopped;
    tell_t *tells;
} endpoint_t;

uint64_t pgasi_chunk_bytes;
int pgasi_n_eps;
const uint32_t *pgasi_eps_opened;
uint64_t pgasi_eps_left;

static pgasi_shm_t shm;
static void **recvq_of; /* [node_size] */
static pgasi_recvq_size_t size;
bool pgasi_recvq_by_put;
static bool some_tells;        /* some endpoint has */
static size_t channels_per_ep; /* from the node */
static size_t incoming_max;    /* also from elsewhere */
static endpoint_t *eps;

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
    return recvq_of[node_rank];
}

static pgasi_channel_state_t *state_at(int node_rank, size_t channel)
{
    return (pgasi_channel_state_t *)(void *)((char *)recvq_of[node_rank] + HEADER_BYTES) + channel;
}

static size_t states_bytes(size_t n)
{
    return PGASI_ALIGN_UP(n * sizeof(pgasi_channel_state_t), 4096);
}

static char *chunks_of(int node_rank)
{
    return (char *)recvq_of[node_rank] + HEADER_BYTES + states_bytes(size.n_channels);
}

/* Chunks as large as asked, smaller when those of all channels would not fit together, never too
 * small for the largest call, and two of them at least, one to write and one to read; then half of
 * the memory or more is left for channels that grow. */
pgas_status_t pgasi_recvq_size(const pgasi_params_t *p, size_t n_ranks, pgasi_recvq_size_t *size_p)
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

/* As if every node had as many ranks as the largest: chunks are of one size everywhere. */
pgas_status_t pgasi_recvq_size_here(pgasi_recvq_size_t *size_p)
{
    size_t largest = (size_t)pgasi_boot.node_size,
           *n_of = calloc((size_t)pgasi_boot.n_nodes, sizeof *n_of);
    for (int i = 0; n_of && i < pgasi_boot.n_ranks; i++)
        largest = PGASI_MAX(largest, ++n_of[pgasi_boot.node_of[i]]);
    bool have = n_of != NULL;
    free(n_of);
    return have ? pgasi_recvq_size(&pgasi_param, largest, size_p) : PGAS_ERR_NO_MEMORY;
}

static pgas_status_t choose_size(void)
{
    pgas_status_t status = pgasi_recvq_size_here(&size);
    pgasi_chunk_bytes = size.chunk_bytes;
    pgasi_n_eps = PGASI_EP_FIRST_THREAD + pgasi_param.ctxs;
    channels_per_ep = size.n_channels / (size_t)pgasi_n_eps;
    incoming_max = (size_t)pgasi_boot.n_ranks * (PGASI_CTX_FIRST_OWN + (size_t)pgasi_param.ctxs);
    if (status != PGAS_OK && pgasi_boot.node_rank == 0) {
        if (size.n_chunks * pgasi_chunk_bytes > pgasi_param.chunk_memory)
            PGASI_ERROR("call",
                        "%zu channels of %llu bytes exceed PGAS_CHUNK_MEMORY=%zu: raise it, or "
                        "lower PGAS_CALL_MAX "
                        "or PGAS_LANES",
                        size.n_channels, (unsigned long long)(size.n_first * pgasi_chunk_bytes),
                        pgasi_param.chunk_memory);
        else
            PGASI_ERROR("call", "%zu channels into a rank are too many: lower PGAS_LANES",
                        size.n_channels);
    }
    return status;
}

static size_t stopped_bytes(void)
{
    return pgasi_bitmap_words((size_t)pgasi_boot.n_ranks) * sizeof(uint64_t);
}

static pgas_status_t make_eps(void)
{
    eps = aligned_alloc(64, (size_t)pgasi_n_eps * sizeof *eps);
    if (!eps)
        return PGAS_ERR_NO_MEMORY;
    memset(eps, 0, (size_t)pgasi_n_eps * sizeof *eps);
    pgas_status_t status = PGAS_OK;
    for (int i = 0; i < pgasi_n_eps; i++) {
        eps[i].incoming = pgasi_lazy_alloc(incoming_max * sizeof *eps[i].incoming);
        eps[i].marks = pgasi_lazy_alloc(incoming_max * sizeof *eps[i].marks);
        eps[i].far_end = &eps[i].far;
        eps[i].stopped = pgasi_lazy_alloc(stopped_bytes());
        if (!eps[i].incoming || !eps[i].marks || !eps[i].stopped)
            status = PGAS_ERR_NO_MEMORY;
    }
    return status;
}

static void free_eps(void)
{
    for (int i = 0; eps && i < pgasi_n_eps; i++) {
        pgasi_lazy_free(eps[i].incoming, incoming_max * sizeof *eps[i].incoming);
        pgasi_lazy_free(eps[i].marks, incoming_max * sizeof *eps[i].marks);
        pgasi_lazy_free(eps[i].stopped, stopped_bytes());
        while (eps[i].tells) {
            tell_t *t = eps[i].tells;
            eps[i].tells = t->next;
            free(t);
        }
        while (eps[i].far) {
            far_t *f = eps[i].far;
            eps[i].far = f->next;
            free(f);
        }
    }
    free(eps);
    eps = NULL;
}

pgas_status_t pgasi_recvqs_start(void)
{
    pgas_status_t status = choose_size();
    recvq_of = calloc((size_t)pgasi_boot.node_size, sizeof *recvq_of);
    if (status == PGAS_OK)
        status = recvq_of ? make_eps() : PGAS_ERR_NO_MEMORY;
    status = pgasi_boot_agree(status);
    if (status == PGAS_OK)
        status = pgasi_shm_create_each(size.bytes, false, &shm, recvq_of);
    if (status == PGAS_OK)
        pgasi_eps_opened = header_of(pgasi_boot.node_rank)->n_opened;
    else
        pgasi_recvqs_stop();
    pgasi_eps_left = 0;
    some_tells = false;
    pgasi_recvq_by_put = false;
    return status;
}

void pgasi_recvqs_stop(void)
{
    if (shm.base)
        pgasi_shm_release_each(&shm, recvq_of);
    shm = (pgasi_shm_t){ NULL, 0, 0 };
    free(recvq_of);
    recvq_of = NULL;
    free_eps();
}

void pgasi_recvq_open(int node_rank, int ep, int ctx, pgasi_channel_t *channel_p)
{
    size_t of_port = (size_t)pgasi_boot.node_rank * (size_t)pgasi_n_ctxs + (size_t)ctx;
    size_t channel = (size_t)ep * channels_per_ep + of_port;
    header_t *header = header_of(node_rank);
    *channel_p =
        (pgasi_channel_t){ chunks_of(node_rank), (uint32_t)(channel * size.n_first),
                           (uint32_t)size.n_first, &state_at(node_rank, channel)->consumed };
    __atomic_fetch_or(&header->opened[channel / 64], UINT64_C(1) << channel % 64, __ATOMIC_RELAXED);
    __atomic_fetch_add(&header->n_opened[ep * WORDS_PER_LINE], 1, __ATOMIC_RELEASE);
}

bool pgasi_recvq_grow(int node_rank, uint32_t *number_p, bool *fresh_p)
{
    header_t *header = header_of(node_rank);
    size_t first = size.n_channels * size.n_first, n = size.n_chunks - first;
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
    size_t i = number - size.n_channels * size.n_first;
    __atomic_store_n(&header->some_given, 1, __ATOMIC_RELAXED);
    __atomic_fetch_and(&header->taken[i / 64], ~(UINT64_C(1) << i % 64), __ATOMIC_RELEASE);
}

/* ---- locks ---- */

bool pgasi_recv_try_lock(void)
{
    return pgasi_spin_try(&eps[PGASI_EP_ANY].lock);
}

void pgasi_recv_lock(void)
{
    pgasi_spin_lock(&eps[PGASI_EP_ANY].lock, 0);
}

void pgasi_recv_unlock(void)
{
    pgasi_spin_unlock(&eps[PGASI_EP_ANY].lock);
}

/* ---- receiving ---- */

static inline uint64_t phase_of(bool odd)
{
    return odd ? PGAS_CALL_PHASE_ODD : PGAS_CALL_PHASE_EVEN;
}

/* Others may look where the next descriptor will show, and how far we are. */
static inline void set_head(endpoint_t *ep, incoming_t *in)
{
    uintptr_t mark = (uintptr_t)in->at | (in->phase == PGAS_CALL_PHASE_ODD);
    __atomic_store_n(&ep->marks[in - ep->incoming], mark, __ATOMIC_RELAXED);
    __atomic_store_n(&in->state->head, in->base + (uint64_t)(in->at - in->chunk), __ATOMIC_RELEASE);
}

/* From its first chunk on. */
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
    add_incoming(&eps[join->ep],
                 &(incoming_t){ .state = join->state,
                                .chunks = join->chunks,
                                .first = join->first,
                                .n_first = pgasi_chanmem.n_first,
                                .n_chunks = join->n_chunks,
                                .source_rank = join->source_rank,
                                .source_ctx = join->source_ctx,
                                .by_put = join->by_put,
                                .wakeup = pgasi_boot.node_size + join->source_rank });
}

/* Takes up channels that senders have opened since; lock held. */
static __attribute__((noinline)) void find_opened(endpoint_t *ep, uint32_t n_opened)
{
    int me = pgasi_boot.node_rank;
    const header_t *header = header_of(me);
    size_t first = (size_t)(ep - eps) * channels_per_ep;
    for (size_t i = 0; i < channels_per_ep; i++) {
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
        uint32_t number = (uint32_t)(channel * size.n_first);
        add_incoming(ep, &(incoming_t){ .state = state,
                                        .chunks = chunks_of(me),
                                        .first = number,
                                        .n_first = (uint32_t)size.n_first,
                                        .n_chunks = (uint32_t)size.n_chunks,
                                        .wakeup = source,
                                        .source_rank = pgasi_boot.node_members[source] });
    }
    __atomic_store_n(&ep->n_opened_seen, n_opened, __ATOMIC_RELAXED);
}

/* May look without the lock, perhaps at a place that another thread has read meanwhile and a sender
 * writes again: a wrong answer costs a round, for who holds the lock looks again. (ThreadSanitizer
 * cannot know; atomics it would check.) */
__attribute__((no_sanitize("thread"))) static inline bool has_arrived(const endpoint_t *ep,
                                                                      uint32_t i)
{
    uintptr_t mark = __atomic_load_n(&ep->marks[i], __ATOMIC_RELAXED);
    return pgasi_desc_has_arrived(*(const volatile uint64_t *)(mark & ~(uintptr_t)1),
                                  phase_of(mark & 1));
}

bool pgasi_ep_pending(int number)
{
    const endpoint_t *ep = &eps[number];
    uint32_t n = __atomic_load_n(&ep->n_incoming, __ATOMIC_ACQUIRE);
    for (uint32_t i = 0; i < n; i++)
        if (has_arrived(ep, i))
            return true;
    return __atomic_load_n(&pgasi_eps_opened[number * WORDS_PER_LINE], __ATOMIC_RELAXED) !=
               __atomic_load_n(&ep->n_opened_seen, __ATOMIC_RELAXED) ||
           __atomic_load_n(&ep->far, __ATOMIC_RELAXED) != NULL;
}

/* On to the chunk that a wrap descriptor names; tells the sender that it may use the one left
 * behind. */
static void change_chunk(const endpoint_t *ep, incoming_t *in, uint64_t header, uint64_t number)
{
    if (PGAS_UNLIKELY(number >= in->n_chunks))
        pgasi_fatal("call", "broken descriptor from rank %d: chunk %llu", in->source_rank,
                    (unsigned long long)number);
    in->grown |= number - in->first >= in->n_first;
    in->base += pgasi_chunk_bytes;
    in->chunk = in->at = in->chunks + number * pgasi_chunk_bytes;
    in->phase = phase_of(pgasi_desc_slot(header) & 1);
    __atomic_store_n(&in->state->consumed, in->base, __ATOMIC_RELEASE);
    if (PGAS_UNLIKELY(in->by_put))
        pgasi_far_channel_tell((int)(ep - eps), in->source_rank, in->source_ctx, in->base);
    else if (PGAS_LIKELY(pgasi_wakeups[in->wakeup]))
        pgasi_wake(in->wakeup);
}

static inline uint64_t run_descs(const endpoint_t *ep, const char *descs, size_t bytes,
                                 int source_rank)
{
    return ep->left ? pgasi_descs_refuse(descs, bytes, source_rank)
                    : pgasi_descs_run(descs, bytes, source_rank);
}

/* One published thing that is no plain call: a batch, the end of a chunk, a descriptor with a token
 * or for the library. */
static uint64_t take(const endpoint_t *ep, incoming_t *in, uint64_t header)
{
    uint32_t id = pgasi_desc_handler(header);
    if (id == PGASI_DESC_WRAP) {
        change_chunk(ep, in, header, *(const uint64_t *)(const void *)(in->at + 8));
        return 0;
    }
    bool batch = id == PGASI_DESC_BATCH;
    uint64_t bytes = batch ? 8 + pgasi_desc_bytes(header) : pgasi_desc_room(header);
    if (PGAS_UNLIKELY(bytes > (uint64_t)(in->chunk + pgasi_chunk_bytes - in->at)))
        pgasi_fatal("call", "broken descriptor of %llu bytes from rank %d",
                    (unsigned long long)bytes, in->source_rank);
    uint64_t n = run_descs(ep, in->at + (batch ? 8 : 0), bytes - (batch ? 8 : 0), in->source_rank);
    in->at += PGASI_ALIGN_UP(bytes, PGASI_RING_UNIT);
    return n;
}

/* A descriptor that is one call of a program's handler, with nobody waiting for it. */
static inline bool is_plain(uint64_t header)
{
    const uint64_t special = PGASI_DESC_TOKEN | (uint64_t)PGASI_DESC_MORE_MAX
                                                    << PGASI_DESC_MORE_SHIFT;
    return !(header & special) && pgasi_desc_handler(header) - 1u < pgasi_n_handlers;
}

/* Runs what has arrived in one channel, up to the end of a chunk. Plain descriptors are run right
 * here. */
static uint64_t drain_channel(endpoint_t *ep, incoming_t *in)
{
    const uint32_t source_bits = (uint32_t)in->source_rank << PGAS_SLOT_BITS;
    const char *at = in->at, *end = in->chunk + pgasi_chunk_bytes, *chunk = in->chunk;
    const uint64_t phase = in->phase;
    uint64_t n = 0;
    for (;;) {
        uint64_t header = __atomic_load_n((const uint64_t *)(const void *)at, __ATOMIC_ACQUIRE);
        if (!pgasi_desc_has_arrived(header, phase))
            break;
        size_t bytes = pgasi_desc_bytes(header);
        if (PGAS_LIKELY(is_plain(header) && bytes < (size_t)(end - at) - 8 && !ep->left)) {
            const pgasi_handler_entry_t *e = &pgasi_handlers[pgasi_desc_handler(header)];
            e->fn(at + 8, bytes, source_bits | (pgas_thread_t)pgasi_desc_slot(header), e->context);
            at += PGASI_ALIGN_UP(8 + bytes, PGASI_RING_UNIT);
            n++;
            continue;
        }
        in->at = at;
        n += take(ep, in, header);
        at = in->at;
        if (in->chunk != chunk) /* others get their turn */
            break;
    }
    if (in->at != at || n > 0 || in->chunk != chunk) {
        in->at = at;
        set_head(ep, in);
    }
    return n;
}

/* Tells a sender; without locks, in the context of handlers. The numbers say which word is the
 * last. */
static void say(const endpoint_t *ep, int rank, pgasi_ctl_what_t what, uint64_t number)
{
    pgasi_ctl_t ctl = { what, (uint32_t)(ep - eps), 0, 0, 0, 0, 0, 0, number };
    pgasi_ctl_send(rank, &ctl, NULL, 0);
}

/* To those who were told to stop, when half of it has run. */
static __attribute__((noinline)) void let_go(endpoint_t *ep)
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
        say(ep, (int)rank, PGASI_CTL_GO, number);
    }
}

/* What came from elsewhere. */
static uint64_t drain_far(endpoint_t *ep)
{
    uint64_t n = 0;
    while (__atomic_load_n(&ep->far, __ATOMIC_ACQUIRE)) {
        pgasi_spin_lock(&ep->far_lock, 0);
        far_t *f = ep->far;
        __atomic_store_n(&ep->far, f->next, __ATOMIC_RELAXED);
        if (!f->next)
            ep->far_end = &ep->far;
        ep->far_bytes -= f->bytes;
        bool some_stopped = ep->n_stopped > 0;
        pgasi_spin_unlock(&ep->far_lock);
        if (PGAS_UNLIKELY(some_stopped))
            let_go(ep);
        n += run_descs(ep, f->data, f->bytes, f->source_rank);
        __atomic_store_n(&ep->far_consumed, ep->far_consumed + f->bytes, __ATOMIC_RELEASE);
        free(f);
    }
    return n;
}

static void expect(int number, int source_rank, const char *descs, size_t bytes);

pgas_status_t pgasi_ep_put(int number, int source_rank, const void *descs, size_t bytes)
{
    endpoint_t *ep = &eps[number];
    far_t *f = malloc(sizeof *f + bytes);
    if (!f)
        return PGAS_ERR_NO_MEMORY;
    *f = (far_t){ NULL, bytes, source_rank };
    memcpy(f->data, descs, bytes);
    expect(number, source_rank, f->data, bytes);
    pgasi_path_state_t before = pgasi_handlers_enter(true);
    /* else they will be refused, and that is what is told */
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
        say(ep, source_rank, PGASI_CTL_STOP, word);
    pgasi_handlers_leave(before);
    if (!pgasi_ep_used(number))
        __atomic_fetch_add(&header_of(pgasi_boot.node_rank)->n_opened[number * WORDS_PER_LINE], 1,
                           __ATOMIC_RELEASE);
    return PGAS_OK;
}

uint64_t pgasi_ep_drain(int number)
{
    endpoint_t *ep = &eps[number];
    uint32_t n_opened =
        __atomic_load_n(&pgasi_eps_opened[number * WORDS_PER_LINE], __ATOMIC_ACQUIRE);
    if (PGAS_UNLIKELY(n_opened != ep->n_opened_seen))
        find_opened(ep, n_opened);
    uint64_t n = 0;
    pgasi_path_state_t before = pgasi_handlers_enter(number == PGASI_EP_ANY);
    for (uint32_t i = 0; i < ep->n_incoming; i++) {
        if (!has_arrived(ep, i))
            continue;
        ep->recent = i;
        n += drain_channel(ep, &ep->incoming[i]);
    }
    if (PGAS_UNLIKELY(__atomic_load_n(&ep->far, __ATOMIC_RELAXED)))
        n += drain_far(ep);
    pgasi_handlers_leave(before);
    ep->n_calls += n;
    return n;
}

uint64_t pgasi_ep_drain_some(int number)
{
    endpoint_t *ep = &eps[number];
    uint32_t i = ep->recent;
    if (ep->turns >= RECENT_TURNS || i >= ep->n_incoming || !has_arrived(ep, i)) {
        ep->turns = 0;
        return pgasi_ep_drain(number);
    }
    pgasi_path_state_t before = pgasi_handlers_enter(number == PGASI_EP_ANY);
    uint64_t n = drain_channel(ep, &ep->incoming[i]);
    pgasi_handlers_leave(before);
    ep->turns = n <= RECENT_CALLS ? ep->turns + 1 : RECENT_TURNS;
    ep->n_calls += n;
    return n;
}

uint64_t pgasi_ep_drain_if_free(int number)
{
    endpoint_t *ep = &eps[number];
    if (!pgasi_ep_pending(number) || !pgasi_spin_try(&ep->lock))
        return 0;
    uint64_t n = pgasi_ep_drain(number);
    pgasi_spin_unlock(&ep->lock);
    return n;
}

void pgasi_ep_drain_out(int number)
{
    for (int i = 0; i <= pgasi_param.chunks_max && pgasi_ep_drain_if_free(number) > 0; i++) {
    }
}

/* ---- looking at what has arrived, which stays ---- */

static place_t place_of(const incoming_t *in)
{
    return (place_t){ in->at, in->chunk, in->base, in->phase };
}

/* The descriptors that were published together at a place, which goes on behind them; false:
 * nothing (yet), or nothing sane, which who drains it says. Endpoint locked. */
static bool next_descs(place_t *p, const char *chunks, uint64_t n_chunks, const char **descs_p,
                       size_t *bytes_p)
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

/* ---- what has arrived from elsewhere for threads that stay away ---- */

/* The receiver is beyond what was told: from where it is on. Nothing of the channel can be written
 * over before it has run. */
static void catch_up(const endpoint_t *ep, tell_t *t)
{
    for (uint32_t i = 0; i < ep->n_incoming; i++) {
        const incoming_t *in = &ep->incoming[i];
        if (in->state != t->channel.state ||
            t->position >= in->base + (uint64_t)(in->at - in->chunk))
            continue;
        t->place = place_of(in);
    }
}

/* Tells senders that wait for it; the descriptors stay. Both locks held. */
static uint64_t tell_channel(const endpoint_t *ep, tell_t *t)
{
    const char *descs;
    size_t bytes;
    uint64_t n = 0;
    catch_up(ep, t);
    place_t p = t->place;
    for (; next_descs(&p, t->channel.chunks, t->channel.n_chunks, &descs, &bytes); n++)
        pgasi_descs_arrived((char *)(uintptr_t)descs, bytes, t->channel.source_rank);
    t->place.chunk = p.chunk;
    t->place.base = p.base;
    __atomic_store_n(&t->place.phase, p.phase, __ATOMIC_RELAXED);
    __atomic_store_n(&t->place.at, p.at, __ATOMIC_RELAXED);
    __atomic_store_n(&t->position, p.base + (uint64_t)(p.at - p.chunk), __ATOMIC_RELAXED);
    return n;
}

/* A look without a lock, as in has_arrived. */
__attribute__((no_sanitize("thread"))) static bool has_untold(int number, const tell_t *t)
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
    endpoint_t *ep = &eps[number];
    const tell_t *some = __atomic_load_n(&ep->tells, __ATOMIC_ACQUIRE);
    while (some && !has_untold(number, some))
        some = some->next;
    if (!some)
        return 0;
    uint64_t n = 0;
    pgasi_path_state_t before = pgasi_serve_begin(); /* answers go as from handlers */
    if (pgasi_spin_try(&ep->lock)) {
        for (tell_t *t = ep->tells; t && !ep->left; t = t->next)
            n += tell_channel(ep, t);
        pgasi_spin_unlock(&ep->lock);
    }
    pgasi_serve_end(before);
    return n;
}

/* The sender has joined, but the endpoint learns that in its turn only. Without memory it tells
 * when calls run. */
static void expect(int number, int source_rank, const char *descs, size_t bytes)
{
    pgasi_ctl_t ctl;
    tell_t t = { .position = 0 };
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
    tell_t *kept = malloc(sizeof *kept);
    if (!kept)
        return;
    for (const tell_t *other = eps[number].tells; other; other = other->next) {
        if (other->channel.state == t.channel.state) { /* said twice */
            free(kept);
            return;
        }
    }
    t.next = eps[number].tells;
    *kept = t;
    __atomic_store_n(&eps[number].tells, kept, __ATOMIC_RELEASE);
    __atomic_store_n(&some_tells, true, __ATOMIC_RELEASE);
}

uint64_t pgasi_eps_report(void)
{
    uint64_t n = 0;
    if (PGAS_LIKELY(!__atomic_load_n(&some_tells, __ATOMIC_ACQUIRE)))
        return 0;
    for (int p = PGASI_EP_FIRST_THREAD; p < pgasi_n_eps; p++)
        n += report_ep(p);
    return n;
}

/* ---- threads that left ---- */

void pgasi_ep_set_left(int number, bool left)
{
    uint64_t bit = UINT64_C(1) << (number - PGASI_EP_FIRST_THREAD);
    pgasi_spin_lock(&eps[number].lock, 0);
    __atomic_store_n(&eps[number].left, left, __ATOMIC_RELAXED);
    pgasi_spin_unlock(&eps[number].lock);
    if (left)
        __atomic_fetch_or(&pgasi_eps_left, bit, __ATOMIC_RELEASE);
    else
        __atomic_fetch_and(&pgasi_eps_left, ~bit, __ATOMIC_RELEASE);
}

void pgasi_ep_serve_for_all(int number)
{
    __atomic_fetch_or(&pgasi_eps_left, UINT64_C(1) << (number - PGASI_EP_FIRST_THREAD),
                      __ATOMIC_RELEASE);
}

uint64_t pgasi_eps_refuse(void)
{
    uint64_t bits = __atomic_load_n(&pgasi_eps_left, __ATOMIC_RELAXED), n = 0;
    for (; PGAS_UNLIKELY(bits != 0); bits &= bits - 1) {
        int number = PGASI_EP_FIRST_THREAD + __builtin_ctzll(bits);
        if (pgasi_ep_used(number))
            n += pgasi_ep_drain_if_free(number);
    }
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

/* Up to the first mark that is missing. */
static uint64_t count_channel(const incoming_t *in)
{
    place_t p = place_of(in);
    const char *descs;
    size_t bytes;
    uint64_t n = 0;
    while (next_descs(&p, in->chunks, in->n_chunks, &descs, &bytes))
        n += count_descs(descs, bytes);
    return n;
}

/* Endpoint locked. */
static uint64_t count_waiting(int number)
{
    endpoint_t *ep = &eps[number];
    uint32_t n_opened =
        __atomic_load_n(&pgasi_eps_opened[number * WORDS_PER_LINE], __ATOMIC_ACQUIRE);
    if (n_opened != ep->n_opened_seen)
        find_opened(ep, n_opened);
    uint64_t n = 0;
    for (uint32_t i = 0; i < ep->n_incoming; i++)
        n += count_channel(&ep->incoming[i]);
    pgasi_spin_lock(&ep->far_lock, 0);
    for (const far_t *f = ep->far; f; f = f->next)
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
            !pgasi_spin_try(&eps[number].lock))
            continue;
        uint64_t n = eps[number].left ? 0 : count_waiting(number);
        pgasi_spin_unlock(&eps[number].lock);
        if (n)
            pgasi_warn_once(
                &warned, "call",
                "pgas_quiesce waits: %llu calls are for slot %d of this rank, which no thread has",
                (unsigned long long)n, slot);
    }
}

/* ---- sums ---- */

uint64_t pgasi_recvq_consumed(void)
{
    uint64_t sum = 0;
    for (int p = 0; p < pgasi_n_eps; p++) {
        uint32_t n = __atomic_load_n(&eps[p].n_incoming, __ATOMIC_ACQUIRE);
        for (uint32_t i = 0; i < n; i++)
            sum += __atomic_load_n(&eps[p].incoming[i].state->head, __ATOMIC_ACQUIRE);
        sum += __atomic_load_n(&eps[p].far_consumed, __ATOMIC_ACQUIRE);
    }
    return sum;
}

uint64_t pgasi_recvq_n_calls(void)
{
    uint64_t sum = 0;
    for (int p = 0; p < pgasi_n_eps; p++)
        sum += __atomic_load_n(&eps[p].n_calls, __ATOMIC_RELAXED);
    return sum;
}

void pgasi_recvq_count(uint64_t *n_channels_p, uint64_t *n_grown_p)
{
    *n_channels_p = *n_grown_p = 0;
    for (int p = 0; p < pgasi_n_eps; p++) {
        uint32_t n = __atomic_load_n(&eps[p].n_incoming, __ATOMIC_ACQUIRE);
        *n_channels_p += n;
        for (uint32_t i = 0; i < n; i++)
            *n_grown_p += eps[p].incoming[i].grown;
    }
}
