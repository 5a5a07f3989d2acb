/** Transmitters: a queue pair's send side that decides which requests are signaled, counts
 *  completed requests, and never overflows. Part of pgas/verbs.h.
 *
 *  Requests have the numbers 1, 2, 3 .., with gaps where marks took numbers. All requests up to the
 *  flush number, pgas_verbs_tx_done, are complete. Any thread may call done, posted and poll. One
 *  thread at a time may call the others, or any thread if the transmitter is shared. */
#ifndef PGAS_VERBS_TX_H
#define PGAS_VERBS_TX_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "pgas/status.h"
#include "pgas/verbs.h"
#include "pgas/detail/verbs_tx.h"

PGAS_BEGIN_DECLS

/** Called by the thread that polls, when all requests up to `done` are complete. It may post where
 *  its thread may, but must not poll, wait or destroy. With another status than PGAS_OK the
 *  connection has ended: it is the last call, and all posted requests count as done. */
typedef void (*pgas_verbs_advance_fn_t)(void *arg, pgas_verbs_tx_t *tx, uint64_t done,
                                        pgas_status_t status);

typedef struct {
    size_t size;
    bool shared;       /* several threads post, under a short lock */
    uint32_t interval; /* one of so many is signaled; default 32, at most a quarter of the queue */
    uint32_t batch;    /* requests per doorbell; default 16 */
    pgas_verbs_advance_fn_t advance; /* may be NULL */
    void *arg;
} pgas_verbs_tx_opts_t;
#define PGAS_VERBS_TX_OPTS_INIT                                 \
    {                                                           \
        sizeof(pgas_verbs_tx_opts_t), false, 32, 16, NULL, NULL \
    }

/** Creates a transmitter on a connected queue pair that has no outstanding request. Only the
 *  transmitter may use the send side from then on, and only transmitters the send_cq.
 *  @return PGAS_ERR_LIMIT  the send_cq has no room for a completion of each request of the queue
 *          PGAS_ERR_BUSY   the queue pair has a transmitter */
PGAS_API pgas_status_t pgas_verbs_tx_create(pgas_verbs_qp_t *qp, const pgas_verbs_tx_opts_t *opts,
                                            pgas_verbs_tx_t **tx_p);

/** Rings and destroys; it does not wait. No thread may be using the transmitter. */
PGAS_API pgas_status_t pgas_verbs_tx_destroy(pgas_verbs_tx_t *tx);

/** Posts a request. SIGNAL in its flags forces a completion; its id is ignored. Up to inline_max
 *  bytes are copied, and reusable on return. The doorbell rings after `batch` requests, when the
 *  queue has no room, and in ring and wait, but not in poll.
 *  @param number_p  the request's number; may be NULL
 *  @return PGAS_ERR_AGAIN  the queue has no room: poll. The call has polled once and rung
 *          PGAS_ERR_PEER   the connection has ended; requests accepted after that count as posted
 *          otherwise as pgas_verbs_qp_post */
PGAS_API pgas_status_t pgas_verbs_tx_post(pgas_verbs_tx_t *tx, const pgas_verbs_request_t *request,
                                          uint64_t *number_p);

/** As pgas_verbs_tx_post, for a WRITE or READ of up to 2^48 bytes, cut into requests. The request
 *  has one span, whose own `bytes` is ignored. After PGAS_ERR_AGAIN call again.
 *  @param at_io     bytes that earlier calls have taken, at first 0; updated, also with an error
 *  @param number_p  the number of the last request */
PGAS_API pgas_status_t pgas_verbs_tx_transfer(pgas_verbs_tx_t *tx,
                                              const pgas_verbs_request_t *request, uint64_t bytes,
                                              uint64_t *at_io, uint64_t *number_p);

/** Rings the doorbell for requests that wait for a full batch. A mark makes sure that the last
 *  request is signaled, so that polling until it is done ends. It takes a number of its own unless
 *  that request is signaled already; there is always room for it.
 *  @return PGAS_ERR_PEER  the connection has ended */
PGAS_API pgas_status_t pgas_verbs_tx_ring(pgas_verbs_tx_t *tx, bool mark);

/** The flush number. It never decreases. */
static inline uint64_t pgas_verbs_tx_done(const pgas_verbs_tx_t *tx)
{
    return pgasi_verbs_tx_done(tx);
}

/** The number of the last request posted. */
static inline uint64_t pgas_verbs_tx_posted(const pgas_verbs_tx_t *tx)
{
    return pgasi_verbs_tx_posted(tx);
}

/** Advances the flush numbers of all transmitters of the completion queue. Wait-free: if another
 *  thread is polling, it returns 0 at once. @return > 0 if a request has completed */
PGAS_API int pgas_verbs_tx_poll(pgas_verbs_tx_t *tx);

/** Waits until a number is done; marks and rings as needed.
 *  @return PGAS_ERR_TIMEOUT
 *          PGAS_ERR_RANGE    no request of that number was posted
 *          otherwise the reason why the connection has ended, see pgas_verbs_completion_t */
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
