/* Latency of single requests through queue pairs of the program's own. write and send go forth and
 * back between two queue pairs, and the figure is half of that time. The other side answers read
 * and fadd, and the figure is the whole time. One thread drives both sides. The references do the
 * same in memory, without a queue. */
#include "benchmarks/verbs_work.h"

#include <string.h>

#define SIGNALED_EACH 32u /* for requests whose completion the loop does not wait for */

static verbs_pair_t pair, answered;
static uint64_t n_posted[2]; /* forth and back, ever */
static uint64_t value;       /* of the last flag */

static void setup(void)
{
    verbs_open();
    verbs_pair_open(&pair, 0, 0);
    verbs_pair_open(&answered, 0, 0);
    for (uint32_t i = 0; i < VERBS_RECEIVES; i += VERBS_SERVED)
        verbs_receive(pair.qp, VERBS_SERVED);
}

static void teardown(void)
{
    verbs_pair_close(&answered);
    verbs_pair_close(&pair);
    verbs_close();
}

/* ---- forth and back ---- */

/** One of the two sides. It sends from the first half of its memory and receives into the second.
 *  */
typedef struct {
    pgas_verbs_qp_t *qp;
    pgas_verbs_cq_t *cq, *recv_cq;
    const pgas_verbs_mem_t *memory;
} end_t;

static inline end_t end_of(int which)
{
    return which == 0 ? (end_t){ pair.qp, pair.cq, pair.back_recv_cq, &verbs_source }
                      : (end_t){ pair.peer, pair.back_cq, pair.recv_cq, &verbs_target };
}

/* The last word of a message is its number: memory is written in rising order. */
static inline uint64_t *flag_of(const end_t *end, bool received, size_t bytes)
{
    return (uint64_t *)(void *)((char *)end->memory->addr + (received ? VERBS_BYTES_MAX : 0) +
                                bytes - sizeof(uint64_t));
}

static inline uint32_t inline_flag(size_t bytes)
{
    return bytes <= VERBS_INLINE ? PGAS_VERBS_INLINE : 0;
}

static inline void post_to(int which, pgas_verbs_op_t op, size_t bytes)
{
    end_t here = end_of(which), there = end_of(1 - which);
    const pgas_verbs_span_t span = { (uintptr_t)here.memory->addr, (uint32_t)bytes,
                                     here.memory->lkey };
    const pgas_verbs_request_t request = {
        .op = op,
        .flags =
            inline_flag(bytes) | (++n_posted[which] % SIGNALED_EACH == 0 ? PGAS_VERBS_SIGNAL : 0),
        .spans = &span,
        .n_spans = 1,
        .remote_addr = (uintptr_t)there.memory->addr + VERBS_BYTES_MAX,
        .rkey = there.memory->rkey
    };
    bench_check(pgas_verbs_qp_post(here.qp, &request, 1, NULL), "pgas_verbs_qp_post");
}

static inline void write_over(int from, size_t bytes)
{
    end_t here = end_of(from), there = end_of(1 - from);
    const uint64_t *arrived = flag_of(&there, true, bytes);
    uint32_t spins = 0;
    *flag_of(&here, false, bytes) = ++value;
    post_to(from, PGAS_VERBS_WRITE, bytes);
    while (__atomic_load_n(arrived, __ATOMIC_ACQUIRE) != value) {
        verbs_poll_good(here.cq);
        bench_relax(&spins);
    }
}

static inline void send_over(int from, size_t bytes)
{
    end_t here = end_of(from), there = end_of(1 - from);
    uint32_t spins = 0;
    post_to(from, PGAS_VERBS_SEND, bytes);
    while (verbs_poll_good(there.recv_cq) == 0) {
        verbs_poll_good(here.cq);
        bench_relax(&spins);
    }
    verbs_receive(there.qp, 1);
}

static inline void copy_over(int from, size_t bytes)
{
    end_t here = end_of(from), there = end_of(1 - from);
    *flag_of(&here, false, bytes) = ++value;
    memcpy((char *)there.memory->addr + VERBS_BYTES_MAX, here.memory->addr, bytes);
    bench_step();
    while (__atomic_load_n(flag_of(&there, true, bytes), __ATOMIC_ACQUIRE) != value)
        continue;
}

/* Takes completions outside of the measured time, so that the queue is never full. */
#define FORTH_AND_BACK(NAME, OVER)                  \
    static double NAME(const bench_run_t *run)      \
    {                                               \
        uint64_t begin = bench_now();               \
        for (uint64_t i = 0; i < run->iters; i++) { \
            for (int from = 0; from < 2; from++)    \
                OVER(from, run->bytes);             \
            if (i % SIGNALED_EACH == 0) {           \
                verbs_poll_good(pair.cq);           \
                verbs_poll_good(pair.back_cq);      \
            }                                       \
        }                                           \
        return bench_since(begin) / 2;              \
    }
FORTH_AND_BACK(run_write, write_over)
FORTH_AND_BACK(run_send, send_over)
FORTH_AND_BACK(run_copy, copy_over)

/* ---- answered ---- */

static double run_answered(const bench_run_t *run)
{
    const uint64_t *answer = verbs_source.addr;
    const pgas_verbs_span_t span = { (uintptr_t)answer, (uint32_t)run->bytes, verbs_source.lkey };
    const pgas_verbs_request_t request = { .op = (pgas_verbs_op_t)run->arg,
                                           .flags = PGAS_VERBS_SIGNAL,
                                           .spans = &span,
                                           .n_spans = 1,
                                           .remote_addr = (uintptr_t)verbs_target.addr,
                                           .rkey = verbs_target.rkey,
                                           .operand = 1 };
    uint64_t begin = bench_now();
    for (uint64_t i = 0; i < run->iters; i++) {
        uint32_t spins = 0;
        bench_check(pgas_verbs_qp_post(answered.qp, &request, 1, NULL), "pgas_verbs_qp_post");
        while (verbs_poll(&answered) == 0)
            bench_relax(&spins);
        bench_use(*answer);
    }
    return bench_since(begin);
}

static double run_copy_back(const bench_run_t *run)
{
    uint64_t begin = bench_now();
    for (uint64_t i = 0; i < run->iters; i++) {
        memcpy(verbs_source.addr, verbs_target.addr, run->bytes);
        bench_step();
    }
    return bench_since(begin);
}

static double run_add(const bench_run_t *run)
{
    uint64_t *word = verbs_target.addr, begin = bench_now();
    for (uint64_t i = 0; i < run->iters; i++)
        bench_use(__atomic_fetch_add(word, 1, __ATOMIC_SEQ_CST));
    return bench_since(begin);
}

#define CASE(VARIANT, DOC, OURS) \
    .variant = VARIANT, .doc = DOC, .paths = BENCH_ANYWHERE, .metric = BENCH_LATENCY, .ours = OURS

static const bench_case_t cases[] = {
    { CASE("write", "half of a write forth and one back, seen in memory", run_write),
      .refs = { { "memcpy", BENCH_OURS, run_copy } } },
    { CASE("send", "half of a send forth and one back, seen by completions", run_send),
      .refs = { { "memcpy", BENCH_OURS, run_copy } } },
    { CASE("read", "a read, until its completion", run_answered), .arg = PGAS_VERBS_READ,
      .refs = { { "memcpy", BENCH_OURS, run_copy_back } } },
    { CASE("fadd", "a fetch-and-add, until its completion", run_answered), .arg = PGAS_VERBS_FADD,
      .min_bytes = 8, .max_bytes = 8, .refs = { { "limit", BENCH_OURS, run_add } } },
};

static const size_t sizes[] = { 8,    16,   32,   64,   128,   256,   512,
                                1024, 2048, 4096, 8192, 16384, 32768, VERBS_BYTES_MAX,
                                0 };

static const bench_program_t program = { .name = "pgas_verbs_latency",
                                         .doc = "latency of requests through a queue pair",
                                         .ranks = BENCH_ALONE,
                                         .label = "Latency",
                                         .min_bytes = 8,
                                         .max_bytes = VERBS_BYTES_MAX,
                                         .sizes = sizes,
                                         BENCH_CASES(cases),
                                         .setup = setup,
                                         .teardown = teardown,
                                         .options = verbs_options,
                                         .path = verbs_path,
                                         .about = verbs_about };

int main(int argc, char **argv)
{
    return bench_main(&program, argc, argv);
}
