#!/usr/bin/env bash
# t/soak-tcp.sh [RUNS [AT_ONCE]]: random histories over UCX's TCP on an overloaded machine.
#
# RUNS jobs (300) of 2 to 5 ranks, each on a node of its own, AT_ONCE (6) at a time beside a busy loop for each processor.
# Each job works for a second and checks itself; t/spmd/lost.t also shuts its connections down. A job that says that a rank
# died, or does not end within LIMIT_S (120), fails the soak. Started from the build folder, as `make soak-tcp`.
set -u
RUNS=${1:-300} AT_ONCE=${2:-6} LIMIT_S=${LIMIT_S:-120}
TOP=$(cd "$(dirname "$0")/.." && pwd)
export BUILD=$PWD PGAS_NODE_MAXSIZE=1 PGAS_UCX_TLS=tcp,self SOAK_SECONDS=1 ARRAY_SOAK_SECONDS=1
programs=(t/spmd/soak.t t/spmd/array_soak.t t/spmd/lost.t)
logs=$(mktemp -d "${TMPDIR:-/tmp}/libpgas-soak.XXXXXX")
loops=()
end() {
    for pid in "${loops[@]}"; do kill "$pid" 2>/dev/null; done
    rm -rf "$logs"
}
trap end EXIT
for _ in $(seq "$(nproc)"); do
    timeout 3600 sh -c 'while :; do :; done' &
    loops+=($!)
done

# job NUMBER: leaves a log if it fails.
job() {
    local log=$logs/$1 status=0
    PGAS_TEST_SEED=$1 timeout -k 5 "$LIMIT_S" "$TOP/t/mpirun" $((2 + $1 % 4)) \
        "$BUILD/${programs[$1 % ${#programs[@]}]}" >"$log" 2>&1 </dev/null || status=$?
    if [ $status -eq 0 ] && ! grep -qE '^not ok|rank [0-9]+ (died|is gone)' "$log"; then
        rm "$log"
    else
        echo "status $status, ${programs[$1 % ${#programs[@]}]}, $((2 + $1 % 4)) ranks, seed $1" >>"$log"
    fi
}

for ((first = 0; first < RUNS; first += AT_ONCE)); do
    jobs=()
    for ((i = first; i < first + AT_ONCE && i < RUNS; i++)); do
        job $i &
        jobs+=($!)
    done
    wait "${jobs[@]}"
done
failed=$(find "$logs" -type f | wc -l)
deaths=$(grep -rlE 'rank [0-9]+ (died|is gone)' "$logs" | wc -l)
hangs=$(grep -rlE '^status (124|137)' "$logs" | wc -l)
find "$logs" -type f -exec tail -n 20 {} +
echo "$RUNS runs: $failed failed, $deaths of them with a death, $hangs hung; load $(cut -d' ' -f1 /proc/loadavg)"
[ "$failed" -eq 0 ]
