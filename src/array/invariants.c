/* Invariants of one chunk, checked after each step in debug builds. */
#include "array/audit.h"

bool pgasi_array_home_is_sound(const pgasi_array_t *a, uint64_t index)
{
    const pgasi_array_dir_t *dir = &a->dir[index];
    const pgasi_array_grant_t *grant = &a->peer[a->rank].grants[index];
    switch (dir->state) {
    case PGASI_H_U:
        return grant->now.permits == PGASI_ARRAY_ALL && !dir->pending && !dir->members;
    case PGASI_H_S:
        return grant->now.permits == PGASI_ARRAY_READS && !dir->pending;
    case PGASI_H_O:
        return grant->now.permits == PGASI_ARRAY_OPERATES && grant->now.op == dir->op &&
               !dir->pending;
    case PGASI_H_D:
        return grant->now.permits == PGASI_ARRAY_NOTHING && !dir->pending && !dir->members &&
               dir->owner >= 0 && dir->owner < a->n_ranks && a->node_rank[dir->owner] < 0;
    default:
        return true; /* in transition */
    }
}

bool pgasi_array_cache_line_is_sound(const pgasi_array_t *a, uint32_t li)
{
    const pgasi_array_cache_line_t *line = &a->line[li];
    switch (line->state) {
    case PGASI_C_I:
    case PGASI_C_IS:
    case PGASI_C_IW:
    case PGASI_C_IO:
    case PGASI_C_W:
        return line->grant.now.permits == PGASI_ARRAY_NOTHING;
    case PGASI_C_S:
    case PGASI_C_SW:
        return line->grant.now.permits == PGASI_ARRAY_READS;
    case PGASI_C_D:
        return line->grant.now.permits == PGASI_ARRAY_ALL;
    case PGASI_C_O:
        return line->grant.now.permits == PGASI_ARRAY_OPERATES && line->grant.now.op == line->op;
    default:
        return true;
    }
}
