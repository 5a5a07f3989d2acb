# floor 8: the coherent distributed array. Add yours as: libpgas_core_la_SOURCES += %D%/NAME.c %D%/NAME.h
# Each line uses only lines above it.
libpgas_core_la_SOURCES += %D%/state.c %D%/state.h %D%/map.c %D%/map.h
libpgas_core_la_SOURCES += %D%/descriptor.c %D%/descriptor.h %D%/own_pins.c %D%/own_pins.h %D%/words.h
libpgas_core_la_SOURCES += %D%/array.h %D%/registry.c %D%/registry.h %D%/slots.c %D%/slots.h
libpgas_core_la_SOURCES += %D%/mapping.c %D%/mapping.h %D%/grant.c %D%/grant.h
libpgas_core_la_SOURCES += %D%/put.c %D%/put.h
libpgas_core_la_SOURCES += %D%/send.c %D%/wire.h %D%/policy.c %D%/policy.h %D%/contribution.c %D%/contribution.h \
	%D%/sparse.c %D%/sparse.h %D%/invariants.c %D%/audit.h
libpgas_core_la_SOURCES += %D%/lines.c %D%/lines.h %D%/runs.c %D%/runs.h
libpgas_core_la_SOURCES += %D%/home.c %D%/home.h %D%/cache.c %D%/cache.h
libpgas_core_la_SOURCES += %D%/receive.c %D%/protocol.c %D%/protocol.h
libpgas_core_la_SOURCES += %D%/record.c %D%/record.h
libpgas_core_la_SOURCES += %D%/join.c %D%/join.h
libpgas_core_la_SOURCES += %D%/access.c %D%/access.h
libpgas_core_la_SOURCES += %D%/element.c %D%/pin.c %D%/bulk.c %D%/many.c
libpgas_core_la_SOURCES += %D%/lock_queue.c %D%/lock_queue.h %D%/lock.c %D%/lock.h
libpgas_core_la_SOURCES += %D%/options.c %D%/options.h %D%/array.c %D%/audit.c
# The model of state.c for spin: make model.
EXTRA_DIST += %D%/protocol.pml
