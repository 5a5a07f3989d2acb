#!/usr/bin/env bash
# what: A tree over two ranks plays Hex as well as one on one rank does with as many rollouts: 7x7, 2,000 rollouts a
#       move, pairs of games with one random opening and sides exchanged, until the lower bound of the win rate's 99
#       percent interval (Wilson) is above 0.40.
# source: the search overhead of trees that are searched in parallel; the suite plays a few games only, `make soak` the
#       match (HEX_MATCH: games at most, then the match has failed)
# timeout: 60
set -u
. "$(dirname "$0")/../tap.sh"
make_scratch

SIZE=7
ENOUGH=0.40

# interval WON GAMES: the 99 percent interval, two numbers.
interval() {
    "$AWK" -v k="$1" -v n="$2" 'BEGIN {
        z = 2.5758
        centre = (k + z * z / 2) / (n + z * z)
        half = z / (n + z * z) * sqrt(k * (n - k) / n + z * z / 4)
        printf "%.4f %.4f\n", centre - half, centre + half
    }'
}

# open_player RANKS ROLLOUTS: a job that is written to through to[RANKS] and read from through from[RANKS].
open_player() {
    mkfifo "$scratch/to.$1" "$scratch/from.$1"
    PGAS_HEAP_SIZE=4M "$TOP/t/mpirun" "$1" "$BUILD/t/spmd/hex_player" $SIZE "$2" <"$scratch/to.$1" >"$scratch/from.$1" \
        2>"$scratch/err.$1" &
    job[$1]=$!
    exec {fd}>"$scratch/to.$1"
    to[$1]=$fd
    exec {fd}<"$scratch/from.$1"
    from[$1]=$fd
}

# Ends both. (The end of its input would not do: the second has inherited the first one's.)
close_players() {
    local p fd
    for p in 1 2; do
        fd=${to[$p]}
        if [ -n "$trouble" ]; then kill "${job[$p]}"; else echo quit >&"$fd"; fi
        exec {fd}>&-
        wait "${job[$p]}" || trouble="${trouble:-a player of $p ranks ends with status $?}"
        fd=${from[$p]}
        exec {fd}<&-
        rm -f "$scratch/to.$p" "$scratch/from.$p"
        [ ! -s "$scratch/err.$p" ] || trouble+=" a player of $p ranks says: $(cat "$scratch/err.$p")"
    done
}

# ask RANKS COMMAND: sets move and winner.
ask() {
    echo "$2" >&"${to[$1]}"
    read -r -t 50 -u "${from[$1]}" move winner || { trouble="a player of $1 ranks does not answer: $2"; return 1; }
}

# play FIRST SECOND OPENING SEED: a game of the two players, numbers of ranks. FIRST makes the opening. Sets won.
play() {
    local players=("$1" "$2") turn=1 seen
    ask 1 "new $4" && ask 2 "new $4" && ask 1 "play $3" && ask 2 "play $3" || return 1
    while [ "$winner" -lt 0 ]; do
        ask "${players[turn]}" go || return 1
        seen="$move $winner"
        turn=$((1 - turn))
        ask "${players[turn]}" "play $move" || return 1
        n_moves=$((n_moves + 1))
        [ "${seen#* }" = "$winner" ] || { trouble="the players see $seen and $winner"; return 1; }
    done
    won=${players[winner]}
}

# match ROLLOUTS_1 ROLLOUTS_2 LEAST MOST: pairs of games until two ranks do well enough. Sets games, wins, bounds; fails if
# MOST games were not enough.
match() {
    local opening begin=$SECONDS
    games=0 wins=0 n_moves=0 trouble= bounds=
    open_player 1 "$1"
    open_player 2 "$2"
    while [ "$games" -lt "$4" ]; do
        opening=$((RANDOM % (SIZE * SIZE)))
        play 1 2 $opening $((games + 1)) || break
        wins=$((wins + (won == 2)))
        play 2 1 $opening $((games + 2)) || break
        wins=$((wins + (won == 2)))
        games=$((games + 2))
        bounds=$(interval $wins $games)
        if [ "$games" -ge "$3" ] && enough; then break; fi
    done
    close_players
    diag "$1 rollouts on 1 rank, $2 on 2: two ranks won $wins of $games games, 99 percent interval ${bounds/ / to }," \
        "$n_moves moves, $((SECONDS - begin)) s"
    [ -z "$trouble" ] || diag "$trouble"
    [ -z "$trouble" ] && [ -n "$bounds" ] && enough
}

enough() { "$AWK" -v low="${bounds% *}" -v least=$ENOUGH 'BEGIN { exit !(low > least) }'; }

trap '' PIPE # a player that has died is noticed as one that does not answer
declare -a to from job
RANDOM=${TAP_SEED:-1}
diag "seed ${TAP_SEED:-1}"
if [ -n "${HEX_MATCH:-}" ]; then
    plan 1
    match 2000 2000 20 "$HEX_MATCH"
    ok $? "2 ranks play as well as 1 at 2000 rollouts a move"
    done_testing
fi

plan 6
is "$(interval 50 100)" "0.3753 0.6247" "an interval around one half"
is "$(interval 0 10)" "0.0000 0.3988" "one at the edge"
match 50 50 2 2 || :
is "$games$trouble" 2 "two games are played to the end"
[ "$n_moves" -ge $((2 * (2 * SIZE - 2))) ]
ok $? "by as many moves as a chain takes at least"
match 1500 1 2 8 && s=0 || s=$?
is "$s$trouble" 1 "a player of one rollout does not play as well"
match 1 1500 4 12 && s=0 || s=$?
is "$s$trouble" 0 "one of 1500 against it does"
done_testing
