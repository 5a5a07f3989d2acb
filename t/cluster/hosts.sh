# Hosts on one machine: network namespaces joined by veth pairs and a bridge, each with its own host name, IPC objects
# and /dev/shm (t/cluster/agent makes those for every process it starts). The IPC namespace is what makes UCX and MPI see
# different hosts. Sourced by bash; needs root and iproute2. Names carry the process id, so runs do not collide.

CLUSTER_ID=$$
CLUSTER_BRIDGE=pgb$CLUSTER_ID
CLUSTER_AGENT=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)/agent
CLUSTER_NET=10.77.0
CLUSTER_SUBNET=$CLUSTER_NET.0/24
export CLUSTER_ID CLUSTER_BRIDGE CLUSTER_AGENT CLUSTER_HOSTS CLUSTER_SUBNET

# The reason why hosts cannot be made here, or nothing.
cluster_refusal() {
    if [ "$(id -u)" != 0 ]; then echo "not root"; return; fi
    if ! command -v ip >/dev/null; then echo "no iproute2 here"; return; fi
    if ! unshare --net --uts --ipc --mount true 2>/dev/null; then echo "namespaces are not allowed here"; return; fi
    if ! unshare --net ip link add bridge type bridge 2>/dev/null; then echo "bridges are not allowed here"; fi
}

# cluster_enter ARGUMENT..: starts the calling script again, with its arguments, in a network of its own; there it returns
# at once. In the machine's network the bridge and the host's ends of the pairs would come and go beside other jobs: UCX
# opens every network card that it has found before, and MPI_Init fails when one of them is gone.
cluster_enter() {
    if [ -n "${CLUSTER_INSIDE:-}" ]; then ip link set lo up; return; fi
    CLUSTER_INSIDE=yes exec unshare --net "$BASH" "$0" "$@"
}

# cluster_begin N: hosts h0 .. h(N-1) at .1 .. .N, the calling script at .254 of the subnet.
cluster_begin() {
    local i ns
    cluster_sweep
    CLUSTER_HOSTS=
    ip link add "$CLUSTER_BRIDGE" type bridge &&
        ip addr add "$CLUSTER_NET.254/24" dev "$CLUSTER_BRIDGE" &&
        ip link set "$CLUSTER_BRIDGE" up || return 1
    for ((i = 0; i < $1; i++)); do
        ns=pgas-$CLUSTER_ID-h$i
        ip netns add "$ns" &&
            ip link add "pgv${CLUSTER_ID}i$i" type veth peer name eth0 netns "$ns" &&
            ip link set "pgv${CLUSTER_ID}i$i" master "$CLUSTER_BRIDGE" up &&
            ip -n "$ns" addr add "$CLUSTER_NET.$((i + 1))/24" dev eth0 &&
            ip -n "$ns" link set eth0 up &&
            ip -n "$ns" link set lo up || return 1
        CLUSTER_HOSTS+=${CLUSTER_HOSTS:+,}h$i
    done
}

# cluster_end [ID]: ends what runs on the hosts and removes everything.
cluster_end() {
    local id=${1:-$CLUSTER_ID} ns pids
    for ns in $(ip netns list 2>/dev/null | sed 's/ .*//' | grep "^pgas-$id-h"); do
        pids=$(ip netns pids "$ns")
        if [ -n "$pids" ]; then kill -KILL $pids 2>/dev/null; fi
        ip link del "pgv${id}i${ns##*-h}" 2>/dev/null
        ip netns del "$ns"
    done
    ip link del "pgb$id" 2>/dev/null || :
}

# Runs that were killed could not clean up; their process id shows it.
cluster_sweep() {
    local id
    for id in $(ip netns list 2>/dev/null | sed -n 's/^pgas-\([0-9]*\)-h.*/\1/p' | sort -u); do
        if [ ! -d "/proc/$id" ]; then cluster_end "$id"; fi
    done
}
