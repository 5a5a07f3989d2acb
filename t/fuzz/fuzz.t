#!/usr/bin/env bash
# what: Parsers end with a result on any input: every libFuzzer target runs for 3 or 5 s (60 s by `make fuzz`).
# needs: command:clang no-sanitizers
# timeout: 700
set -u
. "$(dirname "$0")/../tap.sh"
make_scratch

for words in "" "abc param" "0 param" "3 nobody"; do
    # shellcheck disable=SC2086
    if bash "$TOP/t/fuzz/run" $words >"$scratch/out" 2>&1 || ! grep -q '^usage: ' "$scratch/out"; then bad_words+=" [$words]"; fi
done
printf 'int LLVMFuzzerTestOneInput(const char *d, unsigned long n) { return n > 0 && *d == 7 ? *(char *)1 : 0; }\n' \
    >"$scratch/x.c"
clang -w -fsanitize=fuzzer "$scratch/x.c" -o "$scratch/x" 2>/dev/null || skip_all "this clang has no libFuzzer"

targets=$(cd "$TOP/t/fuzz" && ls fuzz_*.c | sed 's/^fuzz_\(.*\)\.c$/\1/')
plan $(($(wc -w <<<"$targets") + 2))
empty "${bad_words:-}" "what limits nothing or names nothing gets usage"
fails "a target that finds something fails" "$scratch/x" -max_total_time=20 -artifact_prefix="$scratch/"
for name in $targets; do
    case $name in wqe | cqe) seconds=5 ;; *) seconds=3 ;; esac
    succeeds "$name" bash "$TOP/t/fuzz/run" $seconds "$name"
done
done_testing
