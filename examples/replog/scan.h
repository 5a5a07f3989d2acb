/* scan.h: reads the records of a replica in order. */
#ifndef REPLOG_SCAN_H
#define REPLOG_SCAN_H

#include "recover.h"

typedef struct {
    const replog_view_t *view;
    int replica;
    uint64_t at, end;        /* positions of the next record and of the log's end */
    uint64_t seq;            /* of the record before, 0: not known */
    unsigned char *buffer;   /* bytes of the log from position `from` on */
    uint64_t from, n_buffer; /* how many of them */
} replog_scan_t;

typedef enum {
    REPLOG_SCAN_RECORD,
    REPLOG_SCAN_END,
    REPLOG_SCAN_TORN, /* at `at` there is no whole record, or it has another number */
    REPLOG_SCAN_FAILED
} replog_scan_result_t;

/* Begins at a position that is the start of a record. @return false: no memory */
bool replog_scan_begin(replog_scan_t *scan, const replog_view_t *view, int replica, uint64_t at,
                       uint64_t end);
/* The next record. *payload_p is valid until the next call. */
replog_scan_result_t replog_scan_next(replog_scan_t *scan, replog_record_t *record_p,
                                      const void **payload_p);
void replog_scan_end(replog_scan_t *scan);

#endif
