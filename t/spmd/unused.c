/* What a job does not use costs it nothing.
 *   what:   A job on one node does not load the libraries of networks. Before its first use of the
 *           heap and of calls it has touched only a few pages of the memory that its ranks share.
 *   np:     2
 *   needs:  no-sanitizers
 *   source: base/library.h, mem/segment.h, msg/channel_memory.h; proc(5), smaps */
#include "t/spmd/job.h"

#define SHARED_KIB_MAX 128
#define BLOCK_BYTES    ((size_t)1 << 20)

/* The resident part of the mappings whose names contain the text. *n_p: how many there are. */
static long resident_kib(const char *name, int *n_p)
{
    char line[512];
    bool inside = false;
    long sum = 0, kib;
    FILE *file = fopen("/proc/self/smaps", "r");
    *n_p = 0;
    while (file && fgets(line, sizeof line, file)) {
        unsigned long from, to;
        if (sscanf(line, "%lx-%lx ", &from, &to) == 2) {
            inside = strstr(line, name);
            *n_p += inside;
        } else if (inside && sscanf(line, "Rss: %ld kB", &kib) == 1) {
            sum += kib;
        }
    }
    if (file)
        fclose(file);
    return sum;
}

static void loads_no_network(void)
{
    static const char *const names[] = { "/libucp.so", "/libibverbs.so" };
    int n_before[2], n_after;
    for (int i = 0; i < 2; i++)
        resident_kib(names[i], &n_before[i]); /* MPI may have loaded it */
    job_start(NULL);
    for (int i = 0; i < 2; i++) {
        resident_kib(names[i], &n_after);
        spmd_ok(n_after == n_before[i], "pgas_init does not load %s", names[i] + 1);
    }
}

static void touches_few_pages(void)
{
    int n;
    pgas_gptr_t block;
    long kib = resident_kib("memfd:pgas", &n);
    spmd_ok(n > 0 && kib <= SHARED_KIB_MAX,
            "few pages of the shared mappings are resident: %ld KiB", kib);
    spmd_ok(pgas_alloc(BLOCK_BYTES, &block) == PGAS_OK, "a block in the heap");
    memset(pgas_gptr_local(block, BLOCK_BYTES), 1, BLOCK_BYTES);
    long more = resident_kib("memfd:pgas", &n);
    spmd_ok(more >= (long)(BLOCK_BYTES / 1024),
            "pages that were touched on purpose are seen: %ld KiB", more);
    pgas_free(block);
}

int main(int argc, char **argv)
{
    spmd_begin(&argc, &argv, MPI_THREAD_SERIALIZED);
    spmd_plan(7);
    loads_no_network();
    touches_few_pages();
    return job_end();
}
