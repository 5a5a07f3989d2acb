# floor 4: descriptors, channels, receive and send queues: small messages between threads of ranks
libpgas_core_la_SOURCES += %D%/batch.c %D%/channel.c %D%/channel_memory.c %D%/channel_memory.h \
	%D%/channel_open.c %D%/control.c %D%/descriptor.h %D%/dispatch.c %D%/dispatch.h %D%/far.c %D%/far_channel.c \
	%D%/far_channel.h %D%/far_send.c %D%/recv.h %D%/recv_far.c %D%/recv_memory.c %D%/recv_queue.c %D%/recv_queue.h \
	%D%/recv_report.c %D%/send.h %D%/send_buffer.c %D%/send_queue.c %D%/send_queue.h %D%/serve.c \
	%D%/serve.h
