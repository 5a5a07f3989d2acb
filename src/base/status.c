/* Names and texts of status codes, generated from the list in pgas/status.h so that they cannot
 * drift apart. */
#include "pgas/status.h"

const char *pgas_status_name(pgas_status_t status)
{
    switch ((int)status) {
#define NAME_CASE(name, number, text) \
    case number:                      \
        return #name;
        PGAS_STATUS_LIST(NAME_CASE)
#undef NAME_CASE
    default:
        return "PGAS_ERR_?";
    }
}

const char *pgas_status_text(pgas_status_t status)
{
    switch ((int)status) {
#define TEXT_CASE(name, number, text) \
    case number:                      \
        return text;
        PGAS_STATUS_LIST(TEXT_CASE)
#undef TEXT_CASE
    default:
        return "PGAS_ERR_? (unknown status)";
    }
}
