/* The UCX context: configuration, capabilities, and the ops table of the backend.
 *
 * UCX reads its configuration with our prefix (PGAS_UCX_TLS and so on; UCX_* counts where
 * PGAS_UCX_* is not set), because MPICH uses UCX too. The backend sets the variables that the user
 * has not set: atomics by CPUs, and no shared-memory transports where the library itself maps the
 * node's memory. A worker with these transports costs 2 to 4 MiB instead of 76 KiB. */
#include "ucx_backend/ucx.h"

#include <glob.h>
#include <stdlib.h>
#include <string.h>
#include "base/clock.h"
#include "base/hash.h"
#include "base/param.h"
#include <sys/mman.h>
#include <unistd.h>
#include "ucx_backend/buffers.h"

/* "sm" is UCX's name for posix, sysv, cma, xpmem and knem; without self, messages to the own rank
 * leave by a network */
#define TLS_OF_NETWORKS "^sm,self"
/* a network beside shared memory would be polled with it: two to three times the latency */
#define TLS_OF_HOST "sm,self"

/* Whether the user has set a value, in the environment or in ucx.conf. */
static bool user_set(const ucp_config_t *config, const char *name, const char *default_text,
                     char *text, size_t bytes)
{
    char variable[64], line[64];
    snprintf(variable, sizeof variable, "PGAS_UCX_%s", name);
    const char *env = pgasi_param_env(variable);
    env = env != NULL ? env : pgasi_param_env(variable + strlen("PGAS_"));
    if (env && *env != '\0') {
        snprintf(text, bytes, "%s", env);
        return true;
    }
    char *listing = NULL;
    size_t listing_bytes = 0;
    FILE *stream = open_memstream(&listing, &listing_bytes);
    if (!stream)
        return false;
    pgasi_ucx_lib.ucp_config_print(config, stream, "", UCS_CONFIG_PRINT_CONFIG);
    fclose(stream);
    snprintf(line, sizeof line, "UCX_%s=", name);
    const char *at = listing != NULL ? strstr(listing, line) : NULL;
    snprintf(text, bytes, "%s", default_text);
    if (at) {
        at += strlen(line);
        snprintf(text, bytes, "%.*s", (int)strcspn(at, "\n"), at);
    }
    free(listing);
    return strcmp(text, default_text) != 0;
}

/* Whether a list such as "posix,sysv" or "^ib" admits shared memory; it need not recognise every
 * list. */
static bool tls_has_shared_memory(const char *tls)
{
    static const char *const names[] = { "all", "sm", "shm", "mm", "posix", "sysv", "xpmem" };
    bool named = false;
    const char *list = tls[0] == '^' ? tls + 1 : tls;
    for (const char *at = list; *at != '\0';) {
        size_t length = strcspn(at, ",");
        for (size_t i = 0; i < PGASI_ARRAY_LENGTH(names); i++)
            named = named || (strlen(names[i]) == length && strncmp(at, names[i], length) == 0);
        at += length + (at[length] == ',');
    }
    return tls[0] == '^' ? !named : named;
}

/* The backend logs failures itself, so UCX's own messages are off unless the user asks for them.
 * UCX has one level for the process, so an MPI over UCX is silent, too. */
static void set_log_level(ucp_config_t *config)
{
    const char *ours = pgasi_param_env("PGAS_UCX_LOG_LEVEL");
    if (ours && *ours != '\0')
        pgasi_ucx_lib.ucp_config_modify(config, "LOG_LEVEL", ours);
    else if (pgasi_param_env("UCX_LOG_LEVEL") == NULL)
        pgasi_ucx_lib.ucp_config_modify(config, "LOG_LEVEL", "fatal");
}

/* Whether a list of transports may admit TCP. */
static bool tls_has_tcp(const char *tls)
{
    bool named = false, all = strcmp(tls, "all") == 0;
    for (const char *at = tls[0] == '^' ? tls + 1 : tls; *at != '\0';) {
        size_t length = strcspn(at, ",");
        named = named || (length == 3 && strncmp(at, "tcp", 3) == 0);
        at += length + (at[length] == ',');
    }
    return all || (tls[0] == '^' ? !named : named);
}

/* The loopback interface and the ports of all RDMA devices. */
static void list_host_devices(char *list, size_t bytes)
{
    glob_t ports;
    snprintf(list, bytes, "lo");
    if (glob("/sys/class/infiniband/*/ports/*", 0, NULL, &ports) != 0)
        return;
    for (size_t i = 0; i < ports.gl_pathc; i++) {
        char device[64];
        size_t used = strlen(list);
        int port;
        if (sscanf(ports.gl_pathv[i], "/sys/class/infiniband/%63[^/]/ports/%d", device, &port) ==
                2 &&
            used < bytes)
            snprintf(list + used, bytes - used, ",%s:%d", device, port);
    }
    globfree(&ports);
}

/* UCX opens TCP on every interface and prefers the one that claims the highest speed, often a
 * bridge or veth of containers. When that interface disappears, connections between two ranks of
 * this host hang or break. So a job on one host opens TCP on the loopback interface, which other
 * machines cannot reach. */
static ucs_status_t stay_on_host(ucp_config_t *config, const char *tls)
{
    char text[64], devices[1024];
    if (!tls_has_tcp(tls) || user_set(config, "NET_DEVICES", "all", text, sizeof text))
        return UCS_OK;
    list_host_devices(devices, sizeof devices);
    return pgasi_ucx_lib.ucp_config_modify(config, "NET_DEVICES", devices);
}

static bool in_environment(const char *name)
{
    const char *ours = pgasi_param_env(name), *theirs = pgasi_param_env(name + strlen("PGAS_"));
    return (ours && *ours != '\0') || (theirs && *theirs != '\0');
}

/* UCX's own detection of dead peers closes connections to live peers when a network is cut for half
 * a minute. The library detects deaths itself. The TCP probes are a variable of UCX's transport;
 * ucp_config_modify of 1.13 accepts it only without the transport's prefix. */
static ucs_status_t set_keepalive(ucp_config_t *config)
{
    ucs_status_t status = UCS_OK;
    if (!in_environment("PGAS_UCX_KEEPALIVE_INTERVAL"))
        status = pgasi_ucx_lib.ucp_config_modify(config, "KEEPALIVE_INTERVAL", "inf");
    if (status == UCS_OK && !in_environment("PGAS_UCX_TCP_KEEPIDLE"))
        status = pgasi_ucx_lib.ucp_config_modify(config, "KEEPIDLE", "inf");
    return status;
}

static pgas_status_t configure(pgasi_ucx_t *tp, ucp_config_t **config_p)
{
    char tls[96], text[64];
    ucp_config_t *config;
    ucs_status_t status = pgasi_ucx_lib.ucp_config_read("PGAS", NULL, &config);
    if (status != UCS_OK) {
        return pgasi_ucx_failed(status, "reading the configuration",
                                "a value of PGAS_UCX_* or UCX_* is invalid");
    }
    set_log_level(config);
    if (!user_set(config, "ATOMIC_MODE", "guess", text, sizeof text))
        status = pgasi_ucx_lib.ucp_config_modify(config, "ATOMIC_MODE", "cpu");
    /* The service worker receives on endpoints that it has not opened. With adaptive progress
     * UCX would leave its interfaces to a thread of UCX, and a round trip would take ten times
     * as long. */
    if (status == UCS_OK && !user_set(config, "ADAPTIVE_PROGRESS", "y", text, sizeof text))
        status = pgasi_ucx_lib.ucp_config_modify(config, "ADAPTIVE_PROGRESS", "n");
    bool user_tls = user_set(config, "TLS", "all", tls, sizeof tls);
    if (!user_tls && (!tp->opts.same_host_peers || tp->opts.same_host_only)) {
        snprintf(tls, sizeof tls, "%s", tp->opts.same_host_peers ? TLS_OF_HOST : TLS_OF_NETWORKS);
        ucs_status_t tls_status = pgasi_ucx_lib.ucp_config_modify(config, "TLS", tls);
        status = status == UCS_OK ? tls_status : status;
    }
    if (status == UCS_OK && tp->opts.same_host_only)
        status = stay_on_host(config, tls);
    bool shared = tls_has_shared_memory(tls);
    if (status == UCS_OK && !shared)
        status = set_keepalive(config);
    if (status != UCS_OK) {
        pgasi_ucx_lib.ucp_config_release(config);
        return pgasi_ucx_failed(status,
                                "setting ATOMIC_MODE, ADAPTIVE_PROGRESS, TLS and NET_DEVICES",
                                NULL);
    }
    /* UCX 1.13 removes shared-memory transports if error handling is requested, because they do not
     * watch their peers */
    tp->err_mode = shared ? UCP_ERR_HANDLING_MODE_NONE : UCP_ERR_HANDLING_MODE_PEER;
    tp->caps = PGASI_TP_PUT | PGASI_TP_GET | PGASI_TP_AMO | PGASI_TP_AM | PGASI_TP_WAKEUP |
               (shared ? PGASI_TP_MEM_ALLOC : 0);
    snprintf(tp->detail, sizeof tp->detail, "UCX %.24s, transports %.60s, %s",
             pgasi_ucx_lib.ucp_get_version_string(), tls,
             shared ? "peers not watched" : "peers watched");
    *config_p = config;
    return PGAS_OK;
}

/* Whether all networks that UCX has opened are TCP. UCX carries out gets and puts over TCP by
 * messages of 8 KiB, which it copies. An active message goes from the sender's memory to the
 * receive buffer of UCX. */
static bool is_tcp_only(ucp_context_h context)
{
    static const char *const others[] = { "rc_", "dc_", "ud_", "ugni" };
    char *text = NULL;
    size_t bytes = 0;
    FILE *stream = open_memstream(&text, &bytes);
    if (!stream)
        return false;
    pgasi_ucx_lib.ucp_context_print_info(context, stream);
    fclose(stream);
    bool tcp = text && strstr(text, "tcp/");
    for (size_t i = 0; tcp && i < PGASI_ARRAY_LENGTH(others); i++)
        tcp = !strstr(text, others[i]);
    free(text);
    return tcp;
}

static pgas_status_t open_context(pgasi_ucx_t *tp)
{
    ucp_config_t *config = NULL;
    pgas_status_t status = pgasi_ucx_lib_open();
    if (status == PGAS_OK)
        status = configure(tp, &config);
    if (status != PGAS_OK)
        return status;
    ucp_params_t params;
    memset(&params, 0, sizeof params);
    params.field_mask = UCP_PARAM_FIELD_FEATURES | UCP_PARAM_FIELD_MT_WORKERS_SHARED |
                        UCP_PARAM_FIELD_REQUEST_SIZE | UCP_PARAM_FIELD_NAME;
    params.features = UCP_FEATURE_RMA | UCP_FEATURE_AMO32 | UCP_FEATURE_AMO64 | UCP_FEATURE_AM |
                      UCP_FEATURE_WAKEUP;
    params.mt_workers_shared = 1;
    params.request_size = sizeof(pgasi_ucx_request_t);
    params.name = "pgas";
    ucs_status_t ucs =
        pgasi_ucx_lib.ucp_init_version(UCP_API_MAJOR, UCP_API_MINOR, &params, config, &tp->context);
    pgasi_ucx_lib.ucp_config_release(config);
    if (ucs != UCS_OK) {
        return pgasi_ucx_failed(
            ucs, "opening the network",
            "PGAS_UCX_TLS and PGAS_UCX_NET_DEVICES may name devices that this host does not have");
    }
    bool watched = tp->err_mode == UCP_ERR_HANDLING_MODE_PEER; /* no shared memory */
    tp->am_bulk_max = watched && is_tcp_only(tp->context) ? PGASI_UCX_AM_BULK_MAX : 0;
    return PGAS_OK;
}

static uint32_t make_cookie(const pgasi_ucx_t *tp)
{
    uint64_t parts[] = { pgasi_now_ns(), (uint64_t)getpid(), (uint64_t)tp->opts.rank,
                         (uint64_t)(uintptr_t)tp };
    return (uint32_t)pgasi_hash_bytes(parts, sizeof parts, 0);
}

static void ucx_close(pgasi_tp_t *tp_base)
{
    pgasi_ucx_t *tp = pgasi_ucx_of(tp_base);
    pgasi_ucx_lib.ucp_cleanup(tp->context);
    for (int i = 0; i < PGASI_UCX_CTXS_MAX; i++)
        if (tp->n_openings[i])
            munmap(tp->n_openings[i], (size_t)tp->opts.n_ranks);
    munmap(tp->dead, (size_t)tp->opts.n_ranks);
    pthread_mutex_destroy(&tp->lock);
    free(tp->address);
    free(tp);
}

static pgas_status_t ucx_open(const pgasi_tp_opts_t *opts, pgasi_tp_t **tp_p)
{
    if (opts->n_ranks < 1 || opts->n_ranks > 1 << PGASI_UCX_RANK_BITS || opts->rank < 0 ||
        opts->rank >= opts->n_ranks || !opts->am_fn)
        return PGAS_ERR_INVALID;
    pgasi_ucx_t *tp = calloc(1, sizeof *tp);
    if (!tp)
        return PGAS_ERR_NO_MEMORY;
    tp->super.ops = &pgasi_ucx_table;
    tp->opts = *opts;
    tp->cookie = make_cookie(tp);
    while (1 << tp->rank_bits < opts->n_ranks)
        tp->rank_bits++;
    pthread_mutex_init(&tp->lock, NULL);
    pgas_status_t status = PGAS_ERR_NO_MEMORY;
    tp->dead = mmap(NULL, (size_t)opts->n_ranks, PROT_READ | PROT_WRITE,
                    MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (tp->dead == MAP_FAILED)
        goto free_tp;
    status = open_context(tp);
    if (status != PGAS_OK)
        goto unmap_dead;
    *tp_p = &tp->super;
    return PGAS_OK;
unmap_dead:
    munmap(tp->dead, (size_t)opts->n_ranks);
free_tp:
    pthread_mutex_destroy(&tp->lock);
    free(tp);
    return status;
}

static void ucx_query(pgasi_tp_t *tp_base, pgasi_tp_attr_t *attr_p)
{
    const pgasi_ucx_t *tp = pgasi_ucx_of(tp_base);
    bool shared = (tp->caps & PGASI_TP_MEM_ALLOC) != 0;
    memset(attr_p, 0, sizeof *attr_p);
    snprintf(attr_p->name, sizeof attr_p->name, "ucx");
    snprintf(attr_p->detail, sizeof attr_p->detail, "%s", tp->detail);
    attr_p->caps = tp->caps;
    attr_p->am_inline_max = PGASI_UCX_EAGER_MAX;
    attr_p->am_bulk_max = tp->am_bulk_max;
    /* measured with UCX 1.13: a context takes 4.2 MiB or 110 KiB, its buffer pools another 0.4 to
     * 0.5 MiB once it is used */
    attr_p->ctx_bytes = shared ? 5u << 20 : 640u << 10;
    attr_p->peer_bytes = shared ? 20u << 10 : 4u << 10;
    attr_p->receive_bytes = pgasi_ucx_buffers_bytes();
}

static pgas_status_t ucx_set_peers(pgasi_tp_t *tp_base, const void *(*addr_of)(void *arg, int rank),
                                   void *arg)
{
    pgasi_ucx_t *tp = pgasi_ucx_of(tp_base);
    tp->addr_of = addr_of;
    tp->addr_arg = arg;
    return PGAS_OK;
}

const pgasi_tp_ops_t pgasi_ucx_table = {
    .open = ucx_open,
    .close = ucx_close,
    .query = ucx_query,
    .address = pgasi_ucx_address,
    .set_peers = ucx_set_peers,
    .ctx_open = pgasi_ucx_ctx_open,
    .ctx_drain = pgasi_ucx_ctx_drain,
    .ctx_close = pgasi_ucx_ctx_close,
    .mem_alloc = pgasi_ucx_mem_alloc,
    .mem_register = pgasi_ucx_mem_register,
    .mem_release = pgasi_ucx_mem_release,
    .key_pack = pgasi_ucx_key_pack,
    .key_unpack = pgasi_ucx_key_unpack,
    .key_map = pgasi_ucx_key_map,
    .key_release = pgasi_ucx_key_release,
    .put = pgasi_ucx_put,
    .get = pgasi_ucx_get,
    .amo = pgasi_ucx_amo,
    .am = pgasi_ucx_am,
    .fence = pgasi_ucx_fence,
    .flush = pgasi_ucx_flush_peer,
    .progress = pgasi_ucx_progress,
    .event_fd = pgasi_ucx_event_fd,
    .arm = pgasi_ucx_arm,
    .wake = pgasi_ucx_wake,
    .am_arrived = pgasi_ucx_journal_arrived,
    .am_release = pgasi_ucx_am_release,
    .peer_dead = pgasi_ucx_peer_dead,
};

const pgasi_tp_ops_t *pgasi_ucx_ops(void)
{
    return &pgasi_ucx_table;
}
