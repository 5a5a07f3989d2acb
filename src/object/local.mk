# floor 6: locks, objects with methods, operations that the owner of memory carries out
libpgas_core_la_SOURCES += %D%/alloc_on.c %D%/lock.c %D%/lock.h \
	%D%/named.c %D%/named.h %D%/objects.c %D%/objects.h %D%/owner.c \
	%D%/owner.h %D%/request.c %D%/request.h %D%/start.c %D%/start.h
