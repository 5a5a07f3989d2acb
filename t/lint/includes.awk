# Prints the #include lines that break the layering of the folders (HACKING.md, "Layers"): path:line: reason.
# Run from the top folder over relative paths, after floors.awk.

BEGIN {
    n = split("complex ctype errno inttypes limits math stdarg stdbool stddef stdint stdio stdlib string", names, " ")
    for (i = 1; i <= n; i++) standard[names[i] ".h"] = 1
}

function blame(reason) { print FILENAME ":" FNR ": " header ": " reason }

# Headers of other projects belong to one folder each.
function check_foreign() {
    if (top == "t") return
    ref = FILENAME ~ /^benchmarks\/ref_[^\/]*$/
    if (header == "mpi.h" && folder != "src/boot" && FILENAME != "include/pgas/init.h" && !ref)
        blame("MPI is src/boot's")
    if (header ~ /^pgas\/(init|pgas)\.h$/ && (folder == "src/base" || top ~ /_backend$/)) blame("it includes mpi.h")
    if (header ~ /^(hwloc\.h|hwloc\/)/ && folder != "src/boot") blame("hwloc is src/boot's")
    if (header ~ /^uc[pst]\// && top != "ucx_backend" && !ref) blame("UCX is ucx_backend's")
    if (header ~ /^infiniband\// && folder != "verbs_backend/queue") blame("verbs are verbs_backend/queue's")
    if (header == "omp.h" && top !~ /^(examples|benchmarks|tools)$/) blame("the library does not use OpenMP")
}

function check_ours() {
    other = folder_of(header ~ /^(ucx|verbs)_backend\// ? header : "src/" header)
    if (top == "include") {
        if (header !~ /^pgas\// && !(header in standard) && header != "mpi.h")
            blame("a public header includes public and standard headers")
    } else if (top == "src" || top ~ /_backend$/) {
        reason = objection(folder_of(FILENAME), other)
        if (other == "src/transport" && top != "src" && header != "transport/transport.h")
            reason = "a backend includes transport/transport.h alone"
        if (reason) blame(reason)
    } else if (top != "t" && (other != "" || header == "config.h"))
        blame("only public headers here")
    if (top != "t" && header ~ /^(t\/|tap\.h|spmd\.h)/) blame("test headers are for tests")
    if (top != "include" && top != "src" && header ~ /^pgas\/detail\//) blame("pgas/detail is for public headers")
}

/^([ \t]|\/\*[^*]*\*\/)*#([ \t]|\/\*[^*]*\*\/)*include([ \t]|\/\*[^*]*\*\/)*["<]/ {
    header = $0
    sub(/^[^"<]*["<]/, "", header)
    sub(/[">].*/, "", header)
    top = folder = FILENAME
    sub(/\/.*/, "", top)
    sub(/\/[^\/]*$/, "", folder)
    if (header ~ /(^|\/)\.\.?\//) blame("a path from the top is wanted, so that its folder can be seen")
    if (folder_of(FILENAME)) folder = folder_of(FILENAME)
    check_foreign()
    check_ours()
}
