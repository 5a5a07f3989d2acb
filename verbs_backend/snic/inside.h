/** Inside of the software NIC: what lies in a device's device memory, and what a process knows of the
 *  devices that it looks at.
 *
 *  A device memory is written by three kinds of parties: its owner (control), whoever runs the device
 *  (the requester's fields of its queue pairs), and those who run its peers (the responder's fields
 *  of a queue pair under its lock, completion queues and shared receive queues under theirs).
 *  Numbers name objects; a number's upper bits change when a place is used again, so a late look
 *  fails. */
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
/* keys are place << 8 | tag: none below is ever the end of a receive list */
#define SNIC_MR_FIRST    16u
#define SNIC_ARENA_BYTES (UINT64_C(1) << 30)
#define SNIC_INDEX_BITS  12 /* of queue pair numbers; the upper 12 are the generation */
/* the same of shared receive queues; a completion of one may be polled when it is closed */
#define SNIC_SRQ_BITS 6

typedef enum { SNIC_MR_PRIVATE, SNIC_MR_SHARED } snic_mr_kind_t;

typedef struct {
    uint32_t key; /* 0: free */
    uint32_t pd, access, kind;
    uint64_t addr, bytes; /* in the owner's process */
    int32_t fd;           /* SHARED: of the owner's process */
    uint32_t serial;      /* never used again in its process, as keys are */
    uint64_t fd_offset;
} snic_mr_t;

typedef struct {
    uint32_t valid, log_entries, ignore_overrun;
    int32_t event_fd;
    uint32_t event_serial; /* of the pipe: descriptors are used again */
    pgasi_snic_ref_t ring, record;
    uint64_t lock; /* from here: written by pushing threads */
    /* behind << 32 | pi: completions pushed, and those of them that WAITs do not see yet (DELAY).
     * One store moves both */
    uint64_t count;
    uint32_t dead;    /* has overrun */
    uint32_t armed;   /* 0, 1 any, 2 solicited or error */
    uint32_t n_waits; /* a WAIT of the device has looked and not passed */
} __attribute__((aligned(64))) snic_cq_t;

typedef struct {
    uint32_t number; /* 0: free */
    uint32_t log_entries, stride, pd;
    pgasi_snic_ref_t ring, record;
    uint32_t generation;
    uint64_t lock;
    /* slot << 32 | taken: the slot to be taken next, and how many were taken in all; one store
     * moves both */
    uint64_t place;
    uint32_t wanted; /* a sender found none */
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
    /* the requester's */
    /* 1 << 16 | producer index: rung and not yet seen */
    uint32_t doorbell __attribute__((aligned(64)));
    uint32_t sq_ci;    /* blocks executed */
    uint32_t sq_limit; /* blocks that may be executed */
    uint32_t tries;    /* of the entry at sq_ci, for want of a receive entry or a peer */
    uint64_t tried_ns; /* since when */
    uint32_t psn;      /* of the next message */
    uint32_t flushed;  /* the error has been carried out */
    /* the responder's */
    uint64_t lock __attribute__((aligned(64)));
    uint32_t rq_ci;    /* entries used */
    uint32_t rq_limit; /* managed: entries that may be used */
    uint32_t psn_in;   /* expected */
    uint32_t wanted;   /* the sender found no entry */
} __attribute__((aligned(64))) snic_qp_t;

typedef struct {
    uint32_t magic, version;
    pgasi_snic_id_t id;
    uint32_t adversary;
    uint32_t qps_high;                          /* places ever used */
    uint32_t work __attribute__((aligned(64))); /* something may be there to be done */
    uint32_t blocked; /* something waits: for a completion, a receive entry, a peer */
    uint64_t lock __attribute__((aligned(64))); /* of the running thread, see pgasi_snic_lock */
    /* futex of the thread that sleeps for this device */
    uint32_t seq __attribute__((aligned(64)));
    uint32_t sleeping;
    uint8_t active[SNIC_QPS] __attribute__((aligned(64)));
    snic_mr_t mrs[SNIC_MRS];
    snic_cq_t cqs[SNIC_CQS];
    snic_srq_t srqs[SNIC_SRQS];
    snic_qp_t qps[SNIC_QPS];
} snic_devmem_t;

/** What indices of a device memory begin with. */
static inline uint32_t snic_start(const snic_devmem_t *devmem)
{
    return (devmem->adversary & PGAS_VERBS_SNIC_WRAP) != 0 ? PGASI_SNIC_WRAP_START : 0;
}

/* Of the layout: a process of another one is not reached. */
#define SNIC_VERSION      (3u << 24 | (uint32_t)sizeof(snic_devmem_t))
#define SNIC_DEVMEM_BYTES PGASI_ALIGN_UP(sizeof(snic_devmem_t), (size_t)4096)

/** A memory device memory, copied once from the table of its device and checked. It does not change. */
typedef struct snic_map {
    struct snic_map *next; /* of those that are given up */
    uint32_t key, serial, pd, access;
    uint64_t addr, bytes; /* in the owner's process */
    char *base;           /* where addr is here; NULL: only the kernel reaches it */
    void *map;            /* NULL: nothing was mapped */
    size_t map_bytes;
    bool kept; /* a user has its address: mapped as long as the view is there */
} snic_map_t;

/** A device as this process sees it: its own ones, and those of peers. */
typedef struct snic_view {
    struct snic_view *next;
    snic_devmem_t *devmem;
    int n_users;
    bool own;  /* of this process: addresses are valid here */
    bool gone; /* its process has ended */
    /* PROCESS: the doorbell of who executes it; NULL in that process itself */
    struct snic_wakeup *wakeup;
    pgasi_snic_id_t id;
    struct snic_view *peers[SNIC_QPS]; /* of each queue pair */
    /* by place; of our own devices written when memory is registered */
    snic_map_t *mrs[SNIC_MRS];
    snic_map_t *kept;
    pthread_mutex_t map_lock;
    struct snic_shadow *shadows[SNIC_QPS]; /* PREFETCH: entries as they were at the doorbell */
    struct snic_late_list *late;           /* DELAY: what is still to happen */
    uint64_t random;                       /* adversary and STEP */
    uint64_t checked_ns;                   /* when it was last seen alive */
    uint32_t tick;                         /* milliseconds: when it was run last */
    /* the same, by who runs a peer: when it was last seen alive */
    uint32_t looked;
    /* its event pipes that we opened, taken in turn */
    struct {
        int32_t theirs, ours;
        uint32_t serial;
    } events[16];
    uint32_t n_events;
    /* of our own devices: the pipe of a completion queue, or -1 */
    int own_events[SNIC_CQS];
} snic_view_t;

struct pgasi_snic {
    snic_view_t *view;
    pgasi_snic_opts_t opts;
    int devmem_fd;        /* -1: no other process looks at it */
    pthread_mutex_t lock; /* control */
    pgasi_extents_t *arena;
    uint32_t n_pds;
    /* places whose key has ended, and whose rest somebody may still be reading */
    uint8_t mr_closing[SNIC_MRS];
    pthread_t thread;
    bool has_thread, stop, joined;
    int process_socket;          /* PROCESS: as long as it is open, we are executed */
    uint64_t process_checked_ns; /* when we looked */
    bool process_gone;
};

/* ---- lock.c ---- */

/** A time of start that cannot be read now. */
#define SNIC_TIME_UNKNOWN UINT64_MAX
/** Field 22 of a process's or thread's stat; the second may hold blanks and brackets. 0: there is
 * none, it is a zombie, or it is ending: the kernel releases its memory and descriptors before it
 * is a zombie. SNIC_TIME_UNKNOWN: we cannot look. */
uint64_t pgasi_snic_start_time(uint32_t pid);
bool pgasi_snic_is_running(const pgasi_snic_id_t *id);

/* ---- descriptor.c ---- */

void pgasi_snic_take_spare(void);
void pgasi_snic_give_spare(void);
/** What a descriptor of another process stands for, if that is of this kind and ours: a device memory or
 * memory (a memfd), or a pipe. The look before opening keeps us from opening what does something
 * when it is opened; the one afterwards is the one that counts. */
int pgasi_snic_open_verified(uint32_t pid, int theirs, int flags, mode_t kind, uint64_t bytes_min,
                             uint64_t bytes_max);
/** As open_verified. *spared_p: in place of the spare one, which nobody else has until
 * close_theirs. */
int pgasi_snic_open_theirs(const snic_view_t *view, int theirs, int flags, mode_t kind,
                           uint64_t bytes_min, bool *spared_p);
void pgasi_snic_close_theirs(int fd, bool spared);

/* ---- view.c ---- */

/** Creates the view of a device of this process. */
pgas_status_t pgasi_snic_enter_view(pgasi_snic_t *snic, snic_devmem_t *devmem,
                                    const pgasi_snic_id_t *id);
/** Waits until whoever may be copying at this moment has looked again: every device of this process
 * once. Not with peers.lock, which those who hold a device's lock may take. */
void pgasi_snic_wait_for_runs(void);

/** The view of a device by its identity; opened on first use. NULL: gone, or not to be reached
 *  (*status_p says which). */
snic_view_t *pgasi_snic_view_get(const pgasi_snic_id_t *id, pgas_status_t *status_p);
/** The same, by a descriptor of its device memory that its process has passed; the caller closes it. */
snic_view_t *pgasi_snic_view_by_fd(const pgasi_snic_id_t *id, int devmem_fd,
                                   pgas_status_t *status_p);
void pgasi_snic_view_put(snic_view_t *view);
/** Whether the process of a view still runs; marks it gone if not. */
bool pgasi_snic_view_alive(snic_view_t *view);
/** Write to its event pipe. */
void pgasi_snic_view_event(snic_view_t *view, int fd, uint32_t serial);
/** The memory that a key of the owner names, mapped here if possible. NULL: it is released, or
 *  invalid. */
const snic_map_t *pgasi_snic_view_map(snic_view_t *view, uint32_t key);
/** Unmaps unused memory. No thread of this process may run a device meanwhile. */
void pgasi_snic_unmap_old(void);
/** Of this boot and pid namespace: processes with the same one can name each other. */
uint64_t pgasi_snic_machine(void);

/** Loads once a word that other processes may change, so that the checked value is the used one. */
#define snic_load(word) __atomic_load_n(&(word), __ATOMIC_RELAXED)

/* Limits of what a device memory says of its queues. */
#define SNIC_LOG_QUEUE 16u
#define SNIC_LOG_CQ    22u
#define SNIC_STRIDE    2048u
#define SNIC_MR_BYTES  (UINT64_C(1) << 46)

/** Where memory of queues is; NULL: nothing may be there. An address is believed where no other
 *  process could have written it. */
static inline void *snic_at(const snic_view_t *view, pgasi_snic_ref_t ref, uint64_t bytes)
{
    if (ref >> 63)
        return view->own && view->id.devmem_fd < 0 ? (void *)(uintptr_t)(ref & ~(UINT64_C(1) << 63))
                                                   : NULL;
    bool inside = ref >= SNIC_DEVMEM_BYTES && bytes <= SNIC_ARENA_BYTES &&
                  ref <= SNIC_DEVMEM_BYTES + SNIC_ARENA_BYTES - bytes;
    return inside && (ref & 3) == 0 ? (char *)view->devmem + ref : NULL;
}

/** Places of queue pairs that are to be looked at. */
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

/** Locks of the device memory: spin, yield, and take over from a thread that has died. A lock names its
 *  holder by start << 32 | id: thread ids are used again, with another time of start (in ticks of
 *  the clock; 0 if it could not be read). 0: free. */
void pgasi_snic_lock(uint64_t *lock);
bool pgasi_snic_try_lock(uint64_t *lock);
/** Like pgasi_snic_lock, but gives up after some yields if the holder lives. @return false: not
 *  locked */
bool pgasi_snic_lock_soon(uint64_t *lock);
static inline void snic_unlock(uint64_t *lock)
{
    __atomic_store_n(lock, 0, __ATOMIC_RELEASE);
}

/* ---- engine.c ---- */

/** Carry out what can be done in a device, a bounded amount; its lock is held. @return entries
 *  executed; blocked and work of the device memory say what is left. */
unsigned pgasi_snic_execute(snic_view_t *view);
/** One step of one queue pair. @return false: nothing can be done now. */
bool pgasi_snic_execute_step(snic_view_t *view);
/** Hear the doorbell of a queue pair of ours now, for PREFETCH. */
void pgasi_snic_read_doorbell(snic_view_t *view, uint32_t qpn);

/* ---- adversary.c: the adversary ---- */

typedef enum { SNIC_LATE_RESULT, SNIC_LATE_CQE, SNIC_LATE_SEEN } snic_late_kind_t;

/** What comes in order: results and completions of a send queue; completions of the receive queue
 *  that it sends to; and by themselves, what WAITs see. */
typedef enum { SNIC_STREAM_SEND, SNIC_STREAM_RECV, SNIC_STREAM_SEEN } snic_stream_t;

/** Something that an entry of queue pair qpn still does. */
typedef struct {
    snic_late_kind_t kind;
    snic_stream_t stream;
    uint32_t qpn;
    snic_view_t *peer; /* the other side of the queue pair */
    uint32_t peer_qpn;
    snic_view_t *cq_view; /* CQE, SEEN: whose completion queue */
    uint32_t cqn;
    pgasi_cqe_fields_t fields; /* CQE, and RESULT if it fails */
    uint64_t remote_addr;      /* RESULT without data: is read when it comes */
    uint64_t remote_bytes;
    uint32_t rkey;
    unsigned n_spans; /* RESULT: where to */
    size_t data_bytes;
    unsigned char data[]; /* RESULT: spans, then what was read */
} snic_late_t;

/** A random number below another: the device's own sequence, from its seed. */
uint64_t pgasi_snic_random(snic_view_t *view, uint64_t below);
/** Read blocks ahead of their execution. Positions of a send queue, without end. */
void pgasi_snic_prefetch(snic_view_t *view, const snic_qp_t *qp, uint32_t from, uint32_t to);
/** Let the oldest happen until there is room for what an entry may add. */
void pgasi_snic_late_make_room(snic_view_t *view);
/** What was read ahead of a send queue, all of its blocks; NULL: nothing. */
const unsigned char *pgasi_snic_shadow(const snic_view_t *view, const snic_qp_t *qp,
                                       size_t ring_bytes);
/** @return false: no memory or no room, it must happen now. */
bool pgasi_snic_late_add(snic_view_t *view, const snic_late_t *event, const void *data,
                         size_t data_bytes);
unsigned pgasi_snic_late_left(const snic_view_t *view);
/** Reads and atomics of a queue pair that have no result yet. */
unsigned pgasi_snic_late_results(const snic_view_t *view, uint32_t qpn);
/** Let one of them happen. @return false: there is none */
bool pgasi_snic_late_one(snic_view_t *view);
/** Lets a random number of late events happen. @return how many */
unsigned pgasi_snic_late_some(snic_view_t *view);
/** Let all happen, in the order of entries. */
void pgasi_snic_late_drain(snic_view_t *view);
/** The oldest of a stream, which does not happen; the caller frees it. NULL: none. */
snic_late_t *pgasi_snic_late_take(snic_view_t *view, uint32_t qpn, snic_stream_t stream);
/** Forget what is late for a queue pair that closes, or is reset. */
void pgasi_snic_forget(snic_view_t *view, uint32_t qpn);
void pgasi_snic_late_free(snic_view_t *view);
/** engine.c's: make it happen. */
void pgasi_snic_late_perform(snic_view_t *view, snic_late_t *event);

/* ---- run.c ---- */

/** There is work in a device, which may be another process's: see that somebody does it. */
void pgasi_snic_notify(snic_view_t *view);
/** Carry out what can be done, unless another thread is at it. @return entries executed */
unsigned pgasi_snic_run_once(snic_view_t *view);
/** Unlock a device that was locked for control; do what others have left to us meanwhile. */
void pgasi_snic_let_go(snic_view_t *view);
/** Mode CALLER: somebody is going to sleep, so what peers give this device to do is for the
 *  thread. */
void pgasi_snic_need_sleeper(pgasi_snic_t *snic);
pgas_status_t pgasi_snic_start(pgasi_snic_t *snic);
void pgasi_snic_stop(pgasi_snic_t *snic);

/* ---- process.c ---- */

/** Find, or start, the process that executes for this node, and tell it of us. @return PGAS_OK;
 *  PGAS_ERR_NOT_FOUND, PGAS_ERR_IO. */
pgas_status_t pgasi_snic_join(pgasi_snic_t *snic);
/** Milliseconds that a client waits for the process's answer. Tests shorten it. */
extern int pgasi_snic_answer_ms;
void pgasi_snic_leave(pgasi_snic_t *snic);
void pgasi_snic_wake_process(struct snic_wakeup *wakeup);

/* ---- socket.c ---- */

/** Makes this process reachable under a name for processes of this user. @return PGAS_OK;
 *  PGAS_ERR_EXISTS another process has the name; PGAS_ERR_IO */
pgas_status_t pgasi_snic_listen(const char *name, int backlog, int *fd_p);
void pgasi_snic_unlisten(const char *name, int fd);
/** @param make  creates the folder for sockets if it is missing
 *  @return a socket to the process of this name, which is this user's; -1: errno ENOENT or
 *          ECONNREFUSED there is none, EPERM it is another user's, ENOTDIR no folder can be made
 *          for it, EAGAIN too many wait for it */
int pgasi_snic_connect(const char *name, bool make, int patience_ms);
/** @return the process id of the peer; -1: the process belongs to another user */
pid_t pgasi_snic_peer(int socket);
/** Sends a message; never waits. @param fd descriptor to pass; -1: none */
bool pgasi_snic_send_message(int socket, const void *message, size_t bytes, int fd);
/** Receives a message; never waits. @return as recv; *fd_p: the passed descriptor, or -1. errno
 *  EMFILE: no descriptor is free for it */
ssize_t pgasi_snic_receive_message(int socket, void *message, size_t bytes, int *fd_p);
/** The same, but waits at most patience_ms; errno ETIMEDOUT. */
ssize_t pgasi_snic_await_message(int socket, void *message, size_t bytes, int *fd_p,
                                 int patience_ms);

#endif
