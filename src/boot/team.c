/* Read access to teams: their members, and whether one of these has died. team_make.c makes teams.
 * Global ranks are found by a table and searched by bisection, so a team costs 4 to 16 bytes per
 * member on each of them. */
#include "base/spin.h"
#include "boot/internal.h"

#define SPINS 100

pgasi_teams_t pgasi_teams;

pgas_team_t *pgasi_team_world(void)
{
    return pgasi_teams.world;
}

pgas_team_t *pgas_team_node(void)
{
    return pgasi_teams.node;
}

static const pgas_team_t *team_or_world(const pgas_team_t *team)
{
    return team ? team : pgasi_teams.world;
}

int pgas_team_rank(const pgas_team_t *team)
{
    team = team_or_world(team);
    return team ? team->rank : -1;
}

int pgas_team_size(const pgas_team_t *team)
{
    team = team_or_world(team);
    return team ? team->size : 0;
}

int pgas_team_to_global(const pgas_team_t *team, int team_rank)
{
    team = team_or_world(team);
    if (!team || team_rank < 0 || team_rank >= team->size)
        return -1;
    return team->global_of ? team->global_of[team_rank] : team_rank;
}

int pgas_team_from_global(const pgas_team_t *team, int rank)
{
    team = team_or_world(team);
    if (!team || rank < 0 || rank >= pgasi_boot.n_ranks)
        return -1;
    if (!team->global_of)
        return rank;
    for (int low = 0, high = team->size; low < high;) {
        int middle = low + (high - low) / 2,
            at = team->by_global != NULL ? team->by_global[middle] : middle;
        if (team->global_of[at] == rank)
            return at;
        if (team->global_of[at] < rank)
            low = middle + 1;
        else
            high = middle;
    }
    return -1;
}

/* ---- numbers ---- */

uint32_t pgasi_team_number(const pgas_team_t *team)
{
    return team ? team->number : 0;
}

void pgasi_team_enter_number(pgas_team_t *team, uint32_t number)
{
    pgasi_spin_lock(&pgasi_teams.lock, SPINS);
    team->number = pgasi_teams.last_number = number;
    team->next_numbered = pgasi_teams.numbered;
    pgasi_teams.numbered = team;
    pgasi_spin_unlock(&pgasi_teams.lock);
}

void pgasi_team_leave_number(pgas_team_t *team)
{
    pgasi_spin_lock(&pgasi_teams.lock, SPINS);
    pgas_team_t **at = &pgasi_teams.numbered;
    while (*at && *at != team)
        at = &(*at)->next_numbered;
    if (*at)
        *at = team->next_numbered;
    pgasi_spin_unlock(&pgasi_teams.lock);
}

pgas_team_t *pgasi_team_of_number(uint32_t number)
{
    if (number == 0)
        return pgasi_teams.world;
    pgasi_spin_lock(&pgasi_teams.lock, SPINS);
    pgas_team_t *team = pgasi_teams.numbered;
    while (team && team->number != number)
        team = team->next_numbered;
    pgasi_spin_unlock(&pgasi_teams.lock);
    return team;
}

void *pgasi_team_attachment(const pgas_team_t *team)
{
    return __atomic_load_n(&team->attachment, __ATOMIC_ACQUIRE);
}

bool pgasi_team_attach(pgas_team_t *team, void *attachment)
{
    void *none = NULL;
    return __atomic_compare_exchange_n(&team->attachment, &none, attachment, false,
                                       __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE);
}

bool pgasi_team_is_broken(pgas_team_t *team)
{
    int n = pgasi_job_n_dead();
    if (PGAS_LIKELY(n == team->n_dead_seen))
        return team->broken;
    for (int i = 0; i < team->size && !team->broken; i++)
        team->broken = pgasi_boot_is_dead(pgas_team_to_global(team, i));
    team->n_dead_seen = n;
    return team->broken;
}
