# floor 9: the key-value store. Add yours as: libpgas_core_la_SOURCES += %D%/NAME.c %D%/NAME.h
libpgas_core_la_SOURCES += %D%/bucket.h %D%/create.c %D%/kvs.h %D%/part.c %D%/part.h %D%/part_all.c %D%/part_inside.h \
	%D%/run.c %D%/scan.c %D%/slab.c %D%/slab.h
