/** Time: a monotonic clock in nanoseconds, the time of day, a cycle counter of unknown rate, and
 *  the pause of a spin loop. */
#ifndef PGASI_CLOCK_H
#define PGASI_CLOCK_H

#include <stdbool.h>
#include <stdint.h>
#include <time.h>

#define PGASI_NS_PER_S  UINT64_C(1000000000)
#define PGASI_NS_PER_MS UINT64_C(1000000)

/** Reads the monotonic clock. Cost: 20 to 50 ns through the vDSO, no system call. */
static inline uint64_t pgasi_now_ns(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * PGASI_NS_PER_S + (uint64_t)now.tv_nsec;
}

/** Reads the time of day: milliseconds since 1970. It may jump, so no time limit uses it. It is for
 *  times that other programs or later jobs compare, such as the expiry of a key. */
static inline int64_t pgasi_wall_ms(void)
{
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now); /* lint: wall clock */
    return (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

/** The end of a wait that lasts timeout_us from now, in pgasi_now_ns's time; less than 0: never. */
static inline uint64_t pgasi_limit_ns(int64_t timeout_us)
{
    uint64_t now = pgasi_now_ns();
    bool never = timeout_us < 0 || (uint64_t)timeout_us > (UINT64_MAX - now) / 1000;
    return never ? UINT64_MAX : now + (uint64_t)timeout_us * 1000;
}

/** Reads a counter that only grows on one core. Its rate differs between machines: use it to
 *  compare short spans on one thread, never as a time. Cost: 5 to 20 ns. */
static inline uint64_t pgasi_cycles(void)
{
#if defined(__x86_64__) || defined(__i386__)
    return __builtin_ia32_rdtsc();
#elif defined(__aarch64__)
    uint64_t ticks;
    __asm__ volatile("mrs %0, cntvct_el0" : "=r"(ticks));
    return ticks;
#else
    return pgasi_now_ns();
#endif
}

/** Marks a spin loop for the core. */
static inline void pgasi_cpu_relax(void)
{
#if defined(__x86_64__) || defined(__i386__)
    __builtin_ia32_pause();
#elif defined(__aarch64__)
    __asm__ volatile("yield" ::: "memory");
#else
    __asm__ volatile("" ::: "memory");
#endif
}

#endif
