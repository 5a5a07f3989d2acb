# floor 5: calls with buffers, large replies
libpgas_core_la_SOURCES += %D%/buffer.c %D%/parcel.c %D%/parcel.h %D%/pull.c %D%/reply.c
