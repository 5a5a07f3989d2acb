#!/usr/bin/env bash
# what: An explicit request that fails stops configure. So does the lack of MPI or of any data plane.
# needs: no-sanitizers
# timeout: 300
set -u
. "$(dirname "$0")/../tap.sh"
make_scratch
cd "$scratch" || exit 1

# refuses PATTERN DESCRIPTION ARGUMENT..: configure ends with an error that matches.
refuses() {
    local pattern=$1 text=$2 out
    shift 2
    if out=$("$TOP/configure" -C CC="$CC" MPICC="$MPICC" CXX=false "$@" 2>&1 >/dev/null); then
        ok 1 "$text"
        diag "configure went through"
    elif grep -qE -- "$pattern" <<<"$out"; then ok 0 "$text"; else
        ok 1 "$text"
        diag "$out"
    fi
}

# openmp_wanted FILE..: those that call an OpenMP run-time library, or whose pragmas would otherwise be ignored.
openmp_wanted() {
    local file
    for file; do
        # shellcheck disable=SC2086 # flags are words
        if ! "$CC" -D_GNU_SOURCE -std=gnu11 -Wall -Werror -I"$TOP/include" -I"$TOP/src" -I"$TOP" -I. $MPI_CPPFLAGS -c \
            "$file" -o probe.o || nm -u probe.o | grep -qE ' (omp|GOMP|__kmpc)_'; then echo "$file"; fi
    done 2>&1
}

if [ -e "$TOP/config.status" ]; then skip_all "the sources are configured in place, no other folder can be"; fi
all=
[ "${PGAS_TEST_MATRIX:-}" != all ] || all=yes
plan $((${#all} > 0 ? 19 : 12))
# First the good one: it leaves a cache that makes the others short.
succeeds "auto goes through without hwloc, verbs, OpenMP and C++, and ends in a summary" bash -c '
    "$0" -C CC="$1" MPICC="$2" CXX=false --with-hwloc=no --with-verbs=no --with-openmp=no | tail -n 15 >summary &&
    ! grep -qE "serializers.*(cereal|boost|capn|flatb)" summary &&
    grep -q "hwloc  *no" summary && grep -q "UCX  *yes" summary' "$TOP/configure" "$CC" "$MPICC"

# All that this build would make, and that mentions OpenMP, must do without it.
tests=$(env -u MAKEFLAGS -u MFLAGS make -s --no-print-directory list-tests)
grep -qx 't/spmd/hybrid.t' <<<"$tests" && s=1 || s=0
ok $s "without OpenMP the test of OpenMP threads is not built"
sources=$(cd "$TOP" && ls examples/*.c benchmarks/*.c && sed -n 's/\.t$/.c/p' <<<"$tests")
users=$(cd "$TOP" && grep -lE 'omp\.h|pragma omp' $(cd "$TOP" && ls -d $sources 2>/dev/null) | sed "s,^,$TOP/,")
empty "$(openmp_wanted $users)" "and what is built does not need it: ${users//"$TOP/"/}"
is "$(openmp_wanted "$TOP/t/spmd/hybrid.c" | tail -n 1)" "$TOP/t/spmd/hybrid.c" "and the check can fail"

refuses 'cannot be built without MPI' "--with-mpi=no" --with-mpi=no
refuses 'no .*bin/mpicc' "--with-mpi of a folder without mpicc" --with-mpi="$scratch/none"
refuses 'apt install libucx-dev' "no data plane names the package" --with-ucx=no
refuses 'xxhash 0.8.0 or newer is needed.*apt install libxxhash-dev' "--with-xxhash=no" --with-xxhash=no
refuses 'ucx.*was asked for.*libucx-dev' "--with-ucx of a folder without UCX" --with-ucx="$scratch/none"
if [ -n "$all" ]; then
    refuses 'xxhash.*was asked for.*libxxhash-dev' "--with-xxhash of a folder without xxhash" --with-xxhash="$scratch/none"
    refuses 'hwloc.*was asked for.*libhwloc-dev' "--with-hwloc of a folder without hwloc" --with-hwloc="$scratch/none"
fi
options="--with-openmp=/foo --with-ucx="
if [ -n "$all" ]; then
    options+=" --with-serializers=maybe --with-openmp=maybe --enable-werror=maybe --enable-debug=maybe --with-hwloc=here"
fi
for option in $options; do
    refuses "error: ${option}: " "$option" "$option"
done
mkdir "$scratch/a blank" && cd "$scratch/a blank" || exit 1
refuses 'the build folder has a blank in its path' "a build folder with a blank in its path"
done_testing
