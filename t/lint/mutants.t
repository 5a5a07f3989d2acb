#!/usr/bin/env bash
# what: t/mutants finds mistakes that tests do not notice, in a copy of the tree. t/mutants.tests names tests for each
#       file.
# needs: command:make
# source: a tree of one file with a test that sees one half of it
set -u
. "$(dirname "$0")/../tap.sh"
make_scratch
unset MAKEFLAGS MFLAGS MAKELEVEL

# A tree that t/mutants can build: configure and make as ours, but small.
tree=$scratch/tree
mkdir -p "$tree/src/base" "$tree/t/unit" "$tree/build/t"
cp "$TOP/t/launch" "$TOP/t/mutants" "$TOP/t/mutate.awk" "$TOP/t/tap.awk" "$tree/t/"
cat >"$tree/src/base/toy.c" <<'END'
/* One of 1 + 1 */
int seen(int a)
{
    return a - 1; /* 2 + 2 */
}

int unseen(int a)
{
    return a + 1;
}
END
cat >"$tree/t/unit/toy.c" <<'END'
/* what: one half of toy.c */
#include <stdio.h>
int seen(int a);
int main(void)
{
    int good = seen(3) == 2;
    printf("1..1\n%sok 1\n", good ? "" : "not ");
    return !good;
}
END
cat >"$tree/configure" <<'END'
#!/bin/sh
mkdir -p t/unit
sed 's/^SANITIZERS=.*/SANITIZERS=/' "$1" >t/config.sh
cat >Makefile <<'EOT'
CFLAGS = -O1
all: t/unit/toy.t
t/unit/toy.t: ../t/unit/toy.c ../src/base/toy.c; $(CC) $(CFLAGS) -o $@ ../t/unit/toy.c ../src/base/toy.c
EOT
END
chmod +x "$tree/configure"
printf '#!/bin/sh\necho "%s"\n' "'$BUILD/t/config.sh'" >"$tree/build/config.status"
chmod +x "$tree/build/config.status"
cp "$BUILD/t/config.sh" "$tree/build/t/"
echo 'src/base/* t/unit/toy.t' >"$tree/t/mutants.tests"
: >"$tree/t/mutants.equivalent"
mutants() { (cd "$tree/build" && CC=$CC BUILD=$tree/build "$tree/t/mutants" "$@" 2>&1); }

plan 10
before=$(cd "$tree" && find src t -type f -exec cksum {} +)
out=$(mutants --count 9)
status=$?
is "$(grep -cE '^killed +src/base/toy.c:4: .*  \(t/unit/toy.t\)$' <<<"$out")" 1 "a mistake that a test sees" || diag "$out"
is "$(grep -cE '^SURVIVED +src/base/toy.c:9: ' <<<"$out") $status" "1 1" "one that no test sees; too few are killed" || diag "$out"
is "$(tail -n 1 <<<"$out")" "2 mistakes, 1 killed, 1 survived, 0 equivalent: 50 % killed, seed 1" "what comes out"
is "$(cd "$tree" && find src t -type f -exec cksum {} +)" "$before" "the tree itself stays as it is"
for new in 'return a - 1;' 'return a + 2;' 'return a + 0;'; do
    printf 'src/base/toy.c\n  - return a + 1;\n  + %s\n  No test wants it.\n' "$new"
done >"$tree/t/mutants.equivalent"
out=$(mutants --count 9)
is "$? $(grep -c '^equivalent ' <<<"$out") $(grep -c '^SURVIVED' <<<"$out")" "0 1 0" "one that is listed with its reason is not counted" ||
    diag "$out"
sed -i '/No test/d' "$tree/t/mutants.equivalent"
is "$(mutants --list | grep -c '^equivalent ')" 0 "without a reason it is"
sed -i 's/== 2/== 9/' "$tree/t/unit/toy.c"
out=$(mutants)
is "$? $(grep -c 'fails without any mistake' <<<"$out")" "3 1" "a test that fails anyway proves nothing"

unlisted=$(cd "$TOP" && find src ucx_backend verbs_backend -name '*.c' | while read -r file; do
    while read -r pattern _; do
        # shellcheck disable=SC2053 # a pattern
        [[ -z $pattern || $pattern == '#'* || $file != $pattern ]] || continue 2
    done <t/mutants.tests
    echo "$file"
done)
empty "$unlisted" "every file has tests in t/mutants.tests"
known=$(make -s --no-print-directory -C "$BUILD" list-tests)
empty "$(sed '/^#/d' "$TOP/t/mutants.tests" | tr ' ' '\n' | grep '\.t$' | sort -u | grep -vxF "$known")" "all of which exist"
gone=$(cd "$TOP" && "$AWK" '
    /^#/ || !NF { next }
    /^[^ ]/ { file = $1; delete has; while ((getline line <file) > 0) { sub(/^ +/, "", line); has[line] } close(file) }
    /^  - / { line = substr($0, 5); if (!(line in has)) print file ": " line }' t/mutants.equivalent)
empty "$gone" "the lines of t/mutants.equivalent are in their files"
done_testing
