/** Status codes of libpgas.
 *
 *      pgas_status_t status = pgas_alloc(bytes, &ptr);
 *      if (status != PGAS_OK)
 *          fprintf(stderr, "pgas_alloc: %s\n", pgas_status_text(status));
 *
 *  Every function that can fail returns a pgas_status_t. Zero is success. A positive value means
 *  that the work was accepted and completes later. Negative values are errors. PGAS_ERR_AGAIN is
 *  ordinary back-pressure: nothing has happened; make progress and try again. It is never logged.
 *  Unless a function says otherwise, an error leaves its objects and outputs unchanged.
 *
 *  The headers do not repeat two statuses: PGAS_OK (0) reports success, and PGAS_ERR_NOT_INIT that
 *  a function needs the library, which is not initialised. */
#ifndef PGAS_STATUS_H
#define PGAS_STATUS_H

#include "pgas/detail/compiler.h"

/** The one list of codes: X(name, number, text). Numbers never change; new codes go to the end. */
#define PGAS_STATUS_LIST(X)                                                   \
    X(PGAS_OK, 0, "success")                                                  \
    X(PGAS_INPROGRESS, 1, "accepted, completes later")                        \
    X(PGAS_ERR_AGAIN, -1, "not now: progress and try again")                  \
    X(PGAS_ERR_INVALID, -2, "bad argument")                                   \
    X(PGAS_ERR_RANGE, -3, "pointer, size or rank out of range")               \
    X(PGAS_ERR_NO_MEMORY, -4, "heap, pool or system memory exhausted")        \
    X(PGAS_ERR_NOT_INIT, -5, "library not initialised, or already finalised") \
    X(PGAS_ERR_UNSUPPORTED, -6, "not supported by this build or transport")   \
    X(PGAS_ERR_PEER, -7, "peer died or left")                                 \
    X(PGAS_ERR_TIMEOUT, -8, "timed out")                                      \
    X(PGAS_ERR_MISMATCH, -9, "ranks disagree")                                \
    X(PGAS_ERR_NOT_FOUND, -10, "not found")                                   \
    X(PGAS_ERR_EXISTS, -11, "exists already")                                 \
    X(PGAS_ERR_BUSY, -12, "still in use")                                     \
    X(PGAS_ERR_IO, -13, "input or output failed")                             \
    X(PGAS_ERR_FORMAT, -14, "malformed input")                                \
    X(PGAS_ERR_DEADLOCK, -15, "would wait for itself")                        \
    X(PGAS_ERR_CONTEXT, -16, "not allowed in this thread or context")         \
    X(PGAS_ERR_TRANSPORT, -17, "the transport failed")                        \
    X(PGAS_ERR_MPI, -18, "MPI failed")                                        \
    X(PGAS_ERR_LIMIT, -19, "larger than a stated limit")                      \
    X(PGAS_ERR_INTERNAL, -20, "internal error, please report")

#define PGAS_STATUS_ENUM_ENTRY(name, number, text) name = (number),
typedef enum { PGAS_STATUS_LIST(PGAS_STATUS_ENUM_ENTRY) } pgas_status_t;
#undef PGAS_STATUS_ENUM_ENTRY

PGAS_BEGIN_DECLS

/** Returns the name of a status, such as "PGAS_ERR_RANGE", or a short English text that can follow
 *  a colon in a message. A number that is not in the list gives "PGAS_ERR_?", or "PGAS_ERR_?
 *  (unknown status)". Any thread, at any time. The texts are constant, always valid, never NULL. */
PGAS_API const char *pgas_status_name(pgas_status_t status);
PGAS_API const char *pgas_status_text(pgas_status_t status);

PGAS_END_DECLS

#endif
