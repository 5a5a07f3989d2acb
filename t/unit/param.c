/* what: Every default passes the parser and prints back. Malformed text is refused with name, text
 *       and the allowed values, and no field is half written. The environment, init options and
 *       rank 0 take effect and are shown as the origin. Unknown names cause a warning with the
 *       nearest known name.
 * source: public headers; HACKING.md; src/base/param_vars.h */
#include "base/checks.h"
#include "base/log.h"
#include "base/param.h"
#include "t/tap.h"

static char why[PGASI_PARAM_WHY_BYTES];
static pgasi_params_t params;
static pgasi_param_origin_t origins[PGASI_PARAM_COUNT];

static pgas_status_t parse(const char *name, const char *value)
{
    why[0] = '\0';
    return pgasi_param_parse(name, value, &params, why, sizeof why);
}

static void set_defaults(void)
{
    if (pgasi_param_defaults(&params, origins, why, sizeof why) != PGAS_OK)
        bail("a default does not parse: %s", why);
}

static void forget_environment(void)
{
    for (int i = 0; i < PGASI_PARAM_COUNT; i++) {
        char name[64];
        snprintf(name, sizeof name, "PGAS_%s", pgasi_param_describe(i)->name);
        unsetenv(name);
    }
}

static void list_is_sound(void)
{
    int n_bad = 0, n_found = 0;
    set_defaults();
    for (int i = 0; i < PGASI_PARAM_COUNT; i++) {
        const pgasi_param_info_t *info = pgasi_param_describe(i);
        char value[PGASI_PARAM_TEXT_BYTES];
        pgasi_params_t again;
        memset(&again, 0, sizeof again);
        pgasi_param_text(&params, i, value);
        n_bad +=
            pgasi_param_parse(info->name, value, &again, why, sizeof why) != PGAS_OK ||
            memcmp((char *)&params + info->offset, (char *)&again + info->offset, info->bytes) != 0;
        n_bad += info->doc[0] == '\0' || strlen(info->name) > 40;
        n_found += pgasi_param_find(info->name) == i;
    }
    is_int(n_bad, 0, "each default parses, prints and parses back");
    is_int(n_found, PGASI_PARAM_COUNT, "each name is found");
}

static void defaults_are_the_promised_ones(void)
{
    set_defaults();
    is_int(params.heap_size, 256 << 20, "heap of 256 MiB");
    char word[PGASI_PARAM_TEXT_BYTES];
    is_str(pgasi_param_text(&params, PGASI_PARAM_ID_TRANSPORT, word), "ucx", "over UCX");
    ok(params.service_threads == 1 && params.ctxs == 4 && params.node_maxsize == 0,
       "one service thread, 4 contexts");
    ok(strcmp(params.log, "warn") == 0 && params.fault[0] == '\0' && !params.info,
       "texts and switches");
}

/* the enums of param.h and the words of the list must not drift apart; transports have no enum */
static void choices_match_their_enums(void)
{
    static const struct {
        const char *name, *word;
        int value;
    } all[] = {
        { "HUGEPAGES", "try", PGASI_HUGEPAGES_TRY },
        { "HUGEPAGES", "no", PGASI_HUGEPAGES_NO },
        { "HUGEPAGES", "yes", PGASI_HUGEPAGES_YES },
        { "HUGEPAGES", "2m", PGASI_HUGEPAGES_2M },
        { "BIND", "none", PGASI_BIND_NONE },
        { "BIND", "core", PGASI_BIND_CORE },
        { "BIND", "numa", PGASI_BIND_NUMA },
        { "ON_PEER_DEATH", "abort", PGASI_ON_PEER_DEATH_ABORT },
        { "ON_PEER_DEATH", "continue", PGASI_ON_PEER_DEATH_CONTINUE },
        { "POOL_GROWTH", "exponential", PGASI_POOL_GROWTH_EXPONENTIAL },
        { "POOL_GROWTH", "linear", PGASI_POOL_GROWTH_LINEAR },
        { "FAR_CALLS", "auto", PGASI_FAR_CALLS_AUTO },
        { "FAR_CALLS", "message", PGASI_FAR_CALLS_MESSAGE },
        { "FAR_CALLS", "put", PGASI_FAR_CALLS_PUT },
        { "FAR_CALLS", "map", PGASI_FAR_CALLS_MAP },
        { "ARRAY_ACCESS", "auto", PGASI_ARRAY_ACCESS_AUTO },
        { "ARRAY_ACCESS", "open", PGASI_ARRAY_ACCESS_OPEN },
        { "ARRAY_ACCESS", "guarded", PGASI_ARRAY_ACCESS_GUARDED },
        { "VERBS_ENGINE", "caller", PGASI_VERBS_ENGINE_CALLER },
        { "VERBS_ENGINE", "thread", PGASI_VERBS_ENGINE_THREAD },
        { "VERBS_ENGINE", "process", PGASI_VERBS_ENGINE_PROCESS },
        { "GROUP_WAY", "auto", PGASI_GROUP_WAY_AUTO },
        { "GROUP_WAY", "chain", PGASI_GROUP_WAY_CHAIN },
        { "GROUP_WAY", "verbs", PGASI_GROUP_WAY_VERBS },
        { "GROUP_WAY", "calls", PGASI_GROUP_WAY_CALLS },
        { "PROGRESS", "auto", PGASI_PROGRESS_AUTO },
        { "PROGRESS", "bar", PGASI_PROGRESS_BAR },
        { "PROGRESS", "lines", PGASI_PROGRESS_LINES },
        { "PROGRESS", "no", PGASI_PROGRESS_NO },
    };
    int n_good = 0, n_words = 0;
    for (size_t i = 0; i < PGASI_ARRAY_LENGTH(all); i++) {
        int id = pgasi_param_find(all[i].name);
        char value[PGASI_PARAM_TEXT_BYTES];
        bool parsed = parse(all[i].name, all[i].word) == PGAS_OK;
        n_good += parsed &&
                  *(int *)((char *)&params + pgasi_param_describe(id)->offset) == all[i].value &&
                  strcmp(pgasi_param_text(&params, id, value), all[i].word) == 0;
    }
    for (int i = 0; i < PGASI_PARAM_COUNT; i++) {
        const pgasi_param_info_t *info = pgasi_param_describe(i);
        for (const char *at = info->allowed;
             info->type == PGASI_PARAM_TYPE_CHOICE && i != PGASI_PARAM_ID_TRANSPORT && at;
             n_words++) {
            at = strchr(at, '|');
            if (at)
                at++;
        }
    }
    is_int(n_good, PGASI_ARRAY_LENGTH(all), "each word parses to its enum value and prints back");
    is_int(n_words, PGASI_ARRAY_LENGTH(all), "there are no words without an enum value");
}

static void sizes_take_suffixes(void)
{
    static const struct {
        const char *value;
        uint64_t bytes;
    } good[] = {
        { "65536", 65536 },
        { "64K", 65536 },
        { "64k", 65536 },
        { "64KiB", 65536 },
        { "64KB", 65536 },
        { "1M", 1 << 20 },
        { "3G", UINT64_C(3) << 30 },
        { "2T", UINT64_C(2) << 40 },
        { "70000B", 70000 },
        { "0065536", 65536 },
    };
    static const char *const bad[] = { "12Q",
                                       "K",
                                       "1.5G",
                                       "-1",
                                       " 64K",
                                       "64K ",
                                       "64KK",
                                       "64Ki",
                                       "0x10000",
                                       "64 K",
                                       "99999999999999999999",
                                       "18014398509481985K",
                                       "1KBB" };
    int n_good = 0, n_bad = 0;
    for (size_t i = 0; i < PGASI_ARRAY_LENGTH(good); i++)
        n_good += parse("HEAP_SIZE", good[i].value) == PGAS_OK && params.heap_size == good[i].bytes;
    is_int(n_good, PGASI_ARRAY_LENGTH(good), "sizes with and without suffix");
    for (size_t i = 0; i < PGASI_ARRAY_LENGTH(bad); i++) {
        bool refused =
            parse("HEAP_SIZE", bad[i]) == PGAS_ERR_INVALID && strstr(why, "not a size") != NULL;
        if (!refused)
            diag("%s: %s", bad[i], why);
        n_bad += refused;
    }
    is_int(n_bad, PGASI_ARRAY_LENGTH(bad), "malformed sizes are refused");
    is_int(parse("CHUNK_SIZE", "128K"), PGAS_OK, "a power of two where one is asked for");
    is_int(parse("CHUNK_SIZE", "100K"), PGAS_ERR_INVALID, "and nothing else");
    ok(strstr(why, "not a power of two") != NULL, "which is said");
}

static void other_types_are_strict(void)
{
    int n_bool = 0, n_bad_bool = 0, n_bad_int = 0;
    static const char *const yes[] = { "1", "yes", "ON", "true", "Y" }, *const no[] = {
        "0", "no", "off", "False", "n"
    };
    static const char *const bad_bool[] = { "", "2", "yess", "01", " 1" };
    static const char *const bad_int[] = { "",    "one", "1x",
                                           "-",   "--1", "1.0",
                                           "0x1", " 1",  "99999999999999999999" };
    for (int i = 0; i < 5; i++) {
        n_bool += parse("STATS", yes[i]) == PGAS_OK && params.stats;
        n_bool += parse("STATS", no[i]) == PGAS_OK && !params.stats;
        n_bad_bool += parse("STATS", bad_bool[i]) == PGAS_ERR_INVALID;
    }
    for (size_t i = 0; i < PGASI_ARRAY_LENGTH(bad_int); i++)
        n_bad_int += parse("LANES", bad_int[i]) == PGAS_ERR_INVALID;
    is_int(n_bool, 10, "words for yes and no");
    is_int(n_bad_bool, 5, "others are refused");
    is_int(n_bad_int, PGASI_ARRAY_LENGTH(bad_int), "text that is no whole number is refused");
    is_int(parse("LANES", "64"), PGAS_OK, "the upper limit");
    is_int(parse("LANES", "65"), PGAS_ERR_INVALID, "and one more");
    is_int(parse("LANES", "0"), PGAS_ERR_INVALID, "less than the lower limit");
    is_int(parse("BIND", "CORE"), PGAS_OK, "case of a choice does not matter");
    is_int(parse("BIND", "core|numa"), PGAS_ERR_INVALID, "two words are none");
    is_int(parse("BIND", ""), PGAS_ERR_INVALID, "nor is no word");
    is_int(parse("LOG", "warn,call=debug"), PGAS_OK, "a log text");
    is_int(parse("LOG", "warn,call"), PGAS_ERR_INVALID, "a malformed log text");
}

static void doubles_are_strict(void)
{
    static const char *const bad[] = { "",   "x",  "1e",  "nan",  "inf",
                                       " 1", "1 ", "2.5", "-0.1", "1e999" };
    double value = -7;
    int n_bad = 0;
    for (size_t i = 0; i < PGASI_ARRAY_LENGTH(bad); i++) {
        n_bad += pgasi_param_parse_value(PGASI_PARAM_TYPE_DOUBLE, "0..2", bad[i], &value, why,
                                         sizeof why) == PGAS_ERR_INVALID;
    }
    is_int(n_bad, PGASI_ARRAY_LENGTH(bad), "malformed numbers are refused");
    ok(value == -7, "and nothing is written");
    is_int(pgasi_param_parse_value(PGASI_PARAM_TYPE_DOUBLE, "-0.5..2e3", "1.25e2", &value, why,
                                   sizeof why),
           PGAS_OK, "a number in range");
    ok(value == 125, "is taken");
    is_int(pgasi_param_parse_value(PGASI_PARAM_TYPE_INT, "0-2", "1", &(int){ 0 }, why, sizeof why),
           PGAS_ERR_INTERNAL, "a wrong line in the list is our mistake, and found");
}

static void refusals_say_all_and_change_nothing(void)
{
    char long_text[400];
    set_defaults();
    pgasi_params_t before = params;
    is_int(parse("PGAS_HEAP_SIZE", "12Q"), PGAS_ERR_INVALID, "a refusal");
    is_str(
        why,
        "PGAS_HEAP_SIZE=12Q: not a size; allowed: 64K..8T (bytes; K, M, G, T are powers of 1024)",
        "names the variable, the text and the allowed values");
    parse("TRANSPORT", "pigeon");
    ok(strncmp(why, "PGAS_TRANSPORT=pigeon: not one of the choices; allowed: ucx|", 60) == 0,
       "lists the choices: %s", why);
    is_int(parse("HEEP_SIZE", "1G"), PGAS_ERR_NOT_FOUND, "an unknown name");
    is_str(why, "PGAS_HEEP_SIZE is not a known variable: did you mean PGAS_HEAP_SIZE?",
           "is met with the nearest");
    memset(long_text, 'a', sizeof long_text);
    long_text[5] = '\033';
    long_text[sizeof long_text - 1] = '\0';
    is_int(parse("FAULT", long_text), PGAS_ERR_INVALID, "a text without end");
    ok(strlen(why) < 200 && strchr(why, '\033') == NULL && strstr(why, "...") != NULL,
       "is quoted in short: %s", why);
    char small[10];
    is_int(pgasi_param_parse("HEAP_SIZE", "x", &params, small, sizeof small), PGAS_ERR_INVALID,
           "little room");
    is_str(small, "PGAS_HEAP", "cuts the reason");
    ok(memcmp(&before, &params, sizeof params) == 0, "and no refusal changed anything");
}

static void environment_is_loaded(void)
{
    forget_environment();
    setenv("PGAS_HEAP_SIZE", "1G", 1);
    setenv("PGAS_BIND", "", 1);
    is_int(pgasi_param_load(&params, origins, why, sizeof why), PGAS_OK, "a sound environment");
    is_int(params.heap_size, 1 << 30, "is taken");
    is_int(origins[PGASI_PARAM_ID_HEAP_SIZE], PGASI_PARAM_FROM_ENVIRONMENT, "and shows as origin");
    is_int(origins[PGASI_PARAM_ID_LANES], PGASI_PARAM_FROM_DEFAULT,
           "unset parameters have their defaults");
    is_int(origins[PGASI_PARAM_ID_BIND], PGASI_PARAM_FROM_DEFAULT, "empty counts as unset");
    setenv("PGAS_LANES", "many", 1);
    setenv("PGAS_SPIN_US", "soon", 1);
    setenv("PGAS_SEGMENTS", "7", 1);
    is_int(pgasi_param_load(&params, origins, why, sizeof why), PGAS_ERR_INVALID,
           "an unsound one is refused");
    ok(strncmp(why, "PGAS_LANES=many: ", 17) == 0, "with the first reason: %s", why);
    ok(params.ctxs == 4 && params.segments == 7,
       "the refused keep their default, the others are set");
    forget_environment();
    setenv("PGAS_TEST_SOMETHING", "x", 1);
    is_str(pgasi_param_env("PGAS_TEST_SOMETHING"), "x", "foreign variables can be read");
    ok(pgasi_param_env("PGAS_TEST_NOT_THERE") == NULL, "or are not there");
}

static void lists_are_set(void)
{
    set_defaults();
    is_int(pgasi_param_set_list(&params, origins,
                                "  HEAP_SIZE=2M\tPGAS_LANES=2\r\nFAULT=delay=3,again=2 ",
                                PGASI_PARAM_FROM_INIT, why, sizeof why),
           PGAS_OK, "a list of three");
    ok(params.heap_size == 2 << 20 && params.ctxs == 2 &&
           strcmp(params.fault, "delay=3,again=2") == 0,
       "is taken");
    is_int(origins[PGASI_PARAM_ID_FAULT], PGASI_PARAM_FROM_INIT, "and shows as origin");
    is_int(pgasi_param_set_list(&params, origins, "", PGASI_PARAM_FROM_INIT, why, sizeof why),
           PGAS_OK, "none is fine");
    is_int(pgasi_param_set_list(&params, origins, "LANES=3 HEAP_SIZE", PGASI_PARAM_FROM_INIT, why,
                                sizeof why),
           PGAS_ERR_INVALID, "an item without a value");
    is_str(why, "`HEAP_SIZE' is not NAME=VALUE; allowed: NAME=VALUE NAME=VALUE", "is named");
    is_int(pgasi_param_set_list(&params, origins, "CTX=3", PGASI_PARAM_FROM_INIT, why, sizeof why),
           PGAS_ERR_NOT_FOUND, "an unknown name");
    char long_list[500] = "FAULT=";
    memset(long_list + 6, 'x', sizeof long_list - 7);
    is_int(pgasi_param_set_list(&params, origins, long_list, PGASI_PARAM_FROM_INIT, why,
                                sizeof why),
           PGAS_ERR_INVALID, "an item without end");
}

static void rank_0_rules(void)
{
    pgasi_params_t rank_0;
    pgasi_param_origin_t ignored[PGASI_PARAM_COUNT];
    pgasi_param_defaults(&rank_0, ignored, why, sizeof why);
    set_defaults();
    ok(pgasi_param_checksum(&params) == pgasi_param_checksum(&rank_0),
       "equal values, equal checksum");
    pgasi_param_set(&rank_0, ignored, "HEAP_SIZE", "1M", PGASI_PARAM_FROM_ENVIRONMENT, why,
                    sizeof why);
    pgasi_param_set(&rank_0, ignored, "LOG", "info", PGASI_PARAM_FROM_ENVIRONMENT, why, sizeof why);
    pgasi_param_set(&params, origins, "LOG", "warn,mem=debug", PGASI_PARAM_FROM_ENVIRONMENT, why,
                    sizeof why);
    pgasi_param_set(&params, origins, "LANES", "4", PGASI_PARAM_FROM_ENVIRONMENT, why, sizeof why);
    ok(pgasi_param_checksum(&params) != pgasi_param_checksum(&rank_0),
       "other values, another checksum");
    pgasi_param_adopt(&params, origins, &rank_0);
    ok(params.heap_size == 1 << 20 && strcmp(params.log, "info") == 0,
       "rank 0's values are taken over");
    ok(pgasi_param_checksum(&params) == pgasi_param_checksum(&rank_0),
       "and the checksums agree, after a longer text");
    ok(origins[PGASI_PARAM_ID_HEAP_SIZE] == PGASI_PARAM_FROM_RANK_0 &&
           origins[PGASI_PARAM_ID_LOG] == PGASI_PARAM_FROM_RANK_0 &&
           origins[PGASI_PARAM_ID_LANES] == PGASI_PARAM_FROM_ENVIRONMENT,
       "where they differ the origin is rank 0");
}

static void table_is_printed(void)
{
    char *table = NULL;
    size_t bytes = 0;
    int n_lines = 0;
    forget_environment();
    setenv("PGAS_HEAP_SIZE", "3M", 1);
    pgasi_param_load(&pgasi_param, pgasi_param_origins, why, sizeof why);
    FILE *out = open_memstream(&table, &bytes);
    pgasi_param_print(out);
    fclose(out);
    for (const char *at = table; (at = strchr(at, '\n')) != NULL; at++)
        n_lines++;
    is_int(n_lines, 2 * PGASI_PARAM_COUNT + 1, "two lines for each, and a head");
    ok(strstr(table, "PGAS_HEAP_SIZE        3M         256M       environment bytes\n    symmetric "
                     "heap of each rank [64K..8T]\n"),
       "with value, default, origin and unit; doc and allowed values");
    free(table);
    forget_environment();
}

static void unknown_names_are_warned_about(void)
{
    static const char *const fine[] = { "PGAS_HEAP_SIZE=1G", "PGAS_UCX_TLS=tcp", "PGAS_TEST_SEED=1",
                                        "PATH=/bin",         "PGASX=1",          "pgas_ctxs=1" };
    int n_fine = 0;
    for (size_t i = 0; i < PGASI_ARRAY_LENGTH(fine); i++)
        n_fine += !pgasi_param_unknown(fine[i], why, sizeof why);
    is_int(n_fine, PGASI_ARRAY_LENGTH(fine), "known and foreign names pass");
    ok(pgasi_param_unknown("PGAS_HEAPSIZE=1G", why, sizeof why) &&
           strstr(why, "did you mean PGAS_HEAP_SIZE?"),
       "%s", why);
    ok(pgasi_param_unknown("PGAS_NODE_MAX_SIZE=2", why, sizeof why) &&
           strstr(why, "mean PGAS_NODE_MAXSIZE?"),
       "%s", why);
    ok(pgasi_param_unknown("PGAS_WEATHER_REPORT=fine", why, sizeof why) &&
           strstr(why, "pgas_info lists all"),
       "%s", why);
    ok(pgasi_param_unknown("PGAS_=", why, sizeof why), "a name of nothing: %s", why);

    FILE *log = tmpfile();
    int former = pgasi_log_set_fd(fileno(log));
    char lines[2000] = "";
    setenv("PGAS_HEEP_SIZE", "1G", 1);
    int n_first = pgasi_param_warn_unknown(), n_second = pgasi_param_warn_unknown();
    unsetenv("PGAS_HEEP_SIZE");
    pgasi_log_set_fd(former);
    rewind(log);
    lines[fread(lines, 1, sizeof lines - 1, log)] = '\0';
    fclose(log);
    ok(n_first >= 1 && n_second == 0, "the environment is judged once");
    ok(strstr(
           lines,
           "param: warn: PGAS_HEEP_SIZE is not a known variable: did you mean PGAS_HEAP_SIZE?\n") !=
           NULL,
       "and a warning logged");
}

static bool set_to(const char *name, const char *value)
{
    const char *now = getenv(name);
    return value ? now && strcmp(now, value) == 0 : !now;
}

/* The settings of UCX at rank 0 reach other ranks as one text: NAME=VALUE, each followed by a zero
 * byte. */
static void settings_of_ucx_travel(void)
{
    static const char packed[] = "PGAS_UCX_A=1\0PGAS_UCX_BB=22\0PGAS_UCX_CCC=own\0PGAS_UCX_DDDD=";
    char text[sizeof packed] = "", small[sizeof packed] = "";
    static char *const all[] = { "PGAS_UCX_A=1",     "PGAS_UCXA=2", "PGAS_UCX_BB=22", "UCX_TLS=x",
                                 "PGAS_UCX_CCC=own", "PGAS_UCX_",   "PGAS_UCX_DDDD=", NULL };
    char **former = environ;
    environ = (char **)all;
    is_int(pgasi_param_ucx_pack(NULL, 0), sizeof packed, "the settings of UCX are counted");
    is_int(pgasi_param_ucx_pack(text, sizeof text), sizeof packed, "and packed");
    ok(memcmp(text, packed, sizeof packed) == 0, "each as one text");
    is_int(pgasi_param_ucx_pack(small, 20), sizeof packed,
           "with little room the count is the same");
    ok(memcmp(small, packed, 13) == 0 && small[13] == '\0', "and only whole ones are packed");
    environ = former;

    setenv("PGAS_UCX_CCC", "mine", 1);
    for (int i = 0; i < 2; i++) {
        pgasi_param_ucx_adopt(packed, sizeof packed);
        ok(set_to("PGAS_UCX_A", "1") && set_to("PGAS_UCX_BB", "22") && set_to("PGAS_UCX_DDDD", ""),
           "all are adopted");
        ok(set_to("PGAS_UCX_CCC", "mine"), "an own one stays");
    }
    pgasi_param_ucx_return();
    ok(set_to("PGAS_UCX_A", NULL) && set_to("PGAS_UCX_BB", NULL) && set_to("PGAS_UCX_DDDD", NULL),
       "all are returned");
    ok(set_to("PGAS_UCX_CCC", "mine"), "but not the own one");
    unsetenv("PGAS_UCX_CCC");
}

int main(void)
{
    plan(82);
    list_is_sound();
    defaults_are_the_promised_ones();
    choices_match_their_enums();
    sizes_take_suffixes();
    other_types_are_strict();
    doubles_are_strict();
    refusals_say_all_and_change_nothing();
    environment_is_loaded();
    lists_are_set();
    rank_0_rules();
    table_is_printed();
    unknown_names_are_warned_about();
    settings_of_ucx_travel();
    return done();
}
