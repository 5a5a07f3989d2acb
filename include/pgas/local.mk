# Public headers, installed as <pgas/NAME.h>. Add yours as: pkginclude_HEADERS += %D%/NAME.h
pkginclude_HEADERS += %D%/version.h
pkginclude_HEADERS += %D%/status.h
pkginclude_HEADERS += %D%/agg.h %D%/atomic.h %D%/call.h %D%/coll.h %D%/gptr.h %D%/handler.h %D%/info.h %D%/init.h \
	%D%/mem.h %D%/pgas.h %D%/rma.h %D%/runtime.h %D%/sync.h %D%/team.h
pkginclude_HEADERS += %D%/buffer.h
pkginclude_HEADERS += %D%/graph.h
pkginclude_HEADERS += %D%/regmem.h
pkginclude_HEADERS += %D%/broadcast.h
pkginclude_HEADERS += %D%/typed.h
pkginclude_HEADERS += %D%/lock.h
pkginclude_HEADERS += %D%/delegate.h
pkginclude_HEADERS += %D%/mcts.h %D%/hex.h
pkginclude_HEADERS += %D%/array.h
pkginclude_HEADERS += %D%/verbs.h
