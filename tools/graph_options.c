/* graph_options: the command line of pgas_graph. A table has a line for each option: its kind,
 * where its value goes, and the commands that it belongs to. */
#include <getopt.h>
#include <pgas/info.h>
#include <stdlib.h>
#include <string.h>
#include "examples/usage.h"
#include "graph_tool.h"

#define N_TOP        10 /* of PageRank and betweenness, if nothing else is asked for */
#define SCALE_MAX    31
#define VERTICES_MAX 4294967294.0 /* 2^32-2 */

static const char brief[] =
    "pgas_graph ALGORITHM FILE|--rmat SCALE [options]; see pgas_graph --help\n";

static const char usage[] =
    "pgas_graph ALGORITHM FILE|--rmat SCALE|--uniform N|--grid N [options]\n"
    "Runs an algorithm on a graph, on the processes that mpirun starts.\n"
    "  bfs pagerank wcc sssp cdlp lcc triangles betweenness\n"
    "  convert               write the graph to --output, in the binary form\n"
    "  info                  describe the graph\n"
    "Graph. FILE is - for standard input, and may be compressed (.gz, .zst).\n"
    "  --format NAME         names el wel mtx metis gr ldbc adj sg binary; otherwise\n"
    "                        the file's name or first bytes determine it\n"
    "  --rmat SCALE          generate 2^SCALE vertices as Graph500 does: undirected,\n"
    "                        without loops and multiple edges\n"
    "  --uniform N           the same with N vertices and random edges\n"
    "  --grid N              the same with N vertices as a square grid\n"
    "  --degree D            edges of the generator for each vertex (16)\n"
    "  --directed            generate edges in one direction, and keep all of them\n"
    "  --undirected          each line of the file is an edge in both directions\n"
    "  --simple              drop loops and multiple edges\n"
    "  --weights TYPE        u32 f32 f64, or none to drop them; weights are random if\n"
    "                        the input has none\n"
    "  --seed N              of generators, random weights and random sources (1)\n"
    "Run\n"
    "  --source V            name or label of the source; otherwise the vertex with\n"
    "                        the most out-edges\n"
    "  --roots N             bfs, sssp: runs from N random sources, as Graph500 does\n"
    "  --sources N           betweenness: from N random sources in one run\n"
    "  --iterations N        sweeps of pagerank (20; with --tolerance at most, 1000);\n"
    "                        rounds of cdlp (10)\n"
    "  --tolerance T         pagerank: stop when a sweep changes values by T in all\n"
    "  --damping D           pagerank: above 0, up to 1 (0.85)\n"
    "  --no-dangling         pagerank: drop the values of vertices without out-edges\n"
    "  --delta D             sssp: width of a bucket\n"
    "  --direction WORD      push pull auto\n"
    "  --exchange WORD       messages array auto\n"
    "  --threads N           OpenMP threads of each process (1)\n"
    "  --repeat N            run N times, print minimum, median and maximum\n"
    "Results\n"
    "  --top N               print the N greatest values, or the N greatest groups\n"
    "                        of wcc and cdlp (10 of pagerank and betweenness)\n"
    "  --output FILE         a line `VERTEX VALUE` for each vertex; - is standard\n"
    "                        output\n"
    "  --parents             bfs: parents instead of levels in these lines\n"
    "  --check               compare with a serial algorithm; exit status 0: right,\n"
    "                        1: wrong, 2: skipped, because memory is not enough\n"
    "  --check-bytes N       memory that the check may take (what is free)\n"
    "  --json                print one object, and nothing else\n"
    "  --help                print this text\n"
    "Edges per second count the edges in the rows of the reached vertices, times the\n"
    "sweeps of pagerank or rounds of cdlp. An undirected edge counts once.\n";

static const char *const commands[TOOL_N] = {
    "bfs", "pagerank", "wcc", "sssp", "cdlp", "lcc", "triangles", "betweenness", "convert", "info",
};

const char *tool_command_name(tool_command_t command)
{
    return commands[command];
}

/* ---- the table ---- */

typedef enum { FLAG, INT, REAL, COUNT, WORD, TEXT } kind_t;

enum { ANY_GRAPH, OF_FILES, OF_GENERATORS };

typedef struct {
    const char *name;
    kind_t kind;
    void *target;       /* bool, int, double, uint64_t, int (the word's place), const char * */
    double least, most; /* of numbers */
    const char *words;  /* of WORD, with blanks between them */
    unsigned commands;  /* a set of tool_command_t */
    int graphs;
} option_t;

#define C(command) (1u << TOOL_##command)
enum {
    EVERY = (1u << TOOL_N) - 1,
    RUNS = EVERY & ~(C(CONVERT) | C(INFO)),
    SEARCHES = C(BFS) | C(SSSP),
    VALUES = RUNS & ~C(TRIANGLES),
};

static tool_options_t o;
static int scale, format, weights;
static uint64_t n_uniform, n_grid;
static bool directed;

static const option_t table[] = {
    { "format", WORD, &format, 0, 0, "auto names el wel mtx metis gr ldbc adj sg binary", EVERY,
      OF_FILES },
    { "rmat", INT, &scale, 1, SCALE_MAX, NULL, EVERY, OF_GENERATORS },
    { "uniform", COUNT, &n_uniform, 1, VERTICES_MAX, NULL, EVERY, OF_GENERATORS },
    { "grid", COUNT, &n_grid, 1, VERTICES_MAX, NULL, EVERY, OF_GENERATORS },
    { "degree", INT, &o.graph.edges_per_vertex, 1, 1 << 20, NULL, EVERY, OF_GENERATORS },
    { "directed", FLAG, &directed, 0, 0, NULL, EVERY, OF_GENERATORS },
    { "undirected", FLAG, &o.graph.undirected, 0, 0, NULL, EVERY, OF_FILES },
    { "simple", FLAG, &o.graph.simple, 0, 0, NULL, EVERY, ANY_GRAPH },
    { "weights", WORD, &weights, 0, 0, "auto none u32 f32 f64", EVERY, ANY_GRAPH },
    { "seed", COUNT, &o.seed, 1, 9007199254740992.0, NULL, EVERY, ANY_GRAPH },
    { "source", TEXT, &o.source, 0, 0, NULL, SEARCHES | C(BETWEENNESS), ANY_GRAPH },
    { "roots", INT, &o.n_roots, 1, 1 << 16, NULL, SEARCHES, ANY_GRAPH },
    { "sources", INT, &o.n_sources, 1, 1 << 16, NULL, C(BETWEENNESS), ANY_GRAPH },
    { "iterations", INT, &o.run.iterations, 1, 1e9, NULL, C(PAGERANK) | C(CDLP), ANY_GRAPH },
    { "tolerance", REAL, &o.run.tolerance, 1e-300, 2, NULL, C(PAGERANK), ANY_GRAPH },
    { "damping", REAL, &o.run.damping, 1e-300, 1, NULL, C(PAGERANK), ANY_GRAPH },
    { "no-dangling", FLAG, &o.run.no_dangling, 0, 0, NULL, C(PAGERANK), ANY_GRAPH },
    { "delta", REAL, &o.run.delta, 1e-300, 1e300, NULL, C(SSSP), ANY_GRAPH },
    { "direction", WORD, &o.run.direction, 0, 0, "auto push pull", RUNS, ANY_GRAPH },
    { "exchange", WORD, &o.run.exchange, 0, 0, "auto messages array", RUNS, ANY_GRAPH },
    { "threads", INT, &o.run.n_threads, 1, 1024, NULL, RUNS, ANY_GRAPH },
    { "repeat", INT, &o.n_repeats, 1, 1e6, NULL, RUNS, ANY_GRAPH },
    { "top", INT, &o.n_top, 0, 1e6, NULL, VALUES, ANY_GRAPH },
    { "output", TEXT, &o.output, 0, 0, NULL, VALUES | C(CONVERT), ANY_GRAPH },
    { "parents", FLAG, &o.parents, 0, 0, NULL, C(BFS), ANY_GRAPH },
    { "check", FLAG, &o.check, 0, 0, NULL, RUNS, ANY_GRAPH },
    { "check-bytes", COUNT, &o.check_bytes, 1, 1e18, NULL, RUNS, ANY_GRAPH },
    { "json", FLAG, &o.json, 0, 0, NULL, EVERY, ANY_GRAPH },
};
enum { N_OPTIONS = sizeof table / sizeof *table, HELP = N_OPTIONS };

/* ---- reading ---- */

__attribute__((noreturn)) static void refuse(const char *complaint, const char *word)
{
    usage_exit(pgas_launcher_rank(), brief, complaint, word);
}

/* @return whether the text is one of the words */
static bool set_word(const char *words, const char *text, int *place_p)
{
    int place = 0;
    for (const char *word = words; *word != '\0'; place++) {
        size_t n = strcspn(word, " ");
        if (strlen(text) == n && strncmp(word, text, n) == 0) {
            *place_p = place;
            return true;
        }
        word += n + (word[n] == ' ');
    }
    return false;
}

static bool set_count(const option_t *option, const char *text)
{
    double value;
    if (!usage_real(text, option->least, option->most, &value) || value != (double)(uint64_t)value)
        return false;
    *(uint64_t *)option->target = (uint64_t)value;
    return true;
}

/* @return whether the option's value is possible */
static bool set_option(const option_t *option, const char *text)
{
    switch (option->kind) {
    case FLAG:
        *(bool *)option->target = true;
        return true;
    case INT:
        return usage_int(text, option->least, option->most, option->target);
    case REAL:
        return usage_real(text, option->least, option->most, option->target);
    case COUNT:
        return set_count(option, text);
    case WORD:
        return set_word(option->words, text, option->target);
    default:
        *(const char **)option->target = text;
        return *text != '\0';
    }
}

/* Sets given[i] for each option that is there. */
static void read_options(int argc, char **argv, bool given[N_OPTIONS])
{
    struct option options[N_OPTIONS + 2] = { { 0 } };
    char words[200];
    int answer, index = 0;
    for (int i = 0; i < N_OPTIONS; i++)
        options[i] = (struct option){ table[i].name, table[i].kind != FLAG, 0, 'o' };
    options[HELP] = (struct option){ "help", 0, 0, 'h' };
    opterr = 0;
    while ((answer = getopt_long(argc, argv, ":", options, &index)) != -1) {
        if (answer == 'h')
            usage_exit(pgas_launcher_rank(), usage, NULL, "");
        if (answer != 'o')
            usage_refuse(pgas_launcher_rank(), argv, brief, answer);
        given[index] = true;
        if (!set_option(&table[index], optarg)) {
            snprintf(words, sizeof words, "--%s %s", table[index].name, optarg);
            refuse("not possible", words);
        }
    }
}

static tool_command_t find_command(const char *word)
{
    int command = 0;
    while (command < TOOL_N && strcmp(word, commands[command]) != 0)
        command++;
    if (command == TOOL_N)
        refuse("no such algorithm", word);
    return (tool_command_t)command;
}

static void read_words(int argc, char **argv)
{
    if (optind == argc)
        refuse("not possible", "no algorithm");
    o.command = find_command(argv[optind]);
    if (optind + 2 < argc)
        refuse("an argument too many", argv[optind + 2]);
    o.path = argv[optind + 1]; /* NULL if there is none */
    if (o.path && *o.path == '\0')
        refuse("not possible", "a file without a name");
}

/* ---- conditions between options ---- */

static void check_uses(const bool given[N_OPTIONS])
{
    char words[100];
    for (int i = 0; i < N_OPTIONS; i++) {
        bool wrong_graph = table[i].graphs == (o.path ? OF_GENERATORS : OF_FILES);
        snprintf(words, sizeof words, "--%s", table[i].name);
        if (given[i] && !(table[i].commands & (1u << o.command)))
            refuse("not an option of this algorithm", words);
        if (given[i] && wrong_graph)
            refuse(o.path ? "not an option of files" : "an option of files only", words);
    }
}

static void check_pairs(void)
{
    if (!o.path && (scale != 0) + (n_uniform != 0) + (n_grid != 0) != 1)
        refuse("not possible", "neither one file nor one generator");
    if (o.source && o.n_roots + o.n_sources > 0)
        refuse("not possible", "--source beside random sources");
    if (o.command == TOOL_CONVERT && (!o.output || strcmp(o.output, "-") == 0))
        refuse("not possible", "convert without a file of --output");
    if (o.json && o.output && strcmp(o.output, "-") == 0)
        refuse("not possible", "--json and --output -");
    if (o.n_roots > 1 && o.output)
        refuse("not possible", "--output of several runs");
    if (o.parents && (!o.output || o.n_top > 0))
        refuse("not possible", "--parents without --output, or with --top");
#ifndef _OPENMP
    if (o.run.n_threads > 1)
        refuse("built without OpenMP", "--threads");
#endif
}

/* Graph500's kind of graph: undirected and simple. */
static void set_generator(void)
{
    if (o.path)
        return;
    o.graph.n_vertices = n_uniform + n_grid;
    o.graph.generator = PGAS_GRAPH_GRID;
    if (n_uniform > 0)
        o.graph.generator = PGAS_GRAPH_UNIFORM;
    if (scale > 0) {
        o.graph.generator = PGAS_GRAPH_RMAT;
        o.graph.n_vertices = (uint64_t)1 << scale;
    }
    o.graph.undirected = !directed;
    o.graph.simple = o.graph.simple || !directed;
}

tool_options_t tool_parse(int argc, char **argv)
{
    static const pgas_type_t types[] = { PGAS_TYPE_NONE, PGAS_TYPE_NONE, PGAS_U32, PGAS_F32,
                                         PGAS_F64 };
    bool given[N_OPTIONS] = { false };
    o.graph.size = sizeof o.graph;
    o.run.size = sizeof o.run;
    o.n_top = -1;
    o.n_repeats = 1;
    o.seed = 1;
    read_options(argc, argv, given);
    read_words(argc, argv);
    check_uses(given);
    check_pairs();
    set_generator();
    o.graph.format = (pgas_graph_format_t)format;
    o.graph.weight_type = types[weights];
    o.graph.no_weights = weights == 1;
    o.graph.seed = o.seed;
    bool shows = o.command == TOOL_PAGERANK || o.command == TOOL_BETWEENNESS;
    if (o.n_top < 0)
        o.n_top = shows && !o.json && !o.output ? N_TOP : 0;
    return o;
}
