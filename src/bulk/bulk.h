/** Bulk messages: calls that do not fit one descriptor, or that have buffers. Copied buffers travel
 *  in the message (eager); the target reads pulled ones when it has room (rendezvous). The call
 *  runs at its endpoint when the message is complete and every pulled buffer has been read. If its
 *  handler may wait, it runs on a handler thread. The endpoint's thread reads buffers within its
 *  reach when the message arrives. Other buffers are read under the receive lock, which serves all
 *  endpoints. Then the endpoint gets a message that the call is ready.
 *
 *  The files. Each one calls only those above it:
 *
 *      wire.c    the format and its checks
 *      bulk.c    a bulk message at its target
 *      reach.c   memory of other ranks within reach
 *      offer.c   the source: buffers that targets may read
 *      answer.c  the source: sends these buffers where messages are faster than gets
 *      buffer.c  the source: calls with buffers or large results
 *      read.c    the target reads the buffers of one call
 *      pull.c    order and limits of these reads
 *      arrive.c  messages arrive, in one piece or in several
 *      reply.c   replies larger than PGAS_CALL_MAX
 *      start.c   start, stop, progress, deaths */
#ifndef PGASI_BULK_H
#define PGASI_BULK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "boot/hooks.h"
#include "bulk/wire.h"
#include "call/buffers.h"
#include "call/call.h"
#include "pgas/archive.h"
#include "pgas/call.h"
#include "transport/transport.h"

/* ---- bulk.c ---- */

struct pgasi_bulk;

typedef enum {
    PGASI_PART_NEW, /* a pull that has not begun */
    PGASI_PART_DONE,
    PGASI_PART_GET,    /* the transport gets it */
    PGASI_PART_RETRY,  /* the transport had no room for the get */
    PGASI_PART_ASK,    /* the source sends it in pieces */
    PGASI_PART_HELPER, /* a handler thread reads it */
    PGASI_N_PART_STATES
} pgasi_part_state_t;

/** A buffer. */
typedef struct {
    pgasi_tp_comp_t comp;
    struct pgasi_bulk *bulk;
    pgasi_buffer_here_t here;
    pgas_rma_object_t *object; /* the memory of here in calls with an archive, or NULL */
    uint64_t asked, arrived;   /* PGASI_PART_ASK: bytes */
    pgasi_part_state_t state;  /* changed by pgasi_part_set only */
} pgasi_part_t;

typedef struct pgasi_bulk {
    struct pgasi_bulk *next;
    pgas_thread_t source;
    pgasi_bulk_head_t head;
    /* the stream up to head.head_bytes, or all of it if it came in one piece */
    char *block;
    bool own_block;
    pgas_status_t status;        /* PGAS_OK: the call will run; otherwise the reason why not */
    uint64_t id, total, arrived; /* while pieces arrive */
    uint64_t held, *account;     /* bytes of buffers, and where they are counted */
    uint64_t number;             /* with pulls: its name at this rank; otherwise 0 */
    bool feeding, doomed;        /* a thread adds a piece; the message is dropped after that */
    /* reads have begun; their end was reported; the source is dead; buffers come in pieces */
    bool begun, reported, dropped, asking;
    int helping; /* a handler thread reads buffers; atomic */
    pgas_status_t helper_status;
    const char *args; /* while the handler runs: the arguments, or the stream of an archive */
    uint64_t args_bytes;
    uint32_t n_in[PGASI_N_PART_STATES]; /* parts in each state */
    uint32_t retry_from, ask_from;      /* no part before it has the state */
    uint32_t n_parts;
    pgasi_part_t part[]; /* behind it, for an archive: [n_parts] of its chunks */
} pgasi_bulk_t;

static inline void pgasi_part_set(pgasi_part_t *part, pgasi_part_state_t state)
{
    part->bulk->n_in[part->state]--;
    part->bulk->n_in[state]++;
    part->state = state;
}

/** Returns the table of chunks of an archive's message. The owner of the message fills it. */
static inline pgas_archive_chunk_t *pgasi_bulk_chunks(pgasi_bulk_t *p)
{
    return (pgas_archive_chunk_t *)(void *)&p->part[p->n_parts];
}

static inline const pgasi_bulk_part_t *pgasi_bulk_part(const pgasi_bulk_t *p, size_t i)
{
    return (const pgasi_bulk_part_t *)(const void *)(p->block + sizeof p->head) + i;
}

/** Makes a message with this head in memory that has room for its parts and their chunks. */
void pgasi_bulk_init(pgasi_bulk_t *p, const char *head, pgas_thread_t source);
/** The same in memory of malloc, without its block. NULL: no memory. */
pgasi_bulk_t *pgasi_bulk_new(const char *head, pgas_thread_t source);
/** Fills in sizes, and the addresses of pushed buffers. */
void pgasi_bulk_place_parts(pgasi_bulk_t *p);
/** Fills in the addresses of copied buffers, which follow the head in the block. */
void pgasi_bulk_place_copies(pgasi_bulk_t *p);
bool pgasi_bulk_has_pulls(const pgasi_bulk_t *p);
/** Runs the call, here or on a handler thread, or reports to its counter why it does not run. Then
 *  frees the message. In the context of handlers. */
void pgasi_bulk_finish(pgasi_bulk_t *p);
/** Reports to the source that the call with this head does not run. */
void pgasi_bulk_refuse(const char *block, pgas_thread_t source, pgas_status_t status);
/** Runs the call on this thread, or reports to its counter why it does not run. */
void pgasi_bulk_run(pgasi_bulk_t *p);
/** Frees the memory of its buffers, except what the handler has taken. */
void pgasi_bulk_free_parts(pgasi_bulk_t *p);
/** Frees the message. pgasi_bulk_release also gives its bytes back to the limit. */
void pgasi_bulk_destroy(pgasi_bulk_t *p);
void pgasi_bulk_release(pgasi_bulk_t *p);
/** The message whose handler the thread runs, or NULL. */
pgasi_bulk_t *pgasi_bulk_running(void);

/** Requests a round of progress, which continues pulls and replies and runs calls whose buffers
 *  have been read. */
static inline void pgasi_bulk_want_poll(void)
{
    pgasi_hooks_want_poll(PGASI_LAYER_BULK, true);
}
/** The same, and wakes a thread that sleeps. */
void pgasi_bulk_wake_poll(void);

/* ---- reach.c ---- */

/** Where memory of another rank, at ptr in a segment, is reached by loads and stores. NULL: ptr is
 *  null, or the memory is not mapped. */
void *pgasi_reach_map(int rank, pgas_gptr_t ptr, uint64_t bytes);
/** Copies between this rank's memory and private memory of another rank of the node. False: the
 *  kernel or PGAS_VM_READ does not allow it. */
bool pgasi_reach_copy(int rank, void *here, uint64_t there, uint64_t bytes, bool write);
/** Whether pgasi_reach_copy may be possible. */
bool pgasi_reach_may_copy(int rank);
/** Makes a segment known to context 0 by the key that came with a message. False: there is no key,
 *  or ptr and bytes are not in its segment. */
bool pgasi_reach_learn(const pgasi_bulk_t *p, uint64_t key_at_8, pgas_gptr_t ptr, uint64_t bytes);
void pgasi_reach_start(void);

/* ---- offer.c ---- */

/** A call whose pulled buffers are offered. */
typedef struct {
    int rank;
    uint32_t handler;
    /* When the offer ends, except by pgasi_offer_withdraw, local is lowered and ended is called.
     * Either may be NULL. With ended, the buffers' descriptions must stay until then. */
    pgas_sync_t *local;
    void (*ended)(void *arg);
    void *arg;
} pgasi_offer_call_t;
/** Allows the rank to read the pulled ones among n buffers. *id_p goes into the message's head.
 *  @return PGAS_OK
 *          PGAS_ERR_AGAIN: too many offers are open, and the caller does not wait
 *          PGAS_ERR_PEER: the rank died while the caller waited */
pgas_status_t pgasi_offer_open(const pgasi_offer_call_t *call, const pgas_buffer_t *buffers,
                               size_t n, pgas_full_t full, uint32_t *id_p);
/** Ends the offer of a call that was not sent, without its counter and function. @return false: the
 *  rank's death has already ended it, with both */
bool pgasi_offer_withdraw(uint32_t id, int rank);
/** Whether this rank offers that memory to itself. */
bool pgasi_offer_has(uint32_t id, size_t part, uint64_t address, uint64_t bytes);
/** Counts the end of an answer, which may end its offer. */
void pgasi_offer_release(uint32_t id);
void pgasi_offers_peer_died(int rank);
size_t pgasi_offers_table_bytes(void);
pgas_status_t pgasi_offers_start(void);
void pgasi_offers_stop(void);

/* ---- answer.c, under the receive lock ---- */

/** Returns true if this rank and the other rank answer each other's requests by data messages. */
bool pgasi_answers_from(int rank);
/** Begins to send the data for which a rank asks. When the transport does not read `from` any more,
 *  the answer calls pgasi_offer_release. */
void pgasi_answer_begin(const pgasi_bulk_ask_t *ask, int rank, const char *from);
/** Completes the answers of an offer, because all its data have arrived. */
void pgasi_answers_arrived(uint32_t offer);
/** Continues to send. @return true: the transport has no room, and no completion will ask for the
 *  next round */
bool pgasi_answers_progress(void);
void pgasi_answers_peer_died(int rank);
void pgasi_answers_start(void);
void pgasi_answers_stop(void);

/* ---- buffer.c ---- */

/** Carries out a call to a rank, thread or service, with buffers or a large result. */
pgas_status_t pgasi_bulk_call(const pgasi_call_to_t *call);

/** An archive that travels with a call. */
typedef struct {
    uint8_t flags; /* PGASI_BULK_* */
    const void *stream;
    size_t stream_bytes; /* at most PGASI_BULK_STREAM_MAX */
    /* The target pulls all of them. Their field target is the global pointer to the memory of a
     * registered chunk, otherwise PGAS_NULL. */
    const pgas_buffer_t *chunks;
    size_t n_chunks;
    uint64_t reply_to; /* the token of the call that this one replies to */
    /* Any thread calls it when no rank reads the chunks any more, if the call was accepted and has
     * chunks. The table of the chunks must exist until then. */
    void (*ended)(void *arg);
    void *arg;
} pgasi_bulk_archive_t;
/** Carries out a call with an archive. Its options have no buffers. The result in its options gets
 *  a record that the reply names (call/token.h). The handler may be one of the library. */
pgas_status_t pgasi_bulk_call_archive(const pgasi_call_to_t *call, const pgasi_bulk_archive_t *a);

/* ---- read.c, under the receive lock ---- */

/** Reads all pulled buffers of a message from memory within reach. Any thread may call it. @return
 *  false: some of them need another way */
bool pgasi_read_all_near(pgasi_bulk_t *p);
/** Begins to read the pulled buffers of a message. */
void pgasi_read_begin(pgasi_bulk_t *p);
/** Repeats reads for which the transport had no room, and reads that a handler thread could not
 *  carry out. */
void pgasi_read_advance(pgasi_bulk_t *p);
/** Whether all reads that began have ended. Sets *retry_p if the transport had no room. */
bool pgasi_read_is_over(const pgasi_bulk_t *p, bool *retry_p);
/** Whether a buffer must come in pieces that the source sends. */
bool pgasi_read_asks(pgasi_bulk_t *p);
/** Asks the source for the next pieces. */
void pgasi_read_ask(pgasi_bulk_t *p);
/** A piece has arrived. */
void pgasi_read_arrived(pgasi_bulk_t *p, const pgasi_bulk_data_t *d, const void *data,
                        size_t bytes);

/* ---- pull.c ---- */

/** Reads the pulled buffers of a message at once, without the receive lock, and reports that to the
 *  source. The thread that runs the calls of the message's endpoint calls it. @return false: it is
 *  not possible now, and nothing has happened */
bool pgasi_pull_now(pgasi_bulk_t *p);
/** Subtracts the bytes of a message from PGAS_BUFFER_LIMIT's count. Any thread may call it. */
void pgasi_pull_release(pgasi_bulk_t *p);

/** Returns true if earlier calls to the endpoint of this one are being read. Calls with archives
 *  keep their order, so a call without chunks then goes through the same list. The endpoint's
 *  thread calls it. */
bool pgasi_pulls_are_before(const pgasi_bulk_head_t *h);
/** Takes over a complete message with buffers to be read. Any endpoint's thread. */
void pgasi_pull_begin(pgasi_bulk_t *p);
/** Takes the message whose buffers have been read. NULL: it is not known. */
pgasi_bulk_t *pgasi_pull_ready(const void *args, size_t bytes, pgas_thread_t source);
/** Continues the reads of pulled buffers until none can continue. The caller holds the receive
 *  lock; the function sends as handlers do. Sets *retry_p if the transport had no room. @return the
 *  number of calls that are finished */
int pgasi_pulls_progress(bool *retry_p);
/** The most bytes of pulled buffers that this rank held at one time. */
uint64_t pgasi_pulls_high(void);
void pgasi_pulls_peer_died(int rank); /* receive lock held */
void pgasi_pulls_start(void);
void pgasi_pulls_stop(void);

/* ---- arrive.c ---- */

void pgasi_arrive_peer_died(int rank);
void pgasi_arrive_start(void);
void pgasi_arrive_stop(void);

/* ---- reply.c ---- */

/** Continues replies that are being put, under the receive lock. True: the transport had no room.
 */
bool pgasi_replies_progress(void);
void pgasi_replies_peer_died(int rank); /* receive lock held */
void pgasi_replies_stop(void);

/* ---- start.c ---- */

pgas_status_t pgasi_bulk_start(void);
void pgasi_bulk_stop(void);

#endif
