# PGAS_DATA_PLANE: at least one network library that a backend exists for. The verbs backend is not written yet.
AC_DEFUN([PGAS_DATA_PLANE], [
  AS_IF([test $pgas_have_UCX = no],
    [AC_MSG_ERROR(
      [no data plane: UCX 1.13 or newer is needed. On Debian: apt install libucx-dev; elsewhere --with-ucx=DIR])])
])
