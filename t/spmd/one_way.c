/* A connection that only one of two ranks can reopen.
 *   what:   Rank 0's connection to rank 1 is cut, and its attempts to connect are never answered.
 *           Rank 0 uses the connection that rank 1 opens, also for a new context.
 *   np:     2
 *   nodes:  1
 *   env:    PGAS_TRANSPORT=verbs PGAS_VERBS_DEVICE=snic
 *   tls:    tcp,self
 *   turn:   waits
 *   source: verbs_backend/transport/README.md */
#include <dlfcn.h>
#include <netinet/in.h>
#include <pthread.h>
#include <sys/socket.h>
#include <unistd.h>
#include "t/spmd/job.h"

enum { FDS_MAX = 1024 };

static bool redirects;
static struct sockaddr_in silent; /* the address of a listener that never accepts */
static bool is_old[FDS_MAX];

#pragma GCC visibility push(default) /* this replaces a function of another library */

int connect(int fd, __CONST_SOCKADDR_ARG given, socklen_t bytes)
{
    const struct sockaddr *address = given.__sockaddr__;
    int (*next)(int, const struct sockaddr *, socklen_t);
    *(void **)&next = dlsym(RTLD_NEXT, "connect");
    bool other = redirects && address->sa_family == AF_INET;
    return other ? next(fd, (const struct sockaddr *)&silent, sizeof silent)
                 : next(fd, address, bytes);
}

#pragma GCC visibility pop

static bool is_connected(int fd)
{
    struct sockaddr_storage peer;
    socklen_t bytes = sizeof peer;
    return getpeername(fd, (struct sockaddr *)&peer, &bytes) == 0 &&
           (peer.ss_family == AF_INET || peer.ss_family == AF_INET6);
}

static bool make_silent(void)
{
    socklen_t bytes = sizeof silent;
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    silent.sin_family = AF_INET;
    silent.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    return bind(fd, (struct sockaddr *)&silent, bytes) == 0 && listen(fd, 64) == 0 &&
           getsockname(fd, (struct sockaddr *)&silent, &bytes) == 0;
}

static int cut(void)
{
    int n = 0;
    for (int fd = 0; fd < FDS_MAX; fd++)
        n += !is_old[fd] && is_connected(fd) && shutdown(fd, SHUT_RDWR) == 0;
    return n;
}

static pgas_status_t put(pgas_gptr_t word)
{
    uint64_t one = 1;
    pgas_status_t status = pgas_put(pgas_gptr_at(word, 1 - pgas_rank()), &one, sizeof one);
    return status == PGAS_OK ? pgas_flush_all() : status;
}

static void *put_on_new_ctx(void *arg)
{
    static pgas_status_t status;
    status = pgas_thread_attach();
    if (status == PGAS_OK)
        status = put(*(pgas_gptr_t *)arg);
    pgas_thread_detach();
    return &status;
}

int main(int argc, char **argv)
{
    pgas_gptr_t word = PGAS_NULL;
    pthread_t thread;
    void *result = NULL;
    int level;
    MPI_Init_thread(&argc, &argv, MPI_THREAD_SERIALIZED, &level);
    for (int fd = 0; fd < FDS_MAX; fd++)
        is_old[fd] = is_connected(fd);
    job_begin(&argc, &argv, 2);
    pgas_alloc(sizeof(uint64_t), &word);
    bool good = make_silent() && (pgas_rank() == 0 || put(word) == PGAS_OK);
    pgas_barrier(NULL);
    spmd_ok(good && (pgas_rank() == 1 || put(word) == PGAS_OK),
            "both ranks put over the connection of rank 1");
    pgas_barrier(NULL);
    redirects = pgas_rank() == 0;
    good = pgas_rank() == 1 || cut() > 0;
    pthread_create(&thread, NULL, put_on_new_ctx, &word);
    pthread_join(thread, &result);
    spmd_ok(good && *(pgas_status_t *)result == PGAS_OK && put(word) == PGAS_OK,
            "and over the one that it opens again");
    pgas_barrier(NULL);
    int status = job_end();
    MPI_Finalize();
    return status;
}
