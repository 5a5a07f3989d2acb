/* what: the worst-case bytes of a rank are the sum of what is printed, follow the parameters that they name, and
 *       PGAS_MEMORY_LIMIT refuses what exceeds it by one byte
 * source: src/call/account.h; public headers */
#include <fcntl.h>
#include "base/log.h"
#include "base/param.h"
#include "call/account.h"
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
        else if (!strstr(what, "heap")) {
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
    const char *base = "HEAP_SIZE=64K SERVICE_THREADS=0 RING_MEMORY=1G";
    uint64_t worst = worst_with(4, base);
    ok(worst > 0 && worst == worst_with(4, base), "the same twice");
    ok(worst_with(8, base) > worst, "more ranks, more bytes");
    ok(worst_with(4, "HEAP_SIZE=64K SERVICE_THREADS=0 RING_MEMORY=1G RING_SIZE=1M") > worst, "larger rings, more bytes");
    ok(worst_with(4, "HEAP_SIZE=64K SERVICE_THREADS=0 RING_MEMORY=1G LANES=8") > worst, "more lanes, more bytes");
    ok(worst_with(4, "HEAP_SIZE=64K SERVICE_THREADS=0 RING_MEMORY=1G BACKLOG_LIMIT=1G") > worst, "longer queues, more bytes");
    is_int(worst_with(4, "HEAP_SIZE=1M SERVICE_THREADS=0 RING_MEMORY=1G"), worst, "the heap is the user's");
}

static void the_limit(void)
{
    char params[200];
    lone_init(2, "HEAP_SIZE=64K SERVICE_THREADS=0");
    uint64_t need = pgasi_account_worst() + pgasi_param.heap_size;
    pgas_finalize();
    snprintf(params, sizeof params, "HEAP_SIZE=64K SERVICE_THREADS=0 MEMORY_LIMIT=%" PRIu64, need);
    ok(lone_init(2, params) == PGAS_OK && pgas_finalize() == PGAS_OK, "what is needed is enough");
    snprintf(params, sizeof params, "HEAP_SIZE=64K SERVICE_THREADS=0 MEMORY_LIMIT=%" PRIu64, need - 1);
    int former = pgasi_log_set_fd(open("/dev/null", O_WRONLY));
    ok(lone_init(2, params) == PGAS_ERR_LIMIT && !pgas_initialized(), "one byte less is refused");
    close(pgasi_log_set_fd(former));
}

int main(void)
{
    plan(10);
    the_sum_is_the_sum();
    it_follows_parameters();
    the_limit();
    return done();
}
