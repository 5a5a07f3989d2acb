/* Reads the text of PGAS_FAULT; see fault.h. */
#include "transport/fault.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define ALLOWED \
    "allowed: delay=N, reorder=N, again=N, drop-reg=RANK[:K], seed=N, separated by commas"

/* Reads a number that ends at `end` (or, with stop, at that character). */
static bool read_number(const char **at, const char *end, unsigned long long max,
                        unsigned long long *value_p)
{
    char *after;
    errno = 0;
    if (*at >= end || **at < '0' || **at > '9')
        return false;
    unsigned long long value = strtoull(*at, &after, 10);
    if (errno != 0 || value > max || after > end)
        return false;
    *at = after;
    *value_p = value;
    return true;
}

static bool read_item(const char *item, const char *end, pgasi_fault_plan_t *plan)
{
    const char *equals = memchr(item, '=', (size_t)(end - item));
    if (!equals)
        return false;
    size_t name_bytes = (size_t)(equals - item);
    const char *at = equals + 1;
    unsigned long long n, after = 0;
    bool is_seed = name_bytes == 4 && memcmp(item, "seed", 4) == 0;
    if (!read_number(&at, end, is_seed ? UINT64_MAX : PGASI_FAULT_N_MAX, &n))
        return false;
    if (is_seed) {
        plan->has_seed = true;
        plan->seed = n;
    } else if (name_bytes == 5 && memcmp(item, "delay", 5) == 0) {
        plan->delay = (int)n;
    } else if (name_bytes == 7 && memcmp(item, "reorder", 7) == 0) {
        plan->reorder = (int)n;
    } else if (name_bytes == 5 && memcmp(item, "again", 5) == 0) {
        plan->again = (int)n;
    } else if (name_bytes == 8 && memcmp(item, "drop-reg", 8) == 0) {
        if (at < end && *at == ':') {
            at++;
            if (!read_number(&at, end, PGASI_FAULT_N_MAX, &after))
                return false;
        }
        plan->drop_reg = (int)n;
        plan->drop_reg_after = (int)after;
    } else {
        return false;
    }
    return at == end;
}

pgas_status_t pgasi_fault_parse(const char *text, pgasi_fault_plan_t *plan_p, char *why,
                                size_t why_bytes)
{
    pgasi_fault_plan_t plan = { .drop_reg = -1 };
    for (const char *item = text; *item != '\0';) {
        const char *end = item + strcspn(item, ",");
        if (!read_item(item, end, &plan)) {
            snprintf(why, why_bytes, "`%.*s' is no fault; " ALLOWED, (int)(end - item), item);
            return PGAS_ERR_INVALID;
        }
        item = end + (*end == ',');
        if (*end == ',' && *item == '\0') {
            snprintf(why, why_bytes, "nothing follows the last comma; " ALLOWED);
            return PGAS_ERR_INVALID;
        }
    }
    *plan_p = plan;
    return PGAS_OK;
}
