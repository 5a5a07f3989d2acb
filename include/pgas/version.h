/** The version of libpgas. The only place where it stands: configure reads it from here. */
#ifndef PGAS_VERSION_H
#define PGAS_VERSION_H

#define PGAS_VERSION_MAJOR 0
#define PGAS_VERSION_MINOR 1
#define PGAS_VERSION_PATCH 0

/** The three parts as one number for comparisons, and as text. */
#define PGAS_VERSION_NUMBER \
    (PGAS_VERSION_MAJOR * 10000 + PGAS_VERSION_MINOR * 100 + PGAS_VERSION_PATCH)
#define PGAS_VERSION_TEXT "0.1.0"

#endif
