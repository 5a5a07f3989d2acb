#!/usr/bin/env bash
# what: hex speaks its protocol on one and two ranks: every command, every error, a search that stops when a command
#       comes, malformed input. It reads and writes SGF, analyses, plays against itself, and refuses bad options.
# timeout: 200
# source: GTP 2 (Farneback 2002); SGF FF[4] with GM[11]; openings of 3x3 by brute force
# turn: waits
set -u
. "$(dirname "$0")/../tap.sh"
make_scratch
hex=$BUILD/examples/hex/hex
cd "$scratch" || exit 1

# hex_n N OPTION..: standard output in $out, standard error in $err, exit status in $status. N 0: without launcher.
hex_n() {
    local n=$1
    shift
    if [ "$n" -gt 0 ]; then set -- mpirun_n "$n" "$hex" "$@"; else set -- "$hex" "$@"; fi
    "$@" >out 2>err
    status=$?
    look
}

# look: reads the results of a run, without lines of the launcher itself.
look() {
    out=$(tr -d '\0' <out)
    err=$(grep -vE '^(mpirun|mpiexec|prterun|[(]null[)])[^ ]*: Forwarding signal ' err)
}

# answers N TEXT DESCRIPTION [OPTION..]: TEXT is the answers to the commands on standard input, without empty lines.
answers() {
    local n=$1 want=$2 text=$3
    shift 3
    hex_n "$n" "$@"
    is "$status:$err:$(grep -v '^$' out)" "0::$want" "$text"
}

# refused STATUS PATTERN DESCRIPTION: the last run ended so, and said why on standard error.
refused() {
    if [ "$status" -eq "$1" ] && grep -qE -- "$2" <<<"$err"; then ok 0 "$3"; else
        ok 1 "$3"
        diag "exit status $status" "$out" "$err"
    fi
}

# matches PATTERN DESCRIPTION: the last run was good, and its output, as one line, matches.
matches() {
    if [ "$status" -eq 0 ] && [ -z "$err" ] && tr '\n' '|' <<<"$out" | grep -qE -- "$1"; then ok 0 "$2"; else
        ok 1 "$2"
        diag "exit status $status" "$out" "$err"
    fi
}

# The answers of commands that need no search. A line "> ..." is a command, the lines after it are its answer.
cat >spoken <<'END'
> name
= libpgas hex
> 7 protocol_version
=7 2
> 007 version # a comment
=007 0.2.0
> known_command genmove
= true
> known_command gen
= false
> boardsize 3
=
> showboard
=
  a b c
 1 . . .  1
  2 . . .  2
   3 . . .  3
      a b c
black x: top to bottom, white o: left to right; black to move
> play b B2
=
> play WHITE a1
=
> play Black b1
=
> play w c3
=
> final_score
? cannot score
> play b a3
=
> showboard
=
  a b c
 1 o x .  1
  2 . x .  2
   3 x . o  3
      a b c
black x: top to bottom, white o: left to right; black has won
> final_score
= B+
> genmove w
? the game is over
> play w c1
? illegal move: the game is over
> printsgf
= (;FF[4]GM[11]SZ[3]AP[libpgas-hex:0.2.0]RE[B+]
;B[b2];W[a1];B[b1];W[c3];B[a3])
> undo
=
> final_score
? cannot score
> printsgf
= (;FF[4]GM[11]SZ[3]AP[libpgas-hex:0.2.0]
;B[b2];W[a1];B[b1];W[c3])
> clear_board
=
> undo
? cannot undo
> boardsize 5 5
=
> play b e5
=
> swap-pieces
? illegal move: the swap rule is off
> param swap on
=
> play w swap-pieces
=
> showboard
=
  a b c d e
 1 . . . . .  1
  2 . . . . .  2
   3 . . . . .  3
    4 . . . . .  4
     5 . . . . o  5
        a b c d e
black x: top to bottom, white o: left to right; black to move
> swap-pieces
? illegal move: only the second move can be a swap
> param swap off
? a swap was made in this game
> printsgf
= (;FF[4]GM[11]SZ[5]AP[libpgas-hex:0.2.0]RU[swap]
;B[e5];W[swap-pieces])
> undo
=
> play w d5
=
> undo
=
> undo
=
> play b a4
=
> swap-pieces
=
> showboard
=
  a b c d e
 1 . . . o .  1
  2 . . . . .  2
   3 . . . . .  3
    4 . . . . .  4
     5 . . . . .  5
        a b c d e
black x: top to bottom, white o: left to right; black to move
> param
= swap on
rollouts 0
time 0
threads 1
playouts 16
policy ucb1
exploration 0
fpu 0
pending unobserved
place random
agg trad
mode tree
seed 1
memory 1024
> param exploration 0.7
=
> param exploration
= exploration 0.7
> param size
= size 5
> time_settings 60 10 5
=
> time_left b 59 0
=
> hexgui-analyze_commands
= string/Values/values
string/Principal Variation/pv
string/Statistics/stats
> quit
=
END

# Impossible commands. Black has a1 and it is the turn of white on 4x4; nothing changes that.
cat >errors <<'END'
> boardsize 4
=
> play b a1
=
> 1 xyzzy
?1 unknown command
> NAME
? unknown command
> 12
?12 syntax error: no command
> name now
? syntax error: name
> 2147483648123 name
? unknown command
> 12a name
? unknown command
> -1 name
? unknown command
> known_command
? syntax error: known_command NAME
> boardsize
? syntax error: boardsize SIZE
> boardsize 1
? unacceptable size
> boardsize 20
? unacceptable size
> boardsize -5
? unacceptable size
> boardsize 5x
? unacceptable size
> boardsize 0x5
? unacceptable size
> boardsize nan
? unacceptable size
> boardsize 5.0
? unacceptable size
> boardsize 5 6
? unacceptable size
> boardsize 99999999999999999999
? unacceptable size
> play w
? syntax error: play COLOR MOVE
> play green a2
? syntax error: colors are b and w
> play w a2 a3
? syntax error: play COLOR MOVE
> play w a1
? illegal move: the cell is taken
> play w e1
? illegal move: no such cell
> play w a5
? illegal move: no such cell
> play w a0
? illegal move: no such cell
> play w a01
? illegal move: no such cell
> play w a
? illegal move: no such cell
> play w 11
? illegal move: no such cell
> play w a4294967297
? illegal move: no such cell
> play w pass
? illegal move: no such cell
> play w swap-pieces
? illegal move: the swap rule is off
> genmove
? syntax error: genmove COLOR
> genmove x
? syntax error: colors are b and w
> values
? nothing was searched
> pv
? nothing was searched
> stats
? nothing was searched
> final_score
? cannot score
> time_settings 10 5
? syntax error: time_settings MAIN BYO STONES
> time_settings 10 -5 3
? syntax error: times are whole seconds, then a number of stones
> time_left b ten 0
? syntax error: a color, whole seconds, a number of stones
> time_left x 10 0
? syntax error: a color, whole seconds, a number of stones
> param nonsense
? no such parameter
> param size 5
? use boardsize
> param policy ucb2
? syntax error: policy is one of: ucb1 puct
> param policy
= policy ucb1
> param mode leaf tree
? syntax error: param [NAME [VALUE]]
> param threads 0
? syntax error: threads is a whole number from 1 to 256
> param threads 257
? syntax error: threads is a whole number from 1 to 256
> param playouts 1.5
? syntax error: playouts is a whole number from 1 to 65535
> param fpu 1.01
? syntax error: fpu is a number from 0 to 1
> param time 1e3
? syntax error: time is a number from 0 to 1000000
> param rollouts -1
? syntax error: rollouts is a whole number from 0 to 1000000000000000
> param swap maybe
? syntax error: swap is one of: off on
> loadsgf
? syntax error: loadsgf FILE
> loadsgf missing.sgf
? cannot load file: missing.sgf: No such file or directory
> loadsgf .
? cannot load file: .: Is a directory
> printsgf missing/x.sgf
? cannot save file: No such file or directory
> showboard
=
  a b c d
 1 x . . .  1
  2 . . . .  2
   3 . . . .  3
    4 . . . .  4
       a b c d
black x: top to bottom, white o: left to right; white to move
END

# One color moves several times in a row, or first though it is white.
cat >rows <<'END'
> boardsize 3
=
> play b b2
=
> play b a1
=
> play w c3
=
> play w c1
=
> play w b1
=
> showboard
=
  a b c
 1 x o o  1
  2 . x .  2
   3 . . o  3
      a b c
black x: top to bottom, white o: left to right; black to move
> printsgf rows.sgf
=
> clear_board
=
> loadsgf rows.sgf
= black
> undo
=
> undo
=
> printsgf
= (;FF[4]GM[11]SZ[3]AP[libpgas-hex:0.2.0]
;B[b2];B[a1];W[c3])
> play b a3
=
> final_score
? cannot score
> play b a2
=
> final_score
= B+
> param swap on
=
> clear_board
=
> play w b1
=
> play b swap-pieces
? illegal move: only the second move can be a swap
> clear_board
=
> play b a1
=
> play b swap-pieces
? illegal move: only the second move can be a swap
> play w swap-pieces
=
> quit
=
END

commands() { sed -n 's/^> //p' "$1"; }
expected() { grep -v '^> ' "$1"; }

# Broken SGF: the message, and the file; \n is the end of a line.
cat >broken <<'END'
1: nothing in it|
1: this is not SGF: it does not begin with (|hello
1: this is not SGF: it does not begin with (|;GM[11]SZ[3]
1: behind ( there is no node|()
1: behind ( there is no node|(GM[11]SZ[3])
1: no GM[11]: this is not Hex|(;FF[4]SZ[3];B[a1])
1: GM[1] is another game: Hex is GM[11]|(;GM[1]SZ[19];B[dd])
1: GM[?] is another game: Hex is GM[11]|(;GM[]SZ[3])
1: no SZ: the size of the board|(;GM[11];B[a1])
1: SZ[20]: sizes are 2 to 19|(;GM[11]SZ[20])
1: SZ[1]: sizes are 2 to 19|(;GM[11]SZ[1])
1: SZ[5:6]: sizes are 2 to 19|(;GM[11]SZ[5:6])
1: SZ[-3]: sizes are 2 to 19|(;GM[11]SZ[-3])
1: SZ[3x]: sizes are 2 to 19|(;GM[11]SZ[3x])
1: SZ[9999999]: sizes are 2 to 19|(;GM[11]SZ[99999999999999999999])
1: FF[7] is not known|(;FF[7]GM[11]SZ[3])
1: GM twice|(;GM[11]GM[11]SZ[3])
2: SZ stands behind the first node|(;GM[11]SZ[3]\n;SZ[4])
1: AB: positions that were set up are not supported|(;GM[11]SZ[3]AB[a1][b2])
3: illegal move W[a1]: the cell is taken|(;GM[11]SZ[3]\n;B[a1]\n;W[a1])
1: illegal move B[d1]: no such cell|(;GM[11]SZ[3];B[d1])
1: illegal move B[]: no such cell|(;GM[11]SZ[3];B[])
1: illegal move B[dd]: no such cell|(;GM[11]SZ[3];B[dd])
1: illegal move B[a1b2c3d4e5f6g7h8i9a1b2c3d4e5f6g]: no such cell|(;GM[11]SZ[3];B[a1b2c3d4e5f6g7h8i9a1b2c3d4e5f6g7])
1: illegal move B[swap-pieces]: only the second move can be a swap|(;GM[11]SZ[3]RU[swap];B[a1];W[b1];B[swap-pieces])
1: illegal move W[c3]: the game is over|(;GM[11]SZ[3];B[a1];W[b1];B[a2];W[b2];B[a3];W[c3])
1: two moves in one node|(;GM[11]SZ[3];B[a1]W[b1])
1: two moves in one node|(;GM[11]SZ[3];B[a1][b1])
2: B has no value|(;GM[11]SZ[3]\n;B)
2: a value has no end|(;GM[11]SZ[3];C[x\n;B[a1\])
1: the game has no end|(;GM[11]SZ[3];B[a1]
1: something that is no property|(;GM[11]SZ[3];b[a1])
1: a node stands behind )|(;GM[11]SZ[3](;B[a1]);B[a2])
1: more than one game|(;GM[11]SZ[3])(;GM[11]SZ[3])
1: something stands behind the game|(;GM[11]SZ[3]))
END

# load_broken: loads each of them, and shows at the end that the game is as it was.
load_broken() {
    local n=0 file
    echo 'boardsize 4'
    echo 'play b d4'
    while IFS= read -r line; do
        n=$((n + 1))
        file=${line#*|}
        printf '%b' "${file//\\]/\\\\]}" >"broken$n.sgf"
        echo "loadsgf broken$n.sgf"
    done <broken
    head -c 1100000 /dev/zero >large.sgf
    { printf '(;GM[11]SZ[3]'; for ((i = 0; i < 1100; i++)); do printf '(;'; done; } >deep.sgf
    printf '(;GM[11]SZ[3]C[\0];B[\0])' >zero.sgf
    printf 'loadsgf large.sgf\nloadsgf deep.sgf\nloadsgf zero.sgf\nprintsgf\n'
}
load_answers() {
    printf '=\n=\n'
    sed 's/|.*//' broken | awk '{ print "? cannot load file: broken" NR ".sgf:" $0 }'
    printf '? cannot load file: %s\n' 'large.sgf: larger than 1 MiB' 'deep.sgf:1: too many trees in each other' \
        'zero.sgf:1: illegal move B[?]: no such cell'
    printf '= (;FF[4]GM[11]SZ[4]AP[libpgas-hex:0.2.0]\n;B[d4])\n'
}

# junk: 200 lines that are no commands, of any bytes but the end of a line; the first is printable, no blank and no #.
junk() {
    LC_ALL=C "$AWK" 'BEGIN {
        srand(4711)
        n = split("name play genmove boardsize loadsgf param time_left quit", words, " ")
        for (i = 0; i < 100; i++) {
            printf "%c", 36 + int(rand() * 90)
            for (k = int(rand() * 200); k > 0; k--) {
                c = 1 + int(rand() * 255)
                printf "%c", c == 10 ? 11 : c
            }
            printf "\n%s", words[1 + i % n]
            for (k = 0; k < 4; k++) printf " %c%d", 33 + int(rand() * 2), rand() * 1e9 - 5e8
            printf "\n"
        }
    }'
}

# until_answered FILE PATTERN: sends `name` to descriptor 3 until the answer is there.
until_answered() {
    local i
    for ((i = 0; i < 1200; i++)); do
        if grep -q "$2" "$1"; then return 0; fi
        echo name >&3
        sleep 0.05
    done
    return 1
}

# stops N OPTION..: genmove for a thousand seconds, and then another command.
stops() {
    local n=$1 job
    shift
    rm -f in
    mkfifo in
    if [ "$n" -gt 0 ]; then set -- mpirun_n "$n" "$hex" "$@"; else set -- "$hex" "$@"; fi
    "$@" --size 7 --time 1000 <in >out 2>err &
    job=$!
    exec 3>in
    echo '1 genmove b' >&3
    until_answered out '^=1 [a-g][1-7]$' && printf 'stats\nquit\n' >&3 || kill "$job"
    exec 3>&-
    wait "$job"
    status=$?
    look
}

plan 45

printf '3 name # comment\r\n\n\n  # only a comment\n\a\t boardsize\t7\nfinal_score\nplay b a1\0\nquit\nname\n' |
    "$hex" >raw 2>&1
printf '=3 libpgas hex\n\n=\n\n? cannot score\n\n=\n\n=\n\n' | cmp -s - raw
ok $? "answers end in an empty line; comments, control characters, empty lines have none, nor what stands behind quit"
for n in 0 2; do
    answers $n "$(expected spoken)" "commands without a search, $n" < <(commands spoken)
    answers $n "$(expected errors)" "impossible commands are refused, $n" < <(commands errors)
done
answers 0 "$(expected rows)" "a color may move several times in a row" < <(commands rows)
# Three stones in all do not connect the sides of 4x4, so the game goes on whatever moves the search finds.
hex_n 2 --rollouts 300 < <(printf 'boardsize 4\nplay b b2\nplay w a1\ngenmove w\ngenmove w\nshowboard\ngenmove b\nquit\n')
matches '^=\|+=\|+=\|+= [a-d][1-4]\|+= [a-d][1-4]\|+.*black to move\|+= [a-d][1-4]\|+=\|+$' \
    "and the search moves for a color whose turn it is not"
# Junk.
{ junk && echo name; } >junk.in
hex_n 0 <junk.in
is "$status $(grep -ac '^?' out) $(grep -a '^=' out)" "0 200 = libpgas hex" \
    "200 lines of junk: 200 errors, and then an answer"
hex_n 0 < <(
    printf 'play b a1'
    head -c 100000 /dev/zero | tr '\0' x
    printf '\n%0*d\nlist_commands\n' 4096 5
    head -c 300000 /dev/zero
    printf 'genmo'
)
is "$(head -3 out | grep .)" "$(printf '? syntax error: a line has at most 4096 characters\n? unknown command')" \
    "a line that is too long is refused, and read past"
is "$status:$(tail -1 <<<"$out")" "0:? unknown command" "zeros are nothing; the end in the middle of a command"
missing=
for command in name version protocol_version list_commands known_command boardsize clear_board play genmove undo showboard \
    swap-pieces time_settings time_left param final_score quit values pv stats loadsgf printsgf reg_genmove; do
    grep -qxE "(= )?$command" <<<"$out" || missing+=" $command"
done
empty "$missing" "list_commands has them all"

hex_n 2 </dev/null
is "$status:$out:$err" "0::" "the end at once, two ranks"
if [ -c /dev/full ]; then
    echo name | "$hex" >/dev/full 2>&1
    is $? 1 "answers that cannot be written are an error"
else skip 1 "no /dev/full here"; fi

# SGF.
answers 0 "$(load_answers)" "broken SGF: the file, the line and what is wrong; the game stays" < <(load_broken)
cat >good.sgf <<'END'
 (;FF[4]GM[11]
  SZ[5:5]PB[A \] ;B[a1\]]RU[swap]CA[UTF-8]
;B[b1]C[a comment
(;B[x\])];W[swap-pieces]
(;B[C3];W[d4](;B[c4])(;B[e5];W[zz]))(;B[pass]))
END
answers 0 '= white
= (;FF[4]GM[11]SZ[5]AP[libpgas-hex:0.2.0]RU[swap]
;B[b1];W[swap-pieces];B[c3];W[d4];B[c4])
=
=
= black
= white
= (;FF[4]GM[11]SZ[5]AP[libpgas-hex:0.2.0]RU[swap]
;B[b1];W[swap-pieces];B[c3];W[d4];B[c4])
=
= (;FF[4]GM[11]SZ[5]AP[libpgas-hex:0.2.0]RU[swap])
= size 5' "SGF: read, written, read again; variations and comments are passed over" < <(
    echo '(;GM[11]SZ[2])' >empty.sgf
    printf '%s\n' 'loadsgf good.sgf' printsgf 'printsgf again.sgf' 'boardsize 11' 'loadsgf empty.sgf' 'loadsgf again.sgf' \
        printsgf clear_board printsgf 'param size'
)
# random_game SIZE: all cells in a random order, by turns; after its end there are errors only.
random_game() {
    "$AWK" -v n="$1" 'BEGIN {
        srand(n)
        print "boardsize " n
        for (i = 0; i < n * n; i++) {
            k = int(rand() * (i + 1)); order[i] = order[k]; order[k] = i
        }
        for (i = 0; i < n * n; i++) printf "play %s %c%d\n", i % 2 ? "w" : "b", 97 + order[i] % n, int(order[i] / n) + 1
    }'
}
hex_n 0 < <(
    for size in 2 19; do
        random_game $size
        printf '%s\n' printsgf final_score 'printsgf full.sgf' 'boardsize 3' 'loadsgf full.sgf' printsgf final_score
    done
)
"$AWK" -v RS= '/^= [(]/ { text[++n] = $0 } /^= [BW][+]/ { score[n] = $0 }
    END { exit !(n == 4 && text[1] == text[2] && text[3] == text[4] && score[1] != "" && score[1] == score[2] &&
        score[3] != "" && score[3] == score[4] && length(text[4]) > 1000) }' out
ok $? "SGF of whole games of size 2 and 19"

# Searches.
winning='(c1|a2|b2|c2|a3)'
for n in 0 2; do
    hex_n $n --size 3 --rollouts 30000 < <(printf '%s\n' 'genmove b' values pv stats 'final_score' showboard)
    numbers='[01]\.[0-9]{4} [0-9]+( proven)?\|'
    matches "^= $winning\|\|= $winning $numbers([a-c][1-3] $numbers)*\|= $winning( [a-c][1-3])*\|\|= visits " \
        "genmove, values and pv of 3x3: a winning move, $n"
    matches '\|ended-by (rollouts|proof)\|\|\? cannot score\|.*white to move' "and its statistics"
    grep -cE "^= ?visits [0-9]+$|^(rollouts|lost|nodes|selections|imbalance) [0-9.]+$" out >counted
    is "$(cat counted)" 6 "which have all there is"
done
session=(--size 5 --rollouts 2000 --seed 5)
search='reg_genmove b\nvalues\npv\nundo\ngenmove b\nvalues\npv\n'
hex_n 0 "${session[@]}" < <(printf "$search")
one=$out
hex_n 0 "${session[@]}" < <(printf "$search")
is "$out" "$one" "the same seed, one rank, one thread: the same answers"
hex_n 0 --size 5 --rollouts 2000 --seed 6 < <(printf "$search")
[ "$out" != "$one" ]
ok $? "another seed: others"
grep -q '^? cannot undo$' <<<"$one"
ok $? "reg_genmove makes no move"

# Visits of the root by searches of 1000 rollouts: again, after a move, after that is taken back, after the move again.
hex_n 2 --size 7 --rollouts 1000 < <(printf '%s\n' 'reg_genmove b' stats 'reg_genmove b' stats 'genmove b' stats \
    'reg_genmove w' stats undo 'reg_genmove b' stats 'play b d4' 'reg_genmove w' stats 'param seed 3' 'reg_genmove w' stats)
is "$("$AWK" '$2 == "visits" { print($3 % 1000 == 0 ? $3 / 1000 : ($3 > 1000 ? "more" : "less")) }' out | tr '\n' ' ')" \
    "1 2 3 more 1 more 1 " "a tree is kept as long as the game continues from it"

# A game against itself by genmove, with undo in between: tree reuse, and none.
hex_n 2 --size 4 --rollouts 300 --threads 2 < <(
    for ((i = 0; i < 16; i++)); do printf 'genmove %s\n' "$([ $((i % 2)) = 0 ] && echo b || echo w)"; done
    printf '%s\n' final_score undo final_score undo
)
matches '^(= [a-d][1-4]\|\|){7,16}(\? the game is over\|\|)*= [BW]\+\|\|=\|\|\? cannot score\|\|=\|' \
    "genmove to the end of a game, undo"
hex_n 2 --size 4 --rollouts 300 < <(
    for setting in 'policy puct' 'exploration 0.5' 'place hash' 'place near' 'agg ovfl' 'pending loss' 'pending ignored' \
        'fpu 0.6' 'mode root' 'mode leaf' 'mode tree' 'threads 2' 'playouts 1' 'seed 9' 'memory 1' 'rollouts 50'; do
        printf 'param %s\nreg_genmove b\n' "$setting"
    done
)
matches '^(=\|\|= [a-d][1-4]\|\|?){16}$' "each parameter, and a search with it"
hex_n 0 --size 4 --rollouts 3000 --swap < <(
    printf '%s\n' 'play b c2' 'genmove w' 'values' showboard undo 'play w a1' 'genmove b'
)
matches '^=\|\|= swap-pieces\|\|= swap-pieces .*black to move\|\|=\|\|=\|\|= [a-d][1-4]\|' "genmove swaps where that wins"

# Clocks: what ends the search is seen, not how long it takes. Nine seconds for a game are below one for a move.
hex_n 2 --size 9 < <(printf '%s\n' 'time_settings 3 0 0' 'genmove b' stats 'time_settings 0 1 5' 'genmove w' stats \
    'time_settings 0 1 0' 'param rollouts 500' 'genmove b' stats 'time_left w 0 0' 'param rollouts 0' 'genmove w' stats \
    'time_settings 0 0 0' 'param time 0.1' 'param rollouts 1000000000' 'genmove b' stats)
is "$status $(grep -c '^= [a-i][1-9]$' out) $(grep '^ended-by' out | tr '\n' ' ')" \
    "0 5 ended-by time ended-by time ended-by rollouts ended-by time ended-by time " "clocks and limits"

stops 2
matches '^=1 [a-g][1-7]\|\|(= libpgas hex\|\|)+= visits .*\|ended-by stop\|\|=\|$' \
    "a search of a thousand seconds ends when a command comes, two ranks"
stops 0 --threads 2
matches '^=1 [a-g][1-7]\|\|(= libpgas hex\|\|)+= visits .*\|ended-by stop\|' "the same on one rank, two threads"

# Without the protocol.
hex_n 2 --analyse good.sgf --rollouts 2000
best='best move [a-e][1-5], value [01]\.[0-9]+(, proven)?'
matches "^  a b c d e\| 1 .*white to move\|\|$best\|\|principal variation [a-e][1-5].*\|\|[a-e][1-5] .*\|visits " \
    "--analyse FILE"
hex_n 0 --moves "b2 a1,b1 a2" --size 3 --rollouts 1000
matches 'best move [ab]3, value 1\.0000, proven\|\|principal variation [ab]3\|' "--moves: a win in one"
hex_n 0 --moves "b2 a1 b1 a2 a3" --size 3
matches 'black has won\|$' "a position where nothing is to search"
hex_n 0 --moves "b2 b2" --size 3
refused 1 '^hex: illegal move b2: the cell is taken$' "--moves: one is illegal"
hex_n 2 --analyse broken1.sgf
refused 1 '^hex: broken1.sgf:1: nothing in it$' "--analyse: broken SGF, two ranks"
hex_n 2 --selfplay --size 4 --rollouts 300
matches '^\(;FF\[4\]GM\[11\]SZ\[4\]AP\[libpgas-hex:0.2.0\]RE\[[BW]\+\]\|(;[BW]\[[a-d][1-4]\]\|?){7,16}\)\|$' "--selfplay"
hex_n 0 --selfplay --size 3 --rollouts 500 --output own.sgf
hex_n 0 --analyse own.sgf
matches '(black|white) has won\|$' "--selfplay --output, and read again: there is a winner"
hex_n 0 --selfplay --size 3 --rollouts 50 --output missing/own.sgf
refused 1 '^hex: missing/own.sgf: No such file or directory$' "an output that cannot be written"
if command -v script >/dev/null; then
    PGAS_PROGRESS_MS=1 script -qec "$hex --selfplay --size 4 --rollouts 5000 --output own.sgf" /dev/null </dev/null >out 2>&1
    status=$?
    line='moves [0-9]+, [0-9]+ s so far; (black|white): [a-d][1-4] [01]\.[0-9]{3}, [0-9]+ rollouts'
    is "$status $(tr '\r' '\n' <out | grep -qE "$line" && echo yes)" "0 yes" "progress on a terminal"
else skip 1 "no script(1) here"; fi

hex_n 0 --help
is "$status:$err:$(grep -cE '^usage|^  --' <<<"$out")" "0::18" "--help without a launcher"
cat >bad <<'END'
--size 1|size is a whole number from 2 to 19
--size|a value is missing: --size
--threads=0x2|threads is a whole number from 1 to 256
--policy best|policy is one of: ucb1 puct
-x|no such option: -x
file.sgf|what is file.sgf for?
--selfplay --moves a1|one of --analyse, --moves, --selfplay
--output x|--output goes with --selfplay
END
n=0
while IFS='|' read -r options _; do
    n=$((n + 1))
    # shellcheck disable=SC2086 # options are words
    {
        "$hex" $options </dev/null >"bad$n" 2>&1
        echo "$? $options|$(sed -n "s/^hex: \(not possible: \)\{0,1\}//p" "bad$n")" >"bad$n"
    } &
done <bad
wait
is "$(cat bad[0-9]*)" "$(sed 's/^/2 /' bad)" "bad options: exit status 2, and which one it is"
hex_n 2 --time x --size 77
refused 2 '^hex: not possible: time is a number from 0 to 1000000$' "two ranks: exit status 2"
is "$(grep -c '^usage' <<<"$err")" 1 "and one of them prints"
done_testing
