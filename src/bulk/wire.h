/** The format of bulk messages. A bulk message is a stream of bytes,
 *
 *      head, parts (one per buffer), keys of segments, arguments | copied buffers, each padded to 8
 *
 *  It travels as descriptors of PGASI_DESC_BULK to the endpoint of the call's target: as one if it
 *  fits, otherwise as one for each piece, in order. */
#ifndef PGASI_BULK_WIRE_H
#define PGASI_BULK_WIRE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "pgas/gptr.h"
#include "pgas/runtime.h"

#define PGASI_BULK_PIECE_MAX 16384
/** The most parts of a call with an archive. PGAS_BUFFERS_MAX limits the other calls. */
#define PGASI_BULK_PARTS_MAX 65535u
/** The most bytes of an archive's stream that travel in the message; longer ones are pulled. */
#define PGASI_BULK_STREAM_MAX 16384u

/** Precedes each piece. */
typedef struct {
    uint64_t id;     /* of the bulk message at its source rank */
    uint64_t total;  /* bytes of the stream */
    uint64_t offset; /* of this piece in the stream */
} pgasi_bulk_piece_t;

/** Flags of a head. */
enum {
    /* The arguments are the stream of an archive, and the parts are its chunks. All parts are
     * pulled, into objects of pgas/rma_object.h. */
    PGASI_BULK_ARCHIVE = 1,
    PGASI_BULK_STREAM = 2,        /* the last part is the stream, and there are no arguments */
    PGASI_BULK_WANTS_ARCHIVE = 4, /* the caller waits for an archive as the reply */
    PGASI_BULK_ORDERED = 8 /* buffers to pull were copied: earlier pulls of the caller come first */
};

typedef struct {
    uint32_t head_bytes; /* of the stream up to the first copied buffer, a multiple of 8 */
    uint32_t args_at, args_bytes;
    uint16_t handler;
    uint8_t spawn, flags;
    uint64_t wire;  /* token of the call, see descriptor.h; 0: no thread waits for the call */
    uint32_t offer; /* id of the source's offer (offer.c); 0: none */
    uint32_t ep;    /* the endpoint at which the call runs */
    uint32_t reply_key_at_8; /* as key_at_8 */
    uint32_t n_parts;
    uint64_t reply_bytes;   /* 0: no reply is wanted */
    uint64_t reply_address; /* at the source */
    pgas_gptr_t reply_ptr;  /* the same, if it is in a segment */
} pgasi_bulk_head_t;

typedef struct {
    uint64_t bytes;
    uint64_t address; /* pull: at the source */
    pgas_gptr_t ptr;  /* push: where the buffer is; pull: the source, if it is in a segment */
    uint16_t mode, helper;
    uint32_t key_at_8; /* offset in the head, divided by 8, of the segment's key; 0: none */
} pgasi_bulk_part_t;

/** The target requests a piece of a buffer that it cannot read in another way. */
typedef struct {
    uint64_t offset, bytes;
    uint64_t number; /* of the bulk message at the target; 0: the piece is sent as a reply */
    uint32_t offer, part;
} pgasi_bulk_ask_t;

/** Precedes the piece that the source sends then. */
typedef struct {
    uint64_t offset, number;
    uint32_t part;
    int32_t status;
} pgasi_bulk_data_t;

/** The target sends this to its own endpoint when the buffers of a call have been read. */
typedef struct {
    uint64_t number; /* of the bulk message at the target */
} pgasi_bulk_ready_t;

/** The target reports to the source that it has read the buffers of a call. */
typedef struct {
    uint32_t offer;
    int32_t status;
} pgasi_bulk_free_t;

/** The largest piece that is sent to a rank. */
size_t pgasi_bulk_piece_max(int rank);

/** Checks the fields of a head that decide how much memory its message takes. */
bool pgasi_bulk_head_fits(const pgasi_bulk_head_t *h);

/** Checks sizes, offsets and ranks of the head of a stream of `total` bytes. Of the stream at least
 *  head_bytes are at `block`. */
bool pgasi_bulk_head_is_sane(const char *block, uint64_t total, pgas_thread_t source);

#endif
