/* what: PGAS_LOG selects per module. A line is one write with rank and host. Fatal errors end with
 *       a backtrace. The signal handlers hide no signal and pass it on.
 * source: public headers; HACKING.md; src/base/log.h */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/utsname.h>
#include <sys/wait.h>
#include "base/checks.h"
#include "base/log.h"
#include "t/tap.h"

#if defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer) || \
    __has_feature(memory_sanitizer)
#define SANITIZED 1
#endif
#endif
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define SANITIZED 1
#endif

static int log_in, pipe_out; /* log lines are read from pipe_out, one write at a time */
static char text[8192];      /* what catch() found */
static char why[512];

/* a pipe in packet mode: each read gives what one write wrote */
static void open_log(void)
{
    int ends[2];
    if (pipe2(ends, O_DIRECT | O_NONBLOCK) != 0)
        bail("no pipe: %s", strerror(errno));
    pipe_out = ends[0];
    log_in = ends[1];
    pgasi_log_set_fd(log_in);
}

/* the next line that was written, or "" */
static const char *catch (void)
{
    ssize_t length = read(pipe_out, text, sizeof text - 1);
    text[length > 0 ? length : 0] = '\0';
    return text;
}

static int setup(const char *spec)
{
    return pgasi_log_setup(spec, 3, 8, why, sizeof why);
}

static void prefix_names_rank_and_host(void)
{
    struct utsname host;
    char want[600];
    uname(&host);
    pgasi_log_setup("warn", -1, -1, why, sizeof why);
    PGASI_WARN("boot", "no rank yet");
    snprintf(want, sizeof want, "-/- %s boot: warn: no rank yet\n", host.nodename);
    is_str(catch (), want, "a line before ranks are known");
    setup("warn");
    PGASI_ERROR("mem", "%d of %s", 5, "them");
    snprintf(want, sizeof want, "3/8 %s mem: error: 5 of them\n", host.nodename);
    is_str(catch (), want, "a line of rank 3 of 8");
}

static int n_evaluated;

static int evaluated(void)
{
    return ++n_evaluated;
}

static void levels_select(void)
{
    setup("warn");
    n_evaluated = 0;
    PGASI_INFO("mem", "%d", evaluated());
    PGASI_DEBUG("mem", "%d", evaluated());
    is_str(catch (), "", "info and debug are silent at warn");
    is_int(n_evaluated, 0, "and their arguments are not evaluated");
    setup("info,call=trace,mem=error,mem=debug");
    PGASI_DEBUG("boot", "silent");
    PGASI_TRACE("mem", "silent");
    is_str(catch (), "",
           "a module without a word has the default; another module's trace does not open it");
    PGASI_TRACE("call", "heard");
    ok(strstr(catch (), "call: trace: heard") != NULL, "call=trace");
    PGASI_DEBUG("mem", "heard");
    ok(strstr(catch (), "mem: debug: heard") != NULL, "the last word on a module counts");
    setup("call=debug");
    PGASI_INFO("boot", "silent");
    is_str(catch (), "", "without a bare level the default is warn");
    setup("Error");
    PGASI_WARN("mem", "silent");
    is_str(catch (), "", "error alone; case does not matter");
    setup("warn");
}

static void malformed_texts_are_refused(void)
{
    static const char *const bad[] = { "",
                                       "loud",
                                       "warn,",
                                       ",warn",
                                       "warn,debug",
                                       "=debug",
                                       "mem=",
                                       "mem=loud",
                                       "warn,mem",
                                       "me m=debug",
                                       "warn=",
                                       "2",
                                       "mem==debug",
                                       "warn,,mem=debug",
                                       "a_module_name_beyond_thirty_one_letters=debug" };
    int n_refused = 0;
    for (size_t i = 0; i < PGASI_ARRAY_LENGTH(bad); i++) {
        why[0] = '\0';
        bool refused = pgasi_log_check(bad[i], why, sizeof why) == PGAS_ERR_INVALID &&
                       strstr(why, "allowed: level[,module=level]*") != NULL;
        if (!refused)
            diag("accepted, or refused without a reason: \"%s\": %s", bad[i], why);
        n_refused += refused;
    }
    is_int(n_refused, PGASI_ARRAY_LENGTH(bad),
           "malformed texts are refused with the allowed values");
    char many[400] = "warn";
    for (int i = 0; i <= PGASI_LOG_MODULES_MAX; i++)
        snprintf(many + strlen(many), sizeof many - strlen(many), ",m%d=debug", i);
    is_int(pgasi_log_check(many, why, sizeof why), PGAS_ERR_INVALID,
           "more modules than there is room for");
    setup("info");
    setup("loud");
    PGASI_INFO("mem", "heard");
    ok(strstr(catch (), "heard") != NULL, "a refused text leaves the levels as they were");
    setup("warn");
}

static void a_line_is_one_line(void)
{
    char big[6000];
    memset(big, 'x', sizeof big - 1);
    big[sizeof big - 1] = '\0';
    PGASI_WARN("mem", "one\ntwo\n");
    ok(strstr(catch (), "one two\n") != NULL,
       "line ends inside become blanks, one at the end is dropped");
    PGASI_WARN("mem", "%s", big);
    size_t length = strlen(catch ());
    ok(length == 4096 - 1 && strcmp(text + length - 5, "x...\n") == 0,
       "6000 characters are cut in one write (%zu)", length);
    is_str(catch (), "", "and nothing follows");
}

static void errno_survives(void)
{
    errno = ENOENT;
    pgasi_log_set_fd(-1); /* where every write fails */
    PGASI_WARN("mem", "to nowhere");
    int kept = errno;
    pgasi_log_set_fd(log_in);
    is_int(kept, ENOENT, "errno is kept, also when the line is lost");
}

static void warn_once_warns_once(void)
{
    static int warned;
    uint64_t before = pgasi_log_count(PGASI_LOG_WARN);
    for (int i = 0; i < 3; i++)
        pgasi_warn_once(&warned, "mem", "no huge pages (%d)", i);
    ok(strstr(catch (), "no huge pages (0)") != NULL, "the first is heard");
    is_str(catch (), "", "the others are not");
    is_int(pgasi_log_count(PGASI_LOG_WARN) - before, 1, "one warning was counted");
}

/* ---- deaths, each in a process of its own ---- */

/* run body in a child that logs into a file; gives its wait status, and the log in text */
static int die(void (*body)(void))
{
    FILE *log = tmpfile();
    struct rlimit no_core = { 0, 0 };
    int status = 0;
    fflush(stdout);
    pid_t child = fork();
    if (child == 0) {
        setrlimit(RLIMIT_CORE, &no_core);
        alarm(20);
        pgasi_log_set_fd(fileno(log));
        body();
        _exit(0);
    }
    waitpid(child, &status, 0);
    rewind(log);
    size_t length = fread(text, 1, sizeof text - 1, log);
    text[length] = '\0';
    fclose(log);
    return status;
}

static int count(const char *needle)
{
    int n = 0;
    for (const char *at = text; (at = strstr(at, needle)) != NULL; at++)
        n++;
    return n;
}

static void hook(void)
{
    PGASI_ERROR("test", "hook ran");
}

static void body_fatal(void)
{
    pgasi_log_install_backtrace();
    pgasi_log_set_fatal_hook(hook);
    pgasi_fatal("mem", "chunk %d is gone", 7);
}

static void body_abort(void)
{
    pgasi_log_install_backtrace();
    pgasi_log_install_backtrace(); /* twice is harmless */
    abort();
}

/* a store to a page that may not be written */
static void body_fault(void)
{
    pgasi_log_install_backtrace();
    volatile char *page = mmap(NULL, 4096, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    *page = 1;
}

static volatile sig_atomic_t n_handled;
static volatile char *volatile guarded;

/* a program that uses faults: it opens the page and continues */
static void open_page(int number, siginfo_t *info, void *context)
{
    (void)number, (void)context;
    if (info->si_addr == (void *)(uintptr_t)guarded) {
        n_handled++;
        mprotect(info->si_addr, 4096, PROT_READ | PROT_WRITE);
    }
}

static void body_handled_fault(void)
{
    struct sigaction action;
    memset(&action, 0, sizeof action);
    action.sa_sigaction = open_page;
    action.sa_flags = SA_SIGINFO;
    sigaction(SIGSEGV, &action, NULL);
    pgasi_log_install_backtrace();
    for (int i = 0; i < 2; i++) {
        guarded = mmap(NULL, 4096, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        *guarded = 1;
    }
    _exit(n_handled == 2 ? 42 : 1);
}

static void exit_43(int number)
{
    (void)number;
    _exit(43);
}

static void body_handled_abort(void)
{
    signal(SIGABRT, exit_43);
    pgasi_log_install_backtrace();
    abort();
}

static void body_sent(void)
{
    pgasi_log_install_backtrace();
    kill(getpid(), SIGBUS);
    pause();
}

static void body_ignored(void)
{
    signal(SIGBUS, SIG_IGN);
    pgasi_log_install_backtrace();
    kill(getpid(), SIGBUS);
    _exit(44);
}

static int dig(volatile char *above, int depth)
{
    volatile char room[4096];
    room[0] = above != NULL ? above[0] : 1;
    return depth == 0 ? room[0] : dig(room, depth - 1) + room[0];
}

static void body_stack_overflow(void)
{
    pgasi_log_install_backtrace();
    struct rlimit small = { 1 << 20, 1 << 20 };
    setrlimit(RLIMIT_STACK, &small);
    _exit(dig(NULL, 1 << 20) == 0);
}

static void body_removed(void)
{
    signal(SIGABRT, exit_43);
    pgasi_log_install_backtrace();
    pgasi_log_remove_backtrace();
    abort();
}

static void fatal_prints_calls_and_aborts(void)
{
    int status = die(body_fatal);
    ok(WIFSIGNALED(status) && WTERMSIG(status) == SIGABRT, "pgasi_fatal ends by SIGABRT");
    is_int(count("mem: error: chunk 7 is gone\n"), 1, "after its line");
    is_int(count("test: error: hook ran\n"), 1, "and the hook");
    ok(count("[0x") >= 2, "with a backtrace (%d frames)", count("[0x"));
    is_int(count("signal: error:"), 0, "printed once, not again by the handler of SIGABRT");
}

static void signals_are_reported_and_not_hidden(void)
{
    int status = die(body_fault);
    ok(WIFSIGNALED(status) && WTERMSIG(status) == SIGSEGV, "a fault still ends by SIGSEGV");
    ok(count("signal: error: SIGSEGV at address 0x") == 1 && count("[0x") >= 2,
       "after one line and a backtrace");
    status = die(body_abort);
    ok(WIFSIGNALED(status) && WTERMSIG(status) == SIGABRT && count("SIGABRT sent by process") == 1,
       "abort as well");
    status = die(body_sent);
    ok(WIFSIGNALED(status) && WTERMSIG(status) == SIGBUS && count("SIGBUS sent by process") == 1,
       "a sent SIGBUS too");
    status = die(body_stack_overflow);
    ok(WIFSIGNALED(status) && WTERMSIG(status) == SIGSEGV && count("SIGSEGV") == 1,
       "and a stack overflow");
}

static void former_handlers_are_called(void)
{
    int status = die(body_handled_fault);
    is_int(WEXITSTATUS(status), 42, "a program that repairs its faults continues");
    is_int(count("SIGSEGV"), 1, "and only the first is reported");
    is_int(WEXITSTATUS(die(body_handled_abort)), 43, "a handler of SIGABRT runs");
    is_int(WEXITSTATUS(die(body_ignored)), 44, "a signal that was ignored stays so");
    is_str(text, "", "in silence");
    is_int(WEXITSTATUS(die(body_removed)), 43, "after removal the former handler is back");
    is_str(text, "", "and ours is silent");
}

/* The reader of the log may have ended; SIGPIPE has its default. */
static void body_unread(void)
{
    int fds[2];
    if (pipe(fds) != 0 || signal(SIGPIPE, SIG_DFL) == SIG_ERR)
        _exit(1);
    close(fds[0]);
    pgasi_log_set_fd(fds[1]);
    PGASI_ERROR("test", "nobody reads this");
    sigset_t waiting;
    _exit(sigpending(&waiting) == 0 && !sigismember(&waiting, SIGPIPE) ? 7 : 2);
}

static void a_reader_may_go(void)
{
    int status = die(body_unread);
    ok(WIFEXITED(status) && WEXITSTATUS(status) == 7, "a log without a reader ends no program");
}

int main(void)
{
    plan(37);
    open_log();
    prefix_names_rank_and_host();
    levels_select();
    malformed_texts_are_refused();
    a_line_is_one_line();
    errno_survives();
    warn_once_warns_once();
    a_reader_may_go();
#ifdef SANITIZED
    skip(17, "the sanitizer has signal handlers of its own");
    (void)fatal_prints_calls_and_aborts, (void)signals_are_reported_and_not_hidden,
        (void)former_handlers_are_called;
#else
    fatal_prints_calls_and_aborts();
    signals_are_reported_and_not_hidden();
    former_handlers_are_called();
#endif
    return done();
}
