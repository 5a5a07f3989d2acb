/** Pending operations, and the queues of an endpoint in which they wait. */
#ifndef PGASI_VERBS_PENDING_H
#define PGASI_VERBS_PENDING_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "transport/transport.h"

typedef struct pgasi_verbs_pending pgasi_verbs_pending_t;

/** A bounce buffer: registered memory through which unregistered data passes. */
typedef struct pgasi_verbs_buffer {
    struct pgasi_verbs_buffer *next;
    char *data;
    uint64_t number; /* of the request that uses it */
    bool is_large;
} pgasi_verbs_buffer_t;

typedef enum {
    PGASI_VERBS_PENDING_PUT,
    PGASI_VERBS_PENDING_GET,
    PGASI_VERBS_PENDING_PIECE,       /* a part of a get, through a buffer */
    PGASI_VERBS_PENDING_AMO,         /* an atomic by the card */
    PGASI_VERBS_PENDING_AMO_REQUEST, /* an atomic by the owner's CPU */
    PGASI_VERBS_PENDING_MESSAGE,
    PGASI_VERBS_PENDING_FLUSH
} pgasi_verbs_pending_kind_t;

typedef struct pgasi_verbs_flush pgasi_verbs_flush_t;

struct pgasi_verbs_pending {
    pgasi_verbs_pending_t *next;
    pgasi_tp_comp_t *comp;
    uint64_t number; /* in flight: the operation ends when this request is done */
    uint64_t after;  /* a fence: replies that must have arrived before it begins */
    uint64_t remote_addr;
    char *local;
    uint64_t bytes, at; /* at: bytes that are posted */
    pgasi_verbs_pending_kind_t kind;
    uint32_t rkey;
    uint32_t lkey;     /* key of local; 0: it is not registered */
    bool is_looked_up; /* lkey is set */
    bool header_sent;  /* MESSAGE: the first piece is posted */
    uint8_t header_bytes;
    uint8_t op;          /* pgasi_amo_t */
    uint32_t slot, name; /* of atomics: slot for the result, name of the memory */
    union {
        struct {
            uint64_t operand, compare;
            void *result;
        } amo;
        pgasi_verbs_buffer_t *buffer; /* PIECE */
        struct {
            pgasi_verbs_flush_t *flush;
            uint64_t n_replied; /* replies that must have arrived */
        } flush;
        unsigned char header[PGASI_TP_AM_HEADER_MAX];
    } u;
};

/** A flush in flight. */
struct pgasi_verbs_flush {
    pgasi_tp_parts_t parts;
    bool of_all;
};

typedef struct {
    pgasi_verbs_pending_t *first, **last;
} pgasi_verbs_queue_t;

static inline void pgasi_verbs_queue_init(pgasi_verbs_queue_t *queue)
{
    queue->first = NULL;
    queue->last = &queue->first;
}
static inline void pgasi_verbs_queue_add(pgasi_verbs_queue_t *queue, pgasi_verbs_pending_t *pending)
{
    pending->next = NULL;
    *queue->last = pending;
    queue->last = &pending->next;
}
static inline pgasi_verbs_pending_t *pgasi_verbs_queue_take(pgasi_verbs_queue_t *queue)
{
    pgasi_verbs_pending_t *pending = queue->first;
    queue->first = pending->next;
    if (!queue->first)
        queue->last = &queue->first;
    return pending;
}

#endif
