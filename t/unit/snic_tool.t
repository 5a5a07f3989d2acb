#!/usr/bin/env bash
# what: pgas_snic answers --help, --version and --status, and names an unknown option.
# source: verbs_backend/snic/README.md
set -u
. "$(dirname "$0")/../tap.sh"
make_scratch
snic=$BUILD/tools/pgas_snic
name=tool-$$

plan 10
is "$("$snic" --version)" "libpgas $PACKAGE_VERSION" "--version"
"$snic" --help >"$scratch/out"
is "$? $(grep -c '^usage: pgas_snic' "$scratch/out")" "0 1" "--help"
empty "$("$AWK" 'length > 80' "$scratch/out")" "in 80 columns"
"$snic" --wrong >"$scratch/out" 2>&1
is "$? $(grep -cE '^pgas_snic: no such option: --wrong|^usage' "$scratch/out")" "2 2" "an option that it does not know is named"
"$snic" --idle >"$scratch/out" 2>&1
is "$? $(grep -c '^pgas_snic: a value is missing: --idle' "$scratch/out")" "2 1" "so is one without its value"
"$snic" --idle soon >"$scratch/out" 2>&1
is "$? $(grep -c '^pgas_snic: not a number of seconds: soon' "$scratch/out")" "2 1" "or with one that is no number"
out=$("$snic" --name "$name" --status)
is "$? $out" "1 pgas_snic \"$name\" does not run" "--status without one"
"$snic" --name "$name" --idle 20 --foreground &
pid=$!
for ((i = 0; i < 1000; i++)); do
    out=$("$snic" --name "$name" --status) && break
done
like() { case $1 in $2) echo yes ;; *) echo "$1" ;; esac; }
is "$(like "$out" "pgas_snic \"$name\" runs as process * and has 0 of at most 1024 clients")" yes "--status of one that runs"
"$snic" --name "$name" --foreground 2>"$scratch/out"
is "$? $(grep -c "already" "$scratch/out")" "1 1" "a second one of the name is refused"
{ kill -9 "$pid" && wait "$pid"; } 2>/dev/null

# A library in a folder like /tmp, where another user has put a program of the name.
# tools/check builds no benchmarks with sanitizers.
if [ "$(id -u)" = 0 ] && [ -z "$SANITIZERS" ]; then
    cp -L "$BUILD"/.libs/libpgas*.so.1 "$scratch/"
    printf '#!/bin/sh\n: >%s/started\nexit 1\n' "$scratch" >"$scratch/pgas_snic"
    chmod 755 "$scratch/pgas_snic"
    chown 65534:65534 "$scratch/pgas_snic"
    env LD_LIBRARY_PATH="$scratch" "$BUILD/benchmarks/pgas_verbs_latency" --engine process --case write -m 8:8 -i 10 -r 5 \
        --device snic >"$scratch/out" 2>&1
    is "$? $(ls "$scratch/started" 2>/dev/null)" "0 " "clients start no other user's program" || diag "$(cat "$scratch/out")"
else skip 1 "not root, or a sanitizer build"; fi
done_testing
