/* what: Every status code has a name, a text and a number of its own. Unknown numbers are called
 *       unknown.
 * source: public headers; include/pgas/status.h */
#include "pgas/status.h"
#include "t/tap.h"

static const struct {
    pgas_status_t status;
    int number;
    const char *name, *text;
} all[] = {
#define ENTRY(name, number, text) { name, number, #name, text },
    PGAS_STATUS_LIST(ENTRY)
#undef ENTRY
};
#define N_ALL ((int)(sizeof all / sizeof all[0]))

static void names_and_texts_are_those_of_the_list(void)
{
    int n_good = 0;
    for (int i = 0; i < N_ALL; i++) {
        n_good += (int)all[i].status == all[i].number &&
                  strcmp(pgas_status_name(all[i].status), all[i].name) == 0 &&
                  strcmp(pgas_status_text(all[i].status), all[i].text) == 0;
    }
    is_int(n_good, N_ALL, "each code gives its name and text");
}

static void codes_differ(void)
{
    int n_same = 0;
    for (int i = 0; i < N_ALL; i++)
        for (int j = 0; j < i; j++)
            n_same += all[i].number == all[j].number || strcmp(all[i].text, all[j].text) == 0;
    is_int(n_same, 0, "no two codes share a number or a text");
}

static void numbers_are_the_promised_ones(void)
{
    is_int(PGAS_OK, 0, "success is 0");
    is_int(PGAS_INPROGRESS, 1, "in progress is 1");
    is_int(PGAS_ERR_AGAIN, -1, "again is -1");
    int n_negative = 0;
    for (int i = 2; i < N_ALL; i++)
        n_negative += all[i].number == 1 - i;
    is_int(n_negative, N_ALL - 2,
           "errors count down from -1 without gaps, in the order of the list");
}

static void unknown_numbers_are_named_unknown(void)
{
    is_str(pgas_status_name((pgas_status_t)-1000), "PGAS_ERR_?", "name of an unknown number");
    ok(strstr(pgas_status_text((pgas_status_t)77), "PGAS_ERR_?") != NULL,
       "text of an unknown number");
}

int main(void)
{
    plan(8);
    names_and_texts_are_those_of_the_list();
    codes_differ();
    numbers_are_the_promised_ones();
    unknown_numbers_are_named_unknown();
    return done();
}
