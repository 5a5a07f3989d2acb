/** The form of calls in rings and messages: an 8-byte header, an optional 8-byte token, arguments
 *  padded to 8.
 *
 *  bits  0..15 handler (1 .. PGAS_HANDLERS_MAX the program's, from PGASI_DESC_FIRST_INTERNAL the
 *        library's)
 *  bits 16..39 bytes of arguments of one call
 *  bits 40..51 slot of the calling thread
 *  bit  52     a token follows: the caller wants to know that the handler ran
 *  bit  53     see bit 63
 *  bits 54..62 further calls of the same kind, whose arguments follow: a run shares one header.
 *              Arguments of up to 4 bytes then take 4 bytes
 *  bit  63     1, so that a header is never zero. The first header of what a sender publishes in a
 *              chunk has exactly one valid bit: bit 63 in even phases, bit 53 in odd ones
 *              (pgasi_desc_shown). A header of the previous phase is therefore never taken as
 *              valid.
 *  Each publication in a chunk starts at a multiple of 16 bytes and takes a multiple of 16. WRAP,
 *  with one word behind it, ends a chunk and names the next. Its slot is 1 if the next chunk is in
 *  an odd phase. BATCH precedes `bytes` bytes of descriptors that are published at once. */
#ifndef PGASI_DESCRIPTOR_H
#define PGASI_DESCRIPTOR_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "pgas/call.h"

#define PGASI_DESC_VALID       PGAS_CALL_PHASE_EVEN
#define PGASI_DESC_PHASES      (PGAS_CALL_PHASE_EVEN | PGAS_CALL_PHASE_ODD)
#define PGASI_RING_UNIT        16
#define PGASI_DESC_TOKEN       (UINT64_C(1) << 52)
#define PGASI_DESC_SLOT_SHIFT  40
#define PGASI_DESC_BYTES_SHIFT 16
#define PGASI_DESC_BYTES_MAX   ((1u << 24) - 1)
#define PGASI_DESC_MORE_SHIFT  54
#define PGASI_DESC_MORE_MAX    511u

#define PGASI_DESC_FIRST_INTERNAL 0xFFE0u
enum {
    PGASI_DESC_ACK = PGASI_DESC_FIRST_INTERNAL, /* a call with a token has run: pgasi_desc_ack_t */
    PGASI_DESC_REPLY,                           /* the same, and the reply's data follow */
    PGASI_DESC_SEGMENT,                         /* asks for a segment's key */
    PGASI_DESC_RMA, /* asks the owner to carry out a put, get or atomic */
    /* runs on a thread of its own: number of the handler, arguments */
    PGASI_DESC_SPAWN,
    /* does nothing; its token reports that everything before it has run */
    PGASI_DESC_MARKER,
    PGASI_DESC_ROUTE_2, /* calls that travel over other ranks: route.c */
    PGASI_DESC_ROUTE_3,
    PGASI_DESC_ROUTE_MARKER_2, /* markers behind such calls */
    PGASI_DESC_ROUTE_MARKER_3,
    PGASI_DESC_BULK, /* a piece of a call with buffers: bulk.h */
    /* from a rank to itself: the buffers of a call for an endpoint have been read */
    PGASI_DESC_BULK_READY,
    PGASI_DESC_BUFFER_READ, /* asks for a piece of a buffer */
    PGASI_DESC_BUFFER_DATA, /* the piece that was asked for */
    PGASI_DESC_BUFFER_FREE, /* the buffers of a call have been read */
    /* a piece of a large reply: pgasi_desc_reply_piece_t, then data */
    PGASI_DESC_REPLY_PIECE,
    PGASI_DESC_ARGS_REPLY,   /* an archive that replies to a call: archive/call.c */
    PGASI_DESC_BCAST,        /* a broadcast: bcast.h */
    PGASI_DESC_BCAST_BUFFER, /* the same with a buffer */
    PGASI_DESC_BCAST_ACK,    /* a subtree of a broadcast has run it */
    PGASI_DESC_BCAST_THREAD, /* a broadcast, for one thread of its rank */
    PGASI_DESC_ALLOC,        /* asks the owner to allocate or free a block */
    PGASI_DESC_LOCK,         /* asks for a lock, releases it, grants it */
    PGASI_DESC_OBJECT,       /* operations on an object */
    PGASI_DESC_CHANNEL,      /* about a channel between nodes: pgasi_ctl_t */
    PGASI_DESC_ARRAY,        /* of the coherent array: array/wire.h */
    PGASI_DESC_ARRAY_LOCK,   /* as PGASI_DESC_LOCK, for a lock of an element */
    PGASI_DESC_MANY,         /* elements of this rank: get, put or update them */
    PGASI_DESC_GROUP,        /* pieces of groups, and their acknowledgements: group/calls.h */
    PGASI_DESC_END_INTERNAL,
    PGASI_DESC_BATCH = 0xFFFE,
    PGASI_DESC_WRAP = 0xFFFF
};

/** The token says what the answer completes at the caller. It has one of three forms:
 *  - HEAP: bits 0..43 are the offset of a counter in the caller's heap, as in a global pointer. A
 *    rank of the caller's node may lower the counter itself.
 *  - ADDRESS: bits 0..60 name a counter in the caller's memory; only the caller reads them.
 *  - otherwise bits 0..31 name a record of the caller (call/token.h). Bits 32..60 are 1 + the bytes
 *    of the wanted reply; 0: no reply is wanted. */
/* The call completes when it has arrived, not when it has run. */
#define PGASI_WIRE_ARRIVED (UINT64_C(1) << 63)
#define PGASI_WIRE_HEAP    (UINT64_C(1) << 62)
#define PGASI_WIRE_ADDRESS (UINT64_C(1) << 61)
#define PGASI_WIRE_OFFSET  ((UINT64_C(1) << 44) - 1)
static inline uint32_t pgasi_wire_token(uint64_t wire)
{
    return (uint32_t)wire;
}
static inline bool pgasi_wire_wants_reply(uint64_t wire)
{
    return !(wire & (PGASI_WIRE_HEAP | PGASI_WIRE_ADDRESS)) &&
           ((uint32_t)(wire >> 32) & 0x1FFFFFFFu) != 0;
}
/* The bytes of a wanted reply, at most 0x1FFFFFFE. The heads of bulk messages have room for larger
 * numbers. */
static inline uint32_t pgasi_wire_reply_bytes(uint64_t wire)
{
    return ((uint32_t)(wire >> 32) & 0x1FFFFFFFu) - 1;
}
static inline uint64_t pgasi_wire_of_reply(uint32_t token, uint64_t bytes)
{
    return token | ((bytes < 0x1FFFFFFE ? bytes : 0x1FFFFFFE) + 1) << 32;
}

/** The answer to a call without a reply. If the call succeeded, it consists of the token alone. If
 *  several calls succeeded, `what` is their number. */
typedef struct {
    uint64_t wire;
    int32_t status;
    uint32_t what; /* after an error: the handler that was to run */
} pgasi_desc_ack_t;

/** Precedes a reply. */
typedef struct {
    uint32_t token;
    int16_t status;
    uint16_t handler; /* that ran, or was to run */
} pgasi_desc_reply_t;

typedef struct {
    /* Of this piece. The last one may have no data: the reply is in its place already. */
    uint64_t offset;
    uint32_t token, spare;
} pgasi_desc_reply_piece_t;

static inline uint64_t pgasi_desc_header(uint32_t handler, size_t bytes, int slot)
{
    return PGASI_DESC_VALID | handler | (uint64_t)bytes << PGASI_DESC_BYTES_SHIFT |
           (uint64_t)slot << PGASI_DESC_SLOT_SHIFT;
}
static inline uint32_t pgasi_desc_handler(uint64_t header)
{
    return (uint32_t)(header & 0xFFFF);
}
static inline size_t pgasi_desc_bytes(uint64_t header)
{
    return (size_t)(header >> PGASI_DESC_BYTES_SHIFT & PGASI_DESC_BYTES_MAX);
}
static inline int pgasi_desc_slot(uint64_t header)
{
    return (int)(header >> PGASI_DESC_SLOT_SHIFT & 0xFFF);
}
static inline uint32_t pgasi_desc_more(uint64_t header)
{
    return (uint32_t)(header >> PGASI_DESC_MORE_SHIFT & PGASI_DESC_MORE_MAX);
}
/** Bytes from the arguments of one call to those of the next. */
static inline size_t pgasi_desc_stride(uint64_t header)
{
    return PGAS_HANDLER_STRIDE(pgasi_desc_bytes(header));
}
static inline bool pgasi_desc_has_arrived(uint64_t word, uint64_t phase)
{
    return (word & PGASI_DESC_PHASES) == phase;
}
/** The header as the sender publishes it in a chunk of this phase. */
static inline uint64_t pgasi_desc_shown(uint64_t header, uint64_t phase)
{
    return (header & ~PGASI_DESC_VALID) | phase;
}
/** Bytes of the whole descriptor. */
static inline size_t pgasi_desc_room(uint64_t header)
{
    return 8 + (header & PGASI_DESC_TOKEN ? 8 : 0) +
           ((pgasi_desc_stride(header) * (1 + (size_t)pgasi_desc_more(header)) + 7) & ~(size_t)7);
}

#endif
