/* The options of all benchmarks: the help text, the parser, and the choice of cases and sizes. */
#include "benchmarks/options.h"
#include "examples/usage.h"

#include <errno.h>
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define BYTES_MAX ((size_t)1 << 30)
#define CASES_MAX 512 /* characters of --case */

enum { OWN_OPTIONS = 256 };

const bench_program_t *bench_prog;
bench_options_t bench_opt = { .threads = 2 };

bool bench_is_alone(void)
{
    return bench_prog->ranks == BENCH_ALONE;
}

int bench_paper_rounds(void)
{
    return bench_prog->paper_rounds ? bench_prog->paper_rounds : 1;
}

static const char *launcher(void)
{
    return bench_is_alone() ? "" : "mpirun -n N ";
}

static const char *paths_of(const bench_case_t *c)
{
    switch (c->paths) {
    case BENCH_NODE:
        return " [node]";
    case BENCH_FAR:
        return " [off-node]";
    default:
        return "";
    }
}

static void print_help(void)
{
    static const char *const ranks[] = { [BENCH_PAIR] = "2 ranks",
                                         [BENCH_PAIRS] = "an even number of ranks",
                                         [BENCH_ANY] = "any number of ranks",
                                         [BENCH_TWO_UP] = "2 or more ranks",
                                         [BENCH_CROWD] = "2 or more ranks",
                                         [BENCH_ALONE] = "one process" };
    printf(
        "usage: %s%s [options]\n"
        "%s (%s)\n\n"
        "  --help           print this text\n"
        "  -f, --full       print minimum, maximum and iterations too\n"
        "  --json           print one JSON object a line instead of tables\n"
        "  --compare        run the same loops over the references, and print our figure over "
        "theirs\n"
        "  --case A,B       run only these cases (names below, with or without the path in front)\n"
        "  -m MIN:MAX       sizes in bytes, doubling (%zu:%zu%s)\n"
        "  -i N             iterations of a round (as many as fill its time)\n"
        "  -r N             rounds, at least %d (%d; down to %d if rounds are long)\n"
        "  -t MS            length of a round in milliseconds (%g unless given below)\n",
        launcher(), bench_prog->name, bench_prog->doc, ranks[bench_prog->ranks],
        bench_prog->min_bytes, bench_prog->max_bytes,
        bench_prog->min_bytes == bench_prog->max_bytes ? ", fixed" : "", BENCH_ROUNDS_MIN,
        BENCH_ROUNDS, BENCH_ROUNDS_MIN, BENCH_ROUND_MS);
    if (bench_prog->threads)
        printf("  --threads N      threads of each rank in cases with several, 1 to %d (%d)\n",
               BENCH_TEAM_MAX, bench_opt.threads);
    if (bench_prog->paper_iters)
        printf("  --paper          %d round%s of %g iterations for each figure\n",
               bench_paper_rounds(), bench_paper_rounds() > 1 ? "s" : "",
               (double)bench_prog->paper_iters);
    for (const bench_option_t *o = bench_prog->options; o && o->name; o++)
        printf("  --%s %-*s%s\n", o->name, 14 - (int)strlen(o->name), o->arg ? o->arg : "", o->doc);
    if (bench_is_alone() && !bench_prog->path)
        printf("\ncases:\n");
    else
        printf("\ncases; a printed name begins with the path (%s):\n",
               bench_is_alone() ? "snic, mlx5, verbs" : "node, ucx-shm, ucx-tcp, snic");
    for (int i = 0; i < bench_prog->n_cases; i++) {
        const bench_case_t *c = &bench_prog->cases[i];
        printf("  %-15s %s%s%s\n", *c->variant ? c->variant : "plain", c->doc, paths_of(c),
               c->on_request ? " [only by --case]" : "");
    }
}

static bool parse_count(const char *text, double min, double max, double *value_p)
{
    char *end;
    errno = 0;
    double value = strtod(text, &end);
    if (end == text || *end != '\0' || errno != 0 || !(value >= min && value <= max))
        return false;
    *value_p = value;
    return true;
}

static bool parse_bytes(const char *text, char stop, const char **end_p, size_t *bytes_p)
{
    char *end;
    errno = 0;
    unsigned long long value = strtoull(text, &end, 10);
    if (end == text || *text == '-' || errno != 0 || (*end != stop && *end != '\0') || value == 0 ||
        value > BYTES_MAX)
        return false;
    *bytes_p = (size_t)value;
    *end_p = end;
    return true;
}

/* MIN:MAX, MIN: (up to the greatest) or MIN alone (one size). */
static bool parse_sizes(const char *text)
{
    const char *end;
    size_t low, high;
    if (!parse_bytes(text, ':', &end, &low))
        return false;
    high = low;
    if (strcmp(end, ":") == 0)
        high = BYTES_MAX;
    else if (*end == ':' &&
             (!parse_bytes(end + 1, '\0', &end, &high) || *end != '\0' || high < low))
        return false;
    bench_opt.min_bytes = low;
    bench_opt.max_bytes = high;
    return true;
}

/* The part of a case's name behind the path. */
static const char *variant_of(const char *name)
{
    static const char *const paths[] = { "node", "ucx-shm", "ucx-tcp", "ucx-net",
                                         "snic", "mlx5",    "verbs" };
    for (size_t i = 0; i < sizeof paths / sizeof paths[0]; i++) {
        size_t n = strlen(paths[i]);
        if (strncmp(name, paths[i], n) == 0 && (name[n] == '-' || name[n] == '\0'))
            return name[n] == '-' ? name + n + 1 : "";
    }
    return strcmp(name, "plain") == 0 ? "" : name;
}

/* Calls fn for every word of --case; stops and returns true when fn does. */
static bool any_word(bool (*fn)(const char *word, const void *arg), const void *arg)
{
    char list[CASES_MAX], *rest = list, *word;
    snprintf(list, sizeof list, "%s", bench_opt.cases);
    while ((word = strtok_r(rest, ",", &rest)) != NULL)
        if (fn(word, arg))
            return true;
    return false;
}

static bool word_names_case(const char *word, const void *arg)
{
    const bench_case_t *c = arg; /* its variant may begin with a word that is also a path */
    return strcmp(word, c->variant) == 0 || strcmp(variant_of(word), c->variant) == 0;
}

static bool word_is_unknown(const char *word, const void *arg)
{
    (void)arg;
    for (int i = 0; i < bench_prog->n_cases; i++)
        if (word_names_case(word, &bench_prog->cases[i]))
            return false;
    return true;
}

bool bench_is_wanted(const bench_case_t *c)
{
    return bench_opt.cases ? any_word(word_names_case, c) : !c->on_request;
}

size_t bench_size_from(size_t bytes)
{
    const size_t *size = bench_prog->sizes;
    while (size && *size && *size < bytes)
        size++;
    if (!size)
        return bytes;
    return *size ? *size : SIZE_MAX;
}

/* The sizes of the case, or else of the program. */
static void sizes_of(const bench_case_t *c, size_t *min_p, size_t *max_p)
{
    *min_p = *max_p = 0;
    if (c->no_sizes)
        return;
    *min_p = c->min_bytes ? c->min_bytes : bench_prog->min_bytes;
    *max_p = c->max_bytes ? c->max_bytes : bench_prog->max_bytes;
}

void bench_choose_sizes(const bench_case_t *c, size_t *low_p, size_t *high_p)
{
    size_t low, high;
    sizes_of(c, &low, &high);
    if (bench_opt.min_bytes && low != high) {
        low = bench_opt.min_bytes > low ? bench_opt.min_bytes : low;
        high = bench_opt.max_bytes < high ? bench_opt.max_bytes : high;
    }
    *low_p = high ? bench_size_from(low) : 0; /* 0: the case has no sizes */
    *high_p = high;
}

/* @return what is wrong; NULL: some wanted case has a size that was asked for */
static const char *check_sizes(void)
{
    static char why[120];
    size_t least = SIZE_MAX, most = 0;
    for (int i = 0; i < bench_prog->n_cases; i++) {
        const bench_case_t *c = &bench_prog->cases[i];
        size_t low, high, min, max;
        sizes_of(c, &min, &max);
        if (!bench_is_wanted(c) || min == max)
            continue;
        bench_choose_sizes(c, &low, &high);
        if (low <= high)
            return NULL;
        least = min < least ? min : least;
        most = max > most ? max : most;
    }
    if (most == 0)
        return "-m: these cases have one size each";
    snprintf(why, sizeof why, "-m: these cases have sizes from %zu to %zu bytes", least, most);
    return why;
}

/* @return what is wrong, or NULL */
static const char *set_option(int letter, const char *text)
{
    double value = 0;
    if (letter >= OWN_OPTIONS)
        return bench_prog->options[letter - OWN_OPTIONS].set(text);
    switch (letter) {
    case 'f':
        bench_opt.full = true;
        return NULL;
    case 'j':
        bench_opt.json = true;
        return NULL;
    case 'c':
        bench_opt.compare = true;
        return NULL;
    case 'p':
        bench_opt.paper = true;
        return bench_prog->paper_iters ? NULL : "--paper: not here";
    case 'T':
        if (!bench_prog->threads)
            return "--threads: not here";
        if (!parse_count(text, 1, BENCH_TEAM_MAX, &value) || value != (int)value)
            return "--threads: 1 to 16";
        bench_opt.threads = (int)value;
        return NULL;
    case 'C':
        bench_opt.cases = text;
        if (strlen(text) >= CASES_MAX || !*text || any_word(word_is_unknown, NULL))
            return "--case: no such case";
        return NULL;
    case 'm':
        if (!parse_sizes(text))
            return "-m: MIN:MAX, MIN: or MIN in bytes, 1 to 1073741824";
        return NULL;
    case 'i':
        if (!parse_count(text, 1, 1e9, &value))
            return "-i: 1 to 1e9";
        bench_opt.iters = (uint64_t)value;
        return NULL;
    case 'r':
        if (!parse_count(text, BENCH_ROUNDS_MIN, BENCH_ROUNDS_MAX, &value))
            return "-r: 5 to 1001 rounds";
        bench_opt.rounds = (int)value;
        return NULL;
    case 't':
        if (!parse_count(text, 0.01, 60000, &bench_opt.round_ms))
            return "-t: 0.01 to 60000 milliseconds";
        return NULL;
    default:
        return usage_complaint(letter);
    }
}

/* The names of all options: those of every program, then the program's own. */
static const struct option *list_options(void)
{
    enum { COMMON = 7 };
    static struct option names[COMMON + BENCH_OPTIONS_MAX + 1] = {
        { "help", no_argument, NULL, 'h' },         { "full", no_argument, NULL, 'f' },
        { "json", no_argument, NULL, 'j' },         { "compare", no_argument, NULL, 'c' },
        { "case", required_argument, NULL, 'C' },   { "paper", no_argument, NULL, 'p' },
        { "threads", required_argument, NULL, 'T' }
    };
    for (int i = 0; bench_prog->options && i < BENCH_OPTIONS_MAX && bench_prog->options[i].name;
         i++)
        names[COMMON + i] =
            (struct option){ bench_prog->options[i].name,
                             bench_prog->options[i].arg ? required_argument : no_argument, NULL,
                             OWN_OPTIONS + i };
    return names;
}

static void print_refusal(const char *wrong, const char *word)
{
    fprintf(stderr,
            "%s: %s%s%s\nusage: %s%s [--help] [-f] [--json] [--compare] [--case A,B] [-m MIN:MAX] "
            "[-i N] "
            "[-r N] [-t MS]%s%s",
            bench_prog->name, wrong, *word ? ": " : "", word, launcher(), bench_prog->name,
            bench_prog->threads ? " [--threads N]" : "",
            bench_prog->paper_iters ? " [--paper]" : "");
    for (const bench_option_t *o = bench_prog->options; o && o->name; o++)
        fprintf(stderr, " [--%s%s%s]", o->name, o->arg ? " " : "", o->arg ? o->arg : "");
    fprintf(stderr, "\n");
}

int bench_parse_options(int argc, char **argv)
{
    const struct option *names = list_options();
    int letter;
    const char *wrong = NULL, *word = "";
    bool prints = bench_is_alone() || pgas_launcher_rank() == 0;
    opterr = 0;
    bench_opt.compare = bench_prog->compare;
    while (!wrong && (letter = getopt_long(argc, argv, ":hfm:i:r:t:", names, NULL)) != -1) {
        if (letter == 'h') {
            if (prints)
                print_help();
            return 0;
        }
        wrong = set_option(letter, optarg);
        word = letter == '?' || letter == ':' ? usage_word(argv) : "";
    }
    if (!wrong && optind < argc)
        wrong = "no arguments, only options";
    if (!wrong && bench_opt.min_bytes)
        wrong = check_sizes();
    if (!wrong)
        return -1;
    if (!prints)
        return BENCH_EXIT_USAGE;
    print_refusal(wrong, word);
    return BENCH_EXIT_USAGE;
}
