/* The one list of PGAS_* variables. param.h and param.c include it with their own PGASI_PARAM, so
 * it has no guard.
 *
 *   PGASI_PARAM(NAME, field, TYPE, "default", "allowed", "unit", "doc")
 *
 * TYPE     C type of pgasi_param.field    allowed
 * BOOL     bool                           ""
 * INT      int                            "min..max"
 * SIZE     size_t, bytes                  "min..max", may add ", power of two"; numbers take K, M,
 *                                         G, T (powers of 1024)
 * DOUBLE   double                         "min..max"
 * STRING   char[256]                      ""
 * LOG      char[256]                      ""  (syntax of PGAS_LOG)
 * CHOICE   int, index into the words      "word|word|word"; an enum in param.h names them in the
 *                                         same order (TRANSPORT has none: the registry is asked for
 *                                         the word)
 *
 * Defaults pass through the same parser as the user's text. The doc is printed to users: it says
 * what the variable sets, in words that need no knowledge of the library. */
/* clang-format off */
PGASI_PARAM(NODE_MAXSIZE, node_maxsize, INT, "0", "0..1048576", "ranks",
            "split each host into fake nodes of at most this many ranks; 0: real nodes")
PGASI_PARAM(HEAP_SIZE, heap_size, SIZE, "256M", "64K..8T", "bytes",
            "symmetric heap of each rank")
PGASI_PARAM(TRANSPORT, transport, CHOICE, "ucx", "ucx|loopback|verbs", "",
            "the network library that carries data between nodes")
PGASI_PARAM(SERVICE_THREADS, service_threads, INT, "1", "0..16", "threads",
            "threads of a rank that serve its peers; several are bound to the NUMA zones of the "
            "rank in turn; 0: application threads serve inside library calls")
PGASI_PARAM(LANES, ctxs, INT, "4", "1..64", "contexts",
            "threads of a rank that get a context of their own; further threads share one")
PGASI_PARAM(LOG, log, LOG, "warn", "", "",
            "level[,module=level]* with the levels error, warn, info, debug, trace")
PGASI_PARAM(INFO, info, BOOL, "0", "", "",
            "print version, transports and parameters at init on rank 0")
PGASI_PARAM(PROGRESS, progress, CHOICE, "auto", "auto|bar|lines|no", "",
            "progress of long phases, on stderr of rank 0; auto: a bar on a terminal, otherwise "
            "lines")
PGASI_PARAM(PROGRESS_MS, progress_ms, INT, "3000", "1..3600000", "milliseconds",
            "time between two progress lines; a shorter phase prints none")
PGASI_PARAM(STATS, stats, BOOL, "0", "", "",
            "print operation counts at finalize")
PGASI_PARAM(AGG_SIZE, agg_size, SIZE, "8K", "64..1M", "bytes",
            "size of a batch: calls to one peer that are sent together")
PGASI_PARAM(AGG_LATENCY_US, agg_latency_us, INT, "100", "0..1000000000", "microseconds",
            "a batch is sent after this time at the latest, if its thread makes progress; 0: no "
            "limit")
PGASI_PARAM(CHUNK_SIZE, chunk_size, SIZE, "64K", "4K..64M, power of two", "bytes",
            "size of a chunk of a channel between ranks of one node")
PGASI_PARAM(CHUNKS, chunks, INT, "2", "2..1024", "chunks",
            "chunks of a new channel")
PGASI_PARAM(CHUNKS_MAX, chunks_max, INT, "16", "2..1024", "chunks",
            "most chunks of a channel; it grows while its receiver is behind")
PGASI_PARAM(CHUNK_MEMORY, chunk_memory, SIZE, "256M", "64K..64G", "bytes",
            "memory of all channels of the node into one rank; chunks become smaller to fit")
PGASI_PARAM(FAR_CALLS, far_calls, CHOICE, "auto", "auto|message|put|map", "",
            "calls to other nodes: active messages, or puts or plain stores into channels; auto: "
            "stores on the same host, puts with an RDMA device, otherwise messages")
PGASI_PARAM(FAR_CHUNK_MEMORY, far_chunk_memory, SIZE, "64M", "0..64G", "bytes",
            "memory of all channels from other nodes into one rank; senders that get no channel "
            "send messages")
PGASI_PARAM(FAR_QUEUE, far_queue, SIZE, "4M", "4K..64G", "bytes",
            "most messages that wait at a rank for one of its threads; beyond that senders stop, "
            "but messages in flight still arrive")
PGASI_PARAM(CALL_MAX, call_max, SIZE, "8K", "64..4M", "bytes",
            "largest argument block of a call")
PGASI_PARAM(HANDLER_THREADS, handler_threads, INT, "256", "1..4000", "threads",
            "most threads for handlers that may wait; they are created when needed")
PGASI_PARAM(BUFFER_LIMIT, buffer_limit, SIZE, "1G", "64K..16T", "bytes",
            "most bytes of call buffers in a rank at one time, one limit for copied and one for "
            "fetched buffers; also the limit of one call")
PGASI_PARAM(VM_READ, vm_read, BOOL, "1", "", "",
            "copy memory outside of segments between ranks of a node by process_vm_readv, where "
            "the system allows it")
PGASI_PARAM(BACKLOG_LIMIT, backlog_limit, SIZE, "16M", "0..1T", "bytes",
            "calls that a thread may queue for peers whose channels are full")
PGASI_PARAM(MEMORY_LIMIT, memory_limit, SIZE, "0", "0..1024T", "bytes",
            "init refuses a configuration in which a rank may need more for heap and library; 0: "
            "a heap size that was set must fit into the memory of the host and of its cgroup")
PGASI_PARAM(HUGEPAGES, hugepages, CHOICE, "try", "try|no|yes|2m", "",
            "huge pages for the heap: of 1 GiB, then of 2 MiB; yes: init fails without them; 2m: "
            "try those of 2 MiB alone, so that NUMA zones can be chosen for less than 1 GiB")
PGASI_PARAM(SPIN_US, spin_us, INT, "20", "0..1000000", "microseconds",
            "time that a wait spins before it yields; not used when a node has more threads than "
            "cores")
PGASI_PARAM(NAP_MAX_US, nap_max_us, INT, "10000", "1..1000000", "microseconds",
            "longest sleep of a wait between two polls")
PGASI_PARAM(BIND, bind, CHOICE, "none", "none|core|numa", "",
            "binding of threads to cores or NUMA zones by hwloc")
PGASI_PARAM(FAULT, fault, STRING, "", "", "",
            "faults to inject: delay=N,reorder=N,again=N,drop-reg=RANK")
PGASI_PARAM(FAULT_SEED, fault_seed, INT, "1", "0..2147483647", "",
            "seed of injected faults")
PGASI_PARAM(ON_PEER_DEATH, on_peer_death, CHOICE, "abort", "abort|continue", "",
            "when a rank dies: abort: the job ends; continue: the other ranks continue")
PGASI_PARAM(PEER_TIMEOUT_S, peer_timeout_s, INT, "20", "1..86400", "seconds",
            "a host that does not answer for this time counts as dead, with all its ranks")
PGASI_PARAM(WATCH_INTERFACE, watch_interface, STRING, "", "", "",
            "network interface on which hosts watch each other (TCP); empty: one whose network "
            "most hosts share")
PGASI_PARAM(SEGMENTS, segments, INT, "64", "1..4096", "segments",
            "most attached segments of a rank")
PGASI_PARAM(POOL_UNIT, pool_unit, SIZE, "256K", "4K..1T", "bytes",
            "smallest step in which an allocator of registered memory grows")
PGASI_PARAM(POOL_GROWTH, pool_growth, CHOICE, "exponential", "exponential|linear", "",
            "growth of allocators of registered memory")
PGASI_PARAM(POOL_MAX, pool_max, SIZE, "16M", "4K..8T", "bytes",
            "most bytes that an allocator of registered memory takes from the heap")
PGASI_PARAM(ARRAY_CACHE, array_cache, SIZE, "16M", "0..8T", "bytes",
            "cache of a rank for chunks of other ranks, in its heap, for each coherent array")
PGASI_PARAM(ARRAY_ACCESS, array_access, CHOICE, "auto", "auto|open|guarded", "",
            "elements of coherent arrays: auto: plain loads and stores, a lock for chunks that "
            "are recalled often; open: never a lock; guarded: always a lock")
PGASI_PARAM(VERBS_DEVICE, verbs_device, STRING, "", "", "",
            "devices of the transport verbs, up to 8 between commas: snic, mlx5_0, mlx5_0:1, "
            "verbs:mlx5_0; all: each port of a card that is up; empty: the nearest of them, "
            "otherwise snic")
PGASI_PARAM(VERBS_GID_INDEX, verbs_gid_index, INT, "-1", "-1..65535", "",
            "GID of the port (RoCE); -1: the library chooses")
PGASI_PARAM(VERBS_ENGINE, verbs_engine, CHOICE, "caller", "caller|thread|process", "",
            "executor of the software NIC's work: the calling thread, a thread, or a process")
PGASI_PARAM(VERBS_INTERFACE, verbs_interface, STRING, "", "", "",
            "network interface on which queue pairs connect (TCP); empty: loopback on one host, "
            "otherwise any")
PGASI_PARAM(VERBS_SEND_DEPTH, verbs_send_depth, INT, "128", "16..4096", "requests",
            "send queue of each peer")
PGASI_PARAM(VERBS_MESSAGE, verbs_message, SIZE, "4K", "1K..64K", "bytes",
            "largest message that one receive buffer takes; larger ones travel in pieces")
PGASI_PARAM(VERBS_RECV_BUFFERS, verbs_recv_buffers, INT, "1024", "32..65536", "buffers",
            "receive buffers of a rank")
PGASI_PARAM(GROUP_WAY, group_way, CHOICE, "auto", "auto|chain|verbs|calls", "",
            "groups of replicas: entries that the cards execute, service threads over queue pairs, "
            "or remote calls; auto: the first one that all members have")
PGASI_PARAM(GROUP_KEY, group_key, STRING, "", "", "",
            "secret of replicas and their clients, at most 64 bytes")
/* clang-format on */
#undef PGASI_PARAM
