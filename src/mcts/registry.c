/* The searches of this rank, and agreement of ranks about them. Messages name a search by its
 * number, which is the same on all ranks: ranks create and destroy searches in the same order. */
#include "mcts/message.h"
#include "pgas/coll.h"
#include "pgas/runtime.h"

pgasi_mcts_registry_t pgasi_mcts_registry;

int pgasi_mcts_free_number(void)
{
    for (int i = 0; i < PGASI_MCTS_SEARCHES; i++)
        if (!pgasi_mcts_registry.search[i])
            return i;
    PGASI_ERROR("mcts", "there are %d searches already, which is the limit", PGASI_MCTS_SEARCHES);
    return -1;
}

void pgasi_mcts_add(pgas_mcts_t *m)
{
    pgasi_mcts_registry.search[m->id] = m;
}

void pgasi_mcts_remove(pgas_mcts_t *m)
{
    pgasi_mcts_registry.search[m->id] = NULL;
}

bool pgasi_mcts_is_live(const pgas_mcts_t *m)
{
    for (int i = 0; m && i < PGASI_MCTS_SEARCHES; i++)
        if (pgasi_mcts_registry.search[i] == m)
            return true;
    return false;
}

pgas_status_t pgasi_mcts_check(const pgas_mcts_t *m)
{
    if (!pgas_initialized())
        return PGAS_ERR_NOT_INIT;
    if (!pgasi_mcts_is_live(m))
        return PGAS_ERR_INVALID;
    /* begin_ns is set while the functions of the program's description may call */
    if (!pthread_equal(m->creator, pthread_self()) || m->begin_ns)
        return PGAS_ERR_CONTEXT;
    return m->broken ? PGAS_ERR_PEER : PGAS_OK;
}

pgas_status_t pgasi_mcts_agree(pgas_status_t mine, uint64_t number)
{
    int64_t words[3] = { mine, (int64_t)(number >> 1), -(int64_t)(number >> 1) }, least[3];
    pgas_status_t status = pgas_allreduce(NULL, words, least, 3, PGAS_I64, PGAS_MIN);
    if (status != PGAS_OK || least[0] != PGAS_OK)
        return status != PGAS_OK ? status : (pgas_status_t)least[0];
    if (least[1] == -least[2])
        return PGAS_OK;
    PGASI_ERROR("mcts", "the ranks gave different descriptions or options");
    return PGAS_ERR_MISMATCH;
}

pgas_status_t pgasi_mcts_note_death(pgas_mcts_t *m, pgas_status_t status)
{
    m->broken |= status == PGAS_ERR_PEER;
    return status;
}
