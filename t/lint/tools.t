#!/usr/bin/env bash
# what: The scripts parse. Every example, benchmark and tool answers --help and names an unknown option, in one form and
#       without starting the library.
set -u
. "$(dirname "$0")/../tap.sh"
make_scratch

# Where the library started it would refuse this.
export PGAS_HEAP_SIZE=none

# helps COMMAND: exit status 0, the usage on standard output, and nothing else.
helps() {
    "$1" --help >"$scratch/out" 2>"$scratch/err" </dev/null && [ ! -s "$scratch/err" ] &&
        head -n 1 "$scratch/out" | grep -qE "^usage: (mpirun -n N )?(benchmarks/|t/cluster/|tools/)?${1##*/}( |\$)" ||
        { cat "$scratch/out" "$scratch/err"; return 1; }
}

# refuses COMMAND: exit status 2, the option's name and the usage on standard error, and nothing else.
refuses() {
    local status=0
    "$1" --wrong >"$scratch/out" 2>"$scratch/err" </dev/null || status=$?
    [ $status -eq 2 ] && [ ! -s "$scratch/out" ] && grep -q '^usage: ' "$scratch/err" &&
        [ "$(head -n 1 "$scratch/err")" = "${1##*/}: no such option: --wrong" ] ||
        { echo "exit status $status"; cat "$scratch/out" "$scratch/err"; return 1; }
}

programs=$(make -s --no-print-directory -C "$BUILD" list-programs | sed "s,^,$BUILD/,")
commands="$programs $TOP/benchmarks/ratios $TOP/benchmarks/sweep $TOP/benchmarks/instructions $TOP/t/cluster/run"
for tool in check debian-graph install-deps quickstart; do commands="$commands $TOP/tools/$tool"; done
scripts=$(cd "$TOP" && grep -lE '^#!.*(bash|sh)$' autogen.sh .ci/run tools/* t/* t/*/* 2>/dev/null)
plan $(($(wc -w <<<"$scripts") + 2 * $(wc -w <<<"$commands") + 3))
for script in $scripts; do
    succeeds "$script parses" bash -n "$TOP/$script"
done
is "$(grep -cE '/(01_hello|hex|pgas_histo|pgas_info)$' <<<"$programs")" 4 "the programs are found"
for command in $commands; do
    succeeds "${command##*/} --help" helps "$command"
    succeeds "${command##*/} names an option that it does not know" refuses "$command"
done
fails "a program that ignores its arguments is caught" helps "$(command -v true)"
unset PGAS_HEAP_SIZE

echo 'if true; then' >"$scratch/broken"
fails "a script that does not parse is caught" bash -n "$scratch/broken"
done_testing
