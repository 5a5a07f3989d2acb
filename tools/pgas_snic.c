/* pgas_snic: the software NIC of a node as a process of its own. Programs that open "snic" with the engine PROCESS start it by
 * themselves; it ends when nobody has used it for a while. */
#include <errno.h>
#include <fcntl.h>
#include <pgas/verbs.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define SECOND_NS UINT64_C(1000000000)

static int usage(FILE *out, int code)
{
    fprintf(out, "usage: pgas_snic [--name NAME] [--idle SECONDS] [--foreground] [--help]\n"
                 "  --name NAME      which of this user's software NICs on this node (default)\n"
                 "  --idle SECONDS   ends when no program has used it for so long (2)\n"
                 "  --foreground     does not go into the background\n");
    return code;
}

/* Leaves nothing of the program that started us open: its launcher waits until all of its pipes are closed. */
static void go_into_background(void)
{
    pid_t pid = fork();
    if (pid < 0) {
        perror("pgas_snic: fork");
        exit(1);
    }
    if (pid > 0)
        _exit(0);
    setsid();
    int null = open("/dev/null", O_RDWR);
    for (int fd = 0; fd < 3; fd++)
        dup2(null, fd);
    for (long fd = sysconf(_SC_OPEN_MAX) < 65536 ? sysconf(_SC_OPEN_MAX) : 65536; fd > 2; fd--)
        close((int)fd);
    if (chdir("/") != 0)
        _exit(1);
}

int main(int argc, char **argv)
{
    const char *name = "default";
    double idle = 2;
    int foreground = 0;
    for (int i = 1; i < argc; i++) {
        char *end = NULL;
        if (strcmp(argv[i], "--help") == 0)
            return usage(stdout, 0);
        if (strcmp(argv[i], "--foreground") == 0) {
            foreground = 1;
        } else if (strcmp(argv[i], "--name") == 0 && i + 1 < argc) {
            name = argv[++i];
        } else if (strcmp(argv[i], "--idle") == 0 && i + 1 < argc) {
            idle = strtod(argv[++i], &end);
            if (end == argv[i] || *end != '\0' || !(idle >= 0 && idle < 1e6))
                return usage(stderr, 2);
        } else {
            return usage(stderr, 2);
        }
    }
    if (!foreground)
        go_into_background();
    pgas_status_t status = pgas_verbs_snic_serve(name, (uint64_t)(idle * SECOND_NS));
    if (status == PGAS_ERR_EXISTS)
        fprintf(stderr, "pgas_snic: there is one of the name \"%s\" already\n", name);
    else if (status != PGAS_OK)
        fprintf(stderr, "pgas_snic: %s\n", pgas_status_text(status));
    return status == PGAS_OK ? 0 : 1;
}
