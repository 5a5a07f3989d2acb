/* Required steps of a test: the program ends when one fails. */
#ifndef T_MUST_H
#define T_MUST_H

#include "pgas/status.h"
#include "t/tap.h"

static inline void must(pgas_status_t status, const char *what)
{
    if (status != PGAS_OK)
        bail("%s: %s", what, pgas_status_name(status));
}

#endif
