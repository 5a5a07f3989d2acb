/** A client of replicas without any of the client's own parts: connections, requests, one chain,
 *  and pieces, at most a window under way. For tests of replicas. */
#ifndef T_GROUP_BARE_H
#define T_GROUP_BARE_H

#include <sched.h>
#include <string.h>
#include "base/clock.h"
#include "group/device.h"
#include "group/link.h"
#include "pgas/verbs_snic.h"
#include "t/must.h"

#define BARE_MAX   4 /* replicas */
#define BARE_SLOTS 64
#define BARE_NS    (20 * PGASI_NS_PER_S) /* more is taken for a hang */

typedef struct {
    int fd;
    pgasi_group_in_t in;
    uint32_t number;
    uint64_t client;
    uint64_t n_notices;
    pgasi_group_notice_t notice; /* the last one */
    pgasi_group_welcome_t welcome;
    pgasi_group_opened_t opened;
    char address[PGASI_GROUP_NAME_BYTES];
} bare_link_t;

/** Makes groups use the software NIC. engine_name: of the process that PROCESS starts; or NULL. */
static inline void use_software_nic(pgas_verbs_engine_t engine, const char *engine_name,
                                    uint32_t adversary, uint64_t seed)
{
    static pgas_verbs_snic_opts_t snic;
    static pgas_verbs_dev_opts_t dev;
    snic = (pgas_verbs_snic_opts_t){ .size = sizeof snic, .adversary = adversary, .seed = seed };
    dev = (pgas_verbs_dev_opts_t)PGAS_VERBS_DEV_OPTS_INIT;
    dev.device = "snic";
    dev.engine = engine;
    dev.engine_name = engine_name;
    dev.snic = &snic;
    pgasi_group_dev_opts = &dev;
}

static inline uint64_t bare_limit(void)
{
    return pgasi_now_ns() + BARE_NS;
}

/** Receives one message that is not a notice. @return the link's status, or that of REFUSED */
static inline pgas_status_t bare_recv(bare_link_t *l)
{
    for (;;) {
        pgas_status_t status = pgasi_group_recv(l->fd, &l->in, bare_limit());
        if (status != PGAS_OK || l->in.head.type != PGASI_GROUP_NOTICE) {
            pgasi_group_refused_t refused;
            if (status != PGAS_OK || l->in.head.type != PGASI_GROUP_REFUSED)
                return status;
            memcpy(&refused, l->in.body, sizeof refused);
            return (pgas_status_t)refused.status;
        }
        memcpy(&l->notice, l->in.body, sizeof l->notice);
        l->n_notices++;
    }
}

/** Receives messages until there have been n notices. */
static inline bool bare_notices(bare_link_t *l, uint64_t n)
{
    while (l->n_notices < n) {
        if (pgasi_group_recv(l->fd, &l->in, bare_limit()) != PGAS_OK ||
            l->in.head.type != PGASI_GROUP_NOTICE)
            return false;
        memcpy(&l->notice, l->in.body, sizeof l->notice);
        l->n_notices++;
    }
    return true;
}

/** A request and its answer. */
static inline pgas_status_t bare_ask(bare_link_t *l, uint16_t type, const void *body, size_t bytes)
{
    pgas_status_t status =
        pgasi_group_send(l->fd, type, ++l->number, body, (uint32_t)bytes, bare_limit());
    return status == PGAS_OK ? bare_recv(l) : status;
}

static inline pgas_status_t bare_hello(bare_link_t *l, const char *key, uint64_t client)
{
    pgasi_group_hello_t hello = { .client = client };
    memcpy(hello.key, key, strlen(key));
    l->client = client;
    pgas_status_t status = bare_ask(l, PGASI_GROUP_HELLO, &hello, sizeof hello);
    if (status == PGAS_OK)
        memcpy(&l->welcome, l->in.body, sizeof l->welcome);
    return status;
}

static inline void bare_dial(bare_link_t *l, const char *address)
{
    memset(l, 0, sizeof *l);
    memcpy(l->address, address, strlen(address)); /* zeros behind it: lists are compared */
    must(pgasi_group_dial(address, bare_limit(), &l->fd), "dial");
}

static inline void bare_hang_up(bare_link_t *l)
{
    close(l->fd);
    free(l->in.body);
    l->fd = -1;
    l->in.body = NULL;
}

/** Sends a list of these replicas to one of them. */
static inline pgas_status_t bare_members(bare_link_t *to, const bare_link_t *links, uint32_t n,
                                         uint64_t epoch, uint32_t flags)
{
    struct {
        pgasi_group_members_t members;
        pgasi_group_name_t names[BARE_MAX];
    } list;
    memset(&list, 0, sizeof list);
    list.members = (pgasi_group_members_t){ .epoch = epoch, .flags = flags, .n_members = n };
    for (uint32_t i = 0; i < n; i++) {
        list.names[i].id = links[i].welcome.id;
        memcpy(list.names[i].address, links[i].address, sizeof links[i].address);
    }
    return bare_ask(to, PGASI_GROUP_MEMBERS, &list, sizeof list.members + n * sizeof list.names[0]);
}

/* ---- replicas ---- */

/** Replicas of this process in chain order, each with a link to it. */
typedef struct {
    uint32_t n;
    pgas_replica_t *replicas[BARE_MAX];
    bare_link_t links[BARE_MAX];
    unsigned char *regions[BARE_MAX];
} bare_group_t;

/** With the key "secret", which joins as client 1. */
static inline void bare_start(bare_group_t *g, uint32_t n, size_t region_bytes,
                              uint32_t clients_max)
{
    pgas_replica_info_t info = { .size = sizeof info };
    char next[64] = "";
    g->n = n;
    for (uint32_t i = n; i-- > 0;) {
        pgas_replica_opts_t opts = PGAS_REPLICA_OPTS_INIT;
        opts.listen = "127.0.0.1:0";
        opts.next = next[0] != '\0' ? next : NULL;
        opts.region_bytes = region_bytes;
        opts.key = "secret";
        opts.clients_max = clients_max;
        must(pgas_replica_create(&opts, &g->replicas[i]), "a replica");
        must(pgas_replica_info(g->replicas[i], &info), "info");
        memcpy(next, info.address, sizeof next);
        g->regions[i] = info.region;
        bare_dial(&g->links[i], info.address);
        must(bare_hello(&g->links[i], "secret", 1), "HELLO");
    }
}

/** Sends the list of all of them to all of them. */
static inline void bare_list(bare_group_t *g, uint64_t epoch)
{
    for (uint32_t i = 0; i < g->n; i++)
        must(bare_members(&g->links[i], g->links, g->n, epoch, 0), "MEMBERS");
}

static inline void bare_stop(bare_group_t *g)
{
    for (uint32_t i = 0; i < g->n; i++) {
        bare_hang_up(&g->links[i]);
        must(pgas_replica_destroy(g->replicas[i]), "the end of a replica");
    }
}

/* ---- a chain ---- */

static pgas_group_way_t bare_way = PGAS_GROUP_CHAIN; /* of chains that are made from now on */

static inline bool bare_is_chain(void)
{
    return bare_way == PGAS_GROUP_CHAIN;
}

typedef struct {
    pgas_verbs_dev_t *dev;
    pgas_verbs_cq_t *send_cq, *ack_cq, *control_cq;
    pgas_verbs_qp_t *out, *ack, *control[BARE_MAX];
    pgas_verbs_mem_t mem; /* messages, then acknowledgements, then words for status */
    pgasi_group_member_t members[BARE_MAX];
    pgasi_group_layout_t layout;
    bare_link_t *links;
    uint32_t n, slots, piece;
    uint64_t sent, acked;
} bare_chain_t;

static inline unsigned char *bare_message(const bare_chain_t *c, uint64_t k)
{
    return (unsigned char *)c->mem.addr + k % c->slots * c->layout.room;
}

static inline uint64_t *bare_acknowledgement(const bare_chain_t *c, uint64_t k)
{
    return (uint64_t *)(void *)((unsigned char *)c->mem.addr +
                                (uint64_t)c->slots * c->layout.room) +
           k % c->slots * BARE_MAX;
}

static inline void bare_address(const pgas_verbs_qp_t *qp, pgas_verbs_address_t *address_p)
{
    pgas_verbs_qp_info_t info = { .size = sizeof info };
    must(pgas_verbs_qp_info(qp, &info), "an address");
    *address_p = info.address;
}

static inline pgas_verbs_qp_t *bare_qp(const bare_chain_t *c, pgas_verbs_cq_t *send_cq,
                                       pgas_verbs_cq_t *recv_cq)
{
    pgas_verbs_qp_opts_t opts = PGAS_VERBS_QP_OPTS_INIT;
    pgas_verbs_qp_t *qp = NULL;
    opts.send_cq = send_cq;
    opts.recv_cq = recv_cq;
    must(pgas_verbs_qp_create(c->dev, &opts, &qp), "a queue pair");
    return qp;
}

static inline void bare_post_ack(const bare_chain_t *c, uint64_t k)
{
    pgas_verbs_span_t span = { (uintptr_t)bare_acknowledgement(c, k), 8 * BARE_MAX, c->mem.lkey };
    pgas_verbs_recv_t recv = { k, &span, 1 };
    must(pgas_verbs_qp_recv(c->ack, &recv, 1, NULL), "a receive buffer");
}

/** Makes the client's queues. The device is pgasi_group_dev_opts's. */
static inline void bare_queues(bare_chain_t *c, bare_link_t *links, uint32_t n, uint32_t slots,
                               uint32_t piece)
{
    memset(c, 0, sizeof *c);
    c->links = links;
    c->n = n;
    c->slots = slots;
    c->piece = piece;
    c->layout = pgasi_group_layout(bare_is_chain(), n, piece);
    must(pgasi_group_device_open("snic", &c->dev), "a device");
    must(pgas_verbs_cq_create(c->dev, 1024, 0, &c->send_cq), "a completion queue");
    must(pgas_verbs_cq_create(c->dev, 1024, 0, &c->ack_cq), "a completion queue");
    must(pgas_verbs_cq_create(c->dev, 1024, 0, &c->control_cq), "a completion queue");
    size_t bytes =
        (size_t)slots * (c->layout.room + 8 * BARE_MAX) + BARE_MAX * sizeof(pgasi_group_status_t);
    must(pgas_verbs_mem_register(c->dev, NULL, bytes, PGAS_VERBS_ACCESS_ALL, &c->mem), "memory");
    c->out = bare_qp(c, c->send_cq, c->send_cq);
    c->ack = bare_qp(c, c->ack_cq, c->ack_cq);
    for (uint32_t i = 0; i < n; i++)
        c->control[i] = bare_qp(c, c->control_cq, c->control_cq);
}

static inline pgasi_group_open_t bare_open_request(const bare_chain_t *c, uint64_t epoch,
                                                   uint32_t position)
{
    return (pgasi_group_open_t){ .epoch = epoch,
                                 .way = bare_way,
                                 .slots = c->slots,
                                 .piece = c->piece,
                                 .n = c->n,
                                 .position = position };
}

/** OPEN at all, CONNECT at all, the last first. */
static inline pgas_status_t bare_open(bare_chain_t *c, uint64_t epoch)
{
    for (uint32_t i = 0; i < c->n; i++) {
        pgasi_group_open_t open = bare_open_request(c, epoch, i);
        pgas_status_t status = bare_ask(&c->links[i], PGASI_GROUP_OPEN, &open, sizeof open);
        if (status != PGAS_OK)
            return status;
        memcpy(&c->links[i].opened, c->links[i].in.body, sizeof c->links[i].opened);
        c->members[i] = c->links[i].opened.member;
    }
    must(pgas_verbs_qp_connect(c->out, &c->links[0].opened.prev), "connect");
    must(pgas_verbs_qp_connect(c->ack, &c->links[c->n - 1].opened.next), "connect");
    for (uint32_t k = 0; k < c->slots; k++)
        bare_post_ack(c, k);
    for (uint32_t i = c->n; i-- > 0;) {
        pgasi_group_connect_t connect = { .next_rank = -1, .client_rank = -1 };
        bare_address(c->out, &connect.prev);
        bare_address(c->ack, &connect.next);
        bare_address(c->control[i], &connect.control);
        if (i > 0)
            connect.prev = c->links[i - 1].opened.next;
        if (i + 1 < c->n)
            connect.next = c->links[i + 1].opened.prev;
        must(pgas_verbs_qp_connect(c->control[i], &c->links[i].opened.control), "connect");
        pgas_status_t status =
            bare_ask(&c->links[i], PGASI_GROUP_CONNECT, &connect, sizeof connect);
        if (status != PGAS_OK)
            return status;
    }
    return PGAS_OK;
}

/** Reads the status words of a replica by its card. */
static inline pgas_status_t bare_status(const bare_chain_t *c, uint32_t i,
                                        pgasi_group_status_t *status_p)
{
    pgas_verbs_completion_t got = { .status = PGAS_ERR_TIMEOUT };
    pgasi_group_status_t *words =
        (pgasi_group_status_t *)(void *)bare_acknowledgement(c, c->slots - 1) +
        BARE_MAX * 8 / sizeof(pgasi_group_status_t) + i;
    pgas_verbs_span_t span = { (uintptr_t)words, sizeof *words, c->mem.lkey };
    pgas_verbs_request_t read = { .op = PGAS_VERBS_READ,
                                  .flags = PGAS_VERBS_SIGNAL,
                                  .spans = &span,
                                  .n_spans = 1,
                                  .remote_addr = c->links[i].opened.status,
                                  .rkey = c->links[i].opened.status_rkey };
    must(pgas_verbs_qp_post(c->control[i], &read, 1, NULL), "a read");
    must(pgas_verbs_cq_wait(c->control_cq, BARE_NS / 1000), "the status words");
    pgas_verbs_cq_poll(c->control_cq, &got, 1);
    *status_p = *words;
    return got.status;
}

/** Sends a piece, without looking whether the replicas are ready. */
static inline void bare_send(bare_chain_t *c, pgasi_group_piece_t piece, const void *data)
{
    uint64_t k = c->sent++;
    unsigned char *message = bare_message(c, k);
    uint32_t data_bytes = piece.kind == PGAS_GROUP_WRITE ? piece.bytes : 0;
    piece.number = k;
    if (bare_is_chain())
        pgasi_group_programs(&piece, c->members, c->n, message);
    else
        memcpy(message, &piece, sizeof piece);
    memset(message + c->layout.old_at, 0, c->n * 8);
    if (data && data_bytes > 0)
        memcpy(message + c->layout.data_at, data, data_bytes);
    pgas_verbs_span_t span = { (uintptr_t)message,
                               pgasi_group_message_bytes(bare_is_chain(), c->n, 0, data_bytes),
                               c->mem.lkey };
    pgas_verbs_request_t send = {
        .op = PGAS_VERBS_SEND,
        .flags = PGAS_VERBS_SIGNAL | ((k + 1) % (c->slots / 4) == 0 ? PGAS_VERBS_SOLICITED : 0),
        .spans = &span,
        .n_spans = 1
    };
    must(pgas_verbs_qp_post(c->out, &send, 1, NULL), "a message");
}

/** Takes the acknowledgements that have come. @return false: the chain is broken */
static inline bool bare_take(bare_chain_t *c)
{
    pgas_verbs_completion_t got;
    bool good = true;
    while (pgas_verbs_cq_poll(c->send_cq, &got, 1) == 1)
        good = good && got.status == PGAS_OK;
    while (good && pgas_verbs_cq_poll(c->ack_cq, &got, 1) == 1) {
        good = got.status == PGAS_OK && got.bytes == 8 * c->n;
        c->acked++;
        if (good)
            bare_post_ack(c, c->acked - 1 + c->slots);
    }
    return good;
}

static inline bool bare_await(bare_chain_t *c, uint64_t acked)
{
    uint64_t limit_ns = bare_limit();
    while (c->acked < acked && pgasi_now_ns() < limit_ns) {
        if (!bare_take(c))
            return false;
        sched_yield();
    }
    return c->acked >= acked;
}

/** Waits until all replicas are ready for the next n pieces. */
static inline bool bare_await_armed(const bare_chain_t *c, uint64_t n)
{
    uint64_t limit_ns = bare_limit();
    for (uint32_t i = 0; i < c->n;) {
        pgasi_group_status_t status;
        if (bare_status(c, i, &status) != PGAS_OK || pgasi_now_ns() > limit_ns)
            return false;
        i += status.armed >= c->sent + n;
    }
    return true;
}

/** The pieces that a replica has executed for a client, and the last old words. */
typedef struct {
    uint64_t executed;
    uint32_t n_old;
    uint64_t old[PGASI_GROUP_OLD_MAX];
} bare_record_t;

/** Looks for the record of the link's client. @return false: there is none */
static inline bool bare_find_record(bare_link_t *l, bare_record_t *record_p)
{
    pgasi_group_table_t table = { 0 };
    pgasi_group_record_t record;
    do {
        must(bare_ask(l, PGASI_GROUP_TABLE, &table, sizeof table), "TABLE");
        memcpy(&record, l->in.body, sizeof record);
        table.index++;
    } while (record.client != l->client && record.client != 0);
    record_p->executed = record.executed;
    record_p->n_old = record.n_old;
    memcpy(record_p->old, l->in.body + sizeof record, record.n_old * sizeof record_p->old[0]);
    return record.client != 0;
}

/** CLOSE at one replica, which then forgets the client. @return pieces that it has executed */
static inline uint64_t bare_close(bare_link_t *l, bare_record_t *record_p)
{
    bare_record_t record;
    must(bare_ask(l, PGASI_GROUP_CLOSE, NULL, 0), "CLOSE");
    bare_find_record(l, &record);
    must(bare_ask(l, PGASI_GROUP_LEAVE, NULL, 0), "LEAVE");
    if (record_p)
        *record_p = record;
    return record.executed;
}

/** Ends the client's queues. */
static inline void bare_end(bare_chain_t *c)
{
    pgas_verbs_qp_destroy(c->out);
    pgas_verbs_qp_destroy(c->ack);
    for (uint32_t i = 0; i < c->n; i++)
        pgas_verbs_qp_destroy(c->control[i]);
    pgas_verbs_cq_destroy(c->send_cq);
    pgas_verbs_cq_destroy(c->ack_cq);
    pgas_verbs_cq_destroy(c->control_cq);
    pgas_verbs_mem_release(c->dev, &c->mem);
    must(pgas_verbs_close(c->dev), "close the device");
}

#endif
