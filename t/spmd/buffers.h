/** For tests of calls with buffers, which differ in their buffers more than in their options. */
#ifndef SPMD_BUFFERS_H
#define SPMD_BUFFERS_H

#include "pgas/call.h"

/** pgas_call_to with buffers and a local counter beside the other options. */
static inline pgas_status_t call_buffers(pgas_target_t target, pgas_handler_t handler,
                                         const void *args, size_t bytes,
                                         const pgas_buffer_t *buffers, size_t n,
                                         const pgas_call_opts_t *opts, pgas_sync_t *local)
{
    pgas_call_opts_t o = PGAS_CALL_OPTS_INIT;
    if (opts)
        o = *opts;
    o.buffers = buffers;
    o.n_buffers = n;
    o.local = local;
    return pgas_call_to(target, handler, args, bytes, &o);
}

#endif
