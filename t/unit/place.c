/* what:    Threads of ranks that share CPUs are placed on objects of their own while there are
 *          enough, and never outside of the allowed ones.
 * source:  every combination up to 12 objects, 12 ranks and 24 threads */
#include <string.h>

#include "boot/internal.h"
#include "t/tap.h"

enum { OBJECTS = 12, RANKS = 12, SLOTS = 24 };

static void inside(void)
{
    bool good = true;
    for (int n = 1; n <= OBJECTS; n++)
        for (int ranks = 1; ranks <= RANKS; ranks++)
            for (int rank = 0; rank < ranks; rank++)
                for (int slot = 0; slot < SLOTS; slot++)
                    for (int divide = 0; divide < 2; divide++) {
                        int at = pgasi_place_choose(n, divide != 0, rank, ranks, slot);
                        good = good && at >= 0 && at < n;
                    }
    ok(good, "every thread has an object that exists");
}

/* Load of each object when every rank has the same number of threads. */
static void loads(int n, int ranks, int slots, int *load)
{
    memset(load, 0, OBJECTS * sizeof *load);
    for (int rank = 0; rank < ranks; rank++)
        for (int slot = 0; slot < slots; slot++)
            load[pgasi_place_choose(n, true, rank, ranks, slot)]++;
}

static void apart(void)
{
    bool good = true;
    int load[OBJECTS];
    for (int n = 1; n <= OBJECTS; n++)
        for (int ranks = 1; ranks <= n; ranks++) {
            loads(n, ranks, n / ranks, load);
            for (int i = 0; i < n; i++)
                good = good && load[i] <= 1;
        }
    ok(good,
       "ranks with no more threads than their share of objects have each object for one thread");
}

static void even(void)
{
    bool good = true;
    int load[OBJECTS];
    for (int n = 1; n <= OBJECTS; n++)
        for (int ranks = n; ranks <= RANKS; ranks++) {
            loads(n, ranks, 1, load);
            for (int i = 0; i < n; i++)
                good = good && load[i] >= ranks / n && load[i] <= ranks / n + 1;
        }
    ok(good, "more ranks than objects are spread evenly");
}

static void own(void)
{
    bool good = true;
    for (int slot = 0; slot < SLOTS; slot++)
        good = good && pgasi_place_choose(4, false, 3, 8, slot) == slot % 4;
    ok(good, "a rank that has CPUs of its own uses all of them");
}

/* Three threads cannot be spread evenly over two objects: the loads must show that. */
static void checker_can_fail(void)
{
    int load[OBJECTS];
    loads(2, 1, 3, load);
    ok(load[0] + load[1] == 3 && load[0] != load[1],
       "three threads on two objects are not evenly spread, and it shows");
}

static void query(void)
{
    int cpu = -2, numa = -2;
    bool bound = false;
    pgas_status_t status = pgasi_place_query(&cpu, &numa, &bound);
    ok(status == PGAS_OK && cpu >= 0 && numa >= -1, "this thread runs on CPU %d in zone %d", cpu,
       numa);
    pgasi_place_stop();
}

int main(void)
{
    plan(6);
    inside();
    apart();
    even();
    own();
    checker_can_fail();
    query();
    return done();
}
