/* scan.c: reads the log in blocks. */
#include "scan.h"
#include <stdlib.h>
#include <string.h>

#define BLOCK (64u << 10)

bool replog_scan_begin(replog_scan_t *scan, const replog_view_t *view, int replica, uint64_t at,
                       uint64_t end)
{
    *scan = (replog_scan_t){ .view = view, .replica = replica, .at = at, .end = end, .from = at };
    scan->buffer = malloc(BLOCK + replog_span(REPLOG_RECORD_MAX));
    return scan->buffer != NULL;
}

void replog_scan_end(replog_scan_t *scan)
{
    free(scan->buffer);
    scan->buffer = NULL;
}

/* Makes `bytes` bytes from `at` on available, and some more while it reads. */
static bool fill(replog_scan_t *scan, uint64_t bytes)
{
    uint64_t have = scan->from + scan->n_buffer - scan->at, left = scan->end - scan->at;
    if (have >= bytes)
        return true;
    memmove(scan->buffer, scan->buffer + (scan->at - scan->from), have);
    uint64_t want = bytes > BLOCK ? bytes : BLOCK;
    if (want > left)
        want = left;
    scan->from = scan->at;
    scan->n_buffer = have;
    if (!scan->view->read(scan->view->arg, scan->replica, REPLOG_DATA_AT + scan->at + have,
                          scan->buffer + have, want - have))
        return false;
    scan->n_buffer = want;
    return true;
}

replog_scan_result_t replog_scan_next(replog_scan_t *scan, replog_record_t *record_p,
                                      const void **payload_p)
{
    uint64_t room = scan->end - scan->at;
    if (room == 0)
        return REPLOG_SCAN_END;
    if (room < replog_span(0))
        return REPLOG_SCAN_TORN;
    if (!fill(scan, REPLOG_RECORD_HEAD))
        return REPLOG_SCAN_FAILED;
    if (!replog_head_decode(scan->buffer + (scan->at - scan->from), room, record_p))
        return REPLOG_SCAN_TORN;
    if (!fill(scan, record_p->span))
        return REPLOG_SCAN_FAILED;
    const unsigned char *at = scan->buffer + (scan->at - scan->from);
    if (!replog_decode(at, room, record_p) || (scan->seq != 0 && record_p->seq != scan->seq + 1) ||
        (scan->at == 0 && record_p->seq != 1))
        return REPLOG_SCAN_TORN;
    *payload_p = at + REPLOG_RECORD_HEAD;
    scan->at += record_p->span;
    scan->seq = record_p->seq;
    return REPLOG_SCAN_RECORD;
}
