/* The replacement of src/boot: see lone.h. */
#include "t/unit/lone.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/param.h"
#include "boot/boot.h"
#include "boot/hooks.h"
#include "boot/wait.h"
#include "msg/recv_queue.h"

#define RANKS_MAX 64

pgasi_boot_t pgasi_boot = { .rank = -1 };
uint64_t lone_sent, lone_consumed;
size_t lone_recvq_bytes;

static int n_ranks = 1;
static int zeros[RANKS_MAX], numbers[RANKS_MAX];
static pid_t pids[RANKS_MAX];
static pgasi_wakeup_t wakeups[RANKS_MAX], *wakeup_table[RANKS_MAX];
static pgasi_channel_t sender[RANKS_MAX];
static bool dead[RANKS_MAX];
static bool started;

pgas_status_t lone_init(int ranks, const char *params)
{
    pgas_init_opts_t opts = PGAS_INIT_OPTS_INIT;
    opts.params = params;
    n_ranks = ranks;
    lone_sent = lone_consumed = 0;
    return pgas_init(NULL, &opts);
}

/* The address of a sender's channel depends on the sender, so this process takes the rank of each
 * for a moment, before service threads run. */
static void open_senders(void)
{
    for (int r = 1; r < n_ranks; r++) {
        pgasi_boot.node_rank = r;
        pgasi_recvq_open(0, PGASI_EP_ANY, LONE_CTX, &sender[r]);
    }
    pgasi_boot.node_rank = 0;
}

pgasi_channel_t lone_sender(int rank)
{
    return sender[rank];
}

pgasi_channel_t lone_receiver(int rank, int ep, int ctx)
{
    pgasi_channel_t channel;
    pgasi_recvq_open(rank, ep, ctx, &channel);
    return channel;
}

/* ---- boot.h ---- */

pgas_status_t pgasi_boot_start(const void *comm, const char *init_params)
{
    char why[PGASI_PARAM_WHY_BYTES] = "";
    (void)comm;
    pgas_status_t status = pgasi_param_load(&pgasi_param, pgasi_param_origins, why, sizeof why);
    if (status == PGAS_OK && init_params)
        status = pgasi_param_set_list(&pgasi_param, pgasi_param_origins, init_params,
                                      PGASI_PARAM_FROM_INIT, why, sizeof why);
    if (status != PGAS_OK) {
        PGASI_ERROR("param", "%s", why);
        return PGAS_ERR_INVALID;
    }
    for (int i = 0; i < RANKS_MAX; i++) {
        numbers[i] = i;
        pids[i] = getpid();
    }
    memset(wakeups, 0, sizeof wakeups);
    memset(dead, 0, sizeof dead);
    for (size_t i = 0; i < PGASI_ARRAY_LENGTH(wakeups); i++)
        wakeup_table[i] = &wakeups[i];
    pgasi_wakeups = wakeup_table;
    pgasi_boot = (pgasi_boot_t){
        .rank = 0,
        .n_ranks = n_ranks,
        .n_nodes = 1,
        .node_size = n_ranks,
        .node_of = zeros,
        .node_members = numbers,
        .local_of = numbers,
        .node_pids = pids,
        .host_members = numbers,
        .host_pids = pids,
        .host_ranks = 1,
        .host_cpus = 1,
        .job_key = UINT64_C(0x1234567887654321),
    };
    started = true;
    status = pgasi_wait_start();
#if defined __SANITIZE_THREAD__
    pgasi_wait_light_is_fence = true; /* ThreadSanitizer does not see membarrier */
#endif
    return status;
}

pgas_status_t pgasi_boot_stop(void)
{
    pgasi_hooks.progress = NULL;
    pgasi_wait_stop();
    memset(&pgasi_boot, 0, sizeof pgasi_boot);
    pgasi_boot.rank = -1;
    started = false;
    return PGAS_OK;
}

void pgasi_boot_abort(int exit_code)
{
    fprintf(stderr, "the library aborts\n");
    _exit(exit_code);
}

pgas_status_t pgasi_boot_agree(pgas_status_t mine)
{
    return mine < 0 ? mine : PGAS_OK;
}

pgas_status_t pgasi_boot_broadcast(void *buffer, size_t bytes, int root)
{
    (void)buffer;
    (void)bytes;
    (void)root;
    return PGAS_OK;
}

pgas_status_t pgasi_boot_allgather(const void *src, void *dst, size_t bytes)
{
    for (int i = 0; i < n_ranks; i++)
        memcpy((char *)dst + (size_t)i * bytes, src, bytes);
    return PGAS_OK;
}

pgas_status_t pgasi_boot_barrier(void)
{
    return PGAS_OK;
}

void pgasi_watch_leave(void)
{
}

void pgasi_watch_run(void)
{
}

void pgasi_watch_set_hook(void (*died)(int rank))
{
    (void)died;
}

void pgasi_watch_lost(int rank)
{
    (void)rank;
}

bool pgasi_watch_suspect(int rank)
{
    return pgasi_boot_is_dead(rank);
}

void pgasi_watch_print(FILE *out)
{
    (void)out;
}

bool pgasi_boot_is_dead(int rank)
{
    return __atomic_load_n(&dead[rank], __ATOMIC_ACQUIRE);
}

bool pgasi_boot_peer_died(int rank)
{
    return !__atomic_exchange_n(&dead[rank], true, __ATOMIC_ACQ_REL);
}

int pgasi_boot_launcher_rank(void)
{
    return 0;
}

const char *pgasi_boot_mpi_text(void)
{
    return "no MPI";
}

bool pgasi_boot_some_dead(void)
{
    for (int i = 0; i < n_ranks; i++)
        if (pgasi_boot_is_dead(i))
            return true;
    return false;
}

/* No collective proceeds meanwhile. */
int pgasi_coll_n_pending;
int pgasi_coll_progress(void)
{
    return 0;
}

void pgasi_coll_settle(const pgas_team_t *team)
{
    (void)team;
}

pgas_status_t pgasi_boot_enter(pgas_team_t *team)
{
    (void)team;
    return PGAS_OK;
}

/* The initial thread attaches when everything but the service threads is there. */
void pgasi_place_bind(int slot)
{
    if (slot == 0)
        open_senders();
}

pgas_status_t pgasi_place_query(int *cpu_p, int *numa_p, bool *bound_p)
{
    *cpu_p = *numa_p = -1;
    *bound_p = false;
    return PGAS_OK;
}

int pgasi_place_own_zone(void)
{
    return -1;
}

int pgasi_place_bind_zone(int index)
{
    (void)index;
    return -1;
}

int pgasi_place_distance(const char *device)
{
    (void)device;
    return 0;
}

int pgasi_place_n_zones(void)
{
    return 1;
}

pgas_status_t pgasi_place_memory(void *address, size_t bytes, int zone)
{
    (void)address;
    (void)bytes;
    (void)zone;
    return PGAS_ERR_UNSUPPORTED;
}

pgas_status_t pgasi_shm_create_each(size_t bytes, bool want_huge, pgasi_shm_t *mine_p,
                                    void **addr_of)
{
    if (!want_huge)
        lone_recvq_bytes = bytes;
    for (int i = 0; i < n_ranks; i++) {
        addr_of[i] = mmap(NULL, bytes, PROT_READ | PROT_WRITE,
                          MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
        if (addr_of[i] == MAP_FAILED)
            return PGAS_ERR_NO_MEMORY;
    }
    *mine_p = (pgasi_shm_t){ addr_of[0], bytes, 4096 };
    return PGAS_OK;
}

void pgasi_shm_release_each(pgasi_shm_t *mine, void **addr_of)
{
    for (int i = 0; i < n_ranks; i++)
        munmap(addr_of[i], mine->bytes);
}

/* ---- team.h, coll.h: one team of one rank ----
 * Sums of two 64-bit numbers are those of pgas_quiesce: bytes consumed and sent. */

pgas_team_t *pgasi_team_world(void)
{
    return NULL;
}

pgas_team_t *pgas_team_node(void)
{
    return NULL; /* all ranks */
}

uint32_t pgasi_team_number(const pgas_team_t *team)
{
    (void)team;
    return 0;
}

pgas_team_t *pgasi_team_of_number(uint32_t number)
{
    (void)number;
    return NULL;
}

static void *attachment;

void *pgasi_team_attachment(const pgas_team_t *team)
{
    (void)team;
    return __atomic_load_n(&attachment, __ATOMIC_ACQUIRE);
}

bool pgasi_team_attach(pgas_team_t *team, void *of_team)
{
    void *none = NULL;
    (void)team;
    return __atomic_compare_exchange_n(&attachment, &none, of_team, false, __ATOMIC_ACQ_REL,
                                       __ATOMIC_ACQUIRE);
}

int pgas_team_size(const pgas_team_t *team)
{
    (void)team;
    return n_ranks;
}

int pgas_team_rank(const pgas_team_t *team)
{
    (void)team;
    return 0;
}

int pgas_team_to_global(const pgas_team_t *team, int team_rank)
{
    (void)team;
    return team_rank >= 0 && team_rank < n_ranks ? team_rank : -1;
}

int pgas_team_from_global(const pgas_team_t *team, int rank)
{
    return pgas_team_to_global(team, rank);
}

pgas_status_t pgas_barrier(pgas_team_t *team)
{
    (void)team;
    return started ? PGAS_OK : PGAS_ERR_NOT_INIT;
}

pgas_status_t pgas_allgather(pgas_team_t *team, const void *src, void *dst, size_t bytes)
{
    for (int r = 0; started && r < n_ranks; r++)
        memcpy((char *)dst + (size_t)r * bytes, src, bytes);
    return pgas_barrier(team);
}

pgas_status_t pgas_allreduce(pgas_team_t *team, const void *src, void *dst, size_t n_elems,
                             pgas_type_t type, pgas_op_t op)
{
    (void)team;
    if (!started)
        return PGAS_ERR_NOT_INIT;
    memmove(dst, src, n_elems * (type == PGAS_I32 || type == PGAS_U32 || type == PGAS_F32 ? 4 : 8));
    if (n_elems == 2 && type == PGAS_U64 && op == PGAS_ADD) {
        ((uint64_t *)dst)[0] += __atomic_load_n(&lone_consumed, __ATOMIC_ACQUIRE);
        ((uint64_t *)dst)[1] += __atomic_load_n(&lone_sent, __ATOMIC_ACQUIRE);
    }
    return PGAS_OK;
}
