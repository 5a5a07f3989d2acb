#!/usr/bin/env bash
# what: The inline paths of archives and arenas take no more instructions than recorded, and call no function of the library.
# needs: no-sanitizers
# source: instructions of the compiled functions up to the first return; memcpy of a variable length is one call
set -u
. "$(dirname "$0")/../tap.sh"
make_scratch

$CC --version | head -n 1 | grep -q -i clang && skip_all "the numbers are those of gcc"
[ "$(uname -m)" = x86_64 ] || skip_all "the numbers are those of x86_64"

# compile EXPRESSION: a function that returns it, as assembler text from its label to its first end
compile() {
    cat >"$scratch/x.c" <<END
#include <pgas/archive.h>
long path(pgas_archive_t *a, pgas_arena_t *arena, void *at, size_t n, const void **data_p, size_t *n_p);
long path(pgas_archive_t *a, pgas_arena_t *arena, void *at, size_t n, const void **data_p, size_t *n_p)
{
    (void)a;
    (void)arena;
    (void)at;
    (void)n;
    (void)data_p;
    (void)n_p;
    return (long)$1;
}
END
    $CC -O2 -fcf-protection=none -S -o "$scratch/x.s" -I"$TOP/include" "$scratch/x.c" &&
        "$AWK" '/^path:/ { on = 1 } on { print } on && /^\tret/ { exit }' "$scratch/x.s"
}

# at_most BOUND EXPRESSION
at_most() {
    local got
    compile "$2" >"$scratch/path.s"
    got=$(grep -c "$(printf '^\t[a-z]')" "$scratch/path.s")
    [ "$got" -gt 0 ] && [ "$got" -le "$1" ] && ! grep -q 'pgas_' "$scratch/path.s" && s=0 || s=1
    ok $s "$2: at most $1 instructions" || diag "got: $got" "$(grep pgas_ "$scratch/path.s")"
    echo "# $2: $got"
}

plan 12
at_most 16 'pgas_archive_put(a, at, 4)'
at_most 28 'pgas_archive_put(a, at, n)'
at_most 44 'pgas_archive_put_vector(a, at, n, 1)'
at_most 42 'pgas_archive_put_vector(a, at, n, 8)'
at_most 16 'pgas_archive_get(a, at, 4)'
at_most 38 'pgas_archive_get_vector(a, 1, data_p, n_p)'
at_most 45 'pgas_archive_get_vector(a, 8, data_p, n_p)'
at_most 44 'pgas_archive_put_string(a, at)'
at_most 40 'pgas_archive_get_string(a, (const char **)data_p)'
at_most 25 'pgas_archive_get_count(a, 4, n_p)'
at_most 16 'pgas_arena_alloc(arena, n)'

compile 'pgas_archive_bytes(a) + 1' >"$scratch/path.s"
succeeds "a function of the library is seen" grep -q 'pgas_' "$scratch/path.s"
done_testing
