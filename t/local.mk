# The harness: TAP through automake's driver, every test started by t/launch.
# Programs link the core (they may look inside); set ..._LDADD = t/libspmd.la $(public_ldadd) to test as a user links.
# Every test at every rank count, node size, transport and setting that its header names, instead of a short choice.
