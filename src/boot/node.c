/* The node map: which ranks share memory, and how many processors the host has.
 *
 * MPI says which ranks are on one host. Whether they can share memory is tried (containers may have
 * PID namespaces of their own; users may differ). Every rank makes an anonymous file with a token
 * in it. The first rank of the host opens the files of all through /proc, and all open the first
 * rank's file. Ranks for which this fails are nodes of their own. PGAS_NODE_MAXSIZE=k then divides
 * the others into fake nodes of k ranks. Nodes are numbered by their lowest rank. */
#include "boot/internal.h"

#include <errno.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <sys/uio.h>
#include <unistd.h>

#include "base/bitmap.h"
#include "base/checks.h"
#include "base/log.h"
#include "base/machine.h"
#include "base/param.h"

#define TOKEN_MAGIC UINT64_C(0x6c69627067617321)

typedef struct {
    int32_t rank, pid, fd;
    uint64_t token;
    const uint64_t *address; /* of the token */
} card_t;                    /* sent to the other ranks of the host */

/* what a rank of the host and its first rank can do with each other's memory */
enum { SHARES = 1, READS = 2 };

/* The tables behind the pointers of pgasi_boot. */
static struct {
    pgasi_cpus_t cpus;
    int *node_of, *node_members, *local_of;
    int *host_members;
    pid_t *node_pids, *host_pids;
} own;

const pgasi_cpus_t *pgasi_node_cpus(void)
{
    return &own.cpus;
}

void pgasi_node_stop(void)
{
    free(own.node_of);
    free(own.node_members);
    free(own.local_of);
    free(own.node_pids);
    free(own.host_members);
    free(own.host_pids);
    own.node_of = own.node_members = own.local_of = own.host_members = NULL;
    own.node_pids = own.host_pids = NULL;
}

static int make_token_file(uint64_t token)
{
    int fd = pgasi_shm_file(sizeof token, 0);
    if (fd >= 0 && pwrite(fd, &token, sizeof token, 0) != (ssize_t)sizeof token) {
        close(fd);
        fd = -1;
    }
    return fd;
}

/* Whether process_vm_readv is allowed, which collectives of large data use. */
static bool can_read(const card_t *card)
{
    uint64_t token = 0;
    struct iovec here = { &token, sizeof token },
                 there = { (void *)(uintptr_t)card->address, sizeof token };
    return process_vm_readv(card->pid, &here, 1, &there, 1, 0) == (ssize_t)sizeof token &&
           token == card->token;
}

static unsigned char try_with(const card_t *card)
{
    uint64_t token = 0;
    int fd = card->fd < 0 ? -1 : pgasi_shm_open_peer(card->pid, card->fd);
    if (fd < 0)
        return 0;
    bool good = pread(fd, &token, sizeof token, 0) == (ssize_t)sizeof token && token == card->token;
    close(fd);
    if (!good)
        return 0;
    return can_read(card) ? SHARES | READS : SHARES;
}

/* PGAS_TEST_UNSHARED=RANK makes the files of that rank useless. */
static bool is_made_unshared(void)
{
    const char *text = pgasi_param_env("PGAS_TEST_UNSHARED");
    return text && *text != '\0' && atoi(text) == pgasi_boot.rank;
}

/* good[i]: what works between rank i of the host and the host's first rank, both ways. */
static pgas_status_t try_sharing(MPI_Comm host, int n, card_t *cards, unsigned char *good)
{
    static uint64_t token; /* which others read */
    token = pgasi_boot.job_key ^ TOKEN_MAGIC ^ ((uint64_t)pgasi_boot.rank << 32);
    card_t mine = { pgasi_boot.rank, (int32_t)getpid(), make_token_file(token), token, &token };
    if (is_made_unshared())
        mine.token ^= 1;
    int rc = MPI_Allgather(&mine, sizeof mine, MPI_BYTE, cards, sizeof mine, MPI_BYTE, host);
    unsigned char ok = 0;
    if (rc == MPI_SUCCESS) {
        ok = try_with(&cards[0]);
        for (int i = 0; pgasi_boot.host_rank == 0 && i < n; i++)
            good[i] = try_with(&cards[i]);
        rc = MPI_Scatter(good, 1, MPI_BYTE,
                         pgasi_boot.host_rank == 0 ? MPI_IN_PLACE : &good[pgasi_boot.host_rank], 1,
                         MPI_BYTE, 0, host);
    }
    ok &= good[pgasi_boot.host_rank];
    if (rc == MPI_SUCCESS) /* from here on no rank opens these files */
        rc = MPI_Allgather(&ok, 1, MPI_BYTE, good, 1, MPI_BYTE, host);
    if (mine.fd >= 0)
        close(mine.fd);
    return pgasi_mpi_status(rc, "the exchange of shared files on the host");
}

static void warn_about_loners(int n, const unsigned char *good)
{
    int n_alone = 0;
    for (int i = 0; i < n; i++)
        n_alone += !good[i];
    if (n_alone > 0 && pgasi_boot.host_rank == 0)
        PGASI_WARN("node",
                   "%d of %d ranks of this host cannot open each other's memory through "
                   "/proc/PID/fd and become nodes of their own, which is slower; run them as one "
                   "user in one PID namespace (docker: --pid=host)",
                   n_alone, n);
}

/* Ranks that could open each other's files see the same processes under the same numbers. */
static void keep_pids(int n, const card_t *cards, const unsigned char *good)
{
    for (int i = 0; i < n; i++) {
        own.host_members[i] = cards[i].rank;
        own.host_pids[i] = good[i] && good[pgasi_boot.host_rank] ? cards[i].pid : 0;
    }
    pgasi_boot.host_members = own.host_members;
    pgasi_boot.host_pids = own.host_pids;
    pgasi_boot.reads_peers = true;
    for (int i = 0; i < n; i++)
        pgasi_boot.reads_peers = pgasi_boot.reads_peers && (!good[i] || good[i] & READS);
}

/* The host rank that leads my node. */
static int leader_of_block(int n, const unsigned char *good, int max_size)
{
    int place = 0, leader = 0;
    if (!good[pgasi_boot.host_rank] || max_size == 0) {
        for (leader = 0; leader < n && !good[leader]; leader++) {
        }
        return good[pgasi_boot.host_rank] ? leader : pgasi_boot.host_rank;
    }
    for (int i = 0; i < pgasi_boot.host_rank; i++)
        place += good[i] != 0;
    place -= place % max_size;
    for (leader = 0; place > 0 || !good[leader]; leader++)
        place -= good[leader] != 0;
    return leader;
}

static pgas_status_t count_cpus(MPI_Comm host)
{
    static pgasi_cpus_t all;
    memset(&own.cpus, 0, sizeof own.cpus);
    if (sched_getaffinity(0, sizeof own.cpus, &own.cpus.set) != 0)
        memset(&own.cpus, 0, sizeof own.cpus);
    all = own.cpus;
    int rc =
        MPI_Allreduce(MPI_IN_PLACE, all.word, PGASI_CPU_WORDS, MPI_UNSIGNED_LONG, MPI_BOR, host);
    pgasi_boot.host_cpus = 0;
    for (size_t i = 0; i < PGASI_CPU_WORDS; i++)
        pgasi_boot.host_cpus += (int)pgasi_count_ones(all.word[i]);
    if (pgasi_boot.host_cpus == 0)
        pgasi_boot.host_cpus = 1;
    pgasi_machine_t machine;
    pgasi_machine_read("", &machine);
    pgasi_boot.quota_percent = (int)machine.quota_percent;
    int granted = machine.quota_percent ? (int)(machine.quota_percent / 100) : pgasi_boot.host_cpus;
    /* the same on all ranks, because collectives choose their way by it; quotas may differ */
    if (rc == MPI_SUCCESS)
        rc = MPI_Allreduce(MPI_IN_PLACE, &granted, 1, MPI_INT, MPI_MIN, host);
    pgasi_boot.oversubscribed = pgasi_boot.host_ranks > PGASI_MIN(pgasi_boot.host_cpus, granted);
    return pgasi_mpi_status(rc, "the union of CPU masks");
}

/* Numbers the nodes by the global ranks of their leaders. */
static pgas_status_t number_nodes(MPI_Comm world, int my_leader)
{
    int n = pgasi_boot.n_ranks, n_nodes = 0, n_members = 0;
    int rc = MPI_Allgather(&my_leader, 1, MPI_INT, own.node_of, 1, MPI_INT, world);
    if (rc != MPI_SUCCESS)
        return pgasi_mpi_status(rc, "the exchange of node leaders");
    for (int i = 0; i < n; i++) { /* a leader comes before its members */
        bool mine = own.node_of[i] == my_leader;
        own.node_of[i] = own.node_of[i] == i ? n_nodes++ : own.node_of[own.node_of[i]];
        own.local_of[i] = mine ? n_members : -1;
        if (mine)
            own.node_members[n_members++] = i;
    }
    pgasi_boot.n_nodes = n_nodes;
    pgasi_boot.node = own.node_of[pgasi_boot.rank];
    pgasi_boot.node_size = n_members;
    pgasi_boot.node_rank = own.local_of[pgasi_boot.rank];
    pgasi_boot.node_of = own.node_of;
    pgasi_boot.node_members = own.node_members;
    pgasi_boot.local_of = own.local_of;
    pgasi_boot.node_pids = own.node_pids;
    return PGAS_OK;
}

/* Carries out all steps that need the host's communicator. */
static pgas_status_t map_host(MPI_Comm world, MPI_Comm host, MPI_Comm *node_p)
{
    int n = pgasi_boot.host_ranks;
    card_t *cards = calloc((size_t)n, sizeof *cards);
    unsigned char *good = calloc((size_t)n, 1);
    pgas_status_t status =
        pgasi_mpi_agree(world, cards != NULL && good ? PGAS_OK : PGAS_ERR_NO_MEMORY);
    if (status != PGAS_OK)
        goto out;
    status = try_sharing(host, n, cards, good);
    if (status != PGAS_OK)
        goto out;
    warn_about_loners(n, good);
    keep_pids(n, cards, good);
    int leader = leader_of_block(n, good, pgasi_param.node_maxsize), leader_rank = pgasi_boot.rank;
    status = pgasi_mpi_status(MPI_Comm_split(host, leader, pgasi_boot.rank, node_p),
                              "MPI_Comm_split of the host");
    if (status != PGAS_OK)
        goto out;
    status =
        pgasi_mpi_status(MPI_Bcast(&leader_rank, 1, MPI_INT, 0, *node_p), "MPI_Bcast in the node");
    if (status == PGAS_OK)
        status = number_nodes(world, leader_rank);
    if (status == PGAS_OK) {
        pid_t pid = getpid();
        PGASI_STATIC_ASSERT(sizeof pid == sizeof(int), "pids travel as MPI_INT");
        status =
            pgasi_mpi_status(MPI_Allgather(&pid, 1, MPI_INT, own.node_pids, 1, MPI_INT, *node_p),
                             "the exchange of pids");
    }
    if (status == PGAS_OK)
        status = count_cpus(host);
    pgasi_boot.same_host_peers = pgasi_boot.host_ranks > pgasi_boot.node_size;
out:
    free(cards);
    free(good);
    return status;
}

pgas_status_t pgasi_node_start(MPI_Comm world, MPI_Comm *node_p)
{
    MPI_Comm host = MPI_COMM_NULL;
    size_t n = (size_t)pgasi_boot.n_ranks;
    *node_p = MPI_COMM_NULL;
    pgas_status_t status =
        pgasi_mpi_status(MPI_Comm_split_type(world, MPI_COMM_TYPE_SHARED, pgasi_boot.rank,
                                             MPI_INFO_NULL, &host),
                         "MPI_Comm_split_type");
    if (status != PGAS_OK)
        return status;
    MPI_Comm_rank(host, &pgasi_boot.host_rank);
    MPI_Comm_size(host, &pgasi_boot.host_ranks);
    own.node_of = calloc(n, sizeof *own.node_of);
    own.local_of = calloc(n, sizeof *own.local_of);
    own.node_members = calloc((size_t)pgasi_boot.host_ranks, sizeof *own.node_members);
    own.node_pids = calloc((size_t)pgasi_boot.host_ranks, sizeof *own.node_pids);
    own.host_members = calloc((size_t)pgasi_boot.host_ranks, sizeof *own.host_members);
    own.host_pids = calloc((size_t)pgasi_boot.host_ranks, sizeof *own.host_pids);
    bool have_all = own.node_of && own.local_of && own.node_members && own.node_pids &&
                    own.host_members && own.host_pids;
    status = pgasi_mpi_agree(world, have_all ? PGAS_OK : PGAS_ERR_NO_MEMORY);
    if (status == PGAS_OK)
        status = pgasi_limits_check(world, host);
    if (status == PGAS_OK)
        status = map_host(world, host, node_p);
    pgasi_mpi_free_comm(&host);
    if (status != PGAS_OK) {
        pgasi_mpi_free_comm(node_p);
        pgasi_node_stop();
    }
    return status;
}
