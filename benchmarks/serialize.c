/* Measures the time to save and load one record, by archives (pgas/archive.h) and by other
 * libraries. It is one process without MPI. Every operation changes two values and checks them
 * after loading. Every run ends with a comparison of the whole loaded record, outside of the
 * measured time.
 *
 * Source of the record: the comparison cpp-serializers. */
#include "benchmarks/bench.h"
#include "benchmarks/serialize.h"

#include <string.h>

/* Numbers use all 64 bits: formats that shorten small numbers have no advantage and no burden. */
static serialize_record_t record, copy;

static void make_record(void)
{
    uint64_t state = bench_seed(0);
    for (size_t i = 0; i < SERIALIZE_NUMBERS; i++)
        record.number[i] = (int64_t)bench_random(&state);
    for (size_t i = 0; i < SERIALIZE_TEXTS; i++)
        for (size_t k = 0; k < SERIALIZE_TEXT_BYTES; k++)
            record.text[i][k] = (char)('a' + bench_random_below(&state, 26));
}

/* Every library makes the same changes: the number of the operation. */
static void check_record(const serialize_peer_t *peer, uint64_t n)
{
    record.number[0] = (int64_t)(n - 1);
    record.text[SERIALIZE_TEXTS - 1][SERIALIZE_TEXT_BYTES - 1] = (char)(n - 1);
    memset(&copy, 0, sizeof copy);
    if (!peer->read(&copy) || memcmp(&copy, &record, sizeof copy) != 0)
        bench_die("a loaded record is not the one that was saved");
}

static double time_peer(const serialize_peer_t *peer, uint64_t n)
{
    uint64_t begin = bench_now(), n_wrong = peer->run(n);
    double ns = bench_since(begin);
    if (n_wrong > 0)
        bench_die("%llu loaded records are wrong", (unsigned long long)n_wrong);
    check_record(peer, n);
    return ns;
}

/* ---- the serializers ---- */

#define LOOP(NAME)                                       \
    static double run_##NAME(const bench_run_t *run)     \
    {                                                    \
        return time_peer(&serialize_##NAME, run->iters); \
    }
LOOP(in_place)
LOOP(packed)
LOOP(memcpy)
LOOP(limit_in_place)
LOOP(limit_packed)
LOOP(protobuf_c)
LOOP(nanopb)
LOOP(msgpack)
LOOP(libcbor)
LOOP(flatbuffers)
LOOP(capnproto)
LOOP(cereal)
LOOP(boost)

/* ---- serializers that do not work, for the test of the checks ---- */

static serialize_record_t before, now;

static void broken_open(const serialize_record_t *from)
{
    before = now = *from;
}

static size_t broken_bytes(void)
{
    return sizeof now;
}

/* Loads the record of the operation before. */
static uint64_t late_run(uint64_t n)
{
    uint64_t n_wrong = 0;
    for (uint64_t i = 0; i < n; i++) {
        now.number[0] = (int64_t)i;
        n_wrong += before.number[0] != (int64_t)i;
        before = now;
    }
    return n_wrong;
}

/* Changes one string. */
static uint64_t other_run(uint64_t n)
{
    now.number[0] = (int64_t)(n - 1);
    now.text[0][SERIALIZE_TEXT_BYTES - 1] = '.';
    return 0;
}

static bool broken_read(serialize_record_t *record_p)
{
    *record_p = now;
    return true;
}

static const serialize_peer_t late = { broken_open, late_run, broken_read, broken_bytes };
static const serialize_peer_t other = { broken_open, other_run, broken_read, broken_bytes };

static double run_late(const bench_run_t *run)
{
    return time_peer(&late, run->iters);
}

static double run_other(const bench_run_t *run)
{
    return time_peer(&other, run->iters);
}

/* ---- the cases ---- */

enum { ZERO_COPY, PACKED, CASES, LATE = CASES, OTHER, ALL_CASES };

static const serialize_peer_t *const ours[ALL_CASES] = { &serialize_in_place, &serialize_packed,
                                                         &late, &other };
static const serialize_peer_t *const limit[CASES] = { &serialize_limit_in_place,
                                                      &serialize_limit_packed };
static const struct {
    const char *name;
    const serialize_peer_t *peer;
    bench_loop_fn_t loop;
} others[] = { { "memcpy", &serialize_memcpy, run_memcpy },
               { "protobuf-c", &serialize_protobuf_c, run_protobuf_c },
               { "nanopb", &serialize_nanopb, run_nanopb },
               { "msgpack-c", &serialize_msgpack, run_msgpack },
               { "libcbor", &serialize_libcbor, run_libcbor },
               { "flatbuffers", &serialize_flatbuffers, run_flatbuffers },
               { "capnproto", &serialize_capnproto, run_capnproto },
               { "cereal", &serialize_cereal, run_cereal },
               { "boost", &serialize_boost, run_boost } };
#define OTHERS (sizeof others / sizeof others[0])

static bench_case_t cases[ALL_CASES] = {
    [ZERO_COPY] = { .variant = "zero-copy",
                    .doc = "numbers stay in place, strings are read in place",
                    .paths = BENCH_ANYWHERE,
                    .metric = BENCH_LATENCY,
                    .ours = run_in_place,
                    .arg = ZERO_COPY,
                    .refs = { { "limit", BENCH_OURS, run_limit_in_place } } },
    [PACKED] = { .variant = "packed",
                 .doc = "everything is in the archive, and is loaded into one arena",
                 .paths = BENCH_ANYWHERE,
                 .metric = BENCH_LATENCY,
                 .ours = run_packed,
                 .arg = PACKED,
                 .refs = { { "limit", BENCH_OURS, run_limit_packed } } },
    [LATE] = { .variant = "late",
               .doc = "fails: a record is loaded too late",
               .paths = BENCH_ANYWHERE,
               .ours = run_late,
               .on_request = true },
    [OTHER] = { .variant = "other",
                .doc = "fails: the loaded record has another text",
                .paths = BENCH_ANYWHERE,
                .ours = run_other,
                .on_request = true }
};

static size_t archive_bytes(const bench_case_t *c, const char *against)
{
    if (!*against)
        return ours[c->arg]->bytes();
    for (size_t i = 0; i < OTHERS; i++)
        if (strcmp(against, others[i].name) == 0)
            return others[i].peer->bytes();
    return limit[c->arg]->bytes();
}

/* ---- the program ---- */

static void setup(void)
{
    make_record();
    for (int i = 0; i < ALL_CASES; i++)
        ours[i]->open(&record);
    for (int i = 0; i < CASES; i++)
        limit[i]->open(&record);
    for (size_t i = 0; i < OTHERS; i++)
        if (others[i].peer)
            others[i].peer->open(&record);
}

static const char *about(void)
{
    return "Record: 1000 numbers of 64 bits, 100 strings of 86 bytes";
}

static const bench_program_t program = { .name = "pgas_serialize",
                                         .doc = "time to save and load a record",
                                         .ranks = BENCH_ALONE,
                                         .label = "Time",
                                         .min_bytes = sizeof(serialize_record_t),
                                         .max_bytes = sizeof(serialize_record_t),
                                         BENCH_CASES(cases),
                                         .setup = setup,
                                         .about = about,
                                         .archive_bytes = archive_bytes,
                                         .compare = true,
                                         .paper_iters = 1000000 };

int main(int argc, char **argv)
{
    for (int c = 0; c < CASES; c++)
        for (size_t i = 0; i < OTHERS; i++)
            cases[c].refs[1 + i] = (bench_ref_t){ .name = others[i].name,
                                                  .kind = BENCH_OURS,
                                                  .loop = others[i].peer ? others[i].loop : NULL };
    return bench_main(&program, argc, argv);
}
