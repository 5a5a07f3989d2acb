/* what: Queries of the low level. Ports are listed by number, the software NIC last. A query fills
 *       as much as the caller's struct has room for, and refuses a struct without a size. A queue
 *       pair tells its address, depths and, if asked for, its ring. A post whose last request has
 *       the flag MORE does not ring. A timeout of 0 tries once.
 * source: pgas/verbs.h */
#include <string.h>
#include "t/tap.h"
#include "t/unit/snic.h"

static void ports_are_listed(void)
{
    pgas_verbs_info_t port = { .size = sizeof port };
    pgas_verbs_gid_t gid;
    int n = 0;
    char last[64] = "";
    while (pgas_verbs_list(n, &port) == PGAS_OK) {
        memcpy(last, port.name, sizeof last);
        n++;
    }
    ok(n > 0 && strcmp(last, "snic") == 0, "the software NIC is the last port");
    ok(pgas_verbs_list(n, &port) == PGAS_ERR_NOT_FOUND &&
           pgas_verbs_list(-1, &port) == PGAS_ERR_INVALID &&
           pgas_verbs_list(0, NULL) == PGAS_ERR_INVALID,
       "other numbers are refused");
    ok(pgas_verbs_gid("snic", 1, 0, &gid) == PGAS_ERR_NOT_FOUND &&
           pgas_verbs_gid("no-such-card", 1, 0, &gid) == PGAS_ERR_NOT_FOUND &&
           pgas_verbs_gid("snic", 1, -1, &gid) == PGAS_ERR_INVALID,
       "it has no GIDs");
}

static void sizes_count(void)
{
    pgas_verbs_dev_t *dev = snic_device(PGASI_SNIC_ENGINE_STEP, 0, 1);
    pgas_verbs_info_t whole = { .size = sizeof whole }, part, none;
    memset(&part, 0x5a, sizeof part);
    part.size = offsetof(pgas_verbs_info_t, provider);
    ok(pgas_verbs_info(dev, &whole) == PGAS_OK && whole.chains && whole.size == sizeof whole,
       "a device describes itself");
    ok(pgas_verbs_info(dev, &part) == PGAS_OK && strcmp(part.name, "snic") == 0 &&
           part.provider[0] == 0x5a,
       "a smaller struct gets the fields that it has");
    memset(&none, 0, sizeof none);
    ok(pgas_verbs_info(dev, &none) == PGAS_ERR_INVALID &&
           pgas_verbs_info(dev, NULL) == PGAS_ERR_INVALID &&
           pgas_verbs_info(NULL, &whole) == PGAS_ERR_INVALID,
       "no size, no struct and no device are refused");
    must(pgas_verbs_close(dev), "close");
}

static void queue_pairs_describe_themselves(void)
{
    pgas_verbs_dev_t *dev = snic_device(PGASI_SNIC_ENGINE_STEP, 0, 1);
    pgas_verbs_qp_opts_t opts = PGAS_VERBS_QP_OPTS_INIT;
    pgas_verbs_qp_info_t info = { .size = sizeof info };
    pgas_verbs_cq_t *cq;
    must(pgas_verbs_cq_create(dev, 64, 0, &cq), "a completion queue");
    pgas_verbs_qp_t *plain = snic_qp(dev, opts, cq);
    ok(pgas_verbs_qp_info(plain, &info) == PGAS_OK && !info.slots.addr && info.slot_bytes == 0 &&
           info.send_depth >= 256 && info.recv_depth >= 256 && info.inline_max >= 60 &&
           !info.connected,
       "depths, and no ring where none was asked for");
    must(pgas_verbs_qp_connect(plain, &info.address), "connect");
    ok(pgas_verbs_qp_info(plain, &info) == PGAS_OK && info.connected, "it is connected");
    opts.flags = PGAS_VERBS_QP_REMOTE_SLOTS;
    pgas_verbs_qp_t *open = snic_qp(dev, opts, cq);
    ok(pgas_verbs_qp_info(open, &info) == PGAS_OK && info.slots.addr && info.slots.rkey != 0 &&
           info.slots.bytes % info.slot_bytes == 0 && info.slot_bytes == 64,
       "a ring that peers may rewrite");
    must(pgas_verbs_qp_destroy(plain), "destroy");
    must(pgas_verbs_qp_destroy(open), "destroy");
    must(pgas_verbs_cq_destroy(cq), "destroy");
    must(pgas_verbs_close(dev), "close");
}

static void posts_ring_or_not(void)
{
    pair_t p;
    pgas_verbs_completion_t got[4];
    uint32_t n = 0;
    pair_open(&p, PGASI_SNIC_ENGINE_STEP, 0, 1);
    pgas_verbs_span_t span = pair_span(&p, 0, 0, 8);
    pgas_verbs_request_t r[2];
    r[0] = r[1] = pair_request(&p, PGAS_VERBS_WRITE, &span, 0, 1);
    r[0].flags |= PGAS_VERBS_MORE;
    must(pgas_verbs_qp_post(p.qp[0], r, 1, NULL), "a post");
    ok(snic_take(p.dev, p.cq[0], got, 1) == 0, "a request with MORE does not ring");
    ok(pgas_verbs_cq_wait(p.cq[0], 0) == PGAS_ERR_TIMEOUT, "a timeout of 0 tries once");
    must(pgas_verbs_qp_post(p.qp[0], NULL, 0, &n), "a doorbell");
    ok(n == 0 && snic_take(p.dev, p.cq[0], got, 1) == 1, "a post of no requests rings");
    must(pgas_verbs_qp_post(p.qp[0], r, 2, &n), "two requests");
    ok(n == 2 && snic_take(p.dev, p.cq[0], got, 2) == 2,
       "only the flag of the last request counts");
    r[1].flags |= PGAS_VERBS_MORE;
    must(pgas_verbs_qp_post(p.qp[0], r, 2, &n), "two requests");
    ok(n == 2 && snic_take(p.dev, p.cq[0], got, 2) == 0, "also of several");
    must(pgas_verbs_qp_post(p.qp[0], NULL, 0, NULL), "a doorbell");
    snic_settle(p.dev);
    ok(pgas_verbs_cq_wait(p.cq[0], -1) == PGAS_OK && snic_take(p.dev, p.cq[0], got, 2) == 2,
       "a negative timeout waits");
    pgas_verbs_qp_t *lone = snic_qp(p.dev, (pgas_verbs_qp_opts_t)PGAS_VERBS_QP_OPTS_INIT, p.cq[0]);
    n = 7;
    ok(pgas_verbs_qp_post(lone, NULL, 0, &n) == PGAS_ERR_NOT_INIT && n == 0 &&
           pgas_verbs_qp_post(lone, r, 2, &n) == PGAS_ERR_NOT_INIT && n == 0,
       "before a connection neither works");
    must(pgas_verbs_qp_destroy(lone), "destroy");
    pair_close(&p);
}

int main(void)
{
    plan(16);
    ports_are_listed();
    sizes_count();
    queue_pairs_describe_themselves();
    posts_ring_or_not();
    return done();
}
