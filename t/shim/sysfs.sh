#!/bin/sh
# t/shim/sysfs.sh FOLDER: what /sys would show of the fake cards, for libibverbs' SYSFS_PATH.
#
#   mlx5_0  InfiniBand, LID 17, cross-channel queues
#   mlx5_1  Ethernet with RoCE: GIDs 0 and 1 of the link's own address, 2 and 3 of 192.0.2.1, each as v1 and v2
#   mlx5_2  InfiniBand, LID 18, without cross-channel queues
#   mlx5_3  InfiniBand, LID 19, cross-channel queues
#   mlx5_4  InfiniBand, LID 20, cross-channel queues
#
# card.c has the same in its table. The character device is that of /dev/null, so that fstat says what libibverbs expects.
set -eu
top=$1
rm -rf "$top"

put() {
    mkdir -p "$(dirname "$top/$1")"
    printf '%s\n' "$2" >"$top/$1"
}

card() { # number, suffix of the GUID
    put "class/infiniband_verbs/uverbs$1/ibdev" "mlx5_$1"
    put "class/infiniband_verbs/uverbs$1/abi_version" 1
    put "class/infiniband_verbs/uverbs$1/dev" 1:3
    put "class/infiniband/mlx5_$1/node_type" "1: CA"
    put "class/infiniband/mlx5_$1/node_guid" "5e50:4100:0000:000$2"
    put "class/infiniband/mlx5_$1/fw_ver" 16.35.0000
    put "class/infiniband/mlx5_$1/device/vendor" 0x15b3
    put "class/infiniband/mlx5_$1/device/device" 0x1019
    put "class/infiniband/mlx5_$1/device/numa_node" 0
    put "class/infiniband/mlx5_$1/device/modalias" pci:v000015B3d00001019sv000015B3sd00000008bc02sc07i00
    put "class/infiniband/mlx5_$1/ports/1/pkeys/0" 0xffff
}

gid() { # number, index, GID, type
    put "class/infiniband/mlx5_$1/ports/1/gids/$2" "$3"
    put "class/infiniband/mlx5_$1/ports/1/gid_attrs/types/$2" "$4"
}

put class/infiniband_verbs/abi_version 6
card 0 1
gid 0 0 fe80:0000:0000:0000:5e50:4100:0000:0001 "IB/RoCE v1"
card 1 2
gid 1 0 fe80:0000:0000:0000:5e50:4100:0000:0002 "IB/RoCE v1"
gid 1 1 fe80:0000:0000:0000:5e50:4100:0000:0002 "RoCE v2"
gid 1 2 0000:0000:0000:0000:0000:ffff:c000:0201 "IB/RoCE v1"
gid 1 3 0000:0000:0000:0000:0000:ffff:c000:0201 "RoCE v2"
card 2 3
gid 2 0 fe80:0000:0000:0000:5e50:4100:0000:0003 "IB/RoCE v1"
card 3 4
gid 3 0 fe80:0000:0000:0000:5e50:4100:0000:0004 "IB/RoCE v1"
card 4 5
gid 4 0 fe80:0000:0000:0000:5e50:4100:0000:0005 "IB/RoCE v1"
