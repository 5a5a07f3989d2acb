#!/usr/bin/env bash
# what: When a rank is killed while an algorithm runs, the job ends soon and names the rank, with both exchanges. A file that
#       the job would have replaced is unchanged.
# needs: no-sanitizers
# turn: waits
# source: pgas/graph.h
set -u
. "$(dirname "$0")/../tap.sh"
make_scratch

export MPIRUN_LEAVES_CLEANUP=1
LIMIT=30 # seconds, a guard as in t/kill.sh

# The ranks write their process numbers, and append to one file, because launchers may drop output while they end a job.
program=(bash -c 'echo $$ >"$0/rank.${OMPI_COMM_WORLD_RANK:-${PMI_RANK:-}}"; exec "$@" 2>>"$0/err"' "$scratch" "$BUILD/tools/pgas_graph")

# job ARGUMENT..: three ranks, of which rank 1 dies in the middle of the algorithm. Two points.
job() {
    local begin status=0 text="$*"
    rm -f "$scratch"/rank.*
    : >"$scratch/err"
    echo before >"$scratch/values"
    env PGAS_PROGRESS_MS=20 PGAS_NODE_MAXSIZE=2 timeout -k 5 120 "$TOP/t/mpirun" 3 "${program[@]}" "$@" --output "$scratch/values" \
        >"$scratch/out" 2>>"$scratch/err" </dev/null &
    until [ "$(grep -cE '^progress: (rank|cdlp|betweenness): ' "$scratch/err")" -ge 3 ] || ! kill -0 $! 2>/dev/null; do sleep 0.02; done
    begin=$EPOCHSECONDS
    kill -9 "$(cat "$scratch/rank.1")"
    wait $! || status=$?
    [ $status -ne 0 ] && [ $status -ne 124 ] && [ $((EPOCHSECONDS - begin)) -le $LIMIT ] && [ "$(cat "$scratch/values")" = before ]
    ok $? "$text: the job ends, and the file is unchanged" || diag "status $status: $(cat "$scratch/out" "$scratch/err")"
    grep -qE 'rank 1 (died|with PID)' "$scratch/err" "$scratch/out" || [ "$MPI_FLAVOR" = mpich ] # whose launcher drops lines
    ok $? "$text: and says which rank went" || diag "$(cat "$scratch/out" "$scratch/err")"
}

plan 6
job pagerank --rmat 14 --iterations 1000000
job pagerank --rmat 14 --iterations 1000000 --exchange array
job cdlp --rmat 13 --iterations 1000000
done_testing
