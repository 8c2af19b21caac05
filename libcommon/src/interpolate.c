/* SPDX-License-Identifier: Apache-2.0 */
#include "interpolate.h"

#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "reprise/bytes.h"

#define MAX_FILE (64 << 10)

/* `name` is cut where a default follows. */
static int put_env(char *name, struct rp_buf *out, struct rp_error *err)
{
    char *otherwise = strstr(name, ":-");
    if (otherwise != NULL)
        *otherwise = '\0';
    const char *value = getenv(name);
    if (value == NULL && otherwise != NULL)
        value = otherwise + 2;
    if (value == NULL)
        return rp_fail(err, RP_E_CONFIG, RP_FATAL,
                       "expected the environment variable %s, which is not set", name);
    return rp_buf_append(out, value, strlen(value), err);
}

/* Reads all of `fd` behind what is in `out`. */
static int put_fd(int fd, const char *path, struct rp_buf *out, struct rp_error *err)
{
    size_t start = out->len;
    for (;;) {
        if (rp_buf_reserve(out, 4096, err) != 0)
            return -1;
        ssize_t n = read(fd, out->data + out->len, 4096);
        if (n < 0 && errno != EINTR)
            return rp_fail(err, RP_E_IO, RP_FATAL, "cannot read %s: %s", path, strerror(errno));
        if (n == 0)
            break;
        out->len += n > 0 ? (size_t)n : 0;
        if (out->len - start > MAX_FILE)
            return rp_fail(err, RP_E_CONFIG, RP_FATAL, "expected %s to hold at most 64 KiB", path);
    }
    if (out->len > start && memchr(out->data + start, '\0', out->len - start) != NULL)
        return rp_fail(err, RP_E_CONFIG, RP_FATAL, "expected text in %s, found a NUL byte", path);
    if (out->len > start && out->data[out->len - 1] == '\n') {
        out->len--;
        if (out->len > start && out->data[out->len - 1] == '\r')
            out->len--;
    }
    return 0;
}

static int put_file(const char *path, struct rp_buf *out, struct rp_error *err)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
    if (fd < 0)
        return rp_fail(err, RP_E_IO, RP_FATAL, "cannot open %s: %s", path, strerror(errno));
    struct stat st;
    int rc = fstat(fd, &st) != 0 || !S_ISREG(st.st_mode)
                 ? rp_fail(err, RP_E_CONFIG, RP_FATAL, "expected a regular file at %s", path)
                 : put_fd(fd, path, out, err);
    (void)close(fd);
    return rc;
}

/* `what` is what stands between the braces. */
static int put(char *what, struct rp_buf *out, struct rp_error *err)
{
    if (strncmp(what, "env:", 4) == 0 && what[4] != '\0')
        return put_env(what + 4, out, err);
    if (strncmp(what, "file:", 5) == 0 && what[5] != '\0')
        return put_file(what + 5, out, err);
    return rp_fail(err, RP_E_CONFIG, RP_FATAL,
                   "expected ${env:NAME} or ${file:PATH} ($${ for a plain ${), found ${%s}", what);
}

/* Takes what begins at `open`, which is a "${"; returns what follows its brace. */
static const char *put_reference(const char *open, struct rp_buf *out, struct rp_error *err)
{
    const char *close = strchr(open, '}');
    if (close == NULL) {
        (void)rp_fail(err, RP_E_CONFIG, RP_FATAL, "expected a } after ${ ($${ for a plain ${)");
        return NULL;
    }
    char *what = strndup(open + 2, (size_t)(close - open - 2));
    if (what == NULL) {
        (void)rp_fail(err, RP_E_NOMEM, RP_FATAL, "no memory");
        return NULL;
    }
    int rc = put(what, out, err);
    free(what);
    return rc == 0 ? close + 1 : NULL;
}

static int expand(const char *text, struct rp_buf *out, struct rp_error *err)
{
    for (;;) {
        const char *dollar = strstr(text, "${");
        size_t plain = dollar == NULL ? strlen(text) : (size_t)(dollar - text);
        bool escaped = dollar != NULL && plain > 0 && dollar[-1] == '$';
        if (rp_buf_append(out, text, plain - escaped, err) != 0)
            return -1;
        if (dollar == NULL)
            return rp_buf_append(out, "", 1, err);
        if (escaped) {
            if (rp_buf_append(out, "${", 2, err) != 0)
                return -1;
            text = dollar + 2;
        } else if ((text = put_reference(dollar, out, err)) == NULL) {
            return -1;
        }
    }
}

char *rp_interpolate(const char *text, struct rp_error *err)
{
    struct rp_buf out = {0};
    if (expand(text, &out, err) != 0) {
        rp_buf_clear(&out);
        return NULL;
    }
    return (char *)out.data;
}
