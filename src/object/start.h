/** Start and stop of this folder. */
#ifndef PGASI_OBJECT_START_H
#define PGASI_OBJECT_START_H

#include "pgas/status.h"

pgas_status_t pgasi_object_start(void);
void pgasi_object_stop(void);

#endif
