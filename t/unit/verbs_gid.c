/* what: The GID that a port uses, and the bytes that describe it to a peer.
 * source: RoCE v2 annex; the order is that of verbs_backend/queue/gid.h */
#include "t/tap.h"
#include "verbs_backend/queue/gid.h"

#define V4(a, b, c, d)                       \
    {                                        \
        [10] = 0xff, [11] = 0xff, a, b, c, d \
    }
#define LINK_LOCAL           \
    {                        \
        0xfe, 0x80, [15] = 1 \
    }
#define GLOBAL                           \
    {                                    \
        0x20, 0x01, 0x0d, 0xb8, [15] = 1 \
    }

/* What most cards show: each address once for either version. */
static const pgasi_gid_t roce[] = {
    { 0, LINK_LOCAL, PGASI_GID_ROCE_1 },      { 1, LINK_LOCAL, PGASI_GID_ROCE_2 },
    { 2, V4(10, 0, 0, 1), PGASI_GID_ROCE_1 }, { 3, GLOBAL, PGASI_GID_ROCE_2 },
    { 5, V4(10, 0, 0, 1), PGASI_GID_ROCE_2 }, { 4, V4(10, 0, 0, 2), PGASI_GID_ROCE_2 },
};

/* The index chosen of those entries of the table whose bits are set; -1: none */
static int choice(unsigned mask, int wanted)
{
    pgasi_gid_t some[6];
    int n = 0;
    for (int i = 0; i < 6; i++)
        if (mask >> i & 1)
            some[n++] = roce[i];
    int at = pgasi_gid_choose(some, n, wanted);
    return at < 0 ? -1 : (int)some[at].index;
}

static void prefers(void)
{
    is_int(choice(63, -1), 4, "RoCE v2 with an IPv4 address, the lowest index of equals");
    is_int(choice(15, -1), 3, "else RoCE v2 with a routed address");
    is_int(choice(7, -1), 1, "else of the link alone");
    is_int(choice(5, -1), 0, "else RoCE v1");
    is_int(choice(0, -1), -1, "none in an empty table");
    const pgasi_gid_t infiniband[] = { { 1, GLOBAL, PGASI_GID_INFINIBAND },
                                       { 0, LINK_LOCAL, PGASI_GID_INFINIBAND } };
    is_int(pgasi_gid_choose(infiniband, 2, -1), 1, "InfiniBand: index 0");
}

static void obeys(void)
{
    is_int(choice(63, 2), 2, "an index that is asked for is taken, whatever it is");
    is_int(choice(63, 5), 5, "by index, not by place");
    is_int(choice(63, 9), -1, "one that is not there is not replaced");
}

static void tells_ipv4(void)
{
    static const uint8_t v4[16] = V4(1, 2, 3, 4), v6[16] = GLOBAL, zero[16];
    ok(pgasi_gid_is_ipv4(v4) && !pgasi_gid_is_ipv4(v6) && !pgasi_gid_is_ipv4(zero),
       "IPv4 addresses are distinguished from others");
}

static const pgasi_rdma_address_t sample = { .qpn = 0xabcdef,
                                             .psn = 0x123456,
                                             .lid = 0x8001,
                                             .is_global = true,
                                             .mtu = 5,
                                             .reads_max = 16,
                                             .gid = GLOBAL };

static void packs(void)
{
    pgas_verbs_address_t bytes;
    pgasi_rdma_address_t back;
    memset(&back, 0xff, sizeof back);
    memset(&bytes, 0xff, sizeof bytes);
    pgasi_rdma_address_pack(&sample, &bytes);
    is_int(pgasi_rdma_address_unpack(&bytes, &back), PGAS_OK, "packed bytes are an address");
    ok(back.qpn == sample.qpn && back.psn == sample.psn && back.lid == sample.lid &&
           back.is_global && back.mtu == 5 && back.reads_max == 16 &&
           memcmp(back.gid, sample.gid, 16) == 0,
       "and the same one");
    ok(bytes.bytes[sizeof bytes - 1] == 0, "unused bytes are zero");
}

/* Each change of one field that no device gives. */
static void refuses(void)
{
    pgas_verbs_address_t bytes;
    pgasi_rdma_address_t back, bad;
    memset(&bytes, 7, sizeof bytes);
    is_int(pgasi_rdma_address_unpack(&bytes, &back), PGAS_ERR_FORMAT, "other bytes are no address");
    const pgasi_verbs_address_head_t snic = { PGASI_VERBS_ADDRESS_MAGIC, PGASI_VERBS_WIRE_SNIC };
    memcpy(bytes.bytes, &snic, sizeof snic);
    is_int(pgasi_rdma_address_unpack(&bytes, &back), PGAS_ERR_MISMATCH,
           "that of another provider says so");
    for (int i = 0; i < 5; i++) {
        static const char *const what[] = { "a number of more than 24 bits",
                                            "a sequence number of more than 24 bits", "mtu 0",
                                            "mtu 6", "neither LID nor GID" };
        bad = sample;
        bad.qpn = i == 0 ? 1u << 24 : bad.qpn;
        bad.psn = i == 1 ? 1u << 24 : bad.psn;
        if (i == 2 || i == 3)
            bad.mtu = i == 2 ? 0 : 6;
        bad.is_global = i != 4;
        bad.lid = i == 4 ? 0 : bad.lid;
        pgasi_rdma_address_pack(&bad, &bytes);
        back = sample;
        pgas_status_t status = pgasi_rdma_address_unpack(&bytes, &back);
        ok(status == PGAS_ERR_FORMAT && back.qpn == sample.qpn,
           "%s is refused, and nothing written", what[i]);
    }
}

int main(void)
{
    plan(20);
    prefers();
    obeys();
    tells_ipv4();
    packs();
    refuses();
    return done();
}
