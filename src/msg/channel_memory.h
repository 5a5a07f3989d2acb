/** Chunks for channels from other nodes: a region behind the heap of each rank, which peers reach
 *  as they reach the heap, by puts or, on one host, by stores.
 *
 *  The owner grants chunks to senders that ask, inside the handling of messages: no thread of the
 *  program takes part. A sender's first calls to an endpoint are messages; then it asks (ASK), and
 *  goes on with messages until the answer (GRANT) is there. JOIN is its last message: it goes to
 *  the same endpoint through the same context, and messages of one context to one peer arrive in
 *  order, so the receiver begins to look at the channel when what was sent before has run. Who gets
 *  no chunks, for the region is full, goes on with messages.
 *
 *  Layout, the same on all ranks: the wakeup flag of the rank (wait.h), a line for each channel,
 *  chunks; behind them, for the owner alone, the buffers from which its contexts send. */
#ifndef PGASI_CHANMEM_H
#define PGASI_CHANMEM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "pgas/status.h"

struct pgasi_segment_wire;

typedef struct {
    uint32_t n_channels, n_chunks;        /* 0: there is no region */
    uint32_t n_first;                     /* chunks that a channel begins with */
    uint64_t states_at, chunks_at, bytes; /* without the buffers */
} pgasi_chanmem_t;
extern pgasi_chanmem_t pgasi_chanmem;

/** What ranks tell each other about a channel: arguments of PGASI_DESC_CHANNEL. */
typedef enum {
    PGASI_CTL_ASK, /* sender: wants a channel for (endpoint, context) */
    /* its line and chunks from `number` on, the key of the heap behind; or none */
    PGASI_CTL_GRANT,
    PGASI_CTL_JOIN,  /* sender: from here on look at the channel */
    PGASI_CTL_MORE,  /* sender: wants a further chunk */
    PGASI_CTL_CHUNK, /* it gets `number`, or none */
    PGASI_CTL_BACK,  /* sender: gives `number` back */
    /* receiver: chunks up to `position` have been left; where senders cannot look */
    PGASI_CTL_TOLD,
    /* receiver: no more messages to an endpoint; the highest `position` holds, of these two */
    PGASI_CTL_STOP,
    PGASI_CTL_GO
} pgasi_ctl_what_t;
typedef struct pgasi_ctl {
    uint32_t what, ep, ctx, channel;
    uint32_t number, n;     /* n 0: none */
    uint32_t fresh, by_put; /* fresh: zeros */
    uint64_t position;
} pgasi_ctl_t;

/** In a handler: tells a sender, with data behind. What cannot be sent is logged. */
void pgasi_ctl_send(int rank, const pgasi_ctl_t *ctl, const void *data, size_t bytes);

/** Takes control messages from now on. */
void pgasi_ctl_start(void);

/** What a sender's control message asks for, in a handler. They fill in the answer. False: the
 *  message makes no sense, and nothing is done.
 *  - grant: a channel; ctl->n is 0 if there is no memory for it; *wire_p is the heap's key;
 *  - grow: a further chunk; ctl->n is 0 if there is none;
 *  - join: the sender uses its channel from now on;
 *  - give_back: takes back one chunk. */
bool pgasi_chanmem_grant(pgasi_ctl_t *ctl, int source, struct pgasi_segment_wire *wire_p);
bool pgasi_chanmem_grow(pgasi_ctl_t *ctl, int source);
bool pgasi_chanmem_join(const pgasi_ctl_t *ctl, int source);
bool pgasi_chanmem_give_back(const pgasi_ctl_t *ctl, int source);

/** Whether PGAS_FAR_CALLS wants channels to ranks of this host, or of others. */
bool pgasi_far_wants_channels(bool same_host);

/** How large it is, once there are contexts. Collective. */
pgas_status_t pgasi_chanmem_plan(void);
/** Behind the segments' start and before their stop. Collective. */
pgas_status_t pgasi_chanmem_start(void);
void pgasi_chanmem_stop(void);

/** Registered memory for the buffers of a context's send queue, as much as pgasi_sendq_pool_bytes
 *  says; NULL: there are no other nodes. What is sent from there the transport need not copy. */
char *pgasi_chanmem_buffers(int ctx);

/** Chunks that are granted now, and at most; channels that asked in vain. */
void pgasi_chanmem_count(uint32_t *n_p, uint32_t *high_p, uint64_t *n_refused_p);

#endif
