#!/usr/bin/env bash
# what: The model of sleeping and waking loses no wakeup in any order of steps, and two seeded faults are found. This is
#       the short form; make model explores all.
# needs: command:spin
# source: src/boot/wait.pml
exec "$(dirname "$0")/../model" wait
