#!/usr/bin/env bash
# what: Values of types that are drawn at random are read as they were saved: 400,000 with the nested ones, with
#       PGAS_TEST_MATRIX=all 10^6.
# needs: no-sanitizers
# timeout: 200
# source: describe_random.awk writes the types, and comparisons of their members
set -u
. "$(dirname "$0")/../tap.sh"
make_scratch

here=$TOP/t/unit
seed=${TAP_SEED:-1}
compiler=${CC##*ccache }

# program SEED SED: 10 types, 200,000 values of them; SED changes the program
program() {
    {
        echo '#include "t/unit/describe_random.h"'
        "$AWK" -v seed="$1" -v n_types=10 -f "$here/describe_random.awk"
        cat <<'END'
int main(int n_args, char **arg)
{
    pgas_rma_info_t info = { .size = sizeof info };
    int n_bad = 0;
    state = strtoull(arg[n_args - 1], NULL, 10) * 2 + 1;
    while (n_drawn < 200000 && !n_bad)
        for (size_t i = 0; i < sizeof round_trip / sizeof round_trip[0]; i++)
            n_bad += round_trip[i]();
    puts(n_bad ? "different" : "same");
    return n_bad != 0 || pgas_rma_info(&info) != PGAS_OK || info.n_objects != 0;
}
END
    } | sed "$2" >"$scratch/x.c"
    $compiler -std=gnu11 -O1 -Wall -Wextra -Wshadow -Wconversion -Wno-unused-function -Werror -I"$TOP/include" -I"$TOP" \
        "$scratch/x.c" -o "$scratch/x" "$BUILD/.libs/libpgas.so" -Wl,-rpath,"$BUILD/.libs" && "$scratch/x" "$1"
}

n_programs=2
if [ "${PGAS_TEST_MATRIX:-}" = all ]; then n_programs=5; fi
plan $((n_programs + 1))
echo "# seed $seed"
for ((i = 1; i <= n_programs; i++)); do
    succeeds "10 types of seed $((seed * 100 + i))" program $((seed * 100 + i)) ""
done
program $((seed * 100 + 1)) 's/^ROUND_TRIP(type0)/#define same_type0(a, b) (same_n(0, 1), (void)(a), (void)(b))\n&/' >"$scratch/log" 2>&1
is "$(cat "$scratch/log")" different "a comparison that finds a difference fails"
done_testing
