# PGAS_C11: the language of the library, gnu11, kept apart from CC so that the lint can compile headers as C99.
# Puts its flag into AM_CFLAGS through PGAS_STD_CFLAGS.
AC_DEFUN([PGAS_C11], [
  PGAS_STD_CFLAGS=-std=gnu11
  AC_SUBST([PGAS_STD_CFLAGS])
  AC_CACHE_CHECK([whether $CC makes C11 with atomics], [pgas_cv_c11], [
    pgas_save_CFLAGS=$CFLAGS
    CFLAGS="$CFLAGS $PGAS_STD_CFLAGS"
    AC_LINK_IFELSE([AC_LANG_PROGRAM([[#include <stdatomic.h>
      static _Atomic unsigned long word;]], [[_Static_assert(sizeof(word) == sizeof(long), "");
      return (int)atomic_fetch_add(&word, 1);]])], [pgas_cv_c11=yes], [pgas_cv_c11=no])
    CFLAGS=$pgas_save_CFLAGS])
  AS_IF([test "$pgas_cv_c11" = no], [AC_MSG_ERROR([libpgas needs a C11 compiler with <stdatomic.h>])])
])
