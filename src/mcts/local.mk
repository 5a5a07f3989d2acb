# floor 6: Monte-Carlo tree search. Add yours as: libpgas_core_la_SOURCES += %D%/NAME.c %D%/NAME.h
libpgas_core_la_SOURCES += %D%/hex.c %D%/mcts.h %D%/pool.c %D%/root.c %D%/search.c %D%/spec.c %D%/tree.c %D%/walk.c
