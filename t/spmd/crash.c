/* One rank of this job crashes: the program of t/spmd/crash.t, no test by itself.
 *   crash RANK HOW       HOW: segfault; abort; handled, with a handler that the program installed
 *                        before pgas_init; later, a segfault after pgas_finalize; stop, by
 *                        pgas_abort in the job; early, by pgas_abort before it */
#include <pgas/pgas.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static void on_signal(int number)
{
    static const char text[] = "the program's own handler ran\n";
    (void)number;
    (void)!write(STDERR_FILENO, text, sizeof text - 1);
    _exit(7);
}

/* A function with a name, which the test searches in the backtrace. */
__attribute__((noinline, visibility("default"))) void crash_here(int aborts);
void crash_here(int aborts)
{
    volatile int *volatile nowhere = (volatile int *)16;
    if (aborts)
        abort();
    *nowhere = 1;
}

int main(int argc, char **argv)
{
    if (argc != 3)
        return 2;
    int rank = atoi(argv[1]);
    const char *how = argv[2];
    if (strcmp(how, "handled") == 0)
        signal(SIGSEGV, on_signal);
    if (strcmp(how, "early") == 0)
        pgas_abort(0, NULL);
    if (pgas_init(NULL, NULL) != PGAS_OK)
        return 3;
    int mine = pgas_rank() == rank;
    if (strcmp(how, "later") == 0)
        pgas_finalize();
    if (mine && strcmp(how, "stop") == 0)
        pgas_abort(7, "the input has no end");
    if (mine)
        crash_here(strcmp(how, "abort") == 0);
    if (strcmp(how, "later") != 0)
        pgas_barrier(NULL);
    return 0;
}
