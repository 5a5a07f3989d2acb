# floor 0: status, log, param, containers; no MPI, no network. libpgas-verbs has them too. Add yours as: base_sources += %D%/NAME.c
base_sources = %D%/bitmap.h %D%/checks.h %D%/clock.h %D%/extents.c %D%/extents.h %D%/fold.c %D%/fold.h %D%/hash.h \
	%D%/library.c %D%/library.h %D%/log.c %D%/log.h %D%/info_fill.h %D%/machine.c %D%/machine.h %D%/number.c %D%/number.h %D%/param.c %D%/param.h %D%/param_value.c %D%/param_vars.h %D%/pool.c %D%/pool.h \
	%D%/progress.c %D%/progress.h %D%/rng.h %D%/spin.h %D%/status.c %D%/sync.c %D%/sync.h
libpgas_core_la_SOURCES += $(base_sources) %D%/deaths.c %D%/deaths.h %D%/op.c %D%/op.h %D%/waiters.h
