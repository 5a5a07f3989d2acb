#!/usr/bin/env bash
# what: C files are as clang-format makes them. There are no tabs, long lines, trailing blanks or paths of one machine,
#       and each file ends with a newline. Examples stay short.
set -u
. "$(dirname "$0")/../tap.sh"
make_scratch

WIDTH=140   # of scripts
C_WIDTH=100 # of C, comments included
EXAMPLE_LINES=200

# texts FOLDER: all text files of ours under it, without what autogen.sh and builds make, also in place. Git knows; where
# there is none, names decide.
texts() {
    if [ -e "$1/.git" ] && command -v git >/dev/null; then
        (cd "$1" && git -c safe.directory="$(pwd)" ls-files -co --exclude-standard | while read -r f; do
            if [ -f "$f" ]; then echo "./$f"; fi
        done | LC_ALL=C sort | xargs -r grep -lI .)
        return
    fi
    (cd "$1" && find . \( -name .git -o -path './build*' -o -name _build -o -name _inst -o -name autom4te.cache \
        \
        -o -name 'libpgas-*' -o -name .deps -o -name .libs \) -prune -o -type f \
        ! -name configure ! -name 'configure~' ! -name aclocal.m4 ! -name Makefile.in ! -name 'config.h.in*' \
        ! -path './m4/l*.m4' ! -name Makefile ! -name 'config.*' ! -name libtool ! -name '*.l[ao]' ! -name '*.log' \
        ! -name '*.trs' ! -name pgas.pc ! -name stamp-h1 ! -path './build-aux/*' -print | LC_ALL=C sort | xargs -r grep -lI .)
}
is_code() { grep -E '\.([ch]|m4|ac|sh|awk|t)$|/(launch|mpirun|agent|check|quickstart|install-deps|run)$'; }
lines() { (cd "$1" && xargs -r grep -nE "$2" /dev/null); }

tabs() { texts "$1" | is_code | lines "$1" "$(printf '\t')" | head; }
trailing() { texts "$1" | grep -v '\.md$' | lines "$1" '[[:blank:]]$' | head; }
returns() { texts "$1" | lines "$1" "$(printf '\r')" | head; }
long() {
    texts "$1" | is_code |
        (cd "$1" && xargs -r "$AWK" -v w=$WIDTH -v c=$C_WIDTH \
            'length > (FILENAME ~ /\.[ch]$/ ? c : w) { print FILENAME ":" FNR ": " length }')
}
# clang-format's own words; only the version that the tree was formatted with agrees with it in every detail.
other_style() {
    texts "$1" | grep '\.[ch]$' | (cd "$1" && xargs -r clang-format --style="file:$TOP/.clang-format" --dry-run 2>&1) |
        grep warning | head
}
unended() { (cd "$1" && texts . | while read -r f; do [ -z "$(tail -c 1 "$f")" ] || echo "$f"; done); }
# The brackets keep this line from finding itself.
machine_paths() { texts "$1" | lines "$1" '(^|[^A-Za-z0-9_.])/(wor[k]|hom[e]|far[m])/' | head; }
# Hosts of packages, and folders for temporary files; tests make theirs below TMPDIR.
foreign_places() {
    local place='(^|[^A-Za-z0-9_.{%-])/(tm[p]|roo[t])(/|[^A-Za-z0-9_])'
    local host='(deb\.debia[n]|archive\.ubunt[u]|pypi|crates|npmjs|docker|ghcr)\.(org|com|io)'
    texts "$1" | grep -E '^\./(include|src|ucx_backend|verbs_backend|examples|benchmarks|tools)/' |
        lines "$1" "$place|$host" | head
}
big_examples() {
    (cd "$1" && find examples -name '*.c' -exec "$AWK" -v n=$EXAMPLE_LINES \
        'FNR == n + 1 { print FILENAME " has more than " n " lines" }' {} \; 2>/dev/null)
}

plan 18
for check in tabs trailing returns long unended machine_paths foreign_places big_examples; do
    empty "$($check "$TOP")" "the tree: no ${check//_/ }"
done

# One file that breaks every rule.
mkdir -p "$scratch/examples"
bad=$scratch/examples/bad.c
{
    printf '\tint x;\n'
    printf 'int y; \n'
    printf 'int z;\r\n'
    printf '%0*d\n' $((WIDTH + 1)) 0
    printf 'char *p = "/wor%s/main";\n' k
    printf 'char *q = "/tm%s/x";\n' p
    for ((i = 0; i < EXAMPLE_LINES; i++)); do echo; done
    printf 'int last;'
} >"$bad"
for check in tabs trailing returns long unended machine_paths foreign_places big_examples; do
    fails "${check//_/ } are caught" test -z "$($check "$scratch")"
done
case $(clang-format --version 2>&1) in
*' 14.'*)
    empty "$(other_style "$TOP")" "the tree: no other style"
    fails "other style is caught" test -z "$(other_style "$scratch")" ;;
*) skip 2 "clang-format 14 is not installed" ;;
esac
done_testing
