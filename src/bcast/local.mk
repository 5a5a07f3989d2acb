# floor 6: broadcasts over trees
libpgas_core_la_SOURCES += %D%/ack.c %D%/bcast.h %D%/block.c %D%/buffer.c %D%/buffer.h %D%/call.c \
	%D%/forward.c %D%/plan.c %D%/run.c %D%/start.c %D%/tree.c %D%/tree.h
