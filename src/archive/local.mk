# floor 8: archives. Add yours as: libpgas_core_la_SOURCES += %D%/NAME.c %D%/NAME.h
libpgas_core_la_SOURCES += %D%/archive.h %D%/arena.c %D%/pack.c %D%/read.c %D%/write.c
libpgas_core_la_SOURCES += %D%/call.c %D%/in_flight.c %D%/in_flight.h
libpgas_core_la_SOURCES += %D%/describe.c
libpgas_core_la_SOURCES += %D%/typed.c
