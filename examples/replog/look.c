/* look.c: reads the words at the start of each region. */
#include <string.h>
#include "recover.h"

static replog_outcome_t look_at(const replog_view_t *view, int i, replog_replica_t *replica)
{
    uint64_t head[REPLOG_HEAD_BYTES / sizeof(uint64_t)];
    if (!view->read(view->arg, i, 0, head, sizeof head))
        return REPLOG_UNREAD;
    *replica = (replog_replica_t){ .kind = replog_head_check(head, view->region_bytes),
                                   .lock = head[REPLOG_LOCK_AT / sizeof *head] };
    if (replica->kind == REPLOG_STRANGE)
        return REPLOG_FOREIGN;
    if (replica->kind == REPLOG_LOG) {
        replica->commit = head[REPLOG_COMMIT_AT / sizeof *head];
        replica->mark = head[REPLOG_MARK_AT / sizeof *head];
    }
    return REPLOG_FOUND;
}

/* Several replicas may have the greatest commit word, and a writer that died in its repair may have
 * given it to some without the mark. */
bool replog_is_current(const replog_view_t *view, const replog_state_t *state, int i)
{
    const replog_replica_t *replicas = state->replicas;
    bool has_mark = false;
    for (int k = 0; k < view->n; k++)
        has_mark |= replicas[k].commit == replicas[state->best].commit &&
                    replicas[k].mark == replicas[i].mark;
    return replog_commit_term(replicas[i].commit) == state->term && has_mark;
}

/* Rule 2. */
void replog_find_shown(const replog_view_t *view, replog_state_t *state)
{
    state->shown = state->end;
    for (int i = 0; i < view->n; i++) {
        uint64_t end = replog_commit_end(state->replicas[i].commit);
        if (replog_is_current(view, state, i) && end < state->shown)
            state->shown = end;
    }
}

void replog_choose(replog_state_t *state, int best)
{
    state->best = best;
    state->term = replog_commit_term(state->replicas[best].commit);
    state->end = replog_commit_end(state->replicas[best].commit);
}

replog_outcome_t replog_look(const replog_view_t *view, replog_state_t *state_p)
{
    int n_logs = 0, best = 0;
    memset(state_p, 0, sizeof *state_p);
    for (int i = 0; i < view->n; i++) {
        replog_outcome_t outcome = look_at(view, i, &state_p->replicas[i]);
        state_p->culprit = i;
        if (outcome != REPLOG_FOUND)
            return outcome;
        n_logs += state_p->replicas[i].kind == REPLOG_LOG;
        if (replog_commit_term(state_p->replicas[i].commit) > state_p->greatest_term)
            state_p->greatest_term = replog_commit_term(state_p->replicas[i].commit);
        if (state_p->replicas[i].commit > state_p->replicas[best].commit)
            best = i;
    }
    replog_choose(state_p, best);
    replog_find_shown(view, state_p);
    return n_logs > 0 ? REPLOG_FOUND : REPLOG_NONE;
}
