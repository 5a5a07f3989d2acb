/* Registered buffers that are free again once a transmitter has passed a number.
 *
 * Shaped for some thousands of buffers and up to hundreds of transmitters. What was given waits in
 * a line of its transmitter, in order; a line whose first number has passed is emptied as far as
 * numbers go, in one look at `done`. So taking costs a look at no more than LOOK_AT lines, and only
 * if nothing is free; moving a buffer was paid for when it was given. Nothing is allocated after
 * open: there are never more lines than buffers.
 *
 * Invariant: a buffer is in the free list, in one line, or with the caller. Lines without buffers
 * do not exist. Who gives numbers out of order gets the lower ones back later, never early. */
#include <stdlib.h>
#include <string.h>
#include "base/hash.h"
#include "verbs_backend/queue/device.h"

#define LOOK_AT   16
#define ALIGNMENT 64
#define NONE      UINT32_MAX

typedef struct {
    pgas_verbs_tx_t *tx;
    uint32_t first, last; /* buffers */
    uint32_t next;        /* in its bucket, or of the free lines */
    uint32_t place;       /* in `active` */
} line_t;

struct pgas_verbs_bufs {
    pgas_verbs_dev_t *dev;
    pgas_verbs_mem_t mem;
    uint32_t bytes, n;
    size_t stride;
    uint32_t free, free_lines;
    uint32_t *next;   /* of each buffer, in its list */
    uint64_t *number; /* that it waits for */
    line_t *lines;    /* n */
    uint32_t *active; /* lines with buffers */
    uint32_t n_active, cursor;
    uint32_t *buckets; /* n rounded up: lines by transmitter */
    uint32_t bucket_mask;
};

static uint32_t *bucket_of(const pgas_verbs_bufs_t *b, const pgas_verbs_tx_t *tx)
{
    return &b->buckets[pgasi_hash_u64((uintptr_t)tx / sizeof(void *)) & b->bucket_mask];
}

static void put_free(pgas_verbs_bufs_t *b, uint32_t buffer)
{
    b->next[buffer] = b->free;
    b->free = buffer;
}

/* ---- lines ---- */

static line_t *find_line(pgas_verbs_bufs_t *b, const pgas_verbs_tx_t *tx)
{
    uint32_t i = *bucket_of(b, tx);
    while (i != NONE && b->lines[i].tx != tx)
        i = b->lines[i].next;
    return i == NONE ? NULL : &b->lines[i];
}

static void begin_line(pgas_verbs_bufs_t *b, pgas_verbs_tx_t *tx, uint32_t buffer)
{
    uint32_t i = b->free_lines, *bucket = bucket_of(b, tx);
    b->free_lines = b->lines[i].next;
    b->lines[i] = (line_t){
        .tx = tx, .first = buffer, .last = buffer, .next = *bucket, .place = b->n_active
    };
    *bucket = i;
    b->active[b->n_active++] = i;
}

static void end_line(pgas_verbs_bufs_t *b, line_t *line)
{
    uint32_t i = (uint32_t)(line - b->lines), *link = bucket_of(b, line->tx);
    while (*link != i)
        link = &b->lines[*link].next;
    *link = line->next;
    uint32_t moved = b->active[--b->n_active];
    b->active[line->place] = moved;
    b->lines[moved].place = line->place;
    line->next = b->free_lines;
    b->free_lines = i;
}

/* @return whether anything of it is free now */
static bool drain(pgas_verbs_bufs_t *b, line_t *line)
{
    uint64_t done = pgas_verbs_tx_done(line->tx);
    uint32_t buffer = line->first;
    bool any = false;
    while (buffer != NONE && b->number[buffer] <= done) {
        uint32_t next = b->next[buffer];
        put_free(b, buffer);
        buffer = next;
        any = true;
    }
    line->first = buffer;
    if (buffer == NONE)
        end_line(b, line);
    return any;
}

static void reclaim(pgas_verbs_bufs_t *b)
{
    bool any = false;
    for (uint32_t i = 0; i < LOOK_AT && !any && b->n_active > 0; i++) {
        b->cursor = b->cursor < b->n_active ? b->cursor : 0;
        any = drain(b, &b->lines[b->active[b->cursor]]);
        b->cursor++;
    }
}

/* ---- the public part ---- */

pgas_status_t pgas_verbs_bufs_take(pgas_verbs_bufs_t *b, pgas_verbs_span_t *span_p)
{
    if (PGAS_UNLIKELY(b->free == NONE))
        reclaim(b);
    uint32_t buffer = b->free;
    if (PGAS_UNLIKELY(buffer == NONE))
        return PGAS_ERR_AGAIN;
    b->free = b->next[buffer];
    span_p->addr = (uint64_t)(uintptr_t)b->mem.addr + buffer * b->stride;
    span_p->bytes = b->bytes;
    span_p->lkey = b->mem.lkey;
    return PGAS_OK;
}

void pgas_verbs_bufs_give(pgas_verbs_bufs_t *b, const pgas_verbs_span_t *span, pgas_verbs_tx_t *tx,
                          uint64_t number)
{
    uint32_t buffer = (uint32_t)((span->addr - (uint64_t)(uintptr_t)b->mem.addr) / b->stride);
    PGASI_ASSERT(buffer < b->n);
    if (!tx || number == 0) {
        put_free(b, buffer);
        return;
    }
    b->number[buffer] = number;
    b->next[buffer] = NONE;
    line_t *line = find_line(b, tx);
    if (!line) {
        begin_line(b, tx, buffer);
    } else {
        b->next[line->last] = buffer;
        line->last = buffer;
    }
}

static pgas_status_t make_tables(pgas_verbs_bufs_t *b)
{
    uint32_t n_buckets = 1;
    while (n_buckets < b->n)
        n_buckets *= 2;
    b->bucket_mask = n_buckets - 1;
    b->next = malloc(b->n * sizeof *b->next);
    b->number = malloc(b->n * sizeof *b->number);
    b->lines = malloc(b->n * sizeof *b->lines);
    b->active = malloc(b->n * sizeof *b->active);
    b->buckets = malloc(n_buckets * sizeof *b->buckets);
    if (!b->next || !b->number || !b->lines || !b->active || !b->buckets)
        return PGAS_ERR_NO_MEMORY;
    memset(b->buckets, 0xff, n_buckets * sizeof *b->buckets);
    b->free = NONE;
    for (uint32_t i = b->n; i-- > 0;) {
        put_free(b, i);
        b->lines[i].next = i + 1 < b->n ? i + 1 : NONE;
    }
    return PGAS_OK;
}

static void free_tables(pgas_verbs_bufs_t *b)
{
    free(b->next);
    free(b->number);
    free(b->lines);
    free(b->active);
    free(b->buckets);
    free(b);
}

pgas_status_t pgas_verbs_bufs_open(pgas_verbs_dev_t *dev, uint32_t bytes, uint32_t n,
                                   pgas_verbs_bufs_t **bufs_p)
{
    if (!dev || !bufs_p || bytes == 0 || n == 0)
        return PGAS_ERR_INVALID;
    if (bytes > UINT32_C(1) << 31 || n > UINT32_C(1) << 30)
        return PGAS_ERR_LIMIT;
    pgas_verbs_bufs_t *b = calloc(1, sizeof *b);
    if (!b)
        return PGAS_ERR_NO_MEMORY;
    b->dev = dev;
    b->bytes = bytes;
    b->n = n;
    b->stride = PGASI_ALIGN_UP((size_t)bytes, ALIGNMENT);
    pgas_status_t status = make_tables(b);
    if (status == PGAS_OK)
        status = pgas_verbs_mem_alloc(dev, b->stride * n, PGAS_VERBS_ACCESS_ALL, &b->mem);
    if (status != PGAS_OK) {
        free_tables(b);
        return status;
    }
    *bufs_p = b;
    return PGAS_OK;
}

void pgas_verbs_bufs_close(pgas_verbs_bufs_t *b)
{
    pgas_verbs_mem_release(b->dev, &b->mem);
    free_tables(b);
}
