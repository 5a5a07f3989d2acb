/* Transports that are full.
 *   what:   Two ranks that each issue more to the other than their transports take, at the same
 *           time and without service threads, finish. A rank that waits for room serves its peers
 *           meanwhile, also in a flush and on a shared context.
 *   np:     2 3
 *   nodes:  1
 *   tls:    tcp,self
 *   env:    PGAS_SERVICE_THREADS=0 PGAS_TRANSPORT=verbs PGAS_VERBS_DEVICE=snic |
 *   env:    PGAS_SERVICE_THREADS=0 |
 *   env:    PGAS_SERVICE_THREADS=0 PGAS_TRANSPORT=verbs PGAS_VERBS_DEVICE=snic PGAS_LANES=1
 *   source: include/pgas/rma.h */
#include <pthread.h>
#include "t/spmd/job.h"

#define N_AMOS  20000
#define THREADS 2

static pgas_gptr_t words[JOB_RANKS_MAX];

/* 32-bit atomics: the software NIC cannot execute them, so the peer's context 0 does. Those that
 * fetch name a counter. */
static int issue_all(bool fetch)
{
    int n_bad = 0, next = (pgas_rank() + 1) % pgas_n_ranks();
    uint32_t *olds = job_alloc(N_AMOS * sizeof *olds), one = 1;
    pgas_sync_t done = PGAS_SYNC_INIT;
    for (int i = 0; i < N_AMOS; i++)
        n_bad += pgas_fetch_op_nb(words[next], PGAS_OP(PGAS_ADD, PGAS_U32), &one,
                                  fetch ? &olds[i] : NULL, fetch ? &done : NULL) != PGAS_OK;
    n_bad += pgas_sync_wait(&done, -1) != PGAS_OK;
    n_bad += pgas_flush(next) != PGAS_OK;
    free(olds);
    return n_bad;
}

static void *issue_beside(void *arg)
{
    int *n_bad = arg;
    *n_bad = pgas_thread_attach() != PGAS_OK;
    *n_bad += issue_all(true) + issue_all(false);
    *n_bad += pgas_thread_detach() != PGAS_OK;
    return NULL;
}

/* This rank's word has the additions of the rank before it. */
static uint32_t own_word(void)
{
    pgas_barrier(NULL);
    return *(uint32_t *)pgas_gptr_local(words[pgas_rank()], 8);
}

int main(int argc, char **argv)
{
    job_begin(&argc, &argv, 3);
    pgas_gptr_t own = PGAS_NULL;
    pgas_alloc(64, &own);
    *(uint32_t *)pgas_gptr_local(own, 8) = 0;
    job_gather(own, words);
    int n_bad = issue_all(true);
    spmd_ok(n_bad == 0 && own_word() == N_AMOS, "atomics that fetch");
    n_bad = issue_all(false);
    spmd_ok(n_bad == 0 && own_word() == 2 * N_AMOS, "and that do not");
    pthread_t thread[THREADS];
    int n_bad_of[THREADS];
    for (int i = 0; i < THREADS; i++)
        pthread_create(&thread[i], NULL, issue_beside, &n_bad_of[i]);
    n_bad = 0;
    for (int i = 0; i < THREADS; i++) {
        pthread_join(thread[i], NULL);
        n_bad += n_bad_of[i];
    }
    spmd_ok(n_bad == 0 && own_word() == (2 + 2 * THREADS) * (uint32_t)N_AMOS,
            "of several threads, too");
    pgas_free(own);
    return job_end();
}
