/* Memory and keys. Memory that UCX allocates comes from its shared-memory transports where there are any, so that a
 * peer on the host can map it (ucp_rkey_ptr) and UCX itself moves data by load and store. A packed key is ours around
 * UCX's: length and checksum, since UCX would believe anything it is given. */
#include "ucx_backend/ucx.h"

#include <stdlib.h>
#include <string.h>
#include "base/hash.h"

typedef struct {
    ucp_mem_h memh;
    void *addr;
    size_t bytes;
} mem_t;

/** What stands before UCX's packed key. */
typedef struct {
    uint32_t magic;
    uint32_t bytes; /* of UCX's part */
    uint64_t base, length;
    uint64_t check; /* of all else */
} key_header_t;

#define KEY_MAGIC 0x314b5855u

static mem_t *mem_of(pgasi_tp_mem_t *mem)
{
    return (mem_t *)(void *)mem;
}

static pgas_status_t map_memory(pgasi_tp_t *tp, void *addr, size_t bytes, uint64_t flags, pgasi_tp_mem_t **mem_p)
{
    if (bytes == 0) {
        return PGAS_ERR_INVALID;
    }
    mem_t *mem = malloc(sizeof(*mem));
    if (mem == NULL) {
        return PGAS_ERR_NO_MEMORY;
    }
    ucp_mem_map_params_t params;
    memset(&params, 0, sizeof(params));
    params.field_mask = UCP_MEM_MAP_PARAM_FIELD_ADDRESS | UCP_MEM_MAP_PARAM_FIELD_LENGTH |
                        UCP_MEM_MAP_PARAM_FIELD_FLAGS | UCP_MEM_MAP_PARAM_FIELD_MEMORY_TYPE;
    params.address = addr;
    params.length = bytes;
    params.flags = flags;
    params.memory_type = UCS_MEMORY_TYPE_HOST;
    ucs_status_t status = ucp_mem_map(pgasi_ucx_of(tp)->context, &params, &mem->memh);
    if (status != UCS_OK) {
        free(mem);
        char doing[64];
        snprintf(doing, sizeof(doing), "%s %zu bytes", addr == NULL ? "allocating" : "registering", bytes);
        return pgasi_ucx_failed(status, doing,
                                addr == NULL ? "see PGAS_HEAP_SIZE, the size of /dev/shm, and kernel.shmmax"
                                             : "see the limit of locked memory (ulimit -l)");
    }
    ucp_mem_attr_t attr = {.field_mask = UCP_MEM_ATTR_FIELD_ADDRESS};
    ucp_mem_query(mem->memh, &attr);
    mem->addr = addr != NULL ? addr : attr.address; /* UCX may reuse a larger registration, and tells where that begins */
    mem->bytes = bytes;
    *mem_p = (pgasi_tp_mem_t *)(void *)mem;
    return PGAS_OK;
}

pgas_status_t pgasi_ucx_mem_alloc(pgasi_tp_t *tp, size_t bytes, pgasi_tp_mem_t **mem_p, void **addr_p)
{
    pgas_status_t status = map_memory(tp, NULL, bytes, UCP_MEM_MAP_ALLOCATE | UCP_MEM_MAP_NONBLOCK, mem_p);
    if (status == PGAS_OK) {
        *addr_p = mem_of(*mem_p)->addr;
    }
    return status;
}

pgas_status_t pgasi_ucx_mem_register(pgasi_tp_t *tp, void *addr, size_t bytes, pgasi_tp_mem_t **mem_p)
{
    return addr == NULL ? PGAS_ERR_INVALID : map_memory(tp, addr, bytes, UCP_MEM_MAP_NONBLOCK, mem_p);
}

void pgasi_ucx_mem_release(pgasi_tp_t *tp, pgasi_tp_mem_t *mem)
{
    if (mem != NULL) {
        ucp_mem_unmap(pgasi_ucx_of(tp)->context, mem_of(mem)->memh);
        free(mem);
    }
}

static uint64_t key_check(const key_header_t *header, const void *rest)
{
    key_header_t copy = *header;
    copy.check = 0;
    return pgasi_hash_bytes(rest, header->bytes, pgasi_hash_bytes(&copy, sizeof(copy), 0));
}

pgas_status_t pgasi_ucx_key_pack(pgasi_tp_t *tp, pgasi_tp_mem_t *tp_mem, void *buffer, size_t *bytes_io)
{
    mem_t *mem = mem_of(tp_mem);
    void *packed;
    size_t packed_bytes;
    ucs_status_t status = ucp_rkey_pack(pgasi_ucx_of(tp)->context, mem->memh, &packed, &packed_bytes);
    if (status != UCS_OK) {
        return pgasi_ucx_failed(status, "packing a key", NULL);
    }
    key_header_t header = {.magic = KEY_MAGIC,
                           .bytes = (uint32_t)packed_bytes,
                           .base = (uint64_t)(uintptr_t)mem->addr,
                           .length = mem->bytes};
    header.check = key_check(&header, packed);
    size_t bytes = sizeof(header) + packed_bytes;
    pgas_status_t result = bytes <= *bytes_io && bytes <= PGASI_TP_KEY_MAX ? PGAS_OK : PGAS_ERR_LIMIT;
    if (result == PGAS_OK) {
        memcpy(buffer, &header, sizeof(header));
        memcpy((char *)buffer + sizeof(header), packed, packed_bytes);
        *bytes_io = bytes;
    }
    ucp_rkey_buffer_release(packed);
    return result;
}

static bool is_key(const void *buffer, size_t bytes, key_header_t *header_p)
{
    if (bytes < sizeof(*header_p)) {
        return false;
    }
    memcpy(header_p, buffer, sizeof(*header_p));
    return header_p->magic == KEY_MAGIC && header_p->bytes <= bytes - sizeof(*header_p) &&
           header_p->check == key_check(header_p, (const char *)buffer + sizeof(*header_p));
}

pgas_status_t pgasi_ucx_key_unpack(pgasi_tp_lane_t *tp_lane, int peer, const void *buffer, size_t bytes,
                                   pgasi_tp_key_t **key_p)
{
    key_header_t header;
    pgasi_ucx_ep_t *ep;
    if (!is_key(buffer, bytes, &header)) {
        pgasi_warn_once(&pgasi_ucx_lane_of(tp_lane)->tp->warned_key, "ucx",
                        "%zu bytes from rank %d are no key of this transport", bytes, peer);
        return PGAS_ERR_FORMAT;
    }
    pgas_status_t status = pgasi_ucx_ep_get(pgasi_ucx_lane_of(tp_lane), peer, &ep);
    if (status != PGAS_OK) {
        return status;
    }
    pgasi_ucx_key_t *key = calloc(1, sizeof(*key));
    if (key == NULL) {
        return PGAS_ERR_NO_MEMORY;
    }
    ucs_status_t ucs = ucp_ep_rkey_unpack(ep->ep, (const char *)buffer + sizeof(header), &key->rkey);
    if (ucs != UCS_OK) {
        free(key);
        return pgasi_ucx_failed(ucs, "unpacking a key", NULL);
    }
    if (peer == pgasi_ucx_lane_of(tp_lane)->tp->opts.rank) {
        key->mapped = (void *)(uintptr_t)header.base;
    } else if (ucp_rkey_ptr(key->rkey, header.base, &key->mapped) != UCS_OK) {
        key->mapped = NULL;
    }
    key->super.ops = &pgasi_ucx_table;
    key->super.direct = key->mapped != NULL;
    ep->lane->has_direct |= key->mapped != NULL && peer != ep->lane->tp->opts.rank;
    key->ep = ep;
    key->base = header.base;
    key->bytes = header.length;
    *key_p = &key->super;
    return PGAS_OK;
}

pgas_status_t pgasi_ucx_key_map(pgasi_tp_key_t *tp_key, uint64_t remote_addr, void **addr_p)
{
    pgasi_ucx_key_t *key = pgasi_ucx_key_of(tp_key);
    if (remote_addr - key->base >= key->bytes) {
        return PGAS_ERR_RANGE;
    }
    if (key->mapped == NULL) {
        return PGAS_ERR_UNSUPPORTED;
    }
    *addr_p = (char *)key->mapped + (remote_addr - key->base);
    return PGAS_OK;
}

void pgasi_ucx_key_release(pgasi_tp_key_t *tp_key)
{
    if (tp_key != NULL) {
        ucp_rkey_destroy(pgasi_ucx_key_of(tp_key)->rkey);
        free(tp_key);
    }
}
