/** The library's own handlers for aggregators. */
#ifndef PGASI_AGG_H
#define PGASI_AGG_H

void pgasi_agg_start(void);

#endif
