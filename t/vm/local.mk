# What needs a machine that this one is not: a virtual one with two NUMA nodes. Not part of the suite: it takes a minute,
# and downloads a kernel (see %D%/run).
EXTRA_DIST += %D%/run

numa-vm: t/spmd/zones.t
	PGAS_TEST_MATRIX=all BUILD=$(abs_top_builddir) $(srcdir)/%D%/run $(abs_top_srcdir)/t/launch t/spmd/zones.t

.PHONY: numa-vm
