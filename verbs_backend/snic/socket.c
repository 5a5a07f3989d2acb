/* The socket of the software NIC's process, and the exchange of memory between the process and its
 * clients.
 *
 * The socket is a file in a folder that belongs to this user alone, so no other user can take its
 * name. An abstract name could be taken by any user. Messages carry at most one descriptor
 * (SCM_RIGHTS), with the rights that its sender has. Memory from another process is accepted only
 * if it is a memfd of this user that can neither shrink nor grow. So an access within its size
 * never faults. */
#include "verbs_backend/snic/inside.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>
#include "base/clock.h"
#include "base/hash.h"

#define PLACES  34 /* the last 32 are in P_tmpdir, where other users can make folders of any name */
#define LOCK_MS 5000
#define STEP_MS 2
#define SEALS   (F_SEAL_SHRINK | F_SEAL_GROW)
#define MS_NS   UINT64_C(1000000)

/* ---- memory ---- */

int pgasi_snic_memory(const char *name, uint64_t bytes)
{
    int fd = memfd_create(name, MFD_CLOEXEC | MFD_ALLOW_SEALING);
    if (fd >= 0 &&
        (ftruncate(fd, (off_t)bytes) != 0 || fcntl(fd, F_ADD_SEALS, SEALS | F_SEAL_SEAL) != 0)) {
        int error = errno;
        close(fd);
        errno = error;
        fd = -1;
    }
    return fd;
}

bool pgasi_snic_is_memory(int fd, uint64_t bytes_min, uint64_t bytes_max)
{
    struct stat file;
    int seals = fcntl(fd, F_GET_SEALS);
    return seals >= 0 && (seals & SEALS) == SEALS && fstat(fd, &file) == 0 &&
           S_ISREG(file.st_mode) && file.st_uid == geteuid() &&
           (uint64_t)file.st_size >= bytes_min && (uint64_t)file.st_size <= bytes_max;
}

/* ---- the place ---- */

/* In order: two folders in which other users cannot create anything, then those in the folder for
 * temporary files. */
static void name_place(int i, char *path, size_t bytes)
{
    unsigned uid = (unsigned)geteuid();
    if (i == 0)
        snprintf(path, bytes, "/run/user/%u/libpgas", uid);
    else if (i == 1)
        snprintf(path, bytes, "/run/libpgas-%u", uid);
    else if (i == 2)
        snprintf(path, bytes, P_tmpdir "/libpgas-%u", uid);
    else
        snprintf(path, bytes, P_tmpdir "/libpgas-%u.%d", uid, i - 2);
}

/* @return a descriptor of the folder; -1: it is missing, or another user may write there */
static int open_place(int i, bool make, char *path, size_t bytes)
{
    struct stat folder;
    name_place(i, path, bytes);
    if (make && mkdir(path, 0700) != 0 && errno != EEXIST)
        return -1;
    int fd = open(path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (fd < 0)
        return -1;
    if (fstat(fd, &folder) == 0 && folder.st_uid == geteuid() && (folder.st_mode & 077) == 0)
        return fd;
    close(fd);
    errno = EACCES;
    return -1;
}

/* The first pass tries all folders without making any; the second pass may make one. So an existing
 * folder is used even if one with a lower number could now be made, and all processes of the user
 * agree. */
static int find_place(bool make, char *path, size_t bytes)
{
    int fd = -1;
    for (int i = 0; i < (make ? 2 : 1) * PLACES && fd < 0; i++) {
        fd = open_place(i % PLACES, i >= PLACES, path, bytes);
        if (fd < 0 && (errno == EMFILE || errno == ENFILE))
            return -1;
    }
    return fd;
}

/* Programs of two versions, or in two pid namespaces, have a process each. */
static void name_socket(const char *name, char *text, size_t bytes)
{
    snprintf(text, bytes, "snic-%08x-%016llx-%x", (unsigned)pgasi_hash_bytes(name, strlen(name), 0),
             (unsigned long long)pgasi_snic_machine(), SNIC_VERSION);
}

/* The address uses the folder's descriptor, so the checked folder is the one that is used, and the
 * name is short. */
static void make_address(int place, const char *file, struct sockaddr_un *address)
{
    memset(address, 0, sizeof *address);
    address->sun_family = AF_UNIX;
    snprintf(address->sun_path, sizeof address->sun_path, "/proc/self/fd/%d/%.64s", place, file);
}

static int new_socket(void)
{
    return socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
}

pid_t pgasi_snic_peer(int socket)
{
    struct ucred who;
    socklen_t bytes = sizeof who;
    bool ours =
        getsockopt(socket, SOL_SOCKET, SO_PEERCRED, &who, &bytes) == 0 && who.uid == geteuid();
    return ours ? who.pid : -1;
}

static int connect_in(int place, const char *file, int patience_ms)
{
    struct sockaddr_un address;
    int fd = new_socket(), result = -1;
    if (fd < 0)
        return -1;
    make_address(place, file, &address);
    /* EAGAIN: the queue of the socket is full */
    for (int ms = 0; ms <= patience_ms; ms += STEP_MS) {
        result = connect(fd, (struct sockaddr *)(void *)&address, sizeof address);
        if (result == 0 || errno != EAGAIN)
            break;
        poll(NULL, 0, ms < patience_ms ? STEP_MS : 0);
    }
    if (result == 0 && pgasi_snic_peer(fd) > 0)
        return fd;
    int error = result == 0 ? EPERM : errno;
    close(fd);
    errno = error;
    return -1;
}

int pgasi_snic_connect(const char *name, bool make, int patience_ms)
{
    char path[64], file[64];
    int place = find_place(make, path, sizeof path);
    name_socket(name, file, sizeof file);
    if (place < 0) {
        if (errno != EMFILE && errno != ENFILE)
            errno = make ? ENOTDIR : ENOENT;
        return -1;
    }
    int fd = connect_in(place, file, patience_ms), error = errno;
    close(place);
    errno = error;
    return fd;
}

/* A lock serialises creating and removing sockets. Its last holder may have removed the folder,
 * which is then created again. */
static int lock_place(char *path, size_t bytes)
{
    for (int ms = 0; ms < LOCK_MS; ms += STEP_MS) {
        struct stat folder;
        int place = find_place(true, path, bytes);
        if (place < 0)
            return -1;
        if (flock(place, LOCK_EX | LOCK_NB) == 0 && fstat(place, &folder) == 0 &&
            folder.st_nlink > 0)
            return place;
        close(place);
        poll(NULL, 0, STEP_MS);
    }
    return -1;
}

/* Removes sockets that killed processes left behind: no process answers there. */
static void sweep(int place)
{
    int folder_fd = openat(place, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    DIR *folder = folder_fd >= 0 ? fdopendir(folder_fd) : NULL;
    for (struct dirent *entry; folder != NULL && (entry = readdir(folder));) {
        if (strncmp(entry->d_name, "snic-", 5) != 0)
            continue;
        int fd = connect_in(place, entry->d_name, 0);
        if (fd >= 0)
            close(fd);
        else if (errno == ECONNREFUSED)
            unlinkat(place, entry->d_name, 0);
    }
    if (folder)
        closedir(folder);
    else if (folder_fd >= 0)
        close(folder_fd);
}

pgas_status_t pgasi_snic_listen(const char *name, int backlog, int *fd_p)
{
    char path[64], file[64];
    struct sockaddr_un address;
    int place = lock_place(path, sizeof path), fd = -1;
    if (place < 0)
        return PGAS_ERR_IO;
    name_socket(name, file, sizeof file);
    make_address(place, file, &address);
    sweep(place);
    pgas_status_t status = PGAS_ERR_EXISTS;
    int other = connect_in(place, file, 0);
    if (other >= 0) {
        close(other);
    } else if (errno == ENOENT) {
        fd = new_socket();
        bool good = fd >= 0 && bind(fd, (struct sockaddr *)(void *)&address, sizeof address) == 0 &&
                    listen(fd, backlog) == 0;
        status = good ? PGAS_OK : PGAS_ERR_IO;
    }
    if (status == PGAS_OK)
        *fd_p = fd;
    else if (fd >= 0)
        close(fd);
    close(place);
    return status;
}

void pgasi_snic_unlisten(const char *name, int fd)
{
    char path[64], file[64];
    int place = lock_place(path, sizeof path);
    if (place >= 0) {
        name_socket(name, file, sizeof file);
        unlinkat(place, file, 0);
        rmdir(path); /* fails if other sockets are there */
        close(place);
    }
    close(fd);
}

/* ---- messages ---- */

bool pgasi_snic_send_message(int socket, const void *message, size_t bytes, int fd)
{
    union {
        struct cmsghdr head;
        char room[CMSG_SPACE(sizeof(int))];
    } control;
    struct iovec part = { (void *)(uintptr_t)message, bytes };
    struct msghdr whole = { .msg_iov = &part, .msg_iovlen = 1 };
    if (fd >= 0) {
        memset(&control, 0, sizeof control);
        whole.msg_control = &control;
        whole.msg_controllen = sizeof control;
        control.head = (struct cmsghdr){ .cmsg_len = CMSG_LEN(sizeof fd),
                                         .cmsg_level = SOL_SOCKET,
                                         .cmsg_type = SCM_RIGHTS };
        memcpy(CMSG_DATA(&control.head), &fd, sizeof fd);
    }
    return sendmsg(socket, &whole, MSG_NOSIGNAL | MSG_DONTWAIT) == (ssize_t)bytes;
}

/* Takes all descriptors that have arrived, and keeps the first if it is the only one.
 * @return how many have arrived */
static int collect(struct msghdr *whole, int *fd_p)
{
    int n = 0;
    for (struct cmsghdr *at = CMSG_FIRSTHDR(whole); at != NULL; at = CMSG_NXTHDR(whole, at)) {
        if (at->cmsg_level != SOL_SOCKET || at->cmsg_type != SCM_RIGHTS)
            continue;
        for (size_t i = 0; i < (at->cmsg_len - CMSG_LEN(0)) / sizeof(int); i++) {
            int fd;
            memcpy(&fd, CMSG_DATA(at) + i * sizeof fd, sizeof fd);
            if (n++ == 0)
                *fd_p = fd;
            else
                close(fd);
        }
    }
    return n;
}

ssize_t pgasi_snic_receive_message(int socket, void *message, size_t bytes, int *fd_p)
{
    union {
        struct cmsghdr head;
        char room[CMSG_SPACE(4 * sizeof(int))];
    } control;
    struct iovec part = { message, bytes };
    struct msghdr whole = {
        .msg_iov = &part, .msg_iovlen = 1, .msg_control = &control, .msg_controllen = sizeof control
    };
    *fd_p = -1;
    ssize_t n = recvmsg(socket, &whole, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
    if (n < 0)
        return n;
    bool cut = (whole.msg_flags & MSG_TRUNC) != 0, lost = (whole.msg_flags & MSG_CTRUNC) != 0;
    if (collect(&whole, fd_p) <= 1 && !cut && !lost)
        return n;
    if (*fd_p >= 0)
        close(*fd_p);
    *fd_p = -1;
    errno = lost ? EMFILE : EPROTO;
    return -1;
}

ssize_t pgasi_snic_await_message(int socket, void *message, size_t bytes, int *fd_p,
                                 int patience_ms)
{
    uint64_t limit_ns = pgasi_now_ns() + (uint64_t)patience_ms * MS_NS;
    *fd_p = -1;
    for (;;) {
        uint64_t now_ns = pgasi_now_ns();
        struct pollfd wanted = { .fd = socket, .events = POLLIN };
        int n = poll(&wanted, 1, now_ns < limit_ns ? (int)((limit_ns - now_ns) / MS_NS) + 1 : 0);
        if (n > 0)
            return pgasi_snic_receive_message(socket, message, bytes, fd_p);
        if (n == 0 || errno != EINTR) {
            errno = n == 0 ? ETIMEDOUT : errno;
            return -1;
        }
    }
}
