"""Instance types of clouds: known boards, and prices with date and source."""

from rightsizer.catalogue.catalogue import built_in
from rightsizer.catalogue.prices import built_in_instances


def test_every_instance_has_gpus_of_the_catalogue() -> None:
    """One to eight of a board known to the planner."""
    boards = built_in().boards

    for instance in built_in_instances():
        assert instance.board in boards, instance
        assert instance.gpus in {1, 2, 4, 8}, instance


def test_a_price_has_its_date_and_its_source() -> None:
    """Without a source there is no price."""
    for instance in built_in_instances():
        if instance.dollars_per_hour is None:
            assert not instance.source, instance
        else:
            assert instance.dollars_per_hour > 0
            assert instance.date, instance
            assert instance.source, instance


def test_the_large_clouds_are_there() -> None:
    """Each with several types, named once."""
    names = [(instance.provider, instance.name) for instance in built_in_instances()]

    assert {provider for provider, _ in names} == {
        "aws",
        "gcp",
        "azure",
        "oci",
        "lambda",
        "coreweave",
    }
    assert len(names) == len(set(names))
