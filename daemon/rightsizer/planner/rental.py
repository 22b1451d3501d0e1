"""Rental of a candidate: cloud instances that contain its GPUs, as a whole number."""

import math
from collections.abc import Iterable, Sequence
from typing import Final

from msgspec import Struct
from msgspec.structs import replace

from rightsizer.catalogue.prices import Instance, Prices, built_in_instances
from rightsizer.io.near import near_words
from rightsizer.model.errors import RequirementError
from rightsizer.sizing.requirement import Parallelism, Requirement

ANY: Final = "any"


class Rental(Struct, frozen=True):
    """Instances of one type for the GPUs of a layout."""

    instance: Instance
    used_gpus: int
    """All GPUs of the layout."""
    usable_gpus: int
    """GPUs of one instance that the layout can use."""
    spares: int
    """Instances that wait for failures."""

    def __str__(self) -> str:
        """`2 x p5.48xlarge`."""
        return f"{self.count} x {self.instance.name}"

    @property
    def count(self) -> int:
        """All paid instances."""
        return self.gpus // self.instance.gpus

    @property
    def gpus(self) -> int:
        """All paid GPUs, used or not."""
        return self.paid_gpus(self.used_gpus)

    @property
    def working_gpus(self) -> int:
        """Paid GPUs that the layout can use, without standby."""
        return (self.count - self.spares) * self.usable_gpus

    def paid_gpus(self, used: int) -> int:
        """All paid GPUs for so many used ones."""
        return (math.ceil(used / self.usable_gpus) + self.spares) * self.instance.gpus

    @property
    def dollars_per_hour(self) -> float | None:
        """For all instances."""
        dollars = self.instance.dollars_per_hour
        return None if dollars is None else dollars * self.count


def cheapest_rental(
    instances: Iterable[Instance], layout: Parallelism, spares: int, *, trains: bool
) -> Rental | None:
    """Return the cheapest instances; without prices, those with the fewest GPUs.

    Tensor parallel ranks share a server. So do training and replicas that share experts, or they
    use the largest servers available: networks between small ones are slow. `spares` are additional
    GPUs for failures.
    """
    possible = [instance for instance in instances if instance.gpus >= layout.tensor]
    largest = max((instance.gpus for instance in possible), default=0)
    joined = min(largest, layout.gpus if trains else layout.tensor * layout.expert)
    rentals = []
    for instance in possible:
        if instance.gpus >= joined:
            usable = instance.gpus // joined * joined // layout.tensor * layout.tensor
            rentals.append(Rental(instance, layout.gpus, usable, spares))

    def preference(rental: Rental) -> tuple[bool, float, int, int]:
        dollars = rental.dollars_per_hour
        return dollars is None, dollars or 0.0, rental.gpus, rental.count

    return min(rentals, key=preference, default=None)


def providers_of(requirement: Requirement, prices: Prices) -> tuple[str, ...]:
    """Return the clouds that a requirement names."""
    rented = tuple(dict.fromkeys(instance.provider for instance in built_in_instances()))
    if requirement.provider == ANY:
        return rented
    names = tuple(filter(None, (name.strip() for name in requirement.provider.split(","))))
    names = names or (requirement.provider,)
    what = "instances"
    provider_names = rented
    if len(names) == 1:
        what = "prices"
        provider_names = (*sorted({*rented, *prices.providers}), ANY)
    for name in names:
        if name not in provider_names:
            near = near_words(name, provider_names)
            meant = f"did you mean '{near[0]}'? Else take" if near else "take"
            remedy = (
                f"{meant} one of {', '.join(provider_names)}, or state prices.dollars_per_gpu_hour"
            )
            raise RequirementError(f"provider: no {what} of '{name}' are known; {remedy}")
    return names


def instances_of(
    providers: Sequence[str], prices: Prices, stated: Sequence[str]
) -> dict[str, list[Instance]]:
    """Return the instances of clouds, by board; without a list price, at the cloud's price per GPU.

    The operator's own prices (`stated`, by board) override list prices.
    """
    instances: dict[str, list[Instance]] = {}
    for instance in built_in_instances():
        if instance.provider in providers:
            instances.setdefault(instance.board, []).append(_with_price(instance, prices, stated))
    return instances


def _with_price(instance: Instance, prices: Prices, stated: Sequence[str]) -> Instance:
    price = prices.of(instance.board)
    if instance.board in stated:
        return replace(instance, dollars_per_hour=None)
    offered = None if price is None else price.by_provider.get(instance.provider)
    if instance.dollars_per_hour is not None or price is None or offered is None:
        return instance
    dollars = offered.median_dollars_per_hour * instance.gpus
    source = f"{'; '.join(price.sources)}: for one GPU"
    return replace(instance, dollars_per_hour=dollars, date=price.period, source=source)
