/* pgas_kvsd: a server for clients of Redis over the store of pgas/kvs.h. Installed; mpirun starts
 * it on any number of processes.
 *
 *   mpirun -n 2 build/tools/pgas_kvsd --port 6379 --dir /var/lib/kvsd
 *   redis-cli -p 6380 set color red; redis-cli -p 6379 get color */
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <pgas/coll.h>
#include <pgas/init.h>
#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>
#include "kvsd.h"

enum { BACKLOG = 511, FILES_BESIDE = 256 /* of the library and MPI */ };

static void say(const char *what, const char *why)
{
    fprintf(stderr, "pgas_kvsd: rank %d: %s: %s\n", pgas_rank(), what, why);
}

/* ---- the listening socket ---- */

static socklen_t make_address(const char *text, int port, struct sockaddr_storage *address)
{
    void *where = address;
    struct sockaddr_in *four = where;
    struct sockaddr_in6 *six = where;
    memset(address, 0, sizeof *address);
    if (inet_pton(AF_INET, text, &four->sin_addr) == 1) {
        four->sin_family = AF_INET;
        four->sin_port = htons((uint16_t)port);
        return sizeof *four;
    }
    inet_pton(AF_INET6, text, &six->sin6_addr);
    six->sin6_family = AF_INET6;
    six->sin6_port = htons((uint16_t)port);
    return sizeof *six;
}

static bool open_socket(kvsd_server_t *server, int port)
{
    struct sockaddr_storage address;
    socklen_t bytes = make_address(server->opts.bind, port, &address);
    struct epoll_event event = { .events = EPOLLIN, .data.ptr = &server->listen_fd };
    int one = 1;
    server->listen_fd = socket(address.ss_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (server->listen_fd < 0)
        return false;
    setsockopt(server->listen_fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof one);
    return bind(server->listen_fd, (struct sockaddr *)&address, bytes) == 0 &&
           listen(server->listen_fd, BACKLOG) == 0 &&
           epoll_ctl(server->epoll_fd, EPOLL_CTL_ADD, server->listen_fd, &event) == 0;
}

/* Raises the limit of open files, and lowers that of clients if it is not enough. */
static void limit_clients(kvsd_server_t *server)
{
    struct rlimit limit;
    if (getrlimit(RLIMIT_NOFILE, &limit) != 0)
        return;
    rlim_t wanted = (rlim_t)server->opts.n_clients_max + FILES_BESIDE;
    if (limit.rlim_cur < wanted) {
        limit.rlim_cur = limit.rlim_max < wanted ? limit.rlim_max : wanted;
        setrlimit(RLIMIT_NOFILE, &limit);
    }
    if (limit.rlim_cur >= wanted)
        return;
    int n = limit.rlim_cur > 2 * FILES_BESIDE ? (int)(limit.rlim_cur - FILES_BESIDE) : 32;
    fprintf(stderr, "pgas_kvsd: rank %d: ulimit -n allows %d clients\n", pgas_rank(), n);
    server->opts.n_clients_max = n;
}

/* @return whether this rank can accept clients; it prints the reason if not */
static bool open_server(kvsd_server_t *server)
{
    int port = server->opts.port + pgas_rank();
    bool is_six = strchr(server->opts.bind, ':');
    snprintf(server->address, sizeof server->address, is_six ? "[%s]:%d" : "%s:%d",
             server->opts.bind, port);
    server->listen_fd = -1;
    server->wakeup_fd = -1;
    server->spare_fd = open("/dev/null", O_RDONLY | O_CLOEXEC);
    server->epoll_fd = epoll_create1(EPOLL_CLOEXEC);
    limit_clients(server);
    if (port > 65535) {
        say(server->address, "there is no such port");
        return false;
    }
    if (server->epoll_fd < 0 || server->spare_fd < 0 || !open_socket(server, port) ||
        !kvsd_job_init(server)) {
        say(server->address, strerror(errno));
        return false;
    }
    if (!kvsd_batch_init(&server->batch) || !kvsd_batch_init(&server->side)) {
        say(server->address, "out of memory");
        return false;
    }
    return true;
}

static void close_server(kvsd_server_t *server)
{
    const int fds[] = { server->listen_fd, server->spare_fd, server->epoll_fd };
    kvsd_close_all(server);
    kvsd_batch_fini(&server->batch);
    kvsd_batch_fini(&server->side);
    resp_pool_fini();
    if (server->wakeup_fd >= 0)
        kvsd_job_fini(server);
    for (size_t i = 0; i < sizeof fds / sizeof *fds; i++)
        if (fds[i] >= 0)
            close(fds[i]);
}

/* ---- start and end ---- */

static void announce(const kvsd_server_t *server)
{
    int first = server->opts.port, last = first + pgas_n_ranks() - 1;
    if (server->opts.quiet || pgas_rank() != 0)
        return;
    if (last == first)
        printf("pgas_kvsd: ready to accept connections on %s, port %d\n", server->opts.bind, first);
    else
        printf("pgas_kvsd: ready to accept connections on %s, ports %d to %d\n", server->opts.bind,
               first, last);
    fflush(stdout);
}

/* All ranks serve, or none. */
static pgas_status_t serve(kvsd_server_t *server)
{
    int32_t good = open_server(server);
    pgas_status_t status = pgas_allreduce(NULL, &good, &good, 1, PGAS_I32, PGAS_MIN);
    if (status == PGAS_OK && !good)
        status = PGAS_ERR_IO;
    if (status == PGAS_OK) {
        server->start_ms = server->now_ms = kvsd_clock_ms();
        announce(server);
        status = kvsd_serve(server);
    }
    if (status == PGAS_OK && kvsd_job_end(server) && server->opts.dir)
        status = pgas_kvs_save(server->kvs, NULL);
    close_server(server);
    return status;
}

static pgas_status_t run(kvsd_server_t *server)
{
    const kvsd_options_t *opts = &server->opts;
    pgas_kvs_opts_t kvs_opts = PGAS_KVS_OPTS_INIT;
    kvs_opts.n_keys = opts->n_keys;
    kvs_opts.bytes = opts->memory;
    kvs_opts.evict = opts->evict;
    kvs_opts.dir = opts->dir;
    kvs_opts.durability = opts->durability;
    pgas_status_t status = pgas_kvs_create(NULL, &kvs_opts, &server->kvs);
    if (status != PGAS_OK)
        return status;
    status = serve(server);
    pgas_status_t ended = pgas_kvs_destroy(server->kvs);
    return status == PGAS_OK ? ended : status;
}

int main(int argc, char **argv)
{
    static kvsd_server_t server;
    char params[80];
    pgas_init_opts_t init = PGAS_INIT_OPTS_INIT;
    kvsd_parse_options(argc, argv, &server.opts);
    kvsd_table_init();
    resp_limit_buffers(server.opts.buffers_max);
    /* The store, and what the library and the store keep beside it. */
    snprintf(params, sizeof params, "HEAP_SIZE=%" PRIu64 "K",
             (server.opts.memory + server.opts.memory / 8) / 1024 + 65536);
    init.params = params;
    if (pgas_init(NULL, &init) != PGAS_OK)
        return 1;
    pgas_status_t status = run(&server);
    if (status != PGAS_OK && pgas_rank() == 0)
        fprintf(stderr, "pgas_kvsd: %s\n", pgas_status_text(status));
    pgas_status_t ended = pgas_finalize();
    return status == PGAS_OK && ended == PGAS_OK ? 0 : 1;
}
