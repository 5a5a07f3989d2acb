#!/usr/bin/env bash
# what: pgas_replica answers --help and --version, names what is wrong with its arguments, its address, its file and its
#       key, ends cleanly at SIGTERM, and refuses chains of regions of different sizes.
# log: group.*(refused|region of another size|wrong key|replica [0-9].* is dead)
# source: include/pgas/group.h
set -u
. "$(dirname "$0")/../tap.sh"
. "$(dirname "$0")/replicas.sh"
make_scratch
stop_at_exit
replica=$BUILD/tools/pgas_replica
replog=$BUILD/examples/replog/replog

# refused STATUS PATTERN ARGUMENT..: pgas_replica ends so, and says why.
refused() {
    local want=$1 pattern=$2 status
    shift 2
    "$replica" "$@" >"$scratch/out" 2>"$scratch/err"
    status=$?
    is "$status $(grep -cE -- "$pattern" "$scratch/err") $(wc -c <"$scratch/out")" "$want 1 0" "refused: $* ($pattern)"
explain "$scratch/err"
}

plan 34
is "$("$replica" --version)" "libpgas $PACKAGE_VERSION" "--version"
"$replica" --help >"$scratch/out"
is "$? $(grep -c '^usage: pgas_replica' "$scratch/out")" "0 1" "--help"
empty "$("$AWK" 'length > 80' "$scratch/out")" "in 80 columns"
refused 2 '^pgas_replica: an option is missing: --listen' --region 1M
refused 2 '^pgas_replica: an option is missing: --region' --listen 127.0.0.1:0
refused 2 '^pgas_replica: no such option: --wrong' --wrong
refused 2 '^pgas_replica: a value is missing: --region' --region
refused 2 '^pgas_replica: an argument too many: more' --listen 127.0.0.1:0 --region 1M more
for size in 0 -1 1x 1.5M 1MM 0x1000 99999999999999999999 99999999999G; do
    refused 2 "^pgas_replica: not a size: $size" --region $size
done
refused 2 '^pgas_replica: not a number of whole pages: 1000' --region 1000
refused 2 '^pgas_replica: not a number of clients: 0' --clients 0
refused 1 '^pgas_replica: nowhere:1: ' --listen nowhere:1 --region 1M
refused 1 '^pgas_replica: 0.0.0.0:0: an address of a network needs --key-file' --listen 0.0.0.0:0 --region 1M
refused 1 "^pgas_replica: .*: no such device: see --device" --listen 127.0.0.1:0 --region 1M --device none
refused 1 "^pgas_replica: $scratch/none: No such file" --listen 127.0.0.1:0 --region 1M --key-file "$scratch/none"
: >"$scratch/empty"
refused 1 "^pgas_replica: $scratch/empty: no key in it" --listen 127.0.0.1:0 --region 1M --key-file "$scratch/empty"
refused 1 "^pgas_replica: $scratch: " --listen 127.0.0.1:0 --region 1M --file "$scratch"
truncate -s 2M "$scratch/large"
refused 1 "^pgas_replica: $scratch/large: the file is larger than --region" --listen 127.0.0.1:0 --region 1M \
    --file "$scratch/large"

start_replica one --region 64K --file "$scratch/region"
is "$(grep -cE '^pgas_replica: listens on 127\.0\.0\.1:[0-9]+, region 65536 bytes$' "$scratch/one.out")" 1 \
    "it prints its address and its size"
is "$(stat -c %s "$scratch/region")" 65536 "it makes the file"
refused 1 "^pgas_replica: ${address[one]}: the address is in use" --listen "${address[one]}" --region 64K
refused 1 "^pgas_replica: $scratch/region: another process uses it" --listen 127.0.0.1:0 --region 64K --file "$scratch/region"
start_replica two --region 128K --next "${address[one]}"
"$replog" verify --group "${address[two]}" >"$scratch/out" 2>"$scratch/err"
is "$? $(grep -c "^replog: ${address[two]}: " "$scratch/err")" "1 1" "a chain of regions of different sizes is refused"
explain "$scratch/err"
kill "${pid[one]}"
wait "${pid[one]}"
is "$? $(cat "$scratch/one.err")" "0 " "SIGTERM ends it"
kill -INT "${pid[two]}"
wait "${pid[two]}"
is $? 0 "so does SIGINT"

echo "open sesame" >"$scratch/key"
start_replica three --region 64K --key-file "$scratch/key"
"$replog" verify --group "${address[three]}" >"$scratch/out" 2>"$scratch/err"
is "$? $(grep -c "^replog: ${address[three]}: " "$scratch/err")" "1 1" "without the key no client joins"
explain "$scratch/err"
is "$("$replog" verify --group "${address[three]}" --key-file "$scratch/key")" "no log yet" "with the key it does"
done_testing
