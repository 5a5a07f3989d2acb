# PGAS_MPI: the MPI that MPICC belongs to, and its launcher.
# CC stays the plain compiler: include and link flags are read from `$MPICC -show`, so that one tree can be built
# against Open MPI and MPICH side by side (Debian: MPICC=mpicc.openmpi or mpicc.mpich).
# Substitutes MPI_CPPFLAGS (include folders as system folders, since their headers warn), MPI_CFLAGS (the same as -I,
# for pgas.pc), MPI_LIBS, PGAS_MPI_FLAVOR (openmpi, mpich, other), PGAS_MPI_NAME, PGAS_MPI_VERSION, MPICC, MPIEXEC.
AC_DEFUN([PGAS_MPI], [
  AC_REQUIRE([AC_PROG_CPP])
  AC_ARG_VAR([MPICC], [MPI compiler wrapper, selects the MPI: mpicc.openmpi, mpicc.mpich, ...])
  AC_ARG_VAR([MPIEXEC], [launcher of the same MPI, for the tests])
  AC_ARG_WITH([mpi], [AS_HELP_STRING([--with-mpi=yes|DIR], [MPI, required: DIR/bin/mpicc is taken @<:@auto@:>@])],
    [], [with_mpi=auto])
  AS_CASE([$with_mpi],
    [no], [AC_MSG_ERROR([libpgas cannot be built without MPI: it launches, names and does collectives])],
    [yes|auto], [],
    [''], [AC_MSG_ERROR([--with-mpi= names no folder])],
    [AS_IF([test -x "$with_mpi/bin/mpicc"], [: ${MPICC="$with_mpi/bin/mpicc"}],
       [AC_MSG_ERROR([--with-mpi=$with_mpi: there is no $with_mpi/bin/mpicc])])])
  AC_CHECK_PROGS([MPICC], [mpicc mpicc.openmpi mpicc.mpich])
  AS_IF([test -z "$MPICC"], [PGAS_MPI_MISSING([no mpicc was found])])
  pgas_show=`$MPICC -show 2>/dev/null` || PGAS_MPI_MISSING([$MPICC -show does not work])
  PGAS_MPI_FLAGS
  PGAS_MPI_KIND
  PGAS_MPI_LAUNCHER
])

AC_DEFUN([PGAS_MPI_MISSING], [AC_MSG_ERROR(
  [MPI is required: $1. On Debian: apt install libopenmpi-dev openmpi-bin (or libmpich-dev mpich); MPICC selects one])])

# Sorts the words of pgas_show into compile and link flags, and tries them.
AC_DEFUN([PGAS_MPI_FLAGS], [
  AC_MSG_CHECKING([for MPI by $MPICC])
  MPI_CFLAGS= MPI_CPPFLAGS= MPI_LIBS=
  pgas_first=yes
  for pgas_word in $pgas_show; do
    AS_CASE([$pgas_first$pgas_word],
      [yes*], [],
      [no-I/usr/include], [],
      [no-I*], [MPI_CFLAGS="$MPI_CFLAGS $pgas_word"
                MPI_CPPFLAGS="$MPI_CPPFLAGS -isystem `AS_ECHO([$pgas_word]) | sed 's/^-I//'`"],
      [no-D*], [MPI_CFLAGS="$MPI_CFLAGS $pgas_word"; MPI_CPPFLAGS="$MPI_CPPFLAGS $pgas_word"],
      [no-L*|no-l*|no-Wl,*|no*.so|no*.a], [MPI_LIBS="$MPI_LIBS $pgas_word"])
    pgas_first=no
  done
  pgas_save_CFLAGS=$CFLAGS pgas_save_LIBS=$LIBS
  CFLAGS="$CFLAGS $MPI_CPPFLAGS"
  LIBS="$MPI_LIBS $LIBS"
  AC_LINK_IFELSE([AC_LANG_PROGRAM([[#include <mpi.h>
#if MPI_VERSION < 3
#error "MPI 3 is needed"
#endif]], [[int level; return MPI_Init_thread(0, 0, MPI_THREAD_MULTIPLE, &level);]])], [],
    [AC_MSG_RESULT([no])
     PGAS_MPI_MISSING([a program with the flags of $MPICC (at least MPI 3) does not build, see config.log])])
  CFLAGS=$pgas_save_CFLAGS LIBS=$pgas_save_LIBS
  AC_MSG_RESULT([yes])
  AC_SUBST([MPI_CFLAGS])
  AC_SUBST([MPI_CPPFLAGS])
  AC_SUBST([MPI_LIBS])
])

# Name and version, from the preprocessed header: nothing has to be run.
AC_DEFUN([PGAS_MPI_KIND], [
  AC_MSG_CHECKING([which MPI this is])
  PGAS_HEADER_TEXT([mpi.h], [$MPI_CPPFLAGS], [
#if defined OPEN_MPI
pgas_text_is openmpi OMPI_MAJOR_VERSION OMPI_MINOR_VERSION OMPI_RELEASE_VERSION
#elif defined MPICH_VERSION
pgas_text_is mpich MPICH_VERSION
#else
pgas_text_is other MPI_VERSION MPI_SUBVERSION
#endif], [pgas_kind])
  PGAS_MPI_FLAVOR=`AS_ECHO(["$pgas_kind"]) | sed 's/\..*//'`
  PGAS_MPI_VERSION=`AS_ECHO(["$pgas_kind"]) | sed 's/^@<:@a-z@:>@*\.//'`
  AS_CASE([$PGAS_MPI_FLAVOR], [openmpi], [PGAS_MPI_NAME="Open MPI"], [mpich], [PGAS_MPI_NAME=MPICH],
    [PGAS_MPI_NAME=MPI])
  AC_MSG_RESULT([$PGAS_MPI_NAME $PGAS_MPI_VERSION])
  AC_DEFINE_UNQUOTED([PGAS_MPI_NAME], ["$PGAS_MPI_NAME"], [the MPI that was compiled against])
  AC_DEFINE_UNQUOTED([PGAS_MPI_VERSION_TEXT], ["$PGAS_MPI_VERSION"], [its version])
  AC_DEFINE_UNQUOTED([PGAS_MPI_FLAVOR], ["$PGAS_MPI_FLAVOR"], [openmpi, mpich or other])
  AC_SUBST([PGAS_MPI_FLAVOR])
  AC_SUBST([PGAS_MPI_NAME])
  AC_SUBST([PGAS_MPI_VERSION])
])

# The launcher that stands beside MPICC and says that it is of the same kind: with two MPIs installed, a plain mpirun
# may start N programs that each believe to be alone.
AC_DEFUN([PGAS_MPI_LAUNCHER], [
  AC_MSG_CHECKING([for the launcher of $PGAS_MPI_NAME])
  set dummy $MPICC
  pgas_mpicc=`command -v $[]2`
  pgas_bin=`AS_DIRNAME(["$pgas_mpicc"])`
  AS_IF([test -n "$MPIEXEC"],
    [PGAS_LAUNCHER_FITS([$MPIEXEC],
       [], [AC_MSG_WARN([$MPIEXEC does not look like a launcher of $PGAS_MPI_NAME; taken because it was asked for])])],
    [for pgas_cand in "$pgas_bin/mpirun.$PGAS_MPI_FLAVOR" "$pgas_bin/mpiexec.$PGAS_MPI_FLAVOR" "$pgas_bin/mpirun" \
         "$pgas_bin/mpiexec" mpirun mpiexec; do
       PGAS_LAUNCHER_FITS([$pgas_cand], [MPIEXEC=$pgas_cand; break])
     done])
  AC_MSG_RESULT([${MPIEXEC:-none}])
  AS_IF([test -z "$MPIEXEC"], [AC_MSG_WARN([no launcher of $PGAS_MPI_NAME was found: tests cannot run; set MPIEXEC])])
])

AC_DEFUN([PGAS_LAUNCHER_FITS], [
  pgas_says=`$1 --version </dev/null 2>&1 || :`
  AS_CASE([$PGAS_MPI_FLAVOR:$pgas_says],
    [openmpi:*"Open MPI"*|openmpi:*OpenRTE*|openmpi:*Open-MPI*], [$2],
    [mpich:*HYDRA*|mpich:*MPICH*|mpich:*mpich*|mpich:*Intel*], [$2],
    [other:*ersion*], [$2],
    [:; $3])
])
