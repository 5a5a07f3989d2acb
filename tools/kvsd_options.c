/* kvsd_options: the command line of pgas_kvsd. */
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <getopt.h>
#include <pgas/info.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include "examples/usage.h"
#include "kvsd.h"

static const char brief[] = "pgas_kvsd [options]; see pgas_kvsd --help\n";

static const char usage[] =
    "pgas_kvsd [options]\n"
    "A server for clients of Redis, on the processes that mpirun starts. Rank r\n"
    "listens on port P + r, and every port reaches all keys.\n"
    "Connections\n"
    "  --port P              of rank 0 (6379)\n"
    "  --bind ADDRESS        127.0.0.1; others than loopback need a password\n"
    "  --password-file FILE  its first line is the password of AUTH\n"
    "  --max-clients N       of each rank (10000)\n"
    "  --timeout S           close clients that are idle for S seconds; 0: never (0)\n"
    "  --slow S              cut off clients that read no reply for S seconds (30)\n"
    "  --max-request BYTES   the longest request (1G)\n"
    "  --max-output BYTES    replies that wait for a client before the server reads\n"
    "                        no more of its requests (64M)\n"
    "  --max-buffers BYTES   of all clients of a rank (2G)\n"
    "Store\n"
    "  --memory BYTES        of each rank, for keys and values (128M)\n"
    "  --keys N              expected in the whole store; more make it slower (2^20)\n"
    "  --evict               delete keys that were not used lately when it is full\n"
    "  --dir DIR             load from DIR, log writes there, and save a snapshot\n"
    "                        there at the end\n"
    "  --sync WORD           second, always: when the log is on the disk (second)\n"
    "Output\n"
    "  --quiet               print nothing but errors\n"
    "  --help                print this text\n"
    "BYTES may end in K, M, G or T. SIGTERM or SIGINT to one rank, SIGUSR1 to mpirun,\n"
    "and the command SHUTDOWN end all ranks.\n";

enum {
    PORT = 256,
    BIND,
    PASSWORD,
    CLIENTS,
    TIMEOUT,
    SLOW,
    REQUEST,
    OUTPUT,
    BUFFERS,
    MEMORY,
    KEYS,
    EVICT,
    DIR_,
    SYNC,
    QUIET,
    HELP
};

static const struct option options[] = {
    { "port", 1, NULL, PORT },
    { "bind", 1, NULL, BIND },
    { "password-file", 1, NULL, PASSWORD },
    { "max-clients", 1, NULL, CLIENTS },
    { "timeout", 1, NULL, TIMEOUT },
    { "slow", 1, NULL, SLOW },
    { "max-request", 1, NULL, REQUEST },
    { "max-output", 1, NULL, OUTPUT },
    { "max-buffers", 1, NULL, BUFFERS },
    { "memory", 1, NULL, MEMORY },
    { "keys", 1, NULL, KEYS },
    { "evict", 0, NULL, EVICT },
    { "dir", 1, NULL, DIR_ },
    { "sync", 1, NULL, SYNC },
    { "quiet", 0, NULL, QUIET },
    { "help", 0, NULL, HELP },
    { NULL, 0, NULL, 0 },
};

__attribute__((noreturn)) static void refuse(const char *complaint, const char *word)
{
    usage_exit(pgas_launcher_rank(), brief, complaint, word);
}

/* ---- values ---- */

/* A whole number in [least, most], with K, M, G or T behind it. */
static bool set_bytes(const char *text, double least, double most, uint64_t *value_p)
{
    static const char units[] = "KMGT";
    char number[32];
    size_t n = strlen(text);
    double value, unit = 1;
    const char *letter = n > 0 ? strchr(units, text[n - 1] & ~32) : NULL;
    for (const char *u = units; letter && *letter != '\0' && u <= letter; u++)
        unit *= 1024;
    n -= unit > 1;
    if (n == 0 || n >= sizeof number)
        return false;
    memcpy(number, text, n);
    number[n] = '\0';
    if (!usage_real(number, 0, most, &value) || value * unit < least || value * unit > most)
        return false;
    *value_p = (uint64_t)(value * unit);
    return true;
}

/* The first line of the file. Others should not be able to read it. */
static void read_password(const char *path, kvsd_options_t *opts)
{
    char text[PASSWORD_MAX + 2] = "", words[300];
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    ssize_t n = fd >= 0 ? read(fd, text, sizeof text - 1) : -1;
    if (n < 0) {
        snprintf(words, sizeof words, "--password-file %.200s: %s", path, strerror(errno));
        refuse("not possible", words);
    }
    close(fd);
    size_t bytes = 0;
    while (bytes < (size_t)n && text[bytes] != '\n' && text[bytes] != '\r')
        bytes++;
    if (bytes == 0 || bytes > PASSWORD_MAX)
        refuse("not possible", "a password of 0 or more than 512 bytes");
    memset(opts->password, 0, sizeof opts->password);
    memcpy(opts->password, text, bytes);
    opts->password_bytes = bytes;
}

static bool set_sync(const char *text, kvsd_options_t *opts)
{
    bool always = strcmp(text, "always") == 0;
    opts->durability = always ? PGAS_KVS_SYNC_ALWAYS : PGAS_KVS_SYNC_SECOND;
    return always || strcmp(text, "second") == 0;
}

static bool is_loopback(const char *text)
{
    struct in_addr four;
    struct in6_addr six;
    if (inet_pton(AF_INET, text, &four) == 1)
        return ntohl(four.s_addr) >> 24 == 127;
    return inet_pton(AF_INET6, text, &six) == 1 && IN6_IS_ADDR_LOOPBACK(&six);
}

static bool is_address(const char *text)
{
    struct in6_addr any;
    return inet_pton(AF_INET, text, &any) == 1 || inet_pton(AF_INET6, text, &any) == 1;
}

/* @return whether the option's value is possible */
static bool set_option(int option, const char *text, kvsd_options_t *opts)
{
    const double most = 1e15;
    switch (option) {
    case PORT:
        return usage_int(text, 1, 65535, &opts->port);
    case BIND:
        opts->bind = text;
        return is_address(text);
    case PASSWORD:
        read_password(text, opts);
        return true;
    case CLIENTS:
        return usage_int(text, 1, 1e6, &opts->n_clients_max);
    case TIMEOUT:
        return usage_int(text, 0, 1e9, &opts->timeout_s);
    case SLOW:
        return usage_int(text, 1, 1e9, &opts->slow_s);
    case REQUEST:
        return set_bytes(text, 1024, most, &opts->request_max);
    case OUTPUT:
        return set_bytes(text, 1024, most, &opts->output_max);
    case BUFFERS:
        return set_bytes(text, 1 << 20, most, &opts->buffers_max);
    case MEMORY:
        return set_bytes(text, 1 << 20, most, &opts->memory);
    case KEYS:
        return set_bytes(text, 1, most, &opts->n_keys);
    case EVICT:
        return opts->evict = true;
    case DIR_:
        opts->dir = text;
        return *text != '\0';
    case SYNC:
        return set_sync(text, opts);
    default:
        return opts->quiet = true;
    }
}

/* ---- the command line ---- */

static void check_options(const kvsd_options_t *opts, bool has_sync)
{
    if (optind > 0 && !is_loopback(opts->bind) && opts->password_bytes == 0)
        refuse("not possible without --password-file", opts->bind);
    if (has_sync && !opts->dir)
        refuse("not possible", "--sync without --dir");
}

void kvsd_parse_options(int argc, char **argv, kvsd_options_t *opts)
{
    char words[200];
    int answer, index = 0;
    bool has_sync = false;
    *opts = (kvsd_options_t){
        .port = 6379,
        .bind = "127.0.0.1",
        .memory = (uint64_t)128 << 20,
        .n_clients_max = 10000,
        .request_max = (uint64_t)1 << 30,
        .output_max = (uint64_t)64 << 20,
        .buffers_max = (uint64_t)2 << 30,
        .slow_s = 30,
    };
    opterr = 0;
    while ((answer = getopt_long(argc, argv, ":", options, &index)) != -1) {
        if (answer == HELP)
            usage_exit(pgas_launcher_rank(), usage, NULL, "");
        if (answer == '?' || answer == ':')
            usage_refuse(pgas_launcher_rank(), argv, brief, answer);
        has_sync = has_sync || answer == SYNC;
        if (!set_option(answer, optarg, opts)) {
            snprintf(words, sizeof words, "--%s %s", options[index].name, optarg);
            refuse("not possible", words);
        }
    }
    if (optind < argc)
        refuse("an argument too many", argv[optind]);
    check_options(opts, has_sync);
}
