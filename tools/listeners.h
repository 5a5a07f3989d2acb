/* The sockets of a process that listen, for pgas_info --job. */
#ifndef TOOLS_LISTENERS_H
#define TOOLS_LISTENERS_H

#include <stdio.h>

#define LISTENERS_MAX 48

typedef enum { SINCE_MPI, SINCE_PGAS } listener_since_t;

typedef struct {
    unsigned long inode;
    listener_since_t since;
    char protocol[8];
    char address[112];
} listener_t;

/** Plain memory, so that rank 0 can gather it. */
typedef struct {
    listener_since_t now;
    int n, more;
    char host[64];
    listener_t list[LISTENERS_MAX];
} listeners_t;

/** Add the sockets of this process that are not in the list yet. */
void listeners_look(listeners_t *all, listener_since_t since);
/** Gathers the sockets of all ranks; rank 0 prints them. Collective, while the library runs.
 *  @return 0; -1 if that fails */
int listeners_print(FILE *out, listeners_t *mine);

#endif
