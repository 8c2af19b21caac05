/* SPDX-License-Identifier: Apache-2.0 */
#include "editor.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

static int failed(struct rp_error *err, const char *path)
{
    return rp_fail(err, RP_E_IO, RP_FATAL, "%s: %s", path, strerror(errno));
}

int editor_write(struct rp_bytes text, char path[EDITOR_PATH], struct rp_error *err)
{
    const char *folder = getenv("TMPDIR");
    int fd = -1;
    if (folder == NULL || folder[0] == '\0')
        folder = "/tmp";
    if (snprintf(path, EDITOR_PATH, "%s/reprise-edit-XXXXXX.json", folder) >= EDITOR_PATH)
        errno = ENAMETOOLONG;
    else
        fd = mkostemps(path, (int)strlen(".json"), 0);
    FILE *out = fd < 0 ? NULL : fdopen(fd, "w");
    bool good =
        out != NULL && fwrite(text.data, 1, text.len, out) == text.len && fputc('\n', out) != EOF;
    if (out != NULL && fclose(out) == 0 && good)
        return 0;
    (void)failed(err, path);
    if (fd >= 0)
        (void)unlink(path);
    path[0] = '\0';
    return -1;
}

/* The shell splits what is in the variable, as for other programs. */
static void exec_editor(const char *path)
{
    const char *editor = getenv("VISUAL");
    char command[EDITOR_PATH];
    if (editor == NULL || editor[0] == '\0')
        editor = getenv("EDITOR");
    if (editor == NULL || editor[0] == '\0')
        editor = "vi";
    (void)snprintf(command, sizeof command, "%s \"$1\"", editor);
    (void)execl("/bin/sh", "sh", "-c", command, "sh", path, (char *)NULL);
    _exit(127);
}

/* A Ctrl-C is the editor's meanwhile. */
int editor_open(const char *path, struct rp_error *err)
{
    struct sigaction ignore = {.sa_handler = SIG_IGN}, interrupt, quit;
    int status = -1;
    (void)fflush(NULL);
    (void)sigaction(SIGINT, &ignore, &interrupt);
    (void)sigaction(SIGQUIT, &ignore, &quit);
    pid_t pid = fork();
    if (pid == 0) {
        (void)signal(SIGINT, SIG_DFL);
        (void)signal(SIGQUIT, SIG_DFL);
        exec_editor(path);
    }
    while (pid > 0 && waitpid(pid, &status, 0) < 0 && errno == EINTR)
        ;
    (void)sigaction(SIGINT, &interrupt, NULL);
    (void)sigaction(SIGQUIT, &quit, NULL);
    if (pid > 0 && WIFEXITED(status) && WEXITSTATUS(status) == 0)
        return 0;
    return rp_fail(err, RP_E_IO, RP_FATAL, "the editor did not end well; see $VISUAL and $EDITOR");
}

int editor_read(const char *path, struct rp_buf *out, struct rp_error *err)
{
    FILE *in = strcmp(path, "-") == 0 ? stdin : fopen(path, "re");
    char room[65536];
    size_t n = 0;
    int rc = 0;
    if (in == NULL)
        return failed(err, path);
    while (rc == 0 && (n = fread(room, 1, sizeof room, in)) > 0)
        rc = rp_buf_append(out, room, n, err);
    if (rc == 0 && ferror(in))
        rc = failed(err, path);
    if (in != stdin)
        (void)fclose(in);
    return rc;
}
