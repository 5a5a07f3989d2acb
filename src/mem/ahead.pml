/* Counters that are raised ahead, for spin: ahead.c, and the sleeps of a thread that waits.
 *
 * The owner of a context makes CALLS calls on counter 0 or 1, in any order, with rounds of progress
 * between them, and then stays away for ever. A receiver runs the calls. A waiter tests counter 0 at
 * any time. After the last call on it the waiter waits for it, and frees it. The waiter either
 * sleeps until a wakeup, and its sleep never ends by itself; or it tests, for the last time when
 * nothing else can happen. Another thread takes back everything once, at any time. With `held` the
 * program itself keeps counter 0 above zero until its last call, and the waiter may wait earlier.
 *
 * The owner's plain stores pass through a buffer (TSO). It is empty after an atomic operation of the
 * owner and after a membarrier of any thread. The owner sees its own stores at once.
 *
 * Properties:
 *   zero:  the waiter sees zero only when no call on the counter is outstanding;
 *   stuck: the waiter sees zero once all calls have run, although the owner stays away;
 *   twice: no counter is ever below zero. In the end it is as high as the raises that are left;
 *   freed: no thread touches the counter after the waiter has seen zero.
 *
 * t/model runs these configurations, each exhaustively:
 *   config: ahead-short CALLS=3
 *   config: ahead-taker CALLS=3 TAKER=1
 *   config: ahead-two   CALLS=4 OTHER=1
 * TAKER: there is the other thread. OTHER: there are calls on counter 1. */
#ifndef CALLS
#define CALLS 3
#endif
#ifndef OTHER
#define OTHER 0
#endif
#ifndef TAKER
#define TAKER 0
#endif
#define AHEAD 3 /* PGASI_AHEAD */
#define NONE  2 /* no counter */
#define TAKES 1
#define TAKEN 2

short count[2];
byte outstanding[2]; /* calls: issued, and not lowered yet */
bool held, freed;    /* counter 0 */

byte left, sync = NONE, taken_by_other, taken; /* the context, in memory */
byte n_ahead;        /* pgasi_sync_ahead */
byte arrived[2];     /* calls that the receiver can see */
bool over;           /* the owner has made its last call on counter 0 */

byte sleepers, word; /* the wakeup flag */
bool asleep, waited;

/* ---- memory ---- */

mtype = { LEFT, SYNC, CLEAR, CALL, OVER };
chan buffer = [12] of { mtype, byte };

inline show_one()
{
    buffer ? what, value;
    if
    :: what == LEFT -> left = value
    :: what == SYNC -> sync = value
    :: what == CLEAR -> taken_by_other = 0
    :: what == CALL -> arrived[value]++
    :: what == OVER -> over = true
    fi;
    what = 0;
    value = 0
}

inline heavy_barrier()
{
    d_step {
        do
        :: len(buffer) > 0 -> show_one()
        :: else -> break
        od
    }
}

proctype memory()
{
    mtype what;
    byte value;
end:do
    :: d_step { nempty(buffer) -> show_one() }
    od
}

inline change(c, n)
{
    assert(c != NONE && !(c == 0 && freed));
    count[c] = count[c] - (n);
    assert(count[c] >= 0)
}

/* ---- wakeups ---- */

inline wake()
{
    if
    :: sleepers > 0 -> d_step { word++; asleep = false }
    :: else
    fi
}

/* ---- the owner ---- */

/* Its view: see memory. */
#define IS_TAKEN (taken_by_other != 0 && !(buffer ?? [CLEAR, 0]))

inline end_series()
{
    n = own_left;
    own_left = 0;
    buffer ! LEFT, 0;
    if
    :: IS_TAKEN ->
        taken_by_other == TAKEN;
        n = n - taken;
        buffer ! CLEAR, 0
    :: else
    fi;
    old = own_sync;
    own_sync = NONE;
    buffer ! SYNC, NONE;
    if
    :: counted -> atomic { empty(buffer) -> n_ahead--; counted = false }
    :: else
    fi;
    if
    :: n != 0 -> /* of the owner */
        atomic { empty(buffer) -> change(old, n); zero = count[old] == 0 };
        if
        :: zero -> wake()
        :: else
        fi
    :: else
    fi;
    d_step { n = 0; old = 0; zero = false }
}

inline progress()
{
    if
    :: own_sync != NONE -> end_series()
    :: else
    fi
}

inline raise(c)
{
    again = own_sync == c && own_left == 0 && !IS_TAKEN;
    again = again && sleepers == 0;
    if
    :: !again ->
        progress();
        atomic { empty(buffer) -> change(c, -1) };
        own_sync = c;
        buffer ! SYNC, c
    :: else ->
        atomic { empty(buffer) -> change(c, -AHEAD) };
        if
        :: !counted -> atomic { empty(buffer) -> n_ahead++; counted = true }
        :: else
        fi;
        own_left = AHEAD - 1;
        buffer ! LEFT, own_left;
        must_end = IS_TAKEN;
        must_end = must_end || sleepers > 0; /* again */
        if
        :: must_end -> end_series()
        :: else
        fi
    fi;
    d_step { again = false; must_end = false }
}

inline call(c)
{
    if
    :: own_sync == c && own_left > 0 && !IS_TAKEN ->
        own_left--;
        buffer ! LEFT, own_left;
        if
        :: IS_TAKEN -> end_series() /* after a use */
        :: else
        fi
    :: else -> raise(c)
    fi;
    atomic { outstanding[c]++; buffer ! CALL, c }
}

inline release()
{
    atomic { empty(buffer) -> change(0, 1); held = false; zero = count[0] == 0 };
    if
    :: zero -> wake()
    :: else
    fi;
    zero = false
}

proctype owner()
{
    byte own_left, own_sync = NONE, old, n_calls;
    short n;
    bool counted, again, must_end, zero, last;
    do
    :: n_calls < CALLS && !last -> n_calls++; call(0)
    :: OTHER && n_calls < CALLS -> n_calls++; call(1)
    :: own_sync != NONE -> progress()
    :: !last && !held -> last = true; buffer ! OVER, 0
    :: !last && held -> last = true; release(); buffer ! OVER, 0
    :: last -> break
    od
}

/* ---- the receiver ---- */

inline run_call(c)
{
    atomic { arrived[c]--; change(c, 1); outstanding[c]--; zero = count[c] == 0 };
    if
    :: zero -> wake()
    :: else
    fi;
    zero = false
}

proctype receiver()
{
    bool zero;
end:do
    :: arrived[0] > 0 -> run_call(0)
    :: arrived[1] > 0 -> run_call(1)
    od
}

/* ---- other threads ---- */

inline take()
{
    if
    :: atomic { taken_by_other == 0 -> taken_by_other = TAKES };
        heavy_barrier(); /* of a thread that takes */
        n = left;
        if
        :: n != 0 ->
            atomic { change(sync, n); zero = count[sync] == 0 };
            if
            :: zero -> wake() /* by a thread that takes */
            :: else
            fi
        :: else
        fi;
        atomic { taken = n; taken_by_other = TAKEN };
        d_step { changed = n != 0; n = 0; zero = false }
    :: else
    fi
}

inline take_all()
{
    if
    :: n_ahead > 0 && taken_by_other == 0 && left > 0 -> take()
    :: else
    fi
}

inline take_back()
{
    changed = false;
    n = (taken_by_other == 0 -> left : 0);
    if
    :: n > 0 && sync == 0 && count[0] <= n -> take()
    :: else
    fi;
    n = 0
}

/* The waiter looks at the counter. */
inline is_zero()
{
    is = count[0] == 0;
    assert(!is || (outstanding[0] == 0 && !held))
}

inline test()
{
    atomic { is_zero(); freed = freed || (is && ends) };
    if
    :: !is && n_ahead > 0 ->
        take_back();
        if
        :: changed -> atomic { is_zero(); freed = freed || (is && ends) }
        :: else
        fi
    :: else
    fi;
    changed = false
}

proctype taker()
{
    mtype what;
    byte value;
    short n;
    bool zero, changed;
    take_all()
}

proctype waiter()
{
    mtype what;
    byte value, seen;
    short n;
    bool zero, changed, is, ends, announced;
    if
    :: atomic { held -> ends = true }
    :: test();
        over;
        ends = true
    fi;
    if
    :: timeout -> test(); assert(is) /* tests */
    :: true -> skip
    fi;
    do
    :: is -> break
    :: else ->
        test();
        if
        :: is -> break
        :: !is && !announced ->
            seen = word;
            atomic { sleepers++; announced = true };
            heavy_barrier(); /* of a thread that will sleep */
            take_all() /* when the sleep is announced */
        :: !is && announced ->
            atomic { asleep = word == seen };
            !asleep;
            atomic { sleepers--; announced = false }
        fi
    od;
    if
    :: announced -> sleepers--
    :: else
    fi;
    waited = true
}

init
{
    atomic {
        if
        :: held = true; count[0] = 1
        :: true
        fi;
        run memory();
        run owner();
        run receiver();
#if TAKER
        run taker();
#endif
        run waiter()
    };
    waited;
    timeout ->
        assert(count[0] == (sync == 0 && !taken_by_other -> left : 0));
        assert(count[1] == (sync == 1 && !taken_by_other -> left : 0))
}
