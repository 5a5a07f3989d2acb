# PGAS_UCX: the default data plane. UCP's version is checked in the header too, for installations without pkg-config.
AC_DEFUN([PGAS_UCX], [
  PGAS_DEPENDENCY([UCX], [ucx], [ucx], [1.13], [ucp/api/ucp.h], [UCP_API_VERSION >= UCP_VERSION(1, 13)],
    [ucp_worker_create], [-lucp -lucs], [libucx-dev], [UCX, the network library],
    [UCP_API_MAJOR UCP_API_MINOR])
])
