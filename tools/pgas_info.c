/* pgas_info: what this libpgas is and how it would be set up. Under mpirun rank 0 starts the library and prints the job
 * as well; without a launcher it only prints what needs no job. */
#include <pgas/pgas.h>
#include <stdio.h>
#include <string.h>

static int usage(FILE *out, int code)
{
    fprintf(out, "usage: [mpirun -n N] pgas_info [--job] [--help] [--version]\n"
                 "  --job      start the library on the ranks of the job and print what it found\n");
    return code;
}

int main(int argc, char **argv)
{
    if (argc == 1)
        return pgas_info_print(stdout) == PGAS_OK ? 0 : 1;
    if (argc == 2 && strcmp(argv[1], "--help") == 0)
        return usage(stdout, 0);
    if (argc == 2 && strcmp(argv[1], "--version") == 0) {
        printf("libpgas %s\n", pgas_version());
        return 0;
    }
    if (argc != 2 || strcmp(argv[1], "--job") != 0)
        return usage(stderr, 2);
    pgas_status_t status = pgas_init(NULL, NULL);
    if (status != PGAS_OK) {
        fprintf(stderr, "pgas_info: cannot start: %s\n", pgas_status_text(status));
        return 1;
    }
    if (pgas_rank() == 0)
        pgas_info_print(stdout);
    return pgas_finalize() == PGAS_OK ? 0 : 1;
}
