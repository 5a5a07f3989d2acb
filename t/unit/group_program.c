/* what: A piece's programs, executed entry by entry as a chain of cards does, change every region
 *       as a plain model says, and bring all old words to the client; so does a chain of CPUs.
 *       Large operations are cut into pieces that cover them once. Each bad operation or piece is
 *       refused, and nothing is written.
 * needs: tsan-ok
 * source: seeded model test; entries are decoded by verbs_backend/wqe.h */
#include "base/checks.h"
#include "base/rng.h"
#include "group/program.h"
#include "t/must.h"
#include "t/tap.h"
#include "verbs_backend/wqe.h"

#define N_MAX        PGAS_GROUP_REPLICAS_MAX
#define REGION       4096u
#define PIECE        512u
#define SLOTS        4u
#define ROOM_MAX     (N_MAX * (PGASI_GROUP_PROGRAM_BYTES + 8) + PIECE + 64)
#define N_OPERATIONS 3000u

/* A replica: a region, staging slots, and the model of its region. */
typedef struct {
    pgasi_group_member_t member;
    _Alignas(64) unsigned char region[REGION];
    _Alignas(64) unsigned char staging[SLOTS * ROOM_MAX];
    _Alignas(8) unsigned char model[REGION];
} replica_t;

typedef struct {
    replica_t replicas[N_MAX];
    pgasi_group_member_t members[N_MAX];
    uint32_t n;
    bool chain;
    pgasi_group_layout_t layout;
    uint64_t number;
    uint64_t old[N_MAX], model_old[N_MAX]; /* of the last operation */
    uint32_t n_pieces;
} world_t;

static void make_world(world_t *w, bool chain, uint32_t n, pgasi_rng_t *rng)
{
    memset(w, 0, sizeof *w);
    w->n = n;
    w->chain = chain;
    w->layout = pgasi_group_layout(chain, n, PIECE);
    w->number = pgasi_rng_below(rng, 1u << 20);
    for (uint32_t i = 0; i < n; i++) {
        replica_t *r = &w->replicas[i];
        uint32_t key = (uint32_t)pgasi_rng_u64(rng) & ~3u;
        for (uint32_t k = 0; k < REGION; k++)
            r->region[k] = r->model[k] = (unsigned char)pgasi_rng_u64(rng);
        r->member = (pgasi_group_member_t){ .region = (uintptr_t)r->region,
                                            .region_bytes = REGION,
                                            .staging = (uintptr_t)r->staging,
                                            .staging_stride = w->layout.room,
                                            .region_lkey = key,
                                            .region_rkey = key | 1,
                                            .staging_lkey = key | 2,
                                            .loop_qpn = (uint32_t)pgasi_rng_below(rng, 1u << 24),
                                            .loop_first = (uint32_t)pgasi_rng_u64(rng),
                                            .slots = SLOTS };
        w->members[i] = r->member;
    }
}

/* ---- a card: executes one entry of the loop queue ---- */

static unsigned char *within(uint64_t addr, uint32_t bytes, unsigned char *memory, size_t size)
{
    uint64_t at = addr - (uintptr_t)memory;
    return at <= size && bytes <= size - at ? memory + at : NULL;
}

/* The memory of a span under its lkey. */
static unsigned char *local(replica_t *r, const pgasi_wqe_span_t *span)
{
    if (span->lkey == r->member.staging_lkey)
        return within(span->addr, span->bytes, r->staging, sizeof r->staging);
    if (span->lkey == r->member.region_lkey)
        return within(span->addr, span->bytes, r->region, sizeof r->region);
    return NULL;
}

static bool run_entry(replica_t *r, const unsigned char *entry, uint64_t number)
{
    pgasi_wqe_t e;
    uint32_t position = r->member.loop_first + (uint32_t)number;
    if (!pgasi_wqe_decode(entry, PGASI_WQE_BB, 0, &e) || e.qpn != r->member.loop_qpn ||
        e.flags != PGASI_WQE_SIGNAL || (entry[1] << 8 | entry[2]) != (int)(position & 0xffff))
        return false;
    if (e.op == PGASI_WQE_NOP)
        return e.segments == 1;
    if (e.rkey != r->member.region_rkey || e.n_data != 1)
        return false;
    pgasi_wqe_span_t span = pgasi_wqe_data(entry, PGASI_WQE_BB, 0, &e, 0);
    unsigned char *from = local(r, &span),
                  *to = within(e.remote_addr, span.bytes, r->region, REGION);
    if (from == NULL || to == NULL)
        return false;
    if (e.op == PGASI_WQE_WRITE) {
        memcpy(to, from, span.bytes);
        return true;
    }
    memcpy(from, to, span.bytes);
    if (e.op == PGASI_WQE_CSWAP && span.bytes == 8 && memcmp(to, &e.compare, 8) == 0)
        memcpy(to, &e.operand, 8);
    return e.op == PGASI_WQE_READ || (e.op == PGASI_WQE_CSWAP && span.bytes == 8);
}

/* Replica i takes a message, executes, and leaves the next message in `message`.
 * @return its bytes; 0: something is wrong */
static uint32_t pass_card(world_t *w, uint32_t i, unsigned char *message, uint32_t bytes)
{
    replica_t *r = &w->replicas[i];
    unsigned char *slot = r->staging + w->number % SLOTS * w->layout.room;
    if (bytes < PGASI_GROUP_PROGRAM_BYTES || bytes - PGASI_GROUP_PROGRAM_BYTES > w->layout.room)
        return 0;
    memcpy(slot, message + PGASI_GROUP_PROGRAM_BYTES, bytes - PGASI_GROUP_PROGRAM_BYTES);
    if (!run_entry(r, message, w->number))
        return 0;
    pgasi_wqe_span_t next = pgasi_wqe_read_data(message + PGASI_GROUP_ENTRY_BYTES);
    unsigned char *from = local(r, &next);
    if (from == NULL || from != slot || next.lkey != r->member.staging_lkey)
        return 0;
    memcpy(message, from, next.bytes);
    return next.bytes;
}

static uint32_t pass_cpu(world_t *w, uint32_t i, unsigned char *message, uint32_t bytes)
{
    replica_t *r = &w->replicas[i];
    unsigned char *slot = r->staging + w->number % SLOTS * w->layout.room;
    pgasi_group_piece_t piece;
    memcpy(slot, message, bytes);
    memcpy(&piece, slot, sizeof piece);
    uint32_t old_at = pgasi_group_old_at(false, w->n, i);
    if (pgasi_group_execute(&piece, i, r->region, REGION, (uint64_t *)(void *)(slot + old_at),
                            slot + pgasi_group_data_at(false, w->n, i)) != PGAS_OK)
        return 0;
    bool last = i == w->n - 1;
    bytes = pgasi_group_message_bytes(false, w->n, i + 1,
                                      piece.kind == PGAS_GROUP_WRITE ? piece.bytes : 0);
    memcpy(message, last ? slot + old_at : slot, bytes);
    return bytes;
}

/* Sends a piece along the chain, and takes the old words. */
static bool run_piece(world_t *w, pgasi_group_piece_t *piece, const void *data)
{
    static _Alignas(64) unsigned char message[ROOM_MAX];
    uint32_t data_bytes = piece->kind == PGAS_GROUP_WRITE ? piece->bytes : 0;
    piece->number = w->number;
    if (w->chain)
        pgasi_group_programs(piece, w->members, w->n, message);
    else
        memcpy(message, piece, sizeof *piece);
    for (uint32_t i = 0; i < w->n; i++)
        w->old[i] = (piece->skip_map >> i & 1) ? 77 : 0;
    memcpy(message + w->layout.old_at, w->old, w->n * sizeof w->old[0]);
    if (data_bytes > 0)
        memcpy(message + w->layout.data_at, data, data_bytes);
    uint32_t bytes = pgasi_group_message_bytes(w->chain, w->n, 0, data_bytes);
    for (uint32_t i = 0; i < w->n; i++) {
        if (bytes != pgasi_group_message_bytes(w->chain, w->n, i, data_bytes))
            return false;
        bytes = (w->chain ? pass_card : pass_cpu)(w, i, message, bytes);
    }
    memcpy(w->old, message, w->n * sizeof w->old[0]);
    w->number++;
    w->n_pieces++;
    return bytes == w->n * 8;
}

/* ---- the model ---- */

static void model_operation(world_t *w, const pgas_group_op_t *op, uint64_t skip_map)
{
    for (uint32_t i = 0; i < w->n; i++) {
        unsigned char *region = w->replicas[i].model, *at = region + op->offset;
        w->model_old[i] = (skip_map >> i & 1) ? 77 : 0;
        if (skip_map >> i & 1)
            continue;
        if (op->kind == PGAS_GROUP_WRITE)
            memcpy(at, op->u.data, op->bytes);
        if (op->kind == PGAS_GROUP_MEMCPY)
            memcpy(at, region + op->u.source, op->bytes);
        if (op->kind == PGAS_GROUP_CAS) {
            memcpy(&w->model_old[i], at, 8);
            if ((op->u.cas.execute_map >> i & 1) && w->model_old[i] == op->u.cas.expected)
                memcpy(at, &op->u.cas.desired, 8);
        }
    }
}

static pgas_group_op_t choose(const world_t *w, pgasi_rng_t *rng)
{
    static unsigned char data[REGION];
    uint64_t bytes = pgasi_rng_below(rng, pgasi_rng_below(rng, 4) ? 64 : REGION / 2),
             at = pgasi_rng_below(rng, REGION - bytes + 1);
    uint64_t word = pgasi_rng_below(rng, REGION / 8) * 8, found, other;
    switch (pgasi_rng_below(rng, 5)) {
    case 0:
    case 1:
        for (uint64_t i = 0; i < bytes; i++)
            data[i] = (unsigned char)pgasi_rng_u64(rng);
        return (pgas_group_op_t)PGAS_GWRITE(at, data, bytes);
    case 2:
        bytes = PGASI_MIN(bytes, REGION / 2);
        at = pgasi_rng_below(rng, REGION / 2 - bytes + 1);
        other = REGION / 2 + pgasi_rng_below(rng, REGION / 2 - bytes + 1);
        return pgasi_rng_below(rng, 2) ? (pgas_group_op_t)PGAS_GMEMCPY(at, other, bytes)
                                       : (pgas_group_op_t)PGAS_GMEMCPY(other, at, bytes);
    case 3:
        memcpy(&found, w->replicas[pgasi_rng_below(rng, w->n)].model + word, 8);
        return (pgas_group_op_t)PGAS_GCAS(word, pgasi_rng_below(rng, 3) ? found : found + 1,
                                          pgasi_rng_u64(rng), pgasi_rng_u64(rng) | 1, NULL);
    default:
        return (pgas_group_op_t)PGAS_GFLUSH(at, bytes);
    }
}

/* @return whether the operation was right on all replicas */
static bool run_operation(world_t *w, const pgas_group_op_t *op, uint64_t skip_map)
{
    pgasi_group_piece_t piece;
    uint64_t total = op->kind == PGAS_GROUP_CAS ? 8 : op->bytes;
    if (pgasi_group_check(op, REGION, w->n) != PGAS_OK)
        return false;
    model_operation(w, op, skip_map);
    for (uint64_t done = 0; done < total;) {
        uint64_t bytes = pgasi_group_cut(op, done, PIECE, &piece);
        const char *data = op->kind == PGAS_GROUP_WRITE ? (const char *)op->u.data + done : NULL;
        piece.skip_map = skip_map;
        if (bytes == 0 || bytes > PIECE || !run_piece(w, &piece, data))
            return false;
        done += bytes;
    }
    for (uint32_t i = 0; i < w->n; i++)
        if (memcmp(w->replicas[i].region, w->replicas[i].model, REGION) != 0)
            return false;
    return op->kind != PGAS_GROUP_CAS || memcmp(w->old, w->model_old, w->n * 8) == 0;
}

/* @return operations that were wrong */
static int run_world(bool chain, uint32_t n, uint32_t n_operations, uint64_t seed)
{
    static world_t w;
    pgasi_rng_t rng;
    int n_wrong = 0;
    pgasi_rng_seed(&rng, seed);
    make_world(&w, chain, n, &rng);
    for (uint32_t k = 0; k < n_operations; k++) {
        pgas_group_op_t op = choose(&w, &rng);
        uint64_t skip_map = pgasi_rng_below(&rng, 4) ? 0 : pgasi_rng_u64(&rng);
        n_wrong += !run_operation(&w, &op, skip_map);
    }
    return n_wrong;
}

/* The model of this test finds an entry whose address is wrong by 8. */
static int run_planted(uint64_t seed)
{
    static world_t w;
    pgasi_rng_t rng;
    pgasi_rng_seed(&rng, seed);
    make_world(&w, true, 3, &rng);
    w.members[1].region += 8;
    unsigned char text[16] = "planted";
    pgas_group_op_t op = PGAS_GWRITE(256, text, sizeof text);
    return !run_operation(&w, &op, 0);
}

/* ---- refusals ---- */

static void test_refusals(void)
{
    const uint64_t top = UINT64_MAX;
    uint64_t word = 0;
    const struct {
        pgas_group_op_t op;
        pgas_status_t status;
        const char *what;
    } cases[] = {
        { PGAS_GWRITE(REGION, &word, 0), PGAS_OK, "no bytes at the end" },
        { PGAS_GWRITE(0, NULL, 0), PGAS_OK, "no bytes of NULL" },
        { PGAS_GCAS(REGION - 8, 0, 0, top, NULL), PGAS_OK, "a cas of the last word" },
        { PGAS_GCAS(0, 0, 0, 6, NULL), PGAS_OK, "a cas by some replicas" },
        { PGAS_GMEMCPY(8, 0, 8), PGAS_OK, "a memcpy to its neighbour" },
        { PGAS_GWRITE(0, NULL, 1), PGAS_ERR_INVALID, "bytes of NULL" },
        { PGAS_GWRITE(REGION - 7, &word, 8), PGAS_ERR_RANGE, "a write beyond the end" },
        { PGAS_GWRITE(REGION + 1, &word, 0), PGAS_ERR_RANGE, "no bytes behind the end" },
        { PGAS_GWRITE(top, &word, 8), PGAS_ERR_RANGE, "a write whose end overflows" },
        { PGAS_GWRITE(8, &word, top), PGAS_ERR_RANGE, "a write whose size overflows" },
        { PGAS_GFLUSH(REGION - 7, 8), PGAS_ERR_RANGE, "a flush beyond the end" },
        { PGAS_GFLUSH(top, 2), PGAS_ERR_RANGE, "a flush that overflows" },
        { PGAS_GMEMCPY(REGION - 7, 0, 8), PGAS_ERR_RANGE, "a memcpy beyond the end" },
        { PGAS_GMEMCPY(0, REGION - 7, 8), PGAS_ERR_RANGE, "a memcpy from beyond the end" },
        { PGAS_GMEMCPY(0, top - 3, 8), PGAS_ERR_RANGE, "a memcpy whose source overflows" },
        { PGAS_GMEMCPY(7, 0, 8), PGAS_ERR_INVALID, "a memcpy that overlaps itself upward" },
        { PGAS_GMEMCPY(0, 7, 8), PGAS_ERR_INVALID, "a memcpy that overlaps itself downward" },
        { PGAS_GMEMCPY(5, 5, 1), PGAS_ERR_INVALID, "a memcpy to its own place" },
        { PGAS_GCAS(REGION, 0, 0, top, NULL), PGAS_ERR_RANGE, "a cas beyond the end" },
        { PGAS_GCAS(top - 7, 0, 0, top, NULL), PGAS_ERR_RANGE, "a cas that overflows" },
        { PGAS_GCAS(4, 0, 0, top, NULL), PGAS_ERR_INVALID, "a cas at no multiple of 8" },
        { PGAS_GCAS(0, 0, 0, 0, NULL), PGAS_ERR_INVALID, "a cas by no replica" },
        { PGAS_GCAS(0, 0, 0, 8, NULL), PGAS_ERR_INVALID, "a cas by the fourth of three" },
        { { .kind = (pgas_group_kind_t)0 }, PGAS_ERR_INVALID, "no kind" },
        { { .kind = (pgas_group_kind_t)5 }, PGAS_ERR_INVALID, "an unknown kind" },
    };
    int n_wrong = 0;
    for (size_t i = 0; i < PGASI_ARRAY_LENGTH(cases); i++) {
        pgas_status_t status = pgasi_group_check(&cases[i].op, REGION, 3);
        if (status != cases[i].status)
            diag("%s: %s", cases[i].what, pgas_status_name(status));
        n_wrong += status != cases[i].status;
    }
    is_int(n_wrong, 0, "operations are accepted and refused as documented");
    pgas_group_op_t last = PGAS_GCAS(0, 0, 0, UINT64_C(1) << 63, NULL);
    is_int(pgasi_group_check(&last, REGION, 64), PGAS_OK, "a cas by the last of 64 replicas");
}

static void test_bad_pieces(void)
{
    _Alignas(8) unsigned char region[256] = { 0 }, untouched[256] = { 0 };
    unsigned char data[64] = { 1, 2, 3 };
    uint64_t old[3] = { 0 };
    const pgasi_group_piece_t bad[] = {
        { .offset = 250, .bytes = 8, .kind = PGAS_GROUP_WRITE },
        { .offset = UINT64_MAX, .bytes = 8, .kind = PGAS_GROUP_WRITE },
        { .offset = 0, .bytes = UINT32_MAX, .kind = PGAS_GROUP_WRITE },
        { .offset = 0, .source = 250, .bytes = 8, .kind = PGAS_GROUP_MEMCPY },
        { .offset = 0, .source = UINT64_MAX - 2, .bytes = 8, .kind = PGAS_GROUP_MEMCPY },
        { .offset = 4, .source = 0, .bytes = 8, .kind = PGAS_GROUP_MEMCPY },
        { .offset = 4, .bytes = 8, .execute_map = 7, .kind = PGAS_GROUP_CAS },
        { .offset = 256, .bytes = 8, .execute_map = 7, .kind = PGAS_GROUP_CAS },
        { .offset = 8, .bytes = 4, .execute_map = 7, .kind = PGAS_GROUP_CAS },
        { .offset = 257, .bytes = 0, .kind = PGAS_GROUP_FLUSH },
        { .bytes = 8, .kind = 0 },
        { .bytes = 8, .kind = 5 },
        { .bytes = 8, .kind = PGAS_GROUP_CAS | 0x100 },
    };
    int n_wrong = 0;
    for (size_t i = 0; i < PGASI_ARRAY_LENGTH(bad); i++)
        n_wrong +=
            pgasi_group_execute(&bad[i], 1, region, sizeof region, old, data) != PGAS_ERR_RANGE;
    pgasi_group_piece_t good = { .bytes = 8, .kind = PGAS_GROUP_WRITE };
    n_wrong += pgasi_group_execute(&good, 64, region, sizeof region, old, data) != PGAS_ERR_RANGE;
    ok(n_wrong == 0 && memcmp(region, untouched, sizeof region) == 0,
       "bad pieces are refused, and nothing is written");
    is_int(pgasi_group_execute(&good, 2, region, sizeof region, old, data), PGAS_OK,
           "a good one is not");
}

static void test_layout(void)
{
    int n_wrong = 0;
    for (uint32_t n = 1; n <= N_MAX; n++)
        for (int chain = 0; chain < 2; chain++) {
            pgasi_group_layout_t l = pgasi_group_layout(chain, n, 1000);
            n_wrong += l.n != n || l.old_at % 8 != 0 || l.old_at != l.head_bytes ||
                       l.data_at != l.old_at + 8 * n || l.room % 64 != 0 ||
                       l.room < l.data_at + 1000 || l.room >= l.data_at + 1064 ||
                       pgasi_group_message_bytes(chain, n, 0, 1000) != l.data_at + 1000;
        }
    is_int(n_wrong, 0, "layouts of 1 to 64 replicas");
}

int main(void)
{
    const uint32_t sizes[] = { 1, 2, 3, 5, 64 };
    plan(2 * (int)PGASI_ARRAY_LENGTH(sizes) + 6);
    uint64_t seed = tap_seed(17);
    for (size_t i = 0; i < PGASI_ARRAY_LENGTH(sizes); i++)
        for (int chain = 0; chain < 2; chain++)
            is_int(run_world(chain, sizes[i], N_OPERATIONS / (1 + sizes[i] / 8), seed + i), 0,
                   "operations on %u replicas, %s", sizes[i], chain ? "by programs" : "by the CPU");
    is_int(run_planted(seed), 1, "a wrong address in an entry is found");
    test_layout();
    test_refusals();
    test_bad_pieces();
    return done();
}
