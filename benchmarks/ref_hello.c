/* The start of a job, for benchmarks/ratios.
 *
 *   ref_hello               a program of MPI that does nothing: the reference of examples/01_hello
 *   ref_hello COMMAND ..    runs a command and prints its greatest resident memory in KiB */
#include <mpi.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

static const char usage[] =
    "usage: ref_hello          starts and ends MPI\n"
    "       ref_hello COMMAND  runs a command and prints its greatest resident memory\n";

/* @return the exit status */
static int explain(const char *option)
{
    if (strcmp(option, "--help") == 0)
        return fputs(usage, stdout) < 0;
    fprintf(stderr, "ref_hello: no such option: %s\n%s", option, usage);
    return 2;
}

static int measure(char **command)
{
    struct rusage used;
    int status;
    pid_t child = fork();
    if (child < 0)
        return 1;
    if (child == 0) {
        execvp(command[0], command);
        _exit(127);
    }
    if (wait4(child, &status, 0, &used) != child)
        return 1;
    printf("resident %ld\n", used.ru_maxrss);
    return status != 0;
}

int main(int argc, char **argv)
{
    int rank, n_ranks;
    if (argc > 1 && argv[1][0] == '-')
        return explain(argv[1]);
    if (argc > 1)
        return measure(argv + 1);
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &n_ranks);
    for (int turn = 0; turn < n_ranks; turn++) {
        if (turn == rank) {
            printf("rank %d of %d\n", rank, n_ranks);
            fflush(stdout);
        }
        MPI_Barrier(MPI_COMM_WORLD);
    }
    MPI_Finalize();
    return 0;
}
