/* what: The software NIC accesses registered memory alone. It checks each key, bound and right on
 *       both sides before any byte moves. An allowed request moves exactly its bytes.
 * source: pgas/verbs.h; the InfiniBand architecture; compared with a plain copy */
#include "t/unit/snic.h"

/* the middle of each end's memory, which is registered once more with the rights under test */
#define PIECE 4096u
#define START PIECE
#define FAR   (UINT64_MAX - 3)

enum { RIGHT_KEY, WRONG_KEY, NEIGHBOUR_KEY, RELEASED_KEY, STALE_KEY, END_KEY };
#define R   PGAS_VERBS_REMOTE_READ
#define W   PGAS_VERBS_REMOTE_WRITE
#define A   PGAS_VERBS_REMOTE_ATOMIC
#define L   PGAS_VERBS_LOCAL_WRITE
#define ALL PGAS_VERBS_ACCESS_ALL

typedef struct {
    const char *what;
    pgas_verbs_op_t op;
    pgas_status_t want;
    uint64_t local_at, remote_at; /* from the piece's start */
    uint32_t bytes;
    /* of the pieces, and rights that the peer's queue pair grants */
    uint32_t local_access, remote_access, qp_access;
    int lkey, rkey;
} case_t;

static const case_t cases[] = {
    { "WRITE of all", PGAS_VERBS_WRITE, PGAS_OK, 0, 0, PIECE, 0, W | L, ALL, 0, 0 },
    { "WRITE of the last byte", PGAS_VERBS_WRITE, PGAS_OK, 0, PIECE - 1, 1, 0, W | L, ALL, 0, 0 },
    { "WRITE a byte before", PGAS_VERBS_WRITE, PGAS_ERR_RANGE, 0, -1ull, 8, 0, W | L, ALL, 0, 0 },
    { "WRITE a byte beyond", PGAS_VERBS_WRITE, PGAS_ERR_RANGE, 0, PIECE - 7, 8, 0, W | L, ALL, 0,
      0 },
    { "WRITE behind the end", PGAS_VERBS_WRITE, PGAS_ERR_RANGE, 0, PIECE, 1, 0, W | L, ALL, 0, 0 },
    { "WRITE around the address space", PGAS_VERBS_WRITE, PGAS_ERR_RANGE, 0, FAR, 8, 0, W | L, ALL,
      0, 0 },
    { "WRITE longer than anything", PGAS_VERBS_WRITE, PGAS_ERR_RANGE, 0, 0, 0x7fffffff, 0, W | L,
      ALL, 0, 0 },
    { "WRITE with a wrong key", PGAS_VERBS_WRITE, PGAS_ERR_RANGE, 0, 0, 8, 0, W | L, ALL, 0,
      WRONG_KEY },
    { "WRITE with the key of other memory", PGAS_VERBS_WRITE, PGAS_ERR_RANGE, 0, 0, 8, 0, W | L,
      ALL, 0, NEIGHBOUR_KEY },
    { "WRITE with a key that was given back", PGAS_VERBS_WRITE, PGAS_ERR_RANGE, 0, 0, 8, 0, W | L,
      ALL, 0, RELEASED_KEY },
    { "WRITE with the key of what was there before", PGAS_VERBS_WRITE, PGAS_ERR_RANGE, 0, 0, 8, 0,
      W | L, ALL, 0, STALE_KEY },
    { "WRITE with the key that ends lists", PGAS_VERBS_WRITE, PGAS_ERR_RANGE, 0, 0, 8, 0, W | L,
      ALL, 0, END_KEY },
    { "WRITE to memory for others' reads", PGAS_VERBS_WRITE, PGAS_ERR_RANGE, 0, 0, 8, 0, R | A | L,
      ALL, 0, 0 },
    { "WRITE through a queue pair for reads", PGAS_VERBS_WRITE, PGAS_ERR_RANGE, 0, 0, 8, 0, W | L,
      R | A, 0, 0 },
    { "WRITE from a wrong key", PGAS_VERBS_WRITE, PGAS_ERR_RANGE, 0, 0, 8, 0, W | L, ALL, WRONG_KEY,
      0 },
    { "WRITE from a key that was given back", PGAS_VERBS_WRITE, PGAS_ERR_RANGE, 0, 0, 8, 0, W | L,
      ALL, RELEASED_KEY, 0 },
    { "WRITE from before memory", PGAS_VERBS_WRITE, PGAS_ERR_RANGE, -8ull, 0, 16, 0, W | L, ALL, 0,
      0 },
    { "WRITE from beyond memory", PGAS_VERBS_WRITE, PGAS_ERR_RANGE, PIECE - 8, 0, 16, 0, W | L, ALL,
      0, 0 },
    { "WRITE_IMM", PGAS_VERBS_WRITE_IMM, PGAS_OK, 0, 8, 8, 0, W | L, ALL, 0, 0 },
    { "WRITE_IMM a byte beyond", PGAS_VERBS_WRITE_IMM, PGAS_ERR_RANGE, 0, PIECE - 7, 8, 0, W | L,
      ALL, 0, 0 },
    { "WRITE_IMM to memory for others' reads", PGAS_VERBS_WRITE_IMM, PGAS_ERR_RANGE, 0, 0, 8, 0,
      R | A | L, ALL, 0, 0 },
    { "WRITE_IMM through a queue pair for reads", PGAS_VERBS_WRITE_IMM, PGAS_ERR_RANGE, 0, 0, 8, 0,
      W | L, R | A, 0, 0 },
    { "READ of all", PGAS_VERBS_READ, PGAS_OK, 0, 0, PIECE, L, R, ALL, 0, 0 },
    { "READ of the last byte", PGAS_VERBS_READ, PGAS_OK, PIECE - 1, PIECE - 1, 1, L, R, ALL, 0, 0 },
    { "READ a byte before", PGAS_VERBS_READ, PGAS_ERR_RANGE, 0, -1ull, 8, L, R, ALL, 0, 0 },
    { "READ a byte beyond", PGAS_VERBS_READ, PGAS_ERR_RANGE, 0, PIECE - 7, 8, L, R, ALL, 0, 0 },
    { "READ with a wrong key", PGAS_VERBS_READ, PGAS_ERR_RANGE, 0, 0, 8, L, R, ALL, 0, WRONG_KEY },
    { "READ of memory for others' writes", PGAS_VERBS_READ, PGAS_ERR_RANGE, 0, 0, 8, L, W | A | L,
      ALL, 0, 0 },
    { "READ through a queue pair for writes", PGAS_VERBS_READ, PGAS_ERR_RANGE, 0, 0, 8, L, R, W | A,
      0, 0 },
    { "READ into memory that is not for writes", PGAS_VERBS_READ, PGAS_ERR_RANGE, 0, 0, 8, 0, R,
      ALL, 0, 0 },
    { "READ into a wrong key", PGAS_VERBS_READ, PGAS_ERR_RANGE, 0, 0, 8, L, R, ALL, WRONG_KEY, 0 },
    { "READ into beyond memory", PGAS_VERBS_READ, PGAS_ERR_RANGE, PIECE - 8, 0, 16, L, R, ALL, 0,
      0 },
    { "FADD", PGAS_VERBS_FADD, PGAS_OK, 8, 16, 8, L, A | L, ALL, 0, 0 },
    { "FADD of the last word", PGAS_VERBS_FADD, PGAS_OK, PIECE - 8, PIECE - 8, 8, L, A | L, ALL, 0,
      0 },
    { "FADD beyond", PGAS_VERBS_FADD, PGAS_ERR_RANGE, 8, PIECE, 8, L, A | L, ALL, 0, 0 },
    { "FADD before", PGAS_VERBS_FADD, PGAS_ERR_RANGE, 8, -8ull, 8, L, A | L, ALL, 0, 0 },
    { "FADD of half words", PGAS_VERBS_FADD, PGAS_ERR_INVALID, 8, 4, 8, L, A | L, ALL, 0, 0 },
    { "FADD in memory for reads and writes", PGAS_VERBS_FADD, PGAS_ERR_RANGE, 8, 16, 8, L,
      R | W | L, ALL, 0, 0 },
    { "FADD through a queue pair for reads and writes", PGAS_VERBS_FADD, PGAS_ERR_RANGE, 8, 16, 8,
      L, A | L, R | W, 0, 0 },
    { "FADD with a wrong key", PGAS_VERBS_FADD, PGAS_ERR_RANGE, 8, 16, 8, L, A | L, ALL, 0,
      WRONG_KEY },
    { "FADD with its result where nobody may write", PGAS_VERBS_FADD, PGAS_ERR_RANGE, 8, 16, 8, 0,
      A | L, ALL, 0, 0 },
    { "CSWAP", PGAS_VERBS_CSWAP, PGAS_OK, 8, 16, 8, L, A | L, ALL, 0, 0 },
    { "CSWAP of half words", PGAS_VERBS_CSWAP, PGAS_ERR_INVALID, 8, 20, 8, L, A | L, ALL, 0, 0 },
    { "CSWAP in memory for reads and writes", PGAS_VERBS_CSWAP, PGAS_ERR_RANGE, 8, 16, 8, L,
      R | W | L, ALL, 0, 0 },
};

static pgas_verbs_mem_t registered(const pair_t *p, int end, uint32_t access)
{
    pgas_verbs_mem_t mem;
    must(pgas_verbs_mem_register(p->dev, p->bytes[end] + START, PIECE, access, &mem),
         "a piece of memory");
    return mem;
}

static pgas_verbs_mem_t neighbour;

/* A key as the case wants it; the piece's own is right. */
static uint32_t key_of(const pair_t *p, int kind, int end, uint32_t right)
{
    static unsigned char room[8];
    if (kind == WRONG_KEY)
        return right ^ 0x40000000u;
    if (kind == END_KEY)
        return 0x100;
    if (kind == RIGHT_KEY)
        return right;
    must(pgas_verbs_mem_register(p->dev, kind == NEIGHBOUR_KEY ? room : p->bytes[end] + START,
                                 sizeof room, ALL, &neighbour),
         "other memory");
    uint32_t key = neighbour.rkey;
    if (kind == RELEASED_KEY || kind == STALE_KEY)
        pgas_verbs_mem_release(p->dev, &neighbour);
    if (kind == STALE_KEY) /* another registration in its place */
        neighbour = registered(p, end, ALL);
    return key;
}

static unsigned char expected[2][SNIC_BYTES];

/* The effect of a good request, in plain memory. */
static void model(const case_t *c, uint64_t operand, uint64_t compare)
{
    unsigned char *local = expected[0] + START + c->local_at,
                  *remote = expected[1] + START + c->remote_at;
    uint64_t old, new;
    switch (c->op) {
    case PGAS_VERBS_WRITE:
    case PGAS_VERBS_WRITE_IMM:
        memcpy(remote, local, c->bytes);
        break;
    case PGAS_VERBS_READ:
        memcpy(local, remote, c->bytes);
        break;
    default:
        memcpy(&old, remote, 8);
        new = old == compare ? operand : old;
        if (c->op == PGAS_VERBS_FADD)
            new = old + operand;
        memcpy(remote, &new, 8);
        memcpy(local, &old, 8);
    }
}

/* The request, followed by one that is always good: that one completes too, or is flushed. */
static bool run_case(const case_t *c, bool same, pgas_verbs_engine_t engine, uint32_t adversary)
{
    pgas_verbs_qp_opts_t opts = PGAS_VERBS_QP_OPTS_INIT;
    pair_t p;
    opts.access = c->qp_access;
    pair_on(&p, snic_device(engine, adversary, 1), &opts, ALL);
    p.own_dev = true;
    pgas_verbs_mem_t piece[2] = { registered(&p, 0, c->local_access),
                                  registered(&p, 1, c->remote_access) };
    for (int i = 0; i < 2; i++) {
        fill(p.bytes[i], SNIC_BYTES, (uint64_t)i + 1);
        memcpy(expected[i], p.bytes[i], SNIC_BYTES);
    }
    uint64_t compare;
    memcpy(&compare, p.bytes[1] + START + 16, 8);
    pgas_verbs_span_t span = { (uintptr_t)p.bytes[0] + START + c->local_at, c->bytes,
                               key_of(&p, c->lkey, 0, piece[0].lkey) };
    pgas_verbs_request_t requests[2] = { pair_request(&p, c->op, &span, START, 1),
                                         { .op = PGAS_VERBS_NOP, .id = 2 } };
    requests[0].remote_addr = c->remote_at == FAR ? FAR : requests[0].remote_addr + c->remote_at;
    requests[0].rkey = key_of(&p, c->rkey, 1, piece[1].rkey);
    requests[0].operand = 0x0102030405060708;
    requests[0].compare = compare;
    requests[1].flags = PGAS_VERBS_SIGNAL;
    if (c->want == PGAS_OK && same)
        model(c, requests[0].operand, compare);
    pgas_verbs_completion_t got[3];
    if (c->op == PGAS_VERBS_WRITE_IMM)
        pair_recv(&p, 1, 0, 8, 9);
    must(pgas_verbs_qp_post(p.qp[0], requests, 2, NULL), "two requests");
    bool good = (engine == PGASI_SNIC_ENGINE_STEP ? snic_take(p.dev, p.cq[0], got, 3)
                                                  : snic_await(p.cq[0], got, 2)) == 2;
    good = good && is_done(&got[0], 1, c->want) &&
           is_done(&got[1], 2, c->want == PGAS_OK ? PGAS_OK : PGAS_ERR_PEER);
    good = good && memcmp(p.bytes[0], expected[0], SNIC_BYTES) == 0 &&
           memcmp(p.bytes[1], expected[1], SNIC_BYTES) == 0;
    pgas_verbs_mem_release(p.dev, &piece[0]);
    pgas_verbs_mem_release(p.dev, &piece[1]);
    pgas_verbs_mem_release(p.dev, &neighbour);
    for (int i = 0; i < 2; i++) {
        pgas_verbs_qp_destroy(p.qp[i]);
        p.qp[i] = NULL;
    }
    pair_close(&p);
    return good;
}

int main(void)
{
    plan((int)PGASI_ARRAY_LENGTH(cases) + 3);
    int n_bad = 0;
    for (size_t i = 0; i < PGASI_ARRAY_LENGTH(cases); i++)
        ok(run_case(&cases[i], true, PGASI_SNIC_ENGINE_STEP, 0), "%s: %s", cases[i].what,
           pgas_status_name(cases[i].want));
    ok(!run_case(&cases[0], false, PGASI_SNIC_ENGINE_STEP, 0),
       "wrong bytes are noticed (on purpose)");
    for (size_t i = 0; i < PGASI_ARRAY_LENGTH(cases); i++)
        n_bad += !run_case(&cases[i], true, PGAS_VERBS_ENGINE_CALLER, 0);
    is_int(n_bad, 0, "all of them by the thread that polls");
    n_bad = 0;
    for (size_t i = 0; i < PGASI_ARRAY_LENGTH(cases); i++) {
        n_bad += !run_case(&cases[i], true, PGASI_SNIC_ENGINE_STEP, PGAS_VERBS_SNIC_ALL);
        n_bad += !run_case(&cases[i], true, PGAS_VERBS_ENGINE_CALLER, PGAS_VERBS_SNIC_ALL);
    }
    is_int(n_bad, 0, "all of them under all adversaries");
    return done();
}
