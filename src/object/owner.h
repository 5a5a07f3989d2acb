/** The owner of memory serves peers. */
#ifndef PGASI_OWNER_H
#define PGASI_OWNER_H

/** Sets the internal handlers and the hooks of the memory layer. */
void pgasi_owner_start(void);

/** Sets the internal handler for allocations by other ranks (alloc_on.c). */
void pgasi_alloc_on_start(void);

#endif
