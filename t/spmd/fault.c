/* Injected faults.
 *   what:   Under heavy delay, reordering and refusals of the transport, memory still equals a
 *           plain array, and calls run once and in order. Memory that cannot be registered on one
 *           rank is refused, on all ranks if all take part, and no rank hangs.
 *   np:     2 3 4
 *   nodes:  1 2
 *   tls:    sysv,cma posix tcp,self
 *   env:    PGAS_FAULT=delay=60,reorder=30,again=12 | PGAS_FAULT=again=100 PGAS_LANES=1 |
 *   env:    PGAS_FAULT=delay=200,seed=5 PGAS_SERVICE_THREADS=0 | PGAS_FAULT=reorder=64,delay=9
 *   env:    PGAS_FAULT_SEED=77
 *   log:    PGAS_FAULT drop-reg: registering
 *   source: public headers; src/transport/fault.h */
#include "t/spmd/rma_model.h"
#include "t/spmd/said.h"

#define N_CALLS 400

static pgas_handler_t numbered;
static int n_out_of_order;
static uint64_t next_of[JOB_RANKS_MAX];

static void on_numbered(const void *args, size_t bytes, pgas_thread_t source, void *context)
{
    uint64_t number;
    (void)bytes;
    (void)context;
    memcpy(&number, args, sizeof number);
    n_out_of_order += number != next_of[pgas_thread_rank(source)]++;
    if (number % 7 == 0 && pgas_thread_slot(source) != PGAS_SLOT_SERVICE)
        n_out_of_order += pgas_reply(&number, sizeof number) != PGAS_OK;
}

static void transfers(uint64_t seed)
{
    static area_t heap;
    pgas_gptr_t mine = PGAS_NULL;
    bool good = pgas_alloc((size_t)n_ranks * SHARD, &mine) == PGAS_OK;
    heap.name = "heap";
    heap.own = pgas_gptr_local(mine, 1);
    job_gather(mine, heap.base);
    spmd_ok(good, "memory");
    spmd_is_int(model_run(&heap, seed, 250, -1), 0, "random operations");
    spmd_ok(job_any(model_run(&heap, seed, 10, 0) > 0), "a wrong bit is noticed");
    pgas_free(mine);
}

static void calls(void)
{
    static uint64_t sent[JOB_RANKS_MAX], expected[JOB_RANKS_MAX];
    int n_bad = 0;
    for (int i = 0; i < N_CALLS; i++) {
        int rank = (i * 7 + me) % n_ranks;
        uint64_t args[6] = { sent[rank]++, 0, 0, 0, 0, 0 }, back = 0;
        if (args[0] % 7 == 0)
            n_bad += pgas_call_return(rank, numbered, args, 8, &back, sizeof back) != PGAS_OK ||
                     back != args[0];
        else
            n_bad += pgas_call(rank, numbered, args, 8 + (size_t)i % 5 * 8, NULL) != PGAS_OK;
    }
    n_bad += pgas_quiesce() != PGAS_OK;
    pgas_alltoall(NULL, sent, expected, sizeof sent[0]);
    for (int r = 0; r < n_ranks; r++)
        n_bad += next_of[r] != expected[r];
    spmd_ok(n_bad == 0 && n_out_of_order == 0, "calls run once, in order");
}

/* On rank 1 nothing can be registered. */
static void no_heap(void)
{
    pgas_init_opts_t opts = PGAS_INIT_OPTS_INIT;
    opts.params = "FAULT=drop-reg=1";
    pgas_status_t status = pgas_init(NULL, &opts);
    spmd_ok(status < 0 && !pgas_initialized(),
            "a heap that cannot be registered on one rank: no rank starts");
    int same[2] = { (int)status, -(int)status };
    MPI_Allreduce(MPI_IN_PLACE, same, 2, MPI_INT, MPI_MIN, MPI_COMM_WORLD);
    spmd_is_int(same[0], -same[1], "and all have the same status");
}

static void no_attached_memory(void)
{
    static unsigned char memory[4096];
    pgas_gptr_t ptr = PGAS_NULL, block = PGAS_NULL;
    pgas_init_opts_t opts = PGAS_INIT_OPTS_INIT;
    opts.params = "FAULT=drop-reg=1:1";
    pgas_status_t status = pgas_init(NULL, &opts);
    if (status != PGAS_OK) { /* where the heap took more than one attempt */
        spmd_skip(2, "the heap needs more than one registration here");
        return;
    }
    spmd_progress(job_progress);
    status = pgas_mem_attach(memory, sizeof memory, &ptr);
    spmd_ok(pgas_rank() == 1 ? status < 0 && !ptr : status == PGAS_OK,
            "attached memory that cannot be registered is refused");
    if (ptr)
        pgas_mem_detach(ptr);
    spmd_ok(pgas_alloc(64, &block) == PGAS_OK && pgas_free(block) == PGAS_OK,
            "and the job continues");
    spmd_progress(NULL);
    pgas_finalize();
}

static void nonsense(void)
{
    pgas_init_opts_t opts = PGAS_INIT_OPTS_INIT;
    opts.params = "FAULT=sometimes=3";
    said_begin();
    pgas_status_t status = pgas_init(NULL, &opts);
    spmd_ok(said("PGAS_FAULT=sometimes=3") && status < 0 && !pgas_initialized(),
            "faults that do not parse are refused");
}

int main(int argc, char **argv)
{
    pgas_handler_register("t.numbered", on_numbered, NULL, NULL, &numbered);
    job_begin(&argc, &argv, 9);
    uint64_t seed = spmd_seed(12);
    int n_nodes = pgas_n_nodes();
    transfers(seed);
    calls();
    job_stop();
    if (n_nodes > 1) {
        no_heap();
        no_attached_memory();
        nonsense();
    } else {
        spmd_skip(5, "all ranks share a node");
    }
    return spmd_end();
}
