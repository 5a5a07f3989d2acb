/** Inside of the receiving side: the declarations that its files share. recv_memory.c has the
 *  memory and the table of endpoints, recv_queue.c runs what has arrived, recv_far.c receives
 *  messages, recv_report.c reports arrivals for threads that stay away. No other file includes
 *  this. */
#ifndef PGASI_RECV_H
#define PGASI_RECV_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/checks.h"
#include "base/spin.h"
#include "msg/descriptor.h"
#include "msg/dispatch.h"
#include "msg/recv_queue.h"

typedef struct {
    const char *at;    /* the next descriptor */
    uint64_t phase;    /* the phase of its valid bit */
    const char *chunk; /* which holds it */
    uint64_t base;     /* position of the chunk's first byte */
    pgasi_channel_state_t *state;
    char *chunks; /* number 0 */
    uint32_t first, n_first, n_chunks;
    int source_rank, source_ctx;
    int wakeup; /* number of the sender's flag */
    bool grown, by_put;
} incoming_t;

/* A place in a channel. */
typedef struct {
    const char *at, *chunk; /* the next descriptor; the chunk that holds it */
    uint64_t base, phase;   /* position of the chunk; phase of the next descriptor */
} pgasi_place_t;

/* A channel from another node to a thread that may stay away; the sender has joined it or is about
 * to. Arrivals before the place have been reported. The receive lock guards the struct; readers
 * take no lock. */
typedef struct report {
    struct report *next;
    pgasi_join_t channel;
    pgasi_place_t place;
    uint64_t position; /* of the place */
} report_t;

/* A message from another node that waits for the thread of its endpoint. */
typedef struct message {
    struct message *next;
    size_t bytes;
    int source_rank;
    _Alignas(8) char data[];
} pgasi_message_t;

typedef struct {
    PGASI_ALIGNED(64) int lock;
    uint32_t n_incoming, n_opened_seen;
    bool left;
    incoming_t *incoming; /* [incoming_max]; the first n_incoming are used */
    uintptr_t
        *next_headers; /* the address of each channel's next header; lowest bit: its phase is odd */
    /* The channel that was drained last, and the number of rounds in a row that drained only this
     * one. */
    uint32_t recent, turns;
    uint64_t n_calls;
    pgasi_message_t *far, **far_end; /* in order; far_lock guards both ends */
    uint64_t far_consumed;           /* bytes */
    int far_lock;                    /* guards what follows */
    uint64_t far_bytes;              /* in the list of messages */
    uint64_t n_words;                /* number of the last stop or go that was sent */
    uint64_t *stopped;               /* [n_ranks] bits: the sender was asked to stop */
    int n_stopped;
    report_t *reports;
} endpoint_t;

typedef struct {
    endpoint_t *eps;        /* [pgasi_n_eps] */
    size_t channels_per_ep; /* channels from the node */
    size_t incoming_max;    /* channels of an endpoint, with those from other nodes */
    bool some_reports;      /* some endpoint has reports */
} pgasi_recv_t;
extern pgasi_recv_t pgasi_recv;

/** Finds channels that senders have opened since the last time. The caller holds the endpoint's
 *  lock. */
void pgasi_recv_find_opened(endpoint_t *ep, uint32_t n_opened);
/** Marks an endpoint as used that no channel leads to, because a message has arrived for it. */
void pgasi_recv_open_ep(int number);

/** Runs the messages that wait for an endpoint, and returns the number of calls. The caller holds
 *  the endpoint's lock. */
uint64_t pgasi_recv_drain_far(endpoint_t *ep);

/** Reports arrivals in a channel from now on, if the message announces that its sender joins the
 *  channel. The endpoint itself learns of the channel only when the message runs. Without memory,
 *  arrivals are reported when calls run. The caller holds the receive lock. */
void pgasi_recv_expect(int number, int source_rank, const char *descs, size_t bytes);

static inline uint64_t phase_of(bool odd)
{
    return odd ? PGAS_CALL_PHASE_ODD : PGAS_CALL_PHASE_EVEN;
}

/* Publishes the address of the next header and the exact position. Other threads read both. */
static inline void set_head(endpoint_t *ep, incoming_t *in)
{
    uintptr_t next = (uintptr_t)in->at | (in->phase == PGAS_CALL_PHASE_ODD);
    __atomic_store_n(&ep->next_headers[in - ep->incoming], next, __ATOMIC_RELAXED);
    __atomic_store_n(&in->state->head, in->base + (uint64_t)(in->at - in->chunk), __ATOMIC_RELEASE);
}

/* A thread may poll without the lock. The place that it reads may have been drained meanwhile by
 * another thread, and a sender may write it again. A wrong answer costs a round, because the holder
 * of the lock polls again. (ThreadSanitizer cannot know that.) */
__attribute__((no_sanitize("thread"))) static inline bool has_arrived(const endpoint_t *ep,
                                                                      uint32_t i)
{
    uintptr_t next = __atomic_load_n(&ep->next_headers[i], __ATOMIC_RELAXED);
    return pgasi_desc_has_arrived(*(const volatile uint64_t *)(next & ~(uintptr_t)1),
                                  phase_of(next & 1));
}

static inline uint64_t run_descs(const endpoint_t *ep, const char *descs, size_t bytes,
                                 int source_rank)
{
    return ep->left ? pgasi_descs_refuse(descs, bytes, source_rank)
                    : pgasi_descs_run(descs, bytes, source_rank);
}

#endif
