/** Groups: memory that one to 64 replicas hold, changed by operations that run along the chain of
 *  the replicas. Where the network card has WAIT and ENABLE, no CPU of a replica takes part.
 *
 *      pgas_group_t *group;
 *      pgas_group_create(NULL, NULL, &group);           collective; or pgas_group_join(address, ..)
 *      if (pgas_rank() == 0) {                          the client
 *          pgas_group_write(group, 4096, "hello", 6);   at offset 4096 of every replica
 *          pgas_group_flush(group, 4096, 6);
 *      }
 *      pgas_group_destroy(group);
 *
 *  A group has members and clients. Each member, a replica, has a region of the same size. Clients
 *  submit operations. An operation passes from the first replica to the last one, which
 *  acknowledges it to the client. An operation is complete when all replicas have executed it.
 *
 *  | operation | each replica                                                                     |
 *  |---|---|
 *  | write     | stores the client's bytes at an offset of its region                             |
 *  | memcpy    | copies bytes within its region                                                   |
 *  | cas       | compares and swaps 8 bytes, if execute_map names it; returns the old value       |
 *  | flush     | reads the range back, behind the writes before it                                |
 *
 *  Ways. The way is the same for all members and clients:
 *  | way   | needs                                      | executed and forwarded by               |
 *  |---|---|---|
 *  | chain | cards with WAIT and ENABLE (mlx5, snic)    | the cards: messages rewrite entries     |
 *  | verbs | any card                                   | a service thread of each replica        |
 *  | calls | pgas_group_create, any transport           | a handler on each replica               |
 *
 *  Order. Each replica executes the operations of one client one after the other, in the order of
 *  submission, each exactly once. Operations of different clients interleave differently on
 *  different replicas. A cas is atomic on each replica, with the cas of all clients. Clients that
 *  write the same bytes therefore need a lock: a word that a cas takes on all replicas. If another
 *  client was faster on some of them, the client releases the others again (execute_map).
 *
 *  Failures. docs/groups.md says which operations survive which failures. When a replica dies,
 *  operations under way end with PGAS_ERR_PEER. New ones are refused with it, until
 *  pgas_group_reform has formed the chain anew without the dead replica. It sends the operations
 *  again. Replicas that had executed them do not execute them twice.
 *
 *  Threads. Any thread may submit to a group and wait; calls on one group take turns.
 *  Trust. Clients and replicas of a group trust each other: they know its key. A client can write
 *  anything into the regions.
 *
 *  Limits: 64 replicas, a window of 2,000 pieces, regions of 1 TiB.
 *
 *  Statuses that are not listed below have the same meaning everywhere:
 *      PGAS_ERR_INVALID      a NULL pointer, or an option out of range
 *      PGAS_ERR_PEER         a replica died or cannot be reached; pgas_group_info names it
 *      PGAS_ERR_CONTEXT      the function would wait in a plain handler, or in a function of a
 *                            counter
 *      PGAS_ERR_NO_MEMORY
 *
 *  Source: Hyperloop (Kim et al., SIGCOMM 2018). There, data are written to their final address at
 *  once. Here they travel with the message, and the card of each replica copies them into its
 *  region. Without that copy, an operation could overtake an earlier one on the same bytes. */
#ifndef PGAS_GROUP_H
#define PGAS_GROUP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include "pgas/sync.h"

PGAS_BEGIN_DECLS

#define PGAS_GROUP_REPLICAS_MAX 64
#define PGAS_GROUP_WINDOW_MAX   2000

struct pgas_team;
typedef struct pgas_group pgas_group_t;     /* a client's side, or a rank's */
typedef struct pgas_replica pgas_replica_t; /* one replica of a process without a job */

/* ---- operations ---- */

typedef enum {
    PGAS_GROUP_WRITE = 1,
    PGAS_GROUP_MEMCPY,
    PGAS_GROUP_CAS,
    PGAS_GROUP_FLUSH
} pgas_group_kind_t;

/** An operation; PGAS_GWRITE and so on fill it in. */
typedef struct {
    pgas_group_kind_t kind;
    uint64_t offset; /* in the regions; of a memcpy the destination */
    uint64_t bytes;  /* write, memcpy, flush */
    union {
        const void *data; /* write */
        uint64_t source;  /* memcpy: offset; must not overlap the destination */
        struct {
            uint64_t expected, desired;
            uint64_t execute_map; /* bit i: replica i; ~0: all. Others only read the word */
            uint64_t *old;        /* [n_replicas] the words before; or NULL. Valid until complete */
        } cas;
    } u;
} pgas_group_op_t;

/* clang-format off */
#define PGAS_GWRITE(at, from, n) \
    { .kind = PGAS_GROUP_WRITE, .offset = (at), .bytes = (n), .u = { .data = (from) } }
#define PGAS_GMEMCPY(to, from, n) \
    { .kind = PGAS_GROUP_MEMCPY, .offset = (to), .bytes = (n), .u = { .source = (from) } }
#define PGAS_GCAS(at, expect, desire, map, olds) \
    { .kind = PGAS_GROUP_CAS, .offset = (at), .bytes = 8, \
      .u = { .cas = { (expect), (desire), (map), (olds) } } }
#define PGAS_GFLUSH(at, n) \
    { .kind = PGAS_GROUP_FLUSH, .offset = (at), .bytes = (n), .u = { .source = 0 } }
/* clang-format on */

/** Submits n operations of any kinds, in order.
 *  Shape:  any thread of a client. If an argument is wrong, none of them is submitted.
 *  Done:   on return all have been sent, and the bytes of writes may be reused. While the window is
 *          full, the function waits; with opts.full AGAIN it sends all operations or none.
 *          Completion of an operation lowers sync. With sync NULL nothing reports it.
 *  Cost:   a message for each piece of opts.piece bytes: 80 bytes per replica, and the data.
 *  @return PGAS_ERR_AGAIN     with opts.full AGAIN: the window has no room for all of them, or this
 *                             thread is inside another call on the group
 *          PGAS_ERR_LIMIT     with opts.full AGAIN: they are more than the window
 *          PGAS_ERR_RANGE     an operation reaches beyond the region
 *          PGAS_ERR_INVALID   also: a cas at an offset that is no multiple of 8, a memcpy that
 *                             overlaps itself, an execute_map without any replica, or the caller is
 *                             not a client
 *          PGAS_ERR_PEER      a replica is dead. The first of the operations may be in the window;
 *                             then pgas_group_reform sends them */
PGAS_API pgas_status_t pgas_group_submit(pgas_group_t *group, const pgas_group_op_t *ops, size_t n,
                                         pgas_sync_t *sync);

/** Single operations: they submit one and wait until it is complete. Statuses as above. */
PGAS_API pgas_status_t pgas_group_write(pgas_group_t *group, uint64_t offset, const void *data,
                                        size_t bytes);
PGAS_API pgas_status_t pgas_group_memcpy(pgas_group_t *group, uint64_t dst, uint64_t src,
                                         uint64_t bytes);
/** @param old_p  [n_replicas]; NULL: not wanted */
PGAS_API pgas_status_t pgas_group_cas(pgas_group_t *group, uint64_t offset, uint64_t expected,
                                      uint64_t desired, uint64_t execute_map, uint64_t *old_p);
PGAS_API pgas_status_t pgas_group_flush(pgas_group_t *group, uint64_t offset, uint64_t bytes);

/** Reads bytes of one replica's region. The replica's service thread sends them over the control
 *  connection, not along the chain.
 *  Shape:  any thread of a client. replica: its index in the chain.
 *  Done:   the effects of all operations that were complete before the call are in the bytes. If an
 *          operation on them is under way, any of them may be old or new.
 *  Cost:   a round trip for each 64 KiB.
 *  @return PGAS_ERR_RANGE    the bytes reach beyond the region
 *          PGAS_ERR_INVALID  also: there is no such replica, or the caller is not a client
 *          PGAS_ERR_TIMEOUT  the replica has not answered for 10 s */
PGAS_API pgas_status_t pgas_group_read(pgas_group_t *group, int replica, uint64_t offset,
                                       void *data, size_t bytes);

/* ---- forming groups ---- */

typedef enum {
    PGAS_GROUP_AUTO, /* PGAS_GROUP_WAY, otherwise the first one that all members have */
    PGAS_GROUP_CHAIN,
    PGAS_GROUP_VERBS,
    PGAS_GROUP_CALLS
} pgas_group_way_t;

typedef enum {
    PGAS_GROUP_FULL_WAIT, /* pgas_group_submit waits, with progress */
    PGAS_GROUP_FULL_AGAIN /* it returns PGAS_ERR_AGAIN */
} pgas_group_full_t;

/** Options of clients; zero means default. */
typedef struct {
    size_t size;
    pgas_group_way_t way;
    /* pieces under way (a small operation is one). Default 64, at most PGAS_GROUP_WINDOW_MAX */
    uint32_t window;
    /* bytes of data in one message, rounded up to 64, at most 256 KiB; default 64 KiB, or 16 MiB /
     * window if that is less. Replicas are ready for 32 MiB / piece messages, 4,096 at most: small
     * ones bridge times in which their CPUs are busy */
    uint32_t piece;
    pgas_group_full_t full;
    bool events;        /* waits sleep until a completion comes; otherwise they poll and yield */
    const char *key;    /* join: the secret of the replicas; NULL: PGAS_GROUP_KEY */
    const char *device; /* as pgas_verbs_dev_opts_t.device; NULL: PGAS_VERBS_DEVICE */
    int64_t timeout_us; /* for joining; default 10 s */
    /* pgas_group_create only */
    size_t region_bytes;  /* default 1 MiB, rounded up to pages */
    void *region;         /* of a member: its own memory, whole pages; NULL: the library's */
    const int *replicas;  /* team ranks in chain order; NULL: all but the first rank of the team */
    int n_replicas;       /* number of replicas; 0: with replicas NULL */
    bool all_are_clients; /* otherwise only the team's rank 0 is a client */
} pgas_group_opts_t;
#define PGAS_GROUP_OPTS_INIT                                                                       \
    {                                                                                              \
        sizeof(pgas_group_opts_t), PGAS_GROUP_AUTO, 0, 0, PGAS_GROUP_FULL_WAIT, false, NULL, NULL, \
            0, 0, NULL, NULL, 0, false                                                             \
    }

/** Forms a group of ranks. A rank may be a member and a client. The rank of a team of one is both.
 *  Shape:  collective over the team (NULL: all ranks), with equal options but region.
 *  @return the same status on all ranks:
 *          PGAS_ERR_UNSUPPORTED  a member or client does not have the way
 *          PGAS_ERR_MISMATCH     the ranks give different options; the log says which one
 *          PGAS_ERR_LIMIT        too many replicas, too large a region or window, no descriptors
 *          PGAS_ERR_NOT_FOUND    a rank has no address on a network that it shares with others
 *          PGAS_ERR_NOT_INIT     before pgas_init, or after pgas_finalize */
PGAS_API pgas_status_t pgas_group_create(struct pgas_team *team, const pgas_group_opts_t *opts,
                                         pgas_group_t **group_p);

/** Joins a group as a client.
 *  Shape:  any process, with or without a job. Several clients may join at a time. Members that
 *          are dead are removed.
 *  @param address  "ADDR:PORT" of any member
 *  @return PGAS_ERR_TIMEOUT      the members do not answer
 *          PGAS_ERR_CONTEXT      the key is wrong
 *          PGAS_ERR_MISMATCH     a member has another version, or a region of another size, or
 *                                other clients use another way
 *          PGAS_ERR_UNSUPPORTED  a member or this process does not have the way
 *          PGAS_ERR_LIMIT        a member has its maximum of clients, or the window is too large
 *          PGAS_ERR_INVALID      also: the address has another form, or the key is too long */
PGAS_API pgas_status_t pgas_group_join(const char *address, const pgas_group_opts_t *opts,
                                       pgas_group_t **group_p);

/** Ends the group of pgas_group_create (collective), or leaves a joined one. It first waits until
 *  all operations are complete, or a replica is dead. NULL does nothing.
 *  @return PGAS_ERR_NOT_INIT  the group is of ranks, and the job has ended */
PGAS_API pgas_status_t pgas_group_destroy(pgas_group_t *group);

/** Forms the chain anew without dead replicas. It also sends operations again that ended with
 *  PGAS_ERR_PEER since the last time, and waits until they are complete.
 *  Shape:  any thread of a client.
 *  Done:   all operations submitted so far are complete on all remaining replicas. These have new
 *          places in the chain, also in `old` and execute_map of operations that were sent again.
 *  Owns:   the `old` arrays of these operations must still exist.
 *  @return PGAS_ERR_PEER     another replica died meanwhile: call again. Or none is left
 *          PGAS_ERR_TIMEOUT  call again
 *          PGAS_ERR_INVALID  also: the caller is not a client */
PGAS_API pgas_status_t pgas_group_reform(pgas_group_t *group, int64_t timeout_us);

/** Adds a replica at the end of the chain. It first copies the region of the last replica while all
 *  clients continue; then the clients stop for a moment. The new replica executes a cas that is
 *  under way if the replica before it executes it. For other clients, `old` has the words of as
 *  many replicas as pgas_group_info, join, reform or add have last reported to them.
 *  Shape:  any thread of a client.
 *  @param address  of a replica that is in no group and has a region of the same size
 *  @return PGAS_ERR_EXISTS   it is a member already, or a member of another group
 *          PGAS_ERR_LIMIT    there are 64 replicas
 *          PGAS_ERR_TIMEOUT  the copy, or the new chain, took too long
 *          PGAS_ERR_INVALID  also: the caller is not a client
 *          otherwise as pgas_group_join. After an error the present members continue */
PGAS_API pgas_status_t pgas_group_add(pgas_group_t *group, const char *address, int64_t timeout_us);

typedef struct {
    size_t size;
    pgas_group_way_t way;
    int n_replicas;
    int dead;       /* index of a replica that is dead, -1: none. pgas_group_reform removes it */
    uint64_t epoch; /* number of the present list of members */
    uint64_t region_bytes;
    void *region; /* of this rank, if it is a member */
    uint32_t window, piece;
    uint32_t under_way;    /* operations, in pieces */
    uint32_t credits;      /* messages that the replicas are ready to take */
    uint64_t n_ops, bytes; /* completed since the start */
    uint64_t n_resent;     /* pieces sent again by pgas_group_reform */
    uint64_t n_refills;    /* of the replica that refilled most often, see pgas_replica_create */
    uint64_t refill_ns;    /* CPU time of refills, of all replicas */
    uint64_t p50_ns, p99_ns, p999_ns, max_ns; /* time of a piece from message to completion */
    char members[1024]; /* addresses in chain order, with spaces, as far as there is room */
} pgas_group_info_t;

/** Describes the group. @return PGAS_ERR_INVALID: a NULL pointer, or size is too small */
PGAS_API pgas_status_t pgas_group_info(pgas_group_t *group, pgas_group_info_t *info_p);

/** Prints `bytes` bytes at an offset of each replica's region, for people. Equal lines of several
 *  replicas are printed once.
 *  Shape:  any thread of a client.
 *  @return as pgas_group_read */
PGAS_API pgas_status_t pgas_group_dump(pgas_group_t *group, FILE *file, uint64_t offset,
                                       size_t bytes);

/* ---- replicas without a job ---- */

typedef struct {
    size_t size;
    const char *listen; /* "ADDR:PORT", port 0: any. Addresses but loopback need a key */
    const char *next;   /* the next replica of the chain; NULL: this one is the last */
    size_t region_bytes;
    void *region;         /* the caller's memory, whole pages; NULL: the library's */
    const char *key;      /* secret that clients must know; NULL: PGAS_GROUP_KEY */
    const char *device;   /* as pgas_verbs_dev_opts_t.device; NULL: PGAS_VERBS_DEVICE */
    uint32_t clients_max; /* default 64, at most 2^20 */
} pgas_replica_opts_t;
#define PGAS_REPLICA_OPTS_INIT                                          \
    {                                                                   \
        sizeof(pgas_replica_opts_t), NULL, NULL, 0, NULL, NULL, NULL, 0 \
    }

/** Starts a replica, with a service thread. The thread listens, accepts clients, and refills: it
 *  posts entries again that the card has used.
 *  @return PGAS_ERR_EXISTS   the address is in use
 *          PGAS_ERR_CONTEXT  an address of a network, without a key
 *          PGAS_ERR_IO       the address cannot be used
 *          PGAS_ERR_LIMIT    too large a region, or no descriptors or threads are left
 *          PGAS_ERR_INVALID  also: listen has another form, the key is too long, or region is not
 *                            of whole pages
 *          or the status of opening the device (pgas_verbs_open) */
PGAS_API pgas_status_t pgas_replica_create(const pgas_replica_opts_t *opts,
                                           pgas_replica_t **replica_p);
/** Ends a replica. For its clients it is dead. NULL does nothing. */
PGAS_API pgas_status_t pgas_replica_destroy(pgas_replica_t *replica);

typedef struct {
    size_t size;
    char address[64]; /* where it listens, with the real port */
    void *region;
    uint64_t region_bytes;
    uint64_t epoch; /* 0: it is in no group yet */
    uint32_t n_clients;
    uint64_t n_executed; /* messages of all clients */
    uint64_t n_refills, refill_ns;
} pgas_replica_info_t;
/** Describes the replica. @return PGAS_ERR_INVALID: a NULL pointer, or size is too small */
PGAS_API pgas_status_t pgas_replica_info(pgas_replica_t *replica, pgas_replica_info_t *info_p);

PGAS_END_DECLS

#endif
