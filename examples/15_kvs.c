/* 15_kvs: a word count over all ranks, in a key-value store.
 *
 * Each rank counts the words of its lines of a text. A word is a key, its value an integer, and
 * pgas_kvs_fetch_add adds to it wherever it is. Then a rank changes a value that is text, by a
 * function that sees the present one, and all ranks read it.
 *
 *   mpirun -n 4 build/examples/15_kvs */
#include <pgas/kvs.h>
#include <pgas/pgas.h>
#include <stdio.h>
#include <string.h>
#include "usage.h"

static const char *const lines[] = { "the cat saw the dog", "the dog saw the bird",
                                     "the bird saw nothing" };

static void check(pgas_status_t status)
{
    if (status != PGAS_OK)
        pgas_abort(1, pgas_status_text(status));
}

static pgas_status_t count_words(pgas_kvs_t *kvs, const char *line)
{
    pgas_status_t status = PGAS_OK;
    while (*line && status == PGAS_OK) {
        size_t n = strcspn(line, " ");
        status = pgas_kvs_fetch_add(kvs, line, n, 1, NULL);
        line += n + strspn(line + n, " ");
    }
    return status;
}

/* An update: the present value has room behind it, see pgas_kvs_update. */
static pgas_status_t add_name(pgas_kvs_item_t *item, void *arg)
{
    static char first[16];
    if (!item->value) {
        item->value = first;
        item->capacity = sizeof first;
    }
    int n = snprintf((char *)item->value + item->value_bytes, item->capacity - item->value_bytes,
                     " %d", *(const int *)arg);
    item->value_bytes += (size_t)n;
    return PGAS_OK;
}

static bool print_word(const pgas_kvs_item_t *item, void *arg)
{
    int64_t n = 0;
    if (item->value_bytes == sizeof n && *(const char *)item->key != '.') {
        memcpy(&n, item->value, sizeof n);
        printf("%.*s: %lld\n", (int)item->key_bytes, (const char *)item->key, (long long)n);
    }
    *(int64_t *)arg += n;
    return true;
}

int main(int argc, char **argv)
{
    usage_check(pgas_launcher_rank(), argc, argv, "15_kvs\n", 0);
    check(pgas_init(NULL, NULL));
    pgas_kvs_t *kvs;
    check(pgas_kvs_create(NULL, NULL, &kvs));

    int me = pgas_rank(), n_lines = (int)(sizeof lines / sizeof lines[0]);
    for (int i = me; i < n_lines; i += pgas_n_ranks())
        check(count_words(kvs, lines[i]));
    check(pgas_kvs_update(kvs, ".ranks", 6, 16, add_name, &me));
    check(pgas_barrier(NULL));

    char ranks[1024];
    size_t n;
    check(pgas_kvs_get(kvs, ".ranks", 6, ranks, sizeof ranks, &n));
    if (me == 0) {
        uint64_t n_keys, cursor = 0;
        int64_t n_words = 0;
        for (int home = 0; home < pgas_n_ranks(); home++)
            check(pgas_kvs_scan(kvs, home, &cursor, SIZE_MAX, print_word, &n_words));
        check(pgas_kvs_count(kvs, &n_keys));
        printf("%d keys, %d words, written by the ranks%.*s: %s\n", (int)n_keys, (int)n_words,
               (int)n, ranks, n_keys == 7 && n_words == 14 ? "right" : "WRONG");
    }
    check(pgas_barrier(NULL));
    check(pgas_kvs_destroy(kvs));
    check(pgas_finalize());
    return 0;
}
