# floor 4: handlers, calls, aggregator, progress. Add yours as: libpgas_core_la_SOURCES += %D%/NAME.c %D%/NAME.h
libpgas_core_la_SOURCES += %D%/account.h %D%/agg.c %D%/agg.h %D%/alloc_on.c %D%/batch.c %D%/bcast.c %D%/bcast.h \
	%D%/bcast_buffer.c %D%/begin.c %D%/buffer.c %D%/call.c %D%/channel.c %D%/consumer.c %D%/consumer.h \
	%D%/delegate.c %D%/delegate.h %D%/direct.c %D%/far.c %D%/far_channel.c %D%/far_channel.h \
	%D%/handler.c %D%/handler.h %D%/inbox.c %D%/inbox.h \
	%D%/info.c %D%/lock.c %D%/lock.h %D%/named.c %D%/named.h %D%/notify.c %D%/notify.h %D%/out.h \
	%D%/outbox.c %D%/outbox.h %D%/owner.c %D%/owner.h %D%/parcel.c %D%/parcel.h %D%/progress.c \
	%D%/progress.h %D%/pull.c %D%/record.h %D%/region.c %D%/region.h %D%/reply.c %D%/route.c %D%/route.h %D%/runtime.c %D%/sync.c \
	%D%/sync.h %D%/task.c %D%/task.h %D%/tree.c %D%/tree.h
