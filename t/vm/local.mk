# What needs a machine that this one is not: a virtual one, with two NUMA nodes or with an RDMA device (see %D%/run, which
# downloads a kernel for it).
EXTRA_DIST += %D%/run %D%/rxe.sh

numa-vm: t/spmd/zones.t
	PGAS_TEST_MATRIX=all BUILD=$(abs_top_builddir) $(srcdir)/%D%/run $(abs_top_srcdir)/t/launch t/spmd/zones.t

.PHONY: numa-vm

# The provider verbs on the kernel's soft RoCE; part of the suite, skipped where there is no qemu or no kernel to be had.
# RXE_TESTS="t/spmd/rma.t .." runs tests of several ranks there, too.
check_scripts += %D%/rxe.t
check_data += %D%/rxe-list

check-rxe: t/rxe/queues.t $(RXE_TESTS)
	BUILD=$(abs_top_builddir) RXE_TESTS='$(RXE_TESTS)' $(abs_top_srcdir)/t/launch $(abs_top_srcdir)/%D%/rxe.t

clean_folders += %D%/kernel %D%/fetched %D%/.fetching

.PHONY: check-rxe
