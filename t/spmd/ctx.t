#!/usr/bin/env bash
# what: If a thread's context finds no room in /dev/shm, each operation of the thread gets a status, the log reports it
#       once, and nothing hangs. The operations work as soon as there is room.
# needs: namespaces
# source: public headers
set -u
. "$(dirname "$0")/../tap.sh"
make_scratch

plan 4
status=0
PGAS_TRANSPORT=ucx PGAS_HEAP_SIZE=1M PGAS_NODE_MAXSIZE=1 PGAS_UCX_TLS=posix,self timeout -k 5 60 \
    unshare --mount --propagation private sh -c 'mount -t tmpfs -o size=64m none /dev/shm && exec "$@"' sh \
    "$TOP/t/mpirun" 2 "$BUILD/t/spmd/ctx_victim" /dev/shm/full >"$scratch/out" 2>"$scratch/err" </dev/null || status=$?
is $status 0 "the job ends"
is "$(grep -c '^attach PGAS_OK, 100 of 100 refused' "$scratch/out")" 2 "every put and call gets a status"
is "$(grep -c 'opening context' "$scratch/err")" 2 "each rank says it once"
is "$(grep -c '^with room PGAS_OK PGAS_OK' "$scratch/out")" 2 "with room again they work"
[ $status -eq 0 ] || diag "$(head -c 2000 "$scratch/out")" "$(head -c 2000 "$scratch/err")"
