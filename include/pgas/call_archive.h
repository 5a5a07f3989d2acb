/** Calls whose arguments, and results, are archives.
 *
 *      pgas_archive_put(&out, &step, sizeof step);
 *      pgas_archive_put_object(&out, halo, bytes);
 *      pgas_call_args(pgas_on_rank(7), handler, &out, NULL);           the archive is empty again
 *
 *      pgas_archive_from_call(&in);                                    in the handler on rank 7
 *      pgas_archive_get_object(&in, &halo, &bytes);                   no copy; the handler has it
 *
 *  The stream travels in the message of the call. The message also has the table of chunks. The
 *  target reads all chunks at once into objects of its own (pgas/rma_object.h). One acknowledgement
 *  then gives the memory back to the caller, before the handler runs. pgas/call_args.h has typed
 *  calls over this.
 *
 *  Source: HPX parcels; one-sided reads as in its LCI and libfabric parcelports. */
#ifndef PGAS_CALL_ARCHIVE_H
#define PGAS_CALL_ARCHIVE_H

#include "pgas/archive.h"
#include "pgas/call.h"

PGAS_BEGIN_DECLS

/** Runs a handler with an archive. The handler reads it by pgas_archive_from_call.
 *  Shape:  target is a rank, thread or service. opts NULL: defaults; buffers, result and spawn are
 *          refused (PGAS_ERR_UNSUPPORTED). At most 65535 chunks, or one less with a stream of more
 *          than 16 KiB, and PGAS_BUFFER_LIMIT bytes of chunks; otherwise PGAS_ERR_LIMIT.
 *          Calls with archives of one thread to one target, in one way, run in the order issued.
 *          Other calls may overtake them.
 *  Done:   on return the archive is empty and may be used again. opts->local, or sync with
 *          PGAS_LOCAL, completes when no memory of the program is read any more; sync otherwise as
 *          in pgas_call_to. With neither, pointer chunks are copied on the way.
 *  Owns:   pointer chunks must not change until local completion. Objects are shared until then.
 *  Cost:   without chunks, a message. With chunks also an acknowledgement, and on the node one copy
 *          of them, between nodes one get each; no registration. Small pointer chunks are first
 *          copied into registered memory if the target does not map them. A rank may have 1792 such
 *          calls that are not acknowledged; further ones wait. A stream of more than 16 KiB is read
 *          as one more chunk.
 *  @return as pgas_call_to, and the error of the archive. After an error it is unchanged. */
PGAS_API pgas_status_t pgas_call_args(pgas_target_t target, pgas_handler_t handler,
                                      pgas_archive_t *archive, const pgas_call_opts_t *opts);

/** In a handler that was called with an archive: starts to read it. in_p is valid until the handler
 *  returns; the handler frees it by pgas_archive_free.
 *  @return PGAS_ERR_CONTEXT  not in a handler
 *          PGAS_ERR_INVALID  the call has no archive */
PGAS_API pgas_status_t pgas_archive_from_call(pgas_archive_t *in_p);

/** As pgas_call_args; the handler replies by pgas_reply_args. *result_p is a reader of the reply
 *  when sync reports, and the caller frees it, also after an error. It and sync must stay until
 *  then. @return PGAS_ERR_INVALID  sync is NULL; opts has a sync */
PGAS_API pgas_status_t pgas_call_args_return_nb(pgas_target_t target, pgas_handler_t handler,
                                                pgas_archive_t *archive,
                                                const pgas_call_opts_t *opts,
                                                pgas_archive_t *result_p, pgas_sync_t *sync);
/** The same, and waits. @return also PGAS_ERR_PEER, PGAS_ERR_CONTEXT in a plain handler */
PGAS_API pgas_status_t pgas_call_args_return(pgas_target_t target, pgas_handler_t handler,
                                             pgas_archive_t *archive, pgas_archive_t *result_p);

/** In a handler: replies with an archive, at most once, and empties it. When no memory of the
 *  program is read any more, done(arg) is called on any thread; NULL: pointer chunks are copied.
 *  @return as pgas_reply; PGAS_ERR_INVALID also: the caller wants no archive */
PGAS_API pgas_status_t pgas_reply_args(pgas_archive_t *archive, void (*done)(void *arg), void *arg);

PGAS_END_DECLS
#endif
