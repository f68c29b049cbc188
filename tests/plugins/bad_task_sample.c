/* bad_task_sample -- refused: a task that makes no examples. */
#include "fixture.h"

FIXTURE_SOUND(bad_task_sample, (plugin.tasks = tasks, task.sample = NULL))
