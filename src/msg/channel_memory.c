/* Chunks for channels from other nodes: see channel_memory.h.
 *
 * A sender sends a few requests per channel, so a search through a bitmap is enough. One thread at
 * a time handles messages, and only handlers change these tables. A control message is checked
 * against what was granted, because it may come from a rank whose memory is damaged. */
#include "msg/channel_memory.h"

#include <dirent.h>
#include <stdlib.h>
#include <string.h>

#include "base/bitmap.h"
#include "base/checks.h"
#include "base/log.h"
#include "base/param.h"
#include "boot/boot.h"
#include "boot/wait.h"
#include "msg/recv_queue.h"
#include "msg/send_queue.h"
#include "msg/descriptor.h"
#include "mem/ctx.h"
#include "mem/segment.h"

/* The sender to which a channel was granted. */
typedef struct {
    int source;
    uint32_t ep, ctx, first;
    bool joined;
} owner_t;

pgasi_chanmem_t pgasi_chanmem;

static struct {
    uint64_t *taken, *used; /* by chunk: granted now; ever granted */
    uint32_t *channel_of;   /* by chunk, while it is granted */
    owner_t *owners;        /* by channel */
    uint32_t n_owners;      /* endpoints read it, too */
    uint32_t n_taken, n_taken_high;
    uint64_t n_refused;
    size_t pool_bytes; /* of one context's buffers; 0: none */
} memory;

/* ---- size ---- */

/* Whether there is an adapter that executes puts without a CPU. The folder may exist without
 * any. */
static bool has_rdma_device(void)
{
    DIR *devices = opendir("/sys/class/infiniband");
    const struct dirent *entry = NULL;
    bool found = false;
    while (devices && !found && (entry = readdir(devices)))
        found = entry->d_name[0] != '.';
    if (devices)
        closedir(devices);
    return found;
}

bool pgasi_far_wants_channels(bool same_host)
{
    switch (pgasi_param.far_calls) {
    case PGASI_FAR_CALLS_MESSAGE:
        return false;
    case PGASI_FAR_CALLS_AUTO:
        return same_host || has_rdma_device();
    default:
        return true;
    }
}

/* Plans the chunks, if some rank wants channels. */
static void plan_chunks(uint64_t chunk_bytes)
{
    uint32_t n_first = (uint32_t)PGASI_MIN(pgasi_param.chunks, pgasi_param.chunks_max);
    uint64_t n = PGASI_MIN(pgasi_param.far_chunk_memory / chunk_bytes, (uint64_t)1 << 24) /
                 n_first * n_first;
    if (!n)
        return;
    pgasi_chanmem_t *r = &pgasi_chanmem;
    *r = (pgasi_chanmem_t){ (uint32_t)(n / n_first), (uint32_t)n, n_first, 0, 0, 0 };
    r->states_at = PGASI_ALIGN_UP(sizeof(pgasi_wakeup_t), sizeof(pgasi_channel_state_t));
    r->chunks_at =
        PGASI_ALIGN_UP(r->states_at + r->n_channels * sizeof(pgasi_channel_state_t), 4096);
    r->bytes = r->chunks_at + n * chunk_bytes;
}

pgas_status_t pgasi_chanmem_plan(void)
{
    pgasi_recvq_size_t recvq;
    memset(&pgasi_chanmem, 0, sizeof pgasi_chanmem);
    pgasi_heap_tail_bytes = memory.pool_bytes = 0;
    pgas_status_t status = pgasi_tp ? pgasi_recvq_size_here(&recvq) : PGAS_OK;
    if (!pgasi_tp || status != PGAS_OK)
        /* the start of the receive queues reports this error */
        return status == PGAS_ERR_LIMIT ? PGAS_OK : status;
    if (pgasi_boot_agree(pgasi_far_wants_channels(pgasi_boot.same_host_peers) ? PGAS_ERR_AGAIN
                                                                              : PGAS_OK) != PGAS_OK)
        plan_chunks(recvq.chunk_bytes);
    memory.pool_bytes = PGASI_ALIGN_UP(pgasi_sendq_pool_bytes(recvq.chunk_bytes), 4096);
    pgasi_heap_tail_bytes = pgasi_chanmem.bytes + (size_t)pgasi_n_ctxs * memory.pool_bytes;
    return PGAS_OK;
}

char *pgasi_chanmem_buffers(int ctx)
{
    return memory.pool_bytes
               ? pgasi_heap_tail() + pgasi_chanmem.bytes + (size_t)ctx * memory.pool_bytes
               : NULL;
}

/* ---- granting ---- */

static char *chunk_at(uint64_t number)
{
    return pgasi_heap_tail() + pgasi_chanmem.chunks_at + number * pgasi_chunk_bytes;
}

/* Takes n consecutive chunks for a channel. False: there are none. */
static bool take(uint32_t n, uint32_t channel, uint32_t *first_p, bool *fresh_p)
{
    uint64_t at = 0, size = pgasi_chanmem.n_chunks;
    for (;;) {
        at = pgasi_bitmap_find_clear(memory.taken, size, at);
        if (at + n > size)
            return false;
        uint64_t end = pgasi_bitmap_find_set(memory.taken, size, at);
        if (end - at >= n)
            break;
        at = end;
    }
    *fresh_p = true;
    for (uint64_t i = at; i < at + n; i++) {
        *fresh_p = *fresh_p && !pgasi_bitmap_test(memory.used, i);
        pgasi_bitmap_set(memory.taken, i);
        pgasi_bitmap_set(memory.used, i);
        memory.channel_of[i] = channel;
    }
    memory.n_taken += n;
    memory.n_taken_high = PGASI_MAX(memory.n_taken_high, memory.n_taken);
    *first_p = (uint32_t)at;
    return true;
}

static owner_t *owner_at(const pgasi_ctl_t *ctl, int source)
{
    owner_t *o = ctl->channel < __atomic_load_n(&memory.n_owners, __ATOMIC_ACQUIRE)
                     ? &memory.owners[ctl->channel]
                     : NULL;
    return o && o->source == source && o->ep == ctl->ep && o->ctx == ctl->ctx ? o : NULL;
}

/* Each sender has one channel, so that an endpoint has room for all that may join. */
static bool has_one(const pgasi_ctl_t *ctl, int source)
{
    bool has = false;
    for (uint32_t i = 0; i < memory.n_owners && !has; i++)
        has = memory.owners[i].source == source && memory.owners[i].ep == ctl->ep &&
              memory.owners[i].ctx == ctl->ctx;
    return has;
}

bool pgasi_chanmem_grant(pgasi_ctl_t *ctl, int source, pgasi_segment_wire_t *wire_p)
{
    bool fresh = false;
    if (has_one(ctl, source))
        return false;
    bool got = memory.n_owners < pgasi_chanmem.n_channels &&
               pgasi_segment_describe(PGASI_HEAP_OFFSET, wire_p) == PGAS_OK &&
               take(pgasi_chanmem.n_first, memory.n_owners, &ctl->number, &fresh);
    memory.n_refused += !got;
    ctl->n = got ? pgasi_chanmem.n_first : 0;
    ctl->fresh = fresh;
    if (got) {
        ctl->channel = memory.n_owners;
        memory.owners[memory.n_owners] = (owner_t){ source, ctl->ep, ctl->ctx, ctl->number, false };
        __atomic_store_n(&memory.n_owners, memory.n_owners + 1, __ATOMIC_RELEASE);
        *(uint64_t *)(void *)chunk_at(ctl->number) = 0;
    }
    return true;
}

bool pgasi_chanmem_grow(pgasi_ctl_t *ctl, int source)
{
    bool fresh = false;
    if (!owner_at(ctl, source))
        return false;
    ctl->n = take(1, ctl->channel, &ctl->number, &fresh);
    ctl->fresh = fresh;
    return true;
}

/* A further chunk of the sender, or one of a channel that it declines. */
static bool may_give_back(const pgasi_ctl_t *ctl, const owner_t *o)
{
    bool own = o && ctl->number < pgasi_chanmem.n_chunks &&
               pgasi_bitmap_test(memory.taken, ctl->number) &&
               memory.channel_of[ctl->number] == ctl->channel;
    return own && (ctl->number - o->first >= pgasi_chanmem.n_first ||
                   !__atomic_load_n(&o->joined, __ATOMIC_RELAXED));
}

bool pgasi_chanmem_give_back(const pgasi_ctl_t *ctl, int source)
{
    if (!may_give_back(ctl, owner_at(ctl, source)))
        return false;
    pgasi_bitmap_clear(memory.taken, ctl->number);
    memory.n_taken--;
    return true;
}

static pgasi_join_t join_of(const pgasi_ctl_t *ctl, const owner_t *o)
{
    char *region = pgasi_heap_tail();
    pgasi_channel_state_t *state =
        (pgasi_channel_state_t *)(void *)(region + pgasi_chanmem.states_at) + ctl->channel;
    return (pgasi_join_t){ (int)ctl->ep,
                           o->source,
                           (int)ctl->ctx,
                           state,
                           region + pgasi_chanmem.chunks_at,
                           o->first,
                           pgasi_chanmem.n_first,
                           pgasi_chanmem.n_chunks,
                           ctl->by_put != 0 };
}

bool pgasi_chanmem_find(const pgasi_ctl_t *ctl, int source, pgasi_join_t *join_p)
{
    const owner_t *o = ctl->what == PGASI_CTL_JOIN ? owner_at(ctl, source) : NULL;
    if (!o || __atomic_load_n(&o->joined, __ATOMIC_RELAXED))
        return false;
    *join_p = join_of(ctl, o);
    return true;
}

bool pgasi_chanmem_join(const pgasi_ctl_t *ctl, int source)
{
    owner_t *o = owner_at(ctl, source);
    if (!o || o->joined)
        return false;
    pgasi_join_t join = join_of(ctl, o);
    __atomic_store_n(&o->joined, true, __ATOMIC_RELAXED);
    pgasi_recvq_join(&join);
    return true;
}

/* ---- start and stop ---- */

/* Peers of this host may map the channel memory. They then also wake its rank by the wakeup flag in
 * it. */
static pgas_status_t move_wakeups(void)
{
    pgasi_wakeup_t **wakeups = calloc((size_t)pgasi_boot.node_size, sizeof(pgasi_wakeup_t *));
    pgas_status_t status = pgasi_boot_agree(wakeups ? PGAS_OK : PGAS_ERR_NO_MEMORY);
    if (status == PGAS_OK) {
        for (int i = 0; i < pgasi_boot.node_size; i++)
            wakeups[i] = (pgasi_wakeup_t *)(void *)pgasi_heap_tail_at(i);
        pgasi_wait_make_wakeup(wakeups[pgasi_boot.node_rank]);
        status = pgasi_boot_barrier();
    }
    if (status == PGAS_OK)
        status = pgasi_boot_agree(pgasi_wait_move_wakeups(wakeups));
    free(wakeups);
    return status;
}

/* Channels from other nodes are in the zone of the initialising thread, like the others for the
 * rank. Pages that a card has pinned at registration stay where that thread has put them. Only
 * whole pages are placed. */
static void place(void)
{
    uintptr_t page = pgasi_heap_page_bytes, from = (uintptr_t)pgasi_heap_tail(),
              first = PGASI_ALIGN_UP(from, page),
              end = PGASI_ALIGN_DOWN(from + pgasi_heap_tail_bytes, page);
    if (pgasi_recvq_zone >= 0 && first < end)
        (void)pgasi_place_memory((void *)first, end - first, pgasi_recvq_zone);
}

pgas_status_t pgasi_chanmem_start(void)
{
    size_t words = pgasi_bitmap_words(pgasi_chanmem.n_chunks) + 1;
    memory.n_owners = memory.n_taken = memory.n_taken_high = 0;
    memory.n_refused = 0;
    memory.channel_of = pgasi_lazy_alloc((pgasi_chanmem.n_chunks + 1) * sizeof *memory.channel_of);
    memory.taken = calloc(words, sizeof *memory.taken);
    memory.used = calloc(words, sizeof *memory.used);
    memory.owners = pgasi_lazy_alloc((pgasi_chanmem.n_channels + 1) * sizeof *memory.owners);
    pgas_status_t status = memory.taken && memory.used && memory.channel_of && memory.owners
                               ? PGAS_OK
                               : PGAS_ERR_NO_MEMORY;
    bool movable = status == PGAS_OK && pgasi_chanmem.n_chunks && pgasi_heap_from_transport;
    if (status == PGAS_OK && pgasi_heap_tail_bytes)
        place();
    status = pgasi_boot_agree(status);
    if (status == PGAS_OK && pgasi_boot_agree(movable ? PGAS_OK : PGAS_ERR_UNSUPPORTED) == PGAS_OK)
        status = move_wakeups();
    return status;
}

void pgasi_chanmem_stop(void)
{
    memory.pool_bytes = 0;
    pgasi_wait_restore_wakeups();
    free(memory.taken);
    free(memory.used);
    if (memory.owners)
        pgasi_lazy_free(memory.owners, (pgasi_chanmem.n_channels + 1) * sizeof *memory.owners);
    if (memory.channel_of)
        pgasi_lazy_free(memory.channel_of,
                        (pgasi_chanmem.n_chunks + 1) * sizeof *memory.channel_of);
    memory.taken = memory.used = NULL;
    memory.channel_of = NULL;
    memory.owners = NULL;
}

void pgasi_chanmem_count(uint32_t *n_p, uint32_t *high_p, uint64_t *n_refused_p)
{
    *n_p = memory.n_taken;
    *high_p = memory.n_taken_high;
    *n_refused_p = memory.n_refused;
}
