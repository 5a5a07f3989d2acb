/** Functions of this folder that the folders above use, and that belong to no other header. */
#ifndef PGASI_CALL_H
#define PGASI_CALL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "call/sync.h"
#include "pgas/call.h"
#include "pgas/status.h"

/** Reads the options of a call. NULL: defaults.
 *  @return PGAS_OK
 *          PGAS_ERR_INVALID  an unknown size or value, or values that exclude each other */
pgas_status_t pgasi_call_read_opts(const pgas_call_opts_t *opts, const pgas_call_opts_t **o_p);

struct pgasi_call_to;
/** Describes a call without arguments to a rank, thread or service, and checks target and handler.
 *  The caller has read the options.
 *  @return as pgas_call_to; PGAS_ERR_UNSUPPORTED for teams */
pgas_status_t pgasi_call_describe(pgas_target_t target, pgas_handler_t handler,
                                  const pgas_call_opts_t *o, struct pgasi_call_to *c);

/** A call by pgas_call_to, whose target, arguments and options are valid. */
typedef struct pgasi_call_to {
    int rank, ep; /* not for teams */
    bool shared;  /* it travels as PGAS_WAY_SEND says */
    pgas_handler_t handler;
    const void *args;
    size_t bytes;
    pgas_target_t target;
    const pgas_call_opts_t *o;
    struct pgas_agg *agg; /* NULL: the call leaves at once */
} pgasi_call_to_t;

/** Sends a message of two pieces without a token to the target of a call, or collects it. */
pgas_status_t pgasi_call_deliver_pair(const pgasi_call_to_t *call, uint32_t number,
                                      const void *head, size_t head_bytes, const void *data,
                                      size_t bytes, pgas_full_t full);
/** Carries out a call by an aggregator to a rank, thread or service. */
pgas_status_t pgasi_call_by_agg(struct pgas_agg *agg, pgas_target_t target, pgas_handler_t handler,
                                const void *args, size_t bytes, const pgas_call_opts_t *o);

/** Sends a call of one descriptor, with its counter or its result. number: the handler of the
 *  descriptor, which may be one of the library. */
pgas_status_t pgasi_call_send(const pgasi_call_to_t *call, uint32_t number, const void *args,
                              size_t bytes);

/** Publishes the calls that the calling thread has gathered, and waits until all that it has issued
 *  has been sent. The thread may then stay away from the library, although no other thread makes
 *  progress on its context. It must not be called in a handler. */
pgas_status_t pgasi_call_complete(void);

/** Drops the call that the thread has begun with pgas_call_begin, if there is one, and takes back
 *  what it has raised ahead (mem/ahead.h). It is called when the thread leaves, or when its handler
 *  has ended. */
void pgasi_call_forget(void);

/** Opens the inline parts of pgas_call and pgas_agg_call to the calling thread. The thread must
 *  have a context and a send queue of its own; otherwise nothing happens. */
void pgasi_call_path_open(void);

/** Work that quiescence waits for and that no channel counts: calls whose buffers are being read,
 *  and replies that are being put. A reader reads `ended` first. */
typedef struct {
    uint64_t begun, ended;
} pgasi_quiesce_t;
extern pgasi_quiesce_t pgasi_quiesce;

#endif
