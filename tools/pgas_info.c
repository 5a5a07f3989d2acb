/* pgas_info: what this libpgas is and how it would be set up. Alone it prints what needs no job, under mpirun once; with
 * --job the ranks start the library, and rank 0 prints what they found as well. */
#include <pgas/pgas.h>
#include <stdio.h>
#include <string.h>

static int usage(FILE *out, int code)
{
    fprintf(out, "usage: [mpirun -n N] pgas_info [--job] [--help] [--version]\n"
                 "  --job      start the library on the ranks of the job and print what it found, such as bytes per rank\n");
    return code;
}

/* The exit status: what was printed must have arrived. */
static int flushed(int code)
{
    if (fflush(stdout) == 0 && !ferror(stdout))
        return code;
    perror("pgas_info: standard output");
    return 1;
}

static int job(void)
{
    pgas_status_t status = pgas_init(NULL, NULL);
    if (status != PGAS_OK) {
        fprintf(stderr, "pgas_info: cannot start: %s\n", pgas_status_text(status));
        return 1;
    }
    int code = 0;
    if (pgas_rank() == 0)
        code = flushed(pgas_info_print(stdout) != PGAS_OK);
    return pgas_finalize() == PGAS_OK ? code : 1;
}

int main(int argc, char **argv)
{
    if (argc == 1)
        return flushed(pgas_info_print(stdout) != PGAS_OK);
    if (argc == 2 && strcmp(argv[1], "--help") == 0)
        return flushed(usage(stdout, 0));
    if (argc == 2 && strcmp(argv[1], "--version") == 0) {
        printf("libpgas %s\n", pgas_version());
        return flushed(0);
    }
    return argc == 2 && strcmp(argv[1], "--job") == 0 ? job() : usage(stderr, 2);
}
