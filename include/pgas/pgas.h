/** libpgas: global pointers, one-sided transfers, remote calls and collectives for SPMD programs.
 *
 *      #include <pgas/pgas.h>
 *      int main(void)
 *      {
 *          pgas_gptr_t mine;
 *          uint64_t rank;
 *          pgas_init(NULL, NULL);
 *          pgas_alloc(sizeof rank, &mine);                      a word on each rank
 *          rank = (uint64_t)pgas_rank();
 *          pgas_put(pgas_gptr_at(mine, (pgas_rank() + 1) % pgas_n_ranks()), &rank, sizeof rank);
 *          pgas_flush_all();
 *          pgas_barrier(NULL);                                  now it holds the left rank's number
 *          pgas_free(mine);
 *          return pgas_finalize() == PGAS_OK ? 0 : 1;
 *      }
 *
 *  This header includes the headers of the library, in the order in which their concepts build on
 *  each other. It includes mpi.h, through pgas/init.h. These headers are included separately:
 *  pgas/verbs.h (queue pairs), and those of the engines, pgas/graph.h, pgas/mcts.h and pgas/hex.h.
 *  Headers in pgas/detail/ are not for users. */
#ifndef PGAS_PGAS_H
#define PGAS_PGAS_H

/* the job: versions, statuses, ranks, nodes, threads, teams */
#include "pgas/version.h"
#include "pgas/status.h"
#include "pgas/init.h"
#include "pgas/runtime.h"
#include "pgas/info.h"
#include "pgas/team.h"
#include "pgas/op.h"
#include "pgas/coll.h"
/* memory: global pointers, the symmetric heap, transfers, atomics, registered memory */
#include "pgas/gptr.h"
#include "pgas/mem.h"
#include "pgas/rma.h"
#include "pgas/atomic.h"
#include "pgas/many.h"
/* calls: handlers, counters, calls, aggregation, large arguments, broadcasts */
#include "pgas/handler.h"
#include "pgas/sync.h"
#include "pgas/call.h"
#include "pgas/agg.h"
/* objects: locks, objects with methods, coherent arrays */
#include "pgas/lock.h"
#include "pgas/object.h"
#include "pgas/array.h"

#endif
