# PGAS_HWLOC: places of threads and NUMA zones. Without it every thread counts as zone 0.
AC_DEFUN([PGAS_HWLOC], [
  PGAS_DEPENDENCY([HWLOC], [hwloc], [hwloc], [2.0], [hwloc.h], [HWLOC_API_VERSION >= 0x00020000],
    [hwloc_topology_load], [-lhwloc], [libhwloc-dev], [hwloc, for thread placement])
])
