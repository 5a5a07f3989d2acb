#!/usr/bin/env bash
# what: Under the launcher, where standard error is a pipe, progress is shown as lines. A job whose rank 0 is interrupted
#       ends with one line that names the progress reached.
# needs: no-sanitizers
# source: docs/configuration.md
set -u
. "$(dirname "$0")/../tap.sh"
make_scratch

# Launchers may drop output of ranks while they end a job, so ranks write to the file themselves. All writers append:
# otherwise the launcher's last words would overwrite the ranks' lines.
program=(bash -c 'echo $$ >"$RANK${OMPI_COMM_WORLD_RANK:-${PMI_RANK-}}"; exec "$0" "$@" 2>>"$ERRORS"' "$BUILD/examples/hex/hex")

# A search of hours, output in $scratch/err; signals reach it though tests may run in the background.
search() {
    env PGAS_PROGRESS_MS=20 ERRORS="$scratch/err" RANK="$scratch/rank" BUILD="$BUILD" setsid -w env --default-signal=INT \
        bash -c 'echo $$ >"$0/pid"; exec "$@"' "$scratch" "$TOP/t/mpirun" 2 \
        "${program[@]}" --moves a1 --size 11 --rollouts 1000000000 >"$scratch/out" 2>>"$scratch/err" </dev/null
}

plan 7
mpirun_n 2 env PGAS_PROGRESS_MS=1 "$BUILD/tools/pgas_graph" pagerank --rmat 15 --iterations 50 >"$scratch/out" 2>"$scratch/err"
is "$? $(grep -cvE '^progress: (read|rank): [0-9.]+ %, ' "$scratch/err")" "0 0" "ranking says how far it is, in lines, by default"
is "$(tail -n 1 "$scratch/err" | grep -c '^progress: rank: 100 %, .* in all$')" 1 "up to the end"
mpirun_n 2 env PGAS_PROGRESS_MS=1 PGAS_PROGRESS=no "$BUILD/tools/pgas_graph" pagerank --rmat 15 >"$scratch/out" 2>"$scratch/err"
is "$? $(cat "$scratch/err")" "0 " "PGAS_PROGRESS=no: nothing"

# interrupt SIGNAL FILE: starts a search, and sends the signal to the process that FILE names. Returns the launcher's status.
interrupt() {
    : >"$scratch/err"
    search &
    until [ "$(grep -cs '^progress: search: ' "$scratch/err")" -ge 3 ] 2>/dev/null; do sleep 0.02; done
    kill "$1" "$(cat "$scratch/$2")"
    wait $!
}

# n_last_lines: the number of lines that say how far an interrupted search was; wrong if there are others about it.
n_last_lines() {
    local n
    n=$(grep -c 'interrupted' "$scratch/err")
    if [ "$n" = "$(grep '^progress: ' "$scratch/err" | tail -n 1 |
        grep -c ': interrupted in search at [0-9.]* % after [0-9]* s$')" ]; then echo "$n"; else echo wrong; fi
}

for signal in -INT -TERM; do
    interrupt $signal rank0
    is "$(n_last_lines)" 1 "SIG${signal#-} at rank 0: one last line says how far it was"
done

# Open MPI 4 sends SIGTERM to the ranks, and SIGKILL to those left as soon as the first one has ended: rank 0 has no time to
# print where another process has its processor.
interrupt -INT pid && s=0 || s=$?
[ $s -ne 0 ] || [ "$MPI_FLAVOR" = mpich ] # whose launcher may return 0
ok $? "a search ends whose launcher is interrupted"
case $(n_last_lines) in 0 | 1) s=0 ;; *) s=1 ;; esac
ok $s "with one such line, or none"
done_testing
