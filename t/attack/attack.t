#!/usr/bin/env bash
# what: jobs that are killed, stopped, cut off, starved and spoken to by strangers end as they must, in a short form
# needs: no-sanitizers
# timeout: 400
# source: pgas/init.h (PGAS_ON_PEER_DEATH), README (reliability); `make attack` is the long form
exec "$(dirname "$0")/attack" 8
