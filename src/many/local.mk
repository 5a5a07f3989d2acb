# floor 6: many elements anywhere in one call
libpgas_core_la_SOURCES += %D%/far.c %D%/kernels.c %D%/kernels.h %D%/many.c %D%/many.h %D%/update.c
