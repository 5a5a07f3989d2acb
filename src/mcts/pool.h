/** Memory of nodes. Each worker takes blocks from a pool of its own. All workers of a rank share
 *  the rest of memory_bytes, and the blocks that the idle phase gave back. */
#ifndef PGASI_MCTS_POOL_H
#define PGASI_MCTS_POOL_H

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define POOL_CLASSES 96

/* Shared by the workers of the rank. */
typedef struct {
    pthread_mutex_t lock;
    void *free[POOL_CLASSES]; /* blocks that the idle phase gave back */
    int64_t room;             /* bytes of memory_bytes that no worker holds */
    int64_t share;            /* bytes that a worker takes at least, if they are available */
    bool full;                /* an allocation failed since the last idle phase: no more nodes */
} shared_pool_t;

/* The pool of one worker. */
typedef struct {
    void *free[POOL_CLASSES];
    struct slab *slabs, *spare; /* spare: slabs of which nothing is used */
    char *fresh, *fresh_end;    /* the part of the newest slab that was never used */
    shared_pool_t *shared;
    int64_t used_bytes;
    int64_t room;      /* bytes left of the worker's share */
    uint32_t n_checks; /* checks for room since the search was created */
} pool_t;

/* The bytes that a block of this size takes from the limit. */
size_t pgasi_mcts_pool_block_bytes(size_t bytes);
/* The contents are undefined. Returns NULL if there is no memory, or if memory_bytes is used up. */
void *pgasi_mcts_pool_take(pool_t *pool, size_t bytes);
void pgasi_mcts_pool_give(pool_t *pool, void *block, size_t bytes);
/* Only in an idle phase: any worker may take the block again. */
void pgasi_mcts_pool_give_shared(pool_t *pool, void *block, size_t bytes);
/* Only in an idle phase, after the room of all workers was set to 0. */
void pgasi_mcts_pool_set_room(shared_pool_t *shared, int64_t room, int64_t share);
/* Takes back all blocks of the pool, and empties the shared lists. */
void pgasi_mcts_pool_reset(pool_t *pool);
void pgasi_mcts_pool_fini(pool_t *pool);

#endif
