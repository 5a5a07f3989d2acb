# floor 9: the key-value store. Add yours as: libpgas_core_la_SOURCES += %D%/NAME.c %D%/NAME.h
libpgas_core_la_SOURCES += %D%/bucket.h %D%/cache.c %D%/cache.h %D%/create.c %D%/far.c %D%/far_run.c %D%/far_run.h %D%/home.c %D%/kvs.h \
	%D%/message.h %D%/part.c %D%/part.h %D%/part_all.c %D%/part_inside.h %D%/part_read.h %D%/run.c %D%/scan.c %D%/serve.c %D%/slab.c %D%/slab.h \
	%D%/stamps.c %D%/stamps.h
# Files of a durable store, and snapshots.
libpgas_core_la_SOURCES += %D%/block.c %D%/block.h %D%/files.c %D%/files.h %D%/log.c %D%/log.h %D%/log_file.c %D%/log_file.h \
	%D%/manifest.c %D%/newest.c %D%/newest.h %D%/reader.c %D%/reader.h %D%/record.c %D%/record.h %D%/shard.c %D%/snapshot.h
libpgas_core_la_SOURCES += %D%/durable.c %D%/durable.h %D%/load.c %D%/restore.c %D%/save.c
EXTRA_DIST += %D%/stamps.pml
