/* Clients of groups: joining, chains, leaving. Control messages go to each member over its own
 * connection; a chain of three replicas needs about ten of them, so they take turns. */
#include "group/forming.h"

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>
#include "base/checks.h"
#include "base/clock.h"
#include "group/device.h"

#define PIECE_DEFAULT  (64u << 10) /* larger ones are hardly faster, and take more room */
#define WINDOW_BYTES   (16u << 20) /* of data, by default */
#define WINDOW_DEFAULT 64u
#define TIMEOUT_US     INT64_C(10000000)
#define SLOTS_MIN      8u
#define STAGING_BYTES  (UINT64_C(32) << 20) /* of a replica, unless the window needs more */
#define LEAVE_NS       (2 * PGASI_NS_PER_S)
#define RETRY_US       1000 /* while the list of members is changing */

/* ---- requests ---- */

void pgasi_group_hang_up(pgasi_group_link_t *link)
{
    if (link->fd >= 0)
        close(link->fd);
    free(link->in.body);
    link->fd = -1;
    link->in = (pgasi_group_in_t){ .body = NULL };
}

/* Receives the answer to the last request. */
static pgas_status_t take_answer(pgas_group_t *g, pgasi_group_link_t *link, uint16_t answer,
                                 uint64_t limit_ns, bool *refused_p)
{
    for (;;) {
        pgas_status_t status = pgasi_group_recv(link->fd, &link->in, limit_ns);
        if (status != PGAS_OK)
            return status;
        const pgasi_group_head_t *head = &link->in.head;
        if (head->type == PGASI_GROUP_NOTICE) {
            pgasi_group_take_notice(g, link);
            continue;
        }
        if (head->number != link->number)
            return PGAS_ERR_FORMAT;
        if (head->type == PGASI_GROUP_REFUSED) {
            pgasi_group_refused_t refused;
            memcpy(&refused, link->in.body, sizeof refused);
            PGASI_DEBUG("group", "%s refused: %s", link->name.address, refused.reason);
            *refused_p = true;
            return refused.status < 0 ? (pgas_status_t)refused.status : PGAS_ERR_FORMAT;
        }
        return head->type == answer ? PGAS_OK : PGAS_ERR_FORMAT;
    }
}

pgas_status_t pgasi_group_ask(pgas_group_t *g, pgasi_group_link_t *link, uint16_t type,
                              const void *body, uint32_t bytes, uint16_t answer, uint64_t limit_ns)
{
    bool refused = false;
    if (link->fd < 0)
        return PGAS_ERR_PEER;
    pgas_status_t status = pgasi_group_send(link->fd, type, ++link->number, body, bytes, limit_ns);
    if (status == PGAS_OK)
        status = take_answer(g, link, answer, limit_ns, &refused);
    if (status != PGAS_OK && !refused)
        pgasi_group_hang_up(link); /* an answer may still come, but no call waits for it */
    return status;
}

pgas_status_t pgasi_group_hello(pgas_group_t *g, pgasi_group_link_t *link, uint64_t limit_ns)
{
    pgasi_group_hello_t hello = { .client = g->client };
    memcpy(hello.key, g->key, sizeof hello.key);
    pgas_status_t status = pgasi_group_ask(g, link, PGASI_GROUP_HELLO, &hello, sizeof hello,
                                           PGASI_GROUP_WELCOME, limit_ns);
    if (status == PGAS_OK)
        memcpy(&link->welcome, link->in.body, sizeof link->welcome);
    return status;
}

pgas_status_t pgasi_group_greet(pgas_group_t *g, const char *address, uint64_t limit_ns,
                                pgasi_group_link_t *link)
{
    *link = (pgasi_group_link_t){ .fd = -1 };
    if (strlen(address) >= sizeof link->name.address)
        return PGAS_ERR_INVALID;
    memcpy(link->name.address, address, strlen(address) + 1);
    pgas_status_t status = pgasi_group_dial(address, limit_ns, &link->fd);
    if (status != PGAS_OK)
        return status == PGAS_ERR_FORMAT ? PGAS_ERR_INVALID : status;
    status = pgasi_group_hello(g, link, limit_ns);
    if (status != PGAS_OK)
        pgasi_group_hang_up(link);
    link->name.id = link->welcome.id;
    return status;
}

/* ---- chains ---- */

static pgas_status_t open_members(pgas_group_t *g, uint64_t limit_ns, int *failed_p)
{
    for (uint32_t i = 0; i < g->n; i++) {
        pgasi_group_link_t *link = &g->links[i];
        const pgasi_group_open_t open = { .epoch = g->epoch,
                                          .first = g->window.base,
                                          .way = g->way,
                                          .slots = g->slots,
                                          .piece = g->piece_bytes,
                                          .n = g->n,
                                          .position = i };
        *failed_p = (int)i;
        pgas_status_t status = pgasi_group_ask(g, link, PGASI_GROUP_OPEN, &open, sizeof open,
                                               PGASI_GROUP_OPENED, limit_ns);
        if (status != PGAS_OK)
            return status;
        memcpy(&link->opened, link->in.body, sizeof link->opened);
        g->members[i] = link->opened.member;
        if (g->members[i].region_bytes != g->region_bytes || g->members[i].slots < g->slots)
            return PGAS_ERR_FORMAT;
        const void *old = link->in.body + sizeof link->opened;
        status = pgasi_group_window_opened(&g->window, i, link->opened.executed, old,
                                           link->opened.n_old);
        if (status != PGAS_OK)
            return status;
    }
    *failed_p = -1;
    return PGAS_OK;
}

/* The last member first, so that each one can send as soon as it is connected. */
static pgas_status_t connect_members(pgas_group_t *g, uint64_t limit_ns, int *failed_p)
{
    for (uint32_t i = g->n; i-- > 0;) {
        pgasi_group_connect_t connect;
        g->carrier->peers(g, i, &connect);
        *failed_p = (int)i;
        pgas_status_t status = pgasi_group_ask(g, &g->links[i], PGASI_GROUP_CONNECT, &connect,
                                               sizeof connect, PGASI_GROUP_DONE, limit_ns);
        if (status != PGAS_OK)
            return status;
        pgasi_group_window_arm(&g->window, i, g->members[i].slots);
    }
    *failed_p = -1;
    return PGAS_OK;
}

pgas_status_t pgasi_group_form(pgas_group_t *g, uint64_t limit_ns, int *failed_p)
{
    *failed_p = -1;
    g->layout = pgasi_group_layout(g->way == PGAS_GROUP_CHAIN, g->n, g->piece_bytes);
    pgas_status_t status = g->carrier->open(g);
    if (status != PGAS_OK)
        return status;
    status = open_members(g, limit_ns, failed_p);
    if (status == PGAS_OK)
        status = g->carrier->connect(g);
    if (status == PGAS_OK)
        status = connect_members(g, limit_ns, failed_p);
    if (status != PGAS_OK) {
        g->carrier->close(g);
        return status;
    }
    g->has_chain = true;
    g->condition = PGASI_GROUP_RUNS;
    g->dead = -1;
    g->sent_at_refresh = g->window.sent;
    return PGAS_OK;
}

void pgasi_group_end(pgas_group_t *g)
{
    if (!g->has_chain)
        return;
    while (g->carrier->poll(g) > 0)
        ;
    g->n_resent += g->window.sent - g->window.acked;
    g->carrier->close(g);
    g->has_chain = false;
}

/* The replicas drop their records of this client. */
static void say_goodbye(pgas_group_t *g)
{
    uint64_t limit_ns = pgasi_now_ns() + LEAVE_NS;
    for (uint32_t i = 0; i < g->n; i++)
        pgasi_group_ask(g, &g->links[i], PGASI_GROUP_LEAVE, NULL, 0, PGASI_GROUP_DONE, limit_ns);
}

void pgasi_group_hang_up_all(pgas_group_t *g)
{
    for (uint32_t i = 0; i < g->n; i++)
        pgasi_group_hang_up(&g->links[i]);
    g->n = 0;
}

/* ---- groups ---- */

pgas_status_t pgasi_group_read_opts(const pgas_group_opts_t *given, pgas_group_opts_t *opts_p)
{
    *opts_p = (pgas_group_opts_t)PGAS_GROUP_OPTS_INIT;
    if (given && given->size != sizeof *opts_p)
        return PGAS_ERR_INVALID;
    if (given)
        *opts_p = *given;
    if ((unsigned)opts_p->way > PGAS_GROUP_CALLS ||
        (unsigned)opts_p->full > PGAS_GROUP_FULL_AGAIN || opts_p->piece > PGASI_GROUP_PIECE_MAX)
        return PGAS_ERR_INVALID;
    return opts_p->window <= PGAS_GROUP_WINDOW_MAX ? PGAS_OK : PGAS_ERR_LIMIT;
}

/* Twice the window, or more: replicas that are late to make entries ready should not matter, and a
 * wakeup for many entries is cheaper. */
static uint32_t choose_slots(const pgas_group_t *g)
{
    uint32_t slots = PGASI_MAX(pgasi_pow2_up(2 * g->size), SLOTS_MIN);
    while (slots < pgasi_group_slots_wanted &&
           2 * slots * (uint64_t)g->piece_bytes <= STAGING_BYTES)
        slots *= 2;
    return slots;
}

pgas_status_t pgasi_group_make(const pgas_group_opts_t *given, pgas_group_t **g_p)
{
    pgas_group_opts_t opts;
    pgas_status_t status = pgasi_group_read_opts(given, &opts);
    if (status != PGAS_OK)
        return status;
    pgas_group_t *g = calloc(1, sizeof *g);
    if (g == NULL)
        return PGAS_ERR_NO_MEMORY;
    g->full = opts.full;
    g->events = opts.events;
    g->size = opts.window ? opts.window : WINDOW_DEFAULT;
    g->piece_bytes = opts.piece ? opts.piece : PGASI_MIN(WINDOW_BYTES / g->size, PIECE_DEFAULT);
    g->piece_bytes = (uint32_t)PGASI_ALIGN_UP(g->piece_bytes, 64u);
    g->slots = choose_slots(g);
    g->timeout_us = opts.timeout_us ? opts.timeout_us : TIMEOUT_US;
    g->wanted_way = opts.way != PGAS_GROUP_AUTO ? opts.way : pgasi_group_way();
    g->client = pgasi_group_random();
    g->is_client = true;
    g->dead = -1;
    g->carrier = &pgasi_group_by_queues;
    status = pgasi_group_key(opts.key, g->key);
    if (status == PGAS_OK && g->wanted_way != PGAS_GROUP_CALLS)
        status = pgasi_group_device_open(opts.device, &g->dev);
    if (status != PGAS_OK) {
        free(g);
        return status;
    }
    *g_p = g;
    return PGAS_OK;
}

static pgas_status_t make_data(pgas_group_t *g)
{
    size_t bytes = ((size_t)g->window.mask + 1) * g->piece_bytes;
    if (g->dev != NULL)
        return pgas_verbs_mem_register(g->dev, NULL, bytes, PGAS_VERBS_LOCAL_WRITE, &g->data_mem);
    void *addr = mmap(NULL, bytes, PROT_READ | PROT_WRITE,
                      MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (addr == MAP_FAILED)
        return PGAS_ERR_NO_MEMORY;
    g->data_mem = (pgas_verbs_mem_t){ .addr = addr, .bytes = bytes };
    return PGAS_OK;
}

pgas_status_t pgasi_group_prepare(pgas_group_t *g)
{
    pgas_status_t status = pgasi_group_window_init(&g->window, g->size, g->n);
    return status == PGAS_OK ? make_data(g) : status;
}

void pgasi_group_start(pgas_group_t *g)
{
    g->poller = (pgasi_poller_t){ .poll = pgasi_group_poll,
                                  .sleep = g->events && g->carrier->arm ? pgasi_group_sleep : NULL,
                                  .arg = g };
    pgasi_poller_add(&g->poller);
}

void pgasi_group_free(pgas_group_t *g)
{
    if (g->poller.poll != NULL)
        pgasi_poller_remove(&g->poller);
    pgasi_group_end(g);
    say_goodbye(g);
    pgasi_group_hang_up_all(g);
    pgasi_group_forget(g);
    if (g->data_mem.addr != NULL && g->dev == NULL)
        munmap(g->data_mem.addr, g->data_mem.bytes);
    else if (g->data_mem.addr != NULL)
        pgas_verbs_mem_release(g->dev, &g->data_mem);
    pgas_verbs_close(g->dev);
    pgasi_group_window_fini(&g->window);
    free(g);
}

static void rest(void)
{
    const struct timespec time = { 0, RETRY_US * 1000 };
    nanosleep(&time, NULL);
}

/* The list may change, and members may die, between the welcome of one member and the OPEN of
 * another. */
static pgas_status_t gather_and_form(pgas_group_t *g, const char *address, uint64_t limit_ns)
{
    pgas_status_t status;
    while ((status = pgasi_group_gather(g, address, limit_ns)) == PGAS_ERR_AGAIN &&
           pgasi_now_ns() < limit_ns)
        rest();
    if (status == PGAS_OK)
        status = pgasi_group_prepare(g);
    if (status == PGAS_OK)
        status = pgasi_group_try(g, false, limit_ns);
    while (status == PGAS_ERR_AGAIN && pgasi_now_ns() < limit_ns) {
        rest();
        status = pgasi_group_try(g, false, limit_ns);
    }
    return status == PGAS_ERR_AGAIN ? PGAS_ERR_TIMEOUT : status;
}

pgas_status_t pgasi_group_enter(pgas_group_t *g, const char *address)
{
    pgas_status_t status = gather_and_form(g, address, pgasi_limit_ns(g->timeout_us));
    if (status == PGAS_OK)
        pgasi_group_start(g);
    return status;
}

pgas_status_t pgas_group_join(const char *address, const pgas_group_opts_t *opts,
                              pgas_group_t **group_p)
{
    pgas_group_t *g = NULL;
    if (!address || !group_p)
        return PGAS_ERR_INVALID;
    pgas_status_t status = pgasi_group_make(opts, &g);
    if (status != PGAS_OK)
        return status;
    status = pgasi_group_enter(g, address);
    if (status != PGAS_OK) {
        pgasi_group_free(g);
        return status;
    }
    *group_p = g;
    return PGAS_OK;
}

pgas_status_t pgasi_group_settle(pgas_group_t *g)
{
    pgas_status_t status = pgasi_group_begin(g);
    if (status != PGAS_OK)
        return status;
    pgasi_group_lock(g);
    pgasi_group_await_room(g, g->size);
    pgasi_group_unlock(g);
    pgasi_group_give_turn(g);
    return PGAS_OK;
}

static pgas_status_t leave(pgas_group_t *g)
{
    pgas_status_t status = pgasi_group_settle(g);
    if (status == PGAS_OK)
        pgasi_group_free(g);
    return status;
}

pgas_status_t pgas_group_destroy(pgas_group_t *group)
{
    if (!group)
        return PGAS_OK;
    return group->job_ops ? group->job_ops->destroy(group) : leave(group);
}
