/* Views: the devices that this process has mapped, its own and its peers', and the memory of their
 * keys. The device memory of a peer is mapped through /proc/PID/fd, which needs only the same user.
 * So is memory that comes from a memfd. A file that is opened in this way is verified like a passed
 * descriptor (descriptor.c). Descriptors cannot be passed here, because the NIC does not see how
 * peers exchange their addresses. The executing process receives device memory over its socket. */
#include "verbs_backend/snic/inside.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>
#include "base/clock.h"
#include "base/hash.h"
#include "base/log.h"

#define ALIVE_NS UINT64_C(10000000)

static struct {
    pthread_mutex_t lock; /* guards views */
    snic_view_t *views;
    pthread_mutex_t old_lock;
    snic_map_t *old_maps; /* given up while another thread could still copy */
} peers = { PTHREAD_MUTEX_INITIALIZER, NULL, PTHREAD_MUTEX_INITIALIZER, NULL };

static pthread_once_t forks = PTHREAD_ONCE_INIT;

static void before_fork(void)
{
    pthread_mutex_lock(&peers.lock);
    pthread_mutex_lock(&peers.old_lock);
}

static void after_fork(void)
{
    pthread_mutex_unlock(&peers.old_lock);
    pthread_mutex_unlock(&peers.lock);
}

/* The parent's devices do not belong to the child: the child does not run them, and does not use
 * the parent's addresses to access their memory. */
static void begin_child(void)
{
    peers.views = NULL;
    after_fork();
}

static void watch_forks(void)
{
    pthread_atfork(before_fork, after_fork, begin_child);
}

/* ---- maps that were given up ---- */

static void free_maps(snic_map_t *maps)
{
    while (maps) {
        snic_map_t *map = maps;
        maps = map->next;
        if (map->map)
            munmap(map->map, map->map_bytes);
        free(map);
    }
}

static snic_map_t *take_old(void)
{
    pthread_mutex_lock(&peers.old_lock);
    snic_map_t *maps = peers.old_maps;
    peers.old_maps = NULL;
    pthread_mutex_unlock(&peers.old_lock);
    return maps;
}

void pgasi_snic_unmap_old(void)
{
    if (PGAS_UNLIKELY(__atomic_load_n(&peers.old_maps, __ATOMIC_RELAXED)))
        free_maps(take_old());
}

static void give_up(snic_view_t *view, snic_map_t *map)
{
    if (map->kept) {
        map->next = view->kept;
        view->kept = map;
        return;
    }
    pthread_mutex_lock(&peers.old_lock);
    map->next = peers.old_maps;
    __atomic_store_n(&peers.old_maps, map, __ATOMIC_RELAXED);
    pthread_mutex_unlock(&peers.old_lock);
}

/* ---- views ---- */

static snic_view_t *new_view(snic_devmem_t *devmem, bool own)
{
    snic_view_t *view = calloc(1, sizeof *view);
    if (view) {
        view->devmem = devmem;
        view->own = own;
        view->n_users = 1;
        memset(view->own_events, -1, sizeof view->own_events);
        for (size_t i = 0; i < PGASI_ARRAY_LENGTH(view->events); i++)
            view->events[i].ours = -1;
        pthread_mutex_init(&view->map_lock, NULL);
    }
    return view;
}

static void free_view(snic_view_t *view)
{
    free_maps(view->kept);
    for (uint32_t i = 0; i < SNIC_MRS; i++)
        free_maps(view->mrs[i]); /* one map each */
    for (uint32_t i = 0; i < SNIC_QPS; i++)
        free(view->shadows[i]);
    pgasi_snic_late_free(view);
    for (size_t i = 0; i < PGASI_ARRAY_LENGTH(view->events); i++)
        if (view->events[i].ours >= 0)
            close(view->events[i].ours);
    munmap(view->devmem, SNIC_DEVMEM_BYTES + SNIC_ARENA_BYTES);
    pthread_mutex_destroy(&view->map_lock);
    free(view);
}

static bool same_id(const pgasi_snic_id_t *a, const pgasi_snic_id_t *b)
{
    return a->pid == b->pid && a->start_time == b->start_time && a->cookie == b->cookie;
}

/* Maps another process's device memory, and checks that it is the expected one. */
static snic_view_t *map_devmem(const pgasi_snic_id_t *id, int fd, pgas_status_t *status_p)
{
    void *map = mmap(NULL, SNIC_DEVMEM_BYTES + SNIC_ARENA_BYTES, PROT_READ | PROT_WRITE,
                     MAP_SHARED | MAP_NORESERVE, fd, 0);
    *status_p = PGAS_ERR_NO_MEMORY;
    if (map == MAP_FAILED)
        return NULL;
    snic_devmem_t *devmem = map;
    pgasi_snic_id_t theirs = devmem->id;
    bool same =
        __atomic_load_n(&devmem->magic, __ATOMIC_ACQUIRE) == SNIC_MAGIC && same_id(&theirs, id);
    *status_p = PGAS_ERR_PEER;
    if (same && snic_load(devmem->version) != SNIC_VERSION) {
        PGASI_WARN("snic", "process %u has another version of the software NIC", id->pid);
        *status_p = PGAS_ERR_MISMATCH;
        same = false;
    }
    snic_view_t *view = same ? new_view(devmem, false) : NULL;
    if (!view) {
        munmap(map, SNIC_DEVMEM_BYTES + SNIC_ARENA_BYTES);
        return NULL;
    }
    view->id = *id;
    view->random = pgasi_hash_bytes(id, sizeof *id, 0);
    *status_p = PGAS_OK;
    return view;
}

static snic_view_t *open_view(const pgasi_snic_id_t *id, pgas_status_t *status_p)
{
    const uint64_t bytes = SNIC_DEVMEM_BYTES + SNIC_ARENA_BYTES;
    *status_p = PGAS_ERR_PEER;
    if (id->devmem_fd < 0 || !pgasi_snic_is_running(id))
        return NULL;
    int fd = pgasi_snic_open_verified(id->pid, id->devmem_fd, O_RDWR, S_IFREG, bytes, bytes);
    if (fd < 0 && errno == EBADF)
        return NULL; /* the descriptor refers to something else now */
    if (fd < 0) {
        int error = errno;
        const char *cure = "";
        *status_p = error == ENOENT ? PGAS_ERR_PEER : PGAS_ERR_MISMATCH;
        if (error == EMFILE || error == ENFILE) {
            *status_p = PGAS_ERR_LIMIT;
            cure = ": see ulimit -n";
        } else if (error == EACCES || error == EPERM) {
            cure = ": both processes must be the same user's";
        }
        PGASI_WARN("snic", "the memory of process %u cannot be opened (%s)%s", id->pid,
                   strerror(error), cure);
        return NULL;
    }
    snic_view_t *view = map_devmem(id, fd, status_p);
    close(fd);
    return view;
}

/* @param fd  descriptor of its device memory; -1: it has to be opened */
static snic_view_t *get_view(const pgasi_snic_id_t *id, int fd, pgas_status_t *status_p)
{
    pthread_mutex_lock(&peers.lock);
    snic_view_t *view = peers.views;
    while (view && !same_id(&view->id, id))
        view = view->next;
    *status_p = PGAS_OK;
    if (view) {
        view->n_users++;
    } else {
        if (id->pid != (uint32_t)getpid())
            view = fd < 0 ? open_view(id, status_p) : map_devmem(id, fd, status_p);
        if (view) {
            view->next = peers.views;
            peers.views = view;
        } else if (*status_p == PGAS_OK) {
            *status_p = PGAS_ERR_PEER; /* a closed device of this process */
        }
    }
    pthread_mutex_unlock(&peers.lock);
    return view;
}

snic_view_t *pgasi_snic_view_get(const pgasi_snic_id_t *id, pgas_status_t *status_p)
{
    return get_view(id, -1, status_p);
}

snic_view_t *pgasi_snic_view_by_fd(const pgasi_snic_id_t *id, int devmem_fd,
                                   pgas_status_t *status_p)
{
    const uint64_t bytes = SNIC_DEVMEM_BYTES + SNIC_ARENA_BYTES;
    *status_p = PGAS_ERR_PEER;
    return pgasi_snic_is_memory(devmem_fd, bytes, bytes) ? get_view(id, devmem_fd, status_p) : NULL;
}

pgas_status_t pgasi_snic_enter_view(pgasi_snic_t *snic, snic_devmem_t *devmem,
                                    const pgasi_snic_id_t *id)
{
    pthread_once(&forks, watch_forks);
    snic->view = new_view(devmem, true);
    if (!snic->view)
        return PGAS_ERR_NO_MEMORY;
    snic->view->id = *id;
    snic->view->random = snic->opts.seed;
    devmem->id = snic->view->id;
    devmem->adversary = snic->opts.adversary;
    devmem->version = SNIC_VERSION;
    __atomic_store_n(&devmem->magic, SNIC_MAGIC, __ATOMIC_RELEASE);
    pthread_mutex_lock(&peers.lock);
    snic->view->next = peers.views;
    peers.views = snic->view;
    pthread_mutex_unlock(&peers.lock);
    return PGAS_OK;
}

void pgasi_snic_view_put(snic_view_t *view)
{
    pthread_mutex_lock(&peers.lock);
    bool last = --view->n_users == 0;
    if (last) {
        snic_view_t **at = &peers.views;
        while (*at != view)
            at = &(*at)->next;
        *at = view->next;
    }
    pthread_mutex_unlock(&peers.lock);
    if (last)
        free_view(view);
}

/* The process is checked every ten milliseconds at most. */
bool pgasi_snic_view_alive(snic_view_t *view)
{
    if (!view->own && !__atomic_load_n(&view->gone, __ATOMIC_ACQUIRE)) {
        uint64_t now_ns = pgasi_now_ns();
        if (now_ns - __atomic_load_n(&view->checked_ns, __ATOMIC_RELAXED) > ALIVE_NS) {
            __atomic_store_n(&view->checked_ns, now_ns, __ATOMIC_RELAXED);
            if (!pgasi_snic_is_running(&view->id))
                __atomic_store_n(&view->gone, true, __ATOMIC_RELEASE);
        }
    }
    return !__atomic_load_n(&view->gone, __ATOMIC_ACQUIRE);
}

/* The next device of this process behind a given one, which is released; NULL: the first one. */
static snic_view_t *next_own(snic_view_t *view)
{
    pthread_mutex_lock(&peers.lock);
    snic_view_t *next = view != NULL ? view->next : peers.views;
    while (next && !next->own)
        next = next->next;
    if (next)
        next->n_users++;
    pthread_mutex_unlock(&peers.lock);
    if (view)
        pgasi_snic_view_put(view);
    return next;
}

void pgasi_snic_wait_for_runs(void)
{
    snic_map_t *maps = take_old();
    for (snic_view_t *view = next_own(NULL); view != NULL; view = next_own(view)) {
        pgasi_snic_lock(&view->devmem->lock);
        pgasi_snic_let_go(view);
    }
    free_maps(maps);
}

/* ---- memory of keys ---- */

/* Memory that peers may only read is opened read-only. */
static void map_shared(const snic_view_t *view, const snic_mr_t *mr, snic_map_t *map)
{
    bool writes = (mr->access & ~PGAS_VERBS_REMOTE_READ) != 0;
    uint64_t lead = mr->fd_offset & 4095;
    bool spared;
    if (mr->bytes > SNIC_MR_BYTES || mr->fd_offset > SNIC_MR_BYTES)
        return;
    int fd = pgasi_snic_open_theirs(view, mr->fd, writes ? O_RDWR : O_RDONLY, S_IFREG,
                                    mr->fd_offset + mr->bytes, &spared);
    void *at = fd < 0 ? MAP_FAILED
                      : mmap(NULL, mr->bytes + lead, PROT_READ | (writes ? PROT_WRITE : 0),
                             MAP_SHARED | MAP_NORESERVE, fd, (off_t)(mr->fd_offset - lead));
    pgasi_snic_close_theirs(fd, spared);
    if (at != MAP_FAILED) {
        map->map = at;
        map->map_bytes = mr->bytes + lead;
        map->base = (char *)at + lead;
    }
}

/* The descriptor may be closed and used again for something else, and so may the place. So the
 * mapping is valid only if the key is still the same afterwards. */
static snic_map_t *make_map(const snic_view_t *view, uint32_t key)
{
    const snic_mr_t *shared = &view->devmem->mrs[key >> 8];
    snic_map_t *map = calloc(1, sizeof *map);
    if (!map)
        return NULL;
    const snic_mr_t mr = { .key = snic_load(shared->key),
                           .pd = snic_load(shared->pd),
                           .access = snic_load(shared->access),
                           .kind = snic_load(shared->kind),
                           .addr = snic_load(shared->addr),
                           .bytes = snic_load(shared->bytes),
                           .fd = snic_load(shared->fd),
                           .serial = snic_load(shared->serial),
                           .fd_offset = snic_load(shared->fd_offset) };
    *map = (snic_map_t){ .key = mr.key,
                         .serial = mr.serial,
                         .pd = mr.pd,
                         .access = mr.access,
                         .addr = mr.addr,
                         .bytes = mr.bytes };
    if (mr.key == key && mr.kind == SNIC_MR_SHARED)
        map_shared(view, &mr, map);
    __atomic_thread_fence(__ATOMIC_ACQUIRE);
    if (mr.key == key && snic_load(shared->key) == key && snic_load(shared->serial) == mr.serial)
        return map;
    map->next = NULL;
    free_maps(map);
    return NULL;
}

/* For devices of this process mr_open has written the map, and the table only says whether the key
 * is valid. */
const snic_map_t *pgasi_snic_view_map(snic_view_t *view, uint32_t key)
{
    uint32_t place = key >> 8;
    if (place >= SNIC_MRS)
        return NULL;
    pthread_mutex_lock(&view->map_lock);
    snic_map_t *map = view->mrs[place];
    bool same = map && map->key == key && map->serial == snic_load(view->devmem->mrs[place].serial);
    if (!same && !view->own) {
        snic_map_t *now = make_map(view, key);
        if (now && map)
            give_up(view, map);
        if (now)
            __atomic_store_n(&view->mrs[place], now, __ATOMIC_RELEASE);
        map = now;
        same = now != NULL;
    }
    pthread_mutex_unlock(&view->map_lock);
    return same ? map : NULL;
}

/* Keeps a mapping because a user has its address.
 * @return PGAS_OK
 *         PGAS_ERR_NOT_FOUND    the memory was released
 *         PGAS_ERR_UNSUPPORTED  the memory is private
 *         PGAS_ERR_NO_MEMORY    it cannot be mapped */
static pgas_status_t keep_map(snic_view_t *view, uint32_t key, void **addr_p)
{
    if (!pgasi_snic_view_map(view, key))
        return PGAS_ERR_NOT_FOUND;
    bool shared = snic_load(view->devmem->mrs[key >> 8].kind) == SNIC_MR_SHARED;
    pthread_mutex_lock(&view->map_lock);
    snic_map_t *map = view->mrs[key >> 8];
    pgas_status_t status = PGAS_OK;
    if (!map || map->key != key)
        status = PGAS_ERR_NOT_FOUND;
    else if (!map->base)
        status = shared ? PGAS_ERR_NO_MEMORY : PGAS_ERR_UNSUPPORTED;
    if (status == PGAS_OK) {
        map->kept = true;
        *addr_p = map->base;
    }
    pthread_mutex_unlock(&view->map_lock);
    return status;
}

pgas_status_t pgasi_snic_map(const pgasi_snic_id_t *id, uint32_t key, void **addr_p)
{
    pgas_status_t status;
    snic_view_t *view = pgasi_snic_view_get(id, &status);
    if (!view)
        return status;
    bool there = key >> 8 < SNIC_MRS && key != 0 &&
                 __atomic_load_n(&view->devmem->mrs[key >> 8].key, __ATOMIC_ACQUIRE) == key;
    status = there ? keep_map(view, key, addr_p) : PGAS_ERR_NOT_FOUND;
    if (status != PGAS_OK)
        pgasi_snic_view_put(view);
    return status;
}

void pgasi_snic_unmap(const pgasi_snic_id_t *id)
{
    pgas_status_t status;
    snic_view_t *view = pgasi_snic_view_get(id, &status);
    if (view) {
        pgasi_snic_view_put(view);
        pgasi_snic_view_put(view);
    }
}
