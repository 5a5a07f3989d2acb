#!/usr/bin/env bash
# what: The page of concepts, include/pgas/pgas.h, is a program: its lines of code, put together, compile without warnings, run
#       on two ranks and end well.
# needs: no-sanitizers
# source: include/pgas/pgas.h
set -u
. "$(dirname "$0")/../tap.sh"
make_scratch

# code FILE: the indented lines of its first comment, without remarks; definitions (handlers, static data) go before main.
code() {
    "$AWK" '
        /\*\/$/ { exit }
        /^ \*      / {
            line = substr($0, 9)
            if (line ~ /^(PGAS_|static )/) defined = defined line "\n"
            else {
                indent = line; sub(/[^ ].*/, "", indent); sub(/^ +/, "", line)
                sub(/  +[a-zA-Z_0-9].*$/, "", line)
                body = body "    " indent line "\n"
            }
        }
        END { printf "#include <pgas/pgas.h>\n%sint main(void)\n{\n%s}\n", defined, body }' "$1"
}

plan 4
code "$TOP/include/pgas/pgas.h" >"$scratch/page.c"
succeeds "the page compiles" $CC -std=c99 -Wall -Wextra -Werror -Wno-unused-but-set-variable -o "$scratch/page" "$scratch/page.c" \
    -I"$TOP/include" $MPI_CPPFLAGS -L"$BUILD/.libs" -Wl,-rpath,"$BUILD/.libs" -lpgas
if [ "$(grep -c pgas_ "$scratch/page.c")" -gt 20 ]; then ok 0 "it has code"; else ok 1 "it has code"; fi
succeeds "and runs" mpirun_n 2 "$scratch/page"
sed 's/pgas_flush(right)/pgas_flosh(right)/' "$TOP/include/pgas/pgas.h" >"$scratch/bad.h"
code "$scratch/bad.h" >"$scratch/bad.c"
fails "a wrong name is caught" $CC -std=c99 -Werror -fsyntax-only "$scratch/bad.c" -I"$TOP/include" $MPI_CPPFLAGS
done_testing
