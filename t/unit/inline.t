#!/usr/bin/env bash
# what: The inline paths of put, get and atomics on the node take no more instructions than recorded.
# needs: no-sanitizers
# source: instructions of the compiled functions up to the first return, which is the path on the node
set -u
. "$(dirname "$0")/../tap.sh"
make_scratch

$CC --version | head -n 1 | grep -q -i clang && skip_all "the numbers are those of gcc"
[ "$(uname -m)" = x86_64 ] || skip_all "the numbers are those of x86_64"

# counts EXPRESSION: instructions of a function that returns it
counts() {
    cat >"$scratch/x.c" <<END
#include <pgas/atomic.h>
#include <pgas/rma.h>
int path(pgas_gptr_t p, uint64_t v, void *at, double f);
int path(pgas_gptr_t p, uint64_t v, void *at, double f)
{
    (void)v;
    (void)at;
    (void)f;
    return $1;
}
END
    $CC -O2 -fcf-protection=none -S -o "$scratch/x.s" -I"$TOP/include" "$scratch/x.c" &&
        "$AWK" '/^path:/ { on = 1 } on && /^\t[a-z]/ { n++ } on && /^\tret/ { print n; exit }' "$scratch/x.s"
}

# branches EXPRESSION: branches among them
branches() {
    counts "$1" >/dev/null &&
        "$AWK" '/^path:/ { on = 1 } on && /^\tj/ { n++ } on && /^\tret/ { print n + 0; exit }' "$scratch/x.s"
}

# at_most BOUND EXPRESSION
at_most() {
    local got
    got=$(counts "$2")
    [ -n "$got" ] && [ "$got" -le "$1" ] && s=0 || s=1
    ok $s "$2: at most $1 instructions" || diag "got: ${got:-nothing}"
    echo "# $2: ${got:-nothing}"
}

plan 15
at_most 23 'pgas_put(p, at, 8)'
at_most 24 'pgas_get(at, p, 8)'
at_most 25 'pgas_put_nb(p, at, 8, PGAS_REMOTE, NULL)'
at_most 25 'pgas_get_nb(at, p, 8, NULL)'
at_most 12 'pgas_put_u64(p, v)'
at_most 16 'pgas_get_u64(p, (uint64_t *)at)'
at_most 13 'pgas_put_f64(p, f)'
at_most 15 'pgas_fetch_op_u64(p, PGAS_ADD, v, (uint64_t *)at)'
at_most 12 'pgas_update_u64(p, PGAS_ADD, v)'
at_most 15 'pgas_fetch_op_u64(p, PGAS_SWAP, v, (uint64_t *)at)'
at_most 18 'pgas_compare_swap_u64(p, v, 1, (uint64_t *)at)'
at_most 12 'pgas_update_i64(p, PGAS_XOR, (int64_t)v)'
is "$(branches 'pgas_put_u64(p, v)') $(branches 'pgas_get_u64(p, (uint64_t *)at)') $(branches 'pgas_update_u64(p, PGAS_ADD, v)')" \
    "1 2 1" "one branch checks the pointer, a second one the output"
got=$(counts 'pgas_fetch_op_u64(p, (pgas_op_t)v, v, (uint64_t *)at)')
[ -z "$got" ] || [ "$got" -le 24 ] && s=0 || s=1
ok $s "an operator that is not constant is one call" || diag "got: $got"
slow=$(counts 'pgas_put_u64(p, v) | pgas_put_u64(p + 8, v + 1)')
[ "${slow:-0}" -gt 20 ] && s=0 || s=1
ok $s "more instructions are seen" || diag "got: ${slow:-nothing}"
done_testing
