#!/usr/bin/env bash
# what: Typed handlers and methods compile in C99 to C17 and C++11 to C++20 with the strictest warnings as errors, with each compiler
#       here. Calls with another type, too few or too many arguments, a handler of another type, and arguments that cannot be
#       copied as bytes do not compile, also where warnings are not errors.
# needs: command:c++
# source: pgas/handler.h, pgas/object.h
set -u
. "$(dirname "$0")/../tap.sh"
make_scratch

STRICT='-pedantic -Wall -Wextra -Wshadow -Wconversion -Wmissing-declarations -Werror'

# compiles COMPILER LANGUAGE FLAGS STATEMENT [DECLARATION]
compiles() {
    local suffix=c
    case $2 in *++*) suffix=cc ;; esac
    cat >"$scratch/x.$suffix" <<END
#include <pgas/pgas.h>
typedef struct { int64_t amount; } money_t;
typedef struct { double x; } point_t;
static int64_t balance;
int rank, sync, target, opts, agg, result, args, bytes, stride, n, i, at, context, reply; /* -Wshadow */
PGAS_HANDLER(deposit, money_t)
{
    balance += arg->amount;
}
PGAS_HANDLER_BLOCKING(wait_here, money_t)
{
    balance += arg->amount * pgas_thread_rank(source);
}
PGAS_HANDLER_RETURN(ask, point_t, money_t)
{
    money_t m;
    m.amount = (arg->x > 1) ? 1 : 0;
    return m;
}
PGAS_HANDLER_BLOCKING_RETURN(ask_later, int32_t, int64_t)
{
    return *arg;
}
PGAS_HANDLER(nothing, int32_t)
{
}
PGAS_HANDLER_DECLARE(number, int32_t);
PGAS_HANDLER_DECLARE_RETURN(half, int32_t, double);
PGAS_HANDLER_DECLARE(defined, int32_t);
PGAS_HANDLER_DEFINE(defined, int32_t)
{
    balance += *arg;
}
PGAS_HANDLER_DECLARE_RETURN(replies, int32_t, int32_t);
PGAS_HANDLER_DEFINE_RETURN(replies, int32_t, int32_t)
{
    return *arg;
}
PGAS_HANDLER_DECLARE(defined_later, int32_t);
PGAS_HANDLER_DEFINE_BLOCKING(defined_later, int32_t)
{
    balance += *arg;
}
PGAS_HANDLER_DECLARE_RETURN(replies_later, int32_t, int32_t);
PGAS_HANDLER_DEFINE_BLOCKING_RETURN(replies_later, int32_t, int32_t)
{
    return *arg;
}
PGAS_METHOD(take, money_t, int32_t, int64_t)
{
    object->amount -= *arg;
    return object->amount;
}
PGAS_METHOD_DECLARE(give, money_t, int32_t, int64_t);
PGAS_METHOD_DEFINE(give, money_t, int32_t, int64_t)
{
    return object->amount += *arg;
}
${5:-}
int use(pgas_agg_t *a);
int use(pgas_agg_t *a)
{
    money_t m = { 5 };
    point_t p = { 1.5 };
    int32_t k = 7;
    double d;
    pgas_call_opts_t o = PGAS_CALL_OPTS_INIT;
    int s = pgas_call_deposit(0, &m, NULL) + pgas_call_deposit_to(pgas_on_rank(0), &m, &o) + pgas_agg_deposit(a, 0, &m);
    s += pgas_agg_deposit_to(a, pgas_on_rank(0), &m, &o);
    s += pgas_call_return_ask(0, &p, &m) + pgas_call_return_nb_ask(0, &p, &m, NULL) + pgas_call_number(0, &k, NULL);
    s += pgas_call_return_half(0, &k, &d);
    s += pgas_object_call_take(1, &k, &m.amount) + pgas_object_call_give(1, &k, &m.amount);
    $4
    return s;
}
END
    # shellcheck disable=SC2086
    $1 -std="$2" $3 -fsyntax-only -I"$TOP/include" $MPI_CPPFLAGS "$scratch/x.$suffix"
}

wrong=(
    's += pgas_call_deposit(0, &p, NULL);'
    's += pgas_call_deposit(0, m, NULL);'
    's += pgas_call_deposit(0, &m);'
    's += pgas_call_deposit(0, &m, 8, NULL);'
    's += pgas_call_deposit_to(pgas_on_rank(0), &p, &o);'
    's += pgas_agg_deposit(a, 0, &p);'
    's += pgas_agg_deposit_to(a, pgas_on_rank(0), &p, &o);'
    's += pgas_call_return_ask(0, &p, &p);'
    's += pgas_call_return_ask(0, &m, &m);'
    's += pgas_call_return_nb_ask(0, &m, &m, NULL);'
    's += pgas_call_return_deposit(0, &m, &m);'
    's += pgas_call_number(0, &m, NULL);'
    's += pgas_call_withdraw(0, &m, NULL);'
    's += pgas_object_call_take(1, &m, &m.amount);'
    's += pgas_object_call_take(1, &k, &k);'
)
compilers="$CC c++"
if command -v clang >/dev/null; then compilers+=" clang"; fi
if command -v clang++ >/dev/null; then compilers+=" clang++"; fi
n_compilers=$(wc -w <<<"$compilers")
plan $((n_compilers * 4 + 3 * (1 + ${#wrong[@]}) + 1))

for compiler in $compilers; do
    case $compiler in
    *++) languages='c++11 c++14 c++17 c++20' strict="$STRICT -Wold-style-cast" ;;
    *) languages='c99 c11 c17 gnu11' strict="$STRICT -Wmissing-prototypes -Wstrict-prototypes" ;;
    esac
    for language in $languages; do
        succeeds "$compiler, $language: no warning" compiles "$compiler" $language "$strict" ''
    done
done
for language in c99 c11 c++11; do
    compiler=$CC flags=-Werror=implicit-function-declaration
    if [ $language = c++11 ]; then compiler=c++ flags=; fi
    for statement in "${wrong[@]}"; do
        fails "$language: $statement" compiles "$compiler" $language "$flags" "$statement"
    done
    fails "$language: an argument that is aligned to 16" compiles "$compiler" $language "$flags" '' \
        'PGAS_HANDLER(wide, long double) { }'
done
fails "c++11: an argument with a constructor" compiles c++ c++11 '' '' \
    'struct copied { copied(const copied &); int32_t x; }; PGAS_HANDLER(copies, copied) { }'
done_testing
