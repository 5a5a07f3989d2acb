#!/usr/bin/env bash
# what: A call or an access costs no more instructions than recorded, on either side, without the bodies of handlers.
# needs: no-sanitizers command:valgrind
# timeout: 300
# source: benchmarks/instructions: callgrind counts while filled.c fills a channel with n calls and with 2 n, and drains it
set -u
. "$(dirname "$0")/../tap.sh"
make_scratch
export BUILD
counts=$TOP/benchmarks/instructions

# per_call SIDE HANDLERS WAY BYTES N: one number, or nothing
per_call() { "$counts" --count "$@" 2>"$scratch/err" | cut -d ' ' -f 1; }

# row CASE: its instructions in the table
row() { sed -n "s/.*\"case\":\"$1\",.*\"median\":\([0-9.]*\),.*/\1/p" "$scratch/table"; }

# holds "A OP B": for numbers with a point
holds() { "$AWK" "BEGIN { exit !($1) }"; }

# at_most BOUND CASE
at_most() {
    local got
    got=$(row "$2")
    [ -n "$got" ] && holds "$got <= $1" && s=0 || s=1
    ok $s "$2: at most $1 instructions" || diag "got: ${got:-nothing}"
    echo "# $2: ${got:-nothing}"
}

"$BUILD"/t/unit/filled trad 8 10 >/dev/null
[ $? -ne 77 ] || skip_all "compiled without optimization"

plan 15
"$counts" --json >"$scratch/table" 2>"$scratch/err"
is "$? $(cat "$scratch/err")" "0 " "every path is counted; otherwise build filled again: make t/unit/filled"
shape='^\{"bench":"instructions","case":"[a-z0-9-]+","bytes":8,"unit":"","better":"lower",'
shape+='"median":[0-9.]+,"vs":\{"branches":[0-9.]+(,"slots":[0-9.]+)?\}\}$'
empty "$(grep -vE "$shape" "$scratch/table")" "the table is JSON"
at_most 25 trad-caller
at_most 12 trad-receiver
at_most 2 batch-receiver
at_most 60 write-caller
at_most 38 write-receiver
# Typed handlers: as the functions that they stand for. The batch form has the body in its loop.
at_most 25 typed-trad-caller
at_most 8 typed-trad-receiver
at_most 60 typed-write-caller
at_most 14 get-u64
at_most 14 put-u64
at_most 14 update-u64-add

plain=$(row trad-caller)
slow=$(per_call fill less slow 8 400)
holds "${slow:-0} - ${plain:-0} > 9.5 && ${slow:-0} - ${plain:-0} < 10.5" && s=0 || s=1
ok $s "ten instructions more are seen" || diag "$plain, $slow"
less=$(row trad-receiver)
with=$(per_call drain with trad 8 400)
holds "${with:-0} >= ${less:-0} + 1" && s=0 || s=1
ok $s "bodies of handlers are left out" || diag "$less, with them $with"
done_testing
