# floor 6: Monte-Carlo tree search. Add yours as: libpgas_core_la_SOURCES += %D%/NAME.c %D%/NAME.h
libpgas_core_la_SOURCES += %D%/calls.c %D%/hex.c %D%/mcts.h %D%/pool.c %D%/queue.c \
	%D%/rest.c %D%/search.c %D%/spec.c %D%/tree.c %D%/walk.c %D%/walk.h %D%/work.c
