/* Segments and the table (rank, GiB) -> address.
 *
 * The heap comes from the transport where peers of the same host are reached through it (fake
 * nodes: the transport then works directly on it, tens of ns instead of a request to the owner),
 * and is mapped at the node's ranks by their keys; otherwise from memfd, registered once. The table
 * is read-only memory except while a segment comes or goes. */
#include "mem/segment.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/bitmap.h"
#include "base/log.h"
#include "base/machine.h"
#include "base/param.h"
#include "boot/boot.h"
#include "boot/hooks.h"
#include "mem/regmem.h"
#include "mem/thread.h"
#include "pgas/mem.h"

static const pgas_segtab_t empty_table = { 0, { { 0, 0 } } };
const pgas_segtab_t *pgas_segtab = &empty_table;

pgasi_segment_t *pgasi_segments;
int pgasi_n_segments;
size_t pgasi_heap_page_bytes;
bool pgasi_heap_from_transport;
size_t pgasi_heap_tail_bytes;
static pgas_segtab_t *table;
static size_t table_bytes;
static void **heap_of; /* [node_size] the node's heaps as mapped here */
/* [node_size] that map them, if they come from the transport */
static pgasi_tp_key_t **heap_keys;
static pgasi_shm_t heap_shm; /* if it comes from memfd */
static uint64_t next_slot;   /* for attached memory */
static uint64_t attached_bytes, attached_high;
/* Slots that are attached, or were and peers may keep the key: a key reaches the old memory for as
 * long as it lives. */
static uint64_t slots_taken[PGASI_SLOTS_PER_RANK / 64];
static pthread_mutex_t attach_lock = PTHREAD_MUTEX_INITIALIZER;

/* ---- the table ---- */

static pgas_status_t table_create(void)
{
    uint64_t n = (uint64_t)pgasi_boot.n_ranks * PGASI_SLOTS_PER_RANK;
    table_bytes = sizeof *table + n * sizeof table->entry[0];
    table = pgasi_lazy_alloc(table_bytes);
    if (!table)
        return PGAS_ERR_NO_MEMORY;
    table->n_entries = n;
    return PGAS_OK;
}

static void table_destroy(void)
{
    pgas_segtab = &empty_table;
    pgasi_lazy_free(table, table_bytes);
    table = NULL;
}

/* Protects or unprotects the pages that hold the entries of (rank, offset ..). */
static void table_protect(pgas_segtab_entry_t *first, uint64_t n, int protection)
{
    uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE);
    uintptr_t from = (uintptr_t)first & ~(page - 1);
    uintptr_t to = ((uintptr_t)(first + n) + page - 1) & ~(page - 1);
    mprotect((void *)from, to - from, protection);
}

/* Enters (or, with address NULL, removes) a segment. */
static void table_set(int rank, uint64_t offset, uint64_t bytes, char *address)
{
    uint64_t first =
        ((uint64_t)rank << (PGAS_OFFSET_BITS - PGAS_SEGTAB_SHIFT)) + (offset >> PGAS_SEGTAB_SHIFT);
    uint64_t n = PGASI_DIV_UP(bytes, PGASI_SLOT_BYTES);
    pgas_segtab_entry_t *entry = table->entry;
    table_protect(entry + first, n, PROT_READ | PROT_WRITE);
    for (uint64_t i = 0; i < n; i++) {
        uint64_t behind = bytes - i * PGASI_SLOT_BYTES;
        entry[first + i].base = address ? (uint64_t)(uintptr_t)(address + i * PGASI_SLOT_BYTES) : 0;
        entry[first + i].bytes = address ? PGASI_MIN(behind, PGASI_SLOT_BYTES) : 0;
    }
    table_protect(entry + first, n, PROT_READ);
}

/* ---- the heap's memory ---- */

/* Allocated by the transport, mapped at the node's ranks through their keys. Collective; same
 * status everywhere. */
static pgas_status_t heap_from_transport(size_t bytes)
{
    typedef struct {
        uint64_t address, key_bytes;
        uint8_t key[PGASI_TP_KEY_MAX];
    } wire_t;
    pgasi_segment_t *heap = &pgasi_segments[0];
    wire_t mine = { 0, PGASI_TP_KEY_MAX, { 0 } };
    wire_t *all = calloc((size_t)pgasi_boot.n_ranks, sizeof *all);
    void *address = NULL;
    pgas_status_t status = all ? PGAS_OK : PGAS_ERR_NO_MEMORY;
    if (status == PGAS_OK)
        status = pgasi_tp->ops->mem_alloc(pgasi_tp, bytes, &heap->mem, &address);
    size_t key_bytes = PGASI_TP_KEY_MAX;
    if (status == PGAS_OK)
        status = pgasi_tp->ops->key_pack(pgasi_tp, heap->mem, mine.key, &key_bytes);
    mine.address = (uint64_t)(uintptr_t)address;
    mine.key_bytes = key_bytes;
    status = pgasi_boot_agree(status);
    if (status == PGAS_OK)
        status = pgasi_boot_agree(pgasi_boot_allgather(&mine, all, sizeof mine));
    for (int i = 0; i < pgasi_boot.node_size && status == PGAS_OK; i++) {
        int rank = pgasi_boot.node_members[i];
        if (rank == pgasi_boot.rank) {
            heap_of[i] = address;
            continue;
        }
        status = pgasi_tp->ops->key_unpack(pgasi_ctxs[0]->tp, rank, all[rank].key,
                                           all[rank].key_bytes, &heap_keys[i]);
        if (status == PGAS_OK)
            status = pgasi_tp->ops->key_map(heap_keys[i], all[rank].address, &heap_of[i]);
    }
    free(all);
    status = pgasi_boot_agree(status);
    if (status == PGAS_OK)
        heap->address = address;
    return status;
}

static void release_heap_keys(void)
{
    for (int i = 0; i < pgasi_boot.node_size; i++) {
        if (heap_keys[i])
            heap_keys[i]->ops->key_release(heap_keys[i]);
        heap_keys[i] = NULL;
    }
}

static bool transport_allocates(void)
{
    if (!pgasi_tp || !pgasi_boot.same_host_peers)
        return false;
    pgasi_tp_attr_t attr;
    memset(&attr, 0, sizeof attr);
    pgasi_tp->ops->query(pgasi_tp, &attr);
    return attr.caps & PGASI_TP_MEM_ALLOC;
}

static bool is_chosen(pgasi_param_id_t id)
{
    return pgasi_param_origins[id] != PGASI_PARAM_FROM_DEFAULT;
}

/* Init only reserves memory, so a heap that does not fit would end the job at some later store.
 * Default sizes pass, because most programs touch little of them. If PGAS_MEMORY_LIMIT is set, it
 * was checked before and replaces this check. */
static pgas_status_t check_fits(size_t bytes)
{
    pgasi_machine_t m;
    char need_text[24], has_text[24], free_text[24], each_text[24];
    uint64_t need = bytes * (uint64_t)pgasi_boot.host_ranks;
    pgasi_machine_read("", &m);
    bool cgroup = m.cgroup_bytes < m.memory_bytes || !m.memory_bytes;
    uint64_t has = cgroup ? m.cgroup_bytes : m.memory_bytes,
             left = cgroup ? m.cgroup_free : m.memory_free;
    if (pgasi_param.memory_limit || need <= left)
        return PGAS_OK;
    bool refused = need > has && (is_chosen(PGASI_PARAM_ID_HEAP_SIZE) ||
                                  is_chosen(PGASI_PARAM_ID_FAR_CHUNK_MEMORY));
    if (pgasi_boot.rank == pgasi_boot.host_members[0])
        PGASI_LOG_AT(refused ? PGASI_LOG_ERROR : PGASI_LOG_INFO, "memory",
                     "%d ranks of this host reserve %s (%s each: PGAS_HEAP_SIZE, "
                     "PGAS_FAR_CHUNK_MEMORY), %s has %s, of which "
                     "%s are free now%s",
                     pgasi_boot.host_ranks, pgasi_machine_bytes_text(need, need_text),
                     pgasi_machine_bytes_text(bytes, each_text),
                     cgroup ? "the cgroup of this job" : "the machine",
                     pgasi_machine_bytes_text(has, has_text),
                     pgasi_machine_bytes_text(left, free_text),
                     refused ? ": lower them, use fewer ranks on a host, or set PGAS_MEMORY_LIMIT "
                               "to what a rank may reserve"
                             : "");
    return refused ? PGAS_ERR_LIMIT : PGAS_OK;
}

static pgas_status_t heap_create(size_t heap_bytes)
{
    size_t bytes = heap_bytes + pgasi_heap_tail_bytes;
    pgasi_segment_t *heap = &pgasi_segments[0];
    pgas_status_t status = pgasi_boot_agree(check_fits(bytes));
    if (status != PGAS_OK)
        return status;
    int use_transport = transport_allocates();
    status = pgasi_boot_agree(use_transport ? PGAS_OK : PGAS_ERR_UNSUPPORTED);
    if (status == PGAS_OK) {
        status = heap_from_transport(bytes);
        pgasi_heap_from_transport = status == PGAS_OK;
        pgasi_heap_page_bytes = (size_t)sysconf(_SC_PAGESIZE);
    }
    if (status != PGAS_OK) {
        release_heap_keys();
        if (heap->mem)
            pgasi_tp->ops->mem_release(pgasi_tp, heap->mem);
        heap->mem = NULL;
        status = pgasi_shm_create_each(bytes, true, &heap_shm, heap_of);
        if (status != PGAS_OK)
            return status;
        heap->address = heap_shm.base;
        pgasi_heap_page_bytes = heap_shm.page_bytes;
        if (pgasi_tp)
            status = pgasi_tp->ops->mem_register(pgasi_tp, heap->address, bytes, &heap->mem);
        status = pgasi_boot_agree(status);
    }
    if (status == PGAS_OK) {
        heap->offset = PGASI_HEAP_OFFSET;
        heap->bytes = heap_bytes;
        for (int i = 0; i < pgasi_boot.node_size; i++)
            table_set(pgasi_boot.node_members[i], PGASI_HEAP_OFFSET, heap_bytes, heap_of[i]);
    }
    return status;
}

static void heap_destroy(void)
{
    pgasi_segment_t *heap = &pgasi_segments[0];
    release_heap_keys();
    if (heap->mem)
        pgasi_tp->ops->mem_release(pgasi_tp, heap->mem);
    if (heap_shm.base)
        pgasi_shm_release_each(&heap_shm, heap_of);
    memset(&heap_shm, 0, sizeof heap_shm);
    memset(heap, 0, sizeof *heap);
    pgasi_heap_from_transport = false;
}

pgas_status_t pgasi_segments_start(void)
{
    size_t bytes = PGASI_ALIGN_UP(pgasi_param.heap_size, (size_t)sysconf(_SC_PAGESIZE));
    pgasi_n_segments = 1 + pgasi_param.segments;
    next_slot = 0;
    attached_bytes = attached_high = 0;
    memset(slots_taken, 0, sizeof slots_taken);
    pgasi_segments = calloc((size_t)pgasi_n_segments, sizeof *pgasi_segments);
    heap_of = calloc((size_t)pgasi_boot.node_size, sizeof *heap_of);
    heap_keys = calloc((size_t)pgasi_boot.node_size, sizeof(pgasi_tp_key_t *));
    pgas_status_t status =
        pgasi_segments && heap_of && heap_keys ? table_create() : PGAS_ERR_NO_MEMORY;
    if (pgasi_boot_agree(status) != PGAS_OK) {
        status = PGAS_ERR_NO_MEMORY;
        goto free_arrays;
    }
    status = heap_create(bytes);
    if (status == PGAS_OK)
        status = pgasi_boot_agree(pgasi_heap_start(bytes));
    if (status != PGAS_OK)
        goto destroy_heap;
    pgas_segtab = table;
    return PGAS_OK;

destroy_heap:
    heap_destroy();
    table_destroy();
free_arrays:
    free(pgasi_segments);
    free(heap_of);
    free(heap_keys);
    pgasi_segments = NULL;
    heap_of = NULL;
    heap_keys = NULL;
    return status;
}

void pgasi_segments_stop(void)
{
    pgas_segtab = &empty_table;
    pgasi_regmem_stop();
    pgasi_heap_stop();
    for (int i = 1; i < pgasi_n_segments; i++)
        if (pgasi_segments[i].mem)
            pgasi_tp->ops->mem_release(pgasi_tp, pgasi_segments[i].mem);
    heap_destroy();
    table_destroy();
    free(pgasi_segments);
    free(heap_of);
    free(heap_keys);
    pgasi_segments = NULL;
    heap_of = NULL;
    heap_keys = NULL;
}

/* ---- looking up ---- */

pgasi_segment_t *pgasi_segment_find(uint64_t offset, uint64_t bytes)
{
    for (int i = 0; i < pgasi_n_segments; i++) {
        pgasi_segment_t *s = &pgasi_segments[i];
        if (s->bytes && offset >= s->offset && offset - s->offset <= s->bytes &&
            bytes <= s->bytes - (offset - s->offset))
            return s;
    }
    return NULL;
}

pgas_status_t pgasi_resolve(pgas_gptr_t ptr, size_t bytes, pgasi_where_t *where_p, void **address_p)
{
    int rank = pgas_gptr_rank(ptr);
    uint64_t offset = pgas_gptr_offset(ptr);
    if (!pgasi_running)
        return PGAS_ERR_NOT_INIT;
    if (rank >= pgasi_boot.n_ranks || offset < PGASI_HEAP_OFFSET ||
        bytes > PGAS_OFFSET_MAX - offset)
        return PGAS_ERR_RANGE;
    uint64_t heap_bytes = pgasi_segments[0].bytes;
    uint64_t inside = offset - PGASI_HEAP_OFFSET;
    uint64_t heap_slots = PGASI_DIV_UP(heap_bytes, PGASI_SLOT_BYTES) * PGASI_SLOT_BYTES;
    int local = pgasi_boot.local_of[rank];
    if (inside < heap_slots) {
        if (inside > heap_bytes || bytes > heap_bytes - inside)
            return PGAS_ERR_RANGE;
        *where_p = local >= 0 ? PGASI_WHERE_HERE : PGASI_WHERE_FAR;
        *address_p = local >= 0 ? (char *)heap_of[local] + inside : NULL;
        return PGAS_OK;
    }
    if (rank == pgasi_boot.rank) {
        pgasi_segment_t *s = pgasi_segment_find(offset, bytes);
        if (!s)
            return PGAS_ERR_RANGE;
        *where_p = PGASI_WHERE_HERE;
        *address_p = s->address + (offset - s->offset);
        return PGAS_OK;
    }
    *where_p = local >= 0 ? PGASI_WHERE_SERVICE : PGASI_WHERE_FAR;
    *address_p = NULL;
    return PGAS_OK;
}

pgas_gptr_t pgas_gptr_of(const void *address)
{
    const char *a = address;
    for (int i = 0; pgasi_running && i < pgasi_n_segments; i++) {
        pgasi_segment_t *s = &pgasi_segments[i];
        if (s->bytes && a >= s->address && a < s->address + s->bytes)
            return pgas_gptr_make(pgasi_boot.rank, s->offset + (uint64_t)(a - s->address));
    }
    return PGAS_NULL;
}

char *pgasi_heap_tail(void)
{
    return pgasi_segments[0].address + pgasi_segments[0].bytes;
}

char *pgasi_heap_tail_at(int node_rank)
{
    return (char *)heap_of[node_rank] + pgasi_segments[0].bytes;
}

/* ---- keys ---- */

/* Under the lock, so that what is described is attached, and detach knows that it was told. */
pgas_status_t pgasi_segment_describe(uint64_t offset, pgasi_segment_wire_t *wire_p)
{
    pgas_status_t status = PGAS_ERR_RANGE;
    pthread_mutex_lock(&attach_lock);
    pgasi_segment_t *s = pgasi_segment_find(offset, 1);
    if (s && s->mem) {
        size_t key_bytes = PGASI_TP_KEY_MAX;
        status = pgasi_tp->ops->key_pack(pgasi_tp, s->mem, wire_p->key, &key_bytes);
        wire_p->offset = s->offset;
        wire_p->bytes = s->bytes;
        wire_p->address = (uint64_t)(uintptr_t)s->address;
        wire_p->key_bytes = (uint32_t)key_bytes;
        s->told = true;
    }
    pthread_mutex_unlock(&attach_lock);
    return status;
}

static pgasi_peer_key_t *find_key(const pgasi_ctx_t *ctx, int rank, uint64_t offset)
{
    pgasi_peer_key_t *entry = ctx->peer[rank].keys;
    while (entry && !(offset >= entry->offset && offset - entry->offset < entry->bytes))
        entry = entry->next;
    return entry;
}

/* Peers of the same host may have mapped each other's heaps although they are no node: fake nodes
 * over shared memory. */
static void open_heap(pgasi_ctx_t *ctx, int rank, const pgasi_peer_key_t *entry)
{
    pgasi_ctx_peer_t *peer = &ctx->peer[rank];
    void *heap;
    if (!entry->key->direct ||
        entry->key->ops->key_map(entry->key, entry->address, &heap) != PGAS_OK)
        return;
    peer->heap = heap;
    ctx->has_direct = true;
    /* looked at without a shared context's lock */
    __atomic_store_n(&peer->heap_bytes, entry->bytes, __ATOMIC_RELEASE);
}

pgas_status_t pgasi_key_learn(pgasi_ctx_t *ctx, int rank, const pgasi_segment_wire_t *wire)
{
    if (find_key(ctx, rank, wire->offset))
        return PGAS_OK;
    pgasi_peer_key_t *entry = calloc(1, sizeof *entry);
    if (!entry)
        return PGAS_ERR_NO_MEMORY;
    entry->offset = wire->offset;
    entry->bytes = wire->bytes;
    entry->address = wire->address;
    pgas_status_t status =
        ctx->tp->ops->key_unpack(ctx->tp, rank, wire->key, wire->key_bytes, &entry->key);
    if (status != PGAS_OK) {
        free(entry);
        return status;
    }
    pgasi_peer_key_t **tail = &ctx->peer[rank].keys;
    while (*tail && wire->offset != PGASI_HEAP_OFFSET)
        tail = &(*tail)->next;
    entry->next = *tail;
    *tail = entry;
    if (wire->offset == PGASI_HEAP_OFFSET)
        open_heap(ctx, rank, entry);
    return PGAS_OK;
}

pgas_status_t pgasi_heap_tail_of(const pgasi_ctx_t *ctx, int rank, pgasi_tp_key_t **key_p,
                                 uint64_t *address_p, char **mapped_p)
{
    const pgasi_ctx_peer_t *peer = &ctx->peer[rank];
    const pgasi_peer_key_t *entry = find_key(ctx, rank, PGASI_HEAP_OFFSET);
    if (!entry)
        return PGAS_ERR_NOT_FOUND;
    *key_p = entry->key;
    *address_p = entry->address + entry->bytes;
    *mapped_p = peer->heap_bytes ? peer->heap + entry->bytes : NULL;
    return PGAS_OK;
}

/* The request goes through the same context, so a shared context is given up meanwhile; another
 * thread may be faster. */
static pgas_status_t key_fetch(pgasi_ctx_t *ctx, int rank, uint64_t offset,
                               pgasi_peer_key_t **entry_p)
{
    pgasi_segment_wire_t wire;
    pgasi_ctx_unlock(ctx);
    pgas_status_t status = pgasi_hooks.segment_ask(rank, offset, &wire);
    pgasi_ctx_lock(ctx);
    if (status == PGAS_OK)
        status = pgasi_key_learn(ctx, rank, &wire);
    if (status != PGAS_OK)
        return status;
    *entry_p = find_key(ctx, rank, offset);
    return *entry_p ? PGAS_OK : PGAS_ERR_RANGE;
}

pgas_status_t pgasi_key_get(pgasi_ctx_t *ctx, int rank, uint64_t offset, uint64_t bytes,
                            pgasi_tp_key_t **key_p, uint64_t *address_p)
{
    pgasi_peer_key_t *entry = find_key(ctx, rank, offset);
    if (PGAS_UNLIKELY(!entry)) {
        pgas_status_t status = key_fetch(ctx, rank, offset, &entry);
        if (status != PGAS_OK)
            return status;
    }
    uint64_t inside = offset - entry->offset;
    if (PGAS_UNLIKELY(inside > entry->bytes || bytes > entry->bytes - inside))
        return PGAS_ERR_RANGE;
    *key_p = entry->key;
    *address_p = entry->address + inside;
    return PGAS_OK;
}

/* ---- attached memory ---- */

#define ATTACH_ALIGN 8 /* of the largest word */

static uint64_t slots_of(uint64_t inside, uint64_t bytes)
{
    return PGASI_DIV_UP(inside + bytes, PGASI_SLOT_BYTES);
}

/* The lowest run of `need` free slots from `slot` on; 0 if there is none. */
static uint64_t find_slots_from(uint64_t slot, uint64_t need)
{
    while (slot + need <= PGASI_SLOTS_PER_RANK) {
        slot = pgasi_bitmap_find_clear(slots_taken, PGASI_SLOTS_PER_RANK, slot);
        uint64_t end = pgasi_bitmap_find_set(slots_taken, PGASI_SLOTS_PER_RANK, slot);
        if (end - slot >= need)
            return slot;
        slot = end;
    }
    return 0;
}

/* Slots are taken in turn and not again before all have been, so that a pointer kept for too long
 * is rather refused. */
static uint64_t find_slots(uint64_t need)
{
    uint64_t first = 1 + PGASI_DIV_UP(pgasi_segments[0].bytes, PGASI_SLOT_BYTES);
    uint64_t slot = find_slots_from(PGASI_MAX(first, next_slot), need);
    return slot ? slot : find_slots_from(first, need);
}

static void mark_slots(uint64_t slot, uint64_t n, bool taken)
{
    for (uint64_t i = slot; i < slot + n; i++)
        if (taken)
            pgasi_bitmap_set(slots_taken, i);
        else
            pgasi_bitmap_clear(slots_taken, i);
}

static pgas_status_t attach_locked(char *address, size_t bytes, pgas_gptr_t *ptr_p)
{
    pgasi_segment_t *s = NULL;
    for (int i = 1; i < pgasi_n_segments && !s; i++)
        if (!pgasi_segments[i].bytes)
            s = &pgasi_segments[i];
    if (!s) {
        PGASI_ERROR("mem", "cannot attach %zu bytes: PGAS_SEGMENTS=%d segments are attached", bytes,
                    pgasi_param.segments);
        return PGAS_ERR_LIMIT;
    }
    /* Pointer and address are aligned alike, since operations on words look at the pointer. */
    uint64_t inside = (uintptr_t)address % ATTACH_ALIGN, n_slots = slots_of(inside, bytes),
             slot = find_slots(n_slots);
    if (!slot) {
        PGASI_ERROR("mem",
                    "cannot attach %zu bytes: no %llu GiB of global pointers are left that no peer "
                    "may remember; "
                    "attach once and detach late",
                    bytes, (unsigned long long)n_slots);
        return PGAS_ERR_LIMIT;
    }
    if (pgasi_tp) {
        pgas_status_t status = pgasi_tp->ops->mem_register(pgasi_tp, address, bytes, &s->mem);
        if (status != PGAS_OK)
            return status;
    }
    s->offset = slot * PGASI_SLOT_BYTES + inside;
    s->address = address;
    s->told = false;
    mark_slots(slot, n_slots, true);
    next_slot = slot + n_slots;
    attached_bytes += bytes;
    attached_high = PGASI_MAX(attached_high, attached_bytes);
    /* the table knows no bytes that do not belong to a GiB's beginning; without it all is
     * checked */
    if (!inside)
        table_set(pgasi_boot.rank, s->offset, bytes, address);
    __atomic_store_n(&s->bytes, bytes, __ATOMIC_RELEASE);
    *ptr_p = pgas_gptr_make(pgasi_boot.rank, s->offset);
    return PGAS_OK;
}

pgas_status_t pgas_mem_attach(void *address, size_t bytes, pgas_gptr_t *ptr_p)
{
    pgas_status_t status = pgasi_thread_check();
    if (status != PGAS_OK)
        return status;
    if (!address || !bytes || !ptr_p || bytes > PGAS_OFFSET_MAX)
        return PGAS_ERR_INVALID;
    pthread_mutex_lock(&attach_lock);
    status = attach_locked(address, bytes, ptr_p);
    pthread_mutex_unlock(&attach_lock);
    return status;
}

pgas_status_t pgas_mem_detach(pgas_gptr_t ptr)
{
    pgas_status_t status = pgasi_thread_check();
    if (status != PGAS_OK)
        return status;
    if (pgas_gptr_rank(ptr) != pgasi_boot.rank)
        return PGAS_ERR_INVALID;
    status = PGAS_ERR_INVALID;
    pthread_mutex_lock(&attach_lock);
    for (int i = 1; i < pgasi_n_segments; i++) {
        pgasi_segment_t *s = &pgasi_segments[i];
        if (s->bytes && s->offset == pgas_gptr_offset(ptr)) {
            if (s->offset % PGASI_SLOT_BYTES == 0)
                table_set(pgasi_boot.rank, s->offset, s->bytes, NULL);
            if (s->mem)
                pgasi_tp->ops->mem_release(pgasi_tp, s->mem);
            if (!s->told)
                mark_slots(s->offset >> PGAS_SEGTAB_SHIFT,
                           slots_of(s->offset % PGASI_SLOT_BYTES, s->bytes), false);
            attached_bytes -= s->bytes;
            memset(s, 0, sizeof *s);
            status = PGAS_OK;
            break;
        }
    }
    pthread_mutex_unlock(&attach_lock);
    return status;
}

void pgasi_segments_attached(uint64_t *bytes_p, uint64_t *high_p)
{
    pthread_mutex_lock(&attach_lock);
    *bytes_p = attached_bytes;
    *high_p = attached_high;
    pthread_mutex_unlock(&attach_lock);
}
