/** The version of libpgas. configure reads it from this file. */
#ifndef PGAS_VERSION_H
#define PGAS_VERSION_H

#define PGAS_VERSION_MAJOR 0
#define PGAS_VERSION_MINOR 2
#define PGAS_VERSION_PATCH 0
/** The three parts as one number, for example for #if, and as text. */
#define PGAS_VERSION_NUMBER 200

#define PGAS_VERSION_TEXT "0.2.0"
/** Program and library must agree on it: structs, numbers, inline functions. pgas_init compares. */
#define PGAS_INTERFACE 200
#endif
