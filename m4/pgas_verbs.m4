# PGAS_VERBS: rdma-core's libibverbs, for the native backend. Nothing links it yet.
AC_DEFUN([PGAS_VERBS], [
  PGAS_DEPENDENCY([VERBS], [verbs], [libibverbs], [1.11], [infiniband/verbs.h], [1],
    [ibv_get_device_list], [-libverbs], [libibverbs-dev], [libibverbs, for the verbs backend])
])
