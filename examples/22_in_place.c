/* 22_in_place: data that are written once, where the card or the peer reads them.
 *
 * Every rank produces frames of samples for its right neighbour. The rank makes a frame in a
 * block of registered memory from a circular pool, and passes it with a call. The neighbour reads
 * it out of the block, without a copy in between. When the neighbour has read it, the block goes
 * back to the pool. A neighbour that is busy has no room for calls at times. The program then
 * retries itself (PGAS_FULL_AGAIN) or lets the library keep the calls in order (PGAS_FULL_QUEUE).
 * Small arguments are written directly into the neighbour's channel (pgas_call_begin).
 *
 * Source: Listing 1 of the Seriema paper, with its options Retry and RetryAsync.
 *
 *   mpirun -n 4 build/examples/22_in_place */
#include <pgas/pgas.h>
#include <stdio.h>
#include <stdlib.h>
#include "usage.h"

#define N_FRAMES  400
#define N_WINDOW  8 /* frames on their way at one time */
#define N_SAMPLES 10000

typedef struct {
    int32_t number, seed;
} frame_t;

static int64_t n_frames, n_samples, n_wrong; /* that this rank has received */

static int16_t sample(int32_t seed, size_t i)
{
    return (int16_t)(seed * 31 + (int32_t)i);
}

/* Runs when the samples are in memory of this rank. */
PGAS_HANDLER(use_frame, frame_t)
{
    void *address;
    size_t bytes;
    if (pgas_buffer_get(0, &address, &bytes) != PGAS_OK)
        abort();
    const int16_t *samples = address;
    for (size_t i = 0; i < bytes / sizeof *samples; i++)
        n_wrong += samples[i] != sample(arg->seed, i);
    n_samples += (int64_t)(bytes / sizeof *samples);
    n_frames++;
}

/* A frame on its way: its block must stay until the neighbour has read it. */
typedef struct {
    pgas_block_t block;
    pgas_sync_t was_read;
} sent_t;

/* Makes frame i in a block, and sends it. @return its status */
static pgas_status_t send_frame(pgas_pool_t *pool, int rank, int32_t i, sent_t *sent)
{
    frame_t frame = { i, pgas_rank() + i };
    size_t n = N_SAMPLES - (size_t)i; /* no two frames have the same size */
    pgas_status_t status = pgas_pool_acquire(pool, n * sizeof(int16_t), -1, &sent->block);
    if (status != PGAS_OK)
        return status;
    int16_t *samples = sent->block.address;
    for (size_t k = 0; k < n; k++)
        samples[k] = sample(frame.seed, k);

    pgas_buffer_t buffer = { .mode = PGAS_BUFFER_PULL,
                             .address = samples,
                             .bytes = n * sizeof *samples };
    pgas_call_opts_t opts = PGAS_CALL_OPTS_INIT;
    opts.buffers = &buffer;
    opts.n_buffers = 1;
    opts.local = &sent->was_read;
    opts.full = i % 2 ? PGAS_FULL_QUEUE : PGAS_FULL_AGAIN;
    /* Nothing has happened when a call returns PGAS_ERR_AGAIN. Progress makes room. */
    while ((status = pgas_call_use_frame_to(pgas_on_rank(rank), &frame, &opts)) == PGAS_ERR_AGAIN)
        pgas_progress();
    return status;
}

/* Waits until the neighbour has read a frame, and gives its block back. */
static pgas_status_t end_frame(pgas_pool_t *pool, sent_t *sent)
{
    pgas_status_t status = pgas_sync_wait(&sent->was_read, -1);
    return status == PGAS_OK ? pgas_pool_release(pool, &sent->block) : status;
}

/* A window of frames: the block of the oldest frame returns before the next one is made. */
static pgas_status_t send_frames(int rank)
{
    sent_t window[N_WINDOW] = { { { NULL, 0, 0, 0 }, PGAS_SYNC_INIT } };
    pgas_pool_t *pool;
    pgas_pool_opts_t opts = PGAS_POOL_OPTS_INIT;
    opts.owner = "frames";
    opts.policy = PGAS_POOL_CIRCULAR;
    pgas_status_t status = pgas_pool_create(&opts, &pool);
    if (status != PGAS_OK)
        return status;
    for (int32_t i = 0; i < N_FRAMES + N_WINDOW && status == PGAS_OK; i++) {
        sent_t *sent = &window[i % N_WINDOW];
        if (i >= N_WINDOW)
            status = end_frame(pool, sent);
        if (i < N_FRAMES && status == PGAS_OK)
            status = send_frame(pool, rank, i, sent);
    }
    pgas_status_t ended = pgas_pool_destroy(pool);
    return status == PGAS_OK ? ended : status;
}

/* Each counts as so many samples. The argument is written where the neighbour reads it. */
PGAS_HANDLER(count_samples, int64_t)
{
    n_samples += *arg;
}

static pgas_status_t send_counts(int rank)
{
    pgas_status_t status = PGAS_OK;
    for (int i = 0; i < N_FRAMES && status == PGAS_OK; i++) {
        void *place;
        status = pgas_call_begin(pgas_on_rank(rank), pgas_handler_count_samples, sizeof(int64_t),
                                 NULL, &place);
        if (status == PGAS_OK) {
            *(int64_t *)place = i;
            status = pgas_call_commit();
        }
    }
    return status;
}

int main(int argc, char **argv)
{
    usage_check(pgas_launcher_rank(), argc, argv, "22_in_place\n", 0);
    if (pgas_init(NULL, NULL) != PGAS_OK)
        return 1;
    int right = (pgas_rank() + 1) % pgas_n_ranks();
    pgas_status_t status = send_frames(right);
    if (status == PGAS_OK)
        status = send_counts(right);
    pgas_quiesce(); /* all frames of all ranks have been used */

    int good = status == PGAS_OK && n_frames == N_FRAMES && n_wrong == 0 &&
               n_samples == (int64_t)N_FRAMES * N_SAMPLES;
    printf("rank %d: %lld frames, %lld samples: %s\n", pgas_rank(), (long long)n_frames,
           (long long)n_samples, good ? "right" : "WRONG");
    pgas_finalize();
    return good ? 0 : 1;
}
