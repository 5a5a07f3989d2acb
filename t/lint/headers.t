#!/usr/bin/env bash
# what: Each public header compiles alone as C99, C11 and C++11, with pedantic warnings as errors. In C++ casts of C are
#       such warnings, also in the expansion of macros in a user's code.
# needs: command:c++
set -u
. "$(dirname "$0")/../tap.sh"
make_scratch

# compiles LANGUAGE HEADER-FOLDER HEADER
compiles() {
    local compiler=$CC suffix=c casts=
    case $1 in *++*) compiler=$CXX suffix=cc casts=-Wold-style-cast ;; esac
    # Two inclusions: the guard works. The last line keeps the file from being empty.
    printf '#include <%s>\n#include <%s>\nextern int not_empty;\n' "$3" "$3" >"$scratch/x.$suffix"
    $compiler -std="$1" -pedantic -Wall -Wextra -Wshadow $casts -Werror -fsyntax-only -I"$2" $MPI_CPPFLAGS "$scratch/x.$suffix"
}

# clang looks at casts also where the language is C, g++ does not.
CXX=c++
if command -v clang++ >/dev/null; then CXX=clang++; fi

# uses_macros COMPILER: what users write with macros of ours that cast.
uses_macros() {
    cat >"$scratch/x.cc" <<'END'
#include <pgas/pgas.h>
struct money { int64_t amount; };
PGAS_HANDLER_RETURN(ask, money, money)
{
    money m = { arg->amount + (source != 0) };
    return m;
}
pgas_gptr_t none = PGAS_NULL;
pgas_op_t add = PGAS_OP(PGAS_ADD, PGAS_F64);
END
    $1 -std=c++11 -pedantic -Wall -Wextra -Wold-style-cast -Werror -fsyntax-only -I"$TOP/include" $MPI_CPPFLAGS "$scratch/x.cc"
}

headers=$(cd "$TOP/include" && find pgas -name '*.h' | LC_ALL=C sort)
plan $((3 * $(wc -w <<<"$headers") + 6))
for header in $headers; do
    for language in c99 c11 c++11; do
        succeeds "$header as $language" compiles $language "$TOP/include" "$header"
    done
done
succeeds "macros in a user's code, with c++" uses_macros c++
succeeds "and with $CXX" uses_macros "$CXX"

mkdir -p "$scratch/pgas"
printf 'inline char pgas_x(int i) { return (char)i; }\n' >"$scratch/pgas/casts.h"
fails "a cast of C is caught" compiles c++11 "$scratch" pgas/casts.h
echo 'size_t pgas_x(void);' >"$scratch/pgas/lacks.h"
fails "a header that lacks an include is caught" compiles c11 "$scratch" pgas/lacks.h
printf 'struct pgas_x { int class; };\n' >"$scratch/pgas/words.h"
fails "a word of C++ is caught" compiles c++11 "$scratch" pgas/words.h
printf '_Static_assert(1, "");\n' >"$scratch/pgas/new.h"
fails "C11 in a C99 header is caught" compiles c99 "$scratch" pgas/new.h
done_testing
