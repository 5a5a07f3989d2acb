#!/usr/bin/env bash
# what: A replicated log survives kill -9 of its writer and of all replicas in the middle of a stream: every
#       acknowledged record is there afterwards, and nothing torn. Two writers take turns. Damage is found. A replica
#       that dies alone costs no record, nor does its old file when it comes back.
# log: group.*(replica [0-9].* is dead|chain|client)
# timeout: 240
# source: examples/replog
set -u
. "$(dirname "$0")/../tap.sh"
. "$(dirname "$0")/replicas.sh"
make_scratch
stop_at_exit
replog=$BUILD/examples/replog/replog
RANDOM=${TAP_SEED:-1}
echo "# seed ${TAP_SEED:-1}"
ROUNDS=6
LINES=12000

# Three replicas on their files, the last one first.
start_replicas() {
    local i next=()
    for i in 2 1 0; do
        start_replica $i --region 32M --file "$scratch/file$i" "${next[@]}"
        next=(--next "${address[$i]}")
    done
    group=${address[0]}
}
files=$scratch/file0,$scratch/file1,$scratch/file2

# lines ROUND: records of 10 to 300 bytes, each of which names its round and number.
lines() {
    "$AWK" -v round="$1" -v n=$LINES 'BEGIN {
        for (i = 0; i < 300; i++) x = x "x"
        for (i = 1; i <= n; i++) {
            print "r" round, i, substr(x, 1, i * 7919 % 290)
            if (round % 2 == 0) fflush()
        }
    }'
}

# begin ROUND: a writer in the background; fd 5 has the numbers that it prints, and pid[writer] it. In even rounds the lines
# come one by one, so that batches are small.
begin() {
    rm -f "$scratch/lines"
    if [ $(($1 % 2)) -eq 0 ]; then
        mkfifo "$scratch/lines"
        lines "$1" >"$scratch/lines" 2>/dev/null &
    else lines "$1" >"$scratch/lines"; fi
    exec 5< <(exec "$replog" append --group "$group" --file "$scratch/lines" 2>"$scratch/writer.err")
    pid[writer]=$!
}

# take N ROUND: waits for the next N numbers of the writer, at most. all_numbers ROUND: takes what it has printed before its
# death; a number whose end is missing does not count.
take() {
    local n=$1 line
    while [ "$n" -gt 0 ] && IFS= read -r line <&5; do
        echo "$line" >>"$scratch/acked$2"
        n=$((n - 1))
    done
}
all_numbers() {
    cat <&5 >>"$scratch/acked$1"
    exec 5<&-
    if [ -n "$(tail -c 1 "$scratch/acked$1")" ]; then sed -i '$d' "$scratch/acked$1"; fi
}

# lost ACKED ROUND TAIL: prints acknowledged records of a round that the log does not have, and records of the round that are
# not what was sent.
lost() {
    lines "$2" | "$AWK" -v round="$2" '
        FILENAME == "-" { sent[++n] = $0; next }
        FILENAME == ARGV[2] { number = $1; sub(/^[0-9]*\t/, ""); got[number] = $0; if (++seen != number) print "gap", number; next }
        { k++; if (got[$1] != sent[k]) print "lost", $1; if (k == 1) first = $1 }
        END {
            for (i in got) {
                split(got[i], word, " ")
                if (word[1] == "r" round && got[i] != sent[word[2]]) print "other", i
            }
        }' - "$3" "$1" | head -5
}

plan $((3 * ROUNDS + 24))
for ((round = 1; round <= ROUNDS; round++)); do
    start_replicas
    : >"$scratch/acked$round"
    begin $round
    take $((1 + RANDOM % 5000)) $round
    victims=(0 1 2 writer)
    for ((i = 3; i > 0; i--)); do # in any order
        k=$((RANDOM % (i + 1)))
        swap=${victims[i]}
        victims[i]=${victims[k]}
        victims[k]=$swap
    done
    for name in "${victims[@]}"; do { kill -9 "${pid[$name]}" && wait "${pid[$name]}"; } 2>/dev/null; done
    pid=()
    all_numbers $round
    echo "# round $round: $(wc -l <"$scratch/acked$round") acknowledged of $LINES, killed in the order ${victims[*]}"
    "$replog" verify --files "$files" >"$scratch/out"
    is "$? $(grep -c '^log: .* records; good' "$scratch/out")" "0 1" "round $round: the files hold a log"
explain "$scratch/out"
    echo "# $(grep -cE 'behind|stale|without' "$scratch/out") of 3 replicas differ from the log"
    "$replog" tail --files "$files" >"$scratch/tail"
    found=
    for ((i = 1; i <= round; i++)); do found+=$(lost "$scratch/acked$i" $i "$scratch/tail"); done
    empty "$found" "round $round: all acknowledged records are there, in order, and none is torn"
    start_replicas
    "$replog" tail --group "$group" >"$scratch/tail2"
    is "$(cmp "$scratch/tail" "$scratch/tail2")" "" "round $round: the replicas that have been started on them show the same"
    kill_replicas
done
lost "$scratch/acked1" 2 "$scratch/tail" >"$scratch/found"
is "$(grep -c . "$scratch/found")" 5 "the check finds records that differ (made on purpose)"

start_replicas
n=$("$replog" append --group "$group" </dev/null | wc -l)
is "$n" 0 "an append of nothing repairs the log"
"$replog" verify --group "$group" >"$scratch/out"
is "$? $(grep -c 'behind\|stale' "$scratch/out") $(tail -1 "$scratch/out" | cut -d ' ' -f 3-)" "0 0 records; good" \
    "then the replicas are equal"
explain "$scratch/out"
before=$(tail -1 "$scratch/out" | cut -d ' ' -f 2)

# Two writers at a time.
seq 1 500 | "$replog" append --group "$group" >"$scratch/a" 2>"$scratch/a.err" &
first=$!
seq 1 500 | "$replog" append --group "$group" >"$scratch/b" 2>"$scratch/b.err"
status=$?
wait $first
is "$? $status $(cat "$scratch/a.err" "$scratch/b.err")" "0 0 " "two writers at a time both succeed"
is "$(sort -n "$scratch/a" "$scratch/b" | uniq | wc -l) $(sort -n "$scratch/a" "$scratch/b" | tail -1)" \
    "1000 $((before + 1000))" "each number is given once"

# A writer that holds the lock, and one that does not wait.
mkfifo "$scratch/typed"
exec 5< <(exec "$replog" append --group "$group" --file "$scratch/typed")
pid[writer]=$!
exec 6>"$scratch/typed"
echo hello >&6
IFS= read -r number <&5
is "$number" $((before + 1001)) "a line that is typed is acknowledged while the input is open"
seq 1 5 | "$replog" append --group "$group" --wait 0.2 >"$scratch/out" 2>"$scratch/err"
is "$? $(wc -l <"$scratch/out") $(cat "$scratch/err")" "1 0 replog: the lock is held by process ${pid[writer]} of this host" \
    "another writer is refused, with the holder's name"
{ kill -9 "${pid[writer]}" && wait "${pid[writer]}"; } 2>/dev/null
exec 5<&- 6>&-
unset "pid[writer]"
is "$(echo after | "$replog" append --group "$group" --wait 5)" $((before + 1002)) "after its death the next one has the lock"
is "$("$replog" tail --group "$group" --from $((before + 1001)) | tr '\t\n' ' ,')" \
    "$((before + 1001)) hello,$((before + 1002)) after," "tail --from"

# Following.
exec 5< <(exec "$replog" tail --group "$group" --from $((before + 1003)) --follow)
pid[follower]=$!
printf 'x\n\nz' | "$replog" append --group "$group" >"$scratch/out"
IFS= read -r a <&5
IFS= read -r b <&5
IFS= read -r c <&5
is "$(tr '\t' ' ' <<<"$a,$b,$c")" "$((before + 1003)) x,$((before + 1004)) ,$((before + 1005)) z" \
    "tail --follow prints records as they come; empty ones, too"
{ kill "${pid[follower]}" && wait "${pid[follower]}"; } 2>/dev/null
exec 5<&-
unset "pid[follower]"
"$replog" bench --group "$group" --records 500 --bytes 64 --batch 10 >"$scratch/out"
is "$? $(grep -cE '^500 records of 64 bytes in .* records/s|^batches of 10, 1 under way: p50 .* us, p99 .* us' "$scratch/out")" "0 2" bench

# A replica dies alone, in the middle of a stream: the writer continues with two.
old=$("$replog" verify --group "$group" | tail -1 | cut -d ' ' -f 2)
: >"$scratch/acked7"
exec 7< <(exec "$replog" tail --group "$group" --from $((old + 1)) --follow 2>"$scratch/follower.err")
pid[follower]=$!
begin 7
take $((1 + RANDOM % 3000)) 7
{ kill -9 "${pid[1]}" && wait "${pid[1]}"; } 2>/dev/null
all_numbers 7
wait "${pid[writer]}"
is "$? $(wc -l <"$scratch/acked7") $(tail -1 "$scratch/acked7")" "0 $LINES $((old + LINES))" "a replica dies: the writer continues"
explain "$scratch/writer.err"
is "$(grep -c '^replog: a replica has gone, 2 left$' "$scratch/writer.err")" 1 "and says so"
unset "pid[writer]"
timeout 60 head -n $LINES <&7 >"$scratch/followed"
kill_replicas
exec 7<&-
succeeds "the files are good, though one is old" "$replog" verify --files "$files"
"$replog" tail --files "$files" >"$scratch/tail"
empty "$(lost "$scratch/acked7" 7 "$scratch/tail")" "all records are there"
is "$(tail -n $LINES "$scratch/tail" | cmp - "$scratch/followed")" "" "a reader that followed has seen them, too"
start_replicas
"$replog" tail --group "$group" >"$scratch/tail2"
is "$(cmp "$scratch/tail" "$scratch/tail2")" "" "the old replica comes back: the log is the same"
"$replog" append --group "$group" </dev/null
"$replog" verify --group "$group" >"$scratch/out"
is "$? $(grep -c 'behind\|stale' "$scratch/out")" "0 0" "and then it has all records"
explain "$scratch/out"
kill_replicas

# Damage.
cp "$scratch/file1" "$scratch/damaged"
printf '\377' | dd of="$scratch/damaged" bs=1 seek=5000 conv=notrunc status=none
"$replog" verify --files "$scratch/file0,$scratch/damaged,$scratch/file2" >"$scratch/out"
is "$? $(grep -c '^replica 1: .* DAMAGED at byte ' "$scratch/out")" "1 1" "a changed byte is found, and the replica named"
explain "$scratch/out"
printf 'something else' | dd of="$scratch/damaged" bs=1 conv=notrunc status=none
"$replog" tail --files "$scratch/damaged" >"$scratch/out" 2>"$scratch/err"
is "$? $(grep -c 'something else than a log' "$scratch/err")" "1 1" "a file that is no log is refused"

# Arguments.
wrong() {
    local pattern=$1
    shift
    "$replog" "$@" >"$scratch/out" 2>"$scratch/err"
    is "$? $(grep -c -- "$pattern" "$scratch/err")" "2 1" "wrong: replog $*"
}
wrong 'a command is missing'
wrong 'no such command: write' write --group x
wrong 'one of them is needed' tail
wrong 'writers need --group' append --files x
done_testing
