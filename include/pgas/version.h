/** The version of libpgas, for example to compile for several versions:
 *
 *      #if PGAS_VERSION_NUMBER >= 200
 *
 *  configure reads the version from this file. pgas_version returns that of the library at run
 *  time. */
#ifndef PGAS_VERSION_H
#define PGAS_VERSION_H

#define PGAS_VERSION_MAJOR 0
#define PGAS_VERSION_MINOR 1
#define PGAS_VERSION_PATCH 0

/** The three parts as one number, for comparisons, and as text. */
#define PGAS_VERSION_NUMBER \
    (PGAS_VERSION_MAJOR * 10000 + PGAS_VERSION_MINOR * 100 + PGAS_VERSION_PATCH)
#define PGAS_VERSION_TEXT "0.1.0"

#endif
