#!/usr/bin/env bash
# what: Clients of Redis use pgas_kvsd on two ranks unchanged. 5,000 random commands, with all options and wrong arities, types
#       and values, have the same replies as a real redis-server gives, byte by byte; so have requests that break the
#       protocol. redis-cli, redis-benchmark and hiredis work. 1,000 connections, clients that are killed, and slow clients
#       harm nobody.
# needs: command:redis-cli no-sanitizers
# nodes: 0 1
# timeout: 300
# source: docs/kvs.md lists the commands; t/spmd/redis_compare.c lists the replies that may differ, with the reasons
# PGAS_TEST_PORT is the first of four free ports.
set -u
. "$(dirname "$0")/../tap.sh"
make_scratch
kvsd=$BUILD/tools/pgas_kvsd
[ -x "$kvsd" ] || skip_all "no pgas_kvsd in this build"
seed=${TAP_SEED:-${PGAS_TEST_SEED:-1}}
port=${PGAS_TEST_PORT:-$((20000 + $$ % 2500 * 4))} # and port + 1; redis-server has port + 2
real=$((port + 2))
servers=

stop_servers() {
    local pid i
    for pid in $servers; do
        kill "$pid" 2>/dev/null
        for ((i = 0; i < 100; i++)); do
            kill -0 "$pid" 2>/dev/null || continue 2
            sleep 0.05
        done
        kill -9 "$pid" 2>/dev/null
    done
    rm -rf "$scratch"
}
trap stop_servers EXIT

# answers PORT: whether a server listens there, within half a minute.
answers() {
    local i
    for ((i = 0; i < 600; i++)); do
        if [ "$(redis-cli -p "$1" PING 2>/dev/null)" = PONG ]; then return; fi
        sleep 0.05
    done
    return 1
}

start_kvsd() {
    BUILD=$BUILD "$TOP/t/mpirun" 2 "$kvsd" --port "$port" >"$scratch/kvsd" 2>&1 &
    servers+=" $!"
    answers "$port" && answers $((port + 1))
}

start_real() {
    command -v redis-server >/dev/null || return
    redis-server --port "$real" --bind 127.0.0.1 --save '' --appendonly no --databases 1 --dir "$scratch" >"$scratch/redis" 2>&1 &
    servers+=" $!"
    answers "$real"
}

cli() { redis-cli --no-raw -p "$port" "$@"; }

# compares DESCRIPTION ARGUMENT..: redis_compare with an empty store on both sides.
compares() {
    local text=$1
    shift
    redis-cli -p "$port" FLUSHALL >/dev/null
    redis-cli -p "$real" FLUSHALL >/dev/null
    succeeds "$text" "$BUILD/t/spmd/redis_compare" "$@"
}

# What redis-cli prints for the commands below, without a terminal's colours.
commands() {
    cat <<'END'
PING
SET greeting "hello world"
GET greeting
GET missing
SET greeting again NX
SET greeting again XX GET
STRLEN greeting
APPEND greeting " and again"
GETRANGE greeting -5 -1
SETRANGE greeting 0 A
GET greeting
INCR counter
INCRBY counter 41
DECR counter
DECRBY counter 1
INCR greeting
MSET a 1 b 2 c 3
MGET a b missing c
EXISTS a b missing a
EXPIRE a 100000
TTL missing
TTL b
PERSIST a
TTL a
TYPE a
TYPE missing
GETDEL b
GETDEL b
DBSIZE
DEL a c missing
SET bytes "\x00\x01\r\n\"\\"
GET bytes
STRLEN bytes
SELECT 0
SELECT 1
ECHO "two words"
AUTH word
GET
SET a
NOSUCH a b
SET k v EX 0
SET k v EX x
SET k v NX XX
HELLO 7
CLIENT GETNAME
CLIENT SETNAME me
CLIENT GETNAME
FLUSHALL
DBSIZE
END
}
expected() {
    cat <<'END'
PONG
OK
"hello world"
(nil)
(nil)
"hello world"
(integer) 5
(integer) 15
"again"
(integer) 15
"Again and again"
(integer) 1
(integer) 42
(integer) 41
(integer) 40
(error) ERR value is not an integer or out of range
OK
1) "1"
2) "2"
3) (nil)
4) "3"
(integer) 3
(integer) 1
(integer) -2
(integer) -1
(integer) 1
(integer) -1
string
none
"2"
(nil)
(integer) 4
(integer) 2
OK
"\x00\x01\r\n\"\\"
(integer) 6
OK
(error) ERR DB index is out of range
"two words"
(error) ERR AUTH <password> called without any password configured for the default user. Are you sure your configuration is correct?
(error) ERR wrong number of arguments for 'get' command
(error) ERR wrong number of arguments for 'set' command
(error) ERR unknown command 'NOSUCH', with args beginning with: 'a' 'b'
(error) ERR invalid expire time in 'set' command
(error) ERR value is not an integer or out of range
(error) ERR syntax error
(error) NOPROTO unsupported protocol version
(nil)
OK
"me"
OK
(integer) 0
END
}

# many_keys: SCAN and MATCH find each of 1,000 keys once, through the other rank.
many_keys() {
    local i
    for ((i = 0; i < 1000; i++)); do echo "SET key:$i $i"; done | redis-cli -p "$port" | sort -u
    redis-cli -p $((port + 1)) --scan --pattern 'key:*' | sort -u | wc -l
    redis-cli -p $((port + 1)) --scan --pattern 'key:?' | sort | tr '\n' ' '
    redis-cli -p $((port + 1)) DBSIZE
}

# expires: a key with 50 ms is there, and some time later it is not.
expires() {
    local i
    redis-cli -p "$port" SET short 1 PX 300
    for ((i = 0; i < 200; i++)); do
        if [ "$(redis-cli -p $((port + 1)) EXISTS short)" = 0 ]; then
            redis-cli -p "$port" GET short
            echo gone
            return
        fi
        sleep 0.02
    done
}

plan 16
start_kvsd && s=0 || s=$?
ok $s "both ranks listen" || diag "$(cat "$scratch/kvsd")"
commands | cli | sed 's/ *$//' >"$scratch/got" 2>&1
is "$(cat "$scratch/got")" "$(expected)" "redis-cli: commands and replies"
other=$((port + 1))
is "$(redis-cli -p "$port" SET there 1; redis-cli -p $other GET there; redis-cli -p $other DEL there; redis-cli -p "$port" GET there)" \
    "OK
1
1" "each rank serves each key"
is "$(redis-cli -p "$port" FLUSHALL; many_keys)" "OK
OK
1000
key:0 key:1 key:2 key:3 key:4 key:5 key:6 key:7 key:8 key:9 1000" "SCAN finds all of 1,000 keys"
is "$(expires)" "OK

gone" "a key expires on all ranks"
head -c 5000000 /dev/urandom >"$scratch/large"
is "$(redis-cli -p "$port" -x SET large <"$scratch/large") $(redis-cli -p $other GET large | head -c 5000000 |
    cmp - "$scratch/large" && echo same)" \
    "OK same" "a value of 5,000,000 bytes"

if start_real; then
    commands | redis-cli --no-raw -p "$real" | sed 's/ *$//' >"$scratch/got" 2>&1
    is "$(cat "$scratch/got")" "$(expected)" "redis-server gives the same replies to redis-cli"
    diag "seed $seed (repeat with PGAS_TEST_SEED=$seed)"
    compares "5,000 random commands, rank 0" random "$port" "$real" "$seed" 5000
    compares "5,000 random commands, rank 1" random $((port + 1)) "$real" $((seed + 1)) 5000
    compares "requests that break the protocol" broken "$port" "$real"
    fails "one changed reply is noticed" "$BUILD/t/spmd/redis_compare" plant "$real" "$real" "$seed" 1000
else skip 5 "no redis-server here"; fi

if command -v redis-benchmark >/dev/null; then
    redis-benchmark -p "$port" -t ping,set,get,incr,mset -n 20000 -c 50 -P 16 -r 10000 -q 2>&1 | tr '\r' '\n' >"$scratch/benchmark"
    is "$(grep -c 'requests per second' "$scratch/benchmark") $(grep -ci 'error' "$scratch/benchmark")" "6 0" "redis-benchmark runs" ||
        diag "$(cat "$scratch/benchmark")"
else skip 1 "no redis-benchmark here"; fi
"$BUILD/t/spmd/redis_pipeline" "$port" $((port + 1)) >"$scratch/pipeline" 2>&1
case $? in
77) skip 1 "built without hiredis" ;;
*) is "$(cat "$scratch/pipeline")" "" "hiredis: pipelines of 1,000 commands with any bytes" ;;
esac
"$BUILD/t/spmd/redis_crowd" many "$port" 1000 >"$scratch/crowd" 2>&1
case $? in
77) skip 1 "1,000 connections: $(cat "$scratch/crowd")" ;;
*) is "$(cat "$scratch/crowd")" "" "1,000 connections at once" ;;
esac
succeeds "50 clients are killed in the middle of their pipelines" "$BUILD/t/spmd/redis_crowd" dying "$port" 50
succeeds "a client of one byte at a time, and one that reads nothing" "$BUILD/t/spmd/redis_crowd" slow "$port"
done_testing
