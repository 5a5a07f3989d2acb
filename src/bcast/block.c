/* Memory of a broadcast at a rank. See bcast.h. */
#include <stdlib.h>

#include "bcast/bcast.h"
#include "mem/block.h"
#include "pgas/mem.h"

pgasi_bcast_block_t *pgasi_bcast_block_new(size_t bytes, bool for_peers)
{
    pgasi_bcast_block_t *b = malloc(sizeof *b + (for_peers ? 0 : bytes));
    if (!b)
        return NULL;
    *b = (pgasi_bcast_block_t){ 1, PGAS_NULL, for_peers, b->own };
    if (!for_peers || !bytes)
        return b;
    if (pgasi_block_alloc(PGAS_ZONE_NONE, bytes, &b->ptr) != PGAS_OK) {
        free(b);
        return NULL;
    }
    b->memory = pgas_gptr_local(b->ptr, 1);
    return b;
}

pgasi_bcast_block_t *pgasi_bcast_block_of_user(const void *data, pgas_gptr_t ptr)
{
    pgasi_bcast_block_t *b = malloc(sizeof *b);
    if (b)
        *b = (pgasi_bcast_block_t){ 1, ptr, false, (char *)(uintptr_t)data };
    return b;
}

void pgasi_bcast_block_release(pgasi_bcast_block_t *b)
{
    if (!b || __atomic_sub_fetch(&b->n_users, 1, __ATOMIC_ACQ_REL) > 0)
        return;
    if (b->ours)
        pgasi_block_free(b->ptr);
    free(b);
}

pgasi_bcast_block_t *pgasi_bcast_block_keep(pgasi_bcast_block_t *b)
{
    if (b)
        __atomic_add_fetch(&b->n_users, 1, __ATOMIC_RELAXED);
    return b;
}
