/* A thread whose context cannot be opened, for context.t: rank 0 fills /dev/shm, then a thread of
 * each rank tries, and after rank 0 has made room again the same thread tries once more. Each rank
 * prints one line of statuses. */
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <sys/statvfs.h>
#include <unistd.h>
#include "pgas/pgas.h"

#define N_TRIES 100
#define ROOM    (1 << 20) /* less than a context takes; other users of /dev/shm keep it */

static pgas_handler_t seen;
static pthread_barrier_t phase;
static pgas_gptr_t word;

static void on_seen(const void *args, size_t bytes, pgas_thread_t source, void *context)
{
    (void)args, (void)bytes, (void)source, (void)context;
}

static bool fill(const char *path)
{
    struct statvfs fs;
    int fd = open(path, O_CREAT | O_RDWR, 0600);
    bool good = fd >= 0 && statvfs("/dev/shm", &fs) == 0 &&
                posix_fallocate(fd, 0, (off_t)(fs.f_bavail * fs.f_bsize) - ROOM) == 0;
    close(fd);
    return good;
}

static pgas_status_t try_put(void)
{
    uint64_t value = 1;
    return pgas_put(word, &value, sizeof value);
}

static pgas_status_t try_call(void)
{
    uint64_t value = 1;
    return pgas_call(1 - pgas_rank(), seen, &value, sizeof value, NULL);
}

static void *other_thread(void *arg)
{
    (void)arg;
    pgas_status_t put = PGAS_OK, call = PGAS_OK;
    int n_same = 0;
    pgas_status_t attached = pgas_thread_attach();
    for (int i = 0; i < N_TRIES; i++) {
        put = try_put();
        call = try_call();
        n_same += put == PGAS_ERR_NO_MEMORY && call == PGAS_ERR_NO_MEMORY;
    }
    printf("attach %s, %d of %d refused\n", pgas_status_name(attached), n_same, N_TRIES);
    fflush(stdout);
    pthread_barrier_wait(&phase);
    pthread_barrier_wait(&phase);
    put = try_put();
    printf("with room %s %s\n", pgas_status_name(put), pgas_status_name(try_call()));
    fflush(stdout);
    pgas_thread_detach();
    return NULL;
}

int main(int argc, char **argv)
{
    pthread_t thread;
    const char *path = argc > 1 ? argv[1] : "/dev/shm/ctx-victim";
    pgas_handler_register("context.seen", on_seen, NULL, NULL, &seen);
    if (pgas_init(NULL, NULL) != PGAS_OK || pgas_alloc(sizeof(uint64_t), &word) != PGAS_OK)
        return 1;
    word = pgas_gptr_make(1 - pgas_rank(), pgas_gptr_offset(word));
    bool filled = pgas_rank() != 0 || fill(path);
    pthread_barrier_init(&phase, NULL, 2);
    pgas_barrier(NULL);
    if (!filled || pthread_create(&thread, NULL, other_thread, NULL) != 0)
        return 1;
    pthread_barrier_wait(&phase);
    pgas_barrier(NULL);
    unlink(path);
    pgas_barrier(NULL);
    pthread_barrier_wait(&phase);
    pthread_join(thread, NULL);
    return pgas_finalize() == PGAS_OK ? 0 : 1;
}
