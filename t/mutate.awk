# Prints the small mistakes that can be made in a C file, one a line: LINE<tab>KIND<tab>the line with the mistake.
# For t/mutants. It skips comments, strings, preprocessor lines, declarations outside of functions and calls that only log.

function emit(kind, text) { print FNR "\t" kind "\t" text }

# The line with n characters at a place replaced.
function put(at, n, new) { return substr($0, 1, at - 1) new substr($0, at + n) }

# The line with blanks in place of comments, texts and characters.
function masked(    out, i, c, two) {
    out = ""
    for (i = 1; i <= length($0); i++) {
        c = substr($0, i, 1)
        two = substr($0, i, 2)
        if (in_comment) {
            if (two == "*/") { in_comment = 0; out = out " "; i++ }
            out = out " "
        } else if (quote != "") {
            if (c == "\\") { out = out " "; i++ } else if (c == quote) quote = ""
            out = out " "
        } else if (two == "/*") { in_comment = 1; out = out "  "; i++ }
        else if (two == "//") return out
        else if (c == "\"" || c == "'") { quote = c; out = out " " }
        else out = out c
    }
    quote = ""
    return out
}

function is_word(c) { return c ~ /[A-Za-z0-9_]/ }

# Where the parenthesis at a place is closed on this line, or 0.
function closing(at,    i, depth, c) {
    for (i = at; i <= length(code); i++) {
        c = substr(code, i, 1)
        if (c == "(") depth++
        if (c == ")" && --depth == 0) return i
    }
    return 0
}

# At each place the longest token.
function operators(    i, k, before, n) {
    for (i = 1; i <= length(code); i++) {
        before = substr(code, 1, i - 1)
        sub(/ +$/, "", before)
        before = substr(before, length(before), 1)
        for (k = 1; k <= n_tokens; k++)
            if (substr(code, i, length(token[k])) == token[k]) break
        if (k > n_tokens) continue
        n = length(token[k])
        # Unary ones, pointers and addresses are no operators of two numbers.
        if (new_token[k] != "" && (n > 1 || (is_word(before) || before == ")" || before == "]")) &&
            (n > 1 || substr(code, i + 1, 1) == " "))
            emit("operator", put(i, n, new_token[k]))
        i += n - 1
    }
}

# A weaker order is seen only where a processor of today has one: at stores and fences.
function words(    i, k, n) {
    for (k = 1; k <= n_words; k++) {
        n = length(word[k])
        if (word[k] ~ /ATOMIC/ && code !~ /store|fence/) continue
        for (i = 1; i <= length(code) - n + 1; i++)
            if (substr(code, i, n) == word[k] && !is_word(substr(code, i - 1, i > 1)) && !is_word(substr(code, i + n, 1)))
                emit(word[k] ~ /ATOMIC/ ? "order" : "word", put(i, n, new_word[k]))
    }
}

function constants(    i, n, value) {
    for (i = 1; i <= length(code); i++) {
        if (substr(code, i, 1) !~ /[0-9]/ || (i > 1 && substr(code, i - 1, 1) ~ /[A-Za-z0-9_.]/)) continue
        match(substr(code, i), /^[0-9]+/)
        n = RLENGTH
        if (substr(code, i + n, 1) !~ /[.xXeEfA-DF-Z_a-df-z]/ && n < 10) {
            value = substr(code, i, n) + 0
            emit("constant", put(i, n, value > 0 && (FNR + i) % 2 ? value - 1 : value + 1))
        }
        i += n
    }
}

function condition(    at, end) {
    if (!match(code, /(^|[^A-Za-z0-9_])if \(/)) return
    at = RSTART + RLENGTH - 1
    end = closing(at)
    if (end) emit("branches", substr($0, 1, at) "!(" substr($0, at + 1, end - at) substr($0, end))
}

# A whole statement on this line: a call or an assignment that begins here.
function statement(    text, end) {
    text = code
    gsub(/^ +| +$/, "", text)
    if (text !~ /^[A-Za-z_*(].*;$/ || text !~ /[=(]|\+\+|--/ || text ~ /[{}]/) return
    if (text ~ /^(return|goto|break|continue|case|default|else|do|while|for|if|switch)[^A-Za-z0-9_]/) return
    if (text ~ /^(typedef|static|const|extern|struct)[^A-Za-z0-9_]/) return
    if (text ~ /^[A-Za-z_][A-Za-z0-9_]*[ *]+[A-Za-z_]/ || text ~ /^\(void\)/) return # a declaration; nothing
    if (former !~ /[;{}):]$/ && former != "else") return                          # the rest of a statement
    if (gsub(/\(/, "(", text) != gsub(/\)/, ")", text)) return
    match($0, /^ */)
    emit(text ~ /fence|barrier|membarrier/ ? "fence" : "statement", substr($0, 1, RLENGTH) "(void)0;")
}

BEGIN {
    n = split("<<= >>= -> ++ -- += -= << >> <= >= == != && || |= &= < > + - & |", token, " ")
    split("0 0 0 -- ++ -= += >> << < > != == || && &= |= <= >= - + | &", new_token, " ")
    n_tokens = n
    for (k = 1; k <= n; k++) if (new_token[k] == "0") new_token[k] = ""
    n_words = split("true false __ATOMIC_SEQ_CST", word, " ")
    split("false true __ATOMIC_RELAXED", new_word, " ")
}

{
    code = masked()
    skip = 0
    if (in_macro || code ~ /^ *#/) { in_macro = code ~ /\\$/; skip = 1 }
    if (code ~ /PGASI_(ERROR|WARN|INFO|DEBUG|TRACE|LOG|ASSERT|CHECK)|_Static_assert/) in_log = 1
    if (!skip && !in_log && depth > 0) {
        operators()
        words()
        constants()
        condition()
        statement()
    }
    if (in_log && code ~ /; *$/) in_log = 0
    if (!skip) {
        text = code
        depth += gsub(/\{/, "{", text) - gsub(/\}/, "}", text)
        sub(/ +$/, "", text)
        sub(/^ +/, "", text)
        if (text != "") former = text
    }
}
