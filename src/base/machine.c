/* Limits of the machine and of cgroups, for decisions at init. It reads a few small files once.
 *
 * A limit of an ancestor holds for its descendants, so every folder from the process's own up to
 * the root of the mounted hierarchy counts. In a container the paths of /proc/self/cgroup may be
 * those of the host, and the mounted root is the container's own folder. The search therefore skips
 * folders that do not exist and always includes the root. */
#include "base/machine.h"

#ifdef __x86_64__
#include <cpuid.h>
#endif
#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/checks.h"

#define PATH_BYTES 768
#define CGROUPS    "/sys/fs/cgroup"

/* ---- single values ---- */

/* Reads the first line of root/folder/name without its line end. @return false if there is none. */
static bool read_line(const char *folder, const char *name, char *line, size_t bytes)
{
    char path[PATH_BYTES + 64];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    FILE *file = fopen(path, "re");
    if (!file)
        return false;
    bool got = fgets(line, (int)bytes, file) != NULL;
    fclose(file);
    if (got)
        line[strcspn(line, "\n")] = '\0';
    return got;
}

/* Reads a number; "max" and a missing file mean no limit. */
static uint64_t read_number(const char *folder, const char *name)
{
    char line[64];
    uint64_t value;
    if (!read_line(folder, name, line, sizeof line) || sscanf(line, "%" SCNu64, &value) != 1)
        return PGASI_MACHINE_NO_LIMIT;
    return value;
}

static void read_meminfo(const char *root, pgasi_machine_t *m)
{
    char line[256];
    uint64_t total = 0, swap = 0, available = 0, swap_free = 0;
    snprintf(line, sizeof line, "%s/proc/meminfo", root);
    FILE *file = fopen(line, "re");
    if (!file)
        return;
    while (fgets(line, sizeof line, file)) {
        (void)sscanf(line, "MemTotal: %" SCNu64, &total);
        (void)sscanf(line, "MemAvailable: %" SCNu64, &available);
        (void)sscanf(line, "SwapTotal: %" SCNu64, &swap);
        (void)sscanf(line, "SwapFree: %" SCNu64, &swap_free);
    }
    fclose(file);
    m->memory_bytes = (total + swap) << 10;
    m->memory_free = (available + swap_free) << 10;
}

/* ---- cgroups ---- */

static void take_memory(pgasi_machine_t *m, uint64_t limit, uint64_t used)
{
    /* version 1 writes "no limit" as a very large number */
    if (limit >= INT64_MAX / 2 || limit >= m->cgroup_bytes)
        return;
    m->cgroup_bytes = limit;
    m->cgroup_free = used < limit ? limit - used : 0;
}

static void take_quota(pgasi_machine_t *m, int64_t quota, int64_t period)
{
    if (quota <= 0 || period <= 0)
        return;
    uint32_t percent = (uint32_t)PGASI_MAX(PGASI_MIN(quota * 100 / period, INT32_MAX), 1);
    if (m->quota_percent == 0 || percent < m->quota_percent)
        m->quota_percent = percent;
}

static void look_2(const char *folder, pgasi_machine_t *m)
{
    char line[64];
    int64_t quota, period;
    take_memory(m, read_number(folder, "memory.max"), read_number(folder, "memory.current"));
    if (read_line(folder, "cpu.max", line, sizeof line) &&
        sscanf(line, "%" SCNd64 " %" SCNd64, &quota, &period) == 2)
        take_quota(m, quota, period);
}

static void look_memory_1(const char *folder, pgasi_machine_t *m)
{
    take_memory(m, read_number(folder, "memory.limit_in_bytes"),
                read_number(folder, "memory.usage_in_bytes"));
}

static void look_cpu_1(const char *folder, pgasi_machine_t *m)
{
    char quota[64], period[64];
    if (read_line(folder, "cpu.cfs_quota_us", quota, sizeof quota) &&
        read_line(folder, "cpu.cfs_period_us", period, sizeof period))
        take_quota(m, strtoll(quota, NULL, 10), strtoll(period, NULL, 10));
}

/* Visits the process's folder of a mounted hierarchy and its ancestors, up to the root. */
static void climb(const char *root, const char *mount, const char *path,
                  void (*look)(const char *, pgasi_machine_t *), pgasi_machine_t *m)
{
    char folder[PATH_BYTES];
    int at = snprintf(folder, sizeof folder, "%s" CGROUPS "%s", root, mount);
    if (at < 0 || (size_t)at + strlen(path) >= sizeof folder)
        return;
    size_t top = (size_t)at;
    strcpy(folder + top, strcmp(path, "/") == 0 ? "" : path);
    for (;;) {
        look(folder, m);
        char *slash = strrchr(folder + top, '/');
        if (!slash)
            break;
        *slash = '\0';
    }
}

static bool has_word(const char *list, const char *word)
{
    size_t n = strlen(word);
    for (const char *at = list; (at = strstr(at, word)) != NULL; at += n)
        if ((at == list || at[-1] == ',') && (at[n] == '\0' || at[n] == ','))
            return true;
    return false;
}

/* A line of /proc/self/cgroup: "0::/path" of version 2, "4:cpu,cpuacct:/path" of version 1. */
static void read_cgroup(const char *root, char *line, pgasi_machine_t *m)
{
    line[strcspn(line, "\n")] = '\0';
    char *names = strchr(line, ':');
    char *path = names ? strchr(names + 1, ':') : NULL;
    if (!path)
        return;
    *path++ = '\0';
    char mount[PATH_BYTES];
    snprintf(mount, sizeof mount, "/%s", ++names);
    if (!*names) {
        climb(root, "", path, look_2, m);
        climb(root, "/unified", path, look_2, m); /* where both versions are mounted */
    } else if (has_word(names, "memory")) {
        climb(root, mount, path, look_memory_1, m);
    } else if (has_word(names, "cpu")) {
        climb(root, mount, path, look_cpu_1, m);
        climb(root, "/cpu", path, look_cpu_1, m); /* the usual link to "cpu,cpuacct" */
    }
}

void pgasi_machine_read(const char *root, pgasi_machine_t *machine_p)
{
    char line[PATH_BYTES];
    pgasi_machine_t m = { .cgroup_bytes = PGASI_MACHINE_NO_LIMIT,
                          .cgroup_free = PGASI_MACHINE_NO_LIMIT };
    read_meminfo(root, &m);
    snprintf(line, sizeof line, "%s/proc/self/cgroup", root);
    FILE *file = fopen(line, "re");
    while (file && fgets(line, sizeof line, file))
        read_cgroup(root, line, &m);
    if (file)
        fclose(file);
    *machine_p = m;
}

/* ---- the processor ---- */

#ifdef __x86_64__

/* The system saves the registers of SSE and AVX. */
static bool saves_avx(void)
{
    uint32_t low, high;
    __asm__("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
    return (low & 6) == 6;
}

bool pgasi_machine_has_avx2(void)
{
    unsigned a, b, c, d;
    if (!__get_cpuid(1, &a, &b, &c, &d) || !(c & bit_OSXSAVE) || !saves_avx())
        return false;
    return __get_cpuid_count(7, 0, &a, &b, &c, &d) && (b & bit_AVX2);
}

#else

bool pgasi_machine_has_avx2(void)
{
    return false;
}

#endif
