# floor 4: handlers, calls, aggregator, progress. Add yours as: libpgas_core_la_SOURCES += %D%/NAME.c %D%/NAME.h
