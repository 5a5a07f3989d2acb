/* Information about the library.
 *   what:   pgas_info prints version, MPI, transports, every parameter with value, default and
 *           origin, the progress rule for these service threads, and the bytes per rank.
 *           pgas_stats_print counts operations.
 *   np:     1 2 3
 *   nodes:  0 1
 *   tls:    posix tcp,self
 *   env:    PGAS_SERVICE_THREADS=1 PGAS_SPIN_US=7 | PGAS_SERVICE_THREADS=0 PGAS_SPIN_US=7
 *   log:    param: error: .*HEAP_SIZES
 *   source: pgas/info.h; public headers */
#include "config.h"

#include "base/param.h"
#include "init/account.h"
#include "t/handlers.h"
#include "t/spmd/job.h"

static char *text;

/* The text that a function prints. */
static pgas_status_t print_info(FILE *out)
{
    return pgas_info_print(out, NULL);
}

static pgas_status_t print_heap_size(FILE *out)
{
    return pgas_info_print(out, "HEAP_SIZE") == PGAS_OK ? pgas_info_print(out, "PGAS_HEAP_SIZE")
                                                        : PGAS_ERR_INVALID;
}

static const char *printed(pgas_status_t (*print)(FILE *out), pgas_status_t want)
{
    size_t bytes = 0;
    free(text);
    text = NULL;
    FILE *out = open_memstream(&text, &bytes);
    pgas_status_t status = print(out);
    fclose(out);
    return status == want ? text : "";
}

/* The line that holds the words, or "". */
static const char *line_with(const char *in, const char *words)
{
    static char line[1024];
    const char *at = strstr(in, words);
    line[0] = '\0';
    if (at) {
        while (at > in && at[-1] != '\n')
            at--;
        snprintf(line, sizeof line, "%.*s", (int)strcspn(at, "\n"), at);
    }
    return line;
}

/* @return whether a line begins with the name and a blank, and its second word is the value */
static bool line_says(const char *in, const char *name, const char *value)
{
    const char *at = strstr(in, name);
    if (!at)
        return false;
    at += strlen(name);
    at += strspn(at, " ");
    size_t length = strlen(value);
    return strncmp(at, value, length) == 0 && at[length] == ' ';
}

static void before_init(void)
{
    const char *said = printed(print_info, PGAS_OK);
    bool first = spmd_rank() == 0;
    spmd_ok(first ? strstr(said, "libpgas " PGAS_VERSION_TEXT) && strstr(said, "transports:") &&
                        strstr(said, "PGAS_HEAP_SIZE") && !strstr(said, "job: rank") &&
                        *line_with(said, "bytes per rank")
                  : !*said,
            "before init the first rank prints all that needs no job");
    const char *build = line_with(said, "build: ");
    spmd_ok(!first || (strstr(build, PGAS_MPI_NAME " " PGAS_MPI_VERSION_TEXT) &&
                       strstr(build, "UCX " PGAS_UCX_VERSION_TEXT) && strstr(build, "hwloc") &&
                       (strstr(build, "gcc ") || strstr(build, "lang "))),
            "MPI, UCX, hwloc and compiler of the build");
}

static void the_job(void)
{
    char words[100], transport[PGASI_PARAM_TEXT_BYTES], in_use[PGASI_PARAM_TEXT_BYTES + 32];
    const char *said = printed(print_info, PGAS_OK);
    snprintf(words, sizeof words, "job: rank %d of %d, node %d of %d", pgas_rank(), pgas_n_ranks(),
             pgas_node(), pgas_n_nodes());
    spmd_ok(strstr(said, words) && strstr(said, "MPI_THREAD_"), "the job and its MPI");
    snprintf(in_use, sizeof in_use, "in use between nodes: %s",
             pgasi_param_text(&pgasi_param, PGASI_PARAM_ID_TRANSPORT, transport));
    spmd_ok(pgas_n_nodes() > 1 ? strstr(said, in_use) != NULL
                               : strstr(said, "all ranks share one node") != NULL,
            "the transport in use");
}

static void parameters(void)
{
    const char *said = printed(print_info, PGAS_OK);
    int n_missing = 0;
    for (int i = 0; i < PGASI_PARAM_COUNT; i++) {
        const pgasi_param_info_t *p = pgasi_param_describe((pgasi_param_id_t)i);
        char name[64], value[PGASI_PARAM_TEXT_BYTES];
        pgasi_param_text(&pgasi_param, (pgasi_param_id_t)i, value);
        snprintf(name, sizeof name, "\nPGAS_%s ", p->name);
        n_missing += !line_says(said, name, *value ? value : "-");
        n_missing += line_says(said, name, "another");
    }
    spmd_is_int(n_missing, 0, "every parameter and its value");
    spmd_ok(!line_says(said, "\nPGAS_WEATHER ", "-"), "a parameter that is not there is missed");
    const char *tls = getenv("PGAS_UCX_TLS");
    spmd_ok(!tls || line_says(said, "\nPGAS_UCX_TLS ", tls), "and the settings for UCX");
    const char *line = line_with(said, "PGAS_SPIN_US");
    spmd_ok(strstr(line, "7") && strstr(line, "20") && strstr(line, "environment") &&
                strstr(line, "microseconds"),
            "value, default, origin and unit of one that was set");
    spmd_ok(!*line_with(said, "PGAS_SPIN_US_"), "a line that is not there is not found");
}

static void progress_rule(void)
{
    const char *said = printed(print_info, PGAS_OK);
    const char *calls = line_with(said, "calls and replies");
    bool serves = pgasi_param.service_threads > 0;
    spmd_ok(strstr(said, "progress rule") &&
                (serves ? strstr(calls, "service thread") != NULL
                        : strstr(calls, "PGAS_SERVICE_THREADS=0") != NULL),
            "the progress rule of calls, with %d service threads", pgasi_param.service_threads);
    spmd_ok(strstr(line_with(said, "within the node"), "loads and stores") != NULL,
            "and of node-local transfers");
}

static void bytes_per_rank(void)
{
    const char *said = printed(print_info, PGAS_OK);
    char sum[40];
    snprintf(sum, sizeof sum, "%llu", (unsigned long long)pgasi_account_worst());
    spmd_ok(strstr(line_with(said, "  sum "), sum) && pgasi_account_worst() > 0,
            "bytes per rank, with their sum");
    char ctxs[40];
    snprintf(ctxs, sizeof ctxs, "contexts: %d ", pgasi_param.ctxs + 2);
    spmd_ok(*line_with(said, ctxs), "and the number of contexts in them");
}

static pgas_handler_t nothing;

static void statistics(void)
{
    unsigned long long before = 0, after = 0;
    sscanf(line_with(printed(pgas_stats_print, PGAS_OK), "pgas stats"),
           "pgas stats, rank %*d: sent %llu", &before);
    for (int i = 0; i < 10; i++)
        pgas_call((pgas_rank() + 1) % pgas_n_ranks(), nothing, &i, sizeof i, NULL);
    pgas_quiesce();
    sscanf(line_with(printed(pgas_stats_print, PGAS_OK), "pgas stats"),
           "pgas stats, rank %*d: sent %llu", &after);
    spmd_ok(after >= before + 10 * 16, "statistics count bytes of calls");
    spmd_ok(pgas_info_print(NULL, NULL) == PGAS_ERR_INVALID &&
                pgas_stats_print(NULL) == PGAS_ERR_INVALID,
            "nowhere to print");
    spmd_ok(strstr(printed(print_heap_size, PGAS_OK), "PGAS_HEAP_SIZE") &&
                !strstr(text, "PGAS_BIND") &&
                pgas_info_print(text ? stdout : NULL, "HEAP_SIZES") == PGAS_ERR_NOT_FOUND,
            "one parameter alone, or none that does not exist");
    FILE *full = fopen("/dev/full", "w");
    if (full)
        setvbuf(full, NULL, _IONBF, 0);
    spmd_ok(!full || (pgas_info_print(full, NULL) == PGAS_ERR_IO &&
                      pgas_stats_print(full) == PGAS_ERR_IO),
            "no room to print");
    if (full)
        fclose(full);
}

int main(int argc, char **argv)
{
    pgas_handler_register("t.nothing", on_nothing, NULL, NULL, &nothing);
    spmd_begin(&argc, &argv, MPI_THREAD_SERIALIZED);
    spmd_plan(19);
    before_init();
    job_start(NULL);
    the_job();
    parameters();
    progress_rule();
    bytes_per_rank();
    statistics();
    job_stop();
    free(text);
    return spmd_end();
}
