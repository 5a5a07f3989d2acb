# What needs a machine that this one is not: a virtual one, with two NUMA nodes or with an RDMA device (see %D%/run, which
# downloads a kernel for it).
EXTRA_DIST += %D%/run %D%/rxe.sh

# Part of the suite, skipped where there is no qemu or no kernel to be had. numa-vm also runs the whole matrix of zones.t.
check_scripts += %D%/numa.t

numa-vm: t/spmd/zones.t t/spmd/boot.t benchmarks/pgas_numa
	BUILD=$(abs_top_builddir) $(abs_top_srcdir)/t/launch $(abs_top_srcdir)/%D%/numa.t
	PGAS_TEST_MATRIX=all BUILD=$(abs_top_builddir) $(srcdir)/%D%/run $(abs_top_srcdir)/t/launch t/spmd/zones.t

.PHONY: numa-vm

# The provider verbs on the kernel's soft RoCE; part of the suite, skipped where there is no qemu or no kernel to be had.
# RXE_TESTS="t/spmd/rma.t .." and RXE_PAIR_TESTS (on two machines) name the tests of several
# ranks that run there; the suite takes fewer.
check_scripts += %D%/rxe.t
check_data += %D%/rxe-list %D%/agent
RXE_TESTS = t/spmd/rma.t t/spmd/call.t t/spmd/atomic.t t/spmd/array.t
RXE_PAIR_TESTS = t/spmd/rma.t t/spmd/call.t t/spmd/group.t

check-rxe: t/rxe/queues.t t/rxe/group.t tools/pgas_info $(RXE_TESTS) $(RXE_PAIR_TESTS)
	BUILD=$(abs_top_builddir) VM_TIMEOUT=$${VM_TIMEOUT:-900} RXE_TESTS='$(RXE_TESTS)' RXE_PAIR_TESTS='$(RXE_PAIR_TESTS)' \
	  $(abs_top_srcdir)/t/launch $(abs_top_srcdir)/%D%/rxe.t

.PHONY: check-rxe
