/** The array inside the library: places, grants, lines, directory entries, and which file does
 *  what.
 *
 *  Two halves. Holds (grant.c) say what the threads of one site may do with a chunk at the moment:
 *  those of the home's node at home, in shared memory; those of one rank with a line of its cache.
 *  Any thread works on a grant, under its lock, without the protocol. The protocol (home.c,
 *  cache.c, driven by the table in state.c) runs on one thread of a rank at a time: the one that
 *  has the inbox lock, be it a service thread that has received a message or a thread of the
 *  program that misses something (pgasi_serve_begin). It opens holds and closes them again.
 *
 *  A line belongs to one rank, not to the node: ranks of a node that both use a chunk from
 *  elsewhere hold it twice. That costs memory and a second transfer; in return no thread ever needs
 *  another rank of its node for what is not at home there. */
#ifndef PGASI_ARRAY_H
#define PGASI_ARRAY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "array/state.h"
#include "base/param.h"
#include "pgas/array.h"
#include "pgas/gptr.h"
#include "msg/serve.h"

struct pgasi_array;

/* ---- places (loc.c, pure) ---- */

/** How elements lie: cells of 2^shift elements; a cell with a border between ranks inside is cut
 *  into pieces, which have chunk numbers behind those of cells: n_blocks + 2 r for the piece at the
 *  beginning of rank r's part, + 1 for that at its end. */
typedef struct {
    uint64_t n_elems, n_blocks;
    uint32_t shift;
    int n_ranks;
    bool whole;        /* no cell is cut */
    uint64_t *offsets; /* [n_ranks + 1] */
} pgasi_array_map_t;

typedef struct {
    uint64_t chunk, first, n; /* number; its elements */
    int home;                 /* team rank */
    uint64_t index;           /* among the chunks of its home */
    bool cut;                 /* a piece of a cell */
} pgasi_array_location_t;

/** Even shares of whole chunks. */
void pgasi_array_even_offsets(uint64_t n_elems, uint32_t shift, int n_ranks, uint64_t *offsets);
int pgasi_array_home_of(const pgasi_array_map_t *map, uint64_t i);
/** Of element i, which exists. */
pgasi_array_location_t pgasi_array_locate(const pgasi_array_map_t *map, uint64_t i);
/** Of a chunk by number; false if there is none. */
bool pgasi_array_locate_chunk(const pgasi_array_map_t *map, uint64_t chunk,
                              pgasi_array_location_t *loc_p);
/** Of a rank's chunk number index. */
pgasi_array_location_t pgasi_array_locate_index(const pgasi_array_map_t *map, int rank,
                                                uint64_t index);
/** Whether no cell is cut. */
bool pgasi_array_is_whole(const pgasi_array_map_t *map);
/** How many chunks a rank is home of, and chunk numbers in all. */
uint64_t pgasi_array_n_home(const pgasi_array_map_t *map, int rank);
static inline uint64_t pgasi_array_n_chunks(const pgasi_array_map_t *map)
{
    return map->n_blocks + 2 * (uint64_t)map->n_ranks;
}

/* ---- accesses ---- */

/* What an access may bring or give back, if the home carries it out. */
#define PGASI_ARRAY_CALL_BYTES ((size_t)pgasi_param.call_max - 64)
typedef enum {
    PGASI_ARRAY_GET,
    PGASI_ARRAY_SET,
    PGASI_ARRAY_CAS,
    PGASI_ARRAY_FETCH,
    PGASI_ARRAY_APPLY,
    PGASI_ARRAY_PIN,
    PGASI_ARRAY_ASK /* nothing: whether the home has the operator */
} pgasi_array_kind_t;

/** One access of a thread to elements of one chunk; lives until it is done. */
typedef struct pgasi_array_access {
    uint8_t kind; /* pgasi_array_kind_t */
    uint8_t pin;  /* pgas_array_pin_mode_t */
    bool foreign; /* of a rank of another node: pins keep it away */
    uint32_t op;
    uint32_t k, n; /* elements k .. k + n - 1 of the cell; n > 1: GET and SET only */
    uint64_t chunk;
    const void *in, *in2; /* value, operand or desired; expected */
    void *out;
    struct pgasi_array_access *next; /* of those that wait for a line, or for one to be free */
    pgas_status_t status;
    uint32_t done;
    uint32_t token;  /* of those carried out elsewhere */
    uint32_t n_pins; /* pins of the waiting thread, while it waits */
    const struct pgasi_array_own_pin *pins;
} pgasi_array_access_t;

typedef enum { PGASI_ARRAY_NEED_R, PGASI_ARRAY_NEED_W, PGASI_ARRAY_NEED_O } pgasi_array_need_t;
#define PGASI_ARRAY_VALUE_MAX 256 /* bytes of elements and operands that are compared and fetched */
pgasi_array_need_t pgasi_array_need(const pgasi_array_access_t *x);

/* ---- holds (grant.c) ---- */

typedef enum {
    PGASI_ARRAY_NOTHING,
    PGASI_ARRAY_READS,
    PGASI_ARRAY_OPERATES,
    PGASI_ARRAY_ALL
} pgasi_array_permit_t;
typedef enum {
    PGASI_ARRAY_OPEN, /* entries may be shown */
    /* several threads, some write: entries for readers and for atomic instructions */
    PGASI_ARRAY_SHARED,
    PGASI_ARRAY_GUARDED /* none: each access under the lock */
} pgasi_array_mode_t;
typedef enum { PGASI_ARRAY_KEEP, PGASI_ARRAY_NO_WRITES, PGASI_ARRAY_NO_ACCESS } pgasi_array_level_t;

/** What the lock of a hold guards: assigned as a whole when the hold becomes another chunk's.
 *  Entries shown to threads: of one owner (DATA or OPERATE), or READ to all threads of some ranks.
 *  They are changed with the lock held. shown: there may have been entries since the last barrier,
 *  also if they have been taken away again. */
typedef struct {
    uint8_t permits, mode, recall, shown; /* recall: the level that pins keep from being reached */
    uint32_t op;                          /* OPERATES: of which operator */
    uint32_t owner;                       /* node rank * 4096 + slot + 1; 0: nobody */
    /* recalls that cost a barrier; accesses until it is no longer guarded */
    uint16_t heat, budget;
    /* bit: node rank (those from 63 on share one) has a READ entry */
    uint64_t readers;
    uint64_t chunk;
} pgasi_array_grant_state_t;

/** The lock itself, and the fields that threads read without it, lie outside of `now`, because an
 *  assignment to `now` may store intermediate values. */
typedef struct pgasi_array_grant {
    uint32_t lock;
    uint32_t touched;
    uint32_t pins_read, pins_write; /* write: operate, too */
    pgasi_array_grant_state_t now;
    uint64_t unused[2];
} pgasi_array_grant_t;

static inline bool pgasi_array_grant_is_pinned(const pgasi_array_grant_t *grant)
{
    return __atomic_load_n(&grant->pins_read, __ATOMIC_ACQUIRE) ||
           __atomic_load_n(&grant->pins_write, __ATOMIC_ACQUIRE);
}

/** Where a hold's data are for this process, and the tables that may show it. */
typedef struct {
    struct pgasi_array *array;
    pgasi_array_grant_t *grant;
    char *data; /* where element 0 of the cell would be */
    uint64_t chunk;
    bool at_home; /* shared by the node; else a line of this rank */
    bool cut;     /* never shown */
} pgasi_array_site_t;

/** Carries the access out if the hold allows it now; by: the calling thread's own, so that entries
 *  may be shown to it. PGAS_INPROGRESS: it does not allow it. PGAS_ERR_DEADLOCK: nor can it while
 *  the thread's own pin lasts. */
pgas_status_t pgasi_array_grant_try(const pgasi_array_site_t *site, pgasi_array_access_t *x,
                                    bool by_thread);
/** A pin that keeps a foreign access away; the hold then says when it ends. */
bool pgasi_array_grant_is_pinned_against(pgasi_array_grant_t *grant, const pgasi_array_access_t *x);
/** By an entry that allows it to all threads of the rank; false: there is none. For arrays with a
 *  limit; i is in range. */
bool pgasi_array_set_shared(const pgas_array_t *array, uint64_t i, const void *value);
bool pgasi_array_apply_shared(const pgas_array_t *array, uint64_t i, pgas_array_op_t op,
                              const pgas_array_op_def_t *def, const void *operand);
/** Makes it another chunk's, with no grant and no entries. */
void pgasi_array_grant_renew(pgasi_array_grant_t *grant, uint64_t chunk, uint16_t heat);
void pgasi_array_grant_open(pgasi_array_grant_t *grant, pgasi_array_permit_t permits, uint32_t op);
/** No new accesses from now on; recall: because others want the chunk. @return 0: nobody is inside;
 *  1: somebody may be, a barrier and a look at slots tell (pgasi_array_all_left); 2: pins: to be
 *  tried again when they have ended. */
int pgasi_array_grant_close(const pgasi_array_site_t *site, pgasi_array_level_t level, bool recall);
/** Takes entries away without a barrier, so that the next access goes through the grant. */
void pgasi_array_grant_withdraw(const pgasi_array_site_t *site);
/** One pin less of the calling thread; true if that was what a recall waits for. PGAS_ERR_INVALID:
 *  none. */
pgas_status_t pgasi_array_grant_unpin(pgasi_array_grant_t *grant, pgas_array_pin_mode_t mode,
                                      bool *recall_p);
bool pgasi_array_has_own_pin(const pgasi_array_grant_t *grant);
/** Room for one more pin of the calling thread, and its note. */
pgas_status_t pgasi_array_own_pin_room(void);
void pgasi_array_own_pin_add(const pgasi_array_grant_t *grant);
/** Descriptors in the access the pins of the calling thread. They last until the access is done. */
void pgasi_array_own_pins_note(pgasi_array_access_t *x);
bool pgasi_array_is_pinned_by(const pgasi_array_grant_t *grant, const pgasi_array_access_t *x);
/** A second thread of this rank begins to use arrays: what the first one owns is not readable in
 *  short any more. */
void pgasi_array_second_thread(void);
bool pgasi_array_thread_known(void);

/* ---- lines and directory ---- */

typedef struct {
    pgasi_array_grant_t grant;
    uint8_t state;
    uint8_t level, closed; /* as in a directory entry */
    bool leaving;          /* evicted, not free yet */
    uint32_t op;           /* asked for */
    pgasi_array_access_t *waiting, **waiting_end;
    uint32_t next_free, next_closing;
} pgasi_array_cache_line_t;

#define PGASI_ARRAY_CONTRIBUTION_ALIGN 16 /* as malloc gives */

typedef struct pgasi_array_request {
    _Alignas(PGASI_ARRAY_CONTRIBUTION_ALIGN) struct pgasi_array_request *next;
    uint8_t event;
    int source; /* team rank */
    uint32_t line, op;
    bool large;                /* something may be behind it, aligned as it is itself */
    bool pull;                 /* who asks reads the elements where they are */
    pgasi_array_access_t *own; /* of a thread of this rank; NULL with FETCH_* and UPGRADE */
    pgasi_array_access_t x;    /* of another rank, with what it brings behind */
} pgasi_array_request_t;

typedef struct pgasi_array_contribution {
    struct pgasi_array_contribution *next;
    uint32_t op;
    int source;
    bool whole;           /* its answer has come; before, pieces are still on their way */
    const char *operands; /* behind it; or still in the message that is being looked at */
    _Alignas(PGASI_ARRAY_CONTRIBUTION_ALIGN) char room[];
} pgasi_array_contribution_t;

typedef struct {
    uint64_t members; /* sharers or operators: a bit each (coarse from 65 ranks on); D: the owner */
    pgasi_array_request_t *first, *last;
    pgasi_array_contribution_t *kept;
    uint32_t pending, next_closing;
    uint32_t op;
    int32_t owner;
    uint8_t state;
    /* what threads here are asked for; 0: done, 1: some may be inside, 2: pins */
    uint8_t level, closed;
    bool dispatching;
} pgasi_array_dir_t;

#define PGASI_ARRAY_NONE UINT32_MAX

/** What every rank tells the others of its node, and where a rank's things are in this process. */
typedef struct {
    char *data; /* NULL: another node */
    pgasi_array_grant_t *grants;
    pgas_array_mapping_t *table;
    uintptr_t *readable;
} pgasi_array_peer_t;

typedef struct pgasi_array {
    pgas_array_t open; /* first: what the program has */
    uint32_t id;
    pgas_team_t *team;
    int rank, n_ranks; /* in the team */
    int *global;       /* team rank to rank */
    int *node_rank;    /* team rank to rank of my node, -1 elsewhere */
    pgasi_array_map_t map;
    size_t stride; /* bytes of a chunk */
    bool wide;     /* elements that no single load reads */
    bool guard_all;
    pgasi_array_peer_t *peer; /* [n_ranks]; of my node */
    pgas_gptr_t block[5];     /* of the heap, freed at the end */
    uint64_t heap_bytes;
    /* home */
    pgasi_array_dir_t *dir;
    uint64_t n_home;
    uint32_t closing_dir;
    pgasi_array_request_t *spare; /* requests without anything behind */
    pgasi_array_contribution_t *spare_contributions;
    uint32_t n_spare_contributions;
    /* cache */
    uint32_t *line_of; /* by chunk: line + 1, 0: none */
    pgasi_array_cache_line_t *line;
    char *line_data;
    uint32_t n_lines, n_free, first_free, n_low, n_high, hand, closing_line, n_closing, n_leaving;
    uint64_t *home_offset; /* of data in that of each team rank */
    pgasi_array_access_t *want_line, **want_line_end;
    uint64_t *filter;
    uint32_t filter_mask;
    uint16_t *heat; /* of chunks without a line, by hash as in filter */
    bool fits;      /* all chunks of other nodes have a line */
    int prefetch;
    uint32_t known_op[64], n_known_ops; /* registered operators, in the order of use */
    uint64_t *knows;                    /* by team rank: which of them it has carried out */
    pgas_array_info_t info;             /* counters, by atomics where threads count */
} pgasi_array_t;

static inline pgasi_array_t *pgasi_array_of(pgas_array_t *array)
{
    return (pgasi_array_t *)(void *)array;
}
static inline const pgasi_array_t *pgasi_array_of_const(const pgas_array_t *array)
{
    return (const pgasi_array_t *)(const void *)array;
}
static inline void pgasi_array_note(uint64_t *counter, uint64_t n)
{
    __atomic_fetch_add(counter, n, __ATOMIC_RELAXED);
}
/* The same of counters that only the one who serves changes, or that may be wrong by a few. */
static inline void pgasi_array_count(uint64_t *counter, uint64_t n)
{
    __atomic_store_n(counter, __atomic_load_n(counter, __ATOMIC_RELAXED) + n, __ATOMIC_RELAXED);
}

/** Of a team's rank among sharers and operators: more ranks than these share bits. */
#define PGASI_ARRAY_EXACT_RANKS 64
static inline uint64_t pgasi_array_bit_of(const pgasi_array_t *a, int rank)
{
    uint64_t n = (uint64_t)a->n_ranks, r = (uint64_t)rank;
    return UINT64_C(1) << (n <= PGASI_ARRAY_EXACT_RANKS ? r : r * PGASI_ARRAY_EXACT_RANKS / n);
}

/** The live array with that number, or NULL. */
pgasi_array_t *pgasi_array_find(uint32_t id);
/** Whether some rank of its team has died. */
bool pgasi_array_is_broken(const pgasi_array_t *a);

/* ---- access.c: what threads do ---- */

/** The hold through which this rank reaches the chunk now; false: none (not at home on the node,
 *  and no line). */
bool pgasi_array_site(pgasi_array_t *a, const pgasi_array_location_t *loc,
                      pgasi_array_site_t *site_p);
/** Carries an access out, waiting as needed. x->chunk is set. */
pgas_status_t pgasi_array_do(pgasi_array_t *a, const pgasi_array_location_t *loc,
                             pgasi_array_access_t *x);
/** The same for many, whose waits overlap: x[j] at loc[j]. Returns the first error. */
pgas_status_t pgasi_array_do_all(pgasi_array_t *a, const pgasi_array_location_t *loc,
                                 pgasi_array_access_t *x, size_t n);
/** The access is done; wakes who waits for it. */
void pgasi_array_done(pgasi_array_access_t *x, pgas_status_t status);
/** Checks that every public function makes; leaves the access as which the inline way began. */
pgas_status_t pgasi_array_check(const pgas_array_t *array, uint64_t i);
pgas_status_t pgasi_array_check_op(const pgas_array_t *array, pgas_array_op_t op,
                                   const pgas_array_op_def_t **def_p);
/** Forgets an access that nobody waits for any more. Serving. */
void pgasi_array_forget(pgasi_array_t *a, pgasi_array_access_t *x);

/* ---- protocol; all below: serving (pgasi_serve_begin, or in a handler of the rank) ---- */

/* home.c */
void pgasi_array_home_start(pgasi_array_t *a);
void pgasi_array_home_stop(pgasi_array_t *a);
/** A request of another rank, which it takes over, or of an own thread (own). */
void pgasi_array_home_request(pgasi_array_t *a, uint64_t index, pgasi_array_request_t *request);
/** What the home is asked to carry out: OP_R, OP_W or OP_A. */
pgasi_array_event_t pgasi_array_event_of_access(const pgasi_array_access_t *x);
/** Zeroed, with room for bytes behind; NULL: no memory. */
pgasi_array_request_t *pgasi_array_new_request(pgasi_array_t *a, size_t bytes);
pgas_status_t pgasi_array_home_own(pgasi_array_t *a, uint64_t index, pgasi_array_access_t *x);
/** ACK, WB, WB_KEEP, WB_O. */
void pgasi_array_home_answer(pgasi_array_t *a, uint64_t index, pgasi_array_event_t event,
                             int source);
/** What is written back comes, a piece of it or all. */
void pgasi_array_home_elements(pgasi_array_t *a, uint64_t index, uint64_t offset, const void *data,
                               size_t bytes);
void pgasi_array_home_contribution_piece(pgasi_array_t *a, uint64_t index, int source, uint32_t op,
                                         uint64_t offset, const void *data, size_t bytes);
/** The same if all of them came in one piece, with the answer WB_O in the same message. */
void pgasi_array_home_contribution(pgasi_array_t *a, uint64_t index, int source, uint32_t op,
                                   const void *data, size_t bytes);
void pgasi_array_home_unpinned(pgasi_array_t *a, uint64_t index);
void pgasi_array_home_poll(pgasi_array_t *a);
void pgasi_array_home_forget(pgasi_array_t *a, pgasi_array_access_t *x);
bool pgasi_array_home_is_quiet(const pgasi_array_t *a);

/* cache.c */
void pgasi_array_cache_start(pgasi_array_t *a);
/** An access that found no line, or one that does not allow it. */
void pgasi_array_cache_need(pgasi_array_t *a, const pgasi_array_location_t *loc,
                            pgasi_array_access_t *x, bool sequential);
/** The home's GIVE, LEND, DATA_*, GRANT_*, WB_ACK. */
void pgasi_array_cache_event(pgasi_array_t *a, uint64_t chunk, pgasi_array_event_t event,
                             uint32_t line);
/** The home has the operator: what is not built in may be missing there, and is asked about before
 *  lines are operated on. */
bool pgasi_array_home_knows(const pgasi_array_t *a, int home, uint32_t op);
void pgasi_array_home_note_op(pgasi_array_t *a, int home, uint32_t op);
/** A piece of a chunk comes. */
void pgasi_array_cache_elements(pgasi_array_t *a, uint64_t chunk, uint32_t line, uint64_t offset,
                                const void *data, size_t bytes);
/** Somebody may wait for a line that can be evicted from now on. */
void pgasi_array_cache_look(pgasi_array_t *a);
void pgasi_array_cache_unpinned(pgasi_array_t *a, pgasi_array_grant_t *grant);
void pgasi_array_cache_prefetch(pgasi_array_t *a, uint64_t first_chunk, uint64_t n,
                                pgasi_array_need_t need, uint32_t op);
void pgasi_array_cache_poll(pgasi_array_t *a);
void pgasi_array_cache_forget(pgasi_array_t *a, pgasi_array_access_t *x);
/** Evicts everything; true once no line is left. */
bool pgasi_array_cache_empty(pgasi_array_t *a);
pgasi_array_site_t pgasi_array_cache_site(pgasi_array_t *a, uint32_t line);

/* wire.c: messages, through context 0 */
enum {
    PGASI_ARRAY_M_REQUEST,
    PGASI_ARRAY_M_OP,
    PGASI_ARRAY_M_REPLY,
    PGASI_ARRAY_M_ANSWER,
    PGASI_ARRAY_M_TO_CACHE,
    PGASI_ARRAY_M_ELEMENTS,
    PGASI_ARRAY_M_CONTRIBUTION,
    PGASI_ARRAY_M_FILL,
    PGASI_ARRAY_M_UNPINNED,
    PGASI_ARRAY_M_HELLO
};
pgas_status_t pgasi_array_wire_start(void);
/** To the home: asks for a line, answers; to a cache: an event. */
/** Requests and events for consecutive chunks that are sent in between go together. They nest. */
void pgasi_array_run_begin(void);
void pgasi_array_run_end(void);
void pgasi_array_send_request(pgasi_array_t *a, int to, uint64_t chunk, pgasi_array_event_t event,
                              uint32_t line, uint32_t op);
void pgasi_array_send_answer(pgasi_array_t *a, int to, uint64_t chunk, pgasi_array_event_t event);
void pgasi_array_send_event(pgasi_array_t *a, int to, uint64_t chunk, pgasi_array_event_t event,
                            uint32_t line);
/** DATA_R, DATA_W: contents and event. pull: the receiver copies them from here, before it looks at
 *  anything that comes later. */
void pgasi_array_send_data(pgasi_array_t *a, int to, uint64_t chunk, pgasi_array_event_t event,
                           uint32_t line, const void *data, bool pull);
/** Contents, ahead of the answer that tells of them: stored there where that memory is mapped, else
 *  in messages. */
/** With the answer WB or WB_KEEP. */
void pgasi_array_send_elements(pgasi_array_t *a, int to, uint64_t chunk, pgasi_array_event_t event,
                               const void *data, size_t bytes);
/** With the answer WB_O. */
void pgasi_array_send_contribution(pgasi_array_t *a, int to, uint64_t chunk, uint32_t op,
                                   const void *data, size_t bytes);
/** An access that the home carries out. */
pgas_status_t pgasi_array_send_op(pgasi_array_t *a, int to, pgasi_array_access_t *x);
void pgasi_array_send_reply(pgasi_array_t *a, int to, const pgasi_array_access_t *x,
                            const void *out, size_t bytes);
void pgasi_array_send_unpinned(pgasi_array_t *a, int to, uint64_t chunk);
/** Nobody waits for the answer any more. */
void pgasi_array_wire_forget(pgasi_array_access_t *x);
/** Bytes that an access brings, and that it gives back. */
size_t pgasi_array_in_bytes(const pgasi_array_t *a, const pgasi_array_access_t *x);
size_t pgasi_array_out_bytes(const pgasi_array_t *a, const pgasi_array_access_t *x);

/* audit.c */
/** Of a chunk at home, of a line: what threads may do is what the state says. For assertions. */
bool pgasi_array_home_is_sound(const pgasi_array_t *a, uint64_t index);
bool pgasi_array_cache_line_is_sound(const pgasi_array_t *a, uint32_t line);
/** Waits until nothing is under way anywhere, then compares what homes know with what caches have.
 *  Collective over the team, no thread uses the array. *n_wrong_p: contradictions found by this
 *  rank. */
pgas_status_t pgasi_array_audit(pgas_array_t *array, uint64_t *n_wrong_p);

/** Something happened that cannot: logs it with the chunk's state, and ends the job. */
_Noreturn void pgasi_array_broken(const pgasi_array_t *a, const char *where, uint64_t chunk,
                                  int state, int event);
/** Asks for pgasi_array_poll in every round of progress, until nothing is closing. */
void pgasi_array_poll_soon(void);
/** One barrier for all chunks that are closing; goes on with those that threads have left. */
void pgasi_array_poll(void);

#endif
