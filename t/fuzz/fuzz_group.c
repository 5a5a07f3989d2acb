/* what: Any bytes may arrive on a control connection of a group. The library reads only the bytes
 *       of a message, and cutting them into pieces makes no difference. Accepted messages keep
 *       their promises: texts end, counts agree with lengths, ranges do not overflow.
 * source: group/wire.h, group/link.h; libFuzzer
 * Input: a byte that picks the type, a byte that says where to cut, then the body. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>
#include "group/link.h"
#include "t/fuzz/require.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n_bytes);

/* The names in an accepted list. */
static void check_names(const unsigned char *at, uint32_t n)
{
    pgasi_group_name_t name;
    for (uint32_t i = 0; i < n; i++) {
        memcpy(&name, at + i * sizeof name, sizeof name);
        require(strnlen(name.address, sizeof name.address) < sizeof name.address, "names end");
    }
}

static void check_promises(uint16_t type, const unsigned char *body, uint32_t bytes)
{
    pgasi_group_welcome_t welcome;
    pgasi_group_members_t members;
    pgasi_group_open_t open;
    pgasi_group_record_t record;
    pgasi_group_opened_t opened;
    pgasi_group_range_t range;
    if (type == PGASI_GROUP_WELCOME) {
        memcpy(&welcome, body, sizeof welcome);
        require(bytes == sizeof welcome + welcome.n_members * sizeof(pgasi_group_name_t) &&
                    strnlen(welcome.next, sizeof welcome.next) < sizeof welcome.next,
                "a welcome");
        check_names(body + sizeof welcome, welcome.n_members);
    } else if (type == PGASI_GROUP_MEMBERS) {
        memcpy(&members, body, sizeof members);
        require(members.n_members > 0 && members.n_members <= PGAS_GROUP_REPLICAS_MAX &&
                    bytes == sizeof members + members.n_members * sizeof(pgasi_group_name_t),
                "a list");
        check_names(body + sizeof members, members.n_members);
    } else if (type == PGASI_GROUP_OPEN) {
        memcpy(&open, body, sizeof open);
        require(open.slots != 0 && (open.slots & (open.slots - 1)) == 0 && open.position < open.n &&
                    open.n <= PGAS_GROUP_REPLICAS_MAX,
                "an open");
    } else if (type == PGASI_GROUP_RECORD) {
        memcpy(&record, body, sizeof record);
        require(bytes == sizeof record + record.n_old * sizeof(uint64_t), "old words");
    } else if (type == PGASI_GROUP_OPENED) {
        memcpy(&opened, body, sizeof opened);
        require(bytes == sizeof opened + opened.n_old * sizeof(uint64_t), "old words");
    } else if (type == PGASI_GROUP_READ) {
        memcpy(&range, body, sizeof range);
        require(range.bytes <= 64u << 10 && range.offset + range.bytes > range.offset, "a read");
    }
}

/* The same message over a connection, cut into two pieces. @return its status */
static pgas_status_t by_link(uint16_t type, const unsigned char *body, uint32_t bytes, size_t cut)
{
    int fds[2];
    pgasi_group_in_t in = { .got = 0 };
    uint32_t number = type != PGASI_GROUP_NOTICE;
    const pgasi_group_head_t head = { PGASI_GROUP_MAGIC, PGASI_GROUP_VERSION, type, bytes, number };
    unsigned char *whole = malloc(sizeof head + bytes);
    memcpy(whole, &head, sizeof head);
    if (bytes > 0)
        memcpy(whole + sizeof head, body, bytes);
    cut %= sizeof head + bytes;
    require(socketpair(AF_UNIX, SOCK_STREAM, 0, fds) == 0, "sockets");
    require(send(fds[0], whole, cut, 0) == (ssize_t)cut, "the first piece is sent");
    pgas_status_t status = pgasi_group_recv(fds[1], &in, 0);
    require(send(fds[0], whole + cut, sizeof head + bytes - cut, MSG_NOSIGNAL) > 0, "the second");
    if (status == PGAS_ERR_AGAIN)
        status = pgasi_group_recv(fds[1], &in, 0);
    require(status != PGAS_OK || bytes == 0 || memcmp(in.body, body, bytes) == 0, "the same bytes");
    free(in.body);
    free(whole);
    close(fds[0]);
    close(fds[1]);
    return status;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n_bytes)
{
    pgasi_group_head_t head;
    if (n_bytes < 2 || n_bytes > 16384)
        return 0;
    uint16_t type = data[0] % (PGASI_GROUP_N_TYPES + 1);
    uint32_t bytes = (uint32_t)n_bytes - 2;
    unsigned char *body = malloc(bytes > 0 ? bytes : 1);
    memcpy(body, data + 2, bytes);
    pgas_status_t status = pgasi_group_message_check(type, body, bytes);
    if (status == PGAS_OK)
        check_promises(type, body, bytes);
    pgas_status_t linked = by_link(type, body, bytes, data[1]);
    require(linked == status, "a link finds the same");
    if (bytes >= sizeof head) {
        memcpy(&head, body, sizeof head);
        require(pgasi_group_head_check(&head) <= (int64_t)PGASI_GROUP_BODY_MAX, "a head");
    }
    free(body);
    return 0;
}
