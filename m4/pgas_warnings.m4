# PGAS_WARNINGS: the warnings that gcc and clang must not give, each taken only if the compiler knows it.
# --enable-werror turns them into errors (tools/check does; users with newer compilers should not have to).
AC_DEFUN([PGAS_WARNINGS], [
  AC_ARG_ENABLE([werror], [AS_HELP_STRING([--enable-werror], [treat compiler warnings as errors])],
    [], [enable_werror=no])
  PGAS_YES_OR_NO([enable-werror], [$enable_werror])
  PGAS_WARN_CFLAGS=
  for pgas_flag in -Wall -Wextra -Wpedantic -Wshadow -Wvla -Wstrict-prototypes -Wmissing-prototypes; do
    PGAS_CC_TAKES([$pgas_flag], [PGAS_WARN_CFLAGS="$PGAS_WARN_CFLAGS $pgas_flag"])
  done
  AS_IF([test "$enable_werror" = yes], [PGAS_WARN_CFLAGS="$PGAS_WARN_CFLAGS -Werror"])
  AC_SUBST([PGAS_WARN_CFLAGS])
])

# PGAS_YES_OR_NO(OPTION, VALUE): anything else stops configure.
AC_DEFUN([PGAS_YES_OR_NO], [
  AS_CASE([$2], [yes|no], [], [AC_MSG_ERROR([--$1=$2: yes or no])])
])

# PGAS_CC_TAKES(FLAG, IF-TAKEN, [IF-REFUSED]): -Werror because clang only warns about flags that it does not know.
AC_DEFUN([PGAS_CC_TAKES], [
  AC_MSG_CHECKING([whether $CC takes $1])
  pgas_save_CFLAGS=$CFLAGS
  CFLAGS="$CFLAGS -Werror $1"
  AC_LINK_IFELSE([AC_LANG_SOURCE([[int main(void) { return 0; }]])],
    [CFLAGS=$pgas_save_CFLAGS; AC_MSG_RESULT([yes]); $2],
    [CFLAGS=$pgas_save_CFLAGS; AC_MSG_RESULT([no]); $3])
])
