/* Selects the GID of a port, and packs addresses. The order of preference is that of UCX and
 * perftest: version 2 is routed, and administrators configure IPv4 addresses on purpose. */
#include "verbs_backend/queue/gid.h"

#include <endian.h>
#include <string.h>

bool pgasi_gid_is_ipv4(const uint8_t gid[16])
{
    static const uint8_t prefix[12] = { [10] = 0xff, [11] = 0xff };
    return memcmp(gid, prefix, sizeof prefix) == 0;
}

/* fe80::/10 */
static bool is_link_local(const uint8_t gid[16])
{
    return gid[0] == 0xfe && (gid[1] & 0xc0) == 0x80;
}

/* A lower rank is better. */
static int rank_of(const pgasi_gid_t *gid)
{
    if (gid->type == PGASI_GID_INFINIBAND)
        return 0;
    if (gid->type == PGASI_GID_ROCE_1)
        return 4;
    if (pgasi_gid_is_ipv4(gid->gid))
        return 1;
    return is_link_local(gid->gid) ? 3 : 2;
}

int pgasi_gid_choose(const pgasi_gid_t *gids, int n, int wanted)
{
    int best = -1;
    for (int i = 0; i < n; i++) {
        if (wanted >= 0) {
            if (gids[i].index == (uint32_t)wanted)
                return i;
            continue;
        }
        int better = best < 0 ? 1 : rank_of(&gids[best]) - rank_of(&gids[i]);
        if (better > 0 || (better == 0 && gids[i].index < gids[best].index))
            best = i;
    }
    return best;
}

/* The bytes of an address; numbers are little-endian. */
typedef struct {
    pgasi_verbs_address_head_t head;
    uint32_t qpn, psn;
    uint16_t lid;
    uint8_t is_global, mtu, reads_max;
    uint8_t reserved[3];
    uint8_t gid[16];
} wire_t;

PGASI_STATIC_ASSERT(sizeof(wire_t) <= sizeof(pgas_verbs_address_t), "an address fits");

void pgasi_rdma_address_pack(const pgasi_rdma_address_t *address, pgas_verbs_address_t *bytes_p)
{
    wire_t wire = { .head = { .magic = PGASI_VERBS_ADDRESS_MAGIC,
                              .provider = PGASI_VERBS_WIRE_RDMA },
                    .qpn = htole32(address->qpn),
                    .psn = htole32(address->psn),
                    .lid = htole16(address->lid),
                    .is_global = address->is_global,
                    .mtu = address->mtu,
                    .reads_max = address->reads_max };
    memcpy(wire.gid, address->gid, sizeof wire.gid);
    memset(bytes_p, 0, sizeof *bytes_p);
    memcpy(bytes_p->bytes, &wire, sizeof wire);
}

pgas_status_t pgasi_rdma_address_unpack(const pgas_verbs_address_t *bytes,
                                        pgasi_rdma_address_t *address_p)
{
    wire_t wire;
    memcpy(&wire, bytes->bytes, sizeof wire);
    if (wire.head.magic != PGASI_VERBS_ADDRESS_MAGIC)
        return PGAS_ERR_FORMAT;
    if (wire.head.provider != PGASI_VERBS_WIRE_RDMA)
        return PGAS_ERR_MISMATCH;
    pgasi_rdma_address_t address = { .qpn = le32toh(wire.qpn),
                                     .psn = le32toh(wire.psn),
                                     .lid = le16toh(wire.lid),
                                     .is_global = wire.is_global != 0,
                                     .mtu = wire.mtu,
                                     .reads_max = wire.reads_max };
    memcpy(address.gid, wire.gid, sizeof address.gid);
    bool sane = address.qpn >> 24 == 0 && address.psn >> 24 == 0 && address.mtu >= 1 &&
                address.mtu <= 5 && wire.is_global <= 1 && (address.is_global || address.lid != 0);
    if (sane)
        *address_p = address;
    return sane ? PGAS_OK : PGAS_ERR_FORMAT;
}
