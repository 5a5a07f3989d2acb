/* what: A long phase is shown as lines, as a bar on a terminal, or not at all. A signal that stops
 *       the program first prints one line with the progress reached, and then has its former
 *       effect.
 * source: pgas/info.h, src/base/progress.h */
#include "base/progress.h"
#include <fcntl.h>
#include <regex.h>
#include <signal.h>
#include <sys/wait.h>
#include "t/tap.h"
#include "base/clock.h"
#include "base/log.h"
#include "pgas/info.h"

#define STEPS 20

static char output[1 << 16];

static bool matches(const char *text, const char *pattern)
{
    regex_t compiled;
    if (regcomp(&compiled, pattern, REG_EXTENDED | REG_NOSUB) != 0)
        bail("a bad pattern: %s", pattern);
    bool good = regexec(&compiled, text, 0, NULL, 0) == 0;
    regfree(&compiled);
    if (!good)
        diag("%s", text);
    return good;
}

static int count(const char *text, const char *part)
{
    int n = 0;
    for (; (text = strstr(text, part)) != NULL; text++)
        n++;
    return n;
}

/* ---- children, and their output ---- */

static void open_pair(bool terminal, int fd[2])
{
    if (!terminal) {
        if (pipe(fd) != 0)
            bail("no pipe");
        return;
    }
    fd[0] = posix_openpt(O_RDWR | O_NOCTTY);
    if (fd[0] < 0 || grantpt(fd[0]) != 0 || unlockpt(fd[0]) != 0 ||
        (fd[1] = open(ptsname(fd[0]), O_RDWR | O_NOCTTY)) < 0)
        bail("no terminal");
}

/* Runs body in a process with that mode and copies its standard error to output. Returns its
 * status. */
static int run(const char *mode, bool terminal, void (*body)(void))
{
    int fd[2], status = 0;
    size_t n = 0;
    ssize_t got;
    open_pair(terminal, fd);
    fflush(stdout);
    pid_t child = fork();
    if (child == 0) {
        dup2(fd[1], STDERR_FILENO);
        close(fd[0]);
        setenv("PGAS_PROGRESS", mode, 1);
        setenv("PGAS_PROGRESS_MS", "1", 1);
        signal(SIGINT, SIG_DFL); /* tests may run in the background */
        signal(SIGTERM, SIG_DFL);
        body();
        _exit(0);
    }
    close(fd[1]);
    while (n < sizeof output - 1 && (got = read(fd[0], output + n, sizeof output - 1 - n)) > 0)
        n += (size_t)got; /* a terminal ends with an error */
    output[n] = '\0';
    close(fd[0]);
    waitpid(child, &status, 0);
    return status;
}

/* A step lasts longer than the time between two lines. */
static void steps(uint64_t first, uint64_t end, uint64_t total)
{
    for (uint64_t i = first; i <= end; i++) {
        pgas_progress_show("walk", i, total, i > STEPS / 2 ? "later" : NULL);
        for (uint64_t begin = pgasi_now_ns(); pgasi_now_ns() - begin < 2000000;) {
        }
    }
}

static void walk(void)
{
    steps(0, STEPS, STEPS);
}

static void walk_without_end(void)
{
    steps(1, STEPS, 0);
    pgas_progress_show(NULL, 0, 0, NULL);
}

static void as_rank_1(void)
{
    char why[64];
    pgasi_log_setup(PGASI_LOG_DEFAULT, 1, 2, why, sizeof why);
    walk();
}

static void at_once(void)
{
    pgas_progress_show("walk", 1, 1, NULL);
    pgas_progress_show("walk", 0, 0, NULL);
    pgas_progress_show(NULL, 0, 0, NULL);
}

/* ---- modes ---- */

static void texts(void)
{
    char text[PGASI_PROGRESS_TEXT_BYTES], note[2 * PGASI_PROGRESS_TEXT_BYTES];
    pgasi_progress_t p = { .phase = "read", .done = 4500000, .total = 10000000, .seconds = 3 };
    is_str(pgasi_progress_line(&p, text), "read: 45 %, 1.5 M/s, 4 s left", "a line");
    is_str(pgasi_progress_bar(&p, text),
           "read [##################                      ] 45 %, 4 s left", "a bar");
    is_str(pgasi_progress_epitaph(&p, text), "interrupted in read at 45 % after 3 s", "an end");
    p.first = 1500000, p.note = "two of us";
    is_str(pgasi_progress_line(&p, text), "read: 45 %, 1 M/s, 6 s left; two of us",
           "what was there first does not count; a note");
    p = (pgasi_progress_t){ .phase = "read", .done = 999, .seconds = 2 };
    is_str(pgasi_progress_line(&p, text), "read: 999, 500/s, 2 s so far", "an unknown total");
    is_str(pgasi_progress_bar(&p, text), "read 999, 2 s so far", "as a bar");
    is_str(pgasi_progress_epitaph(&p, text), "interrupted in read at 999 after 2 s", "and its end");
    p = (pgasi_progress_t){ .phase = "read", .done = 9996, .seconds = 10 };
    is_str(pgasi_progress_line(&p, text), "read: 10 k, 1 k/s, 10 s so far",
           "a number just below a thousand");
    p = (pgasi_progress_t){ .phase = "read", .done = 1, .total = 600, .seconds = 1 };
    is_str(pgasi_progress_epitaph(&p, text), "interrupted in read at 0.17 % after 1 s",
           "a small share");
    p = (pgasi_progress_t){ .phase = "read", .total = UINT64_MAX };
    is_str(pgasi_progress_line(&p, text), "read: 0 %, 0/s, 0 s so far", "nothing is done yet");
    p.done = p.total;
    is_str(pgasi_progress_line(&p, text), "read: 100 %, 0/s, 0 s in all",
           "all is done, in no time");
    memset(note, 'x', sizeof note);
    note[sizeof note - 1] = '\0';
    p.note = note;
    is_int(strlen(pgasi_progress_line(&p, text)), PGASI_PROGRESS_TEXT_BYTES - 1,
           "a long note is cut off");
}

static void modes(void)
{
    const char *lines = "^(progress: walk: [0-9]+ %, [0-9.]+( k)?/s, [0-9]+ s (left|so far|in "
                        "all)(; later)?\n){10,21}$";
    run("auto", false, walk);
    ok(matches(output, lines) && matches(output, "; later\n") &&
           matches(output, "100 %, .* in all; later\n$"),
       "auto, a pipe: lines, the last one with 100 %%");
    run("lines", true, walk);
    ok(strstr(output, "[") == NULL && count(output, "progress: walk: ") > 9,
       "lines, a terminal: lines");
    run("no", true, walk);
    is_str(output, "", "no: nothing");
    run("auto", true, walk);
    ok(count(output, "\r\033[Kwalk [##") > 8 && matches(output, "\\[K$"),
       "auto, a terminal: a bar, gone at the end");
    run("bar", false, walk);
    ok(count(output, "\r\033[Kwalk [##") > 8, "bar, a pipe: a bar");
    run("auto", false, walk_without_end);
    ok(matches(output,
               "^(progress: walk: [0-9]+, [0-9.]+( k)?/s, [0-9]+ s so far(; later)?\n){9,20}$"),
       "lines without a total");
    run("lines", false, as_rank_1);
    is_str(output, "", "only rank 0 shows");
    run("lines", false, at_once);
    is_str(output, "", "short phases are not shown");
}

/* ---- signals ---- */

static void interrupted(void)
{
    pgas_progress_show("walk", 0, 2, NULL);
    pgas_progress_show("walk", 1, 2, NULL);
    raise(SIGINT);
}

static void interrupted_bar(void)
{
    steps(0, STEPS / 2, STEPS);
    raise(SIGTERM);
}

static void former(int number)
{
    const char text[] = "former\n";
    ssize_t ignored = write(STDERR_FILENO, text, sizeof text - 1);
    (void)ignored;
    if (number == SIGTERM)
        _exit(7);
}

static void interrupted_twice(void)
{
    signal(SIGINT, former);
    signal(SIGTERM, former);
    interrupted();
    raise(SIGTERM);
}

static void ignored(void)
{
    signal(SIGINT, SIG_IGN);
    interrupted();
    steps(1, STEPS, STEPS);
}

static void after_the_end(void)
{
    struct sigaction now;
    walk();
    sigaction(SIGINT, NULL, &now);
    _exit(now.sa_handler == SIG_DFL ? 5 : 6);
}

/* Exits with 0 if calls that the signal interrupts continue or fail, as the former handler was set
 * up. */
static void interrupted_calls(void)
{
    int wrong = 0;
    for (int flags = 0; flags <= SA_RESTART; flags += SA_RESTART) {
        struct sigaction action = { .sa_handler = former, .sa_flags = flags }, now;
        sigaction(SIGINT, &action, NULL);
        pgas_progress_show("walk", 1, 2, NULL);
        sigaction(SIGINT, NULL, &now);
        wrong += now.sa_handler == former || (now.sa_flags & SA_RESTART) != flags;
        pgas_progress_show(NULL, 0, 0, NULL);
    }
    _exit(wrong);
}

static void signals(void)
{
    int status = run("auto", false, interrupted);
    ok(matches(output, "^progress: interrupted in walk at 50 % after [0-9]+ s\n$"),
       "one line says how far the phase was");
    ok(WIFSIGNALED(status) && WTERMSIG(status) == SIGINT, "and the signal ends the program");
    status = run("auto", true, interrupted_bar);
    ok(WIFSIGNALED(status) && WTERMSIG(status) == SIGTERM &&
           matches(output, "left\r?\nprogress: interrupted in walk at 50 % .* s\r?\n$"),
       "below a bar, too");
    status = run("no", false, interrupted);
    ok(*output == '\0' && WIFSIGNALED(status), "no: no such line");
    status = run("auto", false, interrupted_twice);
    ok(matches(output, "^progress: interrupted in walk at 50 % after [0-9]+ s\nformer\nformer\n$"),
       "the line comes once, before what a former handler does for each signal");
    is_int(WEXITSTATUS(status), 7, "which may end the program");
    status = run("auto", false, ignored);
    ok(status == 0 && count(output, "interrupted") == 0 && count(output, "100 %") == 1,
       "an ignored signal stays ignored");
    status = run("auto", false, after_the_end);
    is_int(WEXITSTATUS(status), 5, "after the phase the former action is there again");
    is_int(WEXITSTATUS(run("auto", false, interrupted_calls)), 0,
           "system calls are restarted where the former handler restarts them");
}

int main(void)
{
    plan(29);
    texts();
    modes();
    signals();
    return done();
}
