/* what: Random values of all kinds, written in random order with random thresholds, are read back
 *       as they were, from the archive and from its packed bytes. A reader of a shortened stream
 *       reads correct values, then reports one error.
 * source: a list of the values, kept beside the archive */
#include "archive/archive.h"
#include "t/random.h"
#include "t/tap.h"

#define N_ARCHIVES   3000
#define N_VALUES_MAX 40
#define BYTES_MAX    600

typedef enum { BYTES, VECTOR, TEXT, OBJECT, COUNT, N_KINDS } kind_t;

/* A value, as it was drawn. */
typedef struct {
    kind_t kind;
    bool is_absent;
    size_t n, elem_bytes;
    char data[BYTES_MAX + 16] __attribute__((aligned(16)));
    pgas_rma_object_t *object;
} value_t;

static value_t value[N_VALUES_MAX];
static int n_values;

static void draw(value_t *v)
{
    v->kind = (kind_t)below(N_KINDS);
    v->is_absent = (v->kind == TEXT || v->kind == OBJECT) && below(8) == 0;
    v->elem_bytes = v->kind == VECTOR ? 1 + below(20) : 1;
    v->n = below(4) == 0 ? below(4) : below(BYTES_MAX / v->elem_bytes);
    v->object = NULL;
    for (size_t i = 0; i < sizeof v->data; i++)
        v->data[i] = (char)(1 + below(255)); /* a text has no other 0 than its last byte */
    if (v->kind == TEXT)
        v->data[v->n] = '\0';
    if (v->kind == OBJECT && !v->is_absent) /* some are longer than what is written */
        (void)pgas_rma_object_copy(v->data, v->n + below(16), &v->object);
}

static pgas_status_t write_value(pgas_archive_t *out, const value_t *v)
{
    switch (v->kind) {
    case BYTES:
        return pgas_archive_put(out, v->data, v->n);
    case VECTOR:
        return pgas_archive_put_vector(out, v->data, v->n, v->elem_bytes);
    case TEXT:
        return pgas_archive_put_string(out, v->is_absent ? NULL : v->data);
    case OBJECT:
        return pgas_archive_put_object(out, v->object, v->is_absent ? 0 : v->n);
    default:
        return pgas_archive_put_count(out, v->n);
    }
}

/* Reads the next value. *same_p: whether it is what was written */
static pgas_status_t read_value(pgas_archive_t *in, const value_t *v, bool *same_p)
{
    char bytes[BYTES_MAX];
    const void *data = NULL;
    const char *text = NULL;
    size_t n = 0;
    pgas_rma_object_t *object = NULL;
    pgas_status_t status;
    switch (v->kind) {
    case BYTES:
        status = pgas_archive_get(in, bytes, v->n);
        *same_p = !memcmp(bytes, v->data, v->n);
        break;
    case VECTOR:
        status = pgas_archive_get_vector(in, v->elem_bytes, &data, &n);
        *same_p = n == v->n && (n ? !memcmp(data, v->data, n * v->elem_bytes) : !data);
        break;
    case TEXT:
        status = pgas_archive_get_string(in, &text);
        *same_p = v->is_absent ? !text : text && !strcmp(text, v->data);
        break;
    case OBJECT:
        status = pgas_archive_get_object(in, &object, &n);
        *same_p = v->is_absent ? !object && !n
                               : object && n == v->n && object->bytes >= n &&
                                     !memcmp(object->data, v->data, n);
        (void)pgas_rma_object_destroy(object);
        break;
    default:
        status = pgas_archive_get_count(in, 1, &n);
        *same_p = n == v->n;
    }
    return status;
}

/* Reads all values. A count promises bytes that are not there in this test, so the last values are
 * followed by enough of them. @return the number of values before the first error, or -1 if one is
 * wrong */
static int read_values(pgas_archive_t *in)
{
    for (int i = 0; i < n_values; i++) {
        bool same = false;
        pgas_status_t status = read_value(in, &value[i], &same);
        if (status != PGAS_OK)
            return status == PGAS_ERR_FORMAT && in->status == status ? i : -1;
        if (!same)
            return -1;
    }
    return n_values;
}

static int read_packed(const pgas_archive_t *out)
{
    pgas_archive_t in;
    size_t bytes = pgas_archive_bytes(out);
    char *packed = aligned_alloc(16, 16 + (bytes & ~(size_t)15));
    int n = -1;
    if (pgas_archive_pack(out, packed, bytes) == PGAS_OK &&
        pgas_archive_from_bytes(packed, bytes, &in) == PGAS_OK) {
        n = read_values(&in);
        (void)pgas_archive_free(&in);
    }
    free(packed);
    return n;
}

/* A reader of the first bytes of the stream, in memory that ends there. */
static int read_part(const pgas_archive_t *out, size_t bytes)
{
    pgas_archive_t in;
    char *stream = aligned_alloc(16, 16 + (bytes & ~(size_t)15));
    memcpy(stream, out->begin, bytes);
    pgasi_archive_read(&in, stream, bytes, out->chunk, out->n_chunks, 0);
    int n = read_values(&in);
    (void)pgas_archive_free(&in);
    free(stream);
    return n;
}

static void write_values(pgas_archive_t *out)
{
    static const char filler[BYTES_MAX];
    (void)(below(4) == 0 ? pgas_archive_free(out) : pgas_archive_clear(out));
    out->threshold = below(3) == 0 ? SIZE_MAX : below(BYTES_MAX);
    n_values = 1 + below_int(N_VALUES_MAX);
    for (int i = 0; i < n_values; i++) {
        draw(&value[i]);
        (void)write_value(out, &value[i]);
    }
    (void)pgas_archive_put(out, filler, sizeof filler);
}

static void drop_values(int *n_kept)
{
    for (int i = 0; i < n_values; i++) {
        *n_kept += value[i].object && value[i].object->n_holders != 1;
        (void)pgas_rma_object_destroy(value[i].object);
    }
}

static void random_values(void)
{
    pgas_archive_t out = PGAS_ARCHIVE_INIT, in;
    int n_written = 0, n_read = 0, n_packed = 0, n_parts = 0, n_kept = 0;
    int64_t n_all = 0, n_chunks = 0;
    for (int i = 0; i < N_ARCHIVES; i++) {
        write_values(&out);
        n_written += out.status == PGAS_OK && pgas_archive_from(&out, &in) == PGAS_OK;
        n_read += read_values(&in) == n_values;
        (void)pgas_archive_free(&in);
        n_packed += read_packed(&out) == n_values;
        size_t bytes = pgasi_archive_stream_bytes(&out) - BYTES_MAX;
        int n = read_part(&out, below(bytes + 1));
        n_parts += n >= 0 && (n < n_values || bytes == 0 || value[n_values - 1].kind != COUNT);
        n_all += n_values;
        n_chunks += (int64_t)out.n_chunks;
        (void)pgas_archive_clear(&out);
        drop_values(&n_kept);
    }
    diag("%" PRId64 " values, %" PRId64 " chunks", n_all, n_chunks);
    is_int(n_written, N_ARCHIVES, "archives are written");
    is_int(n_read, N_ARCHIVES, "and read");
    is_int(n_packed, N_ARCHIVES, "so are their packed bytes");
    is_int(n_parts, N_ARCHIVES, "a shortened stream gives the values before its end");
    is_int(n_kept, 0, "no object is kept");
    (void)pgas_archive_free(&out);
}

static void checker(void)
{
    pgas_archive_t out = PGAS_ARCHIVE_INIT, in;
    int n_found = 0, n_kept = 0;
    for (int i = 0; i < 100; i++) {
        write_values(&out);
        (void)pgas_archive_from(&out, &in);
        value_t *v = &value[below_int(n_values)];
        if (v->kind == BYTES && v->n)
            v->data[below(v->n)] ^= 1;
        else
            v->n++, v->is_absent = !v->is_absent;
        n_found += read_values(&in) != n_values;
        (void)pgas_archive_free(&in);
        (void)pgas_archive_clear(&out);
        drop_values(&n_kept);
    }
    ok(n_found > 80, "the check finds wrong values (made on purpose: %d of 100)", n_found);
    (void)pgas_archive_free(&out);
}

int main(void)
{
    plan(6);
    pgasi_rng_seed(&rng, tap_seed(1));
    random_values();
    checker();
    return done();
}
