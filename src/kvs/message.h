/** Messages between nodes: requests for operations, and replies. All words are in the byte order of
 *  the machine; keys and values begin at multiples of 8 bytes. */
#ifndef PGASI_KVS_MESSAGE_H
#define PGASI_KVS_MESSAGE_H

#include "kvs/kvs.h"
#include "pgas/call.h"

#define PGASI_KVS_MESSAGE_MAX 8192u

/** Operations of one caller on keys of one home. */
typedef struct {
    uint32_t kvs, n; /* the store's number; items that follow */
    uint32_t home;   /* the team's rank */
    uint32_t pad;
    uint64_t batch; /* the caller's */
} pgasi_request_t;

/** Key and value follow; in a call with buffers they are the buffers. */
typedef struct {
    uint64_t version;
    int64_t expires_ms;
    uint64_t capacity;
    uint32_t index; /* of the item in the batch */
    uint32_t key_bytes, value_bytes;
    uint8_t op, condition, keep_expiry, pad;
} pgasi_request_item_t;

typedef struct {
    uint32_t kvs, n;
    uint64_t batch;
} pgasi_reply_t;

/** The value follows, if has_value is set. */
typedef struct {
    uint64_t version;
    int64_t expires_ms;
    uint64_t stamp;
    uint32_t index, value_bytes;
    int32_t status; /* PGAS_INPROGRESS: the value is too large, the caller fetches it */
    bool has_value, has_stamp, is_write;
    uint8_t pad[1];
} pgasi_reply_item_t;

/** Items of one pgas_kvs_run that other nodes carry out. An item has the status PGAS_INPROGRESS
 *  until its reply, a failed send or the death of its home claims it. */
typedef struct pgasi_batch {
    pgas_kvs_t *kvs;
    pgas_kvs_item_t *items;
    size_t n_begun;    /* the items before have been sent, or have their status */
    pgas_sync_t *sync; /* counts items: the caller's, or own */
    int64_t missing;   /* items without a result, and 1 for each function that uses the batch */
    pgas_sync_t own;   /* of a run that waits. That run frees the batch, otherwise the last item */
    struct pgasi_batch *next, *prev; /* in the store's list, unless the run waits */
} pgasi_batch_t;

/** Requests that are being put together, one for each home. */
typedef struct {
    char *at;     /* PGASI_KVS_MESSAGE_MAX bytes; NULL: none yet */
    size_t bytes; /* with the head */
} pgasi_outgoing_t;

extern pgas_handler_t pgasi_kvs_request_handler, pgasi_kvs_waiting_handler;
extern pgas_handler_t pgasi_kvs_reply_handler, pgasi_kvs_large_handler;

/** The most bytes that a message may have. */
size_t pgasi_kvs_message_max(void);

/** Sends an item by itself. waits: to the handler that may wait. */
pgas_status_t pgasi_kvs_send_one(pgasi_batch_t *batch, int home, uint32_t index, bool waits);
/** Sends an item together with others of the same home, later. */
pgas_status_t pgasi_kvs_send(pgasi_batch_t *batch, pgasi_outgoing_t *outgoing, int home,
                             uint32_t index);
/** Sends them now. If that fails, they are complete with its status. */
void pgasi_kvs_flush(pgasi_batch_t *batch, pgasi_outgoing_t *outgoing, int home);

/** Puts the batch of a run with the caller's counter into the store's list. The death of
 *  a home ends its items in these batches. */
void pgasi_kvs_enlist(pgasi_batch_t *batch);
/** Ends the items of a batch whose homes have died. */
void pgasi_kvs_end_lost(pgasi_batch_t *batch);
/** Notes that n items of a batch have their results. The batch may be gone afterwards. */
void pgasi_kvs_complete(pgasi_batch_t *batch, int64_t n);
/** Gives an item its status. @return false: it has one already, and the thread that set it
 *  completes it */
static inline bool pgasi_kvs_claim(pgas_kvs_item_t *item, pgas_status_t status)
{
    pgas_status_t pending = PGAS_INPROGRESS;
    return __atomic_compare_exchange_n(&item->status, &pending, status, false, __ATOMIC_ACQ_REL,
                                       __ATOMIC_RELAXED);
}

#endif
