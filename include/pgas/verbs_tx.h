/** Transmitters: a queue pair's send side that decides which requests are signaled, counts
 *  completed requests, and never overflows. Part of pgas/verbs.h.
 *
 *      pgas_verbs_tx_t *tx;
 *      pgas_verbs_tx_open(qp, NULL, &tx);                          qp is connected
 *      uint64_t number;
 *      while (pgas_verbs_tx_post(tx, &request, &number) == PGAS_ERR_AGAIN)
 *          pgas_verbs_tx_poll(tx);
 *      pgas_verbs_tx_wait(tx, number, UINT64_MAX);                 the request is complete
 *
 *  Each request has a number. One flush number per transmitter, pgas_verbs_tx_done, replaces a
 *  completion per request: all requests up to that number are complete. */
#ifndef PGAS_VERBS_TX_H
#define PGAS_VERBS_TX_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "pgas/status.h"
#include "pgas/verbs.h"

PGAS_BEGIN_DECLS

typedef struct pgas_verbs_tx pgas_verbs_tx_t;

/** A callback of the thread that polls, when all requests up to `done` are complete.
 *  Shape:  it may post where its thread may, but must not poll, wait or close.
 *  @param status  PGAS_OK, or the reason why the connection has ended. In the latter case it is the
 *                 last call, and all posted requests count as done. */
typedef void (*pgas_verbs_advance_fn_t)(void *arg, pgas_verbs_tx_t *tx, uint64_t done,
                                        pgas_status_t status);

typedef struct {
    size_t size;
    /* several threads post, under a short lock; otherwise one thread at a time, and no lock */
    bool shared;
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

/** Opens a transmitter on a connected queue pair that has no outstanding request. Only the
 *  transmitter may use the send side from then on. The send_cq may belong to several transmitters,
 *  but to nothing else.
 *  @return PGAS_OK
 *          PGAS_ERR_INVALID    a NULL pointer, or an option out of range
 *          PGAS_ERR_LIMIT      the completion queue cannot hold a completion for each request of
 *                              the send queue, beside those of other transmitters. When a
 *                              connection ends, each request may have one
 *          PGAS_ERR_BUSY       the queue pair has a transmitter
 *          PGAS_ERR_NO_MEMORY */
PGAS_API pgas_status_t pgas_verbs_tx_open(pgas_verbs_qp_t *qp, const pgas_verbs_tx_opts_t *opts,
                                          pgas_verbs_tx_t **tx_p);

/** Rings and closes; it does not wait. Call pgas_verbs_tx_wait before if requests must complete. No
 *  thread may be using the transmitter. Other transmitters of its completion queue may be in
 *  use. */
PGAS_API void pgas_verbs_tx_close(pgas_verbs_tx_t *tx);

/** Posts a request. SIGNAL in its flags forces a completion; its id is ignored. A request below the
 *  limit is posted inline.
 *  Shape:  the owner thread, or any thread if shared.
 *  Done:   the request is complete when pgas_verbs_tx_done reaches its number. The doorbell rings
 *          after `batch` requests, when the queue has no room, and in ring, mark and wait. Polling
 *          does not ring, because any thread may poll. The buffer of inline data is reusable on
 *          return.
 *  @param number_p  the request's number: 1, 2, 3 .., with gaps where marks took numbers; may be
 *         NULL
 *  @return PGAS_OK
 *          PGAS_ERR_AGAIN  the queue has no room: poll. The call has already polled once and rung
 *                          the doorbell
 *          PGAS_ERR_PEER   the connection has ended. Some requests may be accepted after that; they
 *                          count as posted
 *          otherwise as pgas_verbs_qp_write */
PGAS_API pgas_status_t pgas_verbs_tx_post(pgas_verbs_tx_t *tx, const pgas_verbs_request_t *request,
                                          uint64_t *number_p);

/** As pgas_verbs_tx_post, for a write or read of any size up to 2^48, cut into requests.
 *  @param at_p      the number of bytes taken, also after an error; may be NULL if one request can
 *                   carry all bytes
 *  @param number_p  the number of the last request
 *  @return PGAS_ERR_AGAIN  add *at_p to both addresses, subtract it from bytes, and call again
 *          PGAS_ERR_LIMIT  too many bytes
 *          otherwise as pgas_verbs_tx_post */
PGAS_API pgas_status_t pgas_verbs_tx_write(pgas_verbs_tx_t *tx, uint64_t remote_addr, uint32_t rkey,
                                           const void *addr, uint32_t lkey, uint64_t bytes,
                                           uint64_t *at_p, uint64_t *number_p);
PGAS_API pgas_status_t pgas_verbs_tx_read(pgas_verbs_tx_t *tx, uint64_t remote_addr, uint32_t rkey,
                                          void *addr, uint32_t lkey, uint64_t bytes, uint64_t *at_p,
                                          uint64_t *number_p);

/** Rings the doorbell for requests that wait for a full batch. */
PGAS_API void pgas_verbs_tx_ring(pgas_verbs_tx_t *tx);

/** Returns the flush number: all requests up to it are complete. It never decreases. One load. */
PGAS_API uint64_t pgas_verbs_tx_done(const pgas_verbs_tx_t *tx);

/** Returns the number of the last request posted. */
PGAS_API uint64_t pgas_verbs_tx_posted(const pgas_verbs_tx_t *tx);

/** Looks for completions and advances the flush numbers of all transmitters of the completion
 *  queue.
 *  Shape:  any thread, wait-free: if another thread is polling, it returns 0 at once.
 *  @return > 0 if a request has completed. */
PGAS_API int pgas_verbs_tx_poll(pgas_verbs_tx_t *tx);

/** Makes sure that all requests posted so far are signaled and rung, so that polling until their
 *  number is done ends without further posts. Unless the last request was signaled, the mark takes
 *  a number of its own (pgas_verbs_tx_posted). There is always room for it.
 *  Shape:  as pgas_verbs_tx_post.
 *  @return PGAS_OK
 *          PGAS_ERR_PEER  the connection has ended */
PGAS_API pgas_status_t pgas_verbs_tx_mark(pgas_verbs_tx_t *tx);

/** Waits until a number is done. It signals and rings as needed, spins briefly, yields, then
 *  sleeps.
 *  Shape:  as pgas_verbs_tx_post.
 *  @param timeout_ns  UINT64_MAX: for ever
 *  @return PGAS_OK
 *          PGAS_ERR_TIMEOUT  the time is over
 *          PGAS_ERR_RANGE    no request of that number was posted
 *          otherwise the reason why the connection ended before, see pgas_verbs_completion_t */
PGAS_API pgas_status_t pgas_verbs_tx_wait(pgas_verbs_tx_t *tx, uint64_t number,
                                          uint64_t timeout_ns);

typedef struct {
    uint64_t posted;      /* requests, without marks */
    uint64_t signaled;    /* requests, with marks */
    uint64_t completions; /* polled */
    uint64_t doorbells;
    uint64_t inlined;
    uint64_t refused; /* posts that found no room */
} pgas_verbs_tx_stats_t;

/** Gives the counters since open. Shape: as pgas_verbs_tx_post. */
PGAS_API void pgas_verbs_tx_stats(const pgas_verbs_tx_t *tx, pgas_verbs_tx_stats_t *stats_p);

PGAS_END_DECLS
#endif
