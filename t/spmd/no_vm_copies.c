/* Ranks that must not copy each other's memory.
 *   what:   If a filter refuses process_vm_readv and process_vm_writev, always or only between
 *           ranks, the transport that needs them reports it, and init fails on all ranks. Other
 *           transports carry buffers of calls nevertheless.
 *   np:     2
 *   nodes:  0 1
 *   env:    PGAS_TRANSPORT=ucx
 *   tls:    posix
 *   needs:  no-sanitizers
 *   source: process_vm_readv(2), seccomp(2); verbs_backend/snic/README.md */
#include "t/forbid.h"
#include "t/spmd/job.h"
#include "t/spmd/said.h"
#include "transport/transport.h"

#define BYTES 100000

static pgas_handler_t sum;
static uint64_t n_summed;

static void on_sum(const void *args, size_t bytes, pgas_thread_t source, void *context)
{
    void *data = NULL;
    size_t n_bytes = 0;
    uint64_t total = 0;
    (void)args;
    (void)bytes;
    (void)source;
    (void)context;
    if (pgas_buffer_get(0, &data, &n_bytes) == PGAS_OK)
        for (size_t i = 0; i < n_bytes; i++)
            total += ((unsigned char *)data)[i];
    __atomic_store_n(&n_summed, total, __ATOMIC_RELAXED);
}

static void the_transport_says_so(const char *text)
{
    if (!pgasi_tp_find("verbs")) {
        spmd_skip(1, "the transport verbs is not in this build");
        return;
    }
    pgas_init_opts_t opts = PGAS_INIT_OPTS_INIT;
    opts.params = "TRANSPORT=verbs VERBS_DEVICE=snic NODE_MAXSIZE=1";
    said_begin();
    pgas_status_t status = pgas_init(NULL, &opts);
    spmd_ok(said_by("needs process_vm_readv") > 0 && status == PGAS_ERR_UNSUPPORTED,
            "verbs on the software NIC: %s", text);
}

static void buffers_travel(void)
{
    static unsigned char data[BYTES];
    memset(data, 3, sizeof data);
    job_start(NULL);
    pgas_buffer_t buffer = { .address = data, .bytes = sizeof data, .mode = PGAS_BUFFER_PULL };
    pgas_thread_t other = pgas_thread_make(1 - pgas_rank(), PGAS_SLOT_ANY);
    pgas_status_t status = pgas_call_to(pgas_on_thread(other), sum, NULL, 0,
                                        PGAS_CALL_OPTS(.buffers = &buffer, .n_buffers = 1));
    spmd_ok(status == PGAS_OK && pgas_quiesce() == PGAS_OK && n_summed == 3 * BYTES,
            "a buffer that is pulled arrives");
}

int main(int argc, char **argv)
{
    pgas_handler_register("t.sum", on_sum, NULL, NULL, &sum);
    spmd_begin(&argc, &argv, MPI_THREAD_SERIALIZED);
    spmd_plan(7);
    spmd_ok(forbid_others(SYS_process_vm_readv, EPERM) &&
                forbid_others(SYS_process_vm_writev, EPERM),
            "a filter refuses both between ranks, as Yama does");
    the_transport_says_so("refused and said");
    spmd_ok(forbid_syscall(SYS_process_vm_readv, EPERM) &&
                forbid_syscall(SYS_process_vm_writev, EPERM),
            "a filter refuses both");
    the_transport_says_so("refused and said again");
    buffers_travel();
    return job_end();
}
