#!/usr/bin/env bash
# what: pgas_graph gives the values that LDBC publishes and those computed by hand, on 1, 2, 3, 5 and 7 ranks, checks them, and
#       prints names, labels, a summary or JSON. It replaces the output file at once, and refuses bad options in one line.
# timeout: 300
# source: pgas/graph.h; values published with LDBC Graphalytics (Apache-2.0)
set -u
. "$(dirname "$0")/../tap.sh"
make_scratch
SHARED=${PGAS_TEST_SHARED:-$TOP/../shared}
ldbc=$SHARED/data/graphalytics-validation
graph=$BUILD/tools/pgas_graph
stdin=/dev/null # of all runs
threads_max=1
if [ "$HAVE_OPENMP" = yes ]; then threads_max=2; fi

# run N ARGUMENT..: standard output in $out, standard error in $err, exit status in $status. N 0: without launcher; 3 ranks and more
# are on nodes of two.
run() {
    local n=$1
    shift
    unset PGAS_NODE_MAXSIZE
    if [ "$n" -ge 3 ]; then export PGAS_NODE_MAXSIZE=2; fi
    if [ "$n" -gt 0 ]; then set -- mpirun_n "$n" "$graph" "$@"; else set -- "$graph" "$@"; fi
    "$@" >"$scratch/out" 2>"$scratch/err" <"$stdin"
    status=$?
    out=$(cat "$scratch/out")
    err=$(cat "$scratch/err")
}

show_run() {
    diag "exit status $status"
    diag "$out"
    diag "$err"
}

# says PATTERN COUNT DESCRIPTION: the run was good, and so many of its lines match.
says() {
    if [ "$status" -eq 0 ] && [ "$(grep -cE -- "$1" <<<"$out")" -eq "$2" ] && [ -z "$err" ]; then ok 0 "$3"; else
        ok 1 "$3"
        show_run
    fi
}

# refused STATUS PATTERN DESCRIPTION: the run ended so, and said why on standard error.
refused() {
    if [ "$status" -eq "$1" ] && grep -qE -- "$2" <<<"$err" && [ -z "$out" ]; then ok 0 "$3"; else
        ok 1 "$3"
        show_run
    fi
}

# values_are GOT WANT TOLERANCE: two lists of vertices and values have the same vertices in the same order. Values are the same
# words, except that numbers with a point may differ by the tolerance.
values_are() {
    "$AWK" -v tolerance="$3" '
        NR == FNR { vertex[FNR] = $1; want[FNR] = tolower($2); n = FNR; next }
        { got = tolower($2); same = $1 == vertex[FNR] && (got "") == (want[FNR] "") }
        !same && $1 == vertex[FNR] && want[FNR] ~ /\./ && got ~ /\./ {
            off = got - want[FNR]; bound = tolerance * (want[FNR] < 0 ? -want[FNR] : want[FNR])
            same = off <= bound && -off <= bound
        }
        !same { print "line " FNR ": " $0 ", not " vertex[FNR] " " want[FNR]; bad = 1 }
        END { if (FNR != n || bad) exit 1 }' "$2" "$1"
}

# gives N WANT TOLERANCE DESCRIPTION ARGUMENT..: the values on N ranks, where WANT is a file.
gives() {
    local n=$1 want=$2 tolerance=$3 text=$4
    shift 4
    run "$n" "$@" --output "$scratch/values" --check
    if [ "$status" -eq 0 ] && [ -z "$err" ] && grep -q '^# check: right' <<<"$out" &&
        values_are "$scratch/values" "$want" "$tolerance" >"$scratch/difference"; then ok 0 "$text, $n ranks"; else
        ok 1 "$text, $n ranks"
        show_run
        diag "$(cat "$scratch/difference")"
    fi
    rm -f "$scratch/values"
}

# want FILE VALUE..: lines of the vertices 10, 20, .. with these values.
want() {
    local file=$scratch/$1 vertex=0
    shift
    for value; do
        vertex=$((vertex + 10))
        echo "$vertex $value"
    done >"$file"
}

plan 111

# ---- the command line ----

run 0 --help
says '^usage: pgas_graph |^  --(format|rmat|source|output|check|json) ' 7 "--help without a launcher"
empty "$("$AWK" 'length > 80' "$scratch/out")" "in 80 columns"
while IFS='|' read -r bad complaint; do
    # shellcheck disable=SC2086 # arguments are words
    run 0 $bad
    refused 2 "^pgas_graph: $complaint\$" "refused: pgas_graph $bad"
done <<'END'
|not possible: no algorithm
dfs a|no such algorithm: dfs
bfs|not possible: neither one file nor one generator
bfs a b|an argument too many: b
bfs a --rmat 5|not an option of files: --rmat
bfs --rmat 5 --grid 5|not possible: neither one file nor one generator
bfs --rmat 32|not possible: --rmat 32
bfs --rmat 5 --undirected|an option of files only: --undirected
bfs a --wrong|no such option: --wrong
bfs a --source|a value is missing: --source
bfs a --format csv|not possible: --format csv
bfs a --sources 3|not an option of this algorithm: --sources
bfs a --source 1 --roots 3|not possible: --source beside random sources
bfs a --iterations 3|not an option of this algorithm: --iterations
bfs a --threads 0|not possible: --threads 0
bfs a --direction left|not possible: --direction left
pagerank a --damping 1.5|not possible: --damping 1.5
pagerank a --tolerance nan|not possible: --tolerance nan
pagerank a --source 1|not an option of this algorithm: --source
pagerank a --repeat 1e99|not possible: --repeat 1e99
triangles a --output b|not an option of this algorithm: --output
convert a|not possible: convert without a file of --output
convert a --output -|not possible: convert without a file of --output
info a --check|not an option of this algorithm: --check
bfs a --json --output -|not possible: --json and --output -
END
run 2 bfs a --wrong
is "$status $(grep -c '^pgas_graph: ' <<<"$err") $(grep -c '^usage' <<<"$err")" "2 1 1" "of two ranks one prints"
run 2 bfs "$scratch/missing.el"
refused 1 'error: .*missing.el: cannot open' "a missing file: the log says so"
refused 1 '^pgas_graph: input or output failed$' "and exit status 1"

# ---- values computed by hand ----

# Two ways from 10 to 40, a circle back, 60 before 20, and 70 alone.
printf '%s\n' 10 20 30 40 50 60 70 >"$scratch/rhomb.v"
printf '%s\n' '10 30 1' '10 20 4' '20 40 1' '30 40 2.5' '40 50 1' '50 10 1' '60 20 1' >"$scratch/rhomb.e"
rhomb=$scratch/rhomb.e
far=9223372036854775807
want levels 0 1 1 2 3 $far $far
gives 1 "$scratch/levels" 0 "bfs" bfs "$rhomb" --source 10
gives 3 "$scratch/levels" 0 "bfs of the file NAME.v" bfs "$scratch/rhomb.v" --source 10 --direction pull
want parents 10 10 10 20 40 -1 -1
gives 2 "$scratch/parents" 0 "parents" bfs "$rhomb" --source 10 --parents
want both 1 2 2 1 0 3 $far
gives 2 "$scratch/both" 0 "bfs, undirected" bfs "$rhomb" --source 50 --undirected
want distances 0.0 4.0 1.0 3.5 4.5 infinity infinity
gives 2 "$scratch/distances" 1e-15 "sssp" sssp "$rhomb" --source 10
gives 5 "$scratch/distances" 1e-15 "sssp" sssp "$rhomb" --source 10 --delta 0.5 --exchange array
want components 10 10 10 10 10 10 70
gives 3 "$scratch/components" 0 "wcc" wcc "$rhomb"
want first 20 10 10 20 10 20 70
gives 2 "$scratch/first" 0 "cdlp, a round" cdlp "$rhomb" --iterations 1
want second 10 20 20 10 20 10 70
gives 7 "$scratch/second" 0 "cdlp, two rounds" cdlp "$rhomb" --iterations 2
# Vertex 70 spreads 1/49 to each.
# shellcheck disable=SC2046 # values are words
want ranks $("$AWK" 'BEGIN { n = split("8 11.5 4.5 15 8 1 1", x); for (i = 1; i <= n; i++) printf "%.17g ", x[i] / 49 }')
gives 2 "$scratch/ranks" 1e-14 "pagerank" pagerank "$rhomb" --iterations 1 --damping 1
want between 0.0 1.0 1.0 1.0 0.0 0.0 0.0
gives 3 "$scratch/between" 1e-15 "betweenness" betweenness "$rhomb" --source 10

# Two triangles that share the edge 20-30, a tail to 50; edges twice and a loop.
printf '%s\n' '10 20' '20 30' '30 10' '20 40' '30 40' '40 50' '20 30' '30 30' '10 20' >"$scratch/bow.e"
want closed 1.0 0.66666666666666663 0.66666666666666663 0.33333333333333331 0.0
sed -i 's/ 0\.0$/ 0.000000000000000e+00/; s/ 1\.0$/ 1.000000000000000e+00/' "$scratch/closed"
gives 1 "$scratch/closed" 1e-14 "lcc, undirected" lcc "$scratch/bow.e" --undirected
want half 0.5 0.33333333333333331 0.33333333333333331 0.16666666666666666 0.0
gives 3 "$scratch/half" 1e-14 "lcc, directed" lcc "$scratch/bow.e"
for n in 1 2 5; do
    run $n triangles "$scratch/bow.e" --check
    says '^# triangles: .* 2 triangles$|^# check: right;' 2 "two triangles, $n ranks"
done

# ---- LDBC ----

# published N INPUT OUTPUT TOLERANCE ARGUMENT..
published() {
    local n=$1 input=$2 output=$3 tolerance=$4
    shift 4
    if [ "${PGAS_TEST_MATRIX:-}" = short ]; then skip 1 "LDBC's values are not for the short form" && return; fi
    if [ ! -r "$ldbc/$output" ]; then skip 1 "no $ldbc here (set PGAS_TEST_SHARED)" && return; fi
    gives "$n" "$ldbc/$output" "$tolerance" "LDBC: $output" "$1" "$ldbc/$input" "${@:2}"
}

both="--undirected --simple"
# shellcheck disable=SC2086 # arguments are words
{
    published 1 bfs/dir-input bfs/dir-output 0 bfs --format adj --source 1
    published 2 bfs/undir-input bfs/undir-output 0 bfs --format adj --source 1 $both
    published 3 cdlp/dir-input cdlp/dir-output 0 cdlp --format adj --iterations 5
    published 5 cdlp/undir-input cdlp/undir-output 0 cdlp --format adj --iterations 5 $both
    published 2 wcc/dir-input wcc/dir-output 0 wcc --format adj
    published 3 wcc/undir-input wcc/undir-output 0 wcc --format adj $both
    published 1 lcc/dir-input lcc/dir-output 1e-11 lcc --format adj
    published 7 lcc/undir-input lcc/undir-output 1e-11 lcc --format adj $both
    # The first list has the limit of the sweeps. The second one has 7 right digits.
    published 2 pr/dir-input pr/dir-output 1e-14 pagerank --format adj --iterations 50
    published 3 pr/undir-input pr/undir-output 1e-7 pagerank --format adj --iterations 26 $both
    published 5 sssp/dir-input.e sssp/dir-output 1e-14 sssp --source 1
    published 2 sssp/undir-input.e sssp/undir-output 1e-14 sssp --source 1 --undirected
    n=1
    for kind in directed undirected; do
        file=example/example-$kind.e
        source=1 both=
        if [ $kind = undirected ]; then source=2 both=--undirected; fi
        published $n $file example/example-$kind-BFS 0 bfs --source $source $both
        n=$((n % 3 + 1))
        published $n $file example/example-$kind-SSSP 1e-12 sssp --source $source $both
        published $n $file example/example-$kind-PR 1e-12 pagerank --iterations 2 $both
        n=$((n % 3 + 1))
        published $n $file example/example-$kind-WCC 0 wcc $both
        published $n $file example/example-$kind-CDLP 0 cdlp --iterations 2 $both
        published $n $file example/example-$kind-LCC 1e-12 lcc $both
    done
}
printf '1 0.5\n2 infinity\n3 7\n' >"$scratch/want"
good=0
for bad in '1 0.5001\n2 infinity\n3 7\n' '1 0.5\n2 1.0\n3 7\n' '1 0.5\n2 infinity\n3 8\n' '1 0.5\n2 infinity\n' \
    '2 0.5\n1 infinity\n3 7\n' '1 0.5\n2 infinity\n3 7\n4 1\n'; do
    # shellcheck disable=SC2059 # the text has line ends
    printf "$bad" >"$scratch/off"
    values_are "$scratch/off" "$scratch/want" 1e-6 >/dev/null && good=1
done
values_are "$scratch/want" "$scratch/want" 0 || good=1
ok $good "the comparison can fail (broken on purpose)"

# ---- summaries ----

printf 'hub\tend\n' >"$scratch/small.tsv"
for i in 1 2 3 4 5; do printf 'n%d\thub\nn%d\tn%d\n' $i $i $((i % 5 + 1)); done >>"$scratch/small.tsv"
printf 'x\ty\n' >>"$scratch/small.tsv"
small=$scratch/small.tsv
lists=
for n in 1 2 3; do
    run $n pagerank "$small" --check --top 3
    says '^# graph: .* 9 vertices, 12 edges, directed, |^# read: |^# pagerank: .* 20 sweeps, |^# check: right, L1|^1 end |^2 hub ' 6 \
        "a summary and the greatest values of names, $n ranks"
    lists+=$(grep -v '^#' <<<"$out")$'\n'
done
is "$(sort -u <<<"$lists" | grep -c .)" 3 "the same list on 1, 2 and 3 ranks"
run 2 wcc "$small" --top 5 --output "$scratch/names"
says '^1 hub 7$|^2 x 2$' 2 "the greatest components"
is "$(sort "$scratch/names" | tr '\n' ' ')" "end hub hub hub n1 hub n2 hub n3 hub n4 hub n5 hub x x y x " "names of vertices and components"
run 2 bfs "$small" --source n4 --output -
is "$status $(sort <<<"$out" | tr '\n' ' ')" \
    "0 end 2 hub 1 n1 2 n2 3 n3 4 n4 0 n5 1 x $far y $far " "values on standard output"
is "$(grep -c '^# ' <<<"$err")" 4 "and the summary on standard error"
run 3 bfs "$small" --source nobody
refused 1 '^pgas_graph: --source nobody: no such vertex$' "a source that does not exist"
run 3 bfs "$small"
says '^# bfs: .*; from n[1-5] \(most out-edges\), ' 1 "without --source: the vertex with the most out-edges"
run 2 bfs --rmat 8 --roots 5 --repeat 2 --check
says '^# bfs: 10 runs, min .*, median .*, max .* \(harmonic mean\); from 5 vertices, |^# check: right;' 2 "five roots, twice each"
run 2 betweenness --grid 100 --sources 4 --top 1 --check
says '^# betweenness: .*; from 4 vertices|^# check: right;|^1 [0-9]+ [0-9.e+]+$' 3 "betweenness from four sources"
"$AWK" 'BEGIN { for (v = 0; v < 1030; v++) print v, v + 1 "\n" v, v + 1 }' >"$scratch/twice.el"
run 3 betweenness "$scratch/twice.el" --source 0
refused 1 'error: .*more than 1.8e308 shortest paths' "too many shortest paths are an error, and no value is NaN"
run 2 pagerank --rmat 8 --check --check-bytes 1000
is "$status $(grep -c '^# check: skipped: the serial copy takes ' <<<"$out")" "2 1" "a check without memory is skipped: exit status 2"
# A library that lies about one vertex of another rank.
cat >"$scratch/lie.c" <<'END'
#include <dlfcn.h>
#include <pgas/graph.h>
pgas_status_t pgas_components(pgas_graph_t *graph, const pgas_graph_run_opts_t *opts, uint64_t *labels, pgas_graph_run_info_t *info)
{
    pgas_graph_info_t part = { .size = sizeof part };
    pgas_status_t (*right)(pgas_graph_t *, const pgas_graph_run_opts_t *, uint64_t *, pgas_graph_run_info_t *);
    *(void **)&right = dlsym(RTLD_NEXT, "pgas_components");
    pgas_status_t status = right(graph, opts, labels, info);
    pgas_graph_info(graph, &part);
    labels[0] += part.first_vertex > 0;
    return status;
}
END
if [ -z "$SANITIZERS" ] && $CC -D_GNU_SOURCE -shared -fPIC -o "$scratch/lie.so" "$scratch/lie.c" -I"$TOP/include" -ldl; then
    mpirun_n 2 env LD_PRELOAD="$scratch/lie.so" "$graph" wcc --rmat 8 --check >"$scratch/out" 2>/dev/null
    is "$? $(grep -c '^# check: WRONG: vertex [0-9]* is in the component ' "$scratch/out")" "1 1" "a wrong value: exit status 1"
else skip 1 "no library can be loaded in front of this build"; fi
run 2 info "$small"
says '^# graph: 2 ranks, 9 vertices, 12 edges, directed, |^# vertices have names; .*: 2$|^# vertices without out-edges: 2$' 3 info
run 1 info --rmat 6
says '^# graph: 1 rank, 64 vertices, .* in both directions' 1 "a generated graph is undirected"
run 1 info --rmat 6 --directed
says '^# graph: 1 rank, 64 vertices, 1024 edges, directed' 1 "unless it shall be directed"
sums=
for n in 1 2 3; do
    for ((threads = 1; threads <= threads_max; threads++)); do
        run $n cdlp --rmat 9 --iterations 3 --threads $threads --output "$scratch/values"
        sums+="$status $(cksum <"$scratch/values")"$'\n'
    done
done
is "$(sort -u <<<"$sums" | grep -c '^0 ')" 1 "the same bytes on 1, 2 and 3 ranks, with one and two threads"

# ---- inputs ----

stdin=$small
run 2 pagerank - --top 1
says '^1 end [0-9]\.[0-9]{6}e-[0-9]{2}$' 1 "standard input"
stdin=/dev/null
printf '0 1\n1 2\n' >"$scratch/chain.el"
run 2 pagerank "$scratch/chain.el" --damping 1 --no-dangling --iterations 1 --check
says '^1 1 3\.333333e-01$|^2 2 3\.333333e-01$|^3 0 0\.000000e\+00$|^# check: right' 4 "pagerank --damping 1 --no-dangling"
for options in "--exchange array --threads $threads_max" "--tolerance 1e-8 --no-dangling" "--direction push"; do
    # shellcheck disable=SC2086 # arguments are words
    PGAS_ARRAY_CACHE=128K run 3 pagerank --rmat 13 --directed --top 0 --check $options
    says '^# check: right' 1 "pagerank $options"
done
run 2 bfs --uniform 4000000000 --degree 1000000
refused 1 'error: .* use more nodes or a smaller graph' "a graph that is too large: the log says so"
printf '0 1\n0 x\n' >"$scratch/bad.el"
for n in 1 3; do
    run $n bfs "$scratch/bad.el"
    refused 1 'error: .*bad.el:2: not a whole number: .x.$' "a malformed file: exit status 1, file and line, $n ranks"
done
if "$TOP/tools/debian-graph" >"$scratch/debian.tsv" 2>/dev/null; then
    run 2 pagerank "$scratch/debian.tsv" --tolerance 1e-10 --check
    says '^# check: right|^1 libc6 ' 2 "Debian's packages: libc6 comes first"
else skip 1 "no apt lists here"; fi

# ---- JSON ----

run 2 sssp "$rhomb" --source 10 --json --check --top 2
is "$status $(wc -l <<<"$out") $(grep -cE '^\{.*"command":"sssp".*"vertices":7.*"source":"10".*"check":"right".*\}$' <<<"$out")" \
    "0 1 1" "--json prints one object"
is "$(grep -oE '"top":.*' <<<"$out")" '"top":[{"vertex":"50","value":4.5},{"vertex":"20","value":4}]}' "with the greatest values"
printf 'a"b\\\tc\n' >"$scratch/quoted.tsv"
run 1 pagerank "$scratch/quoted.tsv" --json --top 2
is "$status $(grep -cF '{"vertex":"a\"b\\","value":' <<<"$out")" "0 1" "names are quoted"
if command -v python3 >/dev/null; then
    succeeds "it is JSON" python3 -c 'import json, sys; json.load(open(sys.argv[1]))' "$scratch/out"
else skip 1 "no python3 here"; fi

# ---- files ----

run 3 convert "$rhomb" --output "$scratch/rhomb.pgas"
says '^# written: .*rhomb.pgas, ' 1 "a file of pgas_graph_write"
gives 2 "$scratch/distances" 1e-15 "it has the labels and weights" sssp "$scratch/rhomb.pgas" --source 10
printf '%s\n' '10 20 -1' '20 10 -1' >"$scratch/below.e"
run 2 convert "$scratch/below.e" --output "$scratch/below.pgas"
run 2 sssp "$scratch/below.pgas" --source 10
refused 1 'error: pgas_sssp: a weight is negative or not a number' "a negative weight of such a file: no shortest paths"
run 1 convert "$scratch/bow.e" --output "$scratch/bow.pgas"
run 7 info "$scratch/bow.pgas"
says '^# graph: 7 ranks, 5 vertices, 9 edges, directed' 1 "a file of fewer vertices than ranks"
echo old >"$scratch/values"
chmod 640 "$scratch/values"
ln -s values "$scratch/link"
run 2 wcc "$rhomb" --output "$scratch/link"
is "$status $(readlink "$scratch/link") $(stat -c %a "$scratch/values") $(grep -c . "$scratch/values")" "0 values 640 7" \
    "a file behind a link is replaced, and keeps its mode"
is "$(cd "$scratch" && ls -d values.* 2>/dev/null)" "" "no temporary file is left"
run 2 wcc "$rhomb" --output "$scratch/none/values"
is "$status $(grep -c '^pgas_graph: --output .*none/values: No such file or directory$' <<<"$err")" "1 1" "a folder that does not exist"
if [ -c /dev/full ]; then
    run 2 wcc "$rhomb" --output /dev/full
    is "$status $(grep -c '^pgas_graph: --output /dev/full: ' <<<"$err") $([ -c /dev/full ] && echo device)" "1 1 device" \
        "lost output is an error, and a device stays one"
else skip 1 "no /dev/full here"; fi
done_testing
