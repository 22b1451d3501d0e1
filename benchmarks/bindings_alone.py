"""A program that loads an agent's modules without a simulator, and prints its memory."""

import json

import pynvml
from process import memory_mebibytes

import rightsizer.agent.service  # noqa: F401 - an agent has loaded it.
from rightsizer.catalogue.catalogue import built_in
from rightsizer.telemetry.nvml.library import use_library

if __name__ == "__main__":
    use_library(None)
    loaded = (built_in(), pynvml.__name__)
    print(json.dumps({"mebibytes": memory_mebibytes()}))
