#!/usr/bin/env bash
# what: A rank that ends by a fault or by abort() prints its number and a backtrace, also where MPI and UCX have
#       handlers of their own. A handler of the program still runs. pgas_abort
#       logs a text and ends the job with a status. After pgas_finalize the library prints nothing.
# needs: no-sanitizers
# source: base/log.h
# turn: waits
set -u
. "$(dirname "$0")/../tap.sh"
make_scratch

# crashes HOW NODE_SIZE: rank 1 of 2 ends in this way; its output is in $said.
crashes() {
    env PGAS_HEAP_SIZE=4M PGAS_NODE_MAXSIZE="$2" PGAS_UCX_TLS=tcp,self timeout -k 5 60 "$TOP/t/mpirun" 2 \
        "$BUILD/t/spmd/crash" 1 "$1" >"$scratch/out" 2>&1 </dev/null
    status=$?
    said=$(cat "$scratch/out")
}

# has PATTERN DESCRIPTION
has() {
    grep -qE -- "$1" <<<"$said" && s=0 || s=1
    ok $s "$2" || diag "exit status $status: $said"
}

if [ "$MPI_FLAVOR" = mpich ]; then skip_all "MPICH's launcher drops what ranks say while it ends a job"; fi

plan 14
for nodes in 0 1; do
    crashes segfault $nodes
    has '^1/2 [^ ]+ signal: error: SIGSEGV at address 0x10$' "nodes=$nodes: a fault names rank and address"
    has 'crash(\(crash_here\+|.*\(\+)0x[0-9a-f]+\)\[0x' "nodes=$nodes: with a backtrace into the program"
    crashes abort $nodes
    has '^1/2 [^ ]+ signal: error: SIGABRT' "nodes=$nodes: so does abort()"
done
is "$([ $status -ne 0 ] && grep -c 'signal: error' <<<"$said")" 1 "one rank, one line, and the job fails"
crashes handled 0
has "^the program's own handler ran\$" "a handler of the program runs"
has '^1/2 [^ ]+ signal: error: SIGSEGV' "after our line"
crashes later 0
is "$([ $status -ne 0 ] && grep -c '^1/2 .*signal: error' <<<"$said")" 0 "after pgas_finalize nothing of ours is said"
crashes stop 0
has '^1/2 [^ ]+ abort: error: the input has no end$' "pgas_abort logs its text"
is "$status" 7 "and the job ends with its status"
crashes early 0
has ' abort: error: the program ends the job$' "pgas_abort before pgas_init logs too"
is "$status" 1 "and status 0 becomes 1"
done_testing
