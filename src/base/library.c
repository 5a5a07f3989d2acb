/* See library.h. */
#include "base/library.h"

#include <dlfcn.h>
#include <stdio.h>
#include <string.h>

static const char *reason(void)
{
    const char *text = dlerror();
    return text ? text : "no reason is known";
}

bool pgasi_library_open(const char *soname, const pgasi_library_fn_t *fns, size_t n, char *why,
                        size_t why_bytes)
{
    void *library = dlopen(soname, RTLD_NOW | RTLD_LOCAL);
    if (!library) {
        snprintf(why, why_bytes, "%s", reason());
        return false;
    }
    for (size_t i = 0; i < n; i++)
        if (!dlsym(library, fns[i].name)) {
            snprintf(why, why_bytes, "%s", reason());
            dlclose(library);
            return false;
        }
    for (size_t i = 0; i < n; i++) {
        void *address = dlsym(library, fns[i].name);
        memcpy(fns[i].pointer_p, &address, sizeof address);
    }
    return true;
}
