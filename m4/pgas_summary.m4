# PGAS_SUMMARY: what will be built, in a dozen lines.
AC_DEFUN([PGAS_SUMMARY], [
  AS_ECHO(["
libpgas $PACKAGE_VERSION
  prefix       $prefix
  compiler     $CC $CFLAGS
  MPI          $PGAS_MPI_NAME $PGAS_MPI_VERSION ($MPICC), launcher ${MPIEXEC:-none}
  UCX          $pgas_have_UCX $UCX_VERSION
  verbs        $pgas_have_VERBS $VERBS_VERSION (mlx5: $pgas_have_MLX5DV)
  hwloc        $pgas_have_HWLOC $HWLOC_VERSION
  xxhash       $XXHASH_VERSION
  compression  zlib $pgas_have_ZLIB $ZLIB_VERSION, zstd $pgas_have_ZSTD $ZSTD_VERSION (graphs)
  OpenMP       $pgas_have_openmp (tests, examples, benchmarks)
  serializers  ${pgas_serializers:-none} (a benchmark)
  igraph       $pgas_have_IGRAPH $IGRAPH_VERSION (a test)
  hiredis      $pgas_have_HIREDIS $HIREDIS_VERSION (a test)
  debug        $enable_debug
  sanitizers   ${PGAS_SANITIZERS:-no}
"])
])
