#!/usr/bin/env bash
# what: When a rank is killed during a search, or before one, the job ends soon and names the rank. If the others are to
#       continue, their search gives PGAS_ERR_PEER soon, no other search begins, and it can be destroyed, also if the
#       dead rank had the root.
# source: pgas/mcts.h
# timeout: 180
# turn: waits
set -u
. "$(dirname "$0")/../tap.sh"
. "$(dirname "$0")/../kill.sh"
make_scratch

# start VICTIM HOW THREADS NODE_SIZE SETTING..
start() {
    local victim=$1 how=$2 threads=$3 nodes=$4
    shift 4
    env PGAS_HEAP_SIZE=4M PGAS_NODE_MAXSIZE="$nodes" "$@" timeout -k 5 40 "$TOP/t/mpirun" $ranks \
        "$BUILD/t/spmd/mcts_victim" "$victim" "$how" "$threads" >"$scratch/out" 2>"$scratch/err" </dev/null
}

circumstances() { echo "$2, $3 threads, nodes of $4"; }

all=
[ "${PGAS_TEST_MATRIX:-}" != all ] || all=yes
plan $((9 + (${#all} > 0 ? 7 : 0)))
dies 2 search 1 0
dies 0 search 2 1 PGAS_UCX_TLS=posix
survive 0 search 2 0
survive 2 search 2 1 PGAS_UCX_TLS=posix
survive 1 search 1 0 PGAS_SERVICE_THREADS=0
survive 0 rest 1 1 PGAS_UCX_TLS=posix
if [ -n "$all" ]; then
    dies 1 search 2 0
    dies 2 rest 1 0 PGAS_SERVICE_THREADS=0
    survive 2 search 1 0
    survive 0 search 1 1 PGAS_UCX_TLS=tcp,self PGAS_FAR_CALLS=message
    survive 1 rest 2 0
fi

# The checker can fail: a search in which no rank dies is stopped by the guard.
PGAS_HEAP_SIZE=4M timeout -k 5 3 "$TOP/t/mpirun" 2 "$BUILD/t/spmd/mcts_victim" 9 search 1 >"$scratch/out" 2>&1 && s=0 || s=$?
is "$((s != 0)) $(grep -c '^survived' "$scratch/out")" "1 0" "a search without a victim does not end"
done_testing
