# The harness: TAP through automake's driver, every test started by t/launch.
# Programs link the core (they may look inside); set ..._LDADD = t/libspmd.la $(public_ldadd) to test as a user links.
LDADD = t/libspmd.la $(core_ldadd)

check_LTLIBRARIES += %D%/libspmd.la
%C%_libspmd_la_SOURCES = %D%/spmd.c %D%/spmd.h %D%/tap.h %D%/amo_model.h %D%/handlers.h %D%/must.h %D%/pattern.h %D%/random.h
%C%_libspmd_la_LDFLAGS = $(installed_ldflags)

TESTS = $(check_PROGRAMS) $(check_scripts)
TEST_EXTENSIONS = .t
T_LOG_COMPILER = $(top_srcdir)/t/launch
T_LOG_DRIVER = env AM_TAP_AWK='$(AWK)' $(SHELL) $(top_srcdir)/build-aux/tap-driver.sh
AM_T_LOG_DRIVER_FLAGS = --ignore-exit

EXTRA_DIST += %D%/launch %D%/mpirun %D%/tap.awk %D%/kill.sh %D%/soak-tcp.sh %D%/tap.sh %D%/config.sh.in %D%/model \
	%D%/mutants %D%/mutate.awk %D%/mutants.tests %D%/mutants.equivalent

# Made by t/launch.
CLEANFILES += %D%/.turn %D%/.turn.1 %D%/.turn.2 %D%/.turn.3

# Every test at every rank count, node size, transport and setting that its header names, instead of a short choice.
check-all:
	PGAS_TEST_MATRIX=all $(MAKE) check

# The protocols of coherent arrays, of sleeps and of group chains, exhaustively: needs spin, 4 GB and some minutes.
model:
	BUILD=$(abs_top_builddir) $(abs_top_srcdir)/t/model full

# Small mistakes at random, and whether the tests notice them: make mutants MUTANTS="--count 5 src/boot/wait.c".
mutants:
	BUILD=$(abs_top_builddir) $(abs_top_srcdir)/t/mutants $(MUTANTS)
clean_folders += mutants

.PHONY: check-all model mutants
