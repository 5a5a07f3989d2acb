# floor 6: readers and builders of graphs. Add yours as: libpgas_core_la_SOURCES += %D%/NAME.c %D%/NAME.h
