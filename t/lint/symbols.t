#!/usr/bin/env bash
# what: libpgas.so exports pgas_ symbols and no others, and is versioned.
# needs: no-sanitizers command:nm command:readelf
set -u
. "$(dirname "$0")/../tap.sh"
make_scratch

exported() { nm -D --defined-only "$1" | "$AWK" '{ print $NF }' | sed 's/@.*//'; }
foreign() { exported "$1" | grep -v '^pgas_'; }

# Data is part of the ABI and can be changed by users: only what inline functions of the public headers need.
tables="pgas_array_path pgas_call_path pgas_call_run pgas_segtab"
writable() { nm -D --defined-only "$1" | grep -E ' [BDGS] ' | "$AWK" '{ print $NF }' | sed 's/@.*//'; }

library=$BUILD/.libs/libpgas.so
plan 6
is "$(readelf -d "$library" | sed -n 's/.*SONAME.*\[\(.*\)\]/\1/p')" libpgas.so.0 "the library has a versioned name"
if [ "$(exported "$library" | wc -l)" -gt 0 ]; then ok 0 "it exports something"; else ok 1 "it exports something"; fi
empty "$(foreign "$library")" "everything it exports begins with pgas_"
is "$(writable "$library" | sort | paste -sd ' ')" "$tables" "of data, what inline functions look at"

printf 'int pgas_a; int pgasi_b; int c;\n' >"$scratch/x.c"
$CC -shared -fPIC -o "$scratch/x.so" "$scratch/x.c"
is "$(foreign "$scratch/x.so" | sort | paste -sd ' ')" "c pgasi_b" "internal and foreign names are caught"
is "$(writable "$scratch/x.so" | wc -l)" 3 "exported data is caught"
done_testing
