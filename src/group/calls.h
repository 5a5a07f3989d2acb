/** The way calls: pieces travel by messages of the job, from rank to rank, and a handler executes
 *  them. It needs pgas_group_create; replicas and clients are ranks.
 *
 *      client --> replica 0 --> replica 1 --> .. --> replica n-1 --> client
 *
 *  A message is a head and a part of: the piece, n old words, data; it has at most PGAS_CALL_MAX
 *  bytes. The last replica sends the old words only. Ends of a chain name each other by numbers,
 *  which travel in place of the addresses of queue pairs (pgasi_calls_address). */
#ifndef PGASI_GROUP_CALLS_H
#define PGASI_GROUP_CALLS_H

#include <stdbool.h>
#include <stdint.h>
#include "group/program.h"
#include "pgas/verbs.h"

typedef enum { PGASI_CALLS_PIECE = 1, PGASI_CALLS_ACK } pgasi_calls_kind_t;

/** The head of a message. */
typedef struct {
    uint64_t to;     /* number of the receiving session, or client */
    uint64_t number; /* of the piece */
    uint32_t kind;   /* pgasi_calls_kind_t */
    uint32_t offset; /* of this part */
    uint32_t bytes;  /* of the whole: piece, words, data; or words */
    uint32_t reserved;
} pgasi_calls_head_t;

/** Enters the handler and the table of the replica. Each rank calls it before the first session of
 *  a job; a second time does nothing. */
void pgasi_calls_start(void);

/** A number of a session or a client, in the form of an address. 0: not one */
void pgasi_calls_set_address(pgas_verbs_address_t *address_p, uint64_t number);
uint64_t pgasi_calls_number(const pgas_verbs_address_t *address);

/** A message that is being sent. The first bytes are the piece and the old words. */
typedef struct {
    int rank;
    pgasi_calls_head_t head; /* offset: of the part that comes next */
    const void *first, *data;
    uint32_t first_bytes, data_bytes;
} pgasi_calls_message_t;

/** Sends the rest of a message. in_handler: it waits in the send queue without a limit.
 *  @return PGAS_ERR_AGAIN  there is no room now; call it again
 *          PGAS_ERR_PEER   the rank has died */
pgas_status_t pgasi_calls_send(pgasi_calls_message_t *m, bool in_handler);

/** Takes an acknowledgement. Set by calls_client.c; called in a handler. */
extern void (*pgasi_calls_on_ack)(const pgasi_calls_head_t *head, const void *part, uint32_t bytes);

#endif
