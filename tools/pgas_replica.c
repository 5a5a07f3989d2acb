/* pgas_replica: one replica of a group of pgas/group.h, as a process without MPI. Its region is
 * memory, or a file that the process maps. Replicas are started from the last one of the chain to
 * the first one; a client then joins by the address of any of them. SIGTERM and SIGINT end it. */
#include <errno.h>
#include <fcntl.h>
#include <getopt.h>
#include <pgas/group.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>
#include "examples/usage.h"

static const char usage[] =
    "pgas_replica --listen ADDR:PORT --region BYTES [--next ADDR:PORT]\n"
    "                    [--file FILE] [--key-file FILE] [--device NAME]\n"
    "                    [--clients N]\n"
    "  --listen ADDR:PORT  where clients and other replicas connect; port 0: any\n"
    "  --region BYTES      size of the region, whole pages, the same for all replicas\n"
    "                      of a group; with K, M or G it is multiplied by 1024 ..\n"
    "  --next ADDR:PORT    the next replica of the chain; the last replica has none\n"
    "  --file FILE         the region is this file, created or extended to the size\n"
    "  --key-file FILE     its first line is the secret of the group; otherwise\n"
    "                      PGAS_GROUP_KEY. Addresses of networks need one\n"
    "  --device NAME       network card, as printed by pgas_info --devices; otherwise\n"
    "                      PGAS_VERBS_DEVICE\n"
    "  --clients N         at most so many clients at a time (64)\n"
    "  --version           print the version of the library\n"
    "  --help              print this text\n";

__attribute__((noreturn)) static void fail(const char *what, const char *why)
{
    fprintf(stderr, "pgas_replica: %s: %s\n", what, why);
    exit(1);
}

/* ---- the file ---- */

/* Two replicas that map one file would overwrite each other's bytes. */
static int open_file(const char *path, size_t bytes)
{
    struct stat stat;
    int fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    if (fd < 0 || fstat(fd, &stat) != 0)
        fail(path, strerror(errno));
    if (!S_ISREG(stat.st_mode))
        fail(path, "not a plain file");
    if (flock(fd, LOCK_EX | LOCK_NB) != 0)
        fail(path, errno == EWOULDBLOCK ? "another process uses it" : strerror(errno));
    if ((uint64_t)stat.st_size > bytes)
        fail(path, "the file is larger than --region");
    int error = posix_fallocate(fd, 0, (off_t)bytes);
    if (error != 0)
        fail(path, strerror(error));
    return fd;
}

static void *map_file(const char *path, size_t bytes)
{
    int fd = open_file(path, bytes);
    void *region = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (region == MAP_FAILED)
        fail(path, strerror(errno));
    return region; /* fd stays open, for its lock */
}

static void write_back(const char *path, void *region, size_t bytes)
{
    if (msync(region, bytes, MS_SYNC) != 0)
        fail(path, strerror(errno));
    munmap(region, bytes);
}

/* ---- options ---- */

/* A number of bytes with a suffix K, M or G. */
static bool parse_size(const char *text, size_t *bytes_p)
{
    static const char suffixes[] = "KMG";
    char *end;
    errno = 0;
    unsigned long long n = strtoull(text, &end, 10);
    if (end == text || text[0] == '-' || errno != 0)
        return false;
    const char *suffix = *end != '\0' ? strchr(suffixes, *end) : NULL;
    int shift = suffix ? 10 * (int)(suffix - suffixes + 1) : 0;
    if (end[suffix != NULL] != '\0' || n > SIZE_MAX >> shift)
        return false;
    *bytes_p = (size_t)n << shift;
    return true;
}

/* The first line of the file, in memory that stays. */
static const char *read_key(const char *path)
{
    static char line[256];
    FILE *file = fopen(path, "re");
    if (!file || !fgets(line, sizeof line, file))
        fail(path, file ? "no key in it" : strerror(errno));
    fclose(file);
    line[strcspn(line, "\r\n")] = '\0';
    if (line[0] == '\0')
        fail(path, "no key in it");
    return line;
}

static size_t region_bytes_of(const char *text)
{
    size_t bytes;
    if (!parse_size(text, &bytes) || bytes == 0)
        usage_exit(0, usage, "not a size", text);
    if (bytes % (size_t)sysconf(_SC_PAGESIZE) != 0)
        usage_exit(0, usage, "not a number of whole pages", text);
    return bytes;
}

static uint32_t clients_of(const char *text)
{
    int n;
    if (!usage_int(text, 1, 1 << 16, &n))
        usage_exit(0, usage, "not a number of clients", text);
    return (uint32_t)n;
}

__attribute__((noreturn)) static void print_version(void)
{
    printf("libpgas %s\n", PGAS_REPLICA_VERSION);
    exit(fflush(stdout) != 0);
}

typedef struct {
    pgas_replica_opts_t opts;
    const char *file, *key_file;
} settings_t;

enum { LISTEN = 1, REGION, NEXT, FILE_NAME, KEY_FILE, DEVICE, CLIENTS, VERSION, HELP };

static void take(int option, settings_t *settings, char **argv)
{
    pgas_replica_opts_t *opts = &settings->opts;
    switch (option) {
    case LISTEN:
        opts->listen = optarg;
        break;
    case REGION:
        opts->region_bytes = region_bytes_of(optarg);
        break;
    case NEXT:
        opts->next = optarg;
        break;
    case FILE_NAME:
        settings->file = optarg;
        break;
    case KEY_FILE:
        settings->key_file = optarg;
        break;
    case DEVICE:
        opts->device = optarg;
        break;
    case CLIENTS:
        opts->clients_max = clients_of(optarg);
        break;
    case VERSION:
        print_version();
    case HELP:
        usage_exit(0, usage, NULL, "");
    default:
        usage_refuse(0, argv, usage, option);
    }
}

static void parse(int argc, char **argv, settings_t *settings)
{
    static const struct option options[] = { { "listen", required_argument, NULL, LISTEN },
                                             { "region", required_argument, NULL, REGION },
                                             { "next", required_argument, NULL, NEXT },
                                             { "file", required_argument, NULL, FILE_NAME },
                                             { "key-file", required_argument, NULL, KEY_FILE },
                                             { "device", required_argument, NULL, DEVICE },
                                             { "clients", required_argument, NULL, CLIENTS },
                                             { "version", no_argument, NULL, VERSION },
                                             { "help", no_argument, NULL, HELP },
                                             { 0 } };
    int option;
    while ((option = getopt_long(argc, argv, ":", options, NULL)) != -1)
        take(option, settings, argv);
    if (optind < argc)
        usage_exit(0, usage, "an argument too many", argv[optind]);
    if (!settings->opts.listen)
        usage_exit(0, usage, "an option is missing", "--listen");
    if (settings->opts.region_bytes == 0)
        usage_exit(0, usage, "an option is missing", "--region");
    if (settings->key_file)
        settings->opts.key = read_key(settings->key_file);
}

/* ---- start and end ---- */

/* Clients take descriptors. */
static void raise_limit(void)
{
    struct rlimit limit;
    if (getrlimit(RLIMIT_NOFILE, &limit) == 0 && limit.rlim_cur < limit.rlim_max) {
        limit.rlim_cur = limit.rlim_max;
        setrlimit(RLIMIT_NOFILE, &limit);
    }
}

static const char *reason(const pgas_replica_opts_t *opts, pgas_status_t status)
{
    if (status == PGAS_ERR_NOT_FOUND)
        return "no such device: see --device, PGAS_VERBS_DEVICE and pgas_info --devices";
    if (status == PGAS_ERR_EXISTS)
        return "the address is in use";
    if (status == PGAS_ERR_CONTEXT && !opts->key)
        return "an address of a network needs --key-file or PGAS_GROUP_KEY";
    return pgas_status_text(status);
}

int main(int argc, char **argv)
{
    settings_t settings = { .opts = PGAS_REPLICA_OPTS_INIT };
    pgas_replica_opts_t *opts = &settings.opts;
    pgas_replica_info_t info = { .size = sizeof info };
    pgas_replica_t *replica;
    sigset_t ends;
    int number;

    parse(argc, argv, &settings);
    /* Before any other thread exists: all inherit the mask, and only this one takes the signal. */
    sigemptyset(&ends);
    sigaddset(&ends, SIGTERM);
    sigaddset(&ends, SIGINT);
    pthread_sigmask(SIG_BLOCK, &ends, NULL);
    raise_limit();
    if (settings.file)
        opts->region = map_file(settings.file, opts->region_bytes);
    pgas_status_t status = pgas_replica_create(opts, &replica);
    if (status != PGAS_OK)
        fail(opts->listen, reason(opts, status));
    pgas_replica_info(replica, &info);
    printf("pgas_replica: listens on %s, region %llu bytes\n", info.address,
           (unsigned long long)info.region_bytes);
    if (fflush(stdout) != 0)
        fail("standard output", strerror(errno));

    sigwait(&ends, &number);
    status = pgas_replica_destroy(replica);
    if (settings.file)
        write_back(settings.file, opts->region, opts->region_bytes);
    if (status != PGAS_OK)
        fail("end", pgas_status_text(status));
    return 0;
}
