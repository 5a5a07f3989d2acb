#!/usr/bin/env bash
# what: Benchmarks print their usage, the promised columns and valid JSON, and refuse bad options (no times).
# needs: no-sanitizers
# timeout: 400
#       Most tables have the same printer and the same rows as the JSON: all are read with PGAS_TEST_MATRIX=all, otherwise some.
set -u
. "$(dirname "$0")/../tap.sh"
cd "$BUILD" || exit 1

PAIRS="put_latency get_latency put_bw get_bw put_bibw bibw_args put_rate atomic call_latency call_rate invoke busy_target numa"
OTHERS="array_local array_random array_seq array_zipf barrier broadcast call_crowd collectives group histo indexgather kvs labels"
OTHERS="$OTHERS gups mcts startup"
QUEUES="verbs_latency verbs_rate"
ALONE="$QUEUES serialize" # one process, without a launcher
LIBRARIES="protobuf-c nanopb msgpack-c libcbor flatbuffers capnproto cereal boost" # to which serialize compares
TABLES="put_latency call_rate barrier collectives array_seq group kvs mcts numa verbs_rate serialize"
if [ "${PGAS_TEST_MATRIX:-}" = all ]; then TABLES="$PAIRS $OTHERS $ALONE"; fi
TINY="-i 20 -r 5 -t 5"

# of NAME: the smallest choice of cases and sizes that still shows both a scalar and a block.
of() {
    case $1 in
    bibw_args) echo "-m 8:16 --case registered-2,packed,copy" ;;
    put_latency | get_latency | put_bw | get_bw | put_bibw | put_rate | call_latency | call_rate | invoke | broadcast | \
        verbs_*)
        echo "-m 8:16" ;;
    array_local) echo "-m 32768 --case get,pinned-set,span-apply" ;;
    array_random | array_seq) echo "--elements 5000" ;;
    array_zipf) echo "--elements 4096" ;;
    collectives) echo "-m 4:8" ;;
    kvs) echo "--keys 5000 --case get,put-many,ycsb-d,ycsb-f,bytes" ;;
    labels) echo "--scale 8" ;;
    numa) echo "-m 4096:4096" ;;
    barrier) echo "--case plain,late" ;;
    group) echo "--case chain-gwrite-idle,verbs-gwrite-busy,calls-gwrite-idle,mpi-gwrite-busy,engine-gwrite-idle" ;;
    mcts) echo "--size 5 --case trad-random-16,ovfl-near-1,threads-trad-hash-n,playouts,memcpy" ;;
    esac
}

# start NAME OPTIONS: with the tiny choice, as its usage says.
start() {
    local name=$1
    shift
    # shellcheck disable=SC2046,SC2086
    case " $ALONE " in
    *" $name "*) benchmarks/pgas_"$name" $TINY $(of "$name") "$@" ;;
    *) mpirun_n 2 benchmarks/pgas_"$name" $TINY $(of "$name") "$@" ;;
    esac
}

usage_text() {
    local launcher="mpirun -n N "
    case " $ALONE " in *" $1 "*) launcher= ;; esac
    benchmarks/pgas_"$1" --help | grep -q "^usage: ${launcher}pgas_$1 \[options\]\$"
}

# Anything wrong ends with 2 before MPI starts, and says how to do it.
refuses() {
    local out status
    out=$(benchmarks/pgas_"$1" "${@:2}" 2>&1 >/dev/null)
    status=$?
    [ "$status" = 2 ] && grep -q '^usage: ' <<<"$out" || { echo "status $status: $out"; return 1; }
}

# Lines of a table: a title, headers left in 10 columns, rows of a size in 10 and fields of 20 with two decimals.
table() {
    local name=$1
    shift
    start "$name" "$@" 2>"$scratch/err" >"$scratch/out" ||
        { cat "$scratch/err" "$scratch/out"; return 1; }
    "$AWK" -v name="pgas_$name" -v full="${FULL:-0}" -v ours="${COLUMNS_MIN:-1}" '
        function bad(why) { print FILENAME ":" NR ": " why ": " $0; failed = 1 }
        NR == 1 { if ($0 !~ "^# " name " v[0-9]+\\.[0-9]+\\.[0-9]+$") bad("title"); next }
        /^# (Ranks|Device|Record): / { next }
        /^# (Case|Table|Stats): / { next }
        /^# Size / { n_heads++; if (length($0) < 30 || substr($0, 7, 4) != "    ") bad("header"); next }
        {
            rows++
            if ($0 !~ /^[0-9]+ */) bad("no size")
            rest = substr($0, 11)
            if (length(rest) % 20 != 0) bad("width of columns")
            n = length(rest) / 20
            for (i = 0; i < n; i++) {
                field = substr(rest, 20 * i + 1, 20)
                sub(/^ */, "", field)
                if (full && i == 3) { if (field !~ /^[0-9]+$/) bad("iterations") }
                else if (field !~ /^-?([0-9]+\.[0-9][0-9]([0-9][0-9][0-9])?)$/) bad("field " i + 1)
            }
            if (n < ours || (full && n < 4)) bad("columns missing")
        }
        END { if (!rows || !n_heads) { print "no rows"; failed = 1 }; exit failed }' "$scratch/out"
}

# One object a line, with every key, and nothing else.
json() {
    start "$1" --json "${@:2}" 2>"$scratch/err" >"$scratch/out" ||
        { cat "$scratch/err" "$scratch/out"; return 1; }
    json_shape "$1"
}
json_shape() {
    "$AWK" -v name="pgas_$1" -v libraries="${LIBRARIES// /|}" '
        BEGIN {
            number = "(-?[0-9]+(\\.[0-9]+)?(e[-+][0-9]+)?)"
            names = "alltoallv|calls|counter|file|heap-table|idle|limit|locks|manual|max-raw|memcpy|mpi|mpi-batches|mpi-parcels|" \
                "native|one-pair|one-thread|playouts|pointer|pull|puts|raw|rma|send|shared-tree|signaled|table|ucx|uniform|write"
            if (name == "pgas_serialize") names = "limit|memcpy|" libraries
            versus = "\"(" names ")\":" number
            shape = "^\\{\"bench\":\"" name "\",\"case\":\"[a-z][a-z0-9]*(-[a-z0-9]+)*\",\"bytes\":[0-9]+," \
                "\"unit\":\"[^\"]+\",\"better\":\"(lower|higher)\",\"median\":" number "," \
                "\"min\":" number ",\"max\":" number \
                (name == "pgas_serialize" ? ",\"archive_bytes\":[1-9][0-9]*" : "") \
                ",\"vs\":\\{(" versus "(," versus ")*)?\\}\\}$"
        }
        $0 !~ shape { print "not as promised: " $0; failed = 1 }
        END { if (NR == 0) { print "nothing printed"; failed = 1 }; exit failed }' "$scratch/out"
}

# One round instead of five, all iterations in it, shared by three threads.
paper() {
    mpirun_n 2 benchmarks/pgas_invoke --paper -i 1000 -m 8 -f --case threads-trad --threads 3 >"$scratch/out" \
        2>"$scratch/err" || { cat "$scratch/err" "$scratch/out"; return 1; }
    "$AWK" '$1 == 8 && NF == 9 && $2 == $3 && $3 == $4 && $5 == 1000 { n++ } END { exit n != 1 }' "$scratch/out" ||
        { cat "$scratch/out"; return 1; }
}

share() { grep -qE '^# Stats: [0-9]+ of [1-9][0-9]* channels took further chunks, [0-9.]+ %$' "$scratch/out"; }

# A search gets its options: it prints a rate above 0 and its settings.
searches() {
    mpirun_n 2 benchmarks/pgas_mcts --size 4 -i 50 -r 5 --case trad-near-n,ovfl-random-n "$@" >"$scratch/out" 2>"$scratch/err" ||
        { cat "$scratch/err" "$scratch/out"; return 1; }
    "$AWK" '$1 == "0" && $2 > 0 { n++ } /^# Stats: (nodes|steps|remote|deferred|combined|shared|imbalance) / { figures++ }
            END { exit n != 2 || figures != 14 }' "$scratch/out" || { cat "$scratch/out"; return 1; }
}

# Two nodes: elements and locks of the other one, and raw UCX.
far() { PGAS_NODE_MAXSIZE=1 json "$1" --compare; }

# The loads of YCSB with values that are checked, with OPTIONS.
checks() {
    mpirun_n 2 benchmarks/pgas_kvs --keys 3000 --check -r 5 -t 20 "$@" >"$scratch/out" 2>"$scratch/err" ||
        { cat "$scratch/err" "$scratch/out"; return 1; }
}

# Every kind of group operation, by every way, without and with load, in one run; ratios are to what is promised.
group_cases() {
    mpirun_n 4 benchmarks/pgas_group --quick -i 30 --json >"$scratch/out" 2>"$scratch/err" && json_shape group ||
        { cat "$scratch/err" "$scratch/out"; return 1; }
    "$AWK" -F '"' '
        { line[$8] = $0 }
        function wants(name, keys,   i, n, key) {
            n = split(keys, key, " ")
            if (!(name in line)) { print "no " name; failed = 1 }
            for (i = 1; i <= n; i++)
                if (index(line[name], "\"" key[i] "\":") == 0) { print name " has no " key[i]; failed = 1 }
        }
        END {
            split("chain verbs calls mpi", ways, " ")
            split("gwrite gmemcpy gcas gflush", kinds, " ")
            split("-p50 -p99 -p999", figures, " ")
            for (w in ways) for (k in kinds) {
                name = ways[w] "-" kinds[k]
                wants(name "-idle", ""); wants(name "-busy", "idle")
                for (f in figures) { wants(name "-idle" figures[f], ""); wants(name "-busy" figures[f], "idle") }
            }
            wants("chain-gwrite-idle", "calls mpi limit"); wants("chain-gwrite-busy-p99", "idle calls mpi")
            wants("chain-gwrite-idle-refill", ""); wants("chain-gwrite-idle-bandwidth", "limit")
            wants("engine-gcas-idle", "")
            exit failed
        }' "$scratch/out" || { cat "$scratch/err" "$scratch/out"; return 1; }
}

# few_completions CASE: no more than one is polled for 32 sends, nor for 32 writes, at any size.
few_completions() {
    start verbs_rate --json --case "$1,write-$1" -i 1000 -m 8:65536 2>"$scratch/err" >"$scratch/out" ||
        { cat "$scratch/err" "$scratch/out"; return 1; }
    "$AWK" -F '"median":' '
        /-completions"/ { n++; few += $2 + 0 > 0 && $2 + 0 <= 1 }
        END { exit n != 28 || few != n }' "$scratch/out" || { cat "$scratch/out"; return 1; }
}

# Libraries that configure has found are compared, others are named; archives have the promised sizes. Also under a launcher.
serializes() {
    local name n_cases
    start serialize >"$scratch/table" && mpirun_n 1 benchmarks/pgas_serialize $TINY --json >"$scratch/out" || return 1
    for name in $LIBRARIES; do
        case " $SERIALIZERS " in
        *" $name "*) n_cases=$(grep -c "\"vs\":{.*\"$name\":[0-9.e-]*[,}]" "$scratch/out") ;;
        *) n_cases=$(grep -c "^# Stats: $name *skipped" "$scratch/table") ;;
        esac
        [ "$n_cases" = 2 ] || { echo "$name: $n_cases cases"; cat "$scratch/table" "$scratch/out"; return 1; }
    done
    "$AWK" -F '"archive_bytes":' '
        /"case":"zero-copy"/ { zero_copy = $2 + 0 }
        /"case":"packed"/ { packed = $2 + 0 }
        END { exit !(zero_copy > 9000 && zero_copy <= 9100 && packed > 17000 && packed <= 17100) }' "$scratch/out" ||
        { cat "$scratch/out"; return 1; }
}
# broken CASE WORDS: the program notices that it loads wrong records.
broken() { start serialize --case "$1" 2>&1 >"$scratch/out" | grep -q "$2"; }

# Sizes and cases of the software NIC, and both ways to name it.
software() {
    start "$1" --json --device "$2" --engine "$3" 2>"$scratch/err" >"$scratch/out" && json_shape "$1" &&
        ! grep -v '"case":"snic-' "$scratch/out" || { cat "$scratch/err" "$scratch/out"; return 1; }
}

# on_card NAME DEVICE PATH: the same on a fake card (t/shim), which UCX's hooks in memory functions would hide.
shim=$BUILD/t/shim/.libs/libpgas-shim.so
on_card() {
    UCX_MEM_EVENTS=n LD_PRELOAD=$shim start "$1" --json --device "$2" 2>"$scratch/err" >"$scratch/out" && json_shape "$1" &&
        ! grep -v "\"case\":\"$3-" "$scratch/out" || { cat "$scratch/err" "$scratch/out"; return 1; }
}

# Over the software NIC the path has its name.
over_snic() {
    PGAS_NODE_MAXSIZE=1 PGAS_TRANSPORT=verbs PGAS_VERBS_DEVICE=snic json "$1" --case "$2" &&
        grep -q "\"case\":\"$3\"" "$scratch/out" || { cat "$scratch/out"; return 1; }
}

# Each of two devices carries the traffic of one direction.
over_two() {
    local i
    # shellcheck disable=SC2086
    PGAS_LOG=verbs=info PGAS_NODE_MAXSIZE=1 PGAS_TRANSPORT=verbs PGAS_VERBS_DEVICE=snic,snic \
        mpirun_n 2 benchmarks/pgas_put_bibw $TINY -m 8:16 >"$scratch/out" 2>"$scratch/err" || { cat "$scratch/err"; return 1; }
    for i in 0 1; do
        grep -qE "device $i \(snic:1\): [1-9][0-9]* connections with [1-9]" "$scratch/err" || { cat "$scratch/err"; return 1; }
    done
}

# A figure for each case, number of nodes and number of threads, in two tables.
sweeps() {
    "$TOP/benchmarks/sweep" --nodes 1,2 --threads 1,2 --case read,write --turns 1 -- --elements 5000 -r 5 -i 20 >"$scratch/out" \
        2>"$scratch/err" || { cat "$scratch/err" "$scratch/out"; return 1; }
    "$AWK" '/^figure 1[23]/ { width = /12/ ? 5 : 9; next }
            /^(read|write) / { n++; if (NF != width || / - /) { print; failed = 1 } }
            END { exit failed || n != 4 }' "$scratch/out" || { cat "$scratch/out"; return 1; }
}

wrong_ranks() {
    ! mpirun_n "$1" benchmarks/pgas_put_latency >"$scratch/out" 2>"$scratch/err" || return 1
    grep -q "needs exactly two" "$scratch/err"
}

make_scratch
n=$(wc -w <<<"$PAIRS $OTHERS $ALONE")
plan $((4 * n + 89))
for name in $PAIRS $OTHERS $ALONE; do
    succeeds "pgas_$name --help needs no mpirun" usage_text "$name"
    succeeds "pgas_$name refuses an unknown option" refuses "$name" --no-such-option
    case " $TABLES " in
    *" $name "*) succeeds "pgas_$name prints its table" table "$name" ;;
    *) skip 1 "the table of pgas_$name: PGAS_TEST_MATRIX is not all" ;;
    esac
    case $name in
    busy_target) # the references wait for the whole round
        succeeds "pgas_$name prints JSON" json "$name" ;;
    *) succeeds "pgas_$name prints JSON, compared with its references" json "$name" --compare ;;
    esac
done
for options in "-r 4" "-m 0:8" "-m 8:4" "-m x" "-i 0" "-t -1" "--case nothing" "-m" "word" "-m 1073741824" "-m 64:x"; do
    # shellcheck disable=SC2086
    succeeds "refuses $options" refuses put_latency $options
done
succeeds "refuses sizes where there are none" refuses atomic -m 8
succeeds "refuses sizes between those that there are" refuses invoke -m 9:63
for options in "--threads 0" "--threads 17" "--threads 1.5" "--threads"; do
    # shellcheck disable=SC2086
    succeeds "refuses $options" refuses invoke $options
done
succeeds "refuses --paper and --threads where they mean nothing" refuses put_latency --paper
for options in "--size 1" "--size 20" "--playouts 0" "--policy x" "--pending" "--mode" "--phase 4097" "--always-call=yes"; do
    # shellcheck disable=SC2086
    succeeds "refuses $options" refuses mcts $options
done
for options in "--policy puct --pending virtual-loss" "--mode root" "--mode leaf --always-call --no-combining" \
    "--in-flight 3 --phase 7 --near-every 2 --seed 5 --no-proofs --playouts 2"; do
    succeeds "searches with $options" searches $options
done
for options in "local --chunk 7" "random --elements 0" "seq --prefetch 65" "zipf --elements 5000"; do
    # shellcheck disable=SC2086
    succeeds "refuses array_$options" refuses array_$options
done
for options in "--size 7" "--size 1024," "--size 2097152" "--window 2001" "--window 0" "--number 0" "--client-node x" \
    "--case chain-gwrite" "-m 64"; do
    # shellcheck disable=SC2086
    succeeds "refuses group $options" refuses group $options
done
for options in "--keys 999" "--batch 0" "--batch 1025" "--redis 0" "--redis" "--check=yes"; do
    # shellcheck disable=SC2086
    succeeds "refuses kvs $options" refuses kvs $options
done
succeeds "values of YCSB's loads are right" checks --case ycsb-a,ycsb-b,ycsb-c,ycsb-d,ycsb-e,ycsb-f
succeeds "one by one, too" checks --case ycsb-a,ycsb-f --batch 1
fails "which cannot be said of modifications that are not atomic" checks --case ycsb-f-lost
succeeds "all ways and kinds of group operations" group_cases
succeeds "the matrix of sizes and windows" table group --matrix --size 64,4096 --window 20,50
for name in array_local array_random array_seq array_zipf; do
    succeeds "pgas_$name between nodes" far "$name"
done
succeeds "arrays by nodes and threads" sweeps
for options in "--nodes 0" "--threads 1,"; do
    # shellcheck disable=SC2086
    fails "sweep refuses $options" "$TOP/benchmarks/sweep" $options
done
for options in "latency --device" "latency --engine step" "rate -m 1:4"; do
    # shellcheck disable=SC2086
    succeeds "refuses verbs_$options" refuses verbs_$options
done
for name in $QUEUES; do
    succeeds "pgas_$name on the software NIC, carried out by a thread" software "$name" snic thread
done
if [ -r "$shim" ]; then
    for name in $QUEUES; do
        succeeds "pgas_$name on a card, by our own queues" on_card "$name" mlx5_0 mlx5
        succeeds "pgas_$name on a card, by libibverbs" on_card "$name" verbs:mlx5_0 verbs
    done
else
    skip 4 "built without libmlx5"
fi
succeeds "pgas_serialize names the libraries and the bytes" serializes
succeeds "a record that is loaded too late is noticed" broken late "loaded records are wrong"
succeeds "and one with another text" broken other "is not the one that was saved"
fails "which cannot be said of good ones" broken packed "record"
fails "a device that is not there" start verbs_rate --device no_such_device
succeeds "puts over the software NIC" over_snic put_latency plain snic
succeeds "calls over the software NIC" over_snic call_rate trad snic-trad
succeeds "two devices carry traffic" over_two
succeeds "a transmitter polls for one completion of 32" few_completions auto
fails "which cannot be said of signaling everything" few_completions signaled
succeeds "one round with --paper, with three threads" paper
succeeds "and the share of channels that grew" share
says=$(benchmarks/pgas_put_latency -m 1073741824 2>&1)
case $says in *"sizes from 1 to "*) ok 0 "and names the range" ;; *) ok 1 "and names the range" || diag "$says" ;; esac
mpirun_n 2 benchmarks/pgas_put_latency $TINY --case plain -m 2097152: >"$scratch/out" 2>"$scratch/err"
is "$? $(grep -c '^2097152 ' "$scratch/out") $(grep -c '^4194304 ' "$scratch/out")" "0 1 1" "-m MIN: continues to the greatest size"
for wrong in inf nan null; do
    printf '{"bench":"pgas_x","case":"plain","bytes":8,"unit":"ns","better":"lower","median":%s,"min":1,"max":1,"vs":{}}\n' \
        $wrong >"$scratch/out"
    fails "the judge of JSON refuses $wrong" json_shape x
done
FULL=1 COLUMNS_MIN=10 succeeds "-f and --compare add their columns" table put_latency -f --compare --case plain
succeeds "a benchmark for two ranks refuses three" wrong_ranks 3
done_testing
