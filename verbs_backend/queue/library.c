/* See library.h. */
#include "verbs_backend/queue/library.h"

#include <pthread.h>
#include "base/checks.h"
#include "base/library.h"
#include "base/log.h"

pgasi_verbs_lib_t pgasi_verbs_lib;

#define FUNCTION(name) { #name, &pgasi_verbs_lib.name },
static const pgasi_library_fn_t functions[] = { PGASI_VERBS_FUNCTIONS(FUNCTION) };

static pthread_once_t once = PTHREAD_ONCE_INIT;
static bool is_open;

static void open_library(void)
{
    char why[256];
    is_open = pgasi_library_open("libibverbs.so.1", functions, PGASI_ARRAY_LENGTH(functions), why,
                                 sizeof why);
    if (!is_open)
        PGASI_INFO("verbs", "no devices of libibverbs: %s", why);
}

bool pgasi_verbs_lib_open(void)
{
    pthread_once(&once, open_library);
    return is_open;
}
