/* The functions of libc by which libibverbs and libmlx5 reach a device, for fake devices. All other
 * calls are passed on to the next definition (libc's, or a sanitizer's). Every library calls them,
 * also early, so they take no lock unless the call is for a fake device. */
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/netlink.h>
#include <rdma/rdma_user_ioctl_cmds.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>
#include "t/shim/shim.h"

#define SHOWN    __attribute__((visibility("default")))
#define DEVICE   "/dev/infiniband/uverbs"
#define STAND_IN "/dev/null" /* a character device, with the number that t/shim/sysfs.sh says */

/* The next definitions, found at the first call: other libraries begin before this one. */
static struct {
    int (*open)(const char *path, int flags, ...);
    int (*open64)(const char *path, int flags, ...);
    int (*stat)(const char *restrict path, struct stat *restrict out);
    int (*close)(int fd);
    ssize_t (*write)(int fd, const void *buffer, size_t bytes);
    int (*ioctl)(int fd, unsigned long request, ...);
    void *(*mmap)(void *addr, size_t bytes, int protection, int flags, int fd, off_t offset);
    int (*socket)(int domain, int type, int protocol);
} next;
static bool found;

static void find(void *into, const char *name)
{
    void *function = dlsym(RTLD_NEXT, name);
    memcpy(into, &function, sizeof function);
}

/* Threads that come at once write the same. */
static void find_all(void)
{
    if (__atomic_load_n(&found, __ATOMIC_ACQUIRE))
        return;
    find(&next.open, "open");
    find(&next.open64, "open64");
    find(&next.stat, "stat");
    find(&next.close, "close");
    find(&next.write, "write");
    find(&next.ioctl, "ioctl");
    find(&next.mmap, "mmap");
    find(&next.socket, "socket");
    __atomic_store_n(&found, true, __ATOMIC_RELEASE);
}

static shim_context_t contexts[SHIM_CONTEXTS];
static int n_contexts; /* that are open */

/** Shows a program that it runs under the shim; see t/shim/under.h. */
SHOWN int pgasi_shim_is_here = 1;

/* SYSFS_PATH: the tree that was made beside this library. */
__attribute__((constructor)) static void begin(void)
{
    for (int k = 0; k < SHIM_CONTEXTS; k++)
        contexts[k].fd = -1;
    Dl_info info;
    char path[4096];
    if (!dladdr(&pgasi_shim_is_here, &info) || strlen(info.dli_fname) > sizeof path - 16)
        return;
    strcpy(path, info.dli_fname);
    char *end = strstr(path, "/.libs/");
    if (end) {
        strcpy(end, "/sysfs");
        setenv("SYSFS_PATH", path, 1);
    }
}

static const shim_card_t *card_of(const char *path)
{
    size_t length = strlen(DEVICE);
    if (!path || strncmp(path, DEVICE, length) || path[length] < '0' ||
        path[length] >= '0' + SHIM_CARDS || path[length + 1])
        return NULL;
    return &shim_cards[path[length] - '0'];
}

static shim_context_t *context_of(int fd)
{
    if (fd < 0 || !__atomic_load_n(&n_contexts, __ATOMIC_ACQUIRE))
        return NULL;
    for (int k = 0; k < SHIM_CONTEXTS; k++)
        if (__atomic_load_n(&contexts[k].fd, __ATOMIC_ACQUIRE) == fd)
            return &contexts[k];
    return NULL;
}

static int open_card(const shim_card_t *card)
{
    int fd = next.open(STAND_IN, O_RDWR | O_CLOEXEC);
    if (fd < 0)
        return fd;
    shim_begin();
    int k = 0;
    while (k < SHIM_CONTEXTS && contexts[k].fd >= 0)
        k++;
    bool good = k < SHIM_CONTEXTS && shim_engine();
    if (good) {
        contexts[k].card = card;
        __atomic_store_n(&contexts[k].fd, fd, __ATOMIC_RELEASE);
        __atomic_fetch_add(&n_contexts, 1, __ATOMIC_RELEASE);
    }
    shim_end();
    if (!good) {
        next.close(fd);
        errno = ENODEV;
        return -1;
    }
    return fd;
}

SHOWN int open(const char *path, int flags, ...)
{
    find_all();
    const shim_card_t *card = card_of(path);
    if (card)
        return open_card(card);
    va_list args;
    va_start(args, flags);
    mode_t mode = flags & (O_CREAT | __O_TMPFILE) ? va_arg(args, mode_t) : 0;
    va_end(args);
    return next.open(path, flags, mode);
}

SHOWN int open64(const char *path, int flags, ...)
{
    find_all();
    const shim_card_t *card = card_of(path);
    if (card)
        return open_card(card);
    va_list args;
    va_start(args, flags);
    mode_t mode = flags & (O_CREAT | __O_TMPFILE) ? va_arg(args, mode_t) : 0;
    va_end(args);
    return next.open64(path, flags, mode);
}

SHOWN int stat(const char *restrict path, struct stat *restrict out)
{
    find_all();
    return next.stat(card_of(path) ? STAND_IN : path, out);
}

SHOWN int close(int fd)
{
    find_all();
    shim_context_t *context = context_of(fd);
    if (context) {
        shim_begin();
        shim_destroy_all(context);
        __atomic_store_n(&context->fd, -1, __ATOMIC_RELEASE);
        __atomic_fetch_sub(&n_contexts, 1, __ATOMIC_RELEASE);
        shim_end();
    }
    return next.close(fd);
}

SHOWN ssize_t write(int fd, const void *buffer, size_t bytes)
{
    find_all();
    shim_context_t *context = context_of(fd);
    if (!context)
        return next.write(fd, buffer, bytes);
    shim_begin();
    int error = shim_write(context, buffer, bytes);
    shim_end();
    errno = error;
    return error ? -1 : (ssize_t)bytes;
}

SHOWN int ioctl(int fd, unsigned long request, ...)
{
    find_all();
    va_list args;
    va_start(args, request);
    void *arg = va_arg(args, void *);
    va_end(args);
    shim_context_t *context = context_of(fd);
    if (!context)
        return next.ioctl(fd, request, arg);
    int error = ENOTTY;
    if (request == RDMA_VERBS_IOCTL) {
        shim_begin();
        error = shim_ioctl(context, arg);
        shim_end();
    }
    errno = error;
    return error ? -1 : 0;
}

SHOWN void *mmap(void *addr, size_t bytes, int protection, int flags, int fd, off_t offset)
{
    find_all();
    if (!context_of(fd))
        return next.mmap(addr, bytes, protection, flags, fd, offset);
    int page_fd = shim_page_fd((uint32_t)(offset / SHIM_PAGE));
    if (page_fd < 0 || bytes != SHIM_PAGE) {
        errno = EINVAL;
        return MAP_FAILED;
    }
    return next.mmap(addr, bytes, protection, flags, page_fd, 0);
}

/* With real cards the system would list them by netlink, and libibverbs would not read the tree. */
SHOWN int socket(int domain, int type, int protocol)
{
    find_all();
    if (domain == AF_NETLINK && protocol == NETLINK_RDMA) {
        errno = EPROTONOSUPPORT;
        return -1;
    }
    return next.socket(domain, type, protocol);
}
