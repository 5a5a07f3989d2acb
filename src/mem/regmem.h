/** Registered memory inside the library: the common part of the allocators, owners and their bytes,
 *  and rings of threads. */
#ifndef PGASI_REGMEM_H
#define PGASI_REGMEM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include "pgas/regmem.h"

#define PGASI_REG_OWNERS_MAX 64 /* further owners share the last one */

/** The least alignment of every block. */
#define PGASI_REG_ALIGN 64

/* ---- super.c ---- */

/** Makes the base of an allocator `object`. pgasi_regmem_stop ends it by destroy(object). */
pgas_status_t pgasi_super_create(const pgas_regmem_opts_t *opts, void (*destroy)(void *object),
                                 void *object, pgas_super_t **super_p);
/** Takes a whole super-chunk of at least this size: a free one, otherwise a new one. @return as
 *  pgas_super_acquire; if the caller has blocks out, PGAS_ERR_AGAIN without a log line in place of
 *  PGAS_ERR_NO_MEMORY */
pgas_status_t pgasi_super_take(pgas_super_t *super, size_t bytes, bool some_out,
                               pgas_block_t *block_p);
size_t pgasi_super_unit_bytes(const pgas_super_t *super);
/** Checks a size.
 *  @return PGAS_OK
 *          PGAS_ERR_INVALID  no bytes
 *          PGAS_ERR_LIMIT    more than the allocator can ever hold (logged once) */
pgas_status_t pgasi_super_check(pgas_super_t *super, size_t bytes);
/** The alignment of blocks, from valid options. */
size_t pgasi_regmem_alignment(const pgas_regmem_opts_t *opts);

/** As pgas_super_info, for an allocator that uses this one and has handed out so many bytes and
 *  blocks. */
pgas_status_t pgasi_super_info(pgas_super_t *super, size_t used_bytes, size_t n_blocks,
                               pgas_regmem_info_t *info_p);

/** Frees all allocators that still exist. */
void pgasi_supers_stop(void);
/** Copies up to n owners of super-chunks. @return the number of owners */
int pgasi_regmem_owners(pgas_reg_owner_t *owners, int n);
/** Adds an allocator's limit to its owner's, or subtracts it. */
pgas_reg_owner_t *pgasi_reg_owner_enter(const char *name, size_t max_bytes);
void pgasi_reg_owner_leave(pgas_reg_owner_t *owner, size_t max_bytes);
/** Adds bytes to an owner (negative: given back). */
void pgasi_reg_owner_count(pgas_reg_owner_t *owner, int64_t change);
void pgasi_reg_owners_stop(void);

/** The zone that an option means for the calling thread; -1: none, as on machines with one zone. */
int pgasi_super_choose_zone(int zone);

/* ---- circular.c ---- */

/** As pgas_circular_acquire, but it grows only if requested; otherwise it returns
 *  PGAS_ERR_AGAIN. */
pgas_status_t pgasi_circular_try(pgas_circular_t *circular, size_t bytes, bool grow,
                                 pgas_block_t *block_p);
/** As pgasi_super_check. */
pgas_status_t pgasi_circular_check(pgas_circular_t *circular, size_t bytes);
/** The number with which the oldest block was retired. @return false: there is none, or it was not
 *  retired */
bool pgasi_circular_oldest(const pgas_circular_t *circular, uint64_t *number_p);

/* ---- regmem.c ---- */

/** The calling thread detaches, and all its operations are complete: frees its rings. */
void pgasi_rings_leave(void);
/** Frees rings and all allocators that still exist. Called before the heap is freed. */
void pgasi_regmem_stop(void);

#endif
