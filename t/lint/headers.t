#!/usr/bin/env bash
# what: Each public header compiles alone as C99 and C++11 with gcc, and as C11 and C++20 with clang. All of them compile through
#       those that include the others as C99, C11, C17, C++11, C++14, C++17 and C++20, with both compilers. Warnings are strict,
#       and errors. The same is true for programs that use what macros of ours expand to.
# needs: command:c++
# timeout: 240
set -u
. "$(dirname "$0")/../tap.sh"
make_scratch

STRICT="-Wall -Wextra -Wpedantic -Wconversion -Wshadow -Werror"
LANGUAGES="c99 c11 c17 c++11 c++14 c++17 c++20"

# Warnings are for our headers, not for those of MPI.
MPI=${MPI_CPPFLAGS//-I/-isystem }

# compiler FAMILY LANGUAGE: what compiles it, and how
compiler() {
    case $1-$2 in
    gcc-*++*) echo "c++ -Wold-style-cast" ;;
    clang-*++*) echo "clang++ -Wold-style-cast" ;;
    gcc-*) echo "${CC##*ccache } -Wmissing-prototypes" ;;
    *) echo "clang -Wmissing-prototypes" ;;
    esac
}

# compiles FAMILY LANGUAGE FOLDER HEADER
compiles() {
    local suffix=c
    case $2 in *++*) suffix=cc ;; esac
    # Two inclusions: the guard works. The last line keeps the file from being empty.
    printf '#include <%s>\n#include <%s>\nextern int not_empty;\n' "$4" "$4" >"$scratch/x.$suffix"
    $(compiler "$1" "$2") -std="$2" $STRICT -fsyntax-only -I"$3" $MPI "$scratch/x.$suffix"
}

# all_compile FAMILY LANGUAGE: the headers that do not, with the compiler's words
all_compile() {
    local header text list=$ends
    case $1-$2 in
    gcc-c99 | gcc-c++11) list="$public $detail" ;; # no user includes those of detail/
    clang-c11 | clang-c++20) list=$public ;;
    esac
    for header in $list; do
        text=$(compiles "$1" "$2" "$TOP/include" "$header" 2>&1) || printf '%s: %s\n' "$header" "$text"
    done
}

# uses_macros FAMILY LANGUAGE: what users write with macros and inline functions of ours
uses_macros() {
    local suffix=c
    case $2 in *++*) suffix=cc ;; esac
    cat >"$scratch/use.$suffix" <<'END'
#include <pgas/pgas.h>
#include <pgas/verbs_snic.h>
#include <pgas/describe.h>
typedef struct { int64_t amount; } money;
typedef struct { double *x; uint8_t n; int hidden; } mine_t;
PGAS_RMA_VECTOR(cells, double)
#define FLAT_FIELDS(F) F(SCALAR, int64_t, a) F(ARRAY, double, b, 2 * 2)
#define TEXT_FIELDS(F) F(VECTOR, char, text, n)
#define TREE_FIELDS(F) F(SCALAR, bool, on) F(STRUCT_VECTOR, tree, child, n) F(STRUCT_OPTIONAL, tree, more)
#define SHAPE_CASES(C) C(1, SCALAR, double, r) C(2, STRUCT, flat, flat) C(3, STRING, s) C(4, STRUCT_VECTOR, text, t, n)
#define MINE_FIELDS(F) F(VECTOR, double, x, n)
#define ALL_FIELDS(F) F(SCALAR, uint32_t, what) F(STRING, s) F(OPTIONAL, float, o) F(STRUCT, flat, f) F(STRUCT, text, t) \
    F(STRUCT_ARRAY, text, ta, 3) F(STRUCT_VECTOR, flat, fv, n_fv) F(UNION, shape, shape, what) F(OBJECT, object) \
    F(RMA_VECTOR, cells, cells) F(STRUCT, mine, mine)
PGAS_STRUCT(flat, FLAT_FIELDS)
PGAS_STRUCT(text, TEXT_FIELDS)
PGAS_STRUCT(tree, TREE_FIELDS)
PGAS_UNION(shape, SHAPE_CASES)
PGAS_DESCRIBE(mine, MINE_FIELDS)
PGAS_STRUCT(all, ALL_FIELDS)
PGAS_HANDLER_RETURN(ask, money, money)
{
    money m = { arg->amount + (source != 0) };
    return m;
}
PGAS_HANDLER(pay, money)
{
    (void)arg;
}
extern pgas_status_t describe(pgas_archive_t *archive, all_t *all, tree_t *tree);
pgas_status_t describe(pgas_archive_t *archive, all_t *all, tree_t *tree)
{
    if (pgas_load_all(archive, NULL, all) == PGAS_OK && pgas_view_tree(archive, tree) == PGAS_OK)
        pgas_print_all(stdout, all);
    pgas_free_all(all);
    pgas_drop_tree(tree);
    return pgas_size_all(all) ? pgas_save_tree(archive, tree) : PGAS_OK;
}
extern pgas_status_t use(const pgas_verbs_tx_t *tx, money *m);
pgas_status_t use(const pgas_verbs_tx_t *tx, money *m)
{
    pgas_gptr_t none = PGAS_NULL;
    pgas_op_t add = PGAS_OP(PGAS_ADD, PGAS_F64);
    pgas_verbs_dev_opts_t dev = PGAS_VERBS_DEV_OPTS_INIT;
    pgas_verbs_qp_opts_t qp = PGAS_VERBS_QP_OPTS_INIT;
    pgas_verbs_tx_opts_t opts = PGAS_VERBS_TX_OPTS_INIT;
    m->amount = (int64_t)(pgas_verbs_tx_done(tx) + pgas_verbs_tx_posted(tx) + add + none + dev.size + qp.size + opts.size);
    return pgas_call_pay(0, m, NULL);
}
END
    case $2 in *++*) sed -i 's/(int64_t)(/static_cast<int64_t>(/' "$scratch/use.cc" ;; esac
    $(compiler "$1" "$2") -std="$2" $STRICT -fsyntax-only -I"$TOP/include" $MPI "$scratch/use.$suffix"
}

public=$(cd "$TOP/include" && ls pgas/*.h)
detail=$(cd "$TOP/include" && ls pgas/detail/*.h)
# Those that no other one includes: they include all.
ends=$(cd "$TOP/include" && for header in pgas/*.h; do
    grep -qE "^#include [<\"]$header[>\"]" pgas/*.h pgas/detail/*.h || echo "$header"
done)
families=gcc
command -v clang++ >/dev/null && families="gcc clang"
plan $(($(wc -w <<<"$families") * $(wc -w <<<"$LANGUAGES") * 2 + 6))
for family in $families; do
    for language in $LANGUAGES; do
        empty "$(all_compile $family $language)" "$family, $language: each header alone"
        succeeds "$family, $language: a program that uses macros" uses_macros $family $language
    done
done

mkdir -p "$scratch/pgas"
printf 'inline char pgas_x(int i) { return (char)i; }\n' >"$scratch/pgas/casts.h"
fails "a cast of C is caught" compiles gcc c++11 "$scratch" pgas/casts.h
printf 'static inline char pgas_x(int i) { char c = i; return c; }\n' >"$scratch/pgas/converts.h"
fails "a conversion that may lose bits is caught" compiles gcc c11 "$scratch" pgas/converts.h
echo 'size_t pgas_x(void);' >"$scratch/pgas/lacks.h"
fails "a header that lacks an include is caught" compiles gcc c11 "$scratch" pgas/lacks.h
printf 'struct pgas_x { int class; };\n' >"$scratch/pgas/words.h"
fails "a word of C++ is caught" compiles gcc c++11 "$scratch" pgas/words.h
printf '_Static_assert(1, "");\n' >"$scratch/pgas/new.h"
fails "C11 in a C99 header is caught" compiles gcc c99 "$scratch" pgas/new.h
printf 'struct pgas_x { int a; };\n#define PGAS_X { .a = 1 }\nstatic const struct pgas_x pgas_y = PGAS_X;\n' >"$scratch/pgas/fields.h"
fails "a designated initializer in a macro is caught" compiles gcc c++17 "$scratch" pgas/fields.h
done_testing
