/* bad_task_size -- refused: its struct lab_task is smaller than the host's. */
#include "fixture.h"

FIXTURE_SOUND(bad_task_size, (plugin.tasks = tasks, task.size -= 8))
