/** Inside of the receiving side: what its files share. recv_memory.c has the memory and the table
 *  of endpoints, recv_queue.c runs what has arrived, recv_far.c receives messages, recv_report.c
 *  reports arrivals for threads that stay away. No other file includes this. */
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
    uint64_t phase;    /* the mark it will bear */
    const char *chunk; /* in which it stands */
    uint64_t base;     /* position of the chunk's first byte */
    pgasi_channel_state_t *state;
    char *chunks; /* number 0 */
    uint32_t first, n_first, n_chunks;
    int source_rank, source_ctx;
    int wakeup; /* number of the sender's */
    bool grown, by_put;
} incoming_t;

/* A place in a channel. */
typedef struct {
    const char *at, *chunk; /* the next descriptor; in which it stands */
    uint64_t base, phase;   /* position of the chunk; the mark that it will bear */
} pgasi_place_t;

/* A channel from another node to a thread that may stay away, joined or about to be. Senders were
 * told of the arrival of everything before the place. The receive lock guards it, but for looks. */
typedef struct report {
    struct report *next;
    pgasi_join_t channel;
    pgasi_place_t place;
    uint64_t position; /* of it */
} report_t;

/* A message from elsewhere that waits for the threads of its endpoint. */
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
    incoming_t *incoming; /* [incoming_max], the first n_incoming used */
    uintptr_t *marks; /* where the next descriptor of each will show; lowest bit: in an odd phase */
    /* the channel in which something came last, and how often in a row it alone was drained */
    uint32_t recent, turns;
    uint64_t n_calls;
    pgasi_message_t *far, **far_end; /* in order; both ends under far_lock */
    uint64_t far_consumed;           /* bytes */
    int far_lock;                    /* also of what follows */
    uint64_t far_bytes;              /* in the list */
    uint64_t n_words;                /* said to senders about it */
    uint64_t *stopped;               /* [n_ranks] bits: who was told to stop */
    int n_stopped;
    report_t *reports;
} endpoint_t;

typedef struct {
    endpoint_t *eps;        /* [pgasi_n_eps] */
    size_t channels_per_ep; /* from the node */
    size_t incoming_max;    /* of an endpoint, also from other nodes */
    bool some_reports;      /* some endpoint has */
} pgasi_recv_t;
extern pgasi_recv_t pgasi_recv;

/** Takes up channels that senders have opened since; endpoint locked. */
void pgasi_recv_find_opened(endpoint_t *ep, uint32_t n_opened);
/** Something new has arrived for an endpoint that no channel leads to. */
void pgasi_recv_open_ep(int number);

/** Runs messages that wait for an endpoint, which is locked. Returns the number of calls. */
uint64_t pgasi_recv_drain_far(endpoint_t *ep);

/** The sender of a message may have joined its channel with it, but the endpoint learns that only
 *  in its turn: reports arrivals in the channel from now on. Without memory, arrivals are reported
 *  when calls run. The receive lock is held. */
void pgasi_recv_expect(int number, int source_rank, const char *descs, size_t bytes);

static inline uint64_t phase_of(bool odd)
{
    return odd ? PGAS_CALL_PHASE_ODD : PGAS_CALL_PHASE_EVEN;
}

/* Others may look where the next descriptor will show, and how far we are. */
static inline void set_head(endpoint_t *ep, incoming_t *in)
{
    uintptr_t mark = (uintptr_t)in->at | (in->phase == PGAS_CALL_PHASE_ODD);
    __atomic_store_n(&ep->marks[in - ep->incoming], mark, __ATOMIC_RELAXED);
    __atomic_store_n(&in->state->head, in->base + (uint64_t)(in->at - in->chunk), __ATOMIC_RELEASE);
}

/* May look without the lock, perhaps at a place that another thread has read meanwhile and a sender
 * writes again: a wrong answer costs a round, for who holds the lock looks again. (ThreadSanitizer
 * cannot know; atomics it would check.) */
__attribute__((no_sanitize("thread"))) static inline bool has_arrived(const endpoint_t *ep,
                                                                      uint32_t i)
{
    uintptr_t mark = __atomic_load_n(&ep->marks[i], __ATOMIC_RELAXED);
    return pgasi_desc_has_arrived(*(const volatile uint64_t *)(mark & ~(uintptr_t)1),
                                  phase_of(mark & 1));
}

static inline uint64_t run_descs(const endpoint_t *ep, const char *descs, size_t bytes,
                                 int source_rank)
{
    return ep->left ? pgasi_descs_refuse(descs, bytes, source_rank)
                    : pgasi_descs_run(descs, bytes, source_rank);
}

#endif
