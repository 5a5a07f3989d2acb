#!/usr/bin/env bash
# what: pgas_info --devices lists the ports of this machine, with the software NIC as the last; the ports of fake cards;
#       and, in a machine of t/vm/run --rxe, the port of soft RoCE with its addresses.
# needs: no-sanitizers
# source: include/pgas/verbs.h, t/shim/sysfs.sh
set -u
. "$(dirname "$0")/../tap.sh"
make_scratch
info=$BUILD/tools/pgas_info
shim=$BUILD/t/shim/.libs/libpgas-shim.so
out=$scratch/out

# row NAME PORT: the rest of a port's line after these two words, single-spaced.
row() { sed -n "s/^$1  *$2  *//p" "$out" | tr -s ' '; }
# gids NAME: the addresses below a port's line, single-spaced.
gids() { sed -n "/^$1 /,/^[^ ]/{ s/^ *GID *//p; }" "$out" | tr -s ' '; }

plan 11
"$info" --devices >"$out" 2>"$scratch/err"
is "$? $(head -n 1 "$out" | tr -s ' ')" "0 device port provider state link LID NUMA chains" "a table, without a launcher"
is "$(row snic 1)" "snic active memory - ? yes" "the software NIC"
is "$(grep -E '^[a-z0-9_]+ +[0-9]+ ' "$out" | tail -n 1 | sed 's/ .*//')" snic "it is the last"
empty "$(cat "$scratch/err")" "nothing is warned of"
"$info" --devices --job >"$out" 2>&1
is "$? $(grep -c '^usage' "$out")" "2 1" "one option at a time"

if [ -r "$shim" ] && [ -z "${VM_MACHINE:-}" ]; then
    LD_PRELOAD=$shim "$info" --devices >"$out" 2>&1
    is "$(row mlx5_0 1)" "mlx5 active InfiniBand 17 0 yes" "a fake card of InfiniBand"
    is "$(row mlx5_1 1)" "mlx5 active RoCE v2 - 0 yes" "one of RoCE"
    link="RoCE v1 fe80::5e50:4100:0:2,1 RoCE v2 fe80::5e50:4100:0:2"
    ipv4="RoCE v1 ::ffff:192.0.2.1,3* RoCE v2 ::ffff:192.0.2.1"
    is "$(gids mlx5_1 | paste -sd ,)" "0 $link,2 $ipv4" "and its GIDs, with the one that is used"
    is "$(row mlx5_2 1 | grep -c ' no: .*capability')" 1 "why a card has no chains"
else skip 4 "no fake cards here"; fi

if [ -d /sys/class/infiniband/rxe0 ]; then
    "$info" --devices >"$out" 2>&1
    is "$(row rxe0 1 | sed 's/: .*//')" "verbs active RoCE v2 - ? no" "soft RoCE"
    is "$(gids rxe0 | sed -n '$p')" "1* RoCE v2 ::ffff:10.77.0.1" "and the IPv4 address among its GIDs"
else skip 2 "no soft RoCE here"; fi
done_testing
