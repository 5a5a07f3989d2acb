/* Libraries that are opened when they are needed.
 *   what:   Functions are found in a library and in the libraries that it needs. Where the library
 *           or a function does not exist, the reason names it and no pointer changes.
 *   source: base/library.h */
#include <string.h>
#include "base/checks.h"
#include "base/library.h"
#include "t/tap.h"

#define SONAME "libm.so.6"

static struct {
    double (*sqrt)(double);
    size_t (*strlen)(const char *);
} got;

static void finds_functions(void)
{
    static const pgasi_library_fn_t fns[] = { { "sqrt", &got.sqrt }, { "strlen", &got.strlen } };
    char why[256] = "";
    ok(pgasi_library_open(SONAME, fns, PGASI_ARRAY_LENGTH(fns), why, sizeof why), "%s opens%s%s",
       SONAME, *why ? ": " : "", why);
    ok(got.sqrt && got.sqrt(9) == 3, "a function of the library");
    ok(got.strlen && got.strlen("four") == 4, "a function of a library that it needs");
}

static void refuses(const char *soname, const char *function, const char *culprit)
{
    char why[256] = "";
    memset(&got, 0, sizeof got);
    const pgasi_library_fn_t fns[] = { { "sqrt", &got.sqrt }, { function, &got.strlen } };
    ok(!pgasi_library_open(soname, fns, PGASI_ARRAY_LENGTH(fns), why, sizeof why) && !got.sqrt &&
           !got.strlen,
       "without %s nothing is found", culprit);
    ok(strstr(why, culprit), "and the reason says so: %s", why);
}

int main(void)
{
    plan(7);
    finds_functions();
    refuses("libtelegraph.so.0", "strlen", "libtelegraph.so.0");
    refuses(SONAME, "telegraph", "telegraph");
    return done();
}
