/* amr: the command line. */
#include <getopt.h>
#include <stdlib.h>
#include "examples/usage.h"
#include "amr.h"

static const char usage[] =
    "amr [options]   moves a blob through a cube of adaptive cells\n"
    "  --steps N        steps in time, at least 0 (100)\n"
    "  --levels N       sizes of blocks, 1 to 7 (3)\n"
    "  --block N        cells of a block in each direction, even, 2 to 64 (8)\n"
    "  --registered     send registered vectors (default)\n"
    "  --pointers       send vectors in memory of malloc\n"
    "  --packed         send packed archives\n"
    "  --output PLACE   a picture in PPM: a file; or a folder, with a picture every fourth step\n"
    "  --check          checks mass and center of mass, prints a checksum of all cells\n"
    "  --spoil          changes a cell half-way, so that --check fails\n"
    "  --help           this\n";

settings_t settings = { .steps = 100, .levels = 3, .block = 8 };

enum { STEPS, LEVELS, BLOCK, REGISTERED_WAY, POINTERS_WAY, PACKED_WAY, OUTPUT, CHECK, SPOIL, HELP };

static bool take(int option)
{
    switch (option) {
    case STEPS:
        return usage_int(optarg, 0, 1e9, &settings.steps);
    case LEVELS:
        return usage_int(optarg, 1, LEVEL_MAX - LEVEL_MIN + 1, &settings.levels);
    case BLOCK:
        return usage_int(optarg, 2, 64, &settings.block) && settings.block % 2 == 0;
    case REGISTERED_WAY:
    case POINTERS_WAY:
    case PACKED_WAY:
        settings.way = (way_t)(option - REGISTERED_WAY);
        return true;
    case OUTPUT:
        settings.output = optarg;
        return true;
    default:
        settings.check |= option == CHECK;
        settings.spoil |= option == SPOIL;
        return true;
    }
}

void settings_parse(int argc, char **argv)
{
    static const struct option options[] = {
        { "steps", 1, NULL, STEPS },
        { "levels", 1, NULL, LEVELS },
        { "block", 1, NULL, BLOCK },
        { "registered", 0, NULL, REGISTERED_WAY },
        { "pointers", 0, NULL, POINTERS_WAY },
        { "packed", 0, NULL, PACKED_WAY },
        { "output", 1, NULL, OUTPUT },
        { "check", 0, NULL, CHECK },
        { "spoil", 0, NULL, SPOIL },
        { "help", 0, NULL, HELP },
        { NULL, 0, NULL, 0 },
    };
    int rank = pgas_launcher_rank();
    opterr = 0;
    for (int option; (option = getopt_long(argc, argv, ":", options, NULL)) != -1;) {
        if (option == '?' || option == ':')
            usage_refuse(rank, argv, usage, option);
        if (option == HELP)
            usage_exit(rank, usage, NULL, "");
        if (!take(option))
            usage_exit(rank, usage, "not possible", optarg);
    }
    if (optind < argc)
        usage_exit(rank, usage, "an argument too many", argv[optind]);
}
