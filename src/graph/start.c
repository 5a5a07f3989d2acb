/* Registers the handlers of this folder. Every function that makes a graph begins with it. */
#include "base/checks.h"
#include "graph/graph.h"
#include "pgas/runtime.h"

pgas_status_t pgasi_graph_start(void)
{
    static pgas_status_t (*const all[])(void) = { pgasi_number_register, pgasi_source_register,
                                                  pgasi_names_register };
    pgas_status_t status = pgas_initialized() ? PGAS_OK : PGAS_ERR_NOT_INIT;
    if (status != PGAS_OK)
        return status;
    for (size_t i = 0; i < PGASI_ARRAY_LENGTH(all) && status == PGAS_OK; i++)
        status = all[i]();
    pgas_status_t agreed = pgas_handlers_agree();
    return status != PGAS_OK ? status : agreed;
}
