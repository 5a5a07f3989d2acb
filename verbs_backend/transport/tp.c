/* The transport as a whole: its device, its capabilities, its address, and the ops table. */
#include "verbs_backend/transport/inside.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>
#include "base/hash.h"

/* The job's parameters; those of the environment in tests of a transport alone, where nothing has
 * loaded them. */
static pgas_status_t load_params(pgasi_params_t *params)
{
    char why[PGASI_PARAM_WHY_BYTES];
    if (pgasi_param.verbs_recv_buffers != 0) {
        *params = pgasi_param;
        return PGAS_OK;
    }
    pgasi_param_origin_t origins[PGASI_PARAM_COUNT];
    pgas_status_t status = pgasi_param_load(params, origins, why, sizeof why);
    if (status != PGAS_OK)
        PGASI_ERROR("verbs", "%s", why);
    return status;
}

/* ---- the address ---- */

/* The software NIC copies registered memory of other processes with these calls. Filters of
 * containers refuse them even for the own process, and Yama refuses them between processes. Without
 * this check a transfer would fail later, and the transport would give up its peer.
 * @param sample  address of a byte of process pid. Only the own process is written to, because in
 *          another pid namespace the pid may name an unrelated process. */
static pgas_status_t check_copies(pid_t pid, uint64_t sample)
{
    char byte = 0;
    struct iovec here = { &byte, 1 }, there = { (void *)(uintptr_t)sample, 1 };
    bool ours = pid == getpid(), good = process_vm_readv(pid, &here, 1, &there, 1, 0) == 1;
    if (good && ours)
        good = process_vm_writev(pid, &here, 1, &there, 1, 0) == 1;
    if (good || (!ours && errno != EPERM && errno != ENOSYS))
        return PGAS_OK;
    PGASI_ERROR("verbs",
                "the software NIC needs process_vm_readv and process_vm_writev, which are refused "
                "here (%s): allow them in "
                "the filter of system calls (docker: --cap-add SYS_PTRACE), set "
                "/proc/sys/kernel/yama/ptrace_scope to 0 or 1, or "
                "take PGAS_TRANSPORT=ucx",
                strerror(errno));
    return PGAS_ERR_UNSUPPORTED;
}

static uint64_t hash_of_file(const char *path)
{
    char text[128] = "";
    FILE *file = fopen(path, "re");
    if (file) {
        if (!fgets(text, sizeof text, file))
            text[0] = '\0';
        fclose(file);
    }
    return pgasi_hash_text(text);
}

/* Fills in the fields that peers need. */
static pgas_status_t make_address(pgasi_verbs_tp_t *tp)
{
    pgasi_verbs_tp_address_t *address = &tp->address;
    struct stat network;
    address->magic = PGASI_VERBS_TP_MAGIC;
    address->message_bytes = (uint32_t)PGASI_ALIGN_UP(tp->params.verbs_message + 64, 8);
    address->machine = hash_of_file("/proc/sys/kernel/random/boot_id");
    address->network = stat("/proc/self/ns/net", &network) == 0 ? (uint64_t)network.st_ino : 0;
    address->is_snic = strcmp(tp->dev->ops->name, "snic") == 0;
    if (address->is_snic && tp->opts.n_ranks > 1) {
        /* Fails where there is no Yama. With Yama's scope 1 it permits peers to copy. */
        prctl(PR_SET_PTRACER, PR_SET_PTRACER_ANY);
        address->pid = (uint32_t)getpid();
        address->sample = (uint64_t)(uintptr_t)&tp->sample;
    }
    bool drawn =
        getrandom(&address->cookie, sizeof address->cookie, 0) == (ssize_t)sizeof address->cookie &&
        getrandom(&address->secret, sizeof address->secret, 0) == (ssize_t)sizeof address->secret;
    return drawn ? PGAS_OK : PGAS_ERR_IO;
}

static bool can_map(const pgasi_verbs_tp_t *tp)
{
    return tp->dev->ops->mem_map && tp->dev->ops->mem_pack;
}

static void describe(pgasi_verbs_tp_t *tp)
{
    static const char *const engines[] = { "by the caller", "by a thread", "by a process" };
    char rails[72];
    pgasi_verbs_rails_describe(tp, rails, sizeof rails);
    snprintf(tp->detail, sizeof tp->detail, "%s by provider %s, %s%s%s", rails, tp->dev->ops->name,
             tp->dev->info.link, tp->address.is_snic ? ", run " : "",
             tp->address.is_snic ? engines[tp->params.verbs_engine] : "");
    PGASI_INFO("verbs", "%s", tp->detail);
}

/* ---- entries of the table ---- */

static pgas_status_t verbs_open(const pgasi_tp_opts_t *opts, pgasi_tp_t **tp_p)
{
    if (opts->n_ranks < 1 || opts->rank < 0 || opts->rank >= opts->n_ranks || !opts->am_fn)
        return PGAS_ERR_INVALID;
    pgasi_verbs_tp_t *tp = calloc(1, sizeof *tp);
    if (!tp)
        return PGAS_ERR_NO_MEMORY;
    tp->super.ops = &pgasi_verbs_table;
    tp->opts = *opts;
    tp->dead = mmap(NULL, (size_t)opts->n_ranks, PROT_READ | PROT_WRITE,
                    MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (tp->dead == MAP_FAILED) {
        free(tp);
        return PGAS_ERR_NO_MEMORY;
    }
    pgas_status_t status = load_params(&tp->params);
    if (status != PGAS_OK)
        goto unmap;
    status = pgasi_verbs_rails_open(tp);
    if (status != PGAS_OK)
        goto unmap;
    status = make_address(tp);
    if (status == PGAS_OK && tp->address.pid != 0)
        status = check_copies(getpid(), tp->address.sample);
    if (status == PGAS_OK)
        status = pgasi_verbs_cm_open(tp);
    if (status != PGAS_OK)
        goto close_device;
    pthread_mutex_init(&tp->lock, NULL);
    pthread_mutex_init(&tp->lost_lock, NULL);
    describe(tp);
    *tp_p = &tp->super;
    return PGAS_OK;
close_device:
    pgasi_verbs_rails_close(tp);
unmap:
    munmap(tp->dead, (size_t)opts->n_ranks);
    free(tp);
    return status;
}

static void verbs_close(pgasi_tp_t *tp_base)
{
    pgasi_verbs_tp_t *tp = pgasi_verbs_tp_of(tp_base);
    __atomic_store_n(&tp->closing, true, __ATOMIC_RELAXED);
    pgasi_verbs_cm_close(tp);
    pgasi_verbs_rails_close(tp);
    pgasi_verbs_lost_fini(tp);
    pthread_mutex_destroy(&tp->lost_lock);
    munmap(tp->dead, (size_t)tp->opts.n_ranks);
    pthread_mutex_destroy(&tp->lock);
    free(tp->mems);
    free(tp->mem_uses);
    free(tp);
}

static void verbs_query(pgasi_tp_t *tp_base, pgasi_tp_attr_t *attr_p)
{
    const pgasi_verbs_tp_t *tp = pgasi_verbs_tp_of(tp_base);
    size_t buffers =
        PGASI_VERBS_N_SMALL * (size_t)PGASI_VERBS_SMALL + PGASI_VERBS_N_LARGE * (size_t)8192;
    size_t depth = (size_t)tp->params.verbs_send_depth;
    *attr_p = (pgasi_tp_attr_t){
        .name = "verbs",
        .caps = PGASI_TP_PUT | PGASI_TP_GET | PGASI_TP_AMO | PGASI_TP_AM | PGASI_TP_WAKEUP |
                (can_map(tp) ? PGASI_TP_MEM_ALLOC : 0u),
        .am_inline_max = tp->address.message_bytes - PGASI_TP_AM_HEADER_MAX,
        /* queue entries are blocks of 64 bytes; inline data takes two */
        .ctx_bytes = sizeof(pgasi_verbs_ctx_t) + buffers + PGASI_VERBS_CQ_DEPTH * (size_t)64 +
                     PGASI_VERBS_SLOTS * (sizeof(pgasi_verbs_amo_reply_t) + sizeof(uint32_t)),
        .peer_bytes = sizeof(pgasi_verbs_ep_t) + depth * (2 * 64 + 16) +
                      PGASI_VERBS_INBOUND_DEPTH * (size_t)(64 + 16) + 1024,
        .receive_bytes = pgasi_verbs_receiver_bytes(tp),
    };
    memcpy(attr_p->detail, tp->detail, sizeof attr_p->detail);
}

static pgas_status_t verbs_address(pgasi_tp_t *tp, const void **addr_p, size_t *bytes_p)
{
    *addr_p = &pgasi_verbs_tp_of(tp)->address;
    *bytes_p = sizeof(pgasi_verbs_tp_address_t);
    return PGAS_OK;
}

bool pgasi_verbs_address_of(const pgasi_verbs_tp_t *tp, int rank,
                            pgasi_verbs_tp_address_t *address_p)
{
    const void *given = tp->addr_of(tp->addr_arg, rank);
    memset(address_p, 0, sizeof *address_p);
    if (given)
        memcpy(address_p, given, sizeof *address_p);
    return address_p->magic == PGASI_VERBS_TP_MAGIC;
}

/* Each rank checks rank 0, and rank 0 checks rank 1. So init refuses a job over several machines
 * without cards, and a job whose ranks may not copy each other's memory. */
static pgas_status_t verbs_set_peers(pgasi_tp_t *tp_base,
                                     const void *(*addr_of)(void *arg, int rank), void *arg)
{
    pgasi_verbs_tp_t *tp = pgasi_verbs_tp_of(tp_base);
    pgasi_verbs_tp_address_t address;
    tp->addr_of = addr_of;
    tp->addr_arg = arg;
    if (pgasi_verbs_address_of(tp, 0, &address) && tp->address.is_snic && address.is_snic &&
        address.machine != tp->address.machine) {
        PGASI_ERROR("verbs", "rank 0 is on another machine, where the software NIC does not reach; "
                             "PGAS_VERBS_DEVICE selects a card");
        return PGAS_ERR_MISMATCH;
    }
    bool looks = tp->address.is_snic && tp->opts.n_ranks > 1 &&
                 pgasi_verbs_address_of(tp, tp->opts.rank == 0 ? 1 : 0, &address);
    return looks && address.is_snic && address.pid != 0
               ? check_copies((pid_t)address.pid, address.sample)
               : PGAS_OK;
}

void pgasi_verbs_peer_gone(pgasi_verbs_tp_t *tp, int peer, const char *why)
{
    bool known = (__atomic_fetch_or(&tp->dead[peer], PGASI_VERBS_GONE, __ATOMIC_RELAXED) &
                  PGASI_VERBS_GONE) != 0;
    if (known || __atomic_load_n(&tp->closing, __ATOMIC_RELAXED))
        return;
    PGASI_WARN("verbs", "rank %d is gone (%s): operations to it end with PGAS_ERR_PEER", peer, why);
    if (tp->opts.error_fn)
        tp->opts.error_fn(tp->opts.arg, peer, PGAS_ERR_PEER);
}

/* Endpoints see the mark in their next progress (pending.c). */
static void verbs_peer_dead(pgasi_tp_t *tp, int peer)
{
    __atomic_fetch_or(&pgasi_verbs_tp_of(tp)->dead[peer], PGASI_VERBS_GONE, __ATOMIC_RELAXED);
}

const pgasi_tp_ops_t pgasi_verbs_table = {
    .open = verbs_open,
    .close = verbs_close,
    .query = verbs_query,
    .address = verbs_address,
    .set_peers = verbs_set_peers,
    .ctx_open = pgasi_verbs_ctx_open,
    .ctx_drain = pgasi_verbs_ctx_drain,
    .ctx_close = pgasi_verbs_ctx_close,
    .mem_alloc = pgasi_verbs_tp_mem_alloc,
    .mem_register = pgasi_verbs_tp_mem_register,
    .mem_release = pgasi_verbs_tp_mem_release,
    .key_pack = pgasi_verbs_key_pack,
    .key_unpack = pgasi_verbs_key_unpack,
    .key_map = pgasi_verbs_key_map,
    .key_release = pgasi_verbs_key_release,
    .put = pgasi_verbs_put,
    .get = pgasi_verbs_get,
    .amo = pgasi_verbs_amo,
    .am = pgasi_verbs_am,
    .fence = pgasi_verbs_fence,
    .flush = pgasi_verbs_flush_peer,
    .progress = pgasi_verbs_progress,
    .event_fd = pgasi_verbs_event_fd,
    .arm = pgasi_verbs_arm,
    .wake = pgasi_verbs_wake,
    .am_release = pgasi_verbs_am_release,
    .peer_dead = verbs_peer_dead,
};

const pgasi_tp_ops_t *pgasi_verbs_ops(void)
{
    return &pgasi_verbs_table;
}
