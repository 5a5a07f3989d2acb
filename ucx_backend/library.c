/* See library.h. */
#include "ucx_backend/library.h"

#include <pthread.h>
#include "base/checks.h"
#include "base/library.h"
#include "base/log.h"

/* of all versions 1.x */
#define SONAME "libucp.so.0"

pgasi_ucx_lib_t pgasi_ucx_lib;

#define FUNCTION(name) { #name, &pgasi_ucx_lib.name },
static const pgasi_library_fn_t functions[] = { PGASI_UCX_FUNCTIONS(FUNCTION) };

static pthread_once_t once = PTHREAD_ONCE_INIT;
static char why[256];
static bool is_open;

static void open_library(void)
{
    is_open = pgasi_library_open(SONAME, functions, PGASI_ARRAY_LENGTH(functions), why, sizeof why);
}

pgas_status_t pgasi_ucx_lib_open(void)
{
    pthread_once(&once, open_library);
    if (is_open)
        return PGAS_OK;
    PGASI_ERROR("ucx", "cannot load UCX: %s; install it, or set LD_LIBRARY_PATH", why);
    return PGAS_ERR_NOT_FOUND;
}
