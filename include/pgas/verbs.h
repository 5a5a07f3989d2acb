/** Queue pairs under the program's own control: the low level below the library, usable without it
 *  and without MPI. Link with -lpgas-verbs, or with -lpgas, which contains it.
 *
 *  A program opens a device, registers memory, and creates a completion queue and a queue pair. It
 *  exchanges addresses with the peer by any means (pgas_verbs_qp_info) and connects. Then it posts
 *  requests and polls completions. See examples/13_queue_pairs.c. Transmitters (pgas/verbs_tx.h)
 *  decide which requests are signaled, count completed requests, and never overflow. docs/chains.md
 *  describes chains: requests that a card executes one after the other without a CPU.
 *
 *  | provider | what it uses                                                                    |
 *  |---|---|
 *  | verbs    | libibverbs, on any card                                                         |
 *  | mlx5     | queues of this library on NVIDIA's cards; the only hardware with WAIT, ENABLE   |
 *  | snic     | a software NIC that executes mlx5's work queue entries over shared memory       |
 *
 *  Completion. A request is complete when its bytes have arrived (WRITE, SEND) or its result is
 *  here (READ, atomics). A queue pair completes its requests in order, so one completion reports
 *  all requests before it. Most requests therefore need none (selective signaling).
 *
 *  Threads. Any thread may create, connect and destroy objects, one thread at a time per object.
 *  One thread at a time may post to a queue pair, post to a shared receive queue, or use a
 *  completion queue (poll, wait, arm). After a fork the child must not use the parent's objects.
 *
 *  Errors of a connection end it: requests that are not complete complete with a status, and later
 *  requests are flushed (PGAS_ERR_PEER). Timeouts are in microseconds; a negative one means for
 *  ever. Destroying, closing or releasing NULL does nothing and returns PGAS_OK.
 *
 *  Statuses that are not listed below have the same meaning everywhere:
 *          PGAS_ERR_INVALID      a NULL pointer, unknown flags, or an option out of range
 *          PGAS_ERR_LIMIT        more than the device allows, or no file descriptors are left
 *          PGAS_ERR_UNSUPPORTED  the device cannot do it; the log says why
 *          PGAS_ERR_IO           the device refused
 *          PGAS_ERR_BUSY         of a destroy or close: another object uses this one; nothing has
 *                                happened
 *          PGAS_ERR_NO_MEMORY
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

typedef struct pgas_verbs_dev pgas_verbs_dev_t; /* opened device and port, protection domain */
typedef struct pgas_verbs_cq pgas_verbs_cq_t;   /* completion queue */
typedef struct pgas_verbs_srq pgas_verbs_srq_t; /* receive queue that queue pairs share */
typedef struct pgas_verbs_qp pgas_verbs_qp_t;   /* reliable connected queue pair */

/* ---- devices ---- */

typedef struct {
    size_t size;       /* sizeof(pgas_verbs_info_t), set by the caller */
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

/** Describes port i of the devices that can be opened here, from 0. The software NIC is the last.
 *  @return PGAS_ERR_NOT_FOUND  there are not so many ports */
PGAS_API pgas_status_t pgas_verbs_list(int i, pgas_verbs_info_t *info_p);

/** An address of a port. */
typedef struct {
    int index;     /* with RoCE it also selects the kind of frames */
    char link[16]; /* "InfiniBand", "RoCE v2", "RoCE v1" */
    uint8_t gid[16];
} pgas_verbs_gid_t;

/** Describes one of the info.n_gids GIDs of a port that are set, from 0.
 *  @return PGAS_ERR_NOT_FOUND  no such device or port, or there are not so many GIDs */
PGAS_API pgas_status_t pgas_verbs_gid(const char *device, int port, int i, pgas_verbs_gid_t *gid_p);

/** The executor of the software NIC's work. CALLER is fastest on machines without idle cores; a
 *  sleeping thread of the library executes what remains, such as entries behind a WAIT. A PROCESS
 *  is one for each node, user and name, and continues if this process stops. */
typedef enum {
    PGAS_VERBS_ENGINE_CALLER, /* the thread that rings or polls */
    PGAS_VERBS_ENGINE_THREAD, /* one thread of this process */
    PGAS_VERBS_ENGINE_PROCESS
} pgas_verbs_engine_t;

struct pgas_verbs_snic_opts;

typedef struct {
    size_t size;
    /* "snic", "mlx5_0", "mlx5_0:1"; "verbs:" or "mlx5:" in front selects the provider. NULL: the
     * first active port, hardware first */
    const char *device;
    int gid_index; /* -1: RoCE v2 with IPv4 first, then RoCE v2, then v1; InfiniBand: the first */
    pgas_verbs_engine_t engine;
    const char *engine_name; /* PROCESS: the same for ranks that communicate; NULL: "default" */
    const struct pgas_verbs_snic_opts *snic; /* for tests, see pgas/verbs_snic.h; or NULL */
} pgas_verbs_dev_opts_t;
#define PGAS_VERBS_DEV_OPTS_INIT                                                      \
    {                                                                                 \
        sizeof(pgas_verbs_dev_opts_t), NULL, -1, PGAS_VERBS_ENGINE_CALLER, NULL, NULL \
    }

/** Opens a device. opts NULL: defaults.
 *  @return PGAS_ERR_NOT_FOUND  no such device, or none is active
 *          PGAS_ERR_LIMIT      also: the software NIC's process has its maximum of clients
 *          PGAS_ERR_IO         also: that process belongs to another user, or does not answer */
PGAS_API pgas_status_t pgas_verbs_open(const pgas_verbs_dev_opts_t *opts, pgas_verbs_dev_t **dev_p);
PGAS_API pgas_status_t pgas_verbs_close(pgas_verbs_dev_t *dev);

/** Describes an open device and the choices that were made for it. */
PGAS_API pgas_status_t pgas_verbs_info(const pgas_verbs_dev_t *dev, pgas_verbs_info_t *info_p);

/* ---- memory ---- */

#define PGAS_VERBS_REMOTE_READ   1u
#define PGAS_VERBS_REMOTE_WRITE  2u
#define PGAS_VERBS_REMOTE_ATOMIC 4u
#define PGAS_VERBS_LOCAL_WRITE   8u /* remote writes and atomics need it, too */
#define PGAS_VERBS_ACCESS_ALL    15u

/** Registered memory: a plain value. */
typedef struct {
    void *addr;
    size_t bytes;
    uint32_t lkey, rkey; /* for own requests; for those of peers */
    void *inside;        /* belongs to the library */
} pgas_verbs_mem_t;

/** Registers memory of the caller, which must stay mapped until release. With addr NULL it first
 *  allocates the memory: whole pages of zeros, on which the software NIC is faster.
 *  Cost:   system calls and, with the software NIC, a descriptor: register by the gigabyte.
 *  @return PGAS_ERR_INVALID  also: no bytes, or not mapped
 *          PGAS_ERR_LIMIT    also: too many memory regions, or more bytes than may be locked */
PGAS_API pgas_status_t pgas_verbs_mem_register(pgas_verbs_dev_t *dev, void *addr, size_t bytes,
                                               uint32_t access, pgas_verbs_mem_t *mem_p);

/** Ends a registration, and unmaps memory that was allocated. *mem is zero afterwards. */
PGAS_API pgas_status_t pgas_verbs_mem_release(pgas_verbs_dev_t *dev, pgas_verbs_mem_t *mem);

/* ---- completion queues ---- */

typedef enum {
    PGAS_VERBS_SEND,
    PGAS_VERBS_SEND_IMM,
    PGAS_VERBS_WRITE,
    PGAS_VERBS_WRITE_IMM,
    PGAS_VERBS_READ,
    PGAS_VERBS_CSWAP,
    PGAS_VERBS_FADD,
    PGAS_VERBS_NOP,         /* mlx5 and snic; with the provider verbs, a write of no bytes */
    PGAS_VERBS_WAIT,        /* chains: stops the queue until a completion of that index exists */
    PGAS_VERBS_SEND_ENABLE, /* chains: a managed send queue may run up to this position */
    PGAS_VERBS_RECV_ENABLE, /* chains: the same for a managed receive queue */
    PGAS_VERBS_RECV,        /* completions of receive queues only */
    PGAS_VERBS_RECV_WRITE_IMM
} pgas_verbs_op_t;

typedef struct {
    uint64_t id;         /* of the request, or of the receive buffer */
    pgas_verbs_qp_t *qp; /* NULL if it was destroyed meanwhile */
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

#define PGAS_VERBS_CQ_IGNORE_OVERRUN 1u /* completions that are not polled are overwritten */
#define PGAS_VERBS_CQ_EVENTS         2u /* has a file descriptor on which a thread can sleep */

/** Creates a completion queue for `depth` completions, rounded up; at most 2^22. */
PGAS_API pgas_status_t pgas_verbs_cq_create(pgas_verbs_dev_t *dev, uint32_t depth, uint32_t flags,
                                            pgas_verbs_cq_t **cq_p);
PGAS_API pgas_status_t pgas_verbs_cq_destroy(pgas_verbs_cq_t *cq);

/** Takes up to n completions, without waiting.
 *  @return their number. -1: the queue has overrun, or the software NIC's process has ended */
PGAS_API int pgas_verbs_cq_poll(pgas_verbs_cq_t *cq, pgas_verbs_completion_t *completions, int n);

/** Waits until the queue has a completion, which stays to be polled. It spins, then sleeps on the
 *  descriptor; without EVENTS for short times.
 *  @return PGAS_ERR_TIMEOUT
 *          PGAS_ERR_TRANSPORT  the queue is dead, as with -1 from pgas_verbs_cq_poll */
PGAS_API pgas_status_t pgas_verbs_cq_wait(pgas_verbs_cq_t *cq, int64_t timeout_us);

/** Gives the file descriptor (with EVENTS) that becomes readable once for each arm. */
PGAS_API pgas_status_t pgas_verbs_cq_fd(pgas_verbs_cq_t *cq, int *fd_p);

/** Arms the descriptor for the next completion; with `solicited` for the next one of a solicited
 *  request, or the next error. First it takes all events that the descriptor holds.
 *  Shape:  only one thread may sleep on the descriptor, because the arm of another thread can take
 *          its event. pgas_verbs_cq_wait and pgas_verbs_tx_wait arm, too.
 *  @return PGAS_ERR_BUSY  completions are there already; poll them first */
PGAS_API pgas_status_t pgas_verbs_cq_arm(pgas_verbs_cq_t *cq, bool solicited);

/* ---- queue pairs ---- */

/** A piece of registered memory. */
typedef struct {
    uint64_t addr;
    uint32_t bytes; /* up to 2^31 */
    uint32_t lkey;
} pgas_verbs_span_t;

#define PGAS_VERBS_SIGNAL    1u  /* a completion when done; without it only after an error */
#define PGAS_VERBS_SOLICITED 2u  /* wakes a receiver that is armed for solicited completions */
#define PGAS_VERBS_FENCE     4u  /* starts when reads and atomics before it have their results */
#define PGAS_VERBS_INLINE    8u  /* bytes are copied while posting: no lkey, reusable at once */
#define PGAS_VERBS_MORE      16u /* on the last request of a post: it does not ring the doorbell */

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
    uint32_t index;   /* WAIT: of a completion (24 bits); ENABLE: a position; see chains */
    uint64_t operand; /* FADD: the summand; CSWAP: stored if the word equals compare */
    uint64_t compare;
    pgas_verbs_cq_t *cq; /* WAIT */
    pgas_verbs_qp_t *qp; /* ENABLE: any queue pair of the device, also the same one */
} pgas_verbs_request_t;

#define PGAS_VERBS_QP_MASTER         1u  /* may post WAIT and ENABLE */
#define PGAS_VERBS_QP_MANAGED_SEND   2u  /* its send queue runs only up to what ENABLE allows */
#define PGAS_VERBS_QP_MANAGED_RECV   4u  /* the same for its receive queue */
#define PGAS_VERBS_QP_REMOTE_SLOTS   8u  /* peers may write to its send queue: info.slots */
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
    uint32_t retry;     /* 0 to 7, default 7: retries before the peer counts as dead */
    uint32_t rnr_retry; /* the same while the peer has no receive buffer; 7: without end */
    uint32_t reads_max; /* reads and atomics that may be outstanding; default 16 */
} pgas_verbs_qp_opts_t;
#define PGAS_VERBS_QP_OPTS_INIT                                                \
    {                                                                          \
        sizeof(pgas_verbs_qp_opts_t), NULL, NULL, NULL, 256, 256, 5, 1, 60, 0, \
            PGAS_VERBS_ACCESS_ALL, 7, 7, 16                                    \
    }

/** Creates a queue pair. Receive buffers can be posted before it is connected. */
PGAS_API pgas_status_t pgas_verbs_qp_create(pgas_verbs_dev_t *dev, const pgas_verbs_qp_opts_t *opts,
                                            pgas_verbs_qp_t **qp_p);

/** Destroys a queue pair. Requests of the peer fail from then on. Completions that were not polled
 *  are dropped, or come with qp NULL. */
PGAS_API pgas_status_t pgas_verbs_qp_destroy(pgas_verbs_qp_t *qp);

/** The address of a queue pair: plain bytes, the same on all machines. */
typedef struct {
    uint8_t bytes[96];
} pgas_verbs_address_t;

typedef struct {
    size_t size;
    pgas_verbs_address_t address;
    uint32_t send_depth, recv_depth, inline_max; /* at least what the options asked for */
    /* With REMOTE_SLOTS: the ring of the send queue. The entry that begins at a position is at
     * slots.addr + position % (slots.bytes / slot_bytes) * slot_bytes. Otherwise zero. */
    pgas_verbs_mem_t slots;
    uint32_t slot_bytes;
    bool connected;
} pgas_verbs_qp_info_t;
PGAS_API pgas_status_t pgas_verbs_qp_info(const pgas_verbs_qp_t *qp, pgas_verbs_qp_info_t *info_p);

/** Connects to the queue pair with this address, which must connect as well; it may be the same
 *  one. The device repeats sends for some seconds (opts.retry) while the peer is not connected.
 *  @return PGAS_ERR_FORMAT    not an address
 *          PGAS_ERR_MISMATCH  an address of another provider or machine
 *          PGAS_ERR_EXISTS    already connected
 *          PGAS_ERR_PEER      the peer has ended */
PGAS_API pgas_status_t pgas_verbs_qp_connect(pgas_verbs_qp_t *qp, const pgas_verbs_address_t *peer);

/** Writes requests into the send queue, in order, and rings the doorbell: the device starts them.
 *  Entries of a managed queue run only when ENABLE allows it. If the last of the n requests has the
 *  flag MORE it does not ring; a later post does. n 0: only rings.
 *  @param n_p  the number of requests taken, also after an error, which is about the next one. May
 *              be NULL if n is at most 1
 *  @return PGAS_ERR_AGAIN        the queue is full: poll
 *          PGAS_ERR_LIMIT        too many spans or inline bytes, or more than 2 GiB in one request
 *          PGAS_ERR_UNSUPPORTED  an operation that the queue pair or device does not have
 *          PGAS_ERR_PEER         the connection has ended
 *          PGAS_ERR_NOT_INIT     the queue pair is not connected */
PGAS_API pgas_status_t pgas_verbs_qp_post(pgas_verbs_qp_t *qp, const pgas_verbs_request_t *requests,
                                          uint32_t n, uint32_t *n_p);

/** Returns the position behind the last request posted, for ENABLE. */
PGAS_API uint32_t pgas_verbs_qp_position(const pgas_verbs_qp_t *qp);

/** A receive buffer. */
typedef struct {
    uint64_t id;
    const pgas_verbs_span_t *spans;
    uint32_t n_spans;
} pgas_verbs_recv_t;

/** Posts receive buffers. n_p is as in pgas_verbs_qp_post.
 *  @return PGAS_ERR_AGAIN    the receive queue is full
 *          PGAS_ERR_LIMIT    too many spans, or one is too large
 *          PGAS_ERR_INVALID  the queue pair has no receive queue of its own */
PGAS_API pgas_status_t pgas_verbs_qp_recv(pgas_verbs_qp_t *qp, const pgas_verbs_recv_t *recvs,
                                          uint32_t n, uint32_t *n_p);

/** Creates a shared receive queue of up to `depth` buffers with up to `spans` spans each. */
PGAS_API pgas_status_t pgas_verbs_srq_create(pgas_verbs_dev_t *dev, uint32_t depth, uint32_t spans,
                                             pgas_verbs_srq_t **srq_p);
PGAS_API pgas_status_t pgas_verbs_srq_destroy(pgas_verbs_srq_t *srq);
PGAS_API pgas_status_t pgas_verbs_srq_recv(pgas_verbs_srq_t *srq, const pgas_verbs_recv_t *recvs,
                                           uint32_t n, uint32_t *n_p); /* as pgas_verbs_qp_recv */

PGAS_END_DECLS

#include "pgas/verbs_tx.h"
#endif
