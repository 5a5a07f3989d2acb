#!/usr/bin/env bash
# what: Jobs whose ranks are killed, stopped, cut off, starved or connected to by strangers have the expected outcome,
#       in a short form.
# needs: no-sanitizers
# timeout: 400
# source: pgas/init.h (PGAS_ON_PEER_DEATH), docs/hosts.md; `make attack` is the long form
exec "$(dirname "$0")/attack" 8
