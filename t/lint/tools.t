#!/usr/bin/env bash
# what: the scripts parse, and install-deps prints its list where there is no apt
set -u
. "$(dirname "$0")/../tap.sh"
make_scratch

scripts=$(cd "$TOP" && grep -lE '^#!.*(bash|sh)$' autogen.sh .ci/run tools/* t/* t/*/* 2>/dev/null)
plan $(($(wc -w <<<"$scripts") + 4))
for script in $scripts; do
    succeeds "$script parses" bash -n "$TOP/$script"
done
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
