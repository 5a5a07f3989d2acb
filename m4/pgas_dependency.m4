# PGAS_DEPENDENCY(PREFIX, NAME, PC-MODULE, MIN-VERSION, HEADER, VERSION-CONDITION, FUNCTION, LIBS, DEBIAN-PACKAGE, FOR)
# --with-NAME=yes|no|auto|DIR. Looks with pkg-config (DIR/lib*/pkgconfig and the multiarch folder first), then with
# plain -I, -L and LIBS. auto gives up in silence; yes and DIR stop configure and say what to install.
# Sets and substitutes PREFIX_CFLAGS, PREFIX_LIBS, PREFIX_RPATH (the part of PREFIX_LIBS that only names folders) and
# PREFIX_VERSION; PREFIX_PC is the module that was found, or empty; defines PGAS_HAVE_PREFIX; shell variable
# pgas_have_PREFIX is yes or no.
AC_DEFUN([PGAS_DEPENDENCY], [
  AC_ARG_WITH([$2], [AS_HELP_STRING([--with-$2=yes|no|auto|DIR], [$10 @<:@auto@:>@])], [], [with_$2=auto])
  pgas_have_$1=no $1_CFLAGS= $1_LIBS= $1_RPATH= $1_VERSION= $1_PC=
  AC_MSG_CHECKING([for $2 ($4 or newer)])
  pgas_dir=
  AS_CASE([$with_$2], [yes|no|auto], [], [/*], [pgas_dir=$with_$2],
    [AC_MSG_ERROR([--with-$2=$with_$2: yes, no, auto or a folder, from the root on])])
  AS_IF([test "$with_$2" != no], [
    pgas_multiarch=`$CC -print-multiarch 2>/dev/null`
    pgas_pc_path=$PKG_CONFIG_PATH
    AS_IF([test -n "$pgas_dir"], [
      pgas_pc_path=
      for pgas_lib in lib lib64 ${pgas_multiarch:+lib/$pgas_multiarch}; do
        AS_IF([test -d "$pgas_dir/$pgas_lib/pkgconfig"],
          [pgas_pc_path=$pgas_pc_path${pgas_pc_path:+:}$pgas_dir/$pgas_lib/pkgconfig])
      done])
    AS_IF([test -n "$PKG_CONFIG" && { test -z "$pgas_dir" || test -n "$pgas_pc_path"; } &&
           PKG_CONFIG_PATH=$pgas_pc_path $PKG_CONFIG --exists "$3 >= $4" 2>/dev/null], [
      $1_CFLAGS=`PKG_CONFIG_PATH=$pgas_pc_path $PKG_CONFIG --cflags $3`
      $1_LIBS=`PKG_CONFIG_PATH=$pgas_pc_path $PKG_CONFIG --libs $3`
      $1_VERSION=`PKG_CONFIG_PATH=$pgas_pc_path $PKG_CONFIG --modversion $3`
      $1_PC=$3
    ], [
      $1_LIBS="$8"
      AS_IF([test -n "$pgas_dir"], [
        $1_CFLAGS=-I$pgas_dir/include
        for pgas_lib in lib lib64 ${pgas_multiarch:+lib/$pgas_multiarch}; do
          AS_IF([ls "$pgas_dir/$pgas_lib"/lib*.so >/dev/null 2>&1],
            [$1_LIBS="-L$pgas_dir/$pgas_lib $8"])
        done])])
    dnl A library outside the system's folders must be found again when programs start.
    AS_CASE([$pgas_dir], [''|/usr], [], [
      for pgas_lib in lib lib64 ${pgas_multiarch:+lib/$pgas_multiarch}; do
        AS_IF([test -d "$pgas_dir/$pgas_lib"], [$1_RPATH="$$1_RPATH -Wl,-rpath,$pgas_dir/$pgas_lib"])
      done
      $1_LIBS="$$1_LIBS$$1_RPATH"])
    pgas_save_CFLAGS=$CFLAGS pgas_save_LIBS=$LIBS
    CFLAGS="$CFLAGS $$1_CFLAGS"
    LIBS="$$1_LIBS $LIBS"
    dnl A named folder must hold the header itself: the compiler would find the system's and nobody would notice.
    AS_IF([test -z "$pgas_dir" || test -f "$pgas_dir/include/$5"], [
      AC_LINK_IFELSE([AC_LANG_PROGRAM([[#include <stddef.h>
#include <$5>
#if !($6)
#error "too old"
#endif]], [[return (void (*)(void))$7 == NULL;]])], [pgas_have_$1=yes])])
    CFLAGS=$pgas_save_CFLAGS LIBS=$pgas_save_LIBS])
  AC_MSG_RESULT([$pgas_have_$1${$1_VERSION:+ $$1_VERSION}${$1_PC:+ (pkg-config)}])
  AS_IF([test $pgas_have_$1 = yes],
    [AC_DEFINE([PGAS_HAVE_$1], [1], [$10])
     AS_IF([test -n "$$1_VERSION"], [],
       [PGAS_HEADER_TEXT([$5], [$$1_CFLAGS], [$11], [$1_VERSION])])
     AC_DEFINE_UNQUOTED([PGAS_$1_VERSION_TEXT], ["$$1_VERSION"], [version of $2 at build time])],
    [AS_CASE([$with_$2], [no|auto], [],
       [AC_MSG_ERROR([--with-$2=$with_$2 was asked for, but $2 $4 or newer was not found; on Debian: apt install $9])])
     $1_CFLAGS= $1_LIBS= $1_RPATH= $1_PC= $1_VERSION=])
  AC_SUBST([$1_CFLAGS])
  AC_SUBST([$1_LIBS])
  AC_SUBST([$1_RPATH])
  AM_CONDITIONAL([HAVE_$1], [test $pgas_have_$1 = yes])
])

# PGAS_HEADER_TEXT(HEADER, CFLAGS, TOKENS, VARIABLE): what TOKENS become after preprocessing, quotes removed and blanks
# between parts made dots.
AC_DEFUN([PGAS_HEADER_TEXT], [
  AC_LANG_CONFTEST([AC_LANG_SOURCE([[#include <$1>
pgas_text_is $3]])])
  $4=`$CPP -P $CPPFLAGS $2 conftest.$ac_ext 2>/dev/null | tr '\n' ' ' |
    sed -e 's/.*pgas_text_is *//' -e 's/"//g' -e 's/  *$//' -e 's/  */./g'`
  rm -f conftest.$ac_ext
])
