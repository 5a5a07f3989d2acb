#!/usr/bin/env bash
# what: A transmitter costs at most 1.15 times the instructions per post of a loop that signals by hand.
# needs: no-sanitizers command:valgrind
# source: callgrind, while the loops of pgas_verbs_rate post, ring and poll for messages of 8 bytes: the difference between rounds
#         of n and of 2 n by the number of posts, without the instructions of the software NIC, which are printed too
set -u
. "$(dirname "$0")/../tap.sh"
make_scratch

N=1600
ROUNDS=6 # five, and one before them

# total NIC WAY CASE N: instructions inside of the loop; NIC: "less" or "with"
total() {
    local less=() out=$scratch/out
    [ "$1" = with ] || less=(--toggle-collect=pgasi_snic_execute)
    rm -f "$out"
    valgrind -q --tool=callgrind --toggle-collect=verbs_post_"$2" ${less[@]+"${less[@]}"} --callgrind-out-file="$out" \
        "$BUILD"/benchmarks/pgas_verbs_rate --device snic --case "$3" -m 8 -i "$4" -r 5 >"$scratch/log" 2>&1 || {
        diag "$(cat "$scratch/log")"
        return 1
    }
    sed -n 's/^totals: *//p' "$out"
}

# per_post NIC WAY CASE: one number, or nothing
per_post() {
    local once twice
    once=$(total "$@" "$N") && twice=$(total "$@" $((2 * N))) &&
        "$AWK" -v a="$once" -v b="$twice" -v n=$((ROUNDS * N)) 'BEGIN { if (a > 0 && b > a) printf "%.2f", (b - a) / n }'
}

# holds "A OP B": for numbers with a point
holds() { "$AWK" "BEGIN { exit !($1) }"; }

"$BUILD"/t/unit/filled trad 8 10 >/dev/null
[ $? -ne 77 ] || skip_all "compiled without optimization"

plan 4
for op in "" write-; do
    auto=$(per_post less auto "${op}auto")
    manual=$(per_post less manual "${op}manual")
    holds "${auto:-0} > 0 && ${auto:-0} <= 1.15 * ${manual:-0}" && s=0 || s=1
    ok $s "${op:-send-}auto: at most 1.15 times the instructions of ${op:-send-}manual"
    echo "# ${op:-send-}auto ${auto:-nothing}, manual ${manual:-nothing}, ratio $("$AWK" "BEGIN { print ${auto:-0} / ${manual:-1} }")"
done
signaled=$(per_post less signaled write-signaled)
holds "${signaled:-0} > 1.15 * ${manual:-0}" && s=0 || s=1
ok $s "signaling everything costs more than that" || diag "signaled ${signaled:-nothing}, manual ${manual:-nothing}"

with_auto=$(per_post with auto write-auto)
with_manual=$(per_post with manual write-manual)
holds "${with_auto:-0} >= ${auto:-0} + 50 && ${with_manual:-0} >= ${manual:-0} + 50" && s=0 || s=1
ok $s "what the software NIC executes is left out"
echo "# with it: write-auto ${with_auto:-nothing}, manual ${with_manual:-nothing}"
done_testing
