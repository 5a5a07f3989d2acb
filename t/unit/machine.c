/* Limits of the machine and of its cgroups.
 *   what:   Memory, and the limits of cgroups of both versions on memory and processor time, are
 *           read from any folder up to the root. Files that are missing, malformed or unlimited are
 *           no limit.
 *   source: cgroups(7), Documentation/admin-guide/cgroup-v2.rst, cgroup-v1/memory.rst,
 *   scheduler/sched-bwc.rst */
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include "base/machine.h"
#include "base/number.h"
#include "t/tap.h"

#define NONE PGASI_MACHINE_NO_LIMIT

static char scratch[64], root[96];
static int n_roots;

/* A new empty machine. */
static void fresh(void)
{
    snprintf(root, sizeof root, "%s/%d", scratch, n_roots++);
    mkdir(root, 0700);
}

/* Writes a file below the machine's root, with the folders that lead to it. */
static void put(const char *path, const char *text)
{
    char at[512];
    snprintf(at, sizeof at, "%s%s", root, path);
    for (char *slash = at + strlen(root) + 1; (slash = strchr(slash, '/')) != NULL; slash++) {
        *slash = '\0';
        mkdir(at, 0700);
        *slash = '/';
    }
    FILE *file = fopen(at, "w");
    if (!file || fputs(text, file) < 0 || fclose(file) != 0)
        bail("cannot write %s", at);
}

static pgasi_machine_t look(void)
{
    pgasi_machine_t m;
    pgasi_machine_read(root, &m);
    return m;
}

static void plain_machine(void)
{
    fresh();
    pgasi_machine_t m = look();
    ok(m.memory_bytes == 0 && m.cgroup_bytes == NONE && m.cgroup_free == NONE &&
           m.quota_percent == 0,
       "nothing to read is nothing known and no limit");
    put("/proc/meminfo", "MemTotal:  1000 kB\nMemFree: 1 kB\nMemAvailable:  600 kB\nSwapTotal: 24 "
                         "kB\nSwapFree: 20 kB\n");
    put("/proc/self/cgroup", "0::/\n");
    m = look();
    ok(m.memory_bytes == 1024 << 10 && m.memory_free == 620 << 10 && m.cgroup_bytes == NONE,
       "RAM and swap without cgroups");
}

static void version_2(void)
{
    fresh();
    put("/proc/self/cgroup", "0::/job/step\n");
    put("/sys/fs/cgroup/job/step/memory.max", "max\n");
    put("/sys/fs/cgroup/job/step/cpu.max", "max 100000\n");
    pgasi_machine_t m = look();
    ok(m.cgroup_bytes == NONE && m.quota_percent == 0, "version 2: max is no limit");
    put("/sys/fs/cgroup/job/memory.max", "5000\n");
    put("/sys/fs/cgroup/job/memory.current", "1200\n");
    put("/sys/fs/cgroup/job/cpu.max", "150000 100000\n");
    m = look();
    ok(m.cgroup_bytes == 5000 && m.cgroup_free == 3800 && m.quota_percent == 150,
       "the limits of a folder above apply");
    put("/sys/fs/cgroup/job/step/memory.max", "4000\n");
    put("/sys/fs/cgroup/job/step/memory.current", "4100\n");
    put("/sys/fs/cgroup/job/step/cpu.max", "50000 100000\n");
    m = look();
    ok(m.cgroup_bytes == 4000 && m.cgroup_free == 0 && m.quota_percent == 50,
       "the lowest of several");
}

static void version_1(void)
{
    fresh();
    put("/proc/self/cgroup",
        "9:name=systemd:/x\n5:memory:/job\n4:cpu,cpuacct:/job\n3:cpuset:/other\n0::/\n");
    put("/sys/fs/cgroup/memory/job/memory.limit_in_bytes", "9223372036854771712\n");
    put("/sys/fs/cgroup/cpu,cpuacct/job/cpu.cfs_quota_us", "-1\n");
    put("/sys/fs/cgroup/cpu,cpuacct/job/cpu.cfs_period_us", "100000\n");
    pgasi_machine_t m = look();
    ok(m.cgroup_bytes == NONE && m.quota_percent == 0,
       "version 1: no limit has numbers of its own");
    put("/sys/fs/cgroup/memory/job/memory.limit_in_bytes", "7000\n");
    put("/sys/fs/cgroup/memory/job/memory.usage_in_bytes", "1000\n");
    put("/sys/fs/cgroup/cpu,cpuacct/job/cpu.cfs_quota_us", "25000\n");
    m = look();
    ok(m.cgroup_bytes == 7000 && m.cgroup_free == 6000 && m.quota_percent == 25,
       "version 1: limits");
}

static void containers(void)
{
    fresh(); /* paths of the host, a mount of the container's own folder */
    put("/proc/self/cgroup", "5:memory:/docker/abc\n4:cpu:/docker/abc\n");
    put("/sys/fs/cgroup/memory/memory.limit_in_bytes", "8000\n");
    put("/sys/fs/cgroup/memory/memory.usage_in_bytes", "3000\n");
    put("/sys/fs/cgroup/cpu/cpu.cfs_quota_us", "200000\n");
    put("/sys/fs/cgroup/cpu/cpu.cfs_period_us", "100000\n");
    pgasi_machine_t m = look();
    ok(m.cgroup_bytes == 8000 && m.cgroup_free == 5000 && m.quota_percent == 200,
       "a container's own limits are the root's");
}

static void nonsense(void)
{
    char long_line[2048];
    fresh();
    memset(long_line, 'x', sizeof long_line - 1);
    long_line[sizeof long_line - 1] = '\0';
    memcpy(long_line, "0::/", 4);
    put("/proc/self/cgroup", long_line);
    put("/proc/meminfo", "MemTotal: many\n");
    put("/sys/fs/cgroup/memory.max", "plenty\n");
    put("/sys/fs/cgroup/cpu.max", "0 0\n");
    pgasi_machine_t m = look();
    ok(m.memory_bytes == 0 && m.cgroup_bytes == NONE && m.quota_percent == 0,
       "what does not parse is no limit");
}

static void words(void)
{
    char text[PGASI_NUMBER_BYTES];
    is_str(pgasi_number_bytes(1000, text), "1000 bytes", "bytes");
    is_str(pgasi_number_bytes(UINT64_C(3) << 29, text), "1.5 GiB", "GiB");
    is_str(pgasi_number_bytes(UINT64_C(192) << 30, text), "192 GiB", "many GiB");
    is_str(pgasi_number_bytes(UINT64_MAX, text), "16777216 TiB", "the most");
}

int main(void)
{
    snprintf(scratch, sizeof scratch, "/tmp/libpgas-test.XXXXXX");
    if (!mkdtemp(scratch))
        bail("no scratch folder");
    plan(14);
    plain_machine();
    version_2();
    version_1();
    containers();
    nonsense();
    words();
    pgasi_machine_t here;
    pgasi_machine_read("", &here);
    ok(here.memory_bytes > 1 << 20 && here.memory_free <= here.memory_bytes,
       "this machine has memory");
    char command[128];
    snprintf(command, sizeof command, "rm -rf %s", scratch);
    return system(command) == 0 ? done() : 1;
}
