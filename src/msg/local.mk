# floor 4: descriptors, channels, receive and send queues: small messages between threads of ranks
libpgas_core_la_SOURCES += %D%/batch.c %D%/channel.c %D%/dispatch.c %D%/dispatch.h %D%/far.c \
	%D%/far_channel.c %D%/far_channel.h %D%/inbox.c %D%/inbox.h %D%/out.h %D%/outbox.c %D%/outbox.h \
	%D%/descriptor.h %D%/region.c %D%/region.h %D%/serve.c %D%/serve.h
