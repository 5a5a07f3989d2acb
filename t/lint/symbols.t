#!/usr/bin/env bash
# what: libpgas.so and libpgas-verbs.so export pgas_ symbols of the version PGAS_0.2 and no others. Programs hold copies of no
#       other variables of libpgas.so than HACKING.md lists.
# needs: no-sanitizers command:nm command:readelf
set -u
. "$(dirname "$0")/../tap.sh"
make_scratch

symbols() { nm -D --defined-only "$1" | "$AWK" '$2 != "A" { print $NF }'; }
exported() { symbols "$1" | sed 's/@.*//'; }
unversioned() { symbols "$1" | grep -v '@@PGAS_0\.2$'; }
foreign() { exported "$1" | grep -v '^pgas_'; }

# Data is part of the ABI and can be changed by users: only what inline functions of the public headers need.
tables="pgas_array_path pgas_call_path pgas_call_run pgas_heap_table"
writable() { nm -D --defined-only "$1" | grep -E ' [BDGS] ' | "$AWK" '{ print $NF }' | sed 's/@.*//'; }

library=$BUILD/.libs/libpgas.so
plan 12
is "$(readelf -d "$library" | sed -n 's/.*SONAME.*\[\(.*\)\]/\1/p')" libpgas.so.1 "the library has a versioned name"
if [ "$(exported "$library" | wc -l)" -gt 0 ]; then ok 0 "it exports something"; else ok 1 "it exports something"; fi
empty "$(foreign "$library")" "everything it exports begins with pgas_"
is "$(writable "$library" | sort | paste -sd ' ')" "$tables" "of data, what inline functions look at"

for name in libpgas libpgas-verbs; do
    empty "$(unversioned "$BUILD/.libs/$name.so")" "all symbols of $name have the version"
done
empty "$(foreign "$BUILD/.libs/libpgas-verbs.so")" "everything that libpgas-verbs exports begins with pgas_"

# A program that is not position-independent, or whose compiler addresses data directly, copies variables of a library.
copied() { readelf -rW "$@" 2>/dev/null | sed -n 's/.*_COPY .* \(pgas_[a-z_]*\).*/\1/p' | sort -u; }
is "$(sed -n 's/^| `\(pgas_[a-z_]*\)` | .*copied.*/\1/p' "$TOP/HACKING.md" | sort | paste -sd ' ')" "pgas_call_run pgas_heap_table" \
    "HACKING.md lists the variables that programs copy"
programs=$(find "$BUILD/examples" "$BUILD/benchmarks" "$BUILD/tools" -maxdepth 1 -type f -perm -u+x ! -name '*.sh')
is "$(copied $programs | paste -sd ' ')" "pgas_call_run pgas_heap_table" "and they copy no others"

printf 'int pgas_a; int pgasi_b; int c;\n' >"$scratch/x.c"
$CC -shared -fPIC -o "$scratch/x.so" "$scratch/x.c"
is "$(foreign "$scratch/x.so" | sort | paste -sd ' ')" "c pgasi_b" "internal and foreign names are caught"
is "$(writable "$scratch/x.so" | wc -l)" 3 "exported data is caught"
printf 'extern int pgas_a; int main(void) { return pgas_a; }\n' >"$scratch/y.c"
$CC -no-pie -fno-pic -o "$scratch/y" "$scratch/y.c" "$scratch/x.so"
is "$(copied "$scratch/y")" pgas_a "and so is a copied variable"
done_testing
