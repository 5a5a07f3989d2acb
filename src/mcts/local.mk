# floor 9: Monte-Carlo tree search. Add yours as: libpgas_core_la_SOURCES += %D%/NAME.c %D%/NAME.h
libpgas_core_la_SOURCES += %D%/audit.h %D%/backprop.c %D%/create.c %D%/gc.c %D%/handlers.c %D%/hex.c %D%/hex.h \
	%D%/info.c %D%/result.c %D%/mcts.h %D%/message.h %D%/node.c %D%/node.h %D%/pool.c %D%/pool.h %D%/queue.c \
	%D%/registry.c %D%/results.c %D%/root.c %D%/search.c %D%/select.c %D%/send.c %D%/spec.c \
	%D%/walk.c %D%/walk.h %D%/worker.c %D%/worker.h
