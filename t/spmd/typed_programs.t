#!/usr/bin/env bash
# what: Typed handlers, also those with described arguments, are registered before main in every kind of program: of one file
#       and of two, in C++, linked with the shared and with the static library, and in a shared object that is loaded after
#       pgas_init. Ranks with different handlers get PGAS_ERR_MISMATCH and the name. pgas_init reports errors of the
#       registration.
# needs: no-sanitizers command:c++
# source: pgas/handler.h
set -u
. "$(dirname "$0")/../tap.sh"
make_scratch
cd "$scratch" || exit 1

cat >add.h <<'END'
#include <pgas/call_args.h>
#include <pgas/pgas.h>
#define TEXT_FIELDS(F) F(STRING, text) F(SCALAR, int64_t, value)
PGAS_STRUCT(text, TEXT_FIELDS)
#define LENGTH_FIELDS(F) F(STRING, text) F(VECTOR, int64_t, values, n)
#ifdef __cplusplus
extern "C" int64_t total;
#else
extern int64_t total;
#endif
PGAS_HANDLER_DECLARE(add, int64_t);
PGAS_HANDLER_DECLARE_RETURN(doubled, int64_t, int64_t);
PGAS_HANDLER_ARGS_DECLARE(add_all, LENGTH_FIELDS);
PGAS_HANDLER_ARGS_DECLARE_RETURN(length, LENGTH_FIELDS, text);
END
cat >add.c <<'END'
#include "add.h"
int64_t total;
PGAS_HANDLER_DEFINE(add, int64_t) { total += *arg; }
PGAS_HANDLER_DEFINE_RETURN(doubled, int64_t, int64_t) { return 2 * *arg; }
PGAS_HANDLER_ARGS_DEFINE(add_all, LENGTH_FIELDS)
{
    for (size_t i = 0; i < n; i++)
        total += values[i];
}
PGAS_HANDLER_ARGS_DEFINE_RETURN(length, LENGTH_FIELDS, text)
{
    result->value = (int64_t)(strlen(text) + n);
}
END

# Each rank calls the other one; the result is printed by rank 0. ONE_FILE: the handlers are here too.
cat >main.c <<'END'
#include <stdio.h>
#ifdef ONE_FILE
#include <pgas/call_args.h>
#include <pgas/pgas.h>
static int64_t total;
PGAS_HANDLER(add, int64_t) { total += *arg; }
PGAS_HANDLER_RETURN(doubled, int64_t, int64_t) { return 2 * *arg; }
#define TEXT_FIELDS(F) F(STRING, text) F(SCALAR, int64_t, value)
PGAS_STRUCT(text, TEXT_FIELDS)
#define LENGTH_FIELDS(F) F(STRING, text) F(VECTOR, int64_t, values, n)
PGAS_HANDLER_ARGS(add_all, LENGTH_FIELDS)
{
    for (size_t i = 0; i < n; i++)
        total += values[i];
}
PGAS_HANDLER_ARGS_RETURN(length, LENGTH_FIELDS, text)
{
    result->value = (int64_t)(strlen(text) + n);
}
#else
#include "add.h"
#endif
int main(void)
{
    int64_t five = 5, ten = 0, three[3] = { 100, 200, 300 };
    text_t length;
    if (pgas_init(NULL, NULL) != PGAS_OK)
        return 1;
    int other = 1 - pgas_rank();
    int n_bad = pgas_call_add(other, &five, NULL) != PGAS_OK;
    n_bad += pgas_call_add_all(other, "all", three, 3, NULL) != PGAS_OK || pgas_quiesce() != PGAS_OK;
    n_bad += pgas_call_return_doubled(other, &five, &ten) != PGAS_OK;
    n_bad += pgas_call_return_length(other, "four", three, 3, &length) != PGAS_OK;
    pgas_barrier(NULL);
    if (pgas_rank() == 0)
        printf("%d %d %d %d\n", n_bad, (int)total, (int)ten, (int)length.value);
    return pgas_finalize() == PGAS_OK ? 0 : 1;
}
END

# A program that loads an object, and agrees. Its argument says on which ranks.
cat >late.c <<'END'
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <pgas/pgas.h>
int main(int argc, char **argv)
{
    if (argc < 3 || pgas_init(NULL, NULL) != PGAS_OK)
        return 1;
    void *object = NULL;
    if (pgas_rank() <= atoi(argv[2]) && !(object = dlopen(argv[1], RTLD_NOW))) {
        fprintf(stderr, "%s\n", dlerror());
        return 1;
    }
    pgas_status_t status = pgas_handlers_agree();
    int64_t (*call)(int) = object ? (int64_t (*)(int))dlsym(object, "call_it") : NULL;
    int64_t result = status == PGAS_OK && call ? call(1 - pgas_rank()) : -1;
    if (pgas_rank() == 0)
        printf("%s %d\n", pgas_status_name(status), (int)result);
    pgas_barrier(NULL);
    return pgas_finalize() == PGAS_OK ? 0 : 1;
}
END
cat >object.c <<'END'
#include <pgas/pgas.h>
PGAS_HANDLER_RETURN(late_square, int64_t, int64_t) { return *arg * *arg; }
int64_t call_it(int rank);
int64_t call_it(int rank)
{
    int64_t seven = 7, result = 0;
    return pgas_call_return_late_square(rank, &seven, &result) == PGAS_OK ? result : -2;
}
END

# Ranks whose programs differ; a name in two files; a name that is too long. The program starts MPI, so that it can try twice.
cat >init.c <<'END'
#include <pgas/pgas.h>
#include <stdio.h>
#ifdef HANDLERS
HANDLERS
#endif
int main(void)
{
    int provided;
    MPI_Init_thread(NULL, NULL, MPI_THREAD_SERIALIZED, &provided);
    pgas_status_t status = pgas_init(NULL, NULL), again = pgas_init(NULL, NULL);
    printf("%s %s\n", pgas_status_name(status), pgas_status_name(again));
    return MPI_Finalize();
}
END
echo '#include <pgas/pgas.h>
PGAS_HANDLER(twin, int64_t) { }' >twin.c

COMPILE="-Wall -Werror -I$TOP/include -I. $MPI_CPPFLAGS"
SHARED="-L$BUILD/.libs -Wl,-rpath,$BUILD/.libs -lpgas $DEPENDENCY_LIBS"
STATIC="-Wl,--whole-archive $BUILD/.libs/libpgas_core.a -Wl,--no-whole-archive $DEPENDENCY_LIBS -lpthread -ldl -lm -lrt"
# shellcheck disable=SC2086
build() { "$CC" -o "$1" "${@:2}" $COMPILE $SHARED; }
# shellcheck disable=SC2086
build_cxx() { c++ -std=c++11 -o "$1" -x c++ "${@:2}" -x none $COMPILE $SHARED; }
# shellcheck disable=SC2086
build_static() { "$CC" -o "$1" "${@:2}" $COMPILE $STATIC; }

# log_lines TEXT OUTPUT: how many lines have the text.
log_lines() { grep -c "$1" <<<"$2"; }

plan 20
succeeds "one file builds" build one main.c -DONE_FILE
is "$(mpirun_n 2 ./one 2>&1)" "0 605 10 7" "and its handlers run"
succeeds "two files build" build two main.c add.c
is "$(mpirun_n 2 ./two 2>&1)" "0 605 10 7" "and so do theirs"
succeeds "C++ builds" build_cxx cxx main.c -DONE_FILE
is "$(mpirun_n 2 ./cxx 2>&1)" "0 605 10 7" "and so do its"
# Without optimization g++ emits landing pads for inlined functions, which need its library.
succeeds "a definition in C++ and a caller in C build" sh -c "c++ -std=c++11 -O1 -c -x c++ add.c -o add.o $COMPILE &&
    $CC -o mixed main.c add.o $COMPILE $SHARED"
is "$(mpirun_n 2 ./mixed 2>&1)" "0 605 10 7" "and so do theirs"
succeeds "the static library links" build_static static main.c add.c
is "$(mpirun_n 2 ./static 2>&1)" "0 605 10 7" "and so do theirs"

succeeds "an object builds" build object.so -shared -fPIC object.c
succeeds "and a program that loads it" build late late.c -ldl
is "$(mpirun_n 2 ./late "$PWD/object.so" 1 2>&1)" "PGAS_OK 49" "its handlers run after pgas_handlers_agree"
out=$(mpirun_n 2 ./late "$PWD/object.so" 0 2>&1)
missing="is registered on rank 0 but missing on rank 1"
is "$(log_lines "^PGAS_ERR_MISMATCH -1" "$out") $(log_lines "handler 'late_square' $missing" "$out")" "1 1" \
    "an object that a rank lacks: the ranks do not agree, and the log names the handler"

succeeds "programs with different handlers build" sh -c "
    $CC -o with init.c '-DHANDLERS=PGAS_HANDLER(only_here, int64_t) { }' $COMPILE $SHARED && $CC -o without init.c $COMPILE $SHARED"
printf '#!/bin/sh\nif [ "${OMPI_COMM_WORLD_RANK:-${PMI_RANK:-0}}" = 0 ]; then exec ./with; fi\nexec ./without\n' >differ
chmod +x differ
out=$(mpirun_n 2 ./differ 2>&1)
is "$(log_lines "^PGAS_ERR_MISMATCH PGAS_ERR_MISMATCH" "$out") $(log_lines "handler 'only_here' $missing" "$out")" "2 2" \
    "ranks with different handlers: pgas_init refuses, each time, and the log names the handler"
succeeds "a name in two files builds" build twice init.c twin.c '-DHANDLERS=PGAS_HANDLER(twin, int64_t) { }'
out=$(mpirun_n 2 ./twice 2>&1)
is "$(grep -c "^PGAS_ERR_EXISTS PGAS_ERR_EXISTS" <<<"$out") $(log_lines "handler 'twin' is defined twice" "$out")" "2 4" \
    "pgas_init refuses it, and names it"
long=$(printf 'x%.0s' {1..64})
succeeds "a name that is too long builds" build long init.c "-DHANDLERS=PGAS_HANDLER($long, int64_t) { }"
out=$(mpirun_n 2 ./long 2>&1)
is "$(grep -c "^PGAS_ERR_INVALID PGAS_ERR_INVALID" <<<"$out") $(log_lines "handler '$long' cannot be registered" "$out")" "2 4" \
    "and pgas_init refuses it"
done_testing
