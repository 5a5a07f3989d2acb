/* what: Completions have mlx5's bytes. Reading gives back the written fields. The owner's bit
 * distinguishes a pass over the queue from the next. needs: tsan-ok source: infiniband/mlx5dv.h
 * where it is installed; seeded model test */
#include "base/checks.h"
#include "base/rng.h"
#include "t/tap.h"
#include "t/unit/hex_bytes.h"
#include "verbs_backend/wqe.h"
#ifdef PGAS_HAVE_MLX5DV
#include <infiniband/mlx5dv.h>
#endif

#define N_RANDOM 20000

static void choose_completion(pgasi_rng_t *rng, pgasi_cqe_fields_t *f)
{
    static const uint8_t ops[] = { PGASI_CQE_REQ,       PGASI_CQE_RESP_WRITE_IMM,
                                   PGASI_CQE_RESP_SEND, PGASI_CQE_RESP_SEND_IMM,
                                   PGASI_CQE_REQ_ERR,   PGASI_CQE_RESP_ERR };
    *f = (pgasi_cqe_fields_t){ .op = ops[pgasi_rng_below(rng, sizeof ops)],
                               .wqe_op = (uint8_t)pgasi_rng_u64(rng),
                               .solicited = pgasi_rng_below(rng, 2),
                               .syndrome = (uint8_t)pgasi_rng_u64(rng),
                               .vendor = (uint8_t)pgasi_rng_u64(rng),
                               .counter = (uint16_t)pgasi_rng_u64(rng),
                               .qpn = (uint32_t)pgasi_rng_below(rng, 1u << 24),
                               .srqn = (uint32_t)pgasi_rng_below(rng, 1u << 24),
                               .bytes = (uint32_t)pgasi_rng_u64(rng),
                               .imm = (uint32_t)pgasi_rng_u64(rng) };
}

static bool same_completion(const pgasi_cqe_fields_t *a, const pgasi_cqe_fields_t *b)
{
    return a->op == b->op && a->wqe_op == b->wqe_op && a->solicited == b->solicited &&
           a->syndrome == b->syndrome && a->vendor == b->vendor && a->counter == b->counter &&
           a->qpn == b->qpn && a->srqn == b->srqn && a->bytes == b->bytes && a->imm == b->imm;
}

static void completions_are_golden(void)
{
    unsigned char want[64];
    pgasi_cqe_t got = { .reserved0 = { 0 } };
    pgasi_cqe_fields_t f = { PGASI_CQE_RESP_SEND_IMM,
                             PGASI_WQE_SEND_IMM,
                             true,
                             0,
                             0,
                             0x1234,
                             0xabcdef,
                             0x77,
                             0x400,
                             0xc0ffee01 };
    size_t n = from_hex("00000000 00000000 00000000 00000000 00000000 00000000 00000000 00000000 "
                        "00000077 c0ffee01 00000000 00000400"
                        "00000000 00000000 0babcdef 12340033",
                        want);
    pgasi_cqe_encode(&got, &f);
    got.op_own = pgasi_cqe_own(&f, true);
    ok(n == 64 && memcmp(&got, want, 64) == 0, "a receiver's completion");
    f = (pgasi_cqe_fields_t){
        PGASI_CQE_REQ_ERR, PGASI_WQE_WRITE, false, PGASI_CQE_REMOTE_ACCESS, 0x88, 0xffff, 7, 0, 0, 0
    };
    memset(&got, 0, sizeof got);
    from_hex("00000000 00000000 00000000 00000000 00000000 00000000 00000000 00000000 00000000 "
             "00000000 00000000 00000000"
             "00000000 00008813 08000007 ffff00d0",
             want);
    pgasi_cqe_encode(&got, &f);
    got.op_own = pgasi_cqe_own(&f, false);
    ok(memcmp(&got, want, 64) == 0, "an error completion");
}

static int n_changed(uint64_t seed, bool spoil)
{
    /* bytes that matter */
    static const unsigned char told[] = { 32 + 3, 39, 47, 54, 55, 56, 59, 60, 61, 63 };
    pgasi_rng_t rng;
    int n_bad = 0;
    pgasi_rng_seed(&rng, seed);
    for (int i = 0; i < N_RANDOM; i++) {
        pgasi_cqe_fields_t f, got;
        pgasi_cqe_t cqe;
        memset(&cqe, (int)pgasi_rng_u64(&rng), sizeof cqe);
        choose_completion(&rng, &f);
        pgasi_cqe_encode(&cqe, &f);
        cqe.op_own = pgasi_cqe_own(&f, pgasi_rng_below(&rng, 2));
        if (spoil)
            ((unsigned char *)&cqe)[told[pgasi_rng_below(&rng, sizeof told)]] ^= 2;
        n_bad += !pgasi_cqe_decode(&cqe, &got) || !same_completion(&f, &got);
    }
    return n_bad;
}

static void owners_tell_the_lap(void)
{
    pgasi_cqe_t ring[8];
    pgasi_cqe_fields_t f = { .op = PGASI_CQE_REQ };
    int n_bad = 0;
    memset(ring, 0, sizeof ring);
    for (int i = 0; i < 8; i++)
        ring[i].op_own = 0xf1;
    for (uint32_t ci = 0; ci < 8; ci++)
        n_bad += pgasi_cqe_is_there(&ring[ci], ci, 8);
    /* from before the index wraps at 24 bits until after; each is seen in its own pass over the
     * queue, not in the next */
    for (uint32_t ci = 0xfffff0 - 8; ci < 0x1000020; ci++) {
        pgasi_cqe_t *cqe = &ring[ci % 8];
        cqe->op_own = pgasi_cqe_own(&f, (ci & 8) != 0);
        n_bad += !pgasi_cqe_is_there(cqe, ci & 0xffffff, 8) +
                 pgasi_cqe_is_there(cqe, (ci + 8) & 0xffffff, 8);
    }
    is_int(n_bad, 0, "a completion is there in its lap alone");
    n_bad = 0;
    for (unsigned op = 0; op < 16; op++) {
        pgasi_cqe_fields_t got;
        ring[0].op_own = (uint8_t)(op << 4);
        bool known = op <= 3 || op == 13 || op == 14;
        n_bad += pgasi_cqe_decode(&ring[0], &got) != known || got.op != op;
        n_bad += pgasi_cqe_is_there(&ring[0], 0, 8) != (op != PGASI_CQE_INVALID);
    }
    is_int(n_bad, 0, "six of 16 opcodes of completions are known");
}

/* ---- against mlx5dv.h ---- */

#ifdef PGAS_HAVE_MLX5DV
static int n_unlike_theirs(uint64_t seed, bool spoil)
{
    pgasi_rng_t rng;
    int n_bad = 0;
    pgasi_rng_seed(&rng, seed);
    for (int i = 0; i < N_RANDOM; i++) {
        pgasi_cqe_fields_t f;
        union {
            pgasi_cqe_t ours;
            struct mlx5_cqe64 theirs;
            struct mlx5_err_cqe error;
        } cqe;
        bool owner = pgasi_rng_below(&rng, 2);
        memset(&cqe, 0, sizeof cqe);
        choose_completion(&rng, &f);
        pgasi_cqe_encode(&cqe.ours, &f);
        cqe.ours.op_own = pgasi_cqe_own(&f, owner);
        f.imm += spoil;
        n_bad += mlx5dv_get_cqe_opcode(&cqe.theirs) != f.op ||
                 mlx5dv_get_cqe_owner(&cqe.theirs) != owner ||
                 mlx5dv_get_cqe_se(&cqe.theirs) != f.solicited ||
                 mlx5dv_get_cqe_format(&cqe.theirs) != 0 ||
                 be32toh(cqe.theirs.srqn_uidx) != f.srqn ||
                 be32toh(cqe.theirs.imm_inval_pkey) != f.imm ||
                 be32toh(cqe.theirs.byte_cnt) != f.bytes ||
                 be16toh(cqe.theirs.wqe_counter) != f.counter ||
                 be32toh(cqe.theirs.sop_drop_qpn) != ((uint32_t)f.wqe_op << 24 | f.qpn) ||
                 cqe.error.syndrome != f.syndrome || cqe.error.vendor_err_synd != f.vendor;
    }
    return n_bad;
}

static const struct {
    unsigned ours, theirs;
} constants[] = {
    { PGASI_CQE_REQ, MLX5_CQE_REQ },
    { PGASI_CQE_RESP_WRITE_IMM, MLX5_CQE_RESP_WR_IMM },
    { PGASI_CQE_RESP_SEND, MLX5_CQE_RESP_SEND },
    { PGASI_CQE_RESP_SEND_IMM, MLX5_CQE_RESP_SEND_IMM },
    { PGASI_CQE_REQ_ERR, MLX5_CQE_REQ_ERR },
    { PGASI_CQE_RESP_ERR, MLX5_CQE_RESP_ERR },
    { PGASI_CQE_INVALID, MLX5_CQE_INVALID },
    { PGASI_CQE_LOCAL_LENGTH, MLX5_CQE_SYNDROME_LOCAL_LENGTH_ERR },
    { PGASI_CQE_LOCAL_QP_OP, MLX5_CQE_SYNDROME_LOCAL_QP_OP_ERR },
    { PGASI_CQE_LOCAL_PROT, MLX5_CQE_SYNDROME_LOCAL_PROT_ERR },
    { PGASI_CQE_FLUSHED, MLX5_CQE_SYNDROME_WR_FLUSH_ERR },
    { PGASI_CQE_MW_BIND, MLX5_CQE_SYNDROME_MW_BIND_ERR },
    { PGASI_CQE_BAD_RESP, MLX5_CQE_SYNDROME_BAD_RESP_ERR },
    { PGASI_CQE_LOCAL_ACCESS, MLX5_CQE_SYNDROME_LOCAL_ACCESS_ERR },
    { PGASI_CQE_REMOTE_INVALID, MLX5_CQE_SYNDROME_REMOTE_INVAL_REQ_ERR },
    { PGASI_CQE_REMOTE_ACCESS, MLX5_CQE_SYNDROME_REMOTE_ACCESS_ERR },
    { PGASI_CQE_REMOTE_OP, MLX5_CQE_SYNDROME_REMOTE_OP_ERR },
    { PGASI_CQE_RETRY, MLX5_CQE_SYNDROME_TRANSPORT_RETRY_EXC_ERR },
    { PGASI_CQE_RNR_RETRY, MLX5_CQE_SYNDROME_RNR_RETRY_EXC_ERR },
    { PGASI_CQE_REMOTE_ABORTED, MLX5_CQE_SYNDROME_REMOTE_ABORTED_ERR },
};

static void bytes_are_those_of_mlx5dv(uint64_t seed)
{
    int n_bad = 0;
    for (size_t i = 0; i < PGASI_ARRAY_LENGTH(constants); i++)
        n_bad += constants[i].ours != constants[i].theirs;
    is_int(n_bad, 0, "constants are those of mlx5dv.h");
    is_int(n_unlike_theirs(seed, false), 0,
           "completions at random are read by mlx5dv as they were meant");
    is_int(n_unlike_theirs(seed, true), N_RANDOM, "another word is noticed (broken on purpose)");
}
#else
static void bytes_are_those_of_mlx5dv(uint64_t seed)
{
    (void)seed;
    skip(3, "no infiniband/mlx5dv.h here");
}
#endif

int main(void)
{
    plan(9);
    uint64_t seed = tap_seed(6);
    completions_are_golden();
    is_int(n_changed(seed, false), 0, "completions at random are read as they were written");
    is_int(n_changed(seed, true), N_RANDOM, "each changed bit is noticed (broken on purpose)");
    owners_tell_the_lap();
    bytes_are_those_of_mlx5dv(seed);
    return done();
}
