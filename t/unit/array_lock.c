/* what: When requests of other ranks have arrived, the home of an element passes them at most 64
 *       times in a row. It does not pass them at all while other ranks repeat requests.
 * source: pgas/array.h, locks: first come, first served */
#include <string.h>
#include "array/array.h"
#include "boot/boot.h"
#include "boot/hooks.h"
#include "call/handler.h"
#include "msg/recv_queue.h"
#include "msg/send_queue.h"
#include "call/progress.h"
#include "msg/serve.h"
#include "mem/thread.h"
#include "t/tap.h"
#include "t/unit/lone.h"

#define ELEMENT 3
#define MOST    64
#define WAIT_US 2000 /* of an own request that another rank's has come before */

static pgas_array_t *array;

/* As in src/array/lock.c. */
enum { ACQUIRE, TRY, CANCEL, RELEASE };
typedef struct {
    uint64_t index;
    uint32_t number;
    uint16_t array, slot;
    uint8_t op, writes;
    int16_t status;
    uint32_t unused;
} message_t;

static void rank_1_asks(uint8_t op)
{
    message_t m = { ELEMENT, 1, (uint16_t)pgasi_array_of(array)->id, 0, op, 1, 0, 0 };
    uint64_t words[1 + sizeof m / 8] = { pgasi_desc_header(PGASI_DESC_ARRAY_LOCK, sizeof m, 0) };
    memcpy(words + 1, &m, sizeof m);
    pgasi_descs_run((const char *)words, pgasi_desc_room(words[0]), 1);
}

static void has_arrived(uint8_t op)
{
    pgasi_path_state_t before = pgasi_serve_begin();
    rank_1_asks(op);
    pgasi_serve_end(before);
}

/* Messages under way arrive in the next round of progress. */
static int arrive(void)
{
    pgasi_hooks_want_poll(PGASI_LAYER_ARRAY, false);
    pgasi_path_state_t before = pgasi_handlers_enter(true);
    rank_1_asks(ACQUIRE);
    pgasi_handlers_leave(before);
    return 1;
}

/* How many times the home has the lock before rank 1 has it. */
static int n_before_rank_1(void)
{
    int n = 0;
    pgasi_hooks_want_poll(PGASI_LAYER_ARRAY, true);
    while (n < 10 * MOST && pgas_array_lock(array, ELEMENT, PGAS_ARRAY_WRITE, WAIT_US) == PGAS_OK) {
        pgas_array_unlock(array, ELEMENT);
        n++;
    }
    has_arrived(RELEASE);
    return n;
}

int main(void)
{
    plan(4);
    lone_init(2, "HEAP_SIZE=1M SERVICE_THREADS=0 LANES=1");
    if (pgas_array_create(NULL, 8, 8, NULL, &array) != PGAS_OK)
        bail("no array");
    int (*array_rounds)(void) = pgasi_hooks.poll[PGASI_LAYER_ARRAY];
    pgasi_hooks.poll[PGASI_LAYER_ARRAY] = arrive;
    int n = n_before_rank_1();
    diag("%d times", n);
    ok(n <= MOST, "a request that has arrived waits for at most %d of the home's own", MOST);
    is_int(n_before_rank_1(), 0, "for none if another has come not long before");
    ok(pgas_array_lock(array, ELEMENT, PGAS_ARRAY_WRITE, -1) == PGAS_OK &&
           pgas_array_unlock(array, ELEMENT) == PGAS_OK,
       "then the home has its turn");
    for (int k = 0; k < 3 * MOST; k++)
        pgas_array_unlock(array, ELEMENT + (pgas_array_lock(array, ELEMENT, PGAS_ARRAY_WRITE, -1) !=
                                            PGAS_OK));
    n = n_before_rank_1();
    ok(n > 0 && n <= MOST, "after a while without others the home looks seldom again");
    pgasi_hooks.poll[PGASI_LAYER_ARRAY] = array_rounds;
    pgas_array_destroy(array);
    lone_consumed = pgasi_sendqs_sent() - pgasi_recvq_consumed(); /* rank 1's answers */
    pgas_finalize();
    return done();
}
