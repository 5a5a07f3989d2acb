# Tutorial programs, build/examples/NAME; public headers only, linked as users link. One line per program in the
# list, one for its sources:
#   noinst_PROGRAMS += %D%/01_hello
#   %C%_01_hello_SOURCES = %D%/01_hello.c
#   %C%_01_hello_LDADD = $(public_ldadd)
#   %C%_01_hello_CFLAGS = $(AM_CFLAGS) $(PGAS_OPENMP_CFLAGS)    (only if it uses OpenMP)
