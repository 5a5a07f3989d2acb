/* Mapping entries: publishing them, withdrawing them, and waiting for threads that use them.
 *
 * A thread that withdraws entries changes them, runs a barrier on all processors, and waits
 * until all threads have left (slots.c). */
#include "array/mapping.h"

#include "array/array.h"
#include "array/slots.h"
#include "base/checks.h"
#include "base/clock.h"
#include "boot/boot.h"
#include "boot/wait.h"

#define LAST_BIT 63

static pgasi_array_peer_t *peer_of_node_rank(pgasi_array_t *a, int node_rank)
{
    int member = pgas_team_from_global(a->team, pgasi_boot.node_members[node_rank]);
    return member < 0 ? NULL : &a->peer[member];
}

/* A chunk has an entry for each of its sub-blocks. The last chunk of an array may have fewer. */
static pgas_array_mapping_t *mappings_of(const pgasi_array_site_t *site,
                                         const pgasi_array_peer_t *peer)
{
    const pgasi_array_t *a = site->array;
    return &peer->table[site->chunk << (a->map.shift - a->pub.shift)];
}

static uint64_t n_mappings(const pgasi_array_site_t *site)
{
    const pgasi_array_t *a = site->array;
    uint64_t n = UINT64_C(1) << (a->map.shift - a->pub.shift),
             last = a->map.n_elems >> a->pub.shift;
    uint64_t first = site->chunk << (a->map.shift - a->pub.shift);
    return PGASI_MIN(n, last + 1 - first);
}

void pgasi_array_mapping_withdraw(const pgasi_array_site_t *site, int node_rank)
{
    pgasi_array_t *a = site->array;
    pgasi_array_peer_t *peer =
        node_rank == pgasi_boot.node_rank ? &a->peer[a->rank] : peer_of_node_rank(a, node_rank);
    pgas_array_mapping_t *mapping = peer && peer->table ? mappings_of(site, peer) : NULL;
    for (uint64_t j = 0; mapping && j < n_mappings(site); j++)
        __atomic_store_n(&mapping[j].rights, 0, __ATOMIC_RELEASE);
    uintptr_t *readable = mapping ? peer->readable + (mapping - peer->table) : NULL;
    for (uint64_t j = 0; readable && j < n_mappings(site); j++)
        __atomic_store_n(&readable[j], 0, __ATOMIC_RELEASE);
}

void pgasi_array_mapping_withdraw_owner(const pgasi_array_site_t *site)
{
    if (site->grant->now.owner)
        pgasi_array_mapping_withdraw(site, (int)(site->grant->now.owner >> 12));
    site->grant->now.owner = 0;
}

void pgasi_array_mapping_withdraw_readers(const pgasi_array_site_t *site)
{
    uint64_t readers = site->grant->now.readers;
    if (!site->at_home && readers)
        pgasi_array_mapping_withdraw(site, pgasi_boot.node_rank);
    for (int r = 0; site->at_home && readers && r < pgasi_boot.node_size; r++)
        if (readers >> PGASI_MIN(r, LAST_BIT) & 1)
            pgasi_array_mapping_withdraw(site, r);
    site->grant->now.readers = 0;
}

void pgasi_array_mapping_wait_left(const pgasi_array_site_t *site)
{
    site->grant->now.published = site->grant->now.owner || site->grant->now.readers;
    if (pgasi_array_is_alone(site->at_home))
        return;
    pgasi_wait_heavy_barrier();
    pgasi_array_note(&site->array->info.barriers, 1);
    for (uint32_t n = 1; !pgasi_array_all_left(site->at_home); n++)
        pgasi_array_let_others_run(n);
}

/* Publishes the entries of the calling thread's rank. Rights of an owner are also published in
 * the summary for reads, as long as the rank has one thread. */
void pgasi_array_mapping_publish(const pgasi_array_site_t *site, uint64_t rights)
{
    pgasi_array_t *a = site->array;
    pgas_array_mapping_t *mapping = mappings_of(site, &a->peer[a->rank]);
    char *base = pgasi_array_grant_data(site) - (site->chunk << a->map.shift) * a->pub.elem_bytes;
    for (uint64_t j = 0; j < n_mappings(site); j++) {
        __atomic_store_n(&mapping[j].base, base, __ATOMIC_RELAXED);
        __atomic_store_n(&mapping[j].rights, rights, __ATOMIC_RELEASE);
    }
    site->grant->now.published = 1;
    if (!site->grant->opened_ns)
        site->grant->opened_ns = pgasi_now_ns();
    bool own = rights == pgas_array_path.data;
    if (!(rights & PGAS_ARRAY_RIGHT_READ) && !(own && pgasi_array_is_sole()))
        return;
    uintptr_t *readable = a->peer[a->rank].readable + (mapping - a->peer[a->rank].table);
    for (uint64_t j = 0; j < n_mappings(site); j++)
        __atomic_store_n(&readable[j], (uintptr_t)base + 1, __ATOMIC_RELEASE);
    __atomic_thread_fence(__ATOMIC_SEQ_CST);
    if (!own || pgasi_array_is_sole())
        return;
    /* another thread has just attached, and may have seen them */
    for (uint64_t j = 0; j < n_mappings(site); j++)
        __atomic_store_n(&readable[j], 0, __ATOMIC_RELEASE);
    pgasi_array_mapping_wait_left(site);
}
