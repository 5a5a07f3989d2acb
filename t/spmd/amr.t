#!/usr/bin/env bash
# what: amr computes the same cells, bit by bit, on 1, 2, 3 and 5 ranks, however they send them. Mass is conserved, and
#       its center moves like that of the exact solution. Registered vectors travel without a copy and without a registration.
#       Pictures are the same, too.
# timeout: 200
# source: examples/amr
set -u
. "$(dirname "$0")/../tap.sh"
make_scratch
amr=$BUILD/examples/amr/amr
cd "$scratch" || exit 1
steps=20
if [ "${PGAS_TEST_MATRIX:-}" = short ]; then steps=8; fi

# amr_n N OPTION..: standard output in out, standard error in err, exit status in $status. Ranks have nodes of their own if
# NODES is set. Lines of the launcher are left out.
amr_n() {
    local n=$1
    shift
    PGAS_NODE_MAXSIZE=${NODES:-0} mpirun_n "$n" "$amr" --check --steps $steps "$@" >out 2>all
    status=$?
    grep -vE '^(mpirun|mpiexec|prterun)[^ ]*: Forwarding signal ' all >err
}

checksum() { sed -n 's/^checksum //p' out; }

# same N OPTION..: the run is good, its mass is right and where it should be, and its cells are those of one rank.
same() {
    amr_n "$@"
    is "$status $(grep -cE '^(mass|center) .*: right$' out) $(checksum) $(cat err)" "0 2 $want " \
        "amr $*${NODES:+, $NODES ranks a node}${PGAS_FAULT:+, with faults}"
}

# counts PATTERN DESCRIPTION: the last run has counted so.
counts() {
    grep -qE "^[1-9][0-9]* calls, .*: $1\$" out
    ok $? "$2" || diag "$(cat out)"
}

# refused WORD OPTION..: the option is refused before the library starts.
refused() {
    local word=$1
    shift
    "$amr" "$@" >out 2>err
    is "$? $(head -n 1 err)" "2 amr: not possible: $word" "amr $*"
}

plan 27

amr_n 1 --output one.ppm
want=$(checksum)
is "$status ${#want} $(cat err)" "0 16 " "one rank"
for n in 2 3 5; do
    same $n --registered
    [ $n -ne 2 ] || counts '[1-9][0-9]* registered vectors, 0 others, 0 registrations' "all vectors are registered"
    same $n --packed
done
same 3 --pointers --output three.ppm
counts '[0-9]* registered vectors, [1-9][0-9]* others, [0-9]* registrations' "vectors of malloc are not registered"
NODES=1 same 3 --registered
counts '[1-9][0-9]* registered vectors, 0 others, 0 registrations' "between nodes, too"
NODES=1 same 3 --packed
NODES=2 same 3 --pointers
NODES=1 PGAS_FAULT=delay=5,reorder=4,again=3 same 3 --registered

amr_n 2 --steps 21
ok $([ "$(checksum)" != "$want" ]; echo $?) "another step, another checksum (broken on purpose)"
amr_n 2 --spoil
is "$((status != 0)) $(grep -c '^mass .*: WRONG$' out)" "1 1" "a cell that changes is noticed (broken on purpose)"
amr_n 2 --levels 1 --block 4 --steps 5
is "$status $(sed -n 's/.*: \([0-9]* blocks of [^ ]*\) .*/\1/p' out)" "0 64 blocks of 4^3" "one level: the tree stays as it is"
amr_n 3 --levels 4 --block 2 --steps 12
good="$status $(checksum)"
amr_n 1 --levels 4 --block 2 --steps 12
is "$status $(checksum)" "$good" "four levels of blocks of 2^3 cells"

cmp one.ppm three.ppm
ok $? "one rank and three ranks draw one picture"
is "$(head -n 2 one.ppm | tr '\n' ' ')$(wc -c <one.ppm)" "P6 128 128 $((15 + 3 * 128 * 128))" "it is a PPM of the finest cells"
mkdir pictures
amr_n 2 --steps 8 --output pictures
is "$(cd pictures && echo *)" "step000000.ppm step000004.ppm step000008.ppm" "a folder gets a series of pictures"
amr_n 2 --output missing/one.ppm
is "$((status != 0)) $(grep -c '^missing/one.ppm: ' err)" "1 1" "a picture that cannot be written is an error"
PGAS_PROGRESS_MS=1 amr_n 2
is "$status $(grep -cvE '^progress: steps: [0-9.]+ %, ' err)" "0 0" "it says how far it is"

refused 7 --block 7
refused 0 --levels 0
refused x --steps x
done_testing
