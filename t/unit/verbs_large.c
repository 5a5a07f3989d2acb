/* what: A write and a read of more than 2 GiB by a transmitter arrive whole, as two requests.
 * needs: no-sanitizers
 * source: pgas/verbs.h, pgas_verbs_tx_transfer; the same 4 MiB are mapped again and again, so the
 * large range costs only 4 MiB */
#include <stdint.h>
#include <sys/mman.h>
#include "pgas/verbs.h"
#include "t/must.h"
#include "t/queue_pairs.h"
#include "t/tap.h"

#define PIECE       (UINT64_C(2) << 20)
#define N_PIECES    1025
#define BYTES       (N_PIECES * PIECE - 5)
#define PATIENCE_US INT64_C(100000000)

/* Maps N_PIECES pieces one after the other, all of the same memory. @return NULL: this is not
 * possible here */
static char *map_often(void)
{
    int fd = memfd_create("verbs_large", 0);
    char *all =
        mmap(NULL, N_PIECES * PIECE, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    bool good = fd >= 0 && all != MAP_FAILED && ftruncate(fd, (off_t)PIECE) == 0;
    for (uint64_t i = 0; good && i < N_PIECES; i++)
        good = mmap(all + i * PIECE, PIECE, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, fd,
                    0) != MAP_FAILED;
    close(fd);
    return good ? all : NULL;
}

static bool is_same(const char *a, const char *b)
{
    return memcmp(a, b, PIECE - 5) == 0;
}

int main(void)
{
    char *from = map_often(), *to = map_often();
    if (!from || !to)
        skip_all("memory cannot be mapped %d times", 2 * N_PIECES);
    plan(4);
    pgas_verbs_dev_opts_t dev_opts = PGAS_VERBS_DEV_OPTS_INIT;
    pgas_verbs_qp_opts_t qp_opts = PGAS_VERBS_QP_OPTS_INIT;
    pgas_verbs_address_t address;
    pgas_verbs_dev_t *dev;
    pgas_verbs_mem_t ours, theirs;
    pgas_verbs_qp_t *qp;
    pgas_verbs_tx_t *tx;
    dev_opts.device = "snic";
    must(pgas_verbs_open(&dev_opts, &dev), "the device");
    must(pgas_verbs_mem_register(dev, from, N_PIECES * PIECE, PGAS_VERBS_ACCESS_ALL, &ours),
         "registering");
    must(pgas_verbs_mem_register(dev, to, N_PIECES * PIECE, PGAS_VERBS_ACCESS_ALL, &theirs),
         "registering");
    must(pgas_verbs_cq_create(dev, 1024, 0, &qp_opts.send_cq), "a completion queue");
    qp_opts.recv_cq = qp_opts.send_cq;
    must(pgas_verbs_qp_create(dev, &qp_opts, &qp), "a queue pair");
    qp_address(qp, &address);
    must(pgas_verbs_qp_connect(qp, &address), "connecting");
    must(pgas_verbs_tx_create(qp, NULL, &tx), "a transmitter");

    uint64_t at = 0, number = 0;
    for (uint64_t i = 0; i < PIECE; i++)
        from[i] = (char)(i * 7 + i / 1000);
    const pgas_verbs_span_t span = { .addr = (uintptr_t)from, .lkey = ours.lkey };
    pgas_verbs_request_t request = { .op = PGAS_VERBS_WRITE,
                                     .spans = &span,
                                     .n_spans = 1,
                                     .remote_addr = (uintptr_t)to,
                                     .rkey = theirs.rkey };
    pgas_status_t status = pgas_verbs_tx_transfer(tx, &request, BYTES, &at, &number);
    if (status == PGAS_OK)
        status = pgas_verbs_tx_wait(tx, number, PATIENCE_US);
    ok(status == PGAS_OK && at == BYTES && is_same(from, to), "a write of %" PRIu64 " bytes (%s)",
       at, pgas_status_name(status));
    is_int((intmax_t)number, 2, "is two requests");
    memset(from, 0, PIECE);
    request.op = PGAS_VERBS_READ;
    at = 0;
    status = pgas_verbs_tx_transfer(tx, &request, BYTES, &at, &number);
    if (status == PGAS_OK)
        status = pgas_verbs_tx_wait(tx, number, PATIENCE_US);
    ok(status == PGAS_OK && at == BYTES && is_same(from, to), "a read of as many (%s)",
       pgas_status_name(status));

    pgas_verbs_qp_destroy(qp);
    pgas_verbs_cq_destroy(qp_opts.send_cq);
    pgas_verbs_mem_release(dev, &ours);
    pgas_verbs_mem_release(dev, &theirs);
    ok(pgas_verbs_close(dev) == PGAS_OK, "nothing is left");
    return done();
}
