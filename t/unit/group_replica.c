/* what: Replicas answer right clients only. A wrong key, another version, garbage, half messages,
 *       silence, too many strangers, peers that do not read, and a lack of descriptors harm nobody.
 *       Requests that do not fit the list of members are refused. A newer list ends chains and
 *       tells their clients; a freeze ends with its client. A hundred clients that come and go
 *       leave nothing behind. An idle replica does not wake.
 * needs: tsan-ok
 * source: group/wire.h */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include "base/log.h"
#include "group/replica.h"
#include "t/unit/group_bare.h"
#include "verbs_backend/queue/device.h"

#define REGION    (1u << 20)
#define STRANGERS 80 /* more than a replica keeps */

/* A client that leaves while its messages are under way makes cards flush entries that these
 * messages rewrite. Cards do that; ThreadSanitizer objects. */
#if defined(__has_feature)
#if __has_feature(thread_sanitizer)
#define LEAVES_EARLY false
#endif
#endif
#ifndef LEAVES_EARLY
#define LEAVES_EARLY true
#endif

static bare_group_t g;

/* ---- clients ---- */

static pgas_status_t join(bare_link_t *l, const char *key, uint64_t client)
{
    bare_dial(l, g.links[0].address);
    return bare_hello(l, key, client);
}

/* Whether the replica has ended the connection. */
static bool has_ended(bare_link_t *l)
{
    return bare_recv(l) == PGAS_ERR_PEER;
}

static bool is_well(void)
{
    return bare_ask(&g.links[0], PGASI_GROUP_STATE, NULL, 0) == PGAS_OK;
}

static uint32_t n_clients(void)
{
    pgas_replica_info_t info = { .size = sizeof info };
    must(pgas_replica_info(g.replicas[0], &info), "info");
    return info.n_clients;
}

/* The replica notices the end of a connection some time later. */
static bool await_clients(uint32_t n)
{
    uint64_t limit_ns = bare_limit();
    while (n_clients() != n && pgasi_now_ns() < limit_ns)
        sched_yield();
    return n_clients() == n;
}

static void keys_count(void)
{
    bare_link_t l;
    int n_refused = 0;
    static const char *const wrong[] = { "", "Secret", "secre", "secrets" };
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
        n_refused += join(&l, wrong[i], 2) == PGAS_ERR_CONTEXT && has_ended(&l);
        bare_hang_up(&l);
    }
    is_int(n_refused, 4, "wrong keys are refused, and the connection ends");
    ok(join(&l, "secret", 2) == PGAS_OK && l.welcome.region_bytes == REGION &&
           l.welcome.epoch == 0 && strcmp(l.welcome.next, g.links[1].address) == 0 &&
           (l.welcome.ways & PGASI_GROUP_HAS(PGAS_GROUP_CHAIN)) != 0,
       "a right key is welcome");
    ok(bare_hello(&l, "secret", 2) == PGAS_OK, "a second HELLO asks for the list again");
    ok(bare_hello(&l, "secret", 3) == PGAS_ERR_INVALID && has_ended(&l),
       "a HELLO of another client on this connection");
    bare_hang_up(&l);
}

static void versions_count(void)
{
    bare_link_t l;
    struct {
        pgasi_group_head_t head;
        pgasi_group_hello_t hello;
    } message = { { PGASI_GROUP_MAGIC, PGASI_GROUP_VERSION + 1, PGASI_GROUP_HELLO,
                    sizeof message.hello, 1 },
                  { .key = "secret" } };
    bare_dial(&l, g.links[0].address);
    if (send(l.fd, &message, sizeof message, 0) != (ssize_t)sizeof message)
        bail("send");
    ok(bare_recv(&l) == PGAS_ERR_MISMATCH, "another version is told so");
    bare_hang_up(&l);
}

static void clients_are_counted(void)
{
    bare_link_t l[4];
    int n = 0;
    bool good = await_clients(1); /* our own; there may be 4 */
    for (; n < 3; n++)
        good = good && join(&l[n], "secret", 10 + (uint64_t)n) == PGAS_OK;
    ok(good && join(&l[3], "secret", 20) == PGAS_ERR_LIMIT && has_ended(&l[3]),
       "a client too many is refused");
    bare_hang_up(&l[3]);
    ok(join(&l[3], "secret", 10) == PGAS_OK, "a second connection of a client is welcome");
    bare_hang_up(&l[3]);
    bare_hang_up(&l[0]);
    good = await_clients(3);
    ok(good && join(&l[0], "secret", 20) == PGAS_OK, "when one has left, another one may come");
    for (n = 0; n < 3; n++)
        bare_hang_up(&l[n]);
    await_clients(1);
}

/* ---- strangers ---- */

static bool ends_after(const void *bytes, size_t n)
{
    bare_link_t l;
    bare_dial(&l, g.links[0].address);
    if (send(l.fd, bytes, n, MSG_NOSIGNAL) != (ssize_t)n)
        bail("send");
    bool ended = has_ended(&l);
    bare_hang_up(&l);
    return ended;
}

static void garbage_is_dropped(void)
{
    pgasi_group_head_t head = { PGASI_GROUP_MAGIC, PGASI_GROUP_VERSION, PGASI_GROUP_STATE, 0, 1 };
    ok(ends_after("GET / HTTP/1.1\r\n\r\n", 18), "another protocol");
    ok(ends_after(&head, sizeof head), "a request before HELLO");
    head.bytes = UINT32_MAX;
    ok(ends_after(&head, sizeof head), "a huge message");
    head.type = PGASI_GROUP_WELCOME;
    ok(ends_after(&head, sizeof head), "an answer");
}

static void half_messages_harm_nobody(void)
{
    bare_link_t l;
    pgasi_group_head_t head = { PGASI_GROUP_MAGIC, PGASI_GROUP_VERSION, PGASI_GROUP_HELLO,
                                sizeof(pgasi_group_hello_t), 1 };
    pgasi_group_hello_t hello = { .key = "secret", .client = 30 };
    unsigned char bytes[sizeof head + sizeof hello];
    memcpy(bytes, &head, sizeof head);
    memcpy(bytes + sizeof head, &hello, sizeof hello);
    for (size_t n = 1; n < sizeof bytes; n += 13) {
        bare_dial(&l, g.links[0].address);
        if (send(l.fd, bytes, n, 0) != (ssize_t)n)
            bail("send");
        bare_hang_up(&l);
    }
    bare_dial(&l, g.links[0].address);
    bool good = true;
    for (size_t i = 0; i < sizeof bytes && good; i++) /* others are served in between */
        good = send(l.fd, bytes + i, 1, 0) == 1 && is_well();
    l.number = 1;
    ok(good && bare_recv(&l) == PGAS_OK && l.in.head.type == PGASI_GROUP_WELCOME,
       "a HELLO that comes byte by byte");
    /* a known client that stops in the middle */
    if (send(l.fd, bytes, 20, 0) != 20)
        bail("send");
    ok(is_well(), "half a request");
    bare_hang_up(&l);
}

static void strangers_give_way(void)
{
    static bare_link_t l[STRANGERS];
    bare_link_t client;
    for (int i = 0; i < STRANGERS; i++)
        bare_dial(&l[i], g.links[0].address);
    ok(join(&client, "secret", 2) == PGAS_OK, "a client joins past %d silent strangers", STRANGERS);
    ok(has_ended(&l[0]) && has_ended(&l[1]), "the oldest of them have been closed");
    for (int i = 0; i < STRANGERS; i++)
        bare_hang_up(&l[i]);
    bare_hang_up(&client);
}

static void peers_must_read(void)
{
    bare_link_t l;
    const pgasi_group_range_t range = { 0, 64u << 10 };
    pgas_status_t status = join(&l, "secret", 2);
    uint32_t n = 0;
    for (; n < 2000000 && status == PGAS_OK; n++) /* until nothing is taken any more */
        status = pgasi_group_send(l.fd, PGASI_GROUP_READ, n + 2, &range, sizeof range,
                                  pgasi_now_ns() + PGASI_NS_PER_S / 4);
    ok(status == PGAS_ERR_TIMEOUT && is_well(), "a peer that does not read (%u requests)", n);
    bare_hang_up(&l);
}

/* ---- requests ---- */

static void requests_are_checked(void)
{
    bare_link_t *l = &g.links[0];
    pgasi_group_range_t range = { REGION - 4, 4 }, beyond = { REGION - 4, 5 };
    memcpy(g.regions[0] + REGION - 4, "last", 4);
    ok(bare_ask(l, PGASI_GROUP_READ, &range, sizeof range) == PGAS_OK && l->in.head.bytes == 4 &&
           memcmp(l->in.body, "last", 4) == 0,
       "READ");
    ok(bare_ask(l, PGASI_GROUP_READ, &beyond, sizeof beyond) == PGAS_ERR_RANGE,
       "READ beyond the region");
    range = (pgasi_group_range_t){ 0, (64u << 10) + 1 };
    ok(bare_ask(l, PGASI_GROUP_READ, &range, sizeof range) == PGAS_ERR_LIMIT && is_well(),
       "READ of too much");
    ok(bare_ask(l, PGASI_GROUP_CHANGED, NULL, 0) == PGAS_ERR_NOT_INIT, "CHANGED before TRACK");
    const pgasi_group_connect_t connect = { .next_rank = -1, .client_rank = -1 };
    ok(bare_ask(l, PGASI_GROUP_CONNECT, &connect, sizeof connect) == PGAS_ERR_NOT_INIT,
       "CONNECT before OPEN");
    bare_record_t closed;
    ok(bare_close(l, &closed) == 0 && closed.n_old == 0, "CLOSE without a chain");
}

static void opens_fit_the_list(void)
{
    bare_link_t *l = &g.links[0], broken;
    bare_chain_t c;
    bare_queues(&c, g.links, g.n, 16, 512);
    pgasi_group_open_t open = bare_open_request(&c, 1, 0);
#define OPEN(field, value, wanted)                                                          \
    (open.field = (value), bare_ask(l, PGASI_GROUP_OPEN, &open, sizeof open) == (wanted) && \
                               (open = bare_open_request(&c, 1, 0), true))
    ok(OPEN(epoch, 1, PGAS_ERR_AGAIN), "OPEN before the first list");
    bare_list(&g, 1);
    ok(OPEN(epoch, 2, PGAS_ERR_AGAIN), "OPEN of another epoch");
    ok(OPEN(position, 1, PGAS_ERR_AGAIN), "OPEN at another position");
    ok(OPEN(n, 1, PGAS_ERR_AGAIN), "OPEN with another number of members");
    ok(OPEN(slots, 1u << 17, PGAS_ERR_LIMIT), "OPEN with too many slots");
    ok(OPEN(slots, 1u << 16, PGAS_ERR_LIMIT), "OPEN with more slots than the card has");
    ok(join(&broken, "secret", 2) == PGAS_OK && (open.slots = 3, true) &&
           bare_ask(&broken, PGASI_GROUP_OPEN, &open, sizeof open) == PGAS_ERR_PEER,
       "OPEN with 3 slots ends the connection");
    bare_hang_up(&broken);
    open = bare_open_request(&c, 1, 0);
    ok(bare_open(&c, 1) == PGAS_OK, "OPEN");
    ok(OPEN(first, 1, PGAS_ERR_RANGE), "OPEN of a client that has had more than is executed");
    ok(OPEN(epoch, 1, PGAS_OK), "OPEN again ends the former chain");
#undef OPEN
    for (uint32_t i = 0; i < g.n; i++)
        bare_close(&g.links[i], NULL);
    bare_end(&c);
}

/* ---- lists ---- */

static uint64_t epoch_of(bare_link_t *l, uint32_t *n_members_p)
{
    must(bare_hello(l, "secret", 1), "HELLO");
    *n_members_p = l->welcome.n_members;
    return l->welcome.epoch;
}

/* The body of OPENED. */
static bool has_executed(const bare_link_t *l, uint64_t n)
{
    pgasi_group_opened_t opened;
    memcpy(&opened, l->in.body, sizeof opened);
    return opened.executed == n && opened.n_old == n;
}

static void newer_lists_end_chains(void)
{
    bare_link_t *l = &g.links[0], other;
    bare_chain_t c;
    uint64_t word = 7;
    bare_queues(&c, g.links, g.n, 16, 512);
    must(bare_open(&c, 1), "OPEN");
    bare_send(&c,
              (pgasi_group_piece_t){ .kind = PGAS_GROUP_WRITE, .offset = 64, .bytes = sizeof word },
              &word);
    bool good = bare_await(&c, 1);
    must(join(&other, "secret", 2), "HELLO");
    ok(good && bare_members(&other, g.links, g.n, 1, 0) == PGAS_OK && l->n_notices == 0 &&
           bare_members(&other, g.links, 1, 1, 0) == PGAS_ERR_EXISTS,
       "the same list has no effect, another one of the same epoch is refused");
    ok(bare_members(&other, g.links, g.n, 2, 0) == PGAS_OK && bare_notices(l, 1) &&
           l->notice.status == PGAS_OK && l->notice.epoch == 2 && other.n_notices == 0,
       "a newer list comes: the other client has a notice");
    bare_record_t closed;
    const pgasi_group_open_t open = bare_open_request(&c, 2, 0);
    ok(bare_ask(l, PGASI_GROUP_OPEN, &open, sizeof open) == PGAS_OK && has_executed(l, 1) &&
           bare_close(l, &closed) == 1 && closed.n_old == 1,
       "its chain has been drained, and the next OPEN tells what it has executed");
    ok(bare_members(&other, g.links, g.n, 1, 0) == PGAS_ERR_EXISTS, "older lists are refused");
    for (uint32_t i = 1; i < g.n; i++) {
        must(bare_members(&g.links[i], g.links, g.n, 2, 0), "MEMBERS");
        bare_close(&g.links[i], NULL);
    }
    bare_hang_up(&other);
    bare_end(&c);
}

static void freezes_end(void)
{
    bare_link_t *l = &g.links[0], other;
    bare_chain_t c;
    uint32_t n;
    uint64_t n_notices = l->n_notices;
    bare_queues(&c, g.links, g.n, 16, 512);
    must(bare_open(&c, 2), "OPEN");
    must(join(&other, "secret", 2), "HELLO");
    ok(bare_members(&other, g.links, g.n, 3, PGASI_GROUP_FREEZE) == PGAS_OK &&
           bare_notices(l, n_notices + 1) && bare_open(&c, 3) == PGAS_ERR_AGAIN,
       "a freeze ends chains and opens none");
    ok(bare_members(l, g.links, 1, 3, 0) == PGAS_ERR_EXISTS, "another client cannot thaw");
    ok(bare_members(&other, g.links, g.n, 3, 0) == PGAS_OK && bare_notices(l, n_notices + 2) &&
           epoch_of(l, &n) == 3 && n == g.n,
       "a list of the same epoch thaws");
    ok(bare_members(&other, g.links, g.n, 4, PGASI_GROUP_FREEZE) == PGAS_OK, "another freeze");
    bare_hang_up(&other);
    ok(bare_notices(l, n_notices + 4) && l->notice.epoch == 5 && epoch_of(l, &n) == 5 && n == g.n,
       "its client vanishes: the former list holds, two epochs later");
    for (uint32_t i = 0; i < g.n; i++) {
        bare_close(&g.links[i], NULL);
        must(bare_members(&g.links[i], g.links, g.n, 5, 0), "MEMBERS");
    }
    bare_end(&c);
}

/* ---- changed ranges ---- */

static void changes_are_noted(void)
{
    bare_link_t copier;
    bare_chain_t c;
    char data[100];
    pgasi_group_range_t ranges[3];
    memset(data, 'x', sizeof data);
    must(join(&copier, "secret", 3), "HELLO");
    must(bare_ask(&copier, PGASI_GROUP_TRACK, NULL, 0), "TRACK");
    bare_queues(&c, g.links, g.n, 16, 512);
    must(bare_open(&c, 5), "OPEN");
    bare_send(&c, (pgasi_group_piece_t){ .kind = PGAS_GROUP_WRITE, .offset = 5000, .bytes = 100 },
              data);
    bare_send(&c,
              (pgasi_group_piece_t){
                  .kind = PGAS_GROUP_MEMCPY, .offset = 8190, .source = 5000, .bytes = 4 },
              NULL);
    bare_send(&c,
              (pgasi_group_piece_t){ .kind = PGAS_GROUP_CAS,
                                     .offset = REGION - 8,
                                     .desired = 5,
                                     .source = 0,
                                     .execute_map = 3,
                                     .bytes = 8 },
              NULL);
    bare_send(&c, (pgasi_group_piece_t){ .kind = PGAS_GROUP_FLUSH, .offset = 40960, .bytes = 100 },
              NULL);
    bool good = bare_await(&c, 4) && bare_ask(&copier, PGASI_GROUP_CHANGED, NULL, 0) == PGAS_OK &&
                copier.in.head.bytes == 2 * sizeof ranges[0];
    memcpy(ranges, copier.in.body, 2 * sizeof ranges[0]);
    ok(good && ranges[0].offset == 4096 && ranges[0].bytes == 8192 &&
           ranges[1].offset == REGION - 4096 && ranges[1].bytes == 4096,
       "pages that were written, copied to or swapped have changed");
    ok(bare_ask(&copier, PGASI_GROUP_CHANGED, NULL, 0) == PGAS_OK && copier.in.head.bytes == 0,
       "each change is reported once");
    bare_send(&c, (pgasi_group_piece_t){ .kind = PGAS_GROUP_WRITE, .offset = 0, .bytes = 1 }, data);
    good = bare_await(&c, 5);
    for (uint32_t i = 0; i < g.n; i++)
        bare_close(&g.links[i], NULL);
    good = good && bare_ask(&copier, PGASI_GROUP_CHANGED, NULL, 0) == PGAS_OK &&
           copier.in.head.bytes == sizeof ranges[0];
    memcpy(ranges, copier.in.body, sizeof ranges[0]);
    ok(good && ranges[0].offset == 0, "a change is noted before the chain ends");
    bare_hang_up(&copier);
    bare_end(&c);
}

/* ---- descriptors and threads that are left ---- */

static int n_descriptors(void)
{
    DIR *folder = opendir("/proc/self/fd");
    int n = 0;
    while (folder && readdir(folder))
        n++;
    if (folder)
        closedir(folder);
    return n;
}

static int n_objects(void)
{
    int n = 0;
    for (uint32_t i = 0; i < g.n; i++)
        n += __atomic_load_n(&g.replicas[i]->dev->n_open, __ATOMIC_RELAXED);
    return n;
}

/* Joins at all replicas, opens a chain, sends some pieces, and leaves in one of three ways. */
static bool come_and_go(int round)
{
    bare_link_t links[BARE_MAX];
    bare_chain_t c;
    uint64_t word = (uint64_t)round;
    bool good = true;
    for (uint32_t i = 0; i < g.n; i++) {
        bare_dial(&links[i], g.links[i].address);
        good = good && bare_hello(&links[i], "secret", 2) == PGAS_OK;
    }
    bare_queues(&c, links, g.n, 8, 64);
    good = good && bare_open(&c, 5) == PGAS_OK;
    for (int i = 0; i < round % 8; i++)
        bare_send(&c, (pgasi_group_piece_t){ .kind = PGAS_GROUP_WRITE, .bytes = sizeof word },
                  &word);
    good = good && ((round % 3 == 0 && LEAVES_EARLY) || bare_await(&c, c.sent));
    if (round % 3 == 1)
        bare_end(&c);
    for (uint32_t i = 0; i < g.n; i++) {
        if (round % 3 == 2)
            bare_close(&links[i], NULL);
        bare_hang_up(&links[i]);
    }
    if (round % 3 != 1)
        bare_end(&c);
    return good && await_clients(1);
}

static void nothing_is_left(void)
{
    bool good = await_clients(1) && come_and_go(2);   /* objects that are made once exist */
    int fds = n_descriptors(), objects = n_objects(); /* perhaps also some of that client's */
    for (int i = 0; i < 100 && good; i++)
        good = come_and_go(i);
    uint64_t limit_ns = bare_limit();
    while ((n_descriptors() > fds || n_objects() > objects) && pgasi_now_ns() < limit_ns)
        sched_yield(); /* the other replicas notice the end later */
    ok(good, "100 clients come and go");
    ok(n_descriptors() <= fds, "no descriptor is left");
    ok(n_objects() <= objects, "no queue pair or other object is left");
}

/* Times that a replica has woken. */
static uint64_t rounds_of(uint32_t i)
{
    pthread_mutex_lock(&g.replicas[i]->lock);
    uint64_t n = g.replicas[i]->n_rounds;
    pthread_mutex_unlock(&g.replicas[i]->lock);
    return n;
}

/* Takes all descriptors that are left. @return their number */
static int take_descriptors(int fds[], int n_max)
{
    int n = 0;
    while (n < n_max && (fds[n] = dup(STDIN_FILENO)) >= 0)
        n++;
    return n;
}

static void descriptors_run_out(void)
{
    struct sockaddr_in to = { .sin_family = AF_INET };
    struct rlimit before, few;
    int fds[64];
    bare_link_t l, client;
    memset(&l, 0, sizeof l);
    l.fd = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0);
    to.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    to.sin_port = htons((uint16_t)atoi(strrchr(g.links[0].address, ':') + 1));
    getrlimit(RLIMIT_NOFILE, &before);
    few = before;
    few.rlim_cur = (rlim_t)l.fd + 16;
    setrlimit(RLIMIT_NOFILE, &few);
    int n = take_descriptors(fds, 64);
    uint64_t rounds = rounds_of(0);
    bool connected = connect(l.fd, (const struct sockaddr *)(const void *)&to, sizeof to) == 0 ||
                     errno == EINPROGRESS;
    ok(connected && has_ended(&l), "without descriptors a client is turned away");
    bool good = true;
    for (int i = 0; i < 20; i++)
        good = good && is_well();
    ok(good && rounds_of(0) <= rounds + 22, "clients are served, and the thread does not spin");
    while (n > 0)
        close(fds[--n]);
    setrlimit(RLIMIT_NOFILE, &before);
    ok(join(&client, "secret", 2) == PGAS_OK, "when there are some again, clients may come");
    bare_hang_up(&client);
    bare_hang_up(&l);
    await_clients(1);
}

static void idle_replicas_sleep(void)
{
    bare_chain_t c;
    uint64_t word = 1;
    pgasi_group_status_t status = { .n_refills = 0 };
    bool good = true;
    bare_queues(&c, g.links, g.n, 64, 64);
    must(bare_open(&c, 5), "OPEN");
    uint64_t before = rounds_of(1);
    for (int i = 0; i < 300 && good; i++)
        good = is_well() && bare_status(&c, 1, &status) == PGAS_OK;
    ok(good && rounds_of(1) == before, "an idle replica does not wake, whatever another one does");
    for (int window = 0; window < 10 && good; window++) {
        good = bare_await_armed(&c, c.slots);
        for (uint32_t k = 0; k < c.slots; k++)
            bare_send(&c, (pgasi_group_piece_t){ .kind = PGAS_GROUP_WRITE, .bytes = sizeof word },
                      &word);
        good = good && bare_await(&c, c.sent);
    }
    good = good && bare_await_armed(&c, c.slots) && bare_status(&c, 1, &status) == PGAS_OK;
    uint64_t n_wakes = rounds_of(1) - before;
    ok(good && n_wakes <= 40 && status.n_refills <= 40 && n_wakes > 0,
       "ten windows wake it at most 40 times (%d wakes, %d refills)", (int)n_wakes,
       (int)status.n_refills);
    for (uint32_t i = 0; i < g.n; i++)
        bare_close(&g.links[i], NULL);
    bare_end(&c);
}

static void options_are_checked(void)
{
    pgas_replica_opts_t opts = PGAS_REPLICA_OPTS_INIT;
    pgas_replica_t *replica = NULL;
    bool good = pgas_replica_create(NULL, &replica) == PGAS_ERR_INVALID &&
                pgas_replica_create(&opts, &replica) == PGAS_ERR_INVALID;
    opts.listen = "127.0.0.1:0";
    good = good && pgas_replica_create(&opts, &replica) == PGAS_ERR_INVALID;
    opts.region_bytes = 4096;
    good = good && pgas_replica_create(&opts, NULL) == PGAS_ERR_INVALID;
    opts.size--;
    good = good && pgas_replica_create(&opts, &replica) == PGAS_ERR_INVALID;
    opts.size++;
    opts.region = (char *)g.regions[0] + 8;
    good = good && pgas_replica_create(&opts, &replica) == PGAS_ERR_INVALID;
    opts.region = NULL;
    opts.region_bytes = ((size_t)1 << 40) + 1;
    good = good && pgas_replica_create(&opts, &replica) == PGAS_ERR_LIMIT;
    opts.region_bytes = 4096;
    opts.listen = "0.0.0.0:0";
    good = good && pgas_replica_create(&opts, &replica) == PGAS_ERR_CONTEXT;
    opts.listen = g.links[0].address;
    good = good && pgas_replica_create(&opts, &replica) == PGAS_ERR_EXISTS;
    ok(good && !replica && pgas_replica_destroy(NULL) == PGAS_OK &&
           pgas_replica_info(NULL, NULL) == PGAS_ERR_INVALID,
       "wrong options");
}

int main(void)
{
    pgas_verbs_dev_opts_t dev = PGAS_VERBS_DEV_OPTS_INIT;
    plan(54);
    dev.device = "snic";
    pgasi_group_dev_opts = &dev;
    int log = pgasi_log_set_fd(open("/dev/null", O_WRONLY | O_CLOEXEC));
    bare_start(&g, 2, REGION, 4);
    keys_count();
    versions_count();
    clients_are_counted();
    garbage_is_dropped();
    half_messages_harm_nobody();
    strangers_give_way();
    peers_must_read();
    requests_are_checked();
    opens_fit_the_list();
    newer_lists_end_chains();
    freezes_end();
    changes_are_noted();
    nothing_is_left();
    descriptors_run_out();
    idle_replicas_sleep();
    options_are_checked();
    bare_stop(&g);
    close(pgasi_log_set_fd(log));
    return done();
}
