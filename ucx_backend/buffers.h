/** Copies of received messages whose data UCX will reuse. Small and medium ones come from two
 *  reserved ranges of address space, whose pages are touched on first use; larger ones come from
 *  malloc, page-aligned. So the address shows whether pgasi_ucx_buffer_release or UCX frees a
 *  buffer. One thread at a time uses them. */
#ifndef PGASI_UCX_BUFFERS_H
#define PGASI_UCX_BUFFERS_H

#include <stdbool.h>
#include <stddef.h>
#include "base/checks.h"
#include "pgas/status.h"

#define PGASI_UCX_BUFFER_SIZES 2

typedef struct {
    char *base, *end; /* the range */
    char *fresh;      /* from here on no buffer was ever used */
    void *free_list;
    size_t bytes; /* of one buffer */
    void *spare;  /* borrowed for the message that is being delivered */
} pgasi_ucx_slots_t;

typedef struct pgasi_ucx_large {
    struct pgasi_ucx_large *next;
    void *data;
} pgasi_ucx_large_t;

typedef struct {
    pgasi_ucx_slots_t slots[PGASI_UCX_BUFFER_SIZES];
    pgasi_ucx_large_t *large;
} pgasi_ucx_buffers_t;

/** Address space of both ranges. */
size_t pgasi_ucx_buffers_bytes(void);

pgas_status_t pgasi_ucx_buffers_init(pgasi_ucx_buffers_t *buffers);
void pgasi_ucx_buffers_fini(pgasi_ucx_buffers_t *buffers);

/** Takes a buffer of at least so many bytes. @return NULL: no memory is left */
void *pgasi_ucx_buffer_acquire(pgasi_ucx_buffers_t *buffers, size_t bytes);

/** Frees a buffer. @return false: it is not one of these */
bool pgasi_ucx_buffer_release(pgasi_ucx_buffers_t *buffers, void *data);

/** Borrows a buffer for one message. The caller then keeps it or returns it, which costs
 *  nothing. */
static inline void *pgasi_ucx_buffer_borrow(pgasi_ucx_buffers_t *buffers, size_t bytes)
{
    for (int i = 0; i < PGASI_UCX_BUFFER_SIZES; i++) {
        pgasi_ucx_slots_t *slots = &buffers->slots[i];
        if (PGAS_LIKELY(bytes <= slots->bytes && slots->spare))
            return slots->spare;
    }
    return pgasi_ucx_buffer_acquire(buffers, bytes);
}

void pgasi_ucx_buffer_keep(pgasi_ucx_buffers_t *buffers, void *data);

static inline void pgasi_ucx_buffer_return(pgasi_ucx_buffers_t *buffers, void *data)
{
    if (PGAS_UNLIKELY(data != buffers->slots[0].spare && data != buffers->slots[1].spare))
        pgasi_ucx_buffer_release(buffers, data);
}

#endif
