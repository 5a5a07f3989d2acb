#!/usr/bin/env bash
# what: The model of a group's chains loses and repeats no operation, sends no message too many and does not hang, and
#       three seeded errors are found. This is the short form; make model explores all.
# needs: command:spin
# source: src/group/chain.pml
exec "$(dirname "$0")/../model" group
