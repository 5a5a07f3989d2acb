/* hex: plays Hex by distributed Monte-Carlo tree search: speaks the text protocol of Hex front ends
 * (GTP 2) on standard input and output, analyses a position, or plays itself.
 *   mpirun -n 2 build/examples/hex/hex --threads 2 --time 5
 *   build/examples/hex/hex --analyse game.sgf --rollouts 100000 */
#include <getopt.h>
#include <string.h>
#include "examples/usage.h"
#include "hexprog.h"

static const char usage[] =
    "hex [options]                      the protocol GTP 2 on standard input and output\n"
    "       hex --analyse FILE.sgf [options]   searches a position, prints what was found\n"
    "       hex --moves \"a1 b2 ..\" [options]   the same for moves from the empty board\n"
    "       hex --selfplay [options]           plays itself, prints the game as SGF\n"
    "  --output FILE    of --selfplay: the game goes there\n"
    "  --help           this\n";
static session_t session;
static struct {
    const char *file, *moves, *output;
    int play, help;
} args;
static char wrong[2 * MESSAGE_MAX]; /* the first thing that is wrong with the command line */

enum { ANALYSE = N_SETTINGS, MOVES, SELFPLAY, OUTPUT, HELP, N_OPTIONS };

/* The usage, with all settings. */
static const char *usage_text(void)
{
    char *text = NULL;
    size_t bytes = 0;
    FILE *out = open_memstream(&text, &bytes);
    if (!out)
        return usage;
    fputs(usage, out);
    settings_help(out);
    return fclose(out) == 0 ? text : usage;
}

static void note(const char *format, const char *option, const char *text)
{
    if (!*wrong)
        snprintf(wrong, sizeof wrong, format, option, text);
}

static void take(int option)
{
    char why[MESSAGE_MAX];
    if (option < N_SETTINGS &&
        !setting_parse(&session.settings, option, optarg ? optarg : "on", why))
        note("%s%s", "", why);
    if (option == ANALYSE)
        args.file = optarg;
    if (option == MOVES)
        args.moves = optarg;
    if (option == OUTPUT)
        args.output = optarg;
    args.play |= option == SELFPLAY;
    args.help |= option == HELP;
}

static void parse(int argc, char **argv)
{
    struct option options[N_OPTIONS + 1] = { [ANALYSE] = { "analyse", 1, NULL, ANALYSE },
                                             [MOVES] = { "moves", 1, NULL, MOVES },
                                             [SELFPLAY] = { "selfplay", 0, NULL, SELFPLAY },
                                             [OUTPUT] = { "output", 1, NULL, OUTPUT },
                                             [HELP] = { "help", 0, NULL, HELP },
                                             [N_OPTIONS] = { NULL, 0, NULL, 0 } };
    for (int i = 0; i < N_SETTINGS; i++)
        options[i] = (struct option){ setting_name(i), !setting_is_flag(i), NULL, i };
    opterr = 0;
    for (int option; (option = getopt_long(argc, argv, ":", options, NULL)) != -1;)
        if (option == '?' || option == ':')
            usage_refuse(pgas_launcher_rank(), argv, usage_text(), option);
        else
            take(option);
    if (optind < argc)
        note("what is %s for?%s", argv[optind], "");
    if ((args.file != NULL) + (args.moves != NULL) + args.play > 1)
        note("%s%s", "one of --analyse, --moves, --selfplay", "");
    if (args.output && !args.play)
        note("%s%s", "--output goes with --selfplay", "");
}

/* Rank 0 decides, also when the others are to end. */
static int lead(void)
{
    int result;
    game_start(&session.game, (int)session.settings.of[SIZE], session.settings.of[SWAP] > 0);
    if (args.play)
        result = selfplay(&session, args.output);
    else if (args.file || args.moves)
        result = analyse(&session, args.file, args.moves);
    else
        result = gtp_run(&session);
    if (fflush(stdout) != 0)
        result = 1;
    return engine_end(&session.engine) == PGAS_OK ? result : 1;
}

int main(int argc, char **argv)
{
    int rank = pgas_launcher_rank(), result;
    settings_init(&session.settings);
    parse(argc, argv);
    if (args.help)
        usage_exit(rank, usage_text(), NULL, "");
    if (*wrong)
        usage_exit(rank, usage_text(), "not possible", wrong);
    if (pgas_init(NULL, NULL) != PGAS_OK)
        return 1;
    result = pgas_rank() == 0 ? lead() : engine_follow() != PGAS_OK;
    pgas_finalize();
    return result;
}
