/* The objects of the fake cards, and the thread that watches their doorbells.
 *
 * A real card sees a doorbell when it is written. Here a thread polls the memory that a doorbell
 * changes: the records of queues, which are written before it, and the doorbell registers of
 * managed queues, whose record alone has no meaning. Two doorbells between two polls count as one;
 * this is right because each gives the fill level of the queue. The thread spins while there is
 * work, then sleeps shortly. One lock guards everything, so no object is read after the command
 * that has destroyed it has returned. */
#include <endian.h>
#include <errno.h>
#include <fcntl.h>
#include <infiniband/verbs.h>
#include <rdma/ib_user_verbs.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>
#include "t/shim/shim.h"

enum {
    OBJECTS = 1 << 16,
    SPINS = 2000,
    SLEEP_NS = 20000,
    BELL = 0x800,
    BELL_STEP = 0x100,
    N_BELLS = 8
};
enum { RECORD_RECV, RECORD_SEND };

#define LINK_LOCAL(last)                                                 \
    {                                                                    \
        0xfe, 0x80, 0, 0, 0, 0, 0, 0, 0x5e, 0x50, 0x41, 0, 0, 0, 0, last \
    }
#define IPV4                                                   \
    {                                                          \
        0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 192, 0, 2, 1 \
    }
/* As t/shim/sysfs.sh shows them. */
const shim_card_t shim_cards[SHIM_CARDS] = {
    { .chains = true, .lid = 17, .n_gids = 1, .gids = { LINK_LOCAL(1) } },
    { .ethernet = true,
      .chains = true,
      .mac = { 0x5e, 0x50, 0x41, 0, 0, 2 },
      .n_gids = 4,
      .gids = { LINK_LOCAL(2), LINK_LOCAL(2), IPV4, IPV4 },
      .gid_v2 = { false, true, false, true } },
    { .lid = 18, .n_gids = 1, .gids = { LINK_LOCAL(3) } },
    { .chains = true, .lid = 19, .n_gids = 1, .gids = { LINK_LOCAL(4) } },
    { .chains = true, .lid = 20, .n_gids = 1, .gids = { LINK_LOCAL(5) } },
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static int n_waiting; /* commands that want the lock */
static pgasi_snic_t *snic;
static pthread_t looker;
static bool stopping;
static shim_object_t *objects[OBJECTS]; /* by handle; 0 is none */
static uint32_t n_objects = 1;          /* handles that were ever used */

void shim_begin(void)
{
    __atomic_fetch_add(&n_waiting, 1, __ATOMIC_SEQ_CST);
    pthread_mutex_lock(&lock);
    __atomic_fetch_sub(&n_waiting, 1, __ATOMIC_SEQ_CST);
}

void shim_end(void)
{
    pthread_mutex_unlock(&lock);
}

/* ---- looking ---- */

static uint32_t changed(shim_object_t *object, int word)
{
    uint32_t now = __atomic_load_n(&object->record[word], __ATOMIC_ACQUIRE),
             before = object->seen[word];
    object->seen[word] = now;
    return now != before;
}

static bool look_at_qp(shim_object_t *qp)
{
    if (qp->state < IBV_QPS_RTR)
        return false;
    bool found = false;
    if (changed(qp, RECORD_RECV)) {
        pgasi_snic_recv_posted(snic, qp->number);
        found = true;
    }
    if (!qp->managed_send && qp->state >= IBV_QPS_RTS && changed(qp, RECORD_SEND)) {
        pgasi_snic_ring(snic, qp->number, be32toh(qp->seen[RECORD_SEND]) & 0xffff);
        found = true;
    }
    return found;
}

static void put_event(shim_object_t *cq)
{
    struct ib_uverbs_comp_event_desc event = { .cq_handle = cq->user_handle };
    if (write(cq->uses[0]->pipe[1], &event, sizeof event) == (ssize_t)sizeof event)
        cq->n_events++;
}

/* A record's second word asks for an event: two bits of a counter, a bit for solicited ones alone,
 * the consumer index. */
static bool look_at_cq(shim_object_t *cq)
{
    bool found = false;
    if (!cq->dead && pgasi_snic_cq_dead(snic, cq->number)) {
        struct ib_uverbs_async_event_desc event = { .element = cq->user_handle,
                                                    .event_type = IBV_EVENT_CQ_ERR };
        cq->dead =
            write(cq->context->events->pipe[1], &event, sizeof event) == (ssize_t)sizeof event;
    }
    if (cq->pipe[0] < 0)
        return false;
    if (changed(cq, 1)) {
        if (!pgasi_snic_cq_arm(snic, cq->number, be32toh(cq->seen[1]) >> 24 & 1))
            put_event(cq);
        found = true;
    }
    char byte;
    while (read(cq->pipe[0], &byte, 1) == 1) {
        put_event(cq);
        found = true;
    }
    return found;
}

/* The first eight bytes of the last entry: its index and opcode, the queue's number and its
 * length. */
static bool look_at_bells(shim_object_t *uar)
{
    bool found = false;
    for (int k = 0; k < N_BELLS; k++) {
        uint64_t now = __atomic_load_n((uint64_t *)(void *)(uar->page + BELL + k * BELL_STEP),
                                       __ATOMIC_ACQUIRE);
        if (now == uar->bells[k])
            continue;
        uar->bells[k] = now;
        uint32_t words[2];
        memcpy(words, &now, sizeof words);
        shim_object_t *qp = shim_find_number(SHIM_QP, be32toh(words[1]) >> 8);
        if (!qp || !qp->managed_send || qp->state < IBV_QPS_RTS)
            continue;
        uint32_t index = be32toh(words[0]) >> 8 & 0xffff, segments = be32toh(words[1]) & 0x3f;
        pgasi_snic_ring(snic, qp->number, (index + pgasi_wqe_blocks(segments)) & 0xffff);
        found = true;
    }
    return found;
}

static bool look(void)
{
    bool found = false;
    for (uint32_t k = 1; k < n_objects; k++) {
        shim_object_t *object = objects[k];
        if (!object)
            continue;
        switch (object->kind) {
        case SHIM_QP:
            found |= look_at_qp(object);
            break;
        case SHIM_CQ:
            found |= look_at_cq(object);
            break;
        case SHIM_UAR:
            found |= look_at_bells(object);
            break;
        case SHIM_SRQ:
            if (changed(object, 0)) {
                pgasi_snic_srq_posted(snic, object->number);
                found = true;
            }
            break;
        default:
            break;
        }
    }
    return pgasi_snic_run(snic) || found;
}

static void *look_on(void *arg)
{
    int idle = 0;
    while (!__atomic_load_n(&stopping, __ATOMIC_ACQUIRE)) {
        if (__atomic_load_n(&n_waiting, __ATOMIC_ACQUIRE)) {
            sched_yield();
            continue;
        }
        pthread_mutex_lock(&lock);
        idle = look() ? 0 : idle + 1;
        pthread_mutex_unlock(&lock);
        if (idle >= SPINS) {
            struct timespec shortly = { 0, SLEEP_NS };
            nanosleep(&shortly, NULL);
        } else if (idle) {
            sched_yield();
        }
    }
    return arg;
}

pgasi_snic_t *shim_engine(void)
{
    if (snic)
        return snic;
    const char *adversary = getenv("SHIM_ADVERSARY"), *seed = getenv("TAP_SEED");
    pgasi_snic_opts_t opts = { .engine = PGAS_VERBS_ENGINE_CALLER, .in_process = true };
    opts.adversary = adversary ? (uint32_t)strtoul(adversary, NULL, 0) : 0;
    opts.seed = seed ? strtoull(seed, NULL, 0) : 0;
    if (pgasi_snic_open(&opts, &snic) != PGAS_OK)
        return snic = NULL;
    if (pthread_create(&looker, NULL, look_on, NULL)) {
        pgasi_snic_close(snic);
        snic = NULL;
    }
    return snic;
}

/* The library is unloaded when the program ends: the thread must not read memory that is unmapped
 * then. */
__attribute__((destructor)) static void stop(void)
{
    if (!snic)
        return;
    __atomic_store_n(&stopping, true, __ATOMIC_RELEASE);
    pthread_join(looker, NULL);
    pgasi_snic_close(snic);
    snic = NULL;
}

/* ---- objects ---- */

shim_object_t *shim_new(shim_context_t *context, shim_kind_t kind)
{
    uint32_t handle = 1;
    while (handle < n_objects && objects[handle])
        handle++;
    shim_object_t *object = handle < OBJECTS ? calloc(1, sizeof *object) : NULL;
    if (!object)
        return NULL;
    object->kind = kind;
    object->context = context;
    object->handle = handle;
    object->pipe[0] = object->pipe[1] = object->page_fd = -1;
    objects[handle] = object;
    if (handle == n_objects)
        n_objects++;
    return object;
}

void shim_use(shim_object_t *user, shim_object_t *used)
{
    if (!used)
        return;
    int k = 0;
    while (user->uses[k])
        k++;
    user->uses[k] = used;
    used->n_users++;
}

shim_object_t *shim_find(const shim_context_t *context, shim_kind_t kind, uint32_t handle)
{
    shim_object_t *object = handle < OBJECTS ? objects[handle] : NULL;
    return object && object->kind == kind && object->context == context ? object : NULL;
}

shim_object_t *shim_find_number(shim_kind_t kind, uint32_t number)
{
    for (uint32_t k = 1; k < n_objects; k++)
        if (objects[k] && objects[k]->kind == kind && objects[k]->number == number)
            return objects[k];
    return NULL;
}

static void close_at_engine(const shim_object_t *object)
{
    switch (object->kind) {
    case SHIM_MR:
        pgasi_snic_mr_close(snic, object->number);
        break;
    case SHIM_CQ:
        pgasi_snic_cq_close(snic, object->number);
        break;
    case SHIM_SRQ:
        pgasi_snic_srq_close(snic, object->number);
        break;
    case SHIM_QP:
        pgasi_snic_qp_close(snic, object->number);
        break;
    default:
        break; /* domains have no end; the rest is ours alone */
    }
}

int shim_destroy(shim_object_t *object)
{
    if (object->n_users > 0)
        return EBUSY;
    if (object->number)
        close_at_engine(object);
    for (int k = 0; k < 4 && object->uses[k]; k++)
        object->uses[k]->n_users--;
    for (int k = 0; k < 2; k++)
        if (object->pipe[k] >= 0)
            close(object->pipe[k]);
    if (object->page)
        munmap(object->page, SHIM_PAGE);
    if (object->page_fd >= 0)
        close(object->page_fd);
    objects[object->handle] = NULL;
    free(object);
    return 0;
}

void shim_destroy_all(const shim_context_t *context)
{
    static const shim_kind_t order[] = { SHIM_QP,      SHIM_SRQ,  SHIM_CQ,  SHIM_MR, SHIM_AH,
                                         SHIM_CHANNEL, SHIM_UMEM, SHIM_UAR, SHIM_PD };
    for (unsigned k = 0; k < sizeof order / sizeof *order; k++) {
        for (uint32_t handle = 1; handle < n_objects; handle++) {
            shim_object_t *object = objects[handle];
            if (object && object->context == context && object->kind == order[k])
                shim_destroy(object);
        }
    }
}

/* The program and the shim read from the same pipe. Events of another queue are written back. All
 * kinds of events begin with their owner. */
uint32_t shim_retract_events(const shim_object_t *channel, const shim_object_t *cq,
                             size_t event_bytes)
{
    uint32_t n = 0;
    if (!channel)
        return 0;
    char events[4096];
    ssize_t got = read(channel->pipe[0], events, sizeof events / event_bytes * event_bytes);
    for (ssize_t at = 0; at < got; at += (ssize_t)event_bytes) {
        uint64_t handle;
        memcpy(&handle, events + at, sizeof handle);
        if (handle == cq->user_handle)
            n++;
        else if (write(channel->pipe[1], events + at, event_bytes) < 0)
            abort(); /* there was room for it before */
    }
    return n;
}

int shim_page_fd(uint32_t page_index)
{
    shim_object_t *uar = page_index < OBJECTS ? objects[page_index] : NULL;
    return uar && uar->kind == SHIM_UAR ? uar->page_fd : -1;
}

/* ---- queue pairs ---- */

shim_object_t *shim_qp_new(shim_context_t *context, shim_qp_t *qp)
{
    shim_object_t *object = shim_new(context, SHIM_QP);
    if (!object)
        return NULL;
    qp->opts.pd = qp->pd->number;
    qp->opts.send_cqn = qp->send_cq->number;
    qp->opts.recv_cqn = qp->recv_cq->number;
    qp->opts.srqn = qp->srq ? qp->srq->number : 0;
    object->number = pgasi_snic_qp_open(snic, &qp->opts);
    if (!object->number) {
        shim_destroy(object);
        return NULL;
    }
    shim_use(object, qp->pd);
    shim_use(object, qp->send_cq);
    shim_use(object, qp->recv_cq);
    shim_use(object, qp->srq);
    object->managed_send = qp->opts.flags & PGASI_SNIC_MANAGED_SEND;
    return object;
}

int shim_qp_modify(shim_object_t *qp, int state, const pgasi_snic_qp_state_t *values)
{
    pgas_status_t status = pgasi_snic_qp_modify(snic, qp->number, values);
    if (status != PGAS_OK)
        return status == PGAS_ERR_NO_MEMORY ? ENOMEM : EINVAL;
    qp->state = state;
    if (state == IBV_QPS_RESET)
        qp->seen[0] = qp->seen[1] = 0;
    return 0;
}

uint32_t shim_route_lid(const shim_context_t *context, uint16_t lid, uint32_t qpn)
{
    for (int k = 0; k < SHIM_CARDS; k++)
        if (!context->card->ethernet && !shim_cards[k].ethernet && shim_cards[k].lid == lid)
            return qpn;
    return 0;
}

uint32_t shim_route_gid(const shim_context_t *context, int gid_index, const uint8_t *gid,
                        const uint8_t *mac, uint32_t qpn)
{
    const shim_card_t *from = context->card;
    if (gid_index < 0 || gid_index >= from->n_gids)
        return 0;
    for (int k = 0; k < SHIM_CARDS; k++) {
        const shim_card_t *card = &shim_cards[k];
        if (card->ethernet != from->ethernet || (mac && memcmp(mac, card->mac, sizeof card->mac)))
            continue;
        for (int j = 0; j < card->n_gids; j++)
            if (!memcmp(card->gids[j], gid, sizeof card->gids[j]) &&
                card->gid_v2[j] == from->gid_v2[gid_index])
                return qpn;
    }
    return 0;
}

uint32_t shim_access(uint32_t ibv_access_flags)
{
    return (ibv_access_flags & IBV_ACCESS_LOCAL_WRITE ? PGAS_VERBS_LOCAL_WRITE : 0) |
           (ibv_access_flags & IBV_ACCESS_REMOTE_WRITE ? PGAS_VERBS_REMOTE_WRITE : 0) |
           (ibv_access_flags & IBV_ACCESS_REMOTE_READ ? PGAS_VERBS_REMOTE_READ : 0) |
           (ibv_access_flags & IBV_ACCESS_REMOTE_ATOMIC ? PGAS_VERBS_REMOTE_ATOMIC : 0);
}
