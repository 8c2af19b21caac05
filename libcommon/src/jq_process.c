/* SPDX-License-Identifier: Apache-2.0 */
#include "jq_process.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <signal.h>
#include <spawn.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

#include "jq_program.h"

/* The one descriptor that the process has beside the standard ones. */
#define CHILD_FD 3

#define PROCESS_NAME "reprise-jq"

/* One that stands still takes no processor time, so that limit never ends it. */
#define ANSWER_S   30
#define MOST_KILLS 3

struct rp_jq_process {
    char *program;
    int64_t cpu_ms;
    pid_t pid;  /* 0: none runs */
    bool begun; /* it has the program */
    int kills;  /* by SIGKILL, since a message was answered or blamed */
    int fd;
    struct rp_buf answer;
};

/* What goes over the socket: a question is a length and bytes, an answer this and bytes. */
struct answer {
    int code, cls; /* of an rp_error; RP_OK: the bytes are the result, else its text */
    size_t len;
};

/* Both fail with EAGAIN where the socket's time is over. */

static int send_all(int fd, const void *data, size_t n)
{
    const char *p = data;
    while (n > 0) {
        ssize_t sent = send(fd, p, n, MSG_NOSIGNAL);
        if (sent < 0 && errno != EINTR)
            return -1;
        p += sent < 0 ? 0 : sent;
        n -= sent < 0 ? 0 : (size_t)sent;
    }
    return 0;
}

static int receive_all(int fd, void *data, size_t n)
{
    char *p = data;
    while (n > 0) {
        ssize_t got = recv(fd, p, n, 0);
        if (got == 0)
            errno = ECONNRESET;
        if (got == 0 || (got < 0 && errno != EINTR))
            return -1;
        p += got < 0 ? 0 : got;
        n -= got < 0 ? 0 : (size_t)got;
    }
    return 0;
}

/* Of the process itself. Nothing that the program could open is left: files cannot be opened where
 * no descriptor is free. */

static void limit_memory(void)
{
    size_t pages = 0;
    FILE *in = fopen("/proc/self/statm", "re");
    if (in != NULL && fscanf(in, "%zu", &pages) == 1) {
        const rlim_t bytes = pages * (rlim_t)sysconf(_SC_PAGESIZE) + RP_JQ_MEMORY_BYTES;
        (void)setrlimit(RLIMIT_AS, &(struct rlimit){bytes, bytes});
    }
    if (in != NULL)
        (void)fclose(in);
}

static void shut_off(void)
{
    static char *no_environment[] = {NULL};
    environ = no_environment; /* jq's own `env` shows it */
    limit_memory();
    (void)setrlimit(RLIMIT_CORE, &(struct rlimit){0, 0});
    if (setrlimit(RLIMIT_NOFILE, &(struct rlimit){0, 0}) != 0)
        _exit(1);
}

/* SIGPROF ends the process when the time is over. */
static void allow(int64_t cpu_ms)
{
    struct itimerval timer = {
        .it_value = {.tv_sec = cpu_ms / 1000, .tv_usec = cpu_ms % 1000 * 1000}};
    if (setitimer(ITIMER_PROF, &timer, NULL) != 0)
        _exit(1);
}

static void answer(const struct rp_error *err, struct rp_bytes result)
{
    if (err->code != RP_OK)
        result = rp_str(err->text);
    const struct answer head = {(int)err->code, (int)err->cls, result.len};
    if (send_all(CHILD_FD, &head, sizeof head) != 0 ||
        send_all(CHILD_FD, result.data, result.len) != 0)
        _exit(0);
}

/* False: there is no more. */
static bool receive_question(struct rp_buf *out)
{
    size_t len;
    *out = (struct rp_buf){0};
    if (receive_all(CHILD_FD, &len, sizeof len) != 0)
        return false;
    if (rp_buf_reserve(out, len + 1, NULL) != 0)
        abort();
    out->len = len;
    return receive_all(CHILD_FD, out->data, len) == 0;
}

/* The buffers begin anew with each message: what a large one took would be missing to the next. */
static void serve(struct rp_jq_program *program, int64_t cpu_ms)
{
    for (struct rp_buf question; receive_question(&question);) {
        struct rp_buf result = {0};
        struct rp_error err = {0};
        allow(cpu_ms);
        (void)!rp_jq_program_run(program, rp_buf_bytes(&question), &result, &err);
        allow(0);
        if (err.code == RP_E_NOMEM) /* of what the message may take, as where jq has none */
            abort();
        answer(&err, rp_buf_bytes(&result));
        rp_buf_clear(&question);
        rp_buf_clear(&result);
    }
}

/* A fork of a process with threads has what locks they had, and all that the parent knows. So this
 * program is executed anew, and its main never begins. */
__attribute__((constructor)) static void process_main(int argc, char **argv)
{
    if (argc != 2 || strcmp(argv[0], PROCESS_NAME) != 0)
        return;
    const int64_t cpu_ms = strtoll(argv[1], NULL, 10);
    struct rp_jq_program *program;
    struct rp_error err = {0};
    struct rp_buf text;
    (void)prctl(PR_SET_PDEATHSIG, SIGKILL);
    (void)prctl(PR_SET_NAME, PROCESS_NAME);
    shut_off();
    if (!receive_question(&text))
        _exit(1);
    text.data[text.len] = '\0';
    allow(cpu_ms);
    int rc = rp_jq_program_new((const char *)text.data, &program, &err);
    allow(0);
    answer(&err, rp_str(""));
    rp_buf_clear(&text);
    if (rc == 0)
        serve(program, cpu_ms);
    _exit(0);
}

/* Of the parent. */

static void stop(struct rp_jq_process *p, int *status)
{
    *status = 0;
    if (p->pid == 0)
        return;
    (void)close(p->fd);
    (void)kill(p->pid, SIGKILL);
    while (waitpid(p->pid, status, 0) < 0 && errno == EINTR)
        ;
    p->pid = 0;
}

/* The process is gone: says why. What it was killed by before we kill it counts. Only what a
 * program can bring about is its fault. */
static int ended(struct rp_jq_process *p, struct rp_error *err)
{
    int status;
    stop(p, &status);
    if (!WIFSIGNALED(status))
        return p->begun ? rp_fail(err, RP_E_INVALID, RP_POISON, "the program ended jq (%d)",
                                  WEXITSTATUS(status))
                        : rp_fail(err, RP_E_IO, RP_RETRIABLE, "no process for jq: it ended (%d)",
                                  WEXITSTATUS(status));
    int by = WTERMSIG(status);
    if (by == SIGPROF)
        return rp_fail(err, RP_E_INVALID, RP_POISON,
                       "the program took more than %" PRId64 " ms of processor time", p->cpu_ms);
    if (by == SIGABRT)
        return rp_fail(err, RP_E_INVALID, RP_POISON,
                       "the program took more than %zu MiB of memory, or failed in jq",
                       RP_JQ_MEMORY_BYTES >> 20);
    if (by == SIGSEGV || by == SIGBUS || by == SIGILL || by == SIGFPE)
        return rp_fail(err, RP_E_INVALID, RP_POISON, "the program crashed jq (signal %d)", by);
    if (by == SIGKILL && p->begun && ++p->kills >= MOST_KILLS)
        return rp_fail(err, RP_E_INVALID, RP_POISON,
                       "the program was killed %d times; the machine may lack memory for it",
                       MOST_KILLS);
    return rp_fail(err, RP_E_IO, RP_RETRIABLE, "somebody killed the program (signal %d)", by);
}

/* It ended, or it did not read or answer in time. */
static int no_answer(struct rp_jq_process *p, struct rp_error *err)
{
    int status;
    if (errno != EAGAIN)
        return ended(p, err);
    stop(p, &status);
    return rp_fail(err, RP_E_IO, RP_RETRIABLE, "the program did not answer within %d s", ANSWER_S);
}

static int receive(struct rp_jq_process *p, struct rp_bytes *out, struct rp_error *err)
{
    struct answer head;
    int status;
    if (receive_all(p->fd, &head, sizeof head) != 0)
        return no_answer(p, err);
    rp_buf_clear(&p->answer);
    if (head.len > RP_JQ_MEMORY_BYTES) { /* more than it can hold: the program broke jq */
        stop(p, &status);
        return rp_fail(err, RP_E_INVALID, RP_POISON, "the program's answer cannot be read");
    }
    if (rp_buf_reserve(&p->answer, head.len + 1, err) != 0) {
        stop(p, &status);
        return -1;
    }
    if (receive_all(p->fd, p->answer.data, head.len) != 0)
        return no_answer(p, err);
    p->answer.data[head.len] = '\0';
    *out = (struct rp_bytes){p->answer.data, head.len};
    return head.code == RP_OK
               ? 0
               : rp_fail(err, (enum rp_error_code)head.code, (enum rp_error_class)head.cls, "%s",
                         (const char *)p->answer.data);
}

static int ask(struct rp_jq_process *p, struct rp_bytes question, struct rp_bytes *out,
               struct rp_error *err)
{
    if (send_all(p->fd, &question.len, sizeof question.len) != 0 ||
        send_all(p->fd, question.data, question.len) != 0)
        return no_answer(p, err);
    return receive(p, out, err);
}

/* What ends the parent, which may want to finish what it sent, goes to all of its process group. */
static void block_signals(posix_spawnattr_t *attributes)
{
    static const int parents[] = {SIGINT, SIGQUIT, SIGHUP, SIGTERM};
    sigset_t own, blocked;
    (void)sigemptyset(&own);
    (void)sigaddset(&own, SIGPROF);
    (void)sigaddset(&own, SIGPIPE);
    (void)sigemptyset(&blocked);
    for (size_t i = 0; i < sizeof parents / sizeof parents[0]; i++)
        (void)sigaddset(&blocked, parents[i]);
    (void)posix_spawnattr_setsigdefault(attributes, &own);
    (void)posix_spawnattr_setsigmask(attributes, &blocked);
    (void)posix_spawnattr_setflags(attributes, POSIX_SPAWN_SETSIGDEF | POSIX_SPAWN_SETSIGMASK);
}

/* How a process is loaded, and its sanitizers report. The rest may have passwords in it. */
static const char *const passed_on[] = {"LD_LIBRARY_PATH=", "LD_PRELOAD=",    "ASAN_OPTIONS=",
                                        "LSAN_OPTIONS=",    "UBSAN_OPTIONS=", "TSAN_OPTIONS="};
#define N_PASSED_ON (sizeof passed_on / sizeof passed_on[0])

static void pass_on(char *out[N_PASSED_ON + 1])
{
    size_t n = 0;
    for (size_t i = 0; i < N_PASSED_ON; i++) {
        char **variable = environ;
        while (*variable != NULL && strncmp(*variable, passed_on[i], strlen(passed_on[i])) != 0)
            variable++;
        if (*variable != NULL)
            out[n++] = *variable;
    }
    out[n] = NULL;
}

/* Returns an errno. */
static int spawn(int fd, int64_t cpu_ms, pid_t *out)
{
    char limit[32];
    char *const argv[] = {PROCESS_NAME, limit, NULL};
    char *environment[N_PASSED_ON + 1];
    posix_spawn_file_actions_t files;
    posix_spawnattr_t attributes;
    (void)snprintf(limit, sizeof limit, "%" PRId64, cpu_ms);
    (void)posix_spawnattr_init(&attributes);
    block_signals(&attributes);
    pass_on(environment);
    int rc = posix_spawn_file_actions_init(&files);
    if (rc == 0)
        rc = posix_spawn_file_actions_adddup2(&files, fd, CHILD_FD);
    for (int i = 0; i < CHILD_FD && rc == 0; i++)
        rc = posix_spawn_file_actions_addopen(&files, i, "/dev/null", O_RDWR, 0);
    if (rc == 0)
        rc = posix_spawn_file_actions_addclosefrom_np(&files, CHILD_FD + 1);
    if (rc == 0)
        rc = posix_spawn(out, "/proc/self/exe", &files, &attributes, argv, environment);
    (void)posix_spawn_file_actions_destroy(&files);
    (void)posix_spawnattr_destroy(&attributes);
    return rc;
}

static int start(struct rp_jq_process *p, struct rp_error *err)
{
    struct rp_bytes nothing;
    int fds[2];
    const struct timeval patience = {.tv_sec = ANSWER_S};
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, fds) != 0)
        return rp_fail(err, RP_E_IO, RP_RETRIABLE, "no socket for jq: %s", strerror(errno));
    int rc = spawn(fds[1], p->cpu_ms, &p->pid);
    (void)close(fds[1]);
    if (rc != 0) {
        p->pid = 0;
        (void)close(fds[0]);
        return rp_fail(err, RP_E_IO, RP_RETRIABLE, "no process for jq: %s", strerror(rc));
    }
    p->fd = fds[0];
    (void)setsockopt(p->fd, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience);
    (void)setsockopt(p->fd, SOL_SOCKET, SO_SNDTIMEO, &patience, sizeof patience);
    p->begun = false;
    p->begun = ask(p, rp_str(p->program), &nothing, err) == 0;
    if (p->begun)
        return 0;
    int status;
    stop(p, &status);
    return -1;
}

int rp_jq_process_new(const char *program, int64_t cpu_ms, struct rp_jq_process **out,
                      struct rp_error *err)
{
    struct rp_jq_process *p = calloc(1, sizeof *p);
    *out = NULL;
    if (p == NULL || (p->program = strdup(program)) == NULL) {
        rp_jq_process_free(p);
        return rp_fail(err, RP_E_NOMEM, RP_RETRIABLE, "no memory for jq");
    }
    p->cpu_ms = cpu_ms;
    if (start(p, err) != 0) {
        rp_jq_process_free(p);
        return -1;
    }
    *out = p;
    return 0;
}

void rp_jq_process_free(struct rp_jq_process *p)
{
    int status;
    if (p == NULL)
        return;
    stop(p, &status);
    rp_buf_clear(&p->answer);
    free(p->program);
    free(p);
}

int rp_jq_process_run(struct rp_jq_process *p, struct rp_bytes json, struct rp_bytes *out,
                      struct rp_error *err)
{
    if (p->pid == 0 && start(p, err) != 0)
        return -1;
    int rc = ask(p, json, out, err);
    if (p->pid != 0 || (rc != 0 && err->cls == RP_POISON))
        p->kills = 0;
    return rc;
}
