/* what: Random values of described types, 10^6 with the nested ones, are loaded by malloc and into
 *       an arena and viewed as they were saved, with random thresholds, also from packed bytes.
 *       The size is the number of bytes written. A shortened or changed stream gives a value or an
 *       error. All memory and all objects are freed.
 * needs: tsan-ok
 * source: pgas/describe.h; comparisons written by hand (describe_oracle.h) */
#include "archive/archive.h"
#include "pgas/rma_object.h"
#include "t/tap.h"
#include "t/unit/describe_oracle.h"

#define N_OBJECTS 1000000
#define N_DAMAGED 4000

typedef enum { LOAD, LOAD_ARENA, VIEW, N_WAYS } way_t;

static pgas_arena_t arena = PGAS_ARENA_INIT;

static pgas_status_t read_one(way_t way, pgas_archive_t *in, all_t *v)
{
    if (way == VIEW)
        return pgas_view_all(in, v);
    return pgas_load_all(in, way == LOAD ? NULL : &arena, v);
}

static void give_back(way_t way, all_t *v)
{
    if (way == LOAD)
        pgas_free_all(v);
    else
        pgas_drop_all(v);
    if (way == LOAD_ARENA)
        (void)pgas_arena_clear(&arena);
}

static bool is_empty(const all_t *v)
{
    static const all_t zero;
    all_t listed = *v;
    listed.mine.hidden = NULL;
    return pgas_equal_all(&listed, &zero) && !v->n_gaps && !v->gap && !v->tree && !v->text &&
           !v->shape.label && !v->shape.n_words;
}

/* Reads what is in an archive, in one way, and compares it. */
static bool is_read(way_t way, pgas_archive_t *in, const all_t *want)
{
    all_t v;
    int mark;
    memset(&v, 0xab, sizeof v);
    v.mine.hidden = &mark;
    bool good = read_one(way, in, &v) == PGAS_OK && same_all(want, &v) && pgas_equal_all(want, &v);
    good = good && v.mine.hidden == &mark;
    good = good && in->get_at == in->get_end && in->depth == 0 && in->next_chunk == in->n_chunks;
    give_back(way, &v);
    return (void)pgas_archive_free(in), good && is_empty(&v) && v.mine.hidden == &mark;
}

static bool round_trip(const pgas_archive_t *out, const all_t *v)
{
    pgas_archive_t in;
    way_t way = (way_t)below(N_WAYS);
    if (below(2))
        return pgas_archive_from(out, &in) == PGAS_OK && is_read(way, &in, v);
    size_t bytes = pgas_archive_bytes(out);
    void *packed = malloc(bytes);
    bool good = pgas_archive_pack(out, packed, bytes) == PGAS_OK &&
                pgas_archive_from_bytes(packed, bytes, &in) == PGAS_OK && is_read(way, &in, v);
    free(packed);
    return good;
}

static size_t chunk_bytes(const pgas_archive_t *out)
{
    size_t bytes = 0;
    for (size_t i = 0; i < out->n_chunks; i++)
        bytes += out->chunk[i].bytes;
    return bytes;
}

/* Draws and reads values. @return the number of bad ones */
static int round_trips(size_t n)
{
    pgas_archive_t out = PGAS_ARCHIVE_INIT;
    int n_bad = 0;
    for (n_drawn = 0; n_drawn < n && !n_bad;) {
        all_t v;
        most_elems = below(50) == 0 ? 1000 : 1 + below(10);
        draw_all(&v);
        size_t most = most_elems;
        (void)pgas_archive_clear(&out);
        bool plain = below(2);
        out.threshold = plain ? 0 : below(3) == 0 ? SIZE_MAX : below(100);
        n_bad += pgas_save_all(&out, &v) != PGAS_OK || out.depth;
        n_bad += plain && pgas_size_all(&v) != pgasi_archive_stream_bytes(&out) + chunk_bytes(&out);
        n_bad += !round_trip(&out, &v);
        if (n_bad)
            diag("at value %zu, most_elems %zu", n_drawn, most);
        pgas_free_all(&v);
        n_bad += !is_empty(&v);
    }
    (void)pgas_archive_free(&out);
    return n_bad;
}

/* ---- damage ---- */

/* A reader of bytes in memory that ends with them. */
static char *begin_copy(const pgas_archive_t *out, size_t bytes, pgas_archive_t *in_p)
{
    char *stream = malloc(bytes + !bytes);
    memcpy(stream, out->begin, bytes);
    pgasi_archive_read(in_p, stream, bytes, out->chunk, out->n_chunks, 0);
    return stream;
}

/* @return whether a stream without its last bytes is refused, and the value is empty */
static bool refuse_part(const pgas_archive_t *out, size_t bytes, way_t way)
{
    pgas_archive_t in;
    all_t v;
    char *stream = begin_copy(out, bytes, &in);
    memset(&v, 0xab, sizeof v);
    bool good = read_one(way, &in, &v) == PGAS_ERR_FORMAT && in.status == PGAS_ERR_FORMAT;
    good = good && is_empty(&v);
    if (way == LOAD_ARENA)
        (void)pgas_arena_clear(&arena);
    (void)pgas_archive_free(&in);
    free(stream);
    return good;
}

/* Changes some bytes behind the name. Reading gives a value that can be saved again, or an error.
 * */
static bool survive_change(const pgas_archive_t *out, way_t way)
{
    pgas_archive_t in, again = PGAS_ARCHIVE_INIT;
    all_t v;
    size_t bytes = pgasi_archive_stream_bytes(out), head = 8 + 4 + strlen("all");
    char *stream = begin_copy(out, bytes, &in);
    for (uint64_t n = 1 + below(3); n; n--) {
        size_t at = head + below(bytes - head);
        stream[at] = (char)(below(2) ? below(256) : 255 * below(2));
    }
    memset(&v, 0, sizeof v);
    bool good;
    if (read_one(way, &in, &v) == PGAS_OK) {
        good = pgas_save_all(&again, &v) == PGAS_OK && pgas_equal_all(&v, &v);
        give_back(way, &v);
    } else
        good = in.status != PGAS_OK && is_empty(&v);
    if (way == LOAD_ARENA)
        (void)pgas_arena_clear(&arena);
    (void)pgas_archive_free(&again);
    (void)pgas_archive_free(&in);
    free(stream);
    return good;
}

static int damage(int n, bool is_cut)
{
    pgas_archive_t out = PGAS_ARCHIVE_INIT;
    int n_bad = 0;
    for (int i = 0; i < n && !n_bad; i++) {
        all_t v;
        most_elems = 1 + below(20);
        draw_all(&v);
        (void)pgas_archive_clear(&out);
        out.threshold = below(3) == 0 ? SIZE_MAX : 20;
        (void)pgas_save_all(&out, &v);
        way_t way = (way_t)below(N_WAYS);
        n_bad += is_cut ? !refuse_part(&out, below(pgasi_archive_stream_bytes(&out)), way)
                        : !survive_change(&out, way);
        pgas_free_all(&v);
    }
    (void)pgas_archive_free(&out);
    return n_bad;
}

/* ---- the comparison ---- */

/* Whether one changed member makes two equal values different, for both comparisons. */
static bool finds_change(void)
{
    pgas_archive_t out = PGAS_ARCHIVE_INIT, in;
    all_t v, w;
    int n_same = 0;
    do { /* until it has one of each that is changed below */
        most_elems = 4;
        draw_all(&v);
        if (v.n_pairs && v.text && v.best && v.n_many && v.tree && cells_size(&v.cells))
            break;
        pgas_free_all(&v);
    } while (true);
    (void)pgas_save_all(&out, &v);
    for (int i = 0; i < 9; i++) {
        (void)pgas_archive_from(&out, &in);
        (void)pgas_load_all(&in, NULL, &w);
        n_same += !pgas_equal_all(&v, &w) || !same_all(&v, &w);
        double saved = cells_data(&v.cells)[0];
        *(i == 0   ? (char *)&w.number
          : i == 1 ? (char *)&w.few[2]
          : i == 2 ? (char *)&w.pair[0]
          : i == 3 ? (char *)w.best
          : i == 4 ? (char *)&w.box.corner[3]
          : i == 5 ? (char *)&w.many[0].id
          : i == 6 ? (char *)&w.tree->key
          : i == 7 ? (char *)&w.boxes[1]
                   : (char *)cells_data(&w.cells)) ^= 1;
        if (i == 8 && cells_data(&v.cells) == cells_data(&w.cells))
            n_same += !pgas_equal_all(&v, &w); /* shared: both changed */
        else
            n_same += pgas_equal_all(&v, &w) || same_all(&v, &w);
        cells_data(&v.cells)[0] = saved;
        pgas_free_all(&w);
        (void)pgas_archive_free(&in);
    }
    pgas_free_all(&v);
    (void)pgas_archive_free(&out);
    return n_same == 0;
}

int main(void)
{
    plan(5);
    pgasi_rng_seed(&rng, tap_seed(1));
    ok(round_trips(N_OBJECTS) == 0, "values are read as they were saved");
    ok(damage(N_DAMAGED, true) == 0, "a stream that ends too early is refused");
    ok(damage(N_DAMAGED, false) == 0, "a changed stream gives a value or an error");
    ok(finds_change(), "both comparisons find a changed member");
    (void)pgas_arena_free(&arena);
    pgas_rma_info_t info = { .size = sizeof info };
    ok(pgas_rma_info(&info) == PGAS_OK && info.n_objects == 0, "no object is left");
    return done();
}
