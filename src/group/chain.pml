/* The protocol of a group's chains, for spin: credits, closing a chain, lists of members, forming a
 * chain anew, and adding a replica.
 *
 * Each replica executes the operations of each client in turn. Of a region the model knows how many
 * operations of each client it contains. A message is the number of a piece. The pieces of a chain
 * are consecutive operations, so the messages under way between two replicas are the difference of
 * two counters. A request to a replica and its answer are one step, because one thread of a replica
 * serves all requests. A client sends its requests one after the other, and anything may happen
 * between two of them.
 *
 * DEATHS replicas die, at any moment. A client sees this sooner or later, because its connection
 * ends. Client LEAVES - 1 may vanish at any moment. With ADD the group begins with two replicas, and
 * client 0 adds the third one. With THAWS a replica may end a freeze although its client continues.
 *
 * Properties, as assertions in the actions and at the end:
 *   twice:    no replica executes an operation twice;
 *   order:    each replica executes the operations of a client in order, and leaves out none;
 *   lost:     each living replica of the newest list has executed all acknowledged operations;
 *   credits:  each message finds a receive entry, and its staging slot has been forwarded;
 *   lists:    members of one chain have the same list; only dead replicas leave a list, unless the
 *             client that added one vanished meanwhile, or took too long;
 *   progress: at the end each client has completed all operations, or all replicas that it knows
 *             are dead. With CYCLES also: no client tries something again and again.
 *
 * t/model runs these configurations, each exhaustively:
 *   config: group-window     CLIENTS=1 OPS=5 FORWARD=1
 *   config: group-one        CLIENTS=1 OPS=4 DEATHS=2
 *   config: group-two        OPS=2
 *   config: group-deaths     OPS=1 DEATHS=2
 *   config: group-vanish     OPS=1 DEATHS=2 LEAVES=1
 *   config: group-add        OPS=1 ADD=1
 *   config: group-add-two    OPS=2 ADD=1 DEATHS=0
 *   config: group-add-deaths CLIENTS=1 ADD=1 DEATHS=2
 *   config: group-add-vanish OPS=1 ADD=1 LEAVES=1
 *   config: group-add-thaw   OPS=1 ADD=1 THAWS=1
 *   config: group-cycles     OPS=1 CYCLES=1
 *   config: group-add-cycles OPS=1 ADD=1 CYCLES=1
 * With BUG there is an error. t/model must find each of them:
 *   bug: NO_DRAIN CLIENTS=1: a chain is closed before its last piece has been executed
 *   bug: NO_SKIP CLIENTS=1: pieces are sent again without a skip map
 *   bug: SKIP_ALL CLIENTS=1: all replicas skip what the first one has executed
 *   bug: RESEND_NONE CLIENTS=1: pieces without an acknowledgement are not sent again
 *   bug: ACK_EARLY CLIENTS=1: the first replica acknowledges
 *   bug: CREDIT_FIRST CLIENTS=1 OPS=3: a client looks at the credits of the first replica only
 *   bug: ARMED_EARLY CLIENTS=1 OPS=3: a replica grants credits before it posts receive entries
 *   bug: WIDE_WINDOW CLIENTS=1 OPS=3 FORWARD=1: the window is larger than the number of slots
 *   bug: ERROR_IS_DEATH CLIENTS=1: a replica that cannot forward counts as dead
 *   bug: NO_NOTICE OPS=1 ADD=1 DEATHS=0: a new list does not end the chains of other clients
 *   bug: NO_PASSING_ON OPS=1 LEAVES=1: a client does not pass on a list to members that lack it
 *   bug: INHERIT_LEFT ADD=1: a new replica takes over the counts of the one before it in the list
 *   bug: NOT_NOTED CLIENTS=1 ADD=1 DEATHS=0: a copy lacks what a chain changed just before it ended
 *   bug: COUNTS_FIRST OPS=1 ADD=1 DEATHS=0: the counts of executed pieces are older than the copy
 *   bug: FROZEN_DIFFERS OPS=1 ADD=1 DEATHS=0: a list that some frozen members lack is taken for two
 *   bug: NO_THAW OPS=1 ADD=1 DEATHS=0 LEAVES=1: a freeze outlives its client
 */

#ifndef OPS
#define OPS 2 /* operations of each client */
#endif
#ifndef WINDOW
#define WINDOW (BUG == WIDE_WINDOW -> 3 : 2)
#endif
#ifndef SLOTS
#define SLOTS 2 /* receive entries of a session */
#endif
#ifndef CLIENTS
#define CLIENTS 2
#endif
#ifndef DEATHS
#define DEATHS 1
#endif
#ifndef LEAVES
#define LEAVES 0
#endif
#ifndef ADD
#define ADD 0
#endif
#ifndef THAWS
#define THAWS 0 /* a freeze may end at any moment, because it has lasted too long */
#endif
#ifndef FORWARD
#define FORWARD 0 /* a piece is executed and forwarded in two steps */
#endif
#ifndef BUG
#define BUG 0
#endif

#define NO_DRAIN       1
#define NO_SKIP        2
#define SKIP_ALL       3
#define RESEND_NONE    4
#define ACK_EARLY      5
#define CREDIT_FIRST   6
#define ARMED_EARLY    7
#define WIDE_WINDOW    8
#define ERROR_IS_DEATH 9
#define NO_NOTICE      10
#define NO_PASSING_ON  11
#define INHERIT_LEFT   12
#define NOT_NOTED      13
#define COUNTS_FIRST   14
#define FROZEN_DIFFERS 15
#define NO_THAW        16

#define REPLICAS 3
#define NEW      (REPLICAS - 1)
#define ADDER    0
#define FIRST    (ADD -> 3 : 7) /* members at the beginning */
#define BIT(r)   (1 << (r))
#define HAS(set, r) (((set) >> (r)) & 1)
#define AT(r, c) ((r) * CLIENTS + (c))
#define HIGHEST(set) ((set) > 3 -> 2 : ((set) > 1 -> 1 : 0))

/* ---- replicas ---- */

bool alive[REPLICAS];
byte epoch[REPLICAS];
byte list[REPLICAS];
bool frozen[REPLICAS];
byte done[REPLICAS * CLIENTS]; /* operations that the region contains */
byte deaths;

/* Sessions: a client at a replica. */
bool open[REPLICAS * CLIENTS];
byte prev[REPLICAS * CLIENTS];   /* the replica before, REPLICAS: the client */
byte base[REPLICAS * CLIENTS];   /* the operation that is piece 0 */
byte kept[REPLICAS * CLIENTS];   /* operations executed in earlier chains */
byte known[REPLICAS * CLIENTS];  /* operations below this are skipped in this chain */
byte got[REPLICAS * CLIENTS];    /* pieces received */
byte ran[REPLICAS * CLIENTS];    /* pieces executed */
byte left[REPLICAS * CLIENTS];   /* with FORWARD: pieces forwarded */
byte posted[REPLICAS * CLIENTS]; /* receive entries */
byte armed[REPLICAS * CLIENTS];  /* the same, as clients read it */

/* The replica from which the new one copies notes which clients' data have changed. */
bool tracks;
byte noted[CLIENTS];
bool dirty[CLIENTS];

/* ---- clients ---- */

byte sent[CLIENTS];
byte acked[CLIENTS];
bool gone[CLIENTS]; /* it has vanished */
bool over[CLIENTS]; /* it is finished, or knows only dead replicas */

hidden byte j, k, op, s;

/* ---- what replicas do ---- */

inline execute(r, c)
{
    op = base[AT(r, c)] + ran[AT(r, c)];
    if
    :: op < known[AT(r, c)]
    :: else ->
        assert(op >= done[AT(r, c)]); /* twice */
        assert(op <= done[AT(r, c)]); /* order */
        done[AT(r, c)] = op + 1
    fi;
    ran[AT(r, c)]++;
    op = 0
}

inline note(r, c)
{
    if
    :: ADD && tracks && r == NEW - 1 && noted[c] < done[AT(r, c)] ->
        noted[c] = done[AT(r, c)];
        dirty[c] = true
    :: else
    fi
}

inline refill(r, c)
{
    note(r, c);
    posted[AT(r, c)] = ran[AT(r, c)] + SLOTS;
    armed[AT(r, c)] = posted[AT(r, c)]
}

/* Ends a session. No message arrives any more, then the pieces that have arrived are executed. */
inline drain(r, c)
{
    if
    :: open[AT(r, c)] ->
        open[AT(r, c)] = false;
        do
        :: BUG != NO_DRAIN && ran[AT(r, c)] < got[AT(r, c)] -> execute(r, c)
        :: else -> break
        od;
        s = base[AT(r, c)] + ran[AT(r, c)];
        if :: s > kept[AT(r, c)] -> kept[AT(r, c)] = s :: else fi;
        s = 0;
        if :: BUG != NOT_NOTED -> note(r, c) :: else fi
    :: else
    fi
}

inline install(r, number, set, freezes)
{
    if
    :: BUG != NO_NOTICE -> for (j : 0 .. CLIENTS - 1) { drain(r, j) }; j = 0
    :: else
    fi;
    for (j : 0 .. REPLICAS - 1) { assert(LEAVES || THAWS || HAS(set, j) || !HAS(list[r], j) || !alive[j]) }; /* lists */
    j = 0;
    epoch[r] = number;
    list[r] = set;
    frozen[r] = freezes
}

/* The card of a replica, for one client, and the thread that refills. */
#define FORWARDED(r, c) (FORWARD -> left[AT(r, c)] : ran[AT(r, c)])
#define ARRIVED(r, c) (prev[AT(r, c)] == REPLICAS -> sent[c] : FORWARDED(prev[AT(r, c)], c))
proctype Session(byte r, c)
{
end: do
    :: d_step { alive[r] && open[AT(r, c)] && ARRIVED(r, c) > got[AT(r, c)] ->
        assert(got[AT(r, c)] < posted[AT(r, c)]); /* credits */
        assert(got[AT(r, c)] < FORWARDED(r, c) + SLOTS); /* the same */
        got[AT(r, c)]++ }
    :: d_step { alive[r] && ran[AT(r, c)] < got[AT(r, c)] -> execute(r, c) }
    :: d_step { FORWARD && alive[r] && left[AT(r, c)] < ran[AT(r, c)] -> left[AT(r, c)]++ }
    :: d_step { OPS > SLOTS && alive[r] && open[AT(r, c)] && ran[AT(r, c)] + SLOTS > armed[AT(r, c)] ->
        if
        :: BUG == ARMED_EARLY -> armed[AT(r, c)] = ran[AT(r, c)] + SLOTS
        :: else -> refill(r, c)
        fi }
    :: d_step { BUG == ARMED_EARLY && alive[r] && posted[AT(r, c)] < armed[AT(r, c)] ->
        posted[AT(r, c)] = armed[AT(r, c)] }
    od
}

proctype Replica(byte r)
{
end: do
    :: d_step { alive[r] && deaths < DEATHS ->
        deaths++;
        alive[r] = false;
        epoch[r] = 0;
        list[r] = 0;
        frozen[r] = false;
        for (k : 0 .. CLIENTS - 1) { /* all but the counters of messages that may be under way */
            s = AT(r, k);
            open[s] = false;
            done[s] = 0;
            prev[s] = 0;
            base[s] = 0;
            kept[s] = 0;
            known[s] = 0;
            got[s] = 0;
            posted[s] = 0;
            armed[s] = 0
        };
        k = 0;
        s = 0 }
    :: d_step { BUG != NO_THAW && alive[r] && frozen[r] && (THAWS || gone[ADDER]) ->
        frozen[r] = false;
        epoch[r]++ }
    od
}

/* ---- actions of clients ---- */

#define WITHHELD(r) (BUG == NO_PASSING_ON && HAS(set, r) && alive[r] && epoch[r] < number && set == met)
#define ACKER (BUG == ACK_EARLY -> (HAS(mine, 0) -> 0 : HIGHEST(mine)) : HIGHEST(mine))
#define LIVE_SESSION(r) (!HAS(mine, r) || (alive[r] && open[AT(r, c)]))
#define IS_BROKEN (!LIVE_SESSION(0) || !LIVE_SESSION(1) || !LIVE_SESSION(2))
#define GRANTED(r) (HAS(mine, r) -> armed[AT(r, c)] : 255)
#define LESS(a, b) ((a) < (b) -> (a) : (b))
#define ALL_GRANTED (BUG == CREDIT_FIRST -> GRANTED(0) : LESS(GRANTED(0), LESS(GRANTED(1), GRANTED(2))))
#define NUMBER_ACKED (acked[c] - first)
#define MAY_VANISH (LEAVES == c + 1)
#define IS_FROZEN(r) (HAS(met, r) && alive[r] && frozen[r])

/* Replica r cannot forward to its successor. */
#define CANNOT_FORWARD(r) (r < NEW && HAS(mine, r) && ((r == 0 && HAS(mine, 1) && !LIVE_SESSION(1)) || \
                           (!(r == 0 && HAS(mine, 1)) && !LIVE_SESSION(2))))

/* CLOSE, if there is a session, and HELLO. */
inline look(r)
{
    if
    :: HAS(met, r) && alive[r] && !(BUG == ERROR_IS_DEATH && open[AT(r, c)] && CANNOT_FORWARD(r)) ->
        drain(r, c);
        live = live | BIT(r);
        if
        :: epoch[r] > number -> number = epoch[r]; set = list[r]; stop = frozen[r]; differ = false
        :: epoch[r] == number -> stop = stop | frozen[r]; differ = differ | (list[r] != set)
        :: else
        fi
    :: HAS(met, r) && !alive[r] -> dead = dead | BIT(r)
    :: HAS(met, r) && alive[r] && BUG == ERROR_IS_DEATH && open[AT(r, c)] && CANNOT_FORWARD(r) ->
        dead = dead | BIT(r)
    :: else
    fi
}

/* The list that follows from what was seen. */
inline decide()
{
    met = set;
    for (j : 0 .. REPLICAS - 1) { assert(!HAS(dead, j) || !alive[j]) }; /* lists */
    j = 0;
    if
    :: (stop && !(BUG == FROZEN_DIFFERS && differ) -> c == ADDER : (set & dead) != 0 || differ) ->
        number++;
        stop = false
    :: else
    fi;
    set = set & ~dead
}

/* MEMBERS. */
inline pass_on(r)
{
    if
    :: !HAS(set, r)
    :: HAS(set, r) && alive[r] && epoch[r] < number -> install(r, number, set, false)
    :: HAS(set, r) && alive[r] && epoch[r] == number && list[r] == set && !frozen[r]
    :: else -> again = true
    fi
}

/* OPEN and CONNECT. */
#define LEFT_OF(r) (r == 2 -> (HAS(set, 1) -> 1 : 0) : 0)
inline open_one(r)
{
    if
    :: !HAS(set, r)
    :: HAS(set, r) && alive[r] && epoch[r] == number && !frozen[r] ->
        assert(list[r] == set); /* lists */
        s = AT(r, c);
        open[s] = true;
        base[s] = acked[c] + (BUG == RESEND_NONE -> sent_before : 0);
        if
        :: BUG == NO_SKIP -> known[s] = 0
        :: BUG == SKIP_ALL -> known[s] = kept[AT((HAS(set, 0) -> 0 : r), c)]
        :: BUG == INHERIT_LEFT && r == NEW && !HAS(mine, NEW) -> known[s] = kept[AT(LEFT_OF(r), c)]
        :: else -> known[s] = kept[s]
        fi;
        got[s] = 0;
        ran[s] = 0;
        left[s] = 0;
        posted[s] = SLOTS;
        armed[s] = SLOTS;
        prev[s] = REPLICAS;
        for (j : 0 .. REPLICAS - 1) { if :: HAS(set, j) && j < r -> prev[s] = j :: else fi };
        s = 0;
        j = 0
    :: else -> again = true
    fi
}

inline none_is_lost(set_of)
{
    for (j : 0 .. REPLICAS - 1) {
        for (k : 0 .. CLIENTS - 1) { assert(!HAS(set_of, j) || !alive[j] || done[AT(j, k)] >= acked[k]) }
    }
    j = 0;
    k = 0
}

proctype Client(byte c)
{
    byte mine;        /* members of its chain */
    byte met = FIRST; /* members that it knows */
    byte live, dead, number, set, i, credit, first, sent_before;
    bool stop, differ, again, adds = ADD && c == ADDER;

form:
    atomic {
        number = 0;
        set = 0;
        live = 0;
        dead = 0;
        stop = false;
        differ = false;
        again = false;
        i = 0;
        credit = 0;
        first = 0;
        met = met | mine
    };
    do
    :: d_step { i < REPLICAS -> look(i); i++ }
    :: d_step { i == REPLICAS -> i = 0 }; break
    :: MAY_VANISH -> goto vanish
    od;
    atomic { decide() };
    if
    :: set == 0 && !stop -> over[c] = true; goto stopped
    :: stop ->
        if
        :: !IS_FROZEN(0) && !IS_FROZEN(1) && !IS_FROZEN(2) -> goto form
        :: MAY_VANISH -> goto vanish
        fi
    :: else
    fi;
    do
    :: d_step { i < REPLICAS && !again && !WITHHELD(i) -> pass_on(i); i++ }
    :: again -> goto form
    :: d_step { i == REPLICAS && !again ->
        i = 0;
        sent_before = (BUG == RESEND_NONE -> sent[c] : 0);
        sent[c] = 0 };
        break
    :: MAY_VANISH -> goto vanish
    od;
    do
    :: d_step { i < REPLICAS && !again -> open_one(i); i++ }
    :: again -> goto form
    :: d_step { i == REPLICAS && !again -> i = 0 }; break
    :: MAY_VANISH -> goto vanish
    od;
    atomic {
        mine = set;
        met = set;
        credit = SLOTS;
        first = acked[c] + sent_before;
        if :: IS_BROKEN :: else -> none_is_lost(mine) fi;
        sent_before = 0;
        live = 0;
        dead = 0;
        differ = false;
        set = 0
    };
    do
    :: d_step { acked[c] == OPS -> over[c] = true }; goto stopped
    :: d_step { first + sent[c] < OPS && sent[c] < credit && sent[c] < NUMBER_ACKED + WINDOW -> sent[c]++ }
    :: d_step { FORWARDED(ACKER, c) > NUMBER_ACKED ->
        acked[c]++;
        for (j : 0 .. REPLICAS - 1) { assert(!HAS(mine, j) || !alive[j] || done[AT(j, c)] >= acked[c]) };
        j = 0 }
    :: d_step { OPS > SLOTS && credit < ALL_GRANTED -> credit = ALL_GRANTED }
    :: IS_BROKEN -> goto form
    :: adds -> goto adding
    :: MAY_VANISH -> goto vanish
    od;

adding:
    atomic { adds = false; tracks = true };
    do /* TRACK, and the copy of all */
    :: d_step { i < CLIENTS && alive[NEW - 1] && alive[NEW] ->
        done[AT(NEW, i)] = done[AT(NEW - 1, i)];
        kept[AT(NEW, i)] = kept[AT(NEW - 1, i)];
        i++ }
    :: !alive[NEW - 1] || !alive[NEW] -> goto form
    :: i == CLIENTS -> i = 0; break
    :: MAY_VANISH -> goto vanish
    od;
    do /* the freeze */
    :: d_step { i < REPLICAS && !again ->
        if
        :: HAS(mine, i) && alive[i] && epoch[i] <= number -> install(i, number + 1, mine, true)
        :: HAS(mine, i) && alive[i] && epoch[i] > number -> again = true
        :: else
        fi;
        i++ }
    :: again -> goto form
    :: d_step { i == REPLICAS && !again -> i = 0 }; break
    :: MAY_VANISH -> goto vanish
    od;
    do /* the copy of the rest */
    :: d_step { i < CLIENTS && alive[NEW - 1] && alive[NEW] ->
        if :: dirty[i] -> done[AT(NEW, i)] = done[AT(NEW - 1, i)] :: else fi;
        if :: BUG != COUNTS_FIRST -> kept[AT(NEW, i)] = kept[AT(NEW - 1, i)] :: else fi;
        i++ }
    :: !alive[NEW - 1] || !alive[NEW] -> goto form
    :: d_step { i == CLIENTS -> i = 0 }; break
    :: MAY_VANISH -> goto vanish
    od;
    do /* the list with the new one */
    :: d_step { i < REPLICAS && !again ->
        if
        :: alive[i] && epoch[i] == number + 1 && frozen[i] -> frozen[i] = false; list[i] = mine | BIT(NEW)
        :: i == NEW && alive[i] && epoch[i] == 0 -> install(i, number + 1, mine | BIT(NEW), false)
        :: alive[i] && epoch[i] > number + 1 -> again = true
        :: else
        fi;
        i++ }
    :: again || i == REPLICAS -> goto form
    :: MAY_VANISH -> goto vanish
    od;

vanish:
    gone[c] = true;
stopped:
    atomic { /* so that states of its end are one */
        mine = 0;
        met = 0;
        live = 0;
        dead = 0;
        number = 0;
        set = 0;
        i = 0;
        credit = 0;
        first = 0;
        sent_before = 0;
        stop = false;
        differ = false;
        again = false;
        adds = false
    }
}

hidden byte newest;
init
{
    atomic {
        for (j : 0 .. REPLICAS - 1) {
            alive[j] = true;
            if
            :: HAS(FIRST, j) -> epoch[j] = 1; list[j] = FIRST
            :: else
            fi;
            run Replica(j)
        };
        for (j : 0 .. REPLICAS - 1) {
            for (k : 0 .. CLIENTS - 1) { run Session(j, k) }
        };
        j = 0;
        k = 0;
        run Client(0);
#if CLIENTS > 1
        run Client(1)
#endif
    };
    timeout;
    d_step {
        for (k : 0 .. CLIENTS - 1) { assert(gone[k] || over[k]) }; /* progress */
        newest = 0;
        for (j : 0 .. REPLICAS - 1) { if :: alive[j] && epoch[j] > epoch[newest] -> newest = j :: else fi };
        op = list[newest];
        none_is_lost(op)
    }
}
