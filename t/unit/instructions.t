#!/usr/bin/env bash
# what: A call costs no more instructions than recorded, on either side, without the bodies of handlers.
# needs: no-sanitizers command:valgrind
# source: counted by callgrind while filled.c fills a channel with n calls and with 2 n, and drains it: the difference by n
set -u
. "$(dirname "$0")/../tap.sh"
make_scratch

# totals SIDE HANDLERS WAY BYTES N: instructions of n calls and of 2 n; HANDLERS: "less" or "with"
totals() {
    local side=$1 less=() out=$scratch/out
    [ "$2" = with ] || less=(--toggle-collect=run_item --toggle-collect=run_items)
    shift 2
    rm -f "$out" "$out".*
    valgrind -q --tool=callgrind --toggle-collect=count_"$side" ${less[@]+"${less[@]}"} --zero-before=count_"$side" \
        --dump-after=count_"$side" --callgrind-out-file="$out" "$BUILD"/t/unit/filled "$@" >"$scratch/log" 2>&1 || {
        diag "$(cat "$scratch/log")" >&2 # stdout is the number
        return 1
    }
    sed -n 's/^totals: *//p' "$out.1" "$out.2"
}

# per_call SIDE HANDLERS WAY BYTES N: one number, or nothing
per_call() { totals "$@" | "$AWK" -v n="$5" '{ t[NR] = $1 } END { if (NR == 2 && t[1] > 0) printf "%.2f", (t[2] - t[1]) / n }'; }

# holds "A OP B": for numbers with a point
holds() { "$AWK" "BEGIN { exit !($1) }"; }

# at_most BOUND SIDE WAY BYTES N
at_most() {
    local got
    got=$(per_call "$2" less "${@:3}")
    [ -n "$got" ] && holds "$got <= $1" && s=0 || s=1
    ok $s "$3 $4 B, $2: at most $1 instructions a call" || diag "got: ${got:-nothing}"
    echo "# $3 $4 B, $2: ${got:-nothing}"
}

"$BUILD"/t/unit/filled trad 8 10 >/dev/null
[ $? -ne 77 ] || skip_all "compiled without optimization"

plan 11
# An older program in the build folder does not know all ways, and callgrind would then count nothing.
unknown=
for way in trad batch write typed-trad typed-write slow; do
    "$BUILD"/t/unit/filled $way 8 10 >"$scratch/log" 2>&1 || unknown+="$way: exit status $?: $(cat "$scratch/log")"$'\n'
done
empty "$unknown" "filled counts every way; otherwise build it again: make t/unit/filled"
at_most 25 fill trad 8 3000
at_most 12 drain trad 8 3000
at_most 2 drain batch 8 3000
at_most 60 fill write 8 1000
at_most 55 drain write 8 1000
# Typed handlers: as the functions that they stand for. The batch form has the body in its loop.
at_most 25 fill typed-trad 8 3000
at_most 8 drain typed-trad 8 3000
at_most 60 fill typed-write 8 1000

plain=$(per_call fill less trad 8 3000)
slow=$(per_call fill less slow 8 3000)
holds "${slow:-0} - ${plain:-0} > 9.5 && ${slow:-0} - ${plain:-0} < 10.5" && s=0 || s=1
ok $s "ten instructions more are seen" || diag "$plain, $slow"
less=$(per_call drain less trad 8 3000)
with=$(per_call drain with trad 8 3000)
holds "${with:-0} >= ${less:-0} + 1" && s=0 || s=1
ok $s "bodies of handlers are left out" || diag "$less, with them $with"
done_testing
