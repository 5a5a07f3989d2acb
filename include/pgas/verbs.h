/** Queue pairs under the program's own control: the low level below the library, usable without it
 *  and without MPI.
 *
 *      pgas_verbs_dev_t *dev;
 *      pgas_verbs_mem_t mem;
 *      pgas_verbs_cq_t *cq;
 *      pgas_verbs_qp_t *qp;
 *      pgas_verbs_qp_opts_t o = PGAS_VERBS_QP_OPTS_INIT;
 *      pgas_verbs_address_t mine, peer;
 *      pgas_verbs_open(NULL, &dev);
 *      pgas_verbs_mem_alloc(dev, 1 << 20, PGAS_VERBS_ACCESS_ALL, &mem);
 *      pgas_verbs_cq_open(dev, 256, 0, &cq);
 *      o.send_cq = o.recv_cq = cq;
 *      pgas_verbs_qp_open(dev, &o, &qp);
 *      pgas_verbs_qp_address(qp, &mine);
 *      exchange(&mine, &peer);                                 by any means: a file, a socket, MPI
 *      pgas_verbs_qp_connect(qp, &peer);
 *
 *      pgas_verbs_span_t span = { (uintptr_t)mem.addr, 64, mem.lkey };
 *      pgas_verbs_request_t write = { .op = PGAS_VERBS_WRITE, .flags = PGAS_VERBS_SIGNAL,
 *                                     .spans = &span, .n_spans = 1,
 *                                     .remote_addr = their_addr, .rkey = their_rkey };
 *      pgas_verbs_completion_t c;
 *      pgas_verbs_qp_post(qp, &write, 1, NULL);
 *      pgas_verbs_cq_wait(cq, UINT64_MAX);
 *      pgas_verbs_cq_poll(cq, &c, 1);                          c.status says whether it arrived
 *
 *  A device is opened through one of three providers:
 *  | provider | what it uses                                                                    |
 *  |---|---|
 *  | verbs    | libibverbs, on any card                                                         |
 *  | mlx5     | queues of this library on NVIDIA's cards; the only hardware with WAIT, ENABLE   |
 *  | snic     | a software NIC that executes mlx5's work queue entries over shared memory, on   |
 *  |          | any Linux machine                                                               |
 *
 *  A program chooses between two layers:
 *  | layer       | what it offers                                         | objects               |
 *  |---|---|---|
 *  | queue pairs | post, ring, poll; a flag says if a request is signaled | dev, mem, cq, srq, qp |
 *  | transmitter | signals by itself, counts, never overflows: verbs_tx.h | tx                    |
 *
 *  Completion. A request is complete when its bytes have arrived (WRITE, SEND) or its result is
 *  here (READ, atomics). A queue pair completes its requests in order, so one completion reports
 *  all requests before it. Most requests therefore need none (selective signaling).
 *
 *  Threads. Any thread may open, connect and close objects, one thread at a time per object. One
 *  thread at a time may post to a queue pair, post to a shared receive queue, or use a completion
 *  queue (poll, wait, arm). After a fork the child must neither use nor close what the parent has
 *  opened. It may open devices of its own.
 *
 *  Absent on purpose: memory regions by physical address, and doorbells that peers ring. The former
 *  need rights that no user of a shared machine has. The latter need an address of the card to
 *  which no other card may write. WAIT and ENABLE do what both are used for.
 *
 *  Errors of a connection end it: requests that are not complete complete with a status, and later
 *  requests are flushed (PGAS_ERR_PEER).
 *
 *  Link with -lpgas-verbs, or with -lpgas, which contains all of it.
 *
 *  This file is one contract, of queues and of the chains built from them, so it is not split
 *  further.
 *
 *  Sources: the InfiniBand architecture (queue pairs); Seriema's low level and infinity (selective
 *  signaling); DPDK and DOCA (WAIT and SEND_EN on mlx5). */
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

/* ---- devices ---- */

typedef struct {
    char name[64];     /* "snic", "mlx5_0" */
    char provider[16]; /* that opens it by default: "verbs", "mlx5", "snic" */
    int port;          /* from 1 */
    bool active;       /* the port carries data */
    char link[16];     /* "InfiniBand", "RoCE v2", "RoCE v1", "memory" */
    int n_gids;        /* GIDs that are set */
    int gid_index;     /* the chosen one; -1: the port is addressed by LID, or needs no address */
    uint8_t gid[16];
    uint16_t lid;
    int numa_node;       /* -1: not known */
    bool chains;         /* WAIT and ENABLE work (mlx5: the capability cd) */
    char chains_why[96]; /* the reason why not */
} pgas_verbs_info_t;

/** Lists ports of devices that can be opened here. The software NIC is always the last, and the
 *  only one on a machine without RDMA.
 *  Shape:  any thread.
 *  @param infos   n_max entries to fill; may be NULL if n_max is 0
 *  @param n_p     the number of ports, which may exceed n_max
 *  @return PGAS_OK
 *          PGAS_ERR_INVALID    n_p or infos is NULL, or n_max is negative
 *          PGAS_ERR_NO_MEMORY */
PGAS_API pgas_status_t pgas_verbs_list(pgas_verbs_info_t *infos, int n_max, int *n_p);

/** An address of a port. With RoCE its index also selects the kind of frames. */
typedef struct {
    int index;
    char link[16]; /* "InfiniBand", "RoCE v2", "RoCE v1" */
    uint8_t gid[16];
} pgas_verbs_gid_t;

/** Lists the GIDs of a port that are set, by index. The software NIC has none.
 *  Shape:  any thread.
 *  @param device  its name, as in pgas_verbs_info_t
 *  @param gids, n_max, n_p  as infos, n_max and n_p of pgas_verbs_list
 *  @return PGAS_OK
 *          PGAS_ERR_NOT_FOUND  no such device or port
 *          PGAS_ERR_INVALID    as pgas_verbs_list
 *          PGAS_ERR_NO_MEMORY */
PGAS_API pgas_status_t pgas_verbs_gids(const char *device, int port, pgas_verbs_gid_t *gids,
                                       int n_max, int *n_p);

/** The thread or process that executes the software NIC's work. */
typedef enum {
    /* The thread that rings or polls. A sleeping thread of the library executes what remains, such
     * as entries behind a WAIT. This is fastest on machines without idle cores. */
    PGAS_VERBS_ENGINE_CALLER,
    PGAS_VERBS_ENGINE_THREAD, /* one thread of this process */
    /* one process for each node, user and name; it continues if this process stops */
    PGAS_VERBS_ENGINE_PROCESS,
    /* only pgas_verbs_snic_step, in an order that the seed determines: for tests */
    PGAS_VERBS_ENGINE_STEP
} pgas_verbs_engine_t;

/* Behaviour of the software NIC that exposes programs that rely on more than hardware promises; a
 * set of bits. */
/* entries of queues that are not managed are read when their doorbell rings */
#define PGAS_VERBS_SNIC_PREFETCH 1u
#define PGAS_VERBS_SNIC_SHUFFLE  2u /* queue pairs take turns at random, after each step */
/* data, its completion, and their visibility to other queues are separate steps; results of reads
 * come late */
#define PGAS_VERBS_SNIC_DELAY 4u
#define PGAS_VERBS_SNIC_WRAP  8u /* all indices start just before they wrap */
#define PGAS_VERBS_SNIC_ALL   15u

typedef struct {
    size_t size; /* sizeof(pgas_verbs_dev_opts_t) */
    /* "snic", "mlx5_0", "mlx5_0:1"; "verbs:" or "mlx5:" in front selects the provider. NULL: the
     * first active port, hardware first */
    const char *device;
    /* -1: RoCE v2 with an IPv4 address, otherwise RoCE v2, otherwise RoCE v1; InfiniBand: the
     * first */
    int gid_index;
    pgas_verbs_engine_t engine;
    uint32_t adversary; /* PGAS_VERBS_SNIC_ bits */
    uint64_t seed;      /* of adversary and STEP; 0: from the clock. The log has it at level info */
    /* PROCESS: ranks that communicate give the same name; NULL: "default" */
    const char *engine_name;
} pgas_verbs_dev_opts_t;
#define PGAS_VERBS_DEV_OPTS_INIT                                                      \
    {                                                                                 \
        sizeof(pgas_verbs_dev_opts_t), NULL, -1, PGAS_VERBS_ENGINE_CALLER, 0, 0, NULL \
    }

/** Opens a device.
 *  Shape:  any thread. opts NULL: defaults.
 *  @return PGAS_OK
 *          PGAS_ERR_NOT_FOUND    no such device, or none is active
 *          PGAS_ERR_INVALID      a malformed name, or an option out of range
 *          PGAS_ERR_UNSUPPORTED  the provider cannot open it; the log says why
 *          PGAS_ERR_LIMIT        no file descriptors are left, or the software NIC's process has
 *                                its maximum of clients
 *          PGAS_ERR_IO           the software NIC's process does not answer within some 15 seconds,
 *                                or belongs to another user
 *          PGAS_ERR_NO_MEMORY */
PGAS_API pgas_status_t pgas_verbs_open(const pgas_verbs_dev_opts_t *opts, pgas_verbs_dev_t **dev_p);

/** Closes a device.
 *  @return PGAS_OK
 *          PGAS_ERR_BUSY     an object of the device is open; nothing has happened
 *          PGAS_ERR_INVALID  dev is NULL */
PGAS_API pgas_status_t pgas_verbs_close(pgas_verbs_dev_t *dev);

/** Describes an open device and the choices that were made for it. */
PGAS_API void pgas_verbs_query(const pgas_verbs_dev_t *dev, pgas_verbs_info_t *info_p);

/** Executes one step of a software NIC with the engine STEP.
 *  @return whether there was something to do. */
PGAS_API bool pgas_verbs_snic_step(pgas_verbs_dev_t *dev);

/** Runs the node's software NIC in the calling process, for devices with the engine PROCESS. The
 *  program pgas_snic calls it.
 *  Done:   it returns after it has had no client for idle_ns nanoseconds.
 *  @param name  as engine_name
 *  @return PGAS_OK
 *          PGAS_ERR_EXISTS     a process of this name runs
 *          PGAS_ERR_IO         a system call failed
 *          PGAS_ERR_NO_MEMORY */
PGAS_API pgas_status_t pgas_verbs_snic_serve(const char *name, uint64_t idle_ns);

/** The state of a software NIC's process. */
typedef struct {
    size_t size; /* sizeof(pgas_verbs_snic_info_t), set by the caller */
    int pid;
    int n_clients; /* devices that are open; each counts as one client */
    int n_clients_max;
    uint64_t up_ns; /* time since its start */
} pgas_verbs_snic_info_t;

/** Queries the software NIC's process of this node and user. It never starts one.
 *  Shape:  any thread; it waits for at most some 15 seconds.
 *  @param name  as engine_name; NULL: "default"
 *  @return PGAS_OK
 *          PGAS_ERR_NOT_FOUND  no such process runs
 *          PGAS_ERR_TIMEOUT    the process does not answer
 *          PGAS_ERR_INVALID    info_p is NULL, or its size is wrong
 *          PGAS_ERR_IO         the process belongs to another user, or its answer is invalid
 *          With an error *info_p is unchanged. */
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
    void *inside; /* belongs to the library */
} pgas_verbs_mem_t;

/** Registers memory of the caller, which must stay mapped until release.
 *  Cost:   a system call at least; register by the gigabyte, not by the message.
 *  @return PGAS_OK
 *          PGAS_ERR_INVALID    no bytes, not mapped, unknown access bits, or remote writes or
 *                              atomics without LOCAL_WRITE
 *          PGAS_ERR_LIMIT      too many memory regions, or more bytes than may be locked
 *          PGAS_ERR_IO         the device refused
 *          PGAS_ERR_NO_MEMORY */
PGAS_API pgas_status_t pgas_verbs_mem_register(pgas_verbs_dev_t *dev, void *addr, size_t bytes,
                                               uint32_t access, pgas_verbs_mem_t *mem_p);

/** Allocates and registers memory: whole pages of zeros. The software NIC is faster on such memory
 *  than on memory that is only registered.
 *  Cost:   with the software NIC a file descriptor for each; allocate much at once.
 *  @return as pgas_verbs_mem_register; PGAS_ERR_LIMIT also if no file descriptors are left. */
PGAS_API pgas_status_t pgas_verbs_mem_alloc(pgas_verbs_dev_t *dev, size_t bytes, uint32_t access,
                                            pgas_verbs_mem_t *mem_p);

/** Ends a registration. Requests that still use it fail. Memory of pgas_verbs_mem_alloc is
 *  unmapped. */
PGAS_API void pgas_verbs_mem_release(pgas_verbs_dev_t *dev, pgas_verbs_mem_t *mem);

/* ---- completion queues ---- */

/* completions that are not polled are overwritten; for queues that only WAITs read */
#define PGAS_VERBS_CQ_IGNORE_OVERRUN 1u
#define PGAS_VERBS_CQ_EVENTS         2u /* has a file descriptor on which a thread can sleep */

typedef enum {
    PGAS_VERBS_SEND,
    PGAS_VERBS_SEND_IMM,
    PGAS_VERBS_WRITE,
    PGAS_VERBS_WRITE_IMM,
    PGAS_VERBS_READ,
    PGAS_VERBS_CSWAP,
    PGAS_VERBS_FADD,
    PGAS_VERBS_NOP, /* mlx5 and snic; with the provider verbs, a write of no bytes */
    /* chains only: the queue stops until a completion queue has produced the completion with this
     * index */
    PGAS_VERBS_WAIT,
    PGAS_VERBS_SEND_ENABLE, /* chains only: a managed send queue may run up to this position */
    /* chains only: a managed receive queue may be used up to this position */
    PGAS_VERBS_RECV_ENABLE,
    PGAS_VERBS_RECV, /* completions of receive queues only */
    PGAS_VERBS_RECV_WRITE_IMM
} pgas_verbs_op_t;

typedef struct {
    uint64_t id;         /* of the request, or of the receive buffer */
    pgas_verbs_qp_t *qp; /* NULL if it was closed meanwhile */
    /* PGAS_OK
     * PGAS_ERR_PEER       flushed, or the peer does not answer
     * PGAS_ERR_RANGE      wrong key, bounds or rights, here or at the peer
     * PGAS_ERR_AGAIN      the peer had no receive buffer, at the last retry
     * PGAS_ERR_INVALID    a malformed entry
     * PGAS_ERR_LIMIT      a receive buffer is too small
     * PGAS_ERR_TRANSPORT  any other failure */
    pgas_status_t status;
    uint32_t syndrome; /* the device's own code; 0 with PGAS_OK */
    pgas_verbs_op_t op;
    uint32_t bytes; /* bytes that arrived; reads and atomics: that were read */
    uint32_t imm;   /* SEND_IMM, WRITE_IMM at the receiver */
    bool has_imm;
} pgas_verbs_completion_t;

/** Opens a completion queue.
 *  @param depth  number of completions, rounded up; at most 2^22
 *  @param flags  PGAS_VERBS_CQ_ bits
 *  @return PGAS_OK
 *          PGAS_ERR_INVALID      depth 0, or unknown flags
 *          PGAS_ERR_LIMIT        too deep, too many queues, or no file descriptors are left
 *          PGAS_ERR_UNSUPPORTED  the device does not have these flags
 *          PGAS_ERR_IO           the device refused
 *          PGAS_ERR_NO_MEMORY */
PGAS_API pgas_status_t pgas_verbs_cq_open(pgas_verbs_dev_t *dev, uint32_t depth, uint32_t flags,
                                          pgas_verbs_cq_t **cq_p);

/** Closes a completion queue.
 *  @return PGAS_OK
 *          PGAS_ERR_BUSY  queue pairs use it; nothing has happened */
PGAS_API pgas_status_t pgas_verbs_cq_close(pgas_verbs_cq_t *cq);

/** Takes up to n completions, without waiting.
 *  @return the number of completions;
 *          -1: the queue has overrun and is dead, or the software NIC's process has ended. */
PGAS_API int pgas_verbs_cq_poll(pgas_verbs_cq_t *cq, pgas_verbs_completion_t *completions, int n);

/** Waits until the queue has a completion, which stays to be polled. It spins briefly, then sleeps
 *  on the descriptor. A queue without EVENTS sleeps for short times instead.
 *  @param timeout_ns  UINT64_MAX: for ever
 *  @return PGAS_OK
 *          PGAS_ERR_TIMEOUT    the time is over
 *          PGAS_ERR_TRANSPORT  the queue is dead, as with -1 from pgas_verbs_cq_poll */
PGAS_API pgas_status_t pgas_verbs_cq_wait(pgas_verbs_cq_t *cq, uint64_t timeout_ns);

/** Gives the file descriptor that becomes readable once for each arm, when a completion arrives.
 *  @return PGAS_OK
 *          PGAS_ERR_UNSUPPORTED  the queue has no EVENTS */
PGAS_API pgas_status_t pgas_verbs_cq_fd(pgas_verbs_cq_t *cq, int *fd_p);

/** Arms the descriptor for the next completion; with `solicited` for the next one of a solicited
 *  request, or the next error. First it takes all events that the descriptor holds.
 *  Shape:  one thread at a time, and only one thread may sleep on the descriptor. If two threads
 *          arm one completion queue, the arm of one can take the event on which the other sleeps.
 *          That event is lost, and the other thread sleeps on. (pgas_verbs_cq_wait and
 *          pgas_verbs_tx_wait arm, too. They sleep at most 100 ms at a time, so that a lost event
 *          only delays them.)
 *  @return PGAS_OK
 *          PGAS_ERR_BUSY         completions are there already; poll them first
 *          PGAS_ERR_UNSUPPORTED  the queue has no EVENTS
 *          PGAS_ERR_IO           the device refused */
PGAS_API pgas_status_t pgas_verbs_cq_arm(pgas_verbs_cq_t *cq, bool solicited);

/* ---- queue pairs ---- */

/** A piece of registered memory. */
typedef struct {
    uint64_t addr;
    uint32_t bytes; /* up to 2^31 */
    uint32_t lkey;
} pgas_verbs_span_t;

#define PGAS_VERBS_SIGNAL    1u /* a completion when done; without it only after an error */
#define PGAS_VERBS_SOLICITED 2u /* wakes a receiver that is armed for solicited completions */
#define PGAS_VERBS_FENCE     4u /* starts when reads and atomics before it have their results */
#define PGAS_VERBS_INLINE    8u /* bytes are copied while posting: no lkey, reusable at once */

/** A request. Fields that its operation does not name need not be set. */
typedef struct {
    pgas_verbs_op_t op;
    uint32_t flags; /* PGAS_VERBS_SIGNAL .. */
    uint64_t id;    /* returned in the completion */
    /* source (SEND, WRITE) or destination (READ; atomics: 8 bytes for the old value) */
    const pgas_verbs_span_t *spans;
    uint32_t n_spans;
    uint32_t imm;
    uint64_t remote_addr; /* WRITE, READ, atomics (a multiple of 8) */
    uint32_t rkey;
    /* WAIT: the number of completions that the queue produced before the one to wait for, 24 bits;
     * ENABLE: a position of the target, see pgas_verbs_qp_position */
    uint32_t index;
    uint64_t operand; /* FADD: the summand; CSWAP: stored if the word equals compare */
    uint64_t compare;
    pgas_verbs_cq_t *cq; /* WAIT */
    /* ENABLE: any queue pair of the device, also the same one */
    pgas_verbs_qp_t *qp;
} pgas_verbs_request_t;

#define PGAS_VERBS_QP_MASTER 1u /* may post WAIT and ENABLE */
/* its send queue runs only up to what ENABLE allows; until then posted entries may be rewritten */
#define PGAS_VERBS_QP_MANAGED_SEND 2u
#define PGAS_VERBS_QP_MANAGED_RECV 4u
/* peers may write to its send queue's memory: pgas_verbs_qp_buffer */
#define PGAS_VERBS_QP_REMOTE_SLOTS   8u
#define PGAS_VERBS_QP_IGNORE_OVERRUN 16u /* the caller counts outstanding entries; see chains */

typedef struct {
    size_t size;
    pgas_verbs_cq_t *send_cq, *recv_cq; /* may be the same */
    pgas_verbs_srq_t *srq;              /* NULL: the queue pair has a receive queue of its own */
    uint32_t send_depth;                /* requests; default 256 */
    uint32_t recv_depth;                /* buffers; default 256; ignored with an srq */
    uint32_t send_spans;                /* of one request at most; default 5 */
    uint32_t recv_spans;                /* default 1 */
    uint32_t inline_max;                /* bytes; default 60 */
    uint32_t flags;                     /* PGAS_VERBS_QP_ bits */
    uint32_t access;                    /* rights of the peer; default PGAS_VERBS_ACCESS_ALL */
    uint32_t retry; /* 0 to 7, default 7: retries before the peer counts as dead */
    /* 0 to 7: retries while the peer has no receive buffer; 7, the default: without end */
    uint32_t rnr_retry;
    uint32_t reads_max; /* reads and atomics that may be outstanding; default 16 */
} pgas_verbs_qp_opts_t;
#define PGAS_VERBS_QP_OPTS_INIT                                                \
    {                                                                          \
        sizeof(pgas_verbs_qp_opts_t), NULL, NULL, NULL, 256, 256, 5, 1, 60, 0, \
            PGAS_VERBS_ACCESS_ALL, 7, 7, 16                                    \
    }

/** The address of a queue pair, which the program sends to the peer by any means. Plain bytes, the
 *  same on all machines. */
typedef struct {
    uint8_t bytes[96];
} pgas_verbs_address_t;

/** Opens a queue pair. Before it is connected it can neither send nor receive, but receive buffers
 *  can be posted.
 *  @return PGAS_OK
 *          PGAS_ERR_INVALID      a NULL pointer, or an option out of range
 *          PGAS_ERR_LIMIT        deeper than the device allows
 *          PGAS_ERR_UNSUPPORTED  flags that need chains, on a device without; the log says why
 *          PGAS_ERR_IO           the device refused
 *          PGAS_ERR_NO_MEMORY */
PGAS_API pgas_status_t pgas_verbs_qp_open(pgas_verbs_dev_t *dev, const pgas_verbs_qp_opts_t *opts,
                                          pgas_verbs_qp_t **qp_p);

/** Closes a queue pair. Requests of the peer fail from then on. Completions of the queue pair that
 *  were not polled are dropped, or come with qp NULL. */
PGAS_API void pgas_verbs_qp_close(pgas_verbs_qp_t *qp);

PGAS_API void pgas_verbs_qp_address(const pgas_verbs_qp_t *qp, pgas_verbs_address_t *address_p);

/** Connects to the queue pair with this address, which must connect as well. A queue pair may
 *  connect to itself.
 *  Done:   requests can be posted. The device repeats sends for some seconds (opts.retry) while the
 *          peer has not connected yet.
 *  @return PGAS_OK
 *          PGAS_ERR_INVALID   a NULL pointer
 *          PGAS_ERR_FORMAT    not an address
 *          PGAS_ERR_MISMATCH  an address of another provider or machine
 *          PGAS_ERR_EXISTS    already connected
 *          PGAS_ERR_PEER      the peer has ended
 *          PGAS_ERR_LIMIT     no file descriptors are left
 *          PGAS_ERR_IO        the device refused */
PGAS_API pgas_status_t pgas_verbs_qp_connect(pgas_verbs_qp_t *qp, const pgas_verbs_address_t *peer);

/** Writes requests into the send queue, in order. The device sees them at the next ring.
 *  @param n_p  the number of requests taken, also after an error, which is about the next one. May
 *              be NULL if n is 1
 *  @return PGAS_OK
 *          PGAS_ERR_AGAIN        the queue is full: poll
 *          PGAS_ERR_INVALID      a malformed request
 *          PGAS_ERR_LIMIT        too many spans or inline bytes, or more than 2 GiB in one request
 *          PGAS_ERR_UNSUPPORTED  an operation that the queue pair or device does not have
 *          PGAS_ERR_PEER         the connection has ended
 *          PGAS_ERR_NOT_INIT     the queue pair is not connected */
PGAS_API pgas_status_t pgas_verbs_qp_write(pgas_verbs_qp_t *qp,
                                           const pgas_verbs_request_t *requests, uint32_t n,
                                           uint32_t *n_p);

/** Rings the doorbell: the device starts all requests that were written. Entries of a managed queue
 *  become known to the device, but run only when ENABLE allows it. */
PGAS_API pgas_status_t pgas_verbs_qp_ring(pgas_verbs_qp_t *qp);

/** Writes and rings. Statuses: as pgas_verbs_qp_write. */
PGAS_API pgas_status_t pgas_verbs_qp_post(pgas_verbs_qp_t *qp, const pgas_verbs_request_t *requests,
                                          uint32_t n, uint32_t *n_p);

/** Returns the position behind the last request written, for ENABLE. The wire has 16 bits of it;
 *  here it counts on. */
PGAS_API uint32_t pgas_verbs_qp_position(const pgas_verbs_qp_t *qp);

/** A receive buffer. */
typedef struct {
    uint64_t id;
    const pgas_verbs_span_t *spans;
    uint32_t n_spans;
} pgas_verbs_recv_t;

/** Posts receive buffers. The device sees them on return.
 *  @return PGAS_OK
 *          PGAS_ERR_AGAIN    the receive queue is full
 *          PGAS_ERR_LIMIT    too many spans, or one is too large
 *          PGAS_ERR_INVALID  the queue pair has no receive queue of its own */
PGAS_API pgas_status_t pgas_verbs_qp_recv(pgas_verbs_qp_t *qp, const pgas_verbs_recv_t *recvs,
                                          uint32_t n, uint32_t *n_p);

/** Opens a shared receive queue of up to `depth` buffers with up to `spans` spans each.
 *  @return as pgas_verbs_cq_open */
PGAS_API pgas_status_t pgas_verbs_srq_open(pgas_verbs_dev_t *dev, uint32_t depth, uint32_t spans,
                                           pgas_verbs_srq_t **srq_p);

/** Closes it. @return as pgas_verbs_cq_close */
PGAS_API pgas_status_t pgas_verbs_srq_close(pgas_verbs_srq_t *srq);

/** Posts receive buffers. @return as pgas_verbs_qp_recv */
PGAS_API pgas_status_t pgas_verbs_srq_recv(pgas_verbs_srq_t *srq, const pgas_verbs_recv_t *recvs,
                                           uint32_t n, uint32_t *n_p);

/** Gives the send queue's memory, so that peers can rewrite entries that are posted but not
 *  enabled.
 *  @param mem_p         the whole ring. The entry that begins at a position is at
 *                       mem.addr + position % (mem.bytes / slot_bytes) * slot_bytes
 *  @param slot_bytes_p  the size of a slot
 *  @return PGAS_OK
 *          PGAS_ERR_UNSUPPORTED  the queue pair has no PGAS_VERBS_QP_REMOTE_SLOTS, or the device
 *                                does not reveal its queue */
PGAS_API pgas_status_t pgas_verbs_qp_buffer(pgas_verbs_qp_t *qp, pgas_verbs_mem_t *mem_p,
                                            uint32_t *slot_bytes_p);

/* ---- chains ----
 *
 *  A chain is a program that a card executes without a CPU. It has two parts. Entries of a
 *  *managed* send queue (PGAS_VERBS_QP_MANAGED_SEND) do not run when they are posted. A *master*
 *  queue (PGAS_VERBS_QP_MASTER) has pairs of WAIT and SEND_ENABLE. A pair means: once this
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
 *  pgas_verbs_qp_buffer: with WRITE, atomics, or a message whose receive buffer is there. They may
 *  rewrite remote addresses, data, operands and immediate data. The software NIC also accepts new
 *  opcodes and flags. Cards may refuse those, and new positions or numbers of segments. Rewrite an
 *  entry after its last run has ended and before its next ENABLE. A card may read it at any moment
 *  after the ENABLE. A card may read an entry of a queue that is not managed as soon as it is
 *  posted; the adversary PREFETCH does so.
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
 *  completions. No hardware rule keeps a run from overtaking a patch. The peer may rewrite an entry
 *  for the next run when the entry's run has ended. The run's effect or its completion shows that.
 *
 *  Consumed resources. Signaled entries that run again need a completion queue with
 *  PGAS_VERBS_CQ_IGNORE_OVERRUN unless a thread polls it; indices of WAIT keep counting. The
 *  completion queue of a receive queue must be polled, because only that makes room for new
 *  buffers. The program posts the master's entries anew for each run, since their indices differ,
 *  and signals some of them, as in any queue. It may post many runs ahead; then no CPU takes part
 *  in a run. */

PGAS_END_DECLS

#include "pgas/verbs_tx.h"
#endif
