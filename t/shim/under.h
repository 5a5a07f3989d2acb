/* Runs a test under the shim (t/shim/shim.h): main calls under_shim(argv) first. The program starts
 * again with the shim preloaded; libtool builds the shim beside it. */
#ifndef T_SHIM_UNDER_H
#define T_SHIM_UNDER_H

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include "t/tap.h"

static inline void under_shim(char **argv)
{
    char path[4096], options[4096];
    if (dlsym(RTLD_DEFAULT, "pgasi_shim_is_here")) {
        unsetenv("LD_PRELOAD"); /* a sanitizer's symbolizer shall do without */
        return;
    }
    ssize_t n = readlink("/proc/self/exe", path, sizeof path - 64);
    char *slash = NULL;
    if (n > 0) {
        path[n] = '\0';
        slash = strrchr(path, '/');
    }
    if (!slash)
        bail("nobody knows where this program lies");
    strcpy(slash, "/.libs/libpgas-shim.so");
    if (access(path, R_OK))
        bail("there is no %s", path);
    setenv("LD_PRELOAD", path, 1);
    const char *sanitizer = getenv("ASAN_OPTIONS"); /* gcc's wants to be the first library */
    snprintf(options, sizeof options, "%s:verify_asan_link_order=0", sanitizer ? sanitizer : "");
    setenv("ASAN_OPTIONS", options, 1);
    execv("/proc/self/exe", argv);
    bail("cannot begin again under the shim");
}

#endif
