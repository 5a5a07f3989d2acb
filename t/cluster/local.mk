# Three hosts as network namespaces.
