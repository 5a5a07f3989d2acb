# PGAS_IGRAPH: igraph's C library. Only t/spmd/graph_igraph uses it, as an oracle for graph algorithms.
AC_DEFUN([PGAS_IGRAPH], [
  PGAS_DEPENDENCY([IGRAPH], [igraph], [igraph], [0.10], [igraph.h], [IGRAPH_VERSION_MINOR >= 10 || IGRAPH_VERSION_MAJOR > 0],
    [igraph_distances], [-ligraph], [libigraph-dev], [igraph, with which a test compares], [IGRAPH_VERSION])
])
