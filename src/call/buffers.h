/** The buffers of the call that a thread runs, as pgas_buffer_get gives them to its handler. */
#ifndef PGASI_BUFFERS_H
#define PGASI_BUFFERS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/** A buffer that has arrived. */
typedef struct {
    char *address;
    uint64_t bytes;
    bool own;   /* malloc allocated it for this buffer */
    bool fixed; /* it is where the caller wanted it, and cannot be taken */
    bool taken; /* by the handler */
} pgasi_buffer_here_t;

/** The buffers of one call. The owner, which made them, finds them by its own function. */
typedef struct {
    void *owner;
    size_t n;
    pgasi_buffer_here_t *(*at)(void *owner, size_t i);
    int depth; /* pgasi_self.in_handler of the handler */
} pgasi_buffers_t;

/** Sets the buffers of the handler that the thread runs next, and returns those of the handler that
 *  it runs now. leave restores them. */
pgasi_buffers_t pgasi_buffers_enter(void *owner, size_t n,
                                    pgasi_buffer_here_t *(*at)(void *owner, size_t i));
void pgasi_buffers_leave(pgasi_buffers_t before);

/** The owner of the buffers of the running handler, if `at` is its function; otherwise NULL. */
void *pgasi_buffers_owner(pgasi_buffer_here_t *(*at)(void *owner, size_t i));

#endif
