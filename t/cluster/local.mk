# Three hosts as network namespaces.
check_scripts += %D%/cluster.t
check_data += %D%/agent %D%/hosts.sh %D%/run
