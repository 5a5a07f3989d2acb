/** Receive queues: a channel of chunks for each (endpoint, sending rank, context), in memory of the
 *  receiver that its node maps.
 *
 *  An endpoint is the addressee of a call: any thread of the rank, its service, or one attached
 *  thread. A channel carries descriptors (descriptor.h) from chunk to chunk. A descriptor has
 *  arrived when its header has the valid bit of the phase. The sender writes the arguments, makes
 *  sure that the word behind the descriptor does not have that bit, then stores the header
 *  (release). Thus a payload of zeros is exact, too, and no chunk is ever cleared.
 *
 *  A chunk ends with a wrap descriptor, which names the next chunk and its phase. The phase changes
 *  with every use of a chunk. The sender decides the order of chunks; both sides keep it when the
 *  sender takes further chunks. Positions are 64-bit and never wrap, and each chunk counts as a
 *  whole. The receiver publishes its position when it leaves a chunk. */
#ifndef PGASI_RECVQ_H
#define PGASI_RECVQ_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "pgas/status.h"

enum { PGASI_EP_ANY, PGASI_EP_SERVICE, PGASI_EP_FIRST_THREAD };
extern int pgasi_n_eps; /* each thread with a context of its own has one */

/** The endpoint of a target's slot, or -1 if it has none. */
int pgasi_ep_of_slot(int slot);

/** The size of the receive queue of each rank of a node. */
typedef struct {
    size_t n_channels;
    size_t n_first;       /* chunks that each channel owns from the start */
    size_t n_chunks;      /* all chunks; channels that grow take those beyond the first */
    uint64_t chunk_bytes; /* a power of two */
    uint64_t bytes;       /* all of the mapped memory */
} pgasi_recvq_size_t;

/** The size for this job, equal on all ranks.
 *  @return PGAS_OK
 *  @return PGAS_ERR_LIMIT: the queue needs more than PGAS_CHUNK_MEMORY, or too many channels.
 *           *size_p is then the least possible size.
 *  @return PGAS_ERR_NO_MEMORY */
pgas_status_t pgasi_recvq_size_here(pgasi_recvq_size_t *size_p);

/** Map and unmap the channels of the node. Collective over the node. */
pgas_status_t pgasi_recvqs_start(void);
void pgasi_recvqs_stop(void);

/** Places the chunks that channels to a slot's endpoint own in the NUMA zone in which that thread
 *  attached. All other chunks are in the zone of the initialising thread. Without this, they would
 *  be in the zone of the sender, which writes first. Only on machines with several zones. */
void pgasi_recvq_place(int slot);
/** For tests: the first chunk of a channel from a rank of the node into this rank; the zone of the
 *  chunks that belong to no thread, -1: not placed. */
char *pgasi_recvq_chunk_of(int source, int ep, int ctx);
extern int pgasi_recvq_zone;

extern uint64_t pgasi_chunk_bytes; /* a power of two, the same on all nodes */

/** State of a channel, in memory of the receiver. */
typedef struct {
    _Alignas(64) uint64_t consumed; /* published position: all chunks before it have been left */
    uint64_t head;                  /* exact position */
} pgasi_channel_state_t;

/** A channel from another node, whose chunks this rank has granted. The caller holds the endpoint's
 *  lock. */
typedef struct {
    int ep, source_rank, source_ctx;
    pgasi_channel_state_t *state;
    char *chunks;            /* channel memory */
    uint32_t first, n_first; /* its first chunks */
    uint32_t n_chunks;       /* in all of the channel memory */
    bool by_put;             /* the sender cannot read the state; it receives reports */
} pgasi_join_t;
void pgasi_recvq_join(const pgasi_join_t *join);
/** Finds the channel that a sender's control message wants to join. False: this rank granted none,
 *  or the sender has joined it already. (channel_memory.c) */
struct pgasi_ctl;
bool pgasi_chanmem_find(const struct pgasi_ctl *ctl, int source, pgasi_join_t *join_p);
/** Some sender writes by puts, which wake no thread. */
extern bool pgasi_recvq_by_put;

/** The sender's end of a channel. */
typedef struct {
    char *chunks;            /* chunk number i is at chunk_bytes * i */
    uint32_t first, n_first; /* numbers of the chunks that it owns */
    /* The receiver's published position. The word behind it is its exact position. */
    const uint64_t *consumed;
} pgasi_channel_t;

/** Opens the calling rank's channel to a rank of the node, and makes it known there. */
void pgasi_recvq_open(int node_rank, int ep, int ctx, pgasi_channel_t *channel_p);
/** Takes a further chunk of that rank. False: there is none. No thread of that rank takes part.
 *  *fresh_p: the chunk holds zeros. */
bool pgasi_recvq_grow(int node_rank, uint32_t *number_p, bool *fresh_p);
/** Gives a chunk back that the receiver has left. */
void pgasi_recvq_shrink(int node_rank, uint32_t number);

/** The rank's receive lock. Its holder runs the handlers of PGASI_EP_ANY and uses context 0. */
void pgasi_recv_lock(void);
bool pgasi_recv_try_lock(void);
void pgasi_recv_unlock(void);

/** Something has arrived. The function takes no lock. */
bool pgasi_ep_pending(int ep);
/** Runs a bounded part of what has arrived at an endpoint, and returns the number of calls. The
 *  caller holds the endpoint's lock; for PGASI_EP_ANY that is the receive lock. */
uint64_t pgasi_ep_drain(int ep);
/** The same, but if the channel that had something last has something again, only that channel. A
 *  thread that waits for an answer thus receives it without a poll of all other channels. The
 *  others wait for at most 7 such rounds of a few calls. */
uint64_t pgasi_ep_drain_some(int ep);
uint64_t pgasi_ep_drain_if_free(int ep);
/** Runs the calls that have arrived for a thread that leaves. Each pass takes one chunk of each
 *  channel, so it ends although other ranks continue to call. */
void pgasi_ep_drain_out(int ep);
static inline bool pgasi_recvq_pending(void)
{
    return pgasi_ep_pending(PGASI_EP_ANY);
}

#define PGASI_WORDS_PER_LINE 16
/** Some sender has opened a channel to the endpoint. */
extern const uint32_t *pgasi_eps_opened; /* by endpoint, one in 16 words */
static inline bool pgasi_ep_used(int ep)
{
    return __atomic_load_n(&pgasi_eps_opened[PGASI_WORDS_PER_LINE * ep], __ATOMIC_RELAXED) != 0;
}

/** Reports the arrival of calls for threads that stay away, which came through channels from other
 *  nodes, to the callers that wait for it. The service calls this. Returns the number of calls that
 *  it read. */
uint64_t pgasi_eps_report(void);

/** Calls at an endpoint whose thread has left are refused instead of run. */
void pgasi_ep_set_left(int ep, bool left);
extern uint64_t pgasi_eps_left; /* one bit for each thread's endpoint that any thread may drain */
/** Refuses the calls that have arrived at these endpoints. Returns the number of calls. */
uint64_t pgasi_eps_refuse(void);
/** The job ends: from now on any thread runs the calls for the thread of an endpoint. */
void pgasi_ep_serve_for_all(int ep);

/** Logs once that calls wait for a slot of this rank that no thread has: the slot and the number of
 *  calls. */
void pgasi_eps_report_absent(void);

/** Keeps a message from another node for an endpoint, in order, until its thread drains the
 *  endpoint. The caller holds the receive lock. */
pgas_status_t pgasi_ep_put(int ep, int source_rank, const void *descs, size_t bytes);

/** Bytes consumed from all channels, for quiescence. */
uint64_t pgasi_recvq_consumed(void);
uint64_t pgasi_recvq_n_calls(void);
/** Counts the channels into this rank, and those that ever used a chunk beyond their first. */
void pgasi_recvq_count(uint64_t *n_channels_p, uint64_t *n_grown_p);

#endif
