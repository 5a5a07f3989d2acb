/* Memory of a store for each key, and the bandwidth of its snapshots.
 *
 * The figure of memory is the table's buckets and the slabs that are taken, of all ranks, divided
 * by the keys. A further figure is the growth of the processes' resident memory, which is smaller
 * if an earlier store has used the heap. Keys have 16 bytes and values 64, as those of servers.
 *
 * Snapshots are compared with as many bytes that each rank writes to a file of its own, from
 * memory, and with fdatasync. */
#include "benchmarks/kvs_work.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define KEY_BYTES    16
#define BUCKET_BYTES 128
#define PIECE        (8u << 20) /* bytes of one write */
#define FILL_BATCH   64

enum { TABLE, SLABS, BLOCKS, DATA, RESIDENT, N_FIGURES };

static double figures[N_FIGURES];
static bool measured;

static double resident_bytes(void)
{
    char line[256];
    double kib = 0;
    FILE *file = fopen("/proc/self/status", "r");
    while (file && fgets(line, sizeof line, file))
        if (strncmp(line, "VmRSS:", 6) == 0)
            kib = strtod(line + 6, NULL);
    if (file)
        fclose(file);
    return kib * 1024;
}

static void put_some(pgas_kvs_t *kvs, uint64_t first, uint64_t n)
{
    static char key[FILL_BATCH][KEY_BYTES + 1], value[KVS_VALUE_BYTES];
    pgas_kvs_item_t item[FILL_BATCH] = { { 0 } };
    for (uint64_t i = 0; i < n; i++) {
        snprintf(key[i], sizeof key[i], "key:%012llu",
                 (unsigned long long)(first + i) % 1000000000000);
        item[i].key = key[i];
        item[i].key_bytes = KEY_BYTES;
        item[i].value = value;
        item[i].value_bytes = sizeof value;
    }
    bench_check(pgas_kvs_put_many(kvs, item, n), "pgas_kvs_put_many");
}

static pgas_kvs_t *make_store(void)
{
    pgas_kvs_opts_t opts = PGAS_KVS_OPTS_INIT;
    pgas_kvs_t *kvs;
    uint64_t n = kvs_opt.n_keys / (uint64_t)pgas_n_ranks(), first = n * (uint64_t)pgas_rank();
    opts.n_keys = kvs_opt.n_keys;
    bench_check(pgas_kvs_create(NULL, &opts, &kvs), "pgas_kvs_create: PGAS_HEAP_SIZE");
    for (uint64_t i = 0; i < n; i += FILL_BATCH)
        put_some(kvs, first + i, n - i < FILL_BATCH ? n - i : FILL_BATCH);
    bench_check(pgas_barrier(NULL), "pgas_barrier");
    return kvs;
}

static void measure(double resident, pgas_kvs_t *kvs)
{
    pgas_kvs_info_t info = { .size = sizeof info };
    double mine[N_FIGURES + 1];
    double all[N_FIGURES + 1];
    bench_check(pgas_kvs_info(kvs, &info), "pgas_kvs_info");
    mine[TABLE] = (double)info.n_buckets * BUCKET_BYTES; /* others are in slabs */
    mine[SLABS] = (double)info.slab_bytes;
    mine[BLOCKS] = (double)info.block_bytes;
    mine[DATA] = (double)info.data_bytes;
    mine[RESIDENT] = resident_bytes() - resident;
    mine[N_FIGURES] = (double)info.n_keys;
    bench_check(pgas_allreduce(NULL, mine, all, N_FIGURES + 1, PGAS_F64, PGAS_ADD),
                "pgas_allreduce");
    for (int i = 0; i < N_FIGURES; i++)
        figures[i] = all[i] / all[N_FIGURES];
}

/* All rounds are the same, so the first counts. */
double kvs_space(const bench_run_t *run)
{
    (void)run;
    if (!measured) {
        double resident;
        pgas_kvs_t *kvs;
        kvs_close();
        resident = resident_bytes();
        kvs = make_store();
        measure(resident, kvs);
        bench_check(pgas_kvs_destroy(kvs), "pgas_kvs_destroy");
        measured = true;
    }
    return figures[TABLE] + figures[SLABS];
}

int kvs_space_figures(const bench_case_t *c, bench_figure_t *figure)
{
    static const char *const names[] = { "table", "slabs", "blocks", "data", "resident" };
    if (c->ours != kvs_space)
        return 0;
    for (int i = 0; i < N_FIGURES; i++)
        figure[i] = (bench_figure_t){ .name = names[i],
                                      .unit = "bytes/key",
                                      .median = figures[i],
                                      .min = figures[i],
                                      .max = figures[i] };
    return N_FIGURES;
}

/* ---- files ---- */

static struct {
    pgas_kvs_t *kvs;
    char path[4096], own[4200];
    double bytes, all_bytes; /* of this rank's file, and of all */
} saved;

static double size_of(const char *path)
{
    struct stat status;
    return stat(path, &status) == 0 ? (double)status.st_size : 0;
}

static double slowest(double ns)
{
    double all;
    bench_check(pgas_allreduce(NULL, &ns, &all, 1, PGAS_F64, PGAS_MAX), "pgas_allreduce");
    return all;
}

static void open_files(void)
{
    int pid = (int)getpid();
    bench_check(pgas_broadcast(NULL, &pid, sizeof pid, 0), "pgas_broadcast");
    snprintf(saved.path, sizeof saved.path, "%s/pgas_kvs.%d", kvs_opt.files, pid);
    snprintf(saved.own, sizeof saved.own, "%s.%d", saved.path, pgas_rank());
    kvs_close();
    saved.kvs = make_store();
}

double kvs_snapshot(const bench_run_t *run)
{
    uint64_t start;
    double ns;
    (void)run;
    if (!saved.kvs)
        open_files();
    bench_check(pgas_barrier(NULL), "pgas_barrier");
    start = bench_now();
    bench_check(pgas_kvs_save(saved.kvs, saved.path), "pgas_kvs_save");
    ns = slowest(bench_since(start));
    saved.bytes = size_of(saved.own);
    bench_check(pgas_allreduce(NULL, &saved.bytes, &saved.all_bytes, 1, PGAS_F64, PGAS_ADD),
                "pgas_allreduce");
    return saved.all_bytes * 1e3 / ns;
}

double kvs_file(const bench_run_t *run)
{
    static char *piece;
    char path[4300];
    uint64_t start;
    double ns;
    int fd;
    (void)run;
    if (!piece)
        piece = bench_buffer(PIECE);
    snprintf(path, sizeof path, "%s.file", saved.own);
    bench_check(pgas_barrier(NULL), "pgas_barrier");
    start = bench_now();
    fd = open(path, O_CREAT | O_WRONLY | O_TRUNC, 0600);
    for (size_t left = (size_t)saved.bytes, n; fd >= 0 && left > 0; left -= n) {
        n = left < PIECE ? left : PIECE;
        if (write(fd, piece, n) != (ssize_t)n)
            bench_die("cannot write %s", path);
    }
    if (fd < 0 || fdatasync(fd) || close(fd))
        bench_die("cannot write %s", path);
    ns = slowest(bench_since(start));
    (void)unlink(path);
    return saved.all_bytes * 1e3 / ns;
}

void kvs_files_close(void)
{
    if (!saved.kvs)
        return;
    bench_check(pgas_kvs_destroy(saved.kvs), "pgas_kvs_destroy");
    (void)unlink(saved.own);
    if (pgas_rank() == 0)
        (void)unlink(saved.path);
    saved.kvs = NULL;
}
