/* what: The clock never decreases and advances at the rate of real time, and the cycle counter
 *       grows.
 * source: src/base/clock.h */
#include "base/clock.h"
#include "t/tap.h"

static void clock_never_goes_back(void)
{
    int n_back = 0;
    uint64_t before = pgasi_now_ns();
    for (int i = 0; i < 100000; i++) {
        uint64_t now = pgasi_now_ns();
        n_back += now < before;
        before = now;
    }
    is_int(n_back, 0, "100000 readings in order");
}

static void clock_counts_nanoseconds(void)
{
    struct timespec a, b;
    clock_gettime(CLOCK_MONOTONIC, &a);
    uint64_t ours = pgasi_now_ns();
    clock_gettime(CLOCK_MONOTONIC, &b);
    uint64_t low = (uint64_t)a.tv_sec * 1000000000u + (uint64_t)a.tv_nsec;
    uint64_t high = (uint64_t)b.tv_sec * 1000000000u + (uint64_t)b.tv_nsec;
    ok(low <= ours && ours <= high, "a reading is between two of the system's monotonic clock");
}

static void cycles_grow(void)
{
    uint64_t start_ns = pgasi_now_ns(), start = pgasi_cycles();
    while (pgasi_now_ns() - start_ns < 100000)
        pgasi_cpu_relax();
    ok(pgasi_cycles() > start, "the cycle counter grew in 100 us");
}

int main(void)
{
    plan(3);
    clock_never_goes_back();
    clock_counts_nanoseconds();
    cycles_grow();
    return done();
}
