/* hex: clocks of the protocol: main time, then byo-yomi: so many seconds for so many moves, again
 * and again. */
#include "hexprog.h"

#define SHORTEST 0.01 /* seconds: one must move, also without any time left */

/* No time at all means no limit here, as does byo-yomi for no moves (which the protocol says). */
void clock_set(hexclock_t *clock, double main_time, double byo, int stones)
{
    clock->on = (main_time > 0 || byo > 0) && !(byo > 0 && stones == 0);
    clock->main = main_time;
    clock->byo = byo;
    clock->stones = byo > 0 ? stones : 0;
    for (int i = 0; i < 2; i++) {
        clock->of[i].left = main_time > 0 ? main_time : byo;
        clock->of[i].stones = main_time > 0 ? 0 : clock->stones;
    }
}

void clock_tell(hexclock_t *clock, int turn, double left, int stones)
{
    if (!clock->on) { /* of the other one nothing is known: as much */
        clock_set(clock, left, 0, 0);
        clock->on = true;
    }
    clock->of[turn].left = left;
    clock->of[turn].stones = stones;
}

double clock_share(const hexclock_t *clock, int turn, int n_empty)
{
    if (!clock->on)
        return 0;
    double left = clock->of[turn].left, share;
    if (clock->of[turn].stones > 0) {
        share = left / clock->of[turn].stones;
    } else {
        /* a game mostly ends when half of the cells that are empty now are taken, by two players */
        share = left / (n_empty / 4 + 2);
        if (clock->stones > 0 && share < clock->byo / clock->stones)
            share = clock->byo / clock->stones; /* time beyond the main time is byo-yomi */
    }
    return share > SHORTEST ? share : SHORTEST;
}

void clock_spend(hexclock_t *clock, int turn, double seconds)
{
    double *left = &clock->of[turn].left;
    int *stones = &clock->of[turn].stones;
    if (!clock->on)
        return;
    *left -= seconds;
    if (*stones == 0 && *left <= 0 && clock->stones > 0) {
        *left += clock->byo;
        *stones = clock->stones;
    }
    if (*stones > 0 && --*stones == 0) {
        *left = clock->byo;
        *stones = clock->stones;
    }
    if (*left < 0)
        *left = 0;
}
