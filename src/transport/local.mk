# floor 2: the seam, the loopback, the fault wrapper. Add yours as: libpgas_core_la_SOURCES += %D%/NAME.c %D%/NAME.h
libpgas_core_la_SOURCES += %D%/transport.h %D%/refusals.c %D%/registry.c %D%/loopback.c %D%/wrap.c %D%/wrap.h \
	%D%/fault_plan.c %D%/fault.c %D%/fault.h %D%/count.c %D%/count.h
