#!/usr/bin/env bash
# what: pgas_kvsd answers ordinary clients on 1, 2 and 3 ranks: any rank serves any key, and a client's pipeline keeps its
#       order. Wrong bytes, slow readers, too many connections and killed clients harm no other client. A password is
#       needed where it should be. SIGTERM to one rank, SHUTDOWN and a signal to mpirun end all ranks with exit status 0.
#       Bad options are refused in one line.
# timeout: 400
# turn: waits
# source: docs/kvs.md; redis 7.0
set -u
. "$(dirname "$0")/../tap.sh"
make_scratch
kvsd=$BUILD/tools/pgas_kvsd
client=$BUILD/t/spmd/kvsd_client
KVSD_PORT=${KVSD_PORT:-0} # a port of your own; otherwise a random one
job=
stop_job() {
    if [ -n "$job" ] && kill -TERM "$job" 2>/dev/null; then wait "$job" 2>/dev/null; fi
    job=
}
trap 'stop_job; rm -rf "$scratch"' EXIT
trap 'exit 130' INT TERM HUP PIPE

# start N ARGUMENT..: starts the server at free ports from $port on. With NODES: that many ranks of a node.
start() {
    local n=$1 i
    shift
    n_ranks=$n
    for i in 1 2 3 4 5; do
        port=$((KVSD_PORT > 0 ? KVSD_PORT : 10000 + RANDOM % 20000))
        : >"$scratch/out"
        # The job is the launcher itself, which gets signals.
        BUILD=$BUILD PGAS_NODE_MAXSIZE=${NODES:-0} "$TOP/t/mpirun" "$n" "$kvsd" --port $port --memory 64M --keys 10000 "$@" \
            >"$scratch/out" 2>"$scratch/err" </dev/null &
        job=$!
        for ((i = 0; i < 600; i++)); do
            if grep -q '^pgas_kvsd: ready' "$scratch/out"; then return 0; fi
            kill -0 $job 2>/dev/null || break
            sleep .05
        done
        grep -q 'Address already in use' "$scratch/err" || break
    done
    diag "the server did not start: $(cat "$scratch/out" "$scratch/err")"
    return 1
}

# ask RANK LINE..: the replies, one a line.
ask() {
    local rank=$1
    shift
    printf '%s\n' "$@" | "$client" $((port + rank)) script
}

pid_of() { ask "$1" "info server" | tr -d '\r' | sed -n 's/^process_id://p'; }

# ended DESCRIPTION: the job ends soon, with exit status 0 and without a complaint.
ended() {
    local status=0 i
    for ((i = 0; i < 400; i++)); do
        kill -0 $job 2>/dev/null || break
        sleep .05
    done
    if kill -0 $job 2>/dev/null; then status=hangs; else
        wait $job || status=$?
    fi
    stop_job
    is "$status" 0 "$1"
    [ "$status" = 0 ] || diag "$(cat "$scratch/out" "$scratch/err")"
}

plan 72

# ---- the command line ----

out=$("$kvsd" --help)
is "$? $(grep -cE '^usage: pgas_kvsd |^  --(port|bind|dir|password-file|memory|help) ' <<<"$out")" "0 7" "--help without a launcher"
empty "$("$AWK" 'length > 80' <<<"$out")" "in 80 columns"
echo >"$scratch/empty"
while IFS='|' read -r bad complaint; do
    # shellcheck disable=SC2086 # arguments are words
    err=$("$kvsd" $bad 2>&1 >/dev/null </dev/null)
    is "$? $(grep -cE "^pgas_kvsd: $complaint" <<<"$err")" "2 1" "refused: pgas_kvsd $bad"
done <<END2
--port 0|not possible: --port 0\$
--port 65536|not possible: --port 65536\$
--port|a value is missing: --port\$
--wrong|no such option: --wrong\$
file|an argument too many: file\$
--bind localhost|not possible: --bind localhost\$
--bind 0.0.0.0|not possible without --password-file: 0.0.0.0\$
--bind ::|not possible without --password-file: ::\$
--memory 100|not possible: --memory 100\$
--memory 1Q|not possible: --memory 1Q\$
--sync always|not possible: --sync without --dir\$
--dir $scratch --sync never|not possible: --sync never\$
--password-file $scratch/none|not possible: --password-file $scratch/none: No such file
--password-file $scratch/empty|not possible: a password of 0 or more
END2

# ---- a session ----

# session: commands whose replies are known, on all ranks in turn.
session() {
    local i=0 line want got bad=
    while IFS='|' read -r line want; do
        got=$(ask $((i % n_ranks)) "$line")
        got=${got% }
        [ "$got" = "$want" ] || bad+="$line: $got, not $want"$'\n'
        i=$((i + 1))
    done <<'END2'
flushall|OK
set color red|OK
get color|red
get nothing|(null)
append color dish|7
getrange color 1 3|edd
setrange color 8 !|9
strlen color|9
set n 41 ex 100|OK
incr n|42
ttl n|100
incrby n -43|-1
decr n|-2
set n x xx get|-2
incr n|-ERR value is not an integer or out of range
persist n|0
expire n 50|1
pexpire n 100000000 xx gt|1
persist n|1
setnx n y|0
mset a 1 b 2 c ""|OK
mget a b c d|[1, 2, , (null)]
exists a b c d a|4
getdel a|1
del a b b|1
type c|string
type a|none
dbsize|3
set gone 1 px 1|OK
scan 0 match zzz* count 1000|[0, []]
scan -1|[0, []]
scan 18446744073709551615|[0, []]
scan 18446744073709551616|-ERR invalid cursor
scan 1x|-ERR invalid cursor
select 1|-ERR DB index is out of range
what is this|-ERR unknown command 'what', with args beginning with: 'is' 'this'
get|-ERR wrong number of arguments for 'get' command
object|-ERR unknown command 'object', with args beginning with:
client setname me|OK
client getname|(null)
echo "a b"|a b
save|-ERR the server was started without --dir
quit|OK
END2
    empty "$bad" "a session, $n_ranks ranks${NODES:+ on nodes of $NODES}"
}

# keys_of RANK: all keys, by SCAN.
keys_of() {
    local cursor=0 reply
    while reply=$(ask "$1" "scan $cursor count 7") && [ "${reply:0:1}" = "[" ]; do
        cursor=${reply#[}
        cursor=${cursor%%,*}
        sed 's/^\[[0-9]*, \[//; s/\]\]$//; s/, /\n/g' <<<"$reply"
        [ "$cursor" != 0 ] || break
    done | grep . | sort
}

# clients: the other clients, on the last rank.
clients() {
    local last=$((port + n_ranks - 1)) way
    for way in bytes "garbage 100" "many 200" "order 1" "order 2"; do
        # shellcheck disable=SC2086 # arguments are words
        succeeds "$way, $n_ranks ranks${NODES:+ on nodes of $NODES}" "$client" $last $way
    done
    for i in 1 2 3 4 5 6 7 8 9 10; do ask 0 "mset key$i 1 key1$i 2 key2$i 3"; done >/dev/null
    is "$(keys_of 0 | grep -c '^key')" 30 "SCAN visits each key once"
    is "$(keys_of $((n_ranks - 1)) | cksum)" "$(ask 0 'keys *' | sed 's/^\[//; s/\]$//; s/, /\n/g' | sort | cksum)" \
        "the same keys as KEYS on another rank"
    # 3 keys have homes on several ranks, which wait for their clients meanwhile
    is "$(ask 0 'setrange large1 12000000 a' 'setrange large2 12000000 b' 'setrange large3 12000000 c' | xargs)
$(ask $((n_ranks - 1)) 'getrange large1 12000000 -1' 'getrange large2 12000000 -1' 'getrange large3 12000000 -1' | xargs)" \
        "12000001 12000001 12000001"$'\n'"a b c" "values of 12 MB that another rank has written"
    ask 0 'del large1 large2 large3' >/dev/null
    "$client" $last hold 20 >"$scratch/hold" &
    local holder=$!
    for ((i = 0; i < 100; i++)); do
        if grep -q holding "$scratch/hold"; then break; fi
        sleep .05
    done
    kill -9 $holder
    wait $holder 2>/dev/null
    for ((i = 0; i < 100; i++)); do
        n=$(ask $((n_ranks - 1)) "client list" | grep -c '^id=')
        if [ "$n" = 1 ]; then break; fi
        sleep .05
    done
    is "$n $(ask 0 'exists hold')" "1 0" "kill -9 of a client with 20 half requests leaves nothing"
}

start 1 || done_testing
session
clients
ask 0 shutdown >/dev/null
ended "SHUTDOWN ends the server"
empty "$(cat "$scratch/err")" "which has printed nothing but the first line"

start 2 || done_testing
session
clients
kill -TERM "$(pid_of 1)"
ended "SIGTERM to one of two ranks ends both"

NODES=1
start 3 || done_testing
session
clients
kill -INT "$(pid_of 0)"
ended "SIGINT to one of three ranks ends all"
unset NODES

# ---- limits ----

start 2 --slow 1 --max-clients 20 --max-output 1M --memory 32M || done_testing
succeeds "the 21st client is refused" "$client" "$port" refused 20
succeeds "a client that does not read is cut off" "$client" "$((port + 1))" slow
is "$(ask 1 ping) $(grep -c 'does not read its replies, and is cut off' "$scratch/err")" "PONG 1" "and the log says so"
if [ "$MPI_FLAVOR" = openmpi ]; then
    kill -USR1 $job
    ended "SIGUSR1 to mpirun ends the server"
else
    ask 1 shutdown >/dev/null
    ended "SHUTDOWN on rank 1 ends the server"
fi

# ---- large replies ----

start 1 --memory 64M --max-buffers 16M --max-output 1M || done_testing
pid=$(pid_of 0)
peak() { "$AWK" '/^VmHWM/ { print int($2 / 1024) }' "/proc/$pid/status"; }
before=$(peak)
succeeds "a reply above --max-buffers ends its client, and no other one" "$client" "$port" flood
is "$(($(peak) - before < 400))" 1 "and the server does not grow by 400 MiB"
ask 0 shutdown >/dev/null
ended "SHUTDOWN after large replies"

# ---- expired keys ----

start 1 --memory 4M || done_testing
succeeds "10 MB of keys that expire have room in 4 MB, and are gone soon" "$client" "$port" expire 40000
ask 0 shutdown >/dev/null
ended "SHUTDOWN after expired keys"

# ---- passwords ----

echo 'se cret' >"$scratch/password"
start 1 --bind 0.0.0.0 --password-file "$scratch/password" || done_testing
is "$(ask 0 'get a' 'auth wrong' 'auth "se cre"' 'auth "se cret "' 'auth "se cret"' 'get a' | tr '\n' '|')" \
    "-NOAUTH Authentication required.|$(for i in 1 2 3; do
        printf -- '-WRONGPASS invalid username-password pair or user is disabled.|'
    done)OK|(null)|" "AUTH"
is "$(ask 0 'hello 3 auth default "se cret"' 'client getname' | sed 's/id, [0-9]*/id/')" \
    "[server, redis, version, 7.0.15, proto, 3, id, mode, standalone, role, master, modules, []]
(null)" "HELLO 3 with AUTH"
is "$(printf '*11\r\n' | "$client" "$port" script)" "-ERR Protocol error: unauthenticated multibulk length" \
    "a stranger has smaller limits"
ask 0 'auth default "se cret"' shutdown >/dev/null
ended "SHUTDOWN with a password"

# ---- redis-cli and redis-benchmark ----

if command -v redis-cli >/dev/null && command -v redis-benchmark >/dev/null; then
    start 2 || done_testing
    is "$(redis-cli -p "$port" set k v) $(redis-cli -3 -p $((port + 1)) get k)" "OK v" "redis-cli"
    is "$(redis-benchmark -p $((port + 1)) -n 5000 -P 8 -q -t set,get,incr,mset 2>&1 | tr '\r' '\n' | grep -c 'requests per second')" \
        4 "redis-benchmark"
    ask 1 shutdown nosave >/dev/null
    ended "SHUTDOWN NOSAVE"
else skip 3 "no redis-tools here"; fi

# ---- a directory ----

mkdir "$scratch/dir"
start 2 --dir "$scratch/dir" || done_testing
is "$(ask 0 'mset a 1 b 2 c 3' save 'incr a' bgsave)" "$(printf 'OK\nOK\n2\nBackground saving started')" "SAVE and BGSAVE"
kill -TERM "$(pid_of 0)"
ended "SIGTERM, with a last snapshot"
start 3 --dir "$scratch/dir" || done_testing
is "$(ask 2 'mget a b c')" "[2, 2, 3]" "three ranks load what two have saved"
ask 0 shutdown >/dev/null
ended "and end"

# ---- ports in use ----

start 2 || done_testing
first=$port first_job=$job
mpirun_n 2 "$kvsd" --port $((first + 1)) --memory 64M --keys 10000 >"$scratch/out2" 2>"$scratch/err2" </dev/null
is "$(($? != 0)) $(grep -c "^pgas_kvsd: rank 0: 127.0.0.1:$((first + 1)): Address already in use\$" "$scratch/err2")" "1 1" \
    "a port in use is named"
job=$first_job
ask 0 shutdown >/dev/null
ended "and the first server goes on to its own end"
done_testing
