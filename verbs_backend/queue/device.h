/** The table behind pgas/verbs.h: the functions of a provider (verbs, mlx5, snic), and the first
 *  members of all of its objects.
 *
 *  verbs.c checks arguments and counts open objects. So providers see valid arguments only: sizes
 *  within the limits of query, spans within those of the queue pair, states in order. Providers set
 *  the first members as the comments say; the rest of an object is their own. One thread at a time
 *  posts to, rings and polls an object. Control functions may run on other objects at the same
 *  time. So providers protect the data that these share with the hot paths (the table from numbers
 *  to queue pairs). */
#ifndef PGASI_VERBS_DEVICE_H
#define PGASI_VERBS_DEVICE_H

#include <pthread.h>
#include <sched.h>
#include <stdint.h>
#include "base/checks.h"
#include "pgas/verbs_snic.h"

typedef struct pgasi_verbs_ops pgasi_verbs_ops_t;

typedef struct {
    uint32_t send_depth_max, recv_depth_max, spans_max, inline_max, reads_max;
    uint64_t message_max; /* bytes of one request, at most 2^31 */
    /* the device has an entry that does nothing; otherwise NOP is a write of no bytes */
    bool nop;
    /* Its atomics are atomic with those of the CPUs on the same word, in memory of mem_alloc. (snic
     * cannot do them at all in memory that another process has only registered.) */
    bool cpu_atomic;
    bool chains;
} pgasi_verbs_limits_t;

struct pgas_verbs_dev {
    const pgasi_verbs_ops_t *ops;
    pgas_verbs_info_t info;      /* set by the provider's open */
    pgasi_verbs_limits_t limits; /* set by the provider's open */
    int n_open;                  /* verbs.c: open objects and registrations, atomic */
    struct ibv_pd *pd;           /* verbs and mlx5: the protection domain of libibverbs */
};

struct pgas_verbs_cq {
    pgas_verbs_dev_t *dev; /* set by verbs.c, as are the flags */
    uint32_t flags;
    uint32_t depth;    /* set by the provider: the real depth of the queue */
    int n_users;       /* queue pairs that use it, atomic */
    uint32_t reserved; /* completions for which transmitters have reserved room (tx.c) */
    struct pgasi_verbs_poller *poller; /* of transmitters (tx.c); NULL: there are none */
    /* atomic: a completion was taken while waiting, and is polled next */
    bool has_kept;
    int kept_lock; /* held while a completion is taken, against threads that close its queue pair */
    pgas_verbs_completion_t kept;
    /* of providers: odd while a thread takes completions, see pgasi_verbs_await_poller */
    uint32_t rounds;
    bool overrun; /* verbs and mlx5, atomic: the device has reported an overrun */
};

struct pgas_verbs_srq {
    pgas_verbs_dev_t *dev;
    uint32_t depth, spans; /* set by the provider */
    int n_users;
};

struct pgas_verbs_qp {
    pgas_verbs_dev_t *dev; /* set by verbs.c */
    /* set by verbs.c: as given, with defaults filled in; the provider raises depths and inline_max
     * to what it has */
    pgas_verbs_qp_opts_t opts;
    bool connected;
    pgas_verbs_tx_t *tx;
};

/** A polling thread takes queue pairs out of a table without a lock, but only between begin and end
 *  of a round. */
static inline void pgasi_verbs_round_begin(pgas_verbs_cq_t *cq)
{
    __atomic_store_n(&cq->rounds, cq->rounds + 1, __ATOMIC_SEQ_CST);
}
static inline void pgasi_verbs_round_end(pgas_verbs_cq_t *cq)
{
    __atomic_store_n(&cq->rounds, cq->rounds + 1, __ATOMIC_RELEASE);
}
/** On return no thread that polls this queue still uses an object that was removed from the table
 *  before, by a sequentially consistent store. */
static inline void pgasi_verbs_await_poller(const pgas_verbs_cq_t *cq)
{
    uint32_t round = __atomic_load_n(&cq->rounds, __ATOMIC_SEQ_CST);
    while (round % 2 != 0 && __atomic_load_n(&cq->rounds, __ATOMIC_ACQUIRE) == round)
        sched_yield();
}

struct pgasi_verbs_ops {
    const char *name;
    /** Appends the ports that can be opened to infos, from *n_p on; *n_p also counts those that do
     *  not fit. */
    pgas_status_t (*list)(pgas_verbs_info_t *infos, int n_max, int *n_p);
    /** @param device  name without provider and port
     *  @param port  0: the first active one */
    pgas_status_t (*open)(const pgas_verbs_dev_opts_t *opts, const char *device, int port,
                          pgas_verbs_dev_t **dev_p);
    void (*close)(pgas_verbs_dev_t *dev);
    bool (*step)(pgas_verbs_dev_t *dev); /* snic */

    pgas_status_t (*mem_register)(pgas_verbs_dev_t *dev, void *addr, size_t bytes, uint32_t access,
                                  pgas_verbs_mem_t *mem_p);
    pgas_status_t (*mem_alloc)(pgas_verbs_dev_t *dev, size_t bytes, uint32_t access,
                               pgas_verbs_mem_t *mem_p);
    /** Registers memory that another device of the provider has allocated or registered, which it
     *  outlives. Optional: mem_register does. */
    pgas_status_t (*mem_again)(pgas_verbs_dev_t *dev, const pgas_verbs_mem_t *first,
                               uint32_t access, pgas_verbs_mem_t *mem_p);
    void (*mem_release)(pgas_verbs_dev_t *dev, pgas_verbs_mem_t *mem);
    /** snic only: maps memory that mem_alloc of another process has allocated, by its packed
     *  description. pack writes up to *bytes_io bytes; unmap undoes map. */
    pgas_status_t (*mem_pack)(pgas_verbs_dev_t *dev, const pgas_verbs_mem_t *mem, void *buffer,
                              size_t *bytes_io);
    pgas_status_t (*mem_map)(pgas_verbs_dev_t *dev, const void *buffer, size_t bytes,
                             void **addr_p);
    void (*mem_unmap)(pgas_verbs_dev_t *dev, const void *buffer, size_t bytes, void *addr);

    pgas_status_t (*cq_open)(pgas_verbs_dev_t *dev, uint32_t depth, uint32_t flags,
                             pgas_verbs_cq_t **cq_p);
    void (*cq_close)(pgas_verbs_cq_t *cq);
    int (*cq_poll)(pgas_verbs_cq_t *cq, pgas_verbs_completion_t *completions, int n);
    pgas_status_t (*cq_fd)(pgas_verbs_cq_t *cq, int *fd_p);
    pgas_status_t (*cq_arm)(pgas_verbs_cq_t *cq, bool solicited);

    pgas_status_t (*srq_open)(pgas_verbs_dev_t *dev, uint32_t depth, uint32_t spans,
                              pgas_verbs_srq_t **srq_p);
    void (*srq_close)(pgas_verbs_srq_t *srq);
    pgas_status_t (*srq_recv)(pgas_verbs_srq_t *srq, const pgas_verbs_recv_t *recvs, uint32_t n,
                              uint32_t *n_p);

    pgas_status_t (*qp_open)(pgas_verbs_dev_t *dev, const pgas_verbs_qp_opts_t *opts,
                             pgas_verbs_qp_t **qp_p);
    void (*qp_close)(pgas_verbs_qp_t *qp);
    void (*qp_address)(const pgas_verbs_qp_t *qp, pgas_verbs_address_t *address_p);
    pgas_status_t (*qp_connect)(pgas_verbs_qp_t *qp, const pgas_verbs_address_t *peer);
    pgas_status_t (*qp_write)(pgas_verbs_qp_t *qp, const pgas_verbs_request_t *requests, uint32_t n,
                              uint32_t *n_p);
    /** Writes one request with these flags and this id instead of its own, so that transmitters
     *  need not copy it. Optional. It refuses what qp_write refuses; send_depth requests of the
     *  largest kind always fit. */
    pgas_status_t (*qp_write_one)(pgas_verbs_qp_t *qp, const pgas_verbs_request_t *request,
                                  uint32_t flags, uint64_t id);
    pgas_status_t (*qp_ring)(pgas_verbs_qp_t *qp);
    uint32_t (*qp_position)(const pgas_verbs_qp_t *qp);
    pgas_status_t (*qp_recv)(pgas_verbs_qp_t *qp, const pgas_verbs_recv_t *recvs, uint32_t n,
                             uint32_t *n_p);
    pgas_status_t (*qp_buffer)(pgas_verbs_qp_t *qp, pgas_verbs_mem_t *mem_p,
                               uint32_t *slot_bytes_p);
};

/** Polls without the check for a completion that pgas_verbs_cq_wait has taken. For queues on which
 *  no thread waits with that function. */
static inline int pgasi_verbs_poll_bare(pgas_verbs_cq_t *cq, pgas_verbs_completion_t *completions,
                                        int n)
{
    return cq->dev->ops->cq_poll(cq, completions, n);
}

/** The providers of this build, hardware first; NULL ends the list (devices.c). mlx5 lists the
 *  devices that it can drive, verbs all others; "verbs:NAME" opens any device. */
extern const pgasi_verbs_ops_t *const pgasi_verbs_providers[];
extern const pgasi_verbs_ops_t pgasi_verbs_ibv;  /* provider_ibv.c */
extern const pgasi_verbs_ops_t pgasi_verbs_mlx5; /* provider_mlx5.c */
extern const pgasi_verbs_ops_t pgasi_verbs_snic; /* provider_snic.c */

/** Keeps transmitters from polling a completion queue while one of its queue pairs is closed. Not
 *  to be called by advance functions. */
void pgasi_verbs_hold_poller(pgas_verbs_cq_t *cq);
void pgasi_verbs_release_poller(pgas_verbs_cq_t *cq);

/** Registers memory with a further device, which has the provider of the first one. It is released
 *  there before the first one releases it. */
pgas_status_t pgasi_verbs_register_again(pgas_verbs_dev_t *dev, const pgas_verbs_mem_t *first,
                                         uint32_t access, pgas_verbs_mem_t *mem_p);

/** Lists all ports as pgas_verbs_list does, in one pass.
 *  @param infos  n_max entries to fill; may be NULL if n_max is 0
 *  @param n_p     the number of ports, which may exceed n_max */
pgas_status_t pgasi_verbs_list(pgas_verbs_info_t *infos, int n_max, int *n_p);

/** The GIDs of a port that are set, for devices that libibverbs knows (port.c). gids, n_max and n_p
 *  are as above. */
pgas_status_t pgasi_verbs_gids(const char *device, int port, pgas_verbs_gid_t *gids, int n_max,
                               int *n_p);

/** A time limit in nanoseconds. UINT64_MAX: none. */
static inline uint64_t pgasi_verbs_limit_ns(int64_t timeout_us)
{
    return timeout_us < 0 || timeout_us > INT64_MAX / 1000 ? UINT64_MAX
                                                           : (uint64_t)timeout_us * 1000;
}

/** The status of a completion for a syndrome of mlx5 (wqe.h), or its equal of another provider. */
pgas_status_t pgasi_verbs_syndrome_status(uint32_t syndrome);

/** The first words of every packed address: its provider. */
typedef struct {
    uint32_t magic; /* PGASI_VERBS_ADDRESS_MAGIC */
    /* PGASI_VERBS_WIRE_RDMA: verbs and mlx5, which reach each other; PGASI_VERBS_WIRE_SNIC */
    uint32_t provider;
} pgasi_verbs_address_head_t;
#define PGASI_VERBS_ADDRESS_MAGIC 0x31565150u
enum { PGASI_VERBS_WIRE_RDMA = 1, PGASI_VERBS_WIRE_SNIC = 2 };

#endif
