/** The store's work on files: whole reads and writes, atomic renames, the lock of a
 *  directory. Functions that return a status log the error with the file's name and the reason,
 *  unless they say otherwise. */
#ifndef PGASI_KVS_FILES_H
#define PGASI_KVS_FILES_H

#include <limits.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "pgas/status.h"

/** Writes all bytes at an offset. It logs nothing. @return 0, or errno */
int pgasi_kvs_pwrite(int fd, const void *bytes, size_t n, uint64_t at);

/** Reads n bytes at an offset, fewer only at the end of the file. It logs nothing.
 *  @return the bytes read; -1: errno says why */
int64_t pgasi_kvs_pread(int fd, void *bytes, size_t n, uint64_t at);

/** Opens a file for reading.
 *  @return PGAS_ERR_NOT_FOUND  there is no such file; nothing is logged
 *          PGAS_ERR_IO */
pgas_status_t pgasi_kvs_open(const char *path, int *fd_p);

/** Makes the names in the directory of a file durable. */
pgas_status_t pgasi_kvs_sync_folder(const char *path);

/** Gives the file `from` the name `to`, in place of a file that has it, and makes that durable. */
pgas_status_t pgasi_kvs_rename(const char *from, const char *to);

/** A path, and the function that prints it. @return PGAS_ERR_LIMIT: it is too long */
typedef char pgasi_kvs_path_t[PATH_MAX];
pgas_status_t pgasi_kvs_path(char *path, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

/** Removes a file that may be absent. It logs no error: a file that stays does no harm. */
void pgasi_kvs_remove(const char *path);

/** Takes the lock of a directory for this rank. One rank, the first, takes it with `first`: it is
 *  refused if any rank of another store has the lock. Then the other ranks take it. Closing *fd_p
 *  releases it, and so does the end of the process.
 *  @return PGAS_ERR_BUSY  another store uses the directory; the log names its process
 *          PGAS_ERR_IO */
pgas_status_t pgasi_kvs_lock(const char *dir, bool first, int *fd_p);

/** Files of a directory whose names are PREFIX, a number, a dot, and a number. */
typedef struct {
    uint64_t generation;
    uint64_t rank;
    bool is_empty; /* not used here */
} pgasi_kvs_name_t;

/** Lists them, sorted. The caller frees *names_p. It ignores other files. */
pgas_status_t pgasi_kvs_list(const char *dir, const char *prefix, pgasi_kvs_name_t **names_p,
                             size_t *n_p);

#endif
