/* The checks of control messages. A peer may send any bytes. So a message is copied into its struct
 * before a field is read. Every count and text is checked once, here. */
#include "group/wire.h"

#include <string.h>
#include "base/checks.h"

#define KINDS_OF_WAY (PGAS_GROUP_CALLS + 1)
#define SLOTS_MAX    65536u
#define DATA_MAX     (64u << 10)
#define EPOCH_MAX    (UINT64_MAX >> 1) /* so that a next one always exists */

PGASI_STATIC_ASSERT(sizeof(pgasi_group_head_t) == 16, "a head has no padding");
PGASI_STATIC_ASSERT(sizeof(pgasi_group_piece_t) == 64, "a piece has no padding");
PGASI_STATIC_ASSERT(sizeof(pgasi_group_hello_t) == 80, "no padding");
PGASI_STATIC_ASSERT(sizeof(pgasi_group_name_t) == 72, "no padding");
PGASI_STATIC_ASSERT(sizeof(pgasi_group_welcome_t) == 120, "no padding");
PGASI_STATIC_ASSERT(sizeof(pgasi_group_members_t) == 16, "no padding");
PGASI_STATIC_ASSERT(sizeof(pgasi_group_open_t) == 40, "no padding");
PGASI_STATIC_ASSERT(sizeof(pgasi_group_member_t) == 56, "no padding");
PGASI_STATIC_ASSERT(sizeof(pgasi_group_opened_t) == 56 + 3 * 96 + 32, "no padding");
PGASI_STATIC_ASSERT(sizeof(pgasi_group_connect_t) == 3 * 96 + 8, "no padding");

int64_t pgasi_group_head_check(const pgasi_group_head_t *head)
{
    bool good = head->magic == PGASI_GROUP_MAGIC && head->version == PGASI_GROUP_VERSION &&
                head->type >= PGASI_GROUP_HELLO && head->type < PGASI_GROUP_N_TYPES &&
                head->bytes <= PGASI_GROUP_BODY_MAX &&
                (head->number == 0) == (head->type == PGASI_GROUP_NOTICE);
    return good ? (int64_t)head->bytes : -1;
}

/* ---- parts of messages ---- */

static bool ends(const char *text, size_t bytes)
{
    return memchr(text, 0, bytes) != NULL;
}

static bool is_name(const char text[PGASI_GROUP_NAME_BYTES])
{
    return text[0] != '\0' && ends(text, PGASI_GROUP_NAME_BYTES);
}

static bool is_range(uint64_t offset, uint64_t bytes)
{
    return bytes > 0 && offset + bytes > offset && offset + bytes <= PGASI_GROUP_REGION_MAX;
}

/* A list of members: each has a name, and an id of its own. */
static pgas_status_t check_names(const unsigned char *at, uint64_t bytes, uint32_t n)
{
    pgasi_group_name_t names[PGAS_GROUP_REPLICAS_MAX];
    if (n > PGAS_GROUP_REPLICAS_MAX)
        return PGAS_ERR_LIMIT;
    if (bytes != n * sizeof names[0])
        return PGAS_ERR_FORMAT;
    if (n > 0)
        memcpy(names, at, n * sizeof names[0]);
    for (uint32_t i = 0; i < n; i++) {
        if (!is_name(names[i].address))
            return PGAS_ERR_FORMAT;
        for (uint32_t j = 0; j < i; j++)
            if (names[j].id == names[i].id)
                return PGAS_ERR_FORMAT;
    }
    return PGAS_OK;
}

static bool is_zero(const uint8_t *bytes, size_t n)
{
    uint8_t any = 0;
    for (size_t i = 0; i < n; i++)
        any |= bytes[i];
    return any == 0;
}

/* ---- messages of fixed size ---- */

static pgas_status_t check_hello(const void *body)
{
    pgasi_group_hello_t hello;
    memcpy(&hello, body, sizeof hello);
    size_t length = strnlen((const char *)hello.key, sizeof hello.key);
    bool good = is_zero(hello.key + length, sizeof hello.key - length) && hello.is_replica <= 1 &&
                hello.client != 0 && hello.reserved == 0;
    return good ? PGAS_OK : PGAS_ERR_FORMAT;
}

static pgas_status_t check_open(const void *body)
{
    pgasi_group_open_t open;
    memcpy(&open, body, sizeof open);
    if (open.slots > SLOTS_MAX || open.piece > PGASI_GROUP_PIECE_MAX ||
        open.n > PGAS_GROUP_REPLICAS_MAX)
        return PGAS_ERR_LIMIT;
    bool good = open.epoch > 0 && open.way > PGAS_GROUP_AUTO && open.way < KINDS_OF_WAY &&
                PGASI_IS_POW2(open.slots) && open.piece > 0 && open.position < open.n &&
                open.reserved == 0;
    return good ? PGAS_OK : PGAS_ERR_FORMAT;
}

static pgas_status_t check_connect(const void *body)
{
    pgasi_group_connect_t connect;
    memcpy(&connect, body, sizeof connect);
    return connect.next_rank >= -1 && connect.client_rank >= -1 ? PGAS_OK : PGAS_ERR_FORMAT;
}

static pgas_status_t check_read(const void *body)
{
    pgasi_group_range_t range;
    memcpy(&range, body, sizeof range);
    if (!is_range(range.offset, range.bytes))
        return PGAS_ERR_FORMAT;
    return range.bytes <= DATA_MAX ? PGAS_OK : PGAS_ERR_LIMIT;
}

static pgas_status_t check_copy(const void *body)
{
    pgasi_group_copy_t copy;
    memcpy(&copy, body, sizeof copy);
    return is_name(copy.from) && copy.is_last <= 1 && copy.reserved == 0 ? PGAS_OK
                                                                         : PGAS_ERR_FORMAT;
}

static pgas_status_t check_refused(const void *body)
{
    pgasi_group_refused_t refused;
    memcpy(&refused, body, sizeof refused);
    return refused.status < 0 && ends(refused.reason, sizeof refused.reason) ? PGAS_OK
                                                                             : PGAS_ERR_FORMAT;
}

static pgas_status_t check_notice(const void *body)
{
    pgasi_group_notice_t notice;
    memcpy(&notice, body, sizeof notice);
    return notice.status <= 0 && notice.reserved == 0 ? PGAS_OK : PGAS_ERR_FORMAT;
}

static pgas_status_t check_state(const void *body)
{
    pgasi_group_state_t state;
    memcpy(&state, body, sizeof state);
    return state.reserved == 0 ? PGAS_OK : PGAS_ERR_FORMAT;
}

/* ---- messages with lists ---- */

static pgas_status_t check_welcome(const void *body, uint32_t bytes)
{
    pgasi_group_welcome_t welcome;
    memcpy(&welcome, body, sizeof welcome);
    uint32_t known = PGASI_GROUP_HAS(PGAS_GROUP_CHAIN) | PGASI_GROUP_HAS(PGAS_GROUP_VERBS) |
                     PGASI_GROUP_HAS(PGAS_GROUP_CALLS);
    if (welcome.region_bytes > PGASI_GROUP_REGION_MAX)
        return PGAS_ERR_LIMIT;
    bool good = welcome.region_bytes > 0 && (welcome.ways & ~known) == 0 &&
                (welcome.epoch == 0) == (welcome.n_members == 0) &&
                (welcome.flags & ~PGASI_GROUP_FREEZE) == 0 && welcome.reserved == 0 &&
                ends(welcome.next, sizeof welcome.next) &&
                ends(welcome.provider, sizeof welcome.provider);
    return good ? check_names((const unsigned char *)body + sizeof welcome, bytes - sizeof welcome,
                              welcome.n_members)
                : PGAS_ERR_FORMAT;
}

static pgas_status_t check_members(const void *body, uint32_t bytes)
{
    pgasi_group_members_t members;
    memcpy(&members, body, sizeof members);
    bool good = members.epoch > 0 && members.epoch <= EPOCH_MAX &&
                (members.flags & ~PGASI_GROUP_FREEZE) == 0 && members.n_members > 0;
    return good ? check_names((const unsigned char *)body + sizeof members, bytes - sizeof members,
                              members.n_members)
                : PGAS_ERR_FORMAT;
}

/* Old words behind a body. */
static pgas_status_t check_old(uint64_t executed, uint32_t n_old, uint32_t bytes)
{
    if (n_old > PGASI_GROUP_OLD_MAX)
        return PGAS_ERR_LIMIT;
    return n_old <= executed && bytes == n_old * sizeof(uint64_t) ? PGAS_OK : PGAS_ERR_FORMAT;
}

static pgas_status_t check_opened(const void *body, uint32_t bytes)
{
    pgasi_group_opened_t opened;
    memcpy(&opened, body, sizeof opened);
    const pgasi_group_member_t *member = &opened.member;
    if (member->region_bytes > PGASI_GROUP_REGION_MAX || member->slots > SLOTS_MAX)
        return PGAS_ERR_LIMIT;
    bool good = member->region_bytes > 0 && PGASI_IS_POW2(member->slots) &&
                member->loop_qpn < 1u << 24 && opened.rank >= -1 && opened.reserved == 0;
    return good ? check_old(opened.executed, opened.n_old, (uint32_t)(bytes - sizeof opened))
                : PGAS_ERR_FORMAT;
}

static pgas_status_t check_record(const void *body, uint32_t bytes)
{
    pgasi_group_record_t record;
    memcpy(&record, body, sizeof record);
    return record.reserved == 0
               ? check_old(record.executed, record.n_old, (uint32_t)(bytes - sizeof record))
               : PGAS_ERR_FORMAT;
}

static pgas_status_t check_changed(const void *body, uint32_t bytes)
{
    pgasi_group_range_t range;
    if (bytes % sizeof range != 0)
        return PGAS_ERR_FORMAT;
    for (uint32_t at = 0; at < bytes; at += sizeof range) {
        memcpy(&range, (const unsigned char *)body + at, sizeof range);
        if (!is_range(range.offset, range.bytes))
            return PGAS_ERR_FORMAT;
    }
    return PGAS_OK;
}

/* ---- all of them ---- */

/* Bytes of each type: at least; `more`: a list follows; `or_empty`: the request has no body. */
static const struct {
    uint32_t bytes;
    bool more, or_empty;
    pgas_status_t (*check)(const void *body);
    pgas_status_t (*check_list)(const void *body, uint32_t bytes);
} kinds[PGASI_GROUP_N_TYPES] = {
    [PGASI_GROUP_HELLO] = { .bytes = sizeof(pgasi_group_hello_t), .check = check_hello },
    [PGASI_GROUP_WELCOME] = { .bytes = sizeof(pgasi_group_welcome_t),
                              .more = true,
                              .check_list = check_welcome },
    [PGASI_GROUP_MEMBERS] = { .bytes = sizeof(pgasi_group_members_t),
                              .more = true,
                              .check_list = check_members },
    [PGASI_GROUP_OPEN] = { .bytes = sizeof(pgasi_group_open_t), .check = check_open },
    [PGASI_GROUP_OPENED] = { .bytes = sizeof(pgasi_group_opened_t),
                             .more = true,
                             .check_list = check_opened },
    [PGASI_GROUP_CONNECT] = { .bytes = sizeof(pgasi_group_connect_t), .check = check_connect },
    [PGASI_GROUP_READ] = { .bytes = sizeof(pgasi_group_range_t), .check = check_read },
    [PGASI_GROUP_DATA] = { .bytes = 1, .more = true },
    [PGASI_GROUP_STATE] = { .bytes = sizeof(pgasi_group_state_t),
                            .or_empty = true,
                            .check = check_state },
    [PGASI_GROUP_COPY] = { .bytes = sizeof(pgasi_group_copy_t), .check = check_copy },
    [PGASI_GROUP_CHANGED] = { .more = true, .check_list = check_changed },
    [PGASI_GROUP_TABLE] = { .bytes = sizeof(pgasi_group_table_t) },
    [PGASI_GROUP_RECORD] = { .bytes = sizeof(pgasi_group_record_t),
                             .more = true,
                             .check_list = check_record },
    [PGASI_GROUP_REFUSED] = { .bytes = sizeof(pgasi_group_refused_t), .check = check_refused },
    [PGASI_GROUP_NOTICE] = { .bytes = sizeof(pgasi_group_notice_t), .check = check_notice },
};

pgas_status_t pgasi_group_message_check(uint16_t type, const void *body, uint32_t bytes)
{
    if (type < PGASI_GROUP_HELLO || type >= PGASI_GROUP_N_TYPES)
        return PGAS_ERR_FORMAT;
    if (bytes > PGASI_GROUP_BODY_MAX || (type == PGASI_GROUP_DATA && bytes > DATA_MAX))
        return PGAS_ERR_LIMIT;
    if (bytes == 0 && kinds[type].or_empty)
        return PGAS_OK;
    if (bytes < kinds[type].bytes || (bytes > kinds[type].bytes && !kinds[type].more))
        return PGAS_ERR_FORMAT;
    if (kinds[type].check)
        return kinds[type].check(body);
    return kinds[type].check_list ? kinds[type].check_list(body, bytes) : PGAS_OK;
}
