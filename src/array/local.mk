# floor 5: the coherent distributed array. Add yours as: libpgas_core_la_SOURCES += %D%/NAME.c %D%/NAME.h
libpgas_core_la_SOURCES += %D%/state.c %D%/state.h
libpgas_core_la_SOURCES += %D%/op.c %D%/op.h
libpgas_core_la_SOURCES += %D%/lock_queue.c %D%/lock_queue.h
libpgas_core_la_SOURCES += %D%/access.c %D%/array.c %D%/audit.c %D%/array.h %D%/bulk.c %D%/cache.c %D%/grant.c %D%/home.c %D%/place.c \
	%D%/slots.c %D%/slots.h \
	%D%/wire.c
libpgas_core_la_SOURCES += %D%/lock.c %D%/lock.h
# The model of state.c for spin: make model.
EXTRA_DIST += %D%/protocol.pml
