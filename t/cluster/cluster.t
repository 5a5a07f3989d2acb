#!/usr/bin/env bash
# what: Put, get, calls and pagerank work between three hosts over real TCP.
# needs: no-sanitizers namespaces
# timeout: 400
# turn: waits
set -u
. "$(dirname "$0")/../tap.sh"
. "$(dirname "$0")/hosts.sh"

SPMD="t/spmd/rma.t t/spmd/call.t"
GRAPH="tools/pgas_graph pagerank --rmat 11 --tolerance 1e-10 --check"

refusal=$(cluster_refusal)
[ -z "$refusal" ] || skip_all "$refusal"
cluster_enter
make_scratch
trap 'cluster_end; rm -rf "$scratch"' EXIT
trap 'exit 130' INT TERM HUP ABRT
cd "$BUILD" || exit 1

# spread PROGRAM: a test of several ranks over the hosts, which t/launch finds in the environment. A hang that it forgives
# needs the remark that the library has ended, so each run must make it.
spread() {
    if [ ! -x "$1" ]; then skip 1 "$1 is not built" && return; fi
    PGAS_TEST_MATRIX=hosts PGAS_TEST_TIMEOUT=120 "$TOP/t/launch" "$1" >"$scratch/out" 2>&1 && grep -q '^# ended: ' "$scratch/out"
    ok $? "$1 between hosts" || diag "$(cat "$scratch/out")"
    grep '^# forgiven: ' "$scratch/out"
}

# See t/launch about MPICH and three hosts.
ranks() { if [ "$MPI_FLAVOR" = mpich ]; then echo 2; else echo 3; fi; }

plan $(($(wc -w <<<"$SPMD") + 4))
if cluster_begin 3; then ok 0 "three hosts"; else ok 1 "three hosts"; fi
is "$(mpirun_n 3 hostname 2>"$scratch/err" | sort | paste -sd ' ')" "h0 h1 h2" "ranks start on all of them" ||
    diag "$(cat "$scratch/err")"
for program in $SPMD; do spread "$program"; done
# Programs that leave MPI to the library cannot distinguish a hang of MPI_Finalize from one of the library.
if [ "$MPI_FLAVOR" = mpich ]; then spread t/spmd/graph_checked.t
elif [ -x "${GRAPH%% *}" ]; then succeeds "pagerank between hosts" mpirun_n "$(ranks)" $GRAPH; else
    skip 1 "pagerank is not built"
fi
if [ "$MPI_FLAVOR" = mpich ]; then skip 1 "pgas_info leaves MPI to the library"; else
    mpirun_n 2 tools/pgas_info --job 2>"$scratch/err" | "$AWK" '/^listeners:/ { inside = 1 } inside && $3 == "libpgas"' >"$scratch/out"
    test -s "$scratch/out" && ! grep -qE ' (0\.0\.0\.0|\[::\]):' "$scratch/out"
    ok $? "the library listens at addresses of its choice, not at all of a host" || diag "$(cat "$scratch/out" "$scratch/err")"
fi
done_testing
