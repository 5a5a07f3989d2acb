# floor 4: handlers, calls, aggregator, progress. Add yours as: libpgas_core_la_SOURCES += %D%/NAME.c %D%/NAME.h
libpgas_core_la_SOURCES += %D%/account.h %D%/agg.c %D%/agg.h %D%/call.c %D%/consumer.c %D%/consumer.h %D%/handler.c \
	%D%/handler.h %D%/inbox.c %D%/inbox.h \
	%D%/info.c %D%/outbox.c %D%/outbox.h %D%/owner.c %D%/owner.h %D%/progress.c %D%/progress.h %D%/record.h \
	%D%/runtime.c %D%/sync.c %D%/sync.h %D%/task.c %D%/task.h
libpgas_core_la_SOURCES += %D%/notify.c %D%/notify.h
	%D%/runtime.c %D%/sync.c %D%/sync.h
libpgas_core_la_SOURCES += %D%/tree.c %D%/tree.h
	%D%/route.c %D%/route.h %D%/runtime.c %D%/sync.c %D%/sync.h
