/* Replicas as child processes, which sleep unless they are asked for their regions. The software
 * NIC is a process of its own, with a name of this test. */
#ifndef T_UNIT_GROUP_CHILDREN_H
#define T_UNIT_GROUP_CHILDREN_H

#include <errno.h>
#include <sched.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include "base/clock.h"
#include "group/device.h"
#include "pgas/group.h"
#include "pgas/verbs_snic.h"
#include "t/must.h"

#define CHILDREN_MAX 8
#define HANG_S       60 /* a guard */

typedef struct {
    pid_t pid;
    int socket;
    char address[64];
} child_t;

static child_t children[CHILDREN_MAX];
static int n_children;

static pgas_verbs_dev_opts_t own_nic = PGAS_VERBS_DEV_OPTS_INIT;
static char nic_name[32];

/* Before any other function: all devices of this test use a process of its own. */
static inline void use_own_nic(void)
{
    snprintf(nic_name, sizeof nic_name, "t-%d", (int)getpid());
    own_nic.device = "snic";
    own_nic.engine = PGAS_VERBS_ENGINE_PROCESS;
    own_nic.engine_name = nic_name;
    pgasi_group_dev_opts = &own_nic;
}

static inline void send_all(int fd, const void *from, size_t bytes)
{
    for (const char *at = from; bytes > 0;) {
        ssize_t n = write(fd, at, bytes);
        if (n <= 0 && errno != EINTR)
            bail("a child is gone: %s", strerror(errno));
        at += n > 0 ? n : 0;
        bytes -= n > 0 ? (size_t)n : 0;
    }
}

static inline void receive_all(int fd, void *to, size_t bytes)
{
    for (char *at = to; bytes > 0;) {
        ssize_t n = read(fd, at, bytes);
        if (n <= 0 && errno != EINTR)
            bail("a child is gone");
        at += n > 0 ? n : 0;
        bytes -= n > 0 ? (size_t)n : 0;
    }
}

__attribute__((noreturn)) static inline void be_replica(int socket, const char *next,
                                                        size_t region_bytes)
{
    pgas_replica_opts_t opts = PGAS_REPLICA_OPTS_INIT;
    pgas_replica_info_t info = { .size = sizeof info };
    pgas_replica_t *replica;
    char byte;
    opts.listen = "127.0.0.1:0";
    opts.next = next;
    opts.region_bytes = region_bytes;
    must(pgas_replica_create(&opts, &replica), "pgas_replica_create");
    must(pgas_replica_info(replica, &info), "pgas_replica_info");
    send_all(socket, info.address, sizeof info.address);
    while (read(socket, &byte, 1) == 1)
        send_all(socket, info.region, region_bytes);
    _exit(0); /* not exit: the parent's output is in this process, too */
}

/* Starts n replicas, the last one first. The address of the first is children[0].address. */
static inline void start_children(int n, size_t region_bytes)
{
    n_children = n;
    for (int i = n - 1; i >= 0; i--) {
        int ends[2];
        pid_t parent = getpid();
        if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) != 0)
            bail("no sockets");
        children[i].pid = fork();
        if (children[i].pid == 0) {
            prctl(PR_SET_PDEATHSIG, SIGKILL);
            if (getppid() != parent)
                _exit(1);
            close(ends[0]);
            be_replica(ends[1], i + 1 < n ? children[i + 1].address : NULL, region_bytes);
        }
        close(ends[1]);
        children[i].socket = ends[0];
        receive_all(ends[0], children[i].address, sizeof children[i].address);
    }
}

static inline void end_children(void)
{
    for (int i = 0; i < n_children; i++) {
        close(children[i].socket);
        waitpid(children[i].pid, NULL, 0);
    }
}

static inline void region_of(int i, void *to, size_t bytes)
{
    send_all(children[i].socket, "r", 1);
    receive_all(children[i].socket, to, bytes);
}

/* The fields of /proc/PID/stat behind the name. */
static inline char state_of(pid_t pid, uint64_t *ticks_p)
{
    char path[64], text[1024] = "", state = 0;
    unsigned long long user = 0, kernel = 0;
    snprintf(path, sizeof path, "/proc/%d/stat", (int)pid);
    FILE *file = fopen(path, "r");
    if (!file || !fgets(text, sizeof text, file))
        bail("%s cannot be read", path);
    fclose(file);
    const char *at = strrchr(text, ')');
    if (!at || sscanf(at, ") %c %*d %*d %*d %*d %*d %*u %*u %*u %*u %*u %llu %llu", &state, &user,
                      &kernel) != 3)
        bail("%s: %s", path, text);
    if (ticks_p)
        *ticks_p = user + kernel;
    return state;
}

/* Sends a signal to all of them; SIGSTOP: waits until they are stopped. */
static inline void signal_children(int number)
{
    for (int i = 0; i < n_children; i++)
        kill(children[i].pid, number);
    uint64_t limit_ns = pgasi_now_ns() + HANG_S * UINT64_C(1000000000);
    for (int i = 0; i < n_children && number == SIGSTOP; i++)
        while (state_of(children[i].pid, NULL) != 'T' && pgasi_now_ns() < limit_ns)
            sched_yield();
}

/* Joins the group of the children. */
static inline pgas_group_t *join_children(pgas_group_way_t way, uint32_t window,
                                          pgas_group_full_t full)
{
    pgas_group_opts_t opts = PGAS_GROUP_OPTS_INIT;
    pgas_group_t *group = NULL;
    opts.way = way;
    opts.window = window;
    opts.full = full;
    pgasi_group_slots_wanted = 1; /* twice the window */
    must(pgas_group_join(children[0].address, &opts, &group), "pgas_group_join");
    return group;
}

static inline pgas_group_info_t describe(pgas_group_t *group)
{
    pgas_group_info_t info = { .size = sizeof info };
    must(pgas_group_info(group, &info), "pgas_group_info");
    return info;
}

#endif
