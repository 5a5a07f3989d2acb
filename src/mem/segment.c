/* The heaps of the node, and the table rank -> address.
 *
 * If peers of the same host are reached through the transport (fake nodes), the heap comes from the
 * transport. The transport then works directly on it, in tens of ns, without a request to the
 * owner; the node's ranks map it by its key. Otherwise the heap is anonymous memory and is
 * registered once. The table is 16 MiB of zeros of which only the pages with the node's ranks are
 * ever written. It is read-only memory while the library runs. */
#include "mem/segment.h"

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/log.h"
#include "base/machine.h"
#include "base/number.h"
#include "base/param.h"
#include "boot/boot.h"
#include "mem/thread.h"
#include "pgas/mem.h"

#define PAGE_MIN 4096

static PGASI_ALIGNED(PAGE_MIN) pgas_heap_table_t table;
const pgas_heap_table_t *const pgas_heap_table = &table;

pgasi_segment_t *pgasi_segments;
int pgasi_n_segments;
size_t pgasi_heap_page_bytes;
bool pgasi_heap_from_transport;
size_t pgasi_heap_tail_bytes;
static struct {
    void **of;             /* [node_size] the addresses of the node's heaps in this process */
    pgasi_tp_key_t **keys; /* [node_size] the keys that map them, if they come from the transport */
    pgasi_shm_t shm;       /* if they are anonymous memory */
} heaps;

/* ---- the table ---- */

static void table_protect(int protection)
{
    uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE);
    uintptr_t from = PGASI_ALIGN_UP((uintptr_t)&table, page),
              to = ((uintptr_t)&table + sizeof table) & ~(page - 1);
    mprotect((void *)from, to - from, protection);
}

static void table_fill(uint64_t heap_bytes)
{
    for (int i = 0; i < pgasi_boot.node_size; i++) {
        int rank = pgasi_boot.node_members[i];
        pgas_gptr_t first = pgas_gptr_make(rank, PGASI_HEAP_OFFSET);
        table.base[rank] = (uint64_t)(uintptr_t)heaps.of[i] - first;
        table.n_words[rank] = heap_bytes / sizeof(uint64_t);
    }
    table_protect(PROT_READ);
}

static void table_clear(void)
{
    table_protect(PROT_READ | PROT_WRITE);
    for (int i = 0; i < pgasi_boot.node_size; i++)
        table.n_words[pgasi_boot.node_members[i]] = table.base[pgasi_boot.node_members[i]] = 0;
}

/* ---- the heap's memory ---- */

/* Allocates the heap by the transport; the node's ranks map it through its keys. Collective, same
 * status on all. */
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
            heaps.of[i] = address;
            continue;
        }
        status = pgasi_tp->ops->key_unpack(pgasi_ctxs[0]->tp, rank, all[rank].key,
                                           all[rank].key_bytes, &heaps.keys[i]);
        if (status == PGAS_OK)
            status = pgasi_tp->ops->key_map(heaps.keys[i], all[rank].address, &heaps.of[i]);
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
        if (heaps.keys[i])
            heaps.keys[i]->ops->key_release(heaps.keys[i]);
        heaps.keys[i] = NULL;
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
    char need_text[PGASI_NUMBER_BYTES], has_text[PGASI_NUMBER_BYTES], free_text[PGASI_NUMBER_BYTES],
        each_text[PGASI_NUMBER_BYTES];
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
                     "PGAS_FAR_CHUNK_MEMORY), %s has %s, of which %s are free now%s",
                     pgasi_boot.host_ranks, pgasi_number_bytes(need, need_text),
                     pgasi_number_bytes(bytes, each_text),
                     cgroup ? "the cgroup of this job" : "the machine",
                     pgasi_number_bytes(has, has_text), pgasi_number_bytes(left, free_text),
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
        status = pgasi_shm_create_each(bytes, true, &heaps.shm, heaps.of);
        if (status != PGAS_OK)
            return status;
        heap->address = heaps.shm.base;
        pgasi_heap_page_bytes = heaps.shm.page_bytes;
        if (pgasi_tp)
            status = pgasi_tp->ops->mem_register(pgasi_tp, heap->address, bytes, &heap->mem);
        status = pgasi_boot_agree(status);
    }
    if (status == PGAS_OK) {
        heap->offset = PGASI_HEAP_OFFSET;
        heap->bytes = heap_bytes;
        table_fill(heap_bytes);
    }
    return status;
}

static void heap_destroy(void)
{
    pgasi_segment_t *heap = &pgasi_segments[0];
    release_heap_keys();
    if (heap->mem)
        pgasi_tp->ops->mem_release(pgasi_tp, heap->mem);
    if (heaps.shm.base)
        pgasi_shm_release_each(&heaps.shm, heaps.of);
    memset(&heaps.shm, 0, sizeof heaps.shm);
    memset(heap, 0, sizeof *heap);
    pgasi_heap_from_transport = false;
}

static void free_arrays(void)
{
    free(pgasi_segments);
    free(heaps.of);
    free(heaps.keys);
    pgasi_segments = NULL;
    heaps.of = NULL;
    heaps.keys = NULL;
}

pgas_status_t pgasi_segments_start(void)
{
    size_t bytes = PGASI_ALIGN_UP(pgasi_param.heap_size, (size_t)sysconf(_SC_PAGESIZE));
    pgasi_n_segments = 1 + pgasi_param.segments;
    pgasi_segments = calloc((size_t)pgasi_n_segments, sizeof *pgasi_segments);
    heaps.of = calloc((size_t)pgasi_boot.node_size, sizeof *heaps.of);
    heaps.keys = calloc((size_t)pgasi_boot.node_size, sizeof(pgasi_tp_key_t *));
    bool have_all = pgasi_segments && heaps.of && heaps.keys;
    pgas_status_t status = pgasi_boot_agree(have_all ? PGAS_OK : PGAS_ERR_NO_MEMORY);
    if (status != PGAS_OK)
        goto free_all;
    status = heap_create(bytes);
    if (status != PGAS_OK)
        goto destroy_heap;
    return PGAS_OK;

destroy_heap:
    heap_destroy();
free_all:
    free_arrays();
    return status;
}

void pgasi_segments_stop(void)
{
    table_clear();
    for (int i = 1; i < pgasi_n_segments; i++)
        if (pgasi_segments[i].mem)
            pgasi_tp->ops->mem_release(pgasi_tp, pgasi_segments[i].mem);
    heap_destroy();
    free_arrays();
}

/* ---- looking up ---- */

/* Attached segments change while other threads look up theirs. The number of changes is odd during
 * a change; a reader whose number differs afterwards reads again. Segments have no lock for readers
 * because they may be in a handler. */
static uint64_t n_changes;

void pgasi_segment_set(pgasi_segment_t *s, uint64_t offset, uint64_t bytes, char *address)
{
    __atomic_store_n(&n_changes, n_changes + 1, __ATOMIC_RELAXED);
    __atomic_store_n(&s->offset, offset, __ATOMIC_RELEASE);
    __atomic_store_n(&s->address, address, __ATOMIC_RELEASE);
    __atomic_store_n(&s->bytes, bytes, __ATOMIC_RELEASE);
    __atomic_store_n(&n_changes, n_changes + 1, __ATOMIC_RELEASE);
}

/* @return false: nothing is attached there */
static bool read_segment(int i, pgasi_segment_t *s_p)
{
    const pgasi_segment_t *s = &pgasi_segments[i];
    uint64_t before, after;
    do {
        before = __atomic_load_n(&n_changes, __ATOMIC_ACQUIRE);
        s_p->offset = __atomic_load_n(&s->offset, __ATOMIC_ACQUIRE);
        s_p->address = __atomic_load_n(&s->address, __ATOMIC_ACQUIRE);
        s_p->bytes = __atomic_load_n(&s->bytes, __ATOMIC_ACQUIRE);
        after = __atomic_load_n(&n_changes, __ATOMIC_RELAXED);
    } while (before != after || before % 2);
    return s_p->bytes;
}

char *pgasi_segment_address(uint64_t offset, uint64_t bytes)
{
    pgasi_segment_t s;
    for (int i = 0; i < pgasi_n_segments; i++)
        if (read_segment(i, &s) && offset >= s.offset && offset - s.offset <= s.bytes &&
            bytes <= s.bytes - (offset - s.offset))
            return s.address + (offset - s.offset);
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
        *address_p = local >= 0 ? (char *)heaps.of[local] + inside : NULL;
        return PGAS_OK;
    }
    if (rank == pgasi_boot.rank) {
        char *address = pgasi_segment_address(offset, bytes);
        if (!address)
            return PGAS_ERR_RANGE;
        *where_p = PGASI_WHERE_HERE;
        *address_p = address;
        return PGAS_OK;
    }
    *where_p = local >= 0 ? PGASI_WHERE_SERVICE : PGASI_WHERE_FAR;
    *address_p = NULL;
    return PGAS_OK;
}

void *pgas_gptr_local_far(pgas_gptr_t ptr, size_t bytes)
{
    pgasi_where_t where;
    void *address;
    pgas_status_t status = pgasi_resolve(ptr, bytes, &where, &address);
    return status == PGAS_OK && where == PGASI_WHERE_HERE ? address : NULL;
}

pgas_gptr_t pgas_gptr_of(const void *address)
{
    const char *a = address;
    pgasi_segment_t s;
    for (int i = 0; pgasi_running && i < pgasi_n_segments; i++)
        if (read_segment(i, &s) && a >= s.address && a < s.address + s.bytes)
            return pgas_gptr_make(pgasi_boot.rank, s.offset + (uint64_t)(a - s.address));
    return PGAS_NULL;
}

char *pgasi_heap_tail(void)
{
    return pgasi_segments[0].address + pgasi_segments[0].bytes;
}

char *pgasi_heap_tail_at(int node_rank)
{
    return (char *)heaps.of[node_rank] + pgasi_segments[0].bytes;
}
