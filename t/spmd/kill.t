#!/usr/bin/env bash
# what: When a rank is killed the job ends soon and names the rank, whatever the others are doing, also without service
#       threads. If the others are to continue, their waiting operations end with PGAS_ERR_PEER, and so does the
#       library.
# source: public headers
# timeout: 240
# turn: waits
set -u
. "$(dirname "$0")/../tap.sh"
make_scratch

export MPIRUN_LEAVES_CLEANUP=1
LIMIT=30 # seconds, a guard as in t/kill.sh
ranks=4
victim=2

# dies HOW NODE_SIZE SETTING..: starts the job, in which one rank dies at once.
dies() {
    local how=$1 nodes=$2 status=0
    shift 2
    env PGAS_HEAP_SIZE=4M PGAS_NODE_MAXSIZE="$nodes" "$@" timeout -k 5 60 "$TOP/t/mpirun" $ranks \
        "$BUILD/t/spmd/victim" $victim "$how" >"$scratch/out" 2>"$scratch/err" </dev/null || status=$?
    started=$(sed -n 's/^started //p' "$scratch/out")
    seconds=$((EPOCHSECONDS - ${started:-0}))
    said=$(grep -hE "rank $victim (died|with PID)" "$scratch/err" "$scratch/out" | head -n 1)
    [ $status -ne 0 ] && [ $status -ne 124 ] && [ -n "$started" ] && [ $seconds -le $LIMIT ]
}

# judge TEXT: two points about the last job. Time runs from the moment when the ranks had met.
judge() {
    ok "$1" "$2: the job ends"
    [ "$1" -eq 0 ] || diag "after $seconds s: $(cat "$scratch/out" "$scratch/err")"
    if [ -n "$said" ]; then ok 0 "$2: and says which rank went"; elif [ "$MPI_FLAVOR" = mpich ]; then
        skip 1 "MPICH's launcher drops what ranks say while it ends a job"
    else
        ok 1 "$2: and says which rank went"
        diag "$(cat "$scratch/out" "$scratch/err")"
    fi
}

# survive TEXT NODE_SIZE SETTING..: one point; $how_survive is how; the ranks that are left must say that all was well.
survive() {
    local text=$1 nodes=$2
    shift 2
    if [ "$MPI_FLAVOR" != openmpi ]; then
        skip 1 "the launcher of $MPI_NAME ends the job with its first rank"
        return
    fi
    env OMPI_MCA_orte_enable_recovery=1 PGAS_ON_PEER_DEATH=continue PGAS_HEAP_SIZE=4M PGAS_NODE_MAXSIZE="$nodes" "$@" \
        timeout -k 5 60 "$TOP/t/mpirun" $ranks "$BUILD/t/spmd/victim" $victim "${how_survive:-survive}" \
        >"$scratch/out" 2>"$scratch/err" </dev/null || true
    is "$(grep -c '^survived' "$scratch/out")" $((ranks - 1)) "$text"
    [ "$(grep -c '^survived' "$scratch/out")" -eq $((ranks - 1)) ] || diag "$(cat "$scratch/out" "$scratch/err")"
}

plan 33
for how in barrier compute reply signal; do
    dies $how 0 && s=0 || s=$?
    judge $s "on one node, the others in $how"
done
for how in barrier signal progress; do
    dies $how 0 PGAS_SERVICE_THREADS=0 && s=0 || s=$?
    judge $s "without service threads, the others in $how"
done
dies signal 1 PGAS_SERVICE_THREADS=0 PGAS_UCX_TLS=posix && s=0 || s=$?
judge $s "on nodes of their own and without, the others in signal"
survive "the others go on" 0 PGAS_SERVICE_THREADS=1
survive "the others continue without service threads" 0 PGAS_SERVICE_THREADS=0
survive "two nodes, the others continue" 2 PGAS_UCX_TLS=tcp,self
survive "nodes of one rank, the others continue" 1 PGAS_UCX_TLS=posix
how_survive=broadcast
survive "a rank dies of a broadcast, the others continue" 0
survive "nodes of one rank, a rank dies of a broadcast" 1 PGAS_UCX_TLS=posix PGAS_SERVICE_THREADS=0
how_survive=lock
survive "a rank dies with locks, the others continue" 0
survive "nodes of one rank, a rank dies with locks" 1 PGAS_UCX_TLS=posix PGAS_SERVICE_THREADS=0
how_survive=large
survive "a rank dies while others read its buffers in a collective" 0
survive "the same on nodes of two ranks" 2 PGAS_UCX_TLS=posix
for tls in posix tcp,self; do
    dies barrier 1 PGAS_UCX_TLS=$tls && s=0 || s=$?
    judge $s "ranks on nodes of their own, $tls"
done
dies reply 2 PGAS_UCX_TLS=tcp,self PGAS_SERVICE_THREADS=1 && s=0 || s=$?
judge $s "two nodes, the others wait for a reply"

# The checker can fail: a job in which no rank dies is stopped by the guard.
victim=9
env PGAS_HEAP_SIZE=4M timeout -k 5 3 "$TOP/t/mpirun" 1 "$BUILD/t/spmd/victim" $victim barrier >"$scratch/out" 2>&1 && s=0 || s=$?
is $((s != 0)) 1 "a job without a victim does not end"
done_testing
