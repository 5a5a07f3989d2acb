#!/usr/bin/env bash
# what: README stays short, its program builds and prints what README shows, its table has every public header, and every file
#       that README, HACKING and docs/ name exists
# needs: no-sanitizers
# source: README.md
set -u
. "$(dirname "$0")/../tap.sh"
make_scratch

LINES=220
WIDTH=100

too_long() { "$AWK" -v lines=$LINES -v w=$WIDTH 'length > w { print FNR ": " length } FNR == lines + 1 { print "long" }' "$1"; }

# program README: the text between ```c and ```; shown README: what it prints, the line behind `mpirun ... dice`.
program() { "$AWK" '/^```c$/ { on = 1; next } /^```$/ { on = 0 } on' "$1"; }
shown() { "$AWK" 'on { sub(/^ +/, ""); print; exit } /^    \$ mpirun .*dice$/ { on = 1 }' "$1"; }

# headers_missing FILE: public headers that the table in FILE does not have.
headers_missing() {
    (cd "$TOP/include/pgas" && ls ./*.h) | sed 's,^\./,,' | while read -r header; do
        grep -q "^|.*\`$header\`.*|" "$1" || echo "$header"
    done
}

# lost FILE..: paths with a folder of ours in front, and targets of links, that do not exist. Paths with NAME or name stand for
# any file.
lost() {
    local file path
    for file; do
        {
            grep -oE '(^|[` (|,])(include|src|ucx_backend|verbs_backend|examples|benchmarks|tools|docs|t)/[A-Za-z0-9_./-]+' "$file" |
                sed -E 's/^[` (|,]//; s/[.,]+$//' | grep -vE '(name|NAME)([./]|$)|_$'
            grep -oE '\]\([^)#:]+\)' "$file" | sed -E 's/^..//; s/\)$//'
        } | sort -u | while read -r path; do
            # Programs and tests are named as the build names them.
            [ -e "$TOP/$path" ] || [ -e "$(dirname "$file")/$path" ] || [ -e "$TOP/${path%.t}.c" ] || echo "${file##*/}: $path"
        done
    done
}

plan 11
empty "$(too_long "$TOP/README.md")" "README has at most $LINES lines of at most $WIDTH columns"
program "$TOP/README.md" >"$scratch/dice.c"
succeeds "its program builds" $CC -Wall -Werror -o "$scratch/dice" "$scratch/dice.c" -I"$TOP/include" $MPI_CPPFLAGS \
    -L"$BUILD/.libs" -Wl,-rpath,"$BUILD/.libs" -lpgas
is "$(mpirun_n 2 "$scratch/dice")" "$(shown "$TOP/README.md")" "and prints what README shows"
empty "$(headers_missing "$TOP/README.md")" "its table has every public header"
unnamed=$(cd "$TOP" && for page in docs/*.md; do grep -q "($page)" README.md || echo "$page"; done)
empty "$unnamed" "it links every page of docs/"
empty "$(lost "$TOP"/README.md "$TOP"/docs/*.md)" "files that README and docs/ name exist"
empty "$(lost "$TOP/HACKING.md")" "files that HACKING names exist"

{
    printf '%0*d\n' $((WIDTH + 1)) 0
    printf '```c\nint main(void) { return x; }\n```\n'
    echo 'see `src/nothing.c` and [a page](docs/nothing.md)'
} >"$scratch/bad.md"
fails "a long line is caught" test -z "$(too_long "$scratch/bad.md")"
fails "a program that does not build is caught" $CC -xc -fsyntax-only - <<<"$(program "$scratch/bad.md")"
fails "a table without a header is caught" test -z "$(headers_missing "$scratch/bad.md")"
is "$(lost "$scratch/bad.md" | wc -l)" 2 "names of files that do not exist are caught"
done_testing
