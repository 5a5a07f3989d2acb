#!/usr/bin/env bash
# what: pgas_info prints once, also under a launcher. It prints bytes per rank with --job, lists settings of UCX without
#       a warning, names unknown variables, fits into 80 columns, explains one variable, and fails when its output is
#       lost.
# log: PGAS_HEEP_SIZE is not a known variable
# source: docs/configuration.md
set -u
. "$(dirname "$0")/../tap.sh"
make_scratch
info=$BUILD/tools/pgas_info

# lines PATTERN: how many lines of the last output match.
lines() { grep -cE -- "$1" "$scratch/out"; }

# wide: the lines of the last output that have more than 80 columns.
wide() { "$AWK" 'length > 80' "$scratch/out"; }

plan 17
PGAS_UCX_TLS=tcp,self "$info" >"$scratch/out" 2>"$scratch/err"
is "$? $(lines '^libpgas ') $(lines '^PGAS_UCX_TLS +tcp,self .* environment')" "0 1 1" "alone; with the settings for UCX"
empty "$(cat "$scratch/err")" "and without a warning"
is "$(lines '^  ((chain|verbs) on|calls between) ')" 3 "it names the ways of groups"
is "$(lines '^bytes per rank: .*--job')" 1 "it says how to ask for bytes per rank"
wide=$("$AWK" '/^progress rule/ { inside = 1; next } /^  any/ { inside = 0 } inside && substr($0, 49, 1) != " "' "$scratch/out")
empty "$wide" "the columns of the progress rule are wide enough"
mpirun_n 2 "$info" >"$scratch/out" 2>&1
is "$? $(lines '^libpgas ')" "0 1" "two ranks print once"
mpirun_n 2 "$info" --job >"$scratch/out" 2>&1
is "$? $(lines '^libpgas ') $(lines '^bytes per rank at most, 2 ranks')" "0 1 1" "--job tells bytes per rank, once"
empty "$(wide)" "in 80 columns"
for setting in PGAS_SERVICE_THREADS=0 PGAS_SERVICE_THREADS=1; do
    env $setting "$info" >"$scratch/out" 2>&1
    empty "$(wide)" "and without a job, $setting"
done
PGAS_HEEP_SIZE=1M "$info" >"$scratch/out" 2>"$scratch/err"
is "$? $(grep -c 'warn: PGAS_HEEP_SIZE is not a known variable: did you mean PGAS_HEAP_SIZE' "$scratch/err")" "0 1" \
    "unknown variables are named without a job"
PGAS_HEAP_SIZE=3M "$info" --var HEAP_SIZE >"$scratch/out" 2>&1
is "$? $(lines '^PGAS_HEAP_SIZE +3M +256M +environment +bytes$') $(lines .)" "0 1 3" "--var explains one variable"
"$info" --var PGAS_LANES >"$scratch/out" 2>&1
is "$? $(lines '^PGAS_LANES ')" "0 1" "also by its whole name"
"$info" --var HEAPSIZE >"$scratch/out" 2>&1
is "$? $(lines 'PGAS_HEAPSIZE is not a known variable: did you mean PGAS_HEAP_SIZE')" "1 1" "and names the nearest one"
if [ -c /dev/full ]; then
    "$info" >/dev/full 2>"$scratch/out"
    is "$? $(lines 'standard output')" "1 1" "lost output is an error"
else skip 1 "no /dev/full here"; fi
"$info" --wrong >"$scratch/out" 2>&1
is "$? $(lines '^usage') $(lines '^pgas_info: no such option: --wrong$')" "2 1 1" "an unknown option is refused"
is "$("$info" --version)" "libpgas $PACKAGE_VERSION" "--version"
done_testing
