/* usage.h: examples, benchmarks and tools answer --help and unknown options in one form, before the
 * library starts. A usage text begins with the program's name. Only rank 0 prints. */
#ifndef EXAMPLES_USAGE_H
#define EXAMPLES_USAGE_H
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* Ends the program: with the usage, or with a complaint about a word of the command line. */
__attribute__((noreturn)) static inline void usage_exit(int rank, const char *usage,
                                                        const char *complaint, const char *word)
{
    FILE *out = complaint ? stderr : stdout;
    int name_length = (int)strcspn(usage, " \n");
    if (rank == 0 && complaint)
        fprintf(out, "%.*s: %s: %s\n", name_length, usage, complaint, word);
    if (rank == 0)
        fprintf(out, "usage: %s", usage);
    int lost = fflush(out) != 0 || ferror(out);
    if (lost)
        fprintf(stderr, "%.*s: the output could not be written\n", name_length, usage);
    exit(complaint ? 2 : lost);
}

/* For programs without options of their own: ends the program at --help, at an option, and at an
 * argument too many. */
static inline void usage_check(int rank, int argc, char **argv, const char *usage,
                               int n_arguments_max)
{
    for (int i = 1; i < argc; i++) {
        if (strcmp(argv[i], "--help") == 0)
            usage_exit(rank, usage, NULL, "");
        if (argv[i][0] == '-' && argv[i][1] != '\0')
            usage_exit(rank, usage, "no such option", argv[i]);
        if (i > n_arguments_max)
            usage_exit(rank, usage, "an argument too many", argv[i]);
    }
}

/* For programs that use getopt_long with ":" in front of the short options: the word that caused
 * its '?' or ':'. */
static inline const char *usage_word(char **argv)
{
    static char letter[] = "-?";
    letter[1] = (char)optopt;
    return optopt == 0 || strncmp(argv[optind - 1], "--", 2) == 0 ? argv[optind - 1] : letter;
}

/* The complaint about that word. */
static inline const char *usage_complaint(int answer)
{
    return answer == ':' ? "a value is missing" : "no such option";
}

/* Ends the program at such an answer. */
__attribute__((noreturn)) static inline void usage_refuse(int rank, char **argv, const char *usage,
                                                          int answer)
{
    usage_exit(rank, usage, usage_complaint(answer), usage_word(argv));
}

/* @return whether the text is a number in [least, most], and not a hexadecimal one */
static inline bool usage_real(const char *text, double least, double most, double *value_p)
{
    char *end;
    double value = strtod(text, &end);
    bool is_number = end != text && *end == '\0' && (text[1] | 32) != 'x';
    if (!is_number || !(value >= least && value <= most))
        return false;
    *value_p = value;
    return true;
}

static inline bool usage_int(const char *text, double least, double most, int *value_p)
{
    double value;
    if (!usage_real(text, least, most, &value) || value != (double)(int)value)
        return false;
    *value_p = (int)value;
    return true;
}

#endif
