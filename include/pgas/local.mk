# Public headers, installed as <pgas/NAME.h>. Add yours as: pkginclude_HEADERS += %D%/NAME.h
pkginclude_HEADERS += %D%/pgas.h %D%/version.h
pkginclude_HEADERS += %D%/status.h %D%/init.h %D%/runtime.h %D%/info.h %D%/team.h %D%/op.h %D%/coll.h
pkginclude_HEADERS += %D%/gptr.h %D%/mem.h %D%/rma.h %D%/atomic.h %D%/many.h
pkginclude_HEADERS += %D%/handler.h %D%/sync.h %D%/call.h %D%/agg.h
pkginclude_HEADERS += %D%/lock.h %D%/object.h %D%/array.h
pkginclude_HEADERS += %D%/rma_object.h %D%/archive.h %D%/call_archive.h %D%/describe.h %D%/call_args.h
pkginclude_HEADERS += %D%/group.h
pkginclude_HEADERS += %D%/graph.h %D%/edge_map.h %D%/kvs.h %D%/mcts.h %D%/hex.h
pkginclude_HEADERS += %D%/verbs.h %D%/verbs_tx.h %D%/verbs_snic.h

# What their inline functions need and no user reads, installed as <pgas/detail/NAME.h>.
pkgdetaildir = $(pkgincludedir)/detail
pkgdetail_HEADERS = %D%/detail/agg.h %D%/detail/array.h %D%/detail/atomic.h %D%/detail/call.h \
	%D%/detail/compiler.h %D%/detail/gptr.h %D%/detail/handler.h %D%/detail/rma.h %D%/detail/rng.h
pkgdetail_HEADERS += %D%/detail/graph.h %D%/detail/edge_map.h %D%/detail/mcts.h %D%/detail/object.h %D%/detail/verbs_tx.h
pkgdetail_HEADERS += %D%/detail/sync.h
pkgdetail_HEADERS += %D%/detail/rma_object.h %D%/detail/archive.h
pkgdetail_HEADERS += %D%/detail/describe.h %D%/detail/describe_kinds.h %D%/detail/call_args.h
