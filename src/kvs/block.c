/* Heads of files and of blocks. See block.h. */
#include "kvs/block.h"
#include <string.h>
#include "base/checks.h"
#define XXH_INLINE_ALL
#include <xxhash.h>

static const unsigned char MAGIC[8] = "pgaskvs";

PGASI_STATIC_ASSERT(sizeof(pgasi_kvs_file_head_t) == 64, "no padding");
PGASI_STATIC_ASSERT(sizeof(pgasi_kvs_block_head_t) == 48, "no padding");
PGASI_STATIC_ASSERT(sizeof(pgasi_kvs_end_t) == 16, "no padding");

static uint64_t file_sum(const pgasi_kvs_file_head_t *head)
{
    return XXH3_64bits(head, offsetof(pgasi_kvs_file_head_t, sum));
}

pgasi_kvs_file_head_t pgasi_kvs_file_head(pgasi_kvs_file_kind_t kind, uint64_t id,
                                          uint64_t generation, uint32_t rank, uint32_t n_ranks)
{
    pgasi_kvs_file_head_t head = {
        .order = PGASI_KVS_ORDER,
        .format = PGASI_KVS_FORMAT,
        .kind = (uint16_t)kind,
        .id = id,
        .generation = generation,
        .rank = rank,
        .n_ranks = n_ranks,
    };
    memcpy(head.magic, MAGIC, sizeof head.magic);
    head.sum = file_sum(&head);
    return head;
}

const char *pgasi_kvs_file_head_wrong(const pgasi_kvs_file_head_t *head, pgasi_kvs_file_kind_t kind)
{
    if (memcmp(head->magic, MAGIC, sizeof head->magic) != 0)
        return "it is not a file of a key-value store";
    if (head->order == __builtin_bswap32(PGASI_KVS_ORDER))
        return "a machine with another byte order wrote it";
    if (head->sum != file_sum(head))
        return "the checksum of its head is wrong";
    if (head->format != PGASI_KVS_FORMAT)
        return "another version of the library wrote it, in another format";
    return head->kind != kind ? "it is another kind of file" : NULL;
}

static uint64_t block_sum(const pgasi_kvs_block_head_t *head, const pgasi_kvs_file_head_t *file)
{
    return XXH3_64bits_withSeed(head, offsetof(pgasi_kvs_block_head_t, sum), file->sum);
}

pgasi_kvs_block_head_t pgasi_kvs_block_head(const pgasi_kvs_file_head_t *file,
                                            pgasi_kvs_block_kind_t kind, uint64_t offset,
                                            uint64_t synced, const void *contents, size_t bytes)
{
    pgasi_kvs_block_head_t head = {
        .magic = PGASI_KVS_BLOCK_MAGIC,
        .kind = kind,
        .offset = offset,
        .bytes = bytes,
        .synced = synced,
        .contents_sum = XXH3_64bits(contents, bytes),
    };
    head.sum = block_sum(&head, file);
    return head;
}

bool pgasi_kvs_block_head_good(const pgasi_kvs_block_head_t *head,
                               const pgasi_kvs_file_head_t *file, uint64_t offset)
{
    return head->magic == PGASI_KVS_BLOCK_MAGIC && head->offset == offset &&
           head->kind >= PGASI_KVS_BLOCK_RECORDS && head->kind < PGASI_KVS_BLOCK_N_KINDS &&
           head->sum == block_sum(head, file);
}

bool pgasi_kvs_block_good(const pgasi_kvs_block_head_t *head, const void *contents)
{
    return head->contents_sum == XXH3_64bits(contents, head->bytes);
}
