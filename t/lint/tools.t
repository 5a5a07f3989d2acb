#!/usr/bin/env bash
# what: the scripts parse; every example, benchmark and tool answers --help and names an option that it does not know, in one
#       form and without starting the library; install-deps prints its list where there is no apt
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

programs=$(make -s --no-print-directory -C "$BUILD" list-programs | grep -v pgas_snic | sed "s,^,$BUILD/,")
commands="$programs $TOP/tools/check $TOP/tools/debian-graph $TOP/benchmarks/ratios $TOP/t/cluster/run"
scripts=$(cd "$TOP" && grep -lE '^#!.*(bash|sh)$' autogen.sh .ci/run tools/* t/* t/*/* 2>/dev/null)
plan $(($(wc -w <<<"$scripts") + 2 * $(wc -w <<<"$commands") + 6))
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

# A PATH without apt: what the script needs, and nothing else.
mkdir "$scratch/bin"
for command in sh echo; do ln -s "$(command -v $command)" "$scratch/bin/"; done
out=$(PATH=$scratch/bin sh "$TOP/tools/install-deps" 2>&1)
is $? 1 "install-deps without apt exits with 1"
case $out in *libucx-dev*) ok 0 "and prints the list" ;; *) ok 1 "and prints the list" ;; esac
case $out in *clang*) ok 1 "of what building needs only" ;; *) ok 0 "of what building needs only" ;; esac
done_testing
