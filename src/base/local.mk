# floor 0: status, log, param, containers; no MPI, no network. Add yours as: libpgas_core_la_SOURCES += %D%/NAME.c %D%/NAME.h
