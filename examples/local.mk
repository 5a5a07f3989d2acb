# Tutorial programs, build/examples/NAME; public headers only, linked as users link. One line per program in the
# list, one for its sources:
#   noinst_PROGRAMS += %D%/01_hello
#   %C%_01_hello_SOURCES = %D%/01_hello.c
#   %C%_01_hello_LDADD = $(public_ldadd)
#   %C%_01_hello_CFLAGS = $(AM_CFLAGS) $(PGAS_OPENMP_CFLAGS)    (only if it uses OpenMP)
noinst_PROGRAMS += %D%/01_hello %D%/02_put_get %D%/03_atomics %D%/04_call %D%/05_histogram %D%/pagerank
%C%_01_hello_SOURCES = %D%/01_hello.c
%C%_01_hello_LDADD = $(public_ldadd)
%C%_02_put_get_SOURCES = %D%/02_put_get.c
%C%_02_put_get_LDADD = $(public_ldadd)
%C%_03_atomics_SOURCES = %D%/03_atomics.c
%C%_03_atomics_LDADD = $(public_ldadd)
%C%_04_call_SOURCES = %D%/04_call.c
%C%_04_call_LDADD = $(public_ldadd)
%C%_05_histogram_SOURCES = %D%/05_histogram.c
%C%_05_histogram_LDADD = $(public_ldadd)
noinst_PROGRAMS += %D%/06_synchronizers
%C%_06_synchronizers_SOURCES = %D%/06_synchronizers.c
%C%_06_synchronizers_LDADD = $(public_ldadd)
noinst_PROGRAMS += %D%/07_call_buffer
%C%_07_call_buffer_SOURCES = %D%/07_call_buffer.c
%C%_07_call_buffer_LDADD = $(public_ldadd)
noinst_PROGRAMS += %D%/08_broadcast
%C%_08_broadcast_SOURCES = %D%/08_broadcast.c
%C%_08_broadcast_LDADD = $(public_ldadd)
noinst_PROGRAMS += %D%/09_targets %D%/10_aggregator %D%/11_seriema
%C%_09_targets_SOURCES = %D%/09_targets.c
%C%_09_targets_LDADD = $(public_ldadd)
%C%_10_aggregator_SOURCES = %D%/10_aggregator.c
%C%_10_aggregator_LDADD = $(public_ldadd)
%C%_11_seriema_SOURCES = %D%/11_seriema.c
%C%_11_seriema_LDADD = $(public_ldadd)
noinst_PROGRAMS += %D%/12_mcts
%C%_12_mcts_SOURCES = %D%/12_mcts.c
%C%_12_mcts_LDADD = $(public_ldadd)
noinst_PROGRAMS += %D%/array_histogram
%C%_array_histogram_SOURCES = %D%/array_histogram.c
%C%_array_histogram_LDADD = $(public_ldadd)
%C%_pagerank_SOURCES = %D%/pagerank.c
%C%_pagerank_LDADD = $(public_ldadd)
%C%_pagerank_CFLAGS = $(AM_CFLAGS) $(PGAS_OPENMP_CFLAGS)
# pagerank again, with another way to rank.
noinst_PROGRAMS += %D%/array_pagerank
%C%_array_pagerank_SOURCES = %D%/pagerank.c %D%/array_pagerank.c
%C%_array_pagerank_LDADD = $(public_ldadd)
%C%_array_pagerank_CPPFLAGS = $(AM_CPPFLAGS) -Dpgas_pagerank=array_pagerank
%C%_array_pagerank_CFLAGS = $(AM_CFLAGS) $(PGAS_OPENMP_CFLAGS)
