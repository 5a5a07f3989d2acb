# Judges the TAP stream of one run and passes it on, renumbered and marked, for t/launch to merge with other runs.
# In:   -v label=TEXT     put before every description ("" for none)
#       -v from=N         numbers already used
#       -v verdict=WORD   how the run ended: an exit status, or hang:SECONDS
#       -v errors=FILE    the standard error of the run
#       -v allowed=FILE   regular expressions of log lines that the test announced, one per line
#       -v forgiving=1    the MPI itself is known to hang at its end here (t/launch says where)
# Out:  TAP lines without a plan, then a last line "= N FAILED": numbers used now, points that failed.
# Beside the run's own points there is at most one for a bad end (launcher, hang, crash, plan) and one for the log.

function emit(good, text) {
    printf "%sok %d - %s%s\n", good ? "" : "not ", ++from, label == "" ? "" : label ": ", text
    if (!good && text !~ /# TODO/) failed++
}

function note(text) {
    if (++n_notes <= 200) print "# " text
    else if (n_notes == 201) print "# ... more lines of output are in the files of the run only"
}

# A description without its number and dash.
function description(line) {
    sub(/^(not )?ok */, "", line)
    sub(/^[0-9]+ */, "", line)
    sub(/^- */, "", line)
    return line
}

function bad_number(line) {
    sub(/^(not )?ok */, "", line)
    return line ~ /^[0-9]/ && line + 0 != n_run
}

/^1\.\.0/ {
    reason = $0
    sub(/^1\.\.0 *(# *[Ss][Kk][Ii][Pp][A-Za-z]*)? */, "", reason)
    skipped_all = 1
    n_plans++
    emit(1, "all # SKIP " (reason == "" ? "no reason given" : reason))
    next
}
/^1\.\.[0-9]+/ {
    n_plans++
    if (n_run > 0) late_plan = 1
    planned = substr($0, 4) + 0
    next
}
/^(not )?ok($|[^A-Za-z0-9])/ {
    n_run++
    ended = 0
    if (bad_number($0)) disorder = 1
    emit($0 ~ /^ok/, description($0))
    next
}
/^Bail out!/ {
    if (bail == "") bail = substr($0, 11)
    next
}
/^#/ {
    if (/^# ended: /) ended = 1
    print
    next
}
/./ { note($0) }

function signal_of(status) {
    return status > 128 && status < 160 ? " (signal " status - 128 ")" : ""
}

# A hang after `# ended: ..` (t/spmd/job.h) and after the last point is not the library's: it has ended on every rank.
function forgive() {
    if (verdict !~ /^hang:/ || !forgiving || !ended || n_run != planned) return
    note("forgiven: MPI_Finalize or the launcher hung after the library had ended; killed after " substr(verdict, 6) " s")
    verdict = 0
}

# The one thing to say about how the run ended; "" if there is nothing.
function trouble() {
    progress = " after " n_run + 0 " of " (n_plans ? planned : "an unknown number of") " points"
    if (bail != "") return "bail out: " bail
    if (verdict ~ /^hang:/) return "hang: killed after " substr(verdict, 6) " s," progress
    if (verdict + 0 == 127 && n_run == 0) return "could not be started"
    if (verdict + 0 > 128) return "crash" progress signal_of(verdict + 0)
    if (skipped_all) return verdict + 0 != 0 ? "exit status " verdict " after skipping" : ""
    if (n_plans == 0 && verdict + 0 != 0) return "crash before the plan, exit status " verdict
    if (n_plans == 0) return "no plan"
    if (n_plans > 1) return "more than one plan"
    if (late_plan) return "the plan does not come first"
    if (n_run > planned) return "plan exceeded: ran " n_run ", planned " planned
    if (n_run < planned) return "stopped" progress ", exit status " verdict
    if (disorder) return "points are out of order"
    if (verdict + 0 != 0 && failed == failed_before) return "all points passed but exit status is " verdict
    return ""
}

# Lines of our log at warn and above, of UCX's log, and reports of sanitizers.
function suspicious(line) {
    return line ~ /^(-|[0-9]+)\/(-|[0-9]+) [^ ]+ [^ ]+: (warn|warning|error|fatal)/ ||
        line ~ /UCX +(WARN|ERROR|FATAL)/ ||
        line ~ /(ERROR|WARNING): [A-Za-z]*Sanitizer|: runtime error: /
}

function announced(line,    i) {
    for (i = 1; i <= n_allowed; i++)
        if (line ~ allowed_pattern[i]) return 1
    return 0
}

BEGIN {
    failed_before = failed = 0
    while (allowed != "" && (getline line < allowed) > 0) allowed_pattern[++n_allowed] = line
}

END {
    forgive()
    text = trouble()
    if (text != "") emit(0, text)
    while (errors != "" && (getline line < errors) > 0) {
        if (suspicious(line) && !announced(line)) {
            if (n_unexpected++ == 0) unexpected = line
        }
        note(line)
    }
    gsub(/#/, "", unexpected)
    if (n_unexpected > 0)
        emit(0, "unexpected log output: " unexpected (n_unexpected > 1 ? " (and " n_unexpected - 1 " more)" : ""))
    printf "= %d %d\n", from, failed
}
