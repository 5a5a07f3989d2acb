/** Registered memory inside the library: the allocators behind pools and zones, owners and their
 *  bytes.
 *
 *  A super-chunk allocator takes super-chunks from the rank's heap (from the end that pgas_alloc_on
 *  uses) and cuts them into units. Each circular, linear and general allocator has a super-chunk
 *  allocator of its own and gives out blocks. The heap is registered with the transport once, at
 *  init, and mapped by the node's ranks. So every block has a global pointer at once, and nothing
 *  is registered per super-chunk or operation.
 *
 *  Completion numbers. A sender gives each block a number when it is done with it (retire); numbers
 *  grow with time. Now and then it says up to which number all operations are complete (complete).
 *  That frees all blocks with such numbers, at the cost of a comparison each, without an event per
 *  block. pool.c does this with the completion numbers of the thread's context.
 *
 *  Source: Seriema (super-chunk, circular, linear-circular and general allocators). The public code
 *  of the paper keeps a counter per buffer; here one number of the context serves all. */
#ifndef PGASI_REGMEM_H
#define PGASI_REGMEM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include "pgas/mem.h"

#define PGASI_REG_OWNERS_MAX 64 /* further owners share the last one */

/** The least alignment of every block. */
#define PGASI_REG_ALIGN 64

typedef struct pgasi_super pgasi_super_t;
typedef struct pgasi_circular pgasi_circular_t;
typedef struct pgasi_linear pgasi_linear_t;
typedef struct pgasi_general pgasi_general_t;

/** Creates an allocator. super and general: for any attached thread; circular and linear: for one
 *  thread at a time. @return as pgas_pool_create */
pgas_status_t pgasi_super_create(const pgas_pool_opts_t *opts, pgasi_super_t **super_p);
pgas_status_t pgasi_circular_create(const pgas_pool_opts_t *opts, pgasi_circular_t **circular_p);
pgas_status_t pgasi_linear_create(const pgas_pool_opts_t *opts, pgasi_linear_t **linear_p);
pgas_status_t pgasi_general_create(const pgas_pool_opts_t *opts, pgasi_general_t **general_p);

/** Destroys an allocator and gives all memory back. NULL is ignored. */
void pgasi_super_destroy(pgasi_super_t *super);
void pgasi_circular_destroy(pgasi_circular_t *circular);
void pgasi_linear_destroy(pgasi_linear_t *linear);
void pgasi_general_destroy(pgasi_general_t *general);

/** Gives a block of at least `bytes` contiguous bytes; more than 1 GiB is possible. @return as
 *  pgas_pool_acquire with timeout 0 */
pgas_status_t pgasi_super_acquire(pgasi_super_t *super, size_t bytes, pgas_block_t *block_p);
pgas_status_t pgasi_circular_acquire(pgasi_circular_t *circular, size_t bytes,
                                     pgas_block_t *block_p);
pgas_status_t pgasi_linear_acquire(pgasi_linear_t *linear, size_t bytes, pgas_block_t *block_p);
pgas_status_t pgasi_general_acquire(pgasi_general_t *general, size_t bytes, pgas_block_t *block_p);

/** Gives a block back at once. super and general read block->ptr alone. @return as
 *  pgas_pool_release */
pgas_status_t pgasi_super_release(pgasi_super_t *super, const pgas_block_t *block);
pgas_status_t pgasi_circular_release(pgasi_circular_t *circular, const pgas_block_t *block);
pgas_status_t pgasi_linear_release(pgasi_linear_t *linear, const pgas_block_t *block);
pgas_status_t pgasi_general_release(pgasi_general_t *general, const pgas_block_t *block);

/** Gives a block back that may be reused when `number` is complete. The number 2^64 - 1 is refused.
 *  @return as release. */
pgas_status_t pgasi_circular_retire(pgasi_circular_t *circular, const pgas_block_t *block,
                                    uint64_t number);
pgas_status_t pgasi_linear_retire(pgasi_linear_t *linear, const pgas_block_t *block,
                                  uint64_t number);

/** Says that all numbers up to this one are complete, and frees the blocks retired with them. A
 *  number below an earlier one changes nothing. */
void pgasi_circular_complete(pgasi_circular_t *circular, uint64_t number);
void pgasi_linear_complete(pgasi_linear_t *linear, uint64_t number);
/** All retired blocks are complete, and numbers begin anew: another context's follow. */
void pgasi_circular_settle(pgasi_circular_t *circular);
void pgasi_linear_settle(pgasi_linear_t *linear);

/** Gives super-chunks without a block in use back to the heap. An allocator does so by itself only
 *  when it is at its limit and needs a larger one. */
void pgasi_super_trim(pgasi_super_t *super);
void pgasi_circular_trim(pgasi_circular_t *circular);
void pgasi_linear_trim(pgasi_linear_t *linear);
void pgasi_general_trim(pgasi_general_t *general);

/** Describes an allocator. @return PGAS_OK, PGAS_ERR_INVALID: a null pointer */
pgas_status_t pgasi_super_info(pgasi_super_t *super, pgas_pool_info_t *info_p);
pgas_status_t pgasi_circular_info(pgasi_circular_t *circular, pgas_pool_info_t *info_p);
pgas_status_t pgasi_linear_info(pgasi_linear_t *linear, pgas_pool_info_t *info_p);
pgas_status_t pgasi_general_info(pgasi_general_t *general, pgas_pool_info_t *info_p);

/* ---- super.c ---- */

/** Makes the base of an allocator `object`. pgasi_regmem_stop ends it by destroy(object). */
pgas_status_t pgasi_super_create_for(const pgas_pool_opts_t *opts, void (*destroy)(void *object),
                                     void *object, pgasi_super_t **super_p);
/** Takes a whole super-chunk of at least this size: a free one, otherwise a new one. @return as
 *  pgasi_super_acquire. If some_out (the caller's blocks will return), PGAS_ERR_AGAIN without a log
 *  line replaces PGAS_ERR_NO_MEMORY */
pgas_status_t pgasi_super_take(pgasi_super_t *super, size_t bytes, bool some_out,
                               pgas_block_t *block_p);
/** Makes the allocator return PGAS_ERR_AGAIN, without a log line, in place of PGAS_ERR_NO_MEMORY.
 *  Its user then takes other memory, and calls this before it uses the allocator. */
void pgasi_super_be_quiet(pgasi_super_t *super);
size_t pgasi_super_unit_bytes(const pgasi_super_t *super);
/** Checks a size.
 *  @return PGAS_OK
 *          PGAS_ERR_INVALID  no bytes
 *          PGAS_ERR_LIMIT    more than the allocator can ever hold (logged once) */
pgas_status_t pgasi_super_check(pgasi_super_t *super, size_t bytes);
/** The alignment of blocks, from valid options. */
size_t pgasi_regmem_alignment(const pgas_pool_opts_t *opts);

/** As pgasi_super_info, for an allocator that uses this one and has handed out so many bytes and
 *  blocks. */
pgas_status_t pgasi_super_info_of(pgasi_super_t *super, size_t used_bytes, size_t n_blocks,
                                  pgas_pool_info_t *info_p);

/* Super-chunks of another rank (opts->rank). The allocator never waits for that rank: its caller
 * allocates the memory there and adds it, and frees the memory that the allocator gives up. */

/** The bytes by which the allocator would grow for a block of this size, at most its room; 0: it is
 *  at its limit. *least_p: the bytes without which growth is of no use. */
size_t pgasi_super_growth(pgasi_super_t *super, size_t bytes, size_t *least_p);
/** Adds memory of the other rank as a super-chunk. `origin` is what pgas_alloc_on gave; ptr is
 *  aligned. @return PGAS_ERR_LIMIT: no room any more; PGAS_ERR_NO_MEMORY */
pgas_status_t pgasi_super_adopt(pgasi_super_t *super, pgas_gptr_t origin, pgas_gptr_t ptr,
                                size_t bytes);
/** Gives up all super-chunks, also those with blocks in use. */
void pgasi_super_abandon(pgasi_super_t *super);
/** Takes the origin of a super-chunk that was given up. @return PGAS_NULL: there is none */
pgas_gptr_t pgasi_super_orphan(pgasi_super_t *super);

/** Frees all allocators that still exist. */
void pgasi_supers_stop(void);

/** The zone that an option means for the calling thread; -1: none, as on machines with one zone. */
int pgasi_super_choose_zone(int zone);

/* ---- reg_owner.c ---- */

/** Copies up to n owners of super-chunks. @return the number of owners */
int pgasi_regmem_owners(pgas_mem_owner_t *owners, int n);
/** Adds an allocator's limit to its owner's, or subtracts it. */
pgas_mem_owner_t *pgasi_reg_owner_enter(const char *name, size_t max_bytes);
void pgasi_reg_owner_leave(pgas_mem_owner_t *owner, size_t max_bytes);
/** Adds bytes to an owner (negative: given back). */
void pgasi_reg_owner_count(pgas_mem_owner_t *owner, int64_t change);
void pgasi_reg_owners_stop(void);

/* ---- circular.c, linear.c, general.c ---- */

/** As acquire, but it grows only if requested; otherwise it returns PGAS_ERR_AGAIN. */
pgas_status_t pgasi_circular_try(pgasi_circular_t *circular, size_t bytes, bool grow,
                                 pgas_block_t *block_p);
pgas_status_t pgasi_linear_try(pgasi_linear_t *linear, size_t bytes, bool grow,
                               pgas_block_t *block_p);
/** Their base. */
pgasi_super_t *pgasi_circular_super(const pgasi_circular_t *circular);
pgasi_super_t *pgasi_linear_super(const pgasi_linear_t *linear);
pgasi_super_t *pgasi_general_super(const pgasi_general_t *general);
/** Whether some blocks become free when numbers are complete, without a further retire. circular:
 *  the oldest block is among them. */
bool pgasi_circular_waits(const pgasi_circular_t *circular);
bool pgasi_linear_waits(const pgasi_linear_t *linear);
/** Whether a live block begins at ptr. */
bool pgasi_general_has(pgasi_general_t *general, pgas_gptr_t ptr);

/* ---- pool.c ---- */

/** The calling thread detaches, and all its operations are complete: its pools belong to no
 *  thread. */
void pgasi_pools_leave(void);
/** Frees pools and all allocators that still exist. Called before the heap is freed. */
void pgasi_regmem_stop(void);

#endif
