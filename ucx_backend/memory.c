/* Memory and keys. This file allocates memory as a sparse anonymous file and registers it with UCX.
 * A peer on the host maps the file through /proc/PID/fd and loads and stores there. UCX's own
 * allocation is not used: its `posix` transport writes every page of /dev/shm in advance, and UCX
 * falls back to `posix` if `sysv` refuses a size. A packed key wraps UCX's key with its length, the
 * file and a checksum, because UCX does not validate keys. */
#include "ucx_backend/ucx.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>
#include "base/clock.h"
#include "base/hash.h"
#include "base/log.h"

typedef struct {
    ucp_mem_h memh;
    void *addr;
    size_t bytes;
    int fd;         /* of allocated memory, otherwise -1 */
    uint64_t token; /* in the name of that file */
} mem_t;

/** The header of a packed key; UCX's packed key follows. */
typedef struct {
    uint32_t magic;
    uint32_t bytes; /* of UCX's part */
    uint64_t base, length;
    uint64_t token;  /* of the file that can be mapped */
    int32_t pid, fd; /* of the owner; fd -1: there is no file */
    uint64_t check;  /* of everything else */
} key_header_t;

#define KEY_MAGIC  0x324b5855u
#define LINK_BYTES 64 /* "/memfd:pgas-0123456789abcdef (deleted)" */

static mem_t *mem_of(pgasi_tp_mem_t *mem)
{
    return (mem_t *)(void *)mem;
}

/* ---- files ---- */

/* The target of an allocation's link in /proc/PID/fd. The token distinguishes it from any other
 * file, because a key may come from another host with the same process numbers. */
static void link_of(uint64_t token, char text[LINK_BYTES])
{
    snprintf(text, LINK_BYTES, "/memfd:pgas-%016" PRIx64 " (deleted)", token);
}

static bool is_file_of(const char *path, uint64_t token)
{
    char want[LINK_BYTES], got[LINK_BYTES];
    link_of(token, want);
    ssize_t length = readlink(path, got, sizeof got);
    return length == (ssize_t)strlen(want) && memcmp(got, want, (size_t)length) == 0;
}

static uint64_t make_token(const pgasi_ucx_t *tp, const void *mem)
{
    uint64_t parts[] = { pgasi_now_ns(), (uint64_t)getpid(), (uint64_t)(uintptr_t)mem, tp->cookie };
    return pgasi_hash_bytes(parts, sizeof parts, 1);
}

/* Creates and maps a sparse file; the kernel allocates pages when they are touched. The kernel
 * removes the file with its last process, also if that process is killed. */
static pgas_status_t make_file(mem_t *mem, size_t bytes)
{
    char name[LINK_BYTES];
    snprintf(name, sizeof name, "pgas-%016" PRIx64, mem->token);
    mem->addr = MAP_FAILED;
    mem->fd = memfd_create(name, MFD_CLOEXEC);
    if (mem->fd >= 0 && ftruncate(mem->fd, (off_t)bytes) == 0) {
        mem->addr =
            mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE, mem->fd, 0);
    }
    if (mem->addr != MAP_FAILED)
        return PGAS_OK;
    PGASI_ERROR("ucx", "cannot get %zu bytes of shared memory: %s; %s", bytes, strerror(errno),
                errno == EMFILE
                    ? "raise the limit of open files (ulimit -n)"
                    : "lower PGAS_HEAP_SIZE, or raise the limit of address space (ulimit -v)");
    if (mem->fd >= 0)
        close(mem->fd);
    return PGAS_ERR_NO_MEMORY;
}

/* Maps a peer's file.
 * @return NULL: the peer is on another host or has ended, or this process has no permission */
static void *map_file_of(const key_header_t *header)
{
    char path[LINK_BYTES];
    struct stat info;
    void *mapped = MAP_FAILED;
    if (header->fd < 0 || header->length > SIZE_MAX)
        return NULL;
    snprintf(path, sizeof path, "/proc/%d/fd/%d", header->pid, header->fd);
    if (!is_file_of(path, header->token))
        return NULL;
    int fd = open(path, O_RDWR | O_CLOEXEC);
    if (fd < 0)
        return NULL;
    /* the peer may have closed its file between the two calls */
    snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
    if (is_file_of(path, header->token) && fstat(fd, &info) == 0 &&
        (uint64_t)info.st_size >= header->length) {
        mapped =
            mmap(NULL, header->length, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE, fd, 0);
    }
    close(fd);
    return mapped != MAP_FAILED ? mapped : NULL;
}

/* ---- memory ---- */

static void free_mem(mem_t *mem)
{
    if (mem->fd >= 0) {
        munmap(mem->addr, mem->bytes);
        close(mem->fd);
    }
    free(mem);
}

static pgas_status_t register_mem(pgasi_ucx_t *tp, mem_t *mem)
{
    ucp_mem_map_params_t params;
    memset(&params, 0, sizeof params);
    params.field_mask = UCP_MEM_MAP_PARAM_FIELD_ADDRESS | UCP_MEM_MAP_PARAM_FIELD_LENGTH |
                        UCP_MEM_MAP_PARAM_FIELD_FLAGS | UCP_MEM_MAP_PARAM_FIELD_MEMORY_TYPE;
    params.address = mem->addr;
    params.length = mem->bytes;
    params.flags = UCP_MEM_MAP_NONBLOCK;
    params.memory_type = UCS_MEMORY_TYPE_HOST;
    ucs_status_t status = pgasi_ucx_lib.ucp_mem_map(tp->context, &params, &mem->memh);
    if (status == UCS_OK)
        return PGAS_OK;
    char doing[64];
    snprintf(doing, sizeof doing, "registering %zu bytes", mem->bytes);
    return pgasi_ucx_failed(status, doing, "see the limit of locked memory (ulimit -l)");
}

/* Registers memory of the caller at addr, or with NULL a file that it creates. */
static pgas_status_t get_mem(pgasi_tp_t *tp, void *addr, size_t bytes, pgasi_tp_mem_t **mem_p)
{
    mem_t *mem = bytes > 0 ? malloc(sizeof *mem) : NULL;
    if (!mem)
        return bytes > 0 ? PGAS_ERR_NO_MEMORY : PGAS_ERR_INVALID;
    *mem = (mem_t){
        .addr = addr, .bytes = bytes, .fd = -1, .token = make_token(pgasi_ucx_of(tp), mem)
    };
    pgas_status_t status = !addr ? make_file(mem, bytes) : PGAS_OK;
    if (status != PGAS_OK) {
        free(mem);
        return status;
    }
    status = register_mem(pgasi_ucx_of(tp), mem);
    if (status != PGAS_OK) {
        free_mem(mem);
        return status;
    }
    *mem_p = (pgasi_tp_mem_t *)(void *)mem;
    return PGAS_OK;
}

pgas_status_t pgasi_ucx_mem_alloc(pgasi_tp_t *tp, size_t bytes, pgasi_tp_mem_t **mem_p,
                                  void **addr_p)
{
    pgas_status_t status = get_mem(tp, NULL, bytes, mem_p);
    if (status == PGAS_OK)
        *addr_p = mem_of(*mem_p)->addr;
    return status;
}

pgas_status_t pgasi_ucx_mem_register(pgasi_tp_t *tp, void *addr, size_t bytes,
                                     pgasi_tp_mem_t **mem_p)
{
    return !addr ? PGAS_ERR_INVALID : get_mem(tp, addr, bytes, mem_p);
}

void pgasi_ucx_mem_release(pgasi_tp_t *tp, pgasi_tp_mem_t *mem)
{
    if (mem) {
        pgasi_ucx_lib.ucp_mem_unmap(pgasi_ucx_of(tp)->context, mem_of(mem)->memh);
        free_mem(mem_of(mem));
    }
}

/* ---- keys ---- */

static uint64_t key_check(const key_header_t *header, const void *rest)
{
    key_header_t copy = *header;
    copy.check = 0;
    return pgasi_hash_bytes(rest, header->bytes, pgasi_hash_bytes(&copy, sizeof copy, 0));
}

pgas_status_t pgasi_ucx_key_pack(pgasi_tp_t *tp, pgasi_tp_mem_t *tp_mem, void *buffer,
                                 size_t *bytes_io)
{
    mem_t *mem = mem_of(tp_mem);
    void *packed;
    size_t packed_bytes;
    ucs_status_t status =
        pgasi_ucx_lib.ucp_rkey_pack(pgasi_ucx_of(tp)->context, mem->memh, &packed, &packed_bytes);
    if (status != UCS_OK)
        return pgasi_ucx_failed(status, "packing a key", NULL);
    key_header_t header = { .magic = KEY_MAGIC,
                            .bytes = (uint32_t)packed_bytes,
                            .base = (uint64_t)(uintptr_t)mem->addr,
                            .length = mem->bytes,
                            .token = mem->token,
                            .pid = (int32_t)getpid(),
                            .fd = mem->fd };
    header.check = key_check(&header, packed);
    size_t bytes = sizeof header + packed_bytes;
    pgas_status_t result =
        bytes <= *bytes_io && bytes <= PGASI_TP_KEY_MAX ? PGAS_OK : PGAS_ERR_LIMIT;
    if (result == PGAS_OK) {
        memcpy(buffer, &header, sizeof header);
        memcpy((char *)buffer + sizeof header, packed, packed_bytes);
        *bytes_io = bytes;
    }
    pgasi_ucx_lib.ucp_rkey_buffer_release(packed);
    return result;
}

static bool is_key(const void *buffer, size_t bytes, key_header_t *header_p)
{
    if (bytes < sizeof *header_p)
        return false;
    memcpy(header_p, buffer, sizeof *header_p);
    return header_p->magic == KEY_MAGIC && header_p->bytes <= bytes - sizeof *header_p &&
           header_p->check == key_check(header_p, (const char *)buffer + sizeof *header_p);
}

/* Unpacks UCX's key, for memory that is not mapped here. When UCX unpacks a key of memory that its
 * transports do not map, it asks the peer for a connection. Nothing waits for the answer. If the
 * context is closed before the answer, the peer opens files of the context by number
 * (/proc/PID/fd). They are closed, or other files have their numbers, and UCX ends the peer by an
 * assertion. So a key whose memory is loaded and stored directly has no key of UCX. */
static pgas_status_t unpack_ucx_key(pgasi_ucx_key_t *key, const void *packed, size_t bytes)
{
    /* otherwise it is unpacked when the connection is up */
    bool up = key->ep->journal.link == PGASI_UCX_LINK_UP;
    ucs_status_t ucs =
        up ? pgasi_ucx_lib.ucp_ep_rkey_unpack(key->ep->ep, packed, &key->rkey) : UCS_OK;
    if (ucs != UCS_OK)
        return pgasi_ucx_failed(ucs, "unpacking a key", NULL);
    pgas_status_t status = pgasi_ucx_journal_key(key, packed, bytes);
    if (status != PGAS_OK && key->rkey)
        pgasi_ucx_lib.ucp_rkey_destroy(key->rkey);
    return status;
}

pgas_status_t pgasi_ucx_key_unpack(pgasi_tp_ctx_t *tp_ctx, int peer, const void *buffer,
                                   size_t bytes, pgasi_tp_key_t **key_p)
{
    key_header_t header;
    pgasi_ucx_ep_t *ep;
    if (!is_key(buffer, bytes, &header)) {
        pgasi_warn_once(&pgasi_ucx_ctx_of(tp_ctx)->tp->warned_key, "ucx",
                        "%zu bytes from rank %d are no key of this transport", bytes, peer);
        return PGAS_ERR_FORMAT;
    }
    pgas_status_t status = pgasi_ucx_ep_get(pgasi_ucx_ctx_of(tp_ctx), peer, &ep);
    if (status != PGAS_OK)
        return status;
    pgasi_ucx_key_t *key = calloc(1, sizeof *key);
    if (!key)
        return PGAS_ERR_NO_MEMORY;
    key->ep = ep;
    if (peer == pgasi_ucx_ctx_of(tp_ctx)->tp->opts.rank) {
        key->mapped = (void *)(uintptr_t)header.base;
    } else {
        key->mapped = map_file_of(&header);
        key->unmap = key->mapped != NULL;
    }
    if (!key->mapped)
        status = unpack_ucx_key(key, (const char *)buffer + sizeof header, header.bytes);
    if (status != PGAS_OK) {
        free(key);
        return status;
    }
    key->super.ops = &pgasi_ucx_table;
    key->super.direct = key->mapped != NULL;
    ep->ctx->has_direct |= key->mapped && peer != ep->ctx->tp->opts.rank;
    key->base = header.base;
    key->bytes = header.length;
    *key_p = &key->super;
    return PGAS_OK;
}

pgas_status_t pgasi_ucx_key_map(pgasi_tp_key_t *tp_key, uint64_t remote_addr, void **addr_p)
{
    pgasi_ucx_key_t *key = pgasi_ucx_key_of(tp_key);
    if (remote_addr - key->base >= key->bytes)
        return PGAS_ERR_RANGE;
    if (!key->mapped)
        return PGAS_ERR_UNSUPPORTED;
    *addr_p = (char *)key->mapped + (remote_addr - key->base);
    return PGAS_OK;
}

void pgasi_ucx_key_release(pgasi_tp_key_t *tp_key)
{
    if (!tp_key)
        return;
    pgasi_ucx_key_t *key = pgasi_ucx_key_of(tp_key);
    pgasi_ucx_journal_forget_key(key);
    if (key->rkey)
        pgasi_ucx_lib.ucp_rkey_destroy(key->rkey);
    if (key->unmap)
        munmap(key->mapped, key->bytes);
    free(key);
}
