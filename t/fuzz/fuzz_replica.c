/* what: A client that knows the key may send any requests, in any order, and end at any moment. The
 *       replica answers or closes the connection. Its other clients are served, and nothing is left
 *       behind.
 * source: group/wire.h; libFuzzer
 * Input: requests, each a byte that picks the type, a byte of choices, and bytes that replace parts
 *        of a sound body. */
#include <fcntl.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include "base/clock.h"
#include "base/log.h"
#include "group/device.h"
#include "group/link.h"
#include "group/replica.h"
#include "t/fuzz/require.h"
#include "verbs_backend/queue/device.h"

#define REGION     65536
#define REQUESTS   24 /* of one input */
#define PATCH_MAX  24 /* bytes of a request that the input determines */
#define LIMIT_NS   (20 * PGASI_NS_PER_S)
#define EPOCH_STEP 4

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n_bytes);

static pgas_replica_t *replica;
static pgas_replica_info_t info = { .size = sizeof info };
static int well_fd = -1; /* of a client that is served all the time */
static pgasi_group_in_t well_in;
static int n_objects;

static uint64_t limit(void)
{
    return pgasi_now_ns() + LIMIT_NS;
}

static int greet(uint64_t client, pgasi_group_in_t *in)
{
    int fd = -1;
    const pgasi_group_hello_t hello = { .client = client };
    require(pgasi_group_dial(info.address, limit(), &fd) == PGAS_OK, "a client can dial");
    pgas_status_t status =
        pgasi_group_send(fd, PGASI_GROUP_HELLO, 1, &hello, sizeof hello, limit());
    if (status == PGAS_OK)
        status = pgasi_group_recv(fd, in, limit());
    require(status == PGAS_OK && in->head.type == PGASI_GROUP_WELCOME, "a client is welcome");
    return fd;
}

static void start(void)
{
    static pgas_verbs_dev_opts_t dev = PGAS_VERBS_DEV_OPTS_INIT;
    pgas_replica_opts_t opts = PGAS_REPLICA_OPTS_INIT;
    if (replica)
        return;
    pgasi_log_set_fd(open("/dev/null", O_WRONLY));
    dev.device = "snic";
    pgasi_group_dev_opts = &dev;
    opts.listen = "127.0.0.1:0";
    opts.region_bytes = REGION;
    require(pgas_replica_create(&opts, &replica) == PGAS_OK, "a replica");
    require(pgas_replica_info(replica, &info) == PGAS_OK, "info");
    well_fd = greet(1, &well_in);
    n_objects = __atomic_load_n(&replica->dev->n_open, __ATOMIC_ACQUIRE);
}

/* ---- requests ---- */

typedef union {
    unsigned char bytes[1024];
    pgasi_group_hello_t hello;
    struct {
        pgasi_group_members_t members;
        pgasi_group_name_t names[2];
    } list;
    pgasi_group_open_t open;
    pgasi_group_connect_t connect;
    pgasi_group_range_t range;
    pgasi_group_copy_t copy;
} body_t;

/* A sound request, as far as the type is one. The last OPENED has addresses to connect to.
 * @return its bytes */
static uint32_t sound_body(uint16_t type, unsigned choices, const pgasi_group_opened_t *opened,
                           body_t *body)
{
    uint64_t epoch = 0;
    pthread_mutex_lock(&replica->lock);
    epoch = replica->list.epoch;
    pthread_mutex_unlock(&replica->lock);
    memset(body, 0, sizeof *body);
    switch (type) {
    case PGASI_GROUP_HELLO:
        body->hello.client = 2 + choices % 4;
        return sizeof body->hello;
    case PGASI_GROUP_MEMBERS:
        body->list.members.epoch = epoch + choices % EPOCH_STEP;
        body->list.members.flags = choices >> 7;
        body->list.members.n_members = 1;
        body->list.names[0].id = replica->id;
        memcpy(body->list.names[0].address, info.address, sizeof info.address);
        return sizeof body->list.members + sizeof body->list.names[0];
    case PGASI_GROUP_OPEN:
        body->open.epoch = epoch;
        body->open.way = choices % 2 ? PGAS_GROUP_CHAIN : PGAS_GROUP_VERBS;
        body->open.slots = 1u << choices % 8;
        body->open.piece = 64;
        body->open.n = 1;
        return sizeof body->open;
    case PGASI_GROUP_CONNECT: /* to itself, the client's queue pairs are not there */
        body->connect.prev = opened->next;
        body->connect.next = opened->prev;
        body->connect.control = opened->control;
        body->connect.next_rank = body->connect.client_rank = -1;
        return sizeof body->connect;
    case PGASI_GROUP_READ:
        body->range.offset = choices * 300;
        body->range.bytes = 300;
        return sizeof body->range;
    case PGASI_GROUP_COPY:
        memcpy(body->copy.from, "127.0.0.1:1", 12);
        return sizeof body->copy;
    default:
        return 0;
    }
}

/* ---- a client ---- */

/* Takes an answer; notices may come before it. @return false: the connection has ended */
static bool take_answer(int fd, pgasi_group_in_t *in, pgasi_group_opened_t *opened)
{
    pgas_status_t status;
    do
        status = pgasi_group_recv(fd, in, limit());
    while (status == PGAS_OK && in->head.type == PGASI_GROUP_NOTICE);
    require(status == PGAS_OK || status == PGAS_ERR_PEER, "a sound answer, or the end");
    if (status == PGAS_OK && in->head.type == PGASI_GROUP_OPENED)
        memcpy(opened, in->body, sizeof *opened);
    return status == PGAS_OK;
}

static void run_client(const uint8_t *data, size_t n_bytes)
{
    pgasi_group_in_t in = { .got = 0 };
    pgasi_group_opened_t opened;
    body_t body;
    size_t at = 0;
    bool alive = true;
    memset(&opened, 0, sizeof opened);
    int fd = greet(2, &in);
    for (uint32_t i = 0; i < REQUESTS && alive && at + 3 <= n_bytes; i++) {
        uint16_t type = 1 + data[at] % (PGASI_GROUP_N_TYPES - 1);
        unsigned choices = data[at + 1], patch = data[at + 2];
        at += 3;
        uint32_t bytes = sound_body(type, choices, &opened, &body);
        if (patch % 4 == 0) { /* others are sound */
            uint32_t n = (uint32_t)(n_bytes - at < PATCH_MAX ? n_bytes - at : PATCH_MAX);
            n = n < patch / 4 ? n : patch / 4;
            memcpy(body.bytes + (bytes > n ? choices % (bytes - n) : 0), data + at, n);
            at += n;
        }
        alive = pgasi_group_send(fd, type, i + 2, body.bytes, bytes, limit()) == PGAS_OK &&
                take_answer(fd, &in, &opened);
    }
    close(fd);
    free(in.body);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n_bytes)
{
    start();
    run_client(data, n_bytes);
    uint64_t limit_ns = limit();
    pgasi_group_state_t state = { .n_clients = 2 };
    while (state.n_clients != 1 && pgasi_now_ns() < limit_ns) {
        require(pgasi_group_send(well_fd, PGASI_GROUP_STATE, 2, NULL, 0, limit()) == PGAS_OK,
                "another client asks");
        do
            require(pgasi_group_recv(well_fd, &well_in, limit()) == PGAS_OK, "and is answered");
        while (well_in.head.type == PGASI_GROUP_NOTICE);
        require(well_in.head.type == PGASI_GROUP_STATE, "with the state");
        memcpy(&state, well_in.body, sizeof state);
    }
    require(state.n_clients == 1, "the end is noticed");
    require(__atomic_load_n(&replica->dev->n_open, __ATOMIC_ACQUIRE) == n_objects,
            "nothing is left of a client");
    return 0;
}
