#!/usr/bin/env bash
# what: no object of the library refers to a symbol of a folder above its own, so that hooks.h shows every upward call
# needs: command:nm
set -u
. "$(dirname "$0")/../tap.sh"
make_scratch

# The objects of a build whose sources exist (a build folder may hold those of files that were moved).
objects() {
    (cd "$1" && find src ucx_backend verbs_backend -name '*.o' 2>/dev/null) | LC_ALL=C sort | while read -r o; do
        c=${o/.libs\//}
        [ ! -f "$2/${c%.o}.c" ] || echo "$o"
    done
}

# offenders BUILD SOURCES: the bad references.
offenders() {
    objects "$1" "$2" | (cd "$1" && xargs -r nm -P -A) >"$scratch/nm"
    "$AWK" -f "$TOP/t/lint/floors.awk" -f "$TOP/t/lint/calls.awk" "$scratch/nm" "$scratch/nm" | LC_ALL=C sort -u
}

# A tree of one file that calls a function and one file that defines it.
try() {
    rm -rf "$scratch/tree"
    mkdir -p "$scratch/tree/$(dirname "$1")" "$scratch/tree/$(dirname "$2")"
    printf 'void %s(void);\nvoid caller(void);\nvoid caller(void) { %s(); }\n' "$3" "$3" >"$scratch/tree/$1"
    printf 'void %s(void);\nvoid %s(void) {}\n' "$3" "$3" >"$scratch/tree/$2"
    for f in "$1" "$2"; do $CC -c -o "$scratch/tree/${f%.c}.o" "$scratch/tree/$f"; done
    offenders "$scratch/tree" "$scratch/tree"
}
caught() { if [ -n "$(try "$@")" ]; then ok 0 "caught: $1 calls $3 of $2"; else ok 1 "caught: $1 calls $3 of $2"; fi; }
allowed() { empty "$(try "$@")" "allowed: $1 calls $3 of $2"; }

plan 10
found=$(objects "$BUILD" "$TOP" | wc -l)
if [ "$found" -gt 150 ]; then ok 0 "objects are found"; else ok 1 "objects are found ($found)"; fi
empty "$(offenders "$BUILD" "$TOP")" "the library keeps to its layers"

caught src/mem/x.c src/call/y.c pgasi_y
caught src/bulk/x.c src/bcast/y.c pgasi_y
caught src/mcts/x.c src/call/y.c pgasi_y
caught ucx_backend/x.c src/mem/y.c pgas_y
caught verbs_backend/snic/x.c verbs_backend/queue/y.c pgasi_y
caught src/boot/x.c ucx_backend/y.c pgasi_y

allowed src/mcts/x.c src/call/y.c pgas_y
allowed verbs_backend/transport/x.c src/transport/y.c pgasi_y
done_testing
