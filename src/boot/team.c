/* Read access to teams: their members, and whether one of these has died. team_make.c makes teams.
 * Global ranks are found by a table and searched by bisection, so a team costs 4 to 16 bytes per
 * member on each of them. */
#include "boot/internal.h"

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
