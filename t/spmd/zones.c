/* Registered memory and NUMA zones. Where the machine has one zone only, most is skipped: `make
 * numa-vm` runs this in a virtual machine that has two.
 *   what:   Pages of an allocator are in its zone, whichever thread touches them first, and
 *           existing pages move there. Released pages are in the zone of the next thread that
 *           touches them. A pool is in the zone in which its creator runs. Blocks of
 *           pgas_alloc_on are in the zone that was asked for, on any rank.
 *           Chunks of channels are in the zone of the receiving thread, though the sender writes
 *           first. Of several service threads one runs in each zone.
 *   np:     1 2
 *   nodes:  0 1
 *   env:    | PGAS_SERVICE_THREADS=2
 *   source: pgas/mem.h; move_pages(2) reports the zone of a page */
#include <dirent.h>
#include <pthread.h>
#include <sched.h>
#include <sys/syscall.h>
#include <unistd.h>
#include "base/param.h"
#include "boot/boot.h"
#include "mem/ctx.h"
#include "mem/regmem.h"
#include "mem/segment.h"
#include "msg/channel_memory.h"
#include "msg/recv_queue.h"
#include "t/spmd/job.h"

#define ZONES_MAX 16
#define PAGE      4096
#define PAGES     300

static int n_zones;
static int cpu_of[ZONES_MAX], node_of[ZONES_MAX]; /* of a zone: one CPU; the system's number */
static int zone_of_cpu[CPU_SETSIZE];              /* -1: not a CPU of this process */

static bool run_on(int cpu)
{
    cpu_set_t set;
    CPU_ZERO(&set);
    CPU_SET((size_t)cpu, &set);
    return sched_setaffinity(0, sizeof set, &set) == 0;
}

/* Goes to every CPU that this process may use and asks both the library and the system where that
 * is. */
static bool find_zones(void)
{
    cpu_set_t allowed;
    n_zones = pgasi_place_n_zones();
    if (n_zones > ZONES_MAX)
        return false;
    memset(cpu_of, -1, sizeof cpu_of);
    memset(zone_of_cpu, -1, sizeof zone_of_cpu);
    sched_getaffinity(0, sizeof allowed, &allowed);
    for (int cpu = 0; cpu < CPU_SETSIZE; cpu++) {
        pgas_thread_info_t place = { .size = sizeof place };
        unsigned node = 0;
        if (!CPU_ISSET((size_t)cpu, &allowed) || !run_on(cpu))
            continue;
        syscall(SYS_getcpu, NULL, &node, NULL);
        if (pgas_thread_info(&place) == PGAS_OK && place.numa >= 0 && place.numa < n_zones) {
            cpu_of[place.numa] = cpu;
            zone_of_cpu[cpu] = place.numa;
            node_of[place.numa] = (int)node;
        }
    }
    sched_setaffinity(0, sizeof allowed, &allowed);
    for (int z = 0; z < n_zones && n_zones > 1; z++)
        if (cpu_of[z] < 0)
            return false;
    return true;
}

static int other(int zone)
{
    return (zone + 1) % n_zones;
}

/* @return the pages of an area that are not in the zone, or in none */
static int n_elsewhere(void *address, size_t bytes, int zone)
{
    int n = 0;
    char *first = (char *)((uintptr_t)address / PAGE * PAGE);
    for (char *page = first; page < (char *)address + bytes; page += PAGE) {
        void *pages[1] = { page };
        int where[1] = { -1 };
        if (syscall(SYS_move_pages, 0, 1, pages, NULL, where, 0) != 0 || where[0] != node_of[zone])
            n++;
    }
    return n;
}

typedef struct {
    pgas_block_t block;
    int cpu;
} touch_t;

static void *touch_main(void *arg)
{
    const touch_t *touch = arg;
    run_on(touch->cpu);
    memset(touch->block.address, 7, touch->block.bytes);
    return NULL;
}

/* Written by a thread that runs in a zone. */
static void touch_from(int zone, const pgas_block_t *b)
{
    pthread_t thread;
    touch_t touch = { *b, cpu_of[zone] };
    pthread_create(&thread, NULL, touch_main, &touch);
    pthread_join(thread, NULL);
}

static pgas_pool_opts_t opts_of(int zone)
{
    pgas_pool_opts_t opts = PGAS_POOL_OPTS_INIT;
    opts.zone = zone;
    opts.unit_bytes = 16 * PAGE;
    return opts;
}

static void in_the_zone(void)
{
    int n_bad = 0;
    for (int z = 0; z < n_zones; z++) {
        pgas_pool_opts_t opts = opts_of(PGAS_ZONE(z));
        pgasi_super_t *super;
        pgasi_circular_t *circular;
        pgasi_linear_t *linear;
        pgasi_general_t *general;
        pgas_block_t b[4];
        pgas_pool_info_t info;
        n_bad += pgasi_super_create(&opts, &super) + pgasi_circular_create(&opts, &circular) +
                     pgasi_linear_create(&opts, &linear) + pgasi_general_create(&opts, &general) !=
                 PGAS_OK;
        n_bad += pgasi_super_acquire(super, PAGES * PAGE, &b[0]) +
                     pgasi_circular_acquire(circular, PAGES * PAGE, &b[1]) +
                     pgasi_linear_acquire(linear, 15 * PAGE, &b[2]) +
                     pgasi_general_acquire(general, PAGES * PAGE, &b[3]) !=
                 PGAS_OK;
        for (int i = 0; i < 4; i++) {
            touch_from(other(z), &b[i]);
            n_bad += n_elsewhere(b[i].address, b[i].bytes, z);
        }
        n_bad += pgasi_super_info(super, &info) != PGAS_OK || info.zone != z;
        pgas_gptr_t ptr = PGAS_NULL;
        n_bad += pgas_n_zones() != n_zones ||
                 pgas_alloc_on(pgas_rank(), PGAS_ZONE(z), PAGES * PAGE, &ptr) != PGAS_OK;
        pgas_block_t of_rank = { .address = pgas_gptr_local(ptr, PAGES * PAGE),
                                 .bytes = PAGES * PAGE };
        touch_from(other(z), &of_rank);
        n_bad += n_elsewhere(of_rank.address, of_rank.bytes, z) + (pgas_free_on(ptr) != PGAS_OK);
        pgasi_super_destroy(super);
        pgasi_circular_destroy(circular);
        pgasi_linear_destroy(linear);
        pgasi_general_destroy(general);
    }
    spmd_is_int(n_bad, 0, "pages of all allocators are in their zone, touched from another");
}

static void nowhere_in_particular(void)
{
    pgas_pool_opts_t opts = opts_of(PGAS_ZONE_NONE);
    pgasi_super_t *super;
    pgas_block_t b, old;
    int n_bad = pgasi_super_create(&opts, &super) + pgasi_super_acquire(super, 8 << 20, &old) +
                pgasi_super_acquire(super, PAGES * PAGE, &b); /* b was never touched */
    touch_from(1, &b);
    n_bad += n_elsewhere(b.address, b.bytes, 1);
    spmd_is_int(n_bad, 0, "pages that are not placed are where they are touched");
    spmd_ok(n_elsewhere(b.address, b.bytes, 0) == PAGES, "pages elsewhere are noticed");
    pgasi_super_destroy(super);
}

/* The same pages of the heap, one after the other, in one zone and another. */
static void they_move(void)
{
    pgasi_super_t *super;
    pgas_block_t b, again;
    pgas_gptr_t local;
    int n_bad = 0;
    for (int i = 0; i < 4; i++) {
        int z = i % n_zones;
        pgas_pool_opts_t opts = opts_of(PGAS_ZONE(z));
        n_bad +=
            pgasi_super_create(&opts, &super) + pgasi_super_acquire(super, PAGES * PAGE, &again);
        n_bad += i && again.address != b.address;
        b = again;
        touch_from(other(z), &b);
        n_bad += n_elsewhere(b.address, PAGES * PAGE, z);
        pgasi_super_destroy(super);
    }
    spmd_is_int(n_bad, 0, "pages that are there already move");
    pgas_pool_opts_t opts = opts_of(PGAS_ZONE(1));
    pgas_block_t fresh;
    /* half was never touched */
    n_bad = pgasi_super_create(&opts, &super) + pgasi_super_acquire(super, 12 << 20, &fresh);
    pgasi_super_destroy(super);
    n_bad += pgas_alloc_on(pgas_rank(), PGAS_ZONE_NONE, 12 << 20, &local);
    fresh.bytes = PAGES * PAGE;
    fresh.address = pgas_gptr_local(local, 12 << 20);
    touch_from(0, &fresh);
    n_bad += n_elsewhere(fresh.address, PAGES * PAGE, 0);
    spmd_is_int(n_bad, 0, "released pages are where they are touched");
    pgas_free_on(local);
}

static void peers_touch(void)
{
    pgas_pool_opts_t opts = opts_of(PGAS_ZONE(1));
    pgasi_super_t *super;
    pgas_block_t b;
    pgas_gptr_t all[JOB_RANKS_MAX];
    int n_bad = pgasi_super_create(&opts, &super) + pgasi_super_acquire(super, PAGES * PAGE, &b);
    int right = (pgas_rank() + 1) % pgas_n_ranks();
    char *data = job_alloc(PAGES * PAGE);
    job_gather(b.ptr, all);
    run_on(cpu_of[0]);
    n_bad += pgas_put(all[right], data, PAGES * PAGE) + pgas_flush(right);
    pgas_barrier(NULL);
    /* the system reports nothing about pages that this process has not touched */
    for (size_t i = 0; i < b.bytes; i += PAGE)
        n_bad += ((volatile char *)b.address)[i] != 0;
    n_bad += n_elsewhere(b.address, b.bytes, 1);
    spmd_is_int(n_bad, 0, "also if a peer touches them first");
    pgasi_super_destroy(super);
    opts.zone = PGAS_ZONE(0);
    n_bad = pgasi_super_create(&opts, &super) + pgasi_super_acquire(super, PAGES * PAGE, &b);
    memset(b.address, 1, b.bytes);
    n_bad += n_elsewhere(b.address, b.bytes, 0);
    spmd_ok(pgasi_tp || n_bad == 0,
            "and those that peers have touched are replaced, where no transport knows them");
    pgasi_super_destroy(super);
    free(data);
}

typedef struct {
    int zone, n_bad;
} ring_arg_t;

static void *ring_main(void *arg)
{
    ring_arg_t *a = arg;
    pgas_block_t b;
    pgas_pool_opts_t opts = PGAS_POOL_OPTS_INIT;
    pgas_pool_info_t info = { .size = sizeof info };
    pgas_pool_t *pool = NULL;
    opts.policy = PGAS_POOL_CIRCULAR;
    a->n_bad = !run_on(cpu_of[a->zone]) + pgas_thread_attach() + pgas_pool_create(&opts, &pool) +
               pgas_pool_acquire(pool, 60000, -1, &b);
    touch_from(other(a->zone), &b);
    a->n_bad += n_elsewhere(b.address, b.bytes, a->zone) + pgas_pool_release(pool, &b);
    a->n_bad += pgas_pool_info(pool, &info) != PGAS_OK || info.zone != a->zone;
    pgas_pool_destroy(pool);
    pgas_thread_detach();
    return NULL;
}

/* Runs a thread in each zone, one after the other. @return their faults */
static int run_in_zones(void *(*main)(void *arg))
{
    int n_bad = 0;
    for (int z = 0; z < n_zones; z++) {
        pthread_t thread;
        ring_arg_t arg = { z, 0 };
        pthread_create(&thread, NULL, main, &arg);
        pthread_join(thread, NULL);
        n_bad += arg.n_bad;
    }
    return n_bad;
}

static void rings(void)
{
    spmd_is_int(run_in_zones(ring_main), 0, "a pool of the own zone is where its creator runs");
}

static void *near_main(void *arg)
{
    ring_arg_t *a = arg;
    pgas_gptr_t ptr = PGAS_NULL;
    size_t bytes = 3 * PAGE;
    a->n_bad = !run_on(cpu_of[a->zone]) + pgas_thread_attach() +
               pgas_alloc_on(pgas_rank(), PGAS_ZONE_OWN, bytes, &ptr);
    pgas_block_t b = { .address = pgas_gptr_local(ptr, bytes), .ptr = ptr, .bytes = bytes };
    touch_from(other(a->zone), &b);
    a->n_bad += n_elsewhere(b.address, bytes, a->zone) + pgas_free_on(ptr);
    pgas_thread_detach();
    return NULL;
}

static void near_a_thread(void)
{
    int n_bad = 0;
    for (int z = 0; z < n_zones; z++) {
        pthread_t thread;
        ring_arg_t arg = { z, 0 };
        pthread_create(&thread, NULL, near_main, &arg);
        pthread_join(thread, NULL);
        n_bad += arg.n_bad;
    }
    spmd_is_int(n_bad, 0, "a block of the own zone is where the thread runs");
}

/* ---- channels and services ---- */

typedef struct {
    char *from;
    size_t bytes;
    int cpu;
} look_t;

static void *look_main(void *arg)
{
    const look_t *look = arg;
    unsigned sum = 0;
    run_on(look->cpu);
    for (size_t i = 0; i < look->bytes; i += PAGE)
        sum += ((volatile unsigned char *)look->from)[i];
    return sum > 1u << 30 ? arg : NULL;
}

/* The first thread that touches the pages of a chunk runs in another zone. It only reads: senders
 * write there. @return the pages that are not in the zone */
static int n_chunk_pages_elsewhere(char *chunk, int zone)
{
    pthread_t thread;
    look_t look = { chunk, pgasi_chunk_bytes, cpu_of[other(zone)] };
    pthread_create(&thread, NULL, look_main, &look);
    pthread_join(thread, NULL);
    return n_elsewhere(look.from, look.bytes, zone);
}

static void *receiver_main(void *arg)
{
    ring_arg_t *a = arg;
    a->n_bad = !run_on(cpu_of[a->zone]) + pgas_thread_attach();
    int ep = pgasi_ep_of_slot(pgas_thread_slot(pgas_thread_self()));
    a->n_bad += ep < PGASI_EP_FIRST_THREAD ||
                n_chunk_pages_elsewhere(pgasi_recvq_chunk_of(0, ep, 3), a->zone) != 0;
    pgas_thread_detach();
    return NULL;
}

static void channels(void)
{
    int zone = pgasi_recvq_zone;
    int n_bad =
        zone < 0 || n_chunk_pages_elsewhere(pgasi_recvq_chunk_of(0, PGASI_EP_ANY, 3), zone) != 0;
    if (pgasi_chanmem.n_chunks) /* channels from other nodes */
        n_bad +=
            n_chunk_pages_elsewhere(pgasi_heap_tail() + pgasi_chanmem.chunks_at +
                                        (uint64_t)(pgasi_chanmem.n_chunks - 1) * pgasi_chunk_bytes,
                                    zone);
    spmd_is_int(n_bad, 0, "chunks of channels are in the zone of the thread that called pgas_init");
    spmd_is_int(run_in_zones(receiver_main), 0, "those for a thread are in its zone");
}

/* @return the zone to which a thread is bound; -1: to none */
static int zone_of_task(int tid)
{
    cpu_set_t set;
    int zone = -1;
    if (sched_getaffinity(tid, sizeof set, &set) != 0)
        return -1;
    for (int cpu = 0; cpu < CPU_SETSIZE; cpu++) {
        if (!CPU_ISSET((size_t)cpu, &set))
            continue;
        if (zone_of_cpu[cpu] < 0 || (zone >= 0 && zone != zone_of_cpu[cpu]))
            return -1;
        zone = zone_of_cpu[cpu];
    }
    return zone;
}

static void services(void)
{
    int n_in[ZONES_MAX] = { 0 }, n_bad = 0, zone;
    DIR *tasks = opendir("/proc/self/task");
    const struct dirent *entry;
    while (tasks && (entry = readdir(tasks)))
        if (atoi(entry->d_name) > 0 && (zone = zone_of_task(atoi(entry->d_name))) >= 0)
            n_in[zone]++;
    if (tasks)
        closedir(tasks);
    int want = pgasi_param.service_threads > 1 ? pgasi_param.service_threads : 0;
    for (int z = 0; z < n_zones; z++)
        n_bad += n_in[z] != want / n_zones + (z < want % n_zones);
    spmd_is_int(n_bad, 0, "of %d service threads, %d run in zone 0", pgasi_param.service_threads,
                n_in[0]);
}

static void refusals(void)
{
    pgas_pool_opts_t opts = opts_of(PGAS_ZONE(n_zones));
    pgasi_super_t *super = NULL;
    pgas_pool_info_t info;
    spmd_ok(pgasi_super_create(&opts, &super) == PGAS_ERR_NOT_FOUND && !super,
            "a zone that is not there");
    opts = opts_of(PGAS_ZONE_NONE);
    spmd_ok(pgasi_super_create(&opts, &super) == PGAS_OK &&
                pgasi_super_info(super, &info) == PGAS_OK && info.zone == -1,
            "no zone in particular");
    pgasi_super_destroy(super);
}

int main(int argc, char **argv)
{
    job_begin(&argc, &argv, 15);
    spmd_ok(find_zones(), "every zone has a CPU that this process may use");
    spmd_diag("%d zone%s", n_zones, n_zones == 1 ? "" : "s");
    refusals();
    if (n_zones == 1) {
        spmd_skip(12, "this machine has one NUMA zone: see make numa-vm");
        return job_end();
    }
    services();
    nowhere_in_particular(); /* first, while the heap is untouched */
    in_the_zone();
    they_move();
    rings();
    near_a_thread();
    channels();
    peers_touch();
    return job_end();
}
