/** The descriptor of one access: what it needs, how many bytes it carries, and how it completes.
 *
 *  A thread keeps the descriptor on its stack until the access is done. After a miss other threads
 *  of the rank work on it: the protocol queues it, carries it out and completes it. */
#ifndef PGASI_ARRAY_DESCRIPTOR_H
#define PGASI_ARRAY_DESCRIPTOR_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "array/state.h"
#include "base/param.h"
#include "pgas/array.h"

/** Bytes that an access may carry to its home, or back, in one call. */
#define PGASI_ARRAY_CALL_BYTES ((size_t)pgasi_param.call_max - 64)
/** Bytes of an element and of a value that compare_swap and fetch_op take at most. */
#define PGASI_ARRAY_VALUE_MAX 256

typedef enum {
    PGASI_ARRAY_GET,
    PGASI_ARRAY_SET,
    PGASI_ARRAY_CAS,
    PGASI_ARRAY_FETCH,
    PGASI_ARRAY_APPLY,
    PGASI_ARRAY_PIN,
    PGASI_ARRAY_ASK /* does nothing: asks whether the home knows the operator */
} pgasi_array_kind_t;

/** An access of a thread to elements of one chunk. */
typedef struct pgasi_array_access {
    uint8_t kind;  /* pgasi_array_kind_t */
    uint8_t pin;   /* pgas_array_mode_t */
    bool foreign;  /* it is of a rank of another node: pins keep it waiting */
    bool operated; /* it was carried out in a chunk that was Operated */
    bool once;     /* one of many by index: no reason to fetch the chunk of a large array */
    uint32_t op;
    uint32_t k, n; /* elements k .. k + n - 1 of the block; n > 1: GET and SET only */
    uint64_t chunk;
    const void *in, *in2; /* the value, or desired and expected */
    void *out;            /* of a pin: where element 0 of the block would be, as `pinned` */
    /* in a queue for a cache line, or an apply in the same message */
    struct pgasi_array_access *next;
    pgas_status_t status;
    uint32_t done;
    uint32_t token;  /* of an access of another rank: names it there */
    uint32_t n_pins; /* pins of the waiting thread, while it waits */
    const struct pgasi_array_own_pin *pins;
    struct pgasi_array_grant *pinned; /* the grant of a pin; NULL if another process has set it */
} pgasi_array_access_t;

/** The kind of access that a cache line or the home must permit. */
typedef enum { PGASI_ARRAY_NEED_R, PGASI_ARRAY_NEED_W, PGASI_ARRAY_NEED_O } pgasi_array_need_t;

static inline pgasi_array_need_t pgasi_array_need(const pgasi_array_access_t *x)
{
    if (x->kind == PGASI_ARRAY_PIN)
        return (pgasi_array_need_t)x->pin;
    if (x->kind == PGASI_ARRAY_GET)
        return PGASI_ARRAY_NEED_R;
    return x->kind == PGASI_ARRAY_APPLY ? PGASI_ARRAY_NEED_O : PGASI_ARRAY_NEED_W;
}

/** The event at the home that carries the access out: OP_R, OP_W or OP_A. */
pgasi_array_event_t pgasi_array_op_event(const pgasi_array_access_t *x);

/** Bytes that the access carries to its home, and bytes that it gets back. */
size_t pgasi_array_in_bytes(const pgasi_array_access_t *x, size_t elem_bytes);
size_t pgasi_array_out_bytes(const pgasi_array_access_t *x, size_t elem_bytes);

/** Whether one call can carry the access to its home, so that the chunk need not come here. */
bool pgasi_array_fits_call(const pgasi_array_access_t *x, size_t elem_bytes);

/** The access is done: sets its status and wakes the thread that waits for it. */
void pgasi_array_done(pgasi_array_access_t *x, pgas_status_t status);
static inline bool pgasi_array_is_done(const pgasi_array_access_t *x)
{
    return __atomic_load_n(&x->done, __ATOMIC_ACQUIRE) != 0;
}

/* ---- queues of accesses that wait; serving ---- */

/** All zero is an empty queue. */
typedef struct {
    pgasi_array_access_t *first, *last;
} pgasi_array_queue_t;

void pgasi_array_queue_push(pgasi_array_queue_t *queue, pgasi_array_access_t *x);
/** Takes the first of a queue that is not empty. */
pgasi_array_access_t *pgasi_array_queue_pop(pgasi_array_queue_t *queue);
/** Takes an access out of the queue, if it is there. */
void pgasi_array_queue_remove(pgasi_array_queue_t *queue, const pgasi_array_access_t *x);

/* ---- accesses that another rank carries out; serving ---- */

/** Forgets the accesses of an earlier job. */
void pgasi_array_tokens_start(void);
/** Takes a token that names the access until its reply arrives.
 *  @return PGAS_ERR_NO_MEMORY: there are no more tokens. */
pgas_status_t pgasi_array_token_open(pgasi_array_access_t *x, uint32_t *token_p);
/** Ends a token. @return its access; NULL: no thread waits for it any more. */
pgasi_array_access_t *pgasi_array_token_close(uint32_t token);
/** Ends the tokens of an access that no thread waits for any more. */
void pgasi_array_token_forget(const pgasi_array_access_t *x);

#endif
