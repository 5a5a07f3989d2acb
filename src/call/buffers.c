/* The buffers of a call, as its handler gets them: see buffers.h. */
#include "call/buffers.h"

#include <stdlib.h>
#include <string.h>

#include "mem/thread.h"
#include "pgas/call.h"

static __thread pgasi_buffers_t here __attribute__((tls_model("initial-exec")));

pgasi_buffers_t pgasi_buffers_enter(void *owner, size_t n,
                                    pgasi_buffer_here_t *(*at)(void *owner, size_t i))
{
    pgasi_buffers_t before = here;
    here = (pgasi_buffers_t){ owner, n, at, pgasi_self.in_handler };
    return before;
}

void pgasi_buffers_leave(pgasi_buffers_t before)
{
    here = before;
}

/* A handler that runs while this one waits has buffers of its own, or none. */
static bool is_running(void)
{
    return here.owner && here.depth == pgasi_self.in_handler;
}

void *pgasi_buffers_owner(pgasi_buffer_here_t *(*at)(void *owner, size_t i))
{
    return is_running() && here.at == at ? here.owner : NULL;
}

static pgasi_buffer_here_t *buffer_at(size_t i)
{
    return is_running() && i < here.n ? here.at(here.owner, i) : NULL;
}

size_t pgas_buffer_count(void)
{
    return is_running() ? here.n : 0;
}

pgas_status_t pgas_buffer_get(size_t i, void **address_p, size_t *bytes_p)
{
    const pgasi_buffer_here_t *b = buffer_at(i);
    if (!b)
        return PGAS_ERR_RANGE;
    if (!address_p || !bytes_p)
        return PGAS_ERR_INVALID;
    *address_p = b->address;
    *bytes_p = b->bytes;
    return PGAS_OK;
}

pgas_status_t pgas_buffer_take(size_t i, void **address_p)
{
    pgasi_buffer_here_t *b = buffer_at(i);
    if (!b)
        return PGAS_ERR_RANGE;
    if (!address_p || b->taken || b->fixed)
        return PGAS_ERR_INVALID;
    if (!b->own) {
        char *memory = malloc(b->bytes ? b->bytes : 1);
        if (!memory)
            return PGAS_ERR_NO_MEMORY;
        if (b->bytes)
            memcpy(memory, b->address, b->bytes);
        b->address = memory;
    }
    b->own = false;
    b->taken = true;
    *address_p = b->address;
    return PGAS_OK;
}
