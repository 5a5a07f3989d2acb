/* what: A completion queue may have any bytes. Polling takes the completions, reads and writes only
 *       its own memory, reports success only for a good completion, and continues.
 * source: verbs_backend/queue/raw.h; libFuzzer
 *
 * Input: steps. Each is a byte that chooses an action, and its bytes. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include "verbs_backend/queue/raw.h"
#include "t/fuzz/require.h"

#define DEPTH 8
#define BATCH 5

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n_bytes);

static pgasi_raw_dev_t dev;

/* One queue pair with a receive queue of its own, one without, on a shared one; all on the same
 * completion queue. */
typedef struct {
    pgasi_raw_cq_t cq;
    pgasi_raw_srq_t srq;
    pgasi_raw_qp_t qp[2];
    uint32_t *records, cq_at;
    unsigned char *sq[2], *rq, *srq_ring;
} world_t;

static void ring_nothing(pgasi_raw_qp_t *qp)
{
    (void)qp;
}

/* Exact allocations, so that the sanitizer detects an access after their end. */
static void build(world_t *w)
{
    uint32_t stride = pgasi_raw_stride(2, false), linked = pgasi_raw_stride(2, true);
    memset(w, 0, sizeof *w);
    w->records = calloc(7, sizeof *w->records);
    w->cq.super.dev = &dev.super;
    pgasi_raw_cq_init(&w->cq, calloc(DEPTH, sizeof(pgasi_cqe_t)), DEPTH, &w->records[0]);
    w->srq_ring = calloc(DEPTH, linked);
    w->srq.super.spans = 2;
    require(pgasi_raw_srq_init(&w->srq, w->srq_ring, DEPTH, linked, &w->records[2]) == PGAS_OK,
            "a shared receive queue");
    w->rq = calloc(DEPTH, stride);
    for (int i = 0; i < 2; i++) {
        pgasi_raw_qp_t *qp = &w->qp[i];
        qp->super.opts = (pgas_verbs_qp_opts_t)PGAS_VERBS_QP_OPTS_INIT;
        qp->super.opts.send_depth = qp->super.opts.recv_depth = DEPTH;
        qp->super.opts.recv_spans = 2;
        qp->super.dev = &dev.super;
        qp->number = 1u + (uint32_t)i;
        qp->ring_doorbell = ring_nothing;
        uint32_t blocks = pgasi_raw_blocks(&qp->super.opts);
        w->sq[i] = calloc(blocks, PGASI_WQE_BB);
        pgas_status_t status = pgasi_raw_qp_init(qp, w->sq[i], blocks, w->rq, i == 0 ? DEPTH : 0,
                                                 stride, &w->records[3 + 2 * i]);
        require(status == PGAS_OK && pgasi_raw_enter_qp(&dev, qp->number, qp) == PGAS_OK,
                "a queue pair");
    }
    require(pgasi_raw_enter_srq(&dev, 1, &w->srq) == PGAS_OK, "is entered");
}

static void take_down(world_t *w)
{
    for (int i = 0; i < 2; i++) {
        pgasi_raw_enter_qp(&dev, w->qp[i].number, NULL);
        pgasi_raw_qp_fini(&w->qp[i]);
        free(w->sq[i]);
    }
    pgasi_raw_enter_srq(&dev, 1, NULL);
    pgasi_raw_srq_fini(&w->srq);
    free(w->cq.ring);
    free(w->records);
    free(w->rq);
    free(w->srq_ring);
}

static void post(world_t *w, unsigned choices)
{
    static char text[64];
    pgasi_raw_qp_t *qp = &w->qp[choices & 1];
    pgas_verbs_span_t spans[2] = { { (uintptr_t)text, choices % 61, 1 },
                                   { (uintptr_t)text, 1, 1 } };
    pgas_verbs_request_t request = { .op = (pgas_verbs_op_t)(choices >> 1 & 7),
                                     .flags = choices >> 4 & PGAS_VERBS_INLINE };
    pgas_verbs_recv_t recv = { choices, spans, 1 + (choices >> 5 & 1) };
    request.spans = spans;
    request.n_spans = recv.n_spans;
    request.id = choices;
    if (choices & 0x80 && choices & 1)
        pgasi_raw_srq_recv(&w->srq.super, &recv, 1, NULL);
    else if (choices & 0x80)
        pgasi_raw_recv(&w->qp[0].super, &recv, 1, NULL);
    else if (pgasi_raw_write(&qp->super, &request, 1, NULL) == PGAS_OK)
        pgasi_raw_ring(&qp->super);
}

/* Polls, and compares with an independent reader of the same bytes. */
static void poll_some(world_t *w, unsigned choices)
{
    pgas_verbs_completion_t got[BATCH];
    unsigned n_max = choices % (BATCH + 1), n_there = 0;
    pgasi_cqe_fields_t fields[BATCH];
    bool known[BATCH];
    for (; n_there < n_max; n_there++) {
        uint32_t ci = w->cq_at + n_there;
        const pgasi_cqe_t *cqe = &w->cq.ring[ci % DEPTH];
        if (cqe->op_own >> 4 == PGASI_CQE_INVALID || (cqe->op_own & 1) != (ci / DEPTH & 1))
            break;
        known[n_there] = pgasi_cqe_decode(cqe, &fields[n_there]);
    }
    int n = pgasi_raw_poll(&w->cq.super, got, (int)n_max);
    require(n == (int)n_there, "what is there is taken");
    w->cq_at += n_there;
    require(be32toh(w->records[0]) == (w->cq_at & 0xffffff) || w->cq_at == 0, "the device is told");
    for (unsigned i = 0; i < n_there; i++) {
        bool good = known[i] && fields[i].op <= PGASI_CQE_RESP_SEND_IMM;
        require((got[i].status == PGAS_OK) == good, "success is said of good completions alone");
        require(got[i].op <= PGAS_VERBS_RECV_WRITE_IMM, "the operation is one");
        require(!got[i].qp || got[i].qp == &w->qp[0].super || got[i].qp == &w->qp[1].super,
                "so is the queue pair");
        require(got[i].id < 256, "the id is of a request, or none");
    }
}

/* A completion of these bytes, mostly of this phase and of queues that exist. */
static void put(world_t *w, unsigned choices, const uint8_t *bytes)
{
    uint32_t at = w->cq_at + (choices & 7);
    pgasi_cqe_t cqe;
    memcpy(&cqe, bytes, sizeof cqe);
    if (choices & 0x10)
        cqe.op_qpn = htobe32((be32toh(cqe.op_qpn) & 0xff000000u) | (bytes[0] & 3));
    if (choices & 0x20)
        cqe.srqn_uidx = htobe32(bytes[1] & 1);
    if (choices & 0xc0)
        cqe.op_own = (uint8_t)((cqe.op_own & 0xfe) | (at / DEPTH & 1));
    w->cq.ring[at % DEPTH] = cqe;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n_bytes)
{
    static bool started;
    world_t w;
    if (!started)
        require(pgasi_raw_dev_init(&dev) == PGAS_OK, "a device");
    started = true;
    build(&w);
    for (size_t at = 0; at + 2 <= n_bytes;) {
        unsigned what = data[at], choices = data[at + 1];
        at += 2;
        if (what % 4 == 0) {
            poll_some(&w, choices);
        } else if (what % 4 == 1) {
            post(&w, choices);
        } else if (n_bytes - at >= sizeof(pgasi_cqe_t)) {
            put(&w, choices, data + at);
            at += sizeof(pgasi_cqe_t);
        }
    }
    poll_some(&w, BATCH);
    take_down(&w);
    return 0;
}
