# Tests of the transport's ops table over each backend (their header has tls:). As in t/spmd.
