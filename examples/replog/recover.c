/* recover.c: the rules of recover.h, on records. */
#include "recover.h"
#include <stdlib.h>

typedef enum { STEP_GOOD, STEP_TORN, STEP_FAILED } step_t;

/* The record of a replica that ends at `end` > 0; its checksum is read but not checked. */
static step_t record_before(const replog_view_t *view, int i, uint64_t end,
                            replog_record_t *record_p)
{
    unsigned char head[REPLOG_RECORD_HEAD], tail[REPLOG_RECORD_TAIL];
    uint32_t crc;
    if (end < sizeof tail)
        return STEP_TORN;
    if (!view->read(view->arg, i, REPLOG_DATA_AT + end - sizeof tail, tail, sizeof tail))
        return STEP_FAILED;
    uint32_t span = replog_tail_decode(tail, end, &crc);
    if (span == 0)
        return STEP_TORN;
    if (!view->read(view->arg, i, REPLOG_DATA_AT + end - span, head, sizeof head))
        return STEP_FAILED;
    if (!replog_head_decode(head, span, record_p) || record_p->span != span)
        return STEP_TORN;
    record_p->crc = crc;
    return STEP_GOOD;
}

/* The record that ends at `end`, with its checksum. */
static step_t check_before(const replog_view_t *view, int i, uint64_t end,
                           replog_record_t *record_p)
{
    step_t step = record_before(view, i, end, record_p);
    if (step != STEP_GOOD)
        return step;
    uint32_t span = record_p->span;
    unsigned char *bytes = malloc(span);
    step = STEP_FAILED;
    if (bytes && view->read(view->arg, i, REPLOG_DATA_AT + end - span, bytes, span))
        step = replog_decode(bytes, span, record_p) ? STEP_GOOD : STEP_TORN;
    free(bytes);
    return step;
}

static bool same_record(const replog_record_t *a, const replog_record_t *b)
{
    return a->seq == b->seq && a->term == b->term && a->bytes == b->bytes && a->crc == b->crc;
}

/* Walks backwards on both replicas until they have a record in common. A torn record of replica i
 * ends the walk with 0: then nothing of it is trusted. */
static step_t find_agreed(const replog_view_t *view, int best, uint64_t best_end, int i,
                          uint64_t end, uint64_t *agreed_p)
{
    replog_record_t ours = { 0 }, theirs = { 0 };
    step_t step;
    *agreed_p = 0;
    while (end > 0 && best_end > 0) {
        bool at_one = end == best_end;
        if (end >= best_end) {
            /* The last record could be damaged: its checksum is checked. */
            step = theirs.span == 0 ? check_before(view, i, end, &theirs)
                                    : record_before(view, i, end, &theirs);
            if (step != STEP_GOOD)
                return step == STEP_TORN ? STEP_GOOD : step;
        }
        if (best_end >= end) {
            step = record_before(view, best, best_end, &ours);
            if (step != STEP_GOOD)
                return step;
        }
        if (at_one && same_record(&ours, &theirs)) {
            *agreed_p = end;
            return STEP_GOOD;
        }
        uint64_t their_end = end;
        if (their_end >= best_end)
            end -= theirs.span;
        if (best_end >= their_end)
            best_end -= ours.span;
    }
    return STEP_GOOD;
}

static replog_outcome_t find_all_agreed(const replog_view_t *view, replog_state_t *state)
{
    state->least = state->end;
    for (int i = 0; i < view->n; i++) {
        replog_replica_t *replica = &state->replicas[i];
        step_t step = find_agreed(view, state->best, state->end, i,
                                  replog_commit_end(replica->commit), &replica->agreed);
        state->culprit = i;
        if (step == STEP_TORN)
            return REPLOG_DAMAGED;
        if (step == STEP_FAILED)
            return REPLOG_UNREAD;
        if (replica->agreed < state->least)
            state->least = replica->agreed;
    }
    return REPLOG_FOUND;
}

/* Rule 1. */
static replog_outcome_t choose_whole(const replog_view_t *view, replog_state_t *state)
{
    bool tried[REPLOG_REPLICAS_MAX] = { false };
    for (;;) {
        int best = -1;
        for (int i = 0; i < view->n; i++)
            if (!tried[i] && state->replicas[i].kind == REPLOG_LOG &&
                (best < 0 || state->replicas[i].commit > state->replicas[best].commit))
                best = i;
        if (best < 0)
            return REPLOG_DAMAGED;
        replog_record_t record = { 0 };
        replog_choose(state, best);
        state->culprit = best;
        step_t step = state->end > 0 ? check_before(view, best, state->end, &record) : STEP_GOOD;
        if (step == STEP_FAILED)
            return REPLOG_UNREAD;
        state->last_seq = record.seq;
        if (step == STEP_GOOD)
            return REPLOG_FOUND;
        tried[best] = true;
    }
}

replog_outcome_t replog_recover(const replog_view_t *view, replog_state_t *state_p)
{
    replog_outcome_t outcome = replog_look(view, state_p);
    if (outcome == REPLOG_FOUND)
        outcome = choose_whole(view, state_p);
    if (outcome == REPLOG_FOUND)
        outcome = find_all_agreed(view, state_p);
    if (outcome == REPLOG_FOUND)
        replog_find_shown(view, state_p);
    for (int i = 0; outcome != REPLOG_FOUND && i < view->n; i++)
        state_p->replicas[i].agreed = 0;
    return outcome;
}
