#!/usr/bin/env bash
# what: Time limits use the monotonic clock, so a step of the time of day neither delays nor ends any operation. Only one
#       function reads the time of day, for times that leave the job.
# source: pthread_mutex_timedlock(3p), clock_gettime(2)
set -u
. "$(dirname "$0")/../tap.sh"
make_scratch

calls='_(timedlock|timedwait|timedrdlock|timedwrlock)[ \t]*\('
offenders() {
    (cd "$1" && find src ./*_backend -name '*.[ch]' \
        -exec grep -nE "CLOCK_(REALTIME|TAI)|gettimeofday|TIME_UTC|$calls" {} + 2>/dev/null) |
        grep -v '^src/base/clock\.h:.*CLOCK_REALTIME, &now); /\* lint: wall clock \*/$'
}

plan 2
empty "$(offenders "$TOP")" "no time limit is one of the time of day"

mkdir -p "$scratch/src/boot" "$scratch/x_backend"
echo 'clock_gettime(CLOCK_REALTIME, &now);' >"$scratch/src/boot/x.c"
echo 'pthread_mutex_timedlock(&lock, &limit);' >"$scratch/x_backend/y.c"
is "$(offenders "$scratch" | wc -l)" 2 "others are caught"
done_testing
