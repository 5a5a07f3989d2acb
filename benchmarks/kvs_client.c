/* Loads one or several servers of Redis' protocol on this host, and prints how many operations they
 * carried out in a second, and how long batches took. The client itself has one thread. */
#include "benchmarks/resp_client.h"
#include "benchmarks/bench.h"
#include "examples/usage.h"

#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define N_LIST (UINT64_C(1) << 20)

static resp_opts_t opts = { 6379, 1, 50, 16, 64 };
static uint64_t n_keys = 100000;
static double seconds = 2;
static const char *work = "get";
static bool zipf, fill, json;

static void print_help(void)
{
    printf("usage: pgas_kvs_client [options]\n"
           "loads servers that speak Redis' protocol on this host\n\n"
           "  --help         print this text\n"
           "  -p PORT        of the first server (6379)\n"
           "  --servers N    at the ports PORT, PORT + 1, ...; connections use them by turns (1)\n"
           "  -c N           connections (50)\n"
           "  -P N           commands that a connection sends before it waits for replies (16)\n"
           "  -k N           keys (100000)\n"
           "  -d N           bytes of a value (64)\n"
           "  -t SECONDS     length of the measurement (2)\n"
           "  --work WORK    get, set, mixed (half of each), or a workload of YCSB: a, b, c, d, f\n"
           "  --zipf         some keys are used more often, by Zipf's law of YCSB\n"
           "  --fill         first set all keys\n"
           "  --json         print one JSON object\n");
}

static bool parse(const char *text, double min, double max, double *value_p)
{
    char *end;
    double value = strtod(text, &end);
    if (end == text || *end != '\0' || !(value >= min && value <= max))
        return false;
    *value_p = value;
    return true;
}

/* The mix of a work; NULL: there is none. */
static const ycsb_mix_t *mix_of(const char *name)
{
    static const ycsb_mix_t own[] = { { 'g', { [YCSB_READ] = 100 }, false },
                                      { 's', { [YCSB_UPDATE] = 100 }, false },
                                      { 'm', { [YCSB_READ] = 50, [YCSB_UPDATE] = 50 }, false } };
    static const char *const names[] = { "get", "set", "mixed" };
    for (int i = 0; i < 3; i++)
        if (strcmp(name, names[i]) == 0)
            return &own[i];
    return strlen(name) == 1 && *name != 'e' ? ycsb_mix(*name) : NULL;
}

/* @return what is wrong, or NULL */
static const char *set_option(int letter, const char *text)
{
    double value = 0;
    switch (letter) {
    case 'p':
        opts.port = parse(text, 1, 65535, &value) ? (int)value : 0;
        return opts.port ? NULL : "-p: 1 to 65535";
    case 'S':
        opts.n_servers = parse(text, 1, 1024, &value) ? (int)value : 0;
        return opts.n_servers ? NULL : "--servers: 1 to 1024";
    case 'c':
        opts.n_conns = parse(text, 1, RESP_CONNS_MAX, &value) ? (int)value : 0;
        return opts.n_conns ? NULL : "-c: 1 to 10000";
    case 'P':
        opts.pipeline = parse(text, 1, RESP_PIPELINE_MAX, &value) ? (int)value : 0;
        return opts.pipeline ? NULL : "-P: 1 to 1024";
    case 'k':
        n_keys = parse(text, 2, 1e9, &value) ? (uint64_t)value : 0;
        return n_keys ? NULL : "-k: 2 to 1e9";
    case 'd':
        opts.value_bytes = parse(text, 1, RESP_VALUE_MAX, &value) ? (size_t)value : 0;
        return opts.value_bytes ? NULL : "-d: 1 to 1048576";
    case 't':
        return parse(text, 0.01, 3600, &seconds) ? NULL : "-t: 0.01 to 3600 seconds";
    case 'w':
        work = text;
        return mix_of(work) ? NULL : "--work: get, set, mixed, a, b, c, d or f";
    case 'z':
        zipf = true;
        return NULL;
    case 'f':
        fill = true;
        return NULL;
    case 'j':
        json = true;
        return NULL;
    default:
        return usage_complaint(letter);
    }
}

/* @return -1, or the exit status */
static int parse_options(int argc, char **argv)
{
    static const struct option names[] = { { "help", no_argument, NULL, 'h' },
                                           { "servers", required_argument, NULL, 'S' },
                                           { "work", required_argument, NULL, 'w' },
                                           { "zipf", no_argument, NULL, 'z' },
                                           { "fill", no_argument, NULL, 'f' },
                                           { "json", no_argument, NULL, 'j' },
                                           { NULL, 0, NULL, 0 } };
    const char *why = NULL, *word = "";
    int letter;
    opterr = 0;
    while (!why && (letter = getopt_long(argc, argv, ":hp:c:P:k:d:t:", names, NULL)) != -1) {
        if (letter == 'h') {
            print_help();
            return 0;
        }
        why = set_option(letter, optarg);
        word = letter == '?' || letter == ':' ? usage_word(argv) : "";
    }
    if (!why && optind < argc)
        why = "no arguments, only options";
    if (!why)
        return -1;
    fprintf(stderr,
            "pgas_kvs_client: %s%s%s\nusage: pgas_kvs_client [--help] [-p PORT] [--servers N] "
            "[-c N] [-P N] [-k N] [-d N] [-t SECONDS] [--work WORK] [--zipf] [--fill] [--json]\n",
            why, *word ? ": " : "", word);
    return 2;
}

static void print(const resp_result_t *result)
{
    double kops = (double)result->n_ops / result->seconds / 1e3;
    if (json)
        printf("{\"bench\":\"pgas_kvs_client\",\"work\":\"%s\",\"pipeline\":%d,\"connections\":%d,"
               "\"bytes\":%zu,\"kops\":%.1f,\"p50_us\":%.1f,\"p99_us\":%.1f,\"p999_us\":%.1f,"
               "\"missing\":%llu}\n",
               work, opts.pipeline, opts.n_conns, opts.value_bytes, kops, result->p50, result->p99,
               result->p999, (unsigned long long)result->n_missing);
    else
        printf("%s, %d connections, pipeline %d: %.1f kops; %.0f us p50, %.0f us p99, "
               "%.0f us p99.9; %llu keys missing\n",
               work, opts.n_conns, opts.pipeline, kops, result->p50, result->p99, result->p999,
               (unsigned long long)result->n_missing);
}

/* A short run first fills caches and queues. */
static const char *measure(resp_client_t *client, const ycsb_entry_t *list)
{
    resp_result_t result;
    const char *why = resp_run(client, list, N_LIST, UINT64_MAX, seconds / 10, &result);
    if (!why)
        why = resp_run(client, list, N_LIST, UINT64_MAX, seconds, &result);
    if (!why)
        print(&result);
    return why;
}

int main(int argc, char **argv)
{
    static ycsb_entry_t list[N_LIST];
    ycsb_load_t load = { .n_clients = 1, .seed = bench_seed(0) };
    int status = parse_options(argc, argv);
    resp_client_t *client = NULL;
    const char *why;
    if (status >= 0)
        return status;
    load.mix = mix_of(work);
    load.n_keys = n_keys;
    load.theta = zipf ? YCSB_THETA : 0;
    (void)ycsb_draw(&load, list, N_LIST);
    why = resp_open(&opts, &client);
    if (!why && fill)
        why = resp_fill(client, n_keys);
    if (!why)
        why = measure(client, list);
    if (why)
        fprintf(stderr, "pgas_kvs_client: %s\n", why);
    resp_close(client);
    return why != NULL;
}
