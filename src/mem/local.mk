# floor 3: segments, heap, global pointers. Add yours as: libpgas_core_la_SOURCES += %D%/NAME.c %D%/NAME.h
