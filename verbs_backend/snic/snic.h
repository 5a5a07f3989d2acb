/** The software NIC: executes mlx5's work queue entries (wqe.h) over shared memory.
 *
 *  A device is one opened device. What the NIC knows of it lies in its device memory, shared memory that
 *  other processes map: queue pairs, completion queues, shared receive queues, registered memory,
 *  and an arena for queues. Queue memory is named by references: offsets in the device memory, or
 *  addresses of the owner's process (then only that process can carry out what touches it).
 *
 *  Whoever runs a device executes its send queues: reads entries, checks them, reaches the memory
 *  and the receive side of the peer (in the peer's device memory: nobody else works on the receive side of
 *  that queue pair), writes completions into both sides' queues. A device is run by one thread at
 *  a time (its lock); what several devices may write to, completion queues and shared receive
 *  queues, has a lock of its own that is held for a few stores, and is taken over from a process
 *  that died.
 *
 *  Rules that are as on hardware: reliable connection order; the states RESET, INIT, RTR, RTS,
 *  ERROR; protection domains; rights and bounds of every access; a number of reads under way;
 *  solicited events; RNR and retries; an error completes what caused it, then all behind it is
 *  flushed; overrun of a send or completion queue is an error unless ignored; WAIT, SEND_EN and
 *  RECV_EN; entries of managed queues are read when they are enabled, of others as late as
 *  possible, unless the adversary prefetches at the doorbell. */
#ifndef PGASI_VERBS_SNIC_H
#define PGASI_VERBS_SNIC_H

#include "pgas/verbs.h"
#include "verbs_backend/wqe.h"

typedef struct pgasi_snic pgasi_snic_t; /* a device, as its own process has it */

/** Queue memory: an offset in the device memory, or an address of the owner. */
typedef uint64_t pgasi_snic_ref_t;
/* blocks or entries of a queue: positions are compared in 16 bits */
#define PGASI_SNIC_QUEUE_MAX 16384u
/** PGAS_VERBS_SNIC_WRAP: what positions, counts of completions and message numbers begin with,
 *  instead of 0; records too. */
#define PGASI_SNIC_WRAP_START       0xfffffff5u
#define PGASI_SNIC_ADDRESS(pointer) ((uint64_t)(uintptr_t)(pointer) | UINT64_C(1) << 63)

typedef enum {
    PGASI_SNIC_RESET,
    PGASI_SNIC_INIT,
    PGASI_SNIC_RTR,
    PGASI_SNIC_RTS,
    PGASI_SNIC_ERROR
} pgasi_snic_state_t;

/* flags of a queue pair */
#define PGASI_SNIC_MASTER       1u
#define PGASI_SNIC_MANAGED_SEND 2u
#define PGASI_SNIC_MANAGED_RECV 4u
/* a doorbell beyond the ring is an error; without it the NIC wraps as it is told */
#define PGASI_SNIC_CHECK_OVERRUN 8u
#define PGASI_SNIC_SIGNAL_ALL    16u

typedef struct {
    pgas_verbs_engine_t engine;
    uint32_t adversary;
    uint64_t seed;
    const char *engine_name;
    bool in_process; /* everything by address, no other process will ever look: for the shim */
} pgasi_snic_opts_t;

pgas_status_t pgasi_snic_open(const pgasi_snic_opts_t *opts, pgasi_snic_t **snic_p);
void pgasi_snic_close(pgasi_snic_t *snic);
/** The memfd of the device memory, -1 if it has none: what lies in the arena is memory of that file, at
 *  its reference. */
int pgasi_snic_devmem_fd(const pgasi_snic_t *snic);

/** Room for queues in the device memory, page or line aligned, zeroed. @return a reference, 0 if there is
 *  none; *addr_p where we see it */
pgasi_snic_ref_t pgasi_snic_arena_take(pgasi_snic_t *snic, size_t bytes, size_t alignment,
                                       void **addr_p);
void pgasi_snic_arena_give(pgasi_snic_t *snic, pgasi_snic_ref_t ref, size_t bytes);

uint32_t pgasi_snic_pd_open(pgasi_snic_t *snic); /* numbers from 1 */

/** Memory of this process. @param fd a memfd that it is mapped from at fd_offset, or -1: private
 *  @param access PGAS_VERBS_ bits @return its key, for local and remote use, or 0 if there is no
 *  room. */
uint32_t pgasi_snic_mr_open(pgasi_snic_t *snic, uint32_t pd, const void *addr, uint64_t bytes,
                            uint32_t access, int fd, uint64_t fd_offset);
/** After return nobody touches the memory through this key. */
void pgasi_snic_mr_close(pgasi_snic_t *snic, uint32_t key);

typedef struct {
    uint32_t log_entries;
    pgasi_snic_ref_t ring;   /* 64 bytes an entry, all op_own 0xf1 at the start */
    pgasi_snic_ref_t record; /* two big-endian words: consumer index (24 bits), arm */
    bool ignore_overrun;
    int event_fd; /* the writing end of a pipe, or -1 */
} pgasi_snic_cq_opts_t;
/** @return its number, from 1; 0: no room. */
uint32_t pgasi_snic_cq_open(pgasi_snic_t *snic, const pgasi_snic_cq_opts_t *opts);
void pgasi_snic_cq_close(pgasi_snic_t *snic, uint32_t cqn);
/** Whether it has overrun: nothing comes any more, and its queue pairs end. */
bool pgasi_snic_cq_dead(const pgasi_snic_t *snic, uint32_t cqn);
/** Ask for an event: the next completion, or the next solicited one, behind those that the consumer
 *  index tells. false: it is there already, and the event has been given. */
bool pgasi_snic_cq_arm(pgasi_snic_t *snic, uint32_t cqn, bool solicited);

typedef struct {
    uint32_t log_entries, stride; /* stride in bytes: a next segment of 16, then data segments */
    pgasi_snic_ref_t ring, record;
    uint32_t pd;
} pgasi_snic_srq_opts_t;
uint32_t pgasi_snic_srq_open(pgasi_snic_t *snic, const pgasi_snic_srq_opts_t *opts);
void pgasi_snic_srq_close(pgasi_snic_t *snic, uint32_t srqn);

typedef struct {
    uint32_t pd, send_cqn, recv_cqn, srqn; /* srqn 0: a receive queue of its own, or none */
    /* stride in bytes; rq_stride 0: no receive queue */
    uint32_t log_sq_blocks, log_rq_entries, rq_stride;
    /* record: two big-endian words: receive, send producer index (16 bits each) */
    pgasi_snic_ref_t sq, rq, record;
    uint32_t flags; /* PGASI_SNIC_MASTER .. */
} pgasi_snic_qp_opts_t;
/** @return its number, 24 bits, not 0; 0: no room. In state RESET. */
uint32_t pgasi_snic_qp_open(pgasi_snic_t *snic, const pgasi_snic_qp_opts_t *opts);
void pgasi_snic_qp_close(pgasi_snic_t *snic, uint32_t qpn);

/** Where this process sees memory of a device's key that comes from a memfd; stays mapped until
 *  unmap.
 *  @return PGAS_OK; PGAS_ERR_PEER; PGAS_ERR_NOT_FOUND no such key; PGAS_ERR_UNSUPPORTED it is
 *  private; NO_MEMORY. */
typedef struct pgasi_snic_id pgasi_snic_id_t;
pgas_status_t pgasi_snic_map(const pgasi_snic_id_t *id, uint32_t key, void **addr_p);
void pgasi_snic_unmap(const pgasi_snic_id_t *id);

/** Who we are, for peers: fits into pgas_verbs_address_t behind its head. */
struct pgasi_snic_id {
    uint32_t pid;
    int32_t devmem_fd;
    uint64_t start_time; /* of the process: pids come again */
    uint64_t cookie;
    uint64_t machine; /* boot and pid namespace, hashed */
    uint32_t engine;  /* mode: both sides need the same */
    uint32_t name;    /* hash of engine_name */
};
void pgasi_snic_id(const pgasi_snic_t *snic, pgasi_snic_id_t *id_p);

typedef struct {
    pgasi_snic_state_t state;
    uint32_t access;                  /* INIT and later */
    const pgasi_snic_id_t *peer;      /* RTR; NULL: this device */
    uint32_t peer_qpn;                /* RTR */
    uint32_t reads_max_in, reads_max; /* RTR: that we answer at once; RTS: that we have under way */
    uint32_t retry, rnr_retry;        /* RTS */
    /* expected first, sent first; both ends must agree, or nothing is answered */
    uint32_t psn_in, psn;
} pgasi_snic_qp_state_t;
/** Change the state; fields that the new state does not take are not looked at. RESET and ERROR are
 *  always possible.
 *  @return PGAS_OK; PGAS_ERR_INVALID not from this state; PGAS_ERR_MISMATCH another machine or
 *  mode; PGAS_ERR_PEER gone; NO_MEMORY. */
pgas_status_t pgasi_snic_qp_modify(pgasi_snic_t *snic, uint32_t qpn,
                                   const pgasi_snic_qp_state_t *state);
pgasi_snic_state_t pgasi_snic_qp_query(pgasi_snic_t *snic, uint32_t qpn);

/** The doorbell of a queue pair: its record has been written. In mode CALLER the caller carries out
 *  what can be done. pi is that of the doorbell itself, 16 bits: what the card sees, should the record
 *  be behind. */
void pgasi_snic_ring(pgasi_snic_t *snic, uint32_t qpn, uint32_t pi);
/** Receive entries were posted: whoever waits for them may go on. */
void pgasi_snic_recv_posted(pgasi_snic_t *snic, uint32_t qpn);
void pgasi_snic_srq_posted(pgasi_snic_t *snic, uint32_t srqn);
/** Whether the process that executes, in mode PROCESS, has ended: nothing comes any more. Looked at
 *  every ten milliseconds at most. */
bool pgasi_snic_process_gone(pgasi_snic_t *snic);
/** In mode CALLER: carry out what can be done; cheap if nothing waits. @return whether anything was
 *  done */
bool pgasi_snic_run(pgasi_snic_t *snic);
/** Mode STEP: one step of one queue pair, in the order of the seed. @return false: nothing can be
 *  done. */
bool pgasi_snic_step(pgasi_snic_t *snic);

/** Creates a memfd whose size is sealed. @return its descriptor, or -1 with errno */
int pgasi_snic_memory(const char *name, uint64_t bytes);
/** Whether a descriptor from elsewhere is such memory, of this user, of a size within the
 *  limits. */
bool pgasi_snic_is_memory(int fd, uint64_t bytes_min, uint64_t bytes_max);

#endif
