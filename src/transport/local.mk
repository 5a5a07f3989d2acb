# floor 2: the seam, the loopback, the fault wrapper. Add yours as: libpgas_core_la_SOURCES += %D%/NAME.c %D%/NAME.h
