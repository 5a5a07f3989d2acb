/* what: Decompression gives the original bytes for any cut of the input, and refuses truncated and
 *       corrupt input. The table of labels gives the places of an array. The check accepts a header
 *       of the form BINARY only as it was written, for a file of its size. One changed word changes
 *       the sum of the contents.
 * source: src/graph/unpack.h, labels.h, binary.h; public headers; seeded model tests */
#include "base/checks.h"
#include "base/rng.h"
#include "graph/binary.h"
#include "graph/labels.h"
#include "graph/unpack.h"
#include "t/tap.h"

/* ---- compression: "0 1\n1 2\n" ---- */

static const uint8_t gzip[] = { 0x1f, 0x8b, 0x08, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x03,
                                0x33, 0x50, 0x30, 0xe4, 0x32, 0x54, 0x30, 0xe2, 0x02, 0x00,
                                0x6a, 0x1d, 0xbb, 0xd7, 0x08, 0x00, 0x00, 0x00 };
static const uint8_t zstd[] = { 0x28, 0xb5, 0x2f, 0xfd, 0x24, 0x08, 0x41, 0x00, 0x00, 0x30, 0x20,
                                0x31, 0x0a, 0x31, 0x20, 0x32, 0x0a, 0x50, 0xbb, 0xb4, 0x4b };
#define TEXT "0 1\n1 2\n"

#ifdef PGAS_HAVE_ZLIB
static const bool has_gzip = true;
#else
static const bool has_gzip = false;
#endif
#ifdef PGAS_HAVE_ZSTD
static const bool has_zstd = true;
#else
static const bool has_zstd = false;
#endif

/* Unpacks in pieces of `step` bytes into pieces of `room` bytes. */
static pgas_status_t unpack(pgasi_pack_t kind, const uint8_t *bytes, size_t n_bytes, size_t step,
                            size_t room, char *text)
{
    pgasi_graph_error_t error = { .status = PGAS_OK };
    pgasi_unpack_t u;
    size_t at = 0, used = 0, given = 1;
    pgas_status_t status = pgasi_unpack_init(&u, kind, &error);
    *text = '\0';
    while (status == PGAS_OK && (at < n_bytes || given > 0)) {
        char out[64];
        size_t n = PGASI_MIN(step, n_bytes - at);
        status =
            pgasi_unpack_run(&u, (const char *)bytes + at, n, &used, out, room, &given, &error);
        if (status == PGAS_OK) {
            strncat(text, out, given);
            at += used;
        }
    }
    if (status == PGAS_OK)
        status = pgasi_unpack_finish(&u, &error);
    pgasi_unpack_fini(&u);
    return status;
}

static void unpacks(pgasi_pack_t kind, const uint8_t *bytes, size_t n_bytes, bool has)
{
    const char *name = kind == PGASI_PACK_GZIP ? "gzip" : "zstd";
    char text[200];
    uint8_t changed[200];
    int n_bad = 0;
    if (!has) {
        is_int(unpack(kind, bytes, n_bytes, 5, 5, text), PGAS_ERR_UNSUPPORTED,
               "%s: not in this build", name);
        for (int i = 0; i < 3; i++)
            ok(true, "%s # SKIP the build has no library for it", name);
        return;
    }
    for (size_t step = 1; step <= n_bytes; step++)
        for (size_t room = 1; room < 10; room++)
            n_bad += unpack(kind, bytes, n_bytes, step, room, text) != PGAS_OK ||
                     strcmp(text, TEXT) != 0;
    is_int(n_bad, 0, "%s: in pieces of any size", name);
    n_bad = 0;
    for (size_t n = 1; n < n_bytes; n++)
        n_bad += unpack(kind, bytes, n, 7, 3, text) != PGAS_ERR_FORMAT;
    is_int(n_bad, 0, "%s: cut anywhere, it is refused", name);
    memcpy(changed, bytes, n_bytes);
    memcpy(changed + n_bytes, bytes, n_bytes);
    ok(unpack(kind, changed, 2 * n_bytes, 11, 9, text) == PGAS_OK && !strcmp(text, TEXT TEXT),
       "%s: one behind another", name);
    changed[n_bytes - 2] ^= 1;
    is_int(unpack(kind, changed, n_bytes, 11, 9, text), PGAS_ERR_FORMAT, "%s: one changed bit",
           name);
}

static void kinds(void)
{
    ok(pgasi_unpack_kind((const char *)gzip, 4) == PGASI_PACK_GZIP &&
           pgasi_unpack_kind((const char *)zstd, 4) == PGASI_PACK_ZSTD &&
           pgasi_unpack_kind((const char *)zstd, 3) == PGASI_PACK_NONE &&
           pgasi_unpack_kind(TEXT, 4) == PGASI_PACK_NONE && pgasi_unpack_kind("", 0) == 0,
       "the first bytes say how they are compressed");
}

/* ---- labels ---- */

#define N_LABELS 3000

static int run_labels(uint64_t seed, bool break_it)
{
    static uint64_t model[N_LABELS];
    uint64_t label[PGASI_LABELS_BATCH];
    uint32_t place[PGASI_LABELS_BATCH], n_model = 0;
    int n_bad = 0;
    pgasi_labels_t labels;
    pgasi_rng_t rng;
    pgasi_rng_seed(&rng, seed);
    pgasi_labels_init(&labels);
    for (int step = 0; step < 300; step++) {
        size_t n = 1 + pgasi_rng_below(&rng, PGASI_LABELS_BATCH);
        for (size_t i = 0; i < n; i++) /* also 0 and 2^63-1 */
            label[i] = (uint64_t)INT64_MAX / (N_LABELS - 1) * pgasi_rng_below(&rng, N_LABELS);
        n_bad += pgasi_labels_add(&labels, label, n, place) != PGAS_OK;
        for (size_t i = 0; i < n; i++) {
            uint32_t at = 0;
            while (at < n_model && model[at] != label[i])
                at++;
            if (at == n_model)
                model[n_model++] = label[i];
            n_bad += place[i] != at || labels.label[at] != label[i];
        }
        model[0] ^= break_it && step == 200;
    }
    n_bad += labels.n != n_model;
    pgasi_labels_fini(&labels);
    return n_bad;
}

/* ---- BINARY ---- */

static pgasi_binary_header_t make_header(void)
{
    pgasi_binary_header_t header = { .version = PGASI_BINARY_VERSION,
                                     .order = PGASI_BINARY_ORDER,
                                     .n_vertices = 10,
                                     .n_edges = 33,
                                     .flags = PGASI_BINARY_LABELS | PGASI_BINARY_NAMES,
                                     .weight_type = PGAS_F32,
                                     .text_bytes = 7 };
    memcpy(header.magic, PGASI_BINARY_MAGIC, sizeof header.magic);
    header.header_sum = pgasi_binary_header_sum(&header);
    return header;
}

static pgas_status_t check(const pgasi_binary_header_t *header, uint64_t file_bytes,
                           const char *want)
{
    pgasi_graph_error_t error = { .status = PGAS_OK };
    pgasi_binary_map_t map;
    pgas_status_t status = pgasi_binary_check(header, file_bytes, &map, &error);
    return strstr(error.text, want) ? status : PGAS_ERR_INTERNAL;
}

static void headers(void)
{
    pgasi_binary_header_t header = make_header(), changed;
    pgasi_binary_map_t map;
    bool mapped = pgasi_binary_map(&header, INT64_MAX, &map);
    uint64_t size = map.file_bytes;
    ok(mapped && map.begin >= sizeof header && map.end >= map.begin + 11 * 8 &&
           map.weight >= map.end + 33 * 4 && map.label >= map.weight + 33 * 4 &&
           map.name >= map.label + 10 * 8 && map.text >= map.name + 10 * 8 && size == map.text + 7,
       "sections follow each other");
    is_int(check(&header, size, ""), PGAS_OK, "a header fits its file");
    ok(check(&header, size - 1, "truncated") == PGAS_ERR_FORMAT &&
           check(&header, size + 1, "bytes behind its end") == PGAS_ERR_FORMAT &&
           check(&header, 0, "truncated") == PGAS_ERR_FORMAT,
       "and no other");
    int n_bad = 0;
    for (size_t i = 0; i < sizeof header; i++) {
        changed = header;
        ((uint8_t *)&changed)[i] ^= 1;
        n_bad += check(&changed, size, "") != PGAS_ERR_FORMAT;
    }
    is_int(n_bad, 0, "each changed byte is noticed");
    static const uint64_t greats[] = { UINT32_MAX, UINT64_C(1) << 61, UINT64_C(1) << 62,
                                       UINT64_C(1) << 63, UINT64_MAX };
    n_bad = 0;
    for (size_t i = 0; i < 3 * sizeof greats / sizeof greats[0]; i++) {
        changed = header;
        *(i % 3 == 0   ? &changed.n_vertices
          : i % 3 == 1 ? &changed.n_edges
                       : &changed.text_bytes) = greats[i / 3];
        changed.header_sum = pgasi_binary_header_sum(&changed);
        n_bad += check(&changed, size, "") != PGAS_ERR_FORMAT;
    }
    is_int(n_bad, 0, "great numbers are refused");
}

static void sums(uint64_t seed)
{
    uint32_t words[500];
    int n_bad = 0;
    pgasi_rng_t rng;
    pgasi_rng_seed(&rng, seed);
    for (int i = 0; i < 500; i++)
        words[i] = (uint32_t)pgasi_rng_below(&rng, UINT64_C(1) << 32);
    uint64_t whole = pgasi_binary_sum(400, words, sizeof words);
    uint64_t text = pgasi_binary_sum_text(401, words, sizeof words);
    for (size_t cut = 0; cut <= 500; cut++) {
        n_bad += pgasi_binary_sum(400, words, 4 * cut) +
                     pgasi_binary_sum(400 + 4 * cut, words + cut, 4 * (500 - cut)) !=
                 whole;
        n_bad += pgasi_binary_sum_text(401, words, cut) +
                     pgasi_binary_sum_text(401 + cut, (char *)words + cut, sizeof words - cut) !=
                 text;
    }
    is_int(n_bad, 0, "sums of parts add up");
    for (int i = 0; i < 500; i++) {
        uint32_t flip = UINT32_C(1) << pgasi_rng_below(&rng, 32);
        words[i] ^= flip;
        n_bad += pgasi_binary_sum(400, words, sizeof words) == whole ||
                 pgasi_binary_sum_text(401, words, sizeof words) == text;
        words[i] ^= flip;
    }
    is_int(n_bad, 0, "each changed bit changes the sum");
}

int main(void)
{
    plan(18);
    uint64_t seed = tap_seed(20261129);
    kinds();
    unpacks(PGASI_PACK_GZIP, gzip, sizeof gzip, has_gzip);
    unpacks(PGASI_PACK_ZSTD, zstd, sizeof zstd, has_zstd);
    is_int(run_labels(seed, false), 0, "the table of labels");
    ok(run_labels(seed, true) > 0, "the comparison finds one changed label (broken on purpose)");
    headers();
    sums(seed);
    return done();
}
