/* Shared mappings of a node: anonymous files that peers open through /proc/PID/fd.
 *
 * Shaped for few, large, sparse mappings: heaps of gigabytes, one board per team. This file never
 * touches the memory, so pages come from the NUMA zone of the thread that writes first. The maker
 * stores its descriptor in its box in the control mapping, the others open it, all agree, and the
 * descriptors are closed. A mapping costs no descriptor afterwards. /dev/shm is not used
 * (containers give it 64 MiB), so a killed job leaves no files.
 *
 * Explicit huge pages are reserved by mmap. So a file that its maker could map has all its pages,
 * and no rank dies of SIGBUS later. Without them MADV_HUGEPAGE requests transparent ones. Most
 * kernels give these to anonymous memory, and to files only where the administrator has allowed it.
 * So a rank that is alone on its node has anonymous memory. */
#include "boot/internal.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/log.h"
#include "base/param.h"

#define SUPER_PAGE ((size_t)2 << 20)
/* Sizes of explicit huge pages, in the order in which they are tried. */
static const size_t huge_pages[] = { (size_t)1 << 30, SUPER_PAGE };
#define N_HUGE_PAGES (sizeof huge_pages / sizeof huge_pages[0])

typedef struct {
    _Alignas(PGASI_CACHELINE) uint64_t bytes;
    uint64_t page_bytes;
    int32_t fd;
} box_t;

typedef struct {
    _Alignas(PGASI_CACHELINE) int32_t has_reported[PGASI_N_REPORTS];
    int32_t has_refused_huge;
} control_t; /* followed by wakeup flags and boxes, one each per node rank */

static pgasi_shm_t control;
static box_t *boxes;
static bool has_logged_no_huge_pages;

static size_t control_bytes(size_t n)
{
    return sizeof(control_t) + n * (sizeof(pgasi_wakeup_t) + sizeof(box_t));
}

bool pgasi_shm_first_to_report(pgasi_report_t what)
{
    control_t *c = control.base;
    return !c || !__atomic_exchange_n(&c->has_reported[what], 1, __ATOMIC_ACQ_REL);
}

/* ---- files and mappings ---- */

int pgasi_shm_file(size_t bytes, unsigned flags)
{
    int fd = memfd_create("pgas", MFD_CLOEXEC | flags);
    if (fd >= 0 && ftruncate(fd, (off_t)bytes) != 0) {
        int reason = errno;
        close(fd);
        errno = reason;
        return -1;
    }
    return fd;
}

int pgasi_shm_open_peer(int pid, int fd)
{
    char path[64];
    snprintf(path, sizeof path, "/proc/%d/fd/%d", pid, fd);
    return open(path, O_RDWR | O_CLOEXEC);
}

static size_t system_page(void)
{
    static size_t bytes;
    if (bytes == 0)
        bytes = (size_t)sysconf(_SC_PAGESIZE);
    return bytes;
}

/* Maps a file, or anonymous memory if fd is -1, at a multiple of a super page if it is large enough
 * to profit. MAP_FAILED with errno. */
static void *map_memory(int fd, size_t bytes, size_t page_bytes)
{
    int flags = fd < 0 ? MAP_PRIVATE | MAP_ANONYMOUS : MAP_SHARED;
    flags |= page_bytes > system_page() ? 0 : MAP_NORESERVE;
    if (bytes < SUPER_PAGE)
        return mmap(NULL, bytes, PROT_READ | PROT_WRITE, flags, fd, 0);
    size_t align = PGASI_MAX(SUPER_PAGE, page_bytes), span = bytes + align;
    char *space = mmap(NULL, span, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (space == MAP_FAILED)
        return MAP_FAILED;
    char *base = (char *)(uintptr_t)PGASI_ALIGN_UP((uintptr_t)space, align);
    void *mapped = mmap(base, bytes, PROT_READ | PROT_WRITE, flags | MAP_FIXED, fd, 0);
    if (mapped == MAP_FAILED) {
        int reason = errno;
        munmap(space, span);
        errno = reason;
        return MAP_FAILED;
    }
    if (base > space)
        munmap(space, (size_t)(base - space));
    munmap(base + bytes, (size_t)(space + span - (base + bytes)));
    return mapped;
}

static void advise_huge(const pgasi_shm_t *shm)
{
    if (pgasi_param.hugepages != PGASI_HUGEPAGES_NO && shm->page_bytes == system_page() &&
        shm->bytes >= SUPER_PAGE)
        madvise(shm->base, shm->bytes, MADV_HUGEPAGE);
}

/* ---- making the own mapping ---- */

/* Makes and maps a file of huge pages. -1 with errno. */
static int make_huge(size_t bytes, size_t page_bytes, pgasi_shm_t *shm)
{
    size_t whole = PGASI_ALIGN_UP(bytes, page_bytes);
    /* the C library's headers lack names for the sizes: bits 26 to 31 are their logarithm */
    int fd = pgasi_shm_file(whole, MFD_HUGETLB | (unsigned)__builtin_ctzl(page_bytes) << 26);
    if (fd < 0)
        return -1;
    void *base = map_memory(fd, whole, page_bytes);
    if (base == MAP_FAILED) {
        int reason = errno;
        close(fd);
        errno = reason;
        return -1;
    }
    *shm = (pgasi_shm_t){ base, whole, page_bytes };
    return fd;
}

static int make_plain(size_t bytes, pgasi_shm_t *shm)
{
    size_t whole = PGASI_ALIGN_UP(bytes, system_page());
    int fd = pgasi_shm_file(whole, 0);
    void *base = fd < 0 ? MAP_FAILED : map_memory(fd, whole, system_page());
    if (base == MAP_FAILED) {
        PGASI_ERROR("shm", "cannot get %zu bytes of shared memory: %s%s", whole, strerror(errno),
                    pgasi_limits_cure(errno));
        if (fd >= 0)
            close(fd);
        return -1;
    }
    *shm = (pgasi_shm_t){ base, whole, system_page() };
    return fd;
}

/* Limits of private memory (RLIMIT_DATA, vm.overcommit_memory=2) do not hold for files. */
static bool make_private(size_t bytes, pgasi_shm_t *shm)
{
    size_t whole = PGASI_ALIGN_UP(bytes, system_page());
    void *base = map_memory(-1, whole, system_page());
    if (base == MAP_FAILED)
        return false;
    *shm = (pgasi_shm_t){ base, whole, system_page() };
    return true;
}

/* Whether pages of this size serve a mapping: rounding up wastes at most an eighth of it. Pages of
 * 2 MiB are small enough for all. */
static bool page_fits(size_t page_bytes, size_t bytes)
{
    if (page_bytes == SUPER_PAGE)
        return true;
    return pgasi_param.hugepages != PGASI_HUGEPAGES_2M &&
           PGASI_ALIGN_UP(bytes, page_bytes) - bytes <= bytes / 8;
}

/* Once on each host. `try` is the default, and most machines have no huge pages reserved: without
 * the user's request the message has the level info. */
static void tell_no_huge_pages(size_t bytes, int reason)
{
    bool asked = pgasi_param_origins[PGASI_PARAM_ID_HUGEPAGES] != PGASI_PARAM_FROM_DEFAULT;
    if (pgasi_boot.host_rank != 0 || has_logged_no_huge_pages)
        return;
    has_logged_no_huge_pages = true;
    PGASI_LOG_AT(asked ? PGASI_LOG_WARN : PGASI_LOG_INFO, "shm",
                 "no huge pages for %zu bytes of each rank (%s), using pages of %zu: raise "
                 "/proc/sys/vm/nr_hugepages to have them, or set PGAS_HUGEPAGES=no",
                 bytes, reason != 0 ? strerror(reason) : "other ranks of the node got none",
                 system_page());
}

/* Once on each node. */
static void refuse_no_huge_pages(size_t bytes, int reason)
{
    control_t *c = control.base;
    if (!__atomic_exchange_n(&c->has_refused_huge, 1, __ATOMIC_RELAXED))
        PGASI_ERROR("shm",
                    "no huge pages for %zu bytes of each rank (%s), but PGAS_HUGEPAGES=yes needs "
                    "them: raise /proc/sys/vm/nr_hugepages, or set PGAS_HUGEPAGES=try",
                    bytes, strerror(reason));
}

static void unmap(pgasi_shm_t *shm)
{
    if (shm->base)
        munmap(shm->base, shm->bytes);
    memset(shm, 0, sizeof *shm);
}

/* Maps the file that another rank of the node offers in its box. */
static pgas_status_t map_offered(int node_rank, pgasi_shm_t *shm)
{
    const box_t *box = &boxes[node_rank];
    int fd = pgasi_shm_open_peer(pgasi_boot.node_pids[node_rank], box->fd);
    void *base = fd < 0 ? MAP_FAILED : map_memory(fd, box->bytes, box->page_bytes);
    if (base == MAP_FAILED)
        PGASI_ERROR("shm", "cannot map %zu bytes of rank %d: %s%s", (size_t)box->bytes,
                    pgasi_boot.node_members[node_rank], strerror(errno), pgasi_limits_cure(errno));
    if (fd >= 0)
        close(fd);
    if (base == MAP_FAILED)
        return PGAS_ERR_NO_MEMORY;
    *shm = (pgasi_shm_t){ base, box->bytes, box->page_bytes };
    return PGAS_OK;
}

/* Makes the own mapping and offers it. withdraw closes the descriptor. *reason_p: errno, where
 * there are no such huge pages. */
static pgas_status_t offer(size_t bytes, size_t page_bytes, pgasi_shm_t *shm, int *reason_p)
{
    box_t *box = &boxes[pgasi_boot.node_rank];
    bool huge = page_bytes > system_page();
    *reason_p = 0;
    if (!huge && pgasi_boot.node_size == 1 && make_private(bytes, shm))
        return PGAS_OK;
    box->fd = huge ? make_huge(bytes, page_bytes, shm) : make_plain(bytes, shm);
    *reason_p = box->fd < 0 && huge ? errno : 0;
    if (box->fd < 0)
        return PGAS_ERR_NO_MEMORY;
    box->bytes = shm->bytes;
    box->page_bytes = shm->page_bytes;
    return PGAS_OK;
}

static void withdraw(void)
{
    box_t *box = &boxes[pgasi_boot.node_rank];
    if (box->fd >= 0)
        close(box->fd);
    box->fd = -1;
}

/* ---- mappings of one maker ---- */

pgas_status_t pgasi_shm_share(int leader, size_t bytes, pgasi_sync_fn_t sync, void *arg,
                              pgasi_shm_t *shm_p)
{
    bool mine = bytes > 0 && leader == pgasi_boot.node_rank;
    pgasi_shm_t shm = { NULL, 0, 0 };
    int reason = 0;
    pgas_status_t status = sync(arg, mine ? offer(bytes, system_page(), &shm, &reason) : PGAS_OK);
    if (status == PGAS_OK)
        status = sync(arg, bytes > 0 && !mine ? map_offered(leader, &shm) : PGAS_OK);
    if (mine)
        withdraw();
    if (status != PGAS_OK) {
        unmap(&shm);
        return status;
    }
    if (shm.base)
        advise_huge(&shm);
    *shm_p = shm;
    return PGAS_OK;
}

/* Agreement among the members of a team on this node, over its board. */
static pgas_status_t sync_by_board(void *arg, pgas_status_t mine)
{
    pgas_team_t *team = arg;
    int32_t worst = (int32_t)mine;
    pgas_status_t status = team->board.n > 1
                               ? pgasi_board_allreduce(&team->board, &worst, &worst, 1,
                                                       pgasi_op_find(PGAS_OP(PGAS_MIN, PGAS_I32)))
                               : PGAS_OK;
    return status != PGAS_OK ? status : (pgas_status_t)worst;
}

pgas_status_t pgasi_shm_create(pgas_team_t *team, size_t bytes, pgasi_shm_t *shm_p)
{
    if (!team)
        team = pgas_team_node();
    if (bytes == 0)
        return PGAS_ERR_INVALID;
    return pgasi_shm_share(team->board.n > 1 ? team->board.wakeup_of[0] : pgasi_boot.node_rank,
                           bytes, sync_by_board, team, shm_p);
}

void pgasi_shm_release(pgasi_shm_t *shm)
{
    unmap(shm);
}

/* ---- mappings of all ranks ---- */

static pgas_status_t map_all(const pgasi_shm_t *mine, void **addr_of)
{
    for (int i = 0; i < pgasi_boot.node_size; i++) {
        pgasi_shm_t theirs = *mine;
        pgas_status_t status = i == pgasi_boot.node_rank ? PGAS_OK : map_offered(i, &theirs);
        if (status == PGAS_OK && theirs.bytes != mine->bytes) {
            PGASI_ERROR("shm", "rank %d maps %zu bytes, this rank %zu", pgasi_boot.node_members[i],
                        theirs.bytes, mine->bytes);
            unmap(&theirs);
            status = PGAS_ERR_MISMATCH;
        }
        if (status != PGAS_OK)
            return status;
        addr_of[i] = theirs.base;
        advise_huge(&theirs);
    }
    return PGAS_OK;
}

/* All ranks use pages of the same size, so that the sizes of the mappings are the same. *reason_p:
 * why this rank has none. */
static pgas_status_t offer_huge(pgas_team_t *team, size_t bytes, pgasi_shm_t *mine, int *reason_p)
{
    pgas_status_t status = PGAS_ERR_NO_MEMORY;
    for (size_t i = 0; i < N_HUGE_PAGES && status != PGAS_OK; i++) {
        if (!page_fits(huge_pages[i], bytes))
            continue;
        status = offer(bytes, huge_pages[i], mine, reason_p);
        bool has = status == PGAS_OK;
        status = sync_by_board(team, status);
        if (has && status != PGAS_OK) {
            withdraw();
            unmap(mine);
        }
    }
    return status;
}

static pgas_status_t offer_alike(pgas_team_t *team, size_t bytes, bool want_huge, pgasi_shm_t *mine)
{
    int reason = 0, none;
    want_huge = want_huge && pgasi_param.hugepages != PGASI_HUGEPAGES_NO;
    if (want_huge && offer_huge(team, bytes, mine, &reason) == PGAS_OK)
        return PGAS_OK;
    if (want_huge && pgasi_param.hugepages == PGASI_HUGEPAGES_YES) {
        if (reason)
            refuse_no_huge_pages(bytes, reason);
        return PGAS_ERR_NO_MEMORY;
    }
    if (want_huge)
        tell_no_huge_pages(bytes, reason);
    return sync_by_board(team, offer(bytes, system_page(), mine, &none));
}

pgas_status_t pgasi_shm_create_each(size_t bytes, bool want_huge, pgasi_shm_t *mine_p,
                                    void **addr_of)
{
    pgas_team_t *team = pgas_team_node();
    pgasi_shm_t mine = { NULL, 0, 0 };
    memset(addr_of, 0, (size_t)pgasi_boot.node_size * sizeof *addr_of);
    pgas_status_t status = offer_alike(team, bytes, want_huge, &mine);
    if (status == PGAS_OK)
        status = sync_by_board(team, map_all(&mine, addr_of));
    withdraw();
    if (status != PGAS_OK) {
        pgasi_shm_release_each(&mine, addr_of);
        return status;
    }
    *mine_p = mine;
    return PGAS_OK;
}

void pgasi_shm_release_each(pgasi_shm_t *mine, void **addr_of)
{
    for (int i = 0; i < pgasi_boot.node_size; i++) {
        if (addr_of[i] && i != pgasi_boot.node_rank)
            munmap(addr_of[i], mine->bytes);
        addr_of[i] = NULL;
    }
    unmap(mine);
}

/* ---- the control region: handed over by MPI ---- */

static pgas_status_t open_control(MPI_Comm node, size_t bytes)
{
    int32_t offered[2] = { -1, (int32_t)getpid() };
    bool leads = pgasi_boot.node_rank == 0;
    if (leads)
        offered[0] = make_plain(bytes, &control);
    pgas_status_t status =
        pgasi_mpi_status(MPI_Bcast(offered, 2, MPI_INT32_T, 0, node), "MPI_Bcast in the node");
    if (status != PGAS_OK || offered[0] < 0)
        return status != PGAS_OK ? status : PGAS_ERR_NO_MEMORY;
    int fd = leads ? offered[0] : pgasi_shm_open_peer(offered[1], offered[0]);
    if (!leads && fd >= 0) {
        size_t whole = PGASI_ALIGN_UP(bytes, system_page());
        void *base = map_memory(fd, whole, system_page());
        if (base != MAP_FAILED)
            control = (pgasi_shm_t){ base, whole, system_page() };
    }
    bool good = control.base != NULL;
    if (!good)
        PGASI_ERROR("shm", "cannot map the control region of the node: %s%s", strerror(errno),
                    pgasi_limits_cure(errno));
    status = pgasi_mpi_agree(node, good ? PGAS_OK : PGAS_ERR_NO_MEMORY);
    if (fd >= 0)
        close(fd);
    return status;
}

pgas_status_t pgasi_shm_start(MPI_Comm node)
{
    size_t n = (size_t)pgasi_boot.node_size;
    pgasi_wakeups = calloc(n + (size_t)pgasi_boot.n_ranks, sizeof *pgasi_wakeups);
    pgas_status_t status =
        pgasi_mpi_agree(node, pgasi_wakeups != NULL ? PGAS_OK : PGAS_ERR_NO_MEMORY);
    if (status == PGAS_OK)
        status = open_control(node, control_bytes(n));
    if (status != PGAS_OK) {
        pgasi_shm_stop();
        return status;
    }
    pgasi_wakeup_t *wakeups = (pgasi_wakeup_t *)(void *)((char *)control.base + sizeof(control_t));
    for (size_t i = 0; i < n; i++)
        pgasi_wakeups[i] = &wakeups[i];
    boxes = (box_t *)(void *)(wakeups + n);
    boxes[pgasi_boot.node_rank].fd = -1;
    return PGAS_OK;
}

void pgasi_shm_stop(void)
{
    free(pgasi_wakeups);
    pgasi_wakeups = NULL;
    boxes = NULL;
    has_logged_no_huge_pages = false;
    unmap(&control);
}
