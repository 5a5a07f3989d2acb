/* Reads of a key from another node, for spin: stamps.h, the fast read of serve.c, and the cache.
 *
 * WRITERS threads of the home's node write one key, each time a higher value. A value has two
 * halves. READERS threads of another node share a cache with one copy. A reader compares the copy's
 * stamp if its node has the stamp, otherwise it calls the home. The node may request the stamp at
 * any time, and then has a copy of it.
 *
 * Property: a read gives both halves of one value. The value is not older than that of any write
 * and of any read that had ended when the read began.
 *
 * t/model runs these configurations, each exhaustively:
 *   config: stamps-short WRITERS=1 READERS=1
 *   config: stamps-one   WRITERS=1 READERS=2
 *   config: stamps-two   WRITERS=2 READERS=1
 * and these errors, which it must find:
 *   bug: LATE_STAMP WRITERS=1 READERS=1: a writer changes the stamp after the value
 *   bug: NO_LOOK WRITERS=1 READERS=1: a writer that may not wait changes a stamp that others have
 *   bug: NO_WITHDRAWAL WRITERS=1 READERS=1: a writer leaves the stamp at other nodes
 *   bug: EARLY_UNPIN WRITERS=1 READERS=1: other nodes may have the stamp again during the write
 *   bug: NO_COMPARISON WRITERS=1 READERS=1: a reader takes the copy whatever its stamp
 *   bug: NO_SEQUENCE WRITERS=1 READERS=1: the home does not look at the sequence number again
 *   bug: STAMP_BEHIND WRITERS=1 READERS=1: the home reads the stamp after that look
 */
#define LATE_STAMP    1
#define NO_WITHDRAWAL 2
#define EARLY_UNPIN   3
#define NO_COMPARISON 4
#define NO_SEQUENCE   5
#define STAMP_BEHIND  6
#define NO_LOOK       7
#ifndef BUG
#define BUG 0
#endif
#ifndef WRITERS
#define WRITERS 1
#endif
#ifndef READERS
#define READERS 2
#endif
#define WRITES 2
#define READS  2

/* the home */
byte half[2], stamp, sequence;
bool locked;
byte pins; /* writers that keep the stamp */

/* the other node */
bool has_stamp;
byte its_stamp; /* if it has one */
bool cached;
byte copy, copy_stamp;

/* what has ended: the highest value that was written, or read */
byte newest, ended;

inline write_value()
{
    newest++;
    value = newest;
    half[0] = value;
    half[1] = value
}

inline end_write()
{
    atomic {
        if
        :: value > ended -> ended = value
        :: else
        fi;
        value = 0;
        n++
    }
}

/* A thread that may wait withdraws the stamp, and keeps it until unpin. Otherwise (a plain handler)
 * it changes the stamp only while no other node has it. */
proctype writer()
{
    byte n = 0, value;
    do
    :: n < WRITES -> /* it may wait */
        atomic {
            pins++;
            if
            :: BUG != NO_WITHDRAWAL -> has_stamp = false
            :: else
            fi
        };
        if
        :: BUG == EARLY_UNPIN -> pins--
        :: else
        fi;
        atomic { !locked -> locked = true };
        stamp++;
        write_value();
        atomic { sequence++; locked = false };
        if
        :: BUG != EARLY_UNPIN -> pins--
        :: else
        fi;
        end_write()
    :: n < WRITES -> /* it may not */
        atomic { !locked -> locked = true };
        if
        :: BUG == LATE_STAMP ->
            write_value();
            stamp++;
            atomic { sequence++; locked = false };
            end_write()
        :: else ->
            atomic {
                if
                :: !has_stamp || BUG == NO_LOOK -> stamp++
                :: else -> locked = false; goto refused
                fi
            };
            write_value();
            atomic { sequence++; locked = false };
            end_write()
        fi;
refused: skip
    :: n == WRITES -> break
    od
}

/* The node requests the stamp. */
proctype request()
{
    byte n = 0;
    do
    :: n < 2 ->
        atomic { pins == 0 -> has_stamp = true; its_stamp = stamp };
        n++
    :: n < 2 -> break
    :: else -> break
    od
}

proctype reader()
{
    byte n = 0, floor, value, other, seen, at;
    bool hit;
    do
    :: n < READS ->
        floor = ended;
        atomic {
            hit = has_stamp && cached && (copy_stamp == its_stamp || BUG == NO_COMPARISON);
            value = copy
        };
        if
        :: hit -> skip
        :: else ->
again:      atomic { !locked -> seen = sequence };
            at = stamp;
            value = half[0];
            other = half[1];
            if
            :: BUG != NO_SEQUENCE && (locked || sequence != seen) -> goto again
            :: else
            fi;
            if
            :: BUG == STAMP_BEHIND -> at = stamp
            :: else
            fi;
            assert(value == other);
            atomic { cached = true; copy = value; copy_stamp = at }
        fi;
        atomic {
            assert(value >= floor);
            if
            :: value > ended -> ended = value
            :: else
            fi;
            floor = 0; value = 0; other = 0; seen = 0; at = 0; hit = false
        };
        n++
    :: else -> break
    od
}

init
{
    atomic {
        byte i;
        for (i : 1 .. WRITERS) { run writer() };
        for (i : 1 .. READERS) { run reader() };
        run request()
    }
}
