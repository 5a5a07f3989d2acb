/* Registered memory by owner: how much each part of the program and of the library has, and the
 * account of all memory that peers reach. */
#include "mem/regmem.h"

#include <pthread.h>
#include <stdio.h>
#include <string.h>

#include "base/checks.h"
#include "mem/segment.h"
#include "mem/thread.h"

static struct {
    pthread_mutex_t lock;
    pgas_mem_owner_t of[PGASI_REG_OWNERS_MAX];
    int n;
} table = { .lock = PTHREAD_MUTEX_INITIALIZER };

static pgas_mem_owner_t *find_owner(const char *name)
{
    for (int i = 0; i < table.n; i++)
        if (strncmp(table.of[i].name, name, sizeof table.of[i].name - 1) == 0)
            return &table.of[i];
    if (table.n == PGASI_REG_OWNERS_MAX)
        return &table.of[table.n - 1];
    pgas_mem_owner_t *owner = &table.of[table.n++];
    memset(owner, 0, sizeof *owner);
    snprintf(owner->name, sizeof owner->name, "%s",
             table.n == PGASI_REG_OWNERS_MAX ? "others" : name);
    return owner;
}

pgas_mem_owner_t *pgasi_reg_owner_enter(const char *name, size_t max_bytes)
{
    pthread_mutex_lock(&table.lock);
    pgas_mem_owner_t *owner = find_owner(name);
    owner->max_bytes += max_bytes;
    pthread_mutex_unlock(&table.lock);
    return owner;
}

void pgasi_reg_owner_leave(pgas_mem_owner_t *owner, size_t max_bytes)
{
    pthread_mutex_lock(&table.lock);
    owner->max_bytes -= max_bytes;
    pthread_mutex_unlock(&table.lock);
}

void pgasi_reg_owner_count(pgas_mem_owner_t *owner, int64_t change)
{
    pthread_mutex_lock(&table.lock);
    owner->bytes += (uint64_t)change;
    owner->high_bytes = PGASI_MAX(owner->high_bytes, owner->bytes);
    pthread_mutex_unlock(&table.lock);
}

int pgasi_regmem_owners(pgas_mem_owner_t *owners_p, int n)
{
    pthread_mutex_lock(&table.lock);
    int have = table.n;
    memcpy(owners_p, table.of, (size_t)PGASI_MIN(n, have) * sizeof *owners_p);
    pthread_mutex_unlock(&table.lock);
    return have;
}

void pgasi_reg_owners_stop(void)
{
    table.n = 0;
}
/* ---- the account ---- */

static pgas_mem_owner_t *line(pgas_mem_owner_t *o, const char *name, uint64_t bytes, uint64_t high,
                              uint64_t max)
{
    memset(o, 0, sizeof *o);
    strncpy(o->name, name, sizeof o->name - 1);
    o->bytes = bytes;
    o->high_bytes = high;
    o->max_bytes = max;
    return o + 1;
}

pgas_status_t pgas_mem_owners(pgas_mem_owner_t *owners, int n, int *n_p)
{
    if (!pgasi_running)
        return PGAS_ERR_NOT_INIT;
    if (!owners || !n_p)
        return PGAS_ERR_INVALID;
    pgas_mem_owner_t list[PGAS_MEM_OWNERS_MAX], *at = list;
    pgasi_heap_use_t use;
    uint64_t attached, attached_high, heap = pgasi_segments[0].bytes;
    pgasi_heap_use(&use);
    pgasi_segments_attached(&attached, &attached_high);
    at = line(at, "pgas_alloc", use.symmetric, use.symmetric_high, heap);
    at = line(at, "pgas_alloc_on", use.local, use.local_high, heap);
    at += pgasi_regmem_owners(at, PGASI_REG_OWNERS_MAX);
    at = line(at, "heap, not in use", heap - use.symmetric - use.local - use.chunks, heap, heap);
    if (pgasi_heap_tail_bytes)
        at = line(at, "calls between nodes", pgasi_heap_tail_bytes, pgasi_heap_tail_bytes,
                  pgasi_heap_tail_bytes);
    at = line(at, "attached memory", attached, attached_high, 0);
    if (pgasi_tp) {
        pgasi_tp_attr_t attr;
        memset(&attr, 0, sizeof attr);
        pgasi_tp->ops->query(pgasi_tp, &attr);
        at = line(at, "transport (its estimate)", attr.receive_bytes, attr.receive_bytes,
                  attr.receive_bytes);
    }
    *n_p = (int)(at - list);
    memcpy(owners, list, (size_t)PGASI_MAX(PGASI_MIN(n, *n_p), 0) * sizeof *owners);
    return PGAS_OK;
}
