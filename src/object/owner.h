/** What the owner of memory does for peers. */
#ifndef PGASI_OWNER_H
#define PGASI_OWNER_H

/** Sets the internal handlers and the hooks of the memory layer. */
void pgasi_owner_start(void);

/* alloc_on.c: the same for memory that other ranks ask for. */
void pgasi_alloc_on_start(void);

#endif
