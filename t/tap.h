/* Test Anything Protocol for tests of one process: a plan first, then one line per promise.
 *
 *   int main(void) { plan(2); ok(1 + 1 == 2, "addition"); is_int(2 * 2, 4, "multiplication");
 *   return done(); }
 *
 * ok, is_int and is_str return whether the promise holds, take a printf format for the description,
 * and print file and line on failure. They are for one thread. A test of several ranks uses
 * t/spmd.h instead. Settings come from t/launch: TAP_SEED. */
#ifndef T_TAP_H
#define T_TAP_H

#include <inttypes.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#if defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
#define TAP_SANITIZED 1
#endif
#elif defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define TAP_SANITIZED 1
#endif
#ifndef TAP_SANITIZED
#define TAP_SANITIZED 0
#endif

static int tap_n_planned_, tap_n_run_, tap_n_failed_;

#define TAP_PRINTF_(fmt, args) __attribute__((format(printf, fmt, args)))

/* Prints the plan: n promises follow. Output is line buffered, so that lines before a crash are not
 * lost. */
static inline void plan(int n)
{
    setvbuf(stdout, NULL, _IOLBF, 0);
    tap_n_planned_ = n;
    printf("1..%d\n", n);
}

/* The steps of a long test with a seed: n, or a quarter in the slow builds with sanitizers. */
static inline unsigned tap_steps(unsigned n)
{
    return TAP_SANITIZED ? n / 4 : n;
}

/* Skips the whole program. */
TAP_PRINTF_(1, 2) static inline void skip_all(const char *fmt, ...)
{
    va_list args;
    va_start(args, fmt);
    printf("1..0 # SKIP ");
    vprintf(fmt, args);
    printf("\n");
    va_end(args);
    exit(0);
}

/* Prints a remark, which is shown in the log only. */
TAP_PRINTF_(1, 2) static inline void diag(const char *fmt, ...)
{
    va_list args;
    va_start(args, fmt);
    printf("# ");
    vprintf(fmt, args);
    printf("\n");
    va_end(args);
}

static inline bool tap_point_(bool good, const char *fmt, va_list args)
{
    tap_n_run_++;
    tap_n_failed_ += !good;
    printf("%sok %d - ", good ? "" : "not ", tap_n_run_);
    vprintf(fmt, args);
    printf("\n");
    return good;
}

TAP_PRINTF_(4, 5)
static inline bool tap_ok_(bool good, const char *file, int line, const char *fmt, ...)
{
    va_list args;
    va_start(args, fmt);
    tap_point_(good, fmt, args);
    va_end(args);
    if (!good)
        diag("%s:%d", file, line);
    return good;
}

TAP_PRINTF_(5, 6)
static inline bool tap_is_int_(intmax_t got, intmax_t want, const char *file, int line,
                               const char *fmt, ...)
{
    va_list args;
    va_start(args, fmt);
    tap_point_(got == want, fmt, args);
    va_end(args);
    if (got != want)
        diag("%s:%d: got %" PRIdMAX " (0x%" PRIxMAX "), want %" PRIdMAX " (0x%" PRIxMAX ")", file,
             line, got, (uintmax_t)got, want, (uintmax_t)want);
    return got == want;
}

TAP_PRINTF_(5, 6)
static inline bool tap_is_str_(const char *got, const char *want, const char *file, int line,
                               const char *fmt, ...)
{
    bool good = got == want || (got && want && strcmp(got, want) == 0);
    va_list args;
    va_start(args, fmt);
    tap_point_(good, fmt, args);
    va_end(args);
    if (!good)
        diag("%s:%d: got \"%s\", want \"%s\"", file, line, got ? got : "(null)",
             want ? want : "(null)");
    return good;
}

#define ok(cond, ...) tap_ok_((cond) ? true : false, __FILE__, __LINE__, __VA_ARGS__)
#define is_int(got, want, ...) \
    tap_is_int_((intmax_t)(got), (intmax_t)(want), __FILE__, __LINE__, __VA_ARGS__)
#define is_str(got, want, ...) tap_is_str_((got), (want), __FILE__, __LINE__, __VA_ARGS__)

/* Counts n planned promises as skipped, with the reason. */
static inline void skip(int n, const char *why)
{
    for (int i = 0; i < n; i++)
        printf("ok %d # SKIP %s\n", ++tap_n_run_, why);
}

/* Ends the program, which cannot continue. */
TAP_PRINTF_(1, 2) static inline void bail(const char *fmt, ...)
{
    va_list args;
    va_start(args, fmt);
    printf("Bail out! ");
    vprintf(fmt, args);
    printf("\n");
    va_end(args);
    exit(99);
}

/* The seed of a random test: the user's PGAS_TEST_SEED, otherwise fallback, or the clock if that is
 * 0. It is printed, so that a failure can be repeated. */
static inline uint64_t tap_seed(uint64_t fallback)
{
    const char *text = getenv("TAP_SEED");
    uint64_t seed = fallback != 0 ? fallback : (uint64_t)time(NULL) * 1000003u + (uint64_t)getpid();
    if (!text)
        text = getenv("PGAS_TEST_SEED");
    if (text && *text != '\0')
        seed = strtoull(text, NULL, 0);
    diag("seed %" PRIu64 " (repeat with PGAS_TEST_SEED=%" PRIu64 ")", seed, seed);
    return seed;
}

/* The exit status of main. t/launch compares the plan with what ran. */
static inline int done(void)
{
    if (tap_n_run_ != tap_n_planned_)
        diag("planned %d, ran %d", tap_n_planned_, tap_n_run_);
    return tap_n_failed_ == 0 && tap_n_run_ == tap_n_planned_ ? 0 : 1;
}

#endif
