/* pgas_info: prints what this libpgas is and how it would be set up, as far as that needs no job;
 * under mpirun one rank prints. With --job the ranks start the library, and rank 0 also prints what
 * they have found. --devices lists RDMA ports. */
#include <arpa/inet.h>
#include <getopt.h>
#include <pgas/pgas.h>
#include <pgas/verbs.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "examples/usage.h"
#include "tools/listeners.h"

#define WAY_PORTS_MAX 3

static const char usage[] =
    "pgas_info [--job | --devices | --var NAME | --help | --version]\n"
    "  --job       start the library on the ranks of the job (mpirun -n N pgas_info --job)\n"
    "              and print what it found, such as bytes per rank, and which\n"
    "              sockets of its ranks accept connections\n"
    "  --devices   list the ports that queue pairs can use (pgas/verbs.h), with addresses\n"
    "  --var NAME  explain one of the variables PGAS_*\n"
    "  --version   print the version of the library\n"
    "  --help      print this text\n";

/* The exit status. It is 1 if the output could not be written. */
static int flushed(int code)
{
    if (fflush(stdout) == 0 && !ferror(stdout))
        return code;
    perror("pgas_info: standard output");
    return 1;
}

/* MPI starts first, so that pgas_info can distinguish its sockets from those of the library. */
static int job(void)
{
    static listeners_t listeners;
    int level;
    if (MPI_Init_thread(NULL, NULL, MPI_THREAD_SERIALIZED, &level) != MPI_SUCCESS)
        return 1;
    listeners_look(&listeners, SINCE_MPI);
    pgas_status_t status = pgas_init(NULL, NULL);
    if (status != PGAS_OK) {
        fprintf(stderr, "pgas_info: cannot start: %s\n", pgas_status_text(status));
        MPI_Finalize();
        return 1;
    }
    listeners_look(&listeners, SINCE_PGAS);
    int code = 0;
    if (pgas_rank() == 0)
        code = pgas_info_print(stdout, NULL) != PGAS_OK;
    code |= listeners_print(stdout, &listeners) != 0;
    code = flushed(code);
    code |= pgas_finalize() != PGAS_OK;
    return MPI_Finalize() == MPI_SUCCESS ? code : 1;
}

/* Prints the addresses of a port; a star marks the chosen one. */
static void print_gids(const pgas_verbs_info_t *port)
{
    pgas_verbs_gid_t gid;
    for (int i = 0; pgas_verbs_gid(port->name, port->port, i, &gid) == PGAS_OK; i++) {
        char text[INET6_ADDRSTRLEN] = "?";
        inet_ntop(AF_INET6, gid.gid, text, sizeof text);
        char mark = gid.index == port->gid_index ? '*' : ' ';
        printf("    GID %3d%c %-11s %s\n", gid.index, mark, gid.link, text);
    }
}

static void print_port(const pgas_verbs_info_t *port)
{
    char numa[16] = "?", lid[16] = "-";
    if (port->numa_node >= 0)
        snprintf(numa, sizeof numa, "%d", port->numa_node);
    if (port->lid != 0)
        snprintf(lid, sizeof lid, "%u", (unsigned)port->lid);
    printf("%-12s %4d %-8s %-6s %-11s %5s %4s  ", port->name, port->port, port->provider,
           port->active ? "active" : "down", port->link, lid, numa);
    if (port->chains)
        puts("yes");
    else
        printf("no: %s\n", port->chains_why);
    print_gids(port);
}

static int devices(void)
{
    pgas_verbs_info_t port = { .size = sizeof port };
    pgas_status_t status;
    printf("%-12s %4s %-8s %-6s %-11s %5s %4s  chains\n", "device", "port", "provider", "state",
           "link", "LID", "NUMA");
    for (int i = 0; (status = pgas_verbs_list(i, &port)) == PGAS_OK; i++)
        print_port(&port);
    if (status == PGAS_ERR_NOT_FOUND)
        printf("PGAS_VERBS_DEVICE=device or device:port chooses one; provider:device how it is "
               "driven; several between commas, or all: connections use the nearest in turn\n");
    else
        fprintf(stderr, "pgas_info: cannot list devices: %s\n", pgas_status_text(status));
    return flushed(status != PGAS_ERR_NOT_FOUND);
}

/* Prints the ports over which groups have a way (pgas/group.h), as many as fit into a line. */
static void print_way(const char *way, bool needs_chains)
{
    pgas_verbs_info_t port = { .size = sizeof port };
    int n = 0;
    printf("  %s", way);
    for (int i = 0; pgas_verbs_list(i, &port) == PGAS_OK; i++) {
        if (!port.active || (needs_chains && !port.chains))
            continue;
        if (n < WAY_PORTS_MAX)
            printf("%s%s:%d", n == 0 ? " on " : ", ", port.name, port.port);
        n++;
    }
    if (n > WAY_PORTS_MAX)
        printf(", and %d more", n - WAY_PORTS_MAX);
    puts(n == 0 ? ": no port has it" : "");
}

static int all(void)
{
    pgas_status_t status = pgas_info_print(stdout, NULL);
    puts("ways of groups, the first ones are chosen first:");
    print_way("chain", true);
    print_way("verbs", false);
    puts("  calls between the ranks of a job");
    return flushed(status != PGAS_OK);
}

/* The only option; its value is optarg. */
static int take(int option)
{
    switch (option) {
    case 'h':
        usage_exit(pgas_launcher_rank(), usage, NULL, "");
    case 'v':
        printf("libpgas %s\n", pgas_version());
        return flushed(0);
    case 'V':
        return flushed(pgas_info_print(stdout, optarg) != PGAS_OK);
    case 'd':
        return devices();
    default:
        return job();
    }
}

int main(int argc, char **argv)
{
    static const struct option options[] = {
        { "job", no_argument, NULL, 'j' },       { "devices", no_argument, NULL, 'd' },
        { "var", required_argument, NULL, 'V' }, { "version", no_argument, NULL, 'v' },
        { "help", no_argument, NULL, 'h' },      { NULL, 0, NULL, 0 }
    };
    opterr = 0;
    int option = getopt_long(argc, argv, ":", options, NULL);
    if (option == '?' || option == ':')
        usage_refuse(pgas_launcher_rank(), argv, usage, option);
    if (optind < argc)
        usage_exit(pgas_launcher_rank(), usage, "an argument too many", argv[optind]);
    return option == -1 ? all() : take(option);
}
