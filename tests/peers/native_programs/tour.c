/* A tour of the C library, for who looks at each instruction: assembly, tail calls, jumps out of functions. */
#define _GNU_SOURCE
#include <ctype.h>
#include <locale.h>
#include <math.h>
#include <pthread.h>
#include <regex.h>
#include <setjmp.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>
#include <wchar.h>

#define FUNCTION __attribute__((noinline, noclone))
volatile int v = 1;
volatile double d = 1.1e30;
static jmp_buf place;

FUNCTION static void numbers(void) {
    char text[400];
    snprintf(text, sizeof text, "%.40f %Lg %d %s %a", d, (long double)d, v, "text", d);
    d = strtod("3.14159265358979323846264338327950288419716939937510e-200", 0) + strtod("1e22", 0);
    v += atoi("12") + strtol("0x12", 0, 0);
}
FUNCTION static void memory(void) {
    char *p = malloc(100), *q = calloc(3, 1000);
    p = realloc(p, 5000);
    memset(p, 1, 5000);
    memcpy(q, p, 3000);
    memmove(q + 1, q, 2000);
    v += memcmp(p, q, 100) + strlen("four") + (strchr("abc", v) != 0) + strcmp("a", "b") + (strstr("aaab", "ab") != 0);
    free(p);
    free(q);
}
FUNCTION static void jump(int n) {
    if (n)
        jump(n - 1);
    else
        longjmp(place, 1);
    v++;
}
FUNCTION static void search(void) {
    regex_t regex;
    if (!regcomp(&regex, "a(b|c)*d", REG_EXTENDED)) {
        v += regexec(&regex, "xxabcbcd", 0, 0, 0);
        regfree(&regex);
    }
}
FUNCTION static void once(void) { v++; }
FUNCTION static void rest(void) {
    static pthread_once_t control = PTHREAD_ONCE_INIT;
    static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
    struct tm tm;
    time_t t = 1000000;
    char text[100];
    pthread_once(&control, once);
    pthread_mutex_lock(&mutex);
    pthread_mutex_unlock(&mutex);
    strftime(text, sizeof text, "%A %c", gmtime_r(&t, &tm));
    d += exp(d) + sin(d) + pow(d, 1.5) + fmod(d, 3);
    v += wcslen(L"wide") + toupper(v) + getpid();
    puts("line");
    fflush(stdout);
    usleep(1);
    v += getenv("HOME") != 0;
}
int main(void) {
    numbers();
    memory();
    if (!setjmp(place))
        jump(3);
    search();
    rest();
    return 0;
}
