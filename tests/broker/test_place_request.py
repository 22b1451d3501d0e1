"""Requests from a command line or query; errors name the value and the remedy."""

import pytest

from rightsizer.broker.lease import GpuRequest, Interconnect
from rightsizer.broker.request import request_of
from rightsizer.model.errors import UsageError


def test_omitted_fields_have_defaults() -> None:
    """One whole GPU with exclusive use."""
    assert request_of({}) == GpuRequest()


def test_all_words_are_understood() -> None:
    """Sizes in any unit, profiles in any case."""
    words = {"gpus": "4", "memory": "30GiB", "share": "true", "interconnect": "nvlink"}
    wanted = GpuRequest(4, 30.0 * (1 << 30), may_share=True, interconnect=Interconnect.NVLINK)
    assert request_of(words) == wanted
    assert request_of({"mig": "1G.10GB"}) == GpuRequest(mig_profile="1g.10gb")
    assert request_of({"mig": "1c.3g.40gb+me"}).mig_profile == "1c.3g.40gb+me"


@pytest.mark.parametrize(
    ("words", "fault"),
    [
        ({"gpu": "1"}, "'gpu' is nothing to ask for; choose from gpus, memory, share, interc"),
        ({"gpus": "0"}, "gpus: '0' is no number from 1 to 1024"),
        ({"gpus": "-1"}, "gpus: '-1' is no number"),
        ({"gpus": "1e3"}, "gpus: '1e3' is no number"),
        ({"gpus": "9" * 400}, "gpus: '9999"),
        ({"gpus": "²"}, "gpus: '²' is no number"),
        ({"memory": "30"}, "memory: '30' is not a size; write it like '512MiB'"),
        ({"memory": "0GiB"}, "memory: '0GiB' is none at all"),
        ({"memory": "-1GiB"}, "memory: '-1GiB' is"),
        ({"share": "maybe"}, "share: 'maybe' is neither true nor false"),
        ({"interconnect": "ib"}, "interconnect: there is no 'ib'; choose from any, nvlink"),
        ({"mig": "big"}, "mig: 'big' is no MIG profile; write it like '1g.10gb'"),
        ({"mig": "1g.10gb", "gpus": "2", "interconnect": "nvlink"}, "NVLink joins no MIG inst"),
    ],
)
def test_invalid_field_is_refused_by_name(words: dict[str, str], fault: str) -> None:
    """With the valid values."""
    with pytest.raises(UsageError) as error:
        request_of(words)
    assert fault in str(error.value)
