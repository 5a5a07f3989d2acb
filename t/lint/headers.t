#!/usr/bin/env bash
# what: each public header compiles alone as C99, C11 and C++11, with pedantic warnings as errors
# needs: command:c++
set -u
. "$(dirname "$0")/../tap.sh"
make_scratch

# compiles LANGUAGE HEADER-FOLDER HEADER
compiles() {
    local compiler=$CC suffix=c
    case $1 in *++*) compiler=c++ suffix=cc ;; esac
    # Two inclusions: the guard works. The last line keeps the file from being empty.
    printf '#include <%s>\n#include <%s>\nextern int not_empty;\n' "$3" "$3" >"$scratch/x.$suffix"
    $compiler -std="$1" -pedantic -Wall -Wextra -Wshadow -Werror -fsyntax-only -I"$2" $MPI_CPPFLAGS "$scratch/x.$suffix"
}

headers=$(cd "$TOP/include" && find pgas -name '*.h' | LC_ALL=C sort)
plan $((3 * $(wc -w <<<"$headers") + 3))
for header in $headers; do
    for language in c99 c11 c++11; do
        succeeds "$header as $language" compiles $language "$TOP/include" "$header"
    done
done

mkdir -p "$scratch/pgas"
echo 'size_t pgas_x(void);' >"$scratch/pgas/lacks.h"
fails "a header that lacks an include is caught" compiles c11 "$scratch" pgas/lacks.h
printf 'struct pgas_x { int class; };\n' >"$scratch/pgas/words.h"
fails "a word of C++ is caught" compiles c++11 "$scratch" pgas/words.h
printf '_Static_assert(1, "");\n' >"$scratch/pgas/new.h"
fails "C11 in a C99 header is caught" compiles c99 "$scratch" pgas/new.h
done_testing
