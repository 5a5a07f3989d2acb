/** Shared libraries that are opened when a job first needs them. A job that never needs them starts
 *  faster, and its ranks use less memory. */
#ifndef PGASI_LIBRARY_H
#define PGASI_LIBRARY_H

#include <stdbool.h>
#include <stddef.h>

/** A function of a library, and the pointer that gets its address. */
typedef struct {
    const char *name;
    void *pointer_p;
} pgasi_library_fn_t;

/** Opens a library, which stays open, and finds functions in it and in the libraries that it needs.
 *  Directories of -rpath count, as for a library that the program was linked with.
 *  @return false: the library or a function does not exist, and why says which; no pointer has
 *          changed */
bool pgasi_library_open(const char *soname, const pgasi_library_fn_t *fns, size_t n, char *why,
                        size_t why_bytes);

#endif
