#!/usr/bin/env bash
# what: The coherence protocol's model has none of the errors for which spin looks, and a seeded error is found. This is
#       the short form; make model explores all.
# needs: command:spin
# source: src/array/protocol.pml
exec "$(dirname "$0")/../model" short
