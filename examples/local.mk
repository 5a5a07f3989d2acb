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
%C%_pagerank_SOURCES = %D%/pagerank.c
%C%_pagerank_LDADD = $(public_ldadd)
%C%_pagerank_CFLAGS = $(AM_CFLAGS) $(PGAS_OPENMP_CFLAGS)
