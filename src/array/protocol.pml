/* The coherence protocol of one chunk, for spin: the table of state.c, row by row, and the engine
 * that obeys it.
 *
 * There are three nodes. Node 0 is the home; nodes 1 and 2 have a cache of one line. Messages from
 * the home to a cache arrive in the order sent, and so do messages from a cache to the home.
 * Threads read, write and combine with two operators, for ever. Each thread may be inside the chunk
 * (an access, or a pin) as long as it likes. Lines are evicted at any time. At some moment `quit`
 * forbids new accesses. From then on all waiting accesses must end. So one lost request shows as a
 * deadlock, even though other threads could have continued for ever.
 *
 * Elements are not values here. For every copy the model knows how many of the operations applied
 * so far it lacks, and whether it has missed a write (STALE). So only the contribution of a line is
 * bounded: to one operation, because a second one would only be merged with it.
 *
 * Properties. All but the last one are assertions in the actions and at the end of init:
 *   one writer: when a node is opened, no other node is open, and no thread is inside there, in a
 *   way that conflicts;
 *   no lost write: a thread that reads or writes has a copy that has missed no write;
 *   no lost or doubled operation: a thread that reads has a copy that lacks none. Each contribution
 *   is merged once, and contributions of two operators never meet;
 *   contents may be copied when they are sent, when they arrive, or any time between. Neither end
 *   changes until then, contents arrive only at lines that wait for data, and no thread touches the
 *   home's elements while an owner writes them back;
 *   no deadlock, no event in a state that has no row for it, no request left at the end;
 *   every request is answered: the claim `answered`, under weak fairness.
 *
 * t/model runs these configurations, each exhaustively. One with all options would have some
 * hundred million states.
 *   config: short    KINDS=7
 *   config: all      KINDS=15
 *   config: coarse   KINDS=15 COARSE=1
 *   config: ahead    KINDS=7 AHEAD=O
 *   config: at-home  KINDS=15 ALSO_AT_HOME=1
 *   config: home-2   KINDS=7 SECOND=3
 *   config: cache-2  KINDS=7 SECOND=4
 *   config: answer-0 KINDS=7 ANSWERED=0
 *   config: answer-1 KINDS=7 ANSWERED=1
 * KINDS: the sum of 1 (reads), 2 (writes), 4 and 8 (operations with one and with the other
 * operator). COARSE: the home knows only whether any cache has the chunk. AHEAD: lines are asked
 * for ahead of use. ALSO_AT_HOME: the home may carry out accesses of caches' threads, and pins
 * there may keep such an access waiting. SECOND: a second thread at home (3) or at cache 1 (4).
 * ANSWERED: the claim, for that thread. */

mtype = { H_U, H_S, H_D, H_O, H_Uw, H_Uq, H_Sv, H_Su, H_Sx, H_Dr, H_Dl, H_Or, H_Om, H_Z, H_Y,
          C_I, C_S, C_D, C_O, C_IS, C_IW, C_IO, C_SW, C_Sq, C_Si, C_SWi, C_Dq, C_Dd, C_Sa, C_Oq, C_W };
mtype = { FETCH_R, FETCH_W, FETCH_O, FETCH_O_OTHER, UPGRADE, OP_R, OP_W, OP_A, OP_A_OTHER, ACK, WB, WB_KEEP, WB_O, QUIET,
          ALL_IN, NEED_R, NEED_W, NEED_O, EVICT, GIVE, LEND, DATA_R, DATA_W, GRANT_W, GRANT_O, WB_ACK, MERGED, NOTHING };

#ifndef COARSE
#define COARSE 0
#endif
#ifndef ALSO_AT_HOME
#define ALSO_AT_HOME 0
#endif
#ifndef SECOND
#define SECOND 0
#endif

#define HOME 0
#define THREADS 6 /* at most; thread t is at node t % 3 */
#define NODE(thread) ((thread) % 3)
#define STALE 3

/* Kinds of access. What is open to threads of a node. Which of them have to leave. */
#define R 1
#define W 2
#define O 3 /* with operator 1; O + 1 with operator 2 */
#define AT_HOME 8 /* added: the home carries it out */
#define TO_ASK 16 /* added: it has not asked yet */
#define OPERATOR(what) ((what) - W)
#define SHUT 0
#define READ 1
#define ALL 2
#define OPERATE 3
#define WRITERS 1
#define EVERYBODY 2

mtype state[3] = C_I;
byte open[3];
byte leaving[3];
byte operator[3];     /* of a chunk or of a line with a contribution */
byte lacks[3] = STALE;
byte contribution[3];     /* in the line's contribution */
bit sent[3];          /* the line's contents are on their way to the home */
byte inside[THREADS]; /* 0 or the kind of access */
byte waits[THREADS];
bool quit;

/* Home. */
bit member[3]; /* sharers, operators */
byte owner;
byte pending;
byte kept;
byte held_up; /* accesses of this kind and of greater ones keep the first request waiting */
chan requests = [5] of { mtype, byte };

chan up[3] = [3] of { mtype, byte };
chan down[3] = [3] of { mtype };

/* What a step is about. These are not part of the state. */
hidden mtype event;
hidden byte me, who, from, kind, again, j;

#define IN_TRANSIT (state[HOME] != H_U && state[HOME] != H_S && state[HOME] != H_D && state[HOME] != H_O)
#define IS_INSTANT (state[HOME] == H_Z || state[HOME] == H_Y)
#define IS_REQUEST (event == FETCH_R || event == FETCH_W || event == FETCH_O || event == UPGRADE || event == OP_R || \
                    event == OP_W || event == OP_A)
#define PERMITTED(node, what) (open[node] == ALL || (open[node] == READ && (what) == R) || \
                               (open[node] == OPERATE && (what) >= O && operator[node] == OPERATOR(what)))

#define HAVE(node, least) (inside[node] >= least || inside[node + 3] >= least)
#define HAVE_LEFT(node) ((leaving[node] == WRITERS && !HAVE(node, W)) || (leaving[node] == EVERYBODY && !HAVE(node, R)))

/* ---- what threads do ---- */

inline access(node, what)
{
    assert(what == R || !sent[node]);
    if
    :: what == R -> assert(lacks[node] == 0)
    :: what >= O && node != HOME && (state[node] == C_O || state[node] == C_Oq) ->
        assert(lacks[HOME] != STALE);
        if :: contribution[node] == 0 -> contribution[node] = 1; lacks[HOME]++ :: else fi
    :: else -> /* on the elements; at home operations change them also while caches have contributions */
        assert(lacks[node] == 0 || (node == HOME && what >= O && lacks[HOME] != STALE));
        assert(what >= O || contribution[1] + contribution[2] + kept == 0);
        for (j : 0 .. 2) { if :: j != node -> lacks[j] = STALE :: else fi }
    fi
}

/* ---- actions ---- */

inline quiesce(what, whom)
{
    open[me] = what;
    leaving[me] = whom;
    pending = pending + (me == HOME)
}

inline opens(what)
{
    open[me] = what;
    if :: what != OPERATE -> operator[me] = 0 :: else fi;
    for (j : 0 .. THREADS - 1) {
        assert(inside[j] == 0 || (NODE(j) == me && what == ALL) || (what == READ && inside[j] == R) ||
               (what == OPERATE && inside[j] >= O && OPERATOR(inside[j]) == operator[me]))
    }
    for (j : 0 .. 2) {
        assert(open[j] == SHUT || j == me || (what == READ && open[j] == READ) ||
               (what == OPERATE && open[j] == OPERATE && operator[j] == operator[me]))
    }
}

inline nobody_is_inside()
{
    assert(open[me] == SHUT);
    for (j : 0 .. THREADS - 1) { assert(inside[j] == 0 || NODE(j) != me) }
}

inline store()
{
    nobody_is_inside();
    assert(sent[from]);
    sent[from] = 0;
    lacks[HOME] = lacks[from]
}

inline keep()
{
    assert(sent[from] && operator[from] == operator[HOME]);
    sent[from] = 0;
    kept = kept + contribution[from];
    contribution[from] = 0
}

inline merge()
{
    nobody_is_inside();
    assert(lacks[HOME] != STALE && lacks[HOME] >= kept);
    lacks[HOME] = lacks[HOME] - kept;
    kept = 0
}

/* By the cache, at the home. */
inline merge_there()
{
    nobody_is_inside();
    for (j : 0 .. THREADS - 1) { assert(inside[j] == 0 || NODE(j) != HOME) }
    assert(lacks[HOME] != STALE && lacks[HOME] >= contribution[me]);
    lacks[HOME] = lacks[HOME] - contribution[me];
    contribution[me] = 0
}

inline drop()
{
    if :: !COARSE -> member[from] = 0 :: else fi;
    if :: owner == from -> owner = 0 :: else fi
}

inline own()
{
    assert(owner == 0 && !member[3 - from]);
    member[from] = 0;
    owner = from
}

inline ask(node, what) { assert(nfull(down[node])); down[node]!what; pending++ }
inline tell(what) { assert(nfull(down[from])); down[from]!what }
inline say(what) { assert(nfull(up[me])); up[me]!what, me }
inline add() { member[from] = 1; if :: COARSE -> member[3 - from] = 1 :: else fi }
inline give_all() { for (j : 1 .. 2) { if :: member[j] -> ask(j, GIVE); member[j] = !COARSE :: else fi } }
inline give_others() { for (j : 1 .. 2) { if :: member[j] && j != from -> ask(j, GIVE) :: else fi } }

inline fill(what)
{
    assert(state[from] == C_IS || state[from] == C_IW);
    assert(open[HOME] <= READ && kept == 0);
    lacks[from] = lacks[HOME];
    tell(what)
}

inline send_back(what)
{
    sent[me] = 1;
    if :: what != WB_O -> assert(owner == me && open[HOME] == SHUT) :: else fi;
    say(what)
}

inline exec()
{
    if
    :: NODE(who) == HOME ->
        assert(PERMITTED(HOME, waits[who]));
        inside[who] = waits[who]
    :: else ->
        assert(PERMITTED(HOME, waits[who] - AT_HOME));
        access(HOME, waits[who] - AT_HOME)
    fi;
    waits[who] = 0
}

inline let_in()
{
    for (j : 0 .. THREADS - 1) {
        if
        :: NODE(j) == me && waits[j] != 0 && waits[j] < AT_HOME && PERMITTED(me, waits[j]) ->
            inside[j] = waits[j];
            waits[j] = 0
        :: else
        fi
    }
}

inline free_line()
{
    assert(!sent[me] && contribution[me] == 0);
    lacks[me] = STALE;
    operator[me] = 0
}

#define NONE skip
#define QUIESCE quiesce(SHUT, EVERYBODY)
#define QUIESCE_WRITES quiesce(READ, WRITERS)
#define STORE store()
#define KEEP keep()
#define MERGE merge()
#define DROP drop()
#define JOIN add(); owner = 0
#define GIVE_ALL give_all()
#define GIVE_OTHERS give_others()
#define GIVE_OWNER ask(owner, GIVE)
#define LEND_OWNER ask(owner, LEND)
#define SET_OP operator[HOME] = operator[from]
#define OWN own()
#define ADD add()
#define OPEN_ALL opens(ALL)
#define OPEN_READ opens(READ)
#define OPEN_OPERATE opens(OPERATE)
#define SEND_DATA_R fill(DATA_R)
#define SEND_DATA_W fill(DATA_W)
#define SEND_GRANT_W tell(GRANT_W)
#define SEND_GRANT_O assert(operator[from] == operator[HOME]); tell(GRANT_O)
#define SEND_WB_ACK tell(WB_ACK)
#define SEND_FETCH_R say(FETCH_R)
#define SEND_FETCH_W say(FETCH_W)
#define SEND_FETCH_O operator[me] = OPERATOR(kind); say(FETCH_O)
#define SEND_UPGRADE say(UPGRADE)
#define SEND_ACK say(ACK)
#define SEND_WB send_back(WB)
#define SEND_WB_KEEP send_back(WB_KEEP)
#define SEND_WB_O send_back(WB_O)
#define COUNT assert(pending > 0); pending--
#define EXEC exec()
#define RUN let_in()
#define FREE free_line()
#define SERVE again = 1
#define NEXT requests?_, _; again = 1

/* ---- the table: the same rows as in state.c, which t/unit/array_table checks ---- */

/* With COVER each row reports once that it has been reached. t/model gathers the reports. */
#ifdef COVER
c_decl { \#include <stdio.h>
         static char is_reached[1000]; }
#define REACH c_code { if (!is_reached[__LINE__]++) printf("row %d\n", __LINE__); }
#else
#define REACH skip
#endif
#define ROW(s, e, next, actions) :: state[me] == s && event == e -> REACH; state[me] = next; actions

inline home_step()
{
    if
    ROW(H_U, FETCH_R, H_Uw, QUIESCE_WRITES)
    ROW(H_U, FETCH_W, H_Uq, QUIESCE)
    ROW(H_U, UPGRADE, H_Uq, QUIESCE)
    ROW(H_U, FETCH_O, H_Uq, QUIESCE)
    ROW(H_U, OP_R, H_U, EXEC; NEXT)
    ROW(H_U, OP_W, H_U, EXEC; NEXT)
    ROW(H_U, OP_A, H_U, EXEC; NEXT)
    ROW(H_Uw, QUIET, H_Uw, COUNT)
    ROW(H_Uw, ALL_IN, H_S, OPEN_READ; SERVE)
    ROW(H_Uq, QUIET, H_Uq, COUNT)
    ROW(H_Uq, ALL_IN, H_Z, SERVE)
    ROW(H_S, FETCH_R, H_S, ADD; SEND_DATA_R; NEXT)
    ROW(H_S, OP_R, H_S, EXEC; NEXT)
    ROW(H_S, FETCH_W, H_Sv, QUIESCE; GIVE_ALL)
    ROW(H_S, FETCH_O, H_Sv, QUIESCE; GIVE_ALL)
    ROW(H_S, UPGRADE, H_Su, QUIESCE; GIVE_OTHERS)
    ROW(H_S, OP_W, H_Sx, GIVE_ALL)
    ROW(H_S, OP_A, H_Sx, GIVE_ALL)
    ROW(H_Sv, ACK, H_Sv, DROP; COUNT)
    ROW(H_Sv, QUIET, H_Sv, COUNT)
    ROW(H_Sv, ALL_IN, H_Z, SERVE)
    ROW(H_Su, ACK, H_Su, DROP; COUNT)
    ROW(H_Su, QUIET, H_Su, COUNT)
    ROW(H_Su, ALL_IN, H_Y, SERVE)
    ROW(H_Sx, ACK, H_Sx, DROP; COUNT)
    ROW(H_Sx, ALL_IN, H_U, OPEN_ALL; SERVE)
    ROW(H_D, FETCH_R, H_Dl, LEND_OWNER)
    ROW(H_D, OP_R, H_Dl, LEND_OWNER)
    ROW(H_D, FETCH_W, H_Dr, GIVE_OWNER)
    ROW(H_D, UPGRADE, H_Dr, GIVE_OWNER)
    ROW(H_D, FETCH_O, H_Dr, GIVE_OWNER)
    ROW(H_D, OP_W, H_Dr, GIVE_OWNER)
    ROW(H_D, OP_A, H_Dr, GIVE_OWNER)
    ROW(H_D, WB, H_U, STORE; DROP; OPEN_ALL; SEND_WB_ACK)
    ROW(H_Dr, WB, H_Dr, STORE; DROP; SEND_WB_ACK; COUNT)
    ROW(H_Dr, ALL_IN, H_Z, SERVE)
    ROW(H_Dl, WB, H_Dl, STORE; DROP; SEND_WB_ACK; COUNT)
    ROW(H_Dl, WB_KEEP, H_Dl, STORE; JOIN; SEND_WB_ACK; COUNT)
    ROW(H_Dl, ALL_IN, H_S, OPEN_READ; SERVE)
    ROW(H_O, FETCH_O, H_O, ADD; SEND_GRANT_O; NEXT)
    ROW(H_O, OP_A, H_O, EXEC; NEXT)
    ROW(H_O, FETCH_O_OTHER, H_Or, QUIESCE; GIVE_ALL)
    ROW(H_O, OP_A_OTHER, H_Or, QUIESCE; GIVE_ALL)
    ROW(H_O, FETCH_R, H_Or, QUIESCE; GIVE_ALL)
    ROW(H_O, FETCH_W, H_Or, QUIESCE; GIVE_ALL)
    ROW(H_O, UPGRADE, H_Or, QUIESCE; GIVE_ALL)
    ROW(H_O, OP_R, H_Or, QUIESCE; GIVE_ALL)
    ROW(H_O, OP_W, H_Or, QUIESCE; GIVE_ALL)
    ROW(H_O, WB_O, H_Om, QUIESCE; KEEP; DROP; SEND_WB_ACK)
    ROW(H_Om, WB_O, H_Om, KEEP; DROP; SEND_WB_ACK)
    ROW(H_Om, QUIET, H_Om, COUNT)
    ROW(H_Om, ALL_IN, H_O, MERGE; OPEN_OPERATE; SERVE)
    ROW(H_Or, WB_O, H_Or, KEEP; DROP; SEND_WB_ACK; COUNT)
    ROW(H_Or, ACK, H_Or, DROP; COUNT)
    ROW(H_Or, QUIET, H_Or, COUNT)
    ROW(H_Or, ALL_IN, H_Z, MERGE; SERVE)
    ROW(H_Z, FETCH_R, H_S, ADD; OPEN_READ; SEND_DATA_R; NEXT)
    ROW(H_Z, FETCH_W, H_D, OWN; SEND_DATA_W; NEXT)
    ROW(H_Z, UPGRADE, H_D, OWN; SEND_DATA_W; NEXT)
    ROW(H_Z, FETCH_O, H_O, SET_OP; ADD; OPEN_OPERATE; SEND_GRANT_O; NEXT)
    ROW(H_Z, OP_R, H_U, OPEN_ALL; EXEC; NEXT)
    ROW(H_Z, OP_W, H_U, OPEN_ALL; EXEC; NEXT)
    ROW(H_Z, OP_A, H_U, OPEN_ALL; EXEC; NEXT)
    ROW(H_Y, UPGRADE, H_D, OWN; SEND_GRANT_W; NEXT)
    :: else -> assert(false)
    fi
}

inline cache_step()
{
    if
    ROW(C_I, NEED_R, C_IS, SEND_FETCH_R)
    ROW(C_I, NEED_W, C_IW, SEND_FETCH_W)
    ROW(C_I, NEED_O, C_IO, SEND_FETCH_O)
    ROW(C_I, GIVE, C_I, SEND_ACK)
    ROW(C_IS, DATA_R, C_S, OPEN_READ; RUN)
    ROW(C_IS, GIVE, C_IS, SEND_ACK)
    ROW(C_IW, DATA_W, C_D, OPEN_ALL; RUN)
    ROW(C_IW, GIVE, C_IW, SEND_ACK)
    ROW(C_IO, GRANT_O, C_O, OPEN_OPERATE; RUN)
    ROW(C_IO, GIVE, C_IO, SEND_ACK)
    ROW(C_S, NEED_W, C_SW, SEND_UPGRADE)
    ROW(C_S, EVICT, C_Sq, QUIESCE)
    ROW(C_S, GIVE, C_Si, QUIESCE)
    ROW(C_SW, GRANT_W, C_D, OPEN_ALL; RUN)
    ROW(C_SW, GIVE, C_SWi, QUIESCE)
    ROW(C_SWi, QUIET, C_IW, SEND_ACK)
    ROW(C_Sq, QUIET, C_I, FREE)
    ROW(C_Sq, GIVE, C_Si, NONE)
    ROW(C_Si, QUIET, C_I, SEND_ACK; FREE)
    ROW(C_D, EVICT, C_Dq, QUIESCE)
    ROW(C_D, GIVE, C_Dq, QUIESCE)
    ROW(C_D, LEND, C_Dd, QUIESCE_WRITES)
    ROW(C_Dq, QUIET, C_W, SEND_WB)
    ROW(C_Dq, GIVE, C_Dq, NONE)
    ROW(C_Dq, LEND, C_Dq, NONE)
    ROW(C_Dd, QUIET, C_Sa, OPEN_READ; SEND_WB_KEEP)
    ROW(C_Sa, WB_ACK, C_S, RUN)
    ROW(C_O, EVICT, C_Oq, QUIESCE)
    ROW(C_O, GIVE, C_Oq, QUIESCE)
    ROW(C_Oq, QUIET, C_W, SEND_WB_O)
    ROW(C_Oq, MERGED, C_I, FREE)
    ROW(C_Oq, GIVE, C_Oq, NONE)
    ROW(C_W, WB_ACK, C_I, FREE)
    ROW(C_W, GIVE, C_W, NONE)
    ROW(C_W, LEND, C_W, NONE)
    :: else -> assert(false)
    fi
}

/* ---- the engine ---- */

inline look_at_first()
{
    requests?<event, who>;
    from = NODE(who);
    if
    :: state[HOME] == H_S && event == UPGRADE && (COARSE || !member[from]) -> event = FETCH_W
    :: state[HOME] == H_O && event == FETCH_O && operator[from] != operator[HOME] -> event = FETCH_O_OTHER
    :: state[HOME] == H_O && event == OP_A && OPERATOR(waits[who] % AT_HOME) != operator[HOME] -> event = OP_A_OTHER
    :: else
    fi;
    held_up = 0;
    if
    :: from != HOME && (event == OP_R || event == OP_W || event == OP_A || event == OP_A_OTHER) ->
        held_up = (event == OP_R -> W : R);
        if :: HAVE(HOME, held_up) -> event = NOTHING :: else -> held_up = 0 fi
    :: else
    fi
}

/* event: of thread or cache `who`. */
inline home_receives()
{
    from = NODE(who);
    if
    :: IS_REQUEST ->
        assert(nfull(requests));
        requests!event, who;
        if
        :: IN_TRANSIT || held_up -> event = NOTHING
        :: else -> assert(len(requests) == 1); look_at_first()
        fi
    :: else
    fi
}

inline home()
{
    do
    :: event == NOTHING -> break
    :: else ->
        again = 0;
        home_step();
        if :: open[HOME] == SHUT && (state[HOME] == H_D || state[HOME] == H_U) -> operator[HOME] = 0 :: else fi;
        if
        :: IN_TRANSIT && !IS_INSTANT && pending == 0 -> event = ALL_IN
        :: again && len(requests) > 0 -> look_at_first()
        :: else -> assert(!IS_INSTANT && (IN_TRANSIT || held_up || len(requests) == 0)); event = NOTHING
        fi
    od;
    skip
}

/* A process for each duty, so that weak fairness holds for each. */
#define HEARS 0
#define IS_QUIET 1
#define ASKS 2
#define ASKS_AHEAD 3
#define EVICTS 4
#define LOOKS 5
#define MERGES 6
#define HAS_HEARD(way) (duty == HEARS && len(way) > 0)
#define MUST_BE_QUIET(node) (duty == IS_QUIET && HAVE_LEFT(node))
#define MAY_MERGE(node) (duty == MERGES && state[node] == C_Oq && HAVE_LEFT(node) && open[HOME] == OPERATE && \
                         operator[HOME] == operator[node] && !HAVE(HOME, R))

/* whose: a cache, or a thread of the home. */
proctype Home(byte duty, whose)
{
end: do
    :: d_step { HAS_HEARD(up[whose]) || MUST_BE_QUIET(HOME) || (duty == ASKS && waits[whose] > TO_ASK) ||
                (duty == LOOKS && held_up && !HAVE(HOME, held_up) && !IN_TRANSIT) ->
        me = HOME;
        if
        :: duty == HEARS -> up[whose]?event, who; home_receives()
        :: duty == IS_QUIET -> leaving[HOME] = 0; event = QUIET
        :: duty == LOOKS -> look_at_first()
        :: else ->
            waits[whose] = waits[whose] - TO_ASK;
            event = (waits[whose] == R -> OP_R : (waits[whose] == W -> OP_W : OP_A));
            who = whose;
            home_receives()
        fi;
        home()
    }
    od
}

/* whose: a thread, or the kind of access that is asked for ahead. A line with another use is
 * evicted first. */
#define NEEDS(what) (state[node] == C_I || (state[node] == C_S && (what) >= W) || \
                     (state[node] == C_O && !PERMITTED(node, what)))
#define MAY_ASK_AHEAD (state[node] == C_I || (state[node] == C_S && whose == W))
#define MAY_EVICT (state[node] == C_S || state[node] == C_O || state[node] == C_D)
proctype Cache(byte node, duty, whose)
{
end: do
    :: d_step { HAS_HEARD(down[node]) || MUST_BE_QUIET(node) || MAY_MERGE(node) || (duty == EVICTS && !quit && MAY_EVICT) ||
                (duty == ASKS && waits[whose] != 0 && waits[whose] < AT_HOME && NEEDS(waits[whose])) ||
                (duty == ASKS_AHEAD && !quit && MAY_ASK_AHEAD) ->
        me = node;
        kind = (duty == ASKS -> waits[whose] : whose);
        if
        :: duty == HEARS ->
            down[node]?event;
            assert((event != DATA_R && event != DATA_W) || (lacks[node] == lacks[HOME] && open[HOME] <= READ))
        :: duty == IS_QUIET -> leaving[node] = 0; event = QUIET
        :: duty == MERGES -> leaving[node] = 0; merge_there(); event = MERGED
        :: duty == EVICTS || (duty == ASKS && (state[node] == C_O || (state[node] == C_S && kind >= O))) -> event = EVICT
        :: else -> event = (kind == R -> NEED_R : (kind == W -> NEED_W : NEED_O))
        fi;
        cache_step()
    }
    od
}

/* A thread that finds the chunk closed waits. A thread at home asks first, and the chunk may be
 * open by then. The home may carry out accesses of other nodes' threads instead. */
#define MAY_BEGIN(bit) (!quit && (KINDS & bit) && inside[thread] == 0 && waits[thread] == 0)
#define BEGIN(what, bit, request)                                                                                           \
    :: d_step { MAY_BEGIN(bit) && PERMITTED(node, what) -> inside[thread] = what }                                          \
    :: d_step { MAY_BEGIN(bit) && !PERMITTED(node, what) -> waits[thread] = what + (node == HOME -> TO_ASK : 0) }           \
    :: d_step { MAY_BEGIN(bit) && !PERMITTED(node, what) && node != HOME && ALSO_AT_HOME ->                                 \
                waits[thread] = what + AT_HOME; assert(nfull(up[node])); up[node]!request, thread }
proctype Thread(byte thread, node)
{
end: do
    BEGIN(R, 1, OP_R)
    BEGIN(W, 2, OP_W)
    BEGIN(O, 4, OP_A)
    BEGIN(O + 1, 8, OP_A)
    :: d_step { inside[thread] != 0 -> access(node, inside[thread]); inside[thread] = 0 }
    od
}

inline all_has_come_to_rest()
{
    for (j : 0 .. THREADS - 1) { assert(inside[j] == 0 && waits[j] == 0) }
    assert(!IN_TRANSIT && len(requests) == 0 && pending == 0 && kept == 0);
    for (j : 1 .. 2) {
        assert(len(up[j]) == 0 && len(down[j]) == 0 && !sent[j]);
        assert(state[j] == C_I || state[j] == C_S || state[j] == C_O || state[j] == C_D);
        assert(state[j] != C_I || lacks[j] == STALE);
        assert((state[j] == C_D) == (owner == j) && (state[j] == C_O -> member[j] : true))
    }
    if
    :: state[HOME] == H_D -> assert(lacks[owner] == 0)
    :: else -> assert(lacks[HOME] == contribution[1] + contribution[2])
    fi
}

inline run_cache(node)
{
    run Cache(node, HEARS, 0);
    run Cache(node, IS_QUIET, 0);
    run Cache(node, MERGES, 0);
    run Cache(node, ASKS, node);
    run Cache(node, EVICTS, 0);
#ifdef AHEAD
    for (kind : R .. AHEAD) { run Cache(node, ASKS_AHEAD, kind) }
#endif
    run Home(HEARS, node);
    if :: ALSO_AT_HOME && node == 1 -> run Home(LOOKS, 0) :: else fi;
    run Thread(node, node)
}

init
{
    atomic {
        state[HOME] = H_U;
        open[HOME] = ALL;
        lacks[HOME] = 0;
        run Home(IS_QUIET, 0);
        run Home(ASKS, 0);
        run Thread(0, HOME);
        run_cache(1);
        run_cache(2);
        if
        :: SECOND == 3 -> run Home(ASKS, 3); run Thread(3, HOME)
        :: SECOND == 4 -> run Cache(1, ASKS, 4); run Thread(4, 1)
        :: else
        fi
    }
    quit = true;
    timeout;
    d_step { all_has_come_to_rest() }
}

#ifdef ANSWERED
ltl answered { [] (waits[ANSWERED] != 0 -> <> (waits[ANSWERED] == 0)) }
#endif
