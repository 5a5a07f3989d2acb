/** Chunks for channels from other nodes. They are in memory behind the heap of each rank, which
 *  peers reach as they reach the heap: by puts or, on one host, by stores.
 *
 *  The owner grants chunks to senders that request them, inside the handling of messages; no thread
 *  of the program takes part. A sender's first calls to an endpoint are messages. Then it requests
 *  a channel (ASK), and continues to send messages until the answer (GRANT) arrives. JOIN is its
 *  last message. It goes to the same endpoint through the same context, and messages of one context
 *  to one peer arrive in order. So the receiver begins to poll the channel when everything sent
 *  before has run. A sender that gets no chunks, because the memory is full, continues to send
 *  messages.
 *
 *  Layout, the same on all ranks: the wakeup flag of the rank (wait.h), a state for each channel,
 *  chunks. Behind them are the buffers from which the owner's contexts send. */
#ifndef PGASI_CHANMEM_H
#define PGASI_CHANMEM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "pgas/status.h"

struct pgasi_segment_wire;

typedef struct {
    uint32_t n_channels, n_chunks;        /* 0: there is no channel memory */
    uint32_t n_first;                     /* chunks that a channel begins with */
    uint64_t states_at, chunks_at, bytes; /* without the send buffers */
} pgasi_chanmem_t;
extern pgasi_chanmem_t pgasi_chanmem;

/** Control messages about a channel, the arguments of PGASI_DESC_CHANNEL. */
typedef enum {
    PGASI_CTL_ASK, /* sender: requests a channel for (endpoint, context) */
    /* owner: the number of the channel, its chunks from `number` on, then the key of the heap; or n
     * = 0 */
    PGASI_CTL_GRANT,
    PGASI_CTL_JOIN,  /* sender: uses the channel from now on */
    PGASI_CTL_MORE,  /* sender: requests a further chunk */
    PGASI_CTL_CHUNK, /* owner: the further chunk is `number`; or n = 0 */
    PGASI_CTL_BACK,  /* sender: gives `number` back */
    /* receiver: the chunks before `position` have been left; for senders that cannot read the
     * state */
    PGASI_CTL_TOLD,
    /* Receiver: send no more messages to an endpoint / send them again. The one with the higher
     * `position` is the later one. */
    PGASI_CTL_STOP,
    PGASI_CTL_GO
} pgasi_ctl_what_t;
typedef struct pgasi_ctl {
    uint32_t what, ep, ctx, channel;
    uint32_t number, n;     /* n = 0: none */
    uint32_t fresh, by_put; /* fresh: the chunks hold zeros */
    uint64_t position;
} pgasi_ctl_t;

/** Sends a control message with data behind it, in a handler. A failure is logged. */
void pgasi_ctl_send(int rank, const pgasi_ctl_t *ctl, const void *data, size_t bytes);

/** Registers the handler of control messages. */
void pgasi_ctl_start(void);

/** The requests in senders' control messages; called in a handler. The functions fill in the
 *  answer. False: the message is malformed, and nothing is done.
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

/** Decides the size, once there are contexts. Collective. */
pgas_status_t pgasi_chanmem_plan(void);
/** Start after the segments, stop before them. Collective. */
pgas_status_t pgasi_chanmem_start(void);
void pgasi_chanmem_stop(void);

/** Registered memory for the buffers of a context's send queue: pgasi_sendq_pool_bytes. The
 *  transport need not copy what is sent from there. NULL: there are no other nodes. */
char *pgasi_chanmem_buffers(int ctx);

/** Counts the chunks that are granted now, their highest number, and the channels that were
 *  refused. */
void pgasi_chanmem_count(uint32_t *n_p, uint32_t *high_p, uint64_t *n_refused_p);

#endif
