/* Access to memory by keys: checks of every access, and copies between processes. */
#include "verbs_backend/snic/engine.h"

#include <errno.h>
#include <string.h>
#include <sys/uio.h>

#define BOUNCE_BYTES 16384 /* for copies between the memory of two other processes */

bool pgasi_snic_reach(snic_view_t *view, uint32_t pd, uint32_t key, uint64_t addr, uint64_t bytes,
                      uint32_t access, snic_piece_t *piece_p)
{
    uint32_t place = key >> 8;
    if (place >= SNIC_MRS)
        return false;
    const snic_mr_t *mr = &view->devmem->mrs[place];
    if (key == 0 || __atomic_load_n(&mr->key, __ATOMIC_ACQUIRE) != key)
        return false;
    const snic_map_t *map = __atomic_load_n(&view->mrs[place], __ATOMIC_ACQUIRE);
    if (PGAS_UNLIKELY(!map || map->serial != snic_load(mr->serial) || map->key != key)) {
        map = pgasi_snic_view_map(view, key);
        if (!map)
            return false;
    }
    if (map->pd != pd || (map->access & access) != access || bytes > map->bytes ||
        addr < map->addr || addr - map->addr > map->bytes - bytes)
        return false;
    *piece_p = (snic_piece_t){ .here = map->base != NULL ? map->base + (addr - map->addr) : NULL,
                               .view = view,
                               .addr = addr,
                               .bytes = bytes };
    return true;
}

/* Copies to or from another process's memory. @return false: the memory is not there */
static bool copy_by_kernel(const snic_piece_t *far, char *here, uint64_t bytes, bool write)
{
    while (bytes > 0) {
        struct iovec local = { here, bytes }, remote = { (void *)(uintptr_t)(far->addr), bytes };
        remote.iov_base = (char *)remote.iov_base + (far->bytes - bytes);
        ssize_t n = write ? process_vm_writev((pid_t)far->view->id.pid, &local, 1, &remote, 1, 0)
                          : process_vm_readv((pid_t)far->view->id.pid, &local, 1, &remote, 1, 0);
        if (n < 0 && errno == ESRCH) /* its owner has no memory any more: it has ended */
            __atomic_store_n(&far->view->gone, true, __ATOMIC_RELEASE);
        if (n <= 0)
            return false;
        here += n;
        bytes -= (uint64_t)n;
    }
    return true;
}

bool pgasi_snic_copy_piece(const snic_piece_t *to, const snic_piece_t *from)
{
    if (PGAS_LIKELY(to->here && from->here)) {
        if (PGAS_LIKELY(to->bytes == 8))
            memcpy(to->here, from->here, 8);
        else
            memmove(to->here, from->here, to->bytes);
        return true;
    }
    if (to->here)
        return copy_by_kernel(from, to->here, to->bytes, false);
    if (from->here)
        return copy_by_kernel(to, from->here, to->bytes, true);
    char bounce[BOUNCE_BYTES];
    for (uint64_t at = 0; at < to->bytes; at += sizeof bounce) {
        uint64_t bytes = PGASI_MIN(to->bytes - at, (uint64_t)sizeof bounce);
        snic_piece_t part_from = { .view = from->view, .addr = from->addr + at, .bytes = bytes };
        snic_piece_t part_to = { .view = to->view, .addr = to->addr + at, .bytes = bytes };
        if (!copy_by_kernel(&part_from, bounce, bytes, false) ||
            !copy_by_kernel(&part_to, bounce, bytes, true))
            return false;
    }
    return true;
}

static snic_piece_t cut(const snic_piece_t *piece, uint64_t at, uint64_t bytes)
{
    snic_piece_t part = *piece;
    part.here = piece->here != NULL ? piece->here + at : NULL;
    part.addr += at;
    part.bytes = bytes;
    return part;
}

bool pgasi_snic_copy_lists(const snic_piece_t *to, unsigned n_to, const snic_piece_t *from,
                           unsigned n_from)
{
    uint64_t at = 0;
    const snic_piece_t *last = to + n_to;
    for (unsigned i = 0; i < n_from; i++) {
        uint64_t done = 0;
        while (done < from[i].bytes) {
            if (PGAS_UNLIKELY(to == last))
                return false;
            uint64_t bytes = PGASI_MIN(from[i].bytes - done, to->bytes - at);
            if (bytes > 0) {
                snic_piece_t a = cut(to, at, bytes), b = cut(&from[i], done, bytes);
                if (!pgasi_snic_copy_piece(&a, &b))
                    return false;
                done += bytes;
                at += bytes;
            }
            if (at == to->bytes && done < from[i].bytes) {
                to++;
                at = 0;
            }
        }
    }
    return true;
}
