/* Many arrays, created and destroyed.
 *   what:   After 5,000 arrays have been made and destroyed, the process has as much memory and
 *           heap, and as many mappings and open files, as before.
 *   np:     2
 *   nodes:  0
 *   needs:  no-sanitizers
 *   source: /proc/self/status, /proc/self/maps, /proc/self/fd; pgas/array.h, pgas/mem.h */
#include <dirent.h>
#include <inttypes.h>
#include "pgas/array.h"
#include "t/spmd/job.h"

#define WARM_ROUNDS 1000 /* the allocator of the C library settles */
#define ROUNDS      5000
#define SLACK_KIB   24 /* a pointer an array would be 40 */

typedef struct {
    uint64_t anonymous_kib, mappings, files, heap_bytes;
} process_t;

static uint64_t status_kib(const char *format)
{
    char line[128];
    uint64_t kib = 0;
    FILE *file = fopen("/proc/self/status", "r");
    while (file && fgets(line, sizeof line, file) && sscanf(line, format, &kib) != 1)
        continue;
    if (file)
        fclose(file);
    return kib;
}

static uint64_t count_lines(const char *path)
{
    uint64_t n = 0;
    FILE *file = fopen(path, "r");
    for (int c; file && (c = getc(file)) != EOF;)
        n += c == '\n';
    if (file)
        fclose(file);
    return n;
}

static uint64_t count_files(void)
{
    uint64_t n = 0;
    DIR *dir = opendir("/proc/self/fd");
    while (dir && readdir(dir))
        n++;
    if (dir)
        closedir(dir);
    return n;
}

static process_t look(void)
{
    pgas_heap_info_t info = { .size = sizeof info };
    pgas_heap_info(&info);
    return (process_t){ status_kib("RssAnon: %" SCNu64), count_lines("/proc/self/maps"),
                        count_files(), info.symmetric_bytes + info.local_bytes };
}

/* Returns how often something went wrong. */
static int churn(int rounds)
{
    int n_bad = 0;
    for (int i = 0; i < rounds && !n_bad; i++) {
        pgas_array_t *array = NULL;
        uint64_t value = 0;
        n_bad += pgas_array_create(NULL, sizeof value, 100, NULL, &array) != PGAS_OK;
        if (i % 100 == 0)
            n_bad += pgas_array_get_u64(array, (uint64_t)i % 97, &value) != PGAS_OK || value != 0;
        n_bad += pgas_array_destroy(array) != PGAS_OK;
    }
    return n_bad;
}

int main(int argc, char **argv)
{
    job_begin(&argc, &argv, 4);
    int n_bad = churn(WARM_ROUNDS);
    process_t before = look();
    n_bad += churn(ROUNDS);
    process_t after = look();
    spmd_is_int(n_bad, 0, "%d arrays come and go", ROUNDS);
    if (!spmd_ok(after.anonymous_kib < before.anonymous_kib + SLACK_KIB, "no memory is lost"))
        printf("# %" PRIu64 " KiB before, %" PRIu64 " after\n", before.anonymous_kib,
               after.anonymous_kib);
    spmd_ok(after.mappings <= before.mappings + 8 && after.files == before.files,
            "no mapping, no file");
    spmd_is_int(after.heap_bytes, before.heap_bytes, "the heap is as it was");
    return job_end();
}
