#!/usr/bin/env bash
# what: make install gives a library, headers and pgas.pc that a user's program builds and runs with
# needs: no-sanitizers command:make
set -u
. "$(dirname "$0")/../tap.sh"
make_scratch
unset MAKEFLAGS MFLAGS MAKELEVEL

prefix=$scratch/usr
install_here() { make -s -C "$BUILD" install prefix="$prefix" exec_prefix="$prefix" libdir="$prefix/lib" V=0; }

# pgas.pc holds the prefix of configure; here it stands elsewhere.
pc() {
    PKG_CONFIG_PATH=$prefix/lib/pkgconfig pkg-config --define-variable=prefix="$prefix" \
        --define-variable=exec_prefix="$prefix" --define-variable=libdir="$prefix/lib" \
        --define-variable=includedir="$prefix/include" "$@" pgas
}
build_program() { $CC -o "$scratch/$1" "$scratch/$1.c" $(pc --cflags --libs); }

cat >"$scratch/user.c" <<'EOT'
#include <pgas/pgas.h>
#include <stdio.h>
int main(void)
{
    if (pgas_init(NULL, NULL) != PGAS_OK)
        return 1;
    printf("rank %d of %d\n", pgas_rank(), pgas_n_ranks());
    return pgas_finalize() == PGAS_OK ? 0 : 1;
}
EOT
cat >"$scratch/sneak.c" <<'EOT'
int pgasi_param_find(const char *name);
int main(void) { return pgasi_param_find("HEAP_SIZE"); }
EOT

plan 12
succeeds "make install" install_here
missing=$(cd "$TOP/include/pgas" && for h in *.h; do [ -f "$prefix/include/pgas/$h" ] || echo "$h"; done)
empty "$missing" "all public headers are installed"
is "$(cd "$prefix/lib" && ls libpgas.so libpgas.so.0 libpgas.so.0.0.0 | paste -sd ' ')" \
    "libpgas.so libpgas.so.0 libpgas.so.0.0.0" "the library is versioned"
is "$(pc --modversion)" "$(sed -n 's/^#define PGAS_VERSION_TEXT "\(.*\)"/\1/p' "$TOP/include/pgas/version.h")" \
    "pgas.pc and version.h name one version"
is "$(sed -n 's/^#define PGAS_VERSION_\(MAJOR\|MINOR\|PATCH\) //p' "$TOP/include/pgas/version.h" | paste -sd .)" \
    "$(pc --modversion)" "and so do the numbers in version.h"
succeeds "a user's program builds with pkg-config" build_program user
succeeds "also where no other .pc file is to be found" env PKG_CONFIG_LIBDIR="$prefix/lib/pkgconfig" PKG_CONFIG_PATH= \
    pkg-config --cflags pgas
# Without LD_LIBRARY_PATH: as README says, by a path in the program, or by the loader's cache.
former=${LD_LIBRARY_PATH:-}
unset LD_LIBRARY_PATH
$CC -o "$scratch/rpath" "$scratch/user.c" $(pc --cflags --libs) -Wl,-rpath,"$prefix/lib"
is "$(mpirun_n 2 "$scratch/rpath" | sort | paste -sd ' ')" "rank 0 of 2 rank 1 of 2" "a path in the program is enough"
PATH=$PATH:/usr/sbin:/sbin
if command -v ldconfig >/dev/null; then
    echo "$prefix/lib" >"$scratch/ld.conf"
    ldconfig -X -f "$scratch/ld.conf" -C "$scratch/ld.cache" 2>/dev/null
    is "$(ldconfig -p -C "$scratch/ld.cache" | grep -c 'libpgas\.so\.0 ')" 1 "ldconfig finds the library by its soname"
else skip 1 "no ldconfig here"; fi
if [ -n "$former" ]; then LD_LIBRARY_PATH=$former; fi
export LD_LIBRARY_PATH=$prefix/lib${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}
is "$(mpirun_n 2 "$scratch/user" | sort | paste -sd ' ')" "rank 0 of 2 rank 1 of 2" "and runs on two ranks"
fails "a program that uses internals does not link" build_program sneak
succeeds "pgas_info runs without a launcher" "$prefix/bin/pgas_info"
done_testing
