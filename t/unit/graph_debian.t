#!/usr/bin/env bash
# what: tools/debian-graph writes each dependency of each package once, and exits with 77 where there is nothing to
#       read.
# source: public headers
set -u
. "$(dirname "$0")/../tap.sh"
make_scratch
tool=$TOP/tools/debian-graph

# graph_of TEXT: the lines for these records, with tabs as >, on one line.
graph_of() { printf '%b' "$1" | "$tool" - | tr '\t' '>' | paste -sd ' '; }

plan 17
is "$(graph_of 'Package: a\nDepends: b\n')" "a>b" "a dependency"
is "$(graph_of 'Package: a\n')" "a" "a package without any is a line with one name"
is "$(graph_of 'Package: a\nDepends: b (>= 1.0~rc1), c:any, d:amd64 (= 2), e [linux-any]\n')" "a>b a>c a>d a>e" \
    "no versions, no architectures"
is "$(graph_of 'Package: a\nDepends: b | c, d (>= 1) | e\n')" "a>b a>d" "the first of alternatives"
is "$(graph_of 'Package: a\nPre-Depends: b\nRecommends: x\nSuggests: y\nDepends: c\nBreaks: z\n')" "a>b a>c" \
    "Depends and Pre-Depends, nothing else"
is "$(graph_of 'Package: a\nDepends: b, c, b (<< 2)\nPre-Depends: c\n')" "a>b a>c" "each once"
is "$(graph_of 'Package: a\nDepends: b,\n c,\n d\nDescription: x\n e, f\n')" "a>b a>c a>d" "folded lines of this field only"
is "$(graph_of 'Package: a\nDepends: b\n\nPackage: a\nDepends: b, c\n\nPackage: d\n\nPackage: d\n')" "a>b a>c d" \
    "versions of a package are one package"
is "$(graph_of 'Package: g++\nDepends: libstdc++-12-dev, 0ad.data\n')" "g++>libstdc++-12-dev g++>0ad.data" "odd names"
is "$(graph_of '\n\nPackage: a\n\n\n\nPackage: b')" "a b" "empty lines, no last line end"

printf 'Package: a\n' >"$scratch/one"
printf 'Package: b\nDepends: a\n' >"$scratch/two"
is "$("$tool" "$scratch/one" "$scratch/two" | tr '\t' '>' | paste -sd ' ')" "a b>a" "several files"

mkdir "$scratch/lists" "$scratch/empty"
printf 'Package: a\nDepends: b\n' >"$scratch/lists/x_Packages"
printf 'Package: c\n' | gzip >"$scratch/lists/y_Packages.gz"
is "$(DEBIAN_GRAPH_LISTS=$scratch/lists "$tool" | tr '\t' '>' | paste -sd ' ')" "a>b c" "apt's lists, packed or not"
out=$(DEBIAN_GRAPH_LISTS=$scratch/empty "$tool" 2>&1 >"$scratch/out")
is $? 77 "empty lists: exit status 77"
is "$out$(cat "$scratch/out")" "debian-graph: no packages in $scratch/empty: run apt-get update (Debian and Ubuntu)" \
    "and the cure, on standard error only"
"$tool" "$scratch/missing" 2>/dev/null
is $? 1 "a missing file: exit status 1"
"$tool" --wrong 2>/dev/null
is $? 2 "an unknown option: exit status 2"

if [ -n "$("$tool" 2>/dev/null | head -n 1)" ]; then
    "$tool" >"$scratch/debian"
    if [ "$(wc -l <"$scratch/debian")" -gt 10000 ] && [ -z "$(sort "$scratch/debian" | uniq -d)" ] &&
        [ -z "$(LC_ALL=C grep -vE "^[A-Za-z0-9.+-]+($(printf '\t')[A-Za-z0-9.+-]+)?$" "$scratch/debian")" ]; then
        ok 0 "this machine's packages: thousands of lines, none twice, nothing but names"
    else ok 1 "this machine's packages: thousands of lines, none twice, nothing but names"; fi
else skip 1 "no apt lists here"; fi
done_testing
