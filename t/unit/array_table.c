/* what: The protocol's table and the model that spin explores are equal: every state, event, next
 *       state and action.
 * source: src/array/state.h; src/array/protocol.pml, whose rows are lines ROW(state, event, next,
 * action; action; ...) */
#include "array/state.h"
#include "t/tap.h"

#define ROWS_MAX 256

typedef struct {
    char text[128];
    int state, event, next;
    uint64_t actions;
} row_t;

typedef struct {
    row_t row[ROWS_MAX];
    /* bad: a name that is unknown, actions in another order than that in which they are carried
     * out */
    int n, n_bad;
} model_t;

static model_t model, changed;

/* ---- reading the model ---- */

static int number_of(const char *name, const char *(*name_of)(int), int n)
{
    for (int i = 0; i < n; i++)
        if (strcmp(name, name_of(i)) == 0)
            return i;
    return -1;
}

static const char *state_name(int i)
{
    return pgasi_array_state_name((pgasi_array_state_t)i);
}

static const char *event_name(int i)
{
    return pgasi_array_event_name((pgasi_array_event_t)i);
}

static const char *action_name(int i)
{
    return pgasi_array_action_name((pgasi_array_action_t)i);
}

static bool read_actions(char *list, uint64_t *actions_p)
{
    char *rest = NULL;
    int last = -1;
    *actions_p = 0;
    for (char *name = strtok_r(list, "; ", &rest); name; name = strtok_r(NULL, "; ", &rest)) {
        if (strcmp(name, "NONE") == 0)
            return last == -1 && !*rest;
        int action = number_of(name, action_name, PGASI_ARRAY_N_ACTIONS);
        if (action <= last)
            return false;
        last = action;
        *actions_p |= UINT64_C(1) << action;
    }
    return last >= 0;
}

static void read_row(model_t *m, const char *line)
{
    char state[16], event[16], next[16], actions[96], end;
    row_t row;
    int n = sscanf(line, " ROW(%15[^,], %15[^,], %15[^,], %95[^)])%c", state, event, next, actions,
                   &end);
    bool good = n == 5 && end == '\n';
    snprintf(row.text, sizeof row.text, "%.*s", (int)strcspn(line, "\n"), line);
    if (good) {
        row.state = number_of(state, state_name, PGASI_ARRAY_N_STATES);
        row.event = number_of(event, event_name, PGASI_ARRAY_N_EVENTS);
        row.next = number_of(next, state_name, PGASI_ARRAY_N_STATES);
        good = row.state >= 0 && row.event >= 0 && row.next >= 0 &&
               read_actions(actions, &row.actions);
    }
    if (good && m->n < ROWS_MAX)
        m->row[m->n++] = row;
    else
        diag("cannot be read: %s", row.text);
    m->n_bad += !good;
}

static void read_model(model_t *m, const char *text)
{
    m->n = m->n_bad = 0;
    for (const char *line = text; line && *line; line = strchr(line, '\n') + 1)
        if (strncmp(line, "    ROW(", 8) == 0)
            read_row(m, line);
}

/* ---- comparing ---- */

static const row_t *find_row(const model_t *m, int state, int event)
{
    const row_t *found = NULL;
    for (int i = 0; i < m->n; i++)
        if (m->row[i].state == state && m->row[i].event == event)
            found = found ? NULL : &m->row[i]; /* of two none is right */
    return found;
}

/* Rows of the model that the table has otherwise, or not. */
static int wrong_rows(const model_t *m, bool tell)
{
    int n = 0;
    for (int i = 0; i < m->n; i++) {
        const row_t *row = &m->row[i];
        const pgasi_array_step_t *step =
            pgasi_array_step((pgasi_array_state_t)row->state, (pgasi_array_event_t)row->event);
        if (step->known && step->next == row->next && step->actions == row->actions &&
            find_row(m, row->state, row->event) == row)
            continue;
        n++;
        if (tell)
            diag("not in the table: %s", row->text);
    }
    return n;
}

/* Transitions of the table that the model has not, or twice. */
static int missing_rows(const model_t *m, bool tell)
{
    int n = 0;
    for (int i = 0; i < PGASI_ARRAY_N_STATES * PGASI_ARRAY_N_EVENTS; i++) {
        int state = i / PGASI_ARRAY_N_EVENTS, event = i % PGASI_ARRAY_N_EVENTS;
        if (!pgasi_array_step((pgasi_array_state_t)state, (pgasi_array_event_t)event)->known ||
            find_row(m, state, event))
            continue;
        n++;
        if (tell)
            diag("not in the model: %s, %s", state_name(state), event_name(event));
    }
    return n;
}

static void table_and_model_agree(const char *text)
{
    read_model(&model, text);
    ok(model.n > 90 && model.n_bad == 0,
       "the model has %d rows, with actions in the order of the table's", model.n);
    is_int(wrong_rows(&model, true), 0, "the table has each of them");
    is_int(missing_rows(&model, true), 0, "and no other");
}

/* ---- the check can fail ---- */

/* A copy of the model with something else in place of a text that it has. */
static bool is_noticed(const char *text, const char *old, const char *new)
{
    const char *at = strstr(text, old);
    char *copy = malloc(strlen(text) + strlen(new) + 1);
    if (!at || !copy) {
        diag("the model has no %s", old);
        free(copy);
        return false;
    }
    sprintf(copy, "%.*s%s%s", (int)(at - text), text, new, at + strlen(old));
    read_model(&changed, copy);
    free(copy);
    return changed.n_bad + wrong_rows(&changed, false) + missing_rows(&changed, false) > 0;
}

static void a_change_is_noticed(const char *text)
{
    ok(is_noticed(text, "C_SWi, QUIET, C_IW", "C_SWi, QUIET, C_SW"),
       "another next state is noticed (made on purpose)");
    ok(is_noticed(text, "QUIESCE; KEEP; DROP", "KEEP; DROP"), "one action less");
    ok(is_noticed(text, "(C_W, GIVE, C_W, NONE", "(C_W, GIVE, C_W, SEND_ACK"), "one action more");
    ok(is_noticed(text, "ADD; SEND_DATA_R", "SEND_DATA_R; ADD"), "actions in another order");
    ok(is_noticed(text, "    ROW(H_S, FETCH_R", "    row(H_S, FETCH_R"), "a row less");
    ok(is_noticed(text, "    ROW(H_S, FETCH_R",
                  "    ROW(C_I, LEND, C_I, NONE)\n    ROW(H_S, FETCH_R"),
       "a row more");
    ok(is_noticed(text, "    ROW(H_S, FETCH_R",
                  "    ROW(C_W, LEND, C_W, NONE)\n    ROW(H_S, FETCH_R"),
       "a row twice");
    ok(is_noticed(text, "(C_I, NEED_R", "(C_J, NEED_R"), "a name that does not exist");
}

static char *read_file(const char *path)
{
    FILE *f = fopen(path, "r");
    char *text = calloc(1, 1 << 20);
    if (!f || !text || fread(text, 1, (1 << 20) - 1, f) == 0)
        bail("cannot read %s", path);
    fclose(f);
    return text;
}

int main(void)
{
    plan(11);
    char *text = read_file(PROTOCOL);
    table_and_model_agree(text);
    a_change_is_noticed(text);
    free(text);
    return done();
}
