# floor 5: handlers, calls, completion, aggregation, quiescence, progress
libpgas_core_la_SOURCES += %D%/agg.c %D%/agg.h %D%/answer.c %D%/begin.c %D%/buffers.c %D%/buffers.h %D%/call.c %D%/call.h %D%/consumer.c %D%/consumer.h \
	%D%/direct.c %D%/handler.c %D%/handler.h %D%/progress.c %D%/progress.h \
	%D%/route.c %D%/route.h %D%/target.c %D%/service.c %D%/service.h %D%/sync.c %D%/sync.h %D%/task.c %D%/task.h %D%/token.c %D%/token.h
