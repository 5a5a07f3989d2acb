/* A job without MPI in one process, for tests of src/mem and src/call: rank 0 is the library; other
 * ranks are only memory on the same node, which the test reads and writes as those ranks would.
 * Their receive queues are plain memory, no thread reads their wakeup flags, and in collectives
 * they agree with rank 0.
 *
 * Link t/unit/lone.c: its functions replace those of src/boot, except wait.c, which is the real
 * one. */
#ifndef T_UNIT_LONE_H
#define T_UNIT_LONE_H

#include <stdint.h>
#include "msg/recv_queue.h"
#include "pgas/pgas.h"

/** As pgas_init on a node of n_ranks, of which we are rank 0. */
pgas_status_t lone_init(int n_ranks, const char *params);

/** What rank `rank` sends to us, to any thread, through its context LONE_CTX, goes into this
 *  channel. */
#define LONE_CTX 3
pgasi_channel_t lone_sender(int rank);
/** The channel in which calls from this rank to an endpoint of `rank` through a context arrive; the
 *  test stores the count of consumed bytes where `consumed` points. */
pgasi_channel_t lone_receiver(int rank, int port, int ctx);

/** Bytes of the region that rank 0 mapped last without huge pages: its receive queues. */
extern size_t lone_recvq_bytes;

/** Bytes that other ranks sent and consumed, for pgas_quiesce and pgas_finalize. */
extern uint64_t lone_sent, lone_consumed;

#endif
