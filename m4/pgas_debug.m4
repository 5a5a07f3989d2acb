# PGAS_ENABLE_DEBUG: --enable-debug builds without optimisation and with internal assertions (PGAS_DEBUG is 1).
AC_DEFUN([PGAS_ENABLE_DEBUG], [
  AC_ARG_ENABLE([debug], [AS_HELP_STRING([--enable-debug], [no optimisation, internal assertions on])],
    [], [enable_debug=no])
  PGAS_YES_OR_NO([enable-debug], [$enable_debug])
  pgas_debug=0
  AS_IF([test "$enable_debug" != no], [
    pgas_debug=1
    AS_IF([test -z "$pgas_user_cflags"], [CFLAGS="-O0 -g3"])])
  AC_DEFINE_UNQUOTED([PGAS_DEBUG], [$pgas_debug], [1: internal assertions are checked])
])
