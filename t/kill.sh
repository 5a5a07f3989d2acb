# Sourced by tests in which a rank is killed (t/tap.sh is there already). They say how a job with a victim is started and named:
#   start VICTIM HOW ..          runs it, output in $scratch/out and $scratch/err, with the exit status of the launcher
#   circumstances VICTIM HOW ..  in words
# The program prints `started EPOCH-SECONDS` before the kill, and on each rank that is left `survived ...SECONDS` as fourth word.
export MPIRUN_LEAVES_CLEANUP=1
LIMIT=30 # seconds, a guard: it takes up to four, on a machine that others use 13 were seen
ranks=3

# dies ARGUMENTS OF start..: two points.
dies() {
    local status=0 started reports text="rank $1 dies, $(circumstances "$@")"
    start "$@" || status=$?
    started=$(sed -n 's/^started //p' "$scratch/out")
    [ $status -ne 0 ] && [ $status -ne 124 ] && [ -n "$started" ] && [ $((EPOCHSECONDS - ${started:-0})) -le $LIMIT ]
    ok $? "$text: the job ends" || diag "status $status: $(cat "$scratch/out" "$scratch/err")"
    if [ "$MPI_FLAVOR" = mpich ]; then
        skip 1 "MPICH's launcher drops what ranks say while it ends a job"
        return
    fi
    reports=$(grep -hE "rank [0-9]+ (died|with PID)" "$scratch/err" "$scratch/out")
    [ -n "$reports" ] && ! grep -qvE "rank $1 (died|with PID)" <<<"$reports"
    ok $? "$text: and says which rank went, and no other" || diag "$(cat "$scratch/out" "$scratch/err")"
}

# survive ARGUMENTS OF start..: one point; the ranks that are left must say that all was well.
survive() {
    local text="rank $1 dies, $(circumstances "$@"): the others go on" slow
    if [ "$MPI_FLAVOR" != openmpi ]; then
        skip 1 "the launcher of $MPI_NAME ends the job with its first rank"
        return
    fi
    start "$@" OMPI_MCA_orte_enable_recovery=1 PGAS_ON_PEER_DEATH=continue || true
    slow=$("$AWK" -v limit=$LIMIT '/^survived/ && $4 > limit' "$scratch/out")
    [ "$(grep -c '^survived' "$scratch/out")" -eq $((ranks - 1)) ] && [ -z "$slow" ]
    ok $? "$text" || diag "$(cat "$scratch/out" "$scratch/err")"
}
