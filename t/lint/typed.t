#!/usr/bin/env bash
# what: Calls of typed handlers compile as C99, C11 and C++11 with pedantic warnings as errors. Calls with another type,
#       too few or too many arguments, or a handler of another type do not compile, also where warnings are not errors.
# needs: command:c++
# source: pgas/typed.h
set -u
. "$(dirname "$0")/../tap.sh"
make_scratch

# compiles LANGUAGE FLAGS STATEMENT
compiles() {
    local compiler=$CC suffix=c
    case $1 in *++*) compiler=c++ suffix=cc ;; esac
    cat >"$scratch/x.$suffix" <<END
#include <pgas/typed.h>
typedef struct { int64_t amount; } money_t;
typedef struct { double x; } point_t;
PGAS_HANDLER_DECLARE(deposit, money_t);
PGAS_HANDLER_DECLARE_RETURN(ask, point_t, money_t);
PGAS_HANDLER_DECLARE(number, int32_t);
PGAS_HANDLER_DEFINE(deposit, money_t)
{
    (void)source, (void)context;
    ((money_t *)context)->amount += arg->amount;
}
PGAS_HANDLER_DEFINE_RETURN(ask, point_t, money_t)
{
    money_t m;
    (void)source, (void)context;
    m.amount = (int64_t)arg->x;
    return m;
}
int use(void);
int use(void)
{
    money_t m = { 5 };
    point_t p = { 1.5 };
    int32_t i = 7;
    pgas_call_opts_t o = PGAS_CALL_OPTS_INIT;
    int s = pgas_register_deposit(&m) + pgas_register_ask(NULL);
    s += pgas_call_deposit(0, &m, NULL) + pgas_call_deposit_to(0, &m, &o) + pgas_call_deposit_all(&m, PGAS_SCOPE_RANKS, &o);
    s += pgas_call_return_ask(0, &p, &m, NULL) + pgas_call_number(0, &i, NULL);
    $3
    return s;
}
END
    # shellcheck disable=SC2086
    $compiler -std="$1" $2 -fsyntax-only -I"$TOP/include" $MPI_CPPFLAGS "$scratch/x.$suffix"
}

wrong=(
    's += pgas_call_deposit(0, &p, NULL);'
    's += pgas_call_deposit(0, m, NULL);'
    's += pgas_call_deposit(0, &m);'
    's += pgas_call_deposit(0, &m, 8, NULL);'
    's += pgas_call_deposit_to(0, &p, &o);'
    's += pgas_call_deposit_all(&p, PGAS_SCOPE_RANKS, &o);'
    's += pgas_call_return_ask(0, &p, &p, NULL);'
    's += pgas_call_return_ask(0, &m, &m, NULL);'
    's += pgas_call_return_deposit(0, &m, &m, NULL);'
    's += pgas_call_number(0, &m, NULL);'
    's += pgas_call_withdraw(0, &m, NULL);'
)
languages='c99 c11 c++11'
plan $((3 * (1 + ${#wrong[@]})))
for language in $languages; do
    flags='-pedantic -Wall -Wextra -Wshadow -Werror'
    succeeds "right calls as $language" compiles $language "$flags" ''
    for statement in "${wrong[@]}"; do
        flags=
        if [ $language != c++11 ]; then flags=-Werror=implicit-function-declaration; fi
        fails "$language: $statement" compiles $language "$flags" "$statement"
    done
done
done_testing
