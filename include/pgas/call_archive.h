/** Calls whose arguments are an archive, and whose result may be one.
 *
 *      pgas_archive_put(&out, &step, sizeof step);
 *      pgas_archive_put_object(&out, halo, bytes);
 *      pgas_call_args(pgas_on_rank(7), handler, &out, NULL);           the archive is empty again
 *
 *      pgas_archive_from_call(&in);                                    in the handler on rank 7
 *      pgas_archive_get_object(&in, &halo, &bytes);         no copy; the handler is a holder
 *
 *  The message of the call contains the stream and the table of chunks. The target reads all chunks
 *  at once into objects of its own (pgas/rma_object.h). Then, before the handler runs, it sends one
 *  acknowledgement: no rank reads the caller's memory any more. pgas/call_args.h has typed calls
 *  over this.
 *
 *  Source: HPX parcels; one-sided reads as in HPX's LCI and libfabric parcelports. */
#ifndef PGAS_CALL_ARCHIVE_H
#define PGAS_CALL_ARCHIVE_H

#include "pgas/archive.h"
#include "pgas/call.h"

PGAS_BEGIN_DECLS

/** Runs a handler with an archive. The handler reads it by pgas_archive_from_call.
 *  Shape:  target is a rank, thread or service. opts may be NULL. Its buffers, result and spawn are
 *          refused (PGAS_ERR_UNSUPPORTED). Calls with archives of one thread to one target, in one
 *          way, run in the order issued. Other calls may overtake them.
 *  Units:  at most 65535 chunks and PGAS_BUFFER_LIMIT bytes of chunks, otherwise PGAS_ERR_LIMIT. A
 *          stream of more than 16 KiB is one more chunk.
 *  Done:   on return the archive is empty and may be used again. opts->local, or sync with
 *          PGAS_LOCAL, completes when no rank reads memory of the program any more. sync completes
 *          otherwise as in pgas_call_to.
 *  Owns:   pointer chunks must not change until local completion. Objects are shared until then.
 *          Without local and sync the library copies pointer chunks before it returns.
 *  Cost:   one message; with chunks also an acknowledgement. On the node a chunk costs one copy,
 *          between nodes one get. Registered chunks need no registration. Small pointer chunks are
 *          first copied into registered memory if the target does not map them. At most 1792 calls
 *          with chunks of a rank are not acknowledged; further ones wait.
 *  @return as pgas_call_to, and the error of the archive. After an error it is unchanged. */
PGAS_API pgas_status_t pgas_call_args(pgas_target_t target, pgas_handler_t handler,
                                      pgas_archive_t *archive, const pgas_call_opts_t *opts);

/** Begins to read the archive of the call whose handler runs. *in_p is valid until the handler
 *  returns. The handler frees it by pgas_archive_free.
 *  @return PGAS_ERR_CONTEXT  not in a handler
 *          PGAS_ERR_INVALID  the call has no archive */
PGAS_API pgas_status_t pgas_archive_from_call(pgas_archive_t *in_p);

/** Calls as pgas_call_args does. The handler replies by pgas_reply_args. When sync completes,
 *  *result_p is a reader of the reply. The caller frees it, also after an error. *result_p and
 *  *sync must exist until then.
 *  @return PGAS_ERR_INVALID  sync is NULL, or opts has a sync or another time of completion */
PGAS_API pgas_status_t pgas_call_args_return_nb(pgas_target_t target, pgas_handler_t handler,
                                                pgas_archive_t *archive,
                                                const pgas_call_opts_t *opts,
                                                pgas_archive_t *result_p, pgas_sync_t *sync);
/** Does the same, and waits. @return as above, and
 *          PGAS_ERR_PEER     the target has failed
 *          PGAS_ERR_CONTEXT  in a plain handler */
PGAS_API pgas_status_t pgas_call_args_return(pgas_target_t target, pgas_handler_t handler,
                                             pgas_archive_t *archive, pgas_archive_t *result_p);

/** Replies with an archive to the call whose handler runs, at most once, and empties it. The
 *  library calls done(arg), on any thread, when no rank reads memory of the program any more. If
 *  done is NULL, it copies pointer chunks.
 *  @return as pgas_reply; PGAS_ERR_INVALID also if the caller wants no archive */
PGAS_API pgas_status_t pgas_reply_args(pgas_archive_t *archive, void (*done)(void *arg), void *arg);

PGAS_END_DECLS
#endif
