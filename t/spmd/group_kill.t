#!/usr/bin/env bash
# what: When a rank that is a replica of a group is killed, the job ends soon and names the rank. If the other ranks are to
#       continue, the client forms the group anew without it, by any way; then all replicas have everything that was written.
# source: pgas/group.h
# timeout: 180
# turn: waits
set -u
. "$(dirname "$0")/../tap.sh"
. "$(dirname "$0")/../kill.sh"
make_scratch
ranks=4

# start VICTIM WAY NODE_SIZE SETTING..
start() {
    local victim=$1 way=$2 nodes=$3
    shift 3
    env PGAS_HEAP_SIZE=4M PGAS_NODE_MAXSIZE="$nodes" "$@" timeout -k 5 40 "$TOP/t/mpirun" $ranks \
        "$BUILD/t/spmd/group_victim" "$victim" "$way" >"$scratch/out" 2>"$scratch/err" </dev/null
}

circumstances() { echo "$2, nodes of $3"; }

short=
[ "${PGAS_TEST_MATRIX:-}" != short ] || short=yes
plan $((${#short} > 0 ? 4 : 8))
dies 2 calls 1
survive 2 chain 0
survive 1 calls 1 PGAS_UCX_TLS=posix
if [ -z "$short" ]; then
    survive 1 chain 0
    survive 3 chain 1
    survive 2 verbs 0
    survive 3 calls 0 PGAS_SERVICE_THREADS=0
fi
done_testing
