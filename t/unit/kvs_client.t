#!/usr/bin/env bash
# what: pgas_kvs_client carries out every work at a server of Redis' protocol, counts keys that are missing, refuses wrong
#       values and answers, and names what is wrong with its options. benchmarks/kvsd makes its table.
# source: benchmarks/resp_client.h
set -u
. "$(dirname "$0")/../tap.sh"
scratch=
make_scratch
client=$BUILD/benchmarks/pgas_kvs_client
server=
trap '[ -z "$server" ] || kill "$server" 2>/dev/null; rm -rf "$scratch"' EXIT

# Starts the bare server with 1000 keys of some bytes at a port that is free.
start_bare() {
    local i
    for ((i = 0; i < 50; i++)); do
        port=$((20000 + RANDOM % 10000))
        "$BUILD/benchmarks/ref_epoll" $port 1000 "$1" >"$scratch/server" 2>&1 &
        server=$!
        sleep 0.1
        if kill -0 $server 2>/dev/null && "$client" -p $port -c 1 -k 2 -d "$1" -t 0.01 --work set >"$scratch/out" 2>&1; then
            return 0
        fi
        kill $server 2>/dev/null
    done
    return 1
}

stop_bare() {
    kill "$server" && wait "$server" 2>/dev/null
    server=
}

# works OPTIONS..: prints one line with a rate above 0 and the number of missing keys.
works() {
    "$client" -p "$port" -k 1000 -t 0.1 "$@" >"$scratch/out" 2>"$scratch/err" || { cat "$scratch/err"; return 1; }
    grep -qE '^[a-z]+, [0-9]+ connections, pipeline [0-9]+: [1-9][0-9.]* kops; .* us p99.9; 0 keys missing$' "$scratch/out" ||
        { cat "$scratch/out"; return 1; }
}

# refused STATUS PATTERN OPTIONS..
refused() {
    local want=$1 pattern=$2 status
    shift 2
    "$client" "$@" >"$scratch/out" 2>"$scratch/err"
    status=$?
    is "$status $(grep -cE -- "$pattern" "$scratch/err")" "$want 1" "refused: $* ($pattern)"
}

plan 35
is "$("$client" --help | head -n 1)" "usage: pgas_kvs_client [options]" "--help"
for options in "-p 0" "-p 65536" "--servers 0" "-c 0" "-c 10001" "-P 0" "-P 1025" "-k 1" "-d 0" "-t 0" "--work e" "--work x"; do
    # shellcheck disable=SC2086
    refused 2 "^pgas_kvs_client: ${options% *}: " $options
done
refused 2 '^pgas_kvs_client: no such option: --wrong' --wrong
refused 2 '^pgas_kvs_client: a value is missing: -p' -p
refused 2 '^pgas_kvs_client: no arguments' word

start_bare 64
ok $? "the bare server starts"
"$client" -p "$port" -k 1000 -t 0.1 >"$scratch/out"
is "$(grep -c ' 0 keys missing' "$scratch/out")" 0 "keys that nobody has set are missing"
for work in get set mixed a b c f; do
    succeeds "work $work" works --work $work --fill
done
refused 1 'the server answered: -ERR' -p "$port" -k 1000 -t 0.5 --work d
succeeds "one command at a time, some keys more often" works -P 1 --zipf
succeeds "1000 connections" works -c 1000 -P 2
"$client" -p "$port" -k 1000 -t 0.1 --json >"$scratch/out"
is "$(grep -cE '^\{"bench":"pgas_kvs_client","work":"get",.*"kops":[0-9.]+,.*"missing":0\}$' "$scratch/out")" 1 "--json"
refused 1 'key [0-9]+ has a wrong value of 64 bytes' -p "$port" -k 1000 -d 32 -t 0.1
refused 1 'the server answered: -ERR' -p "$port" -k 1000 -d 32 -t 0.1 --work set
refused 1 'the server answered: -ERR' -p "$port" -k 1001 -t 0.1 --work set -P 100
stop_bare
refused 1 "^pgas_kvs_client: port $port: " -p "$port"

"$TOP/benchmarks/kvsd" --port $((20000 + RANDOM % 10000)) --turns 1 --seconds 0.05 --keys 1000 >"$scratch/out" 2>"$scratch/err"
is "$? $(grep -cE '^(get|set), (1|16) ' "$scratch/out")" "0 4" "benchmarks/kvsd prints its table"
fails "and refuses an unknown option" "$TOP/benchmarks/kvsd" --wrong
done_testing
