#!/usr/bin/env bash
# what: A checksum differs for each difference between two descriptions of one name, and is the same for the same fields in
#       C and C++. A mistake in the kind of a field is one error, which names it. The constant that says flat is right.
# needs: no-sanitizers command:c++
# timeout: 200
# source: programs that print pgas_checksum_body(), compiled with the library
set -u
. "$(dirname "$0")/../tap.sh"
make_scratch

BEGIN='#include <pgas/describe.h>
typedef struct { double x, y; } pair_t;
#define PART_FIELDS(F) F(SCALAR, int32_t, a)
#define LIST_FIELDS(F) F(SCALAR, int32_t, a) F(STRUCT_VECTOR, list, more, n)
#define CHOICE_CASES(C) C(1, SCALAR, int32_t, a) C(2, STRING, s)
PGAS_STRUCT(part, PART_FIELDS)
PGAS_STRUCT(list, LIST_FIELDS)
PGAS_UNION(choice, CHOICE_CASES)
PGAS_RMA_VECTOR(cells, double)
'
MAIN='int main(void) { printf("%016llx\n", PGAS_CAST(unsigned long long, pgas_checksum_body())); return 0; }'

# checksum COMPILER SUFFIX SED FIELDS..: of a body of these fields; SED changes the types above
checksum() {
    local command=$1 suffix=$2 change=$3
    shift 3
    {
        sed "$change" <<<"$BEGIN"
        echo "#define BODY_FIELDS(F) $*"
        echo 'PGAS_STRUCT(body, BODY_FIELDS)'
        echo "$MAIN"
    } >"$scratch/x.$suffix"
    $command -w -I"$TOP/include" "$scratch/x.$suffix" -o "$scratch/x" "$BUILD/.libs/libpgas.so" -Wl,-rpath,"$BUILD/.libs" \
        >"$scratch/log" 2>&1 && "$scratch/x" || diag "$(head -n 5 "$scratch/log")"
}

FIELDS="F(SCALAR, int32_t, id) F(ARRAY, double, x, 3) F(STRING, s) F(VECTOR, char, v, n) F(OPTIONAL, pair_t, o)"
NESTED="F(STRUCT, part, p) F(STRUCT_ARRAY, part, pa, 2) F(STRUCT_VECTOR, part, pv, n_pv) F(STRUCT_OPTIONAL, list, l)"
REST="F(SCALAR, uint8_t, tag) F(UNION, choice, c, tag) F(OBJECT, object) F(RMA_VECTOR, cells, cells)"
ALL="$FIELDS $NESTED $REST"
LIST='s/int32_t, a) F(STRUCT_VECTOR/int64_t, a) F(STRUCT_VECTOR/'

plan 23
C="${CC##*ccache }"
plain=$(checksum "$C" c "" "$ALL")
differs() {
    local got
    got=$(checksum "$C" c "$2" "$3")
    [ "${#got}" = 16 ] && [ "$got" != "$plain" ] && s=0 || s=1
    ok $s "another checksum: $1" || diag "$got"
}
same() {
    local got
    got=$(checksum "${@:2}")
    [ "${#got}" = 16 ] && [ "$got" = "$plain" ] && s=0 || s=1
    ok $s "the same checksum: $1" || diag "$got, not $plain"
}
differs "a type" "" "${ALL/int32_t, id/int64_t, id}"
differs "a type of the same size" "" "${ALL/int32_t, id/uint32_t, id}"
differs "a member" "" "${ALL/int32_t, id/int32_t, key}"
differs "a kind" "" "${ALL/OPTIONAL, pair_t, o/SCALAR, pair_t, o}"
differs "the length of an array" "" "${ALL/x, 3/x, 4}"
differs "the order" "" "$REST $FIELDS $NESTED"
differs "a field less" "" "$FIELDS $NESTED"
differs "an array of structures" "" "${ALL/pa, 2/pa, 3}"
differs "a nested structure" 's/PART_FIELDS(F) F(SCALAR, int32_t/PART_FIELDS(F) F(SCALAR, int64_t/' "$ALL"
differs "a structure that contains itself" "$LIST" "$ALL"
differs "a tag of a union" 's/C(2, STRING/C(3, STRING/' "$ALL"
differs "a case of a union" 's/C(1, SCALAR, int32_t/C(1, SCALAR, float/' "$ALL"
differs "a type of the program" 's/double x, y;/float x, y;/' "$ALL"
differs "the elements of an RMA vector" 's/(cells, double)/(cells, float)/' "$ALL"
same "compiled as C++" c++ cc "" "$ALL"
same "spaces" "$C" c "" "${ALL//, /,}"
same "the length of an array as an expression" "$C" c "" "${ALL/x, 3/x, 1 + 2}"

# errors FIELDS: the compiler's errors in a description
errors() {
    printf '#include <pgas/describe.h>\n#define BODY_FIELDS(F) %s\n%s\nextern int not_empty;\n' "$1" "$2" >"$scratch/e.c"
    $C -fsyntax-only -I"$TOP/include" "$scratch/e.c" 2>&1 | grep 'error:'
}
# contains TEXT PART DESCRIPTION
contains() { succeeds "$3" grep -q "$2" <<<"$1"; }

KINDLESS='F(SCALAR, int, a) F(SCALR, int, b) F(STRING, c)'
is "$(errors "$KINDLESS" 'PGAS_STRUCT(body, BODY_FIELDS)' | grep -c .)" 1 "a mistake in a kind is one error"
contains "$(errors "$KINDLESS" 'PGAS_STRUCT(body, BODY_FIELDS)')" "no_kind_of_field_SCALR" "which names it"
MINE='typedef struct { int a, b; char *c; } body_t; PGAS_DESCRIBE(body, BODY_FIELDS)'
is "$(errors "$KINDLESS" "$MINE" | grep -c no_kind_of_field_SCALR)" 1 "also for a structure of the program"
contains "$(errors "F(SCALAR, double, a)" "$MINE")" "a_has_another_size" "a member of another size is an error"
contains "$(errors "F(VECTOR, char, a)" 'PGAS_STRUCT(body, BODY_FIELDS)' | head -n 1)" "requires 4 arguments" \
    "so is a missing count"
USE='PGAS_STRUCT(body, BODY_FIELDS) extern char x[pgas_is_flat_body ? 1 : -1];'
is "$(errors "F(SCALAR, int, a)" "$USE")" "" "flat is a constant"
done_testing
