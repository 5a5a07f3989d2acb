#!/usr/bin/env bash
# what: In the model of counters raised ahead no order of steps loses a raise, takes it back twice, or leaves a waiter asleep,
#       and two seeded faults are found. This is the short form; make model explores all.
# needs: command:spin
# source: src/mem/ahead.pml
exec "$(dirname "$0")/../model" ahead
