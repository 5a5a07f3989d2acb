# floor 3: segments, heap, global pointers. Add yours as: libpgas_core_la_SOURCES += %D%/NAME.c %D%/NAME.h
libpgas_core_la_SOURCES += %D%/ahead.c %D%/ahead.h %D%/attach.c %D%/circular.c %D%/general.c %D%/heap.c %D%/ctx.c %D%/ctx.h %D%/key.c %D%/linear.c %D%/mem.c \
	%D%/reg_owner.c %D%/pool.c %D%/regmem.h %D%/request.c %D%/rma.c %D%/rma.h %D%/segment.c %D%/segment.h \
	%D%/signal.c %D%/coll_nb.c %D%/strided.c %D%/super.c %D%/symmetric.c %D%/sync_host.c %D%/sync_host.h %D%/thread.c %D%/thread.h %D%/block.c %D%/block.h
libpgas_core_la_SOURCES += %D%/atomic.c %D%/atomic.h %D%/nb.c
libpgas_core_la_SOURCES += %D%/rma_blocks.c %D%/rma_object.c %D%/rma_object.h %D%/rma_vector.c
EXTRA_DIST += %D%/ahead.pml
