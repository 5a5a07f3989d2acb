/** Bulk messages: calls that do not fit one descriptor, or whose buffers must be fetched. A bulk
 *  message is a stream of bytes,
 *
 *      head, parts (one per buffer), keys of segments, arguments | copied buffers, each padded to 8
 *
 *  that travels as descriptors of PGASI_DESC_BULK: one if it fits, else one for each piece, in
 *  order, to the endpoint of the call's target. The call runs there when the stream is complete and
 *  every pulled buffer has been read; on a handler thread if its handler may wait. What is read is
 *  read under the receive lock, for all endpoints; then the endpoint is told that the call is
 *  ready. */
#ifndef PGASI_BULK_H
#define PGASI_BULK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "call/sync.h"
#include "mem/ctx.h"
#include "mem/segment.h"
#include "mem/thread.h"
#include "pgas/buffer.h"
#include "transport/transport.h"

/* ---- the wire ---- */

/** Stands before each piece. */
typedef struct {
    uint64_t id;     /* of the bulk message at its source rank */
    uint64_t total;  /* bytes of the stream */
    uint64_t offset; /* of this piece in it */
} pgasi_bulk_piece_t;

typedef struct {
    uint32_t head_bytes; /* of the stream up to the first copied buffer, a multiple of 8 */
    uint32_t args_at, args_bytes;
    uint16_t handler;
    uint8_t n_parts, spare;
    uint64_t wire; /* token of the call, see descriptor.h; 0: nobody asks */
    /* token of a counter at the source that falls when all is read; 0: none */
    uint32_t local;
    uint32_t open;           /* the entry of the source's table of open pulls */
    uint32_t ep;             /* at which the call runs */
    uint32_t reply_key_at_8; /* as key_at_8 */
    uint64_t reply_bytes;    /* 0: no reply is wanted */
    uint64_t reply_address;  /* at the source */
    pgas_gptr_t reply_ptr;   /* the same, if it lies in a segment */
} pgasi_bulk_head_t;

typedef struct {
    uint64_t bytes;
    uint64_t address; /* pull: at the source */
    pgas_gptr_t ptr;  /* push: where it is; pull: the source, if it lies in a segment */
    uint32_t mode;
    uint16_t helper, key_at_8; /* the segment's key: place in the head by 8, 0 if there is none */
} pgasi_bulk_part_t;

/** What the target asks for when it can read a buffer in no other way, and what it gets. */
typedef struct {
    uint64_t offset, bytes;
    uint64_t number; /* of the bulk message at the target; 0: as a reply */
    uint32_t open, part;
} pgasi_bulk_ask_t;
typedef struct {
    uint64_t offset, number;
    uint32_t part;
    int32_t status;
} pgasi_bulk_data_t;
/** To the endpoint of a call whose buffers have been read, by this rank itself. */
typedef struct {
    uint64_t number; /* of the bulk message here */
} pgasi_bulk_ready_t;
/** The buffers of a call have been read. */
typedef struct {
    uint32_t open, local;
    int32_t status;
    uint32_t spare;
} pgasi_bulk_free_t;

/** The largest piece towards a rank: of the stream, or of data after a header of the wire. */
size_t pgasi_bulk_piece_max(int rank);

/* ---- the target ---- */

struct pgasi_bulk;

typedef enum {
    PGASI_PART_NEW, /* a pull that has not begun */
    PGASI_PART_DONE,
    PGASI_PART_GET,   /* the transport gets it */
    PGASI_PART_RETRY, /* it had no room for that */
    PGASI_PART_ASK,   /* the source sends it in pieces */
    PGASI_PART_HELPER /* a helper reads it */
} pgasi_part_state_t;

typedef struct {
    pgasi_tp_comp_t comp;
    struct pgasi_bulk *bulk;
    char *address;
    uint64_t bytes;
    uint64_t asked, arrived; /* PGASI_PART_ASK: bytes */
    pgasi_part_state_t state;
    bool own;   /* address is to be freed */
    bool taken; /* by the handler */
} pgasi_part_t;

typedef struct pgasi_bulk {
    struct pgasi_bulk *next;
    pgas_thread_t source;
    pgasi_bulk_head_t head;
    /* the stream up to head.head_bytes, or all of it if it came in one piece */
    char *block;
    bool own_block;
    pgas_status_t status;        /* why it will not run */
    uint64_t id, total, arrived; /* while pieces come in */
    uint64_t held, *account;     /* bytes of buffers, and where they are counted */
    uint64_t number;             /* pulls: its name here */
    bool feeding, doomed;        /* a thread is adding a piece; it is to be dropped after that */
    /* reads have begun; the source knows of their end; its source is dead; in pieces */
    bool begun, told, dropped, asking;
    int helping; /* a helper reads */
    pgas_status_t helper_status;
    uint32_t n_parts;
    pgasi_part_t part[];
} pgasi_bulk_t;

static inline const pgasi_bulk_part_t *pgasi_bulk_wire(const pgasi_bulk_t *p, size_t i)
{
    return (const pgasi_bulk_part_t *)(const void *)(p->block + sizeof p->head) + i;
}

/* bulk.c */
pgas_status_t pgasi_bulks_start(void);
void pgasi_bulks_stop(void);
/** Runs the call, here or on a handler thread, or tells its counter why not; then the bulk message
 *  is gone. In the context of handlers. */
void pgasi_bulk_finish(pgasi_bulk_t *p);
void pgasi_bulk_destroy(pgasi_bulk_t *p);
/** The one whose handler the thread runs, or NULL. */
const pgasi_bulk_t *pgasi_bulk_running(void);
/** The thread runs handlers for any thread of the rank, with the receive queue lock. */
static inline bool pgasi_bulk_in_inbox(void)
{
    return pgasi_self.in_handler && pgasi_self.handler_ctx == pgasi_ctxs[PGASI_CTX_SERVICE];
}

/* pull.c */
/** A complete bulk message with buffers to be read; any endpoint's thread. */
void pgasi_pull_begin(pgasi_bulk_t *p);
/** The buffers of a call that ran elsewhere than under the receive lock are gone: others may be
 *  read. */
void pgasi_pulls_released(void);
/** Takes the bulk message whose buffers have been read; NULL if it is not known. */
pgasi_bulk_t *pgasi_pull_ready(const void *args, size_t bytes, pgas_thread_t source);
/** The most bytes of pulled buffers that this rank held at one time. */
uint64_t pgasi_pulls_high(void);
void pgasi_pulls_peer_died(int rank); /* receive lock held */
void pgasi_pulls_start(void);
void pgasi_pulls_stop(void);
/** Copies between this rank's memory and private memory of another of the node; false if that is
 *  not to be had. */
bool pgasi_vm_copy(int rank, void *here, uint64_t there, uint64_t bytes, bool write);
/** Where memory of another rank, ptr its place in a segment or null, is reached by loads and
 *  stores; NULL if nowhere. */
void *pgasi_bulk_reach(int rank, pgas_gptr_t ptr, uint64_t bytes);

/** Asks for a round of progress: it goes on with pulls and replies, and runs calls whose data have
 *  arrived. */
void pgasi_pulls_call(void);
/** Makes a segment known to context 0 by the key that came with a bulk message, if ptr and bytes
 *  lie in it. */
bool pgasi_bulk_learn(const pgasi_bulk_t *p, uint64_t key_at_8, pgas_gptr_t ptr, uint64_t bytes);

/* reply.c */
/** Goes on with replies that are being put; true if the transport wants to be asked again. Part of
 *  a round of pulls. */
bool pgasi_replies_progress(void);
void pgasi_replies_peer_died(int rank); /* receive lock held */
void pgasi_replies_stop(void);

/* ---- the source: buffer.c ---- */

pgas_status_t pgasi_buffers_start(void);
void pgasi_buffers_stop(void);
void pgasi_buffers_peer_died(int rank);
size_t pgasi_buffers_table_bytes(void);
/** Whether this rank offers that memory to itself. */
bool pgasi_buffer_is_offered(uint32_t open, size_t part, uint64_t address, uint64_t bytes);
/** pgas_call_return for replies larger than PGAS_CALL_MAX; the counter is alive. */
pgas_status_t pgasi_bulk_return(int rank, pgas_handler_t handler, const void *args, size_t bytes,
                                void *reply, size_t reply_bytes, pgas_sync_t *executed);

#endif
