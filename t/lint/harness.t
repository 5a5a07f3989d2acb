#!/usr/bin/env bash
# what: t/launch turns every bad end of a test into one clear `not ok`, and lets good tests pass.
# needs: no-sanitizers
# source: the fake tests below; the one of several ranks is t/lint/liar.c
# turn: waits
set -u
. "$(dirname "$0")/../tap.sh"
make_scratch

# fake NAME: makes a test script of standard input; its header may follow the first line.
fake() {
    { echo '#!/bin/bash'; cat; } >"$scratch/$1.t"
    chmod +x "$scratch/$1.t"
}

# launched NAME [SETTING..]: the stream that t/launch makes of it.
launched() {
    local name=$1
    shift
    env -u PGAS_TEST_MATRIX -u PGAS_TEST_SEED "$@" "$TOP/t/launch" "$scratch/$name.t" 2>&1
}

# reports NAME PATTERN DESCRIPTION [SETTING..]: exactly one not ok, which matches, and a plan that counts it.
reports() {
    local name=$1 pattern=$2 text=$3 out bad
    shift 3
    out=$(launched "$name" "$@")
    bad=$(grep '^not ok' <<<"$out")
    if [ "$(grep -c . <<<"$bad")" -eq 1 ] && grep -qE -- "$pattern" <<<"$bad" &&
        [ "$(grep -cE '^(not )?ok' <<<"$out")" = "$(sed -n 's/^1\.\.//p' <<<"$out")" ]; then
        ok 0 "$text"
    else
        ok 1 "$text"
        diag "$out"
    fi
}

# Leaves the stream in $out.
passes() {
    local name=$1 text=$2
    shift 2
    out=$(launched "$name" "$@")
    if grep -q '^1\.\.[1-9]' <<<"$out" && ! grep -q '^not ok' <<<"$out"; then ok 0 "$text"; else
        ok 1 "$text"
        diag "$out"
    fi
}

plan 40

fake good <<<'echo 1..2; echo ok 1 - a; echo "ok 2 - b"'
passes good "a good test passes"
fake fails <<<'echo 1..2; echo ok 1 - a; echo "not ok 2 - broken promise"; exit 1'
reports fails 'broken promise' "a failing point is passed on once"
fake crash <<<'echo 1..2; echo ok 1 - a; kill -SEGV $$'
reports crash 'crash after 1 of 2 points \(signal 11\)' "a crash"
fake early <<<'kill -SEGV $$'
reports early 'crash' "a crash before the plan"
fake status <<<'echo 1..1; echo ok 1; exit 3'
reports status 'exit status is 3' "a bad exit status after good points"
fake noplan <<<'echo ok 1 - a'
reports noplan 'no plan' "a missing plan"
fake empty <<<'exit 0'
reports empty 'no plan' "a test that prints nothing"
fake late <<<'echo ok 1; echo 1..1'
reports late 'plan does not come first' "a plan after the points"
fake twice <<<'echo 1..1; echo 1..1; echo ok 1'
reports twice 'more than one plan' "two plans"
fake more <<<'echo 1..1; echo ok 1; echo ok 2'
reports more 'plan exceeded' "more points than planned"
fake fewer <<<'echo 1..3; echo ok 1; echo ok 2'
reports fewer 'stopped after 2 of 3' "fewer points than planned"
fake disorder <<<'echo 1..2; echo ok 2; echo ok 1'
reports disorder 'out of order' "points out of order"
fake bail <<<'echo 1..2; echo ok 1; echo Bail out! no more paper; exit 99'
reports bail 'no more paper' "bailing out"
fake hang <<<'echo 1..2; echo ok 1; sleep 600 & setsid sleep 600 & echo $! >'"$scratch/other"'; sleep 600'
reports hang 'hang: killed after 1 s, after 1 of 2' "a hang" PGAS_TEST_TIMEOUT=1
other=$(cat "$scratch/other")
is "$(ps -o stat= -p "$other" | grep -v Z)" "" "and what it started in another session is ended too"
kill -KILL "$other" 2>/dev/null

# An MPI that hangs at its end, of which t/launch knows: MPICH between hosts.
mkdir -p "$scratch/mpich/t" "$scratch/openmpi/t"
for flavor in mpich openmpi; do
    sed "s/^MPI_FLAVOR=.*/MPI_FLAVOR=$flavor/" "$BUILD/t/config.sh" >"$scratch/$flavor/t/config.sh"
done
between_hosts=(CLUSTER_HOSTS=h0,h1 PGAS_TEST_TIMEOUT=1)
fake mpi_hangs <<<'echo 1..2; echo ok 1; echo ok 2; echo "# ended: on every rank"; exec sleep 600'
passes mpi_hangs "a hang of MPICH between hosts is forgiven once the library has ended" \
    BUILD="$scratch/mpich" "${between_hosts[@]}"
is "$(grep -c '^# forgiven: ' <<<"$out")" 1 "and is reported"
launched mpi_hangs BUILD="$scratch/mpich" CLUSTER_HOSTS=h0,h1 PGAS_TEST_TIMEOUT=6 >"$scratch/out"
is "$(grep -cE '^# forgiven: .* [1-5] s$' "$scratch/out")" 1 "and is not waited for as long as a test"
reports mpi_hangs 'hang: killed after 1 s, after 2 of 2' "not on one host" BUILD="$scratch/mpich" PGAS_TEST_TIMEOUT=1
reports mpi_hangs 'hang: killed after 1 s, after 2 of 2' "not with Open MPI" BUILD="$scratch/openmpi" "${between_hosts[@]}"
fake ours_hangs <<<'echo 1..2; echo ok 1; echo "# ended: on every rank"; echo ok 2; exec sleep 600'
reports ours_hangs 'hang: killed after [0-9]+ s, after 2 of 2' "not if the library has been used again since" \
    BUILD="$scratch/mpich" "${between_hosts[@]}"
fake point_missing <<<'echo 1..2; echo ok 1; echo "# ended: on every rank"; exec sleep 600'
reports point_missing 'hang: killed after [0-9]+ s, after 1 of 2' "not if a point is missing" \
    BUILD="$scratch/mpich" "${between_hosts[@]}"

warning='0/2 host mem: warn: no huge pages'
fake log <<<"echo 1..1; echo ok 1; echo '$warning' >&2"
reports log 'unexpected log output: 0/2 host mem' "a warning in the log"
fake said <<EOT
# log: no huge (pages|ages)
echo 1..1; echo ok 1; echo '$warning' >&2
EOT
passes said "an announced warning is allowed"
fake info <<<"echo 1..1; echo ok 1; echo '0/2 host mem: info: all is well' >&2"
passes info "a line at level info is allowed"
fake sanitizer <<<"echo 1..1; echo ok 1; echo '==1==ERROR: AddressSanitizer: heap-use-after-free' >&2"
reports sanitizer 'AddressSanitizer' "the report of a sanitizer"

# Which tests run side by side. taken() counts those of the three places that are held.
turns=(-u TAP_HAS_TURN PGAS_TEST_TURNS="$scratch")
taken='taken() { for place in 1 2 3; do flock -n '$scratch'/.turn.$place true || echo $place; done | wc -l; }'
for name in one two; do
    other=$([ $name = one ] && echo two || echo one)
    fake $name <<EOT
echo 1..1
touch $scratch/\$(basename \$0 .t)
for ((i = 0; i < 100; i++)); do [ ! -e $scratch/$other ] || break; sleep 0.1; done
[ -e $scratch/$other ] && echo ok 1 || echo not ok 1
EOT
done
launched one "${turns[@]}" >"$scratch/one.out" &
passes two "two tests run side by side" "${turns[@]}"
wait
is "$(grep -c '^ok 1' "$scratch/one.out")" 1 "both of them"
fake usual <<<"$taken; echo 1..1; [ \$(taken) = 1 ] && echo ok 1 || echo not ok 1"
passes usual "a test takes one place" "${turns[@]}"
fake alone <<EOT
# turn: alone
$taken; echo 1..1; [ \$(taken) = 3 ] && echo ok 1 || echo not ok 1
EOT
passes alone "one that asks to be alone takes all three" "${turns[@]}"
fake waits <<EOT
# turn: waits
$taken; echo 1..1; [ \$(taken) = 3 ] && echo ok 1 || echo not ok 1
EOT
exec 8>"$scratch/.turn.1" 9>"$scratch/.turn.2"
flock 8 && flock 9
passes waits "one that mostly waits runs as the third beside two" "${turns[@]}"
exec 8>&- 9>&-

fake need <<EOT
# needs: telepathy
echo 1..1; echo ok 1
EOT
reports need 'telepathy' "a need that nobody knows"
fake absent <<EOT
# needs: command:no-such-command
echo 1..1; echo not ok 1
EOT
is "$(launched absent)" "1..0 # SKIP no no-such-command here" "a missing command skips with the reason"

fake lists <<EOT
# np: 1 2
# nodes: 0 1 2
# env: A=1 | A=2
echo 1..0 "# SKIP \$TAP_NP/\${PGAS_NODE_MAXSIZE:-none}/\$A"
EOT
# A launcher that starts the command once, so that nothing is printed twice.
cat >"$scratch/once" <<'EOT'
#!/bin/bash
while [ "$1" != -n ]; do shift; done
shift 2
exec "$@"
EOT
chmod +x "$scratch/once"
seen() { launched lists MPIEXEC="$scratch/once" "$@" | sed -n 's/^ok.*# SKIP //p' | paste -sd ' '; }
is "$(seen)" "1/none/1 2/1/2 1/2/1" "the usual choice walks the lists side by side"
is "$(seen PGAS_TEST_MATRIX=short)" "2/none/1" "the short choice takes 2 and 3 ranks"
is "$(seen PGAS_TEST_MATRIX=all | wc -w)" 12 "all is every combination"

# A real SPMD program: the AND over ranks, the rank that fails, and a launcher of another MPI.
liar=$BUILD/t/lint/liar
out=$(TAP_NP=3 mpirun_n 3 "$liar" 2>/dev/null)
is "$(grep -c '^not ok 2' <<<"$out")" 1 "one rank's failure fails the promise, once"
case $out in
*"# rank 2 of 3: "*liar.c:*": got 2 (0x2), want 0 (0x0)"*) ok 0 "the failing rank, its line and its values are named" ;;
*) ok 1 "the failing rank, its line and its values are named"; diag "$out" ;;
esac
out=$(TAP_NP=2 "$liar" 2>/dev/null)
case $out in
*"launcher does not match the library"*) ok 0 "a foreign launcher is recognised" ;;
*) ok 1 "a foreign launcher is recognised"; diag "$out" ;;
esac

# A script that git ignores is in no other clone, though the makefiles name it.
if command -v git >/dev/null && git -C "$TOP" rev-parse --git-dir >/dev/null 2>&1; then
    empty "$(cd "$TOP" && find t -name '*.t' -exec grep -lI '^#!' {} + | git check-ignore --stdin)" \
        "git ignores no script of the suite"
else skip 1 "no git here"; fi
done_testing
