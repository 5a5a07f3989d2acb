# floor 5: calls with buffers, large replies
libpgas_core_la_SOURCES += %D%/buffer.c %D%/bulk.c %D%/bulk.h %D%/pull.c %D%/reply.c
