/* what: Described values keep every kind of field, also empty, absent and large ones. Views point
 *       into the archive; loaded values are the program's. A value of another description is
 *       refused with both names. Values that are nested too deep, wrong counts and bad arguments
 *       give a status, and the value is then empty. The printer shows each field.
 * log: the archive has a value of the type
 * source: pgas/describe.h */
#include "archive/archive.h"
#include "base/log.h"
#include "t/tap.h"
#include "t/unit/describe_types.h"

/* Old and new versions of one type cannot be in one file; these differ in their names, too. */
#define OLD_FIELDS(F) F(SCALAR, int32_t, a)
PGAS_STRUCT(old, OLD_FIELDS)
#define NEW_FIELDS(F) F(SCALAR, int64_t, a)
PGAS_STRUCT(new, NEW_FIELDS)

#define LARGE_FIELDS(F) F(VECTOR, double, x, n) F(STRUCT_VECTOR, box, box, n_boxes)
PGAS_STRUCT(large, LARGE_FIELDS)

/* Its load fails in the middle. */
typedef struct {
    char *memory;
} weak_t;
static int n_weak_freed;
static pgas_status_t weak_save(pgas_archive_t *archive, const weak_t *weak)
{
    return pgas_archive_put(archive, weak, 1);
}
static pgas_status_t weak_load(pgas_archive_t *archive, weak_t *weak)
{
    void *memory = NULL;
    (void)pgas_archive_alloc(archive, 100, &memory);
    weak->memory = memory;
    return PGAS_ERR_RANGE;
}
static void weak_free(weak_t *weak)
{
    n_weak_freed += weak->memory != NULL;
    free(weak->memory);
}
static bool weak_equal(const weak_t *a, const weak_t *b)
{
    return a->memory == b->memory;
}
PGAS_OWN(weak, 1)
#define WEAKS_FIELDS(F) F(STRUCT_VECTOR, weak, weak, n)
PGAS_STRUCT(weaks, WEAKS_FIELDS)

static void check_flat(void)
{
    ok(pgas_is_flat_box && pgas_is_flat_old, "structures of numbers without padding are flat");
    ok(!pgas_is_flat_gap, "one with padding is not");
    ok(!pgas_is_flat_word && !pgas_is_flat_all && !pgas_is_flat_mine, "nor is one with pointers");
}

/* ---- values ---- */

static bool is_within(const void *at, const pgas_archive_t *in)
{
    return (const char *)at >= in->begin && (const char *)at < in->get_end;
}

static void check_views(void)
{
    pgas_archive_t out = PGAS_ARCHIVE_INIT, in;
    static double x[2000];
    static box_t box[2000];
    large_t large = { x, 2000, box, 2000 }, v;
    word_t word = { (char *)"abc", 3 }, w;
    ok(pgas_save_large(&out, &large) == PGAS_OK && out.n_chunks == 2,
       "large vectors are chunks, also of flat structures");
    ok(pgas_archive_from(&out, &in) == PGAS_OK && pgas_view_large(&in, &v) == PGAS_OK && v.x == x &&
           v.box == box,
       "a view in the process points to the program's memory");
    (void)pgas_archive_free(&in);
    (void)pgas_archive_from(&out, &in);
    ok(pgas_load_large(&in, NULL, &v) == PGAS_OK && v.x != x && v.box != box &&
           pgas_equal_large(&large, &v),
       "a loaded value has memory of its own");
    pgas_free_large(&v);
    ok(!v.x && !v.n && !v.box && !v.n_boxes, "a freed value is empty");
    pgas_free_large(&v);
    (void)pgas_archive_free(&in);

    (void)pgas_archive_clear(&out);
    (void)pgas_save_word(&out, &word);
    (void)pgas_archive_from(&out, &in);
    ok(pgas_view_word(&in, &w) == PGAS_OK && w.n_letters == 3 && is_within(w.letter, &in),
       "small vectors are viewed in the stream");
    (void)pgas_archive_free(&in);
    (void)pgas_archive_free(&out);
}

static void check_empty(void)
{
    pgas_archive_t out = PGAS_ARCHIVE_INIT, in;
    all_t empty, v;
    memset(&empty, 0, sizeof empty);
    memset(&v, 0xab, sizeof v);
    ok(pgas_save_all(&out, &empty) == PGAS_OK && pgas_archive_from(&out, &in) == PGAS_OK &&
           pgas_load_all(&in, NULL, &v) == PGAS_OK && pgas_equal_all(&empty, &v) && !v.text &&
           !v.pair && !v.best && !v.many && !v.tree && !v.object && !cells_data(&v.cells),
       "an empty value has NULL for all that is absent");
    pgas_free_all(&v);
    v.text = (char *)"";
    ok(!pgas_equal_all(&empty, &v), "an empty text is not an absent one");
    (void)pgas_archive_free(&in);
    (void)pgas_archive_free(&out);
}

static void check_objects(void)
{
    pgas_archive_t out = PGAS_ARCHIVE_INIT, in;
    pgas_rma_info_t info = { .size = sizeof info };
    all_t v, w;
    memset(&v, 0, sizeof v);
    (void)pgas_rma_object_copy("0123456789", 10, &v.object);
    for (int i = 0; i < 1000; i++)
        (void)cells_push(&v.cells, i);
    (void)pgas_save_all(&out, &v);
    (void)pgas_archive_from(&out, &in);
    ok(pgas_view_all(&in, &w) == PGAS_OK && cells_data(&w.cells) == cells_data(&v.cells) &&
           w.object != v.object && w.object->bytes == 10,
       "large RMA vectors are shared, small objects copied");
    pgas_drop_all(&w);
    ok(!w.object && cells_size(&w.cells) == 0, "dropped, they are gone");
    (void)pgas_archive_free(&in);
    (void)pgas_archive_free(&out);
    pgas_free_all(&v);
    ok(pgas_rma_info(&info) == PGAS_OK && info.n_objects == 0, "no object is left");
}

/* ---- errors ---- */

static void check_mismatch(void)
{
    pgas_archive_t out = PGAS_ARCHIVE_INIT, in;
    old_t a = { 1 };
    new_t b = { 2 };
    uint64_t n = pgasi_log_count(PGASI_LOG_WARN);
    (void)pgas_save_old(&out, &a);
    (void)pgas_archive_from(&out, &in);
    ok(pgas_load_new(&in, NULL, &b) == PGAS_ERR_MISMATCH && b.a == 0,
       "another description is refused, and the value is empty");
    ok(pgasi_log_count(PGASI_LOG_WARN) == n + 1, "the log has one line");
    ok(pgas_load_old(&in, NULL, &a) == PGAS_ERR_MISMATCH, "the error stays");
    (void)pgas_archive_free(&in);
    (void)pgas_archive_free(&out);
}

/* A chain of values that contain each other. */
static pgas_status_t save_chain(pgas_archive_t *out, int depth)
{
    static tree_t link[PGAS_ARCHIVE_DEPTH + 10];
    for (int i = 0; i < depth; i++)
        link[i] = (tree_t){ i, &link[i + 1], i + 1 < depth, NULL };
    return pgas_save_tree(out, link);
}

static void check_depth(void)
{
    pgas_archive_t out = PGAS_ARCHIVE_INIT, in;
    tree_t v;
    ok(save_chain(&out, PGAS_ARCHIVE_DEPTH) == PGAS_OK && out.depth == 0 &&
           pgas_archive_from(&out, &in) == PGAS_OK && pgas_load_tree(&in, NULL, &v) == PGAS_OK &&
           in.depth == 0,
       "values are nested up to the limit");
    pgas_free_tree(&v);
    (void)pgas_archive_free(&in);
    (void)pgas_archive_clear(&out);
    ok(save_chain(&out, PGAS_ARCHIVE_DEPTH + 5) == PGAS_ERR_LIMIT, "and no deeper, in writing");

    uint64_t sum = pgas_checksum_tree();
    uint32_t length = 4, one = 1, zero = 0;
    (void)pgas_archive_clear(&out);
    (void)pgas_archive_put(&out, &sum, sizeof sum);
    (void)pgas_archive_put(&out, &length, sizeof length);
    (void)pgas_archive_put(&out, "tree", 4);
    for (int i = 0; i < 10000; i++) { /* key, number of children */
        (void)pgas_archive_put(&out, &zero, 4);
        (void)pgas_archive_put(&out, &one, 4);
    }
    (void)pgas_archive_from(&out, &in);
    ok(pgas_load_tree(&in, NULL, &v) == PGAS_ERR_LIMIT && !v.child && !v.n, "and in reading");
    (void)pgas_archive_free(&in);
    (void)pgas_archive_free(&out);
}

/* A stream of the type `large` or `mine` whose counts are these. */
static void put_counts(pgas_archive_t *out, const char *name, uint64_t sum, uint32_t a, uint32_t b)
{
    uint32_t length = (uint32_t)strlen(name);
    (void)pgas_archive_clear(out);
    (void)pgas_archive_put(out, &sum, sizeof sum);
    (void)pgas_archive_put(out, &length, sizeof length);
    (void)pgas_archive_put(out, name, length);
    (void)pgas_archive_put(out, &a, sizeof a);
    (void)pgas_archive_put(out, &b, sizeof b);
}

static void check_counts(void)
{
    static const char zeros[100000 * sizeof(uint32_t)];
    pgas_archive_t out = PGAS_ARCHIVE_INIT, in;
    large_t v;
    mine_t m;
    put_counts(&out, "large", pgas_checksum_large(), 0xfffffff0, 0);
    (void)pgas_archive_from(&out, &in);
    ok(pgas_load_large(&in, NULL, &v) == PGAS_ERR_FORMAT, "a count beyond the stream is refused");
    put_counts(&out, "mine", pgas_checksum_mine(), 0, 100000); /* n_words is uint16_t */
    (void)pgas_archive_put(&out, zeros, sizeof zeros);
    (void)pgas_archive_from(&out, &in);
    ok(pgas_load_mine(&in, NULL, &m) == PGAS_ERR_FORMAT, "so is one that its member cannot have");
    put_counts(&out, "mine", pgas_checksum_mine(), 0, 1000);
    (void)pgas_archive_put(&out, zeros, sizeof zeros);
    (void)pgas_archive_from(&out, &in);
    ok(pgas_load_mine(&in, NULL, &m) == PGAS_OK && m.n_words == 1000, "others are not");
    pgas_free_mine(&m);
    (void)pgas_archive_free(&out);
}

static void check_own(void)
{
    pgas_archive_t out = PGAS_ARCHIVE_INIT, in;
    weak_t weak[3] = { { NULL } };
    weaks_t v = { weak, 3 }, w;
    (void)pgas_save_weaks(&out, &v);
    (void)pgas_archive_from(&out, &in);
    ok(pgas_load_weaks(&in, NULL, &w) == PGAS_ERR_RANGE && in.status == PGAS_ERR_RANGE,
       "the error of an own function is the archive's");
    ok(n_weak_freed == 1 && !w.weak && !w.n, "what it allocated is freed");
    (void)pgas_archive_free(&in);
    (void)pgas_archive_free(&out);
}

static void check_arguments(void)
{
    pgas_archive_t out = PGAS_ARCHIVE_INIT, in;
    box_t box = { 0 }, v;
    word_t none = { NULL, 3 };
    ok(pgas_save_box(NULL, &box) == PGAS_ERR_INVALID && pgas_load_box(NULL, NULL, &v) != PGAS_OK &&
           pgas_view_box(NULL, &v) == PGAS_ERR_INVALID && pgas_size_box(NULL) == 0,
       "null pointers are refused");
    pgas_free_box(NULL);
    pgas_drop_box(NULL);
    ok(pgas_save_box(&out, NULL) == PGAS_ERR_INVALID && out.status == PGAS_ERR_INVALID,
       "so is a value without address");
    (void)pgas_archive_clear(&out);
    ok(pgas_save_word(&out, &none) == PGAS_ERR_INVALID, "so are elements without address");
    (void)pgas_archive_clear(&out);
    (void)pgas_save_box(&out, &box);
    ok(pgas_load_box(&out, NULL, &v) == PGAS_ERR_INVALID, "so is reading from a written archive");
    (void)pgas_archive_clear(&out);
    (void)pgas_save_box(&out, &box);
    (void)pgas_archive_from(&out, &in);
    ok(pgas_save_box(&in, &box) == PGAS_ERR_INVALID, "so is writing to a reader");
    (void)pgas_archive_free(&in);
    (void)pgas_archive_free(&out);
}

/* ---- printing ---- */

static const char *const printed = "all\n"
                                   "    number: -5\n"
                                   "    few: 0.5 0 0\n"
                                   "    text: \"a\\\"b\\x0a\"\n"
                                   "    pair: none\n"
                                   "    best: none\n"
                                   "    what: 3\n"
                                   "    shape: shape\n"
                                   "        point: none\n"
                                   "    box: box\n"
                                   "        id: 1\n"
                                   "        corner: 0 0 0 0\n";

static void check_print(void)
{
    all_t v;
    char *text = NULL;
    size_t length = 0;
    FILE *out = open_memstream(&text, &length);
    memset(&v, 0, sizeof v);
    v.number = -5;
    v.few[0] = 0.5f;
    v.text = (char *)"a\"b\n";
    v.what = SHAPE_PATH;
    v.box.id = 1;
    pgas_print_all(out, &v);
    fclose(out);
    if (!ok(!strncmp(text, printed, strlen(printed)), "fields are printed, one in a line"))
        diag("%s", text);
    ok(strstr(text, "\n    many: 0 of box\n") && strstr(text, "\n    object: none\n"),
       "also those without elements");
    free(text);
}

int main(void)
{
    plan(31);
    check_flat();
    check_views();
    check_empty();
    check_objects();
    check_mismatch();
    check_depth();
    check_counts();
    check_own();
    check_arguments();
    check_print();
    return done();
}
