#!/usr/bin/env bash
# what: pgas_info prints once, under a launcher too, tells bytes per rank with --job, lists what was set for UCX without a
#       warning, and fails when its output is lost
# source: README.md
set -u
. "$(dirname "$0")/../tap.sh"
make_scratch
info=$BUILD/tools/pgas_info

# lines PATTERN: how many lines of the last output match.
lines() { grep -cE -- "$1" "$scratch/out"; }

plan 9
PGAS_UCX_TLS=tcp,self "$info" >"$scratch/out" 2>"$scratch/err"
is "$? $(lines '^libpgas ') $(lines '^PGAS_UCX_TLS +tcp,self .* environment')" "0 1 1" "alone; with what was set for UCX"
empty "$(cat "$scratch/err")" "and without a warning"
is "$(lines '^bytes per rank: .*--job')" 1 "it says how to ask for bytes per rank"
wide=$("$AWK" '/^progress rule/ { inside = 1; next } /^  any/ { inside = 0 } inside && substr($0, 49, 1) != " "' "$scratch/out")
empty "$wide" "the columns of the progress rule are wide enough"
mpirun_n 2 "$info" >"$scratch/out" 2>&1
is "$? $(lines '^libpgas ')" "0 1" "two ranks print once"
mpirun_n 2 "$info" --job >"$scratch/out" 2>&1
is "$? $(lines '^libpgas ') $(lines '^bytes per rank at most, 2 ranks')" "0 1 1" "--job tells bytes per rank, once"
if [ -c /dev/full ]; then
    "$info" >/dev/full 2>"$scratch/out"
    is "$? $(lines 'standard output')" "1 1" "lost output is an error"
else skip 1 "no /dev/full here"; fi
"$info" --wrong >"$scratch/out" 2>&1
is "$? $(lines '^usage')" "2 1" "an unknown option is refused"
is "$("$info" --version)" "libpgas $PACKAGE_VERSION" "--version"
done_testing
