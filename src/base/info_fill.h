/** Results of queries. The caller's struct begins with `size_t size`, which the caller sets. */
#ifndef PGASI_INFO_FILL_H
#define PGASI_INFO_FILL_H

#include <string.h>

#include "base/checks.h"
#include "pgas/status.h"

/** Copies a result of `bytes` bytes, which begins with a field for its size, to the caller's
 *  struct. A program that was compiled with an older header has a smaller struct and gets the
 *  fields that it knows. Afterwards the size of *info_p says how many bytes are set.
 *  @return PGAS_OK
 *  @return PGAS_ERR_INVALID: info_p is NULL, or its size has no room for any field. *info_p is
 *          unchanged. */
static inline pgas_status_t pgasi_info_fill(void *info_p, const void *result, size_t bytes)
{
    size_t size = 0;
    if (info_p)
        memcpy(&size, info_p, sizeof size);
    if (size <= sizeof size)
        return PGAS_ERR_INVALID;
    size = PGASI_MIN(size, bytes);
    memcpy((char *)info_p + sizeof size, (const char *)result + sizeof size, size - sizeof size);
    memcpy(info_p, &size, sizeof size);
    return PGAS_OK;
}

#endif
