# floor 9: readers and builders of graphs. Add yours as: libpgas_core_la_SOURCES += %D%/NAME.c %D%/NAME.h
libpgas_core_la_SOURCES += %D%/agree.c %D%/build.c %D%/create.c %D%/generate.c %D%/graph.c %D%/graph.h \
	%D%/layout.c %D%/layout.h %D%/names.c %D%/names.h %D%/number.c %D%/pagerank.c %D%/read.c \
	%D%/reader.c %D%/reader.h %D%/rows.c %D%/rows.h %D%/show.c %D%/sort.c %D%/sort.h %D%/source.c %D%/source.h %D%/start.c %D%/top.c
