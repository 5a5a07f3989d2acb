/* Queries: the figures of a group, and bytes of the replicas. */
#include <stdlib.h>
#include <string.h>
#include "base/checks.h"
#include "base/clock.h"
#include "base/info_fill.h"
#include "group/client.h"

#define ANSWER_NS  (100 * PGASI_NS_PER_MS) /* for status words */
#define READ_NS    (10 * PGASI_NS_PER_S)
#define LINE       16u
#define CHUNK      4096u
#define READ_BYTES (64u << 10) /* of one request */

/* ---- figures ---- */

/* Reads the status words of all replicas, if they answer soon. */
static void update_status(pgas_group_t *g)
{
    uint64_t wanted = g->n_status + g->n, limit_ns = pgasi_now_ns() + ANSWER_NS;
    if (!g->has_chain || g->condition != PGASI_GROUP_RUNS)
        return;
    g->carrier->refresh(g);
    while (g->n_status < wanted && g->condition == PGASI_GROUP_RUNS && pgasi_now_ns() < limit_ns)
        pgasi_group_progress(g);
}

static void list_members(const pgas_group_t *g, pgas_group_info_t *info)
{
    size_t at = 0;
    for (uint32_t i = 0; i < g->n; i++) {
        size_t bytes = strlen(g->links[i].name.address);
        if (at + bytes + 2 > sizeof info->members)
            return;
        if (i > 0)
            info->members[at++] = ' ';
        memcpy(info->members + at, g->links[i].name.address, bytes + 1);
        at += bytes;
    }
}

static void fill(pgas_group_t *g, pgas_group_info_t *info)
{
    g->n_told = g->n;
    *info = (pgas_group_info_t){ .size = sizeof *info,
                                 .way = g->way,
                                 .n_replicas = (int)g->n,
                                 .dead = g->dead,
                                 .epoch = g->epoch,
                                 .region_bytes = g->region_bytes,
                                 .window = g->size,
                                 .piece = g->piece_bytes,
                                 .under_way = pgasi_group_window_under_way(&g->window),
                                 .credits = (uint32_t)pgasi_group_window_credits(&g->window),
                                 .n_ops = g->n_ops,
                                 .bytes = g->bytes,
                                 .n_resent = g->n_resent,
                                 .p50_ns = pgasi_latency_percentile(&g->latency, 500000),
                                 .p99_ns = pgasi_latency_percentile(&g->latency, 990000),
                                 .p999_ns = pgasi_latency_percentile(&g->latency, 999000),
                                 .max_ns = g->latency.max_ns };
    for (uint32_t i = 0; i < g->n; i++) {
        info->n_refills = PGASI_MAX(info->n_refills, g->links[i].status.n_refills);
        info->refill_ns += g->links[i].status.refill_ns;
    }
    list_members(g, info);
}

pgas_status_t pgas_group_info(pgas_group_t *group, pgas_group_info_t *info_p)
{
    pgas_group_info_t info;
    if (!group)
        return PGAS_ERR_INVALID;
    pgasi_group_lock(group);
    update_status(group);
    fill(group, &info);
    pgasi_group_unlock(group);
    if (group->job_ops)
        group->job_ops->describe(group, &info);
    return pgasi_info_fill(info_p, &info, sizeof info);
}

/* ---- bytes ---- */

/* At most READ_BYTES bytes of replica i. */
static pgas_status_t read_one(pgas_group_t *g, uint32_t i, uint64_t offset, uint32_t bytes,
                              void *data)
{
    const pgasi_group_range_t range = { offset, bytes };
    pgasi_group_link_t *link = &g->links[i];
    pgas_status_t status = pgasi_group_ask(g, link, PGASI_GROUP_READ, &range, sizeof range,
                                           PGASI_GROUP_DATA, pgasi_now_ns() + READ_NS);
    if (status == PGAS_OK && link->in.head.bytes != bytes)
        status = PGAS_ERR_FORMAT;
    if (status == PGAS_OK)
        memcpy(data, link->in.body, bytes);
    else if (status == PGAS_ERR_PEER)
        pgasi_group_suspect(g, (int)i);
    return status;
}

pgas_status_t pgas_group_read(pgas_group_t *group, int replica, uint64_t offset, void *data,
                              size_t bytes)
{
    if (!group || !group->is_client || replica < 0 || (!data && bytes > 0))
        return PGAS_ERR_INVALID;
    if (offset > group->region_bytes || bytes > group->region_bytes - offset)
        return PGAS_ERR_RANGE;
    pgas_status_t status = pgasi_group_begin(group);
    if (status != PGAS_OK)
        return status;
    pgasi_group_lock(group);
    if ((uint32_t)replica >= group->n)
        status = PGAS_ERR_INVALID;
    for (size_t at = 0; at < bytes && status == PGAS_OK; at += READ_BYTES) {
        uint32_t n = (uint32_t)PGASI_MIN(bytes - at, (size_t)READ_BYTES);
        status = read_one(group, (uint32_t)replica, offset + at, n, (char *)data + at);
    }
    pgasi_group_unlock(group);
    pgasi_group_give_turn(group);
    return status;
}

/* Bytes of all replicas at one offset; those of replica i begin at i * CHUNK. */
static pgas_status_t read_chunk(pgas_group_t *g, uint64_t offset, uint32_t bytes,
                                unsigned char *chunks)
{
    pgas_status_t status = PGAS_OK;
    for (uint32_t i = 0; i < g->n && status == PGAS_OK; i++)
        status = read_one(g, i, offset, bytes, chunks + (size_t)i * CHUNK);
    return status;
}

static void print_line(FILE *file, uint64_t offset, const char *holders, const unsigned char *line,
                       uint32_t bytes)
{
    char text[LINE + 1] = "";
    fprintf(file, "%010llx  %-8s ", (unsigned long long)offset, holders);
    for (uint32_t k = 0; k < LINE; k++) {
        if (k < bytes)
            fprintf(file, "%s%02x", k % 8 == 0 ? "  " : " ", line[k]);
        else
            fprintf(file, "%s  ", k % 8 == 0 ? "  " : " ");
        if (k < bytes)
            text[k] = line[k] >= ' ' && line[k] < 127 ? (char)line[k] : '.';
    }
    fprintf(file, "  |%s|\n", text);
}

/* The replicas whose line equals that of replica i, as text; false: an earlier one has it, too. */
static bool name_equals(const pgas_group_t *g, const unsigned char *chunks, uint32_t at,
                        uint32_t bytes, uint32_t i, char *holders, size_t holders_bytes)
{
    const unsigned char *mine = chunks + (size_t)i * CHUNK + at;
    uint32_t n_equal = 0;
    size_t length = 0;
    holders[0] = '\0';
    for (uint32_t k = 0; k < g->n; k++) {
        if (memcmp(chunks + (size_t)k * CHUNK + at, mine, bytes) != 0)
            continue;
        if (k < i)
            return false;
        n_equal++;
        if (length < holders_bytes)
            length += (size_t)snprintf(holders + length, holders_bytes - length, "%s%u",
                                       k > i ? "," : "", (unsigned)k);
    }
    if (n_equal == g->n)
        snprintf(holders, holders_bytes, "all");
    return true;
}

static void print_chunk(const pgas_group_t *g, FILE *file, uint64_t offset, uint32_t bytes,
                        const unsigned char *chunks)
{
    for (uint32_t at = 0; at < bytes; at += LINE) {
        uint32_t n = PGASI_MIN(bytes - at, LINE);
        char holders[256];
        for (uint32_t i = 0; i < g->n; i++)
            if (name_equals(g, chunks, at, n, i, holders, sizeof holders))
                print_line(file, offset + at, holders, chunks + (size_t)i * CHUNK + at, n);
    }
}

pgas_status_t pgas_group_dump(pgas_group_t *group, FILE *file, uint64_t offset, size_t bytes)
{
    static const size_t room = (size_t)PGAS_GROUP_REPLICAS_MAX * CHUNK;
    if (!group || !file || !group->is_client)
        return PGAS_ERR_INVALID;
    if (offset > group->region_bytes || bytes > group->region_bytes - offset)
        return PGAS_ERR_RANGE;
    unsigned char *chunks = malloc(room);
    if (!chunks)
        return PGAS_ERR_NO_MEMORY;
    pgas_status_t status = pgasi_group_begin(group);
    bool has_turn = status == PGAS_OK;
    for (size_t at = 0; at < bytes && status == PGAS_OK; at += CHUNK) {
        uint32_t n = (uint32_t)PGASI_MIN(bytes - at, (size_t)CHUNK);
        pgasi_group_lock(group);
        status = read_chunk(group, offset + at, n, chunks);
        pgasi_group_unlock(group);
        if (status == PGAS_OK)
            print_chunk(group, file, offset + at, n, chunks);
    }
    if (has_turn)
        pgasi_group_give_turn(group);
    free(chunks);
    return status;
}
