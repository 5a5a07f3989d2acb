/* Records of clients: some hundred at most, looked up when chains begin and end. */
#include "group/records.h"

#include <stdlib.h>
#include <string.h>
#include "base/checks.h"

pgas_status_t pgasi_records_init(pgasi_records_t *r, uint32_t room)
{
    *r = (pgasi_records_t){ .room = room };
    r->records = calloc(room, sizeof *r->records);
    return r->records ? PGAS_OK : PGAS_ERR_NO_MEMORY;
}

static void release(pgasi_record_t *record)
{
    free(record->old);
    memset(record, 0, sizeof *record);
}

void pgasi_records_clear(pgasi_records_t *r)
{
    for (uint32_t i = 0; i < r->room && r->records; i++)
        release(&r->records[i]);
}

void pgasi_records_fini(pgasi_records_t *r)
{
    pgasi_records_clear(r);
    free(r->records);
    *r = (pgasi_records_t){ .records = NULL };
}

pgasi_record_t *pgasi_records_find(const pgasi_records_t *r, uint64_t client)
{
    for (uint32_t i = 0; i < r->room && client != 0; i++)
        if (r->records[i].client == client)
            return &r->records[i];
    return NULL;
}

/* A free record, or the oldest one. */
static pgasi_record_t *find_room(const pgasi_records_t *r)
{
    pgasi_record_t *oldest = &r->records[0];
    for (uint32_t i = 0; i < r->room; i++) {
        if (r->records[i].client == 0)
            return &r->records[i];
        if (r->records[i].used < oldest->used)
            oldest = &r->records[i];
    }
    return oldest;
}

/* Moves the words into a larger ring. */
static bool widen(pgasi_record_t *record, uint32_t slots)
{
    uint64_t *old = malloc(slots * sizeof *old);
    if (!old)
        return false;
    for (uint64_t k = record->executed - record->n_old; k < record->executed; k++)
        old[k & (slots - 1)] = record->old[k & record->mask];
    free(record->old);
    record->old = old;
    record->mask = slots - 1;
    return true;
}

pgasi_record_t *pgasi_records_use(pgasi_records_t *r, uint64_t client, uint32_t slots)
{
    pgasi_record_t *record = pgasi_records_find(r, client);
    if (!record) {
        record = find_room(r);
        release(record);
    }
    if ((!record->old || record->mask + 1 < slots) && !widen(record, slots))
        return NULL;
    record->client = client;
    record->used = ++r->n_uses;
    return record;
}

void pgasi_records_drop(pgasi_records_t *r, uint64_t client)
{
    pgasi_record_t *record = pgasi_records_find(r, client);
    if (record)
        release(record);
}

uint32_t pgasi_record_words(const pgasi_record_t *record, uint64_t first, uint64_t *words,
                            uint32_t room)
{
    uint64_t n = first < record->executed ? record->executed - first : 0;
    n = PGASI_MIN(PGASI_MIN(n, (uint64_t)record->n_old), (uint64_t)room);
    for (uint64_t i = 0; i < n; i++)
        words[i] = record->old[(record->executed - n + i) & record->mask];
    return (uint32_t)n;
}

const pgasi_record_t *pgasi_records_at(const pgasi_records_t *r, uint64_t i)
{
    for (uint32_t k = 0; k < r->room; k++)
        if (r->records[k].client != 0 && i-- == 0)
            return &r->records[k];
    return NULL;
}
