#!/usr/bin/env bash
# what: the coherence protocol's model has none of the errors that spin looks for, and a seeded one is found; the short form,
#       make model explores all
# needs: command:spin
# source: src/array/protocol.pml
exec "$(dirname "$0")/../model" short
