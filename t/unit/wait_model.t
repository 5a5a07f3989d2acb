#!/usr/bin/env bash
# what: the model of who sleeps and who is woken loses no wake-up in any order of steps, and two seeded faults are found; the
#       short form, make model explores all
# needs: command:spin
# source: src/boot/wait.pml
exec "$(dirname "$0")/../model" wait
