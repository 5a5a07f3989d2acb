/** Memory and processor time that this process may use, with the limits of its cgroups. */
#ifndef PGASI_MACHINE_H
#define PGASI_MACHINE_H

#include <stdbool.h>
#include <stdint.h>

#define PGASI_MACHINE_NO_LIMIT UINT64_MAX

typedef struct {
    uint64_t memory_bytes, memory_free; /* RAM and swap; 0: not known */
    /* of the cgroup, or of its ancestor, with the lowest limit; otherwise NO_LIMIT */
    uint64_t cgroup_bytes, cgroup_free;
    /* processor time that the cgroups grant, 100 is one CPU; 0: no quota */
    uint32_t quota_percent;
} pgasi_machine_t;

/** Reads /proc and /sys/fs/cgroup, versions 1 and 2. A value that cannot be read counts as no
 *  limit.
 *  @param root prefix of both paths; "" except in tests */
void pgasi_machine_read(const char *root, pgasi_machine_t *machine_p);

/** Returns whether processor and system support AVX2. __builtin_cpu_supports would add a
 *  constructor, which touches 128 KiB of code and tables in each process. */
bool pgasi_machine_has_avx2(void);

#endif
