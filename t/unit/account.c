/* what: The worst-case bytes of a rank are the sum of the printed lines, cover the memory that the
 *       library maps, and follow the parameters that they name. PGAS_MEMORY_LIMIT refuses one byte
 *       too many, whatever was started before.
 * source: src/init/account.h; public headers */
#include <fcntl.h>
#include "base/log.h"
#include "base/param.h"
#include "init/account.h"
#include "t/tap.h"
#include "t/unit/lone.h"

static uint64_t worst_with(int n_ranks, const char *params)
{
    uint64_t worst = 0;
    if (lone_init(n_ranks, params) == PGAS_OK) {
        worst = pgasi_account_worst();
        pgas_finalize();
    }
    return worst;
}

/* Address space of this process. */
static uint64_t mapped_bytes(void)
{
    unsigned long long pages = 0;
    FILE *in = fopen("/proc/self/statm", "r");
    if (!in || fscanf(in, "%llu", &pages) != 1)
        bail("no /proc/self/statm");
    fclose(in);
    return pages * (uint64_t)sysconf(_SC_PAGESIZE);
}

/* The bytes of one item of the printed account; 0 if there is none. */
static uint64_t printed_item(const char *name)
{
    char *text = NULL;
    size_t bytes = 0;
    unsigned long long value = 0;
    FILE *out = open_memstream(&text, &bytes);
    pgasi_account_print(out);
    fclose(out);
    const char *at = strstr(text, name);
    if (at)
        sscanf(at + strlen(name), "%llu", &value);
    free(text);
    return value;
}

static void it_covers_what_is_mapped(void)
{
    static const char *const params[] = { "SERVICE_THREADS=0 BACKLOG_LIMIT=0",
                                          "SERVICE_THREADS=0 CHUNK_MEMORY=8M LANES=2",
                                          "SERVICE_THREADS=0 CHUNK_SIZE=1M CHUNK_MEMORY=1G",
                                          "SERVICE_THREADS=0 CALL_MAX=128K" };
    int n_bad = 0;
    for (size_t i = 0; i < sizeof params / sizeof params[0]; i++) {
        n_bad += lone_init(8, params[i]) != PGAS_OK ||
                 printed_item("channels into this rank") != lone_recvq_bytes;
        pgas_finalize();
    }
    is_int(n_bad, 0,
           "the rings are counted as they are mapped, also where they shrink or grow to fit");
    uint64_t before = mapped_bytes(), slack = UINT64_C(1) << 20; /* malloc takes more at a time */
    static unsigned char user[4096];
    pgas_gptr_t ptr;
    pgas_agg_t *agg = NULL;
    lone_init(1, "HEAP_SIZE=64K SERVICE_THREADS=0 BACKLOG_LIMIT=0");
    bool good = pgas_mem_attach(user, sizeof user, &ptr) == PGAS_OK &&
                pgas_agg_create(NULL, &agg) == PGAS_OK;
    uint64_t grown = mapped_bytes() - before, worst = pgasi_account_worst() + pgasi_param.heap_size;
    pgas_agg_destroy(agg);
    pgas_finalize();
    ok(good && grown <= worst + slack, "%" PRIu64 " bytes are mapped, %" PRIu64 " accounted for",
       grown, worst);
}

/* The numbers of a printed account: those of the items, then "sum". */
static void the_sum_is_the_sum(void)
{
    char *text = NULL, *save = NULL;
    size_t bytes = 0;
    unsigned long long sum = 0, said = 0;
    int n_items = 0;
    lone_init(3, "HEAP_SIZE=64K SERVICE_THREADS=0");
    FILE *out = open_memstream(&text, &bytes);
    pgasi_account_print(out);
    fclose(out);
    for (char *line = strtok_r(text, "\n", &save); line; line = strtok_r(NULL, "\n", &save)) {
        unsigned long long value;
        char what[64] = "";
        if (sscanf(line, "  %26c%llu", what, &value) != 2)
            continue;
        if (strncmp(what, "sum", 3) == 0)
            said = value;
        else if (!strstr(what, "symmetric heap")) {
            sum += value;
            n_items++;
        }
    }
    ok(n_items >= 5 && sum == said && said == pgasi_account_worst(), "the items add up to the sum");
    ok(sum + 1 != said, "a wrong sum would be noticed");
    free(text);
    pgas_finalize();
}

static void it_follows_parameters(void)
{
    const char *base = "HEAP_SIZE=64K SERVICE_THREADS=0 CHUNK_MEMORY=1G";
    uint64_t worst = worst_with(4, base);
    ok(worst > 0 && worst == worst_with(4, base), "the same twice");
    ok(worst_with(8, base) > worst, "more ranks, more bytes");
    ok(worst_with(4, "HEAP_SIZE=64K SERVICE_THREADS=0 CHUNK_MEMORY=1G CHUNK_SIZE=1M") > worst,
       "larger rings, more bytes");
    ok(worst_with(4, "HEAP_SIZE=64K SERVICE_THREADS=0 CHUNK_MEMORY=1G LANES=8") > worst,
       "more contexts, more bytes");
    ok(worst_with(4, "HEAP_SIZE=64K SERVICE_THREADS=0 CHUNK_MEMORY=1G BACKLOG_LIMIT=1G") > worst,
       "longer queues, more bytes");
    is_int(worst_with(4, "HEAP_SIZE=1M SERVICE_THREADS=0 CHUNK_MEMORY=1G"), worst,
           "the heap is the user's");
}

static void the_limit(void)
{
    char params[200];
    lone_init(2, "HEAP_SIZE=64K SERVICE_THREADS=0");
    uint64_t need = pgasi_account_worst() + pgasi_param.heap_size;
    pgas_finalize();
    snprintf(params, sizeof params, "HEAP_SIZE=64K SERVICE_THREADS=0 MEMORY_LIMIT=%" PRIu64, need);
    ok(lone_init(2, params) == PGAS_OK && pgas_finalize() == PGAS_OK,
       "the required size is enough");
    snprintf(params, sizeof params, "HEAP_SIZE=64K SERVICE_THREADS=0 MEMORY_LIMIT=%" PRIu64,
             need - 1);
    int former = pgasi_log_set_fd(open("/dev/null", O_WRONLY));
    ok(lone_init(2, params) == PGAS_ERR_LIMIT && !pgas_initialized(), "one byte less is refused");
    close(pgasi_log_set_fd(former));
}

/* Earlier starts must not matter, with smaller or with larger rings. */
static void the_limit_is_that_of_this_start(void)
{
    static const char *const of[] = { "HEAP_SIZE=64K SERVICE_THREADS=0 CHUNK_SIZE=64K",
                                      "HEAP_SIZE=64K SERVICE_THREADS=0 CHUNK_SIZE=1M" };
    uint64_t need[2];
    int n_bad = 0, former = pgasi_log_set_fd(open("/dev/null", O_WRONLY));
    for (int i = 0; i < 2; i++)
        need[i] = worst_with(2, of[i]) + (64 << 10);
    for (int i = 0; i < 4; i++) {
        char params[200];
        worst_with(2, of[1 - i % 2]);
        snprintf(params, sizeof params, "%s MEMORY_LIMIT=%" PRIu64, of[i % 2],
                 need[i % 2] - (i >= 2));
        n_bad += lone_init(2, params) != (i < 2 ? PGAS_OK : PGAS_ERR_LIMIT);
        if (pgas_initialized())
            pgas_finalize();
    }
    close(pgasi_log_set_fd(former));
    is_int(n_bad, 0, "and it does not depend on earlier starts");
}

int main(void)
{
    plan(13);
    the_sum_is_the_sum();
    it_covers_what_is_mapped();
    it_follows_parameters();
    the_limit();
    the_limit_is_that_of_this_start();
    return done();
}
