#!/usr/bin/env bash
# what: the provider verbs on a device of the kernel's, soft RoCE in a virtual machine: between two processes of a machine,
#       and between two machines; tests of several ranks over it
# needs: no-sanitizers command:qemu-system-x86_64
# timeout: 900
# source: include/pgas/verbs.h
#
# RXE_TESTS names the tests of several ranks (t/vm/rxe-list runs them in the machine).
set -u
. "$(dirname "$0")/../tap.sh"
QUEUES=t/rxe/queues.t
IN_ONE="$QUEUES t/rxe/devices.t ${RXE_TESTS-}"

[ "${PGAS_TEST_MATRIX:-}" != short ] || skip_all "not in the short form: it downloads a kernel"
make_scratch
cd "$BUILD" || exit 1
[ -x $QUEUES ] || skip_all "$QUEUES is not built"
points=0
failed=0

# judge LABEL STATUS FILE TEST: counts the points of one test; what is not TAP was for stderr, and its log is looked at.
judge() {
    local tap='^((not )?ok|1\.\.|#|Bail out!)' counts n
    grep -E "$tap" "$3" >"$scratch/tap"
    grep -vE "$tap" "$3" >"$scratch/err"
    sed -n 's/^[ *#]*log: //p' "$TOP/${4%.t}.c" >"$scratch/allowed" 2>/dev/null
    "$AWK" -v label="$1" -v from="$points" -v verdict="$2" -v errors="$scratch/err" -v allowed="$scratch/allowed" \
        -f "$TOP/t/tap.awk" "$scratch/tap" >"$scratch/judged"
    sed '$d' "$scratch/judged" >>"$scratch/result"
    counts=$(tail -n 1 "$scratch/judged")
    read -r _ points n <<<"$counts"
    failed=$((failed + n))
}

# Where no machine can be had at all, that is no failure.
refused() {
    if [ "$1" -eq 77 ]; then skip_all "$(sed -n 's,^t/vm/run: ,,p' "$scratch/why")"; fi
    sed 's/^/# /' "$scratch/why" >>"$scratch/result"
}

# One machine: its output is cut at the marks of t/vm/rxe-list. A test without an end ends with the machine.
"$TOP/t/vm/run" --rxe "$TOP/t/vm/rxe-list" $IN_ONE >"$scratch/out" 2>"$scratch/why"
status=$?
refused $status
for test in $IN_ONE; do
    sed -n "\\,^@begin $test\$,,\\,^@,{ /^@/!p; }" "$scratch/out" >"$scratch/one"
    ended=$(sed -n "s,^@end $test ,,p" "$scratch/out")
    judge "$test" "${ended:-$((status == 0 ? 1 : status))}" "$scratch/one" "$test"
done

# Two machines.
"$TOP/t/vm/run" --pair $QUEUES >"$scratch/out" 2>"$scratch/why"
status=$?
refused $status
judge "two machines: $QUEUES" $status "$scratch/out" $QUEUES

echo "1..$points"
cat "$scratch/result"
[ "$failed" -eq 0 ]
