/* One rank of this job is killed, the others wait for it: the program of t/spmd/kill.t, no test by itself.
 *   victim RANK HOW       HOW is what the survivors do: barrier, compute, reply, signal */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include "pgas/pgas.h"

static pgas_handler_t never;

static void on_never(const void *args, size_t bytes, pgas_thread_t source, void *context)
{
    (void)args;
    (void)bytes;
    (void)source;
    (void)context;
}

static void survive(const char *how, int victim)
{
    static uint64_t word;
    uint64_t x = 0;
    volatile double y = 1;
    if (strcmp(how, "barrier") == 0)
        pgas_barrier(NULL);
    else if (strcmp(how, "reply") == 0)
        while (pgas_call_return(victim, never, NULL, 0, &x, sizeof x, NULL) != PGAS_OK) {
        }
    else if (strcmp(how, "signal") == 0)
        pgas_signal_wait(&word, PGAS_EQ, 1, -1, NULL);
    for (;;)
        y = y * 0.5 + 1;
}

int main(int argc, char **argv)
{
    if (argc != 3)
        return 2;
    int victim = atoi(argv[1]);
    pgas_handler_register("t.never", on_never, NULL, &never);
    if (pgas_init(NULL, NULL) != PGAS_OK)
        return 3;
    for (int r = 0; r < pgas_n_ranks(); r++) /* everybody knows everybody */
        pgas_call(r, never, NULL, 0, NULL);
    pgas_quiesce();
    if (pgas_rank() == 0) {
        printf("started\n");
        fflush(stdout);
    }
    pgas_barrier(NULL);
    if (pgas_rank() == victim)
        raise(SIGKILL);
    survive(argv[2], victim);
    return 0;
}
