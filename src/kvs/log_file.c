/* The file of a log. See log_file.h. */
#include "kvs/log_file.h"
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>
#include "base/checks.h"

static pgas_status_t failed(const pgasi_kvs_log_file_t *file, const char *what, int error)
{
    PGASI_ERROR("kvs",
                "%s: cannot %s the log: %s. Writes return PGAS_ERR_IO from now on. Make room; then "
                "pgas_kvs_save begins a new log",
                file->path, what, strerror(error));
    return PGAS_ERR_IO;
}

pgas_status_t pgasi_kvs_log_file_create(pgasi_kvs_log_file_t *file, const char *path,
                                        const pgasi_kvs_file_head_t *head)
{
    memset(file, 0, sizeof *file);
    memcpy(file->path, path, strlen(path) + 1);
    file->head = *head;
    file->fd = open(path, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
    int error = file->fd < 0 ? errno : pgasi_kvs_pwrite(file->fd, head, sizeof *head, 0);
    if (error == 0 && fdatasync(file->fd) != 0)
        error = errno;
    pgas_status_t status = PGAS_ERR_IO;
    if (error != 0)
        PGASI_ERROR("kvs", "%s: cannot create the log: %s", path, strerror(error));
    else
        status = pgasi_kvs_sync_folder(path);
    if (status != PGAS_OK && file->fd >= 0) {
        close(file->fd);
        pgasi_kvs_remove(path);
    }
    file->end = file->synced = sizeof *head;
    return status;
}

pgas_status_t pgasi_kvs_log_file_write(pgasi_kvs_log_file_t *file, pgasi_kvs_block_kind_t kind,
                                       void *block, size_t contents_bytes, uint64_t n_records)
{
    pgasi_kvs_block_head_t head;
    uint64_t synced = __atomic_load_n(&file->synced, __ATOMIC_ACQUIRE);
    head = pgasi_kvs_block_head(&file->head, kind, file->end, synced,
                                (const char *)block + sizeof head, contents_bytes);
    memcpy(block, &head, sizeof head);
    int error = pgasi_kvs_pwrite(file->fd, block, sizeof head + contents_bytes, file->end);
    if (error != 0) {
        if (ftruncate(file->fd, (off_t)file->end) != 0)
            PGASI_DEBUG("kvs", "%s: cannot cut it back: %s", file->path, strerror(errno));
        return failed(file, "write", error);
    }
    file->end += sizeof head + contents_bytes;
    file->n_records += n_records;
    return PGAS_OK;
}

pgas_status_t pgasi_kvs_log_file_sync(pgasi_kvs_log_file_t *file, uint64_t end)
{
    if (file->sync_failed)
        return PGAS_ERR_IO;
    if (fdatasync(file->fd) != 0) {
        file->sync_failed = true;
        return failed(file, "sync", errno);
    }
    __atomic_store_n(&file->synced, end, __ATOMIC_RELEASE);
    return PGAS_OK;
}

pgas_status_t pgasi_kvs_log_file_end(pgasi_kvs_log_file_t *file)
{
    struct {
        pgasi_kvs_block_head_t head;
        pgasi_kvs_end_t end;
    } block = { .end.n_records = file->n_records };
    return pgasi_kvs_log_file_write(file, PGASI_KVS_BLOCK_END, &block, sizeof block.end, 0);
}
