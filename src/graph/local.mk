# floor 9: graphs. Add yours as: libpgas_core_la_SOURCES += %D%/NAME.c %D%/NAME.h
libpgas_core_la_SOURCES += %D%/agree.c %D%/betweenness.c %D%/bfs.c %D%/build.c %D%/build.h %D%/components.c %D%/create.c %D%/edge_map.c %D%/edges.c \
	%D%/edges.h %D%/exchange.c %D%/exchange_array.c %D%/generate.c %D%/graph.c %D%/graph.h %D%/ids.c %D%/ids.h \
	%D%/names.c %D%/names.h %D%/number.c %D%/pagerank.c %D%/read.c %D%/reader.c %D%/reader.h %D%/rows.c %D%/rows.h \
	%D%/run.c %D%/run.h %D%/search.h %D%/show.c %D%/shuffle.c %D%/shuffle.h %D%/sort.c %D%/sort.h %D%/source.c %D%/source.h %D%/sssp.c \
	%D%/start.c %D%/top.c
libpgas_core_la_SOURCES += %D%/ask.c %D%/binary.c %D%/binary.h %D%/binary_order.c %D%/binary_order.h %D%/binary_read.c %D%/binary_write.c %D%/labels.c %D%/labels.h %D%/least.c %D%/least.h %D%/reader_format.c %D%/reader_lines.c \
	%D%/reader_text.c %D%/reader_text.h %D%/reader_words.c %D%/unpack.c %D%/unpack.h
libpgas_core_la_SOURCES += %D%/cdlp.c %D%/lcc.c %D%/oriented.c %D%/oriented.h %D%/oriented_visit.c %D%/triangles.c
