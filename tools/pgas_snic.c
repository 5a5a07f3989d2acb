/* pgas_snic: the software NIC of a node as a process of its own. Programs that open "snic" with the
 * engine PROCESS start it. It ends when no program has used it for a while. --status queries the
 * running process. */
#include <errno.h>
#include <fcntl.h>
#include <getopt.h>
#include <pgas/verbs_snic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>
#include "examples/usage.h"

#define SECOND_US INT64_C(1000000)

static const char usage[] =
    "pgas_snic [--name NAME] [--idle SECONDS]\n"
    "                 [--foreground | --status | --help | --version]\n"
    "  --name NAME     one of this user's software NICs on this node (default)\n"
    "  --idle SECONDS  end after this many seconds without a client (2)\n"
    "  --foreground    do not go into the background\n"
    "  --status        print the state of the running process; without one the exit\n"
    "                  status is 1\n"
    "  --version       print the version of the library\n"
    "  --help          print this text\n";

static int print_status(const char *name)
{
    pgas_verbs_snic_info_t info = { .size = sizeof info };
    pgas_status_t status = pgas_verbs_snic_info(name, &info);
    if (status == PGAS_ERR_NOT_FOUND)
        printf("pgas_snic \"%s\" does not run\n", name);
    else if (status != PGAS_OK)
        fprintf(stderr, "pgas_snic: \"%s\" does not answer: %s\n", name, pgas_status_text(status));
    else
        printf("pgas_snic \"%s\" runs as process %d for %.1f s and has %d of at most %d clients\n",
               name, info.pid, (double)info.up_us / (double)SECOND_US, info.n_clients,
               info.n_clients_max);
    return fflush(stdout) == 0 && status == PGAS_OK ? 0 : 1;
}

/* Each client takes one descriptor, and two more for a moment. */
static void raise_limit(void)
{
    struct rlimit limit;
    if (getrlimit(RLIMIT_NOFILE, &limit) == 0 && limit.rlim_cur < limit.rlim_max) {
        limit.rlim_cur = limit.rlim_max;
        setrlimit(RLIMIT_NOFILE, &limit);
    }
}

/* Closes all files of the program that has started this process: its launcher waits until all of
 * its pipes are closed. */
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

enum { NAME = 1, IDLE, FOREGROUND, STATUS, VERSION, HELP };

int main(int argc, char **argv)
{
    static const struct option options[] = { { "name", required_argument, NULL, NAME },
                                             { "idle", required_argument, NULL, IDLE },
                                             { "foreground", no_argument, NULL, FOREGROUND },
                                             { "status", no_argument, NULL, STATUS },
                                             { "version", no_argument, NULL, VERSION },
                                             { "help", no_argument, NULL, HELP },
                                             { 0 } };
    const char *name = "default";
    double idle = 2;
    bool foreground = false, asks = false;
    int option;
    while ((option = getopt_long(argc, argv, ":", options, NULL)) != -1) {
        char *end = NULL;
        switch (option) {
        case NAME:
            name = optarg;
            break;
        case IDLE:
            idle = strtod(optarg, &end);
            if (end == optarg || *end != '\0' || !(idle >= 0 && idle < 1e6))
                usage_exit(0, usage, "not a number of seconds", optarg);
            break;
        case FOREGROUND:
            foreground = true;
            break;
        case STATUS:
            asks = true;
            break;
        case VERSION:
            printf("libpgas %s\n", PGAS_SNIC_VERSION);
            return fflush(stdout) != 0;
        case HELP:
            usage_exit(0, usage, NULL, "");
        default:
            usage_refuse(0, argv, usage, option);
        }
    }
    if (optind < argc)
        usage_exit(0, usage, "an argument too many", argv[optind]);
    if (asks)
        return print_status(name);
    raise_limit();
    if (!foreground)
        go_into_background();
    pgas_status_t status = pgas_verbs_snic_serve(name, (int64_t)(idle * (double)SECOND_US));
    if (status == PGAS_ERR_EXISTS)
        fprintf(stderr, "pgas_snic: there is one of the name \"%s\" already\n", name);
    else if (status != PGAS_OK)
        fprintf(stderr, "pgas_snic: %s\n", pgas_status_text(status));
    return status == PGAS_OK ? 0 : 1;
}
