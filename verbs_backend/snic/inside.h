/** Inside of the software NIC: the layout of device memory, and what a process knows of the devices
 *  that it has mapped.
 *
 *  Three kinds of threads write device memory. The owner writes control fields. The thread that
 *  runs the device writes the requester's fields of its queue pairs. Threads that run its peers
 *  write the responder's fields of a queue pair under its lock, and completion queues and shared
 *  receive queues under theirs. Numbers name objects. The upper bits of a number change when its
 *  place is used again, so a late look-up fails. */
#ifndef PGASI_VERBS_SNIC_INSIDE_H
#define PGASI_VERBS_SNIC_INSIDE_H

#include <pthread.h>
#include <stdint.h>
#include <sys/types.h>
#include "base/checks.h"
#include "base/extents.h"
#include "verbs_backend/snic/snic.h"

#define SNIC_MAGIC 0x43494e53u
#define SNIC_QPS   4096u
#define SNIC_CQS   1024u
#define SNIC_SRQS  64u
#define SNIC_MRS   4096u
/* keys are place << 8 | tag; keys below this place could be mistaken for the end of a receive
 * list */
#define SNIC_MR_FIRST    16u
#define SNIC_ARENA_BYTES (UINT64_C(1) << 30)
#define SNIC_INDEX_BITS  12 /* low bits of queue pair numbers; the upper 12 are the generation */
/* the same for shared receive queues; a completion of one may be polled after it was closed */
#define SNIC_SRQ_BITS 6

typedef enum { SNIC_MR_PRIVATE, SNIC_MR_SHARED } snic_mr_kind_t;

typedef struct {
    uint32_t key; /* 0: free */
    uint32_t pd, access, kind;
    uint64_t addr, bytes; /* in the owner's process */
    int32_t fd;           /* SHARED: a descriptor of the owner's process */
    uint32_t serial;      /* unique in its process; keys are used again */
    uint64_t fd_offset;
} snic_mr_t;

typedef struct {
    uint32_t valid, log_entries, ignore_overrun;
    int32_t event_fd;
    uint32_t event_serial; /* identifies the pipe, because descriptors are used again */
    pgasi_snic_ref_t ring, record;
    uint64_t lock; /* from here: written by threads that push completions */
    /* hidden << 32 | pi: completions pushed, and how many of them WAITs do not see yet (DELAY). One
     * store changes both. */
    uint64_t count;
    uint32_t dead;    /* the queue has overrun */
    uint32_t armed;   /* 0: no; 1: any completion; 2: solicited or error */
    uint32_t n_waits; /* a WAIT of the device has found too few completions and is blocked */
} __attribute__((aligned(64))) snic_cq_t;

typedef struct {
    uint32_t number; /* 0: free */
    uint32_t log_entries, stride, pd;
    pgasi_snic_ref_t ring, record;
    uint32_t generation;
    uint64_t lock;
    /* slot << 32 | taken: the slot that is taken next, and how many were taken in all. One store
     * changes both. */
    uint64_t place;
    uint32_t wanted; /* a sender found no entry */
} __attribute__((aligned(64))) snic_srq_t;

typedef struct {
    uint32_t number; /* 0: free */
    uint32_t generation;
    uint32_t state; /* pgasi_snic_state_t */
    uint32_t pd, send_cqn, recv_cqn, srqn;
    uint32_t log_sq_blocks, log_rq_entries, rq_stride;
    pgasi_snic_ref_t sq, rq, record;
    uint32_t flags, access, reads_max_in, reads_max, retry, rnr_retry;
    pgasi_snic_id_t peer;
    uint32_t peer_qpn;
    /* from here: written by the requester */
    /* 1 << 16 | producer index: the doorbell has rung and was not read yet */
    uint32_t doorbell __attribute__((aligned(64)));
    uint32_t sq_ci;    /* blocks executed */
    uint32_t sq_limit; /* blocks that may be executed */
    /* for the entry at sq_ci, when no receive entry is free or the peer does not answer */
    uint32_t tries;
    uint64_t tried_ns; /* time of the first of these tries */
    uint32_t psn;      /* number of the next message */
    uint32_t flushed;  /* the queue pair has been flushed after its error */
    /* from here: written by the responder */
    uint64_t lock __attribute__((aligned(64)));
    uint32_t rq_ci;    /* entries taken */
    uint32_t rq_limit; /* managed queue: entries that may be taken */
    uint32_t psn_in;   /* number of the next message expected */
    uint32_t wanted;   /* the sender found no entry */
} __attribute__((aligned(64))) snic_qp_t;

typedef struct {
    uint32_t magic, version;
    pgasi_snic_id_t id;
    uint32_t adversary;
    uint32_t qps_high;                          /* places that have ever been used */
    uint32_t work __attribute__((aligned(64))); /* something may be executable */
    uint32_t blocked; /* entries wait for a completion, a receive entry or a peer */
    /* of the thread that runs the device, see pgasi_snic_lock */
    uint64_t lock __attribute__((aligned(64)));
    /* futex of the thread that sleeps for this device */
    uint32_t seq __attribute__((aligned(64)));
    uint32_t sleeping;
    uint8_t active[SNIC_QPS] __attribute__((aligned(64)));
    snic_mr_t mrs[SNIC_MRS];
    snic_cq_t cqs[SNIC_CQS];
    snic_srq_t srqs[SNIC_SRQS];
    snic_qp_t qps[SNIC_QPS];
} snic_devmem_t;

/** The first value of all indices in a device memory. */
static inline uint32_t snic_start(const snic_devmem_t *devmem)
{
    return (devmem->adversary & PGAS_VERBS_SNIC_WRAP) != 0 ? PGASI_SNIC_WRAP_START : 0;
}

/* identifies the layout; processes with another layout are refused */
#define SNIC_VERSION      (3u << 24 | (uint32_t)sizeof(snic_devmem_t))
#define SNIC_DEVMEM_BYTES PGASI_ALIGN_UP(sizeof(snic_devmem_t), (size_t)4096)

/** A memory region, copied once from the table of its device and checked. It does not change. */
typedef struct snic_map {
    struct snic_map *next; /* next map that was given up */
    uint32_t key, serial, pd, access;
    uint64_t addr, bytes; /* in the owner's process */
    char *base;           /* where addr is mapped here; NULL: only the kernel can access it */
    void *map;            /* NULL: nothing was mapped */
    size_t map_bytes;
    bool kept; /* a user has its address, so it stays mapped as long as the view exists */
} snic_map_t;

/** A device as this process sees it: one of its own, or a peer's. */
typedef struct snic_view {
    struct snic_view *next;
    snic_devmem_t *devmem;
    int n_users;
    bool own;  /* of this process: addresses are valid here */
    bool gone; /* its process has ended */
    /* PROCESS: wakes the process that executes the device; NULL in that process itself */
    struct snic_wakeup *wakeup;
    pgasi_snic_id_t id;
    struct snic_view *peers[SNIC_QPS]; /* the peer of each queue pair */
    /* by place; of our own devices written when memory is registered */
    snic_map_t *mrs[SNIC_MRS];
    snic_map_t *kept;
    pthread_mutex_t map_lock;
    struct snic_shadow *shadows[SNIC_QPS]; /* PREFETCH: copies of entries, made at the doorbell */
    struct snic_late_list *late;           /* DELAY: events that have not happened yet */
    uint64_t random;                       /* state of the random numbers of adversary and STEP */
    uint64_t checked_ns;                   /* when the process was last seen alive */
    uint32_t tick;                         /* milliseconds: when the device was last run */
    /* milliseconds: when the thread that runs a peer last saw this device's process alive */
    uint32_t looked;
    /* event pipes of the peer that this process has opened; places are used in turn */
    struct {
        int32_t theirs, ours;
        uint32_t serial;
    } events[16];
    uint32_t n_events;
    /* of our own devices: the writing end of each completion queue's pipe, or -1 */
    int own_events[SNIC_CQS];
} snic_view_t;

struct pgasi_snic {
    snic_view_t *view;
    pgasi_snic_opts_t opts;
    int devmem_fd;        /* -1: no other process maps it */
    pthread_mutex_t lock; /* for control functions */
    pgasi_extents_t *arena;
    uint32_t n_pds;
    /* places whose key has ended, while some thread may still be reading the entry */
    uint8_t mr_closing[SNIC_MRS];
    pthread_t thread;
    bool has_thread, stop, joined;
    int process_socket;          /* PROCESS: we are executed as long as it is open */
    uint64_t process_checked_ns; /* when process_socket was last checked */
    bool process_gone;
};

/* ---- lock.c ---- */

/** The time of start could not be read, because descriptors or memory have run out. */
#define SNIC_TIME_UNKNOWN UINT64_MAX
/** The time of start of a process or thread: field 22 of its stat file. The second field may
 *  contain blanks and brackets.
 *  @return 0: there is no such process, it is a zombie, or it is ending (the kernel releases memory
 *           and descriptors before the process becomes a zombie); SNIC_TIME_UNKNOWN */
uint64_t pgasi_snic_start_time(uint32_t pid);
bool pgasi_snic_is_running(const pgasi_snic_id_t *id);

/* ---- descriptor.c ---- */

void pgasi_snic_take_spare(void);
void pgasi_snic_give_spare(void);
/** Opens a descriptor of another process, if it refers to an object of the expected kind: a memfd
 *  of this user, or a pipe. The check before the open avoids opening files that react to it. The
 *  check afterwards is the decisive one.
 *  @return a descriptor; -1: errno, EBADF if the descriptor refers to something else */
int pgasi_snic_open_verified(uint32_t pid, int theirs, int flags, mode_t kind, uint64_t bytes_min,
                             uint64_t bytes_max);
/** As open_verified. If no descriptor is left, the spare one is given up for it until close_theirs;
 *  *spared_p says so. */
int pgasi_snic_open_theirs(const snic_view_t *view, int theirs, int flags, mode_t kind,
                           uint64_t bytes_min, bool *spared_p);
void pgasi_snic_close_theirs(int fd, bool spared);

/* ---- view.c ---- */

/** Creates the view of a device of this process. */
pgas_status_t pgasi_snic_enter_view(pgasi_snic_t *snic, snic_devmem_t *devmem,
                                    const pgasi_snic_id_t *id);
/** Waits until every device of this process has been run once, so that no thread still copies
 *  through a key that was removed before. The caller must not hold the lock of the list of views,
 *  because threads that hold a device's lock may take it. */
void pgasi_snic_wait_for_runs(void);

/** Finds the view of a device by its identity; opens it on first use.
 *  @return NULL: *status_p says whether the process has ended or cannot be reached */
snic_view_t *pgasi_snic_view_get(const pgasi_snic_id_t *id, pgas_status_t *status_p);
/** As above, by a descriptor of the device memory that its process has passed. The caller closes
 *  the descriptor. */
snic_view_t *pgasi_snic_view_by_fd(const pgasi_snic_id_t *id, int devmem_fd,
                                   pgas_status_t *status_p);
void pgasi_snic_view_put(snic_view_t *view);
/** Whether the process of a view still runs. If not, the view is marked as ended. */
bool pgasi_snic_view_alive(snic_view_t *view);
/** Writes to the event pipe of a completion queue. */
void pgasi_snic_view_event(snic_view_t *view, int fd, uint32_t serial);
/** The memory that a key of the owner names, mapped here if possible.
 *  @return NULL: it was released, or its entry is invalid */
const snic_map_t *pgasi_snic_view_map(snic_view_t *view, uint32_t key);
/** Unmaps memory that was given up. No thread of this process may run a device meanwhile. */
void pgasi_snic_unmap_old(void);
/** A hash of boot and pid namespace: two processes with the same value can name each other by
 *  pid. */
uint64_t pgasi_snic_machine(void);

/** Loads a word once that other processes may change, so that the checked value is the used one. */
#define snic_load(word) __atomic_load_n(&(word), __ATOMIC_RELAXED)

/* limits of the values that a device memory may give for its queues */
#define SNIC_LOG_QUEUE 16u
#define SNIC_LOG_CQ    22u
#define SNIC_STRIDE    2048u
#define SNIC_MR_BYTES  (UINT64_C(1) << 46)

/** The address of a ring. An address in a reference is used only where no other process could have
 *  written it.
 *  @return NULL: the reference is invalid */
static inline void *snic_at(const snic_view_t *view, pgasi_snic_ref_t ref, uint64_t bytes)
{
    if (ref >> 63)
        return view->own && view->id.devmem_fd < 0 ? (void *)(uintptr_t)(ref & ~(UINT64_C(1) << 63))
                                                   : NULL;
    bool inside = ref >= SNIC_DEVMEM_BYTES && bytes <= SNIC_ARENA_BYTES &&
                  ref <= SNIC_DEVMEM_BYTES + SNIC_ARENA_BYTES - bytes;
    return inside && (ref & 3) == 0 ? (char *)view->devmem + ref : NULL;
}

/** The number of places of queue pairs that the engine must visit. */
static inline uint32_t snic_high(const snic_devmem_t *devmem)
{
    return PGASI_MIN(__atomic_load_n(&devmem->qps_high, __ATOMIC_ACQUIRE), SNIC_QPS);
}

static inline snic_qp_t *snic_qp(const snic_view_t *view, uint32_t qpn)
{
    snic_qp_t *qp = &view->devmem->qps[qpn & (SNIC_QPS - 1)];
    return qpn != 0 && __atomic_load_n(&qp->number, __ATOMIC_ACQUIRE) == qpn ? qp : NULL;
}

static inline snic_cq_t *snic_cq(const snic_view_t *view, uint32_t cqn)
{
    snic_cq_t *cq = &view->devmem->cqs[cqn & (SNIC_CQS - 1)];
    return cqn != 0 && cqn < SNIC_CQS && __atomic_load_n(&cq->valid, __ATOMIC_ACQUIRE) != 0 ? cq
                                                                                            : NULL;
}

static inline snic_srq_t *snic_srq(const snic_view_t *view, uint32_t srqn)
{
    snic_srq_t *srq = &view->devmem->srqs[srqn & (SNIC_SRQS - 1)];
    return srqn != 0 && __atomic_load_n(&srq->number, __ATOMIC_ACQUIRE) == srqn ? srq : NULL;
}

/** Locks in device memory: they spin, yield, and are taken over from threads that have died. A lock
 *  holds start << 32 | id of its holder; 0: it is free. The start (in clock ticks; 0 if it could
 *  not be read) distinguishes threads that have the same id. */
void pgasi_snic_lock(uint64_t *lock);
bool pgasi_snic_try_lock(uint64_t *lock);
/** As pgasi_snic_lock, but gives up after some yields if the holder is alive.
 *  @return false: not locked */
bool pgasi_snic_lock_soon(uint64_t *lock);
static inline void snic_unlock(uint64_t *lock)
{
    __atomic_store_n(lock, 0, __ATOMIC_RELEASE);
}

/* ---- engine.c ---- */

/** Executes the entries of a device that can be executed, up to a limit; the device's lock is held.
 *  @return entries executed; `blocked` and `work` in the device memory say what is left */
unsigned pgasi_snic_execute(snic_view_t *view);
/** Executes one step of one queue pair. @return false: nothing can be executed now */
bool pgasi_snic_execute_step(snic_view_t *view);
/** Reads the doorbell of a queue pair of this process now, for PREFETCH. */
void pgasi_snic_read_doorbell(snic_view_t *view, uint32_t qpn);

/* ---- adversary.c: the adversary ---- */

typedef enum { SNIC_LATE_RESULT, SNIC_LATE_CQE, SNIC_LATE_SEEN } snic_late_kind_t;

/** Events of a stream happen in order. SEND: results and completions of a send queue. RECV:
 *  completions of the receive queue to which it sends. SEEN: what WAITs see. */
typedef enum { SNIC_STREAM_SEND, SNIC_STREAM_RECV, SNIC_STREAM_SEEN } snic_stream_t;

/** A delayed effect of an entry of queue pair qpn. */
typedef struct {
    snic_late_kind_t kind;
    snic_stream_t stream;
    uint32_t qpn;
    snic_view_t *peer; /* the other side of the queue pair */
    uint32_t peer_qpn;
    snic_view_t *cq_view; /* CQE, SEEN: owner of the completion queue */
    uint32_t cqn;
    pgasi_cqe_fields_t fields; /* CQE, and RESULT if it fails */
    /* RESULT without data: the address that is read when the event happens */
    uint64_t remote_addr;
    uint64_t remote_bytes;
    uint32_t rkey;
    unsigned n_spans; /* RESULT: where the data goes */
    size_t data_bytes;
    unsigned char data[]; /* RESULT: spans, then the data that was read */
} snic_late_t;

/** A random number below a limit, from the device's own sequence. */
uint64_t pgasi_snic_random(snic_view_t *view, uint64_t below);
/** Copies blocks of a send queue ahead of their execution. Positions count without end. */
void pgasi_snic_prefetch(snic_view_t *view, const snic_qp_t *qp, uint32_t from, uint32_t to);
/** Performs the oldest events until there is room for the events of one more entry. */
void pgasi_snic_late_make_room(snic_view_t *view);
/** The prefetched copy of a send queue. @return NULL: nothing was prefetched */
const unsigned char *pgasi_snic_shadow(const snic_view_t *view, const snic_qp_t *qp,
                                       size_t ring_bytes);
/** @return false: no memory or no room is left, so the effect must happen now */
bool pgasi_snic_late_add(snic_view_t *view, const snic_late_t *event, const void *data,
                         size_t data_bytes);
unsigned pgasi_snic_late_left(const snic_view_t *view);
/** Reads and atomics of a queue pair that have no result yet. */
unsigned pgasi_snic_late_results(const snic_view_t *view, uint32_t qpn);
/** Performs one random event. @return false: there is none */
bool pgasi_snic_late_one(snic_view_t *view);
/** Performs a random number of events. @return the number */
unsigned pgasi_snic_late_some(snic_view_t *view);
/** Performs all events, in the order of entries. */
void pgasi_snic_late_drain(snic_view_t *view);
/** Removes the oldest event of a stream without performing it; the caller frees it.
 *  @return NULL: there is none */
snic_late_t *pgasi_snic_late_take(snic_view_t *view, uint32_t qpn, snic_stream_t stream);
/** Drops the events of a queue pair that is closed or reset. */
void pgasi_snic_forget(snic_view_t *view, uint32_t qpn);
void pgasi_snic_late_free(snic_view_t *view);
/** Performs an event (late.c). */
void pgasi_snic_late_perform(snic_view_t *view, snic_late_t *event);

/* ---- run.c ---- */

/** Reports that there is work in a device, possibly of another process: some thread will execute
 *  it. */
void pgasi_snic_notify(snic_view_t *view);
/** Executes the entries that can be executed, unless another thread is running the device.
 *  @return entries executed */
unsigned pgasi_snic_run_once(snic_view_t *view);
/** Unlocks a device that was locked for control, and executes the entries that other threads have
 *  left meanwhile. */
void pgasi_snic_let_go(snic_view_t *view);
/** Mode CALLER: a thread is going to sleep, so the device's thread must execute the entries that
 *  peers cause. */
void pgasi_snic_need_sleeper(pgasi_snic_t *snic);
pgas_status_t pgasi_snic_start(pgasi_snic_t *snic);
void pgasi_snic_stop(pgasi_snic_t *snic);

/* ---- process.c ---- */

/** Finds or starts the process that executes for this node, and passes it this device.
 *  @return PGAS_OK
 *          PGAS_ERR_NOT_FOUND
 *          PGAS_ERR_LIMIT
 *          PGAS_ERR_IO */
pgas_status_t pgasi_snic_join(pgasi_snic_t *snic);
/** How long a client waits for the process's answer, in milliseconds. Tests shorten it. */
extern int pgasi_snic_answer_ms;
void pgasi_snic_leave(pgasi_snic_t *snic);
void pgasi_snic_wake_process(struct snic_wakeup *wakeup);

/* ---- socket.c ---- */

/** Makes this process reachable under a name for processes of this user.
 *  @return PGAS_OK
 *          PGAS_ERR_EXISTS  another process has the name
 *          PGAS_ERR_IO */
pgas_status_t pgasi_snic_listen(const char *name, int backlog, int *fd_p);
void pgasi_snic_unlisten(const char *name, int fd);
/** Connects to the process of this name, which must belong to this user.
 *  @param make  whether to create the folder for sockets if it is missing
 *  @return a socket, or -1 with errno
 *          ENOENT, ECONNREFUSED  there is no such process
 *          EPERM                 it belongs to another user
 *          ENOTDIR               no folder can be made
 *          EAGAIN                too many clients wait for it */
int pgasi_snic_connect(const char *name, bool make, int patience_ms);
/** @return the process id of the peer; -1: the peer belongs to another user */
pid_t pgasi_snic_peer(int socket);
/** Sends a message without waiting. @param fd  a descriptor to pass; -1: none */
bool pgasi_snic_send_message(int socket, const void *message, size_t bytes, int fd);
/** Receives a message without waiting.
 *  @return as recv; *fd_p is the passed descriptor, or -1. errno EMFILE: no descriptor is free for
 *           it */
ssize_t pgasi_snic_receive_message(int socket, void *message, size_t bytes, int *fd_p);
/** As receive_message, but waits up to patience_ms; then errno is ETIMEDOUT. */
ssize_t pgasi_snic_await_message(int socket, void *message, size_t bytes, int *fd_p,
                                 int patience_ms);

#endif
