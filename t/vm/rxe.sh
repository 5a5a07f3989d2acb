# Makes the RDMA device rxe0, the kernel's soft RoCE; sourced in a machine of t/vm/run --rxe or --pair, before the command.
# In a pair it is connected to the other machine. A lone machine has no card, so one is made there.
rxe_begin() {
    local card=d0 tries
    if [ -n "${VM_ADDRESS:-}" ]; then card=$(ls /sys/class/net | grep -v '^lo$' | head -n 1); else
        ip link add d0 type veth peer name d1 && ip link set d1 mtu 9000 up || return 1
    fi
    ip link set "$card" mtu 9000 up && ip addr add "${VM_ADDRESS:-10.77.0.1}/24" dev "$card" &&
        rdma link add rxe0 type rxe netdev "$card" || return 1
    for ((tries = 0; tries < 100; tries++)); do
        if grep -q ACTIVE /sys/class/infiniband/rxe0/ports/1/state; then
            ulimit -l unlimited
            return 0
        fi
        sleep 0.1
    done
    return 1
}
rxe_begin || { echo "Bail out! no rxe0"; exit 61; }
printf '10.77.0.1 vm0\n10.77.0.2 vm1\n' >>/etc/hosts
VM_CARD=$(cat /sys/class/infiniband/rxe0/parent)
export VM_MACHINE VM_CARD VM_PEER=${VM_PEER:-}
