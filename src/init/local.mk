# floor 5: start and end of the whole library, and what it says about itself
libpgas_core_la_SOURCES += %D%/account.h %D%/info.c %D%/init.c
