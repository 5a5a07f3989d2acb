/* 20_args: handlers with arguments of any kind and size, and results of the same kinds.
 *
 * Every rank sends a survey to its right neighbour: a title, a place, some remarks, and a million
 * samples. The message contains the small parts. The samples are in an RMA vector. So the neighbour
 * reads them directly from this rank's memory into its own, and keeps that memory without a copy.
 * Then every rank asks its neighbour for a summary of the survey.
 *
 *   mpirun -n 4 build/examples/20_args */
#include <pgas/call_args.h>
#include <pgas/pgas.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "usage.h"

#define N_SAMPLES 1000000
#define N_BINS    8

PGAS_RMA_VECTOR(samples, double) /* samples_t: a growing vector of registered memory */

/* The list of fields describes remark_t. The macro also makes functions that save and load it. */
#define REMARK_FIELDS(F)     \
    F(SCALAR, int32_t, line) \
    F(STRING, text)
PGAS_STRUCT(remark, REMARK_FIELDS)

#define SUMMARY_FIELDS(F)   \
    F(STRING, text)         \
    F(SCALAR, double, mean) \
    F(VECTOR, uint64_t, bin, n_bins)
PGAS_STRUCT(summary, SUMMARY_FIELDS)

static char kept_text[200]; /* of the survey that this rank has received */
static samples_t kept;

/* The parameters of a handler are described in the same way. */
#define KEEP_FIELDS(F)                           \
    F(STRING, title)                             \
    F(ARRAY, double, place, 2)                   \
    F(STRUCT_VECTOR, remark, remarks, n_remarks) \
    F(RMA_VECTOR, samples, values)
PGAS_HANDLER_ARGS(keep, KEEP_FIELDS)
{
    snprintf(kept_text, sizeof kept_text, "%s of rank %d at %.0f %.0f, %zu remarks, line %d: %s",
             title, pgas_thread_rank(source), place[0], place[1], n_remarks, remarks[1].line,
             remarks[1].text);
    samples_take(values, &kept); /* the other arguments are valid until the handler returns */
}

/* The body fills a summary_t *result. The library frees it when the caller has it. */
#define SUMMARIZE_FIELDS(F) F(SCALAR, uint32_t, n_bins)
PGAS_HANDLER_ARGS_RETURN(summarize, SUMMARIZE_FIELDS, summary)
{
    const double *value = samples_data(&kept);
    size_t n = samples_size(&kept);
    result->text = strdup(kept_text);
    result->bin = calloc(n_bins, sizeof *result->bin);
    if (!result->text || !result->bin)
        abort();
    result->n_bins = n_bins;
    for (size_t i = 0; i < n; i++) {
        result->mean += value[i] / (double)n;
        result->bin[(size_t)(value[i] * n_bins)]++;
    }
}

/* The caller may free its vector when the call returns, before the neighbour has read it. */
static pgas_status_t hand_over(int rank)
{
    remark_t remarks[2] = { { 3, "calm" }, { 70, "wind from the east" } };
    double place[2] = { pgas_rank(), 7 };
    samples_t mine = { 0 };
    pgas_sync_t done = PGAS_SYNC_INIT;
    pgas_status_t status = samples_resize(&mine, N_SAMPLES);
    if (status != PGAS_OK)
        return status;
    for (int i = 0; i < N_SAMPLES; i++)
        samples_data(&mine)[i] = (double)i / N_SAMPLES;
    status = pgas_call_keep(rank, "survey", place, remarks, 2, &mine, &done);
    samples_free(&mine);
    return status == PGAS_OK ? pgas_sync_wait(&done, -1) : status;
}

int main(int argc, char **argv)
{
    usage_check(pgas_launcher_rank(), argc, argv, "20_args\n", 0);
    if (pgas_init(NULL, NULL) != PGAS_OK)
        return 1;
    int rank = pgas_rank(), right = (rank + 1) % pgas_n_ranks();
    summary_t summary = { 0 };
    pgas_status_t status = hand_over(right);
    if (status == PGAS_OK)
        status = pgas_call_return_summarize(right, N_BINS, &summary);

    int good = status == PGAS_OK && summary.n_bins == N_BINS;
    for (size_t i = 0; good && i < N_BINS; i++)
        good = summary.bin[i] == N_SAMPLES / N_BINS;
    pgas_rma_info_t info = { .size = sizeof info };
    good = good && pgas_rma_info(&info) == PGAS_OK && info.n_registrations == 0;
    printf("rank %d: %s; mean %.3f: %s\n", rank, good ? summary.text : pgas_status_text(status),
           summary.mean, good ? "right" : "WRONG");
    pgas_free_summary(&summary);
    pgas_barrier(NULL); /* after it the neighbour has its summary, too */
    samples_free(&kept);
    pgas_finalize();
    return good ? 0 : 1;
}
