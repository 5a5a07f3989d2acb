# The data plane over UCX. Add a file to the list.
libpgas_core_la_SOURCES += %D%/ucx.h %D%/library.h %D%/library.c %D%/status.c %D%/context.c %D%/ctx.c %D%/endpoint.c %D%/memory.c \
	%D%/rma.c %D%/amo.c %D%/flush.c %D%/am.c %D%/am_recv.h %D%/am_recv.c %D%/sources.c \
	%D%/buffers.h %D%/buffers.c %D%/journal.h %D%/journal.c %D%/repair.c
EXTRA_DIST += %D%/README.md
