/* The set of parameters: names, loading, printing, all generated from param_vars.h.
 *
 * Some dozens of variables are read once, at init, so everything is a linear walk over a table.
 * Only this file uses getenv and environ. */
#include "base/param.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include "base/checks.h"
#include "base/hash.h"
#include "base/log.h"

#define PREFIX          "PGAS_"
#define PREFIX_LENGTH   (sizeof PREFIX - 1)
#define NAME_MAX_LENGTH 40 /* a longer name is no typing error */

pgasi_params_t pgasi_param;
pgasi_param_origin_t pgasi_param_origins[PGASI_PARAM_COUNT];

static const pgasi_param_info_t infos[PGASI_PARAM_COUNT] = {
#define PGASI_PARAM(name, field, type, text, allowed, unit, doc) \
    { #name,                                                     \
      PGASI_PARAM_TYPE_##type,                                   \
      text,                                                      \
      allowed,                                                   \
      unit,                                                      \
      doc,                                                       \
      offsetof(pgasi_params_t, field),                           \
      sizeof(pgasi_param_##type##_t) },
#include "base/param_vars.h"
};

/* ---- names ---- */

static const char *without_prefix(const char *name)
{
    return strncmp(name, PREFIX, PREFIX_LENGTH) == 0 ? name + PREFIX_LENGTH : name;
}

const pgasi_param_info_t *pgasi_param_describe(pgasi_param_id_t id)
{
    return &infos[id];
}

int pgasi_param_find(const char *name)
{
    name = without_prefix(name);
    for (int i = 0; i < PGASI_PARAM_COUNT; i++)
        if (strcmp(infos[i].name, name) == 0)
            return i;
    return -1;
}

/* Computes Levenshtein's distance between short names, one row at a time. */
static size_t edit_distance(const char *a, const char *b)
{
    size_t row[NAME_MAX_LENGTH + 1];
    size_t a_length = strlen(a), b_length = strlen(b);
    if (a_length > NAME_MAX_LENGTH || b_length > NAME_MAX_LENGTH)
        return SIZE_MAX;
    for (size_t j = 0; j <= b_length; j++)
        row[j] = j;
    for (size_t i = 1; i <= a_length; i++) {
        size_t diagonal = row[0];
        row[0] = i;
        for (size_t j = 1; j <= b_length; j++) {
            size_t changed = diagonal + (a[i - 1] != b[j - 1]);
            diagonal = row[j];
            row[j] = PGASI_MIN(changed, PGASI_MIN(row[j], row[j - 1]) + 1);
        }
    }
    return row[b_length];
}

/* Finds the known name that was probably meant. @return NULL: none is near enough */
static const char *nearest_name(const char *name)
{
    const char *nearest = NULL;
    size_t best = PGASI_MAX(strlen(name) / 3, 2) + 1;
    for (int i = 0; i < PGASI_PARAM_COUNT; i++) {
        size_t distance = edit_distance(name, infos[i].name);
        if (distance < best) {
            best = distance;
            nearest = infos[i].name;
        }
    }
    return nearest;
}

/* Makes user text fit for a message: short, and without bytes that change a terminal's state. */
static const char *quotable(const char *text, char *buffer, size_t bytes)
{
    size_t i;
    for (i = 0; text[i] != '\0' && i < bytes - 4; i++)
        buffer[i] = (unsigned char)text[i] < 0x20 || text[i] == 0x7f ? '?' : text[i];
    strcpy(buffer + i, text[i] != '\0' ? "..." : "");
    return buffer;
}

static pgas_status_t refuse_name(const char *name, char *why, size_t why_bytes)
{
    char quoted[64];
    const char *meant = nearest_name(name);
    quotable(name, quoted, sizeof quoted);
    if (meant) {
        snprintf(why, why_bytes, PREFIX "%s is not a known variable: did you mean " PREFIX "%s?",
                 quoted, meant);
    } else {
        snprintf(why, why_bytes, PREFIX "%s is not a known variable (pgas_info lists all)", quoted);
    }
    return PGAS_ERR_NOT_FOUND;
}

/* ---- the set of parameters ---- */

static pgas_status_t parse_field(int id, const char *text, pgasi_params_t *out, char *why,
                                 size_t why_bytes)
{
    char reason[PGASI_PARAM_WHY_BYTES], quoted[64];
    const pgasi_param_info_t *info = &infos[id];
    pgas_status_t status =
        pgasi_param_parse_value(info->type, info->allowed, text, (char *)out + info->offset, reason,
                                sizeof reason);
    if (status != PGAS_OK) {
        int wanted = snprintf(why, why_bytes, PREFIX "%s=%s: %s", info->name,
                              quotable(text, quoted, sizeof quoted), reason);
        (void)wanted; /* a message that was cut is still useful */
    }
    return status;
}

pgas_status_t pgasi_param_parse(const char *name, const char *text, pgasi_params_t *out, char *why,
                                size_t why_bytes)
{
    int id = pgasi_param_find(name);
    return id < 0 ? refuse_name(without_prefix(name), why, why_bytes)
                  : parse_field(id, text, out, why, why_bytes);
}

pgas_status_t pgasi_param_set(pgasi_params_t *p, pgasi_param_origin_t origins[], const char *name,
                              const char *text, pgasi_param_origin_t origin, char *why,
                              size_t why_bytes)
{
    pgas_status_t status = pgasi_param_parse(name, text, p, why, why_bytes);
    if (status == PGAS_OK)
        origins[pgasi_param_find(name)] = origin;
    return status;
}

pgas_status_t pgasi_param_set_list(pgasi_params_t *p, pgasi_param_origin_t origins[],
                                   const char *list, pgasi_param_origin_t origin, char *why,
                                   size_t why_bytes)
{
    static const char blanks[] = " \t\r\n";
    for (const char *at = list + strspn(list, blanks); *at != '\0'; at += strspn(at, blanks)) {
        char item[PGASI_PARAM_TEXT_BYTES + NAME_MAX_LENGTH + PREFIX_LENGTH + 2];
        size_t length = strcspn(at, blanks);
        snprintf(item, sizeof item, "%.*s", (int)PGASI_MIN(length, sizeof item), at);
        at += length;
        char *equals = strchr(item, '=');
        if (!equals || length >= sizeof item) {
            char quoted[64];
            snprintf(why, why_bytes, "`%s' is %s; allowed: NAME=VALUE NAME=VALUE",
                     quotable(item, quoted, sizeof quoted),
                     !equals ? "not NAME=VALUE" : "too long");
            return PGAS_ERR_INVALID;
        }
        *equals = '\0';
        pgas_status_t status =
            pgasi_param_set(p, origins, item, equals + 1, origin, why, why_bytes);
        if (status != PGAS_OK)
            return status;
    }
    return PGAS_OK;
}

pgas_status_t pgasi_param_defaults(pgasi_params_t *p, pgasi_param_origin_t origins[], char *why,
                                   size_t why_bytes)
{
    memset(p, 0, sizeof *p);
    for (int i = 0; i < PGASI_PARAM_COUNT; i++) {
        origins[i] = PGASI_PARAM_FROM_DEFAULT;
        if (parse_field(i, infos[i].default_text, p, why, why_bytes) != PGAS_OK)
            return PGAS_ERR_INTERNAL;
    }
    return PGAS_OK;
}

pgas_status_t pgasi_param_load(pgasi_params_t *p, pgasi_param_origin_t origins[], char *why,
                               size_t why_bytes)
{
    pgas_status_t first = pgasi_param_defaults(p, origins, why, why_bytes);
    for (int i = 0; i < PGASI_PARAM_COUNT && first != PGAS_ERR_INTERNAL; i++) {
        char name[PREFIX_LENGTH + NAME_MAX_LENGTH + 1], ignored[PGASI_PARAM_WHY_BYTES];
        bool refused = first != PGAS_OK;
        snprintf(name, sizeof name, PREFIX "%s", infos[i].name);
        const char *text = getenv(name);
        if (!text || text[0] == '\0')
            continue;
        pgas_status_t status =
            parse_field(i, text, p, refused ? ignored : why, refused ? sizeof ignored : why_bytes);
        if (status == PGAS_OK)
            origins[i] = PGASI_PARAM_FROM_ENVIRONMENT;
        else if (!refused)
            first = status;
    }
    return first;
}

static bool fields_equal(const pgasi_params_t *a, const pgasi_params_t *b, int id)
{
    return memcmp((const char *)a + infos[id].offset, (const char *)b + infos[id].offset,
                  infos[id].bytes) == 0;
}

void pgasi_param_adopt(pgasi_params_t *p, pgasi_param_origin_t origins[],
                       const pgasi_params_t *rank_0)
{
    for (int i = 0; i < PGASI_PARAM_COUNT; i++) {
        if (!fields_equal(p, rank_0, i)) {
            memcpy((char *)p + infos[i].offset, (const char *)rank_0 + infos[i].offset,
                   infos[i].bytes);
            origins[i] = PGASI_PARAM_FROM_RANK_0;
        }
    }
}

uint64_t pgasi_param_checksum(const pgasi_params_t *p)
{
    uint64_t sum = PGASI_PARAM_COUNT;
    for (int i = 0; i < PGASI_PARAM_COUNT; i++)
        sum = pgasi_hash_bytes((const char *)p + infos[i].offset, infos[i].bytes, sum);
    return sum;
}

/* ---- printing ---- */

char *pgasi_param_text(const pgasi_params_t *p, pgasi_param_id_t id,
                       char text[PGASI_PARAM_TEXT_BYTES])
{
    const pgasi_param_info_t *info = &infos[id];
    return pgasi_param_format_value(info->type, info->allowed, (const char *)p + info->offset,
                                    text);
}

static void print_head(FILE *out)
{
    fprintf(out, "%-21s %-10s %-10s %-11s %s\n", "# name", "value", "default", "origin", "unit");
}

static void print_entry(FILE *out, pgasi_param_id_t id)
{
    static const char *const origins[] = { "default", "environment", "init option", "rank 0" };
    const pgasi_param_info_t *info = &infos[id];
    char value[PGASI_PARAM_TEXT_BYTES];
    pgasi_param_text(&pgasi_param, id, value);
    fprintf(out, PREFIX "%-16s %-10s %-10s %-11s %s\n", info->name, value[0] ? value : "-",
            info->default_text[0] ? info->default_text : "-", origins[pgasi_param_origins[id]],
            info->unit[0] ? info->unit : "-");
    fprintf(out, "    %s%s%s%s\n", info->doc, info->allowed[0] ? " [" : "", info->allowed,
            info->allowed[0] ? "]" : "");
}

void pgasi_param_print(FILE *out)
{
    print_head(out);
    for (int i = 0; i < PGASI_PARAM_COUNT; i++)
        print_entry(out, (pgasi_param_id_t)i);
}

pgas_status_t pgasi_param_print_var(FILE *out, const char *name, char *why, size_t why_bytes)
{
    int id = pgasi_param_find(name);
    if (id < 0)
        return refuse_name(strncmp(name, PREFIX, PREFIX_LENGTH) == 0 ? name + PREFIX_LENGTH : name,
                           why, why_bytes);
    print_head(out);
    print_entry(out, (pgasi_param_id_t)id);
    return PGAS_OK;
}

void pgasi_param_print_ucx(FILE *out)
{
    for (char **entry = environ; entry != NULL && *entry; entry++) {
        const char *name = *entry, *value = strchr(name, '=');
        if (value && (strncmp(name, PREFIX "UCX_", PREFIX_LENGTH + 4) == 0 ||
                      strncmp(name, "UCX_", 4) == 0)) {
            fprintf(out, "%-21.*s %-10s -          environment -\n    read by UCX\n",
                    (int)(value - name), name, value + 1);
        }
    }
}

/* ---- the environment ---- */

bool pgasi_param_unknown(const char *entry, char *why, size_t why_bytes)
{
    static const char *const foreign[] = { "UCX_", "TEST_" };
    char name[128];
    if (strncmp(entry, PREFIX, PREFIX_LENGTH) != 0)
        return false;
    entry += PREFIX_LENGTH;
    for (size_t i = 0; i < PGASI_ARRAY_LENGTH(foreign); i++)
        if (strncmp(entry, foreign[i], strlen(foreign[i])) == 0)
            return false;
    snprintf(name, sizeof name, "%.*s", (int)PGASI_MIN(strcspn(entry, "="), sizeof name - 1),
             entry);
    if (pgasi_param_find(name) >= 0)
        return false;
    refuse_name(name, why, why_bytes);
    return true;
}

int pgasi_param_warn_unknown(void)
{
    static int done;
    char why[PGASI_PARAM_WHY_BYTES];
    int n_unknown = 0;
    if (__atomic_exchange_n(&done, 1, __ATOMIC_RELAXED) != 0)
        return 0;
    for (char **entry = environ; entry != NULL && *entry; entry++) {
        if (pgasi_param_unknown(*entry, why, sizeof why)) {
            PGASI_WARN("param", "%s", why);
            n_unknown++;
        }
    }
    return n_unknown;
}

/* The names of the adopted variables, each with its terminating zero. */
static char *adopted;
static size_t adopted_bytes;

size_t pgasi_param_ucx_pack(char *text, size_t bytes)
{
    size_t used = 0;
    for (char **entry = environ; entry != NULL && *entry; entry++) {
        size_t length = strlen(*entry) + 1;
        if (strncmp(*entry, PREFIX "UCX_", PREFIX_LENGTH + 4) != 0 || strchr(*entry, '=') == NULL)
            continue;
        if (used + length <= bytes)
            memcpy(text + used, *entry, length);
        used += length;
    }
    return used;
}

void pgasi_param_ucx_adopt(const char *text, size_t bytes)
{
    pgasi_param_ucx_return();
    adopted = malloc(bytes + 1);
    for (const char *at = text; adopted != NULL && at < text + bytes; at += strlen(at) + 1) {
        char *name = adopted + adopted_bytes;
        size_t length = strcspn(at, "=");
        memcpy(name, at, length);
        name[length] = '\0';
        if (!getenv(name) && setenv(name, at + length + 1, 1) == 0)
            adopted_bytes += length + 1;
    }
}

void pgasi_param_ucx_return(void)
{
    for (size_t at = 0; at < adopted_bytes; at += strlen(adopted + at) + 1)
        unsetenv(adopted + at);
    free(adopted);
    adopted = NULL;
    adopted_bytes = 0;
}

const char *pgasi_param_env(const char *name)
{
    return getenv(name);
}
