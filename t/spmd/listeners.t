#!/usr/bin/env bash
# what: pgas_info --job lists the sockets of the ranks that accept connections. In a job of one host the library's
#       sockets are bound to loopback, or to the named interface, and never to all addresses.
# source: docs/hosts.md
set -u
. "$(dirname "$0")/../tap.sh"
make_scratch
info=$BUILD/tools/pgas_info

# listed [NAME=VALUE ..]: the addresses at which the library listens in such a job, without ports.
listed() {
    (
        [ $# -eq 0 ] || export "$@"
        mpirun_n 2 "$info" --job 2>"$scratch/err" >"$scratch/out"
    ) || echo "failed"
    "$AWK" '/^listeners:/ { inside = 1 } inside && $3 == "libpgas" { sub(/:[0-9]+$/, "", $5); print $5 }' "$scratch/out" | sort -u |
        paste -sd ' '
}

plan 7
listed >"$scratch/none"
is "$(grep -c '^listeners: ' "$scratch/out")" 1 "the listing is there, once"
empty "$(cat "$scratch/none")" "a job on shared memory listens nowhere"
is "$(listed PGAS_ON_PEER_DEATH=continue)" 127.0.0.1 "ranks that continue after a death watch each other by loopback"
is "$(listed PGAS_TRANSPORT=verbs PGAS_NODE_MAXSIZE=1)" 127.0.0.1 "queue pairs of one host are connected by loopback"
is "$(grep -c 'libpgas  tcp' "$scratch/out")" 2 "by one socket a rank"
case $(listed PGAS_TRANSPORT=verbs PGAS_NODE_MAXSIZE=1 PGAS_VERBS_INTERFACE=lo) in
    127.0.0.1 | "127.0.0.1 [::1]") ok 0 "an interface that is named is the only one" ;;
    *) ok 1 "an interface that is named is the only one" && diag "$(cat "$scratch/out")" ;;
esac
is "$(listed PGAS_UCX_TLS=tcp,self PGAS_NODE_MAXSIZE=1)" 127.0.0.1 "UCX of one host over TCP"
done_testing
