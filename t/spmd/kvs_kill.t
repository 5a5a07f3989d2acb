#!/usr/bin/env bash
# what: A durable store survives kill -9 of all its ranks at random moments, again and again, in the middle of writes
#       and of snapshots: every acknowledged write is there afterwards, and no value is torn.
# source: pgas/kvs.h
# needs: command:flock
# timeout: 500
# turn: waits
set -u
. "$(dirname "$0")/../tap.sh"
make_scratch
RANDOM=${TAP_SEED:-1}
echo "# seed ${TAP_SEED:-1}"
rounds=10
if [ "${PGAS_TEST_MATRIX:-}" = all ]; then rounds=100; fi
export PGAS_HEAP_SIZE=32M

# writer DIR HOW N: the program on two ranks; in every other round each is a node.
writer() {
    PGAS_NODE_MAXSIZE=$((round % 4 / 2)) PGAS_UCX_TLS=posix timeout -k 5 60 "$TOP/t/mpirun" 2 \
        "$BUILD/t/spmd/kvs_writer" "$1" "$2" "$scratch/acks" "$3" </dev/null
}

# family PID: it and its descendants.
family() {
    local child
    for child in $(ps -o pid= --ppid "$1"); do family "$child"; done
    echo "$1"
}

# acked: how many writes were acknowledged.
acked() {
    local file sum=0
    for file in "$scratch"/acks.*; do
        if [ -s "$file" ]; then sum=$((sum + $(od -An -td8 "$file"))); fi
    done
    echo "$sum"
}

# run_and_kill HOW MS: starts the job, waits until it has checked what is there, and kills it MS later.
run_and_kill() {
    rm -f "$scratch/out"
    writer "$scratch/dir" "$1" 1000000000 >"$scratch/out" 2>"$scratch/err" &
    job=$!
    until grep -qs complete "$scratch/out" || ! kill -0 $job 2>/dev/null; do sleep 0.02; done
    sleep "$(printf '0.%03d' "$2")"
    { kill -9 $(family $job) && wait $job; } 2>/dev/null
    timeout 20 flock -x "$scratch/dir/lock" true # ranks that are still dying hold it
}

# judge DESCRIPTION GOT WANT: is, and the job's output if it is not.
judge() {
    is "$2" "$3" "$1"
    if [ "$2" != "$3" ]; then diag "$(cat "$scratch/out" "$scratch/err")"; fi
}

plan $((rounds + 4))
before=0
for ((round = 1; round <= rounds; round++)); do
    how=second
    if [ $((round % 3)) -eq 0 ]; then how=always; fi
    ms=$((RANDOM % 400))
    run_and_kill $how $ms
    judge "round $round: all acknowledged writes are there" \
        "$(grep -c '^complete' "$scratch/out") $(grep -c ' is not there' "$scratch/out")" "1 0"
    now=$(acked)
    echo "# $((now - before)) writes until the kill after $ms ms ($how); $(ls "$scratch/dir" | paste -sd ' ')"
    before=$now
done
is "$((before > rounds * 10))" 1 "there were writes: $before"

writer "$scratch/dir" second 500 >"$scratch/out" 2>&1
judge "a job that ends by itself adds its writes" "$? $(grep -c '^complete' "$scratch/out") $(acked)" "0 1 $((before + 2000))"
writer "$scratch/dir" second 0 >"$scratch/out" 2>&1
judge "they are there" "$? $(grep -c '^complete' "$scratch/out")" "0 1"

# The check can fail: more is acknowledged than was written.
printf '\x00\x00\x00\x01\x00\x00\x00\x00' >"$scratch/acks.1.1"
writer "$scratch/dir" second 0 >"$scratch/out" 2>&1
n_missing=$(grep -c '^rank 1 thread 1: .* is not there' "$scratch/out")
judge "writes that are missing are found" "$(grep -c '^incomplete' "$scratch/out") $((n_missing > 30))" "1 1"
done_testing
