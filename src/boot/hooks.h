/** Hooks: the way in which a folder calls functions of folders above it. Deaths have a list of
 *  their own (base/deaths.h).
 *
 *  A higher folder stores a function here when it starts. A lower folder calls the function through
 *  the pointer, so it does not include the higher folder. NULL: no function is registered, and the
 *  caller skips the call. The callers of segment_ask, rma_by_owner, alloc_on, free_on, call_bulk,
 *  call_team and poll do not check: these are set before they are needed.
 *
 *  | hook             | called by, when                          | thread       | registered by   |
 *  |------------------|------------------------------------------|--------------|-----------------|
 *  | progress         | boot/wait.c: each step of a wait         | any waiting  | init/init.c;    |
 *  |                  |                                          |              | mem/ctx.c (end) |
 *  | look_around      | boot/wait.c: before each sleep; long     | any waiting, | boot/watch.c if |
 *  |                  | loops of call/ and array/ now and then   | no lock held | it has no thread|
 *  | before_sleep     | boot/wait.c: once, a sleep was announced | any waiting  | init/init.c     |
 *  | woken            | boot/wait.c: a wakeup has ended a sleep  | any waiting  | init/init.c     |
 *  | rank_died        | boot/watch.c: a rank died, the job goes  | any, without | init/init.c,    |
 *  |                  | on (pgasi_watch_set_hook)                | locks        | by set_hook     |
 *  | aborting         | boot/launch.c: this rank ends the job    | any          | boot/start.c    |
 *  | may_enter        | boot/coll.c: a collective begins         | its caller   | init/init.c     |
 *  | message_arrived  | the transport: an active message arrived | the one that | init/init.c     |
 *  |                  | (inside progress of context 0)           | progresses   |                 |
 *  | peer_lost        | mem/ctx.c: the transport gave up a peer  | any          | init/init.c     |
 *  | peer_suspect     | mem/ctx.c: the transport lost a          | any          | init/init.c     |
 *  |                  | connection                               |              |                 |
 *  | wrap_transport   | mem/ctx.c: before the transport opens    | initial      | tests           |
 *  | team_ended       | boot/team_make.c: a team with an         | its caller   | bcast/plan.c    |
 *  |                  | attachment is destroyed                  |              |                 |
 *  | segment_ask      | mem/key.c: a peer's key is missing       | any          | object/owner.c  |
 *  | rma_by_owner     | mem/rma.c: attached memory of the node,  | any          | object/owner.c  |
 *  |                  | or an atomic that no transport has       |              |                 |
 *  | alloc_on,        | mem/pool.c: a pool takes or returns      | any          | object/         |
 *  | free_on          | memory of another rank                   |              | alloc_on.c      |
 *  | sync_forget      | mem/sync_host.c: a wait ends too early   | that thread  | call/sync.c     |
 *  | thread_attached  | mem/thread.c: a thread has attached      | that thread  | init/, array/   |
 *  | thread_detaching | mem/thread.c: a thread detaches          | that thread  | init/, array/,  |
 *  |                  |                                          |              | mem/mem.c       |
 *  | poll             | call/progress.c: a round of progress,    | any, holds   | bulk/start.c,   |
 *  |                  | if the layer wants it                    | receive lock | array/array.c   |
 *  | call_bulk,       | call/target.c: a call with buffers, or to| any          | bulk/start.c,   |
 *  | call_team        | a team                                   |              | bcast/start.c   |
 *  | on_block         | boot/wait.c: a wait of this thread       | that thread  | call/task.c     |
 *  |                  | begins, and ends                         |              |                 |
 *  | work             | boot/wait.c: progress found nothing      | that thread  | call/call.c     |
 *
 *  The last two are per thread, all others per process. Registration is plain assignment. It takes
 *  place while one thread uses the library, unless a line says otherwise. pgas_finalize clears
 *  progress, look_around, before_sleep, woken, rank_died and may_enter. The others stay set. */
#ifndef PGASI_HOOKS_H
#define PGASI_HOOKS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "pgas/status.h"

struct pgasi_call_to;
struct pgas_sync;
struct pgasi_rma;
struct pgasi_segment_wire;
struct pgasi_tp_am;
struct pgasi_tp_ops;

/** Layers from the bottom up. A hook with an entry for each of them is called in this
 *  order, and thread_detaching in the reverse order. */
typedef enum {
    PGASI_LAYER_MEM,
    PGASI_LAYER_CALL,
    PGASI_LAYER_BULK,
    PGASI_LAYER_BCAST,
    PGASI_LAYER_OBJECT,
    PGASI_LAYER_ARRAY,
    PGASI_N_LAYERS
} pgasi_layer_t;

typedef struct {
    /** One round of progress. @return the number of handled events */
    int (*progress)(void);
    /** Looks for dead ranks. May be called by several threads at a time. */
    void (*look_around)(void);
    /** Sends everything that waits for more to be sent with it, and takes back raises ahead. */
    void (*before_sleep)(void);
    /** The wake-up reached only threads like this one, no service thread. Therefore each of them
     *  runs everything that has arrived, and wakes another thread for the rest. */
    void (*woken)(void);
    /** Handles the death of a rank; called once for each. It calls pgasi_boot_peer_died. */
    void (*rank_died)(int rank);
    /** Announces the end of the job on this node and to other hosts. */
    void (*aborting)(int exit_code);
    /** @return PGAS_OK if the calling thread may enter a collective */
    pgas_status_t (*may_enter)(void);

    /** Frees what a layer has attached to a team. */
    void (*team_ended)(void *attachment);
    /** of type pgasi_tp_am_fn_t */
    bool (*message_arrived)(void *arg, const struct pgasi_tp_am *am);
    /** Takes data of another rank's program, for which this rank has asked. head has 24 bytes. */
    void (*data_arrived)(int rank, const void *head, const void *data, size_t bytes);
    void (*peer_lost)(int rank);
    /** @return true: the rank has died. false: it is alive, or its state is not known yet. NULL
     *          counts as true. */
    bool (*peer_suspect)(int rank);
    /** @return the table that is used in place of ops */
    const struct pgasi_tp_ops *(*wrap_transport)(const struct pgasi_tp_ops *ops);
    /** Asks the owner for the segment at this offset. @return PGAS_ERR_RANGE: it has none */
    pgas_status_t (*segment_ask)(int rank, uint64_t offset, struct pgasi_segment_wire *wire_p);
    /** The owner's service thread carries the operation out. Returns when it is done. */
    pgas_status_t (*rma_by_owner)(const struct pgasi_rma *rma);

    /** As pgas_alloc_on and pgas_free_on. */
    pgas_status_t (*alloc_on)(int rank, int zone, size_t bytes, uint64_t *ptr_p);
    pgas_status_t (*free_on)(uint64_t ptr);
    /** Carry out a call by pgas_call_to. @return the status of pgas_call_to */
    pgas_status_t (*call_bulk)(const struct pgasi_call_to *call);
    pgas_status_t (*call_team)(const struct pgasi_call_to *call);

    /** No answer lowers this counter any more. */
    void (*sync_forget)(struct pgas_sync *sync);

    /** The layer's state of the calling thread begins anew. */
    void (*thread_attached[PGASI_N_LAYERS])(void);
    /** Called before the thread's context is given back. @return the status of the detach */
    pgas_status_t (*thread_detaching[PGASI_N_LAYERS])(void);
    /** @return the number of handled events */
    int (*poll[PGASI_N_LAYERS])(void);
    /** Bit 1 << layer: the layer wants its poll to be called (pgasi_hooks_want_poll). */
    _Alignas(64) uint32_t poll_wanted;
} pgasi_hooks_t;

typedef struct {
    /** begins: the wait is not over at once. Otherwise it ends. */
    void (*on_block)(bool begins);
    /** Does one piece of work. It may wait itself, and is not called from that wait. @return how
     *  many things it has done */
    int (*work)(void);
} pgasi_thread_hooks_t;

extern pgasi_hooks_t pgasi_hooks;
extern __thread pgasi_thread_hooks_t pgasi_thread_hooks __attribute__((tls_model("initial-exec")));

/** Sets or clears the layer's bit in poll_wanted. Any thread. */
void pgasi_hooks_want_poll(pgasi_layer_t layer, bool wants);
/** Whether the layer's bit is set. */
static inline bool pgasi_hooks_poll_is_wanted(pgasi_layer_t layer)
{
    return __atomic_load_n(&pgasi_hooks.poll_wanted, __ATOMIC_RELAXED) >> layer & 1;
}

/* These call the functions of all layers. */
void pgasi_hooks_thread_attached(void);
/** @return the first status that is not PGAS_OK */
pgas_status_t pgasi_hooks_thread_detaching(void);
/** Polls the layers that want it. @return the number of handled events */
int pgasi_hooks_poll(void);

#endif
