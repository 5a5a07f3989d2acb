/* Agreement of ranks on errors, and allocations that record the reason of a failure.
 *
 * An error is logged once, by the lowest rank that has it. A rank that detects one records the
 * reason (pgasi_graph_note) and passes the status up; the next agreement of all ranks logs the
 * reason. */
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>
#include "base/checks.h"
#include "graph/graph.h"
#include "pgas/coll.h"
#include "pgas/runtime.h"

#define HUGE_PAGE ((size_t)2 << 20)
#define HUGE_FROM (4u << 20) /* bytes of an array for which huge pages are requested */

/* The first reason since the last agreement. */
static struct {
    char text[256];
    int is_set;
} reason;

void pgasi_graph_note(const char *format, ...)
{
    if (__atomic_exchange_n(&reason.is_set, 1, __ATOMIC_ACQ_REL) == 0) {
        va_list arguments;
        va_start(arguments, format);
        vsnprintf(reason.text, sizeof reason.text, format, arguments);
        va_end(arguments);
    }
}

/* Rank and status are one word, so that one allreduce finds the lowest rank with an error. */
pgas_status_t pgasi_graph_agree(pgas_status_t mine, int *rank_p)
{
    uint64_t key =
        mine == PGAS_OK ? UINT64_MAX : (uint64_t)pgas_rank() << 8 | (uint64_t)(uint8_t)-mine;
    pgas_status_t status = pgas_allreduce(NULL, &key, &key, 1, PGAS_U64, PGAS_MIN);
    bool failed = status == PGAS_OK && key != UINT64_MAX;
    int rank = failed ? (int)(key >> 8) : -1;
    if (rank_p)
        *rank_p = rank;
    else if (rank == pgas_rank() && mine != PGAS_ERR_PEER) /* the library has logged a death */
        PGASI_ERROR("graph", "%s", reason.is_set ? reason.text : pgas_status_text(mine));
    __atomic_store_n(&reason.is_set, 0, __ATOMIC_RELEASE);
    return failed ? (pgas_status_t) - (int)(key & 0xff) : status;
}

pgas_status_t pgasi_graph_settle(pgas_status_t mine)
{
    pgas_status_t status = pgas_quiesce();
    return status != PGAS_OK ? status : pgasi_graph_agree(mine, NULL);
}

uint64_t pgasi_graph_memory(void)
{
    return (uint64_t)sysconf(_SC_PHYS_PAGES) * (uint64_t)sysconf(_SC_PAGESIZE) /
           (uint64_t)pgas_node_size();
}

static void note_no_memory(uint64_t n_elems, size_t elem_bytes)
{
    pgasi_graph_note("no memory for %.0f MiB on a rank: use more nodes, or a smaller graph",
                     (double)n_elems * (double)elem_bytes / (1 << 20));
}

/* Algorithms access large arrays at random, so most of their time would be misses of address
 * translation. The function requests huge pages, which some systems give on request only. */
static void *prefer_huge_pages(void *array, uint64_t bytes)
{
    uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE);
    uintptr_t begin = ((uintptr_t)array + page - 1) & ~(page - 1);
    if (array && bytes >= HUGE_FROM)
        madvise((void *)begin, ((uintptr_t)array + bytes - begin) & ~(page - 1), MADV_HUGEPAGE);
    return array;
}

/* Large arrays begin at a huge page. Otherwise one of 4 MiB, such as a table of 2^20 ids, would
 * have only one huge page. */
void *pgasi_graph_array(uint64_t n_elems, size_t elem_bytes)
{
    uint64_t bytes = n_elems * elem_bytes;
    void *array = NULL;
    bool fits = n_elems < SIZE_MAX / 2 / elem_bytes;
    if (fits && bytes < HUGE_FROM)
        array = malloc(bytes + 1);
    else if (fits && posix_memalign(&array, HUGE_PAGE, bytes) != 0)
        array = NULL;
    if (!array)
        note_no_memory(n_elems, elem_bytes);
    return prefer_huge_pages(array, bytes);
}

void *pgasi_graph_zeroed(uint64_t n_elems, size_t elem_bytes)
{
    void *array = n_elems < SIZE_MAX / 2 / elem_bytes ? calloc(n_elems + 1, elem_bytes) : NULL;
    if (!array)
        note_no_memory(n_elems, elem_bytes);
    return prefer_huge_pages(array, n_elems * elem_bytes);
}

void pgasi_graph_log_error(const char *path, const pgasi_graph_error_t *error,
                           uint64_t lines_before)
{
    const char *label = strcmp(path, "-") == 0 ? "standard input" : path;
    if (error->line > 0)
        PGASI_ERROR("graph", "%s:%" PRIu64 ": %s", label, lines_before + error->line, error->text);
    else
        PGASI_ERROR("graph", "%s: %s", label, error->text);
}
