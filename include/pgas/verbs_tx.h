/** Transmitters: a queue pair's send side that decides which requests are signaled, counts
 *  completed requests, and never overflows. Part of pgas/verbs.h.
 *
 *      pgas_verbs_tx_t *tx;
 *      pgas_verbs_tx_create(qp, NULL, &tx);                        qp is connected
 *      uint64_t number;
 *      while (pgas_verbs_tx_post(tx, &request, &number) == PGAS_ERR_AGAIN)
 *          pgas_verbs_tx_poll(tx);
 *      pgas_verbs_tx_wait(tx, number, -1);                         the request is complete
 *
 *  Each request has a number: 1, 2, 3 .., with gaps where marks took numbers. One flush number per
 *  transmitter, pgas_verbs_tx_done, replaces a completion per request: all requests up to that
 *  number are complete. Post, transfer, ring, wait and info are for one thread at a time, or for
 *  any thread if the transmitter is shared; the other functions are for any thread. */
#ifndef PGAS_VERBS_TX_H
#define PGAS_VERBS_TX_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "pgas/status.h"
#include "pgas/verbs.h"
#include "pgas/detail/verbs_tx.h"

PGAS_BEGIN_DECLS

/** A callback of the thread that polls, when all requests up to `done` are complete.
 *  Shape:  it may post where its thread may, but must not poll, wait or destroy.
 *  @param status  PGAS_OK, or the reason why the connection has ended. In the latter case it is the
 *                 last call, and all posted requests count as done. */
typedef void (*pgas_verbs_advance_fn_t)(void *arg, pgas_verbs_tx_t *tx, uint64_t done,
                                        pgas_status_t status);

typedef struct {
    size_t size;
    bool shared; /* several threads post, under a short lock */
    /* one of so many requests is signaled; default 32, at most a quarter of the queue */
    uint32_t interval;
    uint32_t batch;                  /* requests per doorbell; default 16 */
    pgas_verbs_advance_fn_t advance; /* may be NULL */
    void *arg;
} pgas_verbs_tx_opts_t;
#define PGAS_VERBS_TX_OPTS_INIT                                 \
    {                                                           \
        sizeof(pgas_verbs_tx_opts_t), false, 32, 16, NULL, NULL \
    }

/** Creates a transmitter on a connected queue pair that has no outstanding request. Only the
 *  transmitter may use the send side from then on. The send_cq may belong to several transmitters,
 *  but to nothing else.
 *  @return PGAS_OK
 *          PGAS_ERR_LIMIT  the completion queue cannot hold a completion for each request of the
 *                          send queue, beside those of other transmitters
 *          PGAS_ERR_BUSY   the queue pair has a transmitter */
PGAS_API pgas_status_t pgas_verbs_tx_create(pgas_verbs_qp_t *qp, const pgas_verbs_tx_opts_t *opts,
                                            pgas_verbs_tx_t **tx_p);

/** Rings and destroys; it does not wait. No thread may be using the transmitter. Other transmitters
 *  of its completion queue may be in use. */
PGAS_API pgas_status_t pgas_verbs_tx_destroy(pgas_verbs_tx_t *tx);

/** Posts a request. SIGNAL in its flags forces a completion; its id is ignored. A request below the
 *  limit is posted inline.
 *  Done:   the request is complete when pgas_verbs_tx_done reaches its number. The doorbell rings
 *          after `batch` requests, when the queue has no room, and in ring and wait. Polling does
 *          not ring, because any thread may poll. The buffer of inline data is reusable on return.
 *  @param number_p  the request's number; may be NULL
 *  @return PGAS_OK
 *          PGAS_ERR_AGAIN  the queue has no room: poll. The call has already polled once and rung
 *                          the doorbell
 *          PGAS_ERR_PEER   the connection has ended. Some requests may be accepted after that; they
 *                          count as posted
 *          otherwise as pgas_verbs_qp_post */
PGAS_API pgas_status_t pgas_verbs_tx_post(pgas_verbs_tx_t *tx, const pgas_verbs_request_t *request,
                                          uint64_t *number_p);

/** As pgas_verbs_tx_post, for a WRITE or READ of any size up to 2^48, cut into requests. The
 *  request has one span, whose own `bytes` is ignored.
 *  @param at_io     the number of bytes that earlier calls have taken, at first 0; updated, also
 *                   with an error
 *  @param number_p  the number of the last request
 *  @return PGAS_ERR_AGAIN  call again with the same arguments
 *          PGAS_ERR_LIMIT  too many bytes
 *          otherwise as pgas_verbs_tx_post */
PGAS_API pgas_status_t pgas_verbs_tx_transfer(pgas_verbs_tx_t *tx,
                                              const pgas_verbs_request_t *request, uint64_t bytes,
                                              uint64_t *at_io, uint64_t *number_p);

/** Rings the doorbell for requests that wait for a full batch. With mark it first makes sure that
 *  the last request is signaled, so that polling until it is done ends without further posts. The
 *  mark takes a number of its own unless the last request is signaled already; there is always room
 *  for it.
 *  @return PGAS_OK
 *          PGAS_ERR_PEER  the connection has ended */
PGAS_API pgas_status_t pgas_verbs_tx_ring(pgas_verbs_tx_t *tx, bool mark);

/** Returns the flush number: all requests up to it are complete. It never decreases. One load. */
static inline uint64_t pgas_verbs_tx_done(const pgas_verbs_tx_t *tx)
{
    return pgasi_verbs_tx_done(tx);
}

/** Returns the number of the last request posted. */
static inline uint64_t pgas_verbs_tx_posted(const pgas_verbs_tx_t *tx)
{
    return pgasi_verbs_tx_posted(tx);
}

/** Looks for completions and advances the flush numbers of all transmitters of the completion
 *  queue. Wait-free: if another thread is polling, it returns 0 at once.
 *  @return > 0 if a request has completed. */
PGAS_API int pgas_verbs_tx_poll(pgas_verbs_tx_t *tx);

/** Waits until a number is done. It signals and rings as needed, spins briefly, yields, then
 *  sleeps.
 *  @return PGAS_OK
 *          PGAS_ERR_TIMEOUT
 *          PGAS_ERR_RANGE    no request of that number was posted
 *          otherwise the reason why the connection ended before, see pgas_verbs_completion_t */
PGAS_API pgas_status_t pgas_verbs_tx_wait(pgas_verbs_tx_t *tx, uint64_t number, int64_t timeout_us);

/** Counters since creation. */
typedef struct {
    size_t size;
    uint64_t posted;      /* requests, without marks */
    uint64_t signaled;    /* requests, with marks */
    uint64_t completions; /* polled */
    uint64_t doorbells;
    uint64_t inlined;
    uint64_t refused; /* posts that found no room */
} pgas_verbs_tx_info_t;
PGAS_API pgas_status_t pgas_verbs_tx_info(const pgas_verbs_tx_t *tx, pgas_verbs_tx_info_t *info_p);

PGAS_END_DECLS
#endif
