/** Messages of the array: calls of one internal handler, through context 0, so that messages from
 *  one rank to another stay in order. send.c sends them, receive.c handles them. The callers are
 *  serving (msg/serve.h). */
#ifndef PGASI_ARRAY_WIRE_H
#define PGASI_ARRAY_WIRE_H

#include "array/array.h"

typedef enum {
    PGASI_ARRAY_M_REQUEST,      /* to the home: a cache asks for a chunk */
    PGASI_ARRAY_M_OP,           /* to the home: an access to carry out */
    PGASI_ARRAY_M_APPLIES,      /* to the home: several applies with one operator */
    PGASI_ARRAY_M_REPLY,        /* of that access; of all these applies */
    PGASI_ARRAY_M_ANSWER,       /* to the home: ACK, WB, WB_KEEP, WB_O */
    PGASI_ARRAY_M_TO_CACHE,     /* an event for a cache line */
    PGASI_ARRAY_M_ELEMENTS,     /* to the home: elements written back */
    PGASI_ARRAY_M_CONTRIBUTION, /* to the home */
    PGASI_ARRAY_M_FILL,         /* to a cache: elements */
    PGASI_ARRAY_M_UNPINNED,     /* to the home: a pin ended */
    PGASI_ARRAY_M_SPARSE,       /* to the home: operands of chunks that have no line */
    PGASI_ARRAY_M_SPARSE_DONE,  /* to a cache: these operands have arrived */
    PGASI_ARRAY_M_HEAP          /* how the receiver reaches the sender's heap */
} pgasi_array_message_kind_t;

typedef struct {
    uint16_t array;
    uint8_t kind, event;
    uint32_t op;
    uint64_t chunk;
    union {
        uint64_t offset; /* of a piece */
        struct {
            uint32_t k, n : 22, kind : 6, pin : 4;
        } access; /* OP */
    };
    union {
        uint32_t line;
        uint32_t token; /* OP, APPLIES, REPLY */
    };
    union {
        int16_t status; /* REPLY */
        /* REQUEST, DATA_*: the cache uses the elements in the home's heap. GRANT_O, WB_O: the home
         * reads the contribution in the cache's line */
        int16_t pull;
    };
    uint16_t list; /* REQUEST, ANSWER, TO_CACHE: entries follow, one for each of several chunks */
} pgasi_array_message_t;

/** One of several messages that travel together. */
typedef struct {
    uint32_t line;
    int32_t distance; /* of the chunk, from that of the message */
} pgasi_array_list_entry_t;
/** One of several applies. */
typedef struct {
    uint32_t k;       /* element of the chunk's block */
    int32_t distance; /* of the chunk, from that of the message */
    char operand[8];
} pgasi_array_apply_entry_t;
/** One of several sparse contributions (sparse.h). */
typedef struct {
    uint32_t element; /* counted from the first one of the home */
    uint32_t op;
    char operand[8];
} pgasi_array_sparse_entry_t;
#define PGASI_ARRAY_SPARSE_MAX 256                       /* in a message */
#define PGASI_ARRAY_OP_N_MAX   ((UINT32_C(1) << 22) - 1) /* the greatest n of an access */

pgas_status_t pgasi_array_send_start(void);
void pgasi_array_receive_start(void);

/** Requests, answers without data and events of one kind for several chunks that are sent between
 *  begin and end travel together. So do applies with small operands. The pairs nest. */
void pgasi_array_list_begin(void);
void pgasi_array_list_end(void);

/** To the home. A request goes to a rank of the team. */
void pgasi_array_send_request(pgasi_array_t *a, int member, uint64_t chunk,
                              pgasi_array_event_t event, uint32_t line, uint32_t op);
void pgasi_array_send_answer(pgasi_array_t *a, int to, uint64_t chunk, pgasi_array_event_t event);
void pgasi_array_send_unpinned(pgasi_array_t *a, int to, uint64_t chunk);
/** Elements written back, with the answer WB or WB_KEEP; a contribution, with WB_O. */
void pgasi_array_send_elements(pgasi_array_t *a, int to, uint64_t chunk, pgasi_array_event_t event,
                               const void *data, size_t bytes);
void pgasi_array_send_contribution(pgasi_array_t *a, int to, uint64_t chunk, uint32_t op,
                                   const void *data, size_t bytes);
/** WB_O for a contribution that the home reads in this line, before it sends WB_ACK. */
void pgasi_array_send_contribution_in_line(pgasi_array_t *a, int to, uint64_t chunk, uint32_t op,
                                           uint32_t line);
/** Sparse contributions, to a rank of the team that is their home; the home's answer. */
void pgasi_array_send_sparse(pgasi_array_t *a, int member,
                             const pgasi_array_sparse_entry_t *entries, uint32_t n);
void pgasi_array_send_sparse_done(pgasi_array_t *a, int to, uint64_t chunk);
/** An access that the home carries out. In a list an apply may be linked to an earlier one by
 *  `next`; one reply completes both.
 *  @return PGAS_ERR_NO_MEMORY: there is no token for it. */
pgas_status_t pgasi_array_send_op(pgasi_array_t *a, int to, pgasi_array_access_t *x);
/** Its reply. */
void pgasi_array_send_reply(pgasi_array_t *a, int to, const pgasi_array_access_t *x,
                            const void *out, size_t bytes);

/** To a cache. */
void pgasi_array_send_event(pgasi_array_t *a, int to, uint64_t chunk, pgasi_array_event_t event,
                            uint32_t line);
/** GRANT_O to a rank of the team. line: PGASI_ARRAY_NONE if it has none. The message's `pull` is
 *  true if this rank can read contributions in that rank's lines. */
void pgasi_array_send_grant_o(pgasi_array_t *a, int member, uint64_t chunk, uint32_t line);
/** DATA_R, DATA_W with the elements, to a rank of the team. pull: the receiver uses them here.
 *  Otherwise the transport may read them here until the receiver answers. */
void pgasi_array_send_data(pgasi_array_t *a, int member, uint64_t chunk, pgasi_array_event_t event,
                           uint32_t line, const void *data, bool pull);

/** Sends a rank the key of this rank's heap, once. */
void pgasi_array_send_heap(pgasi_array_t *a, int to);
/** The address here of a chunk at its home; NULL: the home's heap is not mapped. */
char *pgasi_array_mapped_chunk(const pgasi_array_t *a, const pgasi_array_location_t *loc);
/** The same of the chunk's grant. */
pgasi_array_grant_t *pgasi_array_mapped_grant(const pgasi_array_t *a,
                                              const pgasi_array_location_t *loc);
/** The address here of a line of a rank of the team; NULL: the rank's heap is not mapped. */
const char *pgasi_array_mapped_line(const pgasi_array_t *a, int member, uint32_t line);

#endif
