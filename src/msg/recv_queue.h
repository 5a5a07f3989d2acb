/** The receiving side of a node: for each (endpoint, sending rank, context) a channel of chunks, in
 *  memory of the receiver that its node maps.
 *
 *  An endpoint is whom a call is for: any thread of the rank, its service, or one attached thread.
 *  A channel carries descriptors (descriptor.h) from chunk to chunk. A descriptor has arrived when
 *  its header has the valid bit of the phase. The sender writes the arguments, makes sure that the
 *  word behind the descriptor does not have that bit, then stores the header (release). Thus a
 *  payload of zeros is exact, too, and no chunk is ever cleared. A chunk ends with a wrap
 *  descriptor that names the next chunk and its phase, which changes with every use of a chunk. The
 *  sender decides the order of chunks. That order is the same on both sides when the sender takes
 *  further chunks. Positions are 64-bit, never wrap, and each chunk counts as a whole. The receiver
 *  publishes its position when it leaves a chunk. */
#ifndef PGASI_RECVQ_H
#define PGASI_RECVQ_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "base/param.h"
#include "pgas/status.h"

enum { PGASI_EP_ANY, PGASI_EP_SERVICE, PGASI_EP_FIRST_THREAD };
extern int pgasi_n_eps; /* threads with a context of their own have one */

/** The endpoint of a target's slot, or -1. */
int pgasi_ep_of_slot(int slot);

/** How large the receive queue of each of n_ranks ranks of a node is. Pure.
 *  @return PGAS_OK; PGAS_ERR_LIMIT if that is more than PGAS_CHUNK_MEMORY, or too many channels;
 *          *size_p is what would be needed at least. */
typedef struct {
    size_t n_channels;
    size_t n_first;       /* chunks that each channel has from the start */
    size_t n_chunks;      /* all of them; what is left over is for channels that grow */
    uint64_t chunk_bytes; /* a power of two */
    uint64_t bytes;       /* of all that is mapped */
} pgasi_recvq_size_t;
pgas_status_t pgasi_recvq_size(const pgasi_params_t *p, size_t n_ranks, pgasi_recvq_size_t *size_p);

/** The same for this job: of all ranks the same. Also PGAS_ERR_NO_MEMORY. */
pgas_status_t pgasi_recvq_size_here(pgasi_recvq_size_t *size_p);

/** Maps the channels of the node. Collective over the node. */
pgas_status_t pgasi_recvqs_start(void);
void pgasi_recvqs_stop(void);

extern uint64_t pgasi_chunk_bytes; /* a power of two, the same on all nodes */

/** Of each channel, in memory of the receiver. */
typedef struct {
    _Alignas(64) uint64_t consumed; /* told: up to where chunks have been left */
    uint64_t head;                  /* exact */
} pgasi_channel_state_t;

/** A channel from another node, whose chunks this rank has granted; the endpoint's lock is held. */
typedef struct {
    int ep, source_rank, source_ctx;
    pgasi_channel_state_t *state;
    char *chunks;            /* of the region */
    uint32_t first, n_first; /* its first chunks */
    uint32_t n_chunks;       /* all of the channel memory */
    bool by_put;             /* the sender cannot look at the line: it is told */
} pgasi_join_t;
void pgasi_recvq_join(const pgasi_join_t *join);
/** The channel that a note of a sender wants to join; false: it was granted none, or has joined.
 *  (channel_memory.c) */
struct pgasi_ctl;
bool pgasi_chanmem_find(const struct pgasi_ctl *ctl, int source, pgasi_join_t *join_p);
/** Some sender writes by puts, which wake nobody. */
extern bool pgasi_recvq_by_put;

/** The sender's end of a channel. */
typedef struct {
    char *chunks;            /* chunk number i is chunk_bytes * i further on */
    uint32_t first, n_first; /* numbers of those that belong to the channel */
    /* position up to which the receiver has left chunks behind, told when it leaves one; the word
     * behind it is how far it is, for who asks */
    const uint64_t *consumed;
} pgasi_channel_t;

/** The end of the calling rank's channel at a rank of the node; makes it known there. */
void pgasi_recvq_open(int node_rank, int ep, int ctx, pgasi_channel_t *channel_p);
/** A further chunk of that rank's; false if there is none. Atomic operations on its memory, nobody
 *  there takes part. *fresh_p: it holds zeros. */
bool pgasi_recvq_grow(int node_rank, uint32_t *number_p, bool *fresh_p);
/** Gives it back, when the receiver has left it behind. */
void pgasi_recvq_shrink(int node_rank, uint32_t number);

/** The rank's receive lock: who holds it runs handlers of PGASI_EP_ANY and uses context 0. */
void pgasi_recv_lock(void);
bool pgasi_recv_try_lock(void);
void pgasi_recv_unlock(void);

/** Something has arrived (a look without a lock). */
bool pgasi_ep_pending(int ep);
/** Runs what has arrived at an endpoint, a bounded share of it. Returns the number of calls. */
uint64_t pgasi_ep_drain(int ep); /* lock held: of PGASI_EP_ANY the receive lock */
/** The same, or only from the channel that had something last, if it has again: whoever waits for
 *  an answer gets it without looks at all others. These wait for at most 7 such rounds of a few
 *  calls. Lock held. */
uint64_t pgasi_ep_drain_some(int ep);
uint64_t pgasi_ep_drain_if_free(int ep);
/** What has arrived there when its thread leaves: each pass is a chunk of each channel, so it ends
 *  if others go on calling. */
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

/** Calls that came through channels from elsewhere for threads of this rank: tells those who wait
 *  for their arrival, while the threads stay away. By the service. Returns how many were looked
 *  at. */
uint64_t pgasi_eps_report(void);

/** Where no thread answers to an endpoint any more, its calls are refused instead of run. */
void pgasi_ep_set_left(int ep, bool left);
extern uint64_t pgasi_eps_left; /* a bit for each thread's endpoint that anybody drains */
/** Refuses what has arrived at such endpoints. Returns the number of calls. */
uint64_t pgasi_eps_refuse(void);
/** The job ends: from now on anybody runs what is for the thread of an endpoint, wherever it is. */
void pgasi_ep_serve_for_all(int ep);

/** Logs once that calls wait for a slot of this rank that no thread has, which slot and how
 *  many. */
void pgasi_eps_report_absent(void);

/** What came from elsewhere for an endpoint that other threads run: kept in order until they do.
 *  Receive queue lock held. */
pgas_status_t pgasi_ep_put(int ep, int source_rank, const void *descs, size_t bytes);

/** Bytes consumed from all channels, for quiescence. */
uint64_t pgasi_recvq_consumed(void);
uint64_t pgasi_recvq_n_calls(void);
/** Channels into this rank, and those that ever had a chunk beyond their first in use. */
void pgasi_recvq_count(uint64_t *n_channels_p, uint64_t *n_grown_p);

#endif
