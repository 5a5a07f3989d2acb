/* Sleeps and wakeups at one rank, for spin: wait.c, and progress.c after a thread was woken.
 *
 * One rank has a thread that waits for a completion record and then computes for ever, and a service
 * thread. Sender 0 posts the record, which wakes only the thread, and then calls at once or not at
 * all. Sender 1 calls at any time. Each sender has its channel. The thread polls only one channel
 * unless a sender has woken it. It may work for long while it is counted as asleep (a search's jobs,
 * a consumer's handlers). Its nap ends by itself at most once, the service's sleep never. So a lost
 * wakeup appears as a state in which no process can continue.
 *
 * A sender's store becomes visible later, at the latest by its own fence or by a membarrier of
 * another thread.
 *
 * Properties: in every final state each call has run and the thread has left its wait. After a
 * failed kick this holds once some sender wakes the rank again.
 *
 * t/model runs these configurations, each exhaustively:
 *   config: wait-short   CALLS=2
 *   config: wait-callers CALLS=3
 *   config: wait-visit   CALLS=2 VISIT=1
 *   config: wait-kicks   CALLS=3 FAILS=1
 * CALLS: the sum of 1 (sender 0 may call) and 2 (sender 1 calls). VISIT: a thread that does not wait
 * runs one round of progress. FAILS: one kick may fail. */
#ifndef VISIT
#define VISIT 0
#endif
#ifndef CALLS
#define CALLS 3
#endif
#ifndef FAILS
#define FAILS 0
#endif

byte sleepers;        /* the thread, if it is counted; with the next, one word of the wakeup flag */
bool service;         /* the service thread has announced its sleep */
byte word;            /* the futex */
bool asleep;          /* on the futex */
bool kicked;          /* the pipe holds a byte */
bool locked;          /* the receive lock */
bool post_stored, posted;
bool stored[2], arrived[2]; /* calls */
bool failed, again;   /* a kick failed; a sender has begun a wakeup for a call since */

/* ---- memory ---- */

inline show_post() { if :: post_stored -> post_stored = false; posted = true :: else fi }
inline show_call(c) { if :: stored[c] -> stored[c] = false; arrived[c] = true :: else fi }

/* A sender's stores become visible in their order. */
inline show_before(c) { if :: c == 0 -> show_post() :: else fi }
inline fence(c) { d_step { show_before(c); show_call(c) } }

inline heavy_barrier()
{
    d_step { show_post(); show_call(0); show_call(1) }
}

/* At once, or later. */
inline store_post() { if :: post_stored = true :: posted = true fi }
inline store_call(c) { if :: stored[c] = true :: d_step { show_before(c); arrived[c] = true } fi }

/* ---- serving ---- */

inline drain(c) { d_step { if :: arrived[c] -> arrived[c] = false; ran = true :: else fi } }

inline serve_all()
{
    if
    :: atomic { !locked -> locked = true; drain(0) }
        atomic { drain(1); locked = false }
    :: else
    fi
}

inline serve_some()
{
    if
    :: atomic {
            !locked -> locked = true;
            if
            :: arrived[0] -> drain(0)
            :: arrived[1] -> drain(1)
            :: else
            fi
        }
        locked = false
    :: else
    fi
}

/* ---- wakeups ---- */

inline wake_threads()
{
    word++;
    d_step { woke = asleep; asleep = false }
}

inline look_at_flag() { d_step { n = sleepers; rests = service } }

inline look_to_ring()
{
    d_step { n = sleepers; rests = service; if :: failed -> again = true :: else fi }
}

inline kick()
{
    if
    :: kicked = true
    :: FAILS && !failed ->
        atomic { service = true; failed = true } /* the next waker tries again */
    fi
}

inline ring_slow()
{
    woke = false;
    look_to_ring();
    if
    :: n > 0 -> wake_threads()
    :: else
    fi;
    if
    :: woke -> skip
    :: !woke && rests ->
        d_step { rests = service; service = false };
        if
        :: rests -> kick()
        :: else
        fi
    :: else
    fi
}

inline ring(c)
{
    look_to_ring();
    if
    :: n > 0 || rests ->
        fence(c);
        ring_slow()
    :: else
    fi
}

/* ---- threads ---- */

inline when_rung()
{
    serve_some();
    if
    :: arrived[0] || arrived[1] -> serve_all()
    :: else
    fi;
    if
    :: arrived[0] || arrived[1] -> ring_slow()
    :: else
    fi
}

inline withdraw()
{
    atomic { sleepers--; counted = false }
}

inline nap()
{
    if
    :: atomic { word != seen -> rung = true }
    :: atomic { word == seen -> asleep = true };
        if
        :: atomic { !asleep -> rung = true }
        :: atomic { asleep && may_end -> asleep = false; may_end = false; rung = false }
        fi
    fi;
    if
    :: rung ->
        withdraw();
        when_rung()
    :: else
    fi
}

proctype thread()
{
    byte n, seen;
    bool rests, woke, ran, rung, counted, may_end = true;
    do
    :: posted -> break
    :: else ->
        ran = false;
        serve_some();
        if
        :: ran && counted -> withdraw()
        :: ran && !counted
        :: !ran && counted -> nap()
        :: !ran && counted -> goto works
        :: !ran && !counted ->
            seen = word;
            atomic { sleepers++; counted = true };
            heavy_barrier(); /* of a thread */
        fi
    od;
    if
    :: counted ->
        withdraw();
        serve_some()
    :: else
    fi;
works:
    skip
}

proctype visitor()
{
    bool ran;
    serve_some()
}

/* ---- the service thread ---- */

inline look_again()
{
    serve_all();
    ran = ran || arrived[0] || arrived[1]
}

proctype server()
{
    bool ran;
    do
    :: ran = false;
        serve_all();
        if
        :: ran
        :: else ->
            service = true;
            heavy_barrier(); /* of the service */
            look_again();
            if
            :: ran
            :: else ->
end:            kicked
            fi;
            kicked = false;
            service = false;
            kicked = false;
        fi
    od
}

/* ---- senders ---- */

proctype sender(byte c)
{
    byte n;
    bool rests, woke;
    if
    :: c == 0 ->
        store_post();
        look_at_flag();
        if
        :: n > 0 ->
            fence(c);
            wake_threads()
        :: else
        fi
    :: else
    fi;
    if
    :: CALLS >> c & 1 ->
        store_call(c);
        ring(c)
    :: c == 0 /* a post alone */
    fi;
    fence(c) /* in time */
}

init
{
    atomic {
        run server();
        run thread();
#if VISIT
        run visitor();
#endif
#if CALLS > 1
        run sender(1);
#endif
        run sender(0)
    };
    timeout -> assert((!arrived[0] && !arrived[1]) || (failed && !again))
}
