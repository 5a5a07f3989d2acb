#!/usr/bin/env bash
# what: When a rank is killed while others use a store, the job ends soon and names the rank. If the other ranks are to
#       continue, their operations give PGAS_ERR_PEER soon, counters of runs are lowered, and the store and the library can
#       be ended.
# source: pgas/kvs.h
# timeout: 180
# turn: waits
set -u
. "$(dirname "$0")/../tap.sh"
. "$(dirname "$0")/../kill.sh"
make_scratch

# start VICTIM HOW NODE_SIZE SETTING..
start() {
    local victim=$1 how=$2 nodes=$3
    shift 3
    env PGAS_HEAP_SIZE=4M PGAS_NODE_MAXSIZE="$nodes" "$@" timeout -k 5 40 "$TOP/t/mpirun" $ranks \
        "$BUILD/t/spmd/kvs_victim" "$victim" "$how" >"$scratch/out" 2>"$scratch/err" </dev/null
}

circumstances() { echo "$2, nodes of $3"; }

short=
[ "${PGAS_TEST_MATRIX:-}" != short ] || short=yes
plan $((${#short} > 0 ? 5 : 8))
dies 2 waits 1
survive 1 counts 1
survive 0 waits 1 PGAS_SERVICE_THREADS=0
survive 1 waits 8
if [ -z "$short" ]; then
    survive 2 scans 1
    survive 0 counts 1 PGAS_SERVICE_THREADS=0
    survive 2 counts 2
fi
done_testing
