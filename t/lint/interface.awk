# Reads the output of the preprocessor for public headers and prints a line for each function of the program's:
#   fn|exported or inline|name|returned type|parameter|parameter..
# and for each struct:
#   struct|name|first member
# Bodies and the insides of structs are left out, but for the first member.

function trim(s) {
    gsub(/[ \t\n]+/, " ", s)
    sub(/^ /, "", s)
    sub(/ $/, "", s)
    return s
}

# Splits a list of parameters at commas of depth 0.
function parameters(list,    i, c, depth, part, out) {
    list = trim(list)
    if (list == "void" || list == "") return ""
    for (i = 1; i <= length(list); i++) {
        c = substr(list, i, 1)
        if (c == "(") depth++
        if (c == ")") depth--
        if (c == "," && depth == 0) {
            out = out "|" trim(part)
            part = ""
        } else {
            part = part c
        }
    }
    return out "|" trim(part)
}

function statement(s,    exported, at, name, head, rest, depth, i, c, name_at) {
    s = trim(s)
    exported = s ~ /visibility/
    while (match(s, /__attribute__ ?\(\(([^()]|\([^()]*\))*\)\)/)) s = substr(s, 1, RSTART - 1) " " substr(s, RSTART + RLENGTH)
    s = trim(s)
    if (s ~ /^typedef (struct|union)/ && match(s, /pgas_[a-z0-9_]+$/)) {
        print "struct|" substr(s, RSTART) "|" first
        return
    }
    if (s ~ /^typedef/ || !match(s, /(^|[^a-z0-9_])pgas_[a-z0-9_]+ ?\(/)) return
    name_at = RSTART
    head = substr(s, 1, RSTART + RLENGTH - 2)
    match(head, /pgas_[a-z0-9_]+ ?$/)
    name = trim(substr(head, RSTART))
    rest = substr(s, length(head) + 2)
    for (i = 1; i <= length(rest); i++) {
        c = substr(rest, i, 1)
        if (c == "(") depth++
        if (c == ")" && depth-- == 0) break
    }
    if (!exported && s !~ /inline/) return
    sub(/pgas_[a-z0-9_]+ ?$/, "", head)
    sub(/static|extern/, "", head)
    sub(/inline/, "", head)
    print "fn|" (exported ? "exported" : "inline") "|" name "|" trim(head) \
        parameters(substr(rest, 1, i - 1))
}

/^#/ { next }
{
    n = length($0)
    for (k = 1; k <= n; k++) {
        ch = substr($0, k, 1)
        if (ch == "{") {
            if (braces++ == 0) {
                first = ""
                more = 1
            }
        } else if (ch == "}") {
            if (--braces == 0 && text ~ /inline/) {
                statement(text)
                text = ""
            }
        } else if (braces > 0) {
            if (more && ch == ";") more = 0
            if (more) first = first ch
        } else if (ch == ";") {
            statement(text)
            text = first = ""
        } else {
            text = text ch
        }
    }
    if (braces == 0) text = text " "
    else if (more) first = first " "
}
