#!/usr/bin/env bash
# what: The public functions keep the rules of the interface: at most six parameters, no verbs but the agreed ones, timeouts as
#       int64_t timeout_us, pairs of create and destroy, outputs last, structs of options and queries that begin with their size.
#       The number of exported functions and the lines of the headers do not grow.
# needs: no-sanitizers command:nm
# source: HACKING.md
set -u
. "$(dirname "$0")/../tap.sh"
make_scratch

# Lower these where they can be lowered; a new function needs a reason.
FUNCTIONS=320
LINES=4930

# rule, name, reason: what breaks a rule with good reason. A line that nothing needs any more is printed.
exceptions() {
    cat <<'END'
pair       | pgas_team_destroy         | teams come from pgas_team_split
outputs    | pgas_get_scalar_far       | inline functions call it, no program
outputs    | pgas_fetch_op_far         | inline functions call it, no program
outputs    | pgas_compare_swap_far     | inline functions call it, no program
outputs    | pgas_kvs_scan             | the cursor goes in and out
parameters | pgas_call_return_nb       | the form of pgas_call with a result
parameters | pgas_describe_print_elems | macros of descriptions call it, no program
parameters | pgas_describe_get_count   | macros of descriptions call it, no program
END
}

# declarations HEADER..: what interface.awk prints
declarations() {
    local header
    for header; do echo "#include \"$header\""; done >"$scratch/all.c"
    $CC -E -P -I"$TOP/include" $MPI_CPPFLAGS "$scratch/all.c" | "$AWK" -f "$TOP/t/lint/interface.awk" | sort -u
}

# Each rule reads declarations and prints: rule|name|what is wrong
too_many() { "$AWK" -F'|' '$1 == "fn" && NF - 4 > 6 { print "parameters|" $3 "|" NF - 4 " parameters" }'; }
bad_verbs() {
    "$AWK" -F'|' '$1 == "fn" && $3 ~ /_(query|stats|fini|ns)$/ { print "verb|" $3 "|a query is _info, an end _destroy, a time in us" }'
}
bad_times() {
    "$AWK" -F'|' '$1 == "fn" {
        for (i = 5; i <= NF; i++) {
            if ($i ~ /timeout/ && $i != "int64_t timeout_us") print "time|" $3 "|" $i
            if ($i ~ /_(ns|ms)(_p)?$/) print "time|" $3 "|" $i
        }
    }'
}
bad_pairs() {
    "$AWK" -F'|' '
    $1 == "fn" { type[$3] = $4; count[$3] = NF - 4 }
    function needs(name, from, to,    other) {
        other = name
        sub(from "$", to, other)
        if (!(other in type)) print "pair|" name "|there is no " other
    }
    END {
        for (name in type) {
            if (name ~ /_create$/) needs(name, "create", "destroy")
            if (name ~ /_destroy$/) needs(name, "destroy", "create")
            if (name ~ /_open$/) needs(name, "open", "close")
            if (name ~ /_close$/) needs(name, "close", "open")
            if (name ~ /_acquire$/) needs(name, "acquire", "release")
            if (name ~ /_attach$/) needs(name, "attach", "detach")
            if (name ~ /_(destroy|close|release|free)$/ && type[name] != "pgas_status_t")
                print "pair|" name "|it returns " type[name]
        }
    }' | sort
}
# An output is an argument whose name ends in _p. Behind it there are further outputs, and a counter.
bad_outputs() {
    "$AWK" -F'|' '$1 == "fn" {
        out = ""
        for (i = 5; i <= NF; i++) {
            if ($i ~ /\*[a-z0-9_]+_p$/) out = $i
            else if (out != "" && $i !~ /pgas_sync_t \*/) { print "outputs|" $3 "|" $i " behind " out; next }
        }
    }'
}
bad_structs() {
    "$AWK" -F'|' '$1 == "struct" && $2 ~ /_(opts|info)_t$/ {
        sub(/^ +/, "", $3)
        if ($3 != "size_t size") print "struct|" $2 "|it begins with " $3
    }'
}

rules() {
    declarations "$@" >"$scratch/declarations"
    local rule
    for rule in too_many bad_verbs bad_times bad_pairs bad_outputs bad_structs; do $rule <"$scratch/declarations"; done
}

# unexcused, unneeded: compare what rules found with the exceptions
unexcused() {
    "$AWK" -F'|' 'FILENAME == ARGV[1] { excused[$1 "|" $2] = 1; next } !(($1 "|" $2) in excused)' <(exceptions | sed 's/ *| */|/g') "$1"
}
unneeded() {
    "$AWK" -F'|' 'FILENAME == ARGV[1] { found[$1 "|" $2] = 1; next } !(($1 "|" $2) in found)' "$1" <(exceptions | sed 's/ *| */|/g')
}

# functions LIBRARY; lines FOLDER
functions() { nm -D --defined-only "$1" | grep -c ' T '; }
lines() { cat "$1"/*.h | wc -l; }

plan 13
headers=()
for header in "$TOP"/include/pgas/*.h; do headers+=("pgas/${header##*/}"); done
rules "${headers[@]}" >"$scratch/found"
succeeds "functions are found" test "$(grep -c '^fn|exported' "$scratch/declarations")" -gt 100
empty "$(unexcused "$scratch/found")" "the headers keep the rules"
unneeded "$scratch/found" | sed 's/^/# no longer needed: /'

n=$(functions "$BUILD/.libs/libpgas.so")
succeeds "at most $FUNCTIONS exported functions" test "$n" -le $FUNCTIONS
echo "# exported functions: $n"
n=$(lines "$TOP/include/pgas")
succeeds "at most $LINES lines of headers" test "$n" -le $LINES
echo "# lines of headers: $n"

# broken RULE TEXT DESCRIPTION: the rule finds exactly one fault in a header with this text
broken() {
    printf '#include <stddef.h>\n#include <stdint.h>\n#include "pgas/status.h"\n%s\n' "$2" >"$scratch/broken.h"
    is "$(rules "$scratch/broken.h" | cut -d'|' -f1 | paste -sd ' ')" "$1" "$3"
}
broken parameters 'PGAS_API int pgas_x(int a, int (*b)(int, int), int c, int d, int e, int f, int g);' "seven parameters are caught"
broken verb 'static inline int pgas_x_query(int a) { if (a) { return 1; } return 0; }' "a verb is caught, also of an inline function"
broken time 'PGAS_API int pgas_x_wait(uint64_t timeout_us);' "another type of a timeout is caught"
broken pair 'PGAS_API int pgas_x_create(int a);' "creation without destruction is caught"
broken pair 'PGAS_API int pgas_x_create(void); PGAS_API void pgas_x_destroy(void);' "destruction without a status is caught"
broken outputs 'PGAS_API int pgas_x(int *a_p, int b);' "an input behind an output is caught"
broken struct 'typedef struct { int pid; size_t size; } pgas_x_info_t;' "a query without a size in front is caught"
printf 'int pgas_a(void) { return 1; }\nint pgas_b(void) { return 2; }\nint pgas_c;\n' >"$scratch/x.c"
$CC -shared -fPIC -o "$scratch/x.so" "$scratch/x.c"
is "$(functions "$scratch/x.so")" 2 "exported functions are counted"
is "$(lines "$scratch")" 4 "and lines"
done_testing
