/* Blocks of any size and lifetime: best fit over all super-chunks; free neighbours are joined.
 *
 * An extent allocator (base/extents.h) over one imaginary line of offsets has the records. Each
 * super-chunk has a place on that line. The gap behind it is never free, so that free extents of
 * two super-chunks never join. Parts of the line without a super-chunk count as allocated. A
 * super-chunk that is returned leaves a hole: the line is long enough for 2^20 of the largest. */
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "base/checks.h"
#include "base/extents.h"
#include "boot/boot.h"
#include "mem/regmem.h"

#define LINE_BYTES (UINT64_C(1) << 63)
#define GAP        4096

typedef struct chunk {
    struct chunk *next;
    pgas_block_t block; /* the super-chunk */
    uint64_t line;      /* its first offset on the line */
} chunk_t;

struct pgasi_general {
    pthread_mutex_t lock;
    pgasi_super_t *super;
    pgasi_extents_t *extents;
    chunk_t *chunks;
    uint64_t line_used; /* the line is empty from here on: one block of the extents */
    size_t alignment, used_bytes, n_blocks;
};

static void destroy_general(void *object)
{
    pgasi_general_destroy(object);
}

static pgas_status_t make(const pgas_pool_opts_t *opts, pgasi_general_t *g)
{
    pgas_status_t status = pgasi_extents_create(LINE_BYTES, &g->extents);
    if (status == PGAS_OK)
        status = pgasi_extents_alloc_at(g->extents, 0, LINE_BYTES);
    return status == PGAS_OK ? pgasi_super_create_for(opts, destroy_general, g, &g->super) : status;
}

pgas_status_t pgasi_general_create(const pgas_pool_opts_t *opts, pgasi_general_t **general_p)
{
    if (!general_p)
        return PGAS_ERR_INVALID;
    pgasi_general_t *g = calloc(1, sizeof *g);
    pgas_status_t status = g ? make(opts, g) : PGAS_ERR_NO_MEMORY;
    if (status != PGAS_OK) {
        if (g)
            pgasi_extents_destroy(g->extents);
        free(g);
        return status;
    }
    pthread_mutex_init(&g->lock, NULL);
    g->alignment = pgasi_regmem_alignment(opts);
    *general_p = g;
    return PGAS_OK;
}

void pgasi_general_destroy(pgasi_general_t *g)
{
    if (!g)
        return;
    while (g->chunks) {
        chunk_t *chunk = g->chunks;
        g->chunks = chunk->next;
        free(chunk);
    }
    pgasi_extents_destroy(g->extents);
    pgasi_super_destroy(g->super);
    pthread_mutex_destroy(&g->lock);
    free(g);
}

/* ---- super-chunks ---- */

/* Frees the block that is the empty part of the line, and replaces it by three: room for the
 * super-chunk, the gap, and the rest. */
static pgas_status_t enter(pgasi_general_t *g, chunk_t *chunk)
{
    uint64_t end = g->line_used + chunk->block.bytes;
    chunk->line = g->line_used;
    if (end > LINE_BYTES - 2 * GAP)
        return PGAS_ERR_LIMIT;
    (void)pgasi_extents_free(g->extents, g->line_used);
    pgas_status_t status = pgasi_extents_alloc_at(g->extents, end, GAP);
    if (status == PGAS_OK)
        status = pgasi_extents_alloc_at(g->extents, end + GAP, LINE_BYTES - end - GAP);
    if (status == PGAS_OK) {
        g->line_used = end + GAP;
        return status;
    }
    (void)pgasi_extents_free(g->extents, end);
    /* uses the record that was just freed */
    (void)pgasi_extents_alloc_at(g->extents, g->line_used, LINE_BYTES - g->line_used);
    return status;
}

static pgas_status_t add_chunk(pgasi_general_t *g, size_t bytes, bool some_out)
{
    chunk_t *chunk = calloc(1, sizeof *chunk);
    if (!chunk)
        return PGAS_ERR_NO_MEMORY;
    pgas_status_t status = pgasi_super_take(g->super, bytes, some_out, &chunk->block);
    if (status != PGAS_OK) {
        free(chunk);
        return status;
    }
    status = enter(g, chunk);
    if (status != PGAS_OK) {
        pgasi_super_release(g->super, &chunk->block);
        free(chunk);
        return status;
    }
    chunk->next = g->chunks;
    g->chunks = chunk;
    return PGAS_OK;
}

/* Super-chunks without blocks become holes of the line. */
static void drop_empty(pgasi_general_t *g)
{
    chunk_t **at = &g->chunks;
    while (*at) {
        chunk_t *chunk = *at;
        uint64_t start, bytes;
        bool is_empty =
            pgasi_extents_state(g->extents, chunk->line, &start, &bytes) == PGASI_EXTENT_FREE &&
            bytes == chunk->block.bytes;
        if (!is_empty || pgasi_extents_alloc_at(g->extents, chunk->line, bytes) != PGAS_OK) {
            at = &chunk->next;
            continue;
        }
        *at = chunk->next;
        pgasi_super_release(g->super, &chunk->block);
        free(chunk);
    }
}

static pgas_status_t grow(pgasi_general_t *g, size_t bytes)
{
    pgas_status_t status = add_chunk(g, bytes, true);
    if (status != PGAS_ERR_AGAIN)
        return status;
    drop_empty(g); /* each of them is too small by itself */
    return add_chunk(g, bytes, g->n_blocks > 0);
}

static chunk_t *chunk_at_line(const pgasi_general_t *g, uint64_t line)
{
    chunk_t *chunk = g->chunks;
    while (chunk && (line < chunk->line || line - chunk->line >= chunk->block.bytes))
        chunk = chunk->next;
    return chunk;
}

static chunk_t *chunk_of(const pgasi_general_t *g, pgas_gptr_t ptr)
{
    chunk_t *chunk = g->chunks;
    while (chunk && (ptr < chunk->block.ptr || ptr - chunk->block.ptr >= chunk->block.bytes))
        chunk = chunk->next;
    return chunk;
}

/* ---- blocks ---- */

static pgas_status_t acquire(pgasi_general_t *g, size_t bytes, pgas_block_t *block_p)
{
    size_t room = PGASI_ALIGN_UP(bytes, g->alignment);
    uint64_t line = 0;
    pgas_status_t status = pgasi_extents_alloc_low(g->extents, room, g->alignment, &line);
    if (status != PGAS_OK) {
        status = grow(g, room);
        if (status == PGAS_OK)
            status = pgasi_extents_alloc_low(g->extents, room, g->alignment, &line);
        if (status != PGAS_OK)
            return status;
    }
    const chunk_t *chunk = chunk_at_line(g, line);
    uint64_t inside = line - chunk->line;
    g->used_bytes += room;
    g->n_blocks++;
    char *base = chunk->block.address; /* NULL: in the memory of another node */
    *block_p = (pgas_block_t){ .address = base ? base + inside : NULL,
                               .ptr = chunk->block.ptr + inside,
                               .bytes = bytes };
    return PGAS_OK;
}

pgas_status_t pgasi_general_acquire(pgasi_general_t *g, size_t bytes, pgas_block_t *block_p)
{
    if (!g || !block_p)
        return PGAS_ERR_INVALID;
    pgas_status_t status = pgasi_super_check(g->super, bytes);
    if (status != PGAS_OK)
        return status;
    pthread_mutex_lock(&g->lock);
    status = acquire(g, bytes, block_p);
    pthread_mutex_unlock(&g->lock);
    return status;
}

pgas_status_t pgasi_general_release(pgasi_general_t *g, const pgas_block_t *block)
{
    if (!g || !block)
        return PGAS_ERR_INVALID;
    pthread_mutex_lock(&g->lock);
    const chunk_t *chunk = chunk_of(g, block->ptr);
    uint64_t line = chunk ? chunk->line + (block->ptr - chunk->block.ptr) : 0, room = 0;
    pgas_status_t status =
        chunk ? pgasi_extents_size_of(g->extents, line, &room) : PGAS_ERR_INVALID;
    if (status == PGAS_OK)
        status = pgasi_extents_free(g->extents, line);
    if (status == PGAS_OK) {
        g->used_bytes -= room;
        g->n_blocks--;
    }
    pthread_mutex_unlock(&g->lock);
    return status;
}

bool pgasi_general_has(pgasi_general_t *g, pgas_gptr_t ptr)
{
    uint64_t room;
    pthread_mutex_lock(&g->lock);
    const chunk_t *chunk = chunk_of(g, ptr);
    bool has = chunk && pgasi_extents_size_of(g->extents, chunk->line + (ptr - chunk->block.ptr),
                                              &room) == PGAS_OK;
    pthread_mutex_unlock(&g->lock);
    return has;
}

pgasi_super_t *pgasi_general_super(const pgasi_general_t *g)
{
    return g->super;
}

void pgasi_general_trim(pgasi_general_t *g)
{
    pthread_mutex_lock(&g->lock);
    drop_empty(g);
    pgasi_super_trim(g->super);
    pthread_mutex_unlock(&g->lock);
}

pgas_status_t pgasi_general_info(pgasi_general_t *g, pgas_pool_info_t *info_p)
{
    if (!g)
        return PGAS_ERR_INVALID;
    pthread_mutex_lock(&g->lock);
    pgas_status_t status = pgasi_super_info_of(g->super, g->used_bytes, g->n_blocks, info_p);
    pthread_mutex_unlock(&g->lock);
    return status;
}
