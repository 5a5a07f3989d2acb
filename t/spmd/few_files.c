/* A rank without a file descriptor for a connection.
 *   what:   An operation that needs a connection is refused with PGAS_ERR_LIMIT, logged once, and
 *           works when files are available again. UCX does not end the process.
 *   np:     3
 *   nodes:  1
 *   env:    PGAS_TRANSPORT=ucx
 *   tls:    tcp,self
 *   needs:  no-sanitizers
 *   source: ucx_backend/endpoint.c; setrlimit(2)
 * With an argument, for t/spmd/limits.t: rank 1 has no file for the connection by which it answers
 * rank 0; the job ends. */
#include <dirent.h>
#include <sys/resource.h>
#include "t/spmd/job.h"
#include "t/spmd/said.h"

/* The number of files that may be open from now on, 0: as many as before. */
static void allow(rlim_t n)
{
    static rlim_t before;
    struct rlimit limit;
    getrlimit(RLIMIT_NOFILE, &limit);
    before = before ? before : limit.rlim_cur;
    limit.rlim_cur = n ? n : before;
    setrlimit(RLIMIT_NOFILE, &limit);
}

static rlim_t open_files(void)
{
    rlim_t n = 0;
    DIR *folder = opendir("/proc/self/fd");
    while (folder && readdir(folder))
        n++;
    if (folder)
        closedir(folder);
    return n - 3;
}

static void refused_and_again(pgas_gptr_t there, pgas_gptr_t elsewhere)
{
    uint64_t value = 1, seen = 0;
    pgas_status_t status = PGAS_OK, second = PGAS_OK;
    spmd_ok(pgas_put(elsewhere, &value, sizeof value) == PGAS_OK && pgas_flush_all() == PGAS_OK,
            "a first connection");
    said_begin();
    if (pgas_rank() == 0) {
        allow(open_files() + 4);
        status = pgas_put(there, &value, sizeof value);
        second = pgas_put(there, &value, sizeof value);
        allow(0);
    }
    int n_said = said_by("no file is left to connect");
    bool rank_0 = pgas_rank() == 0;
    spmd_ok(!rank_0 || (status == PGAS_ERR_LIMIT && second == PGAS_ERR_LIMIT),
            "no file, no connection: refused");
    spmd_ok(n_said == 1 && (!rank_0 || !strstr(strstr(said_text, "no file") + 1, "no file")),
            "said once");
    bool good = pgas_put(there, &value, sizeof value) == PGAS_OK && pgas_flush_all() == PGAS_OK &&
                pgas_get(&seen, there, sizeof seen) == PGAS_OK && seen == 1;
    spmd_ok(good, "with files again it works");
}

int main(int argc, char **argv)
{
    pgas_gptr_t word = PGAS_NULL;
    job_begin(&argc, &argv, 4);
    pgas_alloc(sizeof(uint64_t), &word);
    pgas_gptr_t right = pgas_gptr_make((pgas_rank() + 1) % pgas_n_ranks(), pgas_gptr_offset(word));
    if (argc == 1) {
        refused_and_again(right, pgas_gptr_make((pgas_rank() + 2) % pgas_n_ranks(),
                                                pgas_gptr_offset(word)));
        return job_end();
    }
    uint64_t seen;
    if (pgas_rank() == 1)
        allow(open_files() + 4);
    MPI_Barrier(MPI_COMM_WORLD);
    if (pgas_rank() == 0)
        pgas_get(&seen, right, sizeof seen);
    pgas_barrier(NULL);
    return 0;
}
