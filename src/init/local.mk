# floor 7: start and end of the whole library, and what it says about itself
libpgas_core_la_SOURCES += %D%/account.c %D%/account.h %D%/info.c %D%/init.c
