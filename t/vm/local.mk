# What needs a machine that this one is not: a virtual one, with two NUMA nodes or with an RDMA device (see %D%/run, which
# downloads a kernel for it).
EXTRA_DIST += %D%/run %D%/rxe.sh

numa-vm: t/spmd/zones.t
	PGAS_TEST_MATRIX=all BUILD=$(abs_top_builddir) $(srcdir)/%D%/run $(abs_top_srcdir)/t/launch t/spmd/zones.t

.PHONY: numa-vm

mostlyclean-local:
	rm -rf %D%/kernel %D%/fetched %D%/.fetching
