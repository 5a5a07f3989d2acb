/** The receiving side of a node: for each (port, sending rank, context) a channel of chunks, in
 *  memory of the receiver that its node maps.
 *
 *  A port is whom a call is for: any thread of the rank, its service, or one attached thread. A
 *  channel carries descriptors (descriptor.h) from chunk to chunk. A descriptor has arrived when
 *  its header has the valid bit of the phase. The sender writes the arguments, makes sure that the
 *  word behind the descriptor does not have that bit, then stores the header (release). Thus a
 *  payload of zeros is exact, too, and no chunk is ever cleared. A chunk ends with a wrap
 *  descriptor that names the next chunk and its phase, which changes with every use of a chunk. The
 *  sender decides the order of chunks. That order is the same on both sides when the sender takes
 *  further chunks. Positions are 64-bit, never wrap, and each chunk counts as a whole. The receiver
 *  publishes its position when it leaves a chunk. */
#ifndef PGASI_INBOX_H
#define PGASI_INBOX_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "base/param.h"
#include "pgas/status.h"

enum { PGASI_PORT_ANY, PGASI_PORT_SERVICE, PGASI_PORT_FIRST_THREAD };
extern int pgasi_n_ports; /* threads with a context of their own have one */

/** The port of a target's slot, or -1. */
int pgasi_port_of_slot(int slot);

/** How large the inbox of each of n_ranks ranks of a node is. Pure.
 *  @return PGAS_OK; PGAS_ERR_LIMIT if that is more than PGAS_CHUNK_MEMORY, or too many channels;
 *          *size_p is what would be needed at least. */
typedef struct {
    size_t n_channels;
    size_t n_first;       /* chunks that each channel has from the start */
    size_t n_chunks;      /* all of them; what is left over is for channels that grow */
    uint64_t chunk_bytes; /* a power of two */
    uint64_t bytes;       /* of all that is mapped */
} pgasi_inbox_size_t;
pgas_status_t pgasi_inbox_size(const pgasi_params_t *p, size_t n_ranks, pgasi_inbox_size_t *size_p);

/** The same for this job: of all ranks the same. Also PGAS_ERR_NO_MEMORY. */
pgas_status_t pgasi_inbox_size_here(pgasi_inbox_size_t *size_p);

/** Maps the channels of the node. Collective over the node. */
pgas_status_t pgasi_inboxes_start(void);
void pgasi_inboxes_stop(void);

extern uint64_t pgasi_chunk_bytes; /* a power of two, the same on all nodes */

/** Of each channel, in memory of the receiver. */
typedef struct {
    _Alignas(64) uint64_t consumed; /* told: up to where chunks have been left */
    uint64_t head;                  /* exact */
} pgasi_line_t;

/** A channel from another node, whose chunks this rank has granted; the port's lock is held. */
typedef struct {
    int port, source_rank, source_ctx;
    pgasi_line_t *line;
    char *chunks;             /* of the region */
    uint32_t first, n_chunks; /* its first; all of the region */
    bool by_put;              /* the sender cannot look at the line: it is told */
} pgasi_join_t;
void pgasi_inbox_join(const pgasi_join_t *join);
/** The channel that a note of a sender wants to join; false: it was granted none, or has joined.
 *  (region.c) */
struct pgasi_note;
bool pgasi_region_find(const struct pgasi_note *note, int source, pgasi_join_t *join_p);
/** Some sender writes by puts, which wake nobody. */
extern bool pgasi_inbox_by_put;

/** The sender's end of a channel. */
typedef struct {
    char *chunks;            /* chunk number i is chunk_bytes * i further on */
    uint32_t first, n_first; /* numbers of those that belong to the channel */
    /* position up to which the receiver has left chunks behind, told when it leaves one; the word
     * behind it is how far it is, for who asks */
    const uint64_t *consumed;
} pgasi_channel_t;

/** The end of the calling rank's channel at a rank of the node; makes it known there. */
void pgasi_inbox_open(int node_rank, int port, int ctx, pgasi_channel_t *channel_p);
/** A further chunk of that rank's; false if there is none. Atomic operations on its memory, nobody
 *  there takes part. *fresh_p: it holds zeros. */
bool pgasi_inbox_grow(int node_rank, uint32_t *number_p, bool *fresh_p);
/** Gives it back, when the receiver has left it behind. */
void pgasi_inbox_shrink(int node_rank, uint32_t number);

/** The rank's inbox lock: who holds it runs handlers of PGASI_PORT_ANY and uses context 0. */
void pgasi_inbox_lock(void);
bool pgasi_inbox_try_lock(void);
void pgasi_inbox_unlock(void);

/** Something has arrived (a look without a lock). */
bool pgasi_port_pending(int port);
/** Runs what has arrived at a port, a bounded share of it. Returns the number of calls. */
uint64_t pgasi_port_drain(int port); /* lock held: of PGASI_PORT_ANY the inbox lock */
/** The same, or only from the channel that had something last, if it has again: whoever waits for
 *  an answer gets it without looks at all others. These wait for at most 7 such rounds of a few
 *  calls. Lock held. */
uint64_t pgasi_port_drain_some(int port);
uint64_t pgasi_port_drain_if_free(int port);
/** What has arrived there when its thread leaves: each pass is a chunk of each channel, so it ends
 *  if others go on calling. */
void pgasi_port_drain_out(int port);
static inline bool pgasi_inbox_pending(void)
{
    return pgasi_port_pending(PGASI_PORT_ANY);
}

/** Some sender has opened a channel to the port. */
extern const uint32_t *pgasi_ports_opened; /* by port, one in 16 words */
static inline bool pgasi_port_used(int port)
{
    return __atomic_load_n(&pgasi_ports_opened[16 * port], __ATOMIC_RELAXED) != 0;
}

/** Calls that came through channels from elsewhere for threads of this rank: tells those who wait
 *  for their arrival, while the threads stay away. By the service. Returns how many were looked
 *  at. */
uint64_t pgasi_ports_tell(void);

/** Where no thread answers to a port any more, its calls are refused instead of run. */
void pgasi_port_set_left(int port, bool left);
extern uint64_t pgasi_ports_left; /* a bit for each thread's port that anybody drains */
/** Refuses what has arrived at such ports. Returns the number of calls. */
uint64_t pgasi_ports_refuse(void);
/** The job ends: from now on anybody runs what is for the thread of a port, wherever it is. */
void pgasi_port_stand_in(int port);

/** Logs once that calls wait for a slot of this rank that no thread has, which slot and how
 *  many. */
void pgasi_ports_tell_orphans(void);

/** What came from elsewhere for a port that other threads run: kept in order until they do. Inbox
 *  lock held. */
pgas_status_t pgasi_port_put(int port, int source_rank, const void *descs, size_t bytes);

/** Bytes consumed from all channels, for quiescence. */
uint64_t pgasi_inbox_consumed(void);
uint64_t pgasi_inbox_n_calls(void);
/** Channels into this rank, and those that ever had a chunk beyond their first in use. */
void pgasi_inbox_count(uint64_t *n_channels_p, uint64_t *n_grown_p);

#endif
