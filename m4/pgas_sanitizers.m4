# PGAS_ENABLE_SANITIZERS: --enable-sanitizers[=LIST], by default address,undefined; or thread. For all objects and
# programs. The list goes to t/launch too, which chooses run-time options and longer time limits.
AC_DEFUN([PGAS_ENABLE_SANITIZERS], [
  AC_ARG_ENABLE([sanitizers],
    [AS_HELP_STRING([--enable-sanitizers@<:@=LIST@:>@], [build with sanitizers @<:@address,undefined@:>@, or thread])],
    [], [enable_sanitizers=no])
  AS_IF([test "$enable_sanitizers" = yes], [enable_sanitizers=address,undefined])
  PGAS_SANITIZERS= PGAS_SAN_CFLAGS=
  AS_IF([test "$enable_sanitizers" != no], [
    PGAS_SANITIZERS=$enable_sanitizers
    PGAS_SAN_CFLAGS="-fsanitize=$enable_sanitizers -fno-omit-frame-pointer"
    AS_IF([test -z "$pgas_user_cflags"], [CFLAGS="-O1 -g"])
    PGAS_CC_TAKES([$PGAS_SAN_CFLAGS], [], [AC_MSG_ERROR(
      [--enable-sanitizers=$enable_sanitizers: $CC cannot build with it; with clang install libclang-rt-dev])])])
  AC_SUBST([PGAS_SANITIZERS])
  AC_SUBST([PGAS_SAN_CFLAGS])
])
