/** Messages of groups and the programs in them: pure functions, no I/O.
 *
 *  A piece is the part of an operation that one message carries: all of it, if it is small. With
 *  the way chain the message for replica i of n is
 *
 *      program of i | program of i+1 | .. | program of n-1 | n old words | data
 *
 *  The receive entry of replica i scatters its own program, and the rest to its staging slot:
 *
 *      64 bytes -> the entry of the loop queue pair that executes the piece
 *      16 bytes -> the data segment of the SEND that forwards the staging slot
 *      the rest -> the staging slot; the old words are at old_at, the data at data_at
 *
 *  The last replica forwards the n old words only, to the client. With the ways verbs and calls,
 *  one head takes the place of the programs, and the CPU of each replica executes it. */
#ifndef PGASI_GROUP_PROGRAM_H
#define PGASI_GROUP_PROGRAM_H

#include <stdbool.h>
#include <stdint.h>
#include "pgas/group.h"

#define PGASI_GROUP_REGION_MAX    (UINT64_C(1) << 40)
#define PGASI_GROUP_PIECE_MAX     (256u << 10) /* bytes of data */
#define PGASI_GROUP_ENTRY_BYTES   64u          /* of the loop queue */
#define PGASI_GROUP_SEGMENT_BYTES 16u          /* data segment of the SEND */
#define PGASI_GROUP_PROGRAM_BYTES (PGASI_GROUP_ENTRY_BYTES + PGASI_GROUP_SEGMENT_BYTES)

/** One piece. All fields are of fixed size, little-endian: the head of the CPU's ways is this. */
typedef struct {
    uint64_t number;      /* of the piece in its chain, from 0 */
    uint64_t offset;      /* destination */
    uint64_t source;      /* memcpy; cas: expected */
    uint64_t desired;     /* cas */
    uint64_t execute_map; /* cas: replicas that swap. Others read the word */
    uint64_t skip_map;    /* replicas that have executed this piece in an earlier chain */
    uint32_t bytes;       /* write, memcpy, flush; cas: 8 */
    uint32_t kind;        /* pgas_group_kind_t */
    uint64_t reserved;
} pgasi_group_piece_t; /* 64 bytes */

/** A replica as programs need it. Fixed size, little-endian: OPENED carries it. */
typedef struct {
    uint64_t region, region_bytes;
    uint64_t staging, staging_stride; /* slot k is at staging + k % slots * stride */
    uint32_t region_lkey, region_rkey;
    uint32_t staging_lkey;
    uint32_t loop_qpn;   /* of the loop queue pair; 24 bits */
    uint32_t loop_first; /* position of the entry for piece 0 */
    uint32_t slots;      /* a power of two: staging slots, entries of the loop and next queues */
} pgasi_group_member_t;

/** Layout of messages. */
typedef struct {
    uint32_t n;          /* replicas */
    uint32_t head_bytes; /* of the message to the first replica: programs, or one piece */
    uint32_t old_at;     /* in the message to the first replica; n words */
    uint32_t data_at;
    uint32_t room; /* a message with a whole piece, a multiple of 64 */
} pgasi_group_layout_t;
pgasi_group_layout_t pgasi_group_layout(bool chain, uint32_t n, uint32_t piece_bytes);

/** One of so many acknowledgements wakes a client that sleeps while more are under way: a power of
 *  two. */
static inline uint32_t pgasi_group_solicited_each(uint32_t slots)
{
    const uint32_t most = 32; /* the others wait for it */
    return slots / 4 > most ? most : slots / 4;
}

/** Where the old words and the data are in the staging slot of replica i. */
uint32_t pgasi_group_old_at(bool chain, uint32_t n, uint32_t i);
uint32_t pgasi_group_data_at(bool chain, uint32_t n, uint32_t i);

/** Bytes of the message to replica i; i = n: the acknowledgement. data_bytes: of a write, or 0 */
uint32_t pgasi_group_message_bytes(bool chain, uint32_t n, uint32_t i, uint32_t data_bytes);

/** Writes the programs of all replicas for a piece: n * PGASI_GROUP_PROGRAM_BYTES bytes. */
void pgasi_group_programs(const pgasi_group_piece_t *piece, const pgasi_group_member_t *members,
                          uint32_t n, void *programs);

/** Executes a piece on the region, by the CPU of replica i (ways verbs and calls). old and data:
 *  the old words and the data of the message.
 *  @return PGAS_ERR_RANGE  the piece is wrong; nothing happened */
pgas_status_t pgasi_group_execute(const pgasi_group_piece_t *piece, uint32_t i, void *region,
                                  uint64_t region_bytes, uint64_t *old, const void *data);

/** Checks an operation against a region. @return as pgas_group_submit */
pgas_status_t pgasi_group_check(const pgas_group_op_t *op, uint64_t region_bytes, uint32_t n);

/** Cuts: fills in the piece of an operation that begins `done` bytes behind its start.
 *  @return the bytes that the piece covers; of a cas 8 */
uint64_t pgasi_group_cut(const pgas_group_op_t *op, uint64_t done, uint32_t piece_bytes,
                         pgasi_group_piece_t *piece_p);

#endif
