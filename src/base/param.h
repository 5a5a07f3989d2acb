/** Parameters: every PGAS_* variable, from the one list in param_vars.h.
 *
 *  pgasi_params_t is plain memory without pointers, so boot broadcasts rank 0's copy and every rank
 *  adopts it. Only this module reads the environment, also the variables that launchers set
 *  (pgasi_param_env). */
#ifndef PGASI_PARAM_H
#define PGASI_PARAM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include "pgas/status.h"

#define PGASI_PARAM_TEXT_BYTES 256 /* a text value with its zero */
#define PGASI_PARAM_WHY_BYTES  512 /* room for any refusal */

typedef enum {
    PGASI_PARAM_TYPE_BOOL,
    PGASI_PARAM_TYPE_INT,
    PGASI_PARAM_TYPE_SIZE,
    PGASI_PARAM_TYPE_DOUBLE,
    PGASI_PARAM_TYPE_STRING,
    PGASI_PARAM_TYPE_LOG,
    PGASI_PARAM_TYPE_CHOICE
} pgasi_param_type_t;

typedef bool pgasi_param_BOOL_t;
typedef int pgasi_param_INT_t;
typedef size_t pgasi_param_SIZE_t;
typedef double pgasi_param_DOUBLE_t;
typedef char pgasi_param_STRING_t[PGASI_PARAM_TEXT_BYTES];
typedef char pgasi_param_LOG_t[PGASI_PARAM_TEXT_BYTES];
typedef int pgasi_param_CHOICE_t;

/* PGASI_PARAM_ID_HEAP_SIZE and so on: the position of a parameter in the list */
typedef enum {
#define PGASI_PARAM(name, field, type, text, allowed, unit, doc) PGASI_PARAM_ID_##name,
#include "base/param_vars.h"
    PGASI_PARAM_COUNT
} pgasi_param_id_t;

typedef struct {
#define PGASI_PARAM(name, field, type, text, allowed, unit, doc) pgasi_param_##type##_t field;
#include "base/param_vars.h"
} pgasi_params_t;

/* Values of choices, in the order of their words in the list. Transports are named by their word:
 * see pgasi_param_text. */
enum { PGASI_HUGEPAGES_TRY, PGASI_HUGEPAGES_NO, PGASI_HUGEPAGES_YES, PGASI_HUGEPAGES_2M };
enum { PGASI_BIND_NONE, PGASI_BIND_CORE, PGASI_BIND_NUMA };
enum { PGASI_POOL_GROWTH_EXPONENTIAL, PGASI_POOL_GROWTH_LINEAR };
enum { PGASI_FAR_CALLS_AUTO, PGASI_FAR_CALLS_MESSAGE, PGASI_FAR_CALLS_PUT, PGASI_FAR_CALLS_MAP };
enum { PGASI_ON_PEER_DEATH_ABORT, PGASI_ON_PEER_DEATH_CONTINUE };
enum { PGASI_ARRAY_ACCESS_AUTO, PGASI_ARRAY_ACCESS_OPEN, PGASI_ARRAY_ACCESS_GUARDED };
enum { PGASI_PROGRESS_AUTO, PGASI_PROGRESS_BAR, PGASI_PROGRESS_LINES, PGASI_PROGRESS_NO };
enum { PGASI_VERBS_ENGINE_CALLER, PGASI_VERBS_ENGINE_THREAD, PGASI_VERBS_ENGINE_PROCESS };
/* in the order of pgas_group_way_t */
enum { PGASI_GROUP_WAY_AUTO, PGASI_GROUP_WAY_CHAIN, PGASI_GROUP_WAY_VERBS, PGASI_GROUP_WAY_CALLS };

typedef enum {
    PGASI_PARAM_FROM_DEFAULT,
    PGASI_PARAM_FROM_ENVIRONMENT,
    PGASI_PARAM_FROM_INIT,  /* an option given to pgas_init */
    PGASI_PARAM_FROM_RANK_0 /* rank 0's value differs from the value that this rank found */
} pgasi_param_origin_t;

typedef struct {
    const char *name; /* without PGAS_ */
    pgasi_param_type_t type;
    const char *default_text, *allowed, *unit, *doc;
    size_t offset, bytes; /* of the field */
} pgasi_param_info_t;

/** The parameters of this process. They are valid after pgasi_param_load. Only boot writes them,
 *  before threads exist. */
extern pgasi_params_t pgasi_param;
extern pgasi_param_origin_t pgasi_param_origins[PGASI_PARAM_COUNT];

/** Describes a parameter. The result is static and never NULL for an id of the list. */
const pgasi_param_info_t *pgasi_param_describe(pgasi_param_id_t id);

/** Finds a parameter by name, with or without PGAS_. @return its id, or -1 */
int pgasi_param_find(const char *name);

/** Parses a text as a value of a type. Pure.
 *  @param allowed as in param_vars.h
 *  @param field_p an object of the type's C type; written on success only
 *  @return PGAS_OK
 *          PGAS_ERR_INVALID  why holds the reason and the allowed values (`not a size; allowed:
 *          ...`) */
pgas_status_t pgasi_param_parse_value(pgasi_param_type_t type, const char *allowed,
                                      const char *text, void *field_p, char *why, size_t why_bytes);

/** Writes a value of a type as text that parses to the same value. @return text */
char *pgasi_param_format_value(pgasi_param_type_t type, const char *allowed, const void *field,
                               char text[PGASI_PARAM_TEXT_BYTES]);

/** Parses a text for a named parameter (with or without PGAS_) into its field of *out. Pure. On
 *  error *out is unchanged, and why holds the name, the text and the allowed values.
 *  @return PGAS_OK
 *          PGAS_ERR_NOT_FOUND  no such name
 *          PGAS_ERR_INVALID    no such value */
pgas_status_t pgasi_param_parse(const char *name, const char *text, pgasi_params_t *out, char *why,
                                size_t why_bytes);

/** Sets all defaults. The only failure is a wrong line in the list (PGAS_ERR_INTERNAL). */
pgas_status_t pgasi_param_defaults(pgasi_params_t *p, pgasi_param_origin_t origins[], char *why,
                                   size_t why_bytes);

/** Sets defaults, then the values of the environment. An empty variable counts as unset.
 *  @return PGAS_OK
 *          PGAS_ERR_INVALID  why holds the first refusal; all other parameters are set */
pgas_status_t pgasi_param_load(pgasi_params_t *p, pgasi_param_origin_t origins[], char *why,
                               size_t why_bytes);

/** Sets one parameter and its origin. @return as pgasi_param_parse */
pgas_status_t pgasi_param_set(pgasi_params_t *p, pgasi_param_origin_t origins[], const char *name,
                              const char *text, pgasi_param_origin_t origin, char *why,
                              size_t why_bytes);

/** Sets parameters from a list `NAME=VALUE NAME=VALUE`, separated by blanks (the options of
 *  pgas_init). Values hold no blanks. The first refused item ends the list; the items before it are
 *  set. On error why holds the reason.
 *  @return PGAS_OK
 *          PGAS_ERR_NOT_FOUND  a name is unknown
 *          PGAS_ERR_INVALID    a value is refused, or a word is not NAME=VALUE */
pgas_status_t pgasi_param_set_list(pgasi_params_t *p, pgasi_param_origin_t origins[],
                                   const char *list, pgasi_param_origin_t origin, char *why,
                                   size_t why_bytes);

/** Takes over rank 0's values. The origin of each value that differs becomes rank 0. */
void pgasi_param_adopt(pgasi_params_t *p, pgasi_param_origin_t origins[],
                       const pgasi_params_t *rank_0);

/** Writes a value as text that parses to the same value. @return text */
char *pgasi_param_text(const pgasi_params_t *p, pgasi_param_id_t id,
                       char text[PGASI_PARAM_TEXT_BYTES]);

/** Computes a checksum over all values (not over padding), for ranks to compare. */
uint64_t pgasi_param_checksum(const pgasi_params_t *p);

/** Prints the table of pgasi_param: name, value, default, origin, unit; below them the doc and the
 *  allowed values. */
void pgasi_param_print(FILE *out);

/** Prints the head and one entry of that table.
 *  @return PGAS_OK
 *          PGAS_ERR_NOT_FOUND  no such parameter; why names the nearest one */
pgas_status_t pgasi_param_print_var(FILE *out, const char *name, char *why, size_t why_bytes);

/** Prints the variables of UCX that are set: PGAS_UCX_*, and UCX_*. UCX reads a UCX_ variable only
 *  if its PGAS_UCX_ form is not set. */
void pgasi_param_print_ucx(FILE *out);

/** Checks one name=value of the environment.
 *  @return true: it is a PGAS_ name that neither this library nor another program knows; why says
 *          so and names the nearest known one */
bool pgasi_param_unknown(const char *entry, char *why, size_t why_bytes);

/** Warns about PGAS_* names that are not in the list (PGAS_UCX_* and PGAS_TEST_* have other
 *  readers). Rank 0 calls it, after the log is set up; further calls have no effect. @return the
 *  number of warnings */
int pgasi_param_warn_unknown(void);

/** Copies PGAS_UCX_ variables of rank 0 to other ranks: UCX reads them from the environment of each
 *  process, but some launchers pass them to rank 0 alone. No other thread may use the environment
 *  meanwhile.
 *  pack: writes "NAME=value" with its zero for each variable that is set, as far as they fit.
 *  @return bytes of all of them.
 *  adopt: sets those variables that this process does not set itself.
 *  return: removes the adopted variables again. */
size_t pgasi_param_ucx_pack(char *text, size_t bytes);
void pgasi_param_ucx_adopt(const char *text, size_t bytes);
void pgasi_param_ucx_return(void);

/** Reads a variable of another program, such as OMPI_COMM_WORLD_SIZE. @return its text, or NULL */
const char *pgasi_param_env(const char *name);

#endif
