# The data plane over UCX. Add yours as: libpgas_core_la_SOURCES += %D%/NAME.c %D%/NAME.h
