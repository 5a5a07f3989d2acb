/** Queue pairs of one process that are connected with each other, for the benchmarks of
 *  pgas/verbs.h: the choice of the device, opening it, and the loops that post. On the software NIC
 *  both sides are memory. On a card the data goes through the card and back. */
#ifndef BENCH_VERBS_WORK_H
#define BENCH_VERBS_WORK_H

#include "benchmarks/bench.h"
#include "pgas/verbs.h"

#define VERBS_BYTES_MAX 65536u
#define VERBS_DEPTH     256u /* requests under way */
#define VERBS_INTERVAL  32u  /* one of this many is signaled */
#define VERBS_BATCH     16u  /* requests per doorbell */
#define VERBS_INLINE    60u  /* messages of up to this many bytes are copied while posting */
#define VERBS_RECEIVES  512u
#define VERBS_SERVED    64u /* receive buffers that are given back together */

/** --device and --engine. Programs add options before the last entry. */
extern const bench_option_t verbs_options[];

/** The device that the options name, and memory. */
void verbs_open(void);
void verbs_close(void);
const char *verbs_path(void);  /* "snic", "mlx5" or "verbs" */
const char *verbs_about(void); /* "Device: snic, engine caller" */
bool verbs_has_chains(void);

/** Memory of both sides with all rights, twice the greatest size. */
extern pgas_verbs_dev_t *verbs_dev;
extern pgas_verbs_mem_t verbs_source, verbs_target;

/** Two queue pairs. The first one sends. */
typedef struct {
    pgas_verbs_cq_t *cq, *recv_cq;           /* of the first's sends, of the second's receives */
    pgas_verbs_cq_t *back_cq, *back_recv_cq; /* the same in the other direction */
    pgas_verbs_qp_t *qp, *peer;
} verbs_pair_t;

/** Opens and connects a pair whose sending side has these flags (PGAS_VERBS_QP_) and whose
 *  receiving side has buffers of the greatest size. cq_flags are those of cq. */
void verbs_pair_open(verbs_pair_t *pair, uint32_t qp_flags, uint32_t cq_flags);
void verbs_pair_close(verbs_pair_t *pair);

/** Gives n receive buffers of the greatest size, n up to VERBS_SERVED. */
void verbs_receive(pgas_verbs_qp_t *qp, uint32_t n);
/** Polls for up to 16 completions without waiting. All must be good. @return how many */
int verbs_poll_good(pgas_verbs_cq_t *cq);
/** Takes the messages that have arrived at the receiving side and gives the buffers back, without
 *  waiting. @return how many */
int verbs_serve(verbs_pair_t *pair);
/** The same for what the first one has sent. */
int verbs_poll(verbs_pair_t *pair);

/** Offset of message i, on both sides: messages walk through the memory. */
static inline size_t verbs_walk(uint64_t i, size_t bytes)
{
    return (size_t)(i * bytes) & (VERBS_BYTES_MAX - 1);
}

/** Each posts n messages, n a multiple of VERBS_INTERVAL, and waits until all are complete. op is
 *  PGAS_VERBS_WRITE or _SEND.
 *    auto      a transmitter decides what is signaled and when the doorbell rings
 *    manual    the loop does: it counts to VERBS_INTERVAL and VERBS_BATCH, and waits when the queue
 *              is full
 *    signaled  each is signaled, and polled for
 *    limit     nothing is written: a full queue is run again and again by ENABLE; also
 *              PGAS_VERBS_NOP; needs chains */
void verbs_post_auto(pgas_verbs_op_t op, size_t bytes, uint64_t n);
void verbs_post_manual(pgas_verbs_op_t op, size_t bytes, uint64_t n);
void verbs_post_signaled(pgas_verbs_op_t op, size_t bytes, uint64_t n);
void verbs_post_limit(pgas_verbs_op_t op, size_t bytes, uint64_t n);
/** @return whether the last message of the last loop has arrived */
bool verbs_arrived(pgas_verbs_op_t op, size_t bytes);
/** Completions of the sending side per VERBS_INTERVAL messages that a loop has polled since the
 *  last call. */
typedef enum { VERBS_AUTO, VERBS_MANUAL, VERBS_SIGNALED, VERBS_LIMIT, VERBS_WAYS } verbs_way_t;
double verbs_completions(verbs_way_t way);
/** Close what the loops have opened. */
void verbs_loops_end(void);

#endif
