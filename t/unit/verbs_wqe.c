/* what: Work queue entries have mlx5's bytes. Reading gives back the written fields, also around a
 *       ring's end. Malformed entries are refused. No byte outside of a ring is ever read.
 * needs: tsan-ok
 * source: bytes that rdma-core's libmlx5 writes, infiniband/mlx5dv.h where it is installed, DPDK's
 * and DOCA's WAIT and
 *         SEND_EN; seeded model test */
#include <sys/mman.h>
#include "base/checks.h"
#include "base/rng.h"
#include "t/tap.h"
#include "t/unit/hex_bytes.h"
#include "verbs_backend/wqe.h"
#ifdef PGAS_HAVE_MLX5DV
#include <infiniband/mlx5dv.h>
#endif

#define ENTRY_MAX (PGASI_WQE_SEGMENTS_MAX * PGASI_WQE_SEGMENT)
#define RING_MAX  65536

static const uint8_t all_ops[] = { PGASI_WQE_NOP,     PGASI_WQE_WRITE,    PGASI_WQE_WRITE_IMM,
                                   PGASI_WQE_SEND,    PGASI_WQE_SEND_IMM, PGASI_WQE_WAIT,
                                   PGASI_WQE_READ,    PGASI_WQE_CSWAP,    PGASI_WQE_FADD,
                                   PGASI_WQE_RECV_EN, PGASI_WQE_SEND_EN };

/* The expected fields of an entry, as the decoder gives them, and the bytes after it. */
typedef struct {
    pgasi_wqe_t wqe;
    uint32_t block;
    pgasi_wqe_span_t spans[PGASI_WQE_SEGMENTS_MAX];
    unsigned char text[ENTRY_MAX];
} entry_t;

static bool has_remote(uint8_t op)
{
    return op == PGASI_WQE_WRITE || op == PGASI_WQE_WRITE_IMM || op == PGASI_WQE_READ ||
           op == PGASI_WQE_CSWAP || op == PGASI_WQE_FADD;
}

static bool is_atomic(uint8_t op)
{
    return op == PGASI_WQE_CSWAP || op == PGASI_WQE_FADD;
}

static bool is_enable(uint8_t op)
{
    return op == PGASI_WQE_WAIT || op == PGASI_WQE_SEND_EN || op == PGASI_WQE_RECV_EN;
}

/* The bytes of an entry, by our functions. @return how many */
static size_t write_ours(const entry_t *e, unsigned char *out)
{
    const pgasi_wqe_t *w = &e->wqe;
    unsigned char *at = out + PGASI_WQE_SEGMENT;
    memset(out, 0, ENTRY_MAX);
    pgasi_wqe_set_ctrl((void *)out, e->block, w->op, w->qpn, w->segments, w->flags, w->imm);
    if (has_remote(w->op)) {
        pgasi_wqe_set_raddr((void *)at, w->remote_addr, w->rkey);
        at += PGASI_WQE_SEGMENT;
    }
    if (is_atomic(w->op)) {
        pgasi_wqe_set_atomic((void *)at, w->operand, w->compare);
        at += PGASI_WQE_SEGMENT;
    }
    if (is_enable(w->op)) {
        pgasi_wqe_set_enable((void *)at, w->index, w->number);
        at += PGASI_WQE_SEGMENT;
    }
    for (unsigned i = 0; i < w->n_data; i++, at += PGASI_WQE_SEGMENT)
        pgasi_wqe_set_data((void *)at, e->spans[i].addr, e->spans[i].bytes, e->spans[i].lkey);
    if (w->is_inline) {
        uint32_t word = htobe32(w->inline_bytes | PGASI_WQE_INLINE);
        memcpy(at, &word, 4);
        memcpy(at + 4, e->text, w->inline_bytes);
        at += pgasi_wqe_inline_segments(w->inline_bytes) * PGASI_WQE_SEGMENT;
    }
    return (size_t)(at - out);
}

/* A valid entry at random. */
static void choose(pgasi_rng_t *rng, entry_t *e)
{
    unsigned fixed = 1;
    *e = (entry_t){ .block = (uint32_t)pgasi_rng_u64(rng) };
    pgasi_wqe_t *w = &e->wqe;
    w->op = all_ops[pgasi_rng_below(rng, PGASI_ARRAY_LENGTH(all_ops))];
    w->flags = (uint8_t)pgasi_rng_u64(rng);
    w->qpn = (uint32_t)pgasi_rng_below(rng, 1u << 24);
    w->imm = (uint32_t)pgasi_rng_u64(rng);
    if (has_remote(w->op)) {
        w->remote_addr = pgasi_rng_u64(rng);
        w->rkey = (uint32_t)pgasi_rng_u64(rng);
        fixed++;
    }
    if (is_atomic(w->op)) {
        w->operand = pgasi_rng_u64(rng);
        w->compare = pgasi_rng_u64(rng);
        fixed++;
    }
    if (is_enable(w->op)) {
        w->index = (uint32_t)pgasi_rng_u64(rng);
        w->number = (uint32_t)pgasi_rng_below(rng, 1u << 24);
        fixed++;
    }
    unsigned room = PGASI_WQE_SEGMENTS_MAX - fixed, payload = 0;
    bool may_inline = !is_atomic(w->op) && w->op != PGASI_WQE_READ;
    if (is_atomic(w->op)) {
        w->n_data = payload = 1;
    } else if (w->op != PGASI_WQE_NOP && !is_enable(w->op) && may_inline &&
               pgasi_rng_below(rng, 2)) {
        w->is_inline = true;
        w->inline_bytes =
            (uint32_t)pgasi_rng_below(rng,
                                      pgasi_rng_below(rng, 2) ? 64 : room * PGASI_WQE_SEGMENT - 3);
        w->inline_at = fixed * PGASI_WQE_SEGMENT + 4;
        payload = pgasi_wqe_inline_segments(w->inline_bytes);
        for (uint32_t i = 0; i < w->inline_bytes; i++)
            e->text[i] = (unsigned char)pgasi_rng_u64(rng);
    } else if (w->op != PGASI_WQE_NOP && !is_enable(w->op)) {
        w->n_data = payload =
            (unsigned)pgasi_rng_below(rng, pgasi_rng_below(rng, 2) ? 6 : room + 1);
    }
    if (w->n_data)
        w->data_at = fixed;
    for (unsigned i = 0; i < w->n_data; i++) {
        uint32_t bytes = 1 + (uint32_t)(pgasi_rng_u64(rng) >> (34 + pgasi_rng_below(rng, 30)));
        e->spans[i] = (pgasi_wqe_span_t){ pgasi_rng_u64(rng), bytes, (uint32_t)pgasi_rng_u64(rng) };
    }
    w->segments = (uint8_t)(fixed + payload);
}

static bool same(const pgasi_wqe_t *a, const pgasi_wqe_t *b)
{
    return a->op == b->op && a->opmod == b->opmod && a->flags == b->flags &&
           a->segments == b->segments && a->qpn == b->qpn && a->imm == b->imm &&
           a->remote_addr == b->remote_addr && a->rkey == b->rkey && a->operand == b->operand &&
           a->compare == b->compare && a->index == b->index && a->number == b->number &&
           a->is_inline == b->is_inline && a->inline_bytes == b->inline_bytes &&
           a->inline_at == b->inline_at && a->n_data == b->n_data && a->data_at == b->data_at;
}

/* Whether the ring holds this entry at its block, as the decoder sees it. */
static bool reads_back(const unsigned char *ring, size_t ring_bytes, const entry_t *e)
{
    pgasi_wqe_t got;
    if (!pgasi_wqe_decode(ring, ring_bytes, e->block, &got) || !same(&got, &e->wqe))
        return false;
    for (unsigned i = 0; i < got.n_data; i++) {
        pgasi_wqe_span_t span = pgasi_wqe_data(ring, ring_bytes, e->block, &got, i);
        if (span.addr != e->spans[i].addr || span.bytes != e->spans[i].bytes ||
            span.lkey != e->spans[i].lkey)
            return false;
    }
    unsigned char text[ENTRY_MAX];
    pgasi_wqe_copy_out(ring, ring_bytes, (size_t)e->block * PGASI_WQE_BB + got.inline_at, text,
                       got.inline_bytes);
    return memcmp(text, e->text, got.inline_bytes) == 0;
}

/* ---- golden bytes ---- */

typedef struct {
    const char *name, *hex;
    entry_t entry;
} golden_t;

static const golden_t golden[] = {
    { "NOP",
      "00123400 abcdef01 00000008 00000000",
      { { .op = PGASI_WQE_NOP, .qpn = 0xabcdef, .segments = 1, .flags = PGASI_WQE_SIGNAL },
        .block = 0x1234 } },
    { "WAIT",
      "0012340f abcdef02 00000008 00000000  00000000 00000000 00fffffe 00000056",
      { { .op = PGASI_WQE_WAIT,
          .qpn = 0xabcdef,
          .segments = 2,
          .flags = PGASI_WQE_SIGNAL,
          .index = 0xfffffe,
          .number = 0x56 },
        .block = 0x1234 } },
    { "SEND_EN",
      "00ffff17 00000702 00000020 00000000  00000000 00000000 00010203 00abcdef",
      { { .op = PGASI_WQE_SEND_EN,
          .qpn = 7,
          .segments = 2,
          .flags = PGASI_WQE_FENCE_SMALL,
          .index = 0x10203,
          .number = 0xabcdef },
        .block = 0x5ffff } },
    { "RECV_EN",
      "00000016 00000702 00000000 00000000  00000000 00000000 00006fff 00000009",
      { { .op = PGASI_WQE_RECV_EN, .qpn = 7, .segments = 2, .index = 0x6fff, .number = 9 },
        .block = 0 } },
    { "SEND of two spans",
      "0001000a 00004203 00000002 00000000  00000010 00001122 01020304 05060708"
      "  7fffffff ffffffff 00000000 00000040",
      { { .op = PGASI_WQE_SEND,
          .qpn = 0x42,
          .segments = 3,
          .flags = PGASI_WQE_SOLICITED,
          .n_data = 2,
          .data_at = 1 },
        .block = 0xa0100,
        .spans = { { 0x0102030405060708, 16, 0x1122 }, { 0x40, 0x7fffffff, 0xffffffff } } } },
    { "WRITE",
      "00000208 00001103 00000088 00000000  7fffffff fff01000 89abcdef 00000000"
      "  00000400 00000301 00007f00 deadbe00",
      { { .op = PGASI_WQE_WRITE,
          .qpn = 0x11,
          .segments = 3,
          .flags = PGASI_WQE_SIGNAL | PGASI_WQE_FENCE,
          .remote_addr = 0x7ffffffffff01000,
          .rkey = 0x89abcdef,
          .n_data = 1,
          .data_at = 2 },
        .block = 2,
        .spans = { { 0x7f00deadbe00, 0x400, 0x301 } } } },
    { "WRITE_IMM, inline",
      "00000309 00001103 0000000a c0ffee01  00000000 00001000 00000303 00000000"
      "  80000005 68656c6c 6f000000 00000000",
      { { .op = PGASI_WQE_WRITE_IMM,
          .qpn = 0x11,
          .segments = 3,
          .flags = PGASI_WQE_SIGNAL | PGASI_WQE_SOLICITED,
          .imm = 0xc0ffee01,
          .remote_addr = 0x1000,
          .rkey = 0x303,
          .is_inline = true,
          .inline_bytes = 5,
          .inline_at = 36 },
        .block = 3,
        .text = "hello" } },
    { "SEND_IMM",
      "0000040b 00001102 00000000 00000007  00000001 00000101 00000000 00000001",
      { { .op = PGASI_WQE_SEND_IMM,
          .qpn = 0x11,
          .segments = 2,
          .imm = 7,
          .n_data = 1,
          .data_at = 1 },
        .block = 4,
        .spans = { { 1, 1, 0x101 } } } },
    { "READ of 2 GiB",
      "00000510 00001103 00000008 00000000  00000000 00002000 00000303 00000000"
      "  00000000 00000301 00000000 00003000",
      { { .op = PGASI_WQE_READ,
          .qpn = 0x11,
          .segments = 3,
          .flags = PGASI_WQE_SIGNAL,
          .remote_addr = 0x2000,
          .rkey = 0x303,
          .n_data = 1,
          .data_at = 2 },
        .block = 5,
        .spans = { { 0x3000, 0x80000000u, 0x301 } } } },
    { "CSWAP",
      "00000611 00001104 00000008 00000000  00000000 00002008 00000303 00000000"
      "  11223344 55667788 99aabbcc ddeeff00  00000008 00000301 00000000 00003000",
      { { .op = PGASI_WQE_CSWAP,
          .qpn = 0x11,
          .segments = 4,
          .flags = PGASI_WQE_SIGNAL,
          .remote_addr = 0x2008,
          .rkey = 0x303,
          .operand = 0x1122334455667788,
          .compare = 0x99aabbccddeeff00,
          .n_data = 1,
          .data_at = 3 },
        .block = 6,
        .spans = { { 0x3000, 8, 0x301 } } } },
    { "FADD",
      "00000712 00001104 00000008 00000000  00000000 00002008 00000303 00000000"
      "  ffffffff ffffffff 00000000 00000000  00000008 00000301 00000000 00003000",
      { { .op = PGASI_WQE_FADD,
          .qpn = 0x11,
          .segments = 4,
          .flags = PGASI_WQE_SIGNAL,
          .remote_addr = 0x2008,
          .rkey = 0x303,
          .operand = UINT64_MAX,
          .n_data = 1,
          .data_at = 3 },
        .block = 7,
        .spans = { { 0x3000, 8, 0x301 } } } },
};

static void entries_are_golden(void)
{
    for (size_t i = 0; i < PGASI_ARRAY_LENGTH(golden); i++) {
        unsigned char want[ENTRY_MAX], got[ENTRY_MAX], ring[256];
        size_t n = from_hex(golden[i].hex, want), n_got = write_ours(&golden[i].entry, got);
        memset(ring, 0, sizeof ring);
        pgasi_wqe_copy_in(ring, sizeof ring, (size_t)golden[i].entry.block * PGASI_WQE_BB, want, n);
        ok(n == n_got && memcmp(want, got, n) == 0 &&
               reads_back(ring, sizeof ring, &golden[i].entry),
           "%s, written and read", golden[i].name);
    }
}

/* ---- written and read again ---- */

static int n_not_read_back(uint64_t seed, bool spoil)
{
    static unsigned char ring[RING_MAX];
    pgasi_rng_t rng;
    int n_bad = 0;
    pgasi_rng_seed(&rng, seed);
    for (int i = 0; i < 20000; i++) {
        entry_t e;
        unsigned char bytes[ENTRY_MAX];
        choose(&rng, &e);
        size_t n = write_ours(&e, bytes), ring_bytes = 1024u << pgasi_rng_below(&rng, 7);
        if (pgasi_rng_below(&rng, 4) == 0)
            e.block = (uint32_t)(0 - pgasi_rng_below(&rng, 16)); /* around the end */
        for (size_t k = 0; k < ring_bytes; k += 8)
            memset(ring + k, 0xa5, 8);
        pgasi_wqe_copy_in(ring, ring_bytes, (size_t)e.block * PGASI_WQE_BB, bytes, n);
        if (spoil)
            ring[((size_t)e.block * PGASI_WQE_BB + pgasi_rng_below(&rng, n)) % ring_bytes] ^=
                (unsigned char)(1 + pgasi_rng_below(&rng, 255));
        n_bad += !reads_back(ring, ring_bytes, &e);
    }
    return n_bad;
}

static void copies_go_around_the_end(uint64_t seed)
{
    unsigned char ring[256], plain[256], text[256];
    pgasi_rng_t rng;
    int n_bad = 0;
    pgasi_rng_seed(&rng, seed);
    for (int i = 0; i < 5000; i++) {
        size_t at = pgasi_rng_below(&rng, 100000), n = pgasi_rng_below(&rng, sizeof ring + 1);
        for (size_t k = 0; k < sizeof ring; k++)
            ring[k] = plain[k] = (unsigned char)pgasi_rng_u64(&rng);
        for (size_t k = 0; k < n; k++)
            text[k] = plain[(at + k) % sizeof ring] = (unsigned char)pgasi_rng_u64(&rng);
        pgasi_wqe_copy_in(ring, sizeof ring, at, text, n);
        n_bad += memcmp(ring, plain, sizeof ring) != 0;
        memset(text, 0, sizeof text);
        pgasi_wqe_copy_out(ring, sizeof ring, at, text, n);
        for (size_t k = 0; k < n; k++)
            n_bad += text[k] != plain[(at + k) % sizeof ring];
    }
    is_int(n_bad, 0, "copies into and out of a ring");
}

/* ---- refusals ---- */

typedef struct {
    const char *why;
    uint8_t op;
    unsigned segments, first, word; /* a 32-bit word of this value in segment `first`, 0: none */
    size_t ring_bytes;
    bool good;
} form_t;

static const form_t forms[] = {
    { "no segments", PGASI_WQE_NOP, 0, 0, 0, 1024, false },
    { "longer than the ring", PGASI_WQE_SEND, 5, 0, 0, 64, false },
    { "as long as the ring", PGASI_WQE_SEND, 4, 0, 0, 64, true },
    { "the longest NOP", PGASI_WQE_NOP, 63, 0, 0, 1024, true },
    { "a SEND of nothing", PGASI_WQE_SEND, 1, 0, 0, 1024, true },
    { "a WRITE without its address", PGASI_WQE_WRITE, 1, 0, 0, 1024, false },
    { "a WRITE_IMM without its address", PGASI_WQE_WRITE_IMM, 1, 0, 0, 1024, false },
    { "a READ without its address", PGASI_WQE_READ, 1, 0, 0, 1024, false },
    { "a WRITE of nothing", PGASI_WQE_WRITE, 2, 0, 0, 1024, true },
    { "a READ of nothing", PGASI_WQE_READ, 2, 0, 0, 1024, true },
    { "an inline READ", PGASI_WQE_READ, 3, 2, PGASI_WQE_INLINE | 4, 1024, false },
    { "a SEND with inline data that fill it", PGASI_WQE_SEND, 3, 1, PGASI_WQE_INLINE | 28, 1024,
      true },
    { "a SEND with a byte of inline data too many", PGASI_WQE_SEND, 3, 1, PGASI_WQE_INLINE | 29,
      1024, false },
    { "a SEND with 2 GiB of inline data", PGASI_WQE_SEND, 3, 1, UINT32_MAX, 1024, false },
    { "a WRITE with inline data that fill it", PGASI_WQE_WRITE, 3, 2, PGASI_WQE_INLINE | 12, 1024,
      true },
    { "a WRITE with a byte of inline data too many", PGASI_WQE_WRITE, 3, 2, PGASI_WQE_INLINE | 13,
      1024, false },
    { "a CSWAP", PGASI_WQE_CSWAP, 4, 3, 8, 1024, true },
    { "a CSWAP without result", PGASI_WQE_CSWAP, 3, 0, 0, 1024, false },
    { "a CSWAP with two results", PGASI_WQE_CSWAP, 5, 3, 8, 1024, false },
    { "an inline CSWAP", PGASI_WQE_CSWAP, 4, 3, PGASI_WQE_INLINE | 8, 1024, false },
    { "a FADD without operands", PGASI_WQE_FADD, 2, 0, 0, 1024, false },
    { "a FADD with two results", PGASI_WQE_FADD, 5, 3, 8, 1024, false },
    { "an inline FADD", PGASI_WQE_FADD, 4, 3, PGASI_WQE_INLINE | 8, 1024, false },
    { "a WAIT", PGASI_WQE_WAIT, 2, 0, 0, 1024, true },
    { "a WAIT for nothing", PGASI_WQE_WAIT, 1, 0, 0, 1024, false },
    { "a WAIT too long", PGASI_WQE_WAIT, 3, 0, 0, 1024, false },
    { "a SEND_EN of nothing", PGASI_WQE_SEND_EN, 1, 0, 0, 1024, false },
    { "a SEND_EN too long", PGASI_WQE_SEND_EN, 3, 0, 0, 1024, false },
    { "a RECV_EN of nothing", PGASI_WQE_RECV_EN, 1, 0, 0, 1024, false },
    { "a RECV_EN too long", PGASI_WQE_RECV_EN, 4, 0, 0, 1024, false },
};

static void what_makes_no_sense_is_refused(void)
{
    unsigned char ring[1024];
    pgasi_wqe_t wqe;
    for (size_t i = 0; i < PGASI_ARRAY_LENGTH(forms); i++) {
        const form_t *f = &forms[i];
        memset(ring, 0, sizeof ring);
        pgasi_wqe_set_ctrl((void *)ring, 0, f->op, 1, f->segments, 0, 0);
        if (f->first) {
            uint32_t word = htobe32(f->word);
            memcpy(ring + f->first * PGASI_WQE_SEGMENT, &word, 4);
        }
        bool good = pgasi_wqe_decode(ring, f->ring_bytes, 0, &wqe);
        bool fits = f->segments > 0 && f->segments * PGASI_WQE_SEGMENT <= f->ring_bytes;
        ok(good == f->good && wqe.op == f->op && wqe.segments == (fits ? f->segments : 0), "%s: %s",
           f->why, f->good ? "taken" : "refused");
    }
}

static void unknown_opcodes_are_refused(void)
{
    unsigned char ring[1024] = { 0 };
    int n_bad = 0;
    for (unsigned op = 0; op < 256; op++) {
        pgasi_wqe_t wqe;
        bool known = memchr(all_ops, (int)op, sizeof all_ops) != NULL, taken = false;
        for (unsigned segments = 1; segments <= PGASI_WQE_SEGMENTS_MAX; segments++) {
            pgasi_wqe_set_ctrl((void *)ring, 0, op, 1, segments, 0, 0);
            taken |= pgasi_wqe_decode(ring, sizeof ring, 0, &wqe);
            n_bad += wqe.op != op || wqe.segments != segments;
        }
        n_bad += taken != known;
    }
    is_int(n_bad, 0, "of 256 opcodes eleven are known");
}

/* ---- nothing outside ---- */

/* Touches all that the decoder says is there. */
static uint64_t sum_of(const unsigned char *ring, size_t ring_bytes, uint32_t block)
{
    static unsigned char text[ENTRY_MAX];
    pgasi_wqe_t wqe;
    uint64_t sum = 0;
    if (!pgasi_wqe_decode(ring, ring_bytes, block, &wqe))
        return 0;
    for (unsigned k = 0; k < wqe.n_data; k++)
        sum += pgasi_wqe_data(ring, ring_bytes, block, &wqe, k).addr;
    pgasi_wqe_copy_out(ring, ring_bytes, (size_t)block * PGASI_WQE_BB + wqe.inline_at, text,
                       wqe.inline_bytes);
    return sum + text[0];
}

/* A ring between two pages that must not be touched: at the end of its page, then at the start. */
static void rings_end_where_they_end(uint64_t seed)
{
    size_t page = (size_t)sysconf(_SC_PAGESIZE);
    unsigned char *room =
        mmap(NULL, 3 * page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    pgasi_rng_t rng;
    uint64_t sum = 0;
    int n_good = 0;
    mprotect(room, page, PROT_NONE);
    mprotect(room + 2 * page, page, PROT_NONE);
    pgasi_rng_seed(&rng, seed);
    for (int i = 0; i < 100000; i++) {
        /* to a page of 4096 */
        size_t ring_bytes = (size_t)PGASI_WQE_BB << pgasi_rng_below(&rng, 7);
        unsigned char *ring = i % 2 ? room + page : room + 2 * page - ring_bytes;
        uint32_t block = (uint32_t)pgasi_rng_u64(&rng);
        pgasi_wqe_t wqe;
        for (size_t k = 0; k < ring_bytes; k += PGASI_WQE_BB) {
            uint64_t word = pgasi_rng_u64(&rng);
            memcpy(ring + k + word % 8 * 8, &word, 8);
        }
        uint8_t op = pgasi_rng_below(&rng, 8) ? all_ops[pgasi_rng_below(&rng, sizeof all_ops)]
                                              : (uint8_t)pgasi_rng_u64(&rng);
        unsigned char *at = ring + ((size_t)block * PGASI_WQE_BB & (ring_bytes - 1));
        pgasi_wqe_set_ctrl((void *)at, 0, op, 1, (unsigned)pgasi_rng_below(&rng, 64), 0, 0);
        uint32_t word = htobe32(PGASI_WQE_INLINE | (uint32_t)pgasi_rng_below(&rng, ENTRY_MAX));
        if (pgasi_rng_below(&rng, 2))
            memcpy(ring +
                       ((size_t)(at - ring) + PGASI_WQE_SEGMENT * (1 + pgasi_rng_below(&rng, 2))) %
                           ring_bytes,
                   &word, 4);
        n_good += pgasi_wqe_decode(ring, ring_bytes, block, &wqe);
        sum += sum_of(ring, ring_bytes, block);
    }
    munmap(room, 3 * page);
    diag("sum %" PRIu64, sum);
    ok(n_good > 10000 && n_good < 90000,
       "100000 entries, many of them senseless, between forbidden pages (%d taken)", n_good);
}

/* ---- against mlx5dv.h ---- */

#ifdef PGAS_HAVE_MLX5DV
/* The bytes of an entry, by mlx5dv's functions and structs. */
static size_t write_theirs(const entry_t *e, unsigned char *out)
{
    const pgasi_wqe_t *w = &e->wqe;
    unsigned char *at = out + sizeof(struct mlx5_wqe_ctrl_seg);
    memset(out, 0, ENTRY_MAX);
    mlx5dv_set_ctrl_seg((void *)out, (uint16_t)e->block, w->op, 0, w->qpn, w->flags, w->segments, 0,
                        htobe32(w->imm));
    if (has_remote(w->op)) {
        struct mlx5_wqe_raddr_seg raddr = { htobe64(w->remote_addr), htobe32(w->rkey), 0 };
        memcpy(at, &raddr, sizeof raddr);
        at += sizeof raddr;
    }
    if (is_atomic(w->op)) {
        struct mlx5_wqe_atomic_seg atomic = { htobe64(w->operand), htobe64(w->compare) };
        memcpy(at, &atomic, sizeof atomic);
        at += sizeof atomic;
    }
    /* they have none; DPDK's struct mlx5_wqe_qseg: two words, then index and number */
    if (is_enable(w->op)) {
        uint32_t words[4] = { 0, 0, htobe32(w->index), htobe32(w->number) };
        memcpy(at, words, sizeof words);
        at += sizeof words;
    }
    for (unsigned i = 0; i < w->n_data; i++, at += sizeof(struct mlx5_wqe_data_seg))
        mlx5dv_set_data_seg((void *)at, e->spans[i].bytes, e->spans[i].lkey,
                            (uintptr_t)e->spans[i].addr);
    if (w->is_inline) {
        struct mlx5_wqe_inl_data_seg head = { htobe32(w->inline_bytes | MLX5_INLINE_SEG) };
        memcpy(at, &head, sizeof head);
        memcpy(at + sizeof head, e->text, w->inline_bytes);
        at += (sizeof head + w->inline_bytes + 15) / 16 * 16;
    }
    return (size_t)(at - out);
}

static int n_unlike_theirs(uint64_t seed, bool spoil)
{
    pgasi_rng_t rng;
    int n_bad = 0;
    pgasi_rng_seed(&rng, seed);
    for (int i = 0; i < 20000; i++) {
        entry_t e;
        unsigned char ours[ENTRY_MAX], theirs[ENTRY_MAX];
        choose(&rng, &e);
        size_t n = write_ours(&e, ours);
        e.wqe.rkey += spoil;
        n_bad += write_theirs(&e, theirs) != n || memcmp(ours, theirs, n) != 0;
    }
    return n_bad;
}

static const struct {
    unsigned ours, theirs;
} constants[] = {
    { PGASI_WQE_NOP, MLX5_OPCODE_NOP },
    { PGASI_WQE_WRITE, MLX5_OPCODE_RDMA_WRITE },
    { PGASI_WQE_WRITE_IMM, MLX5_OPCODE_RDMA_WRITE_IMM },
    { PGASI_WQE_SEND, MLX5_OPCODE_SEND },
    { PGASI_WQE_SEND_IMM, MLX5_OPCODE_SEND_IMM },
    { PGASI_WQE_READ, MLX5_OPCODE_RDMA_READ },
    { PGASI_WQE_CSWAP, MLX5_OPCODE_ATOMIC_CS },
    { PGASI_WQE_FADD, MLX5_OPCODE_ATOMIC_FA },
    { PGASI_WQE_BB, MLX5_SEND_WQE_BB },
    { PGASI_WQE_INLINE, MLX5_INLINE_SEG },
    { PGASI_WQE_LKEY_END, MLX5_INVALID_LKEY },
    { PGASI_WQE_SIGNAL, MLX5_WQE_CTRL_CQ_UPDATE },
    { PGASI_WQE_SOLICITED, MLX5_WQE_CTRL_SOLICITED },
    { PGASI_WQE_FENCE, MLX5_WQE_CTRL_FENCE },
    { PGASI_WQE_FENCE_SMALL, MLX5_WQE_CTRL_INITIATOR_SMALL_FENCE },
};

static void bytes_are_those_of_mlx5dv(uint64_t seed)
{
    int n_bad = 0;
    for (size_t i = 0; i < PGASI_ARRAY_LENGTH(constants); i++) {
        if (constants[i].ours != constants[i].theirs)
            diag("constant %zu: %u, theirs is %u", i, constants[i].ours, constants[i].theirs);
        n_bad += constants[i].ours != constants[i].theirs;
    }
    is_int(n_bad, 0, "constants are those of mlx5dv.h");
    is_int(n_unlike_theirs(seed, false), 0, "20000 entries at random have mlx5dv's bytes");
    ok(n_unlike_theirs(seed, true) > 5000, "another key is noticed (broken on purpose)");
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
    plan((int)(PGASI_ARRAY_LENGTH(golden) + PGASI_ARRAY_LENGTH(forms)) + 8);
    uint64_t seed = tap_seed(6);
    entries_are_golden();
    is_int(n_not_read_back(seed, false), 0,
           "20000 entries at random are read as they were written, around the ring's end too");
    ok(n_not_read_back(seed, true) > 10000,
       "a byte that was changed is mostly noticed (broken on purpose)");
    copies_go_around_the_end(seed);
    what_makes_no_sense_is_refused();
    unknown_opcodes_are_refused();
    rings_end_where_they_end(seed);
    bytes_are_those_of_mlx5dv(seed);
    return done();
}
