/* Devices of the software NIC: opened and closed by their owner, with the arena for rings and the
 * table of registered memory. The owner changes them under the lock of the device. */
#include "verbs_backend/snic/inside.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <unistd.h>
#include <fcntl.h>
#include "base/clock.h"
#include "base/hash.h"
#include "base/log.h"

#define MR_TAG_STEP 0x35u

/* ---- identity ---- */

/* Two processes of one boot and one pid namespace can name each other. */
uint64_t pgasi_snic_machine(void)
{
    char text[128] = "";
    size_t used = 0;
    int fd = open("/proc/sys/kernel/random/boot_id", O_RDONLY | O_CLOEXEC);
    if (fd >= 0) {
        ssize_t n = read(fd, text, 64);
        used = n > 0 ? (size_t)n : 0;
        close(fd);
    }
    ssize_t n = readlink("/proc/self/ns/pid", text + used, sizeof text - used);
    used += n > 0 ? (size_t)n : 0;
    return pgasi_hash_bytes(text, used, 0);
}

static void make_id(pgasi_snic_t *snic, pgasi_snic_id_t *id)
{
    const char *name = snic->opts.engine_name != NULL ? snic->opts.engine_name : "default";
    *id = (pgasi_snic_id_t){ .pid = (uint32_t)getpid(),
                             .devmem_fd = snic->devmem_fd,
                             .start_time = pgasi_snic_start_time((uint32_t)getpid()),
                             .machine = pgasi_snic_machine(),
                             .engine = (uint32_t)snic->opts.engine,
                             .name = (uint32_t)pgasi_hash_bytes(name, strlen(name), 0) };
    if (getrandom(&id->cookie, sizeof id->cookie, 0) != sizeof id->cookie)
        id->cookie = pgasi_now_ns() ^ (uint64_t)(uintptr_t)snic;
}

void pgasi_snic_id(const pgasi_snic_t *snic, pgasi_snic_id_t *id_p)
{
    *id_p = snic->view->id;
}

/* ---- opening and closing ---- */

static pgas_status_t make_devmem(pgasi_snic_t *snic, snic_devmem_t **devmem_p)
{
    size_t bytes = SNIC_DEVMEM_BYTES + SNIC_ARENA_BYTES;
    int flags = MAP_SHARED | MAP_NORESERVE;
    snic->devmem_fd = -1;
    if (!snic->opts.in_process) {
        snic->devmem_fd = pgasi_snic_memory("pgas-snic", bytes);
        if (snic->devmem_fd < 0) {
            pgas_status_t status =
                errno == EMFILE || errno == ENFILE ? PGAS_ERR_LIMIT : PGAS_ERR_NO_MEMORY;
            PGASI_WARN("snic", "no memory to share with other processes: %s", strerror(errno));
            return status;
        }
    } else {
        flags |= MAP_ANONYMOUS;
    }
    void *map = mmap(NULL, bytes, PROT_READ | PROT_WRITE, flags, snic->devmem_fd, 0);
    *devmem_p = map == MAP_FAILED ? NULL : map;
    return map == MAP_FAILED ? PGAS_ERR_NO_MEMORY : PGAS_OK;
}

pgas_status_t pgasi_snic_open(const pgasi_snic_opts_t *opts, pgasi_snic_t **snic_p)
{
    pgasi_snic_t *snic = calloc(1, sizeof *snic);
    if (!snic)
        return PGAS_ERR_NO_MEMORY;
    snic->opts = *opts;
    if (opts->seed == 0)
        snic->opts.seed = pgasi_now_ns();
    if (opts->adversary != 0 || opts->engine == PGASI_SNIC_ENGINE_STEP)
        PGASI_INFO("snic", "seed %llu", (unsigned long long)snic->opts.seed);
    pthread_mutex_init(&snic->lock, NULL);
    snic_devmem_t *devmem = NULL;
    pgas_status_t status = make_devmem(snic, &devmem);
    if (status == PGAS_OK)
        status = pgasi_extents_create(SNIC_ARENA_BYTES, &snic->arena);
    if (status == PGAS_OK) {
        pgasi_snic_id_t id;
        make_id(snic, &id);
        status = pgasi_snic_enter_view(snic, devmem, &id);
    }
    if (status == PGAS_OK)
        status = pgasi_snic_start(snic);
    if (status == PGAS_OK) {
        pgasi_snic_take_spare();
        *snic_p = snic;
        return PGAS_OK;
    }
    if (snic->view)
        pgasi_snic_view_put(snic->view);
    else if (devmem)
        munmap(devmem, SNIC_DEVMEM_BYTES + SNIC_ARENA_BYTES);
    if (snic->devmem_fd >= 0)
        close(snic->devmem_fd);
    pgasi_extents_destroy(snic->arena);
    pthread_mutex_destroy(&snic->lock);
    free(snic);
    return status;
}

void pgasi_snic_close(pgasi_snic_t *snic)
{
    snic_devmem_t *devmem = snic->view->devmem;
    pgasi_snic_stop(snic);
    for (uint32_t i = 0; i < snic_high(devmem); i++)
        if (devmem->qps[i].number != 0)
            pgasi_snic_qp_close(snic, devmem->qps[i].number);
    __atomic_store_n(&devmem->magic, 0, __ATOMIC_RELEASE);
    pgasi_snic_view_put(snic->view);
    pgasi_snic_give_spare();
    if (snic->devmem_fd >= 0)
        close(snic->devmem_fd);
    pgasi_extents_destroy(snic->arena);
    pthread_mutex_destroy(&snic->lock);
    free(snic);
}

int pgasi_snic_devmem_fd(const pgasi_snic_t *snic)
{
    return snic->devmem_fd;
}

/* ---- memory ---- */

pgasi_snic_ref_t pgasi_snic_arena_take(pgasi_snic_t *snic, size_t bytes, size_t alignment,
                                       void **addr_p)
{
    uint64_t offset = 0;
    pthread_mutex_lock(&snic->lock);
    pgas_status_t status =
        pgasi_extents_alloc_low(snic->arena, bytes, PGASI_MAX(alignment, (size_t)64), &offset);
    pthread_mutex_unlock(&snic->lock);
    if (status != PGAS_OK)
        return 0;
    pgasi_snic_ref_t ref = SNIC_DEVMEM_BYTES + offset;
    *addr_p = (char *)snic->view->devmem + ref;
    memset(*addr_p, 0, bytes);
    return ref;
}

void pgasi_snic_arena_give(pgasi_snic_t *snic, pgasi_snic_ref_t ref, size_t bytes)
{
    (void)bytes;
    pthread_mutex_lock(&snic->lock);
    pgasi_extents_free(snic->arena, ref - SNIC_DEVMEM_BYTES);
    pthread_mutex_unlock(&snic->lock);
}

uint32_t pgasi_snic_pd_open(pgasi_snic_t *snic)
{
    return __atomic_add_fetch(&snic->n_pds, 1, __ATOMIC_RELAXED);
}

uint32_t pgasi_snic_mr_open(pgasi_snic_t *snic, uint32_t pd, const void *addr, uint64_t bytes,
                            uint32_t access, int fd, uint64_t fd_offset)
{
    static uint32_t tags = 1, serials = 0;
    snic_mr_t *mrs = snic->view->devmem->mrs;
    uint32_t key = 0;
    snic_map_t *map = calloc(1, sizeof *map);
    if (!map)
        return 0;
    pthread_mutex_lock(&snic->lock);
    for (uint32_t i = SNIC_MR_FIRST; i < SNIC_MRS && key == 0; i++) {
        if (mrs[i].key != 0 || snic->mr_closing[i])
            continue;
        key = i << 8 | (__atomic_add_fetch(&tags, MR_TAG_STEP, __ATOMIC_RELAXED) & 0xffu);
        mrs[i].pd = pd;
        mrs[i].access = access;
        mrs[i].kind = fd >= 0 ? SNIC_MR_SHARED : SNIC_MR_PRIVATE;
        mrs[i].addr = (uint64_t)(uintptr_t)addr;
        mrs[i].bytes = bytes;
        mrs[i].fd = fd;
        mrs[i].serial = __atomic_add_fetch(&serials, 1, __ATOMIC_RELAXED);
        mrs[i].fd_offset = fd_offset;
        *map = (snic_map_t){ .key = key,
                             .serial = mrs[i].serial,
                             .pd = pd,
                             .access = access,
                             .addr = (uint64_t)(uintptr_t)addr,
                             .bytes = bytes,
                             .base = (char *)(uintptr_t)addr };
        __atomic_store_n(&snic->view->mrs[i], map, __ATOMIC_RELEASE);
        /* the key is stored last, because peers may look up old keys here */
        __atomic_store_n(&mrs[i].key, key, __ATOMIC_RELEASE);
    }
    pthread_mutex_unlock(&snic->lock);
    if (key == 0)
        free(map);
    return key;
}

/* Waits for devices of other processes: they hold the lock of our queue pair while they access our
 * memory through it. */
static void wait_for_peers(pgasi_snic_t *snic)
{
    snic_devmem_t *devmem = snic->view->devmem;
    uint32_t high = snic_high(devmem);
    for (uint32_t i = 0; i < high; i++) {
        if (__atomic_load_n(&devmem->qps[i].number, __ATOMIC_ACQUIRE) == 0)
            continue;
        pgasi_snic_lock(&devmem->qps[i].lock);
        snic_unlock(&devmem->qps[i].lock);
    }
}

void pgasi_snic_mr_close(pgasi_snic_t *snic, uint32_t key)
{
    uint32_t place = (key >> 8) & (SNIC_MRS - 1);
    snic_mr_t *mr = &snic->view->devmem->mrs[place];
    pthread_mutex_lock(&snic->lock);
    bool ours = mr->key == key;
    if (ours) {
        __atomic_store_n(&mr->key, 0, __ATOMIC_SEQ_CST);
        snic->mr_closing[place] = 1;
    }
    pthread_mutex_unlock(&snic->lock);
    pgasi_snic_wait_for_runs();
    wait_for_peers(snic);
    pthread_mutex_lock(&snic->lock);
    if (ours) {
        free(snic->view->mrs[place]);
        snic->view->mrs[place] = NULL;
        snic->mr_closing[place] = 0;
    }
    pthread_mutex_unlock(&snic->lock);
}
