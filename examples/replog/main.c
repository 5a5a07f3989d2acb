/* replog: a log that several replicas hold, and that programs append to without their CPUs. */
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "commands.h"
#include "examples/usage.h"

static const char usage[] =
    "replog append --group ADDR:PORT [--file FILE] [WRITER'S OPTIONS]\n"
    "       replog tail   --group ADDR:PORT | --files FILE,.. [--from N] [--follow]\n"
    "       replog verify --group ADDR:PORT | --files FILE,..\n"
    "       replog bench  --group ADDR:PORT [--records N] [--bytes B]\n"
    "                     [--batch N] [--depth N] [WRITER'S OPTIONS]\n"
    "append: each line of the input becomes a record; its sequence number is printed\n"
    "        when it is on all replicas\n"
    "tail:   prints sequence numbers and records\n"
    "verify: checks all records of all replicas; with damage the exit status is 1\n"
    "bench:  appends records and prints their rate and times\n"
    "  --group ADDR:PORT  any replica of the group, see pgas_replica --help\n"
    "  --files FILE,..    the replicas' files, in the order of the chain\n"
    "  --key-file FILE    the first line is the secret of the group (PGAS_GROUP_KEY)\n"
    "  --device NAME      network card (PGAS_VERBS_DEVICE)\n"
    "  --window N         operations of the group under way (64)\n"
    "  --poll             waits do not sleep\n"
    "  --file FILE        append: input (standard input)\n"
    "  --from N           tail: the first sequence number (1)\n"
    "  --follow           tail: does not end, and waits for further records\n"
    "  --records N        bench: records (10000)\n"
    "  --bytes B          bench: bytes of a record (100)\n"
    "  --batch N          bench: records of a batch (1)\n"
    "  --depth N          bench: batches under way, at most 16 (1)\n"
    "writers' options:\n"
    "  --wait SECONDS     for another writer (10)\n"
    "  --take-over        do not wait for a writer on another host: it is dead\n";

typedef struct {
    replog_store_opts_t store;
    replog_lock_opts_t lock;
    replog_bench_opts_t bench;
    const char *input;
    uint64_t from;
    bool follow;
} settings_t;

enum { GROUP = 1, FILES, KEY_FILE, DEVICE, WINDOW, POLL }; /* of the store */
enum { INPUT = POLL + 1, FROM, FOLLOW, RECORDS, BYTES, BATCH, DEPTH, WAIT, TAKE_OVER, HELP };

static int number(const char *text, double least, double most)
{
    int n;
    if (!usage_int(text, least, most, &n))
        usage_exit(0, usage, "not possible", text);
    return n;
}

/* @return whether it is an option of the store */
static bool take_store(int option, replog_store_opts_t *store)
{
    switch (option) {
    case GROUP:
        store->group = optarg;
        return true;
    case FILES:
        store->files = optarg;
        return true;
    case KEY_FILE:
        store->key_file = optarg;
        return true;
    case DEVICE:
        store->device = optarg;
        return true;
    case WINDOW:
        store->window = (uint32_t)number(optarg, 1, PGAS_GROUP_WINDOW_MAX);
        return true;
    case POLL:
        store->polls = true;
        return true;
    default:
        return false;
    }
}

static int64_t wait_of(const char *text)
{
    double seconds;
    if (!usage_real(text, 0, 1e6, &seconds))
        usage_exit(0, usage, "not possible", text);
    return (int64_t)(seconds * 1e6);
}

static void take(int option, settings_t *settings, char **argv)
{
    switch (option) {
    case INPUT:
        settings->input = optarg;
        break;
    case FROM:
        settings->from = (uint64_t)number(optarg, 1, 2e9);
        break;
    case FOLLOW:
        settings->follow = true;
        break;
    case RECORDS:
        settings->bench.n_records = (uint64_t)number(optarg, 1, 1e9);
        break;
    case BYTES:
        settings->bench.bytes = (uint32_t)number(optarg, 0, REPLOG_RECORD_MAX);
        break;
    case BATCH:
        settings->bench.n_batch = (uint32_t)number(optarg, 1, 1e6);
        break;
    case DEPTH:
        settings->bench.n_under_way = (uint32_t)number(optarg, 1, REPLOG_BATCHES);
        break;
    case WAIT:
        settings->lock.wait_us = wait_of(optarg);
        break;
    case TAKE_OVER:
        settings->lock.take_over = true;
        break;
    case HELP:
        usage_exit(0, usage, NULL, "");
    default:
        usage_refuse(0, argv, usage, option);
    }
}

static void parse(int argc, char **argv, settings_t *settings)
{
    static const struct option options[] = { { "group", required_argument, NULL, GROUP },
                                             { "files", required_argument, NULL, FILES },
                                             { "key-file", required_argument, NULL, KEY_FILE },
                                             { "device", required_argument, NULL, DEVICE },
                                             { "window", required_argument, NULL, WINDOW },
                                             { "poll", no_argument, NULL, POLL },
                                             { "file", required_argument, NULL, INPUT },
                                             { "from", required_argument, NULL, FROM },
                                             { "follow", no_argument, NULL, FOLLOW },
                                             { "records", required_argument, NULL, RECORDS },
                                             { "bytes", required_argument, NULL, BYTES },
                                             { "batch", required_argument, NULL, BATCH },
                                             { "depth", required_argument, NULL, DEPTH },
                                             { "wait", required_argument, NULL, WAIT },
                                             { "take-over", no_argument, NULL, TAKE_OVER },
                                             { "help", no_argument, NULL, HELP },
                                             { 0 } };
    int option;
    while ((option = getopt_long(argc, argv, ":", options, NULL)) != -1)
        if (!take_store(option, &settings->store))
            take(option, settings, argv);
    if (argc - optind != 1)
        usage_exit(0, usage, argc == optind ? "a command is missing" : "an argument too many",
                   argc == optind ? "append, tail, verify or bench" : argv[optind + 1]);
}

int main(int argc, char **argv)
{
    settings_t settings = {
        .bench = { .n_records = 10000, .bytes = 100, .n_batch = 1, .n_under_way = 1 },
        .lock = { .wait_us = 10000000 },
        .from = 1
    };
    static replog_store_t store;
    int status;
    parse(argc, argv, &settings);
    const char *command = argv[optind];
    bool writes = strcmp(command, "append") == 0 || strcmp(command, "bench") == 0;
    if (!writes && strcmp(command, "tail") != 0 && strcmp(command, "verify") != 0)
        usage_exit(0, usage, "no such command", command);
    if (!settings.store.group == !settings.store.files)
        usage_exit(0, usage, "one of them is needed", "--group or --files");
    if (writes && settings.store.files)
        usage_exit(0, usage, "writers need --group", command);

    replog_store_open(&settings.store, &store);
    if (strcmp(command, "append") == 0)
        status = replog_append(&store, &settings.lock, settings.input);
    else if (strcmp(command, "tail") == 0)
        status = replog_tail(&store, settings.from, settings.follow);
    else if (strcmp(command, "verify") == 0)
        status = replog_verify(&store);
    else
        status = replog_bench(&store, &settings.lock, &settings.bench);
    replog_store_close(&store);
    return status;
}
