# floor 5: broadcasts over trees
libpgas_core_la_SOURCES += %D%/bcast.c %D%/bcast.h %D%/bcast_buffer.c %D%/tree.c %D%/tree.h
