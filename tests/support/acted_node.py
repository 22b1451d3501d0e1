"""A program: a controller with one action that never ends; its argument is a history."""

import sys
import time

from action_node import ActionNode, action
from readings import workload
from rightsizer.actions.repository import ActionRepository
from rightsizer.advice.storage import Storage


def main(path: str) -> None:
    """Run until killed."""
    node = ActionNode(ActionRepository(Storage(path).database), [workload("llama")])
    node.advise()
    node.controller(action(command=("sleep", "600"))).run()
    time.sleep(600.0)


if __name__ == "__main__":
    main(*sys.argv[1:])
