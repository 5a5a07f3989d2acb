/* Listening sockets of a job on one host.
 *   what:   Over UCX's TCP, ranks of one host listen on the loopback interface alone, so that an
 *           interface that appears or disappears does not affect the job. Without TCP in
 *           PGAS_UCX_TLS they do not listen.
 *   np:     2
 *   nodes:  1
 *   env:    PGAS_TRANSPORT=ucx
 *   tls:    tcp,self ^ib,rc sysv,cma,self
 *   source: pgas/init.h; README of the UCX backend */
#include <dirent.h>
#include <unistd.h>
#include "t/spmd/job.h"

enum { SOCKETS_MAX = 1024, STATE_LISTEN = 0x0a };

typedef struct {
    unsigned long inodes[SOCKETS_MAX];
    int n;
} sockets_t;

/* All sockets of this process. */
static void own_sockets(sockets_t *s)
{
    DIR *dir = opendir("/proc/self/fd");
    s->n = 0;
    for (struct dirent *e = dir ? readdir(dir) : NULL; e && s->n < SOCKETS_MAX; e = readdir(dir)) {
        char path[300], target[64] = "";
        snprintf(path, sizeof path, "/proc/self/fd/%s", e->d_name);
        if (readlink(path, target, sizeof target - 1) > 0 &&
            sscanf(target, "socket:[%lu]", &s->inodes[s->n]) == 1)
            s->n++;
    }
    if (dir)
        closedir(dir);
}

static bool has(const sockets_t *s, unsigned long inode)
{
    for (int i = 0; i < s->n; i++)
        if (s->inodes[i] == inode)
            return true;
    return false;
}

/* Listening sockets that are in `now` and were not in `before`: all of them, and those not on
 * loopback. */
static void count(const sockets_t *before, const sockets_t *now, const char *file,
                  const char *loopback, int *all_p, int *elsewhere_p)
{
    char line[512], address[64];
    FILE *table = fopen(file, "r");
    while (table && fgets(line, sizeof line, table)) {
        unsigned state;
        unsigned long inode;
        if (sscanf(line, " %*d: %63[0-9A-F]:%*x %*[0-9A-F]:%*x %x %*s %*s %*s %*u %*u %lu", address,
                   &state, &inode) != 3)
            continue;
        if (state != STATE_LISTEN || !has(now, inode) || has(before, inode))
            continue;
        ++*all_p;
        *elsewhere_p += strcmp(address, loopback) != 0;
    }
    if (table)
        fclose(table);
}

int main(int argc, char **argv)
{
    static sockets_t before, now;
    int n_all = 0, n_elsewhere = 0;
    const char *tls = getenv("PGAS_UCX_TLS");
    bool tcp = tls && (strstr(tls, "tcp") || tls[0] == '^');
    spmd_begin(&argc, &argv, MPI_THREAD_SERIALIZED);
    spmd_plan(4);
    own_sockets(&before);
    job_start(NULL);
    own_sockets(&now);
    count(&before, &now, "/proc/self/net/tcp", "0100007F", &n_all, &n_elsewhere);
    count(&before, &now, "/proc/self/net/tcp6", "00000000000000000000000001000000", &n_all,
          &n_elsewhere);
    spmd_ok(tcp ? n_all > 0 : n_all == 0, "%s",
            tcp ? "TCP is asked for: the rank listens" : "no TCP: the rank listens nowhere");
    spmd_is_int(n_elsewhere, 0, "and on no other interface than loopback");
    return job_end();
}
