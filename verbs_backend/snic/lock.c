/* Locks between processes, in device memory. A lock names the thread that holds it and the time at
 * which that thread started. So a waiting thread can take over the lock of a dead one. */
#include "verbs_backend/snic/inside.h"

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>
#include "base/clock.h"

#define EXITING     4u /* PF_EXITING of the kernel, in field 9 of stat */
#define LOCK_SPINS  1000
#define LOCK_YIELDS 64
#define LOCK_CHECKS 256 /* yields between two checks whether the holder is alive */

uint64_t pgasi_snic_start_time(uint32_t pid)
{
    char path[64], text[1024];
    snprintf(path, sizeof path, "/proc/%u/stat", pid);
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return errno == EMFILE || errno == ENFILE || errno == ENOMEM ? SNIC_TIME_UNKNOWN : 0;
    ssize_t n = read(fd, text, sizeof text - 1);
    close(fd);
    if (n <= 0)
        return 0;
    text[n] = '\0';
    char *at = strrchr(text, ')');
    if (!at || at[1] == '\0' || at[2] == 'Z' || at[2] == 'X')
        return 0;
    for (int field = 2; field < 22 && at; field++) {
        if (field == 9 && (strtoul(at, NULL, 10) & EXITING) != 0)
            return 0;
        at = strchr(at + 1, ' ');
    }
    return at ? strtoull(at, NULL, 10) : 0;
}

bool pgasi_snic_is_running(const pgasi_snic_id_t *id)
{
    uint64_t start_time = pgasi_snic_start_time(id->pid);
    return start_time == id->start_time || start_time == SNIC_TIME_UNKNOWN;
}

static __thread uint64_t holder; /* the value of locks that this thread holds; 0: not known yet */
static pthread_once_t forks = PTHREAD_ONCE_INIT;

static void begin_child(void)
{
    holder = 0;
}

static void watch_forks(void)
{
    pthread_atfork(NULL, NULL, begin_child);
}

static uint64_t own_holder(void)
{
    if (PGAS_UNLIKELY(holder == 0)) {
        pthread_once(&forks, watch_forks);
        uint32_t tid = (uint32_t)syscall(SYS_gettid);
        uint64_t start_time = pgasi_snic_start_time(tid);
        if (start_time == SNIC_TIME_UNKNOWN)
            return tid; /* the next lock may read it */
        holder = (uint64_t)(uint32_t)start_time << 32 | tid;
    }
    return holder;
}

bool pgasi_snic_try_lock(uint64_t *lock)
{
    uint64_t nobody = 0;
    return __atomic_load_n(lock, __ATOMIC_RELAXED) == 0 &&
           __atomic_compare_exchange_n(lock, &nobody, own_holder(), false, __ATOMIC_ACQUIRE,
                                       __ATOMIC_RELAXED);
}

/* The id may belong to another thread now, which started later. A zombie counts as dead: its parent
 * may be waiting here instead of reaping it. */
static bool is_dead(uint64_t who)
{
    uint64_t start_time = pgasi_snic_start_time((uint32_t)who);
    uint32_t started = (uint32_t)(who >> 32);
    return start_time == 0 ||
           (start_time != SNIC_TIME_UNKNOWN && started != 0 && (uint32_t)start_time != started);
}

/* Takes over the lock of a dead holder. Its work can be repeated, see engine.c. */
static bool take_over(uint64_t *lock)
{
    uint64_t who = __atomic_load_n(lock, __ATOMIC_RELAXED);
    return who != 0 && is_dead(who) &&
           __atomic_compare_exchange_n(lock, &who, own_holder(), false, __ATOMIC_ACQUIRE,
                                       __ATOMIC_RELAXED);
}

void pgasi_snic_lock(uint64_t *lock)
{
    for (unsigned i = 0; !pgasi_snic_try_lock(lock); i++) {
        if (i < LOCK_SPINS) {
            pgasi_cpu_relax();
            continue;
        }
        if (i % LOCK_CHECKS == 0 && take_over(lock))
            return;
        sched_yield();
    }
}

bool pgasi_snic_lock_soon(uint64_t *lock)
{
    for (unsigned i = 0; i < LOCK_SPINS + LOCK_YIELDS; i++) {
        if (pgasi_snic_try_lock(lock))
            return true;
        if (i < LOCK_SPINS)
            pgasi_cpu_relax();
        else
            sched_yield();
    }
    return take_over(lock);
}
