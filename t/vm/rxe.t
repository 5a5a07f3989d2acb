#!/usr/bin/env bash
# what: The provider verbs works on a kernel device, soft RoCE in a virtual machine: between two processes of a machine,
#       and between two machines. Groups with the way verbs, and tests of several ranks, run over it on one machine and
#       on two.
# needs: no-sanitizers command:qemu-system-x86_64
# timeout: 1800
# source: include/pgas/verbs.h
#
# RXE_TESTS and RXE_PAIR_TESTS name the tests of several ranks (t/vm/rxe-list runs them in the machines).
set -u
. "$(dirname "$0")/../tap.sh"
QUEUES="t/rxe/queues.t t/rxe/group.t"
RXE_TESTS=${RXE_TESTS-t/spmd/rma.t t/spmd/atomic.t}
RXE_PAIR_TESTS=${RXE_PAIR_TESTS-t/spmd/call.t}

[ "${PGAS_TEST_MATRIX:-}" != short ] || skip_all "not in the short form: it downloads a kernel"
make_scratch
cd "$BUILD" || exit 1
for test in $QUEUES; do [ -x "$test" ] || skip_all "$test is not built"; done
points=0
failed=0

# Under MPICH the ranks come to their end, but the launcher does not come to its own when it has started them on two machines.
if [ "$MPI_FLAVOR" = mpich ]; then RXE_PAIR_TESTS=; fi

# judge LABEL STATUS FILE TEST: counts the points of one test; other lines are its standard error, and its log is checked.
# (t/launch gives the plan last.)
judge() {
    local tap='^((not )?ok|#|Bail out!)' counts n
    { grep '^1\.\.' "$3"; grep -E "$tap" "$3"; } >"$scratch/tap"
    grep -vE "$tap|^1\.\." "$3" >"$scratch/err"
    sed -n 's/^[ *#]*log: //p' "$TOP/${4%.t}.c" >"$scratch/allowed" 2>/dev/null
    "$AWK" -v label="$1" -v from="$points" -v verdict="$2" -v errors="$scratch/err" -v allowed="$scratch/allowed" \
        -f "$TOP/t/tap.awk" "$scratch/tap" >"$scratch/judged"
    sed '$d' "$scratch/judged" >>"$scratch/result"
    counts=$(tail -n 1 "$scratch/judged")
    read -r _ points n <<<"$counts"
    failed=$((failed + n))
}

# If no machine can run at all, this is no failure.
refused() {
    if [ "$1" -eq 77 ]; then skip_all "$(sed -n 's,^t/vm/run: ,,p' "$scratch/why")"; fi
    sed 's/^/# /' "$scratch/why" >>"$scratch/result"
}

# run_in MODE LABEL TEST..: runs tests in machines; the output is cut at the marks of t/vm/rxe-list. A test without an end
# ended with its machine.
run_in() {
    local mode=$1 label=$2 status=0 before=$failed test ended
    shift 2
    "$TOP/t/vm/run" "$mode" "$TOP/t/vm/rxe-list" "$@" >"$scratch/out" 2>"$scratch/why" || status=$?
    refused $status
    for test in "$@"; do
        sed -n "\\,^@begin $test\$,,\\,^@,{ /^@/!p; }" "$scratch/out" >"$scratch/one"
        ended=$(sed -n "s,^@end $test ,,p" "$scratch/out")
        judge "$label$test" "${ended:-$((status == 0 ? 1 : status))}" "$scratch/one" "$test"
    done
    grep '^# machine 1: ' "$scratch/out" >>"$scratch/result"
    if [ $status -ne 0 ] && [ "$failed" -eq "$before" ]; then judge "${label}the machine" $status /dev/null none; fi
}

# built TEST..: those that are there.
built() {
    local test
    for test in "$@"; do if [ -x "$test" ]; then echo "$test"; fi; done
}

export VM_TIMEOUT=${VM_TIMEOUT:-400}
run_in --rxe "" $QUEUES t/rxe/devices.t $(built $RXE_TESTS)
run_in --pair "two machines: " $QUEUES $(built $RXE_PAIR_TESTS)

echo "1..$points"
cat "$scratch/result"
[ "$failed" -eq 0 ]
