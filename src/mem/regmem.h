/** Registered memory inside the library: what the allocators share, owners and their bytes, and
 *  rings of threads. */
#ifndef PGASI_REGMEM_H
#define PGASI_REGMEM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include "pgas/regmem.h"

#define PGASI_REG_OWNERS_MAX 64 /* more share the last one */

/** The least alignment that every block has. */
#define PGASI_REG_ALIGN 64

/* ---- super.c ---- */

/** Makes the ground of an allocator `object`, which pgasi_regmem_stop ends by destroy(object). */
pgas_status_t pgasi_super_create(const pgas_regmem_opts_t *opts, void (*destroy)(void *object),
                                 void *object, pgas_super_t **super_p);
/** A whole super-chunk of at least bytes: one that is free, else a new one. @return as
 *  pgas_super_acquire; but nothing is logged for PGAS_ERR_NO_MEMORY if the caller has blocks out,
 *  it is PGAS_ERR_AGAIN then. */
pgas_status_t pgasi_super_take(pgas_super_t *super, size_t bytes, bool some_out,
                               pgas_block_t *block_p);
size_t pgasi_super_unit_bytes(const pgas_super_t *super);
size_t pgasi_super_max_bytes(const pgas_super_t *super);
/** PGAS_OK, or PGAS_ERR_INVALID for no bytes, PGAS_ERR_LIMIT (logged once) for more than the
 *  allocator can ever hold. */
pgas_status_t pgasi_super_check(pgas_super_t *super, size_t bytes);
/** Blocks' alignment from options that were found good. */
size_t pgasi_regmem_alignment(const pgas_regmem_opts_t *opts);

/** pgas_super_info of an allocator on top of it, which itself has so much out. */
pgas_status_t pgasi_super_info(pgas_super_t *super, size_t used_bytes, size_t n_blocks,
                               pgas_regmem_info_t *info_p);

/** Frees every allocator that is left. */
void pgasi_supers_stop(void);
/** Copies up to n owners of super-chunks; returns how many there are. */
int pgasi_regmem_owners(pgas_reg_owner_t *owners, int n);
/** Adds an allocator's limit to its owner's, and takes it away again. */
pgas_reg_owner_t *pgasi_reg_owner_enter(const char *name, size_t max_bytes);
void pgasi_reg_owner_leave(pgas_reg_owner_t *owner, size_t max_bytes);
/** Counts bytes that an owner takes (or gives back: negative). */
void pgasi_reg_owner_count(pgas_reg_owner_t *owner, int64_t change);
void pgasi_reg_owners_stop(void);

/** The zone that an option means here and now; -1: none, as on machines with one zone. */
int pgasi_super_choose_zone(int zone);

/* ---- circular.c ---- */

/** As pgas_circular_acquire, without growth unless asked for: PGAS_ERR_AGAIN then. */
pgas_status_t pgasi_circular_try(pgas_circular_t *circular, size_t bytes, bool grow,
                                 pgas_block_t *block_p);
/** As pgasi_super_check. */
pgas_status_t pgasi_circular_check(pgas_circular_t *circular, size_t bytes);
/** The number with which the oldest block was retired; false if that has not been, or there is
 *  none. */
bool pgasi_circular_oldest(const pgas_circular_t *circular, uint64_t *number_p);

/* ---- zone.c ---- */

/** Forgets the zones' allocators, which go with all others. */
void pgasi_zones_stop(void);
/** Frees a block of one of them; false if it is none. */
bool pgasi_zones_release(pgas_gptr_t ptr);
/** Gives super-chunks in which nothing is out back to the heap. */
void pgasi_zones_trim(void);

/* ---- regmem.c ---- */

/** The calling thread detaches, all that it issued is complete: its rings go. */
void pgasi_rings_leave(void);
/** Frees rings and every allocator that is left; before the heap goes. */
void pgasi_regmem_stop(void);

#endif
