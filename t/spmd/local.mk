# Tests of several ranks (their header has np:). A program, two lines:
#   check_PROGRAMS += %D%/rma.t
#   %C%_rma_t_SOURCES = %D%/rma.c
# with OpenMP: %C%_rma_t_CFLAGS = $(AM_CFLAGS) $(PGAS_OPENMP_CFLAGS)
# A script: check_scripts += %D%/name.t
