/* what: Control messages of groups. Each message of a sound peer passes its check, and each damage
 *       to a length, a count, a text or a choice is refused. A link delivers whole messages,
 *       however they are cut, reports malformed ones and the end of the peer, and keeps its time
 *       limits. Listening on a network needs a key.
 * source: group/wire.h, group/link.h */
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include "base/clock.h"
#include "base/log.h"
#include "group/link.h"
#include "t/tap.h"

#define SECOND PGASI_NS_PER_S

static uint64_t in_seconds(unsigned n)
{
    return pgasi_now_ns() + n * SECOND;
}

/* ---- sound messages ---- */

static pgasi_group_hello_t hello = { .key = "secret", .client = 7 };
static struct {
    pgasi_group_welcome_t welcome;
    pgasi_group_name_t names[2];
} welcome = { { .id = 1,
                .region_bytes = 4096,
                .epoch = 3,
                .ways = PGASI_GROUP_HAS(PGAS_GROUP_CHAIN),
                .n_members = 2,
                .provider = "snic" },
              { { 1, "127.0.0.1:1" }, { 2, "[::1]:2" } } };
static struct {
    pgasi_group_members_t members;
    pgasi_group_name_t names[2];
} members = { { .epoch = 4, .n_members = 2 }, { { 1, "127.0.0.1:1" }, { 2, "[::1]:2" } } };
static pgasi_group_open_t open_ = {
    .epoch = 4, .way = PGAS_GROUP_CHAIN, .slots = 64, .piece = 4096, .n = 2, .position = 1
};
static struct {
    pgasi_group_opened_t opened;
    uint64_t old[2];
} opened = {
    { .member = { .region_bytes = 4096, .slots = 64 }, .rank = -1, .executed = 2, .n_old = 2 },
    { 5, 6 }
};
static pgasi_group_connect_t connect_ = { .next_rank = -1, .client_rank = -1 };
static pgasi_group_table_t table = { 3 };
static struct {
    pgasi_group_record_t record;
    uint64_t old[2];
} record = { { .client = 1, .executed = 2, .n_old = 2 }, { 5, 6 } };
static pgasi_group_range_t range = { 4096, 512 };
static pgasi_group_state_t state = { .epoch = 1 };
static pgasi_group_copy_t copy = { .from = "127.0.0.1:1" };
static pgasi_group_refused_t refused = { .status = PGAS_ERR_CONTEXT, .reason = "no" };
static pgasi_group_notice_t notice = { .epoch = 2 };

/* `fixed`: neither a shorter nor a longer body is sound */
static const struct {
    uint16_t type;
    const void *body;
    uint32_t bytes;
    bool fixed;
} sound[] = {
    { PGASI_GROUP_HELLO, &hello, sizeof hello, true },
    { PGASI_GROUP_WELCOME, &welcome, sizeof welcome, true },
    { PGASI_GROUP_MEMBERS, &members, sizeof members, true },
    { PGASI_GROUP_OPEN, &open_, sizeof open_, true },
    { PGASI_GROUP_OPENED, &opened, sizeof opened, true },
    { PGASI_GROUP_CONNECT, &connect_, sizeof connect_, true },
    { PGASI_GROUP_CLOSE, NULL, 0, true },
    { PGASI_GROUP_LEAVE, NULL, 0, true },
    { PGASI_GROUP_TABLE, &table, sizeof table, true },
    { PGASI_GROUP_RECORD, &record, sizeof record, true },
    { PGASI_GROUP_READ, &range, sizeof range, true },
    { PGASI_GROUP_DATA, "abc", 3, false },
    { PGASI_GROUP_STATE, NULL, 0, true },
    { PGASI_GROUP_STATE, &state, sizeof state, true },
    { PGASI_GROUP_COPY, &copy, sizeof copy, true },
    { PGASI_GROUP_TRACK, NULL, 0, true },
    { PGASI_GROUP_CHANGED, NULL, 0, true },
    { PGASI_GROUP_CHANGED, &range, sizeof range, true },
    { PGASI_GROUP_DONE, NULL, 0, true },
    { PGASI_GROUP_REFUSED, &refused, sizeof refused, true },
    { PGASI_GROUP_NOTICE, &notice, sizeof notice, true },
};
#define N_SOUND (sizeof sound / sizeof sound[0])

static unsigned char body_copy[PGASI_GROUP_BODY_MAX + 1];

static void sound_messages_pass(void)
{
    size_t n_good = 0, n_cut = 0, n_fixed = 0;
    for (size_t i = 0; i < N_SOUND; i++) {
        n_good +=
            pgasi_group_message_check(sound[i].type, sound[i].body, sound[i].bytes) == PGAS_OK;
        if (!sound[i].fixed)
            continue;
        n_fixed++;
        memset(body_copy, 0, sizeof body_copy);
        if (sound[i].bytes > 0)
            memcpy(body_copy, sound[i].body, sound[i].bytes);
        bool longer =
            pgasi_group_message_check(sound[i].type, body_copy, sound[i].bytes + 1) == PGAS_OK;
        bool shorter =
            sound[i].bytes > 0 &&
            pgasi_group_message_check(sound[i].type, body_copy, sound[i].bytes - 1) == PGAS_OK;
        n_cut += !longer && !shorter;
        if (longer || shorter)
            diag("type %d", (int)sound[i].type);
    }
    is_int((int)n_good, (int)N_SOUND, "sound messages pass");
    is_int((int)n_cut, (int)n_fixed, "with a byte more or less they do not");
    ok(pgasi_group_message_check(0, NULL, 0) == PGAS_ERR_FORMAT &&
           pgasi_group_message_check(PGASI_GROUP_N_TYPES, NULL, 0) == PGAS_ERR_FORMAT,
       "unknown types are refused");
    ok(pgasi_group_message_check(PGASI_GROUP_DATA, body_copy, (64u << 10) + 1) == PGAS_ERR_LIMIT &&
           pgasi_group_message_check(PGASI_GROUP_DATA, body_copy, 64u << 10) == PGAS_OK,
       "DATA has at most 64 KiB");
}

/* ---- damage ---- */

static int n_missed;

/* Checks a message in which one field is damaged, then mends it. */
#define DAMAGE(type, message, field, value, wanted)                                       \
    do {                                                                                  \
        __typeof__((message).field) before_ = (message).field;                            \
        (message).field = (value);                                                        \
        if (pgasi_group_message_check((type), &(message), sizeof(message)) != (wanted)) { \
            diag("%s = %s", #message "." #field, #value);                                 \
            n_missed++;                                                                   \
        }                                                                                 \
        (message).field = before_;                                                        \
    } while (0)

static void damage_is_refused(void)
{
    DAMAGE(PGASI_GROUP_HELLO, hello, key[63], 1, PGAS_ERR_FORMAT);
    DAMAGE(PGASI_GROUP_HELLO, hello, client, 0, PGAS_ERR_FORMAT);
    DAMAGE(PGASI_GROUP_HELLO, hello, is_replica, 2, PGAS_ERR_FORMAT);
    DAMAGE(PGASI_GROUP_WELCOME, welcome, welcome.region_bytes, 0, PGAS_ERR_FORMAT);
    DAMAGE(PGASI_GROUP_WELCOME, welcome, welcome.region_bytes, UINT64_MAX, PGAS_ERR_LIMIT);
    DAMAGE(PGASI_GROUP_WELCOME, welcome, welcome.flags, 2, PGAS_ERR_FORMAT);
    DAMAGE(PGASI_GROUP_WELCOME, welcome, welcome.ways, 1u << 9, PGAS_ERR_FORMAT);
    DAMAGE(PGASI_GROUP_WELCOME, welcome, welcome.epoch, 0, PGAS_ERR_FORMAT);
    DAMAGE(PGASI_GROUP_WELCOME, welcome, welcome.n_members, 1, PGAS_ERR_FORMAT);
    DAMAGE(PGASI_GROUP_WELCOME, welcome, welcome.n_members, UINT32_MAX, PGAS_ERR_LIMIT);
    DAMAGE(PGASI_GROUP_MEMBERS, members, members.n_members, 3, PGAS_ERR_FORMAT);
    DAMAGE(PGASI_GROUP_MEMBERS, members, members.n_members, 65, PGAS_ERR_LIMIT);
    DAMAGE(PGASI_GROUP_MEMBERS, members, members.n_members, 0, PGAS_ERR_FORMAT);
    DAMAGE(PGASI_GROUP_MEMBERS, members, members.epoch, 0, PGAS_ERR_FORMAT);
    DAMAGE(PGASI_GROUP_MEMBERS, members, members.epoch, UINT64_MAX, PGAS_ERR_FORMAT);
    DAMAGE(PGASI_GROUP_MEMBERS, members, members.flags, 2, PGAS_ERR_FORMAT);
    DAMAGE(PGASI_GROUP_MEMBERS, members, names[1].id, 1, PGAS_ERR_FORMAT);
    DAMAGE(PGASI_GROUP_MEMBERS, members, names[1].address[0], '\0', PGAS_ERR_FORMAT);
    DAMAGE(PGASI_GROUP_OPEN, open_, way, PGAS_GROUP_AUTO, PGAS_ERR_FORMAT);
    DAMAGE(PGASI_GROUP_OPEN, open_, way, 4, PGAS_ERR_FORMAT);
    DAMAGE(PGASI_GROUP_OPEN, open_, slots, 48, PGAS_ERR_FORMAT);
    DAMAGE(PGASI_GROUP_OPEN, open_, slots, 0, PGAS_ERR_FORMAT);
    DAMAGE(PGASI_GROUP_OPEN, open_, slots, 1u << 31, PGAS_ERR_LIMIT);
    DAMAGE(PGASI_GROUP_OPEN, open_, piece, 0, PGAS_ERR_FORMAT);
    DAMAGE(PGASI_GROUP_OPEN, open_, piece, (256u << 10) + 1, PGAS_ERR_LIMIT);
    DAMAGE(PGASI_GROUP_OPEN, open_, n, 65, PGAS_ERR_LIMIT);
    DAMAGE(PGASI_GROUP_OPEN, open_, position, 2, PGAS_ERR_FORMAT);
    DAMAGE(PGASI_GROUP_OPENED, opened, opened.member.slots, 3, PGAS_ERR_FORMAT);
    DAMAGE(PGASI_GROUP_OPENED, opened, opened.member.loop_qpn, 1u << 24, PGAS_ERR_FORMAT);
    DAMAGE(PGASI_GROUP_OPENED, opened, opened.rank, -2, PGAS_ERR_FORMAT);
    DAMAGE(PGASI_GROUP_CONNECT, connect_, next_rank, -2, PGAS_ERR_FORMAT);
    DAMAGE(PGASI_GROUP_OPENED, opened, opened.n_old, 1, PGAS_ERR_FORMAT);
    DAMAGE(PGASI_GROUP_RECORD, record, record.n_old, 1, PGAS_ERR_FORMAT);
    DAMAGE(PGASI_GROUP_RECORD, record, record.executed, 1, PGAS_ERR_FORMAT);
    DAMAGE(PGASI_GROUP_READ, range, bytes, 0, PGAS_ERR_FORMAT);
    DAMAGE(PGASI_GROUP_READ, range, bytes, (64u << 10) + 1, PGAS_ERR_LIMIT);
    DAMAGE(PGASI_GROUP_READ, range, offset, UINT64_MAX, PGAS_ERR_FORMAT);
    DAMAGE(PGASI_GROUP_CHANGED, range, bytes, 0, PGAS_ERR_FORMAT);
    DAMAGE(PGASI_GROUP_CHANGED, range, offset, UINT64_MAX - 10, PGAS_ERR_FORMAT);
    DAMAGE(PGASI_GROUP_COPY, copy, is_last, 2, PGAS_ERR_FORMAT);
    DAMAGE(PGASI_GROUP_COPY, copy, from[0], '\0', PGAS_ERR_FORMAT);
    DAMAGE(PGASI_GROUP_REFUSED, refused, status, 0, PGAS_ERR_FORMAT);
    DAMAGE(PGASI_GROUP_NOTICE, notice, status, 1, PGAS_ERR_FORMAT);
    char reason[sizeof refused.reason];
    memcpy(reason, refused.reason, sizeof reason);
    memset(refused.reason, 'x', sizeof refused.reason);
    n_missed += pgasi_group_message_check(PGASI_GROUP_REFUSED, &refused, sizeof refused) == PGAS_OK;
    memcpy(refused.reason, reason, sizeof reason);
    is_int(n_missed, 0, "damaged fields are refused");
}

static void heads_are_checked(void)
{
    const pgasi_group_head_t good = { PGASI_GROUP_MAGIC, PGASI_GROUP_VERSION, PGASI_GROUP_DATA, 100,
                                      5 };
    pgasi_group_head_t bad[6] = { good, good, good, good, good, good };
    int n_passed = 0;
    bad[0].magic = __builtin_bswap32(bad[0].magic);
    bad[1].version++;
    bad[2].type = PGASI_GROUP_N_TYPES;
    bad[3].bytes = PGASI_GROUP_BODY_MAX + 1;
    bad[4].number = 0;
    bad[5].type = PGASI_GROUP_NOTICE;
    for (int i = 0; i < 6; i++)
        n_passed += pgasi_group_head_check(&bad[i]) >= 0;
    ok(pgasi_group_head_check(&good) == 100 && n_passed == 0, "heads");
}

/* ---- links ---- */

static void pairs(int fds[2])
{
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, fds) != 0)
        bail("no socket pair");
}

static void messages_arrive_whole(void)
{
    int fds[2];
    unsigned char bytes[2 * sizeof(pgasi_group_head_t) + sizeof members + 3];
    pgasi_group_in_t in = { .got = 0 };
    int n_early = 0, n_whole = 0;
    size_t n = 0;
    pairs(fds);
    pgasi_group_send(fds[0], PGASI_GROUP_MEMBERS, 9, &members, sizeof members, in_seconds(5));
    pgasi_group_send(fds[0], PGASI_GROUP_DATA, 10, "abc", 3, in_seconds(5));
    ok(pgasi_group_recv(fds[1], &in, 0) == PGAS_OK && in.head.type == PGASI_GROUP_MEMBERS &&
           in.head.number == 9 && memcmp(in.body, &members, sizeof members) == 0 &&
           pgasi_group_recv(fds[1], &in, in_seconds(5)) == PGAS_OK && in.head.bytes == 3 &&
           memcmp(in.body, "abc", 3) == 0 && pgasi_group_recv(fds[1], &in, 0) == PGAS_ERR_AGAIN,
       "two messages, one after the other");
    pgasi_group_send(fds[0], PGASI_GROUP_MEMBERS, 9, &members, sizeof members, in_seconds(5));
    pgasi_group_send(fds[0], PGASI_GROUP_DATA, 10, "abc", 3, in_seconds(5));
    n = (size_t)recv(fds[1], bytes, sizeof bytes, 0);
    size_t first = sizeof(pgasi_group_head_t) + sizeof members;
    for (size_t i = 0; i < n; i++) {
        n_early += pgasi_group_recv(fds[1], &in, 0) != PGAS_ERR_AGAIN;
        if (send(fds[0], bytes + i, 1, 0) != 1)
            bail("send");
        if (i + 1 == first || i + 1 == n)
            n_whole += pgasi_group_recv(fds[1], &in, 0) == PGAS_OK;
    }
    ok(n == sizeof bytes && n_early == 0 && n_whole == 2, "the same bytes, one at a time");
    free(in.body);
    close(fds[0]);
    close(fds[1]);
}

/* @return the status of one message of these bytes, then the end of the peer */
static pgas_status_t status_of(const void *bytes, size_t n)
{
    int fds[2];
    pgasi_group_in_t in = { .got = 0 };
    pairs(fds);
    if (send(fds[0], bytes, n, 0) != (ssize_t)n)
        bail("send");
    close(fds[0]);
    pgas_status_t status = pgasi_group_recv(fds[1], &in, in_seconds(5));
    free(in.body);
    close(fds[1]);
    return status;
}

static void bad_messages_are_reported(void)
{
    struct {
        pgasi_group_head_t head;
        pgasi_group_open_t open;
    } message = { { PGASI_GROUP_MAGIC, PGASI_GROUP_VERSION, PGASI_GROUP_OPEN, sizeof open_, 1 },
                  open_ };
    ok(status_of(&message, sizeof message) == PGAS_OK, "a good message before the end");
    ok(status_of(&message, sizeof message - 1) == PGAS_ERR_PEER &&
           status_of(&message, 3) == PGAS_ERR_PEER,
       "a message that is cut off");
    message.open.slots = 5;
    ok(status_of(&message, sizeof message) == PGAS_ERR_FORMAT, "a malformed body");
    message.open.slots = 1u << 30;
    ok(status_of(&message, sizeof message) == PGAS_ERR_LIMIT, "a limit");
    message.head.version++;
    ok(status_of(&message, sizeof message) == PGAS_ERR_MISMATCH, "another version");
    ok(status_of("GET / HTTP/1.1\r\n\r\n", 18) == PGAS_ERR_FORMAT, "another protocol");
}

static void limits_hold(void)
{
    int fds[2];
    pgasi_group_in_t in = { .got = 0 };
    pgas_status_t status = PGAS_OK;
    pairs(fds);
    ok(pgasi_group_recv(fds[1], &in, 1) == PGAS_ERR_TIMEOUT, "no message comes");
    for (int i = 0; i < 1000 && status == PGAS_OK; i++)
        status = pgasi_group_send(fds[0], PGASI_GROUP_DATA, 1, body_copy, 64u << 10, 1);
    ok(status == PGAS_ERR_TIMEOUT, "the peer does not read");
    close(fds[1]);
    ok(pgasi_group_send(fds[0], PGASI_GROUP_DONE, 1, NULL, 0, in_seconds(5)) == PGAS_ERR_PEER,
       "the peer has ended, and no signal came");
    free(in.body);
    close(fds[0]);
}

/* ---- addresses ---- */

/* @return whether a message passes from a dialer to a listener at this address */
static bool passes(const char *address)
{
    char name[PGASI_GROUP_NAME_BYTES] = "";
    int listener = -1, dialed = -1, accepted = -1;
    pgasi_group_in_t in = { .got = 0 };
    bool good = pgasi_group_listen(address, false, &listener, name) == PGAS_OK &&
                pgasi_group_dial(name, in_seconds(5), &dialed) == PGAS_OK &&
                (accepted = accept(listener, NULL, NULL)) >= 0 &&
                pgasi_group_send(dialed, PGASI_GROUP_DATA, 1, "x", 1, in_seconds(5)) == PGAS_OK &&
                pgasi_group_recv(accepted, &in, in_seconds(5)) == PGAS_OK && in.body[0] == 'x' &&
                (fcntl(dialed, F_GETFL) & O_NONBLOCK) != 0 && fcntl(dialed, F_GETFD) == FD_CLOEXEC;
    if (!good)
        diag("%s is %s", address, name);
    free(in.body);
    close(accepted);
    close(dialed);
    close(listener);
    return good;
}

static bool has_v6(void)
{
    int fd = -1;
    char name[PGASI_GROUP_NAME_BYTES];
    bool there = pgasi_group_listen("[::1]:0", false, &fd, name) == PGAS_OK;
    if (there)
        close(fd);
    return there;
}

static void addresses_work(void)
{
    int fd = -1, other = -1;
    char name[PGASI_GROUP_NAME_BYTES], untouched[PGASI_GROUP_NAME_BYTES];
    ok(passes("127.0.0.1:0"), "IPv4");
    int log = pgasi_log_set_fd(open("/dev/null", O_WRONLY));
    if (has_v6())
        ok(passes("[::1]:0"), "IPv6");
    else
        skip(1, "no IPv6 here");
    ok(pgasi_group_listen("0.0.0.0:0", false, &fd, untouched) == PGAS_ERR_CONTEXT &&
           pgasi_group_listen("[::]:0", false, &fd, untouched) == PGAS_ERR_CONTEXT &&
           pgasi_group_listen("192.0.2.1:0", false, &fd, untouched) == PGAS_ERR_CONTEXT,
       "networks need a key");
    ok(pgasi_group_listen("192.0.2.1:0", true, &fd, untouched) == PGAS_ERR_IO,
       "an address of another host");
    ok(pgasi_group_listen("127.0.0.1:0", false, &fd, name) == PGAS_OK &&
           pgasi_group_listen(name, false, &other, untouched) == PGAS_ERR_EXISTS,
       "an address that is in use");
    close(fd);
    static const char *const none[] = {
        "",         "127.0.0.1",           "127.0.0.1:",   ":80",
        "::1:80",   "127.0.0.1:http",      "127.0.0.1:-1", "[::1]",
        "[]:80",    "127.0.0.1:65536",     "127.0.0.1:1x", "[::1:80",
        "a b c:80", "127.0.0.1:4294967376"
    };
    int n_taken = 0;
    for (size_t i = 0; i < sizeof none / sizeof none[0]; i++)
        n_taken += pgasi_group_dial(none[i], in_seconds(5), &fd) != PGAS_ERR_FORMAT ||
                   pgasi_group_listen(none[i], true, &fd, untouched) != PGAS_ERR_INVALID;
    is_int(n_taken, 0, "texts that are no addresses");
    close(pgasi_log_set_fd(log));
    /* name is free again */
    ok(pgasi_group_dial(name, pgasi_now_ns() + SECOND / 20, &fd) == PGAS_ERR_TIMEOUT,
       "nobody listens until the limit");
}

int main(void)
{
    plan(24);
    sound_messages_pass();
    damage_is_refused();
    heads_are_checked();
    messages_arrive_whole();
    bad_messages_are_reported();
    limits_hold();
    addresses_work();
    return done();
}
