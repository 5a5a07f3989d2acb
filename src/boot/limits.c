/* Checks resource limits before the library opens anything.
 *
 * MPI and UCX end the process, or fail with a bare error number, if they run out of files or
 * threads half way. So init first counts what it needs. The counts were measured in /proc/self/fd.
 * Without a transport a rank opens a pipe, two epolls, an eventfd, a pidfd for each rank of its
 * host, and for a moment two anonymous files. UCX and verbs open 15 to 20 more with one context.
 * Connections and contexts of further threads need more files when they are used. */
#include "boot/internal.h"

#include <dirent.h>
#include <errno.h>
#include <inttypes.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include "base/checks.h"
#include "base/log.h"
#include "base/machine.h"
#include "base/number.h"
#include "base/param.h"

#define FILES_ALONE          8
#define FILES_BETWEEN_HOSTS  6  /* a listening socket, and links to some hosts (links.c) */
#define FILES_OF_TRANSPORT   32 /* with a first connection and a reserve */
#define THREADS_ALONE        1  /* the watch (watch.c) */
#define THREADS_OF_TRANSPORT 1  /* UCX's */
/* stacks, malloc arenas of threads, small mappings */
#define ADDRESSES_ALONE        (UINT64_C(96) << 20)
#define ADDRESSES_OF_TRANSPORT (UINT64_C(64) << 20)
/* a region of the software NIC; each rank maps the regions of its peers */
#define ADDRESSES_OF_SNIC (UINT64_C(1056) << 20)
#define CONTEXTS_ALONE    2 /* the library's own contexts and endpoints; those of lanes follow */
#define WHY_BYTES         400

/* Whether some ranks need a transport. Nodes are not known yet. */
static bool needs_transport(void)
{
    int most = pgasi_param.node_maxsize;
    return pgasi_boot.n_ranks > pgasi_boot.host_ranks || (most > 0 && most < pgasi_boot.host_ranks);
}

/* The limit, or RLIM_INFINITY if it cannot be read. */
static rlim_t limit_of(int resource)
{
    struct rlimit limit;
    return getrlimit((__rlimit_resource_t)resource, &limit) == 0 ? limit.rlim_cur : RLIM_INFINITY;
}

/* ---- files ---- */

static int count_open_files(void)
{
    int n = -3; /* ".", ".." and the folder itself */
    DIR *folder = opendir("/proc/self/fd");
    if (!folder)
        return errno == EMFILE ? (int)PGASI_MIN(limit_of(RLIMIT_NOFILE), INT32_MAX) : 0;
    while (readdir(folder))
        n++;
    closedir(folder);
    return n;
}

static bool lacks_files(char why[WHY_BYTES], double *need_p)
{
    rlim_t limit = limit_of(RLIMIT_NOFILE);
    int open = count_open_files();
    int more = FILES_ALONE + pgasi_boot.host_ranks + (needs_transport() ? FILES_OF_TRANSPORT : 0) +
               (pgasi_boot.n_ranks > pgasi_boot.host_ranks ? FILES_BETWEEN_HOSTS : 0);
    if (limit == RLIM_INFINITY || (rlim_t)(open + more) <= limit)
        return false;
    *need_p = open + more;
    snprintf(why, WHY_BYTES,
             "%d files are open, pgas_init needs up to %d more, and the limit is %" PRIu64
             ": raise it to %d at least (ulimit -n)",
             open, more, (uint64_t)limit, open + more);
    return true;
}

/* ---- threads ---- */

/* Blocks until the creator unlocks the mutex. */
static void *live(void *mutex)
{
    pthread_mutex_lock(mutex);
    pthread_mutex_unlock(mutex);
    return NULL;
}

/* Starts as many threads as the library will start, all at one time, and ends them. No other test
 * shows how much of the limits of the user, the cgroup and the machine is left. */
static bool lacks_threads(char why[WHY_BYTES], double *need_p)
{
    enum { MOST = 32 };
    pthread_t threads[MOST];
    pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
    int n = 0, error = 0;
    int want = THREADS_ALONE + pgasi_param.service_threads +
               (needs_transport() ? THREADS_OF_TRANSPORT : 0);
    want = PGASI_MIN(want, MOST);
    pthread_mutex_lock(&mutex);
    while (n < want && error == 0) {
        error = pthread_create(&threads[n], NULL, live, &mutex);
        n += error == 0;
    }
    pthread_mutex_unlock(&mutex);
    for (int i = 0; i < n; i++)
        pthread_join(threads[i], NULL);
    if (error == 0)
        return false;
    *need_p = want - n;
    char limit_text[32] = "unlimited";
    rlim_t limit = limit_of(RLIMIT_NPROC);
    if (limit != RLIM_INFINITY)
        snprintf(limit_text, sizeof limit_text, "%" PRIu64, (uint64_t)limit);
    snprintf(why, WHY_BYTES,
             "pgas_init needs %d threads in each rank and gets %d (%s): raise the limit of "
             "processes (ulimit -u, now %s), or "
             "pids.max of the cgroup, by %d for each rank of the host",
             want, n, strerror(error), limit_text, want - n);
    return true;
}

/* ---- address space ---- */

/* Bytes of address space that this process uses; 0: not known. */
static uint64_t addresses_in_use(void)
{
    uint64_t pages = 0;
    FILE *file = fopen("/proc/self/statm", "re");
    if (!file || fscanf(file, "%" SCNu64, &pages) != 1)
        pages = 0;
    if (file)
        fclose(file);
    return pages * (uint64_t)sysconf(_SC_PAGESIZE);
}

static bool chooses_snic(void)
{
    char transport[PGASI_PARAM_TEXT_BYTES];
    pgasi_param_text(&pgasi_param, PGASI_PARAM_ID_TRANSPORT, transport);
    return strcmp(transport, "verbs") == 0 && strncmp(pgasi_param.verbs_device, "snic", 4) == 0;
}

/* The most address space of the channels from a node's ranks into one of them (recv_memory.c). */
static uint64_t addresses_of_channels(int node)
{
    uint64_t each = (uint64_t)pgasi_param.ctxs + CONTEXTS_ALONE;
    uint64_t chunks = (uint64_t)node * each * each * (uint64_t)pgasi_param.chunks_max;
    return PGASI_MIN(chunks * pgasi_param.chunk_size, pgasi_param.chunk_memory);
}

static bool lacks_addresses(char why[WHY_BYTES], double *need_p)
{
    rlim_t limit = limit_of(RLIMIT_AS);
    int most = pgasi_param.node_maxsize, node = pgasi_boot.host_ranks;
    node = most > 0 ? PGASI_MIN(most, node) : node;
    uint64_t used = addresses_in_use(),
             heaps = (uint64_t)node * (pgasi_param.heap_size + addresses_of_channels(node));
    uint64_t other = ADDRESSES_ALONE + (needs_transport() ? ADDRESSES_OF_TRANSPORT : 0);
    if (needs_transport()) /* each rank may map what peers of its host have behind their heaps */
        other += (uint64_t)pgasi_boot.host_ranks * pgasi_param.far_chunk_memory;
    if (needs_transport() && chooses_snic())
        other += (uint64_t)pgasi_boot.host_ranks * (ADDRESSES_OF_SNIC + pgasi_param.heap_size);
    uint64_t need = used + heaps + other;
    if (limit == RLIM_INFINITY || need <= (uint64_t)limit)
        return false;
    *need_p = (double)need;
    char used_text[PGASI_NUMBER_BYTES], heaps_text[PGASI_NUMBER_BYTES],
        other_text[PGASI_NUMBER_BYTES], limit_text[PGASI_NUMBER_BYTES];
    snprintf(why, WHY_BYTES,
             "the limit of address space is %s, %s are in use, heaps and channels of a node's %d "
             "ranks take %s more, the library some %s: raise it to %" PRIu64
             " KiB (ulimit -v), or lower PGAS_HEAP_SIZE",
             pgasi_number_bytes((uint64_t)limit, limit_text), pgasi_number_bytes(used, used_text),
             node, pgasi_number_bytes(heaps, heaps_text), pgasi_number_bytes(other, other_text),
             (need + 1023) >> 10);
    return true;
}

/* ---- the check ---- */

pgas_status_t pgasi_limits_check(MPI_Comm world, MPI_Comm host)
{
    struct {
        double need;
        int rank;
    } mine = { 0, pgasi_boot.host_rank }, most = mine;
    char why[WHY_BYTES] = "";
    bool lacks = lacks_files(why, &mine.need) || lacks_addresses(why, &mine.need) ||
                 lacks_threads(why, &mine.need);
    pgas_status_t status =
        pgasi_mpi_status(MPI_Allreduce(&mine, &most, 1, MPI_DOUBLE_INT, MPI_MAXLOC, host),
                         "the check of resource limits");
    if (status == PGAS_OK && lacks && most.rank == mine.rank) /* its value is sufficient for all */
        PGASI_ERROR("limits", "%s", why);
    return pgasi_mpi_agree(world, lacks ? PGAS_ERR_LIMIT : status);
}

const char *pgasi_limits_cure(int error)
{
    if (error == EMFILE)
        return "; raise the limit of open files (ulimit -n)";
    if (error == ENOMEM && limit_of(RLIMIT_AS) != RLIM_INFINITY)
        return "; raise the limit of address space (ulimit -v), or lower PGAS_HEAP_SIZE";
    return "";
}
