/* Places by hwloc: binding of threads, the NUMA zone of the calling thread, and zones of memory.
 *
 * The topology is loaded once, at the first request: that takes milliseconds, which programs that
 * never bind do not spend. I/O devices and caches are left out. Without hwloc nothing is bound and
 * zones are unknown.
 *
 * Choice of CPUs: a rank that its launcher has confined keeps its own CPUs. Ranks that all may use
 * the same CPUs divide them in blocks, by their order on the host. Threads take the objects of the
 * block in turn. */
#include "boot/internal.h"

#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include "base/log.h"
#include "base/param.h"

int pgasi_place_choose(int n_objects, bool divide, int host_rank, int host_ranks, int slot)
{
    if (!divide)
        return slot % n_objects;
    if (host_ranks >= n_objects) /* each rank gets a part of an object */
        return (int)((int64_t)host_rank * n_objects / host_ranks);
    int begin = (int)((int64_t)host_rank * n_objects / host_ranks);
    int end = (int)(((int64_t)host_rank + 1) * n_objects / host_ranks);
    return begin + slot % (end - begin);
}

#ifdef PGAS_HAVE_HWLOC
#include <hwloc.h>
#include <hwloc/linux.h>

static struct {
    pthread_mutex_t mutex;
    hwloc_topology_t topology;
    bool is_loaded, is_refused;
    bool has_bound; /* the thread with slot 0 */
} hw = { .mutex = PTHREAD_MUTEX_INITIALIZER };

static hwloc_topology_t load(void)
{
    hwloc_topology_t t;
    if (hwloc_topology_init(&t) != 0)
        return NULL;
    hwloc_topology_set_type_filter(t, HWLOC_OBJ_MISC, HWLOC_TYPE_FILTER_KEEP_NONE);
    hwloc_topology_set_icache_types_filter(t, HWLOC_TYPE_FILTER_KEEP_NONE);
    hwloc_topology_set_cache_types_filter(t, HWLOC_TYPE_FILTER_KEEP_NONE);
    hwloc_topology_set_io_types_filter(t, HWLOC_TYPE_FILTER_KEEP_NONE);
    hwloc_topology_set_flags(t, HWLOC_TOPOLOGY_FLAG_INCLUDE_DISALLOWED);
    if (hwloc_topology_load(t) != 0) {
        hwloc_topology_destroy(t);
        return NULL;
    }
    return t;
}

/* The topology, or NULL with one warning. */
static hwloc_topology_t get_topology(void)
{
    pthread_mutex_lock(&hw.mutex);
    if (!hw.is_loaded && !hw.is_refused) {
        hw.topology = load();
        hw.is_loaded = hw.topology != NULL;
        hw.is_refused = !hw.is_loaded;
        if (hw.is_refused)
            PGASI_WARN("place", "hwloc cannot read the topology of this machine: threads are not "
                                "bound, zones unknown");
    }
    hwloc_topology_t t = hw.is_loaded ? hw.topology : NULL;
    pthread_mutex_unlock(&hw.mutex);
    return t;
}

/* The thread that ends the library is the one that started it: it may use its former CPUs again. */
void pgasi_place_stop(void)
{
    if (hw.has_bound && sched_setaffinity(0, sizeof(pgasi_cpus_t), &pgasi_node_cpus()->set) != 0)
        PGASI_DEBUG("place", "cannot undo the binding of this thread");
    hw.has_bound = false;
    pthread_mutex_lock(&hw.mutex);
    if (hw.is_loaded)
        hwloc_topology_destroy(hw.topology);
    hw.is_loaded = hw.is_refused = false;
    pthread_mutex_unlock(&hw.mutex);
}

/* Returns the CPUs that the rank could use before anything was bound; NULL: no memory. */
static hwloc_bitmap_t allowed_cpus(hwloc_topology_t t)
{
    hwloc_bitmap_t set = hwloc_bitmap_alloc();
    for (unsigned i = 0; set != NULL && i < PGASI_CPU_WORDS; i++)
        hwloc_bitmap_set_ith_ulong(set, i, pgasi_node_cpus()->word[i]);
    if (set)
        hwloc_bitmap_and(set, set, hwloc_topology_get_topology_cpuset(t));
    return set;
}

/* Finds the objects of a type with allowed CPUs. */
static int count_objects(hwloc_topology_t t, hwloc_obj_type_t type, hwloc_const_bitmap_t allowed)
{
    int n = 0;
    for (hwloc_obj_t o = NULL; (o = hwloc_get_next_obj_by_type(t, type, o)) != NULL;)
        n += hwloc_bitmap_intersects(o->cpuset, allowed) != 0;
    return n;
}

static hwloc_obj_t nth_object(hwloc_topology_t t, hwloc_obj_type_t type,
                              hwloc_const_bitmap_t allowed, int index)
{
    for (hwloc_obj_t o = NULL; (o = hwloc_get_next_obj_by_type(t, type, o)) != NULL;)
        if (hwloc_bitmap_intersects(o->cpuset, allowed) && index-- == 0)
            return o;
    return NULL;
}

static void bind_to(hwloc_topology_t t, hwloc_bitmap_t allowed, hwloc_obj_type_t type, int slot)
{
    int n = count_objects(t, type, allowed);
    if (n == 0)
        return;
    bool divide = hwloc_bitmap_weight(allowed) == pgasi_boot.host_cpus;
    hwloc_obj_t o = nth_object(t, type, allowed,
                               pgasi_place_choose(n, divide, pgasi_boot.host_rank,
                                                  pgasi_boot.host_ranks, slot));
    hwloc_bitmap_and(allowed, allowed, o->cpuset);
    static int warned;
    if (hwloc_set_cpubind(t, allowed, HWLOC_CPUBIND_THREAD) != 0)
        pgasi_warn_once(&warned, "place",
                        "PGAS_BIND: the system refuses to bind thread %d to %s %u", slot,
                        hwloc_obj_type_string(type), o->logical_index);
    else if (slot == 0)
        hw.has_bound = true;
    PGASI_DEBUG("place", "thread %d is bound to %s %u", slot, hwloc_obj_type_string(type),
                o->logical_index);
}

void pgasi_place_bind(int slot)
{
    if (pgasi_param.bind == PGASI_BIND_NONE)
        return;
    hwloc_topology_t t = get_topology();
    hwloc_bitmap_t allowed = t != NULL ? allowed_cpus(t) : NULL;
    if (!allowed)
        return;
    bind_to(t, allowed, pgasi_param.bind == PGASI_BIND_CORE ? HWLOC_OBJ_CORE : HWLOC_OBJ_NUMANODE,
            slot);
    hwloc_bitmap_free(allowed);
}

/* Returns the zone of a CPU; -1: hwloc does not know the CPU. */
static int numa_of(hwloc_topology_t t, int cpu)
{
    for (hwloc_obj_t o = NULL;
         cpu >= 0 && (o = hwloc_get_next_obj_by_type(t, HWLOC_OBJ_NUMANODE, o));)
        if (hwloc_bitmap_isset(o->cpuset, (unsigned)cpu))
            return (int)o->logical_index;
    return -1;
}

static bool is_bound(hwloc_topology_t t)
{
    hwloc_bitmap_t set = hwloc_bitmap_alloc();
    bool bound = set && hwloc_get_cpubind(t, set, HWLOC_CPUBIND_THREAD) == 0 &&
                 !hwloc_bitmap_isincluded(hwloc_topology_get_topology_cpuset(t), set);
    hwloc_bitmap_free(set);
    return bound;
}

pgas_status_t pgasi_place_query(int *cpu_p, int *numa_p, bool *bound_p)
{
    hwloc_topology_t t = get_topology();
    int cpu = sched_getcpu();
    *cpu_p = cpu;
    *numa_p = t != NULL ? numa_of(t, cpu) : -1;
    *bound_p = t && is_bound(t);
    return PGAS_OK;
}

int pgasi_place_own_zone(void)
{
    int cpu, zone = -1;
    bool bound;
    if (pgasi_place_n_zones() > 1)
        (void)pgasi_place_query(&cpu, &zone, &bound);
    return zone;
}

int pgasi_place_bind_zone(int index)
{
    hwloc_topology_t t = pgasi_place_n_zones() > 1 ? get_topology() : NULL;
    hwloc_bitmap_t allowed = t ? allowed_cpus(t) : NULL;
    int zone = -1, n = allowed ? count_objects(t, HWLOC_OBJ_NUMANODE, allowed) : 0;
    if (n > 1) {
        hwloc_obj_t o = nth_object(t, HWLOC_OBJ_NUMANODE, allowed, index % n);
        hwloc_bitmap_and(allowed, allowed, o->cpuset);
        if (hwloc_set_cpubind(t, allowed, HWLOC_CPUBIND_THREAD) == 0)
            zone = (int)o->logical_index;
    }
    if (allowed)
        hwloc_bitmap_free(allowed);
    return zone;
}

int pgasi_place_distance(const char *device)
{
    char path[128];
    hwloc_topology_t t = get_topology();
    hwloc_bitmap_t near = hwloc_bitmap_alloc(), mine = hwloc_bitmap_alloc();
    int distance = 0;
    snprintf(path, sizeof path, "/sys/class/infiniband/%.64s/device/local_cpus", device);
    if (t && near && mine && hwloc_linux_read_path_as_cpumask(path, near) == 0 &&
        !hwloc_bitmap_iszero(near) && hwloc_get_cpubind(t, mine, HWLOC_CPUBIND_THREAD) == 0)
        distance = !hwloc_bitmap_intersects(near, mine);
    hwloc_bitmap_free(near);
    hwloc_bitmap_free(mine);
    return distance;
}

/* ---- memory ---- */

/* Whether the system has only one zone with memory, as nearly all small machines: then hwloc is not
 * needed. */
static bool look_for_one_zone(void)
{
    char text[64] = "";
    FILE *in = fopen("/sys/devices/system/node/has_memory", "r");
    if (!in)
        return false;
    bool one = fgets(text, sizeof text, in) && !strpbrk(text, ",-");
    fclose(in);
    return one;
}

static bool system_has_one_zone(void)
{
    static int known; /* 1: no, 2: yes */
    if (!__atomic_load_n(&known, __ATOMIC_RELAXED))
        __atomic_store_n(&known, 1 + look_for_one_zone(), __ATOMIC_RELAXED);
    return __atomic_load_n(&known, __ATOMIC_RELAXED) == 2;
}

int pgasi_place_n_zones(void)
{
    hwloc_topology_t t = system_has_one_zone() ? NULL : get_topology();
    return t ? PGASI_MAX(hwloc_get_nbobjs_by_type(t, HWLOC_OBJ_NUMANODE), 1) : 1;
}

pgas_status_t pgasi_place_memory(void *address, size_t bytes, int zone)
{
    static int warned;
    if (zone >= pgasi_place_n_zones())
        return PGAS_ERR_NOT_FOUND;
    hwloc_topology_t t = get_topology();
    hwloc_obj_t o =
        t && zone >= 0 ? hwloc_get_obj_by_type(t, HWLOC_OBJ_NUMANODE, (unsigned)zone) : NULL;
    int rc = -1;
    if (o)
        rc = hwloc_set_area_membind(t, address, bytes, o->nodeset, HWLOC_MEMBIND_BIND,
                                    HWLOC_MEMBIND_BYNODESET | HWLOC_MEMBIND_MIGRATE);
    else if (t && zone < 0)
        rc = hwloc_set_area_membind(t, address, bytes, hwloc_topology_get_topology_nodeset(t),
                                    HWLOC_MEMBIND_DEFAULT, HWLOC_MEMBIND_BYNODESET);
    if (rc != 0)
        pgasi_warn_once(&warned, "place", "the system refuses to place memory in NUMA zone %d: %s",
                        zone, strerror(errno));
    return rc == 0 ? PGAS_OK : PGAS_ERR_UNSUPPORTED;
}

#else /* without hwloc */

int pgasi_place_distance(const char *device)
{
    (void)device;
    return 0;
}

int pgasi_place_n_zones(void)
{
    return 1;
}

int pgasi_place_own_zone(void)
{
    return -1;
}

int pgasi_place_bind_zone(int index)
{
    (void)index;
    return -1;
}

pgas_status_t pgasi_place_memory(void *address, size_t bytes, int zone)
{
    (void)address;
    (void)bytes;
    return zone > 0 ? PGAS_ERR_NOT_FOUND : PGAS_ERR_UNSUPPORTED;
}

void pgasi_place_stop(void)
{
}

void pgasi_place_bind(int slot)
{
    static int warned;
    (void)slot;
    if (pgasi_param.bind != PGASI_BIND_NONE)
        pgasi_warn_once(
            &warned, "place",
            "PGAS_BIND is ignored: this libpgas was built without hwloc (libhwloc-dev)");
}

pgas_status_t pgasi_place_query(int *cpu_p, int *numa_p, bool *bound_p)
{
    *cpu_p = sched_getcpu();
    *numa_p = -1;
    *bound_p = false;
    return PGAS_OK;
}

#endif
