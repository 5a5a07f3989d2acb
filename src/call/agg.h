/** The library's own handlers behind aggregators. */
#ifndef PGASI_AGG_H
#define PGASI_AGG_H

void pgasi_agg_start(void);

#endif
