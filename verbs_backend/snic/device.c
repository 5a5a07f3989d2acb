/* Devices of the software NIC and what is in them: made, changed and ended by their owner under
 * its lock. A peer's device memory is mapped through /proc/PID/fd, which needs no more than the same user;
 * its memory likewise where it comes from a memfd. What was opened so is verified as a descriptor
 * that was passed is (open_verified): peers give their addresses to each other in ways that we do
 * not see, so nothing can be passed along. The process that executes gets device memories by its socket. */
#include "verbs_backend/snic/inside.h"

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>
#include "base/clock.h"
#include "base/hash.h"
#include "base/log.h"

#define EXITING     4u /* PF_EXITING of the kernel, in field 9 of stat */
#define LOCK_SPINS  1000
#define LOCK_YIELDS 64
#define LOCK_CHECKS 256 /* yields between two looks whether the holder lives */
#define MR_TAG_STEP 0x35u
#define ALIVE_NS    UINT64_C(10000000)
#define NOT_KNOWN   UINT64_MAX

/* All devices that this process looks at. */
static struct {
    pthread_mutex_t lock;
    snic_view_t *views;
} known = { PTHREAD_MUTEX_INITIALIZER, NULL };

/* When descriptors have run out it is given up for a moment: a peer that sleeps is to be woken all
 * the same, and its memory mapped. */
static struct {
    pthread_mutex_t lock;
    int n_users; /* devices of ours */
    int fd;
} spare = { PTHREAD_MUTEX_INITIALIZER, 0, -1 };

/* Maps that were given up while another thread might still have been copying. */
static struct {
    pthread_mutex_t lock;
    snic_map_t *maps;
} old = { PTHREAD_MUTEX_INITIALIZER, NULL };

/* ---- processes ---- */

/* Field 22 of a process's or thread's stat; the second may hold blanks and brackets. 0: there is
 * none, it is a zombie, or it is ending: the kernel releases its memory and descriptors before it
 * is a zombie. NOT_KNOWN: we cannot look. */
static uint64_t start_time_of(uint32_t pid)
{
    char path[64], text[1024];
    snprintf(path, sizeof path, "/proc/%u/stat", pid);
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return errno == EMFILE || errno == ENFILE || errno == ENOMEM ? NOT_KNOWN : 0;
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

static bool is_running(const pgasi_snic_id_t *id)
{
    uint64_t start_time = start_time_of(id->pid);
    return start_time == id->start_time || start_time == NOT_KNOWN;
}

/* ---- locks between processes ---- */

static __thread uint64_t holder; /* the value by which this thread's locks name it; 0: not known */
static pthread_once_t forks = PTHREAD_ONCE_INIT;

static void before_fork(void)
{
    pthread_mutex_lock(&known.lock);
    pthread_mutex_lock(&spare.lock);
    pthread_mutex_lock(&old.lock);
}

static void after_fork(void)
{
    pthread_mutex_unlock(&old.lock);
    pthread_mutex_unlock(&spare.lock);
    pthread_mutex_unlock(&known.lock);
}

/* The parent's devices are not ours: we neither run them nor reach their memory by the parent's
 * addresses. */
static void begin_child(void)
{
    holder = 0;
    known.views = NULL;
    after_fork();
}

static void watch_forks(void)
{
    pthread_atfork(before_fork, after_fork, begin_child);
}

static uint64_t own_holder(void)
{
    if (PGAS_UNLIKELY(holder == 0)) {
        pthread_once(&forks, watch_forks);
        uint32_t tid = (uint32_t)syscall(SYS_gettid);
        uint64_t start_time = start_time_of(tid);
        if (start_time == NOT_KNOWN)
            return tid; /* the next lock may know it */
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

/* Its id may be another thread's now, which started later. A zombie counts as dead: perhaps nobody
 * has waited for it, since its parent is waiting here. */
static bool is_dead(uint64_t who)
{
    uint64_t start_time = start_time_of((uint32_t)who);
    uint32_t started = (uint32_t)(who >> 32);
    return start_time == 0 ||
           (start_time != NOT_KNOWN && started != 0 && (uint32_t)start_time != started);
}

/* The holder has died; its work can be repeated, see engine.c. */
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
                             .start_time = start_time_of((uint32_t)getpid()),
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
    pthread_mutex_lock(&old.lock);
    snic_map_t *maps = old.maps;
    old.maps = NULL;
    pthread_mutex_unlock(&old.lock);
    return maps;
}

void pgasi_snic_unmap_old(void)
{
    if (PGAS_UNLIKELY(__atomic_load_n(&old.maps, __ATOMIC_RELAXED)))
        free_maps(take_old());
}

static void give_up(snic_view_t *view, snic_map_t *map)
{
    if (map->kept) {
        map->next = view->kept;
        view->kept = map;
        return;
    }
    pthread_mutex_lock(&old.lock);
    map->next = old.maps;
    __atomic_store_n(&old.maps, map, __ATOMIC_RELAXED);
    pthread_mutex_unlock(&old.lock);
}

static void free_view(snic_view_t *view)
{
    free_maps(view->kept);
    for (uint32_t i = 0; i < SNIC_MRS; i++)
        free_maps(view->mrs[i]); /* one each */
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

/* What a descriptor of another process stands for, if that is of this kind and ours: a device memory or
 * memory (a memfd), or a pipe. The look before opening keeps us from opening what does something
 * when it is opened; the one afterwards is the one that counts. */
static int open_verified(uint32_t pid, int theirs, int flags, mode_t kind, uint64_t bytes_min,
                         uint64_t bytes_max)
{
    char path[64];
    struct stat before, after;
    snprintf(path, sizeof path, "/proc/%u/fd/%d", pid, theirs);
    if (stat(path, &before) != 0)
        return -1;
    int fd = -1;
    if ((before.st_mode & S_IFMT) == kind && before.st_uid == geteuid())
        fd = open(path, flags | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
    else
        errno = EBADF;
    if (fd < 0)
        return -1;
    bool good = fstat(fd, &after) == 0 && after.st_dev == before.st_dev &&
                after.st_ino == before.st_ino &&
                (kind != S_IFREG || pgasi_snic_is_memory(fd, bytes_min, bytes_max));
    if (good)
        return fd;
    close(fd);
    errno = EBADF;
    return -1;
}

/* Maps another process's device memory, and makes sure that it is the one that was meant. */
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
    if (id->devmem_fd < 0 || !is_running(id))
        return NULL;
    int fd = open_verified(id->pid, id->devmem_fd, O_RDWR, S_IFREG, bytes, bytes);
    if (fd < 0 && errno == EBADF)
        return NULL; /* its descriptor is used for something else now */
    if (fd < 0) {
        bool none_left = errno == EMFILE || errno == ENFILE;
        *status_p = errno == ENOENT ? PGAS_ERR_PEER
                    : none_left     ? PGAS_ERR_LIMIT
                                    : PGAS_ERR_MISMATCH;
        int error = errno;
        PGASI_WARN("snic", "the memory of process %u cannot be opened (%s)%s", id->pid,
                   strerror(error),
                   none_left                           ? ": see ulimit -n"
                   : error == EACCES || error == EPERM ? ": both processes must be the same user's"
                                                       : "");
        return NULL;
    }
    snic_view_t *view = map_devmem(id, fd, status_p);
    close(fd);
    return view;
}

/* @param fd of its device memory; -1: to be opened */
static snic_view_t *get_view(const pgasi_snic_id_t *id, int fd, pgas_status_t *status_p)
{
    pthread_mutex_lock(&known.lock);
    snic_view_t *view = known.views;
    while (view && !same_id(&view->id, id))
        view = view->next;
    *status_p = PGAS_OK;
    if (view) {
        view->n_users++;
    } else {
        if (id->pid != (uint32_t)getpid())
            view = fd < 0 ? open_view(id, status_p) : map_devmem(id, fd, status_p);
        if (view) {
            view->next = known.views;
            known.views = view;
        } else if (*status_p == PGAS_OK) {
            *status_p = PGAS_ERR_PEER; /* of our own process, and closed */
        }
    }
    pthread_mutex_unlock(&known.lock);
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

void pgasi_snic_view_put(snic_view_t *view)
{
    pthread_mutex_lock(&known.lock);
    bool last = --view->n_users == 0;
    if (last) {
        snic_view_t **at = &known.views;
        while (*at != view)
            at = &(*at)->next;
        *at = view->next;
    }
    pthread_mutex_unlock(&known.lock);
    if (last)
        free_view(view);
}

/* Looked at every ten milliseconds at most. */
bool pgasi_snic_view_alive(snic_view_t *view)
{
    if (!view->own && !__atomic_load_n(&view->gone, __ATOMIC_ACQUIRE)) {
        uint64_t now_ns = pgasi_now_ns();
        if (now_ns - __atomic_load_n(&view->checked_ns, __ATOMIC_RELAXED) > ALIVE_NS) {
            __atomic_store_n(&view->checked_ns, now_ns, __ATOMIC_RELAXED);
            if (!is_running(&view->id))
                __atomic_store_n(&view->gone, true, __ATOMIC_RELEASE);
        }
    }
    return !__atomic_load_n(&view->gone, __ATOMIC_ACQUIRE);
}

static void take_spare(void)
{
    pthread_mutex_lock(&spare.lock);
    if (spare.n_users++ == 0)
        spare.fd = open("/dev/null", O_RDONLY | O_CLOEXEC);
    pthread_mutex_unlock(&spare.lock);
}

static void give_spare(void)
{
    pthread_mutex_lock(&spare.lock);
    if (--spare.n_users == 0 && spare.fd >= 0)
        close(spare.fd);
    spare.fd = spare.n_users == 0 ? -1 : spare.fd;
    pthread_mutex_unlock(&spare.lock);
}

/* As open_verified. *spared_p: in place of the spare one, which nobody else has until
 * close_theirs. */
static int open_theirs(const snic_view_t *view, int theirs, int flags, mode_t kind,
                       uint64_t bytes_min, bool *spared_p)
{
    int fd = open_verified(view->id.pid, theirs, flags, kind, bytes_min, UINT64_MAX);
    *spared_p = fd < 0 && (errno == EMFILE || errno == ENFILE);
    if (*spared_p) {
        pthread_mutex_lock(&spare.lock);
        if (spare.fd >= 0)
            close(spare.fd);
        fd = open_verified(view->id.pid, theirs, flags, kind, bytes_min, UINT64_MAX);
    }
    return fd;
}

static void close_theirs(int fd, bool spared)
{
    if (fd >= 0)
        close(fd);
    if (spared) {
        spare.fd = open("/dev/null", O_RDONLY | O_CLOEXEC);
        pthread_mutex_unlock(&spare.lock);
    }
}

/* A pipe can be opened again by its descriptor; for reading too, so that writing to it raises no
 * signal when its owner has closed it. */
void pgasi_snic_view_event(snic_view_t *view, int fd, uint32_t serial)
{
    static const char byte = 1;
    bool spared = false;
    pthread_mutex_lock(&view->map_lock);
    uint32_t n = PGASI_MIN(view->n_events, (uint32_t)PGASI_ARRAY_LENGTH(view->events)), i = 0;
    while (i < n && view->events[i].theirs != fd)
        i++;
    if (i == n)
        i = view->n_events++ % PGASI_ARRAY_LENGTH(view->events);
    if (view->events[i].ours < 0 || view->events[i].theirs != fd ||
        view->events[i].serial != serial) {
        if (view->events[i].ours >= 0)
            close(view->events[i].ours);
        view->events[i].theirs = fd;
        view->events[i].serial = serial;
        view->events[i].ours = open_theirs(view, fd, O_RDWR, S_IFIFO, 0, &spared);
    }
    ssize_t written = write(view->events[i].ours, &byte, 1);
    /* a full pipe is readable all the same; what cannot be opened is a dead process's */
    (void)written;
    if (spared) {
        close_theirs(view->events[i].ours, true);
        view->events[i].ours = -1;
    }
    pthread_mutex_unlock(&view->map_lock);
}

/* Memory that peers may only read is opened read-only. */
static void map_shared(const snic_view_t *view, const snic_mr_t *mr, snic_map_t *map)
{
    bool writes = (mr->access & ~PGAS_VERBS_REMOTE_READ) != 0;
    uint64_t lead = mr->fd_offset & 4095;
    bool spared;
    if (mr->bytes > SNIC_MR_BYTES || mr->fd_offset > SNIC_MR_BYTES)
        return;
    int fd = open_theirs(view, mr->fd, writes ? O_RDWR : O_RDONLY, S_IFREG,
                         mr->fd_offset + mr->bytes, &spared);
    void *at = fd < 0 ? MAP_FAILED
                      : mmap(NULL, mr->bytes + lead, PROT_READ | (writes ? PROT_WRITE : 0),
                             MAP_SHARED | MAP_NORESERVE, fd, (off_t)(mr->fd_offset - lead));
    close_theirs(fd, spared);
    if (at != MAP_FAILED) {
        map->map = at;
        map->map_bytes = mr->bytes + lead;
        map->base = (char *)at + lead;
    }
}

/* Its descriptor may be closed and used again for something else, and its place too: what was
 * mapped counts if the key is still the same afterwards. */
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

/* For our own devices mr_open has written the map, and the table only says whether the key is
 * valid. */
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

/* A user keeps the address. @return PGAS_OK; PGAS_ERR_NOT_FOUND the memory is released;
 * PGAS_ERR_UNSUPPORTED it is private; PGAS_ERR_NO_MEMORY it cannot be mapped */
static pgas_status_t keep_map(snic_view_t *view, uint32_t key, void **addr_p)
{
    if (!pgasi_snic_view_map(view, key))
        return PGAS_ERR_NOT_FOUND;
    bool shared = snic_load(view->devmem->mrs[key >> 8].kind) == SNIC_MR_SHARED;
    pthread_mutex_lock(&view->map_lock);
    snic_map_t *map = view->mrs[key >> 8];
    pgas_status_t status = !map || map->key != key ? PGAS_ERR_NOT_FOUND
                           : map->base != NULL     ? PGAS_OK
                           : shared                ? PGAS_ERR_NO_MEMORY
                                                   : PGAS_ERR_UNSUPPORTED;
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

static pgas_status_t enter_view(pgasi_snic_t *snic, snic_devmem_t *devmem)
{
    snic->view = new_view(devmem, true);
    if (!snic->view)
        return PGAS_ERR_NO_MEMORY;
    make_id(snic, &snic->view->id);
    snic->view->random = snic->opts.seed;
    devmem->id = snic->view->id;
    devmem->adversary = snic->opts.adversary;
    devmem->version = SNIC_VERSION;
    __atomic_store_n(&devmem->magic, SNIC_MAGIC, __ATOMIC_RELEASE);
    pthread_mutex_lock(&known.lock);
    snic->view->next = known.views;
    known.views = snic->view;
    pthread_mutex_unlock(&known.lock);
    return PGAS_OK;
}

pgas_status_t pgasi_snic_open(const pgasi_snic_opts_t *opts, pgasi_snic_t **snic_p)
{
    pgasi_snic_t *snic = calloc(1, sizeof *snic);
    if (!snic)
        return PGAS_ERR_NO_MEMORY;
    pthread_once(&forks, watch_forks);
    snic->opts = *opts;
    if (opts->seed == 0)
        snic->opts.seed = pgasi_now_ns();
    if (opts->adversary != 0 || opts->engine == PGAS_VERBS_ENGINE_STEP)
        PGASI_INFO("snic", "seed %llu", (unsigned long long)snic->opts.seed);
    pthread_mutex_init(&snic->lock, NULL);
    snic_devmem_t *devmem = NULL;
    pgas_status_t status = make_devmem(snic, &devmem);
    if (status == PGAS_OK)
        status = pgasi_extents_create(SNIC_ARENA_BYTES, &snic->arena);
    if (status == PGAS_OK)
        status = enter_view(snic, devmem);
    if (status == PGAS_OK)
        status = pgasi_snic_start(snic);
    if (status == PGAS_OK) {
        take_spare();
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
    give_spare();
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
        /* old ones are still looked up here */
        __atomic_store_n(&mrs[i].key, key, __ATOMIC_RELEASE);
    }
    pthread_mutex_unlock(&snic->lock);
    if (key == 0)
        free(map);
    return key;
}

/* The next device of this process behind one, which is let go, or the first. */
static snic_view_t *next_own(snic_view_t *view)
{
    pthread_mutex_lock(&known.lock);
    snic_view_t *next = view != NULL ? view->next : known.views;
    while (next && !next->own)
        next = next->next;
    if (next)
        next->n_users++;
    pthread_mutex_unlock(&known.lock);
    if (view)
        pgasi_snic_view_put(view);
    return next;
}

/* Waits until whoever may be copying at this moment has looked again: every device of this process
 * once. Not with known.lock, which those who hold a device's lock may take. */
static void wait_for_runs(void)
{
    snic_map_t *maps = take_old();
    for (snic_view_t *view = next_own(NULL); view != NULL; view = next_own(view)) {
        pgasi_snic_lock(&view->devmem->lock);
        pgasi_snic_let_go(view);
    }
    free_maps(maps);
}

/* The same for other processes' devices: they hold the lock of our queue pair while they reach our
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
    wait_for_runs();
    wait_for_peers(snic);
    pthread_mutex_lock(&snic->lock);
    if (ours) {
        free(snic->view->mrs[place]);
        snic->view->mrs[place] = NULL;
        snic->mr_closing[place] = 0;
    }
    pthread_mutex_unlock(&snic->lock);
}

/* ---- completion queues and shared receive queues ---- */

uint32_t pgasi_snic_cq_open(pgasi_snic_t *snic, const pgasi_snic_cq_opts_t *opts)
{
    static uint32_t serials = 0;
    snic_cq_t *cqs = snic->view->devmem->cqs;
    uint32_t number = 0;
    pthread_mutex_lock(&snic->lock);
    for (uint32_t i = 1; i < SNIC_CQS && number == 0; i++) {
        snic_cq_t *cq = &cqs[i];
        if (cq->valid)
            continue;
        /* something late for the one that was here before may hold it */
        pgasi_snic_lock(&cq->lock);
        cq->log_entries = opts->log_entries;
        cq->ignore_overrun = opts->ignore_overrun;
        cq->event_fd = opts->event_fd;
        cq->event_serial = __atomic_add_fetch(&serials, 1, __ATOMIC_RELAXED);
        cq->ring = opts->ring;
        cq->record = opts->record;
        cq->count = snic_start(snic->view->devmem);
        cq->dead = cq->armed = cq->n_waits = 0;
        __atomic_store_n(&snic->view->own_events[i], opts->event_fd, __ATOMIC_RELAXED);
        snic_unlock(&cq->lock);
        __atomic_store_n(&cq->valid, 1, __ATOMIC_RELEASE);
        number = i;
    }
    pthread_mutex_unlock(&snic->lock);
    return number;
}

void pgasi_snic_cq_close(pgasi_snic_t *snic, uint32_t cqn)
{
    pthread_mutex_lock(&snic->lock);
    __atomic_store_n(&snic->view->devmem->cqs[cqn & (SNIC_CQS - 1)].valid, 0, __ATOMIC_SEQ_CST);
    __atomic_store_n(&snic->view->own_events[cqn & (SNIC_CQS - 1)], -1, __ATOMIC_RELAXED);
    pthread_mutex_unlock(&snic->lock);
    wait_for_runs();
}

bool pgasi_snic_cq_dead(const pgasi_snic_t *snic, uint32_t cqn)
{
    return __atomic_load_n(&snic->view->devmem->cqs[cqn & (SNIC_CQS - 1)].dead, __ATOMIC_ACQUIRE) !=
           0;
}

uint32_t pgasi_snic_srq_open(pgasi_snic_t *snic, const pgasi_snic_srq_opts_t *opts)
{
    snic_srq_t *srqs = snic->view->devmem->srqs;
    uint32_t number = 0;
    pthread_mutex_lock(&snic->lock);
    for (uint32_t i = 1; i < SNIC_SRQS && number == 0; i++) {
        snic_srq_t *srq = &srqs[i];
        if (srq->number != 0)
            continue;
        srq->log_entries = opts->log_entries;
        srq->stride = opts->stride;
        srq->pd = opts->pd;
        srq->ring = opts->ring;
        srq->record = opts->record;
        srq->wanted = 0;
        srq->place = snic_start(snic->view->devmem);
        number = (++srq->generation & 0x3ffffu) << SNIC_SRQ_BITS | i;
        __atomic_store_n(&srq->number, number, __ATOMIC_RELEASE);
    }
    pthread_mutex_unlock(&snic->lock);
    return number;
}

void pgasi_snic_srq_close(pgasi_snic_t *snic, uint32_t srqn)
{
    pthread_mutex_lock(&snic->lock);
    __atomic_store_n(&snic->view->devmem->srqs[srqn & (SNIC_SRQS - 1)].number, 0, __ATOMIC_SEQ_CST);
    pthread_mutex_unlock(&snic->lock);
    wait_for_runs();
}

/* ---- queue pairs ---- */

static void reset_qp(snic_qp_t *qp, uint32_t start)
{
    qp->doorbell = qp->tries = qp->psn = qp->flushed = qp->psn_in = qp->wanted = 0;
    qp->sq_ci = qp->sq_limit = qp->rq_ci = qp->rq_limit = start;
}

/* All but the number, which others read without a lock, and the lock, which somebody who knew the
 * queue pair that was here before may hold or wait for. The device's and the queue pair's locks
 * are held. */
static void fill_qp(snic_qp_t *qp, const pgasi_snic_qp_opts_t *opts, uint32_t start)
{
    memset(&qp->state, 0, offsetof(snic_qp_t, lock) - offsetof(snic_qp_t, state));
    qp->generation++;
    qp->state = PGASI_SNIC_RESET;
    qp->pd = opts->pd;
    qp->send_cqn = opts->send_cqn;
    qp->recv_cqn = opts->recv_cqn;
    qp->srqn = opts->srqn;
    qp->log_sq_blocks = opts->log_sq_blocks;
    qp->log_rq_entries = opts->log_rq_entries;
    qp->rq_stride = opts->rq_stride;
    qp->sq = opts->sq;
    qp->rq = opts->rq;
    qp->record = opts->record;
    qp->flags = opts->flags;
    reset_qp(qp, start);
}

uint32_t pgasi_snic_qp_open(pgasi_snic_t *snic, const pgasi_snic_qp_opts_t *opts)
{
    snic_devmem_t *devmem = snic->view->devmem;
    uint32_t number = 0;
    pthread_mutex_lock(&snic->lock);
    for (uint32_t i = 0; i < SNIC_QPS && number == 0; i++) {
        snic_qp_t *qp = &devmem->qps[i];
        if (qp->number != 0)
            continue;
        pgasi_snic_lock(&devmem->lock);
        pgasi_snic_lock(&qp->lock);
        fill_qp(qp, opts, snic_start(devmem));
        number = (qp->generation & 0xfffu) << SNIC_INDEX_BITS | i;
        if (number == 0)
            number = (++qp->generation & 0xfffu) << SNIC_INDEX_BITS;
        if (i >= devmem->qps_high)
            __atomic_store_n(&devmem->qps_high, i + 1, __ATOMIC_RELEASE);
        __atomic_store_n(&qp->number, number, __ATOMIC_RELEASE);
        snic_unlock(&qp->lock);
        pgasi_snic_let_go(snic->view);
    }
    pthread_mutex_unlock(&snic->lock);
    return number;
}

/* Who sends to it looks at the number again under the queue pair's lock, or copies while we wait
 * for all runs of this process; other processes copy into memory that they have mapped
 * themselves. */
void pgasi_snic_qp_close(pgasi_snic_t *snic, uint32_t qpn)
{
    snic_devmem_t *devmem = snic->view->devmem;
    uint32_t place = qpn & (SNIC_QPS - 1);
    pthread_mutex_lock(&snic->lock);
    if (devmem->qps[place].number == qpn) {
        pgasi_snic_lock(&devmem->lock);
        pgasi_snic_lock(&devmem->qps[place].lock);
        devmem->active[place] = 0;
        __atomic_store_n(&devmem->qps[place].number, 0, __ATOMIC_SEQ_CST);
        pgasi_snic_forget(snic->view, qpn);
        snic_unlock(&devmem->qps[place].lock);
        snic_unlock(&devmem->lock);
    }
    snic_view_t *peer = snic->view->peers[place];
    snic->view->peers[place] = NULL;
    pthread_mutex_unlock(&snic->lock);
    wait_for_runs();
    if (peer)
        pgasi_snic_view_put(peer);
}

static pgas_status_t find_peer(pgasi_snic_t *snic, const pgasi_snic_qp_state_t *state,
                               snic_qp_t *qp, uint32_t place)
{
    const pgasi_snic_id_t *own = &snic->view->id, *peer = state->peer != NULL ? state->peer : own;
    if (peer->machine != own->machine || peer->engine != own->engine || peer->name != own->name) {
        PGASI_WARN("snic", "a software NIC reaches processes of the same host and pid namespace, "
                           "with the same engine, only");
        return PGAS_ERR_MISMATCH;
    }
    pgas_status_t status;
    snic_view_t *view = pgasi_snic_view_get(peer, &status);
    if (!view)
        return status;
    __atomic_store_n(&view->checked_ns, 0, __ATOMIC_RELAXED);
    if (!pgasi_snic_view_alive(view)) {
        pgasi_snic_view_put(view);
        return PGAS_ERR_PEER;
    }
    if (snic->view->peers[place])
        pgasi_snic_view_put(snic->view->peers[place]);
    snic->view->peers[place] = view;
    if (!__atomic_load_n(&view->wakeup, __ATOMIC_RELAXED) && snic->view->wakeup)
        __atomic_store_n(&view->wakeup, snic->view->wakeup, __ATOMIC_RELEASE);
    qp->peer = *peer;
    qp->peer_qpn = state->peer_qpn;
    qp->psn_in = state->psn_in & 0xffffffu;
    qp->reads_max_in = state->reads_max_in;
    return PGAS_OK;
}

/* The device's and the queue pair's locks are held. */
static pgas_status_t change_state(pgasi_snic_t *snic, snic_qp_t *qp,
                                  const pgasi_snic_qp_state_t *state)
{
    uint32_t place = (uint32_t)(qp - snic->view->devmem->qps), from = qp->state;
    pgas_status_t status = PGAS_OK;
    if (state->state == PGASI_SNIC_RESET)
        pgasi_snic_forget(snic->view, qp->number);
    if (state->state == PGASI_SNIC_RESET)
        reset_qp(qp, snic_start(snic->view->devmem));
    else if (state->state != PGASI_SNIC_ERROR && from + 1 != (uint32_t)state->state)
        return PGAS_ERR_INVALID;
    if (state->state == PGASI_SNIC_INIT)
        qp->access = state->access;
    if (state->state == PGASI_SNIC_RTR)
        status = find_peer(snic, state, qp, place);
    if (state->state == PGASI_SNIC_RTS) {
        qp->reads_max = state->reads_max;
        qp->retry = state->retry;
        qp->rnr_retry = state->rnr_retry;
        qp->psn = state->psn & 0xffffffu;
    }
    if (status == PGAS_OK)
        __atomic_store_n(&qp->state, (uint32_t)state->state, __ATOMIC_RELEASE);
    return status;
}

pgas_status_t pgasi_snic_qp_modify(pgasi_snic_t *snic, uint32_t qpn,
                                   const pgasi_snic_qp_state_t *state)
{
    snic_devmem_t *devmem = snic->view->devmem;
    pthread_mutex_lock(&snic->lock);
    snic_qp_t *qp = snic_qp(snic->view, qpn);
    pgas_status_t status = PGAS_ERR_INVALID;
    if (qp) {
        pgasi_snic_lock(&devmem->lock);
        pgasi_snic_lock(&qp->lock);
        status = change_state(snic, qp, state);
        snic_unlock(&qp->lock);
        __atomic_store_n(&devmem->active[qpn & (SNIC_QPS - 1)], 1, __ATOMIC_RELEASE);
        pgasi_snic_let_go(snic->view);
    }
    snic_view_t *peer = qp && status == PGAS_OK ? snic->view->peers[qpn & (SNIC_QPS - 1)] : NULL;
    pthread_mutex_unlock(&snic->lock);
    if (qp)
        pgasi_snic_notify(snic->view);
    if (peer && state->state == PGASI_SNIC_RTR)
        pgasi_snic_notify(peer); /* it may have tried already */
    return status;
}

pgasi_snic_state_t pgasi_snic_qp_query(pgasi_snic_t *snic, uint32_t qpn)
{
    const snic_qp_t *qp = snic_qp(snic->view, qpn);
    return !qp ? PGASI_SNIC_RESET
               : (pgasi_snic_state_t)__atomic_load_n(&qp->state, __ATOMIC_ACQUIRE);
}
