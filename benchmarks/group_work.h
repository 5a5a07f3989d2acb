/** Shared by the files of pgas_group: one loop, the ways, placement and load.
 *
 *  Rank 0 is the client; the other ranks are the replicas, in the order of the chain. A loop runs a
 *  number of operations of one kind, with a window of them under way, and takes the time of each.
 *  All ways do the same work on regions of the same size, cut into the same pieces. */
#ifndef BENCH_GROUP_WORK_H
#define BENCH_GROUP_WORK_H

#include "benchmarks/bench.h"
#include "pgas/group.h"

#define GROUP_REGION_BYTES ((size_t)4 << 20)
#define GROUP_PIECE_MAX    ((uint32_t)64 << 10)
#define GROUP_IN_FLIGHT    ((uint32_t)16 << 20) /* bytes of a whole window, as in the library */

typedef struct {
    int rank, n_ranks;
    pgas_group_kind_t kind;
    size_t bytes;    /* of one operation */
    uint32_t window; /* pieces under way */
    uint32_t piece;  /* bytes of a piece at most */
    uint64_t n;      /* operations */
    double *ns;      /* [n] rank 0: time of each operation; NULL: not wanted */
} group_run_t;

/** Results of one loop; rank 0 has them all. */
typedef struct {
    double ns;        /* from the first to the last operation */
    double refill_ns; /* CPU time that replicas spent on making entries ready */
    double cpu_ns;    /* CPU time of all replicas */
} group_result_t;

/** Bytes that one piece carries at most, for operations of that many bytes. */
uint32_t group_piece(uint32_t window, size_t bytes);

/** Pieces of one operation. */
static inline uint64_t group_pieces(const group_run_t *run)
{
    bool cut = run->kind == PGAS_GROUP_WRITE || run->kind == PGAS_GROUP_MEMCPY ||
               run->kind == PGAS_GROUP_FLUSH;
    return cut ? (run->bytes + run->piece - 1) / run->piece : 1;
}
/** Operations that fit into the window. */
static inline uint64_t group_depth(const group_run_t *run)
{
    uint64_t depth = run->window / group_pieces(run);
    return depth > 0 ? depth : 1;
}
/** Destination of operation i. Operations walk through the second half of the region; a memcpy
 *  reads the first half. */
static inline uint64_t group_offset(const group_run_t *run, uint64_t i)
{
    uint64_t half = GROUP_REGION_BYTES / 2;
    return half + i % (half / run->bytes) * run->bytes;
}

/** A way. All functions are collective. */
typedef struct {
    const char *name, *doc;
    bool is_engine;     /* it has no time of single operations */
    uint32_t n_entries; /* of its rings; 0: it has none */
    /* Prepares for one kind, size and window. @return false: this way cannot run here; the log or
     * standard error says why */
    bool (*open)(const group_run_t *run);
    void (*loop)(const group_run_t *run, group_result_t *result_p);
    void (*close)(void);
} group_way_t;

extern const group_way_t group_chain, group_verbs, group_calls; /* group_ways.c */
extern const group_way_t group_engine;                          /* group_engine.c */
extern const group_way_t ref_group;                             /* ref_group.c: MPI */

/** Seconds after which a loop that does not end is an error. */
#define GROUP_LIMIT_S 120

/** The device for chain, verbs and engine; NULL: the default. */
extern const char *group_device;
/** The client polls while it waits. Otherwise it sleeps. */
extern bool group_polls;
/** Operations that one call submits, up to a quarter of the window. */
extern uint32_t group_batch;
#define GROUP_BATCH_MAX 64

/** ---- placement and load (group_place.c) ---- */

typedef enum { GROUP_CLIENT_OWN, GROUP_CLIENT_LAST } group_client_t;

/** Binds the calling rank with all its threads: the client to the first core, or to that of the
 *  last replica; replicas to the others in turn. */
void group_place_rank(int rank, int n_ranks, group_client_t client);
/** Binds the software NIC's process to the first core, if there is one, and gives it the priority
 *  of this session. */
void group_place_nic(void);
/** Undoes both. */
void group_place_end(void);
/** The cores of client, NIC and replicas, as text. */
const char *group_place_about(void);

/** Begins and ends the load of a replica: a process on the same core that computes. */
void group_load(bool on, bool stress);
void group_load_end(void);
/** @return NULL, or why the load stress-ng cannot run here */
const char *group_load_refusal(void);

/** User and system time of this process, all its threads. */
double group_cpu_ns(void);

/** Replicas wait here, asleep, while the client works: rank 0 calls it when it is done. Replicas
 *  that wait in the library would poll now and then. */
void group_rest(int rank, int n_ranks);
void group_rest_open(void); /* both are collective */
void group_rest_close(void);

#endif
