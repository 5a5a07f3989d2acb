/* Rings of the node, receiving side: see inbox.h.
 *
 * Shaped for many small calls from few active senders: a look costs one load per ring that was ever used, a single call
 * moves one cache line, a published batch is walked without looking at marks. Rings live in sparse memory: one that was
 * never used costs nothing. */
#include "call/inbox.h"

#include <sched.h>
#include <stdlib.h>

#include "base/bitmap.h"
#include "base/log.h"
#include "base/param.h"
#include "boot/boot.h"
#include "boot/wait.h"
#include "call/handler.h"
#include "call/outbox.h"
#include "call/record.h"
#include "mem/lane.h"
#include "mem/thread.h"

#define HEADER_BYTES 65536 /* bitmap of opened rings behind the counter */
#define DRAIN_BYTES 65536  /* from one ring before the next gets its turn */

typedef struct {
    PGASI_ALIGNED(64) uint64_t consumed;
} line_t;

typedef struct {
    PGASI_ALIGNED(64) uint32_t n_opened; /* changes whenever a bit is set */
    PGASI_ALIGNED(64) uint64_t opened[HEADER_BYTES / 8 - 16];
} header_t;

typedef struct {
    char *ring;
    uint64_t head, told;
    line_t *line;
    int source_rank, source_node_rank;
} incoming_t;

uint64_t pgasi_ring_bytes;

static pgasi_shm_t shm;
static void **inbox_of; /* [node_size] */
static size_t n_channels;
static incoming_t *incoming; /* [n_channels], the first n_incoming used */
static uintptr_t *marks; /* [n_channels] where the next record of each will show; lowest bit: in an odd lap */
static const uint32_t *n_opened_p; /* of the own header */
static uint32_t n_incoming, n_opened_seen;
static uint64_t n_calls;
static PGASI_ALIGNED(64) int inbox_lock;

static header_t *header_of(int node_rank)
{
    return inbox_of[node_rank];
}

static line_t *line_at(int node_rank, size_t channel)
{
    return (line_t *)(void *)((char *)inbox_of[node_rank] + HEADER_BYTES) + channel;
}

static size_t lines_bytes(size_t n)
{
    return PGASI_ALIGN_UP(n * sizeof(line_t), 4096);
}

static char *ring_at(int node_rank, size_t channel)
{
    return (char *)inbox_of[node_rank] + HEADER_BYTES + lines_bytes(n_channels) + channel * pgasi_ring_bytes;
}

/* Rings as large as asked, smaller when they would not fit together, never too small for the largest call. */
pgas_status_t pgasi_inbox_size(const pgasi_params_t *p, size_t n_ranks, pgasi_inbox_size_t *size_p)
{
    size_t n = n_ranks * (PGASI_LANE_FIRST_OWN + (size_t)p->lanes);
    uint64_t least = 4096;
    while (least < 2 * (p->call_max + 64))
        least *= 2;
    uint64_t ring = PGASI_MAX(p->ring_size, least);
    while (ring > least && n * ring > p->ring_memory)
        ring /= 2;
    *size_p = (pgasi_inbox_size_t){ n, ring, HEADER_BYTES + lines_bytes(n) + n * ring };
    return n * ring > p->ring_memory || n > (HEADER_BYTES / 8 - 16) * 64 ? PGAS_ERR_LIMIT : PGAS_OK;
}

static pgas_status_t choose_size(pgasi_inbox_size_t *size_p)
{
    pgas_status_t status = pgasi_inbox_size(&pgasi_param, (size_t)pgasi_boot.node_size, size_p);
    n_channels = size_p->n_channels;
    pgasi_ring_bytes = size_p->ring_bytes;
    if (status != PGAS_OK && pgasi_boot.node_rank == 0) {
        if (n_channels * pgasi_ring_bytes > pgasi_param.ring_memory)
            PGASI_ERROR("call", "%zu channels of %llu bytes exceed PGAS_RING_MEMORY=%zu: raise it, or lower PGAS_CALL_MAX "
                        "or PGAS_LANES", n_channels, (unsigned long long)pgasi_ring_bytes, pgasi_param.ring_memory);
        else
            PGASI_ERROR("call", "%zu channels into a rank are too many: lower PGAS_LANES", n_channels);
    }
    return status;
}

pgas_status_t pgasi_inboxes_start(void)
{
    pgasi_inbox_size_t size;
    pgas_status_t status = choose_size(&size);
    inbox_of = calloc((size_t)pgasi_boot.node_size, sizeof *inbox_of);
    incoming = calloc(n_channels, sizeof *incoming);
    marks = calloc(n_channels, sizeof *marks);
    if (status == PGAS_OK && (!inbox_of || !incoming || !marks))
        status = PGAS_ERR_NO_MEMORY;
    status = pgasi_boot_agree(status);
    if (status == PGAS_OK)
        status = pgasi_shm_create_each(size.bytes, false, &shm, inbox_of);
    if (status == PGAS_OK)
        n_opened_p = &header_of(pgasi_boot.node_rank)->n_opened;
    else
        pgasi_inboxes_stop();
    n_incoming = n_opened_seen = 0;
    n_calls = 0;
    inbox_lock = 0;
    return status;
}

void pgasi_inboxes_stop(void)
{
    if (shm.base)
        pgasi_shm_release_each(&shm, inbox_of);
    shm = (pgasi_shm_t){ NULL, 0, 0 };
    free(inbox_of);
    free(incoming);
    free(marks);
    marks = NULL;
    inbox_of = NULL;
    incoming = NULL;
    n_incoming = 0;
}

void pgasi_inbox_open(int node_rank, int lane, char **ring_p, const uint64_t **consumed_p)
{
    size_t channel = (size_t)pgasi_boot.node_rank * (size_t)pgasi_n_lanes + (size_t)lane;
    header_t *header = header_of(node_rank);
    *ring_p = ring_at(node_rank, channel);
    *consumed_p = &line_at(node_rank, channel)->consumed;
    __atomic_fetch_or(&header->opened[channel / 64], UINT64_C(1) << channel % 64, __ATOMIC_RELAXED);
    __atomic_fetch_add(&header->n_opened, 1, __ATOMIC_RELEASE);
}

/* ---- the lock ---- */

bool pgasi_inbox_try_lock(void)
{
    return __atomic_load_n(&inbox_lock, __ATOMIC_RELAXED) == 0 &&
           __atomic_exchange_n(&inbox_lock, 1, __ATOMIC_ACQUIRE) == 0;
}

void pgasi_inbox_lock(void)
{
    while (!pgasi_inbox_try_lock())
        sched_yield();
}

void pgasi_inbox_unlock(void)
{
    __atomic_store_n(&inbox_lock, 0, __ATOMIC_RELEASE);
}

/* ---- receiving ---- */

/* Takes up rings that senders have opened since; lock held. */
static void find_opened(uint32_t n_opened)
{
    header_t *header = header_of(pgasi_boot.node_rank);
    for (size_t channel = 0; channel < n_channels; channel++) {
        if (!(__atomic_load_n(&header->opened[channel / 64], __ATOMIC_RELAXED) >> channel % 64 & 1))
            continue;
        bool known = false;
        for (uint32_t i = 0; i < n_incoming && !known; i++)
            known = incoming[i].line == line_at(pgasi_boot.node_rank, channel);
        if (known)
            continue;
        incoming_t *in = &incoming[n_incoming];
        in->ring = ring_at(pgasi_boot.node_rank, channel);
        in->line = line_at(pgasi_boot.node_rank, channel);
        in->source_node_rank = (int)(channel / (size_t)pgasi_n_lanes);
        in->source_rank = pgasi_boot.node_members[in->source_node_rank];
        __atomic_store_n(&marks[n_incoming], (uintptr_t)in->ring, __ATOMIC_RELAXED);
        __atomic_store_n(&n_incoming, n_incoming + 1, __ATOMIC_RELEASE);
    }
    __atomic_store_n(&n_opened_seen, n_opened, __ATOMIC_RELAXED);
}

static inline uint64_t *mark_at(const incoming_t *in, uint64_t position)
{
    return (uint64_t *)(void *)(in->ring + (position & (pgasi_ring_bytes - 1)));
}

static inline uint64_t lap_of(bool odd)
{
    return odd ? PGAS_CALL_LAP_ODD : PGAS_CALL_LAP_EVEN;
}

/* Looks without the lock, perhaps at a place that another thread has read meanwhile and a sender writes again: a wrong
 * answer costs a round, for who holds the lock looks again. (ThreadSanitizer cannot know; atomics it would check.) */
__attribute__((no_sanitize("thread"))) bool pgasi_inbox_pending(void)
{
    uint32_t n = __atomic_load_n(&n_incoming, __ATOMIC_ACQUIRE);
    for (uint32_t i = 0; i < n; i++) {
        uintptr_t mark = __atomic_load_n(&marks[i], __ATOMIC_RELAXED);
        if (pgasi_rec_has_arrived(*(const volatile uint64_t *)(mark & ~(uintptr_t)1), lap_of(mark & 1)))
            return true;
    }
    return __atomic_load_n(n_opened_p, __ATOMIC_RELAXED) != __atomic_load_n(&n_opened_seen, __ATOMIC_RELAXED);
}

static void tell(incoming_t *in)
{
    in->told = in->head;
    __atomic_store_n(&in->line->consumed, in->head, __ATOMIC_RELEASE);
    pgasi_bell_ring(in->source_node_rank);
}

static inline void advance(incoming_t *in, uint64_t bytes)
{
    __atomic_store_n(&in->head, in->head + bytes, __ATOMIC_RELEASE);
    uintptr_t mark = (uintptr_t)mark_at(in, in->head) | ((in->head & pgasi_ring_bytes) != 0);
    __atomic_store_n(&marks[in - incoming], mark, __ATOMIC_RELAXED);
    if (in->head - in->told >= pgasi_ring_bytes / 4)
        tell(in);
}

/* One published thing of any kind: a batch, a pad, a record with a token or for the library itself. */
static uint64_t take(incoming_t *in, const uint64_t *mark, uint64_t header)
{
    uint64_t to_end = pgasi_ring_bytes - (in->head & (pgasi_ring_bytes - 1));
    uint64_t n = 0, bytes;
    uint32_t id = pgasi_rec_handler(header);
    if (id == PGASI_REC_PAD) {
        bytes = to_end;
    } else {
        bool batch = id == PGASI_REC_BATCH;
        bytes = batch ? 8 + pgasi_rec_bytes(header) : pgasi_rec_room(header);
        if (PGAS_UNLIKELY(bytes > to_end))
            pgasi_fatal("call", "broken record of %llu bytes from rank %d", (unsigned long long)bytes, in->source_rank);
        n = pgasi_records_run((const char *)(batch ? mark + 1 : mark), bytes - (batch ? 8 : 0), in->source_rank);
    }
    advance(in, PGASI_ALIGN_UP(bytes, PGASI_RING_UNIT));
    return n;
}

/* A record that is one call of a program's handler, with nobody waiting for it. */
static inline bool is_plain(uint64_t header)
{
    const uint64_t special = PGASI_REC_TOKEN | (uint64_t)PGASI_REC_MORE_MAX << PGASI_REC_MORE_SHIFT;
    return !(header & special) && pgasi_rec_handler(header) - 1u < pgasi_n_handlers;
}

/* Runs what has arrived in one ring, up to a limit. Plain records are run right here. */
static uint64_t drain_ring(incoming_t *in)
{
    const uint64_t mask = pgasi_ring_bytes - 1, stop = in->head + DRAIN_BYTES, step = pgasi_ring_bytes / 4;
    const uint32_t source_bits = (uint32_t)in->source_rank << PGAS_SLOT_BITS;
    const char *ring = in->ring;
    uint64_t n = 0, header = 0;
    bool arrived = true;
    while (arrived && in->head < stop) {
        uint64_t head = in->head, chunk = head + step;
        const uint64_t *mark;
        for (;;) {
            mark = (const uint64_t *)(const void *)(ring + (head & mask));
            header = __atomic_load_n(mark, __ATOMIC_ACQUIRE);
            arrived = pgasi_rec_has_arrived(header, pgasi_rec_lap(head, mask + 1));
            if (!arrived || !is_plain(header) || head >= chunk)
                break;
            size_t bytes = pgasi_rec_bytes(header);
            if (PGAS_UNLIKELY(bytes > mask - (head & mask) - 7))
                break; /* broken: take() says so */
            const pgasi_handler_entry_t *e = &pgasi_handlers[pgasi_rec_handler(header)];
            e->fn(mark + 1, bytes, source_bits | (pgas_thread_t)pgasi_rec_slot(header), e->context);
            head += PGASI_ALIGN_UP(8 + bytes, PGASI_RING_UNIT);
            n++;
        }
        if (head != in->head)
            advance(in, head - in->head);
        if (arrived && head < chunk)
            n += take(in, mark, header);
    }
    /* A sender needs half of the ring at most, so it never waits for less than this. */
    if (!arrived && in->head - in->told >= pgasi_ring_bytes / 8)
        tell(in);
    return n;
}

uint64_t pgasi_inbox_drain(void)
{
    uint32_t n_opened = __atomic_load_n(&header_of(pgasi_boot.node_rank)->n_opened, __ATOMIC_ACQUIRE);
    if (PGAS_UNLIKELY(n_opened != n_opened_seen))
        find_opened(n_opened);
    uint64_t n = 0;
    pgasi_path_state_t before = pgasi_handlers_enter();
    for (uint32_t i = 0; i < n_incoming; i++)
        n += drain_ring(&incoming[i]);
    pgasi_handlers_leave(before);
    n_calls += n;
    return n;
}

uint64_t pgasi_inbox_consumed(void)
{
    uint64_t sum = 0;
    uint32_t n = __atomic_load_n(&n_incoming, __ATOMIC_ACQUIRE);
    for (uint32_t i = 0; i < n; i++)
        sum += __atomic_load_n(&incoming[i].head, __ATOMIC_ACQUIRE);
    return sum;
}

uint64_t pgasi_inbox_n_calls(void)
{
    return __atomic_load_n(&n_calls, __ATOMIC_RELAXED);
}
