/** Addresses of InfiniBand and RoCE ports: the GID that a port uses, and the address that a queue
 *  pair sends to its peer. No function asks a device.
 *
 *  A port has a table of GIDs. With RoCE an entry also determines the frame format, so both ends
 *  must use entries of one type. */
#ifndef PGASI_VERBS_GID_H
#define PGASI_VERBS_GID_H

#include <stdbool.h>
#include <stdint.h>
#include "verbs_backend/queue/device.h"

typedef enum { PGASI_GID_INFINIBAND, PGASI_GID_ROCE_1, PGASI_GID_ROCE_2 } pgasi_gid_type_t;

/** A valid entry of a port's table. */
typedef struct {
    uint32_t index;
    uint8_t gid[16];
    pgasi_gid_type_t type;
} pgasi_gid_t;

/** Selects the entry to use. RoCE, in this order: version 2 with an IPv4 address, with another
 *  address that routers forward, with a link-local one, version 1; among equals the lowest index.
 *  InfiniBand: the lowest index.
 *  @param wanted  an index that must be used, or -1
 *  @return its place in gids; -1: there is none, or not the wanted one */
int pgasi_gid_choose(const pgasi_gid_t *gids, int n, int wanted);

/** Whether it is an IPv4 address, ::ffff:a.b.c.d. */
bool pgasi_gid_is_ipv4(const uint8_t gid[16]);

/** The address that a queue pair of the providers verbs and mlx5 sends to its peer. */
typedef struct {
    uint32_t qpn, psn;
    uint16_t lid;      /* 0: there is none, and gid is used */
    bool is_global;    /* a GID is needed: RoCE, or the program has asked for one */
    uint8_t mtu;       /* as ibv_mtu: 1 is 256 bytes, 5 is 4096 */
    uint8_t reads_max; /* reads and atomics that are answered at once */
    uint8_t gid[16];
} pgasi_rdma_address_t;

void pgasi_rdma_address_pack(const pgasi_rdma_address_t *address, pgas_verbs_address_t *bytes_p);
/** @return PGAS_OK
 *          PGAS_ERR_FORMAT    these bytes are no address
 *          PGAS_ERR_MISMATCH  the address is another provider's */
pgas_status_t pgasi_rdma_address_unpack(const pgas_verbs_address_t *bytes,
                                        pgasi_rdma_address_t *address_p);

#endif
