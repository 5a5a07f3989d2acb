#!/usr/bin/env bash
# what: On a machine with two NUMA zones, memory of pools and blocks, chunks of channels and service threads are in their
#       zones; the benchmark of zones measures the own zone and the other one; pages of 1 GiB serve the heap.
# needs: no-sanitizers command:qemu-system-x86_64
# timeout: 600
# source: include/pgas/mem.h
set -u
. "$(dirname "$0")/../tap.sh"
[ "${PGAS_TEST_MATRIX:-}" != short ] || skip_all "not in the short form: it downloads a kernel"
make_scratch
cd "$BUILD" || exit 1
for program in t/spmd/zones.t t/spmd/boot.t benchmarks/pgas_numa; do
    [ -x $program ] || skip_all "$program is not built"
done

# What bash does in the machine. The marks separate the outputs.
cat >"$scratch/jobs" <<END
zones() { echo "@zones \$*"; env "\$@" "$TOP/t/mpirun" 2 t/spmd/zones.t 2>&1; echo "@end \$?"; }
zones PGAS_NODE_MAXSIZE=0
zones PGAS_NODE_MAXSIZE=1 PGAS_SERVICE_THREADS=2
echo @numa
"$TOP/t/mpirun" 2 benchmarks/pgas_numa --json -m 4096:4096 -i 20 -r 5 2>/dev/null
echo "@end \$?"
echo @pages
"$TOP/t/mpirun" 1 t/spmd/boot.t 2>&1
echo "@end \$?"
END
run_machine() {
    status=0
    VM_TIMEOUT=${VM_TIMEOUT:-400} VM_GIB_PAGES=1 "$TOP/t/vm/run" bash "$scratch/jobs" >"$scratch/out" 2>"$scratch/why" || status=$?
    [ $status -ne 77 ] || skip_all "$(sed -n 's,^t/vm/run: ,,p' "$scratch/why")"
}
run_machine

# part MARK: the output behind this mark
part() { "$AWK" -v mark="@$1" 'index($0, "@") == 1 { on = index($0, mark) == 1 || (on && index($0, "@end") == 1) } on' "$scratch/out"; }
ended_well() { part "$1" | grep -q '^@end 0$'; }
all_points() { ended_well "$1" && part "$1" | grep -q '^ok' && ! part "$1" | grep -iE '^not ok|# skip'; }
has_case() { part numa | grep -q "\"case\":\"$1\""; }
all_cases() {
    local name
    ended_well numa || return 1
    for name in put-own put-other get-own get-other call-own call-other; do has_case "node-$name" || return 1; done
}
one_gib() { part pages | grep -q '^ok .*a mapping of 1 GiB has a page of 1 GiB$'; }

# Beside load an emulated machine is sometimes too slow for a test in it; then it gets a second chance.
if ! all_points "zones PGAS_NODE_MAXSIZE=0" || ! all_points "zones PGAS_NODE_MAXSIZE=1" || ! all_cases; then
    grep -iE '^not ok|# skip|^@end|killed' "$scratch/out" | sed 's/^/# first run: /'
    run_machine
fi

plan 4
succeeds "one node: everything is in its zone" all_points "zones PGAS_NODE_MAXSIZE=0"
succeeds "two nodes and two service threads: everything is in its zone" all_points "zones PGAS_NODE_MAXSIZE=1"
succeeds "pgas_numa measures the own zone and the other one" all_cases
succeeds "the heap has a page of 1 GiB" one_gib
[ $tap_failed -eq 0 ]
