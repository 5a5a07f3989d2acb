/* Buffers of received messages, see buffers.h. They have 256 bytes for single calls, and 8.5 KiB
 * for one UCX segment. */
#include "ucx_backend/buffers.h"

#include <stdlib.h>
#include <sys/mman.h>

static const struct {
    size_t bytes, n;
} size_of[PGASI_UCX_BUFFER_SIZES] = { { 256, 65536 }, { 8704, 8192 } };

#define LARGE_ALIGNMENT 4096

static void *acquire_slot(pgasi_ucx_slots_t *slots)
{
    void *data = slots->free_list;
    if (data) {
        slots->free_list = *(void **)data;
    } else if (slots->fresh < slots->end) {
        data = slots->fresh;
        slots->fresh += slots->bytes;
    }
    return data;
}

size_t pgasi_ucx_buffers_bytes(void)
{
    size_t sum = 0;
    for (int i = 0; i < PGASI_UCX_BUFFER_SIZES; i++)
        sum += size_of[i].bytes * size_of[i].n;
    return sum;
}

pgas_status_t pgasi_ucx_buffers_init(pgasi_ucx_buffers_t *buffers)
{
    buffers->large = NULL;
    for (int i = 0; i < PGASI_UCX_BUFFER_SIZES; i++) {
        pgasi_ucx_slots_t *slots = &buffers->slots[i];
        size_t bytes = size_of[i].bytes * size_of[i].n;
        void *base = mmap(NULL, bytes, PROT_READ | PROT_WRITE,
                          MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
        if (base == MAP_FAILED) {
            while (i-- > 0)
                munmap(buffers->slots[i].base, size_of[i].bytes * size_of[i].n);
            return PGAS_ERR_NO_MEMORY;
        }
        *slots = (pgasi_ucx_slots_t){ .base = base, .fresh = base, .bytes = size_of[i].bytes };
        slots->end = slots->base + bytes;
        slots->spare = acquire_slot(slots);
    }
    return PGAS_OK;
}

void pgasi_ucx_buffers_fini(pgasi_ucx_buffers_t *buffers)
{
    for (int i = 0; i < PGASI_UCX_BUFFER_SIZES; i++)
        munmap(buffers->slots[i].base, size_of[i].bytes * size_of[i].n);
    for (pgasi_ucx_large_t *large = buffers->large, *next; large != NULL; large = next) {
        next = large->next;
        free(large->data);
        free(large);
    }
}

static void *acquire_large(pgasi_ucx_buffers_t *buffers, size_t bytes)
{
    void *data;
    pgasi_ucx_large_t *large = malloc(sizeof *large);
    if (!large || posix_memalign(&data, LARGE_ALIGNMENT, PGASI_MAX(bytes, 1)) != 0) {
        free(large);
        return NULL;
    }
    *large = (pgasi_ucx_large_t){ .next = buffers->large, .data = data };
    buffers->large = large;
    return data;
}

void *pgasi_ucx_buffer_acquire(pgasi_ucx_buffers_t *buffers, size_t bytes)
{
    for (int i = 0; i < PGASI_UCX_BUFFER_SIZES; i++) {
        if (bytes <= size_of[i].bytes) {
            void *data = acquire_slot(&buffers->slots[i]);
            if (data)
                return data;
        }
    }
    return acquire_large(buffers, bytes);
}

static bool release_large(pgasi_ucx_buffers_t *buffers, const void *data)
{
    for (pgasi_ucx_large_t **at = &buffers->large; *at != NULL; at = &(*at)->next) {
        pgasi_ucx_large_t *large = *at;
        if (large->data == data) {
            *at = large->next;
            free(large->data);
            free(large);
            return true;
        }
    }
    return false;
}

bool pgasi_ucx_buffer_release(pgasi_ucx_buffers_t *buffers, void *data)
{
    char *at = data;
    for (int i = 0; i < PGASI_UCX_BUFFER_SIZES; i++) {
        pgasi_ucx_slots_t *slots = &buffers->slots[i];
        if (at >= slots->base && at < slots->end) {
            *(void **)data = slots->free_list;
            slots->free_list = data;
            return true;
        }
    }
    return (uintptr_t)data % LARGE_ALIGNMENT == 0 && release_large(buffers, data);
}

void pgasi_ucx_buffer_keep(pgasi_ucx_buffers_t *buffers, void *data)
{
    for (int i = 0; i < PGASI_UCX_BUFFER_SIZES; i++)
        if (buffers->slots[i].spare == data)
            buffers->slots[i].spare = acquire_slot(&buffers->slots[i]);
}
