# PGAS_VERBS: rdma-core's libibverbs, for the provider "verbs"; with its libmlx5 also for "mlx5". Both optional: the software NIC
# needs neither.
AC_DEFUN([PGAS_VERBS], [
  PGAS_DEPENDENCY([VERBS], [verbs], [libibverbs], [1.11], [infiniband/verbs.h], [1],
    [ibv_get_device_list], [-libverbs], [libibverbs-dev], [libibverbs, for queue pairs of real cards])
  pgas_have_MLX5DV=no
  AS_IF([test $pgas_have_VERBS = yes], [
    AC_MSG_CHECKING([for mlx5dv, with queue pairs by DEVX])
    pgas_save_CFLAGS=$CFLAGS pgas_save_LIBS=$LIBS
    CFLAGS="$CFLAGS $VERBS_CFLAGS"
    LIBS="-lmlx5 $VERBS_LIBS $LIBS"
    AC_LINK_IFELSE([AC_LANG_PROGRAM([[#include <stddef.h>
#include <infiniband/mlx5dv.h>]], [[return (void (*)(void))mlx5dv_devx_obj_create == NULL;]])], [pgas_have_MLX5DV=yes])
    CFLAGS=$pgas_save_CFLAGS LIBS=$pgas_save_LIBS
    AC_MSG_RESULT([$pgas_have_MLX5DV])])
  AS_IF([test $pgas_have_MLX5DV = yes], [
    VERBS_LIBS="-lmlx5 $VERBS_LIBS"
    AC_DEFINE([PGAS_HAVE_MLX5DV], [1], [libmlx5, for queues of our own])])
  AM_CONDITIONAL([HAVE_VERBS], [test $pgas_have_VERBS = yes])
  AM_CONDITIONAL([HAVE_MLX5DV], [test $pgas_have_MLX5DV = yes])
])
