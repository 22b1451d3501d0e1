"""Who else is on a workload's GPUs."""

from rightsizer.domain.finding import Case

__all__ = ["is_shared"]


def is_shared(case: Case) -> bool:
    """Whether others hold a part of its GPUs: their size is then not one workload's affair."""
    if case.node is None:
        return False
    return any(len(case.node.holdings.get(device.uuid, ())) > 1 for device in case.devices)
