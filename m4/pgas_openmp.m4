# PGAS_OPENMP: only tests, examples and benchmarks use it; the library does not.
AC_DEFUN([PGAS_OPENMP], [
  AC_ARG_WITH([openmp], [AS_HELP_STRING([--with-openmp=yes|no|auto], [OpenMP in tests and examples @<:@auto@:>@])],
    [], [with_openmp=auto])
  AS_CASE([$with_openmp], [yes|no|auto], [],
    [AC_MSG_ERROR([--with-openmp=$with_openmp: yes, no or auto; the compiler's own OpenMP is used])])
  pgas_have_openmp=no PGAS_OPENMP_CFLAGS=
  AS_IF([test "$with_openmp" != no], [
    pgas_save_CFLAGS=$CFLAGS
    CFLAGS="$CFLAGS -fopenmp"
    AC_MSG_CHECKING([for OpenMP])
    AC_LINK_IFELSE([AC_LANG_PROGRAM([[#include <omp.h>]], [[return omp_get_max_threads() < 1;]])],
      [pgas_have_openmp=yes PGAS_OPENMP_CFLAGS=-fopenmp])
    CFLAGS=$pgas_save_CFLAGS
    AC_MSG_RESULT([$pgas_have_openmp])])
  AS_IF([test "$pgas_have_openmp$with_openmp" = noyes],
    [AC_MSG_ERROR([--with-openmp was asked for, but $CC has none; with clang on Debian: apt install libomp-dev])])
  AC_SUBST([PGAS_OPENMP_CFLAGS])
  AC_SUBST([PGAS_HAVE_OPENMP], [$pgas_have_openmp])
  AM_CONDITIONAL([HAVE_OPENMP], [test $pgas_have_openmp = yes])
])
