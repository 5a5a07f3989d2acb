/* Chunks for channels from other nodes: see region.h.
 *
 * Asked for a few times per channel, so a bitmap that is searched is enough. All of it is touched
 * while messages are handled, which one thread does at a time. What a note says is checked against
 * what was granted: it may come from a rank that is out of its mind. */
#include "msg/region.h"

#include <dirent.h>
#include <stdlib.h>
#include <string.h>

#include "base/bitmap.h"
#include "base/checks.h"
#include "base/log.h"
#include "base/param.h"
#include "boot/boot.h"
#include "boot/wait.h"
#include "msg/far_channel.h"
#include "msg/dispatch.h"
#include "msg/inbox.h"
#include "msg/outbox.h"
#include "msg/descriptor.h"
#include "mem/ctx.h"
#include "mem/segment.h"

/* Who has a line. */
typedef struct {
    int source;
    uint32_t port, ctx, first;
    bool joined;
} owner_t;

pgasi_region_t pgasi_region;

static uint64_t *taken, *used;                   /* by chunk: granted now; ever */
static uint32_t *channel_of;                     /* by chunk, while it is granted */
static owner_t *owners;                          /* by channel */
static uint32_t n_owners, n_taken, n_taken_high; /* n_owners: ports look at it too */
static uint64_t n_refused;
static size_t pool_bytes; /* of one context's buffers; 0: none */

/* ---- size ---- */

/* An adapter that carries out puts by itself; the folder may be there without any. */
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

/* Of chunks, where some rank wants channels. */
static void plan_chunks(uint64_t chunk_bytes)
{
    uint32_t n_first = (uint32_t)PGASI_MIN(pgasi_param.chunks, pgasi_param.chunks_max);
    uint64_t n = PGASI_MIN(pgasi_param.far_chunk_memory / chunk_bytes, (uint64_t)1 << 24) /
                 n_first * n_first;
    if (!n)
        return;
    pgasi_region_t *r = &pgasi_region;
    *r = (pgasi_region_t){ (uint32_t)(n / n_first), (uint32_t)n, n_first, 0, 0, 0 };
    r->lines_at = PGASI_ALIGN_UP(sizeof(pgasi_bell_t), sizeof(pgasi_line_t));
    r->chunks_at = PGASI_ALIGN_UP(r->lines_at + r->n_channels * sizeof(pgasi_line_t), 4096);
    r->bytes = r->chunks_at + n * chunk_bytes;
}

pgas_status_t pgasi_region_plan(void)
{
    pgasi_inbox_size_t inbox;
    memset(&pgasi_region, 0, sizeof pgasi_region);
    pgasi_heap_tail_bytes = pool_bytes = 0;
    pgas_status_t status = pgasi_tp ? pgasi_inbox_size_here(&inbox) : PGAS_OK;
    if (!pgasi_tp || status != PGAS_OK)
        return status == PGAS_ERR_LIMIT ? PGAS_OK : status; /* told where it is made */
    if (pgasi_boot_agree(pgasi_far_wants_channels(pgasi_boot.same_host_peers) ? PGAS_ERR_AGAIN
                                                                              : PGAS_OK) != PGAS_OK)
        plan_chunks(inbox.chunk_bytes);
    pool_bytes = PGASI_ALIGN_UP(pgasi_outbox_pool_bytes(inbox.chunk_bytes), 4096);
    pgasi_heap_tail_bytes = pgasi_region.bytes + (size_t)pgasi_n_ctxs * pool_bytes;
    return PGAS_OK;
}

char *pgasi_region_buffers(int ctx)
{
    return pool_bytes ? pgasi_heap_tail() + pgasi_region.bytes + (size_t)ctx * pool_bytes : NULL;
}

/* ---- granting ---- */

static char *chunk_at(uint64_t number)
{
    return pgasi_heap_tail() + pgasi_region.chunks_at + number * pgasi_chunk_bytes;
}

/* n chunks in a row for a channel; false if there are none. */
static bool take(uint32_t n, uint32_t channel, uint32_t *first_p, bool *fresh_p)
{
    uint64_t at = 0, size = pgasi_region.n_chunks;
    for (;;) {
        at = pgasi_bitmap_find_clear(taken, size, at);
        if (at + n > size)
            return false;
        uint64_t end = pgasi_bitmap_find_set(taken, size, at);
        if (end - at >= n)
            break;
        at = end;
    }
    *fresh_p = true;
    for (uint64_t i = at; i < at + n; i++) {
        *fresh_p = *fresh_p && !pgasi_bitmap_test(used, i);
        pgasi_bitmap_set(taken, i);
        pgasi_bitmap_set(used, i);
        channel_of[i] = channel;
    }
    n_taken += n;
    n_taken_high = PGASI_MAX(n_taken_high, n_taken);
    *first_p = (uint32_t)at;
    return true;
}

void pgasi_note_tell(int rank, const pgasi_note_t *note, const void *data, size_t bytes)
{
    pgas_status_t status =
        pgasi_outbox_answer(rank, PGASI_DESC_CHANNEL, note, sizeof *note, data, bytes);
    if (status != PGAS_OK && status != PGAS_ERR_PEER)
        PGASI_ERROR("call", "cannot tell rank %d about its channel: %s", rank,
                    pgas_status_text(status));
}

static void drop(int source)
{
    if (pgasi_first_dropped())
        PGASI_ERROR("call", "rank %d tells nonsense of a channel: dropped", source);
}

static owner_t *owner_at(const pgasi_note_t *note, int source)
{
    owner_t *o = note->channel < __atomic_load_n(&n_owners, __ATOMIC_ACQUIRE)
                     ? &owners[note->channel]
                     : NULL;
    return o && o->source == source && o->port == note->port && o->ctx == note->ctx ? o : NULL;
}

/* One channel each, so that a port has room for all that may join. */
static bool has_one(const pgasi_note_t *note, int source)
{
    bool has = false;
    for (uint32_t i = 0; i < n_owners && !has; i++)
        has = owners[i].source == source && owners[i].port == note->port &&
              owners[i].ctx == note->ctx;
    return has;
}

static void on_ask(pgasi_note_t *note, int source)
{
    pgasi_segment_wire_t wire;
    bool fresh = false;
    memset(&wire, 0, sizeof wire);
    bool got = n_owners < pgasi_region.n_channels &&
               pgasi_segment_describe(PGASI_HEAP_OFFSET, &wire) == PGAS_OK &&
               take(pgasi_region.n_first, n_owners, &note->number, &fresh);
    n_refused += !got;
    note->what = PGASI_NOTE_GRANT;
    note->n = got ? pgasi_region.n_first : 0;
    note->fresh = fresh;
    if (got) {
        note->channel = n_owners;
        owners[n_owners] = (owner_t){ source, note->port, note->ctx, note->number, false };
        __atomic_store_n(&n_owners, n_owners + 1, __ATOMIC_RELEASE);
        *(uint64_t *)(void *)chunk_at(note->number) = 0;
    }
    pgasi_note_tell(source, note, &wire, sizeof wire);
}

static void on_more(pgasi_note_t *note, int source)
{
    bool fresh = false, got = take(1, note->channel, &note->number, &fresh);
    note->what = PGASI_NOTE_CHUNK;
    note->n = got;
    note->fresh = fresh;
    pgasi_note_tell(source, note, NULL, 0);
}

/* One of the sender's further chunks, or of a channel that he does not want. */
static bool may_give_back(const pgasi_note_t *note, const owner_t *o)
{
    bool his = o && note->number < pgasi_region.n_chunks &&
               pgasi_bitmap_test(taken, note->number) && channel_of[note->number] == note->channel;
    return his && (note->number - o->first >= pgasi_region.n_first ||
                   !__atomic_load_n(&o->joined, __ATOMIC_RELAXED));
}

static void on_back(const pgasi_note_t *note)
{
    pgasi_bitmap_clear(taken, note->number);
    n_taken--;
}

static pgasi_join_t join_of(const pgasi_note_t *note, const owner_t *o)
{
    char *region = pgasi_heap_tail();
    pgasi_line_t *line = (pgasi_line_t *)(void *)(region + pgasi_region.lines_at) + note->channel;
    return (pgasi_join_t){ (int)note->port,
                           o->source,
                           (int)note->ctx,
                           line,
                           region + pgasi_region.chunks_at,
                           o->first,
                           pgasi_region.n_chunks,
                           note->by_put != 0 };
}

bool pgasi_region_find(const pgasi_note_t *note, int source, pgasi_join_t *join_p)
{
    const owner_t *o = note->what == PGASI_NOTE_JOIN ? owner_at(note, source) : NULL;
    if (!o || __atomic_load_n(&o->joined, __ATOMIC_RELAXED))
        return false;
    *join_p = join_of(note, o);
    return true;
}

static void on_join(const pgasi_note_t *note, owner_t *o)
{
    pgasi_join_t join = join_of(note, o);
    __atomic_store_n(&o->joined, true, __ATOMIC_RELAXED);
    pgasi_inbox_join(&join);
}

/* False: it makes no sense, and nothing is done. */
static bool follow(pgasi_note_t *note, int source, const char *data, size_t bytes)
{
    owner_t *o = owner_at(note, source);
    bool sane = o != NULL;
    switch (note->what) {
    case PGASI_NOTE_ASK:
        if ((sane = !has_one(note, source)))
            on_ask(note, source);
        return sane;
    case PGASI_NOTE_MORE:
        if (sane)
            on_more(note, source);
        return sane;
    case PGASI_NOTE_JOIN:
        if ((sane = sane && !o->joined))
            on_join(note, o);
        return sane;
    case PGASI_NOTE_BACK:
        if ((sane = may_give_back(note, o)))
            on_back(note);
        return sane;
    default:
        return pgasi_far_channel_note(note, source, data, bytes);
    }
}

static void on_note(const void *args, size_t bytes, pgas_thread_t thread, void *context)
{
    pgasi_note_t note;
    int source = pgas_thread_rank(thread);
    (void)context;
    bool sane = bytes >= sizeof note;
    if (sane)
        memcpy(&note, args, sizeof note);
    sane = sane && note.port < (uint32_t)pgasi_n_ports && note.ctx < (uint32_t)pgasi_n_ctxs;
    if (!sane || !follow(&note, source, (const char *)args + sizeof note, bytes - sizeof note))
        drop(source);
}

static bool on_note_for_left(const void *args, size_t bytes, pgas_thread_t thread)
{
    on_note(args, bytes, thread, NULL);
    return true;
}

/* ---- start and stop ---- */

/* Peers of this host may map the region: then they also wake its rank by the bell in it. */
static pgas_status_t move_bells(void)
{
    pgasi_bell_t **bells = calloc((size_t)pgasi_boot.node_size, sizeof(pgasi_bell_t *));
    pgas_status_t status = pgasi_boot_agree(bells ? PGAS_OK : PGAS_ERR_NO_MEMORY);
    if (status == PGAS_OK) {
        for (int i = 0; i < pgasi_boot.node_size; i++)
            bells[i] = (pgasi_bell_t *)(void *)pgasi_heap_tail_at(i);
        pgasi_wait_make_bell(bells[pgasi_boot.node_rank]);
        status = pgasi_boot_barrier();
    }
    if (status == PGAS_OK)
        status = pgasi_boot_agree(pgasi_wait_move_bells(bells));
    free(bells);
    return status;
}

pgas_status_t pgasi_region_start(void)
{
    size_t words = pgasi_bitmap_words(pgasi_region.n_chunks) + 1;
    pgasi_handler_set_internal(PGASI_DESC_CHANNEL, on_note);
    /* A channel of a thread that has left may be joined: its calls are refused then. */
    pgasi_handler_set_refused(PGASI_DESC_CHANNEL, on_note_for_left);
    n_owners = n_taken = n_taken_high = 0;
    n_refused = 0;
    channel_of = pgasi_lazy_alloc((pgasi_region.n_chunks + 1) * sizeof *channel_of);
    taken = calloc(words, sizeof *taken);
    used = calloc(words, sizeof *used);
    owners = pgasi_lazy_alloc((pgasi_region.n_channels + 1) * sizeof *owners);
    pgas_status_t status = taken && used && channel_of && owners ? PGAS_OK : PGAS_ERR_NO_MEMORY;
    bool movable = status == PGAS_OK && pgasi_region.n_chunks && pgasi_heap_from_transport;
    status = pgasi_boot_agree(status);
    if (status == PGAS_OK && pgasi_boot_agree(movable ? PGAS_OK : PGAS_ERR_UNSUPPORTED) == PGAS_OK)
        status = move_bells();
    return status;
}

void pgasi_region_stop(void)
{
    pool_bytes = 0;
    pgasi_wait_bells_home();
    free(taken);
    free(used);
    if (owners)
        pgasi_lazy_free(owners, (pgasi_region.n_channels + 1) * sizeof *owners);
    if (channel_of)
        pgasi_lazy_free(channel_of, (pgasi_region.n_chunks + 1) * sizeof *channel_of);
    taken = used = NULL;
    channel_of = NULL;
    owners = NULL;
}

void pgasi_region_count(uint32_t *n_p, uint32_t *high_p, uint64_t *n_refused_p)
{
    *n_p = n_taken;
    *high_p = n_taken_high;
    *n_refused_p = n_refused;
}
