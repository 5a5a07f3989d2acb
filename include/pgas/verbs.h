/** Queue pairs under one's own control: the low level below the library, usable without it and
 *  without MPI.
 *
 *  A device is opened through one of three providers: "verbs", libibverbs on any card; "mlx5", our
 *  own queues on NVIDIA's cards, which alone have WAIT and ENABLE; "snic", a software NIC that
 *  executes mlx5's work queue entries over shared memory, on any Linux machine. A program can
 *  choose how much it does by itself:
 *
 *  | layer       | what it gives                                          | objects               |
 *  |---|---|---|
 *  | queue pairs | post, ring, poll; each request says if it is signaled  | dev, mem, cq, srq, qp |
 *  | transmitter | signals by itself, counts, and never overflows         | tx                    |
 *
 *  Completion. A request is complete when its bytes have arrived (WRITE, SEND) or its result is
 *  here (READ, atomics). A queue pair completes its requests in order, so one completion tells of
 *  all before it: that is why most need none (selective signaling).
 *
 *  Threads. Making, connecting and closing things is for any thread, one at a time per object.
 *  Posting to a queue pair, to a shared receive queue and polling a completion queue are for one
 *  thread at a time each; transmitters say below what they allow. After a fork the child leaves
 *  alone, and does not close, what the parent has opened; it may open devices of its own.
 *
 *  What is absent on purpose: regions by physical address and doorbells that peers ring. The first
 *  need rights that no user of a shared machine has, the second an address of the card that no card
 *  may write to; a WAIT and an ENABLE do what both are used for.
 *
 *  Errors of a connection end it: what is under way completes with a status, later requests are
 *  flushed (PGAS_ERR_PEER).
 *
 *  Link with -lpgas-verbs, or with -lpgas, which contains all of it.
 *
 *  Sources: the InfiniBand architecture (queue pairs); Seriema's low level and infinity (who
 *  signals what); DPDK and DOCA (WAIT and SEND_EN on mlx5). */
#ifndef PGAS_VERBS_H
#define PGAS_VERBS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "pgas/status.h"

PGAS_BEGIN_DECLS

/* an opened device and port, with a protection domain */
typedef struct pgas_verbs_dev pgas_verbs_dev_t;
typedef struct pgas_verbs_cq pgas_verbs_cq_t;   /* completion queue */
typedef struct pgas_verbs_srq pgas_verbs_srq_t; /* receive queue that queue pairs share */
typedef struct pgas_verbs_qp pgas_verbs_qp_t;   /* reliable connected queue pair */
typedef struct pgas_verbs_tx pgas_verbs_tx_t;   /* transmitter */

/* ---- devices ---- */

typedef struct {
    char name[64];     /* "snic", "mlx5_0" */
    char provider[16]; /* that opens it unless asked otherwise: "verbs", "mlx5", "snic" */
    int port;          /* from 1 */
    bool active;       /* the port carries data */
    char link[16];     /* "InfiniBand", "RoCE v2", "RoCE v1", "memory" */
    int n_gids;        /* GIDs that are set */
    int gid_index;     /* the one chosen; -1: addressing is by LID, or needs none */
    uint8_t gid[16];
    uint16_t lid;
    int numa_node;       /* -1: not known */
    bool chains;         /* WAIT and ENABLE work (mlx5: the capability cd) */
    char chains_why[96]; /* why not */
} pgas_verbs_info_t;

/** Lists ports of devices that can be opened here; the software NIC is always the last.
 *  Shape:  any thread. A machine without RDMA has the software NIC alone; that is no error.
 *  @param infos   n_max entries to fill; may be NULL if n_max is 0
 *  @param n_p     how many there are, also if they are more than n_max
 *  @return PGAS_OK; PGAS_ERR_INVALID; PGAS_ERR_NO_MEMORY. */
PGAS_API pgas_status_t pgas_verbs_list(pgas_verbs_info_t *infos, int n_max, int *n_p);

/** An address of a port; with RoCE its index also says which frames are sent. */
typedef struct {
    int index;
    char link[16]; /* "InfiniBand", "RoCE v2", "RoCE v1" */
    uint8_t gid[16];
} pgas_verbs_gid_t;

/** Lists the GIDs of a port that are set, by index.
 *  Shape:  any thread. The software NIC has none.
 *  @param device  its name, as pgas_verbs_list gives it
 *  @param gids, n_max, n_p  as there
 *  @return PGAS_OK; PGAS_ERR_NOT_FOUND no such device or port; PGAS_ERR_INVALID;
 *  PGAS_ERR_NO_MEMORY. */
PGAS_API pgas_status_t pgas_verbs_gids(const char *device, int port, pgas_verbs_gid_t *gids,
                                       int n_max, int *n_p);

/** Who carries out the software NIC's work. */
typedef enum {
    /* the thread that rings or polls; a sleeping thread of the library does what is left, such as
     * what a WAIT holds back: fastest where there are no cores to spare */
    PGAS_VERBS_ENGINE_CALLER,
    PGAS_VERBS_ENGINE_THREAD, /* a thread of this process alone */
    /* one process per node, user and name: it goes on when this process stops */
    PGAS_VERBS_ENGINE_PROCESS,
    /* nobody but pgas_verbs_snic_step, in an order that the seed gives: for tests */
    PGAS_VERBS_ENGINE_STEP
} pgas_verbs_engine_t;

/* What the software NIC does to find programs that rely on more than hardware promises; a set of
 * bits. */
/* entries of queues that are not managed are read when their doorbell rings */
#define PGAS_VERBS_SNIC_PREFETCH 1u
#define PGAS_VERBS_SNIC_SHUFFLE  2u /* queue pairs take turns at random, after each step */
/* data, completion and what other queues see of them come apart; results of reads come late */
#define PGAS_VERBS_SNIC_DELAY 4u
#define PGAS_VERBS_SNIC_WRAP  8u /* all indices start just before they wrap */
#define PGAS_VERBS_SNIC_ALL   15u

typedef struct {
    size_t size; /* sizeof(pgas_verbs_dev_opts_t) */
    /* "snic", "mlx5_0", "mlx5_0:1", with "verbs:" or "mlx5:" before it to choose the provider;
     * NULL: the first active port, hardware first */
    const char *device;
    /* -1: chosen: RoCE v2 with an IPv4 address, other RoCE v2, RoCE v1; InfiniBand: the first */
    int gid_index;
    pgas_verbs_engine_t engine;
    uint32_t adversary; /* PGAS_VERBS_SNIC_ bits */
    uint64_t seed;      /* of adversary and STEP; 0: from the clock. In the log at level info */
    /* PROCESS: ranks that shall reach each other give the same; NULL: "default" */
    const char *engine_name;
} pgas_verbs_dev_opts_t;
#define PGAS_VERBS_DEV_OPTS_INIT                                                      \
    {                                                                                 \
        sizeof(pgas_verbs_dev_opts_t), NULL, -1, PGAS_VERBS_ENGINE_CALLER, 0, 0, NULL \
    }

/** Opens a device.
 *  Shape:  any thread. @param opts NULL: defaults.
 *  @return PGAS_OK; PGAS_ERR_NOT_FOUND no such device, or none active; PGAS_ERR_INVALID a name or
 *          index that makes no sense; PGAS_ERR_UNSUPPORTED the provider cannot open it (the log
 *          says why); PGAS_ERR_LIMIT no file descriptors are left, or the software NIC's process
 *          serves its maximum of clients; PGAS_ERR_NO_MEMORY; PGAS_ERR_IO the software NIC's
 *          process does not answer within some 15 seconds, or belongs to another user. */
PGAS_API pgas_status_t pgas_verbs_open(const pgas_verbs_dev_opts_t *opts, pgas_verbs_dev_t **dev_p);

/** Closes a device. @return PGAS_OK; PGAS_ERR_BUSY something of it is still open (nothing
 *  happened); PGAS_ERR_INVALID NULL. */
PGAS_API pgas_status_t pgas_verbs_close(pgas_verbs_dev_t *dev);

/** Describes an open device, with what was chosen. */
PGAS_API void pgas_verbs_query(const pgas_verbs_dev_t *dev, pgas_verbs_info_t *info_p);

/** Carries out one step of a software NIC in mode STEP. @return whether there was something to
 *  do. */
PGAS_API bool pgas_verbs_snic_step(pgas_verbs_dev_t *dev);

/** Is the software NIC of this node, for opts->engine PROCESS: what the program pgas_snic calls.
 *  Done:   returns when no process has been there for idle_ns. @param name as engine_name
 *  @return PGAS_OK; PGAS_ERR_EXISTS there is one of this name; PGAS_ERR_IO, PGAS_ERR_NO_MEMORY. */
PGAS_API pgas_status_t pgas_verbs_snic_serve(const char *name, uint64_t idle_ns);

/** The state of a software NIC's process. */
typedef struct {
    size_t size; /* sizeof(pgas_verbs_snic_info_t), set by the caller */
    int pid;
    int n_clients; /* devices that are open at the moment; each counts as one client */
    int n_clients_max;
    uint64_t up_ns; /* time since its start */
} pgas_verbs_snic_info_t;
/** Queries the software NIC's process of this node and user. It never starts one.
 *  Shape:  any thread; it waits for at most some 15 seconds.
 *  @param name as engine_name; NULL: "default"
 *  @return PGAS_OK; PGAS_ERR_NOT_FOUND no such process runs; PGAS_ERR_TIMEOUT the process does not
 *          answer; PGAS_ERR_INVALID info_p is NULL or its size differs; PGAS_ERR_IO the process
 *          belongs to another user, or its answer is invalid. *info_p changes only with PGAS_OK. */
PGAS_API pgas_status_t pgas_verbs_snic_query(const char *name, pgas_verbs_snic_info_t *info_p);

/* ---- memory ---- */

#define PGAS_VERBS_REMOTE_READ   1u
#define PGAS_VERBS_REMOTE_WRITE  2u
#define PGAS_VERBS_REMOTE_ATOMIC 4u
#define PGAS_VERBS_LOCAL_WRITE   8u
#define PGAS_VERBS_ACCESS_ALL    15u

/** Registered memory: a plain value. Peers need addr and rkey. */
typedef struct {
    void *addr;
    size_t bytes;
    uint32_t lkey, rkey;
    void *inside; /* the library's */
} pgas_verbs_mem_t;

/** Registers memory of the caller's; it must stay mapped until release. Register by the gigabyte,
 *  not by the message.
 *  @return PGAS_OK; PGAS_ERR_INVALID no bytes, not mapped, or remote writes or atomics without
 *          LOCAL_WRITE; PGAS_ERR_NO_MEMORY; PGAS_ERR_LIMIT too many regions, or more than may be
 *          locked; PGAS_ERR_IO. */
PGAS_API pgas_status_t pgas_verbs_mem_register(pgas_verbs_dev_t *dev, void *addr, size_t bytes,
                                               uint32_t access, pgas_verbs_mem_t *mem_p);
/** Allocates and registers memory, whole pages of zeros. The software NIC is faster on such memory
 *  than on registered one, and needs a file descriptor for it: allocate much at once. @return as
 *  mem_register; PGAS_ERR_LIMIT also if no descriptors are left. */
PGAS_API pgas_status_t pgas_verbs_mem_alloc(pgas_verbs_dev_t *dev, size_t bytes, uint32_t access,
                                            pgas_verbs_mem_t *mem_p);
/** Ends a registration; what is under way there fails. Memory that was allocated is unmapped. */
PGAS_API void pgas_verbs_mem_release(pgas_verbs_dev_t *dev, pgas_verbs_mem_t *mem);

/* ---- completion queues ---- */

/* completions that nobody polls are overwritten; for queues that only WAITs look at */
#define PGAS_VERBS_CQ_IGNORE_OVERRUN 1u
#define PGAS_VERBS_CQ_EVENTS         2u /* has a descriptor to sleep on */

typedef enum {
    PGAS_VERBS_SEND,
    PGAS_VERBS_SEND_IMM,
    PGAS_VERBS_WRITE,
    PGAS_VERBS_WRITE_IMM,
    PGAS_VERBS_READ,
    PGAS_VERBS_CSWAP,
    PGAS_VERBS_FADD,
    PGAS_VERBS_NOP, /* mlx5 and snic; elsewhere a write of no bytes */
    /* chains only: the queue stops until a completion queue has produced the completion with this
     * index */
    PGAS_VERBS_WAIT,
    PGAS_VERBS_SEND_ENABLE, /* chains only: a managed send queue may go on up to this position */
    /* chains only: a managed receive queue may be used up to this position */
    PGAS_VERBS_RECV_ENABLE,
    PGAS_VERBS_RECV, /* completions of receive queues only */
    PGAS_VERBS_RECV_WRITE_IMM
} pgas_verbs_op_t;

typedef struct {
    uint64_t id;         /* of the request, or of the receive buffer */
    pgas_verbs_qp_t *qp; /* NULL if it was closed meanwhile */
    /* PGAS_OK; PGAS_ERR_PEER flushed, or the peer does not answer; PGAS_ERR_RANGE a key, bounds or
     * rights that do not fit, here or there; PGAS_ERR_AGAIN the peer had no buffer, to the last
     * try; PGAS_ERR_INVALID an entry that makes no sense; PGAS_ERR_LIMIT a receive buffer is too
     * small; PGAS_ERR_TRANSPORT anything else */
    pgas_status_t status;
    uint32_t syndrome; /* as the device says it; 0 with PGAS_OK */
    pgas_verbs_op_t op;
    uint32_t bytes; /* that arrived; reads and atomics: were read */
    uint32_t imm;   /* SEND_IMM, WRITE_IMM at the receiver */
    bool has_imm;
} pgas_verbs_completion_t;

/** @param depth completions that fit, rounded up; up to 2^22. flags are PGAS_VERBS_CQ_ bits.
 *  @return PGAS_OK; PGAS_ERR_INVALID; PGAS_ERR_LIMIT too deep, too many queues or no descriptors;
 *          PGAS_ERR_UNSUPPORTED flags that this device does not have; PGAS_ERR_NO_MEMORY;
 *          PGAS_ERR_IO. */
PGAS_API pgas_status_t pgas_verbs_cq_open(pgas_verbs_dev_t *dev, uint32_t depth, uint32_t flags,
                                          pgas_verbs_cq_t **cq_p);
/** @return PGAS_OK; PGAS_ERR_BUSY queue pairs still use it. */
PGAS_API pgas_status_t pgas_verbs_cq_close(pgas_verbs_cq_t *cq);
/** Takes up to n completions, without waiting. @return how many; -1: the queue has overrun and is
 *  dead, or the process of the software NIC is. */
PGAS_API int pgas_verbs_cq_poll(pgas_verbs_cq_t *cq, pgas_verbs_completion_t *completions, int n);
/** Waits until a completion is there to be polled: spins briefly, then sleeps (a queue without
 *  EVENTS yields instead).
 *  @param timeout_ns UINT64_MAX: for ever. @return PGAS_OK; PGAS_ERR_TIMEOUT; PGAS_ERR_TRANSPORT
 *  the queue is dead. */
PGAS_API pgas_status_t pgas_verbs_cq_wait(pgas_verbs_cq_t *cq, uint64_t timeout_ns);
/** The descriptor that becomes readable after arm, once, when a completion (solicited: one of a
 *  solicited request, or an error) comes. @return PGAS_OK; PGAS_ERR_UNSUPPORTED without EVENTS. */
PGAS_API pgas_status_t pgas_verbs_cq_fd(pgas_verbs_cq_t *cq, int *fd_p);
/** @return PGAS_OK; PGAS_ERR_BUSY completions are there already, poll them first (what the
 *  descriptor held is taken); UNSUPPORTED. */
PGAS_API pgas_status_t pgas_verbs_cq_arm(pgas_verbs_cq_t *cq, bool solicited);

/* ---- queue pairs ---- */

/** A piece of registered memory. */
typedef struct {
    uint64_t addr;
    uint32_t bytes; /* up to 2^31 */
    uint32_t lkey;
} pgas_verbs_span_t;

#define PGAS_VERBS_SIGNAL    1u /* a completion when done; without it only errors tell */
#define PGAS_VERBS_SOLICITED 2u /* wakes a receiver that sleeps on solicited ones */
#define PGAS_VERBS_FENCE     4u /* begins when reads and atomics before it have their results */
#define PGAS_VERBS_INLINE    8u /* the bytes are copied while posting: no lkey, and free at once */

/** What to do. Fields that an operation does not name need not be set. */
typedef struct {
    pgas_verbs_op_t op;
    uint32_t flags; /* PGAS_VERBS_SIGNAL .. */
    uint64_t id;    /* comes back in the completion */
    /* gathered (SEND, WRITE) or scattered into (READ; atomics: 8 bytes for the old value) */
    const pgas_verbs_span_t *spans;
    uint32_t n_spans;
    uint32_t imm;
    uint64_t remote_addr; /* WRITE, READ, atomics (a multiple of 8) */
    uint32_t rkey;
    /* WAIT: completions that the queue has produced before the one waited for, 24 bits; ENABLE: a
     * position of the target, see pgas_verbs_qp_position */
    uint32_t index;
    uint64_t operand; /* FADD: added; CSWAP: stored if the word equals compare */
    uint64_t compare;
    pgas_verbs_cq_t *cq; /* WAIT */
    /* ENABLE: may be any queue pair of the device, the same one too */
    pgas_verbs_qp_t *qp;
} pgas_verbs_request_t;

#define PGAS_VERBS_QP_MASTER 1u /* may post WAIT and ENABLE */
/* its send queue goes on by ENABLE alone: posted entries may be rewritten until then */
#define PGAS_VERBS_QP_MANAGED_SEND 2u
#define PGAS_VERBS_QP_MANAGED_RECV 4u
/* its send queue's memory can be written to by peers: pgas_verbs_qp_buffer */
#define PGAS_VERBS_QP_REMOTE_SLOTS   8u
#define PGAS_VERBS_QP_IGNORE_OVERRUN 16u /* the caller counts outstanding entries; see chains */

typedef struct {
    size_t size;
    pgas_verbs_cq_t *send_cq, *recv_cq; /* may be the same */
    pgas_verbs_srq_t *srq;              /* NULL: a receive queue of its own */
    uint32_t send_depth;                /* requests; default 256 */
    uint32_t recv_depth;                /* default 256; not looked at with an srq */
    uint32_t send_spans;                /* of a request at most; default 5 */
    uint32_t recv_spans;                /* default 1 */
    uint32_t inline_max;                /* bytes; default 60 */
    uint32_t flags;                     /* PGAS_VERBS_QP_ bits */
    uint32_t access;                    /* what the peer may do; default PGAS_VERBS_ACCESS_ALL */
    uint32_t retry;                     /* 0 to 7, default 7: before the peer is taken for dead */
    /* 0 to 7, 7 (the default) without end: while the peer has no receive buffer */
    uint32_t rnr_retry;
    uint32_t reads_max; /* reads and atomics under way, default 16 */
} pgas_verbs_qp_opts_t;
#define PGAS_VERBS_QP_OPTS_INIT                                                \
    {                                                                          \
        sizeof(pgas_verbs_qp_opts_t), NULL, NULL, NULL, 256, 256, 5, 1, 60, 0, \
            PGAS_VERBS_ACCESS_ALL, 7, 7, 16                                    \
    }

/** Where a queue pair is found; to be sent to the peer by any means. Plain bytes, the same on all
 *  machines. */
typedef struct {
    uint8_t bytes[96];
} pgas_verbs_address_t;

/** Makes a queue pair; it can receive nothing and send nothing until it is connected, but receive
 *  buffers can be posted.
 *  @return PGAS_OK; PGAS_ERR_INVALID; PGAS_ERR_LIMIT deeper than the device has;
 *          PGAS_ERR_UNSUPPORTED flags that need chains on a device without (the log says why);
 *          PGAS_ERR_NO_MEMORY; PGAS_ERR_IO. */
PGAS_API pgas_status_t pgas_verbs_qp_open(pgas_verbs_dev_t *dev, const pgas_verbs_qp_opts_t *opts,
                                          pgas_verbs_qp_t **qp_p);
/** Closes it. The peer's requests fail from then on. Its completions that nobody has polled are
 *  dropped or come with qp NULL. */
PGAS_API void pgas_verbs_qp_close(pgas_verbs_qp_t *qp);
PGAS_API void pgas_verbs_qp_address(const pgas_verbs_qp_t *qp, pgas_verbs_address_t *address_p);
/** Connects to the queue pair with this address, which must do the same; its own address is
 *  allowed.
 *  Done:   it can be posted to; what is sent before the peer has done the same is tried again, some
 *          seconds long (opts.retry).
 *  @return PGAS_OK; PGAS_ERR_INVALID NULL; PGAS_ERR_FORMAT no address; PGAS_ERR_MISMATCH of another
 *          provider or machine; PGAS_ERR_EXISTS connected already; PGAS_ERR_PEER gone;
 *          PGAS_ERR_LIMIT no file descriptors are left; PGAS_ERR_IO. */
PGAS_API pgas_status_t pgas_verbs_qp_connect(pgas_verbs_qp_t *qp, const pgas_verbs_address_t *peer);

/** Writes requests into the send queue, in order; the device sees them at the next ring.
 *  @param n_p how many were taken: all, unless an error says why the next was not. May be NULL if n
 *  is 1
 *  @return PGAS_OK; PGAS_ERR_AGAIN the queue is full: poll; PGAS_ERR_INVALID, PGAS_ERR_LIMIT too
 *          many spans or inline bytes, or more than the 2 GiB of one request; PGAS_ERR_UNSUPPORTED;
 *          PGAS_ERR_PEER the connection has ended; PGAS_ERR_NOT_INIT it is not connected. */
PGAS_API pgas_status_t pgas_verbs_qp_write(pgas_verbs_qp_t *qp,
                                           const pgas_verbs_request_t *requests, uint32_t n,
                                           uint32_t *n_p);
/** Tells the device of all that was written. Of a managed queue only that it is there: ENABLE lets
 *  it run. */
PGAS_API pgas_status_t pgas_verbs_qp_ring(pgas_verbs_qp_t *qp);
/** Write and ring. */
PGAS_API pgas_status_t pgas_verbs_qp_post(pgas_verbs_qp_t *qp, const pgas_verbs_request_t *requests,
                                          uint32_t n, uint32_t *n_p);
/** The position behind the last request written, for ENABLE: 16 bits on the wire, counted without
 *  end here. */
PGAS_API uint32_t pgas_verbs_qp_position(const pgas_verbs_qp_t *qp);

/** A receive buffer. */
typedef struct {
    uint64_t id;
    const pgas_verbs_span_t *spans;
    uint32_t n_spans;
} pgas_verbs_recv_t;
/** Gives receive buffers; visible to the device on return. @return PGAS_OK; PGAS_ERR_AGAIN full;
 *  PGAS_ERR_LIMIT too many spans, or one too large; PGAS_ERR_INVALID the queue pair has no receive
 *  queue of its own. */
PGAS_API pgas_status_t pgas_verbs_qp_recv(pgas_verbs_qp_t *qp, const pgas_verbs_recv_t *recvs,
                                          uint32_t n, uint32_t *n_p);

/** @param depth buffers at most, spans of each. @return as cq_open. */
PGAS_API pgas_status_t pgas_verbs_srq_open(pgas_verbs_dev_t *dev, uint32_t depth, uint32_t spans,
                                           pgas_verbs_srq_t **srq_p);
PGAS_API pgas_status_t pgas_verbs_srq_close(pgas_verbs_srq_t *srq);
PGAS_API pgas_status_t pgas_verbs_srq_recv(pgas_verbs_srq_t *srq, const pgas_verbs_recv_t *recvs,
                                           uint32_t n, uint32_t *n_p);

/** The send queue's memory, so that peers can rewrite entries that are posted but not enabled. mem
 *  is all of the ring, slot_bytes the size of a block; an entry that begins at a position lies at
 *  mem.addr + position % (mem.bytes / slot_bytes) * slot_bytes.
 *  @return PGAS_OK; PGAS_ERR_UNSUPPORTED without PGAS_VERBS_QP_REMOTE_SLOTS, or the device does not
 *  tell. */
PGAS_API pgas_status_t pgas_verbs_qp_buffer(pgas_verbs_qp_t *qp, pgas_verbs_mem_t *mem_p,
                                            uint32_t *slot_bytes_p);

/* ---- chains ----
 *
 *  A chain is a program that a card executes without a CPU. Its parts are a *managed* send queue
 *  (PGAS_VERBS_QP_MANAGED_SEND), whose entries do not run when they are posted, and a *master*
 *  queue (PGAS_VERBS_QP_MASTER) with pairs of WAIT and SEND_ENABLE. A pair means: once this
 *  completion exists, the managed queue may run up to that position. examples/13_queue_pairs.c has
 *  the shortest chain; examples/14_chain_laps.c has one whose entries are rewritten and run again.
 *
 *  Layout of an entry. A send queue is a ring of slots of slot_bytes (64). An entry is a run of
 *  segments of 16 bytes. It begins on a slot and takes one slot for each four segments. At the
 *  ring's end it continues at the ring's beginning. Numbers are big-endian.
 *
 *  | segment      | byte: field                                          | entries             |
 *  |---|---|---|
 *  | control      | 0: opcode modifier, 1: position (2 bytes), 3: opcode, | all; the first      |
 *  |              | 4: queue pair (3), 7: segments in all, 11: flags,    |                     |
 *  |              | 12: immediate data (4)                               |                     |
 *  | remote       | 0: address (8), 8: rkey (4), 12: zeros               | WRITE, READ, atomic |
 *  | atomic       | 0: operand (8), 8: compare (8)                       | CSWAP, FADD         |
 *  | wait, enable | 0: zeros (8), 8: index (4), 12: number of queue (4)  | WAIT, the ENABLEs   |
 *  | data         | 0: bytes (4), 4: lkey (4), 8: address (8); each span | others; the last    |
 *  | inline data  | 0: bytes, top bit set (4), 4: the bytes              | instead of data     |
 *
 *  Thus a WRITE of one span is one slot, with its remote address at byte 16 and its data segment at
 *  byte 32. Opcodes: NOP 0x00, WRITE 0x08, WRITE_IMM 0x09, SEND 0x0a, SEND_IMM 0x0b, READ 0x10,
 *  CSWAP 0x11, FADD 0x12.
 *
 *  Rewriting entries. Peers write into slots as into any memory, by mem.addr and mem.rkey of
 *  pgas_verbs_qp_buffer: with WRITE, atomics, or a message whose receive buffer lies there. They
 *  may rewrite remote addresses, data, operands and immediate data. The software NIC also accepts
 *  new opcodes and flags. Cards may refuse those, and new positions or numbers of segments. Rewrite
 *  an entry after its last run has ended and before its next ENABLE, because a card may read it at
 *  any moment after the ENABLE. A card may read an entry of a queue that is not managed as soon as
 *  it is posted; the adversary PREFETCH does so.
 *
 *  Visibility of a patch. A connection delivers in order. The receive completion of a message means
 *  that its own data and all data sent before it on the same connection are in place. A WAIT for
 *  that completion therefore passes after the patch, and the card reads entries behind the
 *  following ENABLE after the WAIT. Two connections are not ordered with each other. Either send
 *  the message after the completion of the patch, or WAIT for a completion on each connection. If a
 *  queue pair of the own side rewrites the entry, that request must be signaled, so that a WAIT can
 *  refer to its completion.
 *
 *  The index of a WAIT counts the completions that a completion queue has ever produced, from 0, in
 *  24 bits. Polling does not change it. A WAIT for a completion that already exists passes at once.
 *  An index may be up to 2^23 ahead.
 *
 *  Positions count slots, not requests, and never wrap to 0 at the ring's end: call
 *  pgas_verbs_qp_position before and after posting. Cards compare them in 16 bits, so one ENABLE
 *  may advance by up to 32,767 slots. A lower position than the last one has no effect.
 *
 *  Running a chain again. In a ring of n slots, positions p, p + n and p + 2n are the same slot. An
 *  ENABLE beyond the last posted position runs the ring's contents again. All n slots must then
 *  hold whole entries of the chain; a NOP fills one slot. Open such a queue with
 *  PGAS_VERBS_QP_IGNORE_OVERRUN: posting then fills the ring to its last slot and does not check
 *  completions. No hardware rule keeps a run from overtaking a patch. Before the peer rewrites an
 *  entry for the next lap, it must know that the entry's run has ended, from the run's effect or
 *  its completion.
 *
 *  Consumed resources. Signaled entries that run again need a completion queue with
 *  PGAS_VERBS_CQ_IGNORE_OVERRUN unless a thread polls it; indices of WAIT keep counting. The
 *  completion queue of a receive queue must be polled, because only that makes room for new
 *  buffers. The program posts the master's entries anew for each run, since their indices differ,
 *  and signals some of them, as in any queue. It may post many runs ahead; then no CPU takes part
 *  in a run. */

/* ---- transmitters ---- */

/** Called by who polls, when requests up to done are complete. It may post (where its thread may),
 *  but not poll, wait or close. status PGAS_OK, or why the connection has ended: called once so,
 *  and all that was posted counts as done. */
typedef void (*pgas_verbs_advance_fn_t)(void *arg, pgas_verbs_tx_t *tx, uint64_t done,
                                        pgas_status_t status);

typedef struct {
    size_t size;
    /* several threads post: a short lock. Otherwise one at a time, and no lock */
    bool shared;
    /* signals one of so many; default 32, at most a quarter of the queue */
    uint32_t interval;
    uint32_t batch;                  /* requests per doorbell; default 16 */
    pgas_verbs_advance_fn_t advance; /* may be NULL */
    void *arg;
} pgas_verbs_tx_opts_t;
#define PGAS_VERBS_TX_OPTS_INIT                                 \
    {                                                           \
        sizeof(pgas_verbs_tx_opts_t), false, 32, 16, NULL, NULL \
    }

/** Puts a transmitter on a connected queue pair with nothing under way, whose send side it has to
 *  itself from now on. Its send_cq may be that of other transmitters, but of nothing else.
 *  @return PGAS_OK; PGAS_ERR_INVALID; PGAS_ERR_LIMIT the completion queue has no room for as many
 *          completions as the send queue has requests, beside those of other transmitters (when a
 *          connection ends, each may have one); PGAS_ERR_BUSY the queue pair has a transmitter;
 *          PGAS_ERR_NO_MEMORY. */
PGAS_API pgas_status_t pgas_verbs_tx_open(pgas_verbs_qp_t *qp, const pgas_verbs_tx_opts_t *opts,
                                          pgas_verbs_tx_t **tx_p);
/** Rings, but does not wait: mark and wait first if that matters. Nobody may be using it; others of
 *  its completion queue may. */
PGAS_API void pgas_verbs_tx_close(pgas_verbs_tx_t *tx);

/** Posts a request. SIGNAL in its flags forces a completion; its id is not used. Inlines by itself
 *  below the limit.
 *  Shape:  the owner thread, or any if shared. Rings after `batch` requests, and when there is no
 *          room; so do ring, mark and wait. Polling does not, since any thread may poll.
 *  Done:   when pgas_verbs_tx_done reaches the number. Of inline data the buffer is free at once.
 *  @param number_p its number: 1, 2, 3 .., with gaps where marks have taken one; may be NULL
 *  @return PGAS_OK; PGAS_ERR_AGAIN no room in the queue: poll (it has been polled once, and rung);
 *          PGAS_ERR_PEER the connection has ended (some requests after that may still have been
 *          taken: they count as posted); otherwise as qp_write. */
PGAS_API pgas_status_t pgas_verbs_tx_post(pgas_verbs_tx_t *tx, const pgas_verbs_request_t *request,
                                          uint64_t *number_p);
/** As post, for a write or read of any size up to 2^48, cut into requests; number_p is that of the
 *  last.
 *  @param at_p how many bytes were taken, whatever is returned; may be NULL if bytes fit into one
 *  request
 *  @return PGAS_OK; PGAS_ERR_AGAIN: add *at_p to the addresses and call again; PGAS_ERR_LIMIT too
 *  large; otherwise as post. */
PGAS_API pgas_status_t pgas_verbs_tx_write(pgas_verbs_tx_t *tx, uint64_t remote_addr, uint32_t rkey,
                                           const void *addr, uint32_t lkey, uint64_t bytes,
                                           uint64_t *at_p, uint64_t *number_p);
PGAS_API pgas_status_t pgas_verbs_tx_read(pgas_verbs_tx_t *tx, uint64_t remote_addr, uint32_t rkey,
                                          void *addr, uint32_t lkey, uint64_t bytes, uint64_t *at_p,
                                          uint64_t *number_p);
/** Tells the device of what waits for a full batch. */
PGAS_API void pgas_verbs_tx_ring(pgas_verbs_tx_t *tx);
/** Everything up to this number is complete: the flush number. Never falls. One load. */
PGAS_API uint64_t pgas_verbs_tx_done(const pgas_verbs_tx_t *tx);
/** The number of the request posted last. */
PGAS_API uint64_t pgas_verbs_tx_posted(const pgas_verbs_tx_t *tx);
/** Looks for completions; any thread, wait-free: if another looks already it does nothing. Serves
 *  all transmitters of the queue.
 *  @return > 0 if something completed. */
PGAS_API int pgas_verbs_tx_poll(pgas_verbs_tx_t *tx);
/** Makes sure that what was posted so far is signaled and rung: polling until its number is done
 *  ends without further posts. Takes a number of its own, that pgas_verbs_tx_posted tells, unless
 *  the last request was signaled. There is always room for it.
 *  Shape:  as post. @return PGAS_OK; PGAS_ERR_PEER the connection has ended. */
PGAS_API pgas_status_t pgas_verbs_tx_mark(pgas_verbs_tx_t *tx);
/** Waits until a number is done: signals and rings as needed, spins briefly, yields, then sleeps.
 *  Shape:  as post.
 *  @param timeout_ns UINT64_MAX: for ever
 *  @return PGAS_OK; PGAS_ERR_TIMEOUT; PGAS_ERR_RANGE never posted; or why the connection ended
 *          before it was done, see status of pgas_verbs_completion_t. */
PGAS_API pgas_status_t pgas_verbs_tx_wait(pgas_verbs_tx_t *tx, uint64_t number,
                                          uint64_t timeout_ns);

typedef struct {
    uint64_t posted;      /* without marks' own */
    uint64_t signaled;    /* with marks' own */
    uint64_t completions; /* polled */
    uint64_t doorbells;
    uint64_t inlined;
    uint64_t refused; /* posts that found no room */
} pgas_verbs_tx_stats_t;
/** Shape: as post. */
PGAS_API void pgas_verbs_tx_stats(const pgas_verbs_tx_t *tx, pgas_verbs_tx_stats_t *stats_p);

PGAS_END_DECLS
#endif
