# floor 6: calls with buffers, large replies
libpgas_core_la_SOURCES += %D%/answer.c %D%/arrive.c %D%/buffer.c %D%/bulk.c %D%/bulk.h %D%/offer.c %D%/pull.c \
	%D%/reach.c %D%/read.c %D%/reply.c %D%/start.c %D%/wire.c %D%/wire.h
