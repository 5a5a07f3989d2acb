# floor 6: many elements anywhere in one call
libpgas_core_la_SOURCES += %D%/far.c %D%/gather.c %D%/many.c %D%/many.h %D%/near.c %D%/near.h
