/** Inside of the software NIC: what lies in a context's region, and what a process knows of the contexts that it looks at.
 *
 *  A region is written by three kinds of parties: its owner (control), whoever runs the context (the requester's fields of its queue
 *  pairs), and those who run its peers (the responder's fields of a queue pair under its lock, completion queues and shared receive
 *  queues under theirs). Numbers name objects; a number's upper bits change when a place is used again, so a late look fails. */
#ifndef PGASI_VERBS_SNIC_H
#define PGASI_VERBS_SNIC_H

#include <pthread.h>
#include <stdint.h>
#include <sys/types.h>
#include "base/checks.h"
#include "base/extents.h"
#include "verbs_backend/engine.h"

#define SNIC_MAGIC 0x43494e53u
#define SNIC_QPS 4096u
#define SNIC_CQS 1024u
#define SNIC_SRQS 64u
#define SNIC_MRS 4096u
#define SNIC_MR_FIRST 16u             /* keys are place << 8 | tag: none below is ever the end of a receive list */
#define SNIC_ARENA_BYTES (UINT64_C(1) << 30)
#define SNIC_INDEX_BITS 12            /* of queue pair numbers; the upper 12 are the generation */
#define SNIC_SRQ_BITS 6               /* the same of shared receive queues; a completion of one may be polled when it is closed */

typedef enum { SNIC_MR_PRIVATE, SNIC_MR_SHARED } snic_mr_kind_t;

typedef struct {
    uint32_t key;            /* 0: free */
    uint32_t pd, access, kind;
    uint64_t addr, bytes;    /* in the owner's process */
    int32_t fd;              /* SHARED: of the owner's process */
    uint32_t serial;         /* never used again in its process, as keys are */
    uint64_t fd_offset;
} snic_mr_t;

typedef struct {
    uint32_t valid, log_entries, ignore_overrun;
    int32_t event_fd;
    uint32_t event_serial;   /* of the pipe: descriptors are used again */
    pgasi_snic_ref_t ring, record;
    uint32_t lock;           /* from here: who pushes */
    uint32_t pi;             /* completions pushed */
    uint32_t dead;           /* has overrun */
    uint32_t armed;          /* 0, 1 any, 2 solicited or error */
    uint32_t n_waits;        /* a WAIT of the context has looked and not passed */
    uint32_t behind;         /* DELAY: completions of pi that WAITs do not see yet */
} __attribute__((aligned(64))) snic_cq_t;

typedef struct {
    uint32_t number;         /* 0: free */
    uint32_t log_entries, stride, pd;
    pgasi_snic_ref_t ring, record;
    uint32_t generation;
    uint32_t lock;
    uint32_t slot;           /* the next to be taken */
    uint32_t taken;          /* in all */
    uint32_t wanted;         /* a sender found none */
} __attribute__((aligned(64))) snic_srq_t;

typedef struct {
    uint32_t number;         /* 0: free */
    uint32_t generation;
    uint32_t state;          /* pgasi_snic_state_t */
    uint32_t pd, send_cqn, recv_cqn, srqn;
    uint32_t log_sq_blocks, log_rq_entries, rq_stride;
    pgasi_snic_ref_t sq, rq, record;
    uint32_t flags, access, reads_max_in, reads_max, retry, rnr_retry;
    pgasi_snic_id_t peer;
    uint32_t peer_qpn;
    /* the requester's */
    uint32_t bell __attribute__((aligned(64))); /* 1 << 16 | producer index: rung and not yet seen */
    uint32_t sq_ci;          /* blocks executed */
    uint32_t sq_limit;       /* blocks that may be executed */
    uint32_t tries;          /* of the entry at sq_ci, for want of a receive entry or a peer */
    uint64_t tried_ns;       /* since when */
    uint32_t psn;            /* of the next message */
    uint32_t flushed;        /* the error has been carried out */
    /* the responder's */
    uint32_t lock __attribute__((aligned(64)));
    uint32_t rq_ci;          /* entries used */
    uint32_t rq_limit;       /* managed: entries that may be used */
    uint32_t psn_in;         /* expected */
    uint32_t wanted;         /* the sender found no entry */
} __attribute__((aligned(64))) snic_qp_t;

typedef struct {
    uint32_t magic, version;
    pgasi_snic_id_t id;
    uint32_t adversary;
    uint32_t qps_high;       /* places ever used */
    uint32_t work __attribute__((aligned(64))); /* something may be there to be done */
    uint32_t blocked;        /* something waits: for a completion, a receive entry, a peer */
    uint32_t lock __attribute__((aligned(64))); /* of who runs the context: 0, or a thread's id */
    uint32_t seq __attribute__((aligned(64)));  /* futex of the thread that sleeps for this context */
    uint32_t sleeping;
    uint8_t active[SNIC_QPS] __attribute__((aligned(64)));
    snic_mr_t mrs[SNIC_MRS];
    snic_cq_t cqs[SNIC_CQS];
    snic_srq_t srqs[SNIC_SRQS];
    snic_qp_t qps[SNIC_QPS];
} snic_region_t;

/** What indices of a region begin with. */
static inline uint32_t snic_start(const snic_region_t *region)
{
    return (region->adversary & PGAS_VERBS_SNIC_WRAP) != 0 ? PGASI_SNIC_WRAP_START : 0;
}

/* Of the layout: a process of another one is not reached. */
#define SNIC_VERSION (2u << 24 | (uint32_t)sizeof(snic_region_t))
#define SNIC_REGION_BYTES PGASI_ALIGN_UP(sizeof(snic_region_t), (size_t)4096)

/** A context as this process sees it: its own ones, and those of peers. */
typedef struct snic_view {
    struct snic_view *next;
    snic_region_t *region;
    int n_users;
    bool own;                     /* of this process: addresses are valid here */
    bool gone;                    /* its process has ended */
    struct snic_hub *hub;         /* PROCESS: the bell of who executes it; NULL in that process itself */
    pgasi_snic_id_t id;
    struct snic_view *peers[SNIC_QPS]; /* of each queue pair */
    struct {
        uint32_t serial;          /* what is mapped; 0: nothing */
        char *base;               /* of address mr.addr, or NULL: only the kernel reaches it */
        void *map;
        size_t map_bytes;
    } mrs[SNIC_MRS];
    pthread_mutex_t map_lock;
    struct snic_shadow *shadows[SNIC_QPS]; /* PREFETCH: entries as they were at the doorbell */
    struct snic_late_list *late;      /* DELAY: what is still to happen */
    uint64_t random;                  /* adversary and STEP */
    uint64_t checked_ns;              /* when it was last seen alive */
    uint32_t tick;                    /* milliseconds: when it was run last */
    uint32_t looked;                  /* the same, by who runs a peer: when it was last seen alive */
    struct { int32_t theirs, ours; uint32_t serial; } events[16]; /* its event pipes that we opened, taken in turn */
    uint32_t n_events;
} snic_view_t;

struct pgasi_snic {
    snic_view_t *view;
    pgasi_snic_opts_t opts;
    int region_fd;                /* -1: no other process looks at it */
    pthread_mutex_t lock;         /* control */
    pgasi_extents_t *arena;
    uint32_t n_pds;
    uint8_t mr_closing[SNIC_MRS]; /* places whose key has ended, and whose rest somebody may still be reading */
    pthread_t thread;
    bool has_thread, stop, joined;
    int hub_socket;               /* PROCESS: as long as it is open, we are executed */
    uint64_t hub_checked_ns;      /* when we looked */
    bool hub_gone;
};

/* ---- snic_context.c ---- */

/** The view of a context by its identity; opened on first use. NULL: gone, or not to be reached (*status_p says which). */
snic_view_t *pgasi_snic_view_get(const pgasi_snic_id_t *id, pgas_status_t *status_p);
void pgasi_snic_view_put(snic_view_t *view);
/** Whether the process of a view still runs; marks it gone if not. */
bool pgasi_snic_view_alive(snic_view_t *view);
/** Write to its event pipe. */
void pgasi_snic_view_event(snic_view_t *view, int fd, uint32_t serial);
/** Where a region of the owner's memory is seen here: fills view->mrs[place]. @return false: the key has ended meanwhile */
bool pgasi_snic_view_map(snic_view_t *view, uint32_t key);

static inline void *snic_at(const snic_view_t *view, pgasi_snic_ref_t ref)
{
    if (ref >> 63)
        return view->own ? (void *)(uintptr_t)(ref & ~(UINT64_C(1) << 63)) : NULL;
    return (char *)view->region + ref;
}

static inline snic_qp_t *snic_qp(const snic_view_t *view, uint32_t qpn)
{
    snic_qp_t *qp = &view->region->qps[qpn & (SNIC_QPS - 1)];
    return qpn != 0 && __atomic_load_n(&qp->number, __ATOMIC_ACQUIRE) == qpn ? qp : NULL;
}

static inline snic_cq_t *snic_cq(const snic_view_t *view, uint32_t cqn)
{
    snic_cq_t *cq = &view->region->cqs[cqn & (SNIC_CQS - 1)];
    return cqn != 0 && cqn < SNIC_CQS && __atomic_load_n(&cq->valid, __ATOMIC_ACQUIRE) != 0 ? cq : NULL;
}

static inline snic_srq_t *snic_srq(const snic_view_t *view, uint32_t srqn)
{
    snic_srq_t *srq = &view->region->srqs[srqn & (SNIC_SRQS - 1)];
    return srqn != 0 && __atomic_load_n(&srq->number, __ATOMIC_ACQUIRE) == srqn ? srq : NULL;
}

/** Locks of the region: spin, yield, and take over from a thread that has died. */
void pgasi_snic_lock(uint32_t *lock);
bool pgasi_snic_try_lock(uint32_t *lock);
static inline void snic_unlock(uint32_t *lock)
{
    __atomic_store_n(lock, 0, __ATOMIC_RELEASE);
}

/* ---- engine.c ---- */

/** Carry out what can be done in a context, a bounded amount; its lock is held. @return entries executed; blocked and work of the
 *  region say what is left. */
unsigned pgasi_snic_execute(snic_view_t *view);
/** One step of one queue pair. @return false: nothing can be done now. */
bool pgasi_snic_execute_step(snic_view_t *view);
/** Hear the bell of a queue pair of ours now, for PREFETCH. */
void pgasi_snic_hear(snic_view_t *view, uint32_t qpn);

/* ---- snic_late.c: the adversary ---- */

typedef enum { SNIC_LATE_RESULT, SNIC_LATE_CQE, SNIC_LATE_SEEN } snic_late_kind_t;

/** What comes in order: results and completions of a send queue; completions of the receive queue that it sends to; and by
 *  themselves, what WAITs see. */
typedef enum { SNIC_STREAM_SEND, SNIC_STREAM_RECV, SNIC_STREAM_SEEN } snic_stream_t;

/** Something that an entry of queue pair qpn still does. */
typedef struct {
    snic_late_kind_t kind;
    snic_stream_t stream;
    uint32_t qpn;
    snic_view_t *peer;         /* the other side of the queue pair */
    uint32_t peer_qpn;
    snic_view_t *cq_view;      /* CQE, SEEN: whose completion queue */
    uint32_t cqn;
    pgasi_cqe_fields_t fields; /* CQE, and RESULT if it fails */
    uint64_t remote_addr;      /* RESULT without data: is read when it comes */
    uint64_t remote_bytes;
    uint32_t rkey;
    unsigned n_spans;          /* RESULT: where to */
    size_t data_bytes;
    unsigned char data[];      /* RESULT: spans, then what was read */
} snic_late_t;

/** A random number below another: the context's own sequence, from its seed. */
uint64_t pgasi_snic_random(snic_view_t *view, uint64_t below);
/** Read blocks ahead of their execution. Positions of a send queue, without end. */
void pgasi_snic_prefetch(snic_view_t *view, const snic_qp_t *qp, uint32_t from, uint32_t to);
/** Let the oldest happen until there is room for what an entry may add. */
void pgasi_snic_late_make_room(snic_view_t *view);
/** What was read ahead of a send queue, all of its blocks; NULL: nothing. */
const unsigned char *pgasi_snic_shadow(const snic_view_t *view, const snic_qp_t *qp);
/** @return false: no memory or no room, it must happen now. */
bool pgasi_snic_late_add(snic_view_t *view, const snic_late_t *event, const void *data, size_t data_bytes);
unsigned pgasi_snic_late_left(const snic_view_t *view);
/** Reads and atomics of a queue pair that have no result yet. */
unsigned pgasi_snic_late_results(const snic_view_t *view, uint32_t qpn);
/** Let one of them happen. @return false: there is none */
bool pgasi_snic_late_one(snic_view_t *view);
/** Let all happen, in the order of entries. */
void pgasi_snic_late_drain(snic_view_t *view);
/** The oldest of a stream, which does not happen; the caller frees it. NULL: none. */
snic_late_t *pgasi_snic_late_take(snic_view_t *view, uint32_t qpn, snic_stream_t stream);
/** Forget what is late for a queue pair that closes, or is reset. */
void pgasi_snic_forget(snic_view_t *view, uint32_t qpn);
void pgasi_snic_late_free(snic_view_t *view);
/** engine.c's: make it happen. */
void pgasi_snic_late_perform(snic_view_t *view, snic_late_t *event);

/* ---- snic_run.c ---- */

/** There is work in a context, which may be another process's: see that somebody does it. */
void pgasi_snic_notify(snic_view_t *view);
/** Carry out what can be done, unless another thread is at it. @return entries executed */
unsigned pgasi_snic_run_once(snic_view_t *view);
/** Unlock a context that was locked for control; do what others have left to us meanwhile. */
void pgasi_snic_let_go(snic_view_t *view);
/** Mode CALLER: somebody is going to sleep, so what peers give this context to do is for the thread. */
void pgasi_snic_need_sleeper(pgasi_snic_t *snic);
pgas_status_t pgasi_snic_start(pgasi_snic_t *snic);
void pgasi_snic_stop(pgasi_snic_t *snic);

/* ---- snic_process.c ---- */

/** Find, or start, the process that executes for this node, and tell it of us. @return PGAS_OK; PGAS_ERR_NOT_FOUND, PGAS_ERR_IO. */
pgas_status_t pgasi_snic_join(pgasi_snic_t *snic);
void pgasi_snic_leave(pgasi_snic_t *snic);
void pgasi_snic_wake_process(struct snic_hub *hub);

#endif
