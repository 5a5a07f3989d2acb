/** libpgas: global pointers, one-sided transfers, remote calls and collectives for SPMD programs.
 *  This page tells the concepts in the order in which a program needs them.
 *
 *  Ranks. mpirun starts the program as many processes; each of them is a rank. Ranks that share
 *  memory form a node. Threads of a rank attach (pgas_thread_attach) before they use the library.
 *
 *      if (pgas_init(NULL, NULL) != PGAS_OK)              starts MPI if the program has not
 *          return 1;                                      the log has the reason
 *      int me = pgas_rank(), n = pgas_n_ranks(), right = (me + 1) % n;
 *
 *  Statuses. Functions return a pgas_status_t, 0 or a negative number. Unless a function says
 *  otherwise, an error changes nothing. Outputs come last. Times are in microseconds; a negative
 *  one means for ever.
 *
 *  Collectives. The ranks of a team call them in the same order. NULL is the team of all ranks.
 *
 *      double mine = 1.5, sum;
 *      pgas_allreduce(NULL, &mine, &sum, 1, PGAS_F64, PGAS_ADD);
 *      pgas_barrier(NULL);
 *
 *  Memory. A global pointer names a byte of a rank. The symmetric heap has blocks of the same size
 *  on every rank; pgas_gptr_at moves a pointer to the block of another rank. A block of a rank of
 *  the same node is plain memory (pgas_gptr_local).
 *
 *      pgas_gptr_t table;
 *      pgas_alloc(1000 * sizeof(uint64_t), &table);       collective
 *
 *  Transfers. The peer takes no part. A put returns when its source may be changed; the data are
 *  there after pgas_flush. A get returns with the data. Atomics work on words.
 *
 *      uint64_t word = 7, local[10], old;
 *      pgas_put(pgas_gptr_at(table, right), &word, sizeof word);
 *      pgas_flush(right);
 *      pgas_get(local, pgas_gptr_at(table, right), sizeof local);
 *      pgas_fetch_op_u64(pgas_gptr_at(table, right), PGAS_ADD, 1, &old);
 *
 *  pgas_get_many, pgas_put_many and pgas_update_many take lists of global pointers, and are much
 *  faster than loops (pgas/many.h).
 *
 *  Completion. Operations that complete later name a counter of the program. An accepted operation
 *  raises it by one, and lowers it when it is complete. Completion is local (the source may be
 *  changed), remote (the data are there) or executed (the handler has run).
 *
 *      pgas_sync_t done = PGAS_SYNC_INIT;
 *      pgas_put_nb(pgas_gptr_at(table, right), &word, sizeof word, PGAS_REMOTE, &done);
 *
 *  Calls. A handler is a function that other ranks call. Its arguments are copied. It may call, but
 *  not wait; the table in pgas/call.h has the details. Handlers of one rank never overlap.
 *
 *      static int64_t balance;
 *      PGAS_HANDLER(deposit, int64_t) { balance += *arg; }
 *      PGAS_HANDLER_RETURN(scaled, double, double) { return *arg * (double)balance; }
 *
 *      int64_t amount = 5;
 *      double rate = 1.1, result;
 *      pgas_call_deposit(right, &amount, NULL);           no thread waits for it
 *      pgas_call_deposit(right, &amount, &done);
 *      pgas_sync_wait(&done, -1);                         it is there, and deposit has run
 *      pgas_call_return_scaled(right, &rate, &result);    waits for the result
 *      pgas_quiesce();                                    all calls of all ranks have run
 *
 *  pgas_call_deposit_to calls a thread, the service of a rank, or all ranks of a team. Its options
 *  add large buffers and results, and select the behaviour while the target has no room.
 *
 *  Progress. A thread of the rank that is inside a blocking function or pgas_progress runs the
 *  calls that arrive, otherwise the rank's service thread does. So a rank may compute for long.
 *
 *  Aggregation. An aggregator collects many small calls and sends them together.
 *
 *      pgas_agg_t *agg;
 *      pgas_agg_create(NULL, &agg);
 *      for (int i = 0; i < 1000; i++)
 *          pgas_agg_deposit(agg, i % n, &amount);
 *      pgas_agg_destroy(agg);                             sends the rest
 *
 *  On top there are locks of threads (pgas/lock.h), objects with methods (pgas/object.h), and
 *  coherent arrays, whose elements any rank reads and changes by index (pgas/array.h).
 *
 *      pgas_free(table);
 *      return pgas_finalize() == PGAS_OK ? 0 : 1;
 *
 *  pgas.h includes mpi.h, through pgas/init.h. These headers are included separately:
 *  pgas/call_args.h (calls with any arguments, archives), pgas/verbs.h (queue pairs), pgas/group.h
 *  (memory that several replicas hold), and those of the engines, pgas/graph.h, pgas/mcts.h and
 *  pgas/hex.h. Headers in pgas/detail/ are not for users. */
#ifndef PGAS_PGAS_H
#define PGAS_PGAS_H

/* the job */
#include "pgas/version.h"
#include "pgas/status.h"
#include "pgas/init.h"
#include "pgas/runtime.h"
#include "pgas/info.h"
#include "pgas/team.h"
#include "pgas/op.h"
#include "pgas/coll.h"
/* memory */
#include "pgas/gptr.h"
#include "pgas/mem.h"
#include "pgas/rma.h"
#include "pgas/atomic.h"
#include "pgas/many.h"
/* completion and calls */
#include "pgas/sync.h"
#include "pgas/handler.h"
#include "pgas/call.h"
#include "pgas/agg.h"
/* on top */
#include "pgas/lock.h"
#include "pgas/object.h"
#include "pgas/array.h"

#endif
