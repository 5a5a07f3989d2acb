/** libpgas: global pointers, one-sided transfers, remote calls and collectives for SPMD programs.
 *  The umbrella: it includes what a program usually needs; the engines stand by themselves:
 *  pgas/graph.h, pgas/mcts.h, pgas/hex.h. */
#ifndef PGAS_PGAS_H
#define PGAS_PGAS_H

#include "pgas/agg.h"
#include "pgas/array.h"
#include "pgas/atomic.h"
#include "pgas/buffer.h"
#include "pgas/broadcast.h"
#include "pgas/call.h"
#include "pgas/coll.h"
#include "pgas/delegate.h"
#include "pgas/gptr.h"
#include "pgas/handler.h"
#include "pgas/info.h"
#include "pgas/init.h"
#include "pgas/lock.h"
#include "pgas/mem.h"
#include "pgas/regmem.h"
#include "pgas/rma.h"
#include "pgas/runtime.h"
#include "pgas/status.h"
#include "pgas/sync.h"
#include "pgas/team.h"
#include "pgas/version.h"

#endif
