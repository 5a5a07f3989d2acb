/* store.c: reads of regions, and the members of the group. */
#include "store.h"
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MEND_US INT64_C(10000000)

void replog_fail(const char *format, ...)
{
    va_list args;
    va_start(args, format);
    fflush(stdout);
    fprintf(stderr, "replog: ");
    vfprintf(stderr, format, args);
    fprintf(stderr, "\n");
    va_end(args);
    exit(1);
}

void replog_must(pgas_status_t status, const char *what)
{
    if (status != PGAS_OK)
        replog_fail("%s: %s", what, pgas_status_text(status));
}

/* ---- reads ---- */

bool replog_read_file(void *arg, int replica, uint64_t offset, void *to, size_t bytes)
{
    const replog_store_t *store = arg;
    memcpy(to, store->files[replica] + offset, bytes);
    return true;
}

bool replog_read_group(void *arg, int replica, uint64_t offset, void *to, size_t bytes)
{
    replog_store_t *store = arg;
    store->status = pgas_group_read(store->group, replica, offset, to, bytes);
    return store->status == PGAS_OK;
}

/* ---- members ---- */

void replog_store_refresh(replog_store_t *store)
{
    pgas_group_info_t info = { .size = sizeof info };
    replog_must(pgas_group_info(store->group, &info), "group");
    store->view.n = info.n_replicas;
    store->view.region_bytes = info.region_bytes;
}

void replog_store_mend(replog_store_t *store)
{
    pgas_status_t status;
    int n = store->view.n;
    do
        status = pgas_group_reform(store->group, MEND_US);
    while (status == PGAS_ERR_TIMEOUT || (status == PGAS_ERR_PEER && n-- > 0));
    replog_must(status, "the group has lost its replicas");
    replog_store_refresh(store);
    fprintf(stderr, "replog: a replica has gone, %d left\n", store->view.n);
}

/* ---- recovery ---- */

/* Calls replog_recover or replog_look; again if a replica died meanwhile. */
static replog_outcome_t call(replog_store_t *store, replog_state_t *state_p,
                             replog_outcome_t (*function)(const replog_view_t *, replog_state_t *))
{
    replog_outcome_t outcome;
    while ((outcome = function(&store->view, state_p)) == REPLOG_UNREAD &&
           store->status == PGAS_ERR_PEER)
        replog_store_mend(store);
    if (outcome == REPLOG_FOREIGN)
        replog_fail("replica %d: its region has something else than a log of this version",
                    state_p->culprit);
    if (outcome == REPLOG_UNREAD)
        replog_fail("replica %d: cannot be read: %s", state_p->culprit,
                    pgas_status_text(store->status));
    return outcome;
}

replog_outcome_t replog_store_recover(replog_store_t *store, replog_state_t *state_p)
{
    return call(store, state_p, replog_recover);
}

static bool same_words(const replog_store_t *store, const replog_state_t *a,
                       const replog_state_t *b)
{
    for (int i = 0; i < store->view.n; i++)
        if (a->replicas[i].commit != b->replicas[i].commit ||
            a->replicas[i].mark != b->replicas[i].mark)
            return false;
    return true;
}

/* Commit words only grow. Words of one term can be read at different times: the least end holds for
 * all. Words of several terms must be those of one moment: two reads gave the same. */
bool replog_store_look(replog_store_t *store, replog_state_t *state_p)
{
    replog_state_t before;
    bool is_log = call(store, state_p, replog_look) == REPLOG_FOUND;
    for (;;) {
        bool one_term = true;
        for (int i = 0; i < store->view.n; i++)
            one_term &= replog_is_current(&store->view, state_p, i);
        if (!is_log || one_term)
            return is_log;
        before = *state_p;
        is_log = call(store, state_p, replog_look) == REPLOG_FOUND;
        if (same_words(store, &before, state_p))
            return is_log;
    }
}
