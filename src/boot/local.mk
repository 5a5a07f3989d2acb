# floor 1: MPI and hwloc. Add yours as: libpgas_core_la_SOURCES += %D%/NAME.c %D%/NAME.h
