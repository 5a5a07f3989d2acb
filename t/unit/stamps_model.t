#!/usr/bin/env bash
# what: In the model of keys that another node keeps copies of, every read gives a whole value that was current during the read,
#       and seven seeded faults are found.
# needs: command:spin
# source: src/kvs/stamps.pml
exec "$(dirname "$0")/../model" stamps
