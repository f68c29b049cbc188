/* bad_task_init -- refused: a task that never fills its lab_task_info. */
#include "fixture.h"

FIXTURE_SOUND(bad_task_init, (plugin.tasks = tasks, task.init = NULL))
