# Tests that read the sources, and tests of the harness itself. Add a script as: check_scripts += %D%/NAME.t
# What harness.t looks at.
