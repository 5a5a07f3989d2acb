/* format.h: the bytes of a replicated log in the region of a replica. Pure functions.
 *
 *  byte  what
 *  0     head: magic, version, bytes of the region
 *  64    lock word: 0, or the writer (lock.h)
 *  128   commit word: term and end of the committed records
 *  136   mark of the term: a random number
 *  4096  records, one behind the other
 *
 *  A record is a head of 16 bytes, its payload with zeros up to a multiple of 8, and 8 bytes at its
 *  end: its checksum and its span. So the log can be read in both directions. All numbers are
 *  little-endian, as on all machines that the library knows.
 *
 *  Each writer begins a term, greater than all that it finds, and again when the group's members
 *  have changed. It writes the first record of a term when all members have the term. So records of
 *  a term come from one writer, and it never gives a sequence number twice. Two records of the same
 *  term and number are equal, and so are all records before them. A writer that dies while it
 *  begins a term may leave the same term number as another one. The marks tell these apart.
 *  Commit words are compared as numbers: the term is above the end. */
#ifndef REPLOG_FORMAT_H
#define REPLOG_FORMAT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define REPLOG_LOCK_AT     64u
#define REPLOG_COMMIT_AT   128u
#define REPLOG_MARK_AT     136u
#define REPLOG_DATA_AT     4096u
#define REPLOG_HEAD_BYTES  192u       /* of a region: head, lock, commit word and mark */
#define REPLOG_RECORD_MAX  (1u << 20) /* bytes of payload */
#define REPLOG_RECORD_HEAD 16u
#define REPLOG_RECORD_TAIL 8u

/* ---- the region ---- */

typedef enum { REPLOG_BLANK, REPLOG_LOG, REPLOG_STRANGE } replog_kind_t;

/* The first REPLOG_HEAD_BYTES of a region, all words. */
void replog_head_make(uint64_t *head, uint64_t region_bytes);
replog_kind_t replog_head_check(const uint64_t *head, uint64_t region_bytes);

/* The end is a number of bytes behind REPLOG_DATA_AT, a multiple of 8. */
uint64_t replog_commit_make(uint32_t term, uint64_t end);
uint32_t replog_commit_term(uint64_t word);
uint64_t replog_commit_end(uint64_t word);

/* ---- records ---- */

typedef struct {
    uint64_t seq; /* from 1 */
    uint32_t term;
    uint32_t bytes; /* of the payload */
    uint32_t crc;   /* CRC-32C of all bytes before it */
    uint32_t span;  /* bytes in the log */
} replog_record_t;

/* Bytes that a record with such a payload takes. */
uint32_t replog_span(uint32_t bytes);

/* Writes a record of replog_span(bytes) bytes. */
void replog_encode(void *to, uint64_t seq, uint32_t term, const void *payload, uint32_t bytes);

/* Reads the head at the start of a record; the checksum and the payload are not read.
 * @return whether its sizes are possible and not above `room` bytes */
bool replog_head_decode(const void *at, uint64_t room, replog_record_t *record_p);

/* Reads and checks a whole record. @return whether there is one, in at most `room` bytes */
bool replog_decode(const void *at, uint64_t room, replog_record_t *record_p);

/* The last 8 bytes of a record, which ends at `end`. @return the span; 0: impossible */
uint32_t replog_tail_decode(const void *tail, uint64_t end, uint32_t *crc_p);

uint32_t replog_crc32c(const void *data, size_t bytes);

#endif
