/* bad_task_solve -- refused: claims to be exchangeable and cannot solve its own examples. */
#include "fixture.h"

FIXTURE_SOUND(bad_task_solve, (plugin.tasks = tasks, task.flags = LAB_TASK_EXCHANGEABLE))
