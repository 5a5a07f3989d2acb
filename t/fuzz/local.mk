# libFuzzer targets: each is one file fuzz_NAME.c with LLVMFuzzerTestOneInput. t/fuzz/run finds them by name; the list
# is for distribution. Add yours as: fuzz_targets += %D%/fuzz_NAME
