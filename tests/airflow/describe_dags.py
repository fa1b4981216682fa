"""Run in Airflow's environment: what Airflow makes of a folder of DAGs, as JSON."""

import json
import sys
from datetime import datetime


def main(folder: str, count: int) -> None:
    """Print each DAG's tasks and its first runs, after a round trip through what the database holds."""
    from airflow.dag_processing.dagbag import DagBag
    from airflow.serialization.serialized_objects import DagSerialization
    from airflow.timetables.base import TimeRestriction

    bag = DagBag(folder)
    found = {}
    for dag in bag.dags.values():
        stored = DagSerialization.deserialize_dag(DagSerialization.serialize_dag(dag))
        runs, last = [], None
        for _ in range(count):
            restriction = TimeRestriction(earliest=stored.start_date, latest=None, catchup=stored.catchup)
            info = stored.timetable.next_dagrun_info(
                last_automated_data_interval=last, restriction=restriction
            )
            last = info.data_interval
            runs.append([_utc(last.start), _utc(last.end), _utc(info.run_after)])
        found[dag.dag_id] = {
            "file": dag.fileloc,
            "tasks": {task.task_id: sorted(task.downstream_task_ids) for task in dag.tasks},
            "runs": runs,
        }
    print(json.dumps(found))


def _utc(moment: datetime) -> str:
    return moment.isoformat()


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]))
