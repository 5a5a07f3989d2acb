#!/usr/bin/env bash
# what: Every example runs with 1, 2 and 3 ranks (3: on two fake nodes), prints that its result is right, and fails with
#       a message on bad input.
# timeout: 300
# source: public headers
set -u
. "$(dirname "$0")/../tap.sh"
make_scratch

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

# The short forms of the suite, for further MPIs and compilers, run each example on three ranks only.
counts="1 2 3"
if [ -n "${PGAS_TEST_MATRIX:-}" ] && [ "$PGAS_TEST_MATRIX" != all ]; then counts=3; fi
plan $((15 + 21 * $(wc -w <<<"$counts")))

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
    run $n 15_kvs
    says '^7 keys, 14 words, written by the ranks.*: right$' 1 "15_kvs, $n ranks"
    run $n 22_in_place
    says '^rank .* 400 frames, 4000000 samples: right$' $n "22_in_place, $n ranks"
    run $n 16_consumers
    says "^$n ranks counted 2262 primes each: right\$" 1 "16_consumers, $n ranks"
    run $n 17_elsewhere
    says '^rank .* 100 letters .*right$' $n "17_elsewhere, $n ranks"
    run $n 18_objects
    says '77031 takes 350 steps, .*right$' 1 "18_objects, $n ranks"
    run $n 21_edge_map
    says '^10000 towns, .*: right$' 1 "21_edge_map, $n ranks"
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
done_testing
