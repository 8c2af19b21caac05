/* SPDX-License-Identifier: Apache-2.0 */
#include "signals.h"

#include <signal.h>
#include <stddef.h>

int signals_catch(int number, void (*handler)(int))
{
    const struct sigaction action = {.sa_handler = handler, .sa_flags = (int)SA_RESETHAND};
    struct sigaction old;
    if (sigaction(number, NULL, &old) != 0)
        return -1;
    return old.sa_handler == SIG_IGN ? 0 : sigaction(number, &action, NULL);
}
