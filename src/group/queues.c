/* The client's queue pairs, for the ways chain and verbs.
 *
 *      out        sends the messages to the first replica: programs and old words from a head, and
 *                 the data from the window's place for the piece
 *      ack        receives the old words from the last replica, in order
 *      control    one for each replica: reads its status words
 *
 * A piece costs one request and its part of a receive batch. A doorbell is rung for each batch of
 * up to 32 pieces. Nothing allocates. Of the sends one of 32 is signaled, so that the queue's room
 * is known. */
#include "group/client.h"

#include <stdlib.h>
#include <string.h>
#include "base/checks.h"
#include "base/clock.h"
#include "group/device.h"

#define BATCH        32u
#define STATUS_BYTES 64u
#define ACCESS       (PGAS_VERBS_LOCAL_WRITE | PGAS_VERBS_REMOTE_READ | PGAS_VERBS_REMOTE_WRITE)

struct pgasi_group_queues {
    pgas_verbs_cq_t *out_cq, *ack_cq, *control_cq;
    pgas_verbs_qp_t *out, *ack, *control[PGAS_GROUP_REPLICAS_MAX];
    pgas_verbs_mem_t mem; /* heads, acknowledgements, status words */
    unsigned char *heads, *acks, *status;
    uint32_t head_stride, ack_bytes;
    uint32_t n_acks;              /* receive buffers, a power of two */
    uint64_t n_taken, n_received; /* acknowledgements taken, buffers posted */
    uint32_t out_depth;
    uint64_t n_out, n_out_done; /* sends posted; those that are known to be complete */
    uint32_t n_reading;
    bool is_reading[PGAS_GROUP_REPLICAS_MAX];
    bool has_failed; /* no more sends */
};

static pgasi_group_queues_t *queues_of(const pgas_group_t *g)
{
    return g->carried;
}

/* ---- making queues ---- */

static pgas_status_t make_qp(pgas_group_t *g, pgas_verbs_cq_t *cq, uint32_t send_depth,
                             uint32_t recv_depth, pgas_verbs_qp_t **qp_p)
{
    pgas_verbs_qp_opts_t opts = PGAS_VERBS_QP_OPTS_INIT;
    opts.send_cq = opts.recv_cq = cq;
    opts.send_depth = send_depth;
    opts.recv_depth = recv_depth;
    opts.send_spans = 2;
    opts.inline_max = 8;
    opts.access = ACCESS;
    return pgas_verbs_qp_create(g->dev, &opts, qp_p);
}

static pgas_status_t make_memory(pgas_group_t *g, pgasi_group_queues_t *q)
{
    uint32_t n_heads = g->window.mask + 1;
    q->n_acks = PGASI_MAX(2 * n_heads, 4u);
    q->head_stride = (uint32_t)PGASI_ALIGN_UP(g->layout.data_at, 64u);
    q->ack_bytes = g->n * (uint32_t)sizeof(uint64_t);
    size_t heads = (size_t)n_heads * q->head_stride,
           acks = PGASI_ALIGN_UP((size_t)q->n_acks * q->ack_bytes, 64u);
    pgas_status_t status =
        pgas_verbs_mem_register(g->dev, NULL, heads + acks + (size_t)g->n * STATUS_BYTES,
                                PGAS_VERBS_ACCESS_ALL, &q->mem);
    if (status != PGAS_OK)
        return status;
    q->heads = q->mem.addr;
    q->acks = q->heads + heads;
    q->status = q->acks + acks;
    return PGAS_OK;
}

static pgas_status_t make_queues(pgas_group_t *g, pgasi_group_queues_t *q)
{
    uint32_t flags = g->events ? PGAS_VERBS_CQ_EVENTS : 0;
    q->out_depth = PGASI_MAX(2 * (g->window.mask + 1), 2 * BATCH);
    pgas_status_t status = pgas_verbs_cq_create(g->dev, q->out_depth, 0, &q->out_cq);
    if (status == PGAS_OK)
        status = pgas_verbs_cq_create(g->dev, q->n_acks, flags, &q->ack_cq);
    if (status == PGAS_OK)
        status = pgas_verbs_cq_create(g->dev, 8 * g->n, 0, &q->control_cq);
    if (status == PGAS_OK)
        status = make_qp(g, q->out_cq, q->out_depth, 1, &q->out);
    if (status == PGAS_OK)
        status = make_qp(g, q->ack_cq, 1, q->n_acks, &q->ack);
    for (uint32_t i = 0; i < g->n && status == PGAS_OK; i++)
        status = make_qp(g, q->control_cq, 4, 1, &q->control[i]);
    return status;
}

/* Posts buffers for acknowledgements again, by one doorbell. */
static pgas_status_t post_acks(pgasi_group_queues_t *q)
{
    pgas_verbs_recv_t recvs[BATCH];
    pgas_verbs_span_t spans[BATCH];
    pgas_status_t status = PGAS_OK;
    while (q->n_received < q->n_taken + q->n_acks && status == PGAS_OK) {
        uint32_t n = (uint32_t)PGASI_MIN(q->n_taken + q->n_acks - q->n_received, (uint64_t)BATCH);
        for (uint32_t i = 0; i < n; i++) {
            uint64_t k = q->n_received + i;
            spans[i] =
                (pgas_verbs_span_t){ (uintptr_t)q->acks + (k & (q->n_acks - 1)) * q->ack_bytes,
                                     q->ack_bytes, q->mem.lkey };
            recvs[i] = (pgas_verbs_recv_t){ k, &spans[i], 1 };
        }
        status = pgas_verbs_qp_recv(q->ack, recvs, n, NULL);
        q->n_received += n;
    }
    return status;
}

static void destroy_qp(pgas_verbs_qp_t **qp)
{
    pgas_verbs_qp_destroy(*qp);
    *qp = NULL;
}

static void close_queues(pgas_group_t *g)
{
    pgasi_group_queues_t *q = queues_of(g);
    if (q == NULL)
        return;
    destroy_qp(&q->out);
    destroy_qp(&q->ack);
    for (uint32_t i = 0; i < PGAS_GROUP_REPLICAS_MAX; i++)
        destroy_qp(&q->control[i]);
    pgas_verbs_cq_destroy(q->out_cq);
    pgas_verbs_cq_destroy(q->ack_cq);
    pgas_verbs_cq_destroy(q->control_cq);
    pgas_verbs_mem_release(g->dev, &q->mem);
    free(q);
    g->carried = NULL;
}

static pgas_status_t open_queues(pgas_group_t *g)
{
    pgasi_group_queues_t *q = calloc(1, sizeof *q);
    if (q == NULL)
        return PGAS_ERR_NO_MEMORY;
    g->carried = q;
    pgas_status_t status = make_memory(g, q);
    if (status == PGAS_OK)
        status = make_queues(g, q);
    if (status == PGAS_OK)
        status = post_acks(q);
    if (status != PGAS_OK)
        close_queues(g);
    return status;
}

static void tell_peers(const pgas_group_t *g, uint32_t i, pgasi_group_connect_t *connect_p)
{
    const pgasi_group_queues_t *q = queues_of(g);
    *connect_p = (pgasi_group_connect_t){ .next_rank = -1, .client_rank = -1 };
    if (i == 0)
        connect_p->prev = pgasi_group_qp_address(q->out);
    else
        connect_p->prev = g->links[i - 1].opened.next;
    if (i + 1 == g->n)
        connect_p->next = pgasi_group_qp_address(q->ack);
    else
        connect_p->next = g->links[i + 1].opened.prev;
    connect_p->control = pgasi_group_qp_address(q->control[i]);
}

static pgas_status_t connect_queues(pgas_group_t *g)
{
    pgasi_group_queues_t *q = queues_of(g);
    pgas_status_t status = pgas_verbs_qp_connect(q->ack, &g->links[g->n - 1].opened.next);
    if (status == PGAS_OK)
        status = pgas_verbs_qp_connect(q->out, &g->links[0].opened.prev);
    for (uint32_t i = 0; i < g->n && status == PGAS_OK; i++)
        status = pgas_verbs_qp_connect(q->control[i], &g->links[i].opened.control);
    return status;
}

/* ---- sending ---- */

static void take_sent(pgas_group_t *g, pgasi_group_queues_t *q)
{
    pgas_verbs_completion_t done[8];
    int n;
    while ((n = pgas_verbs_cq_poll(q->out_cq, done, 8)) > 0)
        for (int i = 0; i < n; i++) {
            if (done[i].status == PGAS_OK) {
                q->n_out_done = done[i].id;
            } else {
                q->has_failed = true;
                pgasi_group_suspect(g, 0);
            }
        }
    if (n < 0) {
        q->has_failed = true;
        pgasi_group_suspect(g, -1);
    }
}

/* The message of a piece: its programs, or the piece itself, and old words that are known. */
static void write_head(const pgas_group_t *g, const pgasi_group_slot_t *slot, unsigned char *head)
{
    const uint64_t *known = pgasi_group_window_known(&g->window, slot);
    if (g->way == PGAS_GROUP_CHAIN)
        pgasi_group_programs(&slot->piece, g->members, g->n, head);
    else
        memcpy(head, &slot->piece, sizeof slot->piece);
    if (known != NULL)
        memcpy(head + g->layout.old_at, known, g->n * sizeof *known);
}

/* @return the number of spans */
static uint32_t write_message(pgas_group_t *g, const pgasi_group_queues_t *q,
                              pgasi_group_slot_t *slot, pgas_verbs_span_t *spans)
{
    uint64_t k = (uint64_t)(slot - g->window.slots);
    unsigned char *head = q->heads + k * q->head_stride;
    write_head(g, slot, head);
    spans[0] = (pgas_verbs_span_t){ (uintptr_t)head, g->layout.data_at, q->mem.lkey };
    if (slot->piece.kind != PGAS_GROUP_WRITE)
        return 1;
    spans[1] = (pgas_verbs_span_t){ (uintptr_t)g->data_mem.addr + k * g->piece_bytes,
                                    slot->piece.bytes, g->data_mem.lkey };
    return 2;
}

/* Sends up to BATCH pieces by one doorbell. */
static void send_batch(pgas_group_t *g, pgasi_group_queues_t *q, uint32_t n)
{
    pgas_verbs_request_t requests[BATCH];
    pgas_verbs_span_t spans[BATCH][2];
    uint32_t n_taken = 0;
    uint64_t now_ns = pgasi_now_ns();
    for (uint32_t i = 0; i < n; i++) {
        pgasi_group_slot_t *slot = pgasi_group_window_send(&g->window);
        bool signaled = ++q->n_out % BATCH == 0;
        if (slot->start_ns == 0)
            slot->start_ns = now_ns;
        requests[i].op = PGAS_VERBS_SEND;
        requests[i].flags = (signaled ? PGAS_VERBS_SIGNAL : 0) |
                            (g->way == PGAS_GROUP_VERBS ? PGAS_VERBS_SOLICITED : 0);
        requests[i].id = q->n_out;
        requests[i].spans = spans[i];
        requests[i].n_spans = write_message(g, q, slot, spans[i]);
    }
    if (pgas_verbs_qp_post(q->out, requests, n, &n_taken) != PGAS_OK) {
        q->has_failed = true;
        pgasi_group_suspect(g, 0);
    }
}

static void send_pieces(pgas_group_t *g)
{
    pgasi_group_queues_t *q = queues_of(g);
    uint32_t n = pgasi_group_window_sendable(&g->window);
    while (n > 0 && !q->has_failed) {
        uint64_t room = q->out_depth - (q->n_out - q->n_out_done);
        if (room < n) {
            take_sent(g, q);
            room = q->out_depth - (q->n_out - q->n_out_done);
        }
        uint32_t some = PGASI_MIN((uint32_t)PGASI_MIN((uint64_t)n, room), BATCH);
        if (some == 0 || q->has_failed)
            return;
        send_batch(g, q, some);
        n -= some;
    }
}

/* ---- taking ---- */

static int take_acks(pgas_group_t *g, pgasi_group_queues_t *q)
{
    pgas_verbs_completion_t got[BATCH];
    int n_all = 0, n;
    uint64_t now_ns = 0;
    while ((n = pgas_verbs_cq_poll(q->ack_cq, got, (int)BATCH)) > 0) {
        now_ns = pgasi_now_ns();
        for (int i = 0; i < n; i++) {
            if (got[i].status != PGAS_OK || got[i].bytes != q->ack_bytes) {
                pgasi_group_suspect(g, (int)g->n - 1);
                continue;
            }
            const unsigned char *at = q->acks + (got[i].id & (q->n_acks - 1)) * q->ack_bytes;
            pgasi_group_take_ack(g, (const uint64_t *)(const void *)at, now_ns);
            q->n_taken++;
            n_all++;
        }
        if (n < (int)BATCH)
            break;
    }
    if (n < 0 || (q->n_received - q->n_taken <= q->n_acks / 2 && post_acks(q) != PGAS_OK))
        pgasi_group_suspect(g, n < 0 ? -1 : (int)g->n - 1);
    return n_all;
}

static void take_status(pgas_group_t *g, pgasi_group_queues_t *q)
{
    pgas_verbs_completion_t got[8];
    int n;
    while ((n = pgas_verbs_cq_poll(q->control_cq, got, 8)) > 0)
        for (int i = 0; i < n; i++) {
            uint32_t k = (uint32_t)got[i].id;
            q->is_reading[k] = false;
            q->n_reading--;
            if (got[i].status == PGAS_OK) {
                pgasi_group_status_t words;
                memcpy(&words, q->status + (size_t)k * STATUS_BYTES, sizeof words);
                pgasi_group_take_status(g, k, &words);
            } else {
                if (g->links[k].unreachable_ns == 0)
                    g->links[k].unreachable_ns = pgasi_now_ns();
                pgasi_group_suspect(g, (int)k);
            }
        }
    if (n < 0)
        pgasi_group_suspect(g, -1);
}

static int poll_queues(pgas_group_t *g)
{
    pgasi_group_queues_t *q = queues_of(g);
    int n = take_acks(g, q);
    if (q->n_reading > 0)
        take_status(g, q);
    if (n == 0 && q->n_out > q->n_out_done)
        take_sent(g, q);
    return n;
}

static void refresh_status(pgas_group_t *g)
{
    pgasi_group_queues_t *q = queues_of(g);
    for (uint32_t i = 0; i < g->n; i++) {
        if (q->is_reading[i])
            continue;
        pgas_verbs_span_t span = { (uintptr_t)q->status + (size_t)i * STATUS_BYTES,
                                   sizeof(pgasi_group_status_t), q->mem.lkey };
        pgas_verbs_request_t request = { .op = PGAS_VERBS_READ,
                                         .flags = PGAS_VERBS_SIGNAL,
                                         .id = i,
                                         .spans = &span,
                                         .n_spans = 1,
                                         .remote_addr = g->links[i].opened.status,
                                         .rkey = g->links[i].opened.status_rkey };
        pgas_status_t status = pgas_verbs_qp_post(q->control[i], &request, 1, NULL);
        q->is_reading[i] = status == PGAS_OK;
        q->n_reading += status == PGAS_OK;
        if (status != PGAS_OK && status != PGAS_ERR_AGAIN)
            pgasi_group_suspect(g, (int)i);
    }
}

/* Of many acknowledgements that are under way, only one of some is worth a wakeup. */
static bool awaits_solicited(const pgas_group_t *g, const pgasi_group_queues_t *q)
{
    uint32_t each = pgasi_group_solicited_each(g->slots);
    return g->way == PGAS_GROUP_CHAIN && each > 1 && (q->n_taken | (each - 1)) < q->n_out;
}

static int arm_queues(pgas_group_t *g)
{
    pgasi_group_queues_t *q = queues_of(g);
    int fd = -1;
    if (pgas_verbs_cq_fd(q->ack_cq, &fd) != PGAS_OK ||
        pgas_verbs_cq_arm(q->ack_cq, awaits_solicited(g, q)) != PGAS_OK)
        return -1;
    return fd;
}

const pgasi_group_carrier_t pgasi_group_by_queues = { .send = send_pieces,
                                                      .poll = poll_queues,
                                                      .refresh = refresh_status,
                                                      .open = open_queues,
                                                      .peers = tell_peers,
                                                      .connect = connect_queues,
                                                      .close = close_queues,
                                                      .arm = arm_queues };
