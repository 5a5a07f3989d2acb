#!/usr/bin/env bash
# what: A program that was compiled with other headers than those of the library gets PGAS_ERR_MISMATCH from pgas_init on
#       each rank, and the log names both interfaces. The layout of its options does not matter then, nor does a second try.
#       A program whose symbols have another version is not started.
# needs: no-sanitizers
# source: pgas/init.h, pgas/version.h
set -u
. "$(dirname "$0")/../tap.sh"
make_scratch
cd "$scratch" || exit 1

# The program starts MPI, so that it can try twice.
cat >main.c <<'END'
#include <pgas/pgas.h>
#include <stdio.h>
int main(void)
{
    int provided;
    MPI_Init_thread(NULL, NULL, MPI_THREAD_SERIALIZED, &provided);
    pgas_init_opts_t opts = PGAS_INIT_OPTS_INIT;
    opts.params = "HEAP_SIZE=4M";
    pgas_status_t status = pgas_init(NULL, &opts), again = pgas_init(NULL, NULL);
    printf("%s %s %d\n", pgas_status_name(status), pgas_status_name(again), pgas_rank() >= 0);
    fflush(stdout);
    if (again == PGAS_OK)
        pgas_finalize();
    if (status == PGAS_OK)
        pgas_finalize();
    return MPI_Finalize();
}
END

# Headers of another interface, in which the options have another layout.
cp -R "$TOP/include" other
sed -i 's/^#define PGAS_INTERFACE .*/#define PGAS_INTERFACE 9999/' other/pgas/version.h
sed -i 's/^    const char \*params;/    double more; const char *params;/
    s/sizeof(pgas_init_opts_t), NULL/sizeof(pgas_init_opts_t), 0.5, NULL/' other/pgas/init.h
ours=$(sed -n 's/^#define PGAS_INTERFACE //p' "$TOP/include/pgas/version.h")

LINK="-L$BUILD/.libs -lpgas -Wl,-rpath,$BUILD/.libs $DEPENDENCY_LIBS"
# shellcheck disable=SC2086
compile() { $CC -o "$1" main.c -I"$2" $MPI_CPPFLAGS $LINK; }
lines() { grep -c "$1" <<<"$2"; }

plan 8
succeeds "a program compiles with the headers of the library" compile same "$TOP/include"
is "$(lines '^PGAS_OK PGAS_OK 1' "$(mpirun_n 2 ./same 2>&1)")" 2 "and starts, twice"
fails "the other headers differ" cmp -s other/pgas/init.h "$TOP/include/pgas/init.h"
succeeds "a program compiles with other headers" compile differs other
out=$(mpirun_n 2 ./differs 2>&1)
is "$(lines '^PGAS_ERR_MISMATCH PGAS_ERR_MISMATCH 0' "$out")" 2 "pgas_init refuses it on each rank, each time"
is "$(lines "headers of interface 9999, but libpgas .* has interface $ours" "$out")" 4 "the log names both interfaces"

# A library with another version of the symbols.
echo 'PGAS_9.9 { global: pgas_*; };' >other.map
for name in init_interface status_name rank finalize; do echo "int pgas_$name(void); int pgas_$name(void) { return 0; }"; done >later.c
mkdir later
succeeds "a library of another version, and a program for it" sh -c "
    $CC -shared -fPIC -o later/libpgas.so later.c -Wl,-soname,libpgas.so.1 -Wl,--version-script=other.map &&
    $CC -o later_program main.c -I$TOP/include $MPI_CPPFLAGS -Llater -lpgas -Wl,-rpath,$BUILD/.libs $DEPENDENCY_LIBS"
fails "the program does not start with this library" ./later_program
done_testing
