/** The software NIC: it executes mlx5's work queue entries (wqe.h) over shared memory.
 *
 *  A device is one opened NIC. Its state is in device memory, which other processes map: queue
 *  pairs, completion queues, shared receive queues, registered memory, and an arena for rings.
 *  References name the memory of rings. A reference is an offset in the device memory, or an
 *  address of the owner's process; then only that process can execute entries that access the ring.
 *
 *  The thread that runs a device executes its send queues. It reads entries and checks them,
 *  accesses the peer's memory and receive side, and writes completions into the queues of both
 *  sides. The receive side is in the peer's device memory, and only the connected queue pair works
 *  on it. One thread at a time runs a device, under the device's lock. Completion queues and shared
 *  receive queues may be written by several devices. Each has a lock of its own that is held for a
 *  few stores, and that other threads take over when its holder has died.
 *
 *  These rules are those of hardware:
 *  - A reliable connection keeps requests in order.
 *  - A queue pair is in one of the states RESET, INIT, RTR, RTS and ERROR.
 *  - Every access is checked against protection domain, rights and bounds.
 *  - The number of reads in flight is limited.
 *  - Events may be limited to solicited completions.
 *  - A receiver that is not ready (RNR) and a peer that does not answer are retried.
 *  - An error completes its own entry; all entries behind it are flushed.
 *  - An overrun of a send queue or a completion queue is an error, unless the program ignores it.
 *  - Master queues have WAIT, SEND_EN and RECV_EN.
 *  - Entries of managed queues are read when they are enabled; other entries as late as possible,
 *    unless the adversary prefetches them at the doorbell. */
#ifndef PGASI_VERBS_SNIC_H
#define PGASI_VERBS_SNIC_H

#include "pgas/verbs_snic.h"
#include "verbs_backend/wqe.h"

typedef struct pgasi_snic pgasi_snic_t; /* a device, as its own process sees it */

/** Memory of a ring: an offset in the device memory, or an address of the owner. */
typedef uint64_t pgasi_snic_ref_t;
/* blocks or entries of a queue, because positions are compared in 16 bits */
#define PGASI_SNIC_QUEUE_MAX 16384u
/** pgas_verbs_snic_opts_t.step */
#define PGASI_SNIC_ENGINE_STEP ((pgas_verbs_engine_t)((int)PGAS_VERBS_ENGINE_PROCESS + 1))

/** With PGAS_VERBS_SNIC_WRAP positions, counts of completions, message numbers and doorbell records
 *  begin here instead of at 0. */
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
/* a doorbell beyond the ring is an error; without this flag the NIC wraps around */
#define PGASI_SNIC_CHECK_OVERRUN 8u
#define PGASI_SNIC_SIGNAL_ALL    16u

typedef struct {
    pgas_verbs_engine_t engine;
    uint32_t adversary;
    uint64_t seed;
    const char *engine_name;
    /* references are addresses and no other process maps the memory; used by the shim */
    bool in_process;
} pgasi_snic_opts_t;

pgas_status_t pgasi_snic_open(const pgasi_snic_opts_t *opts, pgasi_snic_t **snic_p);
void pgasi_snic_close(pgasi_snic_t *snic);
/** The memfd of the device memory, or -1. Memory of the arena is in that file, at its reference. */
int pgasi_snic_devmem_fd(const pgasi_snic_t *snic);

/** Allocates zeroed memory for rings in the device memory, aligned to a page or a line.
 *  @return a reference, with the address in *addr_p; 0: no memory is left */
pgasi_snic_ref_t pgasi_snic_arena_take(pgasi_snic_t *snic, size_t bytes, size_t alignment,
                                       void **addr_p);
void pgasi_snic_arena_give(pgasi_snic_t *snic, pgasi_snic_ref_t ref, size_t bytes);

uint32_t pgasi_snic_pd_open(pgasi_snic_t *snic); /* numbers begin at 1 */

/** Registers memory of this process.
 *  @param fd  the memfd from which it is mapped at fd_offset; -1: the memory is private
 *  @param access  PGAS_VERBS_ bits
 *  @return the key for local and remote use; 0: the table is full */
uint32_t pgasi_snic_mr_open(pgasi_snic_t *snic, uint32_t pd, const void *addr, uint64_t bytes,
                            uint32_t access, int fd, uint64_t fd_offset);
/** After the return no thread accesses the memory through this key. */
void pgasi_snic_mr_close(pgasi_snic_t *snic, uint32_t key);

typedef struct {
    uint32_t log_entries;
    pgasi_snic_ref_t ring;   /* 64 bytes an entry; op_own of all entries is 0xf1 at first */
    pgasi_snic_ref_t record; /* two big-endian words: consumer index (24 bits), arm word */
    bool ignore_overrun;
    int event_fd; /* the writing end of a pipe, or -1 */
} pgasi_snic_cq_opts_t;
/** @return the number of the queue, from 1; 0: no place is free */
uint32_t pgasi_snic_cq_open(pgasi_snic_t *snic, const pgasi_snic_cq_opts_t *opts);
void pgasi_snic_cq_close(pgasi_snic_t *snic, uint32_t cqn);
/** Whether the queue has overrun. Then no further completions arrive, and its queue pairs end. */
bool pgasi_snic_cq_dead(const pgasi_snic_t *snic, uint32_t cqn);
/** Requests an event for the next completion, or the next solicited one, behind the consumer index.
 *  @return false: such a completion has already arrived; no event will follow */
bool pgasi_snic_cq_arm(pgasi_snic_t *snic, uint32_t cqn, bool solicited);

typedef struct {
    /* stride in bytes: a next segment of 16 bytes, then data segments */
    uint32_t log_entries, stride;
    pgasi_snic_ref_t ring, record;
    uint32_t pd;
} pgasi_snic_srq_opts_t;
uint32_t pgasi_snic_srq_open(pgasi_snic_t *snic, const pgasi_snic_srq_opts_t *opts);
void pgasi_snic_srq_close(pgasi_snic_t *snic, uint32_t srqn);

typedef struct {
    uint32_t pd, send_cqn, recv_cqn, srqn; /* srqn 0: a receive queue of its own, or none */
    /* stride in bytes; rq_stride 0: no receive queue */
    uint32_t log_sq_blocks, log_rq_entries, rq_stride;
    /* record: two big-endian words, the producer indices of receive and send queue (16 bits
     * each) */
    pgasi_snic_ref_t sq, rq, record;
    uint32_t flags; /* PGASI_SNIC_MASTER and so on */
} pgasi_snic_qp_opts_t;
/** Opens a queue pair in state RESET. @return its number of 24 bits; 0: no place is free */
uint32_t pgasi_snic_qp_open(pgasi_snic_t *snic, const pgasi_snic_qp_opts_t *opts);
void pgasi_snic_qp_close(pgasi_snic_t *snic, uint32_t qpn);

/** Maps memory of a device's key into this process until pgasi_snic_unmap. The memory must come
 *  from a memfd.
 *  @return PGAS_OK
 *          PGAS_ERR_PEER         the process has ended
 *          PGAS_ERR_NOT_FOUND    there is no such key
 *          PGAS_ERR_UNSUPPORTED  the memory is private
 *          PGAS_ERR_NO_MEMORY */
typedef struct pgasi_snic_id pgasi_snic_id_t;
pgas_status_t pgasi_snic_map(const pgasi_snic_id_t *id, uint32_t key, void **addr_p);
void pgasi_snic_unmap(const pgasi_snic_id_t *id);

/** The identity of a device, for peers. It fits into pgas_verbs_address_t behind the head. */
struct pgasi_snic_id {
    uint32_t pid;
    int32_t devmem_fd;
    uint64_t start_time; /* start of the process, because the kernel uses pids again */
    uint64_t cookie;
    uint64_t machine; /* boot and pid namespace, hashed */
    uint32_t engine;  /* the engine's mode, which both sides must share */
    uint32_t name;    /* hash of engine_name */
};
void pgasi_snic_id(const pgasi_snic_t *snic, pgasi_snic_id_t *id_p);

typedef struct {
    pgasi_snic_state_t state;
    uint32_t access;             /* for INIT and later states */
    const pgasi_snic_id_t *peer; /* for RTR; NULL: this device */
    uint32_t peer_qpn;           /* for RTR */
    /* for RTR: reads that we answer at once; for RTS: reads that we have in flight */
    uint32_t reads_max_in, reads_max;
    uint32_t retry, rnr_retry; /* for RTS */
    /* first expected and first sent message number; if the ends disagree, nothing is answered */
    uint32_t psn_in, psn;
} pgasi_snic_qp_state_t;
/** Changes the state. Fields that the new state does not use are ignored. RESET and ERROR are
 *  always allowed.
 *  @return PGAS_OK
 *          PGAS_ERR_INVALID   the new state cannot follow the present one
 *          PGAS_ERR_MISMATCH  the peer is on another machine, or its engine has another mode
 *          PGAS_ERR_PEER      the peer's process has ended
 *          PGAS_ERR_NO_MEMORY */
pgas_status_t pgasi_snic_qp_modify(pgasi_snic_t *snic, uint32_t qpn,
                                   const pgasi_snic_qp_state_t *state);
pgasi_snic_state_t pgasi_snic_qp_query(pgasi_snic_t *snic, uint32_t qpn);

/** Rings the doorbell of a queue pair whose record has been written. In mode CALLER the calling
 *  thread executes what can be executed.
 *  @param pi  the producer index of the doorbell itself, 16 bits: what a card sees if the record is
 *           behind */
void pgasi_snic_ring(pgasi_snic_t *snic, uint32_t qpn, uint32_t pi);
/** Receive entries were posted: senders that wait for them may continue. */
void pgasi_snic_recv_posted(pgasi_snic_t *snic, uint32_t qpn);
void pgasi_snic_srq_posted(pgasi_snic_t *snic, uint32_t srqn);
/** In mode PROCESS: whether the executing process has ended, so that nothing completes any more. It
 *  is checked every ten milliseconds at most. */
bool pgasi_snic_process_gone(pgasi_snic_t *snic);
/** In mode CALLER: executes the entries that can be executed; cheap if nothing waits.
 *  @return whether anything was executed */
bool pgasi_snic_run(pgasi_snic_t *snic);
/** In mode STEP: executes one step of one queue pair, in the order that the seed gives.
 *  @return false: nothing can be executed */
bool pgasi_snic_step(pgasi_snic_t *snic);

/** Creates a memfd whose size is sealed. @return its descriptor; -1: errno says why */
int pgasi_snic_memory(const char *name, uint64_t bytes);
/** Whether a descriptor from another process is such a memfd, of this user, with a size within the
 *  limits. */
bool pgasi_snic_is_memory(int fd, uint64_t bytes_min, uint64_t bytes_max);

#endif
