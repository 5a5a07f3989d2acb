#!/usr/bin/env bash
# what: Typed handlers with described arguments compile in C99 to C17 and C++11 to C++20 with the strictest warnings as errors, with
#       each compiler here: every kind of field, results, waiting ones, in one file and in several. Arguments of other types, too
#       few and too many do not compile, also where warnings are not errors.
# needs: command:c++
# timeout: 240
# source: pgas/call_args.h
set -u
. "$(dirname "$0")/../tap.sh"
make_scratch

STRICT='-pedantic -Wall -Wextra -Wshadow -Wconversion -Wcast-qual -Wmissing-declarations -Werror'

# compiles COMPILER LANGUAGE FLAGS STATEMENT
compiles() {
    local suffix=c
    case $2 in *++*) suffix=cc ;; esac
    cat >"$scratch/x.$suffix" <<END
#include <pgas/call_args.h>
#include <pgas/pgas.h>
int level, at, text, w, n_w, seed, one, many, n_many, halo, object, rank, sync, target, opts, args, call, reply; /* -Wshadow */
PGAS_RMA_VECTOR(cells, double)
#define BOX_FIELDS(F) F(ARRAY, double, side, 3) F(STRING, label)
PGAS_STRUCT(box, BOX_FIELDS)
#define SHAPE_CASES(C) C(1, SCALAR, double, radius) C(2, STRUCT, box, box)
PGAS_UNION(shape, SHAPE_CASES)
#define STEP_FIELDS(F)                  \\
    F(SCALAR, int32_t, my_level)        \\
    F(ARRAY, double, position, 3)       \\
    F(STRING, name)                     \\
    F(VECTOR, double, weights, n)       \\
    F(OPTIONAL, int64_t, maybe)         \\
    F(STRUCT, box, first)               \\
    F(STRUCT_ARRAY, box, pair, 2)       \\
    F(STRUCT_VECTOR, box, boxes, n_box) \\
    F(STRUCT_OPTIONAL, box, perhaps)    \\
    F(SCALAR, int32_t, tag)             \\
    F(UNION, shape, figure, tag)        \\
    F(OBJECT, thing)                    \\
    F(RMA_VECTOR, cells, field)
static cells_t mine;
static double sum;
PGAS_HANDLER_ARGS(step, STEP_FIELDS)
{
    cells_take(field, &mine);
    for (size_t i = 0; i < n; i++)
        sum += weights[i] * position[0] * my_level;
}
#define ASK_FIELDS(F) F(SCALAR, int32_t, which)
PGAS_HANDLER_ARGS_RETURN(ask, ASK_FIELDS, box)
{
    result->side[0] = which;
}
PGAS_HANDLER_ARGS_BLOCKING(later, ASK_FIELDS)
{
    sum += which + pgas_thread_rank(source);
}
PGAS_HANDLER_ARGS_BLOCKING_RETURN(ask_later, ASK_FIELDS, box)
{
    result->side[1] = which;
}
PGAS_HANDLER_ARGS_DECLARE(there, ASK_FIELDS);
PGAS_HANDLER_ARGS_DECLARE(here, ASK_FIELDS);
PGAS_HANDLER_ARGS_DEFINE(here, ASK_FIELDS)
{
}
PGAS_HANDLER_ARGS_DECLARE(here_later, ASK_FIELDS);
PGAS_HANDLER_ARGS_DEFINE_BLOCKING(here_later, ASK_FIELDS)
{
    sum += which;
}
PGAS_HANDLER_ARGS_DECLARE_RETURN(replies, ASK_FIELDS, box);
PGAS_HANDLER_ARGS_DEFINE_RETURN(replies, ASK_FIELDS, box)
{
    result->side[2] = which;
}
PGAS_HANDLER_ARGS_DECLARE_RETURN(replies_later, ASK_FIELDS, box);
PGAS_HANDLER_ARGS_DEFINE_BLOCKING_RETURN(replies_later, ASK_FIELDS, box)
{
    result->side[2] = which;
}
int use(double *d, box_t *b, shape_t *s);
int use(double *d, box_t *b, shape_t *s)
{
    pgas_archive_t r = PGAS_ARCHIVE_INIT;
    pgas_sync_t done = PGAS_SYNC_INIT;
    pgas_call_opts_t o = PGAS_CALL_OPTS_INIT;
    const char *label = "a text";
    int64_t k = 7;
    int n = pgas_call_step(0, 1, d, label, d, 3, &k, b, b, b, 2, NULL, 1, s, NULL, &mine, &done);
    n += pgas_call_step_to(pgas_on_rank(0), 1, d, "b", NULL, 0, NULL, b, b, NULL, 0, b, 2, s, NULL, &mine, &o);
    n += pgas_call_return_ask(0, 5, b) + pgas_call_return_nb_ask(0, 5, &r, &done) + pgas_result_ask(&r, b);
    n += pgas_call_later(0, 5, NULL) + pgas_call_return_ask_later(0, 5, b) + pgas_call_there(0, 1, NULL);
    $4
    return n;
}
END
    # shellcheck disable=SC2086
    $1 -std="$2" $3 -fsyntax-only -I"$TOP/include" $MPI_CPPFLAGS "$scratch/x.$suffix"
}

wrong=(
    'n += pgas_call_later(0, NULL);'
    'n += pgas_call_later(0, 1, 2, NULL);'
    'n += pgas_call_later(0, *b, NULL);'
    'n += pgas_call_return_ask(0, 5, s);'
    'n += pgas_call_return_later(0, 5, b);'
    'n += pgas_result_ask(&r, d);'
    'n += pgas_call_step(0, 1, &k, label, d, 3, &k, b, b, b, 2, NULL, 1, s, NULL, &mine, NULL);'
    'n += pgas_call_step(0, 1, d, label, &k, 3, &k, b, b, b, 2, NULL, 1, s, NULL, &mine, NULL);'
    'n += pgas_call_step(0, 1, d, label, d, 3, d, b, b, b, 2, NULL, 1, s, NULL, &mine, NULL);'
    'n += pgas_call_step(0, 1, d, label, d, 3, &k, s, b, b, 2, NULL, 1, s, NULL, &mine, NULL);'
    'n += pgas_call_step(0, 1, d, label, d, 3, &k, b, b, d, 2, NULL, 1, s, NULL, &mine, NULL);'
    'n += pgas_call_step(0, 1, d, label, d, 3, &k, b, b, b, 2, NULL, 1, b, NULL, &mine, NULL);'
    'n += pgas_call_step(0, 1, d, label, d, 3, &k, b, b, b, 2, NULL, 1, s, d, &mine, NULL);'
    'n += pgas_call_step(0, 1, d, label, d, 3, &k, b, b, b, 2, NULL, 1, s, NULL, d, NULL);'
)
compilers="$CC c++"
if command -v clang >/dev/null; then compilers+=" clang"; fi
if command -v clang++ >/dev/null; then compilers+=" clang++"; fi
plan $(($(wc -w <<<"$compilers") * 4 + 2 * ${#wrong[@]}))

for compiler in $compilers; do
    case $compiler in
    *++) languages='c++11 c++14 c++17 c++20' strict="$STRICT -Wold-style-cast" ;;
    *) languages='c99 c11 c17 gnu11' strict="$STRICT -Wmissing-prototypes -Wstrict-prototypes" ;;
    esac
    for language in $languages; do
        succeeds "$compiler, $language: no warning" compiles "$compiler" $language "$strict" ''
    done
done
for language in c11 c++11; do
    compiler=$CC flags=-Werror=implicit-function-declaration
    if [ $language = c++11 ]; then compiler=c++ flags=; fi
    for statement in "${wrong[@]}"; do
        fails "$language: $statement" compiles "$compiler" $language "$flags" "$statement"
    done
done
done_testing
