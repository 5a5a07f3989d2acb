#!/usr/bin/env bash
# what: make install gives a library, headers and .pc files with which a user's program builds and runs, also if the
#       library is linked statically (its dependencies stay shared). An install prefix other than configure's is
#       refused. make uninstall removes all of it.
# needs: no-sanitizers command:make
set -u
. "$(dirname "$0")/../tap.sh"
make_scratch
unset MAKEFLAGS MFLAGS MAKELEVEL

root=$scratch/root
configured() { PKG_CONFIG_PATH=$BUILD pkg-config --variable="$1" pgas; }
prefix=$root$(configured prefix)
libdir=$root$(configured libdir)

# The .pc files have configure's prefix; here it is below a folder. The library is in $libdir, or another one.
pc() {
    local name=${!#}
    PKG_CONFIG_PATH=$root$(configured libdir)/pkgconfig pkg-config --define-variable=prefix="$prefix" \
        --define-variable=exec_prefix="$prefix" --define-variable=libdir="$libdir" \
        --define-variable=includedir="$root$(configured includedir)" "${@:1:$#-1}" "$name"
}
build_program() { $CC -o "$scratch/$1" "$scratch/$1.c" $(pc --cflags --libs pgas); }
# links_statically NAME SOURCE LIBRARY: with a folder of libraries that holds only archives.
links_statically() {
    local libdir=$scratch/static
    $CC -o "$scratch/$1" "$2" $(pc --cflags --static --libs "$3") && ! readelf -d "$scratch/$1" | grep 'NEEDED.*libpgas'
}

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

plan 21
install_here() { make -s -C "$BUILD" install DESTDIR="$root" V=0 "$@"; }
fails "make install to another prefix than configure's is refused" install_here prefix=/elsewhere
fails "and so is another folder of libraries" install_here libdir=/elsewhere
[ ! -e "$root" ]
ok $? "then nothing is installed"
succeeds "make install" install_here
missing=$(cd "$TOP/include/pgas" && for h in *.h detail/*.h; do [ -f "$root$(configured includedir)/pgas/$h" ] || echo "$h"; done)
empty "$missing" "all public headers are installed"
is "$(cd "$libdir" && ls libpgas.so libpgas.so.1 libpgas.so.1.0.0 | paste -sd ' ')" \
    "libpgas.so libpgas.so.1 libpgas.so.1.0.0" "the library is versioned"
is "$(pc --modversion pgas)" "$(sed -n 's/^#define PGAS_VERSION_TEXT "\(.*\)"/\1/p' "$TOP/include/pgas/version.h")" \
    "pgas.pc and version.h name one version"
is "$(sed -n 's/^#define PGAS_VERSION_\(MAJOR\|MINOR\|PATCH\) //p' "$TOP/include/pgas/version.h" | paste -sd .)" \
    "$(pc --modversion pgas)" "and so do the numbers in version.h"
succeeds "a user's program builds with pkg-config" build_program user
succeeds "also where no other .pc file is to be found" env PKG_CONFIG_LIBDIR="$libdir/pkgconfig" PKG_CONFIG_PATH= \
    pkg-config --cflags pgas
# Without LD_LIBRARY_PATH: as docs/install.md says, by a path in the program, or by the loader's cache.
former=${LD_LIBRARY_PATH:-}
unset LD_LIBRARY_PATH
$CC -o "$scratch/rpath" "$scratch/user.c" $(pc --cflags --libs pgas) -Wl,-rpath,"$libdir"
is "$(mpirun_n 2 "$scratch/rpath" | sort | paste -sd ' ')" "rank 0 of 2 rank 1 of 2" "a path in the program is enough"
PATH=$PATH:/usr/sbin:/sbin
if command -v ldconfig >/dev/null; then
    echo "$libdir" >"$scratch/ld.conf"
    ldconfig -X -f "$scratch/ld.conf" -C "$scratch/ld.cache" 2>/dev/null
    is "$(ldconfig -p -C "$scratch/ld.cache" | grep -c 'libpgas\.so\.1 ')" 1 "ldconfig finds the library by its soname"
else skip 1 "no ldconfig here"; fi
if [ -n "$former" ]; then LD_LIBRARY_PATH=$former; fi
export LD_LIBRARY_PATH=$libdir${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}
is "$(mpirun_n 2 "$scratch/user" | sort | paste -sd ' ')" "rank 0 of 2 rank 1 of 2" "and runs on two ranks"
fails "a program that uses internals does not link" build_program sneak
succeeds "pgas_info runs without a launcher" "$prefix/bin/pgas_info"

# Archives as --enable-static installs them: the same objects, without the export filter.
mkdir "$scratch/static"
cp "$BUILD/.libs/libpgas_core.a" "$scratch/static/libpgas.a"
cp "$BUILD/.libs/libpgas_core.a" "$scratch/static/libpgas-verbs.a"
succeeds "pkg-config --static is enough to link with libpgas.a" links_statically user-static "$scratch/user.c" pgas
is "$(mpirun_n 2 "$scratch/user-static" | sort | paste -sd ' ')" "rank 0 of 2 rank 1 of 2" "and the program runs on two ranks"
succeeds "and so it is with libpgas-verbs.a" links_statically verbs "$TOP/examples/13_queue_pairs.c" pgas-verbs
is "$("$scratch/verbs" | tail -n 1)" right "and the program runs"

succeeds "make uninstall" make -s -C "$BUILD" uninstall DESTDIR="$root" V=0
empty "$(find "$root" ! -type d -o -name '*pgas*')" "leaves no file, and no folder of ours"
done_testing
