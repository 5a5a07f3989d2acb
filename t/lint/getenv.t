#!/usr/bin/env bash
# what: Only src/base/param reads the environment.
set -u
. "$(dirname "$0")/../tap.sh"
make_scratch

offenders() {
    (cd "$1" && find include src ./*_backend examples benchmarks tools -name '*.[ch]' ! -path 'src/base/param*.c' \
        -exec grep -nE '(^|[^A-Za-z0-9_])((secure_)?getenv[ \t]*\(|environ([^A-Za-z0-9_]|$))' {} + 2>/dev/null)
}

plan 3
empty "$(offenders "$TOP")" "the tree reads the environment in one place"

mkdir -p "$scratch/src/base" "$scratch/src/mem"
echo 'x = getenv("PGAS_X");' >"$scratch/src/base/param.c"
empty "$(offenders "$scratch")" "param may"
echo 'extern char **environ;' >"$scratch/src/mem/x.c"
echo 'if (secure_getenv ("X"))' >"$scratch/src/mem/y.c"
is "$(offenders "$scratch" | wc -l)" 2 "others are caught"
done_testing
