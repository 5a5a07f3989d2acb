/* Files and directories of the store. See files.h. */
#include "kvs/files.h"
#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <unistd.h>
#include "base/checks.h"

#define PIECE (1u << 30) /* the system writes and reads at most 2 GiB at once */

int pgasi_kvs_pwrite(int fd, const void *bytes, size_t n, uint64_t at)
{
    const char *from = bytes;
    while (n > 0) {
        ssize_t done = pwrite(fd, from, PGASI_MIN(n, PIECE), (off_t)at);
        if (done < 0 && errno == EINTR)
            continue;
        if (done <= 0)
            return done < 0 ? errno : ENOSPC;
        from += done;
        at += (uint64_t)done;
        n -= (size_t)done;
    }
    return 0;
}

int64_t pgasi_kvs_pread(int fd, void *bytes, size_t n, uint64_t at)
{
    char *to = bytes;
    size_t got = 0;
    while (got < n) {
        ssize_t done = pread(fd, to + got, PGASI_MIN(n - got, PIECE), (off_t)(at + got));
        if (done < 0 && errno == EINTR)
            continue;
        if (done < 0)
            return -1;
        if (done == 0)
            break;
        got += (size_t)done;
    }
    return (int64_t)got;
}

/* ---- names ---- */

pgas_status_t pgasi_kvs_path(char *path, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    int n = vsnprintf(path, sizeof(pgasi_kvs_path_t), format, arguments);
    va_end(arguments);
    if (n >= 0 && (size_t)n < sizeof(pgasi_kvs_path_t))
        return PGAS_OK;
    PGASI_ERROR("kvs", "%.64s..: the name of a file is too long", path);
    return PGAS_ERR_LIMIT;
}

pgas_status_t pgasi_kvs_open(const char *path, int *fd_p)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0 && errno == ENOENT)
        return PGAS_ERR_NOT_FOUND;
    if (fd < 0) {
        PGASI_ERROR("kvs", "%s: cannot open it: %s", path, strerror(errno));
        return PGAS_ERR_IO;
    }
    *fd_p = fd;
    return PGAS_OK;
}

pgas_status_t pgasi_kvs_sync_folder(const char *path)
{
    pgasi_kvs_path_t folder;
    const char *slash = strrchr(path, '/');
    int length = slash ? (int)(slash - path) : 1;
    pgas_status_t status =
        pgasi_kvs_path(folder, "%.*s%s", length, slash ? path : ".", slash == path ? "/" : "");
    if (status != PGAS_OK)
        return status;
    int fd = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    /* Some file systems do not sync directories, because their names are durable at once. */
    bool good = fd >= 0 && (fsync(fd) == 0 || errno == EINVAL || errno == ENOTSUP);
    if (!good)
        PGASI_ERROR("kvs", "%s: cannot sync the directory: %s", folder, strerror(errno));
    if (fd >= 0)
        close(fd);
    return good ? PGAS_OK : PGAS_ERR_IO;
}

pgas_status_t pgasi_kvs_rename(const char *from, const char *to)
{
    if (rename(from, to) != 0) {
        PGASI_ERROR("kvs", "%s: cannot rename it to %s: %s", from, to, strerror(errno));
        return PGAS_ERR_IO;
    }
    return pgasi_kvs_sync_folder(to);
}

void pgasi_kvs_remove(const char *path)
{
    if (unlink(path) != 0 && errno != ENOENT)
        PGASI_INFO("kvs", "%s: cannot remove it: %s", path, strerror(errno));
}

/* ---- the lock ---- */

static void log_holder(const char *path, int fd)
{
    char holder[128];
    int64_t n = pgasi_kvs_pread(fd, holder, sizeof holder - 1, 0);
    holder[n > 0 ? n : 0] = 0;
    holder[strcspn(holder, "\n")] = 0;
    PGASI_ERROR("kvs",
                "%s: another store uses this directory (%s). Destroy that store, or use "
                "another directory",
                path, holder[0] ? holder : "of an unknown process");
}

/* The lock is exclusive only while it is tested. Then all ranks share it, so that the directory
 * stays locked until the last one has ended. */
static int take(int fd, bool first)
{
    if (first && flock(fd, LOCK_EX | LOCK_NB) != 0)
        return errno;
    return flock(fd, LOCK_SH | LOCK_NB) != 0 ? errno : 0;
}

static void write_holder(int fd)
{
    char holder[128], host[65] = "";
    gethostname(host, sizeof host - 1);
    int n = snprintf(holder, sizeof holder, "process %ld of host %s\n", (long)getpid(), host);
    if (ftruncate(fd, 0) != 0 || pgasi_kvs_pwrite(fd, holder, (size_t)n, 0) != 0)
        PGASI_DEBUG("kvs", "cannot write the name of this process to the lock's file");
}

pgas_status_t pgasi_kvs_lock(const char *dir, bool first, int *fd_p)
{
    pgasi_kvs_path_t path;
    pgas_status_t status = pgasi_kvs_path(path, "%s/lock", dir);
    if (status != PGAS_OK)
        return status;
    int fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0666);
    int error = fd < 0 ? errno : take(fd, first);
    if (error == 0) {
        if (first)
            write_holder(fd);
        *fd_p = fd;
        return PGAS_OK;
    }
    if (error == EWOULDBLOCK)
        log_holder(path, fd);
    else
        PGASI_ERROR("kvs", "%s: cannot lock it: %s", path, strerror(error));
    if (fd >= 0)
        close(fd);
    return error == EWOULDBLOCK ? PGAS_ERR_BUSY : PGAS_ERR_IO;
}

/* ---- the files of a directory ---- */

/* Parses a number as the library prints it: digits, no sign, no leading zero. */
static bool parse_number(const char **text, uint64_t *number_p)
{
    char *end;
    if (!isdigit((unsigned char)**text) || (**text == '0' && isdigit((unsigned char)(*text)[1])))
        return false;
    errno = 0;
    *number_p = strtoull(*text, &end, 10);
    *text = end;
    return errno == 0;
}

static bool parse_name(const char *name, const char *prefix, pgasi_kvs_name_t *parsed)
{
    size_t n = strlen(prefix);
    if (strncmp(name, prefix, n) != 0)
        return false;
    name += n;
    return parse_number(&name, &parsed->generation) && *name++ == '.' &&
           parse_number(&name, &parsed->rank) && *name == 0;
}

static int compare_names(const void *a, const void *b)
{
    const pgasi_kvs_name_t *x = a, *y = b;
    if (x->generation != y->generation)
        return x->generation < y->generation ? -1 : 1;
    return (x->rank > y->rank) - (x->rank < y->rank);
}

static bool append(pgasi_kvs_name_t **names_p, size_t *n_p, const pgasi_kvs_name_t *name)
{
    if (PGASI_IS_POW2(*n_p) || *n_p == 0) {
        pgasi_kvs_name_t *more = realloc(*names_p, (*n_p * 2 + 1) * sizeof *more);
        if (!more)
            return false;
        *names_p = more;
    }
    (*names_p)[(*n_p)++] = *name;
    return true;
}

pgas_status_t pgasi_kvs_list(const char *dir, const char *prefix, pgasi_kvs_name_t **names_p,
                             size_t *n_p)
{
    pgasi_kvs_name_t *names = NULL, name = { .rank = 0 };
    size_t n = 0;
    int error = 0;
    DIR *folder = opendir(dir);
    if (!folder) {
        PGASI_ERROR("kvs", "%s: cannot read the directory: %s", dir, strerror(errno));
        return PGAS_ERR_IO;
    }
    for (struct dirent *entry; error == 0;) {
        errno = 0;
        entry = readdir(folder);
        if (!entry) {
            error = errno;
            break;
        }
        if (parse_name(entry->d_name, prefix, &name) && !append(&names, &n, &name))
            error = ENOMEM;
    }
    closedir(folder);
    if (error != 0) {
        PGASI_ERROR("kvs", "%s: cannot read the directory: %s", dir, strerror(error));
        free(names);
        return error == ENOMEM ? PGAS_ERR_NO_MEMORY : PGAS_ERR_IO;
    }
    if (n > 0)
        qsort(names, n, sizeof *names, compare_names);
    *names_p = names;
    *n_p = n;
    return PGAS_OK;
}
