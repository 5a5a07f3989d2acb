#!/usr/bin/env bash
# what: Every example runs with 1, 2 and 3 ranks (3: on two fake nodes), prints that its result is right, and fails with
#       a message on bad input.
# timeout: 300
# source: public headers; values published with LDBC Graphalytics (Apache-2.0)
set -u
. "$(dirname "$0")/../tap.sh"
make_scratch
SHARED=${PGAS_TEST_SHARED:-$TOP/../shared}
ldbc=$SHARED/data/graphalytics-validation

# In sanitizer builds the software NIC has no process of its own.
if [ -n "$SANITIZERS" ]; then export PGAS_VERBS_ENGINE=caller; fi

# run N NAME ARGUMENT..: standard output in $out, standard error in $err, exit status in $status. N 0: without launcher.
run() {
    local n=$1 program=$BUILD/examples/$2
    shift 2
    unset PGAS_NODE_MAXSIZE
    if [ "$n" -eq 3 ]; then export PGAS_NODE_MAXSIZE=2; fi
    if [ "$n" -gt 0 ]; then set -- mpirun_n "$n" "$program" "$@"; else set -- "$program" "$@"; fi
    "$@" >"$scratch/out" 2>"$scratch/err"
    status=$?
    out=$(cat "$scratch/out")
    # Lines of the launcher itself are not the program's.
    err=$(grep -vE '^(mpirun|mpiexec|prterun)[^ ]*: Forwarding signal ' "$scratch/err")
}

# says PATTERN COUNT DESCRIPTION: the run was good, and so many of its lines match.
says() {
    if [ "$status" -eq 0 ] && [ "$(grep -cE -- "$1" <<<"$out")" -eq "$2" ] && [ -z "$err" ]; then ok 0 "$3"; else
        ok 1 "$3"
        diag "exit status $status"
        diag "$out"
        diag "$err"
    fi
}

# refused STATUS PATTERN DESCRIPTION: the run ended so, and said why on standard error.
refused() {
    if [ "$status" -eq "$1" ] && grep -qE -- "$2" <<<"$err" && [ -z "$out" ]; then ok 0 "$3"; else
        ok 1 "$3"
        diag "exit status $status"
        diag "$out"
        diag "$err"
    fi
}

# values_like GOT WANT: two lists of names and values agree to what %.6e shows.
values_like() {
    "$AWK" 'NR == FNR { want[$1] = $2; n++; next }
        { off = $2 / want[$1] - 1; if (!($1 in want) || off > 1e-6 || off < -1e-6) exit 1; found++ }
        END { if (found != n) exit 1 }' "$2" "$1"
}

# names_of FILE: adjacency lists of LDBC as names, one edge a line.
names_of() { "$AWK" '{ print $1; for (i = 2; i <= NF; i++) print $1 "\t" $i }' "$1"; }

# published INPUT OUTPUT SWEEPS: as LDBC says.
published() {
    local text="LDBC's values: $1, $3 sweeps"
    if [ ! -r "$ldbc/$1" ]; then skip 1 "no $ldbc here (set PGAS_TEST_SHARED)" && return; fi
    names_of "$ldbc/$1" >"$scratch/ldbc.names"
    run 3 pagerank "$scratch/ldbc.names" --iterations "$3" --top 1000 --check
    grep -v '^#' <<<"$out" | cut -d ' ' -f 2- >"$scratch/got"
    values_like "$scratch/got" "$ldbc/$2" && [ "$status" -eq 0 ]
    ok $? "$text"
}

# The short forms of the suite, for further MPIs and compilers, run each example on three ranks only.
counts="1 2 3"
if [ -n "${PGAS_TEST_MATRIX:-}" ] && [ "$PGAS_TEST_MATRIX" != all ]; then counts=3; fi
plan $((50 + 22 * $(wc -w <<<"$counts")))

for n in $counts; do
    run $n 01_hello
    says "^rank [0-9] of $n: node|right\$" $((n + 1)) "01_hello, $n ranks"
    run $n 02_put_get
    says '^rank .*right$' $n "02_put_get, $n ranks"
    run $n 03_atomics
    says 'right$' 1 "03_atomics, $n ranks"
    run $n 04_call
    says '^rank .*worth 2000: right$' $n "04_call, $n ranks"
    run $n 08_broadcast
    says "^$n ranks .*right\$" 1 "08_broadcast, $n ranks"
    run $n 05_histogram 100000
    says "^${n}00000 of ${n}00000 .*right\$" 2 "05_histogram, $n ranks"
    run $n array_histogram 100000
    says "^${n}00000 of ${n}00000 .*right\$" 1 "array_histogram, $n ranks"
    run $n 06_synchronizers
    says "^$((n * (204 + n))) of .*right\$" 1 "06_synchronizers, $n ranks"
    run $n 07_call_buffer
    says '^rank .* copy: right$' $n "07_call_buffer, $n ranks"
    run $n 09_targets
    says "sum up to $((n * (n - 1) / 2)): right\$" 1 "09_targets, $n ranks"
    run $n 10_aggregator
    says "^$((n * 200000)) of $((n * 200000)) .*right\$" 1 "10_aggregator, $n ranks"
    run $n 11_seriema
    says "^$((n * 40012)) of $((n * 40012)) ones arrived: right\$" 1 "11_seriema, $n ranks"
    run $n 14_group
    says '^lock: taken on .* replicas$|  \|balance = 2000\.\.\|$|^right$' 5 "14_group, $n ranks"
    run $n 15_in_place
    says '^rank .* 400 frames, 4000000 samples: right$' $n "15_in_place, $n ranks"
    run $n 16_consumers
    says "^$n ranks counted 2262 primes each: right\$" 1 "16_consumers, $n ranks"
    run $n 17_elsewhere
    says '^rank .* 100 letters .*right$' $n "17_elsewhere, $n ranks"
    run $n 18_objects
    says '77031 takes 350 steps, .*right$' 1 "18_objects, $n ranks"
    run $n 20_args
    says '^rank .*: survey of rank .* line 70: wind from the east; mean 0.500: right$' $n "20_args, $n ranks"
    run $n 12_mcts
    says '^x has won: right$|^[xo]: .* worth [0-9.]+$' 1 "12_mcts, $n ranks: x wins, and each move was proven"
done
run 4 14_group
says '^lock: taken on 3 of 3 replicas$|^0000002000  all  .*  \|balance = 2000\.\.\|$' 3 "14_group: three replicas hold the same bytes"
run 0 13_queue_pairs
says '^10000 writes, 313 completions, the last value is 10000$|^after the message the word is 4711$|^right$' 3 \
    "13_queue_pairs: one completion for 32 writes, and a chain"
run 0 13_queue_pairs nonsense
refused 1 'nonsense: not found' "13_queue_pairs: no such device"
run 0 19_chain_laps
says '^1000 of 1000 rounds right, in a ring of 16 entries that were posted once$|^right$' 2 \
    "19_chain_laps: a chain that is posted once runs again and again"
is "$(readelf -d "$BUILD/.libs/libpgas-verbs.so" | grep -c 'NEEDED.*\(mpi\|ucp\)')" 0 "libpgas-verbs needs no MPI"
run 0 12_mcts 12x
refused 2 '^12_mcts: not columns .*: 12x$' "12_mcts: no such column"
run 0 12_mcts 4455 1e3
refused 2 '^12_mcts: not a whole number of rollouts: 1e3$' "12_mcts: no such number"
run 0 05_histogram --help
says '^usage' 1 "05_histogram --help without a launcher"
for bad in 12x 1.5 0x10 0 99999999999999999999; do
    run 0 05_histogram $bad
    refused 2 '^usage' "usage for: 05_histogram $bad"
done
run 0 array_histogram 1.5
refused 2 '^usage' "usage for: array_histogram 1.5"
run 2 05_histogram 1.5
is "$status $(grep -c '^usage' <<<"$err")" "2 1" "of two ranks one prints"

printf 'hub\tend\n' >"$scratch/small.tsv"
for i in 1 2 3 4 5; do printf 'n%d\thub\nn%d\tn%d\n' $i $i $((i % 5 + 1)); done >>"$scratch/small.tsv"
lists=
for n in $counts; do
    run $n pagerank "$scratch/small.tsv" --check
    says '^# check .*same top ten: right$|^1 end |^2 hub |^[3-7] n[1-5] ' 8 "pagerank of names, $n ranks"
    lists+=$(grep -v '^#' <<<"$out")$'\n'
done
is "$(sort -u <<<"$lists" | grep -c .)" 7 "the same lines with $counts ranks"
run 2 pagerank - --top 1 <"$scratch/small.tsv"
says '^1 end [0-9]\.[0-9]{6}e-[0-9]{2}$' 1 "pagerank of standard input"
run 2 pagerank "$scratch/small.tsv" --top 0
says '^# ' 3 "pagerank --top 0 prints nothing but sizes and times"
run 3 pagerank --generate 3000 --tolerance 1e-8 --threads 2 --check
says '^# check .*right$' 1 "pagerank of a generated graph, two threads in each process"

# like_pagerank N ARGUMENT..: array_pagerank prints the list that pagerank does, and finds it right itself.
like_pagerank() {
    local n=$1
    shift
    run "$n" pagerank "$@"
    grep -v '^#' <<<"$out" | cut -d ' ' -f 2- >"$scratch/want"
    run "$n" array_pagerank "$@" --check
    grep -v '^#' <<<"$out" | cut -d ' ' -f 2- >"$scratch/got"
    [ "$status" -eq 0 ] && grep -q '^# check .*right$' <<<"$out" && values_like "$scratch/got" "$scratch/want"
    ok $? "array_pagerank $*, $n ranks: as pagerank" || diag "$out"$'\n'"$err"
}
for n in $counts; do
    like_pagerank $n "$scratch/small.tsv" --damping 0.5
    like_pagerank $n --generate 50000 --top 100
done
PGAS_ARRAY_CACHE=128K like_pagerank 3 --generate 50000 --tolerance 1e-8 --no-dangling --top 1
like_pagerank 2 --generate 30000 --threads 2

# By hand: a -> b -> c; after one sweep without damping each has what its predecessor had.
printf '0 1\n1 2\n' >"$scratch/chain.el"
run 2 pagerank "$scratch/chain.el" --damping 1 --no-dangling --iterations 1 --check
says '^1 1 3\.333333e-01$|^2 2 3\.333333e-01$|^3 0 0\.000000e\+00$|right$' 4 "pagerank --damping 1 --no-dangling"

run 0 pagerank --help
says '^usage|^  --' 9 "pagerank --help without a launcher"
for bad in "" "a b" "a --damping 2" "a --damping 0" "a --iterations x" "a --format csv" "a --top" "a --wrong" \
    "a --generate 5" "a --iterations 1.5" "--generate 1.5" "--generate 0x10" "a --top 18446744073709551617" "a --damping nan"; do
    run 0 pagerank $bad
    refused 2 '^pagerank: (not possible|no such option|a value is missing): ' "refused: pagerank $bad"
done
run 2 pagerank a --damping 0.5 --iterations 1.5 --top x
is "$status $(grep -c '^usage' <<<"$err")" "2 1" "of two ranks one prints usage"
refused 2 '^pagerank: not possible: --iterations 1.5$' "and names the first bad option"
run 2 pagerank --generate 1000000000000
refused 1 'error: .* use more nodes or a smaller graph' "a graph that is too large: the log says so"
printf '%0100d\tb\n' 7 >"$scratch/long.names"
PGAS_CALL_MAX=64 run 2 pagerank "$scratch/long.names"
refused 1 'error: .*longer than PGAS_CALL_MAX allows' "as when calls are too short"
printf '0 1\n0 x\n' >"$scratch/bad.el"
for n in 1 3; do
    run $n pagerank "$scratch/bad.el"
    refused 1 'error: .*bad.el:2: not a whole number: .x.$' "a malformed file: exit status 1, file and line, $n ranks"
done
run 3 pagerank "$scratch/missing"
refused 1 'error: .*missing: cannot open' "a missing file"

published example/example-directed-input example/example-directed-PR 2
published example/example-undirected-input example/example-undirected-PR 2
published pr/dir-input pr/dir-output 26
published pr/undir-input pr/undir-output 26
printf 'a 1e-1\nb 2e-1\n' >"$scratch/want"
printf 'a 1e-1\nb 2.00001e-1\n' >"$scratch/off"
printf 'a 1e-1\n' >"$scratch/short"
if ! values_like "$scratch/off" "$scratch/want" && ! values_like "$scratch/short" "$scratch/want" &&
    values_like "$scratch/want" "$scratch/want"; then ok 0 "the comparison can fail (broken on purpose)"; else
    ok 1 "the comparison can fail (broken on purpose)"
fi

if "$TOP/tools/debian-graph" >"$scratch/debian.tsv" 2>/dev/null; then
    run 2 pagerank "$scratch/debian.tsv" --tolerance 1e-10 --check
    says '^# check .*same top ten: right$|^1 libc6 ' 2 "Debian's packages: libc6 comes first"
else skip 1 "no apt lists here"; fi
done_testing
